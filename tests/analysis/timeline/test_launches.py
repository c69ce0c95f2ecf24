import pytest

from perfmagic.analysis.timeline.activity import blocked_intervals, syncs
from perfmagic.analysis.timeline.queueing import SHORT_GAP_NS, launch_bound
from perfmagic.trace.columns import NONE
from perfmagic.trace.model import Trace
from tests.analysis.build import US, Builder
from tests.trace.recorded import recorded


def one_by_one(b: Builder, n: int, start: float = 0, *, period: float = 20, length: float = 8) -> float:
    """n ops of a length, each launched 4 µs before it starts, when the one before has ended; gives the last end."""
    for i in range(n):
        at = start + period * i
        b.op(at, at + length, launch=(at - 4, at - 2))
    return start + period * (n - 1) + length


def test_a_stretch_of_late_launches_has_its_ops_and_what_was_lost_between_them() -> None:
    b = Builder()
    end = one_by_one(b, 12, start=100)
    (stretch,) = launch_bound(b.trace(), 0)
    assert (stretch.start_ns, stretch.end_ns, stretch.n_ops) == (100 * US, end * US, 12)
    assert (stretch.busy_ns, stretch.lost_ns) == (12 * 8 * US, 11 * 12 * US)
    assert stretch.lost_frac == pytest.approx(132 / 228)


def test_an_op_launched_before_the_one_before_it_ended_ends_a_stretch() -> None:
    b = Builder()
    end = one_by_one(b, 11)
    b.op(end + 5, end + 8, launch=end - 1)
    one_by_one(b, 10, start=end + 30)
    first, second = launch_bound(b.trace(), 0)
    assert (first.n_ops, first.end_ns) == (11, end * US)
    assert (second.n_ops, second.start_ns) == (11, (end + 5) * US)


def test_a_gap_of_200_us_ends_a_stretch_and_fewer_than_ten_ops_are_none() -> None:
    b = Builder()
    end = one_by_one(b, 9)
    one_by_one(b, 9, start=end + 200)
    assert launch_bound(b.trace(), 0) == ()
    c = Builder()
    one_by_one(c, 9)
    one_by_one(c, 9, start=end + 199)
    assert [s.n_ops for s in launch_bound(c.trace(), 0)] == [18]


def test_a_host_that_waits_for_the_device_at_every_op_is_not_bound_by_launches() -> None:
    b = Builder()
    one_by_one(b, 12)
    for i in range(12):
        b.sync(20 * i, 20 * i + 15)
    assert launch_bound(b.trace(), 0) == ()


def test_a_device_that_is_kept_fed_is_not_bound_by_launches() -> None:
    b = Builder()
    for i in range(20):
        b.op(100 + 10 * i, 108 + 10 * i, launch=i)
    assert launch_bound(b.trace(), 0) == ()
    assert launch_bound(b.trace(), 3) == ()


def test_an_op_of_another_stream_underneath_ends_a_stretch() -> None:
    b = Builder()
    one_by_one(b, 12)
    b.op(-50, 300, launch=-60, stream=8)
    assert launch_bound(b.trace(), 0) == ()


@pytest.mark.parametrize(("name", "n"), [("a100_alexnet_cuda_sync", 11), ("gp100_gpu_user_annotation", 2)])
def test_the_stretches_of_a_recorded_trace_are_those_found_op_by_op(name: str, n: int) -> None:
    trace = recorded(name)
    found = launch_bound(trace, trace.device_ids[0], least_ops=2)
    assert [(s.n_ops, s.start_ns, s.end_ns, s.lost_ns) for s in found] == op_by_op(trace)
    assert len(found) == n


def op_by_op(trace: Trace) -> list[tuple[int, int, int, int]]:
    """(ops, start, end, gaps) of every stretch of two ops or more, on a trace of one device."""
    ops, calls, blocked = trace.ops, trace.calls, blocked_intervals(syncs(trace))
    found: list[list[int]] = []
    free = None
    for start, end, launch in zip(ops.start_ns.tolist(), ops.end_ns.tolist(), ops.launch.tolist(), strict=True):
        launched = int(calls.start_ns[launch]) if launch != NONE else -1
        if free is not None and free <= launched and 0 < start - free < SHORT_GAP_NS:
            held = sum(max(0, min(b, launched) - max(a, free)) for a, b in blocked.tolist())
            if 2 * held <= launched - free:
                n, first, _, lost = found[-1]
                found[-1] = [n + 1, first, end, lost + start - free]
                free = end
                continue
        free = end if free is None else max(free, end)
        found.append([1, start, free, 0])
    return [(n, first, last, lost) for n, first, last, lost in found if n > 1]
