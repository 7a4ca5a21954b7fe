"""Downloads from a server on this machine that behaves as servers do, well and badly."""

import gzip
import hashlib
import io
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


class Server(ThreadingHTTPServer):
    """Plays one behaviour a request, the last one for ever, and counts the requests."""

    daemon_threads = True

    def __init__(self, content):
        super().__init__(("127.0.0.1", 0), Handler)
        self.content = content
        self.plays = ["ok"]
        self.n_requests = 0
        self.closing = threading.Event()

    @property
    def address(self):
        return f"http://127.0.0.1:{self.server_port}/made-up.zip"


class Handler(BaseHTTPRequestHandler):
    def do_GET(self):
        server = self.server
        self.close_connection = True
        server.n_requests += 1
        play = server.plays.pop(0) if len(server.plays) > 1 else server.plays[0]
        getattr(self, f"play_{play}")(server.content)

    def play_ok(self, content):
        self.answer(200, content)

    def play_file(self, content):
        self.answer(200, self.server.files[self.path])

    def play_cut(self, content):
        self.begin(200, len(content))
        self.wfile.write(content[: len(content) // 2])

    def play_wrong(self, content):
        self.answer(200, b"<html>Please accept our terms</html>")

    def play_404(self, content):
        self.answer(404, b"<html>no</html>")

    def play_nothing(self, content):
        self.server.closing.wait(10)

    def answer(self, status, content):
        self.begin(status, len(content))
        self.wfile.write(content)

    def begin(self, status, length):
        self.send_response(status)
        self.send_header("Content-Length", str(length))
        self.end_headers()

    def log_message(self, *_):
        pass


@pytest.fixture
def server(zipped, content):
    with Server(zipped(content)) as server:
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


def read_files(self, folder):
    return {path.name: path.read_bytes() for path in Path(folder).iterdir()}


@pytest.fixture
def get(monkeypatch, made_up, server, tmp_path):
    """Fetch the made-up data set while the server plays the given behaviours; return its files."""
    monkeypatch.setattr(Dataset, "read", read_files)

    def run(*plays, addresses=None, dataset=None, **arguments):
        server.plays = list(plays) or ["404"]
        dataset = dataset or made_up(*(addresses or [server.address]))
        monkeypatch.setattr(catalogue, "get", lambda name: dataset)
        return fetch.fetch_and_read("made-up", tmp_path, cache=tmp_path / "cache", **arguments)

    return run


def left_in(folder):
    return sorted(path.name for path in folder.rglob("*") if path.is_file())


@pytest.mark.parametrize(
    "plays", [("ok",), ("nothing", "ok"), ("cut", "cut", "ok")], ids=" then ".join
)
def test_success_in_the_end(get, server, content, tmp_path, plays):
    assert get(*plays) == content
    assert left_in(tmp_path) == ["made-up.zip"]
    archive = tmp_path / "cache/made-up/made-up.zip"
    assert archive.read_bytes() == server.content
    assert archive.stat().st_mode & 0o444 == 0o444
    n_requests = server.n_requests
    assert get("404") == content and server.n_requests == n_requests, "from the cache"


@pytest.mark.parametrize(
    ("play", "words"),
    [
        ("wrong", "not a complete .zip or .tar.gz archive"),
        ("cut", "no connection"),
        ("404", "404 Client Error: Not Found)"),
        ("nothing", "no answer"),
    ],
)
def test_failure_says_what_to_do_and_leaves_nothing(get, server, tmp_path, play, words):
    with pytest.raises(InputError) as caught:
        get(play)
    message = str(caught.value)
    for part in (words, "by hand", server.address, str(tmp_path / "cache/made-up"), "made-up.zip"):
        assert part in message
    assert "\n" not in message
    assert left_in(tmp_path) == []


@pytest.mark.parametrize("first", ["404", "wrong"])
def test_second_address_when_the_first_fails(get, server, content, monkeypatch, first):
    monkeypatch.setattr(fetch, "RETRIES", 0)
    assert get(first, "ok", addresses=[server.address, f"{server.address}?second"]) == content


def test_damaged_cache_is_replaced(get, content, caplog, tmp_path):
    get("ok")
    (tmp_path / "cache/made-up/made-up.zip").write_bytes(b"damaged")
    assert get("ok") == content
    assert "downloaded again" in caplog.text


def test_what_a_killed_run_unpacked_is_removed(get, content, tmp_path):
    half = tmp_path / ".unpacked-made-up"
    half.mkdir()
    (half / "small.txt").write_bytes(b"half")
    assert get("ok") == content
    assert not half.exists()


def test_mirror_comes_first_and_is_verified(get, server, content, tmp_path, monkeypatch):
    mirror = tmp_path / "mirror"
    (mirror / "made-up").mkdir(parents=True)
    (mirror / "made-up.zip").write_bytes(server.content)
    assert get(mirror=mirror) == content
    monkeypatch.setenv("BJMD_DATA", str(mirror))
    (mirror / "made-up.zip").rename(mirror / "made-up/made-up.zip")
    assert get() == content
    (mirror / "made-up/made-up.zip").write_bytes(b"other")
    with pytest.raises(InputError, match=r"mirror/made-up/made-up\.zip"):
        get("ok")
    assert server.n_requests == 0
    with pytest.raises(InputError, match="not a folder"):
        get(mirror=tmp_path / "nowhere")


def test_mirror_may_hold_the_files_themselves(get, content, tmp_path):
    folder = tmp_path / "mirror/made-up"
    folder.mkdir(parents=True)
    for name, text in content.items():
        (folder / name).write_bytes(text)
    assert get(mirror=tmp_path / "mirror") == content
    (folder / "small.txt").write_bytes(b"other")
    with pytest.raises(InputError, match=r"small\.txt .* is not a known version"):
        get(mirror=tmp_path / "mirror")


@pytest.fixture
def one_by_one(made_up, server, content):
    """A data set whose files are downloaded one by one."""
    folder = server.address.removesuffix("/made-up.zip")
    server.files = {f"/{name}": text for name, text in content.items()}
    return made_up(folder, archive="")


def test_files_without_an_archive_are_downloaded_one_by_one(
    get, one_by_one, server, content, caplog, tmp_path
):
    assert get("file", dataset=one_by_one) == content
    assert server.n_requests == len(content)
    assert get("404", dataset=one_by_one) == content, "from the cache"
    (tmp_path / "cache/made-up/small.txt").write_bytes(b"damaged")
    assert get("file", dataset=one_by_one) == content
    assert "downloaded again" in caplog.text


@pytest.mark.parametrize(("play", "words"), [("wrong", "not a known version"), ("404", "404")])
def test_a_file_without_an_archive_that_cannot_be_downloaded(
    get, one_by_one, tmp_path, play, words
):
    with pytest.raises(InputError, match=words) as caught:
        get(play, dataset=one_by_one)
    assert "small.txt, large.txt could not be downloaded" in str(caught.value)
    assert left_in(tmp_path) == []


def test_data_set_that_only_a_person_can_download(get, made_up):
    with pytest.raises(
        InputError, match=r"small\.txt by hand from http://example.org/made-up and put it into"
    ):
        get(dataset=made_up(archive=""))


def test_every_entry_of_the_catalogue_is_complete():
    for name in catalogue.names():
        dataset = catalogue.get(name)
        assert dataset.terms and dataset.citation and dataset.page.startswith("http")
        assert dataset.addresses or not dataset.archive
        for member in dataset.members:
            assert member.names and member.most_bytes > 0
            digests = [*member.sha256, *([member.list_sha256] if member.list_sha256 else [])]
            assert digests and all(len(digest) == 64 for digest in digests)
    with pytest.raises(InputError, match="did you mean 'yale-b'"):
        catalogue.get("yaleb")


# Archives


@pytest.fixture
def unpacked(get, made_up, tmp_path):
    """Put the bytes of an archive into the mirror and return what comes out of it."""

    def run(archive, **changes):
        (tmp_path / "mirror").mkdir(exist_ok=True)
        (tmp_path / "mirror/made-up.zip").write_bytes(archive)
        try:
            return get(dataset=made_up(**changes), mirror=tmp_path / "mirror")
        finally:
            assert left_in(tmp_path) == ["made-up.zip"], "nothing was written anywhere else"

    return run


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


def test_only_listed_files_come_out_of_an_archive(unpacked, content, zipped):
    everything = content | {"other.txt": b"not wanted"}
    assert unpacked(zipped(everything)) == unpacked(tarred(everything)) == content


@pytest.mark.parametrize("path", ["../large.txt", "top/../../x", "/tmp/bjmd-x/small.txt"])
def test_no_path_leaves_the_folder(unpacked, content, zipped, path):
    """A foreign file that takes the place of a listed one is refused, any other is ignored."""
    for pack in (zipped, tarred):
        hostile = pack(content | {path: b"x"}, prefix="")
        if Path(path).name in content:
            with pytest.raises(InputError, match="not a known version"):
                unpacked(hostile)
        else:
            assert unpacked(hostile) == content
    assert not Path("/tmp/bjmd-x").exists()


@pytest.mark.parametrize(
    "kind", [tarfile.SYMTYPE, tarfile.LNKTYPE, tarfile.CHRTYPE, tarfile.FIFOTYPE]
)
def test_links_and_devices_are_not_unpacked(unpacked, content, kind):
    link = tarfile.TarInfo("top/small.txt")
    link.type = kind
    link.linkname = "/etc/hostname"
    others = {name: text for name, text in content.items() if name != "small.txt"}
    with pytest.raises(InputError, match=r"does not hold small\.txt"):
        unpacked(tarred(others, link))


def test_more_bytes_than_known_are_not_unpacked(unpacked):
    zeros = bytes(50_000_000)
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("small.txt", zeros)
    for bomb in (buffer.getvalue(), tarred({"small.txt": zeros})):
        with pytest.raises(InputError, match="50000000 bytes"):
            unpacked(bomb)
    # the same with a size in the directory that is a lie
    true, false = ((size).to_bytes(4, "little") for size in (50_000_000, 100))
    with pytest.raises(InputError, match="not a complete"):
        unpacked(buffer.getvalue().replace(true, false))


def test_changed_missing_and_damaged_files(unpacked, content, zipped):
    damaged = bytearray(zipped(content))
    damaged[len(damaged) // 2] ^= 1
    cut_off = [whole[: len(whole) // 2] for whole in (zipped(content), tarred(content))]
    for archive, words in (
        *((half, r"not a complete \.zip or \.tar\.gz") for half in (b"", *cut_off)),
        (zipped(content | {"small.txt": b"other"}), "not a known version"),
        (zipped({"small.txt": content["small.txt"]}), r"does not hold large\.txt"),
        (damaged, "not a complete"),
        (gzip.compress(b"<html>Not Found</html>"), "not a complete"),
    ):
        with pytest.raises(InputError, match=words):
            unpacked(archive)


def test_many_files_known_by_their_list(unpacked, content, zipped):
    digests = {name: hashlib.sha256(content[name]).hexdigest() for name in sorted(content)}
    listing = "".join(f"{digest}  {name}\n" for name, digest in digests.items())
    list_sha256 = hashlib.sha256(listing.encode()).hexdigest()
    members = (Member(("*.txt",), 600_000, number=2, list_sha256=list_sha256),)
    assert unpacked(zipped(content), members=members) == content
    for changed in (
        {"small.txt": content["small.txt"]},
        content | {"more.txt": b""},
        content | {"small.txt": b""},
    ):
        with pytest.raises(InputError, match="missing or differ"):
            unpacked(zipped(changed), members=members)


def test_file_known_by_its_git_blob(unpacked, zipped):
    # what `echo hello | git hash-object --stdin` prints
    member = Member(("a.txt",), 6, git_blob=("ce013625030ba8dba906f756967f9e9ca394464a",))
    assert unpacked(zipped({"a.txt": b"hello\n"}), members=(member,)) == {"a.txt": b"hello\n"}
