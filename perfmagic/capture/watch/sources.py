"""The text of the user's functions: which statement a line belongs to, and what a reader is shown of it."""

from __future__ import annotations
import __future__

import ast
import linecache
import re
from collections.abc import Callable, Collection
from dataclasses import dataclass, field
from functools import reduce
from operator import or_
from pathlib import Path
from types import CodeType
from typing import TypeAlias

from perfmagic.trace.paths import UserFunction

# Code that torch.compile has generated for the user's: which function it belongs to, and the note that readers see.

_RESUMED = re.compile(r"^torch_dynamo_resume_in_(.+)_at_(\d+)$")
_COMPILED, _BREAK = "__compiled_fn", "__resume_at"


def is_code_compiled(code: CodeType) -> bool:
    """Whether torch.compile has made it."""
    return (
        any(name.startswith((_COMPILED, _BREAK)) for name in code.co_names) or _RESUMED.match(code.co_name) is not None
    )


def name_of(code: CodeType) -> str:
    """The name of the user's function that the code was generated for."""
    known = _RESUMED.match(code.co_name)
    return known[1] if known else code.co_name


def compiled_label(code: CodeType) -> str:
    """What a reader calls it: "model", or of what follows a graph break "model, from line 10 on"."""
    known = _RESUMED.match(code.co_name)
    return f"{known[1]}, from line {known[2]} on" if known else getattr(code, "co_qualname", code.co_name)


def compiled_note(code: CodeType, first: int, last: int) -> str:
    """The note for a compiled function: its lines are one region.  first, last: of the function."""
    resumed = _RESUMED.match(code.co_name)
    if any(name.startswith(_BREAK) for name in code.co_names):
        return f"compiled in parts: lines up to a graph break are one region, charged to line {code.co_firstlineno}"
    begin = int(resumed[2]) if resumed else first + 1
    return f"compiled: lines {begin}–{last} are one region, charged to line {code.co_firstlineno}"


WHOLE_UP_TO = 150  # lines of a function that are kept although they did not run; of a longer one those that ran
_ANONYMOUS = "<"  # lambdas, comprehensions and cells have no name to look for
_MODULE = "<module>"
_NO_PYTHON = (SyntaxError, ValueError, RecursionError, MemoryError)
_FUTURE = reduce(or_, (getattr(__future__, name).compiler_flag for name in __future__.all_feature_names))
CHANGED = "its file does not hold the code that ran, as if changed since it was loaded: no text is shown"
NO_TEXT = "its text is not at hand"


Place: TypeAlias = tuple[str, int]  # a function's name and its first line


@dataclass
class _File:
    """A file's lines, the first line of the statement each belongs to, and where functions stand.

    functions: their last lines.  may_change: it is no cell, whose text stays what it was.
    """

    lines: list[str]
    statement: dict[int, int] = field(default_factory=dict)
    functions: dict[Place, int] = field(default_factory=dict)
    may_change: bool = False
    _codes: dict[int, dict[Place, list[CodeType]]] = field(default_factory=dict)  # what it compiles to, by flags

    def is_of(self, code: CodeType) -> bool:
        """Whether this text is what a code object was made of, as far as can be known."""
        if is_code_compiled(code):
            return self.around(code) is not None
        place, flags = (code.co_name, code.co_firstlineno), code.co_flags & _FUTURE
        if not self.may_change:
            return code.co_name[:1] == _ANONYMOUS or place in self.functions
        if flags not in self._codes:
            self._codes[flags] = _codes("".join(self.lines), flags)
        return code in self._codes[flags].get(place, ())

    def around(self, code: CodeType) -> tuple[int, int] | None:
        """The first and last line of the function that compiled code was generated for."""
        name, line = name_of(code), code.co_firstlineno
        known = [
            (first, last)
            for (function, first), last in self.functions.items()
            if function == name and first <= line <= last
        ]
        return max(known, default=None)


class Sources:
    """What is known of the text of code objects, read once a file.

    label: what a file is called in front of people, "In[5]" for a cell.  cell: the code object of the measured cell.
    """

    def __init__(self, label: Callable[[str], str] | None = None, cell: CodeType | None = None) -> None:
        self._label = label or shown_path
        self._cell = cell
        self._files: dict[str, _File | None] = {}
        self._of: dict[int, tuple[CodeType, _File | None]] = {}

    def statement(self, code: CodeType, line: int) -> int:
        """The first line of the statement that a line belongs to; the line itself where that is not known."""
        file = self._file(code)
        return line if file is None else file.statement.get(line, line)

    def function(self, code: CodeType, ran: Collection[int]) -> UserFunction:
        """A code object as readers see it.  ran: its lines that ran."""
        file = self._file(code)
        first, last = code.co_firstlineno, max([code.co_firstlineno, *ran])
        note = ""
        if file is None:
            note = CHANGED if self._files[code.co_filename] is not None else NO_TEXT
        else:
            last = max(last, file.functions.get((code.co_name, first), last))
        is_compiled = is_code_compiled(code)
        if is_compiled and file is not None and (around := file.around(code)) is not None:
            first, last = around
            note = compiled_note(code, first, last)
        wanted = range(first, last + 1)
        shown = wanted if len(wanted) <= WHOLE_UP_TO and code.co_name != _MODULE else sorted(ran)
        texts = tuple((n, file.lines[n - 1].rstrip("\n")) for n in shown if file and 1 <= n <= len(file.lines))
        return UserFunction(
            name=compiled_label(code) if is_compiled else getattr(code, "co_qualname", code.co_name),  # from 3.11 on
            file=self._label(code.co_filename),
            first_line=first,
            texts=texts,
            is_cell=code is self._cell,
            note=note,
        )

    def _file(self, code: CodeType) -> _File | None:
        """The text that a code object was made of; None where that is not at hand."""
        key = id(code)
        if key not in self._of:
            self._of[key] = code, self._found(code)  # the code is kept, so that its id stays its own
        return self._of[key][1]

    def _found(self, code: CodeType) -> _File | None:
        """What linecache knows may be older than the file, and right; else the file as it is now."""
        name = code.co_filename
        if name not in self._files:
            self._files[name] = _read(name)
        file = self._files[name]
        if file is not None and not (code is self._cell or file.is_of(code)):
            linecache.checkcache(name)
            newer = self._files[name] = _read(name) or file
            file = newer if newer.is_of(code) else None
        return file


def shown_path(name: str) -> str:
    """A file's path below the working folder, else its last two parts."""
    path, here = Path(name).absolute(), Path.cwd()
    return str(path.relative_to(here)) if path.is_relative_to(here) else str(Path(*path.parts[-2:]))


def _read(name: str) -> _File | None:
    lines = linecache.getlines(name)
    if not lines:
        return None
    file = _File(lines, may_change=Path(name).is_file())
    try:
        tree = ast.parse("".join(lines))
    except _NO_PYTHON:
        return file
    for node in ast.walk(tree):
        if isinstance(node, ast.stmt):
            _note(file, node)
    return file


def _codes(text: str, flags: int) -> dict[Place, list[CodeType]]:
    """All code objects of a text, by name and first line; none where it is no Python."""
    codes: dict[Place, list[CodeType]] = {}
    try:
        left = [compile(text, "", "exec", flags=flags, dont_inherit=True)]
    except _NO_PYTHON:
        return codes
    while left:
        code = left.pop()
        codes.setdefault((code.co_name, code.co_firstlineno), []).append(code)
        left += [const for const in code.co_consts if isinstance(const, CodeType)]
    return codes


def _note(file: _File, node: ast.stmt) -> None:
    body = getattr(node, "body", None)
    last = body[0].lineno - 1 if body else node.end_lineno or node.lineno
    for line in range(node.lineno, last + 1):
        file.statement[line] = node.lineno
    if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)):
        first = min([node.lineno, *(decorator.lineno for decorator in node.decorator_list)])
        file.functions[node.name, first] = node.end_lineno or node.lineno
