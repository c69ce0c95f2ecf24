"""One time axis for several ranks: by how much each rank's clock is off, and how well that is known."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from perfmagic import units
from perfmagic.analysis.ranks.matching import MatchedGroup, Matching
from perfmagic.trace.columns import Int64
from perfmagic.trace.model import Trace

# Ends of one collective on the ranks of one host differ by microseconds (6 µs on eight V100); clocks of two hosts under
# NTP by milliseconds. What is not larger is no clock's error.
SHARED_CLOCK_NS = 50_000
_FAR = 10  # times the longest record
# A rank may leave these before the others have what they need; all others end on all ranks together.
_ENDS_APART = re.compile(
    r"broadcast|(?<!all)(?<!all_)reduce(?!_?scatter)|(?<!reduce)(?<!reduce_)scatter|(?<!all)(?<!all_)gather"
)


@dataclass(frozen=True)
class Alignment:
    """Where each rank's instant 0 lies on a common axis.

    offset_ns: by rank, to be added to its trace's times; the earliest record of all lies at 0.
    moved_ns: by rank, what was added to its own clock for that; empty where the clocks agree.
    residual_ns: how far apart the ends of one collective still are, the median and the largest; None where there were
    none to compare.  unknown: ranks that share no collective with the others: their clocks are as recorded.
    begin_together: nothing tells how the clocks fit together, and as recorded they are far apart: each begins at 0.
    """

    offset_ns: Mapping[int, int]
    moved_ns: Mapping[int, int]
    residual_ns: tuple[int, int] | None
    unknown: tuple[int, ...]
    begin_together: bool = False

    @property
    def words(self) -> str:
        """The method and its residual, in a sentence."""
        if self.begin_together:
            return "the clocks have nothing in common: each rank begins at 0"
        if self.residual_ns is None:
            return "the clocks are as recorded: no collective is matched by which to compare them"
        median, most = (units.duration(ns) for ns in self.residual_ns)
        within = f"ends of collectives agree within {most} ({median} in the median)"
        lost = f"; no collective tells the clock of rank {', '.join(map(str, self.unknown))}" if self.unknown else ""
        if not self.moved_ns:
            return f"one clock, {within}{lost}"
        largest = max(abs(ns) for ns in self.moved_ns.values())
        moved = f"clocks moved by up to {units.duration(largest)}, as all ranks leave a collective together"
        return f"{moved}: {within}{lost}"


def aligned(traces: Mapping[int, Trace], matching: Matching) -> Alignment:
    """How the clocks of several ranks of one job fit together.

    All ranks leave a collective at one time, so the median difference of its ends on two ranks is that of their clocks.
    Clocks that agree as they are, as on one host, are not touched. Ranks without a common group are joined through
    others.
    """
    clock = {rank: trace.meta.base_unix_ns for rank, trace in traces.items()}
    groups = [_of_common_end(group) for group in matching.groups]
    groups = [group for group in groups if group.kinds]
    off = _clock_errors(sorted(traces), groups, clock)
    raw = _residuals(groups, clock)
    moved: dict[int, int] = {}
    if len(raw) and int(np.abs(raw).max()) > SHARED_CLOCK_NS:
        moved = {rank: -error for rank, error in off.items() if error}
    at = {rank: clock[rank] + moved.get(rank, 0) for rank in traces}
    apart = not len(raw) and _far_apart(traces)
    if apart:
        at = {rank: -_first_ns(trace) for rank, trace in traces.items()}
    left = _residuals(groups, at)
    first = min((at[rank] + _first_ns(trace) for rank, trace in traces.items()), default=0)
    return Alignment(
        offset_ns={rank: at[rank] - first for rank in traces},
        moved_ns=moved,
        residual_ns=(int(np.median(left)), int(left.max())) if len(left) else None,
        unknown=tuple(rank for rank in sorted(traces) if rank not in off),
        begin_together=apart,
    )


def _far_apart(traces: Mapping[int, Trace]) -> bool:
    """Whether the clocks as recorded would leave more gaps than records on one axis."""
    starts = [trace.meta.base_unix_ns + _first_ns(trace) for trace in traces.values()]
    longest = max(trace.meta.end_ns - trace.meta.start_ns for trace in traces.values())
    return max(starts) - min(starts) > _FAR * max(longest, 1)


def _first_ns(trace: Trace) -> int:
    return int(trace.ops.start_ns.min(initial=trace.meta.start_ns))


def _of_common_end(group: MatchedGroup) -> MatchedGroup:
    """The collectives of a group that all ranks leave together."""
    kept = np.array([_ENDS_APART.search(kind.lower()) is None for kind in group.kinds], bool)
    kinds = tuple(kind for kind, keep in zip(group.kinds, kept.tolist(), strict=True) if keep)
    parts = (group.rows[:, kept], group.start_ns[:, kept], group.end_ns[:, kept])
    return MatchedGroup(group.name, group.ranks, kinds, *parts)


def _clock_errors(ranks: list[int], groups: list[MatchedGroup], clock: Mapping[int, int]) -> dict[int, int]:
    """By how much each rank's clock is ahead of the first one's, through common groups; unknown ones are left out."""
    if not ranks or not groups:
        return {}
    known = {groups[0].ranks[0] if ranks[0] not in groups[0].ranks else ranks[0]: 0}
    for _ in ranks:
        for group in groups:
            anchor = next((rank for rank in group.ranks if rank in known), None)
            if anchor is None:
                continue
            ends = {rank: group.end_ns[i] + clock[rank] for i, rank in enumerate(group.ranks)}
            for rank in group.ranks:
                if rank not in known:
                    known[rank] = known[anchor] + int(np.median(ends[rank] - ends[anchor]))
    return known


def _residuals(groups: list[MatchedGroup], clock: Mapping[int, int]) -> Int64:
    """How far apart the ends of each collective are; shape (all collectives,)."""
    parts = [np.ptp(group.end_ns + np.array([[clock[rank]] for rank in group.ranks]), axis=0) for group in groups]
    return np.concatenate(parts) if parts else np.zeros(0, np.int64)
