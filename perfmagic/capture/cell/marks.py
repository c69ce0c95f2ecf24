"""Which line of the cell was running, and when: marks put before its statements.

A mark is one call before a statement, `__perfmagic__.mark(line)`; launches are matched to marks by time afterwards, so
operators (`a @ b`), which no stack-based method can place, and launches by other threads get their line too.
Statements at the cell's own level are marked, also inside its loops, branches and with-blocks. Bodies of functions,
classes and lambdas are not: they outlive the cell and would keep their marks.
"""

from __future__ import annotations

import ast
import time
from array import array
from collections.abc import Callable, Sequence
from typing import Any

RUNTIME = "__perfmagic__"  # the one name the instrumented cell refers to; it lives in builtins, never in user_ns
INNER_MARKS_LIMIT = 100_000  # of statements inside loops: 2.4 MB; then only top level

_BLOCKS = ("body", "orelse", "finalbody")
_COMPOUND: tuple[type[ast.stmt], ...] = (ast.For, ast.AsyncFor, ast.While, ast.If, ast.With, ast.AsyncWith, ast.Try)
_COMPOUND += tuple(getattr(ast, name) for name in ("TryStar", "Match") if hasattr(ast, name))
_LOOPS = (ast.For, ast.AsyncFor, ast.While)
_NOTHING_RUNS = (ast.Global, ast.Nonlocal, ast.Pass, ast.Break, ast.Continue)


def marked(body: Sequence[ast.stmt]) -> list[ast.stmt]:
    """The statements with a mark before each; those inside loops and branches are marked in place."""
    out: list[ast.stmt] = []
    for statement in body:
        out.append(call_at(statement, "mark", statement.lineno))
        _mark_inside(statement, statement.lineno)
        out.append(statement)
    return out


def call_at(where: ast.stmt, method: str, *args: int | str) -> ast.Expr:
    """The statement `__perfmagic__.method(*args)`, located where another statement stands."""
    target = ast.Attribute(ast.Name(RUNTIME, ast.Load()), method, ast.Load())
    call: ast.Expr = located(ast.Expr(ast.Call(target, [ast.Constant(a) for a in args], [])), where)
    return call


def located(new: Any, where: ast.stmt | ast.expr) -> Any:
    """Give a new node and all below it the place of an existing one's first line, for tracebacks.

    Not its last line, too: CPython counts a call that spans lines to the last one, and whoever follows lines would see
    a loop go from its first line to its last and back.
    """
    node: Any
    for node in ast.walk(new):
        ast.copy_location(node, where)
        if where.end_lineno != where.lineno:
            node.end_lineno, node.end_col_offset = where.lineno, where.col_offset
    return new


def _mark_inside(statement: ast.stmt, top_line: int) -> None:
    if not isinstance(statement, _COMPOUND):
        return
    for block in _BLOCKS:
        if inner := getattr(statement, block, None):
            setattr(statement, block, _marked_block(inner, top_line))
    for part in (*getattr(statement, "handlers", ()), *getattr(statement, "cases", ())):
        part.body = _marked_block(part.body, top_line)
    if isinstance(statement, _LOOPS):  # the header runs again after the body: fetching the next item is its work
        statement.body.append(call_at(statement, "inner", statement.lineno, top_line))


def _marked_block(block: list[ast.stmt], top_line: int) -> list[ast.stmt]:
    out: list[ast.stmt] = []
    for statement in block:
        if not isinstance(statement, _NOTHING_RUNS):
            out.append(call_at(statement, "inner", statement.lineno, top_line))
            _mark_inside(statement, top_line)
        out.append(statement)
    return out


class MarkLog:
    """Collects marks, one call and no object kept for each."""

    def __init__(self, now_ns: Callable[[], int] = time.perf_counter_ns, inner_limit: int = INNER_MARKS_LIMIT) -> None:
        self._rows = array("q")
        self._now_ns = now_ns
        self._inner_left = inner_limit
        self.inner_dropped = False
        self.when_full: Callable[[], None] = lambda: None  # called once, at the first mark that is not kept

    def mark(self, line: int) -> None:
        """A top-level statement at this line starts now."""
        self._rows.extend((self._now_ns(), line, line))

    def inner(self, line: int, top_line: int) -> None:
        """A statement inside the top-level statement at top_line starts now."""
        if self._inner_left > 0:
            self._inner_left -= 1
            self._rows.extend((self._now_ns(), line, top_line))
        elif not self.inner_dropped:
            self.inner_dropped = True  # what follows counts to the whole statement
            self._rows.extend((self._now_ns(), top_line, top_line))
            self.when_full()

    def columns(self, offset_ns: int, end_ns: int) -> dict[str, Any]:
        """The marks as LineMarks columns, shifted by offset_ns, closed by a line 0 at end_ns (already shifted)."""
        import numpy as np  # here, because %load_ext needs this module and must stay light

        rows = np.array(self._rows, np.int64).reshape(-1, 3)
        close = np.array([[end_ns - offset_ns, 0, 0]], np.int64)
        rows = np.concatenate((rows, close)) if len(rows) else rows
        return {"at_ns": rows[:, 0] + offset_ns, "line": rows[:, 1], "top_line": rows[:, 2]}
