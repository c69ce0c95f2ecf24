"""The summary of one rank: small, and made where its trace is.

Everything about several ranks is worked out from summaries, so that a thousand traces need not be in one place.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import NamedTuple

import numpy as np

from perfmagic.analysis.findings.facts import ITS_EXTENT, Facts
from perfmagic.analysis.timeline.collectives import input_bytes, op_bytes
from perfmagic.analysis.timeline.own_work import Lane, lane_of
from perfmagic.analysis.timeline.steps import first_full_step, stands_out, step_numbers
from perfmagic.analysis.timeline.trust import cut_or_sampled
from perfmagic.base.numerics.intervals import Intervals, clip, covered_ns, union
from perfmagic.base.numerics.packed import Columns
from perfmagic.base.rank_words import GIVEN_UP
from perfmagic.trace.columns import NONE, WHOLE_BUFFER, Bool, DeviceOps, HostKind, HostOps, Int64, OpKind, Remark
from perfmagic.trace.hoststack import host_stack
from perfmagic.trace.model import Collective, DeviceInfo, Trace, TraceMeta, devices_label, once_per_trace
from perfmagic.trace.names import OpClass, collective_name, op_classes, short_names
from perfmagic.trace.rows import Rows
from perfmagic.trace.signatures import function_name
from perfmagic.trace.window import window

# Which ops of a rank communicate, and what the host asked for when it launched them.

# what torch.distributed records around a launch: c10d::allreduce_, and inside it nccl:all_reduce
_ASKED_AS = re.compile(r"^(?:nccl|c10d|gloo)::?")
_SEND_OR_RECEIVE = re.compile(r"send_?recv", re.IGNORECASE)  # an all-to-all or point to point, the kernel does not say
# torch records "nccl:send 0->1" on rank 0 and "nccl:recv 1<-0" on rank 1
_MESSAGE = re.compile(r"^i?(send|recv)\w*\s+(\d+)\s*(->|<-)\s*(\d+)", re.IGNORECASE)
# what the reader makes of Kineto's Dst Rank and Src Rank, and of gloo's messages between two ranks
_PEER = re.compile(r"^(send|recv) (?:to|from) (\d+)$")


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
        innermost = host_stack(trace, named).innermost_at(trace.calls.thread[call], trace.calls.start_ns[call])
        asked[launched] = np.where(innermost != NONE, host.name[innermost], NONE)
    kernels = ops.name[rows]
    words = {
        (kernel, by): _asked_name(trace.names[kernel], trace.names[by] if by != NONE else "")
        for kernel, by in set(zip(kernels.tolist(), asked.tolist(), strict=True))
    }
    columns = zip(rows.tolist(), kernels.tolist(), asked.tolist(), strict=True)
    return [(row, words[kernel, by]) for row, kernel, by in columns]


def _asked_name(kernel: str, asked: str) -> str:
    if asked:
        return collective_name(_ASKED_AS.sub("", asked).strip("_"))
    name = function_name(kernel)
    return "" if _SEND_OR_RECEIVE.search(name) else name


def ends_with_peer(known: Collective | None, rank: int | None) -> tuple[bool, tuple[int, int]] | None:
    """The same as ends_of, of an op of a rank whose record names the other rank of the whole job."""
    match = _PEER.match(known.name) if known else None
    if not match or rank is None:
        return None
    is_send, peer = match[1] == "send", int(match[2])
    return is_send, (rank, peer) if is_send else (peer, rank)


def ends_of(known: Collective | None, *names: str) -> tuple[bool, tuple[int, int]] | None:
    """Whether an op sends, and from which rank to which; None where it is no message.

    names: what the host asked for, and the op's own, as the simulated device has it.
    """
    match = next(filter(None, map(_MESSAGE.match, (known.name if known else "", *names))), None)
    if not match:
        return None
    first, second = int(match[2]), int(match[4])
    source, target = (first, second) if match[3] == "->" else (second, first)
    if known and known.ranks and len(known.ranks) == known.group_size:  # numbers are those within the group
        if max(source, target) >= len(known.ranks):
            return None
        source, target = known.ranks[source], known.ranks[target]
    return match[1].lower() == "send", (source, target)


# A rank that computes on the CPU, with the CPU as its device, so that everything about ranks holds for it.

_GLOO = re.compile(r"^gloo:(\w.*?)(?: in group (\S+) of ranks ([\d, ]+))?$")
_ASKS = re.compile(r"^_?c10d(?:_functional)?::")  # asks for a collective, and does nothing else
LEFT_ALONE = "device_left_alone"  # its text is the device's label
GLOO_STREAM = -2  # gloo runs a queue on several threads: one stream, whatever thread takes it


def host_as_device(trace: Trace) -> Trace:
    """The trace with what its CPU computed and communicated as device ops; unchanged where it has device ops, or where
    neither communication on the CPU nor the rank's own record says that it is a rank.

    A rank that had another device to compute on, and did not, gets a note of the kind LEFT_ALONE.
    """
    kind_of_name = [_kind(name, trace.meta) for name in trace.names]
    is_gloo = np.array([kind != "" for kind in kind_of_name], bool)
    host = trace.host_ops
    known = all(device.kind in ("cpu", "sim") for device in trace.meta.devices)  # a GPU's record may only be missing
    is_rank = known and trace.meta.rank is not None and bool(trace.meta.boot)
    if len(trace.ops) or not len(host) or not (is_rank or is_gloo[host.name].any()):
        return trace
    asks = np.array([_ASKS.match(name) is not None for name in trace.names], bool)
    moves = is_gloo[host.name]
    given_up = np.array([name.endswith(GIVEN_UP) for name in trace.names], bool)[host.name]
    computes = _outermost(host, (host.kind == HostKind.OP) & ~moves & ~asks[host.name] & ~given_up)
    kept = np.flatnonzero(moves | computes)
    kinds = sorted({kind for i, kind in enumerate(kind_of_name) if kind and (host.name == i).any()})
    number = np.array([kinds.index(kind) if kind in kinds else NONE for kind in kind_of_name], np.int32)
    ops = DeviceOps.make(
        {
            "start_ns": host.start_ns[kept],
            "end_ns": host.end_ns[kept],
            "kind": np.full(len(kept), OpKind.KERNEL),
            "stream": np.where(moves[kept], GLOO_STREAM, host.thread[kept]),
            "name": host.name[kept],
            "collective": number[host.name[kept]],
            "size_bytes": _moved_bytes(trace, moves)[kept],
            "line": host.line[kept],
        }
    )
    notes = trace.meta.notes
    if any(device.kind != "cpu" for device in trace.meta.devices):
        notes += (Remark(LEFT_ALONE, devices_label(trace.meta.devices), {"n_computed": int(computes.sum())}),)
    return replace(
        trace,
        ops=ops,
        collectives=tuple(_collective(kind) for kind in kinds),
        meta=replace(trace.meta, devices=(DeviceInfo(0, "cpu", "CPU"),), notes=notes),
    )


def _moved_bytes(trace: Trace, moves: Bool) -> Int64:
    """The bytes of the whole buffers of some rows of the host, where their inputs are recorded; NONE of all others.

    Of a gather torch records only the part that the rank puts in.
    """
    host = trace.host_ops
    whole = np.array([dtype == WHOLE_BUFFER for dtype in trace.input_dtypes] or [False], bool)
    gathers = np.array(["gather" in name for name in trace.names], bool)[host.name]
    sizes = np.full(len(host), NONE, np.int64)
    known = np.flatnonzero(moves & (host.shape != NONE) & (host.dtype != NONE) & (whole[host.dtype] | ~gathers))
    pairs, of_row = np.unique(np.stack((host.shape[known], host.dtype[known])), axis=1, return_inverse=True)
    each = [input_bytes(trace.input_shapes[shape], trace.input_dtypes[dtype]) for shape, dtype in pairs.T.tolist()]
    sizes[known] = np.array(each, np.int64)[of_row.reshape(-1)]
    return sizes


def _collective(name: str) -> Collective:
    """What is known of a collective by its name, as _kind gives it: its group, where it is not the first."""
    match = _GLOO.match(f"gloo:{name}")
    if match is None or not match[2]:
        return Collective(name, group="gloo")
    ranks = tuple(int(rank) for rank in match[3].split(","))
    return Collective(match[1], group=f"gloo {match[2]}", group_size=len(ranks), ranks=ranks)


def _kind(name: str, meta: TraceMeta) -> str:
    """What gloo was asked for by a row of the host, with its group; "" for another row.

    torch's own group does not record between which ranks a message goes: of two ranks there is one other.
    """
    match = _GLOO.match(name)
    kind = name.removeprefix("gloo:") if match and not name.endswith(GIVEN_UP) else ""
    if kind in ("send", "recv") and meta.world_size == 2 and meta.rank is not None:
        return f"{kind} {'to' if kind == 'send' else 'from'} {1 - meta.rank}"
    return kind


def _outermost(host: HostOps, among: Bool) -> Bool:
    """Which of some rows run inside no other of them on their thread; rows are in the order of their start."""
    outer = np.zeros(len(host), bool)
    for thread in np.unique(host.thread[among]):
        rows: Int64 = np.flatnonzero(among & (host.thread == thread))
        before = np.concatenate(([np.iinfo(np.int64).min], np.maximum.accumulate(host.end_ns[rows])[:-1]))
        outer[rows[host.start_ns[rows] >= before]] = True
    return outer


# Which kernels took the time of all ranks, and on which rank each took longest.

KEPT = 32  # kernels of a rank, the longest; the others are one row


class KernelTime(NamedTuple):
    """A kernel of one rank, "" for all that are not among the longest; its runs; their summed ns."""

    name: str
    n_ops: int
    total_ns: int


@dataclass(frozen=True)
class KernelOfRanks:
    """One kernel of several ranks; times in ns, of each rank summed over its runs.

    name: "all others" where ranks have more than they keep.  short_name: as it is read, which no other row shares.
    n_ranks: that have it among their longest.  n_ops, total_ns: the median of these.  least_ns, most_ns: the shortest
    and the longest of them, on least_rank and most_rank.  share_frac: of the kernel time of all ranks.
    """

    name: str
    short_name: str
    n_ranks: int
    n_ops: float
    total_ns: float
    least_ns: int
    least_rank: int
    most_ns: int
    most_rank: int
    share_frac: float


OTHERS = "all others"


def longest(trace: Trace, device: int) -> tuple[KernelTime, ...]:
    """The kernels of one rank that took longest, then all others together, as one named ""."""
    ops = trace.ops.select((trace.ops.device == device) & (trace.ops.kind == OpKind.KERNEL))
    names, first, row, n = np.unique(ops.name, return_index=True, return_inverse=True, return_counts=True)
    total_ns = np.zeros(len(names), np.int64)
    np.add.at(total_ns, row, ops.end_ns - ops.start_ns)
    order = np.lexsort((first, -total_ns))
    kept = [KernelTime(trace.names[names[i]], int(n[i]), int(total_ns[i])) for i in order[:KEPT].tolist()]
    rest = order[KEPT:]
    return (*kept, *([KernelTime("", int(n[rest].sum()), int(total_ns[rest].sum()))] if len(rest) else ()))


def kernels_of_ranks(by_rank: Mapping[int, tuple[KernelTime, ...]]) -> Rows[KernelOfRanks]:
    """One row per kernel, the most time of all ranks first, and what no rank has among its longest last."""
    by_name: dict[str, list[tuple[int, KernelTime]]] = {}
    for rank, rank_kernels in by_rank.items():
        for kernel in rank_kernels:
            by_name.setdefault(kernel.name, []).append((rank, kernel))
    all_ns = max(1, sum(kernel.total_ns for rank_kernels in by_rank.values() for kernel in rank_kernels))
    short = short_names(name for name in by_name if name)
    rows = []
    for name, ranks in by_name.items():
        totals = [kernel.total_ns for _, kernel in ranks]
        least, most = int(np.argmin(totals)), int(np.argmax(totals))
        rows.append(
            KernelOfRanks(
                name=name or OTHERS,
                short_name=short.get(name, OTHERS),
                n_ranks=len(ranks),
                n_ops=float(np.median([kernel.n_ops for _, kernel in ranks])),
                total_ns=float(np.median(totals)),
                least_ns=totals[least],
                least_rank=ranks[least][0],
                most_ns=totals[most],
                most_rank=ranks[most][0],
                share_frac=sum(totals) / all_ns,
            )
        )
    return Rows(sorted(rows, key=lambda row: (row.name == OTHERS, -row.share_frac)), KernelOfRanks)


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
    as the record numbers it.  here: on the compared device.  message: whether it sends, from which rank to
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
    perfmagic.analysis.findings.facts.  start_up_ns: of a file, before the first op; 0 of a cell, whose window has it.
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
    start_up_ns: int = 0


class Start(NamedTuple):
    """From when on a rank is judged: what lies before is start-up.

    began_ns: by its host, the first full step of a file; of a cell, which begins on all ranks together, the first step,
    else the first record.  since_ns: on its device, once what was launched before is through.  step: the number of that
    step, None where it has none.  is_file: it did not begin with the other ranks.
    """

    began_ns: int
    since_ns: int
    step: int | None
    is_file: bool


@dataclass(frozen=True, eq=False)
class RankSummary:
    """One rank; times in ns by its own clock.

    collectives: of each process group one, for telling jobs apart.  n_ops: device ops.  n_instants: of a replay.
    first_ns, last_ns: of all records.  start: from when on it is judged; totals, exposed and what here() gives are of
    that time.  steps: their numbers; steps_ns: their starts and ends on the host.  sample: why the file is taken for a
    sample of a recording, "" for a whole one.
    first_thread: the lowest number of a thread that launched, else 0.
    kinds: of communication.  comm: its ops in the order of their start: `row` of trace.ops, `start`, `end`, `kind`,
    `number` in the group, `bytes` (NONE: not known), `launched` (NONE: not known), `step`: the number of the step that
    asked for it (NONE: not known), `blocked`: how long Python had been blocked until then; and by each name of SPENT
    how much there was until `start`.
    began: the same until began_ns, by the names of SPENT and "blocked".
    exposed: communication that did not overlap with compute.  kernels: the longest of the device.  lane: its own work.
    bands: of a picture, see perfmagic.analysis.ranks.rank_files; empty where the trace is at hand.
    """

    meta: TraceMeta
    collectives: tuple[Collective, ...]
    n_ops: int
    n_instants: int
    first_ns: int
    last_ns: int
    start: Start
    steps: tuple[int, ...]
    sample: str
    first_thread: int
    totals: Totals
    kinds: tuple[CommKind, ...]
    comm: Columns
    began: Mapping[str, int]
    exposed: Columns
    kernels: tuple[KernelTime, ...]
    lane: Lane
    bands: Mapping[str, Columns] = field(default_factory=dict)
    steps_ns: tuple[tuple[int, int], ...] = ()

    @property
    def began_ns(self) -> int:
        """When it began with what is judged, by its host."""
        return self.start.began_ns

    @property
    def exposed_communication(self) -> Intervals:
        return np.stack([self.exposed["start"], self.exposed["end"]], axis=1)

    def here(self, places: Int64) -> Int64:
        """Which of some communication, by its place in comm, is on the compared device and no part of the start-up."""
        known = np.array([kind.here for kind in self.kinds], bool)
        return np.flatnonzero(known[self.comm["kind"][places]] & (self.comm["start"][places] >= self.start.since_ns))

    @property
    def communication(self) -> Intervals:
        """When the compared device communicated, after the start-up."""
        start, end = self.comm["start"], self.comm["end"]
        here = self.here(np.arange(len(start)))
        return union(start[here], end[here])


@once_per_trace
def rank_summary(given: Trace, comm_names: str | None = None) -> RankSummary:
    """The summary of a rank; of one that computes on the CPU, see host_as_device.

    comm_names: as in perfmagic.trace.names.op_classes.
    """
    trace = host_as_device(given)
    facts, ops = Facts(trace, comm_names), trace.ops
    first_ns = int(ops.start_ns.min(initial=trace.meta.start_ns))
    kinds, comm = _communication(trace, facts, comm_names)
    start = _start(facts, first_ns, kinds, comm)
    last_ns = int(ops.end_ns.max(initial=trace.meta.end_ns))
    exposed = clip(facts.breakdown.intervals["exposed_communication"], start.since_ns, last_ns)
    words = cut_or_sampled(trace)
    groups = {(each.group, each.ranks): each for each in trace.collectives if each.group}
    return RankSummary(
        meta=replace(trace.meta, repairs=(), races=()),
        collectives=tuple(
            Collective("", group_size=each.group_size, group=each.group, ranks=each.ranks) for each in groups.values()
        ),
        n_ops=len(ops),
        n_instants=2 * len(trace.calls) + len(ops),
        first_ns=first_ns,
        last_ns=last_ns,
        start=start,
        steps=tuple(step.number for step in facts.steps),
        sample="" if words is None else words.words,
        first_thread=int(trace.calls.thread.min()) if len(trace.calls) else 0,
        totals=_totals(facts, start),
        kinds=kinds,
        comm=comm,
        began={name: int(_until(where, np.array([start.began_ns]))[0]) for name, where in _spent(facts).items()},
        exposed=Columns({"start": exposed[:, 0], "end": exposed[:, 1]}),
        kernels=longest(trace, facts.device),
        lane=lane_of(trace, facts.breakdown, facts.steps, comm, start.since_ns),
        steps_ns=tuple((step.start_ns, step.end_ns) for step in facts.steps),
    )


def _start(facts: Facts, first_ns: int, kinds: tuple[CommKind, ...], comm: Columns) -> Start:
    """Where what is judged begins.

    In a file without steps it is the end of the first collective of all ranks. That holds if reaching it took longer
    than from each collective to the next.
    """
    trace, ops, step = facts.trace, facts.trace.ops, first_full_step(facts.trace)
    if trace.cell is not None:
        return Start(facts.steps[0].start_ns if facts.steps else first_ns, _FIRST, None, is_file=False)
    if step is None:
        of_all = [i for i, kind in enumerate(kinds) if kind.group and kind.size in (0, trace.meta.world_size)]
        ends_ns = comm["end"][np.isin(comm["kind"], of_all)]
        if stands_out(np.diff(ends_ns, prepend=trace.meta.start_ns)):
            return Start(int(ends_ns[0]), int(ends_ns[0]), None, is_file=True)
        return Start(first_ns, _FIRST, None, is_file=True)
    began_ns, number = step
    at_ns = ops.start_ns.copy()
    launched = ops.launch != NONE
    at_ns[launched] = trace.calls.start_ns[ops.launch[launched]]
    through_ns = int(ops.end_ns[at_ns < began_ns].max(initial=began_ns))
    return Start(began_ns, through_ns, number, is_file=True)


def _totals(whole: Facts, start: Start) -> Totals:
    """The sums of what is judged."""
    trace = whole.trace
    facts = whole
    if len(trace.ops) and int(trace.ops.start_ns.min()) < start.since_ns < int(trace.ops.end_ns.max()):
        facts = Facts(window(trace, start.since_ns, trace.meta.end_ns), whole.comm_names)
    parts, n_ops = facts.breakdown, len(facts.trace.ops)
    return Totals(
        device=parts.device,
        extent_ns=parts.extent_ns,
        busy_ns=parts.busy_ns,
        compute_ns=parts.compute_ns,
        communication_ns=parts.communication_ns,
        copy_ns=parts.copy_ns,
        idle_ns=parts.idle_ns,
        exposed_communication_ns=parts.exposed_communication_ns,
        waited_for_host_ns=facts.cell_time.waited_for_host_ns if n_ops else 0,
        window_ns=facts.cell_time.window.length_ns if n_ops else 0,
        window=facts.cell_time.window.name if n_ops else ITS_EXTENT,
        start_up_ns=parts.head_ns if n_ops and facts is whole and trace.meta.returned_ns is None else 0,
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
        "step": step_numbers(trace, np.where(launched == NONE, start, launched)),
        "blocked": _until(spent["blocked"], launched),
    }
    for name in SPENT:
        columns[name] = _until(spent[name], start)
    return kinds, Columns(columns)


def _kinds(trace: Trace, device: int, asked: list[tuple[int, str]], rows: Int64) -> tuple[tuple[CommKind, ...], Int64]:
    """The kinds of communication of a rank in the order in which they come, and which each op is."""
    ops = trace.ops
    places = list(zip(ops.device[rows].tolist(), ops.stream[rows].tolist(), strict=True))
    place = {where: i for i, where in enumerate(sorted(set(places)))}
    number_of: dict[CommKind, int] = {}
    known: dict[tuple[int, str, tuple[int, int], int], int] = {}
    kind = np.zeros(len(rows), np.int64)
    columns = (ops.collective[rows].tolist(), ops.name[rows].tolist())
    for i, ((_, name), at, collective, own_name) in enumerate(zip(asked, places, *columns, strict=True)):
        key = (collective, name, at, own_name)
        if key not in known:
            recorded = trace.collectives[collective] if collective != NONE else None
            group, words = _what(recorded, name, place[at]) or (None, "")
            size = (recorded.group_size or 0) if recorded else 0
            message = ends_with_peer(recorded, trace.meta.rank) or ends_of(recorded, name, trace.names[own_name])
            known[key] = number_of.setdefault(
                CommKind(group, words, size, at[1], at[0] == device, message), len(number_of)
            )
        kind[i] = known[key]
    return tuple(number_of), kind


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
