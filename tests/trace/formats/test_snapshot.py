"""Snapshots of CUDA's allocator: blocks, lines, the peak; and no code of a file ever runs."""

from __future__ import annotations

import os
import pickle
from pathlib import Path
from typing import Any

import pytest

import perfmagic
from perfmagic.errors import TraceError
from perfmagic.results import MemoryResult

MB = 2**20
TRAIN, MODEL = "/home/me/train.py", "/home/me/model.py"
TORCH = {"filename": "/env/lib/python3.11/site-packages/torch/nn/modules/module.py", "line": 1, "name": "_call_impl"}
CPP = {"filename": "??", "line": 0, "name": "c10::cuda::CUDACachingAllocator::malloc"}


def _at(*places: tuple[str, int, str]) -> list[dict[str, Any]]:
    """A stack, innermost first, with torch's frames between."""
    return [CPP, TORCH, *({"filename": file, "line": line, "name": name} for file, line, name in places), TORCH]


FORWARD = _at((MODEL, 9, "forward"), (TRAIN, 20, "step"), (TRAIN, 40, "<module>"))
STEP = _at((TRAIN, 21, "step"), (TRAIN, 40, "<module>"))
NODE = [CPP, {"filename": "??", "line": 0, "name": "torch::autograd::generated::ReluBackward0::apply"}]


def _entry(action: str, address: int, size: int, at_us: int, frames: list[dict[str, Any]]) -> dict[str, Any]:
    return {"action": action, "addr": address, "size": size, "stream": 0, "time_us": at_us, "frames": frames}


def _snapshot() -> dict[str, Any]:
    """100 MB from before, of which 40 come back; 300 kept for a backward, 200 made in it, 50 that stay."""
    blocks = [
        {"address": 1, "size": 60 * MB, "state": "active_allocated", "frames": []},
        {"address": 5, "size": 50 * MB, "state": "active_allocated", "frames": []},
        {"address": 9, "size": 900 * MB, "state": "inactive", "frames": []},
    ]
    entries = [
        _entry("segment_alloc", 0, 2**30, 1000, []),
        _entry("alloc", 3, 300 * MB, 1000, FORWARD),
        _entry("free_requested", 2, 40 * MB, 1001, STEP),
        _entry("free_completed", 2, 40 * MB, 1001, STEP),
        _entry("alloc", 4, 200 * MB, 1002, NODE),
        _entry("free_requested", 3, 300 * MB, 1003, NODE),
        _entry("free_completed", 3, 300 * MB, 1003, NODE),
        _entry("alloc", 5, 50 * MB, 1004, STEP),
        _entry("free_completed", 4, 200 * MB, 1005, STEP),
        _entry("alloc", 3, 10 * MB, 1006, STEP),
        _entry("free_completed", 3, 10 * MB, 1007, STEP),
    ]
    segments = [{"device": 0, "address": 0, "total_size": 2**30, "blocks": blocks}]
    return {"segments": segments, "device_traces": [entries, []]}


@pytest.fixture
def opened(tmp_path: Path) -> MemoryResult:
    file = tmp_path / "snapshot.pickle"
    file.write_bytes(pickle.dumps(_snapshot()))
    return perfmagic.open_snapshot(file)


def test_the_peak_is_the_sum_of_what_was_there(opened: MemoryResult) -> None:
    assert opened.start_bytes == 100 * MB
    assert opened.peak_bytes == (60 + 300 + 200) * MB
    assert sum(row.size_bytes for row in opened.at_peak()) == opened.peak_bytes
    assert sum(row.size_bytes for row in opened.after()) == (60 + 50) * MB


def test_blocks_are_told_by_the_users_lines_and_the_nodes_they_came_back_in(opened: MemoryResult) -> None:
    rows = {(row.line, row.function, row.reason): row.size_bytes // MB for row in opened.at_peak()}
    assert rows == {
        (9, "forward", "kept for the backward pass"): 300,
        (0, "", "backward pass"): 200,
        (0, "", "before the record"): 60,
    }
    assert {(row.line, row.function): row.reason for row in opened.after() if row.line} == {
        (21, "step"): "alive at the end"
    }


def test_nothing_is_said_that_a_snapshot_does_not_say(opened: MemoryResult) -> None:
    reasons = {row.reason for row in opened.blocks()}
    assert not [reason for reason in reasons if "temporary" in reason or "earlier round" in reason]
    assert "cell" not in opened.sentence


def test_it_is_drawn_and_printed(opened: MemoryResult) -> None:
    assert "line 9 of forward" in opened.text()
    assert "kept for the backward" in opened.svg()


class _Hostile:
    def __reduce__(self) -> tuple[Any, ...]:
        return os.system, ("touch hostile",)


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (pickle.dumps({"segments": [_Hostile()], "device_traces": []}), "holds plain data"),
        (pickle.dumps({"other": 1}), "is a pickle, and no snapshot"),
        (b"{}", "is no snapshot of CUDA's memory"),
        (pickle.dumps({"segments": [], "device_traces": []}), "holds no block"),
        (pickle.dumps({"segments": [], "device_traces": [[{"action": "alloc"}]]}), "not as torch writes"),
    ],
)
def test_other_files_are_refused_and_nothing_runs(
    content: bytes, words: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("x.pickle").write_bytes(content)
    with pytest.raises(TraceError, match=words):
        perfmagic.open_snapshot("x.pickle")
    assert not Path("hostile").exists()


def test_an_absent_file_is_told(tmp_path: Path) -> None:
    with pytest.raises(TraceError, match="cannot be read"):
        perfmagic.open_snapshot(tmp_path / "none.pickle")
