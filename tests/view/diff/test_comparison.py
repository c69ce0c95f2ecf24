"""The renderers of a comparison of two timelines: text, Markdown, HTML and its pictures."""

import configparser
import gzip
import json
import pickle
import re
from collections import defaultdict
from dataclasses import replace
from statistics import mean

import numpy as np
import pytest

import perfmagic
from perfmagic.analysis.diff.diff import trace_diff
from perfmagic.base import units
from perfmagic.base.tables import sort_script
from perfmagic.base.terminal import columns
from perfmagic.results import TimelineResult, TraceComparison
from perfmagic.trace.columns import NONE
from perfmagic.trace.model import Trace
from perfmagic.view.diff.picture import aligned, drawn_parts, pair_svg, waterfall_svg
from perfmagic.view.diff.tables import comparison_tables
from perfmagic.view.html import MAX_OUTPUT_BYTES
from perfmagic.view.nbval import sanitize_file
from tests.analysis.diff.pairs import cell, eager, fused, program
from tests.analysis.ranks.test_ranks import rank
from tests.data.traces import reference_diff
from tests.trace.recorded import real, real_trace

pytestmark = pytest.mark.slow


def compared(first: Trace, second: Trace) -> TraceComparison:
    comparison = perfmagic.compare(TimelineResult(first), TimelineResult(second))
    assert isinstance(comparison, TraceComparison)
    return comparison


def plain(text: str) -> str:
    return text.replace("\u00a0", " ")


def without_start_up(trace: Trace, less_ns: int) -> Trace:
    """A recorded trace whose host began later: what it did before that is left out."""
    begins_ns = trace.meta.start_ns + less_ns
    assert begins_ns < int(trace.ops.start_ns.min())
    calls, host = (table.select(table.start_ns >= begins_ns) for table in (trace.calls, trace.host_ops))
    launch = np.searchsorted(np.flatnonzero(trace.calls.start_ns >= begins_ns), trace.ops.launch)
    ops = replace(trace.ops, launch=np.where(trace.ops.launch == NONE, NONE, launch).astype(trace.ops.launch.dtype))
    meta = replace(trace.meta, start_ns=begins_ns)
    return replace(trace, meta=meta, calls=calls, host_ops=host, ops=ops)


def test_a_shorter_start_up_is_the_headline_of_files() -> None:
    trace = real_trace("b200_pdl_overlaps_python_stacks")
    head_ns = int(trace.ops.start_ns.min()) - trace.meta.start_ns
    comparison = compared(trace, without_start_up(trace, head_ns // 2))
    first, second, more = plain(comparison.text()).splitlines()
    whole = [plain(units.duration(answers.total_ns)) for answers in (t.answers for t in comparison.timelines)]
    less = plain(units.duration(head_ns // 2))
    assert first.startswith(f"B is {less} shorter than A ({whole[0]} → {whole[1]}, ")
    assert first.endswith("): Python decides in both")
    assert second.split()[:6] == ["1", "Before", "the", "first", "op", plain(units.duration(head_ns)).split()[0]]
    assert more.startswith("  .text(details=True): ")
    assert [part.name for part in comparison.parts if part.diff_ns] == ["before the first op"]


def test_a_text_names_at_most_three_differences_the_largest_first() -> None:
    before = program(
        *((f"aten::{kernel}", (kernel,)) for kernel in ("gemm", "softmax", "elementwise", "Memset (Device)"))
    )
    after = program(("aten::gemm", ("gemm",)), kernel_us=300)
    comparison = compared(before, after)
    lines = plain(comparison.text()).splitlines()
    numbered = [line for line in lines if line[:4].strip().isdigit()]
    assert [int(line[:4]) for line in numbered] == [1, 2, 3]
    sizes = [abs(part.diff_ns) for part in comparison.differences]
    assert sizes == sorted(sizes, reverse=True)
    assert all(
        line.endswith(plain(f"{units.duration(part.a_ns)} → {units.duration(part.b_ns)}"))
        for line, part in zip(numbered, comparison.differences, strict=True)
    )


@pytest.mark.parametrize(
    ("pair", "n_tables"),
    [
        (("v100_4streams_nccl_graphs", "a100_6streams_graphs_rank0"), 5),
        (("sampled_rank0of128", "sampled_rank1of128"), 3),  # of samples only means are compared
        (("a100_nccl_rank0of2", "mi300_resnet_2streams"), 5),
        (("h100_qwen_orphans", "a100_nccl_rank0of2"), 5),
    ],
)
def test_forms_of_recorded_pairs_fit_and_the_details_begin_with_the_text(pair: tuple[str, str], n_tables: int) -> None:
    comparison = compared(*(real_trace(name) for name in pair))
    lines, details = comparison.text().splitlines(), comparison.text(details=True).splitlines()
    assert len(lines) <= 14
    assert all(columns(line) <= 100 for line in lines)
    brief = [line for line in lines[:-1] if not line.startswith(("  !", "    "))]
    assert details[: len(brief)] == brief
    assert all(columns(line) <= 100 for line in details)
    assert len(comparison.html().encode()) <= MAX_OUTPUT_BYTES
    assert comparison.markdown().count("\n| ---") >= n_tables


def test_the_text_has_the_verdict_first_and_tables_that_fit() -> None:
    lines = compared(eager(steps=2), fused(steps=2)).text(details=True).splitlines()
    assert plain(lines[0]).startswith("B is 48.0 µs shorter than A (176 µs → 128 µs, −27 %)")
    assert all(len(line) <= 100 for line in lines)
    (row,) = (plain(line) for line in lines if "→ flash_fwd" in line)
    assert re.search(r"aten::attention: gemm \+ 2 more → flash_fwd +60.0 µs +20.0 µs +−40.0 µs$", row)


def test_in_a_narrow_text_one_kernel_under_two_operators_reads_as_two() -> None:
    comparison = compared(
        program(("aten::add", ("elementwise",)), ("aten::mul", ("elementwise",))),
        program(("aten::add", ("elementwise",)), ("aten::mul", ("elementwise",)), kernel_us=20),
    )
    text = plain(comparison.text(details=True))
    kernels = text[text.index("Kernels and copies") :].splitlines()[1:3]
    assert [line.split()[:2] for line in kernels] == [["elementwise", "aten::add"], ["elementwise", "aten::mul"]]
    other = program(("aten::add", ("elementwise",)), ("aten::mul", ("scale",)), kernel_us=20)
    assert not re.search(
        r"^  Kernels and copies +under", plain(compared(other, other).text(details=True)), re.MULTILINE
    )


def test_the_waiting_of_two_ranks_of_one_job_is_what_their_files_say() -> None:
    names = ("dlrm_8ranks/worker0_step_12.1694128201545", "dlrm_8ranks/worker1_step_12.1694128201556")
    took = []
    for name in names:
        events = json.loads(gzip.decompress(real(name).read_bytes()))["traceEvents"]
        comm = [e for e in events if e.get("cat") == "kernel" and "nccl" in e["name"].lower()]
        took.append([e["dur"] for e in sorted(comm, key=lambda e: e["ts"])])
    waits = [sum(max(0, x - y) for x, y in zip(*pair, strict=True)) for pair in (took, took[::-1])]
    first_us = took[1][0] - took[0][0]  # nearly all of it: how many others there are does not matter
    assert first_us > 0.95 * waits[1]
    first = plain(perfmagic.compare(*(perfmagic.open_trace(real(name)) for name in names)).notes[0])
    assert (
        f"B waits {waits[1] / 1000:.2f} ms inside collectives for A, {first_us / 1000:.2f} ms "
        f"({100 * first_us / waits[1]:.0f} %) of it in one, the first of the 8 matched collectives. "
        f"A waits {waits[0]:.1f} µs for B."
    ) in first


def test_of_two_ranks_that_wait_again_and_again_the_collectives_are_counted() -> None:
    traces = [rank(i, compute_us=800 if i == 0 else 500) for i in range(2)]
    first = plain(compared(*traces).notes[0])
    assert "A comes later than B to 4 of the 4 matched collectives, and B waits 1.20 ms inside them" in first


def test_of_two_samples_the_largest_differences_of_a_mean_run_come_first() -> None:
    kept: list[dict[str, list[int]]] = []
    for name in (names := ("sampled_rank0of128", "sampled_rank1of128")):
        durations = defaultdict(list)
        for event in reference_diff.complete_events(real(name)):
            if event.get("cat") in reference_diff.OPS:
                start_ns, end_ns = reference_diff.span_ns(event)
                durations[event["name"]].append(end_ns - start_ns)
        kept.append(durations)
    a, b = kept
    weights = {
        kernel: abs(mean(b[kernel]) - mean(a[kernel])) * min(len(a[kernel]), len(b[kernel]))
        for kernel in a.keys() & b.keys()
    }
    expected = sorted(weights.values(), reverse=True)
    table = comparison_tables(trace_diff(*(real_trace(name) for name in names)))[0]
    shown = [weights[getattr(row[0], "full", None) or str(row[0])] for row in table.rows]
    assert shown == pytest.approx(expected[: len(shown)])
    assert "Memcpy HtoD (Pinned -> Device)" in [str(row[0]) for row in table.rows[:6]]


def test_the_bars_of_the_waterfall_lead_from_one_whole_to_the_other() -> None:
    comparison = compared(eager(), fused())
    assert comparison.whole.a_ns + sum(ns for _, ns, _ in drawn_parts(comparison)) == comparison.whole.b_ns
    svg = waterfall_svg(comparison)
    assert "prefers-color-scheme:dark" in svg
    assert "−20.0\u00a0µs" in svg


def test_steps_begin_at_the_same_place_in_both() -> None:
    comparison = compared(eager(steps=3), fused(steps=3))
    first, second = aligned(comparison, *comparison.timelines)
    assert [a.at_ns for a in first] == [b.at_ns for b in second]
    lengths = [max(a.length_ns, b.length_ns) for a, b in zip(first, second, strict=True)]
    assert [segment.at_ns for segment in first] == [sum(lengths[:i]) for i in range(3)]
    svg = pair_svg(comparison, *comparison.timelines)
    assert [f"step {n}:" in svg for n in (3, 4, 5, 6)] == [True, True, True, False]


def test_without_steps_both_begin_with_their_first_record_and_a_cell_with_its_start() -> None:
    comparison = compared(eager(), fused())
    assert [(s.start_ns, s.end_ns, s.at_ns) for steps in aligned(comparison, *comparison.timelines) for s in steps] == [
        (0, 86_000, 0),
        (0, 62_000, 0),
    ]
    cells = compared(cell("%%timeline\nf()", {2: 100}), cell("%%timeline\nf()", {2: 40}))
    assert [s.start_ns for steps in aligned(cells, *cells.timelines) for s in steps] == [0, 0]


def test_ops_that_are_new_or_gone_are_marked_and_others_are_not() -> None:
    same = pair_svg(compared(eager(), eager()), TimelineResult(eager()), TimelineResult(eager()))
    other = pair_svg(compared(eager(), fused()), TimelineResult(eager()), TimelineResult(fused()))
    ink = re.search(r"\.(\w+)\{fill:#1b1f24\}", same)
    assert len(re.findall(f'<path class="{ink[1]}"', same)) == 1  # the key alone
    assert len(re.findall(f'<path class="{ink[1]}"', other)) == 3  # one in each timeline


def test_a_comparison_without_device_ops_has_no_picture_and_says_why() -> None:
    comparison = compared(program(), program())
    assert "No verdict" in comparison.html()
    assert "data:image" not in comparison.html()
    assert "Operators, on the host" not in comparison.text()


def test_a_page_runs_nothing_but_what_sorts_its_tables_and_needs_no_network() -> None:
    page = compared(eager(), fused()).page()
    assert page.count("<script") == page.count(sort_script()) == 1
    assert page.count("data:image/svg+xml;base64,") == 2
    assert not re.search(r"(?:src|href)=\"http", page)


def test_names_of_others_are_no_markup() -> None:
    evil = program(("aten::<b>", ("<script>alert(1)</script>",)))
    comparison = compared(evil, program(("aten::<b>", ("gemm",)), ("aten::<b>", ("<script>alert(1)</script>",))))
    assert "<script>" not in comparison.page()
    assert "<script>" not in comparison.markdown()


def test_a_comparison_survives_a_pickle() -> None:
    comparison = compared(eager(), fused())
    again = pickle.loads(pickle.dumps(comparison))
    assert (again.text(), again.to_dict(), again.html()) == (comparison.text(), comparison.to_dict(), comparison.html())


def test_every_table_is_a_frame() -> None:
    pytest.importorskip("pandas")
    comparison = compared(eager(steps=1), fused(steps=1))
    assert comparison.to_frame()["diff_ns"].sum() == comparison.whole.diff_ns
    for table in (
        comparison.parts,
        comparison.totals,
        comparison.operators,
        comparison.kernels,
        comparison.replaced,
        comparison.steps,
    ):
        assert len(table.to_frame()) == len(table)


@pytest.mark.parametrize(
    ("second", "kept"), [(fused(), "COMPARED B shorter"), (program(), "COMPARED without a verdict")]
)
def test_a_notebook_is_compared_by_the_verdict_and_not_by_its_numbers(second: Trace, kept: str) -> None:
    rules = configparser.RawConfigParser()
    rules.read_string(sanitize_file())
    text = compared(eager(), second).text()
    for rule in rules.sections():
        text = re.sub(rules[rule]["regex"], rules[rule]["replace"], text)
    assert text == kept
