"""What made ranks of a job wait: work on one rank that takes more than its peers', and what the job wins without it.

A cause is a kind of work, a line or an operator, on one rank. Its peers are the same work on the other ranks, in the
same step, by their median; work that most ranks do not have is compared as a whole. Its gain is what the replayed job
takes less with it at its peers' time. Causes are found one after the other, the dearest first, so that gains add up.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np

from perfmagic.analysis.ranks.replayed_job import Replay, ReplayedJob, replayed_job
from perfmagic.analysis.timeline.doings import Doing
from perfmagic.analysis.timeline.own_work import STARTS, times_rows
from perfmagic.base.numerics.chance import beyond_chance
from perfmagic.trace.columns import NO_LINE, NONE, Bool, Int64
from perfmagic.trace.model import once_per_trace

if TYPE_CHECKING:
    from perfmagic.analysis.ranks.ranks import Ranks

MOST_CAUSES = 6
MOST_TRIED = 16  # ranks, and kinds of work on one, in one round
NAMED_FRAC = 0.5  # of what a rank's excess wins: one kind of work that wins as much stands for it
TOGETHER_RATIO = 2  # of what several ranks win together to what one does: else each is a cause of its own
SIGNED_FRAC = 0.5  # of the gain: work that is longer and shorter in turn is no cause
STEP_FRAC = 0.1  # of the step with the largest excess: steps with less are not named
LINK_RATIO = 1.5  # times as long as without the rank: transfers of one kind and size scatter less
FEWEST_TRANSFERS = 3  # of one kind and size, with a rank and without it
EQUAL_FRAC = 0.95  # of what the rank with the slowest transfers wins: another one may as well be it
LINK = "link"  # as a phase


@dataclass(frozen=True)
class Cause:
    """Work on some ranks that takes more than its peers; times in ns.

    ranks: that do it; nearly always one.  doing: the work; None where no line or operator stands for it.
    phase: "backward", LINK for transfers; else "".
    steps: the numbers of the steps in which it takes more; empty where none are marked.  n_times, n_rounds: in how many
    of how many steps, or rounds between collectives of all ranks.  own_ns: how long it took there.  excess_ns: more
    than its peers.  gain_ns: what the job would take less, on top of the causes before.  waited_ns: what the other
    ranks would wait less, added up.  span_ns: where it is longest, on the common axis.  about: compute overlaps
    communication on the rank, so that the gain is not exact.  rows: how many times the rows of its peers most
    operators of the work have there, at least; 1 where that is not known.
    """

    ranks: tuple[int, ...]
    doing: Doing | None
    phase: str
    steps: tuple[int, ...]
    n_times: int
    n_rounds: int
    own_ns: int
    excess_ns: int
    gain_ns: int
    waited_ns: int
    span_ns: tuple[int, int]
    about: bool = False
    rows: float = 1.0

    @property
    def rank(self) -> int:
        return self.ranks[0]

    @property
    def line(self) -> int:
        """Of the cell, or of a file."""
        return self.doing.line if self.doing else NO_LINE

    @property
    def name(self) -> str:
        return self.doing.name if self.doing else ""


def find_causes(job: ReplayedJob, least_ns: float) -> tuple[Cause, ...]:
    """The causes that win at least so much of the job each, the dearest first."""
    search = _Search(job, _peers_of(job), least_ns)
    found: list[Cause] = []
    while len(found) < MOST_CAUSES and (cause := search.next()) is not None:
        found.append(cause)
    return tuple(found)


@once_per_trace
def causes_of(ranks: Ranks) -> tuple[Cause, ...]:
    """The causes of a job that win what is notable."""
    job = replayed_job(ranks)
    return () if job is None else find_causes(job, max(1.0, ranks.notable_ns))


# Own work beside that of peers.


@dataclass(frozen=True, eq=False)
class Peers:
    """The pieces of own work of a job, and what their peers take; columns of shape (n,).

    doing: number of `doings`.  compared: what it is compared as.  round: the step, or the number of collectives of all
    ranks before it; NONE in the start-up, which has no peers.  usual_ns: what peers take.
    """

    rank: Int64
    point: Int64
    doing: Int64
    compared: Int64
    round: Int64
    ns: Int64
    usual_ns: Int64
    doings: tuple[Doing, ...]
    n_ranks: int
    n_rounds: int

    @cached_property
    def excess_ns(self) -> Int64:
        return self.ns - self.usual_ns

    @cached_property
    def innermost(self) -> dict[Doing, Int64]:
        """The numbers of the doings on each place."""
        return self._by_place([(doing,) for doing in self.doings])

    @cached_property
    def around(self) -> dict[Doing, Int64]:
        """The numbers of the doings that each line called."""
        return self._by_place([tuple(doing.chain())[1:] for doing in self.doings])

    def _by_place(self, chains: Sequence[tuple[Doing, ...]]) -> dict[Doing, Int64]:
        numbers: dict[Doing, list[int]] = {}
        for number, chain in enumerate(chains):
            for place in {each.place for each in chain}:
                numbers.setdefault(place, []).append(number)
        return {place: np.array(some, np.int64) for place, some in numbers.items()}

    def changed(self, rows: Int64) -> Peers:
        """The same with some pieces at what their peers take, which is then what theirs are compared with."""
        ns = self.ns.copy()
        ns[rows] = self.usual_ns[rows]
        usual_ns = _usual_ns(self.rank, self.compared, self.round, ns, self.n_ranks)
        return replace(self, ns=ns, usual_ns=np.where(self.round == NONE, ns, usual_ns))


def _peers_of(job: ReplayedJob) -> Peers:
    """Every piece with what its peers take."""
    numbers: dict[Doing, int] = {}
    columns: list[tuple[Int64, ...]] = []
    base = 0
    for i, each in enumerate(job.ranks.ranks):
        lane = job.ranks.summaries[each].lane
        known = np.array([numbers.setdefault(doing, len(numbers)) for doing in lane.doings], np.int64)
        point, ns = lane.pieces["point"] + base, lane.pieces["ns"]
        columns.append((np.full(len(ns), i), point, known[lane.pieces["doing"]], lane.pieces["step"], ns))
        base += len(lane.points["kind"])
    rank, point, doing, step, ns = (np.concatenate(column).astype(np.int64) for column in zip(*columns, strict=True))
    rounds, n_rounds = _rounds(job, point, step)
    doings, n_ranks = tuple(numbers), len(job.ranks.ranks)
    compared = _compared(rank, doing, doings, n_ranks)
    peers = Peers(rank, point, doing, compared, rounds, ns, ns, doings, n_ranks, n_rounds)
    return peers.changed(np.zeros(0, np.int64))


def _rounds(job: ReplayedJob, point: Int64, step: Int64) -> tuple[Int64, int]:
    """Of each piece its round, NONE in the start-up, and how many there are.  point, step: of each piece."""
    summaries = job.ranks.summaries.values()
    first = max(each.start.step or 0 for each in summaries)
    steps = [tuple(n for n in each.steps if n >= first) for each in summaries]
    if steps[0] and all(of_rank == steps[0] for of_rank in steps):
        known = np.where((step != NONE) & (step < first), NONE, np.where(step == NONE, max(steps[0]) + 1, step))
        return np.where(step == STARTS, NONE, known), len(steps[0])
    ops = _common_ops(job)
    until = np.maximum(job.came[ops], job.joined[ops])  # what overlaps a collective belongs to the round before
    number = np.zeros(len(point), np.int64)
    for i in range(len(job.began_ns)):
        of_rank = job.points.rank[point] == i
        ends = np.maximum.accumulate(until[job.meetings.op_rank[ops] == i])
        number[of_rank] = np.searchsorted(ends, point[of_rank], side="left")
    started = int(number[step == STARTS].max(initial=NONE))  # on some rank: then no rank is judged by that round
    return np.where(number <= started, NONE, number), max(1, len(ops) // len(job.began_ns) - 1 - started)


def _common_ops(job: ReplayedJob) -> Int64:
    """The ops of collectives in which all ranks are, by rank."""
    n = len(job.ranks.ranks)
    place = {rank: i for i, rank in enumerate(job.ranks.ranks)}
    groups = [group for group in job.ranks.matching.groups if len(group.ranks) == n]
    rows = [
        job.meetings.op_base[place[r]] + places for g in groups for r, places in zip(g.ranks, g.places, strict=True)
    ]
    return np.sort(np.concatenate(rows)) if rows else np.zeros(0, np.int64)


def _compared(rank: Int64, doing: Int64, doings: tuple[Doing, ...], n_ranks: int) -> Int64:
    """Of each piece what it is compared as: its own doing where most ranks have it, else all such work of a phase."""
    pairs = np.unique(doing * n_ranks + rank)
    n_having = np.bincount(pairs // n_ranks, minlength=len(doings))
    phases = sorted({each.phase for each in doings})
    rest = np.array([len(doings) + phases.index(each.phase) for each in doings], np.int64)
    return np.where(2 * n_having > n_ranks, np.arange(len(doings)), rest)[doing]


def _usual_ns(rank: Int64, compared: Int64, rounds: Int64, ns: Int64, n_ranks: int) -> Int64:
    """What the peers of each piece take.  One by one where all ranks have as many of a round, else by their sums."""
    if not len(ns):
        return ns
    cell = compared * (int(rounds.max()) + 2) + rounds + 1
    _, cell = np.unique(cell, return_inverse=True)
    own, inverse, counts = np.unique(cell * n_ranks + rank, return_inverse=True, return_counts=True)
    n_cells = int(cell.max()) + 1
    least, most = np.full(n_cells, np.iinfo(np.int64).max), np.zeros(n_cells, np.int64)
    np.minimum.at(least, own // n_ranks, counts)
    np.maximum.at(most, own // n_ranks, counts)
    even = (least == most) & (np.bincount(own // n_ranks, minlength=n_cells) == n_ranks)
    order = np.argsort(inverse, kind="stable")
    within = np.empty(len(ns), np.int64)
    within[order] = np.arange(len(ns)) - (np.cumsum(counts) - counts)[inverse[order]]
    width = int(counts.max())
    slot = cell * width + np.where(even[cell], within, 0)
    sums_of, place = np.unique(slot * n_ranks + rank, return_inverse=True)
    sums = np.bincount(place, weights=ns).astype(np.int64)
    usual = _others_median(sums_of // n_ranks, sums, n_ranks)
    return (ns * (usual / np.maximum(sums, 1))[place]).round().astype(np.int64)


def _others_median(slot: Int64, sums: Int64, n_ranks: int) -> Int64:
    """Of each rank's sum in a slot the median of the other ranks' there; a rank without one has 0."""
    order = np.lexsort((sums, slot))
    first = np.searchsorted(slot[order], slot[order])
    have = np.searchsorted(slot[order], slot[order], side="right") - first
    own = np.arange(len(sums)) - first + n_ranks - have  # the place among all ranks, those with 0 first

    def at(place: Int64) -> Int64:
        among = place + (place >= own) - (n_ranks - have)
        return np.where(among >= 0, sums[order][np.clip(first + among, 0, len(sums) - 1)], 0)

    others = n_ranks - 1
    middle = np.full(len(sums), (others - 1) // 2), np.full(len(sums), others // 2)
    usual = np.empty(len(sums), np.int64)
    usual[order] = (at(middle[0]) + at(middle[1])) // 2
    return usual


# The search: what on the job's critical path, at its peers' time, wins most.


def _clock_err_ns(ranks: Ranks) -> int:
    """By how much a wait may be wrong: the clocks' bound, else how far apart the ends of a collective are."""
    clocks = ranks.alignment
    if clocks.comparable:
        return clocks.bound_ns or 0
    return clocks.residual_ns[0] if clocks.residual_ns else 0


class _Search:
    """The job with the causes found so far at their peers' time."""

    def __init__(self, job: ReplayedJob, peers: Peers, least_ns: float) -> None:
        self.job, self.peers, self.least_ns = job, peers, least_ns
        self.err_ns = _clock_err_ns(job.ranks)
        self.own_ns, self.moves_ns = job.points.own_ns.copy(), job.moves_ns.copy()
        self.links_open = np.ones(len(job.began_ns), bool)
        self.open = peers.round != NONE
        self.replay = job.recorded

    def next(self) -> Cause | None:
        """The next cause, which is then at its peers' time; None where none wins enough."""
        trials = [*self._of_ranks(), *self._of_links()]
        trials.sort(key=lambda trial: -trial.gain_ns)
        best = next((trial for trial in trials if trial.gain_ns >= self.least_ns), None)
        together = self._together()
        if together is not None and (best is None or together.gain_ns > TOGETHER_RATIO * best.gain_ns):
            best = together
        elif best is not None and len(best.rows):
            best = self._named(best)
        return None if best is None else self._take(best)

    def _of_ranks(self) -> list[_Trial]:
        rows = self._on_path()
        excess = np.bincount(self.peers.rank[rows], self.peers.excess_ns[rows].clip(0), len(self.job.began_ns))
        ranks = np.argsort(-excess, kind="stable")[:MOST_TRIED]
        stands_out = self._stands_out()
        trials = [self._trial(stands_out & (self.peers.rank == rank)) for rank in ranks[excess[ranks] > 0].tolist()]
        return [trial for trial in trials if trial is not None]

    def _stands_out(self) -> Bool:
        """Which pieces take more than their peers by no chance."""
        peers, out = self.peers, np.zeros(len(self.open), bool)
        rows = np.flatnonzero(self.open)
        rank, kind, rounds = peers.rank[rows], peers.compared[rows], peers.round[rows]
        ns, excess_ns = peers.ns[rows], peers.excess_ns[rows]
        out[rows] = beyond_chance(rank, kind, rounds, ns, excess_ns, n_ranks=peers.n_ranks)
        return out

    def _on_path(self) -> Int64:
        """The pieces on the critical path."""
        on = np.zeros(len(self.own_ns), bool)
        on[self.job.path(self.replay)] = True
        return np.flatnonzero(self.open & on[self.peers.point])

    def _trial(self, rows: Bool, doing: Doing | None = None) -> _Trial | None:
        """The job with some pieces at their peers' time; None where they are as often shorter as longer."""
        own_ns = self.own_ns + np.bincount(
            self.peers.point[rows], -self.peers.excess_ns[rows], len(self.own_ns)
        ).astype(np.int64)
        replay = self.job.replayed(own_ns, self.moves_ns)
        gain_ns = self.replay.end_ns - replay.end_ns
        excess_ns = int(self.peers.excess_ns[rows].sum())
        less_ns = self.job.op_waits_ns(self.replay) - self.job.op_waits_ns(replay)
        if excess_ns < SIGNED_FRAC * gain_ns or less_ns.max(initial=0) < self.err_ns:
            return None
        return _Trial(gain_ns, excess_ns, replay, own_ns, self.moves_ns, np.flatnonzero(rows), doing)

    def _named(self, trial: _Trial) -> _Trial:
        """The one place that wins most of what a rank's whole excess does; else the line that called most; else all."""
        least_ns = NAMED_FRAC * trial.gain_ns
        found = [each for each in self._tried(trial, self.peers.innermost) if each.gain_ns >= least_ns]
        if found:
            return max(found, key=lambda each: each.gain_ns)
        found = [each for each in self._tried(trial, self.peers.around) if each.gain_ns >= least_ns]
        return max(found, key=lambda each: len(list(each.doing.chain())) if each.doing else 0, default=trial)

    def _tried(self, trial: _Trial, places: Mapping[Doing, Int64]) -> list[_Trial]:
        """The trial with nothing but one place at its peers' time, of each that has most of the excess."""
        sums = np.bincount(self.peers.doing[trial.rows], self.peers.excess_ns[trial.rows], len(self.peers.doings))
        among = np.zeros(len(self.open), bool)
        among[trial.rows] = True
        excess = {place: float(sums[numbers].sum()) for place, numbers in places.items()}
        most = sorted((place for place in places if excess[place] > 0), key=lambda place: -excess[place])[:MOST_TRIED]
        tried = []
        for place in most:
            numbers = places[place]
            longest = self.peers.doings[numbers[sums[numbers].argmax()]]
            doing = next(each for each in longest.chain() if each.place == place)
            tried.append(self._trial(among & np.isin(self.peers.doing, numbers), doing))
        return [each for each in tried if each is not None]

    def _of_links(self) -> list[_Trial]:
        """The rank without which transfers of one kind and size take less; several where none can be told apart."""
        took = _took_ns(self.job, self.moves_ns)
        trials = [self._of_link(rank, took) for rank in np.flatnonzero(self.links_open).tolist()]
        found = [trial for trial in trials if trial is not None]
        if not found:
            return []
        best = max(found, key=lambda trial: trial.gain_ns)
        equal = [each for each in found if each.gain_ns >= EQUAL_FRAC * best.gain_ns]
        return [replace(best, places=tuple(place for each in equal for place in each.places))]

    def _of_link(self, rank: int, took: Int64) -> _Trial | None:
        job = self.job
        met, op = job.meetings.arrivals.T
        here = np.zeros(len(job.meetings), bool)
        here[met[job.meetings.op_rank[op] == rank]] = True
        usual = took.copy()
        for kind in range(len(job.meetings.kinds)):
            alike = job.meetings.alike == kind
            ours, others = np.flatnonzero(alike & here), np.flatnonzero(alike & ~here)
            if len(ours) < FEWEST_TRANSFERS or len(others) < FEWEST_TRANSFERS:
                continue
            usual_ns = int(np.median(took[others]))
            if np.median(took[ours]) > LINK_RATIO * usual_ns:
                usual[ours] = np.minimum(took[ours], usual_ns)
        less = took - usual
        slow = np.flatnonzero(less > 0)
        if int(less.sum()) <= most_waited_ns(job.ranks):  # threads that wait for a core move no data
            return None
        moves_ns = np.where(self.moves_ns > 0, np.maximum(0, self.moves_ns - less[job.meetings.meeting]), self.moves_ns)
        replay = job.replayed(self.own_ns, moves_ns)
        gain_ns, nothing = self.replay.end_ns - replay.end_ns, np.zeros(0, np.int64)
        return _Trial(gain_ns, int(less.sum()), replay, self.own_ns, moves_ns, nothing, None, slow, (rank,))

    def _together(self) -> _Trial | None:
        """Several ranks on which one kind of work takes as much more: each alone wins nothing."""
        rows = self._on_path()
        sums = np.bincount(self.peers.doing[rows], self.peers.excess_ns[rows].clip(0), len(self.peers.doings))
        stands_out = self._stands_out()
        places = sorted(self.peers.innermost.values(), key=lambda numbers: -float(sums[numbers].sum()))
        for numbers in places[:MOST_TRIED]:
            of_kind = stands_out & np.isin(self.peers.doing, numbers)
            doing = self.peers.doings[numbers[sums[numbers].argmax()]]
            excess = np.bincount(self.peers.rank[of_kind], self.peers.excess_ns[of_kind], len(self.job.began_ns))
            late = np.flatnonzero(excess > NAMED_FRAC * max(1, excess.max()))
            if 2 <= len(late) <= len(excess) // 2:
                trial = self._trial(of_kind & np.isin(self.peers.rank, late), doing)
                if trial is not None and trial.gain_ns >= self.least_ns:
                    return trial
        return None

    def _take(self, trial: _Trial) -> Cause:
        """Make a trial's change stay, and say what its cause is."""
        before, after = (self.job.waits_ns(replay) for replay in (self.replay, trial.replay))
        self.open[trial.rows] = False
        self.links_open[list(trial.places)] = False
        places = list(trial.places) or np.unique(self.peers.rank[trial.rows]).tolist()
        others = np.ones(len(before), bool)
        others[places] = False
        waited_ns = int((before - after)[others].clip(0).sum())
        cause = self._cause(trial, places, waited_ns)
        self.own_ns, self.moves_ns, self.replay = trial.own_ns, trial.moves_ns, trial.replay
        if len(trial.rows):
            self.peers = self.peers.changed(trial.rows)
        return cause

    def _cause(self, trial: _Trial, places: list[int], waited_ns: int) -> Cause:
        ranks = tuple(self.job.ranks.ranks[place] for place in places)
        summaries = self.job.ranks.summaries
        if len(trial.meetings):
            return self._link(trial, ranks, waited_ns)
        rounds, excess = self.peers.round[trial.rows], self.peers.excess_ns[trial.rows]
        numbers, place = np.unique(rounds, return_inverse=True)
        by_round = np.bincount(place, excess)
        named = numbers[by_round >= STEP_FRAC * by_round.max()]
        marked = summaries[ranks[0]].steps
        longest = int(trial.rows[excess.argmax()])
        span = self._where(int(self.peers.point[longest]))
        return Cause(
            ranks=ranks,
            doing=trial.doing,
            phase=trial.doing.phase if trial.doing else "",
            steps=tuple(number for number in named.tolist() if number in marked),
            n_times=len(named),
            n_rounds=self.peers.n_rounds,
            own_ns=int(self.peers.ns[trial.rows].sum()),
            excess_ns=trial.excess_ns,
            gain_ns=trial.gain_ns,
            waited_ns=waited_ns,
            span_ns=span,
            about=any(summaries[rank].lane.streams for rank in ranks),
            rows=_rows(self.job.ranks, ranks, trial.doing),
        )

    def _link(self, trial: _Trial, ranks: tuple[int, ...], waited_ns: int) -> Cause:
        met, took = self.job.recorded.met_ns[trial.meetings], _took_ns(self.job, self.job.moves_ns)[trial.meetings]
        longest = int(took.argmax())
        kind = self.job.meetings.kinds[int(self.job.meetings.alike[trial.meetings[longest]])].partition(" ")[0]
        return Cause(
            ranks=ranks,
            doing=Doing(NO_LINE, kind),
            phase=LINK,
            steps=(),
            n_times=len(trial.meetings),
            n_rounds=self.peers.n_rounds,
            own_ns=int(took.sum()),
            excess_ns=trial.excess_ns,
            gain_ns=trial.gain_ns,
            waited_ns=waited_ns,
            span_ns=(int(met[longest]), int(met[longest] + took[longest])),
        )

    def _where(self, point: int) -> tuple[int, int]:
        """The span of a point's work on the common axis."""
        points, rank = self.job.points, self.job.points.rank[point]
        goes_on = point > 0 and points.rank[point - 1] == rank
        start_ns = points.at_ns[point - 1] if goes_on else self.job.began_ns[rank]
        return int(start_ns), int(points.at_ns[point])


def most_waited_ns(ranks: Ranks) -> int:
    """How long the threads of one rank waited for a core, at most; 0 where that is not known."""
    return max(summary.meta.waited_for_core_ns or 0 for summary in ranks.summaries.values())


def _took_ns(job: ReplayedJob, moves_ns: Int64) -> Int64:
    """How long each meeting moves data once it is met."""
    took = np.zeros(len(job.meetings), np.int64)
    np.maximum.at(took, job.meetings.meeting, moves_ns)
    return took


def _rows(ranks: Ranks, of: tuple[int, ...], doing: Doing | None) -> float:
    """How many times the rows of the other ranks some have at least, in the median operator of what they do."""
    others = [summary.lane.rows for rank, summary in ranks.summaries.items() if rank not in of]
    return min(times_rows(ranks.summaries[rank].lane.rows, others, doing) for rank in of)


@dataclass(frozen=True, eq=False)
class _Trial:
    """A replay with something at its peers' time.  rows: its pieces, none of a link.  meetings, places: of a link."""

    gain_ns: int
    excess_ns: int
    replay: Replay
    own_ns: Int64
    moves_ns: Int64
    rows: Int64
    doing: Doing | None
    meetings: Int64 = field(default_factory=lambda: np.zeros(0, np.int64))
    places: tuple[int, ...] = ()
