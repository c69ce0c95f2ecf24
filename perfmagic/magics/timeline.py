"""%%timeline: when did Python queue this cell's work, and when did the device execute it?"""

from __future__ import annotations

import argparse
from typing import Any

from perfmagic.magics.running.cell_recording import CellRecording
from perfmagic.magics.running.options import Parser, add_name_option
from perfmagic.magics.running.recorded import add_recording_options
from perfmagic.results import TimelineResult
from perfmagic.trace.model import Cell
from perfmagic.trace.names import checked_pattern


class TimelineMagic:
    """Runs the cell once under the recorder."""

    repeated = False

    def parser(self) -> Parser:
        parser = Parser(
            "%%timeline", "When Python queued this cell's work, and when the device executed it.", form="[set-up code]"
        )
        add_name_option(parser)
        add_recording_options(parser)
        parser.add_argument("--save", metavar="FILE", help="also save the trace as Chrome JSON (.json or .json.gz)")
        parser.add_argument("--html", metavar="FILE", help="also write one self-contained page")
        parser.add_argument("--tensorboard", metavar="DIR", help="also write files for TensorBoard's profiler plugin")
        return parser

    def begin(self, shell: Any, cell: Cell, options: argparse.Namespace, rest: str) -> TimelineRun:
        checked_pattern(options.comm_names)
        return TimelineRun(shell, cell, options, rest)


class TimelineRun(CellRecording):
    """One recorded cell."""

    def result_of(self, failed: str, error: BaseException | None) -> TimelineResult:
        return TimelineResult(self._recorder.stop(failed), comm_names=self._options.comm_names)

    def keep(self, result: TimelineResult) -> None:
        if self._options.save:
            result.save(self._options.save)
        if self._options.html:
            result.to_html(self._options.html)
        if self._options.tensorboard:
            result.to_tensorboard(self._options.tensorboard)


MAGICS = {"timeline": TimelineMagic()}
