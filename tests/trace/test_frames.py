"""Python frames are put in order when somebody asks for them, and not before."""

import pickle
from pathlib import Path

import numpy as np
import pytest

from perfmagic.analysis.report import report
from perfmagic.results import TimelineResult
from perfmagic.trace.columns import HostKind, HostOps, PythonFrames
from perfmagic.trace.formats.chrome import write_chrome
from perfmagic.trace.formats.npz import write_npz
from perfmagic.trace.formats.sources import read_file
from perfmagic.trace.kineto.reader import read_trace
from perfmagic.trace.model import Trace, TraceMeta, make_trace
from perfmagic.trace.window import window
from tests.trace.recorded import FOLDER, as_bytes, columns_by_name, event


@pytest.fixture
def built(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """How many frames were made rows, at each time that any were."""
    found: list[int] = []
    rows = PythonFrames._rows

    def noted(columns: dict[str, np.ndarray]) -> HostOps:
        found.append(len(columns["start_ns"]))
        return rows(columns)

    monkeypatch.setattr(PythonFrames, "_rows", staticmethod(noted))
    return found


def marked() -> Trace:
    """Frames, the last first, of a cell with marks: [30, 90), [0, 50), [20, 40), one of no length at 60."""
    return make_trace(
        ["step", "loss", "op"],
        TraceMeta("test", end_ns=100),
        host_ops={"start_ns": [5], "end_ns": [45], "kind": [HostKind.OP], "name": [2]},
        python_frames={
            "start_ns": [30, 0, 20, 60],
            "end_ns": [90, 50, 40, 60],
            "name": [1, 0, 1, 0],
            "thread": [1] * 4,
        },
        marks={"at_ns": [0, 25], "line": [2, 3], "top_line": [2, 3]},
    )


def test_opening_reporting_and_drawing_make_rows_of_those_around_launches_only(built: list[int]) -> None:
    trace = read_trace(FOLDER / "mi300_sglang_hipgraph.json.gz")  # not one that others have looked at
    report(trace)
    assert "image/svg+xml" in TimelineResult(trace)._repr_mimebundle_()["text/html"]
    launched = trace.calls.start_ns[np.unique(trace.ops.launch[trace.ops.launch >= 0])]
    assert max(built) <= len(trace.python_frames.running_at(launched)) < 821 // 4
    assert len(trace.python_frames) == 821
    assert len(trace.python_frames.table) == 821
    assert trace.python_frames.table is trace.python_frames.table
    assert [n for n in built if n > 821 // 4] == [821]


def test_the_table_is_in_order_with_the_lines_of_the_cell() -> None:
    frames = marked().python_frames.table
    assert frames.start_ns.tolist() == [0, 20, 30, 60]
    assert frames.end_ns.tolist() == [50, 40, 90, 60]
    assert (frames.name.tolist(), frames.line.tolist()) == ([0, 1, 1, 0], [2, 2, 3, 3])
    assert marked().host_ops.name.tolist() == [2]


def test_a_window_cuts_them_and_keeps_their_lines(built: list[int]) -> None:
    part = window(window(marked(), 10, 60), 35, 100)
    assert built == []
    frames = part.python_frames.table
    assert (frames.start_ns.tolist(), frames.end_ns.tolist()) == ([35, 35, 35], [40, 50, 60])
    assert frames.line.tolist() == [2, 2, 3]
    assert len(window(marked(), 60, 61).python_frames) == 2


def test_those_running_at_an_instant_and_those_of_a_name() -> None:
    frames = marked().python_frames
    assert frames.running_at(np.array([45, 90])).start_ns.tolist() == [0, 30]
    assert frames.running_at(np.array([90, 95])).start_ns.tolist() == []
    assert frames.named(np.array([False, True, False])).start_ns.tolist() == [20, 30]


@pytest.mark.parametrize("asked_before", [False, True])
def test_they_survive_pickling(asked_before: bool) -> None:
    trace = marked()
    if asked_before:
        assert len(trace.python_frames.table) == 4
    again = pickle.loads(pickle.dumps(trace))
    assert columns_by_name(again, "python_frames") == columns_by_name(marked(), "python_frames")


def test_files_hold_them_among_the_other_rows(tmp_path: Path) -> None:
    trace = marked()
    assert trace.whole_host().name.tolist() == [0, 2, 1, 1, 0]
    for path in (write_npz(trace, tmp_path / "t.npz"), write_chrome(trace, tmp_path / "t.json")):
        again = read_file(path)
        for table in ("host_ops", "python_frames"):
            assert columns_by_name(again, table) == columns_by_name(trace, table)
    with np.load(tmp_path / "t.npz") as file:
        assert file["host_ops.start_ns"].tolist() == [0, 5, 20, 30, 60]


def test_a_file_with_frames_alone_is_a_trace() -> None:
    trace = read_trace(as_bytes([event("python_function", "train.py(3): step", 5, 2, tid=1)]))
    assert (len(trace.host_ops), len(trace.python_frames)) == (0, 1)
    assert (trace.meta.start_ns, trace.meta.end_ns) == (0, 2_000)


def test_frames_that_do_not_fit_or_come_in_two_places_are_refused() -> None:
    rows = {"start_ns": [0], "end_ns": [1], "name": [0], "thread": [1]}
    with pytest.raises(ValueError, match="columns start_ns, end_ns, name, thread, line of one length"):
        make_trace(["f"], TraceMeta("test"), python_frames=rows | {"name": [0, 0]})
    with pytest.raises(ValueError, match="among host_ops and apart"):
        make_trace(["f"], TraceMeta("test"), host_ops=rows | {"kind": [HostKind.PYTHON]}, python_frames=rows)


def test_frames_that_run_in_some_time_are_cut_at_its_ends_alone() -> None:
    frames = marked().python_frames
    found = frames.reaching(np.array([[10, 15], [45, 55]]))
    assert list(zip(found.start_ns.tolist(), found.end_ns.tolist(), strict=True)) == [(10, 50), (30, 55)]
    assert len(frames.reaching(np.array([[90, 95]]))) == 0
    assert len(frames.reaching(np.zeros((0, 2), np.int64))) == 0
