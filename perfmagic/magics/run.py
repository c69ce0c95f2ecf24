"""What every measuring magic offers the runtime of a cell."""

from __future__ import annotations

import argparse
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, Any, Protocol

from perfmagic.magics.options import Parser

if TYPE_CHECKING:
    from perfmagic.trace.model import Cell


class CellRun(Protocol):
    """One measured cell, from start() to finish()."""

    def start(self) -> None:
        """Run set-up code and begin to measure."""

    def mark(self, line: int) -> None: ...

    def inner(self, line: int, top_line: int) -> None: ...

    def first(self) -> Iterator[tuple[()]]: ...

    def turn(self) -> bool: ...

    def steps(self, which: int) -> Iterable[tuple[()]]: ...

    def finish(self, error: BaseException | None) -> None:
        """End the measurement and show it, also where the body failed."""

    def release(self) -> None:
        """Give back whatever the measurement has taken, however far it came; harmless when called again."""


class CellMagic(Protocol):
    """A magic that measures a cell."""

    repeated: bool  # whether the body runs many times

    def parser(self) -> Parser: ...

    def begin(self, shell: Any, cell: Cell, options: argparse.Namespace, rest: str) -> CellRun: ...


def bind(shell: Any, name: str | None, result: object) -> None:
    """`-o NAME`."""
    if name:
        shell.user_ns[name] = result


def compiled_setup(shell: Any, text: str) -> Any:
    """Set-up code from the magic's line as a code object, None where there is none."""
    if not text:
        return None
    source = shell.transform_cell(text)
    number = len(shell.history_manager.input_hist_parsed) - 1  # of the cell that runs, as its own lines are shown
    return compile(source, shell.compile.cache(source, number), "exec", dont_inherit=True)
