"""Where in the user's code something was: the cell's lines, or the innermost line of a function and who called it."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np

from perfmagic import units
from perfmagic.analysis.findings.facts import Facts, listed, on_lines
from perfmagic.analysis.timeline.by_path import call_paths, on_paths, sites, sync_paths
from perfmagic.numerics.intervals import Intervals, covered_ns
from perfmagic.trace.columns import NO_LINE, Int64
from perfmagic.trace.model import Trace
from perfmagic.trace.paths import NOWHERE, Paths

MOST_PLACES = 2  # in a sentence
MOSTLY = 0.6  # of what is told: less is spread over lines, and the line that called them is said
LEAST_SHARE = 0.2  # of what is told: a place with less is one of "others"


def on_sync_lines(facts: Facts, rows: Int64) -> str:
    """Where some blocking calls were made: " on line 7", " on line 4 of train_step, called from line 6"."""
    found = facts.syncs
    return _words(facts.trace, sync_paths(facts.trace)[rows], found.blocked_ns[rows], found.line[rows].tolist())


def on_call_lines(facts: Facts, rows: Int64, most: int | None = None) -> str:
    """Where some calls were made, weighed by how long they took.  most: so many lines of the cell at most."""
    calls = facts.trace.calls
    lines = np.unique(calls.line[rows])[:most].tolist()
    return _words(facts.trace, call_paths(facts.trace)[rows], (calls.end_ns - calls.start_ns)[rows], lines)


def on_time_lines(facts: Facts, where: Intervals, lines: Iterable[int]) -> str:
    """Where Python was in some time.  lines: of the cell, said where no function is known."""
    path, ns = time_on_paths(facts.trace, where)
    return _words(facts.trace, path, ns, lines)


def time_on_paths(trace: Trace, where: Intervals) -> tuple[Int64, Int64]:
    """How long the thread that ran the cell was on which path in some time, a row for each stretch."""
    found = on_paths(trace)
    if trace.paths is None or not len(where):
        return np.zeros(0, np.int64), np.zeros(0, np.int64)
    mine = np.flatnonzero(found.thread == trace.paths.main_thread)
    return found.path[mine], covered_ns(where, found.start_ns[mine], found.end_ns[mine])


def _words(trace: Trace, path: Int64, weight: Int64, lines: Iterable[int]) -> str:
    paths = trace.paths
    if paths is None or not weight.sum():
        return on_lines(lines)
    ordered, rows = by_place(paths, path, weight)
    told = [place for place, value in ordered if value >= LEAST_SHARE * weight.sum()][:MOST_PLACES]
    if sum(dict(ordered)[place] for place in told) < MOSTLY * weight.sum():
        return _around(trace, path, weight, rows) or on_lines(lines)
    if not told or all(paths.functions[f].is_cell for f, _ in told):
        return on_lines(lines)
    more = len(ordered) - len(told) if len(told) == MOST_PLACES else 0
    others = [units.plural(more, "other line")] if more else []
    words = listed([*(place_words(paths, place) for place in told), *others])
    callers = _callers(paths, rows, told)
    return f" on {words}{callers}"


def by_place(paths: Paths, path: Int64, weight: Int64) -> tuple[list[tuple[tuple[int, int], int]], list[int]]:
    """Some weights, each of a path, by its innermost line, the largest first; and the paths that have any.

    A line is a row of functions and a number.
    """
    of_path = np.zeros(len(paths), np.int64)
    np.add.at(of_path, path, weight)
    rows = [row for row in np.flatnonzero(of_path).tolist() if row != NOWHERE]
    found: dict[tuple[int, int], int] = {}
    for row in rows:
        key = int(paths.function[row]), int(paths.line[row])
        found[key] = found.get(key, 0) + int(of_path[row])
    return sorted(found.items(), key=lambda item: (-item[1], item[0])), rows


def _around(trace: Trace, path: Int64, weight: Int64, rows: list[int]) -> str:
    """The innermost line, of a function, that was on the stack for most of it: " mostly on line 13 of epoch"."""
    paths, known = trace.paths, sites(trace)
    if paths is None:
        return ""
    depth: dict[tuple[int, int], int] = {}
    for row in rows:
        for above, one in enumerate(reversed(paths.chain(row))):
            key = int(paths.function[one]), int(paths.line[one])
            depth[key] = max(depth.get(key, 0), above)
    on_stack = known.charged(path, weight)
    pairs = zip(known.function.tolist(), known.line.tolist(), on_stack.tolist(), strict=True)
    held = [((f, n), value) for f, n, value in pairs if value >= MOSTLY * weight.sum() and (f, n) in depth]
    if not held:
        return ""
    place, _ = max(held, key=lambda item: (depth[item[0]], item[1]))
    if paths.functions[place[0]].is_cell:
        return ""
    of_it = [row for row in range(1, len(paths)) if (int(paths.function[row]), int(paths.line[row])) == place]
    return f" mostly on {place_words(paths, place)}{_callers(paths, of_it, [place])}"


def place_words(paths: Paths, place: tuple[int, int]) -> str:
    """A row of functions and a line in words: "line 14 of train_step", "line 7" of the cell."""
    function = paths.functions[place[0]]
    if place[0] in paths.let_go:
        return f"lines of {function.name}"
    return f"line {place[1]}" if function.is_cell else f"line {place[1]} of {function.name}"


def _callers(paths: Paths, rows: list[int], told: list[tuple[int, int]]) -> str:
    """The cell's lines above some places, else the line that called them: ", called from line 6"."""
    mine = [row for row in rows if (int(paths.function[row]), int(paths.line[row])) in told]
    of_functions = [row for row in mine if not paths.functions[int(paths.function[row])].is_cell]
    cell = sorted({int(paths.cell_line[row]) for row in of_functions} - {NO_LINE})
    if cell:
        words = on_lines(cell).removeprefix(" on ")
        return f", called from {words}" if len(cell) <= 3 else f", called from {len(cell)} lines"
    above = dict.fromkeys(int(paths.parent[row]) for row in of_functions)
    known = [place_words(paths, (int(paths.function[row]), int(paths.line[row]))) for row in above if row != NOWHERE]
    return f", called from {known[0]}" if len(known) == 1 else ""
