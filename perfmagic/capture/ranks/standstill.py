"""Which ranks can never go on, and why: absent partners, operations that do not match, a circle of waits.

Nothing is timed here. A rank may still go on where it computes, where its device is busy, where all whom it needs are
in the same operation, or where somebody whom it needs may still go on. Whoever is left cannot.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping

from perfmagic.capture.rank_words import nth
from perfmagic.capture.ranks.place import RECEIVES, SENDS, Place, ranks_words


def standstill(places: Mapping[int, Place], ended: Collection[int], world: int) -> tuple[list[int], str]:
    """The ranks that cannot go on, and the reason in words; ([], "") where all may.

    places: of every rank that runs the cell, also of those whose cell has ended.  ended: those.  world: how many ranks
    there are; the rest does not run this cell.
    """
    waiting = {rank: place for rank, place in places.items() if rank not in ended and place.call}
    if not waiting:
        return [], ""
    moving = {rank for rank in places if rank not in waiting and (rank not in ended or places[rank].device_busy)}
    moving |= {rank for rank, place in waiting.items() if _met(rank, place, waiting, world)}
    while True:
        more = {r for r, place in waiting.items() if r not in moving and _needed(r, place, world) & moving}
        if not more:
            break
        moving |= more
    stuck = [rank for rank in sorted(waiting) if rank not in moving]
    return (stuck, _reason(stuck, waiting, ended, world)) if stuck else ([], "")


def _needed(rank: int, place: Place, world: int) -> set[int]:
    if place.peer is not None:
        return {place.peer}
    return set(place.ranks or range(world)) - {rank}


def _met(rank: int, place: Place, waiting: Mapping[int, Place], world: int) -> bool:
    """Whether all whom a rank needs are in the same operation."""
    if _is_message(place):
        return any(_other_end(rank, place, r, waiting[r]) for r in _needed(rank, place, world) & waiting.keys())
    needed = _needed(rank, place, world)
    return needed <= waiting.keys() and all(_same(place, waiting[r]) for r in needed)


def _same(one: Place, other: Place) -> bool:
    return _at_one_number(one, other) and _what(one) == _what(other)


def _what(place: Place) -> tuple[str, int | None, bool]:
    return place.call, place.size_bytes, place.on_device


def _at_one_number(one: Place, other: Place) -> bool:
    return not _is_message(other) and (one.group, one.number) == (other.group, other.number)


def _is_message(place: Place) -> bool:
    return place.call in SENDS + RECEIVES


def _other_end(rank: int, place: Place, other: int, there: Place) -> bool:
    if (place.call in SENDS) == (there.call in SENDS) or not _is_message(there):
        return False
    return place.peer in (None, other) and there.peer in (None, rank)


def _reason(stuck: list[int], waiting: Mapping[int, Place], ended: Collection[int], world: int) -> str:
    for rank in stuck:
        here = [r for r in stuck if not _is_message(waiting[rank]) and _at_one_number(waiting[rank], waiting[r])]
        if any(not _same(waiting[rank], waiting[r]) for r in here):
            return _mismatch({r: waiting[r] for r in here})
    where = ", ".join(f"rank {rank} {waiting[rank].words}" for rank in stuck)
    needed = set().union(*(_needed(rank, waiting[rank], world) for rank in stuck))
    gone = sorted(needed & set(ended))
    if gone:
        return f"{where}; {ranks_words(gone)} {'has' if len(gone) == 1 else 'have'} finished the cell and will not join"
    away = sorted(needed - waiting.keys())
    if away:
        verb = "does" if len(away) == 1 else "do"
        return f"{where}; {ranks_words(away)} {verb} not run this cell and will not join"
    return f"{where}; each waits for another, and none can go on"


def _mismatch(places: Mapping[int, Place]) -> str:
    sizes = len({(place.call, place.on_device) for place in places.values()}) == 1
    sides = len({place.on_device for place in places.values()}) > 1
    groups: dict[str, list[int]] = {}
    for rank, place in places.items():
        size = f" of {place.size_bytes} bytes" if sizes else ""
        if sides:
            size = " on the simulated device" if place.on_device else " on the CPU"
        groups.setdefault(f"in {place.call}{size} (line {place.asked_line or place.line})", []).append(rank)
    who = (f"{ranks_words(ranks)} {'is' if len(ranks) == 1 else 'are'} {what}" for what, ranks in groups.items())
    number = next(iter(places.values())).number
    return f"collectives do not match: {', '.join(who)}" + (
        "" if number is None else f", each its {nth(number)} collective"
    )
