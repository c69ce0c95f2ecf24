"""What changed between two timelines, and where."""

from __future__ import annotations

import difflib
import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Annotated, ClassVar, TypeAlias

import numpy as np

from perfmagic.analysis.diff import work
from perfmagic.analysis.diff.comparable import not_comparable, notes, repeats_of, unlike
from perfmagic.analysis.diff.side import ComparedTrace, Side, busiest_devices
from perfmagic.analysis.diff.step_times import StepTimes, step_times
from perfmagic.analysis.diff.times import TimeChange, parts, totals
from perfmagic.analysis.diff.work import BOTH, GONE, NEW
from perfmagic.analysis.timeline.lines import LineStat, lines
from perfmagic.analysis.timeline.steps import Step
from perfmagic.base import units
from perfmagic.base.kinds import PredictedFor
from perfmagic.base.language import Words, chained, counted, phrase, sentences
from perfmagic.predict.ratio import of_two_gpus
from perfmagic.trace.json_form import JsonForm, one_of
from perfmagic.trace.model import Trace
from perfmagic.trace.rows import Rows

# The lines of two cells side by side, matched by their text.

EDITED = "edited"
_NOTHING = LineStat(0, "", 0, 0, 0, 0, 0, 0, 0)


@dataclass(frozen=True)
class LineChange:
    """A line of two cells.

    line_a: its number in the first, as the editor counts; None if it is not there.
    line_b: its number in the second; None if it is not there.
    change: what became of it.
    text: its text, as in the second if it is there.
    host_a_ns: how long Python was on it, in the first.
    host_b_ns: how long Python was on it, in the second.
    blocked_a_ns: how long Python was blocked on it, in the first.
    blocked_b_ns: how long Python was blocked on it, in the second.
    device_a_ns: the summed duration of its device ops, in the first.
    device_b_ns: the summed duration of its device ops, in the second.
    idle_a_ns: how long a device was idle, with nothing queued, while Python was on it, in the first.
    idle_b_ns: how long a device was idle, with nothing queued, while Python was on it, in the second.
    diff_ns: how much longer Python was on it in the second.
    """

    shown: ClassVar[tuple[str, ...]] = (
        *("line_a", "line_b", "change", "text", "host_a_ns", "host_b_ns", "diff_ns"),
        *("blocked_a_ns", "blocked_b_ns", "device_a_ns", "device_b_ns"),
    )

    line_a: int | None
    line_b: int | None
    change: Annotated[str, one_of("both", "new", "gone", "edited")]
    text: str
    host_a_ns: int
    host_b_ns: int
    blocked_a_ns: int
    blocked_b_ns: int
    device_a_ns: int
    device_b_ns: int
    idle_a_ns: int
    idle_b_ns: int

    @property
    def diff_ns(self) -> int:
        return self.host_b_ns - self.host_a_ns


def line_changes(first: Side, second: Side) -> Rows[LineChange]:
    """The lines of both cells that ran, in order, matched by text, so that an inserted line does not shift the others.

    None if a trace is not of a cell.
    """
    if first.trace.cell is None or second.trace.cell is None:
        return Rows((), LineChange)
    stats = [{stat.line: stat for stat in lines(side.trace)} for side in (first, second)]
    texts = [_split_lines(side.trace.cell.source) for side in (first, second) if side.trace.cell is not None]
    rows = []
    for change, a, b in _align_lines(*texts):
        old, new = stats[0].get(a, _NOTHING), stats[1].get(b, _NOTHING)
        if old is new:  # it ran in neither
            continue
        text = texts[1][b - 1] if b else texts[0][a - 1]
        pairs = [(getattr(old, name), getattr(new, name)) for name in ("host_ns", "blocked_ns", "device_ns", "idle_ns")]
        rows.append(LineChange(a or None, b or None, change, text, *(ns for pair in pairs for ns in pair)))
    return Rows(rows, LineChange)


def _split_lines(source: str) -> list[str]:
    """The lines of a cell, stripped."""
    return [text.strip() for text in source.splitlines()]


def _align_lines(first: list[str], second: list[str]) -> Iterator[tuple[str, int, int]]:
    """What became of each line, and its number in both, from 1; 0 if it is not there."""
    for what, i, k, j, m in difflib.SequenceMatcher(None, first, second, autojunk=False).get_opcodes():
        common = k - i if k - i == m - j else 0  # the same number of lines with other text: they were edited
        word = BOTH if what == "equal" else EDITED
        yield from ((word, i + n + 1, j + n + 1) for n in range(common))
        yield from ((GONE, n + 1, 0) for n in range(i + common, k))
        yield from ((NEW, 0, n + 1) for n in range(j + common, m))


# The training steps of two traces side by side.


@dataclass(frozen=True)
class StepChange:
    """A step of the first trace and one of the second.

    number_a: as the first numbers it.
    number_b: as the second numbers it.
    a_ns: its length on the host, in the first.
    b_ns: its length on the host, in the second.
    busy_a_ns: how long a device was busy with it, in the first.
    busy_b_ns: how long a device was busy with it, in the second.
    n_ops_a: device ops that it launched, in the first.
    n_ops_b: device ops that it launched, in the second.
    diff_ns: how much longer it is in the second.
    """

    number_a: int
    number_b: int
    a_ns: int
    b_ns: int
    busy_a_ns: int
    busy_b_ns: int
    n_ops_a: int
    n_ops_b: int

    @property
    def diff_ns(self) -> int:
        return self.b_ns - self.a_ns


def step_changes(first: Side, second: Side) -> Rows[StepChange]:
    """The steps of both, matched by order; if one has more, the median step of each, and a note says so."""
    a, b = first.steps, second.steps
    if not len(a) or not len(b):
        return Rows((), StepChange)
    if len(a) == len(b):
        return Rows((_compare_steps(*pair) for pair in zip(a, b, strict=True)), StepChange)
    counts = phrase(
        "the median step of each: {a} has {steps}, {b} {n}",
        a=first.name,
        steps=counted(len(a), "{n} step", "{n} steps"),
        b=second.name,
        n=units.count(len(b)),
    )
    return Rows([_compare_steps(median_step(a), median_step(b))], StepChange, counts)


def describe_most_changed(rows: Sequence[StepChange]) -> tuple[str, ...]:
    """The step that changed most, in a sentence; "" with fewer than two steps, or if none changed."""
    most = max(rows, key=lambda row: abs(row.diff_ns), default=None)
    if most is None or len(rows) < 2 or not most.diff_ns:
        return ()
    both = f"{most.number_a} → {most.number_b}"
    changed = phrase(
        "of its steps step {n} changed most, by {diff} ({time} → {other})",
        n=most.number_a if most.number_a == most.number_b else both,
        diff=units.signed(most.diff_ns),
        time=units.duration(most.a_ns),
        other=units.duration(most.b_ns),
    )
    return (changed,)


def median_step(steps: Sequence[Step]) -> Step:
    """The step of median length; of the middle two, the shorter."""
    return sorted(steps, key=lambda step: step.duration_ns)[(len(steps) - 1) // 2]


def _compare_steps(a: Step, b: Step) -> StepChange:
    return StepChange(
        *(a.number, b.number, a.duration_ns, b.duration_ns),
        *(a.busy_ns, b.busy_ns, a.n_ops, b.n_ops),
    )


# The ranks of two jobs side by side: which of them represents all, and which changed differently.

Waiting: TypeAlias = tuple[Mapping[int, int], Mapping[int, int]]
OTHERWISE_FRAC = 0.05  # of the first job's median whole; totals of ranks stand out by the same share


@dataclass(frozen=True)
class RankChange:
    """A rank of the first job and of the second.

    rank: the rank.
    a_ns: its whole in the first job.
    b_ns: its whole in the second.
    diff_ns: how much longer it is in the second.
    compute_diff_ns: how much more compute time the second has.
    communication_diff_ns: how much more communication time the second has.
    exposed_communication_diff_ns: how much more communication not overlapped with compute the second has.
    exposed_waiting_diff_ns: how much longer it waits for other ranks in the second, not overlapped with compute; None
    unless both are known.
    copy_diff_ns: how much more copy time the second has.
    idle_diff_ns: how much more idle time the second has.
    median: whether its change is the median.
    otherwise: whether its change is far from the median.
    """

    rank: int
    a_ns: int
    b_ns: int
    diff_ns: int
    compute_diff_ns: int
    communication_diff_ns: int
    exposed_communication_diff_ns: int
    exposed_waiting_diff_ns: int | None
    copy_diff_ns: int
    idle_diff_ns: int
    median: bool
    otherwise: bool


def rank_changes(
    first: Mapping[int, Side], second: Mapping[int, Side], waiting_ns: Waiting = ({}, {})
) -> Rows[RankChange]:
    """The ranks that both jobs have, in ascending order.

    The median rank is the one whose whole changed by the median, or by the lower median of an even number. A rank
    changed otherwise if its change differs from that by a twentieth of the median whole or more.
    waiting_ns: of both jobs, the exposed waiting of the whole recording, by rank, if known.
    """
    ranks = sorted(first.keys() & second.keys())
    changes_of = {
        rank: {row.name: row for row in totals(first[rank], second[rank], repeats_of(first[rank], second[rank]))}
        for rank in ranks
    }
    if not ranks:
        return Rows((), RankChange)
    order = sorted(ranks, key=lambda rank: changes_of[rank]["whole"].diff_ns)
    median = order[(len(order) - 1) // 2]
    far_ns = OTHERWISE_FRAC * float(np.median([changes_of[rank]["whole"].a_ns for rank in ranks]))
    waiting = {rank: _compare_waiting(rank, waiting_ns, repeats_of(first[rank], second[rank])) for rank in ranks}
    return Rows(
        (_compare_rank(rank, changes_of[rank], changes_of[median], far_ns, waiting[rank]) for rank in ranks), RankChange
    )


def _compare_waiting(rank: int, waiting_ns: Waiting, repeats: tuple[int, int]) -> int | None:
    """How much longer a rank waits in the second job, per step if steps are compared; None if not known."""
    a, b = (waited.get(rank) for waited in waiting_ns)
    return None if a is None or b is None else b // repeats[1] - a // repeats[0]


def _compare_rank(
    rank: int,
    changes: Mapping[str, TimeChange],
    median: Mapping[str, TimeChange],
    far_ns: float,
    waiting_diff_ns: int | None,
) -> RankChange:
    whole = changes["whole"]
    return RankChange(
        rank=rank,
        a_ns=whole.a_ns,
        b_ns=whole.b_ns,
        diff_ns=whole.diff_ns,
        compute_diff_ns=changes["compute"].diff_ns,
        communication_diff_ns=changes["communication"].diff_ns,
        exposed_communication_diff_ns=changes["exposed_communication"].diff_ns,
        exposed_waiting_diff_ns=waiting_diff_ns,
        copy_diff_ns=changes["copy"].diff_ns,
        idle_diff_ns=changes["idle"].diff_ns,
        median=changes is median,
        otherwise=abs(whole.diff_ns - median["whole"].diff_ns) >= far_ns,
    )


def rank_notes(rows: Rows[RankChange], missing: Sequence[int]) -> tuple[str, ...]:
    """What the ranks say together, in sentences.  missing: ranks that only one job has."""
    median = next(row for row in rows if row.median)
    stands_for = counted(
        len(rows),
        "the median of {n} rank is rank {rank}: its whole changed by {diff}; parts and tables are of that rank",
        "the median of {n} ranks is rank {rank}: its whole changed by {diff}; parts and tables are of that rank",
        rank=median.rank,
        diff=units.signed(median.diff_ns),
    )
    others = [phrase("rank {n} by {diff}", n=row.rank, diff=units.signed(row.diff_ns)) for row in rows if row.otherwise]
    changed = phrase("no rank changed much differently")
    if others:
        changed = phrase("changed differently: {ranks}", ranks=chained("{a}, {b}", others))
    only = phrase("only one has rank {ranks}", ranks=", ".join(map(str, missing)))
    return (stands_for, changed, *([only] if missing else []))


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
    """The same where there is a verdict, from any source of times."""
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
        return "the bottleneck is unclear"
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
    not_comparable: why not even the times of steps may be compared; None where they may.
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
    step_times: how long whole steps took in both.
    lines: lines of two cells, matched by their text.
    notes: what a reader must know, in sentences.
    ranks: the ranks of two jobs; the rest is then about the median one.
    """

    leading = ("schema_version", "headline", "per_step")
    left_out = ("repeats",)

    a: ComparedTrace
    b: ComparedTrace
    no_verdict: str
    not_comparable: str | None
    as_cell: bool
    by_shape: bool
    repeats: tuple[int, int]
    of_samples: bool
    parts: Rows[TimeChange]
    totals: Rows[TimeChange]
    operators: Rows[work.OperatorChange]
    kernels: Rows[work.KernelChange]
    replaced: Rows[work.Replacement]
    steps: Rows[StepChange]
    step_times: StepTimes
    lines: Rows[LineChange]
    notes: tuple[str, ...]
    ranks: Rows[RankChange]

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
    waiting_ns: Waiting = ({}, {}),
) -> TraceDiff:
    """What changed from one job to another, by rank: the median rank in full, and the others beside it.

    missing: the ranks that only one of them has.  waiting_ns: as in rank_changes().
    """
    ranks = rank_changes(first, second, waiting_ns)
    median = next(row.rank for row in ranks if row.median)
    diff = _diff(first[median], second[median])
    about_ranks = (*rank_notes(ranks, missing), *describe_most_changed(diff.steps))
    common = [{row.rank: job[row.rank] for row in ranks} for job in (first, second)]
    times = step_times(common[0], common[1], median)
    return replace(diff, ranks=ranks, step_times=times, notes=(*about_ranks, *diff.notes))


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
        not_comparable=not_comparable(a, b, operators, kernels, repeats),
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
        steps=step_changes(a, b).labelled(label),
        step_times=step_times({0: a}, {0: b}, 0),
        lines=line_changes(a, b).labelled(label),
        notes=notes(a, b, operators, repeats),
        ranks=Rows((), RankChange),
    )
