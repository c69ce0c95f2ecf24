"""The numbers of a graph on recordings made by hand."""

import pytest

from perfmagic.analysis.graph.late import late_nodes
from perfmagic.analysis.graph.nodes import NEAR_NS
from perfmagic.trace.names import OpClass

from .made import DTOH, HTOD, KERNEL, chain, graph, op, recorded, two_devices


def test_two_devices_in_series_could_have_run_at_once() -> None:
    needs_graph = graph(two_devices())
    assert needs_graph.lanes == ("cpu", "cpu → sim:0", "sim:0", "sim:0 → cpu", "cpu → sim:1", "sim:1", "sim:1 → cpu")
    assert (needs_graph.work_ns, needs_graph.span_ns, needs_graph.elapsed_ns) == (190, 100, 209)
    assert needs_graph.possible_ns == 100
    assert [needs_graph.nodes[i].name for i in needs_graph.chain] == ["copy", "mm", "copy", "add"]


def test_the_first_op_of_the_second_device_is_late_and_the_wait_is_named() -> None:
    trace, seen = two_devices()
    needs_graph = graph((trace, seen))
    [row] = late_nodes(trace, needs_graph)
    assert (row.number, row.earlier_ns, row.lost_ns) == (3, 100, 70)
    assert row.because == "Python was waiting in `copy` on line 2 (sim:0 → cpu)"
    assert row.sentence == (
        "`copy` on line 3 (cpu → sim:1) could have begun 100\u00a0ns earlier than it did: "
        "Python was waiting in `copy` on line 2 (sim:0 → cpu)"
    )


def test_a_late_node_that_nothing_of_weight_needs_is_no_news() -> None:
    calls = [
        (op("mm", 0, 1, writes=[1]), (KERNEL, 0, 1, 11)),
        (op("mm", 2, 3, reads=[1], writes=[2]), (KERNEL, 0, 11, 101)),
        (op("_local_scalar_dense", 4, 104, reads=[1]), (DTOH, 0, 101, 102)),
    ]
    made = recorded(calls)
    needs_graph = graph(made)
    assert needs_graph.nodes[2].earlier_ns == 90
    assert len(late_nodes(made[0], needs_graph)) == 0


def test_time_in_which_nothing_ran_is_lost_however_short_the_late_node_is() -> None:
    calls = [
        (op("mm", 0, 1, writes=[1]), (KERNEL, 0, 1, 11)),
        (op("mm", 80, 81, reads=[1], writes=[2]), (KERNEL, 0, 81, 82)),
    ]
    made = recorded(calls)
    rows = late_nodes(made[0], graph(made))
    assert [(row.number, row.earlier_ns, row.lost_ns, row.because) for row in rows] == [
        (1, 70, 70, "Python called it no earlier")
    ]


@pytest.mark.parametrize(
    ("first_ends", "because"),
    [
        (60, "it was queued in time, and its stream held it"),
        (11, "it was queued in time, its stream had nothing to run, and nothing in the record says why"),
    ],
)
def test_what_was_queued_in_time_was_held_by_its_stream_or_by_nothing_known(first_ends: int, because: str) -> None:
    calls = [
        (op("mm", 0, 1, writes=[1]), (KERNEL, 0, 1, first_ends)),
        (op("copy_", 2, 3, writes=[2]), (HTOD, 0, 60, 70)),
    ]
    made = recorded(calls)
    assert [row.because for row in late_nodes(made[0], graph(made))] == [because]


def test_what_was_executed_is_possible() -> None:
    # greedy scheduling takes the longer chain first and would need 13
    calls = [
        (op("a", 0, 1, writes=[1]), (KERNEL, 0, 1, 3)),
        (op("b", 2, 3, reads=[1], writes=[2]), (KERNEL, 0, 3, 5)),
    ]
    needs_graph = graph(recorded(calls))
    assert needs_graph.possible_ns <= needs_graph.elapsed_ns == 4


def test_a_chain_has_no_parallelism() -> None:
    needs_graph = graph(chain(5))
    assert needs_graph.work_ns == needs_graph.span_ns == 40
    assert needs_graph.elapsed_ns == 48
    assert needs_graph.lanes == ("cpu",)


def test_a_launch_belongs_to_the_call_around_it_or_the_nearest() -> None:
    far = op("mm", 100_000 + 2 * NEAR_NS, 100_001 + 2 * NEAR_NS, writes=[2])
    trace, seen = recorded([(op("mm", 1000, 2000, writes=[1]), (KERNEL, 0, 3000, 4000)), (far, None)])
    needs_graph = graph((trace, seen))
    assert [node.n_ops for node in needs_graph.nodes] == [1, 0]
    unknown = seen.ops[:0] + seen.ops[1:]
    from perfmagic.analysis.graph.graph import graph_of

    assert graph_of(trace, unknown).n_unseen == 1


@pytest.mark.parametrize(("name", "colour"), [(KERNEL, OpClass.MATRIX), (HTOD, OpClass.HTOD), (DTOH, OpClass.DTOH)])
def test_a_node_has_the_class_of_its_device_op(name: str, colour: OpClass) -> None:
    needs_graph = graph(recorded([(op("f", 0, 1, writes=[1]), (name, 0, 1, 2))]))
    assert [node.colour for node in needs_graph.placed] == [colour]


def test_what_gives_no_tensor_and_launches_nothing_is_no_node() -> None:
    needs_graph = graph(recorded([(op("is_pinned", 0, 1, reads=[1]), None), (op("equal", 2, 3, reads=[1]), None)]))
    assert [node.name for node in needs_graph.nodes] == ["equal"]
