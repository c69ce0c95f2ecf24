"""The ranks of one job beside each other: a row a rank, on one axis."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property

import numpy as np

from perfmagic.analysis.ranks.alignment import Alignment, aligned
from perfmagic.analysis.ranks.bands import own_bands
from perfmagic.analysis.ranks.clock_facts import Ping
from perfmagic.analysis.ranks.exposed import Communication, communication
from perfmagic.analysis.ranks.finding import RankFinding
from perfmagic.analysis.ranks.host_as_device import host_as_device
from perfmagic.analysis.ranks.matching import Matching, matched
from perfmagic.analysis.ranks.meetings import Meeting, Message, Parts, meetings, messages_of, parts_of
from perfmagic.analysis.ranks.messages import Passed, passed
from perfmagic.analysis.ranks.rank_summary import RankSummary, rank_summary
from perfmagic.analysis.rows import Rows
from perfmagic.analysis.timeline.collectives import bus_factor
from perfmagic.numerics.intervals import Intervals, total_ns
from perfmagic.trace.columns import NONE
from perfmagic.trace.model import Trace
from perfmagic.units import plural


@dataclass(frozen=True)
class RankStat:
    """One rank of a job, on its busiest device; times in ns. Source: docs/words.md, "transfer".

    offset_ns: from the rank's own clock to the common axis.  began_after_ns: after the rank that began first, see
    Ranks.began_ns().
    exposed_communication_ns: with no compute beside it, the sum of exposed_waiting_ns (in a collective before the last
    rank came), exposed_transfer_ns (once all were there) and exposed_unmatched_ns (of which the other ranks say
    nothing).  waiting_ns, transfer_ns: of all matched collectives and messages, also beside compute; where one waits
    while another moves data, that is transfer.
    waiting_bound_ns: how far the waiting may be wrong, over all of them: see MatchedGroup.errs_ns.
    n_last: matched collectives to which it came last, of n_matched.
    bus_bytes_per_s: of matched collectives whose size is known, while data were on their way; None without any.
    """

    shown = (
        "rank", "extent_ns", "compute_ns", "exposed_communication_ns", "exposed_waiting_ns", "exposed_transfer_ns",
        "copy_ns", "idle_ns", "n_last", "bus_bytes_per_s",
    )  # fmt: skip

    rank: int
    device: int
    offset_ns: int
    began_after_ns: int
    extent_ns: int
    busy_ns: int
    compute_ns: int
    communication_ns: int
    copy_ns: int
    idle_ns: int
    exposed_communication_ns: int
    exposed_waiting_ns: int
    exposed_transfer_ns: int
    exposed_unmatched_ns: int
    waiting_ns: int
    transfer_ns: int
    waiting_bound_ns: int
    n_matched: int
    n_last: int
    bus_bytes_per_s: float | None

    @property
    def compute_frac(self) -> float:
        """The share of the extent in which it computed: a rank that waits for others is busy, too."""
        return self.compute_ns / self.extent_ns if self.extent_ns else 0.0


@dataclass(frozen=True, eq=False)
class Ranks:
    """The ranks of one job: their facts, their collectives beside each other, and one time axis.

    traces: by rank; see perfmagic.analysis.ranks.host_as_device for ranks on a CPU.  comm_names: as in
    perfmagic.trace.names.op_classes.  pings: between ranks whose clocks were compared.  given: what the ranks say of
    themselves, by rank, where their traces are elsewhere.  of_files: what is to be said of the files before all else.
    """

    traces: Mapping[int, Trace]
    comm_names: str | None = None
    pings: tuple[Ping, ...] = ()
    given: Mapping[int, RankSummary] = field(default_factory=dict)
    of_files: tuple[RankFinding, ...] = ()

    def __repr__(self) -> str:
        """What there is of them, how their clocks were put on one axis, and a row a rank."""
        met, sent = len(self.meetings), len(self.messages)
        what = f"{plural(len(self.ranks), 'rank')}, {plural(met, 'collective')} and {plural(sent, 'message')} matched"
        return f"{what}; {self.alignment.words}\n{self.table!r}"

    @cached_property
    def summaries(self) -> Mapping[int, RankSummary]:
        made = {rank: rank_summary(trace, self.comm_names) for rank, trace in self.traces.items()}
        return dict(sorted({**self.given, **made}.items()))

    @cached_property
    def ranks(self) -> list[int]:
        return list(self.summaries)

    @cached_property
    def _of_samples(self) -> bool:
        """Whether a file is a sample of a recording: the n-th collective of one is then not that of another."""
        return any(one.sample for one in self.summaries.values())

    @cached_property
    def _matched(self) -> Matching:
        return Matching((), ()) if self._of_samples else matched(self.summaries)

    @cached_property
    def passed(self) -> tuple[Passed, ...]:
        """The messages of each pair of ranks."""
        return () if self._of_samples else passed(self.summaries)

    @cached_property
    def alignment(self) -> Alignment:
        return aligned(self.summaries, self._matched, self.passed, self.pings)

    @cached_property
    def matching(self) -> Matching:
        """The matched collectives; their waits by the clocks where these are known."""
        clocks = self.alignment
        return self._matched.on_axis(clocks.offset_ns, clocks.bound_ns if clocks.comparable else None)

    @cached_property
    def parts(self) -> Mapping[int, Sequence[Parts]]:
        """By rank its matched communication, as waiting and transfer."""
        # without known clocks nothing says for whom a message waited
        messages = self.passed if self.alignment.comparable else ()
        return parts_of(self.matching, messages, self.alignment.offset_ns)

    @cached_property
    def communication(self) -> Mapping[int, Communication]:
        return communication(self.summaries, self.parts)

    def bands(self, rank: int) -> dict[str, Intervals]:
        """When a rank did what, by the names of OWN_BANDS; in columns where its trace is elsewhere."""
        if rank in self.traces:
            return own_bands(self.traces[rank], self.comm_names)
        packed = self.summaries[rank].bands
        return {name: np.stack([spans["start"], spans["end"]], axis=1) for name, spans in packed.items()}

    @cached_property
    def meetings(self) -> Rows[Meeting]:
        """A row for each matched collective, by when its last rank came."""
        return meetings(self.matching, self.alignment.offset_ns)

    @cached_property
    def messages(self) -> Rows[Message]:
        """A row for each matched message, by when both of its ends had come."""
        return messages_of(self.passed, self.alignment.offset_ns, self.alignment.bound_ns)

    @property
    def idle(self) -> bool:
        """Whether no rank had a device, or its CPU, execute anything."""
        return not any(one.n_ops for one in self.summaries.values())

    def began_ns(self, rank: int) -> int:
        """When a rank's first training step began by its own clock; without steps its first record."""
        return self.summaries[rank].began_ns

    def began_on_axis_ns(self, rank: int) -> int:
        """The same on the common axis."""
        return self.alignment.offset_ns[rank] + self.began_ns(rank)

    @cached_property
    def table(self) -> Rows[RankStat]:
        """A row a rank."""
        return Rows((self._row(rank) for rank in self.ranks), RankStat)

    def _row(self, rank: int) -> RankStat:
        parts, of_comm = self.summaries[rank].totals, self.communication[rank]
        mine = [(group, group.ranks.index(rank)) for group in self.matching.groups if rank in group.ranks]
        return RankStat(
            rank=rank,
            device=parts.device,
            offset_ns=self.alignment.offset_ns[rank],
            began_after_ns=self.began_on_axis_ns(rank) - min(map(self.began_on_axis_ns, self.ranks)),
            extent_ns=parts.extent_ns,
            busy_ns=parts.busy_ns,
            compute_ns=parts.compute_ns,
            communication_ns=parts.communication_ns,
            copy_ns=parts.copy_ns,
            idle_ns=parts.idle_ns,
            exposed_communication_ns=parts.exposed_communication_ns,
            exposed_waiting_ns=of_comm.exposed_waiting_ns,
            exposed_transfer_ns=of_comm.exposed_transfer_ns,
            exposed_unmatched_ns=of_comm.exposed_unmatched_ns,
            waiting_ns=total_ns(of_comm.waiting),
            transfer_ns=total_ns(of_comm.transfer),
            waiting_bound_ns=sum(int(group.errs_ns.sum()) for group, _ in mine) + self._bound_of_messages(rank),
            n_matched=sum(len(group.kinds) for group, _ in mine),
            n_last=sum(int(((group.last == i) & group.decided).sum()) for group, i in mine),
            bus_bytes_per_s=self._bandwidth(rank),
        )

    def _bound_of_messages(self, rank: int) -> int:
        """How far clocks may be wrong in the waits of a rank's messages, added up."""
        if not self.alignment.comparable or not self.alignment.bound_ns:
            return 0
        ends = (len(pair) for pair in self.passed for end in (pair.source, pair.target) if end == rank)
        return sum(ends) * self.alignment.bound_ns

    def _bandwidth(self, rank: int) -> float | None:
        """What the rank's links carried of the matched collectives, by the time in which data were on their way."""
        sizes = self.summaries[rank].comm["bytes"]
        moved, took_ns = 0.0, 0
        for group in self.matching.groups:
            if rank not in group.ranks:
                continue
            i = group.ranks.index(rank)
            factors = {kind: bus_factor(kind.split()[0], len(group.ranks)) for kind in set(group.kinds)}
            columns = (sizes[group.places[i]].tolist(), group.kinds, group.transfer_ns.tolist())
            for size, kind, ns in zip(*columns, strict=True):
                factor = factors[kind]
                if factor is not None and size != NONE:
                    moved += size * factor
                    took_ns += ns
        return moved / took_ns * 1e9 if took_ns else None


def ranks_of(traces: Sequence[Trace], comm_names: str | None = None, pings: Sequence[Ping] = ()) -> Ranks | None:
    """The ranks that some traces of one job are; None where fewer than two have anything to compare, or no rank.

    pings: between ranks whose clocks were compared while they ran, beside those that their records hold.
    """
    known: dict[int, Trace] = {}
    for trace in map(host_as_device, traces):
        if len(trace.ops) and trace.meta.rank is not None:
            known[trace.meta.rank] = trace
    held = (Ping(*one) for trace in known.values() for one in trace.meta.pings)
    return Ranks(known, comm_names, (*held, *pings)) if len(known) > 1 else None
