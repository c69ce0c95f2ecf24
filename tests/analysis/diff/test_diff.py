"""What a comparison of two timelines says, in traces made by hand."""

import re
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from perfmagic.analysis.diff.diff import IDLE_WORDS, TraceDiff, trace_diff
from perfmagic.analysis.diff.side import charged_ns
from perfmagic.analysis.timeline.idle import CAUSES
from perfmagic.analysis.timeline.overlap import breakdown
from perfmagic.trace.columns import HostKind
from perfmagic.trace.model import DeviceInfo, Trace
from perfmagic.trace.names import OpClass, op_classes
from tests.analysis.build import US, Builder
from tests.analysis.diff.pairs import cell, eager, fused, program, with_shapes
from tests.analysis.findings.build import plain


def parts_of(diff: TraceDiff) -> dict[str, tuple[int, int]]:
    return {part.name: (part.a_ns, part.b_ns) for part in diff.parts}


def test_an_instant_with_several_ops_belongs_to_compute_then_to_what_started_first() -> None:
    b = Builder()
    b.op(0, 10, name="first")
    b.op(4, 20, name="second", stream=8)
    b.op(15, 30, name="ncclKernel", stream=9)
    b.op(25, 40, name="Memcpy DtoH (Device -> Pinned)", stream=10)
    b.op(0, 50, name="Memset (Device)", stream=11)
    trace = b.trace()
    names = [trace.names[i] for i in trace.ops.name]
    charged = dict(zip(names, (charged_ns(trace, 0) // US).tolist(), strict=True))
    assert charged == {
        "first": 10,
        "second": 10,
        "ncclKernel": 10,
        "Memcpy DtoH (Device -> Pinned)": 10,
        "Memset (Device)": 10,
    }


Ops = list[tuple[int, int, str]]  # start, length, name
ops = st.lists(
    st.tuples(st.integers(0, 40), st.integers(0, 15), st.sampled_from(["gemm", "ncclX", "Memcpy DtoH", "Memset"])),
    min_size=1,
    max_size=12,
)


@pytest.mark.slow
@given(ops)
def test_charged_time_is_that_of_a_walk_through_the_instants(rows: Ops) -> None:
    b = Builder()
    for i, (start, length, name) in enumerate(rows):
        b.op(start, start + length, name=name, stream=i)
    trace = b.trace()
    classes = op_classes(trace)
    order = {OpClass.MATRIX: 0, OpClass.COMPUTE: 0, OpClass.COMMUNICATION: 1, OpClass.MEMSET: 3}
    walked = np.zeros(len(trace.ops), np.int64)
    for at in range(60):
        running = np.flatnonzero((trace.ops.start_ns <= at * US) & (trace.ops.end_ns > at * US))
        if len(running):
            walked[min(running, key=lambda i: (order.get(OpClass(classes[i]), 2), trace.ops.start_ns[i], i))] += US
    assert charged_ns(trace, 0).tolist() == walked.tolist()
    assert int(walked.sum()) == breakdown(trace, 0).busy_ns


@pytest.mark.slow
@given(ops, ops, st.integers(1, 4), st.integers(1, 4))
def test_the_parts_add_up_whatever_ran_and_however_many_steps(
    first: Ops, second: Ops, steps_a: int, steps_b: int
) -> None:
    traces = []
    for rows, steps in ((first, steps_a), (second, steps_b)):
        b = Builder()
        for i, (start, length, name) in enumerate(rows):
            b.op(start + 1, start + 1 + length, launch=start, name=name, stream=i)
        for step in range(steps):
            b.host_op(10 * step, 10 * step + 10, f"ProfilerStep#{step}", kind=HostKind.ANNOTATION)
        traces.append(b.trace())
    diff = trace_diff(*traces)
    assert sum(part.a_ns for part in diff.parts) == diff.whole.a_ns
    assert sum(part.b_ns for part in diff.parts) == diff.whole.b_ns
    assert sum(part.diff_ns for part in diff.parts) == diff.whole.diff_ns
    assert diff.per_step == (steps_a != steps_b)
    if not diff.per_step:
        assert (diff.whole.a_ns, diff.whole.b_ns) == (diff.a.whole_ns, diff.b.whole_ns)


def test_the_first_sentence_is_the_difference_and_its_parts() -> None:
    diff = trace_diff(eager(), fused())
    sentence = plain(diff.headline)
    assert sentence.startswith("B is 24.0 µs shorter than A (86.0 µs → 62.0 µs, −28 %): attention −20.0 µs, ")
    named = [float(n.replace("−", "-")) for n in re.findall(r"([−+][\d.]+) µs", sentence)]
    assert (len(named), sum(named)) == (2, -24.0)
    assert diff.no_verdict == ""
    assert "one run each" in diff.notes[0]


def test_kernels_that_took_the_place_of_others_are_shown_as_such() -> None:
    diff = trace_diff(eager(), fused())
    (one,) = diff.replaced
    assert (one.operator, one.gone, one.new) == ("aten::attention", ("gemm", "softmax", "gemm"), ("flash_fwd",))
    assert (one.n_calls_a, one.n_calls_b, one.a_ns, one.b_ns, one.diff_ns) == (1, 1, 30 * US, 10 * US, -20 * US)
    assert {row.name: row.change for row in diff.kernels} == {
        "gemm": "gone",
        "softmax": "gone",
        "flash_fwd": "new",
        "bias_gemm": "both",
    }


def test_only_what_stands_between_the_same_neighbours_is_a_replacement() -> None:
    before = program(("aten::block", ("copy", "norm", "gelu", "add")))
    diff = trace_diff(before, program(("aten::block", ("copy", "fused_norm_gelu", "add"))))
    assert [(one.gone, one.new) for one in diff.replaced] == [(("norm", "gelu"), ("fused_norm_gelu",))]
    dropped = trace_diff(before, program(("aten::block", ("copy", "add"))))
    assert len(dropped.replaced) == 0
    assert {row.name: row.change for row in dropped.kernels if row.change != "both"} == {"norm": "gone", "gelu": "gone"}


def test_operators_inside_that_only_one_has_are_replaced_at_the_one_around_them() -> None:
    def nested(*inner: tuple[str, str]) -> Trace:
        b = Builder()
        b.host_op(0, 100, "aten::sdpa")
        for i, (name, kernel) in enumerate(inner):
            b.host_op(10 * i, 10 * i + 8, name)
            b.op(200 + 20 * i, 210 + 20 * i, launch=10 * i + 1, name=kernel)
        return b.trace()

    math = nested(("aten::mul", "scale"), ("aten::bmm", "gemm"), ("aten::softmax", "softmax"))
    diff = trace_diff(math, nested(("aten::mul", "scale"), ("aten::flash", "flash_fwd")))
    assert [(one.operator, one.gone, one.new) for one in diff.replaced] == [
        ("aten::sdpa", ("gemm", "softmax"), ("flash_fwd",))
    ]


def test_other_numbers_of_steps_are_compared_by_one_step() -> None:
    diff = trace_diff(eager(steps=4), eager(steps=2, kernel_us=20))
    assert (diff.repeats, diff.per_step) == ((4, 2), True)
    assert plain(diff.headline).startswith("one step of B is 3")
    assert "A has 4 steps, B 2" in diff.notes[1]
    assert len(diff.steps) == 1
    assert diff.steps.note == "the median step of each: A has 4 steps, B 2"
    gemm = next(row for row in diff.kernels if row.name == "softmax")
    assert (gemm.n_a, gemm.n_b, gemm.total_a_ns, gemm.total_b_ns) == (4, 2, 40 * US, 40 * US)
    assert gemm.diff_ns == 10 * US


def test_steps_of_the_same_number_are_matched_by_order() -> None:
    diff = trace_diff(eager(steps=3), fused(steps=3))
    assert [(row.number_a, row.number_b, row.diff_ns) for row in diff.steps] == [(n, n, -24 * US) for n in (3, 4, 5)]


def test_the_same_work_twice_is_no_slower_program() -> None:
    diff = trace_diff(eager(), eager(repeat=2))
    assert diff.no_verdict == (
        "B does the same work 2.00 times as often, and steps that could be compared are not marked"
    )
    assert diff.headline.startswith("No verdict: ")
    steps = trace_diff(eager(steps=2), eager(steps=2, repeat=2))
    assert steps.no_verdict == ""
    assert "B ran in each step the operators that both have 2.00 times as often" in steps.notes


def test_work_of_other_shapes_is_other_work() -> None:
    diff = trace_diff(with_shapes([[8, 8], [16, 16]]), with_shapes([[8, 8], [32, 32]]))
    assert [(row.shape, row.change) for row in diff.operators] == [
        ("[[16, 16], [16, 16]]", "other shape"),
        ("[[32, 32], [32, 32]]", "other shape"),
        ("[[8, 8], [8, 8]]", "both"),
    ]
    assert plain(diff.no_verdict) == ("they work on inputs of other shapes, for 50 % of A and 50 % of B by device time")
    assert trace_diff(with_shapes([[8, 8]] * 3), with_shapes([[8, 8]] * 2 + [[9, 9]])).no_verdict == ""


def device(trace: Trace, info: DeviceInfo) -> Trace:
    return replace(trace, meta=replace(trace.meta, devices=(info,)))


@pytest.mark.parametrize(
    ("first", "second", "words"),
    [
        (eager(), program(), "B has no device ops"),
        (program(), program(), "neither A nor B has device ops; operators are compared by their time on the host"),
        (eager(), device(eager(), DeviceInfo(0, "cuda", "Other GPU")), "A ran on Test GPU, B on Other GPU"),
        (
            device(eager(), DeviceInfo(0, "sim", "sim")),
            device(eager(), DeviceInfo(0, "sim", "sim", "paced: mm ≥ 1 ms")),
            "A ran on a simulated device, B on a simulated device, paced: mm ≥ 1 ms",
        ),
        (
            eager(),
            program(("aten::other", ("else",))),
            "A and B have nothing in common, by operators with their inputs and by kernels",
        ),
        (eager(), eager(failed="ValueError: no"), "the code of B failed (ValueError: no)"),
    ],
    ids=["no ops in one", "no ops", "another device", "another pace", "nothing in common", "failed"],
)
def test_what_cannot_be_compared_says_what_differs(first: Trace, second: Trace, words: str) -> None:
    diff = trace_diff(first, second)
    assert diff.no_verdict == words
    assert diff.headline.startswith(f"No verdict: {words}")


def test_an_inserted_line_does_not_shift_the_others() -> None:
    first = cell("%%timeline -o a\nx = f()\ny = g(x)\nz = y.item()", {2: 100, 3: 50, 4: 30})
    second = cell("%%timeline -o b\nlog()\nx = f()\ny = g(x)\nz = y.sum()", {2: 10, 3: 60, 4: 50, 5: 20})
    diff = trace_diff(first, second)
    assert [(row.change, row.line_a, row.line_b, row.text, row.diff_ns // US) for row in diff.lines] == [
        ("new", None, 2, "log()", 10),
        ("both", 2, 3, "x = f()", -40),
        ("both", 3, 4, "y = g(x)", 0),
        ("edited", 4, 5, "z = y.sum()", -10),
    ]


def test_of_cells_the_whole_cell_is_compared() -> None:
    diff = trace_diff(cell("%%timeline\nf()", {2: 100}), cell("%%timeline\nf()", {2: 40}))
    assert diff.as_cell
    assert (diff.whole.a_ns, diff.whole.b_ns) == (120 * US, 60 * US)
    assert parts_of(diff)["after the last op"] == (105 * US, 45 * US)


def test_every_cause_of_idle_time_has_its_words() -> None:
    assert set(IDLE_WORDS) == set(CAUSES)


def test_a_copy_beside_compute_is_charged_to_compute_alone() -> None:
    b = Builder()
    b.op(0, 10, name="gemm")
    b.op(0, 30, name="Memcpy HtoD (Pinned -> Device)", stream=8, size=10)
    diff = trace_diff(b.trace(), b.trace())
    assert parts_of(diff) == {"matrix products": (10 * US,) * 2, "copies host to device": (20 * US,) * 2}
    totals = {row.name: row.a_ns // US for row in diff.totals}
    assert (totals["copy"], totals["exposed_copy"], totals["compute"]) == (30, 20, 10)
