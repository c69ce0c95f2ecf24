"""One run of a recorded cell: what %%timeline, %%memory and %%graph have in common."""

from __future__ import annotations

import argparse
from abc import ABC, abstractmethod
from typing import Any, ClassVar

from perfmagic.api import describe
from perfmagic.magics.running.recorded import recorder_of
from perfmagic.magics.running.run import bind, compiled_setup
from perfmagic.show import show
from perfmagic.trace.model import Cell


class CellRecording(ABC):
    """One cell that runs once, recorded: set up, begun, shown, given back.

    asked: what is recorded whatever the options say.
    """

    asked: ClassVar[dict[str, bool]] = {}

    def __init__(self, shell: Any, cell: Cell, options: argparse.Namespace, rest: str) -> None:
        self._shell, self._options = shell, options
        self._setup = compiled_setup(shell, rest)
        self._recorder = recorder_of(shell, cell, argparse.Namespace(**{**vars(options), **self.asked}))
        self._recorder.keeps_interrupted = True
        self.mark, self.inner = self._recorder.marks.mark, self._recorder.marks.inner

    def start(self) -> None:
        __tracebackhide__ = True
        if self._setup is not None:
            exec(self._setup, self._shell.user_ns)  # the user's own code, as typed
        self._recorder.start()

    def finish(self, error: BaseException | None) -> None:
        if self._recorder.forked():
            return
        result = self.result_of(describe(error), error)
        bind(self._shell, self._options.name, result)
        show(result)
        self.keep(result)
        self._recorder.raise_stopped(error)

    def release(self) -> None:
        self._recorder.give_back()

    @abstractmethod
    def result_of(self, failed: str, error: BaseException | None) -> Any:
        """End the recording and give what is shown.  failed: the error in words, "" without one."""

    def keep(self, result: Any) -> None:  # noqa: B027 - most keep nothing
        """Save the result where the options ask for it."""
