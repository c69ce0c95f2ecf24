"""What every measuring magic offers the runtime of a cell."""

from __future__ import annotations

import argparse
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, Any, Protocol, runtime_checkable

from perfmagic.magics.running.options import Parser

if TYPE_CHECKING:
    from perfmagic.trace.model import Cell


class CellRun(Protocol):
    """One measured cell, from start() to finish()."""

    def start(self) -> None:
        """Run set-up code and begin to measure."""

    def finish(self, error: BaseException | None) -> None:
        """End the measurement and show it, also where the body failed."""

    def release(self) -> None:
        """Give back whatever the measurement has taken, however far it came; harmless when called again."""


@runtime_checkable
class RecordedRun(CellRun, Protocol):
    """A cell whose body runs once, with a mark before each of its lines."""

    def mark(self, line: int) -> None:
        """A statement at the cell's own level starts now."""

    def inner(self, line: int, top_line: int) -> None:
        """A statement inside the one at top_line starts now."""


@runtime_checkable
class RepeatedRun(CellRun, Protocol):
    """A cell whose body, or each of its variants, runs many times."""

    def first(self) -> Iterator[tuple[()]]:
        """The run of the next variant that counts for values and output."""

    def more(self) -> bool:
        """Whether the body, or one of several variants, is to run again."""

    def repetitions(self, which: int) -> Iterable[tuple[()]]:
        """The repetitions of a variant now; none while another variant runs."""


class CellMagic(Protocol):
    """A magic that measures a cell.

    repeated: whether begin() gives a RepeatedRun, else a RecordedRun.
    """

    repeated: bool

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
