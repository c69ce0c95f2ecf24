"""Replayed without a change, a trace is the record; and what held each instant is what the picture shows."""

from contextlib import suppress
from pathlib import Path

import numpy as np
import pytest

from perfmagic.analysis.replay.build import graph_of, ordered_by_time
from perfmagic.analysis.replay.critical_path import Held, critical_path
from perfmagic.analysis.replay.device_ops import UNEXPLAINED_NS
from perfmagic.analysis.replay.graph import Edge, Graph
from perfmagic.analysis.replay.prediction import unreadable
from perfmagic.base.numerics.longest import NO_NODE, longest, ordered
from perfmagic.trace.columns import CallKind
from perfmagic.trace.model import Trace
from tests.analysis.build import US, Builder, queued
from tests.trace.recorded import EXPECTED, real_trace


def path(trace: Trace) -> dict[str, float]:
    """The critical path by kind, in µs."""
    graph = graph_of(trace)
    critical = critical_path(graph, graph.time_ns)
    assert critical.run_ns == graph.run_ns
    assert (critical.start_ns[1:] == critical.end_ns[:-1]).all()
    return {kind.name: ns / US for kind, ns in critical.by_kind_ns.items()}


@pytest.mark.slow
@pytest.mark.parametrize("expected", EXPECTED, ids=lambda path: path.stem)
def test_a_real_trace_replayed_without_a_change_is_the_record(expected: Path) -> None:
    trace = real_trace(expected.stem.replace("__", "/"))
    for unseen in (False, True):
        graph = graph_of(trace, unseen=unseen)
        np.testing.assert_array_equal(graph.replayed_ns(), graph.time_ns)
        assert graph.given_up == 0
        assert len(graph) >= len(trace.ops)
    path(trace)


@pytest.mark.slow
def test_with_what_is_usual_in_a_trace_in_place_of_what_was_recorded_a_run_takes_as_long() -> None:
    errors = []
    for expected in EXPECTED:
        with suppress(pytest.skip.Exception):  # of a trace that is not in the repository
            graph = graph_of(real_trace(expected.stem.replace("__", "/")))
            if len(graph.trace.ops) and not unreadable(graph):
                begins_ns, usual = graph.begins_ns, graph.copy()
                ends, known = graph.op_node, graph.usual
                late_ns = np.maximum(0, graph.unexplained_ns)
                for links, kind, lag_ns in (
                    (usual.first, Edge.LAUNCH, known.launch_ns + late_ns),
                    (usual.second, Edge.STREAM, np.full(len(ends), known.stream_ns)),
                ):
                    of_kind = links.kind[ends] == kind
                    links.lag_ns[ends[of_kind]] = (usual.length_ns[ends] + lag_ns)[of_kind]
                run_ns = graph.end_ns - begins_ns
                errors.append(abs(int(usual.replayed_ns().max()) - graph.end_ns) / run_ns)
    assert len(errors) >= 5
    assert float(np.median(errors)) <= 0.001


@pytest.mark.slow
@pytest.mark.parametrize("expected", EXPECTED[::4], ids=lambda path: path.stem)
def test_what_takes_less_never_makes_the_run_longer(expected: Path) -> None:
    graph = graph_of(real_trace(expected.stem.replace("__", "/")))
    chance = np.random.default_rng(0)
    for _ in range(5):
        less = graph.copy()
        for links in (less.first, less.second):
            has = (links.node != NO_NODE) & (links.lag_ns > 0) & (chance.random(len(graph)) < 0.3)
            links.lag_ns[has] = links.lag_ns[has] // 2
        assert (less.replayed_ns() <= graph.time_ns).all()


def test_a_long_question_to_the_driver_is_a_call_before_the_first_launch_too() -> None:
    b = Builder()
    b.launch(0, 500, name="cudaDeviceGetStreamPriorityRange", kind=CallKind.OTHER)  # a library starts
    b.op(605, 705, launch=(600, 602))
    b.launch(720, 920, name="cudaStreamCreateWithFlags", kind=CallKind.OTHER)
    b.launch(940, 945, name="cudaEventQuery", kind=CallKind.OTHER)  # too short to count
    b.op(965, 1065, launch=(960, 962))
    by_kind_us = path(b.trace(end=1065))
    assert by_kind_us["CALL"] == 500 + 200 + 2 + 2
    assert by_kind_us["PYTHON"] == (600 - 500) + (720 - 602) + (960 - 920)
    assert graph_of(b.trace(end=1065)).begins_ns == 0


def test_a_queue_that_is_never_empty_is_compute_from_the_first_op_on() -> None:
    b = Builder()
    for i in range(5):
        b.op(10 + 20 * i, 30 + 20 * i, launch=2 * i)
    assert path(b.trace(returned=10)) == {"COMPUTE": 100.0, "CALL": 1.0, "LAUNCH": 9.0}


def test_a_device_that_waits_for_each_launch_is_python() -> None:
    b = Builder()
    for i in range(10):
        b.op(103 + 100 * i, 113 + 100 * i, launch=(100 * (i + 1), 100 * (i + 1) + 1))
    by_kind_us = path(b.trace(returned=1013))
    assert by_kind_us["PYTHON"] == 100 + 9 * 99
    assert by_kind_us["COMPUTE"] == 10


def test_a_wait_for_the_device_leads_the_path_through_it() -> None:
    b = queued((3, 103, (0, 1)))
    b.sync(2, 105)
    b.op(118, 120, launch=(115, 116))
    b.sync(117, 122)
    by_kind_us = path(b.trace(returned=122))
    assert by_kind_us == {"COMPUTE": 102.0, "PYTHON": 10.0, "SYNC": 4.0, "LAUNCH": 4.0, "CALL": 2.0}


def test_a_recorded_wait_joins_two_streams() -> None:
    b = Builder()
    first = b.op(3, 103, launch=(0, 1), stream=7)
    b.wait(2, 8, 7, first)
    b.op(104, 124, launch=(4, 5), stream=8)
    graph = graph_of(b.trace(returned=10))
    assert graph.waits == ((1, 0),)
    assert graph.waits_known
    assert path(b.trace(returned=10)) == {"COMPUTE": 120.0, "OTHER_STREAM": 1.0, "CALL": 1.0, "LAUNCH": 2.0}


def test_a_call_that_waits_is_given_to_the_ops_that_the_record_names() -> None:
    b = Builder()
    b.op(3, 103, launch=(0, 1), stream=7)
    b.op(4, 54, launch=(1, 2), stream=8)
    b.sync(5, 56, name="cudaStreamSynchronize")
    trace = b.trace(returned=60)
    assert [wait.ops for wait in graph_of(trace).host_waits] == [(1,)]


def test_a_blocking_copy_holds_the_host_until_its_op_has_ended() -> None:
    b = Builder()
    b.op(20, 520, launch=(0, 525), name="Memcpy HtoD (Pageable -> Device)")
    b.op(531, 541, launch=(527, 528))
    graph = graph_of(b.trace(returned=528))
    end = int(graph.end_of[0])
    assert Edge(graph.second.kind[end]) == Edge.SYNC
    assert path(b.trace(returned=528))["COPY"] == 500


def test_a_launch_that_found_the_queue_full_waits_for_room() -> None:
    b = Builder()
    for i in range(1100):
        started = 10 + 100 * (i - 1000)  # op k - 1000 starts: 1000 are queued
        launch = (0.005 * i, 0.005 * i + 0.005) if i < 1000 else (started - 98 if i > 1000 else 6, started + 1)
        b.op(10 + 100 * i, 110 + 100 * i, launch=launch)
    graph = graph_of(b.trace(returned=20_000))
    assert graph.n_full_queue > 90
    faster = graph.copy()
    ends = graph.op_node
    for links in (faster.first, faster.second):
        links.lag_ns[ends] -= 50 * US
    faster.length_ns[ends] -= 50 * US
    after, last_call = faster.replayed_ns(), int(graph.end_of[-1])
    # Python was held by the queue alone: with ops of half the length it is done in half the time
    assert after[last_call] < 0.6 * graph.time_ns[last_call]


def test_backward_on_another_thread_hands_over() -> None:
    b = Builder()
    b.op(13, 23, launch=(10, 11), thread=1)
    b.op(113, 123, launch=(110, 111), thread=2)
    b.op(213, 223, launch=(210, 211), thread=1)
    graph = graph_of(b.trace(returned=211))
    assert graph.n_hand_overs == 2
    assert critical_path(graph, graph.time_ns).by_kind_ns[Held.OTHER_THREAD] == 198 * US


def test_a_delay_that_nothing_explains_is_said_or_is_a_wait_for_the_op_that_ended_just_before() -> None:
    b = Builder()
    b.op(3, 503, launch=(0, 1), stream=7)
    b.op(504, 600, launch=(2, 3), stream=8)
    trace = b.trace(returned=10)
    stays, waits = graph_of(trace), graph_of(trace, unseen=True)
    assert critical_path(stays, stays.time_ns).by_kind_ns[Held.UNEXPLAINED] > 490 * US
    assert Held.UNEXPLAINED not in critical_path(waits, waits.time_ns).by_kind_ns
    for graph in (stays, waits):
        assert (graph.replayed_ns() == graph.time_ns).all()


def test_without_device_ops_there_is_no_path() -> None:
    b = Builder()
    b.host_op(0, 10, "aten::add")
    graph = graph_of(b.trace(returned=10))
    assert len(critical_path(graph, graph.time_ns)) == 0


def test_a_cyclic_graph_is_rejected_and_one_against_time_is_repaired() -> None:
    none = np.full(3, NO_NODE)
    with pytest.raises(ValueError, match="3 of 3 nodes wait for each other"):
        ordered(np.array([2, 0, 1]), none)
    order, bad_first, bad_second = ordered_by_time(np.array([5, 4, 3]), np.array([NO_NODE, 0, 1]), none)
    assert order.tolist() == [0, 1, 2]
    assert not bad_first.any()
    assert not bad_second.any()
    _, bad_first, _ = ordered_by_time(np.array([1, 1, 1]), np.array([2, 0, 1]), none)
    assert bad_first.sum() == 1
    reached = longest(
        np.array([0, 1, 2]), np.array([-1, 0, 1]), np.array([7, 1, 1]), np.array([-1, -1, 0]), np.array([0, 0, 5])
    )
    assert reached.tolist() == [7, 8, 12]


def test_calls_of_every_kind_nest_and_tie_without_a_circle() -> None:
    b = Builder()
    for kind in (CallKind.LAUNCH, CallKind.SYNC, CallKind.WAIT, CallKind.RECORD, CallKind.MEMORY):
        b.launch(0, 50, kind=kind)
        b.launch(0, 0, kind=kind)
        b.launch(50, 50, kind=kind)
    b.op(60, 70, launch=(50, 50))
    graph: Graph = graph_of(b.trace(returned=60))
    assert (graph.replayed_ns() == graph.time_ns).all()


@pytest.mark.parametrize(("begins", "late"), [(1015, 0), (1100, 1)])
def test_an_op_of_before_the_record_may_wait_for_what_ended_just_before_on_another_stream(
    begins: float, late: int
) -> None:
    b = Builder()
    b.op(0, 10)
    b.op(5, 1000, stream=8)
    b.op(begins, 1150)
    b.op(1160, 1200, launch=1060)
    b.op(1210, 1220, launch=1070, stream=8)
    trace = b.trace()
    (row,) = np.flatnonzero(trace.ops.start_ns == begins * 1000)
    assert int((graph_of(trace).unexplained_ns[row] > UNEXPLAINED_NS).sum()) == late
