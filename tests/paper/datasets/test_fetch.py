"""Downloads from a server on this machine that behaves as servers do, well and badly."""

import gzip
import hashlib
import io
import os
import tarfile
import threading
import zipfile
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pooch
import pytest

from bjmd.errors import InputError
from bjmd_paper.datasets import catalogue, fetch
from bjmd_paper.datasets.catalogue import Dataset, Member

CONTENT = {"small.txt": b"one two three\n" * 20, "large.txt": bytes(range(256)) * 2000}
"""The files of a made-up data set."""


def made_up(*addresses, **changes):
    """The description of that data set."""
    fields = dict(
        name="made-up",
        title="Made-up data",
        version="1",
        page="http://example.org/made-up",
        terms="none",
        citation="none",
        megabytes=1,
        n_classes=2,
        folder="made-up",
        archive="made-up.zip",
        addresses=addresses,
        module="bjmd_paper.datasets.real.made_up",
        members=[
            Member([name], [hashlib.sha256(text).hexdigest()]) for name, text in CONTENT.items()
        ],
    )
    return Dataset(**fields | changes)


def zipped(content, prefix="top/"):
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, data in content.items():
            archive.writestr(prefix + name, data)
    return buffer.getvalue()


def tarred(content, *special, prefix="top/"):
    """The bytes of a .tar.gz of files, and of entries that are none."""
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w:gz") as archive:
        for name, text in content.items():
            info = tarfile.TarInfo(prefix + name)
            info.size = len(text)
            archive.addfile(info, io.BytesIO(text))
        for info in special:
            archive.addfile(info)
    return buffer.getvalue()


class Server(ThreadingHTTPServer):
    """Plays one behaviour a request, the last one for ever, and counts the requests."""

    daemon_threads = True

    def __init__(self):
        super().__init__(("127.0.0.1", 0), Handler)
        self.files = {f"/{name}": text for name, text in CONTENT.items()}
        self.files["/made-up.zip"] = zipped(CONTENT)
        self.plays = ["ok"]
        self.n_requests = 0
        self.closing = threading.Event()

    @property
    def folder(self):
        return f"http://127.0.0.1:{self.server_port}"

    @property
    def address(self):
        return f"{self.folder}/made-up.zip"


class Handler(BaseHTTPRequestHandler):
    def do_GET(self):
        server = self.server
        self.close_connection = True
        server.n_requests += 1
        play = server.plays.pop(0) if len(server.plays) > 1 else server.plays[0]
        if play == "nothing":
            server.closing.wait(10)
            return
        content = server.files[self.path.partition("?")[0]]
        if play in ("404", "wrong"):
            content = b"<html>Please accept our terms</html>"
        self.send_response(404 if play == "404" else 200)
        self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        self.wfile.write(content[: len(content) // 2] if play == "cut" else content)

    def log_message(self, *_):
        pass


@pytest.fixture
def server():
    with Server() as server:
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        yield server
        server.closing.set()
        server.shutdown()
        thread.join()


@pytest.fixture(autouse=True)
def quick(monkeypatch):
    """No long pauses, no proxy, no mirror unless a test names one."""
    monkeypatch.setattr(pooch.core.time, "sleep", lambda seconds: None)
    monkeypatch.setattr(fetch, "TIMEOUT", 0.4)
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")
    monkeypatch.delenv("BJMD_DATA", raising=False)


@pytest.fixture
def get(monkeypatch, server, tmp_path):
    """Get the made-up data set while the server plays the given behaviours; return its files."""

    def run(*plays, dataset=None, **where):
        server.plays = list(plays) or ["404"]
        dataset = dataset or made_up(server.address)
        monkeypatch.setattr(catalogue, "get", lambda name: dataset)
        folder, table = fetch.files("made-up", cache=tmp_path / "cache", **where)
        return {name: (folder / name).read_bytes() for name in table["file"]}

    return run


@pytest.fixture
def mirror(tmp_path):
    """A function that puts files into the folder of the data set in a mirror."""

    def fill(content):
        folder = tmp_path / "mirror/made-up"
        folder.mkdir(parents=True, exist_ok=True)
        for name, text in content.items():
            (folder / name).parent.mkdir(exist_ok=True)
            (folder / name).write_bytes(text)
        return tmp_path / "mirror"

    return fill


def left_in(folder):
    return sorted(path.name for path in folder.rglob("*") if path.is_file())


@pytest.mark.parametrize(
    "plays", [("ok",), ("nothing", "ok"), ("cut", "cut", "ok")], ids=" then ".join
)
def test_success_in_the_end(get, server, tmp_path, plays):
    assert get(*plays) == CONTENT
    assert left_in(tmp_path) == ["large.txt", "made-up.zip", "small.txt"]
    archive = tmp_path / "cache/made-up/made-up.zip"
    assert archive.read_bytes() == server.files["/made-up.zip"]
    assert archive.stat().st_mode & 0o444 == 0o444, "others may use the cache as a mirror"
    n_requests = server.n_requests
    assert get("404") == CONTENT and server.n_requests == n_requests, "from the cache"


@pytest.mark.parametrize("archive", ["made-up.zip", ""])
@pytest.mark.parametrize(
    ("play", "words"),
    [
        ("wrong", r"not a complete .zip or .tar.gz archive|small.txt in .* is not a known version"),
        ("cut", "no connection"),
        ("404", "404 Client Error: Not Found"),
        ("nothing", "no answer in time"),
    ],
)
def test_failure_says_what_to_do_and_leaves_nothing(get, server, tmp_path, play, words, archive):
    address = server.address if archive else server.folder
    with pytest.raises(InputError, match=words) as caught:
        get(play, dataset=made_up(address, archive=archive))
    message = str(caught.value)
    for part in ("by hand", address, "http://example.org", archive or "small.txt and large.txt"):
        assert part in message
    assert str(tmp_path / "cache/made-up") in message and "\n" not in message
    assert left_in(tmp_path) == []


@pytest.mark.parametrize("first", ["404", "wrong"])
def test_second_address_when_the_first_fails(get, server, monkeypatch, first):
    monkeypatch.setattr(fetch, "RETRIES", 0)
    assert get(first, "ok", dataset=made_up(server.address, f"{server.address}?second")) == CONTENT


def test_files_without_an_archive_are_downloaded_one_by_one(get, server):
    one_by_one = made_up(server.folder, archive="")
    assert get("ok", dataset=one_by_one) == CONTENT
    assert server.n_requests == len(CONTENT)
    assert get("404", dataset=one_by_one) == CONTENT, "from the cache"


def test_a_killed_run_leaves_nothing_that_counts(get, tmp_path, monkeypatch):
    """An archive is unpacked in the cache, and a file gets its name when it is complete."""

    def copy_half(source, target):
        target.write(source.read(10))
        raise KeyboardInterrupt

    with monkeypatch.context() as patch, pytest.raises(KeyboardInterrupt):
        patch.setattr(fetch.shutil, "copyfileobj", copy_half)
        get("ok")
    assert not set(left_in(tmp_path)) & set(CONTENT)
    assert get("404") == CONTENT
    assert left_in(tmp_path) == ["large.txt", "made-up.zip", "small.txt"]


def test_mirror_comes_first_and_is_verified(get, server, mirror, monkeypatch, tmp_path):
    where = mirror({"made-up.zip": server.files["/made-up.zip"]})
    assert get(mirror=where) == CONTENT
    assert left_in(where) == ["made-up.zip"], "nothing is written into a mirror"
    monkeypatch.setenv("BJMD_DATA", str(where))
    mirror({"made-up.zip": b"other"})
    with pytest.raises(InputError, match=r"mirror/made-up/made-up\.zip"):
        get("ok")
    assert server.n_requests == 0
    with pytest.raises(InputError, match="not a folder"):
        get(mirror=tmp_path / "nowhere")


@pytest.mark.parametrize("folder", ["", "made-up/"], ids=["the files", "the archive, unpacked"])
def test_a_mirror_may_hold_the_files_themselves(get, mirror, folder):
    where = mirror({folder + name: text for name, text in CONTENT.items()})
    assert get(mirror=where) == CONTENT
    mirror({f"{folder}small.txt": b"other"})
    with pytest.raises(InputError, match=r"not a known version .* list made-up under `unver"):
        get(mirror=where)


def test_what_to_download_by_hand_and_where_to_put_it(get, mirror, tmp_path):
    """Several names will do, and one of two files is not enough."""
    members = [Member(["new.txt", "old.txt"], [""]), Member(["large.txt"], [""])]
    where = mirror({"old.txt": b""})
    with pytest.raises(InputError) as caught:
        get(dataset=made_up(members=members, archive=""), mirror=where)
    assert str(caught.value) == (
        f"made-up cannot be downloaded automatically, and only old.txt is in {where}/made-up or "
        f"{tmp_path}/cache/made-up; download new.txt (or old.txt) and large.txt by hand from "
        f"http://example.org/made-up and put them into {where}/made-up"
    )


def test_another_version_on_request(get, mirror, caplog):
    other = {"small.txt": b"a new release", "large.txt": CONTENT["large.txt"]}
    where = mirror(other)
    assert get(mirror=where, unverified=True) == other
    assert "small.txt" in caplog.text
    _, table = fetch.files("made-up", mirror=where, unverified=True)
    assert table.set_index("file")["known"].to_dict() == {"small.txt": False, "large.txt": True}
    assert table["sha256"][0] == hashlib.sha256(b"a new release").hexdigest()


@pytest.mark.parametrize("unverified", [False, True])
def test_a_pointer_of_git_lfs_is_named(get, mirror, unverified):
    pointer = b"version https://git-lfs.github.com/spec/v1\noid sha256:4470\nsize 689254853\n"
    where = mirror(CONTENT | {"small.txt": pointer})
    with pytest.raises(InputError, match=r"small\.txt .* is a pointer of Git LFS"):
        get(mirror=where, unverified=unverified)


def test_why_a_data_set_cannot_be_used_is_remembered_until_a_file_changes(
    mirror, monkeypatch, tmp_path
):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(catalogue, "get", lambda name: made_up())
    where = {"mirror": mirror({}), "cache": tmp_path / "cache"}
    assert fetch.refusal("made-up", **where) == "its files were not found"
    mirror(CONTENT | {"small.txt": b"other"})
    assert "not a known version" in fetch.refusal("made-up", **where)
    assert fetch.refusal("made-up", unverified=True, **where) is None
    mirror(CONTENT)
    assert fetch.refusal("made-up", **where) is None
    before = (tmp_path / "mirror/made-up/small.txt").stat()
    mirror({"small.txt": CONTENT["small.txt"].swapcase()})
    os.utime(tmp_path / "mirror/made-up/small.txt", ns=(0, before.st_mtime_ns))
    assert fetch.refusal("made-up", **where) is None, "the hash was not computed again"


def test_every_entry_of_the_catalogue_is_complete():
    for name in catalogue.names():
        dataset = catalogue.get(name)
        assert dataset.terms and dataset.citation and dataset.page.startswith("http")
        assert dataset.addresses or not dataset.archive
        for member in dataset.members:
            assert member.names and member.sha256
            assert all(len(digest) == 64 for digest in member.sha256)
    with pytest.raises(InputError, match="did you mean 'yale-b'"):
        catalogue.get("yaleb")


# Archives


@pytest.fixture
def unpacked(get, mirror, tmp_path):
    """Put the bytes of an archive into the mirror and return what comes out of it."""

    def run(archive, **changes):
        where = mirror({"made-up.zip": archive})
        try:
            return get(dataset=made_up(**changes), mirror=where)
        finally:
            listed = {"made-up.zip", "a.txt", *CONTENT}
            assert set(left_in(tmp_path)) <= listed, "nothing was written anywhere else"

    return run


@pytest.mark.parametrize("pack", [zipped, tarred])
@pytest.mark.parametrize("path", ["other.txt", "top/../../x", "/tmp/bjmd-x/y.txt"])
def test_only_listed_files_come_out_of_an_archive(unpacked, pack, path):
    assert unpacked(pack(CONTENT | {path: b"not wanted"}, prefix="")) == CONTENT
    assert not Path("/tmp/bjmd-x").exists()


@pytest.mark.parametrize("pack", [zipped, tarred])
def test_unknown_content_is_never_written(unpacked, pack, tmp_path):
    """Nor a second file that would take the place of a listed one."""
    zeros = {"small.txt": bytes(50_000_000), "large.txt": CONTENT["large.txt"]}
    for content in (zeros, CONTENT | {"../large.txt": b"x"}):
        with pytest.raises(InputError, match="not a known version"):
            unpacked(pack(content, prefix=""))
    assert left_in(tmp_path) == ["made-up.zip"]


def test_links_are_not_unpacked(unpacked):
    link = tarfile.TarInfo("top/small.txt")
    link.type = tarfile.SYMTYPE
    link.linkname = "/etc/hostname"
    with pytest.raises(InputError, match=r"does not hold small\.txt"):
        unpacked(tarred({"large.txt": CONTENT["large.txt"]}, link))


def test_changed_missing_and_damaged_files(unpacked):
    damaged = bytearray(zipped(CONTENT))
    damaged[len(damaged) // 2] ^= 1
    cut_off = [whole[: len(whole) // 2] for whole in (zipped(CONTENT), tarred(CONTENT))]
    for archive, words in (
        *((half, r"not a complete \.zip or \.tar\.gz") for half in (b"", *cut_off)),
        (zipped({"small.txt": CONTENT["small.txt"]}), r"does not hold large\.txt"),
        (damaged, "not a complete"),
        (gzip.compress(b"<html>Not Found</html>"), "not a complete"),
    ):
        with pytest.raises(InputError, match=words):
            unpacked(archive)


def test_many_files_known_by_their_list(unpacked):
    digests = {name: hashlib.sha256(CONTENT[name]).hexdigest() for name in sorted(CONTENT)}
    listing = "".join(f"{digest}  {name}\n" for name, digest in digests.items())
    members = [Member(["*.txt"], [hashlib.sha256(listing.encode()).hexdigest()], number=2)]
    assert unpacked(zipped(CONTENT), members=members) == CONTENT
    for changed in (
        {"small.txt": CONTENT["small.txt"]},
        CONTENT | {"more.txt": b""},
        CONTENT | {"small.txt": b""},
    ):
        with pytest.raises(InputError, match="they are not the 2 known ones"):
            unpacked(zipped(changed), members=members)


def test_a_file_known_by_its_git_blob(get, mirror):
    # what `echo hello | git hash-object --stdin` prints
    member = Member(["a.txt"], [], git_blob="ce013625030ba8dba906f756967f9e9ca394464a")
    where = mirror({"a.txt": b"hello\n"})
    assert get(dataset=made_up(members=[member]), mirror=where) == {"a.txt": b"hello\n"}
