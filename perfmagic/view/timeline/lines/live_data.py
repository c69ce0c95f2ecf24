"""Lines as they go to a browser: rows with their totals and Python's time, and for each op the lines it lies on.

When a line's ops were queued and ran follows in the browser from the ops themselves, exactly. Only Python's time and
its waiting are sent, as intervals; where there are many, those that a grid cannot resolve are merged.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from perfmagic.analysis.timeline.paths import forward_paths, op_paths, sites
from perfmagic.base.language import chained, translate_term, translated
from perfmagic.base.numerics.intervals import Intervals
from perfmagic.trace.columns import NO_LINE, Int64
from perfmagic.trace.model import Trace
from perfmagic.trace.paths import NOWHERE, Paths
from perfmagic.view.timeline.lines.doc import Block, LineRow, LinesDoc, lines_doc
from perfmagic.view.timeline.live_columns import ColumnWriter, cut

MOST_ROWS = 600  # in all; the others are counted
GRID = 1500  # columns of the time drawn
EXACT = 6000  # up to this many intervals of all rows are sent unchanged; more are merged on the grid
NOT_DRAWN = -1  # instead of a row, for a line that has none on the page


@dataclass(frozen=True)
class LinesWire:
    """What the header says; by row of ops its chain and that of its forward operator: numbers from 1, 0 for none."""

    header: dict[str, Any]
    chain: Int64
    forward: Int64


def lines_wire(out: ColumnWriter, trace: Trace, start_ns: int, end_ns: int) -> LinesWire | None:
    """Writes the lines into the payload; None for a trace that knows no lines.  start_ns, end_ns: the time drawn."""
    doc = lines_doc(trace)
    if doc is None or not doc.blocks:
        return None
    blocks, shown = _blocks(doc)
    grain_ns = _spans(out, shown, start_ns, end_ns)
    _numbers(out, shown)
    if doc.memory is not None:
        out.plain("lines", "peak", [row.peak_bytes for row in shown])
    chains = _Chains(trace.paths, trace, blocks, shown)
    own = chains.numbers(op_paths(trace), trace.ops.line.astype(np.int64))
    forward = forward_paths(trace)
    cell_line = np.full(len(forward), NO_LINE, np.int64)
    if trace.paths is not None:
        cell_line = trace.paths.cell_line[forward].astype(np.int64)
    of_forward = chains.numbers(forward, np.where(forward == NOWHERE, NO_LINE, cell_line))
    out.text("codes", _json([cut(row.code) for row in shown]))
    out.text("chains", _json([chains.places, chains.chains]))
    header = {
        "followed": trace.paths is not None,
        "blocks": blocks,
        "folded": [cut(name) for name in doc.folded],
        "notes": [cut(translated(note)) for note in doc.notes],
        "total": None if doc.total is None else _total(doc),
        "grain_ns": grain_ns,
    }
    if doc.memory is not None:
        closing = [(translate_term(words), size) for words, size in doc.memory.closing()]
        header["memory"] = [sum(doc.memory.cell_bytes.values()), closing]
    return LinesWire(header, own, of_forward)


def _blocks(doc: LinesDoc) -> tuple[list[dict[str, Any]], list[LineRow]]:
    """The blocks as the header says them, and all rows that are sent."""
    blocks: list[dict[str, Any]] = []
    shown: list[LineRow] = []
    for block in doc.blocks:
        rows = block.rows[: MOST_ROWS - len(shown)]
        shown += rows
        blocks.append(_block(block, len(rows)))
    return blocks, shown


def _block(block: Block, n_rows: int) -> dict[str, Any]:
    where = translated(chained("{a} · {b}", (block.where, block.note)))
    return {"name": cut(block.name), "where": cut(where), "rows": n_rows, "more": len(block.rows) - n_rows}


def _total(doc: LinesDoc) -> list[int]:
    assert doc.total is not None
    return [doc.total.host_ns - doc.total.blocked_ns, doc.total.blocked_ns, doc.total.device_ns, doc.total.n_ops]


def _numbers(out: ColumnWriter, rows: Sequence[LineRow]) -> None:
    """One number a row and column; `ran` is 0 for a line that did not run."""
    stats = [row.stat for row in rows]
    out.plain("lines", "line", [row.line for row in rows])
    out.plain("lines", "ran", [stat is not None for stat in stats])
    out.plain("lines", "python", [row.python_ns for row in rows])
    for name, column in (("blocked", "blocked_ns"), ("device", "device_ns"), ("backward", "backward_ns")):
        out.plain("lines", name, [getattr(stat, column) if stat else 0 for stat in stats])
    out.plain("lines", "ops", [stat.n_ops if stat else 0 for stat in stats])


def _spans(out: ColumnWriter, rows: Sequence[LineRow], start_ns: int, end_ns: int) -> int:
    """Python's time and waiting of all rows, one after the other, with how many each has; returns the grid's grain."""
    given = {"python": [row.python for row in rows], "waiting": [row.waiting for row in rows]}
    exact = sum(len(when) for some in given.values() for when in some) <= EXACT
    grain_ns = 0 if exact else max(1, (end_ns - start_ns) // GRID)
    for name, some in given.items():
        merged = [_merged(_clipped(when, start_ns, end_ns), grain_ns) for when in some]
        together = np.concatenate(merged) if merged else np.zeros((0, 2), np.int64)
        out.plain("lines", f"n_{name}", [len(when) for when in merged])
        out.spans(f"lines_{name}", together[:, 0], together[:, 1], start_ns)
    return grain_ns


def _clipped(when: Intervals, start_ns: int, end_ns: int) -> Intervals:
    clipped = np.clip(when, start_ns, end_ns)
    return clipped[clipped[:, 1] > clipped[:, 0]]


def _merged(when: Intervals, grain_ns: int) -> Intervals:
    """Intervals with the gaps below a grain closed; their outer ends stay exact."""
    if not grain_ns or len(when) < 2:
        return when
    first = np.append(True, when[1:, 0] - when[:-1, 1] >= grain_ns)
    last = np.append(first[1:], True)
    return np.column_stack((when[first, 0], when[last, 1]))


class _Chains:
    """Which lines an op lies on, the innermost first, each chain once.

    places: [function, line, row]; function "" is the cell.  chains: rows of places.
    """

    def __init__(
        self, paths: Paths | None, trace: Trace, blocks: Sequence[dict[str, Any]], rows: Sequence[LineRow]
    ) -> None:
        self.places: list[list[Any]] = []
        self.chains: list[list[int]] = []
        self._paths, self._sites = paths, sites(trace)
        self._row = _rows_of_lines(blocks, rows)
        self._place: dict[tuple[str, str, int], int] = {}
        self._number: dict[tuple[int, ...], int] = {}

    def numbers(self, path: Int64, cell_line: Int64) -> Int64:
        """1 + the chain of each pair of a path and a line of the cell, 0 where both are none; shape of path."""
        most = int(cell_line.max(initial=0)) + 1
        keys, where = np.unique(path * most + cell_line, return_inverse=True)
        numbers = [self._chain(key // most, key % most) for key in keys.tolist()]
        return np.array(numbers, np.int64)[where] if numbers else np.zeros(0, np.int64)

    def _chain(self, path: int, cell_line: int) -> int:
        chain = [*self._of_functions(path), *([self._at("", "", cell_line)] if cell_line != NO_LINE else [])]
        if not chain:
            return 0
        number = self._number.setdefault(tuple(chain), len(self.chains) + 1)
        if number > len(self.chains):
            self.chains.append(chain)
        return number

    def _of_functions(self, path: int) -> list[int]:
        """The places of a path's lines outside of the cell; a line that recursion comes back to once."""
        if self._paths is None or path == NOWHERE:
            return []
        known = self._sites
        on = known.site[known.begin[path] : known.begin[path + 1]][::-1].tolist()
        own = (int(self._paths.function[path]), int(self._paths.line[path]))
        on.sort(key=lambda site: (int(known.function[site]), int(known.line[site])) != own)  # stable: only it moves
        places = []
        for site in on:
            function = self._paths.functions[int(known.function[site])]
            if not function.is_cell:
                places.append(self._at(function.name, function.file, int(known.line[site])))
        return places

    def _at(self, function: str, file: str, line: int) -> int:
        key = (function, file, line)
        if key not in self._place:
            self._place[key] = len(self.places)
            self.places.append([cut(function), line, self._row.get(key, NOT_DRAWN)])
        return self._place[key]


def _rows_of_lines(blocks: Sequence[dict[str, Any]], rows: Sequence[LineRow]) -> dict[tuple[str, str, int], int]:
    """The row of each line by its function and file."""
    row_of: dict[tuple[str, str, int], int] = {}
    at = 0
    for block in blocks:
        for row in range(at, at + block["rows"]):
            stat = rows[row].stat
            row_of.setdefault((stat.function, stat.file, rows[row].line) if stat else ("", "", rows[row].line), row)
        at += block["rows"]
    return row_of


def _json(rows: list[Any]) -> bytes:
    return json.dumps(rows, ensure_ascii=False, separators=(",", ":")).encode("utf-8", "replace")
