from collections import defaultdict

import pytest

from perfmagic.analysis.timeline.operators import OperatorStat, operators
from perfmagic.trace.columns import NONE, HostKind
from perfmagic.trace.kineto.reader import read_trace
from perfmagic.trace.model import Trace
from tests.analysis.build import US, Builder
from tests.trace.recorded import as_bytes, event, recorded


def linear() -> Trace:
    """linear 0–100 with mm 10–40 (30 µs on the device) and add 50–60 (5 µs), then 1 µs of its own."""
    b = Builder()
    b.host_op(0, 100, "linear")
    b.host_op(10, 40, "mm")
    b.host_op(50, 60, "add")
    b.op(200, 230, launch=20)
    b.op(230, 235, launch=55)
    b.op(235, 236, launch=80)
    return b.trace()


def by_name(trace: Trace) -> dict[str, OperatorStat]:
    return {row.name: row for row in operators(trace)}


def test_an_operator_has_its_time_with_and_without_those_inside_it() -> None:
    found = by_name(linear())
    assert [(r.name, r.host_ns, r.host_self_ns) for r in operators(linear())] == [
        ("linear", 100 * US, 60 * US),
        ("mm", 30 * US, 30 * US),
        ("add", 10 * US, 10 * US),
    ]
    assert found["linear"].n_calls == 1


def test_device_time_is_the_innermost_operators_own_and_every_outer_ones_too() -> None:
    found = by_name(linear())
    assert (found["linear"].n_ops, found["linear"].device_ns, found["linear"].device_self_ns) == (3, 36 * US, 1 * US)
    assert (found["mm"].n_ops, found["mm"].device_ns, found["mm"].device_self_ns) == (1, 30 * US, 30 * US)


def test_an_operator_inside_one_of_the_same_name_counts_once_in_total() -> None:
    b = Builder()
    b.host_op(0, 100, "to")
    b.host_op(10, 90, "copy")
    b.host_op(20, 80, "to")
    b.op(200, 210, launch=30)
    b.host_op(200, 207, "to")
    to = by_name(b.trace())["to"]
    assert (to.n_calls, to.host_ns, to.host_self_ns) == (3, 107 * US, (20 + 60 + 7) * US)
    assert (to.n_ops, to.device_ns, to.device_self_ns) == (1, 10 * US, 10 * US)


def test_threads_do_not_nest_in_one_another_and_can_have_rows_of_their_own() -> None:
    b = Builder()
    b.host_op(0, 100, "mm")
    b.host_op(10, 40, "mm", thread=2)
    b.op(200, 230, launch=20, thread=2)
    trace = b.trace()
    (together,) = operators(trace)
    assert (together.thread, together.n_calls, together.host_ns, together.host_self_ns) == (None, 2, 130 * US, 130 * US)
    rows = operators(trace, by_thread=True)
    assert [(r.thread, r.host_ns, r.device_ns) for r in rows] == [(1, 100 * US, 0), (2, 30 * US, 30 * US)]


def test_annotations_and_python_frames_are_no_operators() -> None:
    b = Builder()
    b.host_op(0, 100, "forward", kind=HostKind.ANNOTATION)
    b.host_op(5, 95, "train.py(3): step", kind=HostKind.PYTHON)
    b.host_op(10, 40, "mm")
    assert list(by_name(b.trace())) == ["mm"]
    assert operators(Builder().trace()).to_dict() == []


def test_an_inner_operator_that_outlasts_the_outer_one_takes_only_what_lies_in_it() -> None:
    b = Builder()
    b.host_op(0, 10, "to")
    b.host_op(5, 11, "copy")
    assert [(r.name, r.host_self_ns) for r in operators(b.trace())] == [("to", 5 * US), ("copy", 6 * US)]


def test_an_operator_without_length_is_counted() -> None:
    b = Builder()
    b.host_op(5, 5, "detach")
    assert by_name(b.trace())["detach"].n_calls == 1


@pytest.mark.parametrize("name", ["v100_4streams_nccl_step", "gp100_gpu_user_annotation", "mi300_sglang_hipgraph"])
def test_the_operators_of_a_recorded_trace_are_those_a_walk_along_each_thread_finds(name: str) -> None:
    trace = recorded(name)
    assert {
        r.name: [r.n_calls, r.host_ns, r.host_self_ns, r.n_ops, r.device_ns, r.device_self_ns] for r in operators(trace)
    } == walk(trace)


def walk(trace: Trace) -> dict[str, list[int]]:
    """The same numbers by a stack of the running operators, one thread and one event after the other."""
    sums: dict[str, list[int]] = defaultdict(lambda: [0] * 6)
    for mine in events(trace).values():
        running: list[tuple[int, str]] = []
        for at, is_launch, value, _, words in sorted(mine):
            running = [(end, who) for end, who in running if end > at]
            names = {who for _, who in running}
            innermost = sums[running[-1][1]] if running else [0] * 6
            if is_launch:
                for who in names:
                    sums[who][3] += 1
                    sums[who][4] += value
                innermost[5] += value
                continue
            if words == "record_param_comms" and running:
                continue  # torch's note about the collective that runs
            end = -value
            sums[words][0] += 1
            sums[words][1] += 0 if words in names else end - at
            sums[words][2] += end - at
            if end > at:
                innermost[2] -= min(end, running[-1][0]) - at if running else 0
                running.append((end, words))
    return dict(sums)


def events(trace: Trace) -> dict[int, list[tuple[int, int, int, int, str]]]:
    """By thread: (start, 0, -end, row, name) of each operator, (launch, 1, length, row, "") of each device op."""
    host, ops, calls = trace.host_ops, trace.ops, trace.calls
    found = defaultdict(list)
    for i in (host.kind == HostKind.OP).nonzero()[0]:
        words = trace.names[host.name[i]]
        found[int(host.thread[i])].append((int(host.start_ns[i]), 0, -int(host.end_ns[i]), int(i), words))
    for i in (ops.launch != NONE).nonzero()[0]:
        call, length = ops.launch[i], int(ops.end_ns[i] - ops.start_ns[i])
        found[int(calls.thread[call])].append((int(calls.start_ns[call]), 1, length, int(i), ""))
    return found


def test_operators_are_separated_by_the_shapes_of_their_inputs() -> None:
    dims = [[[64, 64], [64, 64]], [[8, 8], [8, 8]], [[64, 64], [64, 64]]]
    rows = [event("cpu_op", "aten::mm", 10 * n, 1 + n, tid=3, **{"Input Dims": d}) for n, d in enumerate(dims)]
    trace = read_trace(as_bytes([*rows, event("cpu_op", "aten::add", 50, 2, tid=3)]))
    found = [(stat.name, stat.shape, stat.n_calls, stat.host_ns) for stat in operators(trace, by_shape=True)]
    assert found == [
        ("aten::mm", "[[64, 64], [64, 64]]", 2, 4000),
        ("aten::mm", "[[8, 8], [8, 8]]", 1, 2000),
        ("aten::add", None, 1, 2000),
    ]
    assert [(stat.shape, stat.n_calls) for stat in operators(trace)] == [(None, 3), (None, 1)]


def test_an_inner_operator_that_overshoots_its_outer_one_does_not_hide_the_next() -> None:
    b = Builder()
    b.host_op(0, 10, "A")
    b.host_op(5, 11, "a")
    b.host_op(10, 20, "B")
    b.host_op(15, 18, "b")
    b.op(100, 107, launch=16)
    b.op(110, 113, launch=19)
    found = {stat.name: stat for stat in operators(b.trace())}
    assert (found["B"].n_ops, found["B"].device_ns, found["B"].host_self_ns) == (2, 10 * US, 7 * US)


def test_an_operator_inside_one_of_another_shape_counts_for_its_own_shape() -> None:
    rows = [
        event("cpu_op", "aten::mm", 0, 10, tid=3, **{"Input Dims": [[8, 8]]}),
        event("cpu_op", "aten::mm", 2, 5, tid=3, **{"Input Dims": [[4, 4]]}),
    ]
    found = operators(read_trace(as_bytes(rows)), by_shape=True)
    assert [(stat.shape, stat.host_ns) for stat in found] == [("[[8, 8]]", 10_000), ("[[4, 4]]", 5000)]


def test_a_collective_has_one_name_and_torch_s_note_about_it_none() -> None:
    b = Builder()
    b.host_op(0, 100, "c10d::allreduce_")
    b.host_op(10, 90, "record_param_comms")
    b.op(200, 230, launch=50)
    (found,) = operators(b.trace())
    assert (found.name, found.n_calls, found.host_self_ns) == ("c10d::allreduce_", 1, 100 * US)
    assert (found.n_ops, found.device_ns, found.device_self_ns) == (1, 30 * US, 30 * US)


def test_a_note_about_a_collective_that_no_operator_is_around_stands_for_it() -> None:
    b = Builder()
    b.host_op(10, 90, "record_param_comms")
    b.op(200, 230, launch=50)
    (found,) = operators(b.trace())
    assert (found.name, found.device_self_ns) == ("record_param_comms", 30 * US)
