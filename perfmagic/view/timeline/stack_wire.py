"""The stack of memory as it goes to a browser: layers by reason and by line of the cell, and the rows at the peak."""

from __future__ import annotations

from typing import Any

import numpy as np

from perfmagic.analysis.memory.ledger import Ledger, ledger
from perfmagic.analysis.memory.peak import Words, held
from perfmagic.analysis.memory.reasons import reasons
from perfmagic.analysis.memory.stack import KINDS, Kind, bytes_by_layer, stack
from perfmagic.trace.columns import Int64
from perfmagic.trace.model import Trace
from perfmagic.view.svg.memory_layers import TOKENS, columns_of
from perfmagic.view.timeline.wire_columns import ColumnWriter, cut

MOST_COLUMNS, MOST_ROWS, MOST_LINES = 1200, 40, 8
LINE_TOKENS = ("mem_parameters", "mem_kept", "mem_held", "mem_optimizer", "mem_graph", "mem_gradients", "mem_backward")


def memory_wire(out: ColumnWriter, trace: Trace) -> dict[str, Any] | None:
    """Writes the stack of the device with the highest peak; None where blocks were not recorded."""
    found = [one for device in np.unique(trace.blocks.device).tolist() if (one := ledger(trace, device)) is not None]
    if not found:
        return None
    of = max(found, key=lambda one: one.peak_bytes)
    words = Words(of, reasons(of))
    made = stack(of, words.why)
    first, shown = columns_of(made.size_bytes.sum(axis=0), MOST_COLUMNS)
    kinds = [i for i, most in enumerate(made.size_bytes.max(axis=1).tolist()) if most]
    for number, row in enumerate(kinds):
        out.delta("memory_reasons", str(number), made.size_bytes[row][shown])
    names, by_line = _by_line(of)
    for number, size in enumerate(by_line):
        out.delta("memory_by_line", str(number), size[shown])
    rows = held(of, words, of.at_peak)
    rest = rows[MOST_ROWS:]
    return {
        "peak_bytes": of.peak_bytes,
        "peak_column": int(np.searchsorted(first, made.peak_step, side="right")) - 1,
        "reasons": [[KINDS[row].value, TOKENS[KINDS[row]]] for row in kinds],
        "lines": [[cut(name), _token(name, i)] for i, name in enumerate(names)],
        "rows": [
            [
                kinds.index(KINDS.index(Kind(row.kind))),
                cut(f"line {row.line} of {row.function}" if row.function else f"line {row.line}" if row.line else ""),
                cut(row.code.strip()),
                cut(row.reason),
                row.n_blocks,
                row.size_bytes,
            ]
            for row in rows[:MOST_ROWS]
        ],
        "more": [len(rest), sum(row.size_bytes for row in rest)],
    }


def _by_line(of: Ledger) -> tuple[list[str], Int64]:
    """The lines of the cell that held most, the others as one, and what was there before below all."""
    root = of.visits.path[of.visits.root[of.visit]]
    line = np.where(of.before, -1, of.paths.line[root])
    known = sorted(
        set(line.tolist()) - {-1}, key=lambda one: -int(of.blocks.size_bytes[(line == one) & of.at_peak].sum())
    )
    named = sorted(one for one in known[:MOST_LINES] if one)
    number = np.array([0 if one == -1 else 1 + named.index(one) if one in named else len(named) + 1 for one in line])
    names = [Kind.BEFORE.value, *(f"line {one}" for one in named), "other lines"]
    size = bytes_by_layer(of, number, len(names))
    some = [i for i in range(len(names)) if size[i].any()]
    return [names[i] for i in some], size[some]


def _token(name: str, number: int) -> str:
    if name == Kind.BEFORE.value:
        return TOKENS[Kind.BEFORE]
    return TOKENS[Kind.PASSING] if name == "other lines" else LINE_TOKENS[number % len(LINE_TOKENS)]
