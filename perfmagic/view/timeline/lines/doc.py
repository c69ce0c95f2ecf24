"""The source of what ran as a document: a block of lines for the cell and each function, with what a line cost."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np

from perfmagic.analysis.timeline.activity import syncs
from perfmagic.analysis.timeline.lines import LineStat, function_lines, lines, sync_paths
from perfmagic.analysis.timeline.paths import backward_rows, on_paths, op_paths, sites
from perfmagic.base.language import chained, phrase
from perfmagic.base.numerics.intervals import EMPTY, Intervals, subtract, union
from perfmagic.trace.columns import NO_LINE, Int64
from perfmagic.trace.model import Trace, once_per_trace
from perfmagic.trace.paths import NOWHERE, Paths

if TYPE_CHECKING:
    from perfmagic.analysis.memory.peak import PeakByLine

LEAST_SHARE = 0.01  # of Python's time and of the devices': a function below both is named, and not drawn
MOST_CALLERS = 3


@dataclass(frozen=True, eq=False)
class LineRow:
    """One line, and when what it did happened.

    stat: None for a line that did not run.  python: a thread was on it, less the time it waited.  waiting: blocked.
    queued: its ops were launched and had not started.  executing: they ran.  backward: ops of its backward ran that
    another line queued.  peak_bytes: of memory that it allocated, alive when the most was.
    """

    line: int
    code: str
    stat: LineStat | None
    python: Intervals = field(default_factory=lambda: EMPTY)
    waiting: Intervals = field(default_factory=lambda: EMPTY)
    queued: Intervals = field(default_factory=lambda: EMPTY)
    executing: Intervals = field(default_factory=lambda: EMPTY)
    backward: Intervals = field(default_factory=lambda: EMPTY)
    peak_bytes: int = 0

    @property
    def python_ns(self) -> int:
        """Python's time without what it waited."""
        return max(0, self.stat.host_ns - self.stat.blocked_ns) if self.stat else 0


@dataclass(frozen=True, eq=False)
class Block:
    """The cell, or a function.

    name: "" for the cell.  where: its file and who called it, in words.  note: why there is no text, or "".
    """

    name: str
    where: str
    rows: tuple[LineRow, ...]
    note: str = ""


@dataclass(frozen=True, eq=False)
class LinesDoc:
    """All blocks, the cell first, functions in order of their first call.

    start_ns, end_ns: the time drawn.  folded: functions that took next to nothing, by name.  total: of the cell's rows,
    None without a cell.  notes: what was not followed.  memory: what was alive when the most was, None where blocks
    were not recorded.
    """

    start_ns: int
    end_ns: int
    blocks: tuple[Block, ...]
    folded: tuple[str, ...]
    total: LineStat | None
    notes: tuple[str, ...] = ()
    memory: PeakByLine | None = None

    @property
    def has_functions(self) -> bool:
        return any(block.name for block in self.blocks)


@once_per_trace
def lines_doc(trace: Trace) -> LinesDoc | None:
    """The lines of a cell and of its functions; None for a trace that knows no lines."""
    stats = lines(trace)
    if not stats and trace.paths is None:
        return None
    cell = [_cell_block(trace, stats)] if trace.cell is not None and stats else []
    shown, folded = _function_blocks(trace)
    return LinesDoc(
        start_ns=trace.meta.start_ns,
        end_ns=trace.meta.end_ns,
        blocks=(*cell, *shown),
        folded=folded,
        total=_total(stats) if cell else None,
        notes=_notes(trace.paths),
        memory=_peak(trace) if cell or shown else None,
    )


def _cell_block(trace: Trace, stats: Sequence[LineStat]) -> Block:
    """Every line of the cell as it is in the editor, also those that did not run."""
    assert trace.cell is not None
    by_line = {stat.line: stat for stat in stats}
    texts = trace.cell.source.rstrip().splitlines()
    marks, ops, blocked = trace.marks, trace.ops, syncs(trace)
    ends = np.append(marks.at_ns[1:], _returned_ns(trace)) if len(marks) else marks.at_ns
    inside = ~blocked.after_cell
    backward = backward_rows(trace)
    times, memory = _Times(trace), _peak(trace)
    rows = [
        times.row(
            n,
            text,
            by_line.get(n),
            (marks.at_ns[marks.line == n], ends[marks.line == n]),
            np.flatnonzero(inside & (blocked.line == n)),
            np.flatnonzero(ops.line == n),
            backward.of_cell_line(n),
            memory.of_cell_line(n) if memory else 0,
        )
        for n, text in enumerate(texts, 1)
    ]
    return Block("", "", tuple(rows))


def _function_blocks(trace: Trace) -> tuple[list[Block], tuple[str, ...]]:
    paths = trace.paths
    if paths is None:
        return [], ()
    of_site = _OfSites(trace)
    times, known, memory = _Times(trace), sites(trace), _peak(trace)
    held = memory.site_bytes if memory else np.zeros(len(known), np.int64)
    least = LEAST_SHARE * memory.peak_bytes if memory else np.inf
    # by site: two lambdas of a line have one name and one place
    of_functions = [i for i, f in enumerate(known.function.tolist()) if not paths.functions[f].is_cell]
    stats = dict(zip(of_functions, function_lines(trace), strict=True))
    blocks, folded = [], []
    for number, function in enumerate(paths.functions):
        if function.is_cell:
            continue
        mine = np.flatnonzero(known.function == number).tolist()
        of_line = {int(known.line[i]): i for i in mine}
        line_stats = [stats[i] for i in mine]
        if not _is_worth_it(trace, line_stats) and held[mine].max(initial=0) < least:
            folded.append(function.name)
            continue
        texts = dict(function.texts)
        rows = [
            times.row(line, texts.get(line, ""), stat, *of_site.times(i), int(held[i]))
            for (line, i), stat in zip(of_line.items(), line_stats, strict=True)
        ]
        where = phrase("{file} · called from {callers}", file=function.file, callers=_callers(paths, number))
        blocks.append(Block(function.name, where, tuple(rows), function.note))
    return blocks, tuple(folded)


def _is_worth_it(trace: Trace, stats: Sequence[LineStat]) -> bool:
    span_ns = max(1, trace.meta.end_ns - trace.meta.start_ns)
    device_ns = max(1, int((trace.ops.end_ns - trace.ops.start_ns).sum()))
    host = max((s.host_ns for s in stats), default=0)
    device = max((s.device_ns + s.backward_ns for s in stats), default=0)
    return host >= LEAST_SHARE * span_ns or device >= LEAST_SHARE * device_ns


def _callers(paths: Paths, number: int) -> str:
    """The lines that called a function: "line 6, train_step line 14"."""
    rows = np.flatnonzero(paths.function == number)
    above = dict.fromkeys((int(paths.function[p]), int(paths.line[p])) for p in paths.parent[rows] if p != NOWHERE)
    callers = [key for key in above if key[0] != number]
    words = [_place(paths, function, line) for function, line in callers]
    if not words:
        return phrase("outside of what was followed")
    more = len(words) - MOST_CALLERS
    named = chained("{a}, {b}", words[:MOST_CALLERS])
    return phrase("{callers} and {n} more", callers=named, n=more) if more > 0 else named


def _place(paths: Paths, function: int, line: int) -> str:
    of = paths.functions[function]
    return phrase("line {line}", line=line) if of.is_cell else phrase("{name} line {line}", name=of.name, line=line)


class _OfSites:
    """What happened on each line of a function: stretches of threads, blocking calls, ops, and its backward's ops."""

    def __init__(self, trace: Trace) -> None:
        known, where, blocked = sites(trace), on_paths(trace), syncs(trace)
        inside = np.flatnonzero(~blocked.after_cell)
        self._where = where
        self._stretch = _grouped(*known.rows_on(where.path), len(known))
        on_sync = known.rows_on(sync_paths(trace)[inside])
        self._sync = _grouped(on_sync[0], inside[on_sync[1]], len(known))
        self._op = _grouped(*known.rows_on(op_paths(trace)), len(known))
        self._backward = backward_rows(trace)

    def times(self, site: int) -> tuple[tuple[Int64, Int64], Int64, Int64, Int64]:
        rows = self._stretch[site]
        stretches = self._where.start_ns[rows], self._where.end_ns[rows]
        return stretches, self._sync[site], self._op[site], self._backward.of_site(site)


class _Times:
    """Rows with their intervals."""

    def __init__(self, trace: Trace) -> None:
        self._trace, self._blocked = trace, syncs(trace)
        self._launched = trace.launch_start_ns()

    def row(
        self,
        line: int,
        code: str,
        stat: LineStat | None,
        stretches: tuple[Int64, Int64],
        sync: Int64,
        op: Int64,
        backward: Int64,
        peak_bytes: int,
    ) -> LineRow:
        if stat is None:
            return LineRow(line, code, None)
        ops, blocked = self._trace.ops, self._blocked
        waiting = union(blocked.start_ns[sync], blocked.end_ns[sync])
        return LineRow(
            line,
            code,
            stat,
            python=subtract(union(*stretches), waiting),
            waiting=waiting,
            queued=union(self._launched[op], ops.start_ns[op]),
            executing=union(ops.start_ns[op], ops.end_ns[op]),
            backward=union(ops.start_ns[backward], ops.end_ns[backward]),
            peak_bytes=peak_bytes,
        )


def _grouped(key: Int64, row: Int64, n: int) -> list[Int64]:
    """The rows of each key below n, rising."""
    order = np.argsort(key, kind="stable")
    return np.split(row[order], np.cumsum(np.bincount(key, minlength=n))[:-1]) if n else []


def _total(stats: Sequence[LineStat]) -> LineStat:
    names = ("host_ns", "n_launches", "n_ops", "device_ns", "queued_ns", "blocked_ns", "idle_ns")
    return LineStat(NO_LINE, "", *(sum(getattr(s, name) for s in stats) for name in names))


def _notes(paths: Paths | None) -> tuple[str, ...]:
    if paths is None:
        return ()
    names = [f"`{paths.functions[i].name}`" for i in paths.unfollowed]
    return (f"lines of {', '.join(names)} are not timed separately: a hot loop of plain Python",) if names else ()


def _returned_ns(trace: Trace) -> int:
    return trace.meta.end_ns if trace.meta.returned_ns is None else trace.meta.returned_ns


def _peak(trace: Trace) -> PeakByLine | None:
    from perfmagic.analysis.memory.peak import peak_by_line  # not by each timeline's text

    return peak_by_line(trace)
