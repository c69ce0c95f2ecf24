"""The magics as IPython knows them: for `?`, completion, run_cell_magic and the line form."""

from __future__ import annotations

import ast
import builtins
from typing import Any

from IPython.core.error import UsageError

from perfmagic.capture.cell.marks import RUNTIME
from perfmagic.capture.cell.source import Head
from perfmagic.errors import PerfmagicError, RanksError
from perfmagic.magics.running.names import cell_magic, line_magic, sent_magic


class NamedMagic:
    """The real magic behind `%%name`."""

    def __init__(self, shell: Any, name: str) -> None:
        self._shell, self.__name__ = shell, name

    def __call__(self, line: str, cell: str | None = None) -> object:
        __tracebackhide__ = True
        if cell is None:
            return _run_line(self._shell, self.__name__, line)
        return _run_cell(self._shell, self.__name__, line, cell)


class MisplacedMagic:
    """`%%name` below the first line of a cell, which IPython takes for a line magic called `%name`."""

    def __init__(self, name: str) -> None:
        self.__name__ = f"%{name}"

    def __call__(self, _line: str) -> None:
        raise UsageError(f"%{self.__name__} must be the first line of its cell: move it to the top")


class SentMagic:
    """A cell magic whose text goes elsewhere as typed: %%ranks."""

    def __init__(self, shell: Any, name: str) -> None:
        self._shell, self.__name__ = shell, name

    def __call__(self, line: str, cell: str) -> object:
        __tracebackhide__ = True
        try:
            return sent_magic(self.__name__).run(self._shell, line, as_edited(self._shell, self.__name__, line, cell))
        except RanksError:
            raise
        except PerfmagicError as error:
            raise UsageError(str(error)) from None


def as_edited(shell: Any, name: str, line: str, cell: str) -> str:
    """The cell with its magic's line, at the lines where the editor has them: below blank lines, or another magic."""
    head = f"%%{name} {line}".rstrip() + "\n"
    rows = shell.history_manager.input_hist_raw
    typed = rows[-1] if rows else ""
    above = typed.rstrip().rpartition(cell.rstrip())[0] if cell.strip() else ""
    return "\n" * max(0, above.count("\n") - 1) + head + cell


class LineMagic:
    """A magic without a body: %trace, %perfmagic."""

    def __init__(self, shell: Any, name: str) -> None:
        self._shell, self.__name__ = shell, name

    def __call__(self, line: str) -> object:
        __tracebackhide__ = True
        try:
            return line_magic(self.__name__).run(self._shell, line)
        except PerfmagicError as error:
            raise UsageError(str(error)) from None


# the help is made on request: at load time it would import the measuring engine
NamedMagic.__doc__ = property(lambda self: cell_magic(self.__name__).parser().format_help())  # type: ignore[assignment]
LineMagic.__doc__ = property(  # type: ignore[assignment]
    lambda self: line_magic(self.__name__).parser().format_help()
)
SentMagic.__doc__ = property(  # type: ignore[assignment]
    lambda self: sent_magic(self.__name__).parser().format_help()
)


def _run_line(shell: Any, name: str, line: str) -> object:
    """`%bench statement`: measured in the user's namespace; returns the result."""
    __tracebackhide__ = True
    parser = cell_magic(name).parser()
    try:
        options, statement = parser.split(line)
    except PerfmagicError as error:
        raise UsageError(str(error)) from None
    if options.help:
        print(parser.format_help())
        return None
    if not statement:
        raise UsageError(f"%{name}: no statement to measure; %{name} -h lists the options")
    option_words = line.rstrip().removesuffix(statement).strip().removesuffix("--")
    if getattr(options, "vs", False):
        raise UsageError(f"%{name} --vs: a line has one statement; use %%{name} --vs with a line  # --- B  between two")
    literal = Head(name, option_words).literal()
    tree = shell.compile.ast_parse(f"{literal}\n{shell.transform_cell(statement)}")
    ast.increment_lineno(tree, -1)  # the statement is line 1 of what is measured, and the head shares that line
    ast.increment_lineno(tree.body[0], 1)
    _execute(shell, tree, statement)
    from perfmagic.show import last

    return last()


def _run_cell(shell: Any, name: str, line: str, cell: str) -> object:
    """`run_cell_magic("bench", …)` from code: returns the value of the cell's last expression."""
    __tracebackhide__ = True
    source = f"%%{name} {line}\n{cell}"
    return _execute(shell, shell.compile.ast_parse(shell.transform_cell(source)), source)


def _execute(shell: Any, tree: ast.Module, source: str) -> object:
    __tracebackhide__ = True
    tree = shell.transform_ast(tree)
    filename = shell.compile.cache(source, len(shell.history_manager.input_hist_parsed) - 1)
    try:
        code = compile(tree, filename, "exec", dont_inherit=True)
    except SyntaxError as error:
        if "await" not in str(error.msg):
            raise
        raise UsageError(
            "await works in a cell that begins with the magic, not in a line magic or run_cell_magic"
        ) from None
    exec(code, shell.user_ns)  # the user's own code, as typed
    return getattr(builtins, RUNTIME).take()
