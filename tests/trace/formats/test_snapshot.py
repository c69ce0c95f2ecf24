"""Snapshots of CUDA's allocator: blocks, lines, the peak; and no code of a file ever runs."""

import os
import pickle
from pathlib import Path
from typing import Any

import pytest

import perfmagic
from perfmagic.base.errors import TraceError
from perfmagic.results import MemoryResult
from perfmagic.trace.formats.plain_pickle import plain_pickle
from tests.damaged.mutants import little_memory

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
    assert not [reason for reason in reasons if "temporary" in reason or "earlier iteration" in reason]
    assert "cell" not in opened.sentence


def test_a_name_of_many_letters_takes_linear_work(tmp_path: Path) -> None:
    snapshot = _snapshot()
    long = {"filename": "a.py", "line": 3, "name": 200_000 * "x"}  # quadratic work would take minutes
    snapshot["device_traces"][0].append(_entry("alloc", 7, 10 * MB, 1008, [long]))
    file = tmp_path / "snapshot.pickle"
    file.write_bytes(pickle.dumps(snapshot))
    assert perfmagic.open_snapshot(file).text()


def test_it_is_drawn_and_printed(opened: MemoryResult) -> None:
    assert "line 9 of forward" in opened.text(details=True)
    assert "kept for the backward" in opened.svg()


# opcodes that call, or look something up outside of the file
_CALLS = {
    b"R": "REDUCE",
    b"b": "BUILD",
    b"o": "OBJ",
    b"\x81": "NEWOBJ",
    b"\x92": "NEWOBJ_EX",
    b"\x82\x01": "EXT1",
    b"\x83\x01\x00": "EXT2",
    b"\x84\x01\x00\x00\x00": "EXT4",
    b"Pid\n": "PERSID",
    b"Q": "BINPERSID",
    b"\x97": "NEXT_BUFFER",
}


class _Hostile:
    def __reduce__(self) -> tuple[Any, ...]:
        return os.system, ("touch hostile",)


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (pickle.dumps({"segments": [_Hostile()], "device_traces": []}), "holds plain data"),
        (pickle.dumps({"other": 1}), "is a pickle, but not a snapshot"),
        (b"{}", "is not a snapshot of CUDA's memory"),
        (pickle.dumps({"segments": [], "device_traces": []}), "has no blocks"),
        (pickle.dumps({"segments": [], "device_traces": [[{"action": "alloc"}]]}), "differs from a snapshot of torch"),
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


def _nested(depth: int) -> bytes:
    """A tuple in a tuple in a tuple, as the key of a dictionary: to hash it takes a frame of the stack for each."""
    return b"}" + b")" + b"\x85" * depth + b"K\x01s."


@pytest.mark.slow
@pytest.mark.parametrize(
    ("content", "words"),
    [
        (bytes.fromhex("80044e72ffffff072e"), "LONG_BINPUT at byte 3"),  # a memo of 2.1 GB
        (b"N" + b"p99999999999\n.", "PUT at byte 1"),
        (b"]" * 200_000 + b"a" * 199_999 + b".", "is a pickle, but not a snapshot"),
        (_nested(1_000_000), "TUPLE1 at byte 2"),
        (b"\x96" + b"\xff" * 7 + b"\x7f.", "BYTEARRAY8 at byte 0"),
        (b"X\xff\xff\xff\x7fabc.", "BINUNICODE at byte 0"),
        (b"cos\nsystem\n(X\x0d\x00\x00\x00touch hostiletR.", "GLOBAL at byte 0"),
        (b"\x8c\x02os\x8c\x06system\x93\x8c\x0dtouch hostile\x85R.", "STACK_GLOBAL at byte 12"),
        (b"(X\x0d\x00\x00\x00touch hostileios\nsystem\n.", "INST at byte 19"),
        *((b"NN" + code + b".", f"{name} at byte 2") for code, name in _CALLS.items()),
        (b"I" + b"9" * 5000 + b"\n.", "is not a snapshot"),
        (b"]" * 10, "the end of the file at byte 10"),
    ],
)
def test_a_pickle_that_is_a_program_is_refused_before_it_runs(
    content: bytes, words: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("x.pickle").write_bytes(content)
    with little_memory(), pytest.raises(TraceError, match=words):
        perfmagic.open_snapshot("x.pickle")
    assert not Path("hostile").exists()


@pytest.mark.parametrize("protocol", range(6))
def test_plain_data_of_every_protocol_comes_back(protocol: int) -> None:
    number = {"i": [0, 255, 256, -1, 2**31, 2**70], "f": [1.5, -0.0], "t": (0, 2**20), "u": (1, 2, 3, 4), "n": (None,)}
    value = {**number, "s": ["", "日本語", "x" * 300], "b": [True, False], "many": list(range(9999))}
    assert plain_pickle(pickle.dumps([value, value], protocol=protocol)) == [value, value]


def test_lists_that_are_shared_do_not_make_a_small_file_large(tmp_path: Path) -> None:
    entries = [_entry("alloc", 3, MB, 1000, FORWARD)] * 20_000
    (tmp_path / "x.pickle").write_bytes(pickle.dumps({"segments": [], "device_traces": [entries] * 20_000}))
    with pytest.raises(TraceError, match="400,000,000 rows, more than fit in the file"):
        perfmagic.open_snapshot(tmp_path / "x.pickle")


@pytest.mark.parametrize("size", [-1, 2**62, "1", None])
def test_a_size_that_cannot_be_is_refused(size: Any, tmp_path: Path) -> None:
    (tmp_path / "x.pickle").write_bytes(
        pickle.dumps({"segments": [], "device_traces": [[_entry("alloc", 3, size, 1000, FORWARD)]]})
    )
    with pytest.raises(TraceError, match="size"):
        perfmagic.open_snapshot(tmp_path / "x.pickle")


def test_an_absent_file_is_told(tmp_path: Path) -> None:
    with pytest.raises(TraceError, match="cannot be read"):
        perfmagic.open_snapshot(tmp_path / "none.pickle")
