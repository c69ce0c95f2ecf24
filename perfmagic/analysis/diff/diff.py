"""What changed between two timelines, and where."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Annotated

from perfmagic.analysis.diff import matching, work
from perfmagic.analysis.diff.comparable import notes, repeats_of, unlike
from perfmagic.analysis.diff.side import ComparedTrace, Side, busiest_devices
from perfmagic.analysis.diff.times import TimeChange, parts, totals
from perfmagic.base import units
from perfmagic.base.kinds import PredictedFor
from perfmagic.base.language import Words, chained, phrase, sentences
from perfmagic.predict.ratio import of_two_gpus
from perfmagic.trace.json_form import JsonForm, one_of
from perfmagic.trace.model import Trace
from perfmagic.trace.rows import Rows

# The sentence that a comparison of two timelines begins with.

MOST_PARTS = 4  # that a sentence names
# what a device is idle for, by the causes of perfmagic.analysis.timeline.idle, short enough for a list
IDLE_WORDS = {
    "in_python": "waiting for Python",
    "in_call": "waiting for calls into the driver",
    "launching": "waiting for launches to arrive",
    "between_ops": "gaps between queued ops",
    "blocked": "waiting while Python was blocked",
    "other_device": "waiting for another device",
    "other_stream": "waiting for another stream",
    "unexplained": "idle for reasons not recorded",
}
LEAST_FRAC = 0.05  # of the largest part's difference: smaller parts are in "the rest"


MOST_DIFFERENCES = 3  # that a text begins with


def headline(a: ComparedTrace, b: ComparedTrace, whole: TimeChange, no_verdict: str, *, per_step: bool) -> str:
    """How much longer the second took, in one sentence; or why there is no verdict."""
    if no_verdict:
        times = phrase(
            "in numbers: {a} took {a_time}, {b} {b_time}",
            a=phrase("a step of {name}", name=a.name) if per_step else a.name,
            a_time=units.duration(whole.a_ns),
            b=b.name,
            b_time=units.duration(whole.b_ns),
        )
        return sentences(phrase("No verdict: {why}", why=no_verdict), times if whole.a_ns and whole.b_ns else "")
    first, predicted = a.predicted, b.predicted
    if first and predicted and first != predicted and whole.a_ns != whole.b_ns:
        return _two_gpus((a, first, whole.a_ns), (b, predicted, whole.b_ns))
    if predicted is not None:
        with units.rough_times():
            found = _describe_change(a, b, whole, per_step=per_step)
        return phrase("predicted for {gpu}: {change}", gpu=predicted.gpu, change=found)
    return _describe_change(a, b, whole, per_step=per_step)


_OnGpu = tuple[ComparedTrace, PredictedFor, int]


def _two_gpus(a: _OnGpu, b: _OnGpu) -> Words:
    """How many times as fast one predicted GPU is as another, the faster one first."""
    (_, slow, slow_ns), (_, fast, fast_ns) = sorted((a, b), key=lambda side: -side[2])
    low, high = of_two_gpus(slow_ns, fast_ns, slow, fast)
    return phrase(
        "{gpu} is predicted to be {times} × as fast as {other} ({low} to {high} ×; {a} {a_time}, {b} {b_time})",
        gpu=fast.gpu,
        other=slow.gpu,
        times=units.significant(slow_ns / fast_ns, 2),
        low=units.significant(low, 2),
        high=units.significant(high, 2),
        a=a[0].name,
        a_time=units.rough_duration(a[2]),
        b=b[0].name,
        b_time=units.rough_duration(b[2]),
    )


def _describe_change(a: ComparedTrace, b: ComparedTrace, whole: TimeChange, *, per_step: bool) -> Words:
    """The same where there is a verdict, whoever gave the times."""
    second, other = b.name, a.name
    if per_step:
        second, other = phrase("one step of {name}", name=b.name), phrase("one of {name}", name=a.name)
    if not whole.diff_ns:
        return phrase("{b} is as long as {a}: {time}", b=second, a=other, time=units.duration(whole.b_ns))
    share = f", {units.signed_percent(whole.diff_ns / whole.a_ns)}" if whole.a_ns else ""
    span = f"{units.duration(whole.a_ns)} → {units.duration(whole.b_ns)}{share}"
    time = units.duration(abs(whole.diff_ns))
    if whole.diff_ns < 0:
        return phrase("{b} is {time} shorter than {a} ({span})", b=second, a=other, time=time, span=span)
    return phrase("{b} is {time} longer than {a} ({span})", b=second, a=other, time=time, span=span)


def describe_part(part: TimeChange) -> str:
    """What a part is the time of, for people."""
    return phrase(IDLE_WORDS[part.name] if part.kind == "idle" else part.name)


def _decider(side: ComparedTrace) -> Words:
    return phrase(without_number(side.decides))


def without_number(decides: str) -> str:
    """Who decides, within a sentence: "the device decides"."""
    who = decides.partition(":")[0]
    if who == "Open":
        return "who decides is open"
    return who if who.startswith("Python") else f"{who[:1].lower()}{who[1:]}"


def differences(parts: Sequence[TimeChange], most: int) -> list[TimeChange]:
    """The parts that changed most, without those that are small beside the first."""
    changed = [part for part in parts if part.diff_ns]
    least = LEAST_FRAC * abs(changed[0].diff_ns) if changed else 0
    return [part for part in changed[:most] if abs(part.diff_ns) >= least]


def _by_part(parts: Sequence[TimeChange], diff_ns: int) -> list[str]:
    named = differences(parts, MOST_PARTS)
    words = [phrase("{part} {time}", part=describe_part(part), time=units.signed(part.diff_ns)) for part in named]
    rest_ns = diff_ns - sum(part.diff_ns for part in named)
    return [*words, *([phrase("the rest {time}", time=units.signed(rest_ns))] if rest_ns else [])]


SCHEMA_VERSION = 2  # raised by what changes the meaning of a key, or takes one away


@dataclass(frozen=True, eq=False)
class TraceDiff(JsonForm):
    """What changed from one timeline to another: `python -m perfmagic compare A B --json`, `TraceComparison.to_dict()`.

    Times are integers in nanoseconds. It is one run of each: there are no confidence intervals.

    schema_version: raised by what changes the meaning of a key, or takes one away.
    headline: the verdict in one sentence, or why there is none.
    a: the first of the two.
    b: the second of the two.
    no_verdict: why no verdict is given; empty where one is.
    as_cell: whether both are cells, not files.
    by_shape: whether operators are matched by the shape of their inputs too.
    repeats: the steps of each by which times are divided; (1, 1) where whole recordings are compared.
    per_step: whether parts and totals are those of one step, the mean, and differences too: the two have other
    numbers of steps.
    of_samples: whether one of the two is a sample of a recording: counts, totals, and what is new or gone then depend
    on what was kept.
    parts: where the time went: each instant once, so that the parts add up to the whole.
    totals: the whole, and the time of each class; classes overlap.
    operators: operators by name and shape, the largest difference on the device first.
    kernels: kernels, copies and memsets by name and operator, the largest difference first.
    replaced: kernels that others replaced at the same place of the same operator, the largest difference first.
    steps: steps matched by order; the median step of each where they have other numbers of steps.
    lines: lines of two cells, matched by their text.
    notes: what a reader must know, in sentences.
    ranks: the ranks of two jobs; the rest is then about the median one.
    """

    leading = ("schema_version", "headline", "per_step")
    left_out = ("repeats",)

    a: ComparedTrace
    b: ComparedTrace
    no_verdict: str
    as_cell: bool
    by_shape: bool
    repeats: tuple[int, int]
    of_samples: bool
    parts: Rows[TimeChange]
    totals: Rows[TimeChange]
    operators: Rows[work.OperatorChange]
    kernels: Rows[work.KernelChange]
    replaced: Rows[work.Replacement]
    steps: Rows[matching.StepChange]
    lines: Rows[matching.LineChange]
    notes: tuple[str, ...]
    ranks: Rows[matching.RankChange]

    @property
    def whole(self) -> TimeChange:
        """What took how long: the cell, the device's extent, or the mean step."""
        return self.totals[0]

    @property
    def per_step(self) -> bool:
        """Whether the times are of one step each."""
        return self.repeats != (1, 1)

    @property
    def idle(self) -> Rows[TimeChange]:
        """The idle time of both, by cause."""
        return Rows((part for part in self.parts if part.kind == "idle"), TimeChange)

    @property
    def headline(self) -> str:
        """The verdict in one sentence: how much shorter or longer, and by what."""
        if self.no_verdict or not self.whole.diff_ns:
            return self.total
        with units.rough_times(wanted=bool(self.parts.predicted)):
            by = chained("{a}, {b}", _by_part(self.parts, self.whole.diff_ns))
        return phrase("{a}: {b}", a=self.total, b=by)

    @property
    def total(self) -> str:
        """How much longer the second took, without the parts; or why there is no verdict."""
        return headline(self.a, self.b, self.whole, self.no_verdict, per_step=self.per_step)

    @property
    def decides(self) -> str:
        """Who decides in each, in few words."""
        a, b = (_decider(side) for side in (self.a, self.b))
        if a == b:
            return phrase("{who} in both", who=a.capitalised())
        names = {"a": self.a.name, "b": self.b.name}
        return phrase("{who} in {a}, {other} in {b}", who=a.capitalised(), other=b, **names)

    @property
    def differences(self) -> list[TimeChange]:
        """What changed most, at most three parts; nothing where there is no verdict."""
        return [] if self.no_verdict else differences(self.parts, MOST_DIFFERENCES)

    @property
    def schema_version(self) -> Annotated[int, one_of(SCHEMA_VERSION)]:
        return SCHEMA_VERSION

    def to_json(self) -> str:
        """to_dict() as JSON text."""
        return json.dumps(self.to_dict(), ensure_ascii=False, indent=1)


def trace_diff(
    first: Trace,
    second: Trace,
    *,
    names: tuple[str, str] = ("A", "B"),
    titles: tuple[str, str] = ("", ""),
    comm_names: tuple[str | None, str | None] = (None, None),
) -> TraceDiff:
    """What changed from the first trace to the second.

    names: what sentences call them.  titles: the files.  comm_names: as in perfmagic.trace.names.op_classes, of each.
    """
    return _diff(*sides(first, second, names, titles, comm_names))


def jobs_diff(
    first: Mapping[int, Side],
    second: Mapping[int, Side],
    missing: Sequence[int] = (),
    waiting_ns: matching.Waiting = ({}, {}),
) -> TraceDiff:
    """What changed from one job to another, by rank: the median rank in full, and the others beside it.

    missing: the ranks that only one of them has.  waiting_ns: as in rank_changes().
    """
    ranks = matching.rank_changes(first, second, waiting_ns)
    median = next(row.rank for row in ranks if row.median)
    diff = _diff(first[median], second[median])
    about_ranks = (*matching.rank_notes(ranks, missing), *matching.describe_most_changed(diff.steps))
    return replace(diff, ranks=ranks, notes=(*about_ranks, *diff.notes))


def sides(
    first: Trace,
    second: Trace,
    names: tuple[str, str],
    titles: tuple[str, str],
    comm_names: tuple[str | None, str | None],
) -> tuple[Side, Side]:
    """Two traces as sides of a comparison, the arguments as in trace_diff()."""
    devices = busiest_devices(first, second)
    as_cell = all(trace.meta.returned_ns is not None for trace in (first, second))
    a, b = (
        Side(trace, name, title, device, as_cell, pattern)
        for trace, name, title, device, pattern in zip((first, second), names, titles, devices, comm_names, strict=True)
    )
    return a, b


def _diff(a: Side, b: Side) -> TraceDiff:
    repeats, of_samples = repeats_of(a, b), a.sampled or b.sampled
    if repeats != (1, 1):
        a, b = replace(a, by_step=True), replace(b, by_step=True)
    by_shape = work.has_shapes(a.trace) and work.has_shapes(b.trace)
    operators = work.operator_changes(a, b, repeats, by_shape=by_shape)
    kernels = work.kernel_changes(a, b, repeats, by_shape=by_shape)
    label = b.trace.predicted_label or a.trace.predicted_label
    return TraceDiff(
        a=a.facts,
        b=b.facts,
        no_verdict=unlike(a, b, operators, kernels, repeats),
        as_cell=a.as_cell,
        by_shape=by_shape,
        repeats=repeats,
        of_samples=of_samples,
        parts=parts(a, b, repeats).labelled(label),
        totals=totals(a, b, repeats).labelled(label),
        operators=operators.labelled(label),
        kernels=kernels.labelled(label),
        replaced=(
            Rows((), work.Replacement) if of_samples else work.replacements(a, b, repeats, by_shape=by_shape)
        ).labelled(label),
        steps=matching.step_changes(a, b).labelled(label),
        lines=matching.line_changes(a, b).labelled(label),
        notes=notes(a, b, operators, repeats),
        ranks=Rows((), matching.RankChange),
    )
