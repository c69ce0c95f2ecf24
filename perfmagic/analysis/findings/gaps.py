"""The findings on idle gaps: what the device waited for, and what Python did meanwhile."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import numpy.typing as npt

from perfmagic.analysis.findings.advice import (
    BUFFERS_ADVICE,
    FORWARD,
    UNFLATTEN,
    can_compile,
    compiled,
    for_gpus,
    in_graphs,
    is_compiled_code,
    shortest_name,
)
from perfmagic.analysis.findings.catalogue import Remedy, action, headline
from perfmagic.analysis.findings.facts import Facts
from perfmagic.analysis.findings.finding import (
    Finding,
    Outcome,
    PythonWas,
    Silent,
    of_extent,
    on_time_lines,
    too_few,
    too_short,
)
from perfmagic.analysis.timeline.idle import CAUSES
from perfmagic.analysis.timeline.origin import Source, origins
from perfmagic.base import units
from perfmagic.base.language import chained, counted, listed, phrase, sentences
from perfmagic.base.numerics.intervals import EMPTY, Intervals, clip, covered_ns, intersect, total_ns, union
from perfmagic.trace.columns import NO_LINE, NONE, Bool, Int64
from perfmagic.trace.names import kernel_short_names
from perfmagic.trace.signatures import function_name

MOSTLY = 0.9  # of the time that the device waited: if so much lies in a stretch
SHORT_FRAC = 0.2  # of the window or shorter, the sentence says where that stretch is


def waited_for_host(facts: Facts, parts: Sequence[Finding]) -> Outcome:
    """All the time that the device waited for the next launch, because Python or a call that it made took long.

    parts: the findings about that time.
    """
    where = facts.cell_time.waited_for_host
    cost_ns, least_ns = total_ns(where), max(1, LONG_GAP_FRAC * facts.window_ns)
    if not parts and cost_ns < least_ns:
        waited = phrase("{device} waited for Python for", device=facts.the_device)
        return too_short(waited, cost_ns, least_ns, facts.describe_share(LONG_GAP_FRAC))
    of_window = phrase(
        "{share} of {window}{when}",
        share=units.percent(cost_ns / facts.window_ns),
        window=facts.cell_time.window.name,
        when=_when(facts, where),
    )
    was = facts.python_was(where)
    return [
        Finding(
            rule="waited_for_host",
            cost_ns=cost_ns,
            cause=phrase("{device} waited {time} for Python", device=facts.the_device, time=units.duration(cost_ns)),
            detail=phrase(", {detail}", detail=sentences(of_window, _on_lines(facts, where), was.sentence)),
            lines=(),
            start_ns=int(where[0, 0]),
            end_ns=int(where[-1, 1]),
            device=facts.device,
            where=where,
            frames=was.frames,
        )
    ]


def _on_lines(facts: Facts, where: Intervals) -> str:
    """Where Python was, in functions that were followed; the parts of this finding name the cell's own lines."""
    place = on_time_lines(facts.trace, where, ())
    return phrase("Python was{where}", where=place) if place else ""


def _when(facts: Facts, where: Intervals) -> str:
    """Where nearly all of the time lies, if in a short stretch: then it is one event, such as a refill after a wait."""
    begin_ns, length_ns = facts.cell_time.window.start_ns, facts.window_ns
    sums = np.concatenate(([0], np.cumsum(where[:, 1] - where[:, 0])))
    last = np.searchsorted(sums, sums[:-1] + MOSTLY * sums[-1])  # of each first piece
    first = np.flatnonzero(last < len(sums))
    if not len(first):
        return ""
    spans_ns = where[last[first] - 1, 1] - where[first, 0]
    best = int(spans_ns.argmin())
    if spans_ns[best] > SHORT_FRAC * length_ns:
        return ""
    start_ns, end_ns = int(where[first[best], 0]), int(where[last[first[best]] - 1, 1])
    inside = total_ns(clip(where, start_ns, end_ns))
    since = phrase("at the beginning")
    if start_ns > begin_ns:
        since = phrase("starting at {time}", time=units.duration(start_ns - begin_ns))
    part = units.duration(inside)
    is_all = part == units.duration(total_ns(where))
    within = phrase("within {time} ", time=units.duration(end_ns - start_ns)) if not is_all or len(where) > 1 else ""
    return phrase(", {part} of it {within}{since}", part=phrase("all") if is_all else part, within=within, since=since)


# The finding "longest idle gap" and its sentence.

LONG_GAP_FRAC = 0.05  # of the extent
OF_EXTENT = of_extent(LONG_GAP_FRAC)


def longest_gap(facts: Facts) -> Outcome:
    """The longest idle gap, its parts by cause, and where Python was."""
    gaps = facts.gaps
    least_ns = LONG_GAP_FRAC * facts.breakdown.extent_ns
    if not len(gaps):
        return Silent(phrase("{device} had no idle gap", device=facts.the_device))
    if int(gaps.length_ns.max()) < least_ns:
        return too_short(phrase("the longest idle gap took"), int(gaps.length_ns.max()), least_ns, OF_EXTENT)
    row = int(gaps.length_ns.argmax())
    line = int(gaps.line[row])
    where = union(gaps.start_ns[[row]], gaps.end_ns[[row]])
    # what Python did explains a gap only where the device waited for it
    for_host = 2 * int(gaps.for_python_ns[row]) >= int(gaps.length_ns[row])
    was = facts.python_was(intersect(where, facts.cell_time.waited_for_host) if for_host else EMPTY)
    name, length = shortest_name(was), units.duration(int(gaps.length_ns[row]))
    waited = phrase(
        "{device} waited {waits}{where}",
        device=facts.the_device,
        waits=_parts(facts, row),
        where=on_time_lines(facts.trace, where, [line]),
    )
    return [
        Finding(
            rule="longest_gap",
            cost_ns=int(gaps.length_ns[row]),
            cause=phrase("longest idle gap"),
            headline=headline("longest_gap_in" if name else "longest_gap", time=length, name=name),
            detail=phrase(", {time}: {detail}", time=length, detail=sentences(waited, was.sentence)),
            lines=(line,) if line != NO_LINE else (),
            start_ns=int(gaps.start_ns[row]),
            end_ns=int(gaps.end_ns[row]),
            device=facts.device,
            frames=was.frames,
            where=where,
        )
    ]


def _parts(facts: Facts, row: int) -> str:
    """What an idle gap was made of: "for Python", or "50.0 µs for Python and 5.00 µs for launches to arrive"."""
    parts = facts.gaps.parts_ns(row)
    inside_ns = parts.pop("in_call", 0)
    if inside_ns:
        parts["in_python"] = parts.get("in_python", 0) + inside_ns
    inside = phrase(", {time} of it inside calls into the driver", time=units.duration(inside_ns)) if inside_ns else ""

    def waited(cause: str) -> str:
        return chained("{a}{b}", (phrase(CAUSES[cause]), inside if cause == "in_python" else ""))

    if len(parts) == 1:
        return waited(next(iter(parts)))
    longest = sorted(parts.items(), key=lambda part: -part[1])
    return listed([phrase("{time} {cause}", time=units.duration(ns), cause=waited(cause)) for cause, ns in longest])


# The finding "recurring gap", of pauses that recur between the same ops, and its sentence.

NEAR_FRAC = 0.25  # of the median: a gap that differs by less is about as long
REPEATED_GAP_NS = 50_000  # shorter gaps do not count: they are the ordinary time between two launches
REPEATED = 3  # gaps at least
REPEATED_FINDINGS = 2  # at most, the most costly ones; a step with hundreds of kernels could fill the list
FAR_IQR = 3  # an outlier is farther from the quartiles than this many interquartile ranges,
FAR_RATIO = 3  # and longer than this many medians: where nearly all are alike, the interquartile range is 0


# The namespace of an operator is that of the library that registered it. These are torch's own, which torch.compile
# knows. It calls every other operator unchanged (torch.library, "custom operators")
_TORCH = frozenset({"aten", "prim", "prims", "autograd", "torch", "c10d", "_c10d_functional", "inductor", "quantized"})
_COMPILED_ADVICE = phrase('torch.compile(mode="reduce-overhead") runs it as CUDA graphs, without this Python work')
_UNCOMPILED_ADVICE = phrase("torch.compile or CUDA graphs remove this Python work")
_GRAPHS_ADVICE = phrase("CUDA graphs remove this Python work")
_STACKS_ADVICE = phrase("No operator is recorded then: torch.profiler with with_stack=True names the Python code")


# DDP's _sync_buffers: broadcast_coalesced puts them into one tensor and copies them back from slices of it
_BUFFERS = frozenset({UNFLATTEN, FORWARD})


def repeated_gap(facts: Facts, free: Intervals) -> Outcome:
    """Gaps that recur between the same ops while the device waits for Python, and what Python did in them.

    Only time that no other finding explains counts: `free`. A gap far longer than the others of its group is left out;
    the longest of all has a finding of its own.
    """
    recurring = _recurring(facts, free, ~facts.in_stretches)
    if isinstance(recurring, Silent):
        return recurring
    return [_for_python(facts, group, free, waited_ns) for group, waited_ns in recurring]


def repeated_gap_queued(facts: Facts, free: Intervals) -> Outcome:
    """Gaps that recur between the same ops although work was queued: inside a graph, or after work not recorded."""
    unexplained = intersect(free, facts.cell_time.parts["unexplained"])
    recurring = _recurring(facts, unexplained, np.ones(len(facts.gaps), bool))
    if isinstance(recurring, Silent):
        return recurring
    return [_with_work_queued(facts, group, unexplained, waited_ns) for group, waited_ns in recurring]


def _recurring(facts: Facts, free: Intervals, counts: Bool) -> list[tuple[Int64, Int64]] | Silent:
    """The most costly groups of similar gaps, with the free time of each gap.  counts: which gaps count."""
    gaps = facts.gaps
    waited = covered_ns(free, gaps.start_ns, gaps.end_ns)
    rows = np.flatnonzero((waited >= REPEATED_GAP_NS) & counts)
    if not len(rows):
        least = units.duration(REPEATED_GAP_NS)
        return Silent(phrase("other findings explain all gaps of {least} or more", least=least))
    groups = _alike(facts, rows, waited)
    near = [group[~_far(waited[group])] for group in groups]
    kept = [group for group in near if len(group) >= REPEATED]
    if not kept:
        most = max(len(group) for group in near)
        return too_few(counted(most, "at most {n} gap recurs", "at most {n} gaps recur"), most, REPEATED)
    kept.sort(key=lambda group: (-int(waited[group].sum()), int(group[0])))
    least_ns = LONG_GAP_FRAC * facts.breakdown.extent_ns
    long = [group for group in kept if waited[group].sum() >= least_ns]
    if not long:
        longest = phrase("the longest group of recurring gaps took")
        return too_short(longest, int(waited[kept[0]].sum()), least_ns, OF_EXTENT)
    return [(group, waited[group]) for group in long[:REPEATED_FINDINGS]]


def _alike(facts: Facts, rows: Int64, waited_ns: Int64) -> list[Int64]:
    """The gaps grouped by the op that ended them, its operator, and what Python was in for most of the gap.

    Gaps of very different lengths have several causes: they are grouped by the op before them, then by length.
    """
    ops, origin, op = facts.trace.ops, origins(facts.trace), facts.gaps.op[rows]
    operator = np.where(origin.source[op] == Source.OPERATOR, origin.name[op], NONE)
    result = []
    for group in _grouped(rows, ops.name[op], operator, facts.gaps.host_op[rows]):
        low, high = np.percentile(waited_ns[group], (25, 75))
        result += [group] if high <= FAR_RATIO * low else _grouped(group, ops.name[_op_before(facts, group)])
    return [near for group in result for near in _of_one_size(group, waited_ns[group])]


def _of_one_size(rows: Int64, values_ns: Int64) -> list[Int64]:
    """The rows split by length: the shortest of a part is many times the longest of the part before."""
    order = np.argsort(values_ns, kind="stable")
    ordered = values_ns[order]
    return [np.sort(part) for part in np.split(rows[order], np.flatnonzero(ordered[1:] > FAR_RATIO * ordered[:-1]) + 1)]


def _grouped(rows: Int64, *keys: npt.NDArray[np.integer[Any]]) -> list[Int64]:
    """The rows with equal keys together; keys: shape of rows."""
    _, group = np.unique(np.column_stack(keys), axis=0, return_inverse=True)
    group = group.reshape(-1)
    order = np.argsort(group, kind="stable")
    return np.split(rows[order], np.flatnonzero(np.diff(group[order])) + 1)


def _op_before(facts: Facts, rows: Int64) -> Int64:
    """The op at whose end each gap begins, a row of trace.ops."""
    ops = facts.trace.ops
    here = np.flatnonzero(ops.device == facts.device)
    by_end = here[np.argsort(ops.end_ns[here], kind="stable")]
    at = np.searchsorted(ops.end_ns[by_end], facts.gaps.start_ns[rows], side="right") - 1
    return by_end[np.maximum(at, 0)]


def _far(values_ns: Int64) -> Bool:
    """Which values are far longer than the others."""
    low, middle, high = np.percentile(values_ns, (25, 50, 75))
    far: Bool = (values_ns > high + FAR_IQR * (high - low)) & (values_ns > FAR_RATIO * middle)
    return far


def _for_python(facts: Facts, rows: Int64, free: Intervals, waited_ns: Int64) -> Finding:
    gaps = facts.gaps
    where = intersect(free, union(gaps.start_ns[rows], gaps.end_ns[rows]))
    was = facts.python_was(where)
    launched = facts.trace.launch_start_ns(gaps.op[rows])
    time = units.duration(int(waited_ns.sum()))
    waited = phrase(
        "{device} waited {time} for Python, {each}{where}{steps}",
        device=facts.the_device,
        time=time,
        each=_each(waited_ns),
        where=on_time_lines(facts.trace, where, np.unique(gaps.line[rows])[:3]),
        steps=facts.in_steps(launched),
    )
    text = sentences(waited, was.sentence)
    remedy, name, n = _for_gaps(facts, rows, was), shortest_name(was), units.count(len(rows))
    fact = headline("repeated_gap_in" if name else "repeated_gap", name=name, n=n, time=time)
    return replace(
        _finding(facts, rows, where, waited_ns, text),
        frames=was.frames,
        advice=remedy.advice,
        action=remedy.action,
        headline=headline("ddp_buffers") if was.around >= _BUFFERS else fact,
    )


def _with_work_queued(facts: Facts, rows: Int64, free: Intervals, waited_ns: Int64) -> Finding:
    gaps = facts.gaps
    where = intersect(free, union(gaps.start_ns[rows], gaps.end_ns[rows]))
    waited = phrase(
        "{device} waited {time} {cause}, {each}",
        device=facts.the_device,
        time=units.duration(int(waited_ns.sum())),
        cause=phrase(CAUSES["unexplained"]),
        each=_each(waited_ns),
    )
    return _finding(facts, rows, where, waited_ns, sentences(waited, _graph(facts, rows)))


def _graph(facts: Facts, rows: Int64) -> str:
    """Whether the gaps lie before or inside a graph; "" unless the record says so for all ops with a known launch."""
    ops, ended_by, before = facts.trace.ops, facts.gaps.op[rows], _op_before(facts, rows)
    known = in_graphs(facts.trace)[ended_by]
    if not known.any() or not (known | (ops.launch[ended_by] == NONE)).all():
        return ""
    _, first = np.unique(ops.launch, return_index=True)  # the ops are in the order of their starts
    if np.isin(ended_by[known], first).all():
        return phrase("the next op is the first of a graph launch")
    in_one = bool((ops.launch[ended_by] == ops.launch[before])[known].all())
    return phrase("both ops belong to one graph launch") if in_one else ""


def _finding(facts: Facts, rows: Int64, where: Intervals, waited_ns: Int64, text: str) -> Finding:
    gaps, ops = facts.gaps, facts.trace.ops
    lines = np.unique(gaps.line[rows])
    short = kernel_short_names(facts.trace)
    ahead = [short[facts.trace.names[name]] for name in np.unique(ops.name[_op_before(facts, rows)]).tolist()]
    ended_by = _ended_by(facts, rows)
    place = phrase("before {after}", after=ended_by)
    if len(ahead) == 1:
        place = phrase("between {before} and {after}", before=ahead[0], after=ended_by)
    return Finding(
        rule="repeated_gap",
        cost_ns=int(waited_ns.sum()),
        cause=phrase("recurring gap ×{n}", n=units.count(len(rows))),
        detail=phrase(" {place}: {detail}", place=place, detail=text),
        lines=tuple(int(n) for n in lines[:3] if n > 0),
        start_ns=int(gaps.start_ns[rows].min()),
        end_ns=int(gaps.end_ns[rows].max()),
        device=facts.device,
        where=where,
    )


def _each(waited_ns: Int64) -> str:
    """The median and the range: "median 0.52 ms (0.48 ms to 0.61 ms)"; the range alone where it is wide.

    Half of the gaps must be about as long as the median: between two groups it would be a length that no gap has.
    """
    median_ns = float(np.median(waited_ns))
    least, middle, most = (units.duration(int(value)) for value in (waited_ns.min(), median_ns, waited_ns.max()))
    if least == most:
        return phrase("{time} each", time=middle)
    near = np.abs(waited_ns - median_ns) <= NEAR_FRAC * median_ns
    if 2 * near.sum() >= len(near):
        return phrase("median {median} ({least} to {most})", median=middle, least=least, most=most)
    return phrase("{least} to {most} each", least=least, most=most)


def _ended_by(facts: Facts, rows: Int64) -> str:
    """The op that ended some gaps, and the operator that launched it, if any."""
    trace, op = facts.trace, int(facts.gaps.op[rows[0]])
    origin, name = origins(trace), trace.names[trace.ops.name[op]]
    operator = origin.names[origin.name[op]] if origin.host_op[op] != NONE else ""
    kernel = kernel_short_names(trace)[name]
    if operator in ("", name, kernel):
        return kernel
    return phrase("{kernel} of {operator}", kernel=kernel, operator=function_name(operator))


def _for_gaps(facts: Facts, rows: Int64, was: PythonWas) -> Remedy:
    """What to do about Python's work, by what Python was in; empty where nothing is known or it is done already."""
    if was.around >= _BUFFERS:
        return Remedy(BUFFERS_ADVICE, action("no_broadcast"))
    trace, operator = facts.trace, was.names[0]
    if "::" in operator and operator.split("::", 1)[0] not in _TORCH:
        custom = phrase("torch.compile cannot see into the operator {name}", name=function_name(operator))
        graphs = phrase("CUDA graphs, where they can capture it, launch its kernels without this Python work")
        advice = sentences(custom, for_gpus(trace, facts.device, graphs))
        return Remedy(advice, "" if trace.device_info(facts.device).paced else action("graphs"))
    if (launched := _launched_already(facts, rows, was)) is not None:
        return launched
    if operator:
        return _compile(facts)
    if not any(was.names):
        unseen = trace.meta.returned_ns is None and trace.has_host_rows and not len(trace.python_frames)
        return Remedy(_STACKS_ADVICE, action("record_stacks")) if unseen else Remedy()
    name = shortest_name(was)
    return Remedy(phrase("Do this work ahead of time"), action("ahead_of_time", name=name))


def _launched_already(facts: Facts, rows: Int64, was: PythonWas) -> Remedy | None:
    """What is left to do where a graph or compiled code launched most ops behind some gaps; None where neither did."""
    ended_by = facts.gaps.op[rows]
    if 2 * int(in_graphs(facts.trace)[ended_by].sum()) >= len(rows):
        return Remedy()
    made = 2 * int(compiled(facts.trace)[ended_by].sum()) >= len(rows)
    if made or any(is_compiled_code(name) for name in was.names):
        return Remedy(_COMPILED_ADVICE, action("reduce_overhead"))
    return None


def _compile(facts: Facts) -> Remedy:
    """To launch ops without Python between them."""
    compiles = can_compile(facts.trace, facts.device)
    advice = for_gpus(facts.trace, facts.device, _UNCOMPILED_ADVICE if compiles else _GRAPHS_ADVICE)
    paced = facts.trace.device_info(facts.device).paced
    return Remedy(advice, "" if paced else action("compile_or_graphs" if compiles else "graphs"))


# The finding "gaps waiting for Python", of short gaps with nothing else in common, and its sentence.

MANY_GAPS = 10
MANY_GAPS_FRAC = 0.1  # of the extent: twice the threshold of other gaps, as no single change fixes them


def many_gaps(facts: Facts, free: Intervals) -> Outcome:
    """The rest of the time that the device waited for Python, in gaps none of which is long."""
    gaps, extent_ns = facts.gaps, facts.breakdown.extent_ns
    waited = covered_ns(free, gaps.start_ns, gaps.end_ns)
    rows = np.flatnonzero((waited > 0) & (gaps.length_ns < LONG_GAP_FRAC * extent_ns))
    if len(rows) < MANY_GAPS:
        left = counted(
            len(rows),
            "other findings leave {n} gap waiting for Python",
            "other findings leave {n} gaps waiting for Python",
        )
        return too_few(left, len(rows), MANY_GAPS)
    where = intersect(free, union(gaps.start_ns[rows], gaps.end_ns[rows]))
    least_ns = MANY_GAPS_FRAC * extent_ns
    if total_ns(where) < least_ns:
        unexplained = phrase("gaps waiting for Python that no other finding explains took")
        return too_short(unexplained, total_ns(where), least_ns, of_extent(MANY_GAPS_FRAC))
    was, lines = facts.python_was(where), np.unique(gaps.line[rows])[:3]
    time, name, n = units.duration(total_ns(where)), shortest_name(was), units.count(len(rows))
    waited_in_all = phrase(
        "{device} waited {time} in all, median {median}{where}",
        device=facts.the_device,
        time=time,
        median=units.duration(int(np.median(waited[rows]))),
        where=on_time_lines(facts.trace, where, lines),
    )
    remedy = _launched_already(facts, rows, was) or _compile(facts)
    if 2 * len(facts.syncs) > len(rows):  # no graph holds a call that waits for the device
        remedy = Remedy()
    return [
        Finding(
            rule="many_gaps",
            cost_ns=total_ns(where),
            cause=phrase("{n} gaps waiting for Python", n=n),
            detail=phrase(": {detail}", detail=sentences(waited_in_all, was.sentence)),
            lines=tuple(int(line) for line in lines if line > 0),
            start_ns=int(where[0, 0]),
            end_ns=int(where[-1, 1]),
            device=facts.device,
            where=where,
            frames=was.frames,
            advice=remedy.advice,
            action=remedy.action,
            headline=headline("many_gaps_in" if name else "many_gaps", n=n, name=name, time=time),
        )
    ]
