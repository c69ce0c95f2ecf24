import numpy as np
import pytest

from perfmagic.analysis.timeline.activity import orphans, streams
from perfmagic.analysis.timeline.queueing import delays, launches_queued_at, queues, stream_queue
from tests.analysis.build import US, Builder, queued
from tests.trace.recorded import recorded


def test_an_op_is_queued_from_its_launch_to_its_start() -> None:
    queue = stream_queue(queued((10, 30, 0), (30, 40, 5)).trace(), 0, 7)
    assert queue.depth_ops.max == 2
    # one op over [0, 5), two over [5, 10), one over [10, 30)
    assert queue.depth_ops.mean == pytest.approx((5 + 10 + 20) / 30)


def test_an_op_that_starts_as_another_is_queued_has_left_the_queue() -> None:
    b = queued((10, 30, 0), (30, 40, 10))
    assert stream_queue(b.trace(), 0, 7).depth_ops.max == 1
    assert [queue.ops_max for queue in queues(b.trace(), 0)] == [1]


def test_of_an_op_launched_before_the_record_the_run_ahead_is_a_least() -> None:
    b = Builder()
    b.op(10, 90)
    b.op(90, 100, launch=15)
    trace = b.trace(start=5)
    alone, (stat,) = stream_queue(trace, 0, 7), queues(trace, 0)
    assert (alone.run_ahead_max_ns, alone.run_ahead_at_least) == (85 * US, True)
    assert (stat.run_ahead_max_ns, stat.run_ahead_at_least) == (85 * US, True)
    b.op(100, 200, launch=20)
    assert [(q.run_ahead_max_ns, q.run_ahead_at_least) for q in queues(b.trace(start=5), 0)] == [(180 * US, False)]


def test_in_flight_counts_an_op_until_it_ends() -> None:
    b = queued((10, 30, 0), (30, 40, 5))
    assert stream_queue(b.trace(), 0, 7).in_flight.mean == pytest.approx((30 + 35) / 40)


def test_a_graph_launch_is_many_ops_and_one_launch() -> None:
    b = Builder()
    graph = b.launch(0, 3, name="cudaGraphLaunch")
    for i in range(5):
        b.op(10 + i, 11 + i, of=graph)
    queue = stream_queue(b.trace(), 0, 7)
    assert queue.depth_ops.max == 5
    assert queue.depth_launches.max == 1
    assert queue.depth_launches.times_ns.tolist() == [0, 10 * US]


def test_an_orphan_is_queued_from_the_start_of_the_window() -> None:
    b = Builder()
    b.op(10, 20)
    b.op(20, 30, launch=15)
    trace = b.trace(start=5)
    assert orphans(trace).tolist() == [True, False]
    queue = stream_queue(trace, 0, 7)
    assert queue.n_orphans == 1
    assert queue.depth_ops.times_ns[0] == 5 * US


def test_an_op_without_a_launch_after_a_matched_one_is_no_orphan_and_not_in_the_queue() -> None:
    b = queued((10, 20, 0))
    b.op(20, 30)
    trace = b.trace()
    assert orphans(trace).tolist() == [False, False]
    assert len(stream_queue(trace, 0, 7).depth_ops.values) == 2


def test_on_a_stream_without_launches_the_first_matched_op_of_the_device_decides() -> None:
    b = Builder()
    b.op(10, 20, stream=8)
    b.op(12, 20, launch=11, stream=7)
    b.op(30, 40, stream=8)
    assert orphans(b.trace()).tolist() == [True, False, False]


def test_run_ahead_is_the_longest_time_since_the_launch_of_a_running_op() -> None:
    assert stream_queue(queued((10, 30, 0), (30, 45, 5)).trace(), 0, 7).run_ahead_max_ns == 40 * US


def test_python_is_not_ahead_of_a_copy_that_holds_it() -> None:
    b = Builder()
    b.op(20, 900, launch=(10, 890), name="Memcpy HtoD (Pageable -> Device)")
    trace = b.trace()
    assert stream_queue(trace, 0, 7).run_ahead_max_ns == 10 * US
    assert [queue.run_ahead_max_ns for queue in queues(trace, 0)] == [10 * US]


def test_a_stream_without_ops_has_an_empty_queue() -> None:
    queue = stream_queue(Builder().trace(), 0, 7)
    assert (queue.depth_ops.max, queue.depth_ops.mean, queue.run_ahead_max_ns) == (0, 0.0, 0)


def test_the_queued_time_is_split_into_call_stream_and_waiting() -> None:
    found = delays(queued((10, 30, (0, 4)), (33, 40, (5, 8))).trace())
    assert found.in_call_ns.tolist() == [4 * US, 3 * US]
    assert found.behind_ns.tolist() == [0, 22 * US]
    assert found.waiting_ns.tolist() == [6 * US, 3 * US]
    assert found.queued_ns.tolist() == [10 * US, 28 * US]
    assert found.sums_ns() == {"in_call_ns": 7 * US, "behind_ns": 22 * US, "waiting_ns": 9 * US}


def test_a_call_that_returns_after_the_start_counts_until_the_start() -> None:
    found = delays(queued((3, 30, (0, 9))).trace())
    assert (found.in_call_ns[0], found.behind_ns[0], found.waiting_ns[0]) == (3 * US, 0, 0)


def test_another_stream_is_not_in_the_way() -> None:
    b = Builder()
    b.op(0, 50, launch=(0, 1), stream=8)
    b.op(40, 50, launch=(2, 3), stream=7)
    assert delays(b.trace()).behind_ns.tolist() == [0, 0]


def test_ops_without_a_launch_or_before_it_have_no_queued_time() -> None:
    b = Builder()
    b.op(5, 6)
    b.op(10, 20, launch=15)
    assert delays(b.trace()).queued_ns.tolist() == [0, 0]


def test_streams_come_busiest_first_with_their_overlaps() -> None:
    b = Builder()
    b.op(0, 10, launch=0, stream=7)
    b.op(20, 60, launch=0, stream=9)
    b.op(50, 70, launch=0, stream=9)
    b.op(70, 70, launch=0, stream=9)
    first, second = streams(b.trace(), 0)
    assert (first.stream, first.n_ops, first.busy_ns, first.n_overlaps, first.n_zero_durations) == (9, 3, 50 * US, 1, 1)
    assert first.busy_frac == pytest.approx(5 / 7)
    assert (second.stream, second.busy_ns, second.n_overlaps) == (7, 10 * US, 0)


@pytest.mark.parametrize("name", ["v100_4streams_nccl_step", "mi300_sglang_hipgraph", "a100_event_sync_3streams"])
def test_all_queues_at_once_are_those_of_each_stream(name: str) -> None:
    trace = recorded(name)
    for device in trace.device_ids:
        for stat in queues(trace, device):
            alone = stream_queue(trace, device, stat.stream)
            assert (stat.ops_max, stat.ops_mean) == (alone.depth_ops.max, alone.depth_ops.mean)
            assert (stat.launches_max, stat.run_ahead_max_ns) == (alone.depth_launches.max, alone.run_ahead_max_ns)
            assert stat.run_ahead_at_least == alone.run_ahead_at_least


def test_the_launches_queued_at_an_instant_are_those_of_the_history() -> None:
    trace = recorded("v100_4streams_nccl_step")
    (device,) = trace.device_ids
    most = 0
    for queue in queues(trace, device):
        history = stream_queue(trace, device, queue.stream).depth_launches
        at_ns = np.unique(np.concatenate((history.times_ns - 1, history.times_ns, history.times_ns + 1)))
        last = np.searchsorted(history.times_ns, at_ns, side="right") - 1
        expected = np.where(last >= 0, history.values[last], 0)
        found = launches_queued_at(trace, device, queue.stream, at_ns)
        assert found.tolist() == expected.tolist()
        most = max(most, int(found.max()))
    assert most > 1
