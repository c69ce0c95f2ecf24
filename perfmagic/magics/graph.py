"""%%graph: which operator of this cell needs which, and what could have run side by side?"""

from __future__ import annotations

import argparse
from typing import Any, ClassVar

from perfmagic.magics.running.cell_recording import CellRecording
from perfmagic.magics.running.options import Parser, add_name_option
from perfmagic.magics.running.recorded import add_device_option, add_packages_option
from perfmagic.results import GraphResult
from perfmagic.trace.model import Cell


class GraphMagic:
    """Runs the cell once, recorded, with each operator's reads and writes noted."""

    repeated = False

    def parser(self) -> Parser:
        parser = Parser(
            "%%graph", "Which operator needs which, and what could have run side by side.", form="[set-up code]"
        )
        add_name_option(parser)
        add_device_option(parser)
        add_packages_option(parser)
        return parser

    def begin(self, shell: Any, cell: Cell, options: argparse.Namespace, rest: str) -> GraphRun:
        return GraphRun(shell, cell, options, rest)


class GraphRun(CellRecording):
    """One cell whose operators are noted."""

    asked: ClassVar[dict[str, bool]] = {"memory": False, "shapes": False, "lines": True}

    def __init__(self, shell: Any, cell: Cell, options: argparse.Namespace, rest: str) -> None:
        super().__init__(shell, cell, options, rest)
        self._recorder.needs = True

    def result_of(self, failed: str, error: BaseException | None) -> GraphResult:
        trace = self._recorder.stop(failed, error)
        return GraphResult(trace, self._recorder.seen())


MAGICS = {"graph": GraphMagic()}
