"""What a measured cell talks to while it runs: `__perfmagic__`, and the context around the body."""

from __future__ import annotations

import builtins
import linecache
import sys
from collections.abc import Callable, Iterable, Iterator
from types import TracebackType
from typing import TYPE_CHECKING, Any

from IPython.core.error import UsageError

from perfmagic.capture.cell.marks import RUNTIME
from perfmagic.capture.cell.source import Head, as_typed
from perfmagic.capture.owner import shielded
from perfmagic.errors import PerfmagicError
from perfmagic.magics.running.names import CELL_MAGICS, cell_magic
from perfmagic.magics.running.run import CellRun, RecordedRun, RepeatedRun

if TYPE_CHECKING:
    from perfmagic.trace.model import Cell


SHOWN_ITEMS = 100  # of a list that is the value of a cell: so many are looked at


class Runtime:
    """What an instrumented cell talks to, under the name `__perfmagic__` in builtins.

    mark, inner: there while the innermost run is recorded.  first, more, repetitions: there while it is repeated.
    """

    mark: Callable[[int], None]
    inner: Callable[[int, int], None]
    first: Callable[[], Iterator[tuple[()]]]
    more: Callable[[], bool]
    repetitions: Callable[[int], Iterable[tuple[()]]]

    def __init__(self, shell: Any) -> None:
        self._shell = shell
        self._runs: list[CellRun] = []
        self.value: object = None  # the last value of the cell that is running, until take()
        self.replaced: dict[tuple[str, str], Any] = {}  # magics of others that had our names, by kind and name
        self.leaving = False  # unloaded inside a measured cell: go when that cell has ended

    def leave_after_cell(self) -> None:
        """Unloaded inside a measured cell, which still needs this object until it ends."""
        self.leaving = True
        self._shell.events.register("post_run_cell", self._leave)

    def _leave(self, *_result: object) -> None:
        self._shell.events.unregister("post_run_cell", self._leave)
        if self.leaving and hasattr(builtins, RUNTIME):
            delattr(builtins, RUNTIME)

    def released(self) -> _Released:
        """The context around cell(): what an interrupt kept that one from giving back, this one gives back."""
        return _Released(self, len(self._runs))

    def cell(self, literal: str) -> _Running:
        """The context a measured body runs in."""
        head = Head.parse(literal, CELL_MAGICS)
        if head is None:
            raise AssertionError(f"{literal!r} is no head of a measured cell")
        from perfmagic.trace.model import Cell  # numpy comes in with the first measured cell, not with %load_ext

        source = _source(self._shell, sys._getframe(1).f_code.co_filename, literal)
        return _Running(self, self._shell, head, Cell(source))

    def display(self) -> None:
        """Read a value of a device that the cell is about to show, as part of the cell: that is where Python waits.

        IPython shows it after the recording, and by then nothing is queued.
        """
        if not is_on_device(self.value):
            return
        try:
            quiet = self._shell.displayhook.quiet()
        except Exception:
            quiet = False
        if not quiet:
            repr(self.value)

    def take(self) -> object:
        value, self.value = self.value, None
        return value

    def refuse(self, message: str) -> None:
        raise UsageError(message)

    def refuse_stacked(self, outer: str, inner: str) -> None:
        ours = inner.removeprefix("%%") in CELL_MAGICS
        advice = "Measure one thing a cell" if ours else f"Put {inner} above %%{outer}, or use one magic a cell"
        raise UsageError(
            f"%%{outer} measures the lines below it, and the next line is another cell magic, {inner}. {advice}"
        )

    def help(self, name: str) -> None:
        print(cell_magic(name).parser().format_help())

    def push(self, run: CellRun) -> None:
        self._runs.append(run)
        self._bind(run)

    def end(self, run: CellRun) -> None:
        """Give back what a run has taken, and forget it. An interrupt leaves it on the stack, for the next call."""
        shielded(lambda: self._end(run))

    def _end(self, run: CellRun) -> None:
        try:
            run.release()
        except Exception:
            self._forget(run)
            raise
        self._forget(run)

    def end_above(self, depth: int) -> None:
        """End the runs that were pushed since there were `depth` of them."""
        while len(self._runs) > depth:
            self.end(self._runs[-1])

    def _forget(self, run: CellRun) -> None:
        others = [other for other in self._runs if other is not run]
        self._bind(others[-1] if others else None)
        self._runs = others  # the last of all: until here the next call does it again

    def _bind(self, run: CellRun | None) -> None:
        """Lead the calls of instrumented code to the innermost run; a run that has ended is not kept.

        Directly: a mark then costs one attribute look-up and the log's own call, and so does a sample.
        """
        for name in ("mark", "inner", "first", "more", "repetitions"):
            self.__dict__.pop(name, None)
        if isinstance(run, RecordedRun):
            self.mark, self.inner = run.mark, run.inner
        elif isinstance(run, RepeatedRun):
            self.first, self.more, self.repetitions = run.first, run.more, run.repetitions

    @property
    def running(self) -> bool:
        """Whether a cell is being measured now."""
        return bool(self._runs)


def is_on_device(value: object) -> bool:
    """Whether a value is a tensor of a device other than the CPU, or a short list or tuple with one."""
    torch = sys.modules.get("torch")
    tensor = getattr(torch, "Tensor", None)
    if tensor is None:
        return False
    some = value[:SHOWN_ITEMS] if type(value) in (list, tuple) else (value,)  # type: ignore[index]
    return any(isinstance(one, tensor) and one.device.type not in ("cpu", "meta") for one in some)


class _Released:
    """`with __perfmagic__.released(), …`: ends the runs that are left, and keeps no value of a cell that failed."""

    def __init__(self, runtime: Runtime, depth: int) -> None:
        self._runtime, self._depth = runtime, depth

    def __enter__(self) -> None:
        if not self._depth:
            self._runtime.value = None  # an interrupt may have kept take() from taking the last one

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        __tracebackhide__ = True
        if error is not None:
            self._runtime.value = None  # of an earlier round: it must not outlive the cell
        self._runtime.end_above(self._depth)


class _Running:
    """`with …, __perfmagic__.cell(…)`: begins, ends and always shows; never swallows what the body raised."""

    def __init__(self, runtime: Runtime, shell: Any, head: Head, cell: Cell) -> None:
        self._runtime, self._shell, self._head, self._cell = runtime, shell, head, cell

    def __enter__(self) -> None:
        __tracebackhide__ = True
        magic = cell_magic(self._head.name)
        try:
            options, rest = magic.parser().split(self._head.line)
            self._run = magic.begin(self._shell, self._cell, options, rest)
            try:
                self._runtime.push(self._run)
                self._run.start()
            except BaseException as error:  # of the user's set-up code, an interrupt too
                raise error.with_traceback(self._of_the_cell(error.__traceback__))  # noqa: B904 - the same error
        except KeyboardInterrupt as stop:
            raise stop.with_traceback(self._of_the_cell(stop.__traceback__))  # noqa: B904 - the same error
        except PerfmagicError as error:
            raise UsageError(str(error)) from None
        except SyntaxError as error:
            text = (error.text or "").strip()
            raise UsageError(f"%%{self._head.name}: set-up code {text!r}: {error.msg}") from None

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        __tracebackhide__ = True
        try:
            self._finish(error, trace)
        finally:
            self._runtime.end(self._run)

    def _finish(self, error: BaseException | None, trace: TracebackType | None) -> None:
        __tracebackhide__ = True
        if error is not None and error is getattr(self._run, "refused", None):
            self._run.finish(error)
            raise UsageError(str(error)) from None
        self._leave_out_ours(trace, ends=isinstance(error, KeyboardInterrupt))
        try:
            self._run.finish(error)
        except KeyboardInterrupt as stop:  # while the result was made
            raise stop.with_traceback(None)  # noqa: B904 - the same error
        except PerfmagicError as problem:
            if error is None:
                raise UsageError(str(problem)) from None
            print(f"perfmagic: {problem}")  # the user's own error goes on, and must be the one that is seen
        if error is not None and "torch" in sys.modules:
            from perfmagic.capture.devices.no_cuda import advise

            advise(error)

    def _leave_out_ours(self, trace: TracebackType | None, *, ends: bool) -> None:
        """Leave out our frames between the user's: those that ran set-up code before a sample.

        ends: also those after the last of the user's: what the measurement was doing when an interrupt came.
        """
        while trace is not None and trace.tb_next is not None:
            if trace.tb_next.tb_frame.f_globals.get("__name__", "").startswith("perfmagic."):
                inner = self._of_the_cell(trace.tb_next)
                if inner is None and not ends:
                    return
                trace.tb_next = inner
            trace = trace.tb_next

    def _of_the_cell(self, trace: TracebackType | None) -> TracebackType | None:
        """From the first frame on that runs code of the notebook, None without one."""
        while trace is not None and trace.tb_frame.f_globals is not self._shell.user_module.__dict__:
            trace = trace.tb_next
        return trace


def _source(shell: Any, filename: str, literal: str) -> str:
    """The measured cell as the editor shows it.

    The history has it as typed. Where that is another text (a nested or unrecorded cell), the compiled text serves: it
    has the same lines, with IPython's own magics spelled out.
    """
    compiled = linecache.getlines(filename)
    typed = shell.history_manager.input_hist_raw[-1] if shell.history_manager.input_hist_raw else ""
    rows = typed.splitlines()
    if len(rows) == len(compiled) and any(
        row.rstrip() == literal for row in rows[:1] + [r for r in rows if r.strip()][:1]
    ):
        return typed
    return "".join([f"{literal}\n" if row.strip() == repr(literal) else as_typed(row) for row in compiled])
