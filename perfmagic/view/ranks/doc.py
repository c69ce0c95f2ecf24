"""Several ranks of one job as a document: one row per rank on one time axis, immutable and without pixels."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

import numpy as np

from perfmagic.analysis.findings.answer import Answers
from perfmagic.analysis.ranks.finding import RankFinding, RankStat
from perfmagic.analysis.ranks.findings import findings_of
from perfmagic.analysis.ranks.job_prediction import job_replay_in_passing
from perfmagic.analysis.ranks.meetings import describe_collectives
from perfmagic.analysis.ranks.pipelines.bubble import boxes_of
from perfmagic.analysis.ranks.pipelines.stages import Box
from perfmagic.analysis.ranks.ranks import Ranks
from perfmagic.analysis.ranks.waits import MatchedGroup, MatchedMessages
from perfmagic.base import units
from perfmagic.base.language import chained, counted, phrase, say, sentences, translated
from perfmagic.base.numerics.intervals import Intervals, intersect, merge, subtract
from perfmagic.base.tables import Table
from perfmagic.trace.columns import NONE, Int64
from perfmagic.trace.model import devices_label
from perfmagic.view.ranks.opening import Opening, opening_of
from perfmagic.view.timeline.doc import as_shares
from perfmagic.view.timeline.lanes import Share
from perfmagic.view.timeline.live_columns import ColumnWriter, cut

# Where the rows of several ranks meet: collectives and messages as columns, for pictures and for the browser.

MOST_PARTS = 300_000  # of collectives, and of messages, that a page holds: those with the longest waits

_EMPTY = np.zeros(0, np.int64)


def _none() -> Int64:
    return _EMPTY


@dataclass(frozen=True, eq=False)
class Met:
    """Times in ns on the common axis; rows are places among the rows of the document.

    met_ns: of each collective, rising, when the last rank came; waited_ns: the longest wait; err_ns: how far waits may
    be wrong; last: the row that came
    last, NONE where clocks do not tell; kind: place in kinds; shape (n,).
    meeting, row, start_ns, end_ns, waiting_ns: each rank's part in a collective, by collective; shape (p,).
    source, target, sent_ns, sent_end_ns, asked_ns, arrived_ns: of each message, rising by when both ends had come;
    shape (m,).
    """

    kinds: tuple[str, ...] = ()
    met_ns: Int64 = field(default_factory=_none)
    waited_ns: Int64 = field(default_factory=_none)
    err_ns: Int64 = field(default_factory=_none)
    last: Int64 = field(default_factory=_none)
    kind: Int64 = field(default_factory=_none)
    meeting: Int64 = field(default_factory=_none)
    row: Int64 = field(default_factory=_none)
    start_ns: Int64 = field(default_factory=_none)
    end_ns: Int64 = field(default_factory=_none)
    waiting_ns: Int64 = field(default_factory=_none)
    source: Int64 = field(default_factory=_none)
    target: Int64 = field(default_factory=_none)
    sent_ns: Int64 = field(default_factory=_none)
    sent_end_ns: Int64 = field(default_factory=_none)
    asked_ns: Int64 = field(default_factory=_none)
    arrived_ns: Int64 = field(default_factory=_none)

    @property
    def both_ns(self) -> Int64:
        """When both ends of each message had come; shape (m,)."""
        return np.maximum(self.sent_ns, self.asked_ns)

    @property
    def first_row(self) -> Int64:
        """The uppermost row of each collective; shape (n,)."""
        return self._of_rows(np.minimum, np.iinfo(np.int64).max)

    @property
    def last_row(self) -> Int64:
        """The lowest row of each collective; shape (n,)."""
        return self._of_rows(np.maximum, -1)

    def _of_rows(self, pick: np.ufunc, start: int) -> Int64:
        rows = np.full(len(self.met_ns), start, np.int64)
        pick.at(rows, self.meeting, self.row)
        return rows


NOWHERE = Met()


def met_of(ranks: Ranks) -> Met:
    """The matched collectives and messages of several ranks; of very many those with the longest waits."""
    place = {rank: i for i, rank in enumerate(ranks.ranks)}
    offset_ns = ranks.alignment.offset_ns
    kinds: dict[str, int] = {}
    columns: dict[str, list[Int64]] = {name: [] for name in ("met_ns", "waited_ns", "err_ns", "last", "kind")}
    parts: dict[str, list[Int64]] = {name: [] for name in ("meeting", "row", "start_ns", "end_ns", "waiting_ns")}
    n = 0
    for group in ranks.matching.groups:
        rows = np.array([place[rank] for rank in group.ranks], np.int64)
        by = np.array([offset_ns[rank] for rank in group.ranks], np.int64)[:, None]
        kept = _longest(group)
        start, end = ((times + by)[:, kept] for times in (group.start_ns, group.end_ns))
        last = group.waits.last[kept]
        columns["met_ns"].append(start[last, np.arange(len(kept))])
        columns["waited_ns"].append(group.waits.waiting_ns[:, kept].max(axis=0))
        columns["err_ns"].append(group.waits.errs_ns[kept])
        columns["last"].append(np.where(group.waits.decided[kept], rows[last], NONE))
        names = [f"{group.kinds[i]} · {group.name}" for i in kept.tolist()]
        columns["kind"].append(np.array([kinds.setdefault(name, len(kinds)) for name in names], np.int64))
        parts["meeting"].append(np.tile(n + np.arange(len(kept)), (len(rows), 1)).T.ravel())
        parts["row"].append(np.tile(rows, len(kept)))
        parts["start_ns"].append(start.T.ravel())
        parts["end_ns"].append(end.T.ravel())
        parts["waiting_ns"].append(group.waits.waiting_ns[:, kept].T.ravel())
        n += len(kept)
    meets, cut_parts = _joined(columns), _joined(parts)
    order = np.argsort(meets["met_ns"], kind="stable")
    new = np.empty(len(order), np.int64)
    new[order] = np.arange(len(order))
    cut_parts["meeting"] = new[cut_parts["meeting"]]
    by_meeting = np.argsort(cut_parts["meeting"], kind="stable")
    return Met(
        kinds=tuple(kinds),
        **{name: column[order] for name, column in meets.items()},
        **{name: column[by_meeting] for name, column in cut_parts.items()},
        **_messages(ranks.message_pairs if ranks.alignment.comparable else (), place, ranks),
    )


def met_columns(out: ColumnWriter, met: Met) -> list[str]:
    """Write where rows meet into a payload; gives the names of the collectives' kinds."""
    out.delta("meet", "met", met.met_ns)
    out.plain("meet", "waited", met.waited_ns)
    out.plain("meet", "err", met.err_ns)
    out.signed("meet", "last", met.last)
    out.plain("meet", "kind", met.kind)
    out.delta("part", "meeting", met.meeting)
    out.plain("part", "row", met.row)
    out.signed("part", "start", met.met_ns[met.meeting] - met.start_ns)
    out.plain("part", "length", met.end_ns - met.start_ns)
    out.plain("part", "wait", met.waiting_ns)
    both = met.both_ns
    out.delta("message", "met", both)
    for name, column in (("source", met.source), ("target", met.target)):
        out.plain("message", name, column)
    for name in ("sent", "sent_end", "asked", "arrived"):
        out.signed("message", name, getattr(met, f"{name}_ns") - both)
    return [cut(kind) for kind in met.kinds]


def _longest(group: MatchedGroup) -> Int64:
    """The collectives of a group that are kept, in order."""
    most = MOST_PARTS // len(group.ranks)
    if len(group.kinds) <= most:
        return np.arange(len(group.kinds))
    return np.sort(np.argpartition(-group.waits.waiting_ns.max(axis=0), most)[:most])


def _messages(pairs: tuple[MatchedMessages, ...], place: dict[int, int], ranks: Ranks) -> dict[str, Int64]:
    parts: dict[str, list[Int64]] = {
        name: [] for name in ("source", "target", "sent_ns", "sent_end_ns", "asked_ns", "arrived_ns")
    }
    for pair in pairs:
        by = {"sent": ranks.alignment.offset_ns[pair.source], "got": ranks.alignment.offset_ns[pair.target]}
        parts["source"].append(np.full(len(pair), place[pair.source], np.int64))
        parts["target"].append(np.full(len(pair), place[pair.target], np.int64))
        for name, of in (("sent_ns", "sent"), ("sent_end_ns", "sent"), ("asked_ns", "got"), ("arrived_ns", "got")):
            parts[name].append(getattr(pair, name) + by[of])
    columns = _joined(parts)
    order = np.argsort(np.maximum(columns["sent_ns"], columns["asked_ns"]), kind="stable")[:MOST_PARTS]
    return {name: column[order] for name, column in columns.items()}


def _joined(columns: dict[str, list[Int64]]) -> dict[str, Int64]:
    return {name: np.concatenate([_EMPTY, *parts]) for name, parts in columns.items()}


# The critical path of a job as every renderer shows it: what held all ranks, and on which of them.


@dataclass(frozen=True, eq=False)
class RankPathLane:
    """The path in time, neighbours of one kind as one part; ns on the common axis.

    share: row of the kinds.  row: of the rank that limited the job then, by rank.
    """

    start_ns: Int64
    end_ns: Int64
    share: Int64
    row: Int64

    def __len__(self) -> int:
        return len(self.start_ns)


def critical_path_of(ranks: Ranks) -> tuple[tuple[Share, ...], RankPathLane | None]:
    """The kinds of the path by length, and the path in time; nothing where the records do not say."""
    job = job_replay_in_passing(ranks)
    if job is None or job.unreadable or not len(job.path):
        return (), None
    path = job.path
    key = np.column_stack((path.share, path.rank))
    begins = np.flatnonzero(np.concatenate(([True], (key[1:] != key[:-1]).any(axis=1))))
    end_ns = path.end_ns[np.append(begins[1:], len(key)) - 1]
    return as_shares(path.shares), RankPathLane(path.start_ns[begins], end_ns, path.share[begins], path.rank[begins])


# of a row; each instant may be in several
BANDS = (
    "host", "blocked", "compute", "transfer", "wait", "wait_beside", "got", "asked", "asked_beside", "copy", "idle",
)  # fmt: skip


@dataclass(frozen=True, eq=False)
class RankRow:
    """One rank on the common axis.

    title: of its file.  start_ns, end_ns: of its records.  bands: by the names of BANDS when it did what: Python ran a
    line of the cell, an operator or a call; Python was in a call that blocks it; the device computed; data of a
    collective or a send were on their way, or it is unknown; the rank was in one before the last one came, with nothing
    else to do, and overlapped with compute or data moving; the same three of receives; copies; the device was idle
    between its first op and its last.  compute_known: whether what the rank computed is recorded.  boxes: the
    micro-batches of a stage of a pipeline.
    """

    rank: int
    title: str
    stat: RankStat
    start_ns: int
    end_ns: int
    bands: dict[str, Intervals]
    compute_known: bool = True
    boxes: tuple[Box, ...] = ()

    @property
    def label(self) -> str:
        return say("rank {n}", n=self.rank)

    @property
    def words(self) -> tuple[str, str]:
        """The text beside a row: how long the rank waited, not overlapped with compute, as in the table; and the
        error of that or how long it computed.
        """
        computes = say("computes {time}", time=units.duration(self.stat.compute_ns)) if self.compute_known else ""
        if not self.stat.exposed_waiting_ns:
            return "", computes
        waited, _, bound = units.known_within(self.stat.exposed_waiting_ns, self.stat.waiting_bound_ns).partition(" ")
        return say("waits {time}", time=waited), bound or computes


@dataclass(frozen=True, eq=False)
class RanksDoc:
    """The ranks of one job, ready to be drawn.

    span_ns: of the axis, which begins with the earliest record of all at 0.  rows: by rank.  clocks: how the axis was
    made, and how well that is known.  world_size: ranks of the whole job, None where no file says so.
    clocks_known: whether collectives tell when one rank began beside another.  met: where the rows meet.
    path: what the critical path of the job consists of, path_lane: the same in time. answers: who decides.
    collectives: how fast they were.  opening: what of the axis is shown first.
    """

    span_ns: int
    opening: Opening
    rows: tuple[RankRow, ...]
    findings: tuple[RankFinding, ...]
    answers: Answers
    device_label: str
    clocks: str
    n_matched: int
    world_size: int | None
    clocks_known: bool = True
    met: Met = NOWHERE
    path: tuple[Share, ...] = ()
    path_lane: RankPathLane | None = None
    collectives: str = ""

    @property
    def no_compute(self) -> bool:
        """Whether what the ranks computed is not recorded: then it is not 0."""
        return not all(row.compute_known for row in self.rows)

    @property
    def parts(self) -> tuple[str, ...]:
        """The first line in pieces, the length of the axis first."""
        n_messages = len(self.met.source)
        met = [counted(n_messages, "{n} message", "{n} messages")] if n_messages else []
        if self.n_matched or not n_messages:
            met.insert(0, counted(self.n_matched, "{n} matched collective", "{n} matched collectives"))
        return units.duration(self.span_ns), self._how_many, self.device_label, *met

    @property
    def _how_many(self) -> str:
        """How many ranks, and of how many where that differs."""
        n = len(self.rows)
        if not self.world_size or self.world_size == n:
            return counted(n, "{n} rank", "{n} ranks")
        return counted(n, "{n} rank of {world}", "{n} ranks of {world}", world=self.world_size)

    @property
    def about(self) -> str:
        """The line without the length: what was recorded."""
        return " · ".join(part.strip() for part in translated(self.parts[1:]))

    @property
    def alt(self) -> str:
        """The picture in one sentence, for those who cannot see it."""
        waits = max((row.stat.exposed_waiting_ns for row in self.rows), default=0)
        n, span = counted(len(self.rows), "{n} rank", "{n} ranks"), units.duration(self.span_ns)
        if not waits:
            return say("Timelines of {ranks} on one axis of {span}", ranks=n, span=span)
        return say(
            "Timelines of {ranks} on one axis of {span}, the longest waiting for others {waits}",
            ranks=n,
            span=span,
            waits=units.duration(waits),
        )


def ranks_doc(ranks: Ranks, titles: Sequence[str] = ()) -> RanksDoc:
    """What the picture of several ranks shows.

    titles: of the files, in the order of the ranks; where their traces come from if left out.
    """
    from perfmagic.analysis.ranks.answers import find_job_answers

    names = titles or [summary.meta.origin for summary in ranks.summaries.values()]
    findings = findings_of(ranks)
    known = not any(finding.rule == "device_left_alone" for finding in findings)
    rows = tuple(_row(ranks, stat, name, known) for stat, name in zip(ranks.table, names, strict=True))
    first = ranks.summaries[ranks.ranks[0]]
    path, path_lane = critical_path_of(ranks)
    labels = dict.fromkeys(devices_label(summary.meta.devices) for summary in ranks.summaries.values())
    span_ns, answers = max(1, *(row.end_ns for row in rows)), find_job_answers(ranks)
    return RanksDoc(
        span_ns=span_ns,
        opening=opening_of(ranks, findings, answers, span_ns),
        rows=rows,
        findings=findings,
        answers=answers,
        device_label=_labels(label for label in labels if label),
        clocks=ranks.alignment.words,
        n_matched=ranks.matching.n,
        world_size=first.meta.world_size,
        clocks_known=ranks.alignment.residual_ns is not None or ranks.alignment.comparable,
        met=met_of(ranks),
        path=path,
        path_lane=path_lane,
        collectives=describe_collectives(ranks.collectives),
    )


def _labels(labels: Iterable[str]) -> str:
    return chained("{a}, {b}", labels) or phrase("no device")


def _row(ranks: Ranks, stat: RankStat, title: str, compute_known: bool) -> RankRow:
    summary, of_comm, by = ranks.summaries[stat.rank], ranks.communication[stat.rank], stat.offset_ns
    (asked, got), (waiting, transfer) = of_comm.receives, of_comm.others
    alone = subtract(of_comm.exposed, of_comm.transfer)  # what the table counts as exposed waiting lies within
    bands = {
        **ranks.bands(stat.rank),
        "transfer": merge(transfer, of_comm.unmatched),
        "wait": intersect(waiting, alone),
        "wait_beside": subtract(waiting, alone),
        "got": got,
        "asked": intersect(asked, alone),
        "asked_beside": subtract(asked, alone),
    }
    moved = {name: bands[name] + np.int64(by) for name in BANDS}
    boxes = boxes_of(ranks).get(stat.rank, ())
    return RankRow(stat.rank, title, stat, summary.first_ns + by, summary.last_ns + by, moved, compute_known, boxes)


# The ranks of one job as a table of text cells, the same for every renderer.

HEAD = (
    "", "device", "began", "extent", "compute", "copies", "idle", "exposed comm.", "waiting", "transfer",
    "last at", "bus bandwidth",
)  # fmt: skip
NOTE = (
    "Began: how long after the rank that began first. Waiting and transfer are parts of the exposed "
    "communication: before the last rank came, and with data moving"
)


def rank_table(doc: RanksDoc) -> Table:
    """One row per rank. Waiting and transfer are parts of the exposed communication."""
    rows = []
    for row in doc.rows:
        stat = row.stat
        times = (stat.extent_ns, stat.compute_ns, stat.copy_ns, stat.idle_ns, stat.exposed_communication_ns)
        extent, compute, *others = map(units.duration, times)
        waited = units.known_within(stat.exposed_waiting_ns, stat.waiting_bound_ns if stat.exposed_waiting_ns else 0)
        parts = (waited, units.duration(stat.exposed_transfer_ns))
        rate = f"{units.size(stat.bus_bytes_per_s)}/s" if stat.bus_bytes_per_s else ""
        last = _last_of(stat) if stat.n_matched else ""
        rows.append(
            (
                row.label,
                str(stat.device),
                units.duration(stat.began_after_ns) if doc.clocks_known else "",
                *(extent, "" if doc.no_compute else compute, *others),
                *(parts if stat.waiting_ns + stat.transfer_ns else ("", "")),
                last,
                rate,
            )
        )
    return Table("Ranks", HEAD, rows, sentences(phrase(NOTE), doc.clocks))


def _last_of(stat: RankStat) -> str:
    return say("{last} of {total}", last=units.count(stat.n_last), total=units.count(stat.n_matched))


def describe_cost(cost_ns: int | None) -> str:
    """The left column of a finding on ranks."""
    return "" if cost_ns is None else units.duration(cost_ns)


# What the marks of the rows mean.

KEY = (
    ("host1", "Python"), ("blocked", "Python blocked"), ("comp", "compute"), ("comm", "data moving"),
    ("wait", "waiting for a rank"), ("beside", "the same, overlapped with compute"), ("last", "came last"),
    ("htod", "copies"), ("idle", "device idle"),
)  # fmt: skip
ONE_STAGE, STAGES = "F2: forward, micro-batch 2", "4F2: stage 4, forward, micro-batch 2"


def whole_key(doc: RanksDoc) -> tuple[tuple[str, str], ...]:
    """What the marks mean, and boxes of micro-batches where there are some: a token, "" for none, and a term."""
    boxes = [box for row in doc.rows for box in row.boxes[:1]]
    return (*KEY, ("matrix", "backward"), ("", STAGES if boxes[0].chunks else ONE_STAGE)) if boxes else KEY
