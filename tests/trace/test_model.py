"""The tables and their joins."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from perfmagic.trace.columns import (
    NO_LINE,
    NONE,
    CallKind,
    DeviceOps,
    HostCalls,
    LineMarks,
    OpKind,
    UsedUp,
    launch_rows,
    layer_lines,
    lines_at,
)
from perfmagic.trace.model import Cell, DeviceInfo, TraceMeta, make_trace

ids = st.lists(st.integers(-1, 6), max_size=12)


def _calls(**columns: list[int]) -> HostCalls:
    return HostCalls.make(columns)


def test_a_table_is_sorted_filled_with_defaults_and_read_only() -> None:
    ops = DeviceOps.make(
        {"start_ns": [9, 3], "end_ns": [10, 5], "kind": [OpKind.KERNEL, OpKind.MEMCPY], "name": [0, 1]}
    )
    assert (ops.start_ns.tolist(), ops.name.tolist()) == ([3, 9], [1, 0])
    assert (ops.size_bytes.tolist(), ops.line.tolist(), ops.device.tolist()) == ([NONE] * 2, [NO_LINE] * 2, [0, 0])
    assert ops.name.dtype == np.int32
    with pytest.raises(ValueError, match="read-only"):
        ops.start_ns[0] = 1


def test_rows_of_one_start_keep_the_order_of_their_ends_and_then_of_the_input() -> None:
    ops = DeviceOps.make({"start_ns": [1, 1, 1], "end_ns": [5, 2, 2], "kind": [0, 0, 0], "name": [0, 1, 2]})
    assert ops.name.tolist() == [1, 2, 0]


@pytest.mark.parametrize(
    ("columns", "words"),
    [
        ({"start_ns": [1], "end_ns": [1, 2], "kind": [0], "name": [0]}, "shape"),
        ({"start_ns": [1], "end_ns": [2], "kind": [0]}, "needs the column name"),
        ({"start_ns": [1], "end_ns": [2], "kind": [0], "name": [0], "colour": [1]}, "no column colour"),
    ],
)
def test_columns_that_do_not_fit_are_refused(columns: dict[str, list[int]], words: str) -> None:
    with pytest.raises(ValueError, match=words):
        DeviceOps.make(columns)


def test_a_column_of_one_value_takes_no_memory_for_each_row() -> None:
    n = 5000
    given = {"start_ns": np.arange(n)[::-1], "end_ns": np.arange(n)[::-1] + 1, "kind": np.zeros(n), "name": np.ones(n)}
    ops = DeviceOps.make(given)
    assert ops.start_ns.tolist() == list(range(n))
    assert ops.name.strides == ops.size_bytes.strides == (0,)
    some = ops.select(np.arange(len(ops)) % 2 == 0)
    assert (some.name.strides, some.name.shape) == ((0,), some.start_ns.shape)
    assert ops.name.dtype == np.int32
    assert (ops.name.tolist(), ops.size_bytes.tolist()) == ([1] * n, [NONE] * n)
    assert not ops.name.flags.writeable
    assert len(given) == 4


@pytest.mark.parametrize(("most", "dtype"), [(2**31 - 1, np.int32), (2**31, np.int64)])
def test_numbers_of_threads_take_32_bits_where_all_of_them_fit(most: int, dtype: type) -> None:
    threads = [most, -(2**31)]
    calls = _calls(start_ns=[1, 2], end_ns=[2, 3], kind=[0, 0], name=[0, 0], thread=threads)
    assert (calls.thread.dtype, calls.thread.tolist()) == (dtype, threads)
    assert calls.start_ns.dtype == np.int64


def test_a_table_uses_up_columns_that_are_given_to_it() -> None:
    given = UsedUp({"start_ns": [1], "end_ns": [2], "kind": [0], "name": [3]})
    assert DeviceOps.make(given).name.tolist() == [3]
    assert not given


def test_a_table_without_rows_has_all_its_columns() -> None:
    assert len(DeviceOps.make()) == 0
    assert DeviceOps.make().start_ns.dtype == np.int64


def test_taken_rows_keep_every_column() -> None:
    calls = _calls(start_ns=[1, 2, 3], end_ns=[2, 3, 4], kind=[0, 1, 2], name=[5, 6, 7])
    part = calls.select(np.array([True, False, True]))
    assert {name: column.tolist() for name, column in part.to_dict().items()}["name"] == [5, 7]


@settings(deadline=None)
@given(ids, ids, st.data())
def test_an_op_finds_the_first_launch_with_its_id_or_else_the_first_call(
    ops: list[int], calls: list[int], data: st.DataObject
) -> None:
    kinds = data.draw(st.lists(st.sampled_from([0, 0, 1, 5]), min_size=len(calls), max_size=len(calls)))
    found = launch_rows(np.array(ops, np.int64), np.array(calls, np.int64), np.array(kinds, np.int64))
    assert found.tolist() == [_first(op, calls, kinds) for op in ops]


def _first(op: int, calls: list[int], kinds: list[int]) -> int:
    same = [row for row, call in enumerate(calls) if call == op != NONE]
    launches = [row for row in same if kinds[row] == CallKind.LAUNCH]
    return (launches or same or [NONE])[0]


def test_the_line_is_that_of_the_last_mark_before() -> None:
    marks = LineMarks.make({"at_ns": [10, 20, 30], "line": [3, 5, 0], "top_line": [3, 4, 0]})
    at = np.array([9, 10, 19, 20, 35], np.int64)
    assert lines_at(marks, at).tolist() == [NO_LINE, 3, 3, 5, 0]
    assert lines_at(LineMarks.make(), at).tolist() == [NO_LINE] * 5


def test_a_trace_joins_ops_to_launches_and_launches_to_lines() -> None:
    trace = make_trace(
        ["a"],
        TraceMeta("test"),
        ops={"start_ns": [50, 40], "end_ns": [60, 50], "kind": [0, 0], "name": [0, 0], "correlation": [7, 8]},
        calls={"start_ns": [12], "end_ns": [14], "kind": [0], "name": [0], "correlation": [7]},
        marks={"at_ns": [10], "line": [2], "top_line": [2]},
    )
    assert (trace.ops.launch.tolist(), trace.ops.line.tolist()) == ([NONE, 0], [NO_LINE, 2])
    assert (trace.launch_start_ns().tolist(), trace.launch_end_ns().tolist()) == ([40, 12], [40, 14])
    assert trace.device_ids == (0,)
    assert trace.device_info(3).name == "device 3"


def test_a_simulated_device_always_says_so() -> None:
    assert DeviceInfo(0, "sim", "sim", "2 ms an op").label == "simulated device, 2 ms an op"
    assert DeviceInfo(0, "sim", "sim").label == "simulated device"
    assert DeviceInfo(0, "cuda", "NVIDIA H200").label == "NVIDIA H200"


def test_a_cell_gives_the_text_of_its_lines() -> None:
    cell = Cell("%%timeline\n  x = 1\n")
    assert (cell.text(2), cell.text(0), cell.text(9)) == ("x = 1", "", "")


def test_a_block_passed_once_is_shown_line_by_line_and_a_loop_as_one() -> None:
    marks = LineMarks.make(
        {
            "at_ns": list(range(11)),
            "line": [2, 3, 4, 5, 6, 7, 6, 7, 6, 9, 0],
            "top_line": [2, 2, 2, 5, 5, 5, 5, 5, 5, 9, 0],
        }
    )
    assert layer_lines(marks).tolist() == [2, 3, 4, 5, 5, 5, 5, 5, 5, 9, 0]
    assert layer_lines(LineMarks.make()).tolist() == []


def test_a_loop_of_one_statement_is_shown_by_the_line_that_findings_name() -> None:
    marks = LineMarks.make({"at_ns": list(range(6)), "line": [3, 4, 3, 4, 3, 0], "top_line": [3, 3, 3, 3, 3, 0]})
    assert layer_lines(marks).tolist() == [4, 4, 4, 4, 4, 0]
    assert lines_at(marks, np.array([1, 3])).tolist() == [4, 4]


def test_lines_that_begin_at_one_instant_keep_their_order() -> None:
    """As a loop comes back to its first line where no virtual time passes."""
    marks = LineMarks.make({"at_ns": [0, 5, 5, 9], "line": [4, 5, 2, 0], "top_line": [1, 1, 1, 0]})
    assert marks.line.tolist() == [4, 5, 2, 0]
