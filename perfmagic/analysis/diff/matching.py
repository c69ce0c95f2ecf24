"""The lines of two cells side by side, matched by their text."""

from __future__ import annotations

import difflib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Annotated, ClassVar, TypeAlias

import numpy as np

from perfmagic.analysis.diff.comparable import repeats_of
from perfmagic.analysis.diff.side import Side
from perfmagic.analysis.diff.times import TimeChange, totals
from perfmagic.analysis.diff.work import BOTH, GONE, NEW
from perfmagic.analysis.timeline.lines import LineStat, lines
from perfmagic.analysis.timeline.steps import Step
from perfmagic.base import units
from perfmagic.base.language import chained, counted, phrase
from perfmagic.trace.json_form import one_of
from perfmagic.trace.rows import Rows

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
