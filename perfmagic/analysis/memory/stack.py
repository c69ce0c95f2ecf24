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
    BEFORE = "from before"
    GRADIENTS = "gradients"
    HELD = "held by variables"
    GRAPH = "kept by graphs"
    KEPT = "kept for the backward"
    BACKWARD = "backward on its way"
    PASSING = "temporary, or until a later line"


KINDS = tuple(Kind)
_KIND_OF = {
    Why.PARAMETER: Kind.PARAMETERS,
    Why.BUFFER: Kind.PARAMETERS,
    Why.OPTIMIZER: Kind.OPTIMIZER,
    Why.GRADIENT: Kind.GRADIENTS,
    Why.GATHERED: Kind.PARAMETERS,
    Why.HELD: Kind.HELD,
    Why.ALIVE: Kind.HELD,
    Why.GRAPH: Kind.GRAPH,
    Why.OUTLIVED: Kind.GRAPH,
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
    before = ledger.before
    kind = np.where(before, KINDS.index(Kind.BEFORE), KINDS.index(Kind.PASSING))
    kinds = {(w, b): KINDS.index(kind_of(Reason(w), before=b)) for w in Why for b in (False, True)}
    for row in [row for row, reason in enumerate(why) if reason.why is not Why.TEMPORARY]:  # most are
        kind[row] = kinds[why[row].why, bool(before[row])]
    orders, (made, step_made), (freed, step_freed) = _steps(ledger)
    size_bytes = bytes_by_layer(ledger, kind, len(KINDS))
    visit = np.full(len(orders) + 1, NOT_VISITED, np.int64)
    visit[step_freed] = ledger.free_visit[freed]
    visit[step_made] = ledger.visit[made]
    path, root = ledger.visits.path[visit], ledger.visits.path[ledger.visits.root[visit]]
    has = (visit != NOT_VISITED) & (path != NOWHERE)
    functions = ledger.paths.functions
    return Stack(
        size_bytes=size_bytes,
        peak_step=int(size_bytes.sum(axis=0).argmax()),
        cell_line=np.where(has, ledger.paths.line[root], 0).astype(np.int64),
        line=np.where(has, ledger.paths.line[path], 0).astype(np.int64),
        function=np.where(has, ledger.paths.function[path], NONE).astype(np.int64),
        functions=tuple("" if function.is_cell else function.name for function in functions),
    )


def bytes_by_layer(ledger: Ledger, layer: Int64, n_layers: int) -> Int64:
    """Bytes of each layer after each step, shape (layers, steps). layer: the number of each block's."""
    before = ledger.before
    orders, (made, step_made), (freed, step_freed) = _steps(ledger)
    size = ledger.blocks.size_bytes
    change = np.zeros((n_layers, len(orders) + 1), np.int64)
    np.add.at(change, (layer[before], np.zeros(int(before.sum()), np.int64)), size[before])
    np.add.at(change, (layer[made], step_made), size[made])
    np.add.at(change, (layer[freed], step_freed), -size[freed])
    return np.asarray(np.cumsum(change, axis=1))


def _steps(ledger: Ledger) -> tuple[Int64, tuple[Int64, Int64], tuple[Int64, Int64]]:
    """The places of all steps; the blocks that were allocated, with their step; those given back, with theirs."""
    free_order = ledger.blocks.free_order
    made, freed = np.flatnonzero(~ledger.before), np.flatnonzero(free_order != NONE)
    orders = np.sort(np.concatenate((ledger.order[made], free_order[freed])))
    orders = (
        orders[np.append(True, orders[1:] != orders[:-1])] if len(orders) else orders
    )  # np.unique: 4 to 20 × slower
    step_made = np.searchsorted(orders, ledger.order[made]) + 1
    step_freed = np.searchsorted(orders, free_order[freed]) + 1
    return orders, (made, step_made), (freed, step_freed)
