"""A part of a trace in time is a trace with the same joins."""

import numpy as np
import pytest

from perfmagic.base.errors import OptionError
from perfmagic.base.numerics.intervals import clip, total_ns, union
from perfmagic.trace.columns import NONE, CallKind
from perfmagic.trace.model import Trace, TraceMeta, make_trace
from perfmagic.trace.window import window
from tests.trace.recorded import recorded


def _trace() -> Trace:
    """Launches at 0, 10, 20 of ops [5, 30), [30, 60), [60, 90); a sync from 25 to 95."""
    return make_trace(
        ["launch", "op", "sync", "memory"],
        TraceMeta("test", end_ns=100),
        calls={
            "start_ns": [0, 10, 20, 25],
            "end_ns": [4, 14, 24, 95],
            "kind": [CallKind.LAUNCH] * 3 + [CallKind.SYNC],
            "name": [0, 0, 0, 2],
            "correlation": [1, 2, 3, 4],
        },
        ops={
            "start_ns": [5, 30, 60],
            "end_ns": [30, 60, 90],
            "kind": [0] * 3,
            "name": [1] * 3,
            "correlation": [1, 2, 3],
        },
        host_ops={"start_ns": [0, 50], "end_ns": [40, 80], "kind": [0, 0], "name": [1, 1]},
        waits={"at_ns": [5, 80], "stream": [0, 0], "on_stream": [1, 1]},
        counters={"at_ns": [1, 2, 55, 80], "series": [3] * 4, "value": [1.0, 2.0, 3.0, 4.0]},
        marks={"at_ns": [0, 10, 20], "line": [2, 3, 4], "top_line": [2, 3, 4]},
    )


def test_ops_and_host_rows_are_cut_at_the_ends() -> None:
    part = window(_trace(), 40, 70)
    assert (part.ops.start_ns.tolist(), part.ops.end_ns.tolist()) == ([40, 60], [60, 70])
    assert (part.host_ops.start_ns.tolist(), part.host_ops.end_ns.tolist()) == ([50], [70])
    assert (part.meta.start_ns, part.meta.end_ns) == (40, 70)


def test_ops_keep_their_launch_whole_and_their_line() -> None:
    part = window(_trace(), 40, 70)
    assert part.launch_start_ns().tolist() == [10, 20]
    assert part.ops.line.tolist() == [3, 4]
    assert part.calls.start_ns.tolist() == [10, 20, 40]
    assert part.calls.end_ns.tolist() == [14, 24, 70]


def test_a_row_that_only_touches_the_window_is_outside() -> None:
    part = window(_trace(), 30, 60)
    assert part.ops.start_ns.tolist() == [30]


def test_counters_start_with_the_value_they_had() -> None:
    part = window(_trace(), 40, 70)
    assert (part.counters.at_ns.tolist(), part.counters.value.tolist()) == ([40, 55], [2.0, 3.0])


def test_waits_asked_for_before_the_end_stay() -> None:
    assert window(_trace(), 40, 70).waits.at_ns.tolist() == [5]


def test_an_empty_window_is_refused() -> None:
    with pytest.raises(OptionError, match="not after its start"):
        window(_trace(), 5, 5)


@pytest.mark.parametrize("name", ["v100_4streams_nccl_step", "mi300_sglang_hipgraph"])
def test_a_window_of_a_recording_is_as_busy_as_the_recording_there(name: str) -> None:
    trace = recorded(name)
    middle = (int(trace.ops.start_ns[0]) + int(trace.ops.end_ns[-1])) // 2
    ends = (middle - 3_000_001, middle + 2_500_007)
    part = window(trace, *ends)
    expected = clip(union(trace.ops.start_ns, trace.ops.end_ns), *ends)
    assert total_ns(union(part.ops.start_ns, part.ops.end_ns)) == total_ns(expected)
    matched = part.ops.launch != NONE
    assert np.array_equal(part.calls.correlation[part.ops.launch[matched]], part.ops.correlation[matched])
