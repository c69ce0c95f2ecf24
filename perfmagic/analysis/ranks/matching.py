"""Matches collectives across ranks by group, kind, and number or order, without trusting any clock."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import reduce

import numpy as np

from perfmagic.analysis.ranks.rank_summary import BY_PLACE, GroupKey, RankSummary
from perfmagic.analysis.ranks.waits import MatchedGroup, MatchedMessages, Matching
from perfmagic.base import units
from perfmagic.base.language import counted, phrase
from perfmagic.trace.columns import NONE, Int64

_SHOWN = 4  # ranks that words name
_COPIES = 1 << 20  # collectives that share a number, at most


@dataclass(frozen=True, eq=False)
class _Took:
    """The collectives of one group that a rank took part in, in order; columns of shape (n,).

    kind: index into the words of the group.  place: index in the rank's communication.  number: sequence number in the
    group, NONE if not recorded.
    """

    kind: Int64
    place: Int64
    number: Int64

    def __len__(self) -> int:
        return len(self.place)

    def at(self, rows: Int64) -> _Took:
        return _Took(self.kind[rows], self.place[rows], self.number[rows])


@dataclass
class _Group:
    """The collectives of one group on each rank, and how many ranks it has, 0 if unknown.

    words: of its kinds, with their indices.  stream: for each rank, on which the group communicates, as the record
    numbers it.
    """

    size: int = 0
    words: dict[str, int] = field(default_factory=dict)
    took: dict[int, _Took] = field(default_factory=dict)
    stream: dict[int, int] = field(default_factory=dict)


def matched_collectives(ranks: Mapping[int, RankSummary]) -> Matching:
    """The matched collectives of several ranks.

    All ranks of a group run its collectives in the same order (NCCL requires it). If the record numbers them, equal
    numbers match. Otherwise a group whose ranks recorded different counts is refused; different kinds are always
    refused. A group is identified by its recorded name and ranks, else by the position of its stream among those that
    communicate.
    """
    groups: dict[GroupKey, _Group] = defaultdict(_Group)
    for rank, summary in sorted(ranks.items()):
        _sort_in(groups, rank, summary)
    matched, refused = [], []
    for key, group in groups.items():
        by_rank = _with_common_numbers(group.took)
        why = _difference(key, group, by_rank, len(ranks))
        if why:
            refused.append(why)
        elif len(by_rank) > 1:
            matched.append(_beside(_name(key, group), group, by_rank, ranks))
    return Matching(tuple(matched), tuple(refused))


def _sort_in(groups: dict[GroupKey, _Group], rank: int, summary: RankSummary) -> None:
    """Add the collectives of a rank to their groups."""
    by_key: dict[GroupKey, list[int]] = defaultdict(list)
    for i, kind in enumerate(summary.kinds):
        if kind.group is not None:
            by_key[kind.group].append(i)
    if not by_key:
        return
    kind_of, number = summary.comm["kind"], summary.comm["number"]
    for key, kinds in by_key.items():
        group = groups[key]
        words = np.full(len(summary.kinds), NONE, np.int64)
        words[kinds] = [group.words.setdefault(summary.kinds[i].name, len(group.words)) for i in kinds]
        places = np.flatnonzero(words[kind_of] != NONE)
        group.took[rank] = _Took(words[kind_of[places]], places, number[places])
        group.stream[rank] = summary.kinds[kinds[0]].stream
        group.size = max(group.size, *(summary.kinds[i].size for i in kinds))


def _beside(name: str, group: _Group, by_rank: Mapping[int, _Took], ranks: Mapping[int, RankSummary]) -> MatchedGroup:
    """The matched collectives of a group, one row per rank."""
    words = tuple(group.words)
    kinds = tuple(words[i] for i in next(iter(by_rank.values())).kind.tolist())
    places = np.array([took.place for took in by_rank.values()], np.int64)
    columns = [(ranks[rank].comm, row) for rank, row in zip(by_rank, places, strict=True)]
    starts, ends = (np.array([comm[name][row] for comm, row in columns]) for name in ("start", "end"))
    return MatchedGroup(name, tuple(by_rank), kinds, places, starts, ends)


def _name(key: GroupKey, group: _Group) -> str:
    """The shown name of a group; without one, its stream, as each rank's record numbers it."""
    if not key.name.startswith(BY_PLACE):
        return str(key)
    streams = set(group.stream.values())
    if len(streams) == 1:
        return f"stream {streams.pop()}"
    shown = [f"{stream} on rank {rank}" for rank, stream in sorted(group.stream.items())]
    return f"stream {', '.join(shown[:_SHOWN])}" + (", …" if len(shown) > _SHOWN else "")


def _with_common_numbers(took: Mapping[int, _Took]) -> Mapping[int, _Took]:
    """Each rank's collectives whose numbers all ranks have, by number; all of them if some have no number."""
    if any((of_rank.number == NONE).any() for of_rank in took.values()):
        return took
    numbered = {rank: _by_number(of_rank.number) for rank, of_rank in took.items()}
    common = reduce(np.intersect1d, (keys for keys, _ in numbered.values()))
    return {rank: took[rank].at(order[np.searchsorted(keys, common)]) for rank, (keys, order) in numbered.items()}


def _by_number(number: Int64) -> tuple[Int64, Int64]:
    """Sorted numbers, with an index among equal ones, and their positions: coalesced collectives share a number."""
    order = np.argsort(number, kind="stable")
    rising = number[order]
    within = np.arange(len(rising)) - np.searchsorted(rising, rising)
    return rising * _COPIES + within, order


def _difference(key: GroupKey, group: _Group, by_rank: Mapping[int, _Took], n_ranks: int) -> str:
    """Why the collectives of a group do not match, in a sentence; "" where they do.

    by_rank: the collectives to match.
    """
    name = _name(key, group)
    if group.size and len(by_rank) > group.size:
        return counted(
            len(by_rank),
            "{n} rank name {group}, which has {size}: several groups share the name",
            "{n} ranks name {group}, which has {size}: several groups share the name",
            group=name,
            size=group.size,
        )
    if not group.size and len(by_rank) < n_ranks:
        missing = ", ".join(map(str, sorted(by_rank)[:_SHOWN]))
        n = units.count(len(by_rank))
        return phrase(
            "{group} is in {n} of {total} files (rank {ranks})", group=name, n=n, total=n_ranks, ranks=missing
        )
    strangers = [rank for rank in by_rank if rank not in key.ranks] if len(key.ranks) >= max(group.size, 1) else []
    if strangers:
        return phrase("rank {rank} took part in {group} and is none of them", rank=strangers[0], group=name)
    if any(map(len, group.took.values())) and not any(map(len, by_rank.values())):
        return phrase("in {group} no collective has the same number on all ranks", group=name)
    counts = {rank: len(took) for rank, took in by_rank.items()}
    least, most = min(counts, key=lambda r: counts[r]), max(counts, key=lambda r: counts[r])
    if counts[least] != counts[most]:
        return phrase(
            "in {group} rank {rank} has {collectives}, rank {other} {n}",
            group=name,
            rank=most,
            collectives=counted(counts[most], "{n} collective", "{n} collectives"),
            other=least,
            n=counts[least],
        )
    first_rank, first = next(iter(by_rank.items()))
    words = tuple(group.words)
    for rank, took in by_rank.items():
        other = np.flatnonzero(first.kind != took.kind)
        if len(other):
            i = int(other[0])
            return phrase(
                "in {group} number {n} is {kind} on rank {rank} and {other_kind} on rank {other}",
                group=name,
                n=i + 1,
                kind=words[first.kind[i]],
                rank=first_rank,
                other_kind=words[took.kind[i]],
                other=rank,
            )
    return ""


# Matches sends with receives by the pair of ranks and the order. No clock is trusted.


def matched_messages(ranks: Mapping[int, RankSummary]) -> tuple[MatchedMessages, ...]:
    """The messages between several ranks, by source and target.

    Messages of a pair keep their order, so the n-th send matches the n-th receive. A pair whose ranks recorded
    different counts is left out: some of its messages came before the record of one rank.
    """
    sends: dict[tuple[int, int], Int64] = {}
    receives: dict[tuple[int, int], Int64] = {}
    for rank, summary in sorted(ranks.items()):
        kind = summary.comm["kind"]
        by_end: dict[tuple[bool, tuple[int, int]], list[int]] = defaultdict(list)
        for i, known in enumerate(summary.kinds):
            if known.message and known.message[1][0 if known.message[0] else 1] == rank:
                by_end[known.message].append(i)
        for (is_send, pair), kinds in by_end.items():
            (sends if is_send else receives)[pair] = np.flatnonzero(np.isin(kind, kinds))
    messages = []
    for pair, sent in sorted(sends.items()):
        got = receives.get(pair)
        if got is not None and len(sent) == len(got):
            source, target = (ranks[rank].comm for rank in pair)
            times = (source["start"][sent], source["end"][sent], target["start"][got], target["end"][got])
            messages.append(MatchedMessages(*pair, sent, got, *times))
    return tuple(messages)
