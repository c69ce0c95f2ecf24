"""The ranks of one job beside each other: one row per rank, on one axis."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property

import numpy as np

from perfmagic.analysis.ranks.alignment import SHARED_CLOCK_NS, Alignment, Ping, aligned
from perfmagic.analysis.ranks.finding import CollectiveOfRanks, RankFinding, RankStat
from perfmagic.analysis.ranks.jobs import missing
from perfmagic.analysis.ranks.matching import matched_collectives, matched_messages
from perfmagic.analysis.ranks.meetings import (
    Communication,
    Meeting,
    Message,
    Parts,
    collectives_of_ranks,
    communication,
    meetings,
    messages_of,
    parts_of,
)
from perfmagic.analysis.ranks.rank_files import own_bands
from perfmagic.analysis.ranks.rank_summary import RankSummary, host_as_device, rank_summary
from perfmagic.analysis.ranks.waits import JobWaits, MatchedMessages, Matching
from perfmagic.analysis.timeline.collectives import bus_factor
from perfmagic.base.language import counted, phrase
from perfmagic.base.numerics.intervals import Intervals, total_ns
from perfmagic.base.units import plural
from perfmagic.trace.columns import NONE
from perfmagic.trace.formats.chrome import Arrow
from perfmagic.trace.model import Trace, TraceMeta
from perfmagic.trace.rows import Rows

NOTABLE_FRAC = 0.02  # of the median cell, of files of the extent, as of an exposed copy


@dataclass(frozen=True, eq=False)
class Ranks:
    """The ranks of one job: their facts, their collectives beside each other, and one time axis.

    traces: by rank; see perfmagic.analysis.ranks.rank_summary for ranks on a CPU.  comm_names: as in
    perfmagic.trace.names.op_classes.  pings: between ranks whose clocks were compared.  given: summaries by rank, where
    their traces are elsewhere.  of_files: findings about the files, which come before all others.
    """

    traces: Mapping[int, Trace]
    comm_names: str | None = None
    pings: tuple[Ping, ...] = ()
    given: Mapping[int, RankSummary] = field(default_factory=dict)
    of_files: tuple[RankFinding, ...] = ()

    def __repr__(self) -> str:
        """The number of ranks and of what is matched, how their clocks were aligned, and one row per rank."""
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
        return any(summary.sample for summary in self.summaries.values())

    @cached_property
    def _matched(self) -> Matching:
        return Matching((), ()) if self._of_samples else matched_collectives(self.summaries)

    @cached_property
    def message_pairs(self) -> tuple[MatchedMessages, ...]:
        """The messages of each pair of ranks."""
        return () if self._of_samples else matched_messages(self.summaries)

    @cached_property
    def alignment(self) -> Alignment:
        return aligned(self.summaries, self._matched, self.message_pairs, self.pings)

    @cached_property
    def matching(self) -> Matching:
        """The matched collectives; their waits by the clocks where these are known."""
        clocks = self.alignment
        return self._matched.on_axis(clocks.to_axis, clocks.bound_ns if clocks.comparable else None)

    @cached_property
    def parts(self) -> Mapping[int, Sequence[Parts]]:
        """By rank its matched communication, as waiting and transfer."""
        # without known clocks nothing says for whom a message waited
        messages = self.message_pairs if self.alignment.comparable else ()
        return parts_of(self.matching, messages, self.alignment.to_axis)

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
        return meetings(self.matching, self.alignment.to_axis)

    @cached_property
    def messages(self) -> Rows[Message]:
        """A row for each matched message, by when both of its ends had come."""
        return messages_of(self.message_pairs, self.alignment.to_axis, self.alignment.bound_ns)

    @cached_property
    def collectives(self) -> Rows[CollectiveOfRanks]:
        """A row for each kind and size of matched collectives, and for the messages of each pair of ranks."""
        pairs = self.message_pairs if self.alignment.comparable else ()
        to_axis, one_host = self.alignment.to_axis, self.on_one_host
        return collectives_of_ranks(self.summaries, self.matching, pairs, to_axis, one_host=one_host)

    @property
    def idle(self) -> bool:
        """Whether no rank had a device, or its CPU, execute anything."""
        return not any(summary.n_ops for summary in self.summaries.values())

    def began_ns(self, rank: int) -> int:
        """When a rank began with what is judged, by its own clock: see perfmagic.analysis.ranks.rank_summary.Start."""
        return self.summaries[rank].began_ns

    def began_on_axis_ns(self, rank: int) -> int:
        """The same on the common axis."""
        return self.alignment.offset_ns[rank] + self.began_ns(rank)

    @cached_property
    def table(self) -> Rows[RankStat]:
        """One row per rank."""
        return Rows((self._row(rank) for rank in self.ranks), RankStat)

    def _row(self, rank: int) -> RankStat:
        totals, comm = self.summaries[rank].totals, self.communication[rank]
        groups = [(group, group.ranks.index(rank)) for group in self.matching.groups if rank in group.ranks]
        return RankStat(
            rank=rank,
            device=totals.device,
            offset_ns=self.alignment.offset_ns[rank],
            began_after_ns=self.began_on_axis_ns(rank) - min(map(self.began_on_axis_ns, self.ranks)),
            extent_ns=totals.extent_ns,
            busy_ns=totals.busy_ns,
            compute_ns=totals.compute_ns,
            communication_ns=totals.communication_ns,
            copy_ns=totals.copy_ns,
            idle_ns=totals.idle_ns,
            exposed_communication_ns=totals.exposed_communication_ns,
            exposed_waiting_ns=comm.exposed_waiting_ns,
            exposed_transfer_ns=comm.exposed_transfer_ns,
            exposed_unmatched_ns=comm.exposed_unmatched_ns,
            waiting_ns=total_ns(comm.waiting),
            transfer_ns=total_ns(comm.transfer),
            waiting_bound_ns=sum(int(group.waits.errs_ns.sum()) for group, _ in groups) + self._bound_of_messages(rank),
            n_matched=sum(len(group.kinds) for group, _ in groups),
            n_last=sum(int(((group.waits.last == i) & group.waits.decided).sum()) for group, i in groups),
            bus_bytes_per_s=self._bandwidth(rank),
        )

    def _bound_of_messages(self, rank: int) -> int:
        """How far clocks may be wrong in the waits of a rank's messages, added up."""
        if not self.alignment.comparable or not self.alignment.bound_ns:
            return 0
        ends = (len(pair) for pair in self.message_pairs for end in (pair.source, pair.target) if end == rank)
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
            columns = (sizes[group.places[i]].tolist(), group.kinds, group.waits.transfer_ns.tolist())
            for size, kind, ns in zip(*columns, strict=True):
                factor = factors[kind]
                if factor is not None and size != NONE:
                    moved += size * factor
                    took_ns += ns
        return moved / took_ns * 1e9 if took_ns else None

    @cached_property
    def waits(self) -> JobWaits:
        """How long the ranks waited for each other."""
        transfer = {rank: of_rank.transfer for rank, of_rank in self.communication.items()}
        return JobWaits(self.matching.groups, self.summaries, transfer)

    # what findings measure by

    @cached_property
    def judged_ns(self) -> int:
        """From when the last rank had begun with what is judged to the last record of any."""
        ends = (self.alignment.offset_ns[rank] + summary.last_ns for rank, summary in self.summaries.items())
        return max(ends) - max(map(self.began_on_axis_ns, self.ranks))

    @cached_property
    def extent_ns(self) -> int:
        """The extent of the median rank."""
        return int(np.median([summary.totals.extent_ns for summary in self.summaries.values()]))

    @cached_property
    def computes(self) -> bool:
        """Whether a rank computes at all: where links alone are at work, nothing could overlap with them."""
        return any(row.compute_ns >= self.notable_ns for row in self.table)

    @property
    def notable_ns(self) -> float:
        """Shorter times are not worth a finding."""
        return NOTABLE_FRAC * float(np.median([summary.totals.window_ns for summary in self.summaries.values()]))

    @property
    def n_collectives(self) -> str:
        return counted(self.matching.n, "{n} matched collective", "{n} matched collectives")

    def others(self, i: int) -> str:
        """All ranks but one, by its place, in few words: of two ranks the other one."""
        return phrase("the others") if len(self.ranks) > 2 else phrase("rank {rank}", rank=self.ranks[1 - i])

    @property
    def on_one_host(self) -> bool:
        """Whether one host ran all ranks: they say so, or processes with consecutive numbers read one clock."""
        clocks = self.alignment
        if clocks.how == "one host":
            return True
        residual_ns = clocks.residual_ns
        one_clock = not clocks.moved_ns and residual_ns is not None and residual_ns[1] <= SHARED_CLOCK_NS
        # the first thread of a process has its number; a launcher's processes have one after the other
        first = sorted(summary.first_thread for summary in self.summaries.values())
        return one_clock and first[0] > 0 and first == list(range(first[0], first[0] + len(first)))

    @property
    def where_to_look(self) -> str:
        """Where to look for what takes time from the Python of one rank only."""
        if self.alignment.how == "virtual":
            return phrase("how many operators it calls")
        one = phrase("what else runs on its cores or NUMA node")
        return one if self.on_one_host else phrase("what else runs on its host")


def ranks_of(
    traces: Sequence[Trace],
    comm_names: str | None = None,
    pings: Sequence[Ping] = (),
    of_files: Sequence[RankFinding] = (),
) -> Ranks | None:
    """The ranks that some traces of one job are; None where fewer than two have anything to compare, or no rank.

    pings: between ranks whose clocks were compared while they ran, beside those that their records hold.
    of_files: findings about the files.
    """
    known: dict[int, Trace] = {}
    for trace in map(host_as_device, traces):
        if len(trace.ops) and trace.meta.rank is not None:
            known[trace.meta.rank] = trace
    if len(known) < 2:
        return None
    metas = [trace.meta for trace in known.values()]
    absent = missing(known, metas[0].world_size)
    return Ranks(known, comm_names, (*_held(metas), *pings), of_files=(*of_files, *absent))


def ranks_given(given: Mapping[int, RankSummary], comm_names: str | None, of_files: Sequence[RankFinding]) -> Ranks:
    """The same of ranks whose traces are elsewhere.  given: their summaries, by rank."""
    metas = [summary.meta for summary in given.values()]
    absent = missing(given, metas[0].world_size)
    return Ranks({}, comm_names, _held(metas), given=given, of_files=(*of_files, *absent))


def _held(metas: Iterable[TraceMeta]) -> tuple[Ping, ...]:
    """The pings that records hold."""
    return tuple(Ping(*ping) for meta in metas for ping in meta.pings)


def arrows(ranks: Ranks) -> Iterator[Arrow]:
    """From each send to its receive, and from the rank that came last to a collective to each that waited for it."""
    rows = {rank: summary.comm["row"] for rank, summary in ranks.summaries.items()}
    for pair in ranks.message_pairs:
        both = (rows[pair.source][pair.sent_places], rows[pair.target][pair.got_places])
        for sent, got in zip(*(column.tolist() for column in both), strict=True):
            yield Arrow((pair.source, sent), (pair.target, got), "message")
    for group in ranks.matching.groups:
        by_rank = [rows[rank][places] for rank, places in zip(group.ranks, group.places, strict=True)]
        waited = group.waits.known
        for i, last in enumerate(group.waits.last.tolist()):
            source = (group.ranks[last], int(by_rank[last][i]))
            for j, rank in enumerate(group.ranks):
                if waited[j, i]:
                    yield Arrow(source, (rank, int(by_rank[j][i])), group.kinds[i])
