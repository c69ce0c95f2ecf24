"""Which collective of one rank is which of another: by group, kind and number or order, without trusting any clock."""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import NamedTuple

import numpy as np

from perfmagic import units
from perfmagic.trace.columns import NONE, Bool, Int64
from perfmagic.trace.hoststack import host_stack
from perfmagic.trace.model import Collective, Trace
from perfmagic.trace.names import OpClass, op_classes
from perfmagic.trace.once import once_per_trace
from perfmagic.trace.signatures import function_name

# what torch.distributed records around a launch: c10d::allreduce_, and inside it nccl:all_reduce
_ASKED_AS = re.compile(r"^(?:nccl|c10d|gloo)::?")
# between two ranks only; torch records "nccl:send 0->1"
_POINT_TO_POINT = re.compile(r"^(?:i?send|i?recv)(?:_?any_source)?_?(?:\s|$)|^coalesced", re.IGNORECASE)
_SEND_OR_RECEIVE = re.compile(r"send_?recv", re.IGNORECASE)  # an all-to-all or point to point, the kernel does not say
_SHOWN = 4  # ranks that words name
_BY_PLACE = "stream by its place "  # of groups without a name: streams of one use are opened in one order on all ranks


class GroupKey(NamedTuple):
    """What tells groups apart: their name and, where the record has them, their ranks; the first ones of a large group.

    Names alone do not: every tensor-parallel group of a job may be called "tp".
    """

    name: str
    ranks: tuple[int, ...] = ()

    def __str__(self) -> str:
        shown = ", ".join(map(str, self.ranks[:_SHOWN])) + (", …" if len(self.ranks) > _SHOWN else "")
        return f"{self.name} of ranks {shown}" if shown else self.name


class Took(NamedTuple):
    """A collective that a rank took part in.

    row: of its op in trace.ops.  number: among those of its group, NONE where the record does not count.
    """

    kind: str
    row: int
    number: int


@dataclass
class _Group:
    """The collectives of one group on each rank, and how many ranks it has, 0 where not known.

    stream: of each rank on which the group communicates, as the record numbers it.
    """

    size: int = 0
    took: dict[int, list[Took]] = field(default_factory=dict)
    stream: dict[int, int] = field(default_factory=dict)


@dataclass(frozen=True, eq=False)
class MatchedGroup:
    """The collectives of one group that all its ranks recorded.

    name: for people.  ranks: rising, shape (r,).  kinds: of each collective, n of them.  rows: of their ops in each
    rank's trace.ops, start_ns, end_ns: of those, by each rank's own clock; shape (r, n). A rank that arrives early
    waits inside.
    offset_ns: what puts each rank's times on a common axis, shape (r,), None before that is known.  bound_ns: no two
    clocks are further apart on it, None where that rests on the collectives themselves. With it a rank waits until
    the last one comes; without it all leave together, so that the rank that was inside for the shortest time came last
    and no clock is compared.
    """

    name: str
    ranks: tuple[int, ...]
    kinds: tuple[str, ...]
    rows: Int64
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


def matched(traces: Mapping[int, Trace], comm_names: str | None = None) -> Matching:
    """The collectives of several ranks put beside each other.

    traces: by rank.  comm_names: as in perfmagic.trace.names.op_classes. Ranks of one group take part in its
    collectives in one order (NCCL requires it). Where the record numbers them, those of one number belong together;
    else a group whose ranks recorded another number of them is refused, and always one with other kinds. A group is
    known by its name and ranks in the record, else by the place of its stream among those that communicate.
    """
    groups: dict[GroupKey, _Group] = defaultdict(_Group)
    for rank, trace in sorted(traces.items()):
        for key, size, stream, took in _sequences(trace, comm_names):
            groups[key].took[rank] = took
            groups[key].stream[rank] = stream
            groups[key].size = max(groups[key].size, size)
    found, refused = [], []
    for key, group in groups.items():
        by_rank = _of_common_numbers(group.took)
        words = _difference(key, group, by_rank, len(traces))
        if words:
            refused.append(words)
        elif len(by_rank) > 1:
            found.append(_beside(_name(key, group), by_rank, traces))
    return Matching(tuple(found), tuple(refused))


def _beside(name: str, by_rank: Mapping[int, Sequence[Took]], traces: Mapping[int, Trace]) -> MatchedGroup:
    """The collectives of a group, a row for each rank."""
    kinds = tuple(one.kind for one in next(iter(by_rank.values())))
    rows = np.array([[one.row for one in took] for took in by_rank.values()], np.int64)
    ops = [(traces[rank].ops, mine) for rank, mine in zip(by_rank, rows, strict=True)]
    starts, ends = (np.array([getattr(op, name)[mine] for op, mine in ops]) for name in ("start_ns", "end_ns"))
    return MatchedGroup(name, tuple(by_rank), kinds, rows, starts, ends)


def _name(key: GroupKey, group: _Group) -> str:
    """A group for people: without a name of its own, by the stream it is on, as each rank's record numbers it."""
    if not key.name.startswith(_BY_PLACE):
        return str(key)
    streams = set(group.stream.values())
    if len(streams) == 1:
        return f"stream {streams.pop()}"
    shown = [f"{stream} on rank {rank}" for rank, stream in sorted(group.stream.items())]
    return f"stream {', '.join(shown[:_SHOWN])}" + (", …" if len(shown) > _SHOWN else "")


def _sequences(trace: Trace, comm_names: str | None) -> list[tuple[GroupKey, int, int, list[Took]]]:
    """Of each group of a rank what tells it apart, its size (0 where not known), its stream, and the collectives."""
    ops = trace.ops
    asked = communication_ops(trace, comm_names)
    rows = [row for row, _ in asked]
    places = list(zip(ops.device[rows].tolist(), ops.stream[rows].tolist(), strict=True))
    place = {one: i for i, one in enumerate(sorted(set(places)))}
    columns = (ops.collective[rows].tolist(), ops.sequence[rows].tolist())
    found: dict[GroupKey, list[Took]] = defaultdict(list)
    stream: dict[GroupKey, int] = {}
    sizes: dict[GroupKey, int] = defaultdict(int)
    known: dict[tuple[int, str, tuple[int, int]], tuple[GroupKey, str] | None] = {}
    for (row, name), at, collective, number in zip(asked, places, *columns, strict=True):
        key = (collective, name, at)
        if key not in known:
            one = trace.collectives[collective] if collective != NONE else None
            known[key] = _what(one, name, place[at])
            if (told := known[key]) is not None:
                sizes[told[0]] = max(sizes[told[0]], (one.group_size or 0) if one else 0)
                stream.setdefault(told[0], at[1])
        if (what := known[key]) is not None:
            found[what[0]].append(Took(what[1], row, number))
    return [(group, sizes[group], stream[group], sequence) for group, sequence in found.items()]


def _what(known: Collective | None, asked: str, place: int) -> tuple[GroupKey, str] | None:
    """The group and the kind of a collective, with its type; None for a message between two ranks.

    known: what the record says of it.  place: of its stream among those of communication.
    """
    kind = known.name if known else asked
    if not kind or _POINT_TO_POINT.match(kind):
        return None
    group = GroupKey(f"{_BY_PLACE}{place}")
    if known and known.group:
        group = GroupKey(f"group {known.group}", known.ranks)
    return group, kind + (f" {known.dtype}" if known and known.dtype else "")


@once_per_trace
def communication_ops(trace: Trace, comm_names: str | None) -> list[tuple[int, str]]:
    """The row of each op that communicates, and what the host asked for when it launched it: "all_reduce"; else the
    kernel's name; "" where that can be both a collective and point to point.
    """
    host, ops = trace.host_ops, trace.ops
    rows = np.flatnonzero(op_classes(trace, comm_names) == OpClass.COMMUNICATION)
    asked = np.full(len(rows), NONE, np.int64)
    launched = np.flatnonzero(ops.launch[rows] != NONE)
    named = np.array([_ASKED_AS.match(name) is not None for name in trace.names], bool)[host.name]
    if named.any() and len(launched):
        call = ops.launch[rows[launched]]
        found = host_stack(trace, named).innermost_at(trace.calls.thread[call], trace.calls.start_ns[call])
        asked[launched] = np.where(found != NONE, host.name[found], NONE)
    kernels = ops.name[rows]
    words = {
        (kernel, by): _words_of(trace.names[kernel], trace.names[by] if by != NONE else "")
        for kernel, by in set(zip(kernels.tolist(), asked.tolist(), strict=True))
    }
    found_rows = zip(rows.tolist(), kernels.tolist(), asked.tolist(), strict=True)
    return [(row, words[kernel, by]) for row, kernel, by in found_rows]


def _words_of(kernel: str, asked: str) -> str:
    if asked:
        return _ASKED_AS.sub("", asked).strip("_")
    name = function_name(kernel)
    return "" if _SEND_OR_RECEIVE.search(name) else name


def _of_common_numbers(took: Mapping[int, list[Took]]) -> Mapping[int, list[Took]]:
    """Of each rank the collectives whose numbers all ranks have, by number; all of them where some have no number."""
    if any(one.number == NONE for found in took.values() for one in found):
        return took
    numbered = {rank: _by_number(found) for rank, found in took.items()}
    common = sorted(set.intersection(*map(set, numbered.values())))
    return {rank: [found[key] for key in common] for rank, found in numbered.items()}


def _by_number(found: Sequence[Took]) -> dict[tuple[int, int], Took]:
    """By number and place among those of one number: coalesced collectives share theirs."""
    seen: Counter[int] = Counter()
    result = {}
    for one in found:
        result[one.number, seen[one.number]] = one
        seen[one.number] += 1
    return result


def _difference(key: GroupKey, group: _Group, by_rank: Mapping[int, Sequence[Took]], n_ranks: int) -> str:
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
    if any(group.took.values()) and not any(by_rank.values()):
        return f"in {name} no collective has the same number on all ranks"
    counts = {rank: len(found) for rank, found in by_rank.items()}
    least, most = min(counts, key=lambda r: counts[r]), max(counts, key=lambda r: counts[r])
    if counts[least] != counts[most]:
        return f"in {name} rank {most} has {units.plural(counts[most], 'collective')}, rank {least} {counts[least]}"
    first_rank, first = next(iter(by_rank.items()))
    for rank, found in by_rank.items():
        for i, (mine, theirs) in enumerate(zip(first, found, strict=True)):
            if mine.kind != theirs.kind:
                return f"in {name} number {i + 1} is {mine.kind} on rank {first_rank} and {theirs.kind} on rank {rank}"
    return ""
