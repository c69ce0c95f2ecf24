"""The finding "device time": which kinds of work and which operators took the time of a busy device."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from perfmagic.analysis.findings.advice import can_compile, compiled, in_graphs
from perfmagic.analysis.findings.catalogue import action, headline
from perfmagic.analysis.findings.facts import Facts
from perfmagic.analysis.findings.finding import Outcome, Silent, too_short
from perfmagic.analysis.timeline.device_operators import (
    CategoryTime,
    DeviceOperator,
    categories,
    category_times,
    device_operators,
)
from perfmagic.analysis.timeline.origin import Source, origins
from perfmagic.base import units
from perfmagic.base.language import chained, phrase, sentences
from perfmagic.base.numerics.intervals import merge, subtract
from perfmagic.trace.columns import Bool
from perfmagic.trace.families import CATEGORY_WORDS, Category
from perfmagic.trace.model import Trace
from perfmagic.trace.names import shown_names

BUSY_FRAC = 0.5  # of the window: if the device is busy for less, what it waits for matters more
NAMED = 3  # kinds of work in the sentence; the table has all
NAMED_FRAC = 0.05  # of the device's ops: a kind of work with less is named only if it is the first
ONE_SHAPE_FRAC = 0.5  # of an operator's time: a shape with more is named
_KINDS = {  # as subjects of a sentence, where the words of the table's column are not nouns
    Category.ELEMENTWISE: phrase("elementwise kernels"),
    Category.FUSED: phrase("kernels fused by a compiler"),
    Category.OTHER: phrase("other kernels"),
}
FUSIBLE_FRAC = 0.3  # of the device's ops: if more is elementwise work, it is worth fusing
PREDICTED_FUSIBLE_FRAC = 0.25  # of a model's, with softmax: its kernels have the names of their operators
_SOFTMAX = re.compile(r"_(?:log_)?softmax(?:_backward_data)?")
_FUSE = phrase(
    "Elementwise kernels are bound by memory bandwidth: torch.compile fuses adjacent kernels, which keeps "
    "intermediate values on the chip"
)


def device_time(facts: Facts) -> Outcome:
    """The kinds of work that took most of a busy device's time, and the longest operator of each.

    Kernels without a recorded operator are classed by their names; the sentence says how much time they have.
    """
    parts = facts.breakdown
    if facts.trace.paced:  # how long its ops take depends on its pace, or on the CPU
        return Silent(phrase("the device is simulated: how long its ops take says nothing about a GPU"))
    least_ns = BUSY_FRAC * max(1, facts.window_ns)
    if parts.busy_ns < least_ns:
        busy = phrase("{device} was busy for", device=facts.the_device)
        return too_short(busy, parts.busy_ns, least_ns, facts.describe_share(BUSY_FRAC))
    kinds = category_times(facts.trace, facts.device, facts.comm_names)
    ops_ns = sum(kind.total_ns for kind in kinds)
    if not ops_ns:
        return Silent(phrase("no op of the device took any time"))
    named = [kind for i, kind in enumerate(kinds[:NAMED]) if i == 0 or kind.share_frac >= NAMED_FRAC]
    clauses = []
    for i, kind in enumerate(named):
        longest = _longest(facts, kind)
        name = _KINDS.get(kind.category, phrase(CATEGORY_WORDS[kind.category]))
        took = phrase(
            "{kernels} took {time}{total} ({share}){longest}",
            kernels=phrase("kernel {name}", name=kind.kernel) if kind.kernel else name,
            time=units.duration(kind.total_ns),
            total=phrase(" of {total}", total=units.duration(ops_ns)) if i == 0 else "",
            share=units.percent(kind.share_frac),
            longest=longest.describe(kind.total_ns) if longest else "",
        )
        clauses.append(took)
    sets, fusible = parts.intervals, _to_fuse(facts)
    fusible_ns = int((facts.trace.ops.end_ns - facts.trace.ops.start_ns)[fusible].sum())
    fuse = _is_worth_fusing(facts, kinds, fusible_ns, ops_ns) and can_compile(facts.trace, facts.device)
    finding = facts.finding(
        rule="device_time",
        cause=phrase("device time"),
        detail=phrase(
            "{where}: {facts}",
            where=facts.on_device,
            facts=sentences(chained("{a}; {b}", clauses), _without_operator(facts, ops_ns)),
        ),
        advice=_FUSE if fuse else "",
        where=subtract(sets["busy"], merge(sets["exposed_communication"], sets["exposed_copy"])),
    )
    if not fuse:
        return [finding]
    softmax = (fusible & _softmax(facts.trace)).any()
    fact = headline("fusible_softmax" if softmax else "fusible", time=units.duration(fusible_ns))
    return [replace(finding, headline=fact, action=action("fuse"))]


@dataclass(frozen=True)
class _Longest:
    """The operator with most of the time of a kind of work.  own_ns: that time.  rows: all rows of that operator."""

    own_ns: int
    rows: Sequence[DeviceOperator]

    def describe(self, kind_ns: int) -> str:
        """: ", the longest aten::mm bf16 [64, 128] [128, 32] with 6.67 ms, at 410 of 989 TFLOP/s"."""
        is_all, time = self.own_ns == kind_ns, units.duration(self.own_ns)
        if self.rows[0].source == Source.GRAPH:
            part = phrase("all") if is_all else time
            return phrase(", {part} of it in a {graph}", part=part, graph=self.rows[0].name)
        rate = _rate(self.rows, self.own_ns)
        at = phrase(", at {rate}", rate=rate) if rate else ""
        if is_all:
            return phrase(", all of it in {name}{rate}", name=_name(self.rows), rate=at)
        return phrase(", the longest operator is {name}, {time}{rate}", name=_name(self.rows), time=time, rate=at)


def _longest(facts: Facts, kind: CategoryTime) -> _Longest | None:
    """The longest recorded operator of a kind of work; None where none was recorded.

    None for communication, too: the findings on communication name its collectives.
    """
    trace, origin = facts.trace, origins(facts.trace)
    of_kind = _here(facts) & (categories(trace, facts.comm_names) == kind.category) & _with_operator(facts)
    if kind.kernel:
        of_kind &= np.array([name == kind.kernel for name in shown_names(trace)])[trace.ops.name]
    if kind.category in (Category.COMMUNICATION, Category.MEMSET) or not of_kind.any():
        return None
    length = (trace.ops.end_ns - trace.ops.start_ns)[of_kind]
    sums = np.bincount(origin.name[of_kind], weights=length)
    name = int(sums.argmax())
    rows = device_operators(trace, facts.device, facts.comm_names)
    of_name = [row for row in rows if row.name == origin.names[name] and row.source in _RECORDED]
    return _Longest(int(sums[name]), of_name)


_RECORDED = (Source.OPERATOR, Source.GRAPH)


def _here(facts: Facts) -> Bool:
    here: Bool = facts.trace.ops.device == facts.device
    return here


def _with_operator(facts: Facts) -> Bool:
    known: Bool = np.isin(origins(facts.trace).source, _RECORDED)
    return known


def _without_operator(facts: Facts, ops_ns: int) -> str:
    """How long kernels without a recorded operator took, and why they have none; "" for little time, or all of it."""
    ops, source = facts.trace.ops, origins(facts.trace).source
    length = ops.end_ns - ops.start_ns
    without = _here(facts) & ~_with_operator(facts)
    without_ns = int(length[without].sum())
    if without_ns < NAMED_FRAC * ops_ns or without_ns == ops_ns:
        return ""
    unknown_ns = int(length[without & (source == Source.UNKNOWN)].sum())
    unknown = 2 * unknown_ns >= without_ns
    return phrase(
        "{time} ({share}) has no recorded operator: {why}",
        time=units.duration(without_ns),
        share=units.percent(without_ns / ops_ns),
        why=phrase("the launches are not in the record") if unknown else phrase("no operator made the launches"),
    )


def _to_fuse(facts: Facts) -> Bool:
    """The ops that torch.compile would fuse: elementwise ones, and softmax where a model names it; as trace.ops."""
    trace = facts.trace
    fusible: Bool = categories(trace, facts.comm_names) == Category.ELEMENTWISE
    return _here(facts) & ((fusible | _softmax(trace)) if trace.predicted else fusible)


def _softmax(trace: Trace) -> Bool:
    named: Bool = np.array([_SOFTMAX.fullmatch(name) is not None for name in trace.names], bool)[trace.ops.name]
    return named


def _is_worth_fusing(facts: Facts, kinds: Sequence[CategoryTime], fusible_ns: int, ops_ns: int) -> bool:
    """Whether such work takes enough of the time; of a recording the most, too. Not where some code is compiled."""
    trace = facts.trace
    most = trace.predicted or kinds[0].category == Category.ELEMENTWISE
    if not most or fusible_ns < (PREDICTED_FUSIBLE_FRAC if trace.predicted else FUSIBLE_FRAC) * ops_ns:
        return False
    length = trace.ops.end_ns - trace.ops.start_ns
    in_graph_ns = int(length[_to_fuse(facts) & in_graphs(trace)].sum())
    return not compiled(trace)[_here(facts)].any() and 2 * in_graph_ns < fusible_ns


def _name(rows: Sequence[DeviceOperator]) -> str:
    """An operator with its types, and its shape where it has only one, or where one has most of its time."""
    most = rows[0]
    if len(rows) == 1:
        return describe_operator(most)
    types = {row.dtypes for row in rows}
    plain = " ".join(filter(None, (most.name, most.dtypes if len(types) == 1 else "")))
    known = len({row.shapes for row in rows if row.shapes})
    if most.shapes and most.total_ns >= ONE_SHAPE_FRAC * sum(row.total_ns for row in rows):
        return phrase("{name} (mostly {shapes})", name=plain, shapes=most.shapes)
    return phrase("{name} in {n} shapes", name=plain, n=units.count(known)) if known > 1 else plain


def describe_operator(operator: DeviceOperator) -> str:
    """An operator with what it worked on: "aten::mm [64, 128] [128, 32] bf16"."""
    words = " ".join(filter(None, (operator.name, operator.shapes, operator.dtypes)))
    return phrase("kernel {name}", name=words) if operator.source in (Source.KERNEL, Source.UNKNOWN) else words


def _rate(rows: Sequence[DeviceOperator], in_ns: int) -> str:
    """The rate reached in some time, with the peak if all have the same; "" where operations are not known."""
    if any(row.flop is None for row in rows) or not in_ns:
        return ""
    if memory := _memory_rate(rows, in_ns):
        return memory
    rate = sum(row.flop or 0 for row in rows) / in_ns * 1e9
    peaks = {row.peak_flop_per_s for row in rows}
    peak = peaks.pop() if len(peaks) == 1 else None
    reached = units.significant(rate / 1e12)
    if peak:
        reached = phrase("{n} of {peak}", n=reached, peak=units.significant(peak / 1e12))
    most = phrase("up to ") if any(row.flop_at_most for row in rows) else ""
    return phrase("{most}{rate}\u00a0TFLOP/s", most=most, rate=reached)


_CLEARLY = 4  # bytes take so much longer than arithmetic in what the memory limits


def _memory_rate(rows: Sequence[DeviceOperator], in_ns: int) -> str:
    """The rate of inputs and outputs, with the memory's; "" where the data sheet's FLOP/s take a quarter as long.

    Also "" above the memory's rate: a cache served them.
    """
    for row in rows:
        compute, memory, intensity = row.peak_flop_per_s, row.peak_bytes_per_s, row.flop_per_byte
        if not compute or not memory or intensity is None or _CLEARLY * intensity * memory >= compute:
            return ""
    reached, peak = sum(row.io_bytes or 0 for row in rows) / in_ns * 1e9, rows[0].peak_bytes_per_s or 0.0
    if reached > peak:
        return ""
    of_peak = phrase("{n} of {peak}", n=units.significant(reached / 1e12), peak=units.significant(peak / 1e12))
    return f"{of_peak}{units.NBSP}TB/s"
