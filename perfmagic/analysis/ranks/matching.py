"""Which collective of one rank is which of another: by group, kind and number or order, without trusting any clock."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property, reduce

import numpy as np

from perfmagic import units
from perfmagic.analysis.ranks.rank_summary import BY_PLACE, GroupKey, RankSummary
from perfmagic.trace.columns import NONE, Bool, Int64

_SHOWN = 4  # ranks that words name
_COPIES = 1 << 20  # collectives of one number, at most


@dataclass(frozen=True, eq=False)
class _Took:
    """The collectives of one group that a rank took part in, in order; columns of shape (n,).

    kind: place among the words of the group.  place: in the rank's communication.  number: among those of its group,
    NONE where the record does not count.
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
    """The collectives of one group on each rank, and how many ranks it has, 0 where not known.

    words: of its kinds, with their places.  stream: of each rank on which the group communicates, as the record
    numbers it.
    """

    size: int = 0
    words: dict[str, int] = field(default_factory=dict)
    took: dict[int, _Took] = field(default_factory=dict)
    stream: dict[int, int] = field(default_factory=dict)


@dataclass(frozen=True, eq=False)
class MatchedGroup:
    """The collectives of one group that all its ranks recorded.

    name: for people.  ranks: rising, shape (r,).  kinds: of each collective, n of them.  places: in the communication
    of each rank, start_ns, end_ns: of those, by each rank's own clock; shape (r, n). A rank that arrives early waits
    inside.
    offset_ns: what puts each rank's times on a common axis, shape (r,), None before that is known.  bound_ns: no two
    clocks are further apart on it, None where that rests on the collectives themselves. With it a rank waits until
    the last one comes; without it all leave together, so that the rank that was inside for the shortest time came last
    and no clock is compared.
    """

    name: str
    ranks: tuple[int, ...]
    kinds: tuple[str, ...]
    places: Int64
    start_ns: Int64
    end_ns: Int64
    offset_ns: Int64 | None = None
    bound_ns: int | None = None

    @property
    def duration_ns(self) -> Int64:
        return self.end_ns - self.start_ns

    @cached_property
    def transfer_ns(self) -> Int64:
        """How long each collective takes once all ranks are there: no rank was in it for less; shape (n,)."""
        shortest: Int64 = (self.duration_ns - self.waiting_ns).min(axis=0)
        return shortest

    @cached_property
    def waiting_ns(self) -> Int64:
        """How long each rank waited in each collective for the last one; shape (r, n)."""
        waiting: Int64 = np.minimum(-self._came_ns(), self.duration_ns)
        return waiting

    @cached_property
    def last(self) -> Int64:
        """The place of the rank that came last to each collective; shape (n,)."""
        last: Int64 = self._came_ns().argmax(axis=0)
        return last

    @cached_property
    def errs_ns(self) -> Int64:
        """How far the waits in each collective may be wrong; shape (n,).

        The clocks' bound; else how far apart the ranks' ends lie on the axis, as they are taken for one instant.
        """
        if self.bound_ns is not None or self.offset_ns is None:
            return np.full(len(self.kinds), self.bound_ns or 0, np.int64)
        apart: Int64 = np.ptp(self.end_ns + self.offset_ns[:, None], axis=0)
        return apart

    @cached_property
    def decided(self) -> Bool:
        """To which collectives one rank came last for certain: by more than waits may be wrong; shape (n,)."""
        before = np.partition(self._came_ns(), -2, axis=0)[-2]
        return np.asarray(-before > self.errs_ns)

    @property
    def median_ahead_ns(self) -> Int64:
        """How long before the last rank the median one came; shape (n,)."""
        ahead: Int64 = -np.median(self._came_ns(), axis=0).astype(np.int64)
        return ahead

    def ahead_ns(self, some: Bool) -> Int64:
        """How long before the last of all ranks the last of some came; shape (n,).  some: which, shape (r,)."""
        ahead: Int64 = -self._came_ns()[some].max(axis=0)
        return ahead

    def _came_ns(self) -> Int64:
        """When each rank came to each collective, from when the last one did: 0 or less; shape (r, n)."""
        at = -self.duration_ns if self.bound_ns is None else self.start_ns + self._axis_ns
        came: Int64 = at - at.max(axis=0)
        return came

    @property
    def _axis_ns(self) -> Int64:
        return np.zeros((len(self.ranks), 1), np.int64) if self.offset_ns is None else self.offset_ns[:, None]


@dataclass(frozen=True, eq=False)
class Matching:
    """The groups that match, and in words why others do not."""

    groups: tuple[MatchedGroup, ...]
    refused: tuple[str, ...]

    @property
    def n(self) -> int:
        return sum(len(group.kinds) for group in self.groups)

    def on_axis(self, offset_ns: Mapping[int, int], bound_ns: int | None) -> Matching:
        """The same on an axis.  offset_ns: by rank.  bound_ns: of clocks that are known without the collectives."""
        groups = (
            replace(one, offset_ns=np.array([offset_ns[rank] for rank in one.ranks], np.int64), bound_ns=bound_ns)
            for one in self.groups
        )
        return Matching(tuple(groups), self.refused)


def matched(ranks: Mapping[int, RankSummary]) -> Matching:
    """The collectives of several ranks put beside each other.

    Ranks of one group take part in its collectives in one order (NCCL requires it). Where the record numbers them,
    those of one number belong together; else a group whose ranks recorded another number of them is refused, and
    always one with other kinds. A group is known by its name and ranks in the record, else by the place of its stream
    among those that communicate.
    """
    groups: dict[GroupKey, _Group] = defaultdict(_Group)
    for rank, one in sorted(ranks.items()):
        _sort_in(groups, rank, one)
    found, refused = [], []
    for key, group in groups.items():
        by_rank = _of_common_numbers(group.took)
        words = _difference(key, group, by_rank, len(ranks))
        if words:
            refused.append(words)
        elif len(by_rank) > 1:
            found.append(_beside(_name(key, group), group, by_rank, ranks))
    return Matching(tuple(found), tuple(refused))


def _sort_in(groups: dict[GroupKey, _Group], rank: int, one: RankSummary) -> None:
    """Add what a rank took part in to its groups."""
    by_key: dict[GroupKey, list[int]] = defaultdict(list)
    for i, kind in enumerate(one.kinds):
        if kind.group is not None:
            by_key[kind.group].append(i)
    if not by_key:
        return
    kind_of, number = one.comm["kind"], one.comm["number"]
    for key, mine in by_key.items():
        group = groups[key]
        words = np.full(len(one.kinds), NONE, np.int64)
        words[mine] = [group.words.setdefault(one.kinds[i].name, len(group.words)) for i in mine]
        places = np.flatnonzero(words[kind_of] != NONE)
        group.took[rank] = _Took(words[kind_of[places]], places, number[places])
        group.stream[rank] = one.kinds[mine[0]].stream
        group.size = max(group.size, *(one.kinds[i].size for i in mine))


def _beside(name: str, group: _Group, by_rank: Mapping[int, _Took], ranks: Mapping[int, RankSummary]) -> MatchedGroup:
    """The collectives of a group, a row for each rank."""
    words = tuple(group.words)
    kinds = tuple(words[i] for i in next(iter(by_rank.values())).kind.tolist())
    places = np.array([took.place for took in by_rank.values()], np.int64)
    columns = [(ranks[rank].comm, mine) for rank, mine in zip(by_rank, places, strict=True)]
    starts, ends = (np.array([comm[name][mine] for comm, mine in columns]) for name in ("start", "end"))
    return MatchedGroup(name, tuple(by_rank), kinds, places, starts, ends)


def _name(key: GroupKey, group: _Group) -> str:
    """A group for people: without a name of its own, by the stream it is on, as each rank's record numbers it."""
    if not key.name.startswith(BY_PLACE):
        return str(key)
    streams = set(group.stream.values())
    if len(streams) == 1:
        return f"stream {streams.pop()}"
    shown = [f"{stream} on rank {rank}" for rank, stream in sorted(group.stream.items())]
    return f"stream {', '.join(shown[:_SHOWN])}" + (", …" if len(shown) > _SHOWN else "")


def _of_common_numbers(took: Mapping[int, _Took]) -> Mapping[int, _Took]:
    """Of each rank the collectives whose numbers all ranks have, by number; all of them where some have no number."""
    if any((found.number == NONE).any() for found in took.values()):
        return took
    numbered = {rank: _by_number(found.number) for rank, found in took.items()}
    common = reduce(np.intersect1d, (keys for keys, _ in numbered.values()))
    return {rank: took[rank].at(order[np.searchsorted(keys, common)]) for rank, (keys, order) in numbered.items()}


def _by_number(number: Int64) -> tuple[Int64, Int64]:
    """Numbers with the place among those of one number, rising, and where each is: coalesced collectives share one."""
    order = np.argsort(number, kind="stable")
    rising = number[order]
    within = np.arange(len(rising)) - np.searchsorted(rising, rising)
    return rising * _COPIES + within, order


def _difference(key: GroupKey, group: _Group, by_rank: Mapping[int, _Took], n_ranks: int) -> str:
    """Why the collectives of a group do not match, in words; nothing where they do.

    by_rank: those to be put beside each other.
    """
    name = _name(key, group)
    if group.size and len(by_rank) > group.size:
        n_ranks_here = units.plural(len(by_rank), "rank")
        return f"{n_ranks_here} name {name}, which has {group.size}: several groups share the name"
    if not group.size and len(by_rank) < n_ranks:
        missing = ", ".join(map(str, sorted(by_rank)[:_SHOWN]))
        return f"{name} is in {units.count(len(by_rank))} of {n_ranks} files (rank {missing})"
    strangers = [rank for rank in by_rank if rank not in key.ranks] if len(key.ranks) >= max(group.size, 1) else []
    if strangers:
        return f"rank {strangers[0]} took part in {name} and is none of them"
    if any(map(len, group.took.values())) and not any(map(len, by_rank.values())):
        return f"in {name} no collective has the same number on all ranks"
    counts = {rank: len(found) for rank, found in by_rank.items()}
    least, most = min(counts, key=lambda r: counts[r]), max(counts, key=lambda r: counts[r])
    if counts[least] != counts[most]:
        return f"in {name} rank {most} has {units.plural(counts[most], 'collective')}, rank {least} {counts[least]}"
    first_rank, first = next(iter(by_rank.items()))
    words = tuple(group.words)
    for rank, found in by_rank.items():
        other = np.flatnonzero(first.kind != found.kind)
        if len(other):
            i = int(other[0])
            mine, theirs = words[first.kind[i]], words[found.kind[i]]
            return f"in {name} number {i + 1} is {mine} on rank {first_rank} and {theirs} on rank {rank}"
    return ""
