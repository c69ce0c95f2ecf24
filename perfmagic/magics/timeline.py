"""%%timeline: when did Python queue this cell's work, and when did the device execute it?"""

from __future__ import annotations

import argparse
from typing import Any

from perfmagic.api.options import Option, ReadOptions, RecordOptions
from perfmagic.magics.running.options import Parser, path_to_write
from perfmagic.magics.running.recording import CellRecording, with_clock_note
from perfmagic.results import TimelineResult
from perfmagic.trace.model import Cell
from perfmagic.trace.names import checked_pattern

_FILES = (
    Option("also save the trace as Chrome JSON (.json or .json.gz), for Perfetto", name="save", metavar="FILE"),
    Option("also write one self-contained page", name="html", metavar="FILE"),
    Option(
        "also write files for TensorBoard's PyTorch profiler plugin",
        name="tensorboard",
        metavar="DIR",
        more=" (`pip install 'perfmagic[tensorboard]'`)",
    ),
)


class TimelineMagic:
    """Runs the cell once under the recorder."""

    repeated = False

    def parser(self) -> Parser:
        parser = Parser(
            "%%timeline", "When Python queued this cell's work, and when the device executed it.", form="[set-up code]"
        )
        parser.add_name()
        parser.add_keywords(RecordOptions, "device")
        parser.add_keywords(ReadOptions, "comm_names")
        parser.add_keywords(RecordOptions, "memory", "shapes", "lines", "packages")
        for option in _FILES:
            parser.add(option, type=path_to_write)
        return parser

    def begin(self, shell: Any, cell: Cell, options: argparse.Namespace, rest: str) -> TimelineRun:
        checked_pattern(options.comm_names)
        return TimelineRun(shell, cell, options, rest)


class TimelineRun(CellRecording):
    """One recorded cell."""

    def make_result(self, failed: str, error: BaseException | None) -> TimelineResult:
        trace = with_clock_note(self._recorder.stop(failed), self._shell)
        return TimelineResult(trace, comm_names=self._options.comm_names)

    def save(self, result: TimelineResult) -> None:
        if self._options.save:
            result.save(self._options.save)
        if self._options.html:
            result.to_html(self._options.html)
        if self._options.tensorboard:
            result.to_tensorboard(self._options.tensorboard)


MAGICS = {"timeline": TimelineMagic()}
