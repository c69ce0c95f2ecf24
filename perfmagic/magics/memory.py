"""%%memory: what held the most device memory of this cell, by line and by reason, and what would lower it?"""

from __future__ import annotations

import argparse
from collections.abc import Iterable, Iterator
from typing import Any, ClassVar

from perfmagic.analysis.memory.growth import FEWEST_ROUNDS
from perfmagic.errors import OptionError
from perfmagic.magics.running.cell_recording import CellRecording
from perfmagic.magics.running.options import Parser, add_name_option
from perfmagic.magics.running.recorded import add_device_option, add_packages_option
from perfmagic.results import MemoryResult
from perfmagic.trace.model import Cell


class MemoryMagic:
    """Runs the cell once with its memory recorded, or -n times."""

    repeated = False

    def parser(self) -> Parser:
        parser = Parser("%%memory", "What held the most device memory of this cell, and why.", form="[set-up code]")
        add_name_option(parser)
        parser.add_argument(
            *("-n", "--rounds"), type=int, default=1, metavar="N", help="run the cell N times: what is left of each"
        )
        add_device_option(parser)
        add_packages_option(parser)
        return parser

    def begin(self, shell: Any, cell: Cell, options: argparse.Namespace, rest: str) -> MemoryRun:
        if options.rounds != 1 and options.rounds < FEWEST_ROUNDS:
            raise OptionError(f"-n {options.rounds}: growth shows in {FEWEST_ROUNDS} rounds or more", hint="-n 3")
        return (MemoryRun if options.rounds == 1 else MemoryRounds)(shell, cell, options, rest)


class MemoryRun(CellRecording):
    """One cell whose memory is recorded."""

    asked: ClassVar[dict[str, bool]] = {"memory": True, "shapes": False, "lines": True}

    def __init__(self, shell: Any, cell: Cell, options: argparse.Namespace, rest: str) -> None:
        super().__init__(shell, cell, options, rest)
        self._rounds_ns: list[int] = []

    def result_of(self, failed: str, error: BaseException | None) -> MemoryResult:
        rounds = [*self._rounds_ns, self._recorder.now_ns()] if self._rounds_ns else []
        trace = self._recorder.stop(failed, error)
        begun = trace.meta.base_unix_ns
        return MemoryResult(trace, rounds_ns=tuple(at - begun for at in rounds))


class MemoryRounds(MemoryRun):
    """One cell that runs several times, without marks of its lines."""

    def __init__(self, shell: Any, cell: Cell, options: argparse.Namespace, rest: str) -> None:
        super().__init__(shell, cell, options, rest)
        del self.mark, self.inner

    def first(self) -> Iterator[tuple[()]]:
        self._rounds_ns.append(self._recorder.now_ns())
        yield ()

    def more(self) -> bool:
        return len(self._rounds_ns) < int(self._options.rounds)

    def repetitions(self, _which: int) -> Iterable[tuple[()]]:
        return self.first()


MAGICS = {"memory": MemoryMagic()}
