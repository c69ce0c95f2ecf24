"""Traces behind URLs: memory, zip, http; streamed, once, and never without need of fsspec."""

from __future__ import annotations

import functools
import http.server
import subprocess
import sys
import threading
import zipfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import perfmagic
from perfmagic.errors import TraceError
from perfmagic.results import RanksResult
from perfmagic.trace.formats import remote
from perfmagic.trace.formats.remote import RemoteFile, read_remote, remote_files
from perfmagic.trace.formats.sources import is_trace_name
from tests.trace.recorded import real

fsspec = pytest.importorskip("fsspec", reason="the extra [remote] is not installed")
FOLDER = real("dlrm_8ranks/worker0_step_12").parent


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
    assert perfmagic.open_ranks("memory://runs").to_json() == kept.to_json()
    some = perfmagic.open_ranks("memory://runs/worker[0-3]_*.json.gz")
    assert some.ranks.ranks == [0, 1, 2, 3]


def test_a_zip_of_ranks_is_read_by_its_name_and_as_a_url(tmp_path: Path, kept: RanksResult) -> None:
    with zipfile.ZipFile(tmp_path / "runs.zip", "w") as archive:
        for path in FOLDER.glob("*.gz"):
            archive.write(path, f"job/{path.name}")
        archive.writestr("job/notes.txt", "no trace")
    assert perfmagic.open_ranks(tmp_path / "runs.zip").to_json() == kept.to_json()
    found = perfmagic.open_ranks(f"zip://job/*.gz::{tmp_path}/runs.zip")
    assert found.to_json() == kept.to_json()
    assert found.rank(3).to_json() == kept.rank(3).to_json()


def test_a_web_server_is_asked_for_each_file_once(server: tuple[str, list[str]], kept: RanksResult) -> None:
    pytest.importorskip("aiohttp", reason="the extra [remote] is not installed")
    address, asked = server
    files = [f"{address}/{path.name}" for path in sorted(FOLDER.glob("*.gz"))]
    found = perfmagic.open_ranks(files)
    assert found.to_json() == kept.to_json()
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
    again = read_remote("memory://runs/two.npz", {}, max_unpacked_bytes=1 << 30)
    assert again.names == kept.rank(2).trace.names
    with pytest.raises(TraceError, match=r"two\.npz holds more than the limit"):
        read_remote("memory://runs/two.npz", {}, max_unpacked_bytes=1000)


def test_large_files_come_in_blocks_and_the_limit_holds(memory: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(remote, "BLOCK_BYTES", 10_000)
    name = min(FOLDER.glob("*.gz")).name
    blocks = [len(block) for block in RemoteFile(f"memory://runs/{name}").blocks()]
    assert blocks[:-1] == [10_000] * (len(blocks) - 1)
    assert sum(blocks) == (FOLDER / name).stat().st_size
    with pytest.raises(TraceError, match="more than the limit of 20"):
        read_remote(f"memory://runs/{name}", {}, max_unpacked_bytes=20_000)


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
