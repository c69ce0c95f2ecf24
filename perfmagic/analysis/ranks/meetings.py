"""Where ranks meet: each collective on all its ranks, each message on both ends, with who came last and who waited."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from perfmagic.analysis.ranks.matching import Matching
from perfmagic.analysis.ranks.messages import Passed
from perfmagic.analysis.rows import Rows
from perfmagic.trace.columns import Int64


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


def meetings(matching: Matching, offset_ns: Mapping[int, int]) -> Rows[Meeting]:
    """Every matched collective in the order in which their last ranks came.  offset_ns: by rank, to the common axis."""
    found: list[Meeting] = []
    for group in matching.groups:
        by = np.array([offset_ns[rank] for rank in group.ranks], np.int64)[:, None]
        columns = (group.start_ns + by, group.end_ns + by, group.waiting_ns, group.duration_ns - group.waiting_ns)
        start, end, waiting, transfer = (column.T.tolist() for column in columns)
        last, decided, errs = (column.tolist() for column in (group.last, group.decided, group.errs_ns))
        for i, kind in enumerate(group.kinds):
            found.append(
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
    return Rows(sorted(found, key=lambda one: one.met_ns), Meeting)


def messages_of(pairs: Sequence[Passed], offset_ns: Mapping[int, int], bound_ns: int | None) -> Rows[Message]:
    """Every matched message in the order in which both ends had come.  offset_ns: by rank, to the common axis."""
    found = []
    for pair in pairs:
        sent, sent_end, asked, arrived, met = (column.tolist() for column in _on_axis(pair, offset_ns))
        found += [
            Message(
                source=pair.source,
                target=pair.target,
                number=i,
                met_ns=met[i],
                sent_ns=sent[i],
                sent_end_ns=sent_end[i],
                asked_ns=asked[i],
                arrived_ns=arrived[i],
                sender_waited_ns=min(met[i], sent_end[i]) - sent[i],
                receiver_waited_ns=min(met[i], arrived[i]) - asked[i],
                bound_ns=bound_ns,
            )
            for i in range(len(pair))
        ]
    return Rows(sorted(found, key=lambda one: one.met_ns), Message)


def parts_of(matching: Matching, pairs: Sequence[Passed], offset_ns: Mapping[int, int]) -> dict[int, list[Parts]]:
    """By rank its matched communication, split where the last rank had come.

    pairs: messages; their clocks are compared, by offset_ns.
    """
    found: dict[int, list[Parts]] = defaultdict(list)
    for group in matching.groups:
        middle = group.start_ns + group.waiting_ns
        for i, rank in enumerate(group.ranks):
            found[rank].append(Parts(group.places[i], group.start_ns[i], middle[i], group.end_ns[i]))
    for pair in pairs:
        *_, met = _on_axis(pair, offset_ns)
        ends = (
            (pair.source, pair.sent_places, pair.sent_ns, pair.sent_end_ns, False),
            (pair.target, pair.got_places, pair.asked_ns, pair.arrived_ns, True),
        )
        for rank, places, start, end, receives in ends:
            found[rank].append(Parts(places, start, np.clip(met - offset_ns[rank], start, end), end, receives))
    return found


def _on_axis(pair: Passed, offset_ns: Mapping[int, int]) -> tuple[Int64, Int64, Int64, Int64, Int64]:
    """The start and end of sends and of receives, and when both had come."""
    source, target = offset_ns[pair.source], offset_ns[pair.target]
    sent, asked = pair.sent_ns + source, pair.asked_ns + target
    return sent, pair.sent_end_ns + source, asked, pair.arrived_ns + target, np.maximum(sent, asked)
