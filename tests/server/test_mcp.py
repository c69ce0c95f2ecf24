"""The server for programs, asked by the SDK's own client: what it gives, and what it refuses."""

import asyncio
import json
import os
import subprocess
import sys
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path
from typing import Any

import pytest

import perfmagic
from perfmagic.base.errors import OptionError
from perfmagic.results import TimelineResult
from perfmagic.server import mcp, tools
from perfmagic.server.mcp import Process
from perfmagic.server.tools import MOST_OPEN, Tools
from tests.schema_checks import problems
from tests.schemas import schema_of
from tests.trace.recorded import FOLDER
from tests.view.timeline.build import queue_of

pytestmark = pytest.mark.slow
NAME = "gp100_gpu_user_annotation.json.gz"
TOOLS = ["open", "answers", "zoom", "lines", "compare", "what_if", "check"]


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """A folder with a trace, a link to it, and one to a file outside."""
    inside = tmp_path / "root"
    inside.mkdir()
    (inside / NAME).write_bytes((FOLDER / NAME).read_bytes())
    (inside / "link.json.gz").symlink_to(NAME)
    (tmp_path / "secret.json.gz").write_bytes((FOLDER / NAME).read_bytes())
    (inside / "out.json.gz").symlink_to("../secret.json.gz")
    (inside / "loop.json").symlink_to("loop.json")
    TimelineResult(queue_of()).save(inside / "cell.npz")
    return inside


async def asked(root: Path, calls: list[tuple[str, dict[str, Any]]]) -> list[Any]:
    """What the tools give over stdio, from another process."""
    from mcp.client.client import Client
    from mcp.client.stdio import StdioServerParameters, stdio_client

    started = StdioServerParameters(
        command=sys.executable, args=["-m", "perfmagic", "mcp", str(root)], env=dict(os.environ)
    )
    async with Client(stdio_client(started)) as client:
        assert [tool.name for tool in (await client.list_tools()).tools] == TOOLS
        assert all(tool.annotations.read_only_hint for tool in (await client.list_tools()).tools)
        return [await client.call_tool(*call) for call in calls]


def test_a_client_opens_a_trace_and_asks_every_tool(root: Path) -> None:
    pytest.importorskip("mcp", reason="mcp is not installed")
    calls: list[tuple[str, dict[str, Any]]] = [
        ("open", {"path": NAME}),
        ("open", {"path": "cell.npz"}),
        ("answers", {"trace": "t1"}),
        ("zoom", {"trace": "t1", "start_us": 1000, "end_us": 5000}),
        ("lines", {"trace": "t2"}),
        ("compare", {"before": "t1", "after": "t2"}),
        ("what_if", {"trace": "t1", "changes": "one_graph()"}),
        ("check", {"trace": "t1", "rule": "sync"}),
        ("open", {"path": "../secret.json.gz"}),
        ("zoom", {"trace": "t1", "start_us": float("nan"), "end_us": 1}),
    ]
    *given, outside, nothing = asyncio.run(asked(root, calls))
    for answer in given:
        assert not answer.is_error, answer
        assert len(answer.content[0].text.encode()) <= 8500
    briefs = [json.loads(answer.content[0].text) for answer in given]
    opened = briefs[0]
    assert opened.pop("trace") == "t1"
    assert opened == perfmagic.open_trace(root / NAME).brief()
    assert (briefs[6]["kind"], briefs[6]["times"]) == ("what_if", "predicted")
    assert problems(schema_of("brief"), briefs[3]) == []
    assert outside.is_error
    assert "not below the folder" in outside.content[0].text
    assert nothing.is_error


@pytest.mark.parametrize(
    "path",
    ["../secret.json.gz", "out.json.gz", "/etc/passwd", "a\0b", "loop.json", "none.json", "https://a.test/b.json", ""],
)
def test_what_is_not_below_the_root_is_refused_before_it_is_read(root: Path, path: str) -> None:
    with pytest.raises(perfmagic.PerfmagicError) as refused:
        Tools(root).open("t1", path)
    assert "secret" not in str(refused.value).removeprefix(f"{path!r}")


def test_a_link_inside_the_root_is_followed(root: Path) -> None:
    assert Tools(root).open("t1", "link.json.gz")["verdict"] == "host-bound"


def test_the_oldest_of_too_many_open_traces_is_dropped(root: Path) -> None:
    opened = Tools(root)
    for n in range(MOST_OPEN + 1):
        opened.open(f"t{n}", "cell.npz")
    with pytest.raises(OptionError, match="no trace 't0' is open"):
        opened.answers("t0")
    assert opened.answers("t1")


def test_a_trace_that_is_too_large_is_refused(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tools, "MOST_BYTES", 5_000)
    with pytest.raises(perfmagic.PerfmagicError, match=r"larger than|more than|unpack"):
        Tools(root).open("t1", NAME)


@pytest.fixture
def process(root: Path) -> Iterator[Process]:
    made = Process(str(root))
    yield made
    made.end()


def test_a_call_that_takes_too_long_ends_its_process_and_the_next_one_works(process: Process) -> None:
    assert process.ask("open", name="t1", path="cell.npz")["trace"] == "t1"
    process._most_s = 0.0
    assert process.ask("answers", trace="t1")["error"].startswith("answers took longer than 0 s")
    process._most_s = 60.0
    assert "no trace 't1' is open" in process.ask("answers", trace="t1")["error"]
    assert process.ask("open", name="t2", path="cell.npz")["trace"] == "t2"


def test_a_process_that_dies_is_said_and_replaced(process: Process) -> None:
    process.ask("open", name="t1", path="cell.npz")
    pool: ProcessPoolExecutor = process._pool
    for each in list(pool._processes.values()):
        each.kill()
    assert "died" in process.ask("answers", trace="t1")["error"]
    assert process.ask("open", name="t2", path="cell.npz")["trace"] == "t2"


def test_without_the_sdk_the_command_says_what_to_install(root: Path, tmp_path: Path) -> None:
    (tmp_path / "mcp.py").write_text("raise ImportError('not installed')")
    done = subprocess.run(
        [sys.executable, "-m", "perfmagic", "mcp", str(root)],
        env={**os.environ, "PYTHONPATH": f"{tmp_path}{os.pathsep}{os.environ.get('PYTHONPATH', '')}"},
        capture_output=True, text=True, stdin=subprocess.DEVNULL, timeout=60,
    )  # fmt: skip
    assert done.returncode == 1
    assert done.stdout == ""
    assert 'Hint: pip install "perfmagic[mcp]"' in done.stderr
    with pytest.raises(OptionError, match="is not a folder"):
        mcp.serve(str(root / NAME))
