"""One run of a recorded cell: what %%timeline, %%memory and %%graph share."""

from __future__ import annotations

import argparse
from abc import ABC, abstractmethod
from dataclasses import replace
from functools import partial
from typing import Any, ClassVar

from perfmagic.api.show import show
from perfmagic.api.timelines import describe
from perfmagic.base.errors import OptionError
from perfmagic.capture.devices.backends import synchronize
from perfmagic.capture.other_clocks import note_once
from perfmagic.capture.owner import Owner
from perfmagic.capture.recording.on_gpus import OnGpus, check_options, models_named
from perfmagic.capture.recording.recorder import Recorder
from perfmagic.capture.watch.sources import shown_path
from perfmagic.trace.columns import Remark
from perfmagic.trace.kineto.reader import run_without_gc
from perfmagic.trace.model import Cell, Trace


def code_label(shell: Any, filename: str) -> str:
    """What users call a file of code: "In[5]" for a cell."""
    if hasattr(shell.compile, "format_code_name"):
        named = shell.compile.format_code_name(filename)
        return named[1] if named else shown_path(filename)
    # IPython 7 gives no way back from a name to its cell
    for number, source in reversed(list(enumerate(shell.history_manager.input_hist_raw))):
        if shell.compile.get_code_name(source, source, number) == filename:
            return f"In[{number}]"
    return shown_path(filename)


def with_clock_note(trace: Trace, shell: Any) -> Trace:
    """A cell's trace with a note, once a session, that the cell read another clock than the device's virtual one."""
    note = note_once(trace.cell.source, shell.user_ns) if trace.cell is not None else None
    if note is None:
        return trace
    notes = (Remark("other_clock", note), *trace.meta.notes)  # a short text shows the first one
    return replace(trace, meta=replace(trace.meta, notes=notes))


def bind(shell: Any, name: str | None, result: object) -> None:
    """`-o NAME`."""
    if name:
        shell.user_ns[name] = result


def compiled_setup(shell: Any, text: str) -> Any:
    """Set-up code from the magic's line as a code object, None where there is none."""
    if not text:
        return None
    source = shell.transform_cell(text)
    number = len(shell.history_manager.input_hist_parsed) - 1  # of the cell that runs, as its own lines are shown
    return compile(source, shell.compile.cache(source, number), "exec", dont_inherit=True)


class CellRecording(ABC):
    """One cell that runs once under the recorder.

    always: what is recorded whatever the options say.
    """

    always: ClassVar[dict[str, bool]] = {}

    def __init__(self, shell: Any, cell: Cell, options: argparse.Namespace, rest: str) -> None:
        self._shell, self._options = shell, options
        self.option_error: OptionError | None = None
        self._setup = compiled_setup(shell, rest)
        self._on = _on_gpus(vars(options))
        self._owner = Owner()
        self._recorder = _recorder_for(shell, cell, {**vars(options), **self.always})
        self.mark, self.inner = self._recorder.marks.mark, self._recorder.marks.inner

    def start(self) -> None:
        __tracebackhide__ = True
        if self._on is not None:
            synchronize()  # here, as acquiring cannot be interrupted
            self._owner.acquire(self._on)
        if self._setup is not None:
            exec(self._setup, self._shell.user_ns)  # the user's own code, as typed
        self._recorder.start()

    def finish(self, error: BaseException | None) -> None:
        if self._recorder.forked():
            return
        run_without_gc(partial(self._finish, error))
        self._recorder.raise_stopped(error)

    def _finish(self, error: BaseException | None) -> None:
        result = self.make_result(describe(error), error)
        bind(self._shell, self._options.variable, result)
        show(result)
        self.save(result)

    def release(self) -> None:
        try:
            self._recorder.give_back()
        finally:
            self._owner.close()

    @abstractmethod
    def make_result(self, failed: str, error: BaseException | None) -> Any:
        """End the recording and return its result.  failed: the error in one line, "" without one."""

    def save(self, result: Any) -> None:  # noqa: B027 - most save nothing
        """Save the result where the options ask for it."""


def _on_gpus(options: dict[str, Any]) -> OnGpus | None:
    """Where the cell runs if that is not here; only %%timeline has the options. Raises OptionError."""
    on, item = models_named(options.get("on")), options.get("item")
    check_options(on, options["device"], item)
    return OnGpus(on, item) if on else None


def _recorder_for(shell: Any, cell: Cell, options: dict[str, Any]) -> Recorder:
    """The recorder for a magic's options. Raises OptionError for a package that is not there."""
    packages = tuple(name.strip() for name in (options["packages"] or "").split(",") if name.strip())
    return Recorder(
        cell=cell,
        device=options["device"],
        memory=options["memory"],
        names=shell.user_ns if options["memory"] else None,
        shapes=options["shapes"],
        lines=True if packages and options["lines"] is None else options["lines"],
        packages=packages,
        label=partial(code_label, shell),
        keeps_interrupted=True,
    )
