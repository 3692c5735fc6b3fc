"""Downloads from a server that truncates, stalls, corrupts, does not know ranges, or has nothing."""

import gzip
import hashlib
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest

from scax.tables import datasets, download

CONTENT = bytes(range(256)) * 400


class Server(BaseHTTPRequestHandler):
    mood, asked = "good", []

    def do_GET(self):
        cls = type(self)
        cls.asked.append(self.headers.get("Range"))
        if cls.mood == "404":
            self.send_error(404)
            return
        if cls.mood == "503 once" and len(cls.asked) == 1:
            self.send_error(503)
            return
        body = CONTENT if cls.mood != "corrupt" else CONTENT[:-1] + b"!"
        start = 0
        wanted = self.headers.get("Range")
        if wanted and cls.mood != "no ranges":
            start = int(wanted.removeprefix("bytes=").removesuffix("-"))
            self.send_response(206)
            self.send_header("Content-Range", f"bytes {start}-{len(body) - 1}/{len(body)}")
        else:
            self.send_response(200)
        self.send_header("Content-Length", str(len(body) - start))
        self.end_headers()
        rest = body[start:]
        cut = len(rest) // 2
        if cls.mood in {"truncate", "no ranges"} and len(cls.asked) < 3:
            self.wfile.write(rest[:cut])
        elif cls.mood == "stall" and len(cls.asked) < 3:
            self.wfile.write(rest[:cut])
            self.wfile.flush()
            cls.waiting.wait(10)
        else:
            self.wfile.write(rest)

    def log_message(self, format, *args):
        pass


@pytest.fixture
def serve(monkeypatch):
    monkeypatch.setattr(download, "PAUSE", 0.0)
    monkeypatch.setattr(download, "TIMEOUT", 0.3)
    waiting = threading.Event()
    handler = type("Handler", (Server,), {"asked": [], "waiting": waiting})
    server = ThreadingHTTPServer(("127.0.0.1", 0), handler)
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02})
    thread.start()

    def start(mood: str) -> tuple[str, list]:
        handler.mood = mood
        return f"http://127.0.0.1:{server.server_port}/file.csv", handler.asked

    yield start
    waiting.set()
    server.shutdown()
    thread.join()
    server.server_close()


def good(path):
    if path.read_bytes() != CONTENT:
        raise ValueError("other content")


@pytest.mark.parametrize("mood", ["good", "truncate", "stall", "no ranges", "503 once"])
def test_delivered_in_the_end(serve, tmp_path, mood):
    url, asked = serve(mood)
    told = []
    path = tmp_path / "deep" / "file.csv"
    download.download(url, path, good, lambda done, total: told.append((done, total)), timeout=0.3)
    assert path.read_bytes() == CONTENT
    assert told[-1] == (len(CONTENT), len(CONTENT))
    assert [p.name for p in path.parent.iterdir()] == ["file.csv"]
    if mood in {"truncate", "stall"}:
        assert asked == [None, f"bytes={len(CONTENT) // 2}-", f"bytes={len(CONTENT) * 3 // 4}-"]


def test_resumes_in_a_later_call(serve, tmp_path):
    url, asked = serve("good")
    (tmp_path / ".file.csv.part").write_bytes(CONTENT[:1000])
    download.download(url, tmp_path / "file.csv", good)
    assert asked == ["bytes=1000-"]
    assert (tmp_path / "file.csv").read_bytes() == CONTENT


@pytest.mark.parametrize(("mood", "words"), [("404", "404"), ("corrupt", "sha256")])
def test_refused(serve, tmp_path, mood, words):
    url, asked = serve(mood)
    with pytest.raises(download.DownloadError, match=words):
        download.download(url, tmp_path / "file.csv", good)
    assert len(asked) == 1
    assert list(tmp_path.iterdir()) == []


def test_nobody_there(tmp_path):
    with pytest.raises(download.DownloadError, match="did not deliver"):
        download.download("http://127.0.0.1:9/file.csv", tmp_path / "file.csv", good)


@pytest.fixture
def entry(monkeypatch, tmp_path):
    """A data set of our own, kept in a cache of our own."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setenv("LOCALAPPDATA", str(tmp_path / "cache"))
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.delenv("SCAX_DATA", raising=False)

    def make(*urls: str) -> str:
        about = datasets.Remote("", 1, 1, "y", ("one.csv",), urls, hashlib.sha256(CONTENT).hexdigest())
        monkeypatch.setitem(datasets.REMOTE, "one", about)
        return "one"

    return make


def test_a_mirror_stands_in(serve, entry):
    url, _ = serve("good")
    name = entry("http://127.0.0.1:9/file.csv", url)
    path = datasets.fetch(name)
    assert path.parent == datasets.cache_folder()
    assert datasets.find(name) == path


def test_offline_says_what_to_do(entry):
    with pytest.raises(datasets.DatasetError, match=r"127\.0\.0\.1.*--data-dir or SCAX_DATA"):
        datasets.fetch(entry("http://127.0.0.1:9/file.csv"))


def test_local_copies_come_first(entry, tmp_path, monkeypatch):
    name = entry("http://127.0.0.1:9/file.csv")
    (tmp_path / "one.csv.gz").write_bytes(gzip.compress(CONTENT))
    assert datasets.find(name) is None
    assert datasets.fetch(name, tmp_path) == tmp_path / "one.csv.gz"
    monkeypatch.setenv("SCAX_DATA", str(tmp_path))
    assert datasets.find(name) == tmp_path / "one.csv.gz"
    for content in (gzip.compress(CONTENT)[:-9], gzip.compress(CONTENT + b"!"), b"text"):
        (tmp_path / "one.csv.gz").write_bytes(content)
        with pytest.raises(datasets.DatasetError, match=r"one\.csv\.gz"):
            datasets.find(name)


def test_rows_are_counted_where_no_sum_is_known(tmp_path):
    about = datasets.Remote("", 3, 1, "y", ("one.csv",), (), None)
    path = tmp_path / "one.csv"
    for text in ("x\n1\n2\n3\n", "x\n1\n2\n3"):  # with and without a last line end
        path.write_text(text)
        about.verify(path)
    path.write_text("x\n1\n2\n")
    with pytest.raises(datasets.DatasetError, match="3 lines, expected 4"):
        about.verify(path)
    (tmp_path / "one.csv.gz").write_bytes(gzip.compress(b"x\n1\n2\n"))
    with pytest.raises(datasets.DatasetError, match="3 lines"):
        about.verify(tmp_path / "one.csv.gz")


def test_every_entry_is_complete():
    for about in datasets.REMOTE.values():
        assert all(url.startswith("https://") for url in about.urls)
        assert about.sha256 is None or len(about.sha256) == 64
        assert about.urls[0].startswith(datasets.UCI)
        # what has a known sum has a second source, byte for byte the same
        assert about.sha256 is None or len(about.urls) > 1
