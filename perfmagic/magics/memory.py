"""%%memory: what held the most device memory of this cell, by line and by reason, and what would lower it?"""

from __future__ import annotations

import argparse
from collections.abc import Iterable, Iterator
from typing import Any

from perfmagic.analysis.memory.growth import FEWEST_ROUNDS
from perfmagic.api import describe
from perfmagic.errors import OptionError
from perfmagic.magics.running.options import Parser, add_name_option
from perfmagic.magics.running.recorded import add_device_option, add_packages_option, recorder_of
from perfmagic.magics.running.run import bind, compiled_setup
from perfmagic.results import MemoryResult
from perfmagic.show import show
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


class MemoryRun:
    """One cell whose memory is recorded."""

    def __init__(self, shell: Any, cell: Cell, options: argparse.Namespace, rest: str) -> None:
        self._shell, self._options = shell, options
        self._setup = compiled_setup(shell, rest)
        recorded = {"memory": True, "shapes": False, "lines": True}
        options = argparse.Namespace(**vars(options) | recorded)
        self._recorder = recorder_of(shell, cell, options)
        self._rounds_ns: list[int] = []
        if self._options.rounds == 1:
            self.mark, self.inner = self._recorder.marks.mark, self._recorder.marks.inner

    def start(self) -> None:
        __tracebackhide__ = True
        if self._setup is not None:
            exec(self._setup, self._shell.user_ns)  # the user's own code, as typed
        self._recorder.start()

    def finish(self, error: BaseException | None) -> None:
        if self._recorder.forked():
            return
        rounds = [*self._rounds_ns, self._recorder.now_ns()] if self._rounds_ns else []
        trace = self._recorder.stop(describe(error), error)
        begun = trace.meta.base_unix_ns
        result = MemoryResult(trace, rounds_ns=tuple(at - begun for at in rounds))
        bind(self._shell, self._options.name, result)
        show(result)

    def release(self) -> None:
        self._recorder.give_back()


class MemoryRounds(MemoryRun):
    """One cell that runs several times."""

    def first(self) -> Iterator[tuple[()]]:
        self._rounds_ns.append(self._recorder.now_ns())
        yield ()

    def more(self) -> bool:
        return len(self._rounds_ns) < int(self._options.rounds)

    def repetitions(self, _which: int) -> Iterable[tuple[()]]:
        return self.first()


MAGICS = {"memory": MemoryMagic()}
