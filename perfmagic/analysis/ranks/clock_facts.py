"""What is certain of the clocks of several ranks: one host, answered pings, and that nothing arrives before it is sent.

All facts are about what is to be added to the ranks' clocks as recorded, `base_unix_ns`, so that they tell one time.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from perfmagic.analysis.ranks.matching import MatchedGroup
from perfmagic.analysis.ranks.messages import Passed
from perfmagic.analysis.ranks.rank_summary import RankSummary
from perfmagic.numerics.clocks import UNKNOWN, Bounds, joined, no_facts
from perfmagic.trace.columns import Int64

# Of many ranks not every collective is asked how far it bounds their clocks: fewer facts leave a wider bound, as true
MOST_STEPS = 200_000_000  # of numpy, a fifth of a second
LEAST_COLLECTIVES = 32


@dataclass(frozen=True)
class Ping:
    """One exchange between two ranks, each by the monotonic clock of its host.

    asked_ns: the first rank before it sent.  answered_ns: the second one before it answered.  back_ns: the first one
    when it had the answer.  round: exchanges of one moment have one number; clocks may drift from round to round.
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

    told: what hosts and pings leave.  certain: what they and causality leave.  n_pings: exchanges that counted.  one:
    all ranks are of one host.
    """

    ranks: tuple[int, ...]
    told: Bounds
    certain: Bounds
    n_pings: int
    one: bool


def clock_facts(
    summaries: Mapping[int, RankSummary],
    groups: Iterable[MatchedGroup],
    messages: Iterable[Passed] = (),
    pings: Sequence[Ping] = (),
) -> ClockFacts:
    """What is certain of the clocks of several ranks.

    groups: collectives that no rank leaves before all others have come.  A message cannot arrive before it was sent.
    pings count for ranks whose record has the instant 0 by the monotonic clock. Between two rounds of pings clocks
    drift: the true offset of any moment lies between those of the rounds.
    """
    ranks = tuple(sorted(summaries))
    place = {rank: i for i, rank in enumerate(ranks)}
    facts = no_facts(len(ranks))
    one = _hosts(summaries, ranks, facts)
    n_pings = _pings(summaries, pings, place, facts)
    told = joined(facts)
    clock = np.array([summaries[rank].meta.base_unix_ns for rank in ranks], np.int64)
    trusted = {rank for rank in ranks if not summaries[rank].meta.repaired_ops}  # repaired times are guesses
    for group in groups:
        _collectives(group, place, clock, trusted, facts)
    for one_pair in messages:
        if {one_pair.source, one_pair.target} <= trusted:
            i, j = place[one_pair.source], place[one_pair.target]
            latest = int((one_pair.arrived_ns - one_pair.sent_ns).min() + clock[j] - clock[i])
            facts[j, i] = min(int(facts[j, i]), latest)
    # where hosts and pings say how two clocks lie, they say it better than any op: a device's clock is off by itself
    known = told.most < UNKNOWN
    facts = np.where(known & known.T, told.most, facts)
    return ClockFacts(ranks, told, joined(facts), n_pings, one)


def _correction_ns(one: RankSummary) -> int | None:
    """From unix time as recorded to the host's monotonic clock."""
    base = one.meta.monotonic_base_ns
    return None if base is None else base - one.meta.base_unix_ns


def _hosts(summaries: Mapping[int, RankSummary], ranks: Sequence[int], facts: Int64) -> bool:
    """Ranks of one run of one host read one clock."""
    at: dict[str, list[tuple[int, int]]] = defaultdict(list)
    for i, rank in enumerate(ranks):
        correction = _correction_ns(summaries[rank])
        if summaries[rank].meta.boot and correction is not None:
            at[summaries[rank].meta.boot].append((i, correction))
    for mine in at.values():
        places, corrections = np.array(mine, np.int64).T
        facts[np.ix_(places, places)] = corrections[None, :] - corrections[:, None]
    return len(at) == 1 and len(next(iter(at.values()))) == len(ranks)


def _pings(summaries: Mapping[int, RankSummary], pings: Sequence[Ping], place: Mapping[int, int], facts: Int64) -> int:
    rounds: dict[tuple[int, int], dict[int, list[int]]] = defaultdict(dict)
    n = 0
    for ping in pings:
        ends = (ping.first, ping.second)
        corrections = [_correction_ns(summaries[rank]) for rank in ends if rank in place]
        if len(corrections) < len(ends) or None in corrections:
            continue
        n += 1
        by = int(corrections[1] or 0) - int(corrections[0] or 0)
        low, high = ping.asked_ns - ping.answered_ns + by, ping.back_ns - ping.answered_ns + by
        found = rounds[ends].setdefault(ping.round, [low, high])
        found[0], found[1] = max(found[0], low), min(found[1], high)
    for (first, second), by_round in rounds.items():
        i, j = place[first], place[second]
        facts[i, j] = min(int(facts[i, j]), max(high for _, high in by_round.values()))
        facts[j, i] = min(int(facts[j, i]), -min(low for low, _ in by_round.values()))
    return n


def _collectives(group: MatchedGroup, place: Mapping[int, int], clock: Int64, trusted: set[int], facts: Int64) -> None:
    """No rank leaves before every other has come: the least of end less start over all of them counts."""
    mine = np.array([row for row, rank in enumerate(group.ranks) if rank in trusted], np.int64)
    if not len(mine) or not len(group.kinds):
        return
    at = np.array([place[group.ranks[row]] for row in mine.tolist()], np.int64)
    starts, ends = (times[mine] + clock[at, None] for times in (group.start_ns, group.end_ns))
    most = max(MOST_STEPS // len(mine) ** 2, LEAST_COLLECTIVES)
    if len(group.kinds) > most:  # those in which all were for the shortest time bound the clocks most
        tight = np.argpartition(ends.max(axis=0) - starts.max(axis=0), most)[:most]
        starts, ends = starts[:, tight], ends[:, tight]
    latest = np.full((len(mine), len(mine)), UNKNOWN, np.int64)
    for of_start, of_end in zip(starts.T, ends.T, strict=True):
        np.minimum(latest, of_end[:, None] - of_start[None, :], out=latest)
    np.fill_diagonal(latest, 0)
    where = np.ix_(at, at)
    facts[where] = np.minimum(facts[where], latest)
