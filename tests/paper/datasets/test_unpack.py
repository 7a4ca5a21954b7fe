import gzip
import hashlib
import io
import stat
import tarfile
import zipfile

import pytest

from bjmd.errors import InputError
from bjmd_paper.datasets import unpack
from bjmd_paper.datasets.catalogue import Member


def write_tar(path, content, *special):
    """A .tar.gz of files, and of entries that are none."""
    with tarfile.open(path, "w:gz") as archive:
        for name, text in content.items():
            info = tarfile.TarInfo(name)
            info.size = len(text)
            archive.addfile(info, io.BytesIO(text))
        for info in special:
            archive.addfile(info)
    return path


@pytest.fixture
def refused(tmp_path, made_up):
    """A function that asserts: the archive is refused by one sentence with these words, and nothing
    is left.
    """

    def check(archive, *words, dataset=None):
        dataset = dataset or made_up()
        before = sorted(tmp_path.rglob("*"))
        with pytest.raises(InputError) as caught:
            unpack.extract(archive, dataset, tmp_path / "out")
        for word in (archive.name, *words):
            assert word in str(caught.value)
        assert "\n" not in str(caught.value)
        assert sorted(tmp_path.rglob("*")) == before
        with pytest.raises(InputError):
            unpack.verify(archive, dataset)

    return check


def test_zip_tar_and_folder_give_the_same_files(tmp_path, made_up, content, zipped):
    more = content | {"other.txt": b"not wanted"}
    (tmp_path / "a.zip").write_bytes(zipped(more))
    write_tar(tmp_path / "a.tar.gz", {f"top/{name}": text for name, text in more.items()})
    (tmp_path / "a").mkdir()
    for name, text in more.items():
        (tmp_path / "a" / name).write_bytes(text)
    for archive in ("a.zip", "a.tar.gz", "a"):
        out = tmp_path / f"from {archive}"
        unpack.verify(tmp_path / archive, made_up())
        unpack.extract(tmp_path / archive, made_up(), out)
        assert {path.name: path.read_bytes() for path in out.iterdir()} == content


def test_archive_of_known_sha256_needs_no_look_inside(tmp_path, made_up):
    archive = tmp_path / "a.zip"
    archive.write_bytes(b"any bytes")
    unpack.verify(archive, made_up(sha256=(hashlib.sha256(b"any bytes").hexdigest(),)))


@pytest.mark.parametrize("path", ["../large.txt", "top/../../x", "/tmp/x", "top\\..\\x", "C:/x"])
def test_path_that_leaves_the_folder(tmp_path, refused, content, zipped, path):
    (tmp_path / "a.zip").write_bytes(zipped(content | {path: b"x"}, prefix=""))
    refused(tmp_path / "a.zip", "leaves its folder")
    refused(write_tar(tmp_path / "a.tar.gz", content | {path: b"x"}), "leaves its folder")


@pytest.mark.parametrize(
    "kind", [tarfile.SYMTYPE, tarfile.LNKTYPE, tarfile.CHRTYPE, tarfile.FIFOTYPE]
)
def test_link_or_device_in_tar(tmp_path, refused, content, kind):
    link = tarfile.TarInfo("top/link")
    link.type = kind
    link.linkname = "/etc/hostname"
    refused(write_tar(tmp_path / "a.tar.gz", content, link), "link")


def test_link_in_zip(tmp_path, refused, content, zipped):
    archive = tmp_path / "a.zip"
    archive.write_bytes(zipped(content))
    link = zipfile.ZipInfo("top/link")
    link.external_attr = (stat.S_IFLNK | 0o777) << 16
    with zipfile.ZipFile(archive, "a") as file:
        file.writestr(link, "/etc/hostname")
    refused(archive, "link")


def test_bomb(tmp_path, refused):
    zeros = bytes(50_000_000)
    with zipfile.ZipFile(tmp_path / "a.zip", "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("small.txt", zeros)
    refused(tmp_path / "a.zip", "50000000 bytes", "small.txt")
    refused(write_tar(tmp_path / "a.tar.gz", {"small.txt": zeros}), "50000000 bytes", "small.txt")
    # the same with a size in the directory that is a lie
    lie = (
        (tmp_path / "a.zip")
        .read_bytes()
        .replace((50_000_000).to_bytes(4, "little"), (100).to_bytes(4, "little"))
    )
    (tmp_path / "a.zip").write_bytes(lie)
    refused(tmp_path / "a.zip")


def test_bomb_in_a_file_that_is_not_wanted(tmp_path, refused):
    zeros = tarfile.TarInfo("top/zeros")
    zeros.size = 2**40
    with gzip.open(tmp_path / "a.tar.gz", "wb") as file:
        file.write(zeros.tobuf() + bytes(100_000))
    refused(tmp_path / "a.tar.gz", "unpacks to more than")


@pytest.mark.parametrize("keep", [0, 0.1, 0.5, 0.99])
def test_cut_off(tmp_path, refused, content, zipped, keep):
    (tmp_path / "a.zip").write_bytes(zipped(content))
    write_tar(tmp_path / "a.tar.gz", content)
    for archive in (tmp_path / "a.zip", tmp_path / "a.tar.gz"):
        whole = archive.read_bytes()
        archive.write_bytes(whole[: int(keep * len(whole))])
        refused(archive, "complete")


def test_changed_missing_double_damaged_and_foreign(tmp_path, refused, content, zipped):
    damaged = bytearray(zipped(content))
    damaged[len(damaged) // 2] ^= 1
    archive = tmp_path / "a.zip"
    for packed, words in (
        (zipped(content | {"small.txt": b"other"}), "not a known version"),
        (zipped({"small.txt": content["small.txt"]}), "does not hold large.txt"),
        (zipped(content | {"again/small.txt": content["small.txt"]}), "small.txt twice"),
        (damaged, "complete"),
        (b"<html>Not Found</html>", "complete"),
    ):
        archive.write_bytes(packed)
        refused(archive, words)


def test_many_files_known_by_their_list(tmp_path, made_up, refused, content, zipped):
    listing = "".join(
        f"{hashlib.sha256(content[name]).hexdigest()}  {name}\n" for name in sorted(content)
    )
    member = Member(("*.txt",), 600_000, list_sha256=hashlib.sha256(listing.encode()).hexdigest())
    dataset = made_up(members=(member,))
    archive = tmp_path / "a.zip"
    archive.write_bytes(zipped(content))
    unpack.verify(archive, dataset)
    for changed in (
        {"small.txt": content["small.txt"]},
        content | {"more.txt": b""},
        content | {"small.txt": b""},
    ):
        archive.write_bytes(zipped(changed))
        refused(archive, "missing or differ", dataset=dataset)


def test_file_known_by_its_git_blob(tmp_path, made_up, zipped):
    archive = tmp_path / "a.zip"
    archive.write_bytes(zipped({"a.txt": b"hello\n"}))
    # what `echo hello | git hash-object --stdin` prints
    member = Member(("a.txt",), 6, git_blob=("ce013625030ba8dba906f756967f9e9ca394464a",))
    unpack.verify(archive, made_up(members=(member,)))


def test_full_folder_is_left_alone(tmp_path, made_up, content, zipped):
    archive = tmp_path / "a.zip"
    archive.write_bytes(zipped(content))
    (tmp_path / "out").mkdir()
    unpack.extract(archive, made_up(), tmp_path / "out")
    with pytest.raises(InputError, match="not empty"):
        unpack.extract(archive, made_up(), tmp_path / "out")
    with pytest.raises(InputError, match="does not exist"):
        unpack.extract(tmp_path / "none.zip", made_up(), tmp_path / "new")
