"""What a rank says of itself beside the others: small, and made where its trace is.

All that is said of several ranks is said from these, so that a thousand traces need not be in one place.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import NamedTuple

import numpy as np

from perfmagic.analysis.findings.cell_time import ITS_EXTENT
from perfmagic.analysis.findings.facts import Facts
from perfmagic.analysis.ranks.communication_ops import communication_ops, ends_of, ends_with_peer
from perfmagic.analysis.ranks.host_as_device import host_as_device
from perfmagic.analysis.ranks.kernels_of_ranks import KernelTime, longest
from perfmagic.analysis.timeline.collectives import op_bytes
from perfmagic.analysis.timeline.kernels import kernels
from perfmagic.analysis.timeline.sample import sample
from perfmagic.numerics.intervals import Intervals, covered_ns, union
from perfmagic.numerics.packed import Columns
from perfmagic.trace.collective_names import collective_name
from perfmagic.trace.columns import NONE, Int64
from perfmagic.trace.model import Collective, Trace, TraceMeta
from perfmagic.trace.once import once_per_trace

# between two ranks only; torch records "nccl:send 0->1"
_POINT_TO_POINT = re.compile(r"^(?:i?send|i?recv)(?:_?any_source)?_?(?:\s|$)|^coalesced", re.IGNORECASE)
_SHOWN = 4  # ranks that words name
BY_PLACE = "stream by its place "  # of groups without a name: streams of one use are opened in one order on all ranks
_FIRST = np.iinfo(np.int64).min // 2  # before all records
# what a late rank may have spent more of before a collective: how much there was until each starts
SPENT = ("compute", "copy", "busy")


class GroupKey(NamedTuple):
    """What tells groups apart: their name and, where the record has them, their ranks; the first ones of a large group.

    Names alone do not: every tensor-parallel group of a job may be called "tp".
    """

    name: str
    ranks: tuple[int, ...] = ()

    def __str__(self) -> str:
        shown = ", ".join(map(str, self.ranks[:_SHOWN])) + (", …" if len(self.ranks) > _SHOWN else "")
        return f"{self.name} of ranks {shown}" if shown else self.name


class CommKind(NamedTuple):
    """One kind of communication of a rank.

    group, name: of a collective with its type, else None and "".  size: ranks of the group, 0 where not known.  stream:
    as the record numbers it.  here: on the device that is looked at.  message: whether it sends, from which rank to
    which; None where it is none.
    """

    group: GroupKey | None
    name: str
    size: int
    stream: int
    here: bool
    message: tuple[bool, tuple[int, int]] | None


@dataclass(frozen=True)
class Totals:
    """The sums of a rank's busiest device, in ns; see perfmagic.analysis.timeline.overlap.Breakdown.

    waited_for_host_ns: of window_ns, the cell or the extent, as `window` says; see
    perfmagic.analysis.findings.cell_time.
    """

    device: int
    extent_ns: int
    busy_ns: int
    compute_ns: int
    communication_ns: int
    copy_ns: int
    idle_ns: int
    exposed_communication_ns: int
    waited_for_host_ns: int
    window_ns: int
    window: str


@dataclass(frozen=True, eq=False)
class RankSummary:
    """One rank; times in ns by its own clock.

    collectives: of each process group one, for telling jobs apart.  n_ops: device ops.  first_ns, last_ns: of all
    records.  began_ns: of the first training step, else first_ns.  steps: their numbers.  sample: why the file is taken
    for a sample of a recording, "" for a whole one.  first_thread: the lowest number of a thread that launched, else 0.
    kinds: of communication.  comm: its ops in the order of their start: `row` of trace.ops, `start`, `end`, `kind`,
    `number` in the group, `bytes` (NONE: not known), `launched` (NONE: not known), `blocked`: how long Python had been
    blocked until then; and by each name of SPENT how much there was until `start`.
    began: the same until began_ns, by the names of SPENT and "blocked".
    exposed: communication with no compute beside it.  kernels: the longest of the device.
    bands: of a picture, see perfmagic.analysis.ranks.bands; empty where the trace is at hand.
    """

    meta: TraceMeta
    collectives: tuple[Collective, ...]
    n_ops: int
    first_ns: int
    last_ns: int
    began_ns: int
    steps: tuple[int, ...]
    sample: str
    first_thread: int
    totals: Totals
    kinds: tuple[CommKind, ...]
    comm: Columns
    began: Mapping[str, int]
    exposed: Columns
    kernels: tuple[KernelTime, ...]
    bands: Mapping[str, Columns] = field(default_factory=dict)

    @property
    def exposed_communication(self) -> Intervals:
        return np.stack([self.exposed["start"], self.exposed["end"]], axis=1)

    def here(self, places: Int64) -> Int64:
        """Which of some communication, by its place in comm, is on the device that is looked at."""
        known = np.array([kind.here for kind in self.kinds], bool)
        return np.flatnonzero(known[self.comm["kind"][places]])

    @property
    def communication(self) -> Intervals:
        """When the device that is looked at communicated."""
        start, end = self.comm["start"], self.comm["end"]
        here = self.here(np.arange(len(start)))
        return union(start[here], end[here])


@once_per_trace
def rank_summary(given: Trace, comm_names: str | None = None) -> RankSummary:
    """What a rank says of itself.  comm_names: as in perfmagic.trace.names.op_classes.

    A rank that computes on the CPU is taken as in perfmagic.analysis.ranks.host_as_device.
    """
    trace = host_as_device(given)
    facts = Facts(trace, comm_names)
    parts, ops = facts.breakdown, trace.ops
    steps = facts.steps
    first_ns = int(ops.start_ns.min(initial=trace.meta.start_ns))
    began_ns = steps[0].start_ns if steps else first_ns
    kinds, comm = _communication(trace, facts, comm_names)
    exposed = parts.intervals["exposed_communication"]
    words = sample(trace)
    groups = {(one.group, one.ranks): one for one in trace.collectives if one.group}
    return RankSummary(
        meta=replace(trace.meta, repairs=(), races=()),
        collectives=tuple(
            Collective("", group_size=one.group_size, group=one.group, ranks=one.ranks) for one in groups.values()
        ),
        n_ops=len(ops),
        first_ns=first_ns,
        last_ns=int(ops.end_ns.max(initial=trace.meta.end_ns)),
        began_ns=began_ns,
        steps=tuple(step.number for step in steps),
        sample="" if words is None else words.words,
        first_thread=int(trace.calls.thread.min()) if len(trace.calls) else 0,
        totals=Totals(
            device=parts.device,
            extent_ns=parts.extent_ns,
            busy_ns=parts.busy_ns,
            compute_ns=parts.compute_ns,
            communication_ns=parts.communication_ns,
            copy_ns=parts.copy_ns,
            idle_ns=parts.idle_ns,
            exposed_communication_ns=parts.exposed_communication_ns,
            waited_for_host_ns=facts.cell_time.waited_for_host_ns if len(ops) else 0,
            window_ns=facts.cell_time.window.length_ns if len(ops) else 0,
            window=facts.cell_time.window.name if len(ops) else ITS_EXTENT,
        ),
        kinds=kinds,
        comm=comm,
        began={name: int(_until(where, np.array([began_ns]))[0]) for name, where in _spent(facts).items()},
        exposed=Columns({"start": exposed[:, 0], "end": exposed[:, 1]}),
        kernels=longest(kernels(trace, parts.device, comm_names)),
    )


def _spent(facts: Facts) -> dict[str, Intervals]:
    sets = {name: facts.breakdown.intervals[name] for name in SPENT}
    return sets | {"blocked": union(facts.syncs.start_ns, facts.syncs.end_ns)}


def _until(where: Intervals, at_ns: Int64) -> Int64:
    """How much of some intervals lies before each instant."""
    return covered_ns(where, np.full(len(at_ns), _FIRST), at_ns)


def _communication(trace: Trace, facts: Facts, comm_names: str | None) -> tuple[tuple[CommKind, ...], Columns]:
    ops = trace.ops
    asked = communication_ops(trace, comm_names)
    rows = np.array([row for row, _ in asked], np.int64)
    kinds, kind = _kinds(trace, facts.device, asked, rows)
    start, end = ops.start_ns[rows], ops.end_ns[rows]
    sizes = op_bytes(trace, comm_names)
    launch = ops.launch[rows]
    launched = np.full(len(rows), NONE, np.int64)
    launched[launch != NONE] = trace.calls.start_ns[launch[launch != NONE]]
    spent = _spent(facts)
    columns = {
        "row": rows,
        "start": start,
        "end": end,
        "kind": kind,
        "number": ops.sequence[rows],
        "bytes": np.array([sizes.get(row, NONE) for row in rows.tolist()], np.int64),
        "launched": launched,
        "blocked": _until(spent["blocked"], launched),
    }
    for name in SPENT:
        columns[name] = _until(spent[name], start)
    return kinds, Columns(columns)


def _kinds(trace: Trace, device: int, asked: list[tuple[int, str]], rows: Int64) -> tuple[tuple[CommKind, ...], Int64]:
    """The kinds of communication of a rank in the order in which they come, and which each op is."""
    ops = trace.ops
    places = list(zip(ops.device[rows].tolist(), ops.stream[rows].tolist(), strict=True))
    place = {one: i for i, one in enumerate(sorted(set(places)))}
    found: dict[CommKind, int] = {}
    known: dict[tuple[int, str, tuple[int, int], int], int] = {}
    kind = np.zeros(len(rows), np.int64)
    columns = (ops.collective[rows].tolist(), ops.name[rows].tolist())
    for i, ((_, name), at, collective, own) in enumerate(zip(asked, places, *columns, strict=True)):
        key = (collective, name, at, own)
        if key not in known:
            one = trace.collectives[collective] if collective != NONE else None
            group, words = _what(one, name, place[at]) or (None, "")
            size = (one.group_size or 0) if one else 0
            message = ends_with_peer(one, trace.meta.rank) or ends_of(one, name, trace.names[own])
            known[key] = found.setdefault(CommKind(group, words, size, at[1], at[0] == device, message), len(found))
        kind[i] = known[key]
    return tuple(found), kind


def _what(known: Collective | None, asked: str, place: int) -> tuple[GroupKey, str] | None:
    """The group and the kind of a collective, with its type; None for a message between two ranks.

    known: what the record says of it.  place: of its stream among those of communication.
    """
    kind = collective_name(known.name) if known else asked
    if not kind or _POINT_TO_POINT.match(kind):
        return None
    group = GroupKey(f"{BY_PLACE}{place}")
    if known and known.group:
        group = GroupKey(f"group {known.group}", known.ranks)
    return group, kind + (f" {known.dtype}" if known and known.dtype else "")
