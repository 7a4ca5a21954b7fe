"""Downloads from a server on this machine that behaves as servers do, well and badly."""

import threading
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest

from bjmd.errors import InputError
from bjmd_paper.datasets import catalogue, fetch


class Server(ThreadingHTTPServer):
    """Plays one behaviour a request, the last one for ever; keeps the Range header of each request."""

    daemon_threads = True

    def __init__(self, content):
        super().__init__(("127.0.0.1", 0), Handler)
        self.content = content
        self.plays = ["ok"]
        self.ranges = []
        self.closing = threading.Event()

    @property
    def address(self):
        return f"http://127.0.0.1:{self.server_port}/made-up.zip"


class Handler(BaseHTTPRequestHandler):
    def do_GET(self):
        server = self.server
        self.close_connection = True
        server.ranges.append(self.headers.get("Range"))
        play = server.plays.pop(0) if len(server.plays) > 1 else server.plays[0]
        getattr(self, f"play_{play}")(server.content)

    def play_ok(self, content):
        asked = self.headers.get("Range")
        if not asked:
            self.answer(200, content)
            return
        first = int(asked.removeprefix("bytes=").removesuffix("-"))
        if first >= len(content):
            self.answer(416, b"", {"Content-Range": f"bytes */{len(content)}"})
        else:
            self.answer(
                206,
                content[first:],
                {"Content-Range": f"bytes {first}-{len(content) - 1}/{len(content)}"},
            )

    def play_no_range(self, content):
        self.answer(200, content)

    def play_slow(self, content):
        self.begin(200, len(content))
        for first in range(0, len(content), len(content) // 5 + 1):
            self.wfile.write(content[first : first + len(content) // 5 + 1])
            self.wfile.flush()
            time.sleep(0.05)

    def play_cut(self, content):
        self.begin(200, len(content))
        self.wfile.write(content[: len(content) // 2])

    def play_stall(self, content):
        self.begin(200, len(content))
        self.wfile.write(content[: len(content) // 2])
        self.wfile.flush()
        self.server.closing.wait(10)

    def play_wrong(self, content):
        self.answer(200, b"x" * len(content))

    def play_endless(self, content):
        self.begin(200, 10**9)
        try:
            while not self.server.closing.is_set():
                self.wfile.write(bytes(2**16))
        except OSError:
            pass  # the client had enough

    def play_404(self, content):
        self.answer(404, b"<html>no</html>")

    def play_500(self, content):
        self.answer(500, b"")

    def play_redirect(self, content):
        self.answer(302, b"", {"Location": self.server.address})

    def play_nothing(self, content):
        self.server.closing.wait(10)

    def answer(self, status, content, headers=None):
        self.begin(status, len(content), headers)
        self.wfile.write(content)

    def begin(self, status, length, headers=None):
        self.send_response(status)
        self.send_header("Content-Length", str(length))
        for name, value in (headers or {}).items():
            self.send_header(name, value)
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
    monkeypatch.setattr(fetch, "WAITS", (0, 0.01))
    monkeypatch.setattr(fetch, "TIMEOUT", (0.5, 0.4))
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")
    monkeypatch.delenv("BJMD_DATA", raising=False)


@pytest.fixture
def get(monkeypatch, made_up, server, tmp_path):
    """Fetch the made-up data set while the server plays the given behaviours."""

    def run(*plays, addresses=None, **arguments):
        server.plays = list(plays) or ["404"]
        dataset = made_up(*(addresses or [server.address]))
        monkeypatch.setattr(catalogue, "get", lambda name: dataset)
        return fetch.fetch("made-up", cache=tmp_path / "cache", **arguments)

    return run


def files(folder):
    return sorted(path.name for path in folder.rglob("*") if path.is_file())


@pytest.mark.parametrize(
    "plays",
    [
        ("ok",),
        ("slow",),
        ("500", "ok"),
        ("redirect", "ok"),
        ("nothing", "ok"),
        ("cut", "ok"),
        ("cut", "no_range"),
        ("stall", "ok"),
        ("cut", "500", "ok"),
    ],
    ids=" then ".join,
)
def test_success_in_the_end(get, server, tmp_path, plays):
    path = get(*plays)
    assert path == tmp_path / "cache/made-up/made-up.zip"
    assert path.read_bytes() == server.content
    assert files(tmp_path) == ["made-up.zip"]
    assert path.stat().st_mode & 0o444 == 0o444
    n_requests = len(server.ranges)
    assert get("404") == path and len(server.ranges) == n_requests  # from the cache


def test_cut_off_download_is_resumed(get, server):
    get("cut", "ok")
    first, second = server.ranges
    assert first is None
    assert 0 < int(second.removeprefix("bytes=").removesuffix("-")) <= len(server.content) // 2


def test_download_is_resumed_by_a_later_run(get, server, tmp_path):
    with pytest.raises(InputError, match="500"):
        get("cut", "500")
    assert [name.rsplit(".", 1)[1] for name in files(tmp_path)] == ["part"]
    get("ok")
    assert server.ranges[-1] is not None
    assert files(tmp_path) == ["made-up.zip"]


def test_complete_part_is_taken_and_a_stale_one_is_not(get, server, tmp_path):
    with pytest.raises(InputError):
        get("cut", "500")
    [part] = (tmp_path / "cache/made-up").iterdir()
    part.write_bytes(server.content)
    assert get("ok").read_bytes() == server.content
    (tmp_path / "cache/made-up/made-up.zip").unlink()
    part.write_bytes(b"of an older version")
    assert get("ok").read_bytes() == server.content
    assert server.ranges[-2:] == ["bytes=19-", None]


@pytest.mark.parametrize(
    ("play", "words"),
    [
        ("wrong", "complete"),
        ("404", "404 Not Found"),
        ("500", "500"),
        ("nothing", "no answer"),
        ("endless", "more than"),
    ],
)
def test_failure_says_what_to_do_and_leaves_nothing(get, server, tmp_path, play, words):
    with pytest.raises(InputError) as caught:
        get(play)
    message = str(caught.value)
    for part in (words, "by hand", server.address, str(tmp_path / "cache/made-up"), "made-up.zip"):
        assert part in message
    assert "\n" not in message
    assert files(tmp_path) == []
    assert len(server.ranges) == (1 if play in ("wrong", "404", "endless") else 3)


def test_nobody_listens(get, server, tmp_path):
    with pytest.raises(InputError, match="no connection"):
        get(addresses=["http://127.0.0.1:9/made-up.zip"])
    assert files(tmp_path) == []


def test_second_address_when_the_first_fails(get, server):
    for first in ("404", "wrong"):
        path = get(first, "ok", addresses=[server.address, f"{server.address}?second"])
        assert path.read_bytes() == server.content
        path.unlink()


def test_damaged_cache_is_replaced(get, server, caplog):
    path = get("ok")
    path.write_bytes(b"damaged")
    assert get("ok").read_bytes() == server.content
    assert "downloaded again" in caplog.text


def test_mirror_comes_first_and_is_verified(get, server, tmp_path, monkeypatch):
    mirror = tmp_path / "mirror"
    (mirror / "made-up").mkdir(parents=True)
    (mirror / "made-up.zip").write_bytes(server.content)
    assert get(mirror=mirror) == mirror / "made-up.zip"
    monkeypatch.setenv("BJMD_DATA", str(mirror))
    (mirror / "made-up.zip").rename(mirror / "made-up/made-up.zip")
    assert get() == mirror / "made-up/made-up.zip"
    (mirror / "made-up/made-up.zip").write_bytes(b"other")
    with pytest.raises(InputError, match=r"mirror/made-up/made-up\.zip"):
        get("ok")
    assert server.ranges == []
    with pytest.raises(InputError, match="not a folder"):
        get(mirror=tmp_path / "nowhere")


def test_mirror_may_hold_the_files_themselves(get, content, tmp_path):
    mirror = tmp_path / "mirror"
    (mirror / "made-up").mkdir(parents=True)
    for name, text in content.items():
        (mirror / "made-up" / name).write_bytes(text)
    assert get(mirror=mirror) == mirror / "made-up"
    (mirror / "made-up" / "small.txt").write_bytes(b"other")
    with pytest.raises(InputError, match=r"small\.txt"):
        get(mirror=mirror)


def test_data_set_that_only_a_person_can_fetch(monkeypatch, made_up, tmp_path):
    monkeypatch.setattr(catalogue, "get", lambda name: made_up(archive=""))
    with pytest.raises(
        InputError, match=r"small\.txt by hand from http://example.org/made-up and put it into"
    ):
        fetch.fetch("made-up", cache=tmp_path)


def test_every_entry_of_the_catalogue_is_complete():
    for name in catalogue.names():
        dataset = catalogue.get(name)
        assert dataset.terms and dataset.citation and dataset.page.startswith("http")
        assert bool(dataset.addresses) == bool(dataset.archive) == bool(dataset.most_bytes)
        for member in dataset.members:
            assert member.names and member.most_bytes > 0
            digests = [*member.sha256, *([member.list_sha256] if member.list_sha256 else [])]
            assert digests and all(len(digest) == 64 for digest in digests)
    with pytest.raises(InputError, match="did you mean 'yale-b'"):
        catalogue.get("yaleb")
