"""Which collective of one rank is which of another: by group, kind and order, without trusting any clock."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from perfmagic import units
from perfmagic.trace.columns import NONE, Int64
from perfmagic.trace.hoststack import host_stack
from perfmagic.trace.model import Trace
from perfmagic.trace.names import OpClass, op_classes, short_name

# what torch.distributed records around a launch: c10d::allreduce_, and inside it nccl:all_reduce
_ASKED_AS = re.compile(r"^(?:nccl|c10d|gloo)::?")
# between two ranks only; torch records "nccl:send 0->1"
_POINT_TO_POINT = re.compile(r"^(?:i?send|i?recv)(?:_?any_source)?_?(?:\s|$)|^coalesced", re.IGNORECASE)
_SEND_OR_RECEIVE = re.compile(r"send_?recv", re.IGNORECASE)  # an all-to-all or point to point, the kernel does not say


@dataclass(frozen=True, eq=False)
class MatchedGroup:
    """The collectives of one group that all its ranks recorded in the same order.

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
    collectives in one order (NCCL requires it); a group whose ranks recorded other kinds or another number of them is
    refused. A group is known by its name in the record, else by the place of its stream among those that communicate.
    """
    of_group: dict[str, dict[int, list[tuple[str, int]]]] = defaultdict(dict)
    sizes: dict[str, int] = {}
    for rank, trace in sorted(traces.items()):
        for group, size, found in _sequences(trace, comm_names):
            of_group[group][rank] = found
            sizes[group] = max(sizes.get(group, 0), size)
    groups, refused = [], []
    for group, by_rank in of_group.items():
        words = _difference(group, by_rank, sizes[group], len(traces))
        if words:
            refused.append(words)
        elif len(by_rank) > 1:
            kinds = tuple(kind for kind, _ in next(iter(by_rank.values())))
            durations = np.array([[ns for _, ns in found] for found in by_rank.values()], np.int64)
            groups.append(MatchedGroup(tuple(by_rank), kinds, durations))
    return Matching(tuple(groups), tuple(refused))


def _sequences(trace: Trace, comm_names: str | None) -> list[tuple[str, int, list[tuple[str, int]]]]:
    """Of each group of a rank its name, its size (0 where not known), and kind and duration of each collective."""
    ops = trace.ops
    rows = np.flatnonzero(op_classes(trace, comm_names) == OpClass.COMM)
    asked = _asked_as(trace, rows)
    streams = sorted({(int(ops.device[row]), int(ops.stream[row])) for row in rows})
    found: dict[str, list[tuple[str, int]]] = defaultdict(list)
    sizes: dict[str, int] = defaultdict(int)
    for row, name in zip(rows.tolist(), asked, strict=True):
        known = trace.collectives[ops.collective[row]] if ops.collective[row] != NONE else None
        kind = known.name if known else name
        if not kind or _POINT_TO_POINT.match(kind):
            continue
        place = streams.index((int(ops.device[row]), int(ops.stream[row])))
        group = f"group {known.group}" if known and known.group else f"communicating stream {place + 1}"
        sizes[group] = max(sizes[group], (known.group_size or 0) if known else 0)
        dtype = f" {known.dtype}" if known and known.dtype else ""
        found[group].append((kind + dtype, int(ops.end_ns[row] - ops.start_ns[row])))
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
        kernel = short_name(trace.names[ops.name[row]])
        if by != NONE:
            words.append(_ASKED_AS.sub("", trace.names[host.name[by]]).strip("_"))
        else:
            words.append("" if _SEND_OR_RECEIVE.search(kernel) else kernel)
    return words


def _difference(group: str, by_rank: Mapping[int, Sequence[tuple[str, int]]], size: int, n_ranks: int) -> str:
    """Why the collectives of a group do not match, in words; nothing where they do."""
    if size and len(by_rank) > size:
        return f"{units.plural(len(by_rank), 'rank')} name {group}, which has {size}: several groups share the name"
    if not size and len(by_rank) < n_ranks:
        missing = ", ".join(map(str, sorted(by_rank)[:4]))
        return f"{group} is in {units.count(len(by_rank))} of {n_ranks} files (rank {missing})"
    counts = {rank: len(found) for rank, found in by_rank.items()}
    least, most = min(counts, key=lambda r: counts[r]), max(counts, key=lambda r: counts[r])
    if counts[least] != counts[most]:
        return f"in {group} rank {most} has {units.plural(counts[most], 'collective')}, rank {least} {counts[least]}"
    first_rank, first = next(iter(by_rank.items()))
    for rank, found in by_rank.items():
        for i, (mine, theirs) in enumerate(zip(first, found, strict=True)):
            if mine[0] != theirs[0]:
                return f"in {group} number {i + 1} is {mine[0]} on rank {first_rank} and {theirs[0]} on rank {rank}"
    return ""
