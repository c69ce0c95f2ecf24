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
    paired = _Paired(memory)
    for device in np.unique(memory["device"]).tolist():
        paired.add(device, np.flatnonzero(memory["device"] == device))
    return paired.columns(nodes)


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


class _Paired:
    """Allocations and what took them back; an address is given again once it has come back."""

    def __init__(self, memory: Columns) -> None:
        self._memory = memory
        self._rows: list[tuple[int, int, int, int]] = []  # given, taken (rows of memory, NONE), bytes, device
        self._lump: list[int] = []  # rows of the above that stand for memory allocated before the record

    def add(self, device: int, rows: Int64) -> None:
        """The events of one device, in time."""
        alive: dict[int, tuple[int, int]] = {}
        before = 0
        size, address = (self._memory[name][rows].tolist() for name in ("size_bytes", "address"))
        for row, change, where in zip(rows.tolist(), size, address, strict=True):
            if change >= 0:
                if where in alive:  # its release was not recorded
                    given, held = alive.pop(where)
                    self._rows.append((given, row, held, device))
                alive[where] = row, change
            elif where in alive:
                given, held = alive.pop(where)
                self._rows.append((given, row, held, device))
            else:
                self._rows.append((NONE, row, -change, device))
                before -= change
        self._rows += [(given, NONE, held, device) for given, held in alive.values()]
        if device == HOST_DEVICE:
            return  # its count is of what profilers have seen, also earlier ones
        first = int(rows[0])
        there = int(self._memory["allocated"][first]) - size[0] - before
        if there > 0:
            self._lump.append(len(self._rows))
            self._rows.append((NONE, NONE, there, device))

    def columns(self, nodes: _Nodes) -> Columns:
        given, taken, size, device = np.array(self._rows, np.int64).T
        at_ns, thread = self._memory["at_ns"], self._memory["thread"]
        before, stays = given == NONE, taken == NONE
        address = self._memory["address"][np.where(before, taken, given)]
        address[self._lump] = NONE

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
