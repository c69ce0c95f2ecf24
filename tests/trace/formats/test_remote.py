"""Traces behind URLs: memory, zip, http; streamed, once, and never without need of fsspec."""

import functools
import http.server
import os
import subprocess
import sys
import threading
import traceback
import zipfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import perfmagic
from perfmagic.base.errors import TraceError
from perfmagic.results import RanksResult
from perfmagic.trace.formats import remote
from perfmagic.trace.formats.registry import is_trace_name
from perfmagic.trace.formats.remote import RemoteFile, remote_files
from perfmagic.trace.formats.sources import read_traces
from tests.trace.formats.nsight_made import h100
from tests.trace.recorded import eight_ranks

pytestmark = pytest.mark.slow

fsspec = pytest.importorskip("fsspec", reason="the extra [remote] is not installed")
FOLDER = eight_ranks()


@pytest.fixture(scope="module")
def kept() -> RanksResult:
    return perfmagic.open_traces(FOLDER).ranks


@pytest.fixture
def memory() -> Iterator[Any]:
    system = fsspec.filesystem("memory")
    for path in FOLDER.glob("*.gz"):
        system.pipe_file(f"/runs/{path.name}", path.read_bytes())
    system.pipe_file("/runs/notes.txt", b"no trace")
    yield system
    system.rm("/runs", recursive=True)


@pytest.fixture
def server() -> Iterator[tuple[str, list[str]]]:
    """A plain http server of the folder, without ranges, and what it was asked for."""
    asked: list[str] = []

    class Handler(http.server.SimpleHTTPRequestHandler):
        def log_message(self, *_words: Any) -> None:
            pass

        def do_GET(self) -> None:
            asked.append(self.path)
            super().do_GET()

    handler = functools.partial(Handler, directory=str(FOLDER))
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler) as made:
        thread = threading.Thread(target=made.serve_forever)
        thread.start()
        yield f"http://127.0.0.1:{made.server_address[1]}", asked
        made.shutdown()
        thread.join()


def test_a_folder_in_memory_is_read_as_one_on_disk(memory: Any, kept: RanksResult) -> None:
    assert perfmagic.open_ranks("memory://runs").to_dict() == kept.to_dict()
    some = perfmagic.open_ranks("memory://runs/worker[0-3]_*.json.gz")
    assert some.ranks.ranks == [0, 1, 2, 3]


def test_a_zip_of_ranks_is_read_by_its_name_and_as_a_url(tmp_path: Path, kept: RanksResult) -> None:
    with zipfile.ZipFile(tmp_path / "runs.zip", "w") as archive:
        for path in FOLDER.glob("*.gz"):
            archive.write(path, f"job/{path.name}")
        archive.writestr("job/notes.txt", "no trace")
    assert perfmagic.open_ranks(tmp_path / "runs.zip").to_dict() == kept.to_dict()
    found = perfmagic.open_ranks(f"zip://job/*.gz::{tmp_path}/runs.zip")
    assert found.to_dict() == kept.to_dict()
    assert found.rank(3).to_json() == kept.rank(3).to_json()


def test_a_web_server_is_asked_for_each_file_once(server: tuple[str, list[str]], kept: RanksResult) -> None:
    pytest.importorskip("aiohttp", reason="the extra [remote] is not installed")
    address, asked = server
    files = [f"{address}/{path.name}" for path in sorted(FOLDER.glob("*.gz"))]
    found = perfmagic.open_ranks(files)
    assert found.to_dict() == kept.to_dict()
    assert sorted(asked) == sorted(f"/{path.name}" for path in FOLDER.glob("*.gz"))
    assert perfmagic.open_ranks(address + "/").ranks.ranks == list(range(8))


def test_a_file_that_is_not_there_costs_itself(server: tuple[str, list[str]]) -> None:
    pytest.importorskip("aiohttp", reason="the extra [remote] is not installed")
    address, _ = server
    names = [path.name for path in sorted(FOLDER.glob("*.gz"))[:2]]
    found = perfmagic.open_ranks([*(f"{address}/{name}" for name in names), f"{address}/gone.json.gz?token=secret"])
    assert found.ranks.ranks == [0, 1]
    assert found.findings[0].cause == "1 of 3 files cannot be read"
    assert "gone.json.gz" in found.findings[0].detail
    assert "secret" not in found.text()


def test_an_npz_is_fetched_whole(memory: Any, kept: RanksResult, tmp_path: Path) -> None:
    kept.rank(2).save(tmp_path / "two.npz")
    memory.pipe_file("/runs/two.npz", (tmp_path / "two.npz").read_bytes())
    (again,) = read_traces("memory://runs/two.npz")
    assert again.names == kept.rank(2).trace.names
    with pytest.raises(TraceError, match=r"two\.npz holds more than the limit"):
        read_traces("memory://runs/two.npz", max_unpacked_bytes=1000)


def test_an_export_of_nsys_is_fetched_whole_and_its_ranks_open(memory: Any) -> None:
    memory.pipe_file("/runs/two.sqlite", h100().read_bytes())
    found = perfmagic.open_ranks("memory://runs/two.sqlite")
    assert (found.ranks.ranks, found.rank(1).title) == ([0, 1], "two.sqlite, rank 1")


def test_large_files_come_in_blocks_and_the_limit_holds(memory: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(remote, "BLOCK_BYTES", 10_000)
    name = min(FOLDER.glob("*.gz")).name
    blocks = [len(block) for block in RemoteFile(f"memory://runs/{name}").blocks()]
    assert blocks[:-1] == [10_000] * (len(blocks) - 1)
    assert sum(blocks) == (FOLDER / name).stat().st_size
    with pytest.raises(TraceError, match="more than the limit of 20"):
        read_traces(f"memory://runs/{name}", max_unpacked_bytes=20_000)


def test_a_folder_without_traces_and_a_protocol_that_is_not_there_are_errors(memory: Any) -> None:
    memory.pipe_file("/empty/notes.txt", b"no trace")
    with pytest.raises(TraceError, match=r"memory://empty has no \.json"):
        remote_files("memory://empty", is_trace_name, {})
    with pytest.raises(TraceError, match="nowhere://runs"):
        remote_files("nowhere://runs", is_trace_name, {})


def test_fsspec_is_imported_for_urls_alone(tmp_path: Path) -> None:
    code = (
        "import sys; sys.modules['fsspec'] = None; import perfmagic\n"
        f"assert perfmagic.open_ranks({str(FOLDER)!r}).ranks.ranks == list(range(8))\n"
        "try: perfmagic.open_ranks('s3://bucket/runs')\n"
        "except perfmagic.OptionError as error: print(error)\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, cwd=tmp_path)
    assert done.stdout.splitlines() == ["s3://bucket/runs needs fsspec", "Hint: pip install 'perfmagic[remote]'"]


def test_one_trace_is_opened_by_its_url(server: tuple[str, list[str]], memory: Any) -> None:
    pytest.importorskip("aiohttp", reason="the extra [remote] is not installed")
    address, _ = server
    path = min(FOLDER.glob("*.gz"))
    here = perfmagic.open_trace(path)
    found = perfmagic.open_trace(f"{address}/{path.name}?token=secret")
    assert found.to_json() == here.to_json()
    assert found.title == path.name
    assert perfmagic.open_trace(f"memory://runs/{path.name}").to_json() == here.to_json()
    assert len(perfmagic.open_traces("memory://runs/worker[0-3]_*.json.gz")) == 4
    with pytest.raises(TraceError, match=r"runs is a folder with 8 trace files"):
        perfmagic.open_trace("memory://runs")


@pytest.mark.parametrize("name", ["gone.json.gz?token=secret", "gone.npz?token=secret"])
def test_what_is_behind_a_question_mark_is_in_no_error(server: tuple[str, list[str]], name: str) -> None:
    pytest.importorskip("aiohttp", reason="the extra [remote] is not installed")
    with pytest.raises(TraceError, match=r"there is no file http://127\.0\.0\.1:\d+/gone") as refused:
        perfmagic.open_trace(f"{server[0]}/{name}")
    assert "secret" not in str(refused.value)


def test_a_server_that_does_not_answer_is_no_missing_file() -> None:
    pytest.importorskip("aiohttp", reason="the extra [remote] is not installed")
    with pytest.raises(TraceError, match=r"127\.0\.0\.1:9/run\.json cannot be read: ClientConnector"):
        perfmagic.open_trace("http://127.0.0.1:9/run.json?token=secret")


def test_a_body_that_is_sent_packed_is_read() -> None:
    """A server may pack what it sends, and says so in a header."""
    pytest.importorskip("aiohttp", reason="the extra [remote] is not installed")
    path = min(FOLDER.glob("*.gz"))

    class Packed(http.server.BaseHTTPRequestHandler):
        def log_message(self, *_words: Any) -> None:
            pass

        def do_GET(self) -> None:
            body = path.read_bytes()
            self.send_response(200)
            self.send_header("Content-Encoding", "gzip")
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        do_HEAD = do_GET  # noqa: N815 - the server looks for it

    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Packed) as made:
        thread = threading.Thread(target=made.serve_forever)
        thread.start()
        try:
            found = perfmagic.open_trace(f"http://127.0.0.1:{made.server_address[1]}/{path.name.removesuffix('.gz')}")
        finally:
            made.shutdown()
            thread.join()
    assert found.to_dict()["devices"] == perfmagic.open_trace(path).to_dict()["devices"]


SECRETS = "p@ss", "p%40ss", "SIGNED", "AKIA1"
SECRET_URL = "leaky://ann:p%40ss@host/NAME?sig=SIGNED"
OPTIONS = {"key": "AKIA1"}
QUOTED = "403 for ann, p@ss, p%40ss, SIGNED, AKIA1"


class Leaky(fsspec.AbstractFileSystem):  # type: ignore[misc]  # fsspec has no types
    """A library that quotes its URL and its options in errors, and in what is behind them."""

    protocol = "leaky"

    def _open(self, path: str, *_given: Any, **_options: Any) -> Any:
        try:
            raise ConnectionError(QUOTED)
        except ConnectionError as error:
            raise ValueError(f"{QUOTED} at {path}") from error

    def isdir(self, path: str) -> bool:
        raise PermissionError(13, f"{QUOTED} at {path}")


@pytest.mark.parametrize("name", ["x.json", "runs", "x.npz"])
@pytest.mark.parametrize("chain", ["", "simplecache::", "zip://x.json::"])
@pytest.mark.parametrize("opened", [perfmagic.open_trace, perfmagic.open_traces, perfmagic.open_ranks])
def test_a_librarys_error_shows_no_secret_nor_does_its_traceback(opened: Any, chain: str, name: str) -> None:
    fsspec.register_implementation("leaky", Leaky, clobber=True)
    url = chain + SECRET_URL.replace("NAME", name)
    with pytest.raises(TraceError, match=r"leaky://…@host/|x\.json cannot") as refused:
        opened(url, storage_options={"leaky": OPTIONS} if chain else OPTIONS)
    shown = "".join(traceback.format_exception(refused.value))
    assert not [secret for secret in SECRETS if secret in shown]
    assert refused.value.__context__ is None
    assert refused.value.__cause__ is None


def _open_as_path(url: str) -> Any:
    return perfmagic.open_trace(Path(url))


@pytest.mark.parametrize("opened", [perfmagic.load, perfmagic.open_snapshot, _open_as_path])
def test_what_takes_no_url_hides_its_secrets_too(opened: Any) -> None:
    with pytest.raises(perfmagic.PerfmagicError, match="host/") as refused:
        opened(SECRET_URL)
    shown = "".join(traceback.format_exception(refused.value))
    assert not [secret for secret in SECRETS if secret in shown]


def test_a_url_without_a_path_gives_no_title_with_its_credentials() -> None:
    assert remote.remote_name("https://user:SECRET@host") == "https://…@host"
    assert remote.remote_name("simplecache::s3://KEY:SECRET@b/x.json?a=1") == "x.json"
    assert "SECRET" not in repr(RemoteFile("s3://KEY:SECRET@b/x.json", {"secret": "SECRET"}))


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="this system has no named pipes")
@pytest.mark.parametrize("url", ["file://{}", "LOCAL://{}", "zip://x.json::{}", "zip://::{}", "simplecache::file://{}"])
def test_a_pipe_is_not_waited_for_behind_a_url(tmp_path: Path, url: str) -> None:
    pipe = tmp_path / "pipe.json"
    os.mkfifo(pipe)
    with pytest.raises(TraceError, match="it is a named pipe, not a regular file"):
        perfmagic.open_trace(url.format(pipe))
