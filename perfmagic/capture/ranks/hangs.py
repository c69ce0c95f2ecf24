"""Which ranks can never go on, and why: absent partners, mismatched operations, circular waits.

Nothing is timed here. A rank may still continue where it computes, where one of its threads does, or where its device
is busy. It may, too, where all ranks that an operation needs are in it or may still continue. The others cannot.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, replace
from typing import Any

from perfmagic.base.rank_words import describe_group, describe_ranks, nth

SENDS, RECEIVES = ("send", "isend"), ("recv", "irecv")
MEETING = "init_process_group"  # a rank that is missing here may be started again
_ABSENT_SHOWN = 4


@dataclass(frozen=True)
class Place:
    """One rank at one instant.

    line: of the cell, 0 outside of it.  call: the operation that it waits in ("all_reduce"), "" where it computes.
    asked_line: where that operation was called, where that is another line; 0 if unknown.
    group, ranks: of the operation; ranks empty where only the call is known.  group_desc: what its maker calls it.
    number: of the operations of that group, None where unknown.  peer: of a message.  size_bytes: what is moved.
    on_device: the simulated device runs it.
    waited: the host waits in this very operation, and not in a call that may need any of those under way.
    under_way: the first operation of each queue, also those that the rank does not wait for.
    device_busy: its device has work queued, or executes it.
    thread: one of its threads beside the main one that may act, "" where there is none.
    mark: changes whenever the rank gets on: equal marks are one wait.
    key_wait: the call of a store that blocks until a key is set, as "store.get('ready')"; call is "" there.
    """

    line: int = 0
    call: str = ""
    asked_line: int = 0
    group: str = ""
    ranks: tuple[int, ...] = ()
    number: int | None = None
    peer: int | None = None
    size_bytes: int | None = None
    on_device: bool = False
    device_busy: bool = False
    mark: int = 0
    group_desc: str = ""
    waited: bool = False
    under_way: tuple[Place, ...] = ()
    thread: str = ""
    key_wait: str = ""

    @classmethod
    def from_message(cls, message: dict[str, Any]) -> Place:
        """The place that a rank has reported."""
        under_way = tuple(cls.from_message(op) for op in message.get("under_way", ()))
        return cls(**message | {"ranks": tuple(message.get("ranks", ())), "under_way": under_way})

    @property
    def is_message(self) -> bool:
        """Whether the operation is one end of a message, and no collective."""
        return self.call in SENDS + RECEIVES

    @property
    def description(self) -> str:
        """`waits in all_reduce on line 3, the 2nd collective of the default group`, `computes on line 2`."""
        if not self.thread:
            return self._main_thread
        if not self.call and not self.line:
            return f"runs its thread {self.thread}"
        return f"{self._main_thread}, and its thread {self.thread} runs"

    @property
    def _main_thread(self) -> str:
        line = f" on line {self.line}" if self.line else ""
        if not self.call:
            return f"waits in {self.key_wait}{line}" if self.key_wait else f"computes{line}"
        peer = "" if self.peer is None else f" {'from' if self.call in RECEIVES else 'to'} rank {self.peer}"
        asked = f" (called on line {self.asked_line})" if self.asked_line not in (0, self.line) else ""
        return f"waits in {self.call}{peer}{line}{asked}{self._of_group}"

    @property
    def _of_group(self) -> str:
        if not self.group:
            return ""
        group = describe_group(self.group, self.group_desc, self.ranks)
        if self.is_message or self.number is None:
            return f", in {group}"
        return f", the {nth(self.number)} collective of {group}"


NOWHERE = Place()


def find_hang(places: Mapping[int, Place], ended: Collection[int], world: int) -> tuple[list[int], str]:
    """The ranks that cannot go on, and a sentence that says why; ([], "") where all may go on.

    places: of every rank that runs the cell, also of those whose cell has ended.  ended: those.  world: how many ranks
    there are; the rest does not run this cell.
    """
    waiting = {rank: place for rank, place in places.items() if rank not in ended and place.call}
    if not waiting:
        return [], ""
    moving = {
        rank
        for rank, place in places.items()
        if place.thread or place.call == MEETING or (rank not in waiting and (rank not in ended or place.device_busy))
    }
    while True:
        more = {r for r in waiting if r not in moving and _may_go_on(r, places, moving, world)}
        if not more:
            break
        moving |= more
    stuck = [rank for rank in sorted(waiting) if rank not in moving]
    return (stuck, _reason(stuck, places, ended, world)) if stuck else ([], "")


def waited_for(places: Mapping[int, Place], ended: Collection[int], world: int) -> str:
    """A sentence: which ranks wait for ranks that compute, and where those are; "" where none waits."""
    computing = {rank for rank, place in places.items() if place.thread or (rank not in ended and not place.call)}
    where: dict[int, str] = {}
    for rank, place in sorted(places.items()):
        needing = [op for op in _awaited(place) if _needed(rank, op, world) & computing]
        if needing and rank not in ended and place.call != MEETING:
            where[rank] = replace(needing[0], line=place.line).description
    slow = computing & set().union(*(_needed(rank, op, world) for rank in where for op in _awaited(places[rank])))
    where |= {rank: places[rank].description for rank in slow}
    return ", ".join(f"rank {rank} {description}" for rank, description in where.items())


def open_waits(places: Mapping[int, Place], ended: Collection[int], missing: Collection[int]) -> dict[str, int]:
    """The waits that only torch's own time-out ends: a sentence for each, and a mark that tells it from later ones.

    places: of the ranks that answer.  ended: ranks whose cell has ended.  missing: ranks that have not joined yet.
    """
    waits = {
        f"rank {rank} {place.description}, and no rank has set it": place.mark
        for rank, place in sorted(places.items())
        if place.key_wait and rank not in ended
    }
    arrived = [rank for rank, place in sorted(places.items()) if place.call == MEETING and rank not in ended]
    others = sorted((places.keys() | set(ended) | set(missing)) - set(arrived))
    if arrived and others:
        alone, n_ranks = len(arrived) == 1, len(arrived) + len(others)
        line = f" on line {places[arrived[0]].line}" if places[arrived[0]].line else ""
        who = f"{describe_ranks(arrived)} {'waits' if alone else 'wait'} in {MEETING}{line}"
        shown = [f"rank {rank} {_absence(rank, places, ended, missing)}" for rank in others[:_ABSENT_SHOWN]]
        where = ", ".join(shown) + (f" and {len(others) - len(shown)} more" if len(others) > len(shown) else "")
        waits[f"{who}: {len(arrived)} of {n_ranks} ranks {'has' if alone else 'have'} arrived, {where}"] = 0
    return waits


def _absence(rank: int, places: Mapping[int, Place], ended: Collection[int], missing: Collection[int]) -> str:
    if rank in ended:
        return "has finished the cell"
    return "has not joined" if rank in missing else places[rank].description


def _awaited(place: Place) -> tuple[Place, ...]:
    """The operations any of which a rank may wait for; none where it computes."""
    if not place.call:
        return ()
    return (place,) if place.waited or not place.under_way else place.under_way


def _may_go_on(rank: int, places: Mapping[int, Place], moving: Collection[int], world: int) -> bool:
    """Whether an operation that a rank waits for may come about."""
    for op in _awaited(places[rank]):
        needed = _needed(rank, op, world)
        there = {r for r in needed if _is_in(rank, op, r, places.get(r))}
        comes = needed & set(moving)
        if op.is_message:  # maybe from any rank
            possible = bool(there or comes)
        else:  # without its ranks, all of the job's, some of which it may not need
            possible = needed <= there or bool(comes and (not op.ranks or needed <= there | comes))
        if possible:
            return True
    return False


def _needed(rank: int, place: Place, world: int) -> set[int]:
    if place.peer is not None:
        return {place.peer}
    return set(place.ranks or range(world)) - {rank}


def _is_in(rank: int, place: Place, other: int, there: Place | None) -> bool:
    """Whether another rank takes part in an operation, even if it waits for something else."""
    if there is None:
        return False
    operations = there.under_way or ((there,) if there.call else ())
    if place.is_message:
        return any(_is_other_end(rank, place, other, op) for op in operations)
    return any(_same(place, op) for op in operations)


def _same(op: Place, other: Place) -> bool:
    return _have_same_number(op, other) and _operation(op) == _operation(other)


def _operation(place: Place) -> tuple[str, int | None, bool]:
    return place.call, place.size_bytes, place.on_device


def _have_same_number(op: Place, other: Place) -> bool:
    return not other.is_message and (op.group, op.number) == (other.group, other.number)


def _is_other_end(rank: int, place: Place, other: int, there: Place) -> bool:
    if (place.call in SENDS) == (there.call in SENDS) or not there.is_message:
        return False
    return place.peer in (None, other) and there.peer in (None, rank)


def _reason(stuck: list[int], places: Mapping[int, Place], ended: Collection[int], world: int) -> str:
    waiting = {rank: places[rank] for rank in stuck}
    for rank in stuck:
        here = [r for r in stuck if not waiting[rank].is_message and _have_same_number(waiting[rank], waiting[r])]
        if any(not _same(waiting[rank], waiting[r]) for r in here):
            return _mismatch({r: waiting[r] for r in here})
    where = ", ".join(f"rank {rank} {waiting[rank].description}" for rank in stuck)
    needed = set().union(*(_needed(rank, waiting[rank], world) for rank in stuck))
    gone = sorted(needed & set(ended))
    if gone:
        return (
            f"{where}; {describe_ranks(gone)} {'has' if len(gone) == 1 else 'have'} finished the cell and will not join"
        )
    away = sorted(needed - places.keys())
    if away:
        verb = "does" if len(away) == 1 else "do"
        return f"{where}; {describe_ranks(away)} {verb} not run this cell and will not join"
    groups = {waiting[rank].group for rank in stuck}
    order = "; all ranks have to use their groups in the same order" if len(groups) > 1 else ""
    return f"{where}; each waits for another, and none can continue{order}"


def _mismatch(places: Mapping[int, Place]) -> str:
    sizes = len({(place.call, place.on_device) for place in places.values()}) == 1
    sides = len({place.on_device for place in places.values()}) > 1
    groups: dict[str, list[int]] = {}
    for rank, place in places.items():
        size = f" of {place.size_bytes} bytes" if sizes else ""
        if sides:
            size = " on the simulated device" if place.on_device else " on the CPU"
        groups.setdefault(f"in {place.call}{size} (line {place.asked_line or place.line})", []).append(rank)
    who = (f"{describe_ranks(ranks)} {'is' if len(ranks) == 1 else 'are'} {what}" for what, ranks in groups.items())
    number = next(iter(places.values())).number
    return f"collectives do not match: {', '.join(who)}" + (
        "" if number is None else f", each its {nth(number)} collective"
    )
