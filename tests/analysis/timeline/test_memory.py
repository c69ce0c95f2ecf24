"""The memory of a device: its curve, its peak and the line that was running then."""

from perfmagic.analysis.timeline.activity import memory_curve
from perfmagic.trace.columns import OpKind
from perfmagic.trace.model import Trace, TraceMeta, make_trace


def _trace(values: list[int]) -> Trace:
    n = len(values)
    return make_trace(
        ("mm", "Total Allocated", "Total Reserved", "power"),
        TraceMeta("cell", end_ns=1000),
        ops={"start_ns": [10], "end_ns": [900], "kind": [OpKind.KERNEL], "name": [0]},
        counters={
            "at_ns": [100 * i for i in range(n)] * 2 + [5],
            "series": [1] * n + [2] * n + [3],
            "value": [*values, *(v + 50 for v in values), 300.0],
        },
        marks={"at_ns": [0, 150, 250, 950], "line": [2, 3, 4, 0], "top_line": [2, 3, 4, 0]},
    )


def test_the_peak_has_its_moment_and_its_line() -> None:
    curve = memory_curve(_trace([0, 40, 900, 30]), 0)
    assert (curve.peak_bytes, curve.peak_at_ns, curve.peak_line, curve.reserved_max_bytes) == (900, 200, 3, 950)
    assert curve.allocated_bytes.tolist() == [0, 40, 900, 30]


def test_without_a_record_there_is_no_curve() -> None:
    assert memory_curve(_trace([]), 0) is None
    assert memory_curve(_trace([7]), 0) is None
    assert memory_curve(_trace([1, 2, 3]), 1) is None
