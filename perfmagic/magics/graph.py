"""%%graph: which operator of this cell needs which, and what could have run side by side?"""

from __future__ import annotations

import argparse
from typing import Any

from perfmagic.api import describe
from perfmagic.magics.running.options import Parser, add_name_option
from perfmagic.magics.running.recorded import add_device_option, add_packages_option, recorder_of
from perfmagic.magics.running.run import bind, compiled_setup
from perfmagic.results import GraphResult
from perfmagic.show import show
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


class GraphRun:
    """One cell whose operators are noted."""

    def __init__(self, shell: Any, cell: Cell, options: argparse.Namespace, rest: str) -> None:
        self._shell, self._options = shell, options
        self._setup = compiled_setup(shell, rest)
        recorded = {"memory": False, "shapes": False, "lines": True}
        self._recorder = recorder_of(shell, cell, argparse.Namespace(**vars(options) | recorded))
        self._recorder.needs = True
        self.mark, self.inner = self._recorder.marks.mark, self._recorder.marks.inner

    def start(self) -> None:
        __tracebackhide__ = True
        if self._setup is not None:
            exec(self._setup, self._shell.user_ns)  # the user's own code, as typed
        self._recorder.start()

    def finish(self, error: BaseException | None) -> None:
        if self._recorder.forked():
            return
        trace = self._recorder.stop(describe(error), error)
        result = GraphResult(trace, self._recorder.seen())
        bind(self._shell, self._options.name, result)
        show(result)

    def release(self) -> None:
        self._recorder.give_back()


MAGICS = {"graph": GraphMagic()}
