"""Who waited for whom: from when ranks came to a collective or message, and left it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np

from perfmagic.trace.columns import Bool, Int64

ToAxis = Callable[[int, Int64], Int64]  # (rank, instants of its clock): what to add to each for the common axis


@dataclass(frozen=True, eq=False)
class Waits:
    """Who waited for whom in several collectives, or messages, of the same ranks; times in ns.

    ahead_ns: how long before the last rank each one came, waiting_ns: how long it waited inside; shape (r, n).
    last: place of the rank that came last, errs_ns: the error of waits, decided: whether one rank came last by more
    than that, transfer_ns: how long each takes once all ranks are there, as no rank was inside for less; shape (n,).
    """

    ahead_ns: Int64
    waiting_ns: Int64
    last: Int64
    errs_ns: Int64
    decided: Bool
    transfer_ns: Int64

    @property
    def known(self) -> Bool:
        """Which waits are longer than their error, for a rank that came last for certain; shape (r, n)."""
        return np.asarray((self.waiting_ns > self.errs_ns) & self.decided)

    @property
    def median_ahead_ns(self) -> Int64:
        """How long before the last rank the median one came; shape (n,)."""
        return np.asarray(-np.median(-self.ahead_ns, axis=0).astype(np.int64))

    def ahead_without_ns(self, ranks: Bool) -> Int64:
        """How long before the last of all ranks the last of the others came; shape (n,).  ranks: shape (r,)."""
        return np.asarray(self.ahead_ns[~ranks].min(axis=0))


def who_waited(start_ns: Int64, end_ns: Int64, offset_ns: Int64 | None = None, bound_ns: int | None = None) -> Waits:
    """Who waited for whom, of two ranks or more.

    start_ns, end_ns: when each rank came and left, by its own clock; shape (r, n).  offset_ns: what puts each rank's
    times on a common axis, shape (r,) or, where clocks drift, (r, n); None before that is known.  bound_ns: the largest
    distance of two clocks on that axis; None where the axis rests on the collectives themselves. With it a rank waits
    until the last one comes. Without it all ranks leave together, so that the one that was inside for the shortest time
    came last; no clocks are compared, and the error is the distance of the ranks' ends on the axis.
    """
    duration_ns = end_ns - start_ns
    axis_ns = np.zeros((len(start_ns), 1), np.int64) if offset_ns is None else offset_ns.reshape(len(start_ns), -1)
    came_ns = -duration_ns if bound_ns is None else start_ns + axis_ns
    ahead_ns = came_ns.max(axis=0) - came_ns
    if bound_ns is not None or offset_ns is None:
        errs_ns = np.full(start_ns.shape[1], bound_ns or 0, np.int64)
    else:
        errs_ns = np.ptp(end_ns + axis_ns, axis=0)
    waiting_ns = np.minimum(ahead_ns, duration_ns)
    return Waits(
        ahead_ns=ahead_ns,
        waiting_ns=waiting_ns,
        last=came_ns.argmax(axis=0),
        errs_ns=errs_ns,
        decided=np.asarray(np.partition(ahead_ns, 1, axis=0)[1] > errs_ns),
        transfer_ns=(duration_ns - waiting_ns).min(axis=0),
    )


@dataclass(frozen=True, eq=False)
class MatchedGroup:
    """The collectives of one group that all its ranks recorded.

    name: for people.  ranks: rising, shape (r,).  kinds: of each collective, n of them.  places: in the communication
    of each rank, start_ns, end_ns: of those, by each rank's own clock; shape (r, n). A rank that arrives early waits
    inside.  offset_ns, bound_ns: as in who_waited.
    """

    name: str
    ranks: tuple[int, ...]
    kinds: tuple[str, ...]
    places: Int64
    start_ns: Int64
    end_ns: Int64
    offset_ns: Int64 | None = None
    bound_ns: int | None = None

    @property
    def duration_ns(self) -> Int64:
        return self.end_ns - self.start_ns

    @cached_property
    def waits(self) -> Waits:
        """Who waited for whom in each collective."""
        return who_waited(self.start_ns, self.end_ns, self.offset_ns, self.bound_ns)


@dataclass(frozen=True, eq=False)
class Matching:
    """The groups that match, and why others do not, a sentence each."""

    groups: tuple[MatchedGroup, ...]
    refused: tuple[str, ...]

    @property
    def n(self) -> int:
        return sum(len(group.kinds) for group in self.groups)

    def on_axis(self, to_axis: ToAxis, bound_ns: int | None) -> Matching:
        """The groups on a common axis.  bound_ns: of clocks known without the collectives."""
        groups = []
        for group in self.groups:
            by = [to_axis(rank, start_ns) for rank, start_ns in zip(group.ranks, group.start_ns, strict=True)]
            groups.append(replace(group, offset_ns=np.array(by, np.int64), bound_ns=bound_ns))
        return Matching(tuple(groups), self.refused)


@dataclass(frozen=True, eq=False)
class MatchedMessages:
    """The messages from one rank to another, in order; columns of shape (n,).

    sent_places, got_places: in the communication of source and target.  sent_ns, sent_end_ns: of the sends, by the
    source's own clock.  asked_ns, arrived_ns: of the receives, by the target's.
    """

    source: int
    target: int
    sent_places: Int64
    got_places: Int64
    sent_ns: Int64
    sent_end_ns: Int64
    asked_ns: Int64
    arrived_ns: Int64

    def __len__(self) -> int:
        return len(self.sent_ns)

    def waits(self, to_axis: ToAxis) -> Waits:
        """Who waited for whom in each message; the sender is the first rank."""
        by = np.stack([to_axis(self.source, self.sent_ns), to_axis(self.target, self.asked_ns)])
        starts, ends = (self.sent_ns, self.asked_ns), (self.sent_end_ns, self.arrived_ns)
        return who_waited(np.stack(starts), np.stack(ends), by, bound_ns=0)
