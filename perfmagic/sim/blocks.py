"""The ledger of a recording: each block of memory that a simulated device gave, and when it came back.

A block comes back where the last tensor that refers to it ends: on any thread, also inside the collector. An interrupt
that strikes in Python code there is swallowed, so none of our code may run. Two weak references note the instant and
the thread. Their callbacks are look-ups in dictionaries that make a missing value themselves: all of it is C.
"""

from __future__ import annotations

import itertools
import re
import sys
import weakref
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from types import FrameType
from typing import Any

import numpy as np

from perfmagic.base.clock import read_ns, reader, thread_reader
from perfmagic.base.kinds import NONE
from perfmagic.sim import torch_private

LIMIT_BLOCKS = 500_000  # each takes 0.6 kB until the recording has been read
_Rows = dict[str, Any]


class Held(float):
    """Stands for the memory of a tensor, for as long as a tensor refers to it; jobs do not.

    A float, whose value is a number given once. Weak references to it are keys of dictionaries, so its hash must be
    unique: Python's own hash is the address, which is used again. A __hash__ in Python would be too slow.
    again: stands for the memory that was allocated again after free().
    """

    __slots__ = ("__weakref__", "again")

    def free(self) -> None:
        """Note now what would be noted at its end, and later nothing more; the same for the memory allocated again."""
        self.again: Held | None = None
        for reference in weakref.getweakrefs(self):
            if reference.__callback__ is not None:
                reference.__callback__(reference)


@dataclass
class Block:
    """One row.  size_bytes, order, free_order: known once the memory has worked off what was noted.

    gathered: whether fully_shard() allocated it, for a layer's whole parameters or gradients.
    """

    log: BlockLog
    number: float
    device: int
    alloc_ns: int
    thread: int
    node: str
    node_sequence: int
    newest_sequence: int
    at_end: weakref.ref[Held]
    by_end: weakref.ref[Held]
    size_bytes: int = 0
    order: int = NONE
    free_order: int = NONE
    before: bool = False
    gathered: bool = False

    def begin(self, size_bytes: int) -> None:
        """Number the allocation, now that the memory has counted it."""
        self.size_bytes, self.order = size_bytes, self.log.next_order()
        self.log.keep(self)

    def end(self) -> None:
        """Number the release, now that the memory has counted it."""
        self.free_order = self.log.next_order()


class BlockLog:
    """The blocks since it was made, of all devices; times by the clock of reader().

    main: the thread whose releases happen outside of backward nodes: those of a device run on threads of torch's own.
    """

    def __init__(self, limit: int = LIMIT_BLOCKS) -> None:
        self.main = thread_reader()()
        self._limit = limit
        self._freed_ns: defaultdict[Any, int] = defaultdict(reader())
        self._freed_by: defaultdict[Any, int] = defaultdict(thread_reader())
        self._rows: list[Block] = []
        self._orders = itertools.count()

    @property
    def full(self) -> bool:
        """Whether no more blocks are noted."""
        return len(self._rows) >= self._limit

    def block(self, held: Held, device: int) -> Block:
        """The row of a block that this thread allocates now."""
        node, sequence = torch_private.backward_node()
        newest = NONE if node else torch_private.autograd_numbers()[0]
        block = self._watched(held, device, node, sequence, newest)
        block.gathered = _is_gathering()
        return block

    def block_of_before(self, held: Held, device: int, size_bytes: int) -> Block:
        """The row of a block that was allocated before the recording."""
        block = self._watched(held, device, "", NONE, NONE)
        block.before = True
        block.begin(size_bytes)
        return block

    def next_order(self) -> int:
        """The next number of the sequence."""
        return next(self._orders)

    def keep(self, block: Block) -> None:
        """Add a row."""
        self._rows.append(block)

    def mark(self) -> int:
        """A point to read from later."""
        return self.next_order()

    def since(self, mark: int) -> _Rows:
        """Columns of the blocks that lived after a mark, as perfmagic.trace.columns.Blocks has them, and their numbers.

        node, free_node are names, "" for none. Times are by reader().
        """
        rows = [row for row in list(self._rows) if row.free_order == NONE or row.free_order > mark]
        free_ns, by = zip(*map(self._end_of, rows), strict=True) if rows else ((), ())
        nodes = self._nodes_at(by, free_ns)
        return {
            "number": [row.number for row in rows],
            "order": [row.order for row in rows],
            "device": [row.device for row in rows],
            "alloc_ns": [row.alloc_ns for row in rows],
            "free_ns": free_ns,
            "free_order": [row.free_order for row in rows],
            "size_bytes": [row.size_bytes for row in rows],
            "thread": [row.thread for row in rows],
            "free_thread": by,
            "before": [row.before or row.order < mark for row in rows],
            "node": [row.node for row in rows],
            "node_sequence": [row.node_sequence for row in rows],
            "free_node": [name for name, _ in nodes],
            "free_sequence": [sequence for _, sequence in nodes],
            "newest_sequence": [row.newest_sequence for row in rows],
            "gathered": [row.gathered for row in rows],
        }

    def _watched(self, held: Held, device: int, node: str, sequence: int, newest: int) -> Block:
        at_end, by_end = (weakref.ref(held, ends.__getitem__) for ends in (self._freed_ns, self._freed_by))
        hash(at_end), hash(by_end)  # a dead reference has only the hash that it was asked for while alive
        now_ns, thread = read_ns(), thread_reader()()
        return Block(self, float(held), device, now_ns, thread, node, sequence, newest, at_end, by_end)

    def _end_of(self, row: Block) -> tuple[int, int]:
        """When a block was released and on which thread; NONE where it was not."""
        if row.free_order == NONE:
            return NONE, NONE
        return self._freed_ns.get(row.at_end, row.alloc_ns), self._freed_by.get(row.by_end, NONE)

    def _nodes_at(self, threads: Sequence[int], at_ns: Sequence[int]) -> list[tuple[str, int]]:
        """The backward node that each thread was in: the node of its latest allocation. ("", NONE) for none.

        A node gives back what was saved for it once it has run, before the next one begins.
        """
        nodes = [("", NONE)] * len(threads)
        for thread in set(threads) - {NONE, self.main}:
            notes = sorted(
                (row.alloc_ns, row.node, row.node_sequence)
                for row in list(self._rows)
                if row.thread == thread and not row.before
            )
            times = np.array([at for at, _, _ in notes], np.int64)
            for i in [i for i, other in enumerate(threads) if other == thread]:
                last = int(np.searchsorted(times, at_ns[i], side="right")) - 1
                if last >= 0:
                    nodes[i] = notes[last][1], notes[last][2]
        return nodes


# where fully_shard() gathers and reduces (torch 2.13); it converts inputs of layers in other files
_GATHERING = re.compile(r"torch\.distributed\.fsdp\._fully_shard\._fsdp_(?:param|param_group|collectives)")


def _is_gathering() -> bool:
    """Whether this thread is inside of fully_shard()'s own code."""
    frame: FrameType | None = sys._getframe(1)
    while frame is not None and (name := str(frame.f_globals.get("__name__", ""))).startswith(("torch.", "perfmagic.")):
        if _GATHERING.fullmatch(name):
            return True
        frame = frame.f_back
    return False
