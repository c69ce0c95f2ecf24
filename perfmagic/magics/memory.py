"""%%memory: what held the most device memory of this cell, by line and by reason, and what would lower it?"""

from __future__ import annotations

import argparse
from collections.abc import Iterable, Iterator
from typing import Any, ClassVar

from perfmagic.analysis.memory.peak import FEWEST_ROUNDS
from perfmagic.api.options import DeviceOptions, Option
from perfmagic.base.errors import OptionError
from perfmagic.capture.devices.backends import require_torch
from perfmagic.magics.running.options import Parser
from perfmagic.magics.running.recording import CellRecording
from perfmagic.results import MemoryResult
from perfmagic.trace.model import Cell

_ROUNDS = Option(
    "run the cell N times, three or more, and say by line what each round leaves",
    1,
    name="rounds",
    short="-n",
    metavar="N",
    type=int,
)


class MemoryMagic:
    """Runs the cell once with its memory recorded, or -n times."""

    repeated = False

    def parser(self) -> Parser:
        parser = Parser("%%memory", "What held the most device memory of this cell, and why.", form="[set-up code]")
        parser.add_name("the result, a `MemoryResult`,")
        parser.add(_ROUNDS)
        parser.add_keywords(DeviceOptions, "device", "packages")
        return parser

    def begin(self, shell: Any, cell: Cell, options: argparse.Namespace, rest: str) -> MemoryRun:
        if options.rounds != 1 and options.rounds < FEWEST_ROUNDS:
            raise OptionError(f"-n {options.rounds}: growth shows in {FEWEST_ROUNDS} rounds or more", hint="-n 3")
        require_torch("%%memory")
        return (MemoryRun if options.rounds == 1 else MemoryRounds)(shell, cell, options, rest)


class MemoryRun(CellRecording):
    """One cell whose memory is recorded."""

    always: ClassVar[dict[str, bool]] = {"memory": True, "shapes": False, "lines": True}

    def __init__(self, shell: Any, cell: Cell, options: argparse.Namespace, rest: str) -> None:
        super().__init__(shell, cell, options, rest)
        self._rounds_ns: list[int] = []

    def make_result(self, failed: str, error: BaseException | None) -> MemoryResult:
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
