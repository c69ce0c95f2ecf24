"""Files that are no trace, or traces that nobody expects: one error that says what they are, or a picture in time."""

import gzip
import json
import pickle
from pathlib import Path

import pytest

import perfmagic
from perfmagic.base.errors import TraceError
from perfmagic.results import TimelineResult
from perfmagic.trace.kineto.reader import read_trace
from perfmagic.view.timeline.trace_lanes import MAX_LANES
from tests.trace.recorded import as_bytes, event

pytestmark = pytest.mark.slow


def _write(path: Path, content: bytes) -> Path:
    path.write_bytes(content)
    return path


def test_a_notebook_is_told_from_a_trace(tmp_path: Path) -> None:
    import nbformat  # takes a second

    path = tmp_path / "lesson.ipynb"
    nbformat.write(nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell("1 + 1")]), str(path))
    with pytest.raises(TraceError, match="no traceEvents; it holds cells"):
        perfmagic.open_trace(path)


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (b"NVSQ\x00\x01" + bytes(100), "an Nsight Systems report"),
        (b"SQLite format 3\x00" + bytes(100), r"run\.json is damaged: file is not a database"),
        (gzip.compress(b"SQLite format 3\x00" + bytes(100)), "a packed SQLite database"),
        (pickle.dumps({"segments": [], "device_traces": []}), "a Python pickle"),
        (b"\x7fELF" + bytes(100), "not JSON"),
        (b"<!DOCTYPE html><html></html>", "not JSON"),
        (b"ts,dur,name\n1,2,k\n", "not JSON"),
        (b"null", "not JSON"),
        (b"[]", "holds no events at all"),
        (b"[1, 2, 3]", "holds no events at all"),
        (b'{"traceEvents": {}}', "traceEvents are not a list"),
        (b'{"traceEvents": null}', "traceEvents are not a list"),
        (b" \n\t ", "not JSON"),
        (b'{"name": "lab", "dependencies": {"react": "^18"}}', r"run\.json has no traceEvents; it holds name, depen"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_other_files_are_told_by_what_they_are(tmp_path: Path, content: bytes, words: str) -> None:
    with pytest.raises(TraceError, match=words) as caught:
        perfmagic.open_trace(_write(tmp_path / "run.json", content))
    assert caught.value.hint


def test_a_file_that_cannot_be_read_at_all_is_one_error(tmp_path: Path) -> None:
    loop = tmp_path / "loop.json"
    loop.symlink_to(loop)
    with pytest.raises(TraceError, match=r"loop\.json cannot be read"):
        perfmagic.open_trace(loop)


def test_arguments_that_nest_without_end_are_one_error_or_left_out() -> None:
    deep = b"[" * 50_000 + b"]" * 50_000
    row = b'{"ph": "X", "cat": "kernel", "name": "k", "ts": 1, "dur": 1, "args": {"x": ' + deep + b"}}"
    with pytest.raises(TraceError, match="nests too deep"):
        read_trace(b'{"traceEvents": [' + row + b"]}")


def test_two_hundred_thousand_streams_are_analysed_and_their_lanes_counted() -> None:
    n = 200_000
    rows = [event("kernel", "k", 10 * i, 5, tid=i, stream=i, device=0, correlation=i) for i in range(n)]
    result = TimelineResult(read_trace(as_bytes(rows)))
    group = result.doc.groups[0]
    assert (len(group.streams), group.n_folded, group.folded_ops) == (MAX_LANES, n - MAX_LANES, n - MAX_LANES)
    assert len(result.to_dict()["devices"]["0"]["streams"]) == n
    assert "200,000 streams" in result._repr_mimebundle_()["text/plain"]
    assert "199,992 more streams" in result.text(details=True)


def test_a_name_of_a_megabyte_does_not_become_one_of_the_picture() -> None:
    rows = [event("kernel", "k" * 1_000_000, 0, 5, device=0, stream=7), event("cuda_runtime", "cudaLaunchKernel", 0, 1)]
    result = TimelineResult(read_trace(as_bytes(rows)))
    assert len(result._repr_mimebundle_()["text/html"]) < 80_000
    assert len(json.dumps(result.to_dict())) < 4_000_000  # which has names whole, in three tables
