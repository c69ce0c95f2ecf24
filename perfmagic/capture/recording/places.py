"""Who held the blocks that torch's profiler has told of: by where they lay, and when."""

from __future__ import annotations

from bisect import bisect_left
from collections import defaultdict
from collections.abc import Iterator
from typing import Any

import numpy as np

from perfmagic.capture.recording.holders import Holder, Holders, Place, joined
from perfmagic.trace.columns import HOST_DEVICE, NONE, BlockRole

_PIECE_BYTES = 512  # CUDA's caching allocator gives multiples of it
_FOREVER = np.iinfo(np.int64).max


def held_blocks(
    blocks: dict[str, Any], steps: Holders, names: Holders, offset_ns: int, start_ns: int
) -> tuple[dict[str, Any], list[Holder | None]]:
    """The blocks, with those of before that names and optimizers lead to, and who held each.

    offset_ns: from the clock of the places to that of the blocks.  start_ns: of the recording, by the blocks' clock.
    """
    of_steps, of_names = _by_address(steps), _by_address(names)
    rows = {name: list(column) for name, column in blocks.items()}
    found: list[Holder | None] = []
    seen: set[tuple[int, int]] = set()  # addresses of blocks that are there at the end
    for device, address, alloc_ns, free_ns, before in zip(
        *(rows[key] for key in ("device", "address", "alloc_ns", "free_ns", "before")), strict=True
    ):
        key = int(device), int(address)
        begin = 0 if before else int(alloc_ns) - offset_ns
        end = _FOREVER if free_ns == NONE else int(free_ns) - offset_ns
        found.append(joined(_held(of_steps, key, begin, end), _held(of_names, key, begin, end)))
        if free_ns == NONE:
            seen.add(key)
    lumps = {int(rows["device"][row]): row for row in range(len(found)) if rows["address"][row] == NONE}
    for place in _of_before(steps, names, seen):
        size = place.size_bytes
        lump = lumps.get(place.device)
        if place.device != HOST_DEVICE:
            size = -(-size // _PIECE_BYTES) * _PIECE_BYTES
            if lump is not None:
                if rows["size_bytes"][lump] < size:
                    continue  # the allocator knows of no such block: another library gave it
                rows["size_bytes"][lump] -= size
        _append(rows, place, size, start_ns)
        held = _held(of_names, (place.device, place.address), 0, _FOREVER)
        found.append(joined(place.holder, held) if place.holder.role not in (BlockRole.GRAPH, BlockRole.HELD) else held)
    return {name: np.asarray(column, np.int64) for name, column in rows.items()}, found


def _by_address(holders: Holders) -> dict[tuple[int, int], list[Place]]:
    found: defaultdict[tuple[int, int], list[Place]] = defaultdict(list)
    for place in holders.places.values():
        found[place.device, place.address].append(place)
    return found


def _held(places: dict[tuple[int, int], list[Place]], key: tuple[int, int], begin: int, end: int) -> Holder | None:
    """Who held an address between two times: the first that claimed it."""
    for place in places.get(key, ()):
        at = bisect_left(place.at_ns, begin)
        if at < len(place.at_ns) and place.at_ns[at] <= end:
            return place.holder
    return None


def _of_before(steps: Holders, names: Holders, seen: set[tuple[int, int]]) -> Iterator[Place]:
    """What names lead to at the end though no event has told of it: it was there before, and stays."""
    for place in (*names.places.values(), *steps.places.values()):
        key = place.device, place.address
        stays = place.holder.role in (BlockRole.PARAMETER, BlockRole.BUFFER, BlockRole.OPTIMIZER)
        from_names = (place.device, place.address, place.holder.role, place.holder.name) in names.places
        if place.size_bytes and key not in seen and (from_names or stays):
            seen.add(key)
            yield place


def _append(rows: dict[str, Any], place: Place, size_bytes: int, start_ns: int) -> None:
    values = {
        "device": place.device,
        "address": place.address,
        "size_bytes": size_bytes,
        "alloc_ns": start_ns,
        "before": 1,
        "thread": 0,
    }
    for name, column in rows.items():
        column.append(values.get(name, NONE))
