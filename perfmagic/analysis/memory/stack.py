"""What was allocated, stacked by kind of reason, along the sequence of allocations and releases.

Not along time: memory follows Python, and a cell that waits for long would be flat.
"""

from __future__ import annotations

import enum
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from perfmagic.analysis.memory.ledger import Ledger
from perfmagic.analysis.memory.reasons import Reason, Why
from perfmagic.analysis.memory.visits import NOT_VISITED
from perfmagic.trace.columns import NONE, Int64
from perfmagic.trace.paths import NOWHERE


class Kind(enum.Enum):
    """Kinds of reasons, the lowest of a stack first: what lives long lies below."""

    PARAMETERS = "parameters and buffers"
    OPTIMIZER = "optimizer state"
    BEFORE = "before the cell"
    GRADIENTS = "gradients"
    HELD = "held by variables"
    GRAPH = "kept by graphs of variables"
    KEPT = "kept for the backward"
    BACKWARD = "backward on its way"
    PASSING = "temporary, or until a later line"


KINDS = tuple(Kind)
_KIND_OF = {
    Why.PARAMETER: Kind.PARAMETERS,
    Why.BUFFER: Kind.PARAMETERS,
    Why.OPTIMIZER: Kind.OPTIMIZER,
    Why.GRADIENT: Kind.GRADIENTS,
    Why.HELD: Kind.HELD,
    Why.ALIVE: Kind.HELD,
    Why.GRAPH: Kind.GRAPH,
    Why.KEPT: Kind.KEPT,
    Why.BACKWARD: Kind.BACKWARD,
}


@dataclass(frozen=True, eq=False)
class Stack:
    """Bytes of each kind after each allocation and release.

    size_bytes: shape (kinds, steps), of KINDS in order; step 0 is the beginning.  peak_step: where the most is reached.
    cell_line, line: that ran at each step, in the cell and innermost; 0 where none is known.
    function: row of functions of the innermost line, NONE for none.  functions: their names, "" for the cell.
    """

    size_bytes: Int64
    peak_step: int
    cell_line: Int64
    line: Int64
    function: Int64
    functions: tuple[str, ...]

    def __len__(self) -> int:
        return len(self.line)


def kind_of(reason: Reason, *, before: bool) -> Kind:
    """The kind that a block's reason is of."""
    known = _KIND_OF.get(reason.why)
    if before and (known is None or reason.why is Why.ALIVE):
        return Kind.BEFORE
    return known or Kind.PASSING


def stack(ledger: Ledger, why: Sequence[Reason]) -> Stack:
    """The stack of a device. why: the reason of each block."""
    blocks, before = ledger.blocks, ledger.before
    kind = np.array([KINDS.index(kind_of(one, before=bool(b))) for one, b in zip(why, before, strict=True)], np.int64)
    made, freed = np.flatnonzero(~before), np.flatnonzero(blocks.free_order != NONE)
    orders = np.unique(np.concatenate((ledger.order[made], blocks.free_order[freed])))
    step_made = np.searchsorted(orders, ledger.order[made]) + 1
    step_freed = np.searchsorted(orders, blocks.free_order[freed]) + 1
    change = np.zeros((len(KINDS), len(orders) + 1), np.int64)
    np.add.at(change, (kind[before], np.zeros(int(before.sum()), np.int64)), blocks.size_bytes[before])
    np.add.at(change, (kind[made], step_made), blocks.size_bytes[made])
    np.add.at(change, (kind[freed], step_freed), -blocks.size_bytes[freed])
    visit = np.full(len(orders) + 1, NOT_VISITED, np.int64)
    visit[step_freed] = ledger.free_visit[freed]
    visit[step_made] = ledger.visit[made]
    size_bytes = np.cumsum(change, axis=1)
    path, root = ledger.visits.path[visit], ledger.visits.path[ledger.visits.root[visit]]
    has = (visit != NOT_VISITED) & (path != NOWHERE)
    functions = ledger.paths.functions
    return Stack(
        size_bytes=size_bytes,
        peak_step=int(size_bytes.sum(axis=0).argmax()),
        cell_line=np.where(has, ledger.paths.line[root], 0).astype(np.int64),
        line=np.where(has, ledger.paths.line[path], 0).astype(np.int64),
        function=np.where(has, ledger.paths.function[path], NONE).astype(np.int64),
        functions=tuple("" if one.is_cell else one.name for one in functions),
    )
