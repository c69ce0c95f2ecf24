"""%%timeline: when did Python queue this cell's work, and when did the device execute it?"""

from __future__ import annotations

import argparse
from typing import Any

from perfmagic.api import describe
from perfmagic.magics.running.options import Parser, add_name_option
from perfmagic.magics.running.recorded import add_recording_options, recorder_of
from perfmagic.magics.running.run import bind, compiled_setup
from perfmagic.results import TimelineResult
from perfmagic.show import show
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


class TimelineRun:
    """One recorded cell."""

    def __init__(self, shell: Any, cell: Cell, options: argparse.Namespace, rest: str) -> None:
        self._shell, self._options = shell, options
        self._setup = compiled_setup(shell, rest)
        self._recorder = recorder_of(shell, cell, options)
        self.mark, self.inner = self._recorder.marks.mark, self._recorder.marks.inner

    def start(self) -> None:
        __tracebackhide__ = True
        if self._setup is not None:
            exec(self._setup, self._shell.user_ns)  # the user's own code, as typed
        self._recorder.start()

    def finish(self, error: BaseException | None) -> None:
        if self._recorder.forked():
            return
        trace = self._recorder.stop(describe(error))
        result = TimelineResult(trace, comm_names=self._options.comm_names)
        bind(self._shell, self._options.name, result)
        show(result)
        if self._options.save:
            result.save(self._options.save)
        if self._options.html:
            result.to_html(self._options.html)
        if self._options.tensorboard:
            result.to_tensorboard(self._options.tensorboard)

    def release(self) -> None:
        self._recorder.give_back()


MAGICS = {"timeline": TimelineMagic()}
