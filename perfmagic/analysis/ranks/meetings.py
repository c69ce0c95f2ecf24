"""Where ranks meet: each collective on all its ranks, each message on both ends, with who came last and who waited."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from perfmagic.analysis.ranks.finding import CollectiveOfRanks
from perfmagic.analysis.ranks.rank_summary import RankSummary
from perfmagic.analysis.ranks.waits import MatchedGroup, MatchedMessages, Matching, ToAxis, judged
from perfmagic.analysis.timeline.collectives import bus_factor
from perfmagic.base import units
from perfmagic.base.language import chained, phrase
from perfmagic.base.numerics.intervals import EMPTY, Intervals, covered_ns, intersect, merge, subtract, total_ns, union
from perfmagic.predict.gpus import gpu_of, link_peak
from perfmagic.trace.columns import NONE, Int64
from perfmagic.trace.rows import Rows


@dataclass(frozen=True, eq=False)
class Parts:
    """Communication of one rank that is matched, by its own clock; columns of shape (n,).

    places: in its communication.  met_ns: when waiting ended and the transfer began; start_ns <= met_ns <= end_ns.
    receives: it is the receiving end of messages.
    """

    places: Int64
    start_ns: Int64
    met_ns: Int64
    end_ns: Int64
    receives: bool = False


@dataclass(frozen=True)
class Meeting:
    """One collective on all its ranks; times in ns on the common axis. Source: docs/words.md, "meeting".

    number: among those of its group, from 0.  met_ns: when the last rank came.  last: that rank, None where clocks do
    not tell.  ranks, start_ns, end_ns, waiting_ns, transfer_ns: of each rank, rising.  waited_ns: the longest of the
    waits.  bound_ns: how far they may be wrong: the clocks' bound, else how far apart the ends are.
    """

    shown = ("group", "kind", "number", "met_ns", "last", "waited_ns", "bound_ns")

    group: str
    kind: str
    number: int
    met_ns: int
    last: int | None
    waited_ns: int
    bound_ns: int
    ranks: tuple[int, ...]
    start_ns: tuple[int, ...]
    end_ns: tuple[int, ...]
    waiting_ns: tuple[int, ...]
    transfer_ns: tuple[int, ...]


@dataclass(frozen=True)
class Message:
    """One send and its receive; times in ns on the common axis. Source: docs/words.md, "message".

    number: among those from source to target, from 0.  met_ns: when both had come.  sent_ns, sent_end_ns: the send.
    asked_ns, arrived_ns: the receive.  sender_waited_ns, receiver_waited_ns: until met_ns.  bound_ns: how far the
    clocks of both may err in that, None where nothing says so.
    """

    shown = ("source", "target", "number", "met_ns", "arrived_ns", "sender_waited_ns", "receiver_waited_ns", "bound_ns")

    source: int
    target: int
    number: int
    met_ns: int
    sent_ns: int
    sent_end_ns: int
    asked_ns: int
    arrived_ns: int
    sender_waited_ns: int
    receiver_waited_ns: int
    bound_ns: int | None


def meetings(matching: Matching, to_axis: ToAxis) -> Rows[Meeting]:
    """Every matched collective in the order in which their last ranks came."""
    rows: list[Meeting] = []
    for group in matching.groups:
        by = np.array([to_axis(rank, at_ns) for rank, at_ns in zip(group.ranks, group.start_ns, strict=True)], np.int64)
        waits = group.waits
        columns = (group.start_ns + by, group.end_ns + by, waits.waiting_ns, group.duration_ns - waits.waiting_ns)
        start, end, waiting, transfer = (column.T.tolist() for column in columns)
        last, decided, errs = (column.tolist() for column in (waits.last, waits.decided, waits.errs_ns))
        for i, kind in enumerate(group.kinds):
            rows.append(
                Meeting(
                    group=group.name,
                    kind=kind,
                    number=i,
                    met_ns=start[i][last[i]],
                    last=group.ranks[last[i]] if decided[i] else None,
                    waited_ns=max(waiting[i]),
                    bound_ns=errs[i],
                    ranks=group.ranks,
                    start_ns=tuple(start[i]),
                    end_ns=tuple(end[i]),
                    waiting_ns=tuple(waiting[i]),
                    transfer_ns=tuple(transfer[i]),
                )
            )
    return Rows(sorted(rows, key=lambda row: row.met_ns), Meeting)


def messages_of(pairs: Sequence[MatchedMessages], to_axis: ToAxis, bound_ns: int | None) -> Rows[Message]:
    """Every matched message in the order in which both ends had come."""
    rows = []
    for pair in pairs:
        by_source, by_target = to_axis(pair.source, pair.sent_ns), to_axis(pair.target, pair.asked_ns)
        columns = (pair.sent_ns + by_source, pair.sent_end_ns + by_source)
        columns += (pair.asked_ns + by_target, pair.arrived_ns + by_target, *pair.waits(to_axis).waiting_ns)
        sent, sent_end, asked, arrived, sender_waited, receiver_waited = (column.tolist() for column in columns)
        rows += [
            Message(
                source=pair.source,
                target=pair.target,
                number=i,
                met_ns=max(sent[i], asked[i]),
                sent_ns=sent[i],
                sent_end_ns=sent_end[i],
                asked_ns=asked[i],
                arrived_ns=arrived[i],
                sender_waited_ns=sender_waited[i],
                receiver_waited_ns=receiver_waited[i],
                bound_ns=bound_ns,
            )
            for i in range(len(pair))
        ]
    return Rows(sorted(rows, key=lambda row: row.met_ns), Message)


def parts_of(matching: Matching, pairs: Sequence[MatchedMessages], to_axis: ToAxis) -> dict[int, list[Parts]]:
    """By rank its matched communication, split where the last rank had come.

    pairs: messages; their clocks are compared.
    """
    parts: dict[int, list[Parts]] = defaultdict(list)
    for group in matching.groups:
        middle = group.start_ns + group.waits.waiting_ns
        for i, rank in enumerate(group.ranks):
            parts[rank].append(Parts(group.places[i], group.start_ns[i], middle[i], group.end_ns[i]))
    for pair in pairs:
        sender, receiver = pair.waits(to_axis).waiting_ns
        sends = Parts(pair.sent_places, pair.sent_ns, pair.sent_ns + sender, pair.sent_end_ns)
        parts[pair.source].append(sends)
        receives = Parts(pair.got_places, pair.asked_ns, pair.asked_ns + receiver, pair.arrived_ns, receives=True)
        parts[pair.target].append(receives)
    return parts


# Exposed communication split into what it is: waiting for a late rank, or data on their way.


@dataclass(frozen=True, eq=False)
class Communication:
    """The matched communication of one rank, by its own clock.

    waiting: in a collective before the last rank came, in a message before the other end did.  transfer: once all were
    there.  unmatched: communication of which the other ranks say nothing. The three are disjoint and
    make up the rank's communication.
    receives, others: of receives, and of sends and collectives, the waiting and the transfer each by itself.
    """

    waiting: Intervals
    transfer: Intervals
    unmatched: Intervals
    exposed: Intervals
    receives: tuple[Intervals, Intervals] = (EMPTY, EMPTY)
    others: tuple[Intervals, Intervals] = (EMPTY, EMPTY)

    @property
    def exposed_waiting_ns(self) -> int:
        return total_ns(intersect(self.waiting, self.exposed))

    @property
    def exposed_transfer_ns(self) -> int:
        return total_ns(intersect(self.transfer, self.exposed))

    @property
    def exposed_unmatched_ns(self) -> int:
        return total_ns(intersect(self.unmatched, self.exposed))


def communication(ranks: Mapping[int, RankSummary], parts: Mapping[int, Sequence[Parts]]) -> dict[int, Communication]:
    """What the communication of each rank was.  parts: by rank, see perfmagic.analysis.ranks.meetings.parts_of."""
    return {rank: _communication(summary, parts.get(rank, ())) for rank, summary in ranks.items()}


def _communication(summary: RankSummary, parts: Sequence[Parts]) -> Communication:
    asked, got = _split(summary, [part for part in parts if part.receives])
    waiting, transfer = _split(summary, [part for part in parts if not part.receives])
    moving = merge(transfer, got)
    idle = subtract(merge(waiting, asked), moving)
    unmatched = subtract(summary.communication, merge(idle, moving))
    return Communication(idle, moving, unmatched, summary.exposed_communication, (asked, got), (waiting, transfer))


def _split(summary: RankSummary, parts: Sequence[Parts]) -> tuple[Intervals, Intervals]:
    """The waiting and the transfer of some communication on the compared device."""
    if not parts:
        return EMPTY, EMPTY
    here = [(part, summary.here(part.places)) for part in parts]
    start, middle, end = (
        np.concatenate([getattr(part, name)[kept] for part, kept in here]) for name in ("start_ns", "met_ns", "end_ns")
    )
    transfer = union(middle, end)
    return subtract(union(start, middle), transfer), transfer


# How fast each kind of collective moved data once all ranks were there, against the links between the ranks.

UNEVEN = "all_to_all"  # ranks move as many bytes as they like
_NAMED = 3  # kinds that a line describes
_SAID = 1.1  # times the mean


@dataclass(frozen=True, eq=False)
class _Met:
    """Collectives of one group, or messages of one pair; shape (r, n), transfer_ns and kinds (n,)."""

    group: str
    ranks: tuple[int, ...]
    kinds: tuple[str, ...]
    places: Int64
    start_ns: Int64
    end_ns: Int64
    transfer_ns: Int64


def collectives_of_ranks(
    summaries: Mapping[int, RankSummary],
    matching: Matching,
    pairs: Sequence[MatchedMessages],
    to_axis: ToAxis,
    *,
    one_host: bool,
) -> Rows[CollectiveOfRanks]:
    """One row per kind and size, the longest transfer first.  pairs: messages; their clocks are compared.

    one_host: whether all ranks ran on one host where their records do not name it.
    """
    met = [_of_group(group, summaries) for group in matching.groups] + [_of_pair(pair, to_axis) for pair in pairs]
    rows = [row for each in met for row in _kinds_of(each, summaries, one_host)]
    return Rows(sorted(rows, key=lambda row: (-row.transfer_ns, row.group, row.kind)), CollectiveOfRanks)


def describe_collectives(rows: Sequence[CollectiveOfRanks]) -> str:
    """The kinds that took longest of those whose bandwidth is known, in a line; "" without any."""
    known = [_words(row) for row in rows if row.bus_bytes_per_s][:_NAMED]
    return phrase("Collectives: {kinds}", kinds=chained("{a}; {b}", known)) if known else ""


def _words(row: CollectiveOfRanks) -> str:
    """What it moved and how fast, in a few words."""
    of = phrase("{n} × {kind}", n=units.count(row.n), kind=row.kind)
    parts = [phrase("{of} of {size}", of=of, size=units.size(row.size_bytes)) if row.size_bytes else of]
    if row.bus_bytes_per_s:
        parts.append(phrase("bus bandwidth {rate}", rate=units.bandwidth(row.bus_bytes_per_s, 1e9)))
    if row.peak_frac and row.peak_bytes_per_s:
        share, peak = units.percent(row.peak_frac), units.bandwidth(row.peak_bytes_per_s, 1e9)
        parts.append(phrase("{share} of {peak} {link}", share=share, peak=peak, link=row.link))
    if row.overlap_frac is not None:
        parts.append(phrase("{share} overlapped with compute", share=units.percent(row.overlap_frac)))
    if row.imbalance is not None and row.imbalance >= _SAID:
        times = units.significant(row.imbalance)
        parts.append(phrase("the rank that moves most moves {times} × the mean", times=times))
    return chained("{a}, {b}", parts)


def _of_group(group: MatchedGroup, summaries: Mapping[int, RankSummary]) -> _Met:
    kept = np.flatnonzero(judged(group, summaries))
    kinds = tuple(group.kinds[i] for i in kept.tolist())
    places, start_ns, end_ns = (each[:, kept] for each in (group.places, group.start_ns, group.end_ns))
    return _Met(group.name, group.ranks, kinds, places, start_ns, end_ns, group.waits.transfer_ns[kept])


def _of_pair(pair: MatchedMessages, to_axis: ToAxis) -> _Met:
    places, starts = np.stack((pair.sent_places, pair.got_places)), np.stack((pair.sent_ns, pair.asked_ns))
    ends, ranks = np.stack((pair.sent_end_ns, pair.arrived_ns)), (pair.source, pair.target)
    transfer_ns = pair.waits(to_axis).transfer_ns
    return _Met(f"{pair.source} → {pair.target}", ranks, ("send",) * len(pair), places, starts, ends, transfer_ns)


def _kinds_of(met: _Met, summaries: Mapping[int, RankSummary], one_host: bool) -> list[CollectiveOfRanks]:
    """The rows of one group."""
    of_rank = zip(met.ranks, met.places, strict=True)
    sizes = np.array([summaries[rank].comm["bytes"][places] for rank, places in of_rank], np.int64)
    known = (sizes != NONE).all(axis=0)
    keys: dict[tuple[str, int], list[int]] = defaultdict(list)
    for i, (kind, size) in enumerate(zip(met.kinds, np.where(known, sizes.max(axis=0), NONE).tolist(), strict=True)):
        keys[kind, min(size, 0) if kind.startswith(UNEVEN) else size].append(i)
    return [_row(met, sizes[:, i], np.array(i, np.int64), summaries, one_host) for i in keys.values()]


def _row(met: _Met, sizes: Int64, at: Int64, summaries: Mapping[int, RankSummary], one_host: bool) -> CollectiveOfRanks:
    """One row.  sizes: in bytes, by rank and collective, NONE where not known.  at: which of met."""
    kind, known = met.kinds[int(at[0])], not (sizes == NONE).any()
    most, transfer_ns = int(sizes.max(axis=0).sum()), int(met.transfer_ns[at].sum())
    factor = bus_factor(kind, len(met.ranks))
    moved = known and most and transfer_ns and factor is not None
    link = _link(met.ranks, summaries, one_host)
    return CollectiveOfRanks(
        group=met.group,
        kind=kind,
        ranks=met.ranks,
        n=len(at),
        size_bytes=most / len(at) if known else None,
        transfer_ns=transfer_ns,
        bus_bytes_per_s=most * factor / transfer_ns * 1e9 if moved and factor is not None else None,
        link=link[1] if link else "",
        peak_bytes_per_s=link[0] if link else None,
        overlap_frac=_overlap_frac(met, at, summaries),
        rank_bytes=tuple(sizes.sum(axis=1).tolist()) if known else None,
        imbalance=most / float(sizes.mean(axis=0).sum()) if known and most and kind.startswith(UNEVEN) else None,
    )


def _overlap_frac(met: _Met, at: Int64, summaries: Mapping[int, RankSummary]) -> float | None:
    """The share of some collectives, on the compared devices, that ran beside compute."""
    exposed_ns = took_ns = 0
    for i, rank in enumerate(met.ranks):
        here = at[summaries[rank].here(met.places[i, at])]
        start_ns, end_ns = met.start_ns[i, here], met.end_ns[i, here]
        exposed_ns += int(covered_ns(summaries[rank].exposed_communication, start_ns, end_ns).sum())
        took_ns += int((end_ns - start_ns).sum())
    computed = any(summaries[rank].totals.compute_ns for rank in met.ranks)
    return 1 - exposed_ns / took_ns if took_ns and computed else None


def _link(ranks: Sequence[int], summaries: Mapping[int, RankSummary], one_host: bool) -> tuple[float, str] | None:
    """The links between some ranks, as link_peak has it; None for several hosts and for devices of several kinds."""
    metas = [summaries[rank].meta for rank in ranks]
    devices = [
        device
        for meta, rank in zip(metas, ranks, strict=True)
        for device in meta.devices
        if device.index == summaries[rank].totals.device
    ]
    gpus = {gpu_of(device) for device in devices}
    hosts = {meta.boot for meta in metas}
    if len(devices) < len(ranks) or len(gpus) > 1 or None in gpus or len(hosts) > 1 or not (hosts - {""} or one_host):
        return None
    gpu = gpus.pop()
    return link_peak(gpu.name, len(ranks)) if gpu and devices[0].kind != "sim" else None
