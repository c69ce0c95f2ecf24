"""Which collective of one rank is which of another: by group, kind and number or order, without trusting any clock."""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np

from perfmagic import units
from perfmagic.trace.columns import NONE, Int64
from perfmagic.trace.hoststack import host_stack
from perfmagic.trace.model import Trace
from perfmagic.trace.names import OpClass, op_classes
from perfmagic.trace.signatures import function_name

# what torch.distributed records around a launch: c10d::allreduce_, and inside it nccl:all_reduce
_ASKED_AS = re.compile(r"^(?:nccl|c10d|gloo)::?")
# between two ranks only; torch records "nccl:send 0->1"
_POINT_TO_POINT = re.compile(r"^(?:i?send|i?recv)(?:_?any_source)?_?(?:\s|$)|^coalesced", re.IGNORECASE)
_SEND_OR_RECEIVE = re.compile(r"send_?recv", re.IGNORECASE)  # an all-to-all or point to point, the kernel does not say
_SHOWN = 4  # ranks that words name


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
    """A collective that a rank took part in. number: among those of its group, NONE where the record does not count."""

    kind: str
    duration_ns: int
    number: int


@dataclass
class _Group:
    """The collectives of one group on each rank, and how many ranks it has, 0 where not known."""

    size: int = 0
    took: dict[int, list[Took]] = field(default_factory=dict)


@dataclass(frozen=True, eq=False)
class MatchedGroup:
    """The collectives of one group that all its ranks recorded.

    ranks: rising, shape (r,).  kinds: of each collective, n of them.  duration_ns: shape (r, n); a rank that arrives
    early waits inside.
    """

    ranks: tuple[int, ...]
    kinds: tuple[str, ...]
    duration_ns: Int64


@dataclass(frozen=True, eq=False)
class Matching:
    """The groups that match, and in words why others do not."""

    groups: tuple[MatchedGroup, ...]
    refused: tuple[str, ...]

    @property
    def n(self) -> int:
        return sum(len(group.kinds) for group in self.groups)


def matched(traces: Mapping[int, Trace], comm_names: str | None = None) -> Matching:
    """The collectives of several ranks put beside each other.

    traces: by rank.  comm_names: as in perfmagic.trace.names.op_classes. Ranks of one group take part in its
    collectives in one order (NCCL requires it). Where the record numbers them, those of one number belong together;
    else a group whose ranks recorded another number of them is refused, and always one with other kinds. A group is
    known by its name and ranks in the record, else by the place of its stream among those that communicate.
    """
    groups: dict[GroupKey, _Group] = defaultdict(_Group)
    for rank, trace in sorted(traces.items()):
        for key, size, took in _sequences(trace, comm_names):
            groups[key].took[rank] = took
            groups[key].size = max(groups[key].size, size)
    found, refused = [], []
    for key, group in groups.items():
        by_rank = _of_common_numbers(group.took)
        words = _difference(key, group, by_rank, len(traces))
        if words:
            refused.append(words)
        elif len(by_rank) > 1:
            kinds = tuple(one.kind for one in next(iter(by_rank.values())))
            durations = np.array([[one.duration_ns for one in took] for took in by_rank.values()], np.int64)
            found.append(MatchedGroup(tuple(by_rank), kinds, durations))
    return Matching(tuple(found), tuple(refused))


def _sequences(trace: Trace, comm_names: str | None) -> list[tuple[GroupKey, int, list[Took]]]:
    """Of each group of a rank what tells it apart, its size (0 where not known), and the collectives."""
    ops = trace.ops
    rows = np.flatnonzero(op_classes(trace, comm_names) == OpClass.COMMUNICATION)
    asked = _asked_as(trace, rows)
    streams = sorted({(int(ops.device[row]), int(ops.stream[row])) for row in rows})
    found: dict[GroupKey, list[Took]] = defaultdict(list)
    sizes: dict[GroupKey, int] = defaultdict(int)
    for row, name in zip(rows.tolist(), asked, strict=True):
        known = trace.collectives[ops.collective[row]] if ops.collective[row] != NONE else None
        kind = known.name if known else name
        if not kind or _POINT_TO_POINT.match(kind):
            continue
        place = streams.index((int(ops.device[row]), int(ops.stream[row])))
        group = GroupKey(f"communicating stream {place + 1}")
        if known and known.group:
            group = GroupKey(f"group {known.group}", known.ranks)
        sizes[group] = max(sizes[group], (known.group_size or 0) if known else 0)
        dtype = f" {known.dtype}" if known and known.dtype else ""
        found[group].append(Took(kind + dtype, int(ops.end_ns[row] - ops.start_ns[row]), int(ops.sequence[row])))
    return [(group, sizes[group], sequence) for group, sequence in found.items()]


def _asked_as(trace: Trace, rows: Int64) -> list[str]:
    """What the host asked for when it launched each op: "all_reduce"; else the kernel's name; "" where it can be both
    a collective and point to point.
    """
    host, ops = trace.host_ops, trace.ops
    asked = np.full(len(rows), NONE, np.int64)
    launched = np.flatnonzero(ops.launch[rows] != NONE)
    if len(host) and len(launched):
        named = np.array([_ASKED_AS.match(name) is not None for name in trace.names], bool)[host.name]
        call = ops.launch[rows[launched]]
        asked[launched] = host_stack(trace, named).innermost_at(trace.calls.thread[call], trace.calls.start_ns[call])
    words = []
    for row, by in zip(rows.tolist(), asked.tolist(), strict=True):
        kernel = function_name(trace.names[ops.name[row]])
        if by != NONE:
            words.append(_ASKED_AS.sub("", trace.names[host.name[by]]).strip("_"))
        else:
            words.append("" if _SEND_OR_RECEIVE.search(kernel) else kernel)
    return words


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
    if group.size and len(by_rank) > group.size:
        return f"{units.plural(len(by_rank), 'rank')} name {key}, which has {group.size}: several groups share the name"
    if not group.size and len(by_rank) < n_ranks:
        missing = ", ".join(map(str, sorted(by_rank)[:_SHOWN]))
        return f"{key} is in {units.count(len(by_rank))} of {n_ranks} files (rank {missing})"
    strangers = [rank for rank in by_rank if rank not in key.ranks] if len(key.ranks) >= max(group.size, 1) else []
    if strangers:
        return f"rank {strangers[0]} took part in {key} and is none of them"
    if any(group.took.values()) and not any(by_rank.values()):
        return f"in {key} no collective has the same number on all ranks"
    counts = {rank: len(found) for rank, found in by_rank.items()}
    least, most = min(counts, key=lambda r: counts[r]), max(counts, key=lambda r: counts[r])
    if counts[least] != counts[most]:
        return f"in {key} rank {most} has {units.plural(counts[most], 'collective')}, rank {least} {counts[least]}"
    first_rank, first = next(iter(by_rank.items()))
    for rank, found in by_rank.items():
        for i, (mine, theirs) in enumerate(zip(first, found, strict=True)):
            if mine.kind != theirs.kind:
                return f"in {key} number {i + 1} is {mine.kind} on rank {first_rank} and {theirs.kind} on rank {rank}"
    return ""
