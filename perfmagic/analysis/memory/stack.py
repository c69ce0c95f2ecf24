"""Allocated memory as a stack of layers, one for each kind of reason, in the order of allocations and releases.

A step is one allocation or one release: memory follows Python, so that waiting takes no room.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from perfmagic.analysis.memory.ledger import Ledger
from perfmagic.analysis.memory.peak import Words
from perfmagic.analysis.memory.reasons import Reason, Why
from perfmagic.analysis.memory.visits import NOT_VISITED
from perfmagic.trace.columns import NONE, Int64
from perfmagic.trace.paths import NOWHERE

BEFORE = "before the cell"
# layers from the ground up: what lives long is below
LAYERS: dict[str, tuple[Why, ...]] = {
    "parameters": (Why.PARAMETER,),
    "buffers": (Why.BUFFER,),
    "optimizer state": (Why.OPTIMIZER,),
    BEFORE: (),
    "gradients": (Why.GRADIENT,),
    "held by variables": (Why.HELD,),
    "kept by graphs of variables": (Why.GRAPH,),
    "kept for the backward pass": (Why.KEPT,),
    "alive at the end": (Why.ALIVE,),
    "until later": (Why.RETURNED, Why.UNTIL),
    "backward pass": (Why.BACKWARD,),
    "temporary": (Why.TEMPORARY,),
}
_NAMED_BEFORE = (Why.PARAMETER, Why.BUFFER, Why.OPTIMIZER, Why.GRADIENT, Why.GRAPH, Why.HELD)
_LAYER_OF = {why: layer for layer, whys in LAYERS.items() for why in whys}


@dataclass(frozen=True, eq=False)
class MemoryStack:
    """Bytes of each layer after each step; step 0 is before the first.

    layers: names, the lowest first.  held_bytes: a row for each layer, a column for each step.  peak_step: where the
    most is allocated.  line: of the cell, at each step, 0 for none.  path: the innermost line at each step.
    of_reason: the layer of each row of at_peak(), by its reason in words.
    """

    layers: tuple[str, ...]
    held_bytes: Int64
    peak_step: int
    line: Int64
    path: Int64
    of_reason: dict[str, str]

    @property
    def total_bytes(self) -> Int64:
        """All that is allocated after each step."""
        found: Int64 = self.held_bytes.sum(axis=0)
        return found


def layer_of(reason: Reason, *, before: bool) -> str:
    """The layer of a block; what was there before the cell is told apart only where its reason is known."""
    if before and reason.why not in _NAMED_BEFORE:
        return BEFORE
    return _LAYER_OF[reason.why]


def memory_stack(ledger: Ledger, words: Words) -> MemoryStack:
    """The layers of a ledger that hold anything."""
    blocks, visits = ledger.blocks, ledger.visits
    made, freed = np.flatnonzero(~ledger.before), np.flatnonzero(blocks.free_order != NONE)
    order = np.concatenate((ledger.order[made], blocks.free_order[freed]))
    steps, step = np.unique(order, return_inverse=True)
    begin, end = np.zeros(len(blocks), np.int64), np.full(len(blocks), NONE)
    begin[made], end[freed] = step[: len(made)] + 1, step[len(made) :] + 1

    of_block = [layer_of(why, before=bool(ledger.before[row])) for row, why in enumerate(words.why)]
    layers = tuple(name for name in LAYERS if name in set(of_block))
    number = np.array([layers.index(name) for name in of_block])
    change = np.zeros((len(layers), len(steps) + 1), np.int64)
    np.add.at(change, (number, begin), blocks.size_bytes)
    np.subtract.at(change, (number[freed], end[freed]), blocks.size_bytes[freed])

    visit = np.full(len(steps) + 1, NOT_VISITED)
    visit[begin[made]], visit[end[freed]] = ledger.visit[made], ledger.free_visit[freed]
    root = visits.path[visits.root[visit]]
    return MemoryStack(
        layers=layers,
        held_bytes=np.cumsum(change, axis=1),
        peak_step=0 if ledger.peak_row == NONE else int(begin[ledger.peak_row]),
        line=np.where(root == NOWHERE, 0, ledger.paths.line[root]),
        path=visits.path[visit],
        of_reason={words.reason(row): of_block[row] for row in np.flatnonzero(ledger.at_peak).tolist()},
    )
