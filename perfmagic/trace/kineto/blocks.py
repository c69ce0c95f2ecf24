"""Blocks of memory from the profiler's memory events: an address is given, and later taken back.

torch.profiler writes one event for each: a positive or negative size, the address, the device, and how much its
allocator then had given. Source: torch/csrc/profiler/collection.cpp, ExtraFields<EventType::Allocation>.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from perfmagic.trace.columns import HOST_DEVICE, NONE, Int64
from perfmagic.trace.kineto.gathered import Columns, around

NODE = "autograd::engine::evaluate_function: "  # how the engine's own rows begin


def blocks_of(memory: Columns, host_ops: Columns, linked: Columns, names: Sequence[str]) -> Columns | None:
    """The columns of perfmagic.trace.columns.Blocks, with an `address`; None where no event tells of a block.

    memory: at_ns, device, thread, address, size_bytes (negative: taken back) and allocated of each event.
    host_ops, linked: operators, and their numbers in autograd where they were read.  names: of operators.
    What was allocated on a device before its first event, and is no block that came back, is one block of before.
    """
    known = memory["address"] != NONE if "address" in memory else np.zeros(0, bool)
    if not known.any():
        return None
    memory = {name: column[known] for name, column in memory.items()}
    order = np.argsort(memory["at_ns"], kind="stable")
    memory = {name: column[order] for name, column in memory.items()}
    nodes = _Nodes.from_operators(memory, host_ops, linked, names)
    blocks = [_of_device(memory, device) for device in np.unique(memory["device"]).tolist()]
    return _columns(memory, np.concatenate(blocks, axis=1), nodes)


@dataclass(frozen=True, eq=False)
class _Nodes:
    """Of each memory event: the backward node it happened in, its number, and the number its forward operator has."""

    name: Int64
    sequence: Int64
    newest: Int64

    @classmethod
    def from_operators(cls, memory: Columns, host_ops: Columns, linked: Columns, names: Sequence[str]) -> _Nodes:
        n = len(memory["at_ns"])
        none = np.full(n, NONE, np.int64)
        if not len(host_ops["start_ns"]):
            return cls(none, none, none)
        is_node = np.array([name.startswith(NODE) for name in names], bool)
        rows = np.flatnonzero(is_node[host_ops["name"]])
        inside = around(host_ops, rows, memory["thread"], memory["at_ns"]) if len(rows) else none
        has = inside != NONE
        name = np.where(has, host_ops["name"][inside], NONE)
        if not linked:
            return cls(name, none, none)
        sequence = np.where(has, linked["sequence"][inside], NONE)
        return cls(name, sequence, np.where(has, NONE, _newest(memory, host_ops, linked)))


def _newest(memory: Columns, host_ops: Columns, linked: Columns) -> Int64:
    """The number of the last node that each event's thread had begun to make; NONE where an operator had none.

    An operator carries the number that the next node will have, also where it makes none: only the last one with a
    number has made its node.
    """
    forward = np.flatnonzero((linked["sequence"] != NONE) & (linked["forward_thread"] <= 0))
    newest = np.full(len(memory["at_ns"]), NONE, np.int64)
    for thread in np.unique(memory["thread"]).tolist():
        selected = forward[host_ops["thread"][forward] == thread]
        asked = np.flatnonzero(memory["thread"] == thread)
        if not len(selected):
            continue
        selected = selected[np.argsort(host_ops["start_ns"][selected], kind="stable")]
        number = linked["sequence"][selected]
        makes = np.append(number[1:] != number[:-1], True)
        at = np.searchsorted(host_ops["start_ns"][selected], memory["at_ns"][asked], side="right") - 1
        last = np.maximum(at, 0)
        newest[asked] = np.where((at >= 0) & makes[last], number[last], NONE)
    return newest


def _of_device(memory: Columns, device: int) -> Int64:
    """The blocks of one device: given, taken (rows of memory, NONE), bytes, device; shape (4, n).

    An address is given again once it has come back, so that the next event of an address takes back what was given.
    """
    rows = np.flatnonzero(memory["device"] == device)
    size, address = memory["size_bytes"][rows], memory["address"][rows]
    order = np.argsort(address, kind="stable")
    again = np.flatnonzero(address[order[1:]] == address[order[:-1]])
    earlier, later, gives = order[again], order[again + 1], size >= 0
    follows, foreign = np.full(len(rows), NONE), ~gives
    follows[earlier] = later
    foreign[later[gives[earlier]]] = False  # what is left was given before the record
    given = np.concatenate((np.flatnonzero(gives), np.full(foreign.sum(), NONE)))
    taken = np.concatenate((follows[gives], np.flatnonzero(foreign)))
    held = np.abs(size[np.where(given == NONE, taken, given)])
    in_turn = np.lexsort((given, np.where(taken == NONE, len(rows), taken)))  # as they came back
    given, taken = (np.where(at == NONE, NONE, rows[at])[in_turn] for at in (given, taken))
    blocks = np.stack((given, taken, held[in_turn], np.full(len(held), device)))
    there = int(memory["allocated"][rows[0]] - size[0] + size[foreign].sum())
    if device == HOST_DEVICE or there <= 0:  # the host's count is of what profilers have seen, also earlier ones
        return blocks
    return np.column_stack((blocks, (NONE, NONE, there, device)))


def _columns(memory: Columns, blocks: Int64, nodes: _Nodes) -> Columns:
    """The columns of blocks as `_of_device` gives them."""
    given, taken, size, device = blocks
    at_ns, thread = memory["at_ns"], memory["thread"]
    before, stays = given == NONE, taken == NONE
    address = memory["address"][np.where(before, taken, given)]
    address[before & stays] = NONE

    def values_at(values: Any, rows: Int64, none: Any) -> Any:
        return np.where(none, NONE, values[rows])

    return {
        "order": given,
        "device": device,
        "alloc_ns": np.where(before, int(at_ns[0]), at_ns[given]),
        "free_ns": values_at(at_ns, taken, stays),
        "free_order": taken,
        "size_bytes": size,
        "thread": np.where(before, 0, thread[given]),
        "free_thread": values_at(thread, taken, stays),
        "before": before.astype(np.int8),
        "node": values_at(nodes.name, given, before),
        "node_sequence": values_at(nodes.sequence, given, before),
        "free_node": values_at(nodes.name, taken, stays),
        "free_sequence": values_at(nodes.sequence, taken, stays),
        "newest_sequence": values_at(nodes.newest, given, before),
        "address": address,
    }
