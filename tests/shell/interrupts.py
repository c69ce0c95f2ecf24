"""A cell interrupted at one line of our own code after the other, and what must be as before each time."""

import builtins
import contextlib
import ctypes
import gc
import io
import os
import signal
import sys
import tempfile
import threading
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from types import FrameType
from typing import Any
from unittest import mock

import perfmagic
from perfmagic.base.clock import virtual_clock
from perfmagic.capture.devices.backends import AS_CUDA, sim_loaded
from perfmagic.magics.running.registry import Hints

from .conftest import Notebook

c_raise = getattr(ctypes.CDLL(None), "raise") if sys.platform != "win32" else None
ENDS_WITHIN_S = 30.0  # one that stays costs so long, once
OURS = str(Path(perfmagic.__file__).parent) + os.sep
PURE = tuple(f"{OURS}{name}{os.sep}" for name in ("analysis", "base", "trace", "view"))  # they have no teardown


class Interrupter:
    """A trace function that raises KeyboardInterrupt at the n-th line that our code reaches; n = 0 only counts.

    visits: a line that is reached more often than that in one run counts no further.
    signals: interrupt as a notebook does, by a signal. It may wait where our code makes signals wait; the exception of
    a trace function waits nowhere.
    second: how many lines after the first a second signal comes; 0: none.
    beside: files and folders whose lines do not count.
    lines: how many counted.  where: the line that was interrupted, and the second.
    """

    def __init__(
        self, n: int, visits: int, *, signals: bool = False, second: int = 0, beside: tuple[str, ...] = ()
    ) -> None:
        self.n, self.lines, self.where = n, 0, ""
        self._signals, self._second, self._since, self._beside = signals, second, 0, beside
        self._visits, self._visited = visits, Counter[tuple[object, int]]()

    def __call__(self, frame: FrameType, event: str, _arg: Any) -> Callable[..., Any] | None:
        if event == "call":
            ours = frame.f_code.co_filename.startswith(OURS) and not _is_after_cell(frame)
            return self if ours else None
        if event == "line":
            self._reach(frame)
        return self

    def _reach(self, frame: FrameType) -> None:
        if self.where:
            self._since += 1
            if self._since == self._second:
                self.where += f" and {_place(frame)}"
                signal.raise_signal(signal.SIGINT)
        elif self._counts(frame):
            self.lines += 1
            if self.lines == self.n:
                self.where = _place(frame)
                if self._second:
                    # no function is called behind it: the interrupt strikes in our code, and these functions stay
                    None in map(c_raise, [signal.SIGINT])  # noqa: B015
                elif self._signals:
                    signal.raise_signal(signal.SIGINT)
                else:
                    raise KeyboardInterrupt

    def _counts(self, frame: FrameType) -> bool:
        if frame.f_code.co_filename.startswith(self._beside):
            return False
        line = frame.f_code, frame.f_lineno
        self._visited[line] += 1
        return self._visited[line] <= self._visits


def _place(frame: FrameType) -> str:
    return f"{frame.f_code.co_filename.removeprefix(OURS)}:{frame.f_lineno}"


def _is_after_cell(frame: FrameType | None) -> bool:
    """Whether a callback of IPython's runs: IPython ends an interrupt of it itself."""
    while frame is not None:
        if frame.f_code is Hints.__call__.__code__:
            return True
        frame = frame.f_back
    return False


@contextlib.contextmanager
def installed(interrupter: Interrupter) -> Iterator[None]:
    """The interrupter as the trace function. A benchmark takes trace functions away: this one stays."""
    real = sys.settrace
    with mock.patch.object(sys, "settrace", lambda wanted: real(wanted or interrupter)):
        real(interrupter)
        try:
            yield
        finally:
            real(None)


def run(notebook: Notebook, cell: str, interrupter: Interrupter) -> BaseException | None:
    """Run a cell with an interrupter; what ended it."""
    try:
        with installed(interrupter):
            result = notebook.shell.run_cell(cell)
    except KeyboardInterrupt as error:  # in a transformer: IPython does not catch it there
        return error
    return result.error_before_exec or result.error_in_exec


def state(notebook: Notebook) -> dict[str, Any]:
    """Everything of the process that a measurement may replace or leave something in."""
    shell, runtime = notebook.shell, vars(builtins)["__perfmagic__"]
    return {
        "gc": (gc.isenabled(), list(gc.callbacks), gc.get_threshold()),
        "hooks": (sys.gettrace(), sys.getprofile()),
        "output": (sys.stdout, sys.stderr, sys.displayhook, shell.display_pub),
        "signals": {number: signal.getsignal(number) for number in signal.valid_signals()},
        "threads": sorted(_lasting_threads()),
        "runs": list(runtime._runs),
        "bound": sorted(vars(runtime)),
        "transformers": (list(shell.ast_transformers), list(shell.input_transformers_cleanup)),
        "files": sorted(path.name for path in Path(tempfile.gettempdir()).glob("perfmagic-*")),
        **_torch_state(),
    }


def _lasting_threads() -> Iterator[str]:
    """Our threads, except those asked to end: on a busy machine that takes a while."""
    for thread in threading.enumerate():
        if thread.name.startswith("perfmagic"):
            thread.join(ENDS_WITHIN_S)
            if thread.is_alive():
                yield thread.name


def _torch_state() -> dict[str, Any]:
    profiler = sys.modules.get("torch.autograd.profiler")
    if profiler is None:
        return {}
    state = {"wrapped": profiler.profile._prepare_trace, "profiling": profiler._is_profiler_enabled}
    if sim_loaded():
        from perfmagic import sim

        state["sim log"] = (sim.log().depth, sim.log().recording)
        state["sim"] = (virtual_clock(), sim.current_pace())
    torch: Any = sys.modules["torch"]
    modes = torch.overrides._len_torch_function_stack()
    state["cuda"] = (torch.cuda.is_available, torch.Generator, torch.autocast.__init__, modes, list(AS_CUDA))
    return state


@dataclass
class Swept:
    """What a sweep did: how many lines there are, how many it interrupted, and what was wrong afterwards."""

    lines: int = 0
    interrupted: int = 0
    faults: list[str] = field(default_factory=list)


def sweep(
    notebook: Notebook,
    cell: str,
    *,
    most: int = sys.maxsize,
    visits: int = sys.maxsize,
    first: int = 1,
    signals: bool = False,
) -> Swept:
    """Interrupt a cell at every line of our own code; after each the same cell must run clean, and nothing be left.

    most: how many interrupts, evenly spread.  visits, signals: as of Interrupter.  first: where to begin.
    """
    swept = Swept()
    with own_temporary_files(), _unseen():
        counted = _uninterrupted(notebook, cell, visits)
        swept.lines = counted.lines
        before = state(notebook)
        n, stride = first, max(1, counted.lines // most)
        while True:
            interrupter = Interrupter(n, visits, signals=signals)
            if (error := _interrupted(notebook, cell, interrupter)) is None:
                return swept
            swept.interrupted += 1
            swept.faults += _faults(notebook, cell, before, f"{n} {interrupter.where}", error)
            n += stride


def _uninterrupted(notebook: Notebook, cell: str, visits: int, **options: Any) -> Interrupter:
    """Counts the lines of a cell that has run before, and looks through its garbage for those that follow."""
    for _ in range(2):  # the first run imports and warms up
        counted = Interrupter(0, visits, **options)
        assert run(notebook, cell, counted) is None
    gc.collect()
    gc.freeze()
    return counted


def sweep_twice(notebook: Notebook, cell: str, *, most: int, seconds: Iterable[int]) -> Swept:
    """sweep() with two signals, the second a number of lines of our own code after the first."""
    swept = Swept()
    with own_temporary_files(), _unseen():
        counted = _uninterrupted(notebook, cell, 1, beside=PURE)
        swept.lines = counted.lines
        before = state(notebook)
        for n in range(1, counted.lines, max(1, counted.lines // most)):
            for second in seconds:
                interrupter = Interrupter(n, 1, second=second, beside=PURE)
                if (error := _interrupted(notebook, cell, interrupter)) is None:
                    continue  # this run had fewer lines than the one that was counted
                swept.interrupted += " and " in interrupter.where
                swept.faults += _faults(notebook, cell, before, f"{n} {interrupter.where}", error)
    return swept


@contextlib.contextmanager
def own_temporary_files() -> Iterator[None]:
    """A folder for temporary files that no other process writes to: what is in it afterwards, we have left."""
    with tempfile.TemporaryDirectory() as folder, mock.patch.object(tempfile, "tempdir", folder):
        yield


@contextlib.contextmanager
def _unseen() -> Iterator[None]:
    with contextlib.redirect_stdout(io.StringIO()), contextlib.redirect_stderr(io.StringIO()):
        yield


def _interrupted(notebook: Notebook, cell: str, interrupter: Interrupter) -> object:
    """What ended a cell, or in words that nothing did; None where it ended before the interrupt."""
    error = run(notebook, cell, interrupter)
    return (error or "nothing") if interrupter.where else None


def _faults(notebook: Notebook, cell: str, before: dict[str, Any], where: str, error: object) -> Iterator[str]:
    if not isinstance(error, KeyboardInterrupt):
        yield f"{where}: the interrupt was lost: {error!r}"
    yield from faults_after(notebook, cell, before, where)


def faults_after(notebook: Notebook, cell: str, before: dict[str, Any], where: str) -> Iterator[str]:
    """What is not as before, and what is wrong with the next cell."""
    after = state(notebook)
    yield from (f"{where}: {key} is {after[key]}, was {before[key]}" for key in before if after[key] != before[key])
    notebook.shell.display_pub.outputs = []
    result = notebook.shell.run_cell(cell)
    if (problem := result.error_before_exec or result.error_in_exec) is not None:
        yield f"{where}: the next cell ended in {problem!r}"
    if len(notebook.shell.display_pub.outputs) != 1:
        yield f"{where}: the next cell displayed {len(notebook.shell.display_pub.outputs)} outputs"
