"""Where the rows of several ranks meet: collectives and messages as columns, for pictures and for the browser."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from perfmagic.analysis.ranks.matching import MatchedGroup
from perfmagic.analysis.ranks.messages import Passed
from perfmagic.analysis.ranks.summary import Ranks
from perfmagic.trace.columns import NONE, Int64
from perfmagic.view.timeline.wire_columns import ColumnWriter, cut

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
        found = np.full(len(self.met_ns), start, np.int64)
        pick.at(found, self.meeting, self.row)
        return found


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
        last = group.last[kept]
        columns["met_ns"].append(start[last, np.arange(len(kept))])
        columns["waited_ns"].append(group.waiting_ns[:, kept].max(axis=0))
        columns["err_ns"].append(group.errs_ns[kept])
        columns["last"].append(np.where(group.decided[kept], rows[last], NONE))
        names = [f"{group.kinds[i]} · {group.name}" for i in kept.tolist()]
        columns["kind"].append(np.array([kinds.setdefault(name, len(kinds)) for name in names], np.int64))
        parts["meeting"].append(np.tile(n + np.arange(len(kept)), (len(rows), 1)).T.ravel())
        parts["row"].append(np.tile(rows, len(kept)))
        parts["start_ns"].append(start.T.ravel())
        parts["end_ns"].append(end.T.ravel())
        parts["waiting_ns"].append(group.waiting_ns[:, kept].T.ravel())
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
        **_messages(ranks.passed if ranks.alignment.comparable else (), place, ranks),
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
    return np.sort(np.argpartition(-group.waiting_ns.max(axis=0), most)[:most])


def _messages(pairs: tuple[Passed, ...], place: dict[int, int], ranks: Ranks) -> dict[str, Int64]:
    found: dict[str, list[Int64]] = {
        name: [] for name in ("source", "target", "sent_ns", "sent_end_ns", "asked_ns", "arrived_ns")
    }
    for pair in pairs:
        by = {"sent": ranks.alignment.offset_ns[pair.source], "got": ranks.alignment.offset_ns[pair.target]}
        found["source"].append(np.full(len(pair), place[pair.source], np.int64))
        found["target"].append(np.full(len(pair), place[pair.target], np.int64))
        for name, of in (("sent_ns", "sent"), ("sent_end_ns", "sent"), ("asked_ns", "got"), ("arrived_ns", "got")):
            found[name].append(getattr(pair, name) + by[of])
    columns = _joined(found)
    order = np.argsort(np.maximum(columns["sent_ns"], columns["asked_ns"]), kind="stable")[:MOST_PARTS]
    return {name: column[order] for name, column in columns.items()}


def _joined(columns: dict[str, list[Int64]]) -> dict[str, Int64]:
    return {name: np.concatenate([_EMPTY, *parts]) for name, parts in columns.items()}
