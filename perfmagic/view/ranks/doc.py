"""Several ranks of one job as a document: a row a rank on one time axis, immutable and without pixels."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from perfmagic import units
from perfmagic.analysis.ranks.finding import RankFinding
from perfmagic.analysis.ranks.findings import findings_of
from perfmagic.analysis.ranks.summary import Ranks, RankStat
from perfmagic.numerics.intervals import Intervals, intersect, merge, subtract
from perfmagic.trace.model import devices_label
from perfmagic.view.ranks.critical import RankPathLane, critical_path_of
from perfmagic.view.ranks.met import NOWHERE, Met, met_of
from perfmagic.view.timeline.lanes import Share

# of a row; each instant may be in several
BANDS = (
    "host", "blocked", "compute", "transfer", "wait", "wait_beside", "got", "asked", "asked_beside", "copy", "idle",
)  # fmt: skip


@dataclass(frozen=True, eq=False)
class RankRow:
    """One rank on the common axis.

    title: of its file.  start_ns, end_ns: of its records.  bands: by the names of BANDS when it did what: Python ran a
    line of the cell, an operator or a call; Python was in a call that blocks it; the device computed; data of a
    collective or a send were on their way, or nobody knows; the rank was in one before the last one came, with nothing
    else to do, and beside compute or data moving; the same three of receives; copies; the device was idle between its
    first op and its last.  compute_known: whether what the rank computed is recorded.
    """

    rank: int
    title: str
    stat: RankStat
    start_ns: int
    end_ns: int
    bands: dict[str, Intervals]
    compute_known: bool = True

    @property
    def label(self) -> str:
        return f"rank {self.rank}"

    @property
    def words(self) -> tuple[str, str]:
        """What stands beside the row: how long it waited with no compute beside it, as in the table, and how far that
        may be wrong or how long it computed.
        """
        computes = f"computes {units.duration(self.stat.compute_ns)}" if self.compute_known else ""
        if not self.stat.exposed_waiting_ns:
            return "", computes
        waited, _, bound = units.known_within(self.stat.exposed_waiting_ns, self.stat.waiting_bound_ns).partition(" ")
        return f"waits {waited}", bound or computes


@dataclass(frozen=True, eq=False)
class RanksDoc:
    """The ranks of one job, ready to be drawn.

    span_ns: of the axis, which begins with the earliest record of all at 0.  rows: by rank.  clocks: how the axis was
    made, and how well that is known.  world_size: ranks of the whole job, None where no file says so.
    clocks_known: whether collectives tell when one rank began beside another.  met: where the rows meet.
    path: what the critical path of the job consists of, path_lane: the same in time; see perfmagic.view.ranks.critical.
    """

    span_ns: int
    rows: tuple[RankRow, ...]
    findings: tuple[RankFinding, ...]
    device_label: str
    clocks: str
    n_matched: int
    world_size: int | None
    clocks_known: bool = True
    met: Met = NOWHERE
    path: tuple[Share, ...] = ()
    path_lane: RankPathLane | None = None

    @property
    def no_compute(self) -> bool:
        """Whether what the ranks computed is not recorded: then it is not 0."""
        return not all(row.compute_known for row in self.rows)

    @property
    def parts(self) -> tuple[str, ...]:
        """The first line in pieces, the length of the axis first."""
        n = units.plural(len(self.rows), "rank")
        of = f" of {self.world_size}" if self.world_size and self.world_size != len(self.rows) else ""
        n_messages = len(self.met.source)
        met = [units.plural(n_messages, "message")] if n_messages else []
        if self.n_matched or not n_messages:
            met.insert(0, units.plural(self.n_matched, "matched collective"))
        return units.duration(self.span_ns), n + of, self.device_label, *met

    @property
    def sentence(self) -> str:
        return " · ".join(self.parts)

    @property
    def alt(self) -> str:
        """The picture in one sentence, for those who cannot see it."""
        waits = max((row.stat.exposed_waiting_ns for row in self.rows), default=0)
        longest = f", the longest waiting for others {units.duration(waits)}" if waits else ""
        n = units.plural(len(self.rows), "rank")
        return f"Timelines of {n} on one axis of {units.duration(self.span_ns)}{longest}"


def ranks_doc(ranks: Ranks, titles: Sequence[str] = ()) -> RanksDoc:
    """What the picture of several ranks shows.

    titles: of the files, in the order of the ranks; where their traces come from if left out.
    """
    names = titles or [one.meta.origin for one in ranks.summaries.values()]
    found = findings_of(ranks)
    known = not any(finding.rule == "device_left_alone" for finding in found)
    rows = tuple(_row(ranks, stat, name, known) for stat, name in zip(ranks.table, names, strict=True))
    first = ranks.summaries[ranks.ranks[0]]
    path, path_lane = critical_path_of(ranks)
    labels = dict.fromkeys(devices_label(one.meta.devices) for one in ranks.summaries.values())
    return RanksDoc(
        span_ns=max(1, *(row.end_ns for row in rows)),
        rows=rows,
        findings=found,
        device_label=", ".join(label for label in labels if label) or "no device",
        clocks=ranks.alignment.words,
        n_matched=ranks.matching.n,
        world_size=first.meta.world_size,
        clocks_known=ranks.alignment.residual_ns is not None or ranks.alignment.comparable,
        met=met_of(ranks),
        path=path,
        path_lane=path_lane,
    )


def _row(ranks: Ranks, stat: RankStat, title: str, compute_known: bool) -> RankRow:
    one, of_comm, by = ranks.summaries[stat.rank], ranks.communication[stat.rank], stat.offset_ns
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
    return RankRow(stat.rank, title, stat, one.first_ns + by, one.last_ns + by, moved, compute_known)
