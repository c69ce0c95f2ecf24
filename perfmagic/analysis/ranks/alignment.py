"""One time axis for several ranks: by how much each rank's clock is off, and how well that is known."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from perfmagic.analysis.ranks.rank_summary import RankSummary
from perfmagic.analysis.ranks.waits import MatchedGroup, MatchedMessages, Matching
from perfmagic.base import units
from perfmagic.base.kinds import VIRTUAL_CLOCK
from perfmagic.base.language import chained, listed, phrase
from perfmagic.base.numerics.clocks import UNKNOWN, Bounds, even_slope, interval_slope, joined, no_facts, rates_of
from perfmagic.trace.columns import Int64

# What is certain about the clocks of several ranks: one host, pings, and causality.

# with many ranks, not every collective is used: fewer facts leave a wider bound, which still holds
MOST_STEPS = 200_000_000  # of numpy, a fifth of a second
LEAST_COLLECTIVES = 32


@dataclass(frozen=True)
class Ping:
    """One exchange between two ranks, each by the monotonic clock of its host.

    asked_ns: before the first rank sent.  answered_ns: before the second one answered.  back_ns: when the first one
    had the answer.  round: exchanges of one moment share a number; clocks may drift from round to round.
    """

    first: int
    second: int
    asked_ns: int
    answered_ns: int
    back_ns: int
    round: int = 0


@dataclass(frozen=True, eq=False)
class ClockFacts:
    """The clocks of some ranks, in their order.

    measured: bounds by hosts and pings.  certain: bounds by these and causality.  missed_ns: by how much causality
    contradicts hosts and pings.  n_pings: exchanges that counted.  one_host: all ranks ran on one host.
    distrusted_ns: by how much causality contradicted pings that were left out, as the hosts' unix clocks agree better.
    """

    ranks: tuple[int, ...]
    measured: Bounds
    certain: Bounds
    missed_ns: int
    n_pings: int
    one_host: bool
    distrusted_ns: int = 0


def clock_facts(
    summaries: Mapping[int, RankSummary],
    groups: Iterable[MatchedGroup],
    messages: Iterable[MatchedMessages] = (),
    pings: Sequence[Ping] = (),
    drifts: Mapping[int, Drift] | None = None,
) -> ClockFacts:
    """What is certain about the clocks of several ranks.

    groups: collectives that no rank leaves before all others have arrived.  A message cannot arrive before it is sent.
    pings count for ranks whose record gives its instant 0 by the monotonic clock. Between two rounds of pings clocks
    drift: at any moment the true offset lies between those of the rounds.  drifts: what was taken out of the times of
    groups and messages. Pings that causality contradicts count for nothing where it agrees with the unix clocks of
    the hosts, as NTP and PTP set them.
    """
    ranks = tuple(sorted(summaries))
    place = {rank: i for i, rank in enumerate(ranks)}
    facts = no_facts(len(ranks))
    one_host = _bound_by_host(summaries, ranks, facts)
    of_hosts = facts.copy()
    n_pings = _bound_by_pings(summaries, pings, place, facts, drifts or {})
    measured = joined(facts)
    clock = np.array([summaries[rank].meta.base_unix_ns for rank in ranks], np.int64)
    trusted = {rank for rank in ranks if not summaries[rank].meta.repaired_ops}  # repaired times are guesses
    causal = no_facts(len(ranks))
    for group in groups:
        _bound_by_collectives(group, place, clock, trusted, causal)
    for pair in messages:
        if {pair.source, pair.target} <= trusted:
            i, j = place[pair.source], place[pair.target]
            latest = int((pair.arrived_ns - pair.sent_ns).min() + clock[j] - clock[i])
            causal[j, i] = min(int(causal[j, i]), latest)
    missed_ns = 0 if measured.contradiction else int((-measured.most.T - causal).max(initial=0))
    distrusted_ns, recorded_ns = 0, max(0, -int(causal.min(initial=0)))
    if n_pings and missed_ns > max(SHARED_CLOCK_NS, UNIX_BETTER * recorded_ns):
        measured, facts = joined(of_hosts), of_hosts
        distrusted_ns, missed_ns, n_pings = missed_ns, 0, 0
    facts = np.minimum(facts, causal)
    # hosts and pings know better than any op how two clocks differ: a device's clock has an error of its own
    known = measured.most < UNKNOWN
    facts = np.where(known & known.T, measured.most, facts)
    return ClockFacts(ranks, measured, joined(facts), missed_ns, n_pings, one_host, distrusted_ns)


def _find_correction_ns(summary: RankSummary) -> int | None:
    """What to add to the recorded unix time for the host's monotonic clock."""
    base = summary.meta.monotonic_base_ns
    return None if base is None else base - summary.meta.base_unix_ns


def _bound_by_host(summaries: Mapping[int, RankSummary], ranks: Sequence[int], facts: Int64) -> bool:
    """Ranks on one host read one clock, until the host reboots."""
    at: dict[str, list[tuple[int, int]]] = defaultdict(list)
    for i, rank in enumerate(ranks):
        correction = _find_correction_ns(summaries[rank])
        if summaries[rank].meta.boot and correction is not None:
            at[summaries[rank].meta.boot].append((i, correction))
    for of_host in at.values():
        places, corrections = np.array(of_host, np.int64).T
        facts[np.ix_(places, places)] = corrections[None, :] - corrections[:, None]
    return len(at) == 1 and len(next(iter(at.values()))) == len(ranks)


def _bound_by_pings(
    summaries: Mapping[int, RankSummary],
    pings: Sequence[Ping],
    place: Mapping[int, int],
    facts: Int64,
    drifts: Mapping[int, Drift],
) -> int:
    rounds, n = _rounds(summaries, pings)
    for (first, second), by_round in rounds.items():
        i, j = place[first], place[second]
        by = [drifts[second].ns(each.second_ns) - drifts[first].ns(each.first_ns) if drifts else 0 for each in by_round]
        facts[i, j] = min(int(facts[i, j]), max(each.high_ns - ns for each, ns in zip(by_round, by, strict=True)))
        facts[j, i] = min(int(facts[j, i]), -min(each.low_ns - ns for each, ns in zip(by_round, by, strict=True)))
    return n


@dataclass
class _Round:
    """What exchanges of one moment say: when it was by the clock of each rank, and the least and the most that the
    second rank's offset lies above the first one's.
    """

    first_ns: int
    second_ns: int
    low_ns: int
    high_ns: int


def _rounds(
    summaries: Mapping[int, RankSummary], pings: Sequence[Ping]
) -> tuple[dict[tuple[int, int], list[_Round]], int]:
    """By pair of ranks the rounds of their pings, and how many pings counted."""
    rounds: dict[tuple[int, int], dict[int, _Round]] = defaultdict(dict)
    n = 0
    for ping in pings:
        metas = [summaries[rank].meta for rank in (ping.first, ping.second) if rank in summaries]
        bases = [meta.monotonic_base_ns for meta in metas if meta.monotonic_base_ns is not None]
        if len(bases) < 2:
            continue
        n += 1
        first_ns, second_ns = ping.asked_ns - bases[0], ping.answered_ns - bases[1]
        by = metas[0].base_unix_ns - metas[1].base_unix_ns
        low, high = first_ns - second_ns + by, ping.back_ns - bases[0] - second_ns + by
        known = rounds[ping.first, ping.second].setdefault(ping.round, _Round(first_ns, second_ns, low, high))
        known.low_ns, known.high_ns = max(known.low_ns, low), min(known.high_ns, high)
    return {ends: list(by_round.values()) for ends, by_round in rounds.items()}, n


def _bound_by_collectives(
    group: MatchedGroup, place: Mapping[int, int], clock: Int64, trusted: set[int], facts: Int64
) -> None:
    """No rank leaves before every other has arrived: the smallest end minus start over all collectives counts."""
    rows = np.array([row for row, rank in enumerate(group.ranks) if rank in trusted], np.int64)
    if not len(rows) or not len(group.kinds):
        return
    at = np.array([place[group.ranks[row]] for row in rows.tolist()], np.int64)
    starts, ends = (times[rows] + clock[at, None] for times in (group.start_ns, group.end_ns))
    most = max(MOST_STEPS // len(rows) ** 2, LEAST_COLLECTIVES)
    if len(group.kinds) > most:  # the shortest ones bound the clocks most
        tight = np.argpartition(ends.max(axis=0) - starts.max(axis=0), most)[:most]
        starts, ends = starts[:, tight], ends[:, tight]
    latest = np.full((len(rows), len(rows)), UNKNOWN, np.int64)
    for of_start, of_end in zip(starts.T, ends.T, strict=True):
        np.minimum(latest, of_end[:, None] - of_start[None, :], out=latest)
    np.fill_diagonal(latest, 0)
    where = np.ix_(at, at)
    facts[where] = np.minimum(facts[where], latest)


# Clocks of several hosts that drift.

UNIX_BETTER = 2  # times as much do collectives contradict pings that the unix clocks replace


@dataclass(frozen=True)
class Drift:
    """How a clock is corrected: by a rate, in ns a ns, from an instant of its own on."""

    rate: float
    from_ns: int

    def ns(self, at_ns: Any) -> Any:
        """What is added to instants of that clock, as integers."""
        return np.rint(self.rate * (at_ns - self.from_ns)).astype(np.int64)


def drifts_of(
    summaries: Mapping[int, RankSummary], groups: Sequence[MatchedGroup], pings: Sequence[Ping]
) -> dict[int, Drift]:
    """How the clock of each rank is corrected for an even drift against the first one's; empty where none is seen.

    Ranks of one host drift alike. Rounds of pings that contradict each other show a drift. Without pings, ends of
    collectives do that drift apart steadily by more than those of one host.
    """
    host = {rank: summaries[rank].meta.boot or f"of rank {rank}" for rank in sorted(summaries)}
    slopes: dict[tuple[str, str], float] = {}
    for (first, second), by_round in _rounds(summaries, pings)[0].items():
        at_ns, low_ns, high_ns = np.array([(each.first_ns, each.low_ns, each.high_ns) for each in by_round]).T
        slopes[host[first], host[second]] = interval_slope(at_ns, low_ns, high_ns)
    for group in groups:
        for row, rank in enumerate(group.ranks):
            pair = host[group.ranks[0]], host[rank]
            if pair[0] != pair[1] and not {pair, pair[::-1]} & slopes.keys():
                slopes[pair] = even_slope(group.end_ns[0], group.end_ns[0] - group.end_ns[row])
    rates = rates_of(slopes, next(iter(host.values()), ""))
    if not any(rates.values()):
        return {}
    middle: dict[str, int] = {}  # of each host on its monotonic clock: its ranks are corrected from one instant on
    drifts = {}
    for rank, summary in sorted(summaries.items()):
        base_ns = summary.meta.monotonic_base_ns or 0
        from_ns = middle.setdefault(host[rank], base_ns + (summary.first_ns + summary.last_ns) // 2) - base_ns
        drifts[rank] = Drift(rates.get(host[rank], 0.0), from_ns)
    return drifts


# Ends of one collective on the ranks of one host differ by microseconds (6 µs on eight V100); clocks of two hosts under
# NTP by milliseconds. What is not larger is not a clock error.
SHARED_CLOCK_NS = 50_000
_MOST_SHOWN = 8  # ranks that are named one by one
_FAR = 10  # times the longest record
# a rank may leave these before the others have what they need; other collectives end on all ranks together
_ENDS_APART = re.compile(
    r"broadcast|(?<!all)(?<!all_)reduce(?!_?scatter)|(?<!reduce)(?<!reduce_)scatter|(?<!all)(?<!all_)gather"
)


@dataclass(frozen=True)
class Alignment:
    """Where each rank's instant 0 lies on a common axis.

    offset_ns: by rank, to be added to its trace's times; the earliest record of all lies at 0.
    moved_ns: by rank, what was added to its own clock for that; empty where the clocks agree.
    residual_ns: how far apart the ends of one collective still are, the median and the largest; None if there are
    none to compare.  unknown: ranks that share no collective with the others: their clocks are as recorded.
    begin_together: nothing tells how the clocks fit together, and as recorded they are far apart: each begins at 0.
    bound_ns: no two clocks that do not drift are further apart than this on the axis; None if nothing says so.
    how: what says so: "one host", "virtual" (all keep one virtual clock), "pings", "causality" (no rank leaves a
    collective, and no message arrives, before all it needs is there); "" for nothing.
    contradiction: ranks whose facts cannot all hold, and by how much (ns) they miss; the clocks are then as recorded.
    missed_ns: by how much collectives and messages contradict the pings; bound_ns includes it; 0 if they do not.
    comparable: clocks tell how long ranks wait better than ends of collectives do: waits are read off the axis.
    distrusted_ns: by how much collectives contradicted pings that count for nothing, as the unix clocks agree better.
    drifts: by rank, where clocks drift: offset_ns holds in the middle of a record, to_axis() at each instant.
    """

    offset_ns: Mapping[int, int]
    moved_ns: Mapping[int, int]
    residual_ns: tuple[int, int] | None
    unknown: tuple[int, ...]
    begin_together: bool = False
    bound_ns: int | None = None
    how: str = ""
    contradiction: tuple[tuple[int, ...], int] | None = None
    comparable: bool = False
    missed_ns: int = 0
    distrusted_ns: int = 0
    drifts: Mapping[int, Drift] = field(default_factory=dict)

    def to_axis(self, rank: int, at_ns: Int64) -> Int64:
        """What to add to instants of a rank's clock for the common axis."""
        drift_ns: Int64 | int = self.drifts[rank].ns(at_ns) if self.drifts else 0
        return np.full(np.shape(at_ns), self.offset_ns[rank], np.int64) + drift_ns

    @property
    def words(self) -> str:
        """The method, its residual and its bound, in a sentence."""
        known = self._words
        if self.drifts:
            rates = [drift.rate for drift in self.drifts.values()]
            drift = units.duration((max(rates) - min(rates)) * 1e9)
            known = phrase("{known}, after a steady drift of {time} per second is removed", known=known, time=drift)
        if self.distrusted_ns:
            missed = units.duration(self.distrusted_ns)
            known = phrase(
                "{known}; pings are left out: collectives contradict them by {missed}", known=known, missed=missed
            )
        return known

    @property
    def _words(self) -> str:
        if self.contradiction:
            ranks, by = self.contradiction
            return phrase(
                "the clocks of ranks {ranks} contradict each other by {time}: they are as recorded",
                ranks=listed(list(map(str, ranks))),
                time=units.duration(by),
            )
        if self.how == "one host":
            return phrase("one clock: one host ran all ranks")
        if self.how == "virtual":
            return phrase("one virtual clock; communication times are computed from the link, not checked on GPUs")
        if self.how == "pings":
            return self._of_pings()
        if self.begin_together:
            return phrase("the clocks have nothing in common: each rank begins at 0")
        return self._of_collectives()

    @property
    def _bound(self) -> str:
        return "" if self.bound_ns is None else f"±{units.duration(self.bound_ns)}"

    def _of_pings(self) -> str:
        known = phrase("clocks agree within {bound}, by pings between the ranks", bound=self._bound)
        if not self.missed_ns:
            return known
        missed = units.duration(self.missed_ns)
        return phrase("{known}; collectives contradict them by {missed}", known=known, missed=missed)

    def _of_collectives(self) -> str:
        left = phrase(
            "clocks that do not drift agree within {bound}, as no rank leaves a collective before all have entered it",
            bound=self._bound,
        )
        if self.comparable:
            return left
        if self.residual_ns is None and self._bound:
            return phrase(
                "clocks that do not drift agree within {bound}, as no message arrives before it is sent",
                bound=self._bound,
            )
        if self.residual_ns is None:
            return phrase("the clocks are as recorded: no collective is matched by which to compare them")
        lost = [phrase("no collective determines the clock of rank {ranks}", ranks=", ".join(map(str, self.unknown)))]
        known = [*(lost if self.unknown else []), *([left] if self._bound else [])]
        return chained("{a}; {b}", (self._of_ends(*self.residual_ns), *known))

    def _of_ends(self, median_ns: int, most_ns: int) -> str:
        median, most = units.duration(median_ns), units.duration(most_ns)
        if not self.moved_ns:
            return phrase(
                "one clock, ends of collectives agree within {most} ({median} in the median)", most=most, median=median
            )
        return phrase(
            "clocks moved by up to {moved}, as all ranks leave a collective together: ends of collectives agree within"
            " {most} ({median} in the median)",
            moved=units.duration(max(abs(ns) for ns in self.moved_ns.values())),
            most=most,
            median=median,
        )

    def __str__(self) -> str:
        return self.words

    def __repr__(self) -> str:
        """The sentence, and what was added to the ranks' own clocks."""
        moved = (f"rank {rank} by {units.signed(ns)}" for rank, ns in sorted(self.moved_ns.items())[:_MOST_SHOWN])
        more = f", and {len(self.moved_ns) - _MOST_SHOWN} more" if len(self.moved_ns) > _MOST_SHOWN else ""
        return f"{self.words}; moved: {', '.join(moved)}{more}" if self.moved_ns else self.words


def aligned(
    summaries: Mapping[int, RankSummary],
    matching: Matching,
    messages: Sequence[MatchedMessages] = (),
    pings: Sequence[Ping] = (),
) -> Alignment:
    """How the clocks of several ranks of one job fit together, once even drifts are taken out.

    Ranks of one host share a clock; pings compare the clocks of several hosts. Without pings, all ranks leave a
    collective at one time, so clocks differ by the median difference of its ends. That fails if the ends, as with gloo,
    lie further apart than causality allows the clocks to. Clocks that already agree are not touched. Ranks without a
    common group are joined through others. The result never contradicts the certain facts.
    """
    groups = [_keep_common_ends(group) for group in matching.groups]
    groups = [group for group in groups if group.kinds]
    drifts = drifts_of(summaries, groups, pings)
    if drifts:
        groups = [_without_drift(group, drifts) for group in groups]
        messages = [_messages_without_drift(pair, drifts) for pair in messages]
    return replace(_aligned(summaries, groups, messages, pings, drifts), drifts=drifts)


def _without_drift(group: MatchedGroup, drifts: Mapping[int, Drift]) -> MatchedGroup:
    by = [drifts[rank] for rank in group.ranks]
    starts, ends = (
        np.array([row + drift.ns(row) for row, drift in zip(times, by, strict=True)])
        for times in (group.start_ns, group.end_ns)
    )
    return replace(group, start_ns=starts, end_ns=ends)


def _messages_without_drift(pair: MatchedMessages, drifts: Mapping[int, Drift]) -> MatchedMessages:
    source, target = drifts[pair.source], drifts[pair.target]
    return replace(
        pair,
        sent_ns=pair.sent_ns + source.ns(pair.sent_ns),
        sent_end_ns=pair.sent_end_ns + source.ns(pair.sent_end_ns),
        asked_ns=pair.asked_ns + target.ns(pair.asked_ns),
        arrived_ns=pair.arrived_ns + target.ns(pair.arrived_ns),
    )


def _aligned(
    summaries: Mapping[int, RankSummary],
    groups: list[MatchedGroup],
    messages: Sequence[MatchedMessages],
    pings: Sequence[Ping],
    drifts: Mapping[int, Drift],
) -> Alignment:
    ranks = sorted(summaries)
    clock = {rank: summary.meta.base_unix_ns for rank, summary in summaries.items()}
    facts = clock_facts(summaries, groups, messages, pings, drifts)
    off = _estimate_clock_errors(ranks, groups, clock)
    middles = None if facts.measured.contradiction else facts.measured.middles()
    raw = _measure_residuals(groups, clock)
    moved: dict[int, int] = {}
    by_clocks = middles is not None
    if middles is not None:
        moved = _map_moves(middles, ranks)
    elif not facts.certain.contradiction:
        if len(raw) and int(raw.max()) > SHARED_CLOCK_NS:
            moved = {rank: -error for rank, error in off.items() if error}
        moved = _fit_moves(moved, ranks, facts)
        better = _move_by_facts(ranks, facts)
        if better is not None and len(raw) and _measure_residuals(groups, _move_clocks(clock, moved)).max() > better[1]:
            moved, by_clocks = better[0], True
    at = _move_clocks(clock, moved)
    apart = not len(raw) and not by_clocks and _are_far_apart(summaries)
    if apart:
        at = {rank: -summary.first_ns for rank, summary in summaries.items()}
    left = _measure_residuals(groups, at)
    first = min((at[rank] + summary.first_ns for rank, summary in summaries.items()), default=0)
    bound_ns, how, contradiction = _find_bound(facts, ranks, _list_moves(moved, ranks), measured=middles is not None)
    if how == "one host" and all(summary.meta.boot == VIRTUAL_CLOCK for summary in summaries.values()):
        how = "virtual"
    missed_ns = facts.missed_ns if facts.missed_ns > SHARED_CLOCK_NS else 0
    if how == "pings" and bound_ns is not None:
        bound_ns += missed_ns
    return Alignment(
        offset_ns={rank: at[rank] - first for rank in ranks},
        moved_ns=moved,
        residual_ns=(int(np.median(left)), int(left.max())) if len(left) else None,
        unknown=() if by_clocks else tuple(rank for rank in ranks if rank not in off),
        begin_together=apart,
        bound_ns=None if apart else bound_ns,
        how="" if apart else how,
        contradiction=contradiction,
        comparable=by_clocks,
        missed_ns=missed_ns if how == "pings" else 0,
        distrusted_ns=facts.distrusted_ns,
    )


def _move_clocks(clock: Mapping[int, int], moved: Mapping[int, int]) -> dict[int, int]:
    return {rank: at + moved.get(rank, 0) for rank, at in clock.items()}


def _list_moves(moved: Mapping[int, int], ranks: Sequence[int]) -> Int64:
    return np.array([moved.get(rank, 0) for rank in ranks], np.int64)


def _map_moves(offsets: Int64, ranks: Sequence[int]) -> dict[int, int]:
    return {rank: by for rank, by in zip(ranks, offsets.tolist(), strict=True) if by}


def _move_by_facts(ranks: Sequence[int], facts: ClockFacts) -> tuple[dict[int, int], int] | None:
    """What to add to each clock by certain facts alone, and its bound; None if a clock stays unbounded.

    Clocks stay as recorded if the facts allow it.
    """
    moved = _fit_moves({}, ranks, facts)
    bound_ns = facts.certain.farthest(_list_moves(moved, ranks))
    return None if bound_ns is None else (moved, bound_ns)


def _find_bound(
    facts: ClockFacts, ranks: Sequence[int], chosen: Int64, *, measured: bool
) -> tuple[int | None, str, tuple[tuple[int, ...], int] | None]:
    """The bound of all clocks, what sets it, and which ranks contradict each other."""
    wrong = facts.certain
    if facts.measured.contradiction:
        wrong = facts.measured
    elif measured:
        return facts.measured.farthest(chosen), "one host" if facts.one_host else "pings", None
    if wrong.contradiction:
        return None, "", (tuple(sorted(ranks[i] for i in wrong.contradiction)), wrong.by)
    farthest = wrong.farthest(chosen)
    return farthest, "" if farthest is None else "causality", None


def _fit_moves(moved: Mapping[int, int], ranks: Sequence[int], facts: ClockFacts) -> dict[int, int]:
    """What is added to each clock, changed as little as the certain facts require."""
    wanted = _list_moves(moved, ranks)
    chosen, middles = facts.certain.nearest(wanted), facts.certain.middles()
    if not moved and middles is not None and (chosen != wanted).any():
        chosen = middles  # clocks that are wrong as recorded: nothing favours the edge of what is certain
    return _map_moves(chosen, ranks)


def _are_far_apart(summaries: Mapping[int, RankSummary]) -> bool:
    """Whether the clocks as recorded would leave more gaps than records on one axis."""
    starts = [summary.meta.base_unix_ns + summary.first_ns for summary in summaries.values()]
    longest = max(summary.meta.end_ns - summary.meta.start_ns for summary in summaries.values())
    return max(starts) - min(starts) > _FAR * max(longest, 1)


def _keep_common_ends(group: MatchedGroup) -> MatchedGroup:
    """The collectives of a group that all ranks leave together."""
    kept = np.array([_ENDS_APART.search(kind.lower()) is None for kind in group.kinds], bool)
    kinds = tuple(kind for kind, keep in zip(group.kinds, kept.tolist(), strict=True) if keep)
    parts = (group.places[:, kept], group.start_ns[:, kept], group.end_ns[:, kept])
    return MatchedGroup(group.name, group.ranks, kinds, *parts)


def _estimate_clock_errors(ranks: list[int], groups: list[MatchedGroup], clock: Mapping[int, int]) -> dict[int, int]:
    """How far each rank's clock is ahead of the first one's, through common groups; unknown ones are left out."""
    if not ranks or not groups:
        return {}
    known = {groups[0].ranks[0] if ranks[0] not in groups[0].ranks else ranks[0]: 0}
    for _ in ranks:
        n_known = len(known)
        for group in groups:
            anchor = next((rank for rank in group.ranks if rank in known), None)
            if anchor is None:
                continue
            ends = {rank: group.end_ns[i] + clock[rank] for i, rank in enumerate(group.ranks)}
            for rank in group.ranks:
                if rank not in known:
                    known[rank] = known[anchor] + int(np.median(ends[rank] - ends[anchor]))
        if len(known) in (n_known, len(ranks)):
            break
    return known


def _measure_residuals(groups: list[MatchedGroup], clock: Mapping[int, int]) -> Int64:
    """How far apart the ends of each collective are; shape (all collectives,)."""
    parts = [np.ptp(group.end_ns + np.array([[clock[rank]] for rank in group.ranks]), axis=0) for group in groups]
    return np.concatenate(parts) if parts else np.zeros(0, np.int64)
