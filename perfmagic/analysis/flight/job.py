"""The calls that several ranks recorded, by group and number: which are open, who is in them, and who never came."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property

from perfmagic.trace.formats.flight import Call, Dump, Group

DEFAULT = "default_pg"  # what torch calls the group of init_process_group()
SENDS = ("send", "isend")


@dataclass(frozen=True)
class Operation:
    """One collective, or the two ends of a message.

    calls: of the ranks that came to it.  absent: ranks of which no call is recorded, though they take part.
    """

    group: Group
    number: int
    calls: Mapping[int, Call]
    absent: tuple[int, ...]

    @property
    def open(self) -> tuple[int, ...]:
        """The ranks whose call has not ended."""
        return tuple(sorted(rank for rank, call in self.calls.items() if not call.ended))

    @property
    def is_message(self) -> bool:
        return next(iter(self.calls.values())).peer is not None


@dataclass(frozen=True)
class Job:
    """The dumps of one job, by rank."""

    dumps: Mapping[int, Dump]
    _members: dict[Group, tuple[int, ...]] = field(default_factory=dict, repr=False)

    @cached_property
    def world(self) -> tuple[int, ...]:
        """All ranks that a dump or a group names."""
        named = (rank for dump in self.dumps.values() for group in dump.groups for rank in group.ranks)
        return tuple(sorted({*self.dumps, *named}))

    @property
    def missing(self) -> tuple[int, ...]:
        """The ranks that left no dump."""
        return tuple(rank for rank in self.world if rank not in self.dumps)

    def members(self, group: Group) -> tuple[int, ...]:
        """The ranks of a group; where dumps do not say, those that used it, and all of the default group."""
        if group.ranks:
            return group.ranks
        if group not in self._members:
            users = {rank for calls in self.by_number.get(group, {}).values() for rank in calls}
            self._members[group] = self.world if group.desc == DEFAULT else tuple(sorted(users))
        return self._members[group]

    @cached_property
    def by_number(self) -> dict[Group, dict[int, dict[int, Call]]]:
        """The collectives of each group by their number, then by rank."""
        found: dict[Group, dict[int, dict[int, Call]]] = {}
        for rank, dump in self.dumps.items():
            known: dict[int, dict[int, dict[int, Call]]] = {}  # to compare groups of a thousand ranks takes long
            for call in dump.calls:
                if call.peer is None:
                    if id(call.group) not in known:
                        known[id(call.group)] = found.setdefault(call.group, {})
                    known[id(call.group)].setdefault(call.number, {})[rank] = call
        return found

    @cached_property
    def collectives(self) -> list[Operation]:
        """The first collective of each group that has not ended on all of its ranks.

        One to which all came, and that ended somewhere, may only be late to be noted: the next with an absent rank is
        taken then.
        """
        return [head for group in self.by_number if (head := self._head(group)) is not None]

    @cached_property
    def waiting(self) -> frozenset[int]:
        """The ranks with a call that has not ended."""
        return frozenset(rank for operation in (*self.collectives, *self.messages) for rank in operation.open)

    def _head(self, group: Group) -> Operation | None:
        numbers = self.by_number[group]
        last = {rank: number for number in sorted(numbers) for rank in numbers[number]}
        first = None
        for number in sorted(numbers):
            calls = numbers[number]
            n_open = sum(not call.ended for call in calls.values())
            if not n_open:
                continue
            absent = [rank for rank in self.members(group) if rank not in calls and last.get(rank, -1) < number]
            if first is None or absent:
                first = Operation(group, number, calls, tuple(absent))
            if absent or (number == first.number and n_open == len(calls)):
                break
        return first

    @cached_property
    def messages(self) -> list[Operation]:
        """The first message of each pair of ranks of which an end is open or absent, with both ends.

        Ends are matched in their order; where a buffer forgot some, only the open ones.
        """
        whole = not any(dump.n_lost for dump in self.dumps.values())
        ends: dict[tuple[Group, int, int], tuple[list[Call], list[Call]]] = {}
        for rank, dump in self.dumps.items():
            for call in dump.calls:
                if call.peer is not None and (whole or not call.ended):
                    peer, sends = self.peer(call), call.name in SENDS
                    key = (call.group, rank, peer) if sends else (call.group, peer, rank)
                    ends.setdefault(key, ([], []))[not sends].append(call)
        return [message for key, both in ends.items() if (message := _first_open(*key, *both)) is not None]

    def peer(self, call: Call) -> int:
        """The rank at the other end of a message."""
        members = self.members(call.group)
        return members[call.peer] if call.peer is not None and call.peer < len(members) else call.peer or 0

    def last_common(self) -> Operation | None:
        """The collective that ended on all ranks of its group and was asked for last."""
        common = [
            Operation(group, number, calls, ())
            for group, numbers in self.by_number.items()
            for number, calls in numbers.items()
            if len(calls) == len(self.members(group)) and all(call.ended for call in calls.values())
        ]
        return max(common, key=lambda op: min(call.created_ns for call in op.calls.values()), default=None)


def _first_open(
    group: Group, sender: int, receiver: int, sends: Sequence[Call], receives: Sequence[Call]
) -> Operation | None:
    """The first message from one rank to another of which an end has not ended."""
    both = {sender: sends, receiver: receives}
    for at in range(max(len(sends), len(receives))):
        calls = {rank: of_rank[at] for rank, of_rank in both.items() if len(of_rank) > at}
        if not all(call.ended for call in calls.values()):
            first = next(iter(calls.values()))
            return Operation(group, first.number, calls, tuple(rank for rank in both if rank not in calls))
    return None
