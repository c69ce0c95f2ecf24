"""The text of the user's functions: which statement a line belongs to, and what a reader is shown of it."""

from __future__ import annotations

import ast
import linecache
from collections.abc import Callable, Collection
from dataclasses import dataclass, field
from pathlib import Path
from types import CodeType

from perfmagic.trace.paths import UserFunction

WHOLE_UP_TO = 150  # lines of a function that are kept although they did not run; of a longer one those that ran
_ANONYMOUS = "<"  # lambdas, comprehensions and cells have no name to look for
_MODULE = "<module>"
CHANGED = "its file has changed since it was loaded: no text is shown"
NO_TEXT = "its text is not at hand"


@dataclass
class _File:
    """A file's lines, the first line of the statement each belongs to, and where functions stand.

    functions: (name, first line) to the last line.
    """

    lines: list[str]
    statement: dict[int, int] = field(default_factory=dict)
    functions: dict[tuple[str, int], int] = field(default_factory=dict)


class Sources:
    """What is known of the text of code objects, read once a file.

    label: what a file is called in front of people, "In[5]" for a cell.  cell: the code object of the measured cell.
    """

    def __init__(self, label: Callable[[str], str] | None = None, cell: CodeType | None = None) -> None:
        self._label = label or shown_path
        self._cell = cell
        self._files: dict[str, _File | None] = {}

    def statement(self, code: CodeType, line: int) -> int:
        """The first line of the statement that a line belongs to; the line itself where that is not known."""
        file = self._file(code.co_filename)
        return line if file is None else file.statement.get(line, line)

    def function(self, code: CodeType, ran: Collection[int]) -> UserFunction:
        """A code object as readers see it.  ran: its lines that ran."""
        file = self._file(code.co_filename)
        first, last = code.co_firstlineno, max([code.co_firstlineno, *ran])
        note = ""
        if file is None:
            note = NO_TEXT
        elif code.co_name[:1] != _ANONYMOUS:
            known = file.functions.get((code.co_name, first))
            if known is None or known < last:
                file, note = None, CHANGED
            else:
                last = known
        wanted = range(first, last + 1)
        shown = wanted if len(wanted) <= WHOLE_UP_TO and code.co_name != _MODULE else sorted(ran)
        texts = tuple((n, file.lines[n - 1].rstrip("\n")) for n in shown if file and 1 <= n <= len(file.lines))
        return UserFunction(
            name=getattr(code, "co_qualname", code.co_name),  # from Python 3.11 on
            file=self._label(code.co_filename),
            first_line=first,
            texts=texts,
            is_cell=code is self._cell,
            note=note,
        )

    def _file(self, name: str) -> _File | None:
        if name not in self._files:
            self._files[name] = _read(name)
        return self._files[name]


def shown_path(name: str) -> str:
    """A file's path below the working folder, else its last two parts."""
    path, here = Path(name).absolute(), Path.cwd()
    return str(path.relative_to(here)) if path.is_relative_to(here) else str(Path(*path.parts[-2:]))


def _read(name: str) -> _File | None:
    lines = linecache.getlines(name)
    if not lines:
        return None
    file = _File(lines)
    try:
        tree = ast.parse("".join(lines))
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return file
    for node in ast.walk(tree):
        if isinstance(node, ast.stmt):
            _note(file, node)
    return file


def _note(file: _File, node: ast.stmt) -> None:
    body = getattr(node, "body", None)
    last = body[0].lineno - 1 if body else node.end_lineno or node.lineno
    for line in range(node.lineno, last + 1):
        file.statement[line] = node.lineno
    if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)):
        first = min([node.lineno, *(one.lineno for one in node.decorator_list)])
        file.functions[node.name, first] = node.end_lineno or node.lineno
