"""%%graph: which operator of this cell needs which, and what could have run side by side?"""

from __future__ import annotations

import argparse
from typing import Any, ClassVar

from perfmagic.api.options import DeviceOptions
from perfmagic.capture.devices.backends import require_torch
from perfmagic.magics.running.options import Parser
from perfmagic.magics.running.recording import CellRecording
from perfmagic.results import GraphResult
from perfmagic.trace.model import Cell


class GraphMagic:
    """Runs the cell once, recorded, with each operator's reads and writes noted."""

    repeated = False

    def parser(self) -> Parser:
        parser = Parser(
            "%%graph", "Which operator needs which, and what could have run side by side.", form="[set-up code]"
        )
        parser.add_name("the result, a `GraphResult`,")
        parser.add_keywords(DeviceOptions, "device", "packages")
        return parser

    def begin(self, shell: Any, cell: Cell, options: argparse.Namespace, rest: str) -> GraphRun:
        require_torch("%%graph")
        return GraphRun(shell, cell, options, rest)


class GraphRun(CellRecording):
    """One cell whose operators are noted."""

    always: ClassVar[dict[str, bool]] = {"memory": False, "shapes": False, "lines": True}

    def __init__(self, shell: Any, cell: Cell, options: argparse.Namespace, rest: str) -> None:
        super().__init__(shell, cell, options, rest)
        self._recorder.needs = True

    def make_result(self, failed: str, error: BaseException | None) -> GraphResult:
        trace = self._recorder.stop(failed, error)
        return GraphResult(trace, self._recorder.seen())


MAGICS = {"graph": GraphMagic()}
