"""torch's one profiler: ours, the cell's, somebody else's, and its limits."""

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

torch = pytest.importorskip("torch", reason="there is no profiler without torch")

from perfmagic.base import free_memory  # noqa: E402 - after the skip
from perfmagic.capture import cell  # noqa: E402 - after the skip
from perfmagic.capture.recording import session as memory_guard  # noqa: E402 - after the skip

from .conftest import Notebook  # noqa: E402


@pytest.fixture(autouse=True)
def _no_simulated_device(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Other tests of this process may have loaded it; then its log records, not torch's profiler."""
    monkeypatch.setattr("perfmagic.capture.recording.recorder.sim_loaded", lambda: False)
    yield
    assert not torch.autograd._profiler_enabled()


def test_a_profiler_opened_before_the_cell_is_left_alone(notebook: Notebook) -> None:
    notebook.run("import torch\nother = torch.profiler.profile()\nother.__enter__()\nx = torch.ones(3)")
    ran = notebook.run("%%timeline\nx + 1")
    assert "another profiler is active" in ran.refusal
    notebook.run("x + 2\nother.__exit__(None, None, None)")
    assert notebook.run("[e.name for e in other.events()].count('aten::add')").value == 1


@pytest.mark.parametrize("left_open", [False, True])
def test_a_profiler_opened_in_the_cell_and_the_timeline_both_have_results(notebook: Notebook, left_open: bool) -> None:
    notebook.run("import torch\nx = torch.ones(3)")
    body = "x + 1\nother = torch.profiler.profile()\nother.__enter__()\nx * 2"
    closing = "other.__exit__(None, None, None)"
    ran = notebook.run(f"%%timeline -o t\n{body}" + ("" if left_open else f"\n{closing}"))
    assert ran.error is None
    assert "the cell opened a profiler of its own" in ran.report
    if left_open:
        notebook.run(closing)
    assert "aten::mul" in notebook.run("[e.name for e in other.events()]").value
    trace = notebook.names["t"].trace
    names = [trace.names[n] for n in trace.host_ops.name]
    assert "aten::add" in names
    assert "aten::mul" not in names


def test_a_recording_ends_at_the_limit_of_statements_and_says_so(
    notebook: Notebook, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(cell.MarkLog.__init__, "__defaults__", (*cell.MarkLog.__init__.__defaults__[:-1], 20))
    notebook.run("import torch\nx = torch.ones(3)")
    ran = notebook.run("%%timeline -o t\nfor i in range(200):\n    x + 1\nx * 2")
    assert "Recorded until" in ran.report
    # the line in the report is cut where there are other notes
    assert any("statements inside loops" in note for note in notebook.names["t"].trust.sentences)
    trace = notebook.names["t"].trace
    names = [trace.names[n] for n in trace.host_ops.name]
    assert 0 < names.count("aten::add") < 200
    assert "aten::mul" not in names
    assert trace.meta.end_ns >= trace.host_ops.end_ns.max()


def test_a_recording_ends_before_it_outgrows_the_memory(notebook: Notebook, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(memory_guard, "INTERVAL_S", 0.01)
    monkeypatch.setattr(memory_guard.MemoryGuard.__init__, "__defaults__", (0.01,))
    monkeypatch.setattr(memory_guard, "available_bytes", lambda: 10 * memory_guard.ENDED_PER_LIVE)
    monkeypatch.setattr(memory_guard, "own_bytes", lambda: 5000 if "y" in notebook.names else 1000)
    notebook.run("import torch, time\nx = torch.ones(3)")
    ran = notebook.run("%%timeline -o t\ny = x + 1\ntime.sleep(0.5)\nx * 2")
    assert "the process had grown by" in ran.report
    trace = notebook.names["t"].trace
    names = [trace.names[n] for n in trace.host_ops.name]
    assert ("aten::add" in names, "aten::mul" in names) == (True, False)


def test_memory_of_the_host_is_recorded_where_no_device_is_in_use(notebook: Notebook) -> None:
    notebook.run("import torch\nx = torch.ones(1000)")
    ran = notebook.run("%%timeline --memory --device cpu -o t\ny = x + 1")
    assert "nothing was allocated" not in ran.report
    held = {row.reason: row.size_bytes for row in notebook.names["t"].memory.after()}
    assert held["held by `y`"] == held["before the cell: held by `x`"] == 4000
    assert notebook.run("%%timeline --device cpu -o t\ny = x + 1").error is None
    assert notebook.names["t"].memory.is_empty


def test_memory_is_known_where_linux_reports_it(monkeypatch: pytest.MonkeyPatch) -> None:
    if not Path("/proc/meminfo").exists():
        pytest.skip("this system has no /proc")
    # in a process of its own: here, other threads free memory meanwhile
    code = "before = own_bytes(); held = b'1' * 50_000_000; print(own_bytes() - before)"
    import_it = f"from {free_memory.__name__} import own_bytes"
    done = subprocess.run([sys.executable, "-c", f"{import_it}; {code}"], capture_output=True, text=True, check=True)
    assert 40_000_000 < int(done.stdout) < 100_000_000
    assert free_memory.available_bytes() > 50_000_000
