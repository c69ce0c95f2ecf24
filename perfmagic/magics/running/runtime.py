"""The magics by name, and what a measured cell calls while it runs: `__perfmagic__`, the context around the body."""

from __future__ import annotations

import argparse
import builtins
import importlib
import linecache
import sys
from collections.abc import Callable, Iterable, Iterator
from types import ModuleType, TracebackType
from typing import TYPE_CHECKING, Any, Protocol, runtime_checkable

from IPython.core.error import UsageError

from perfmagic.base.errors import OptionError, PerfmagicError
from perfmagic.capture.cell import RUNTIME, Head, as_typed
from perfmagic.capture.owner import shielded
from perfmagic.capture.unawaited import refuse_unawaited_value

if TYPE_CHECKING:
    from perfmagic.magics.running.options import Parser
    from perfmagic.trace.model import Cell

SHOWN_ITEMS = 100  # of a list that is the value of a cell, the number of items that are looked at

# The magics by name. A magic's module is imported when it is first used: loading the extension stays quick.

CELL_MAGICS = {
    "timeline": "perfmagic.magics.timeline",
    "memory": "perfmagic.magics.memory",
    "graph": "perfmagic.magics.graph",
    "bench": "perfmagic.magics.bench",
    "syncbench": "perfmagic.magics.bench",
}
# cells that are not measured here: their text goes elsewhere
SENT_MAGICS = {"ranks": "perfmagic.magics.ranks"}
LINE_MAGICS = {
    "trace": "perfmagic.magics.trace",
    "compare": "perfmagic.magics.compare",
    "perfmagic": "perfmagic.magics.status",
    "ranks": "perfmagic.magics.ranks_line",
}


def enter_rank() -> None:
    """In a rank, %%ranks is what records the cell; there are no ranks of ranks."""
    SENT_MAGICS.pop("ranks", None)
    LINE_MAGICS.pop("ranks", None)
    CELL_MAGICS["ranks"] = "perfmagic.magics.in_rank.cell"


def cell_magic(name: str) -> CellMagic:
    """What a cell magic of that name does."""
    magic: CellMagic = importlib.import_module(CELL_MAGICS[name]).MAGICS[name]
    return magic


def sent_magic(name: str) -> ModuleType:
    """The module of a cell magic whose text goes elsewhere: its parser() and run(shell, line, source)."""
    return importlib.import_module(SENT_MAGICS[name])


def line_magic(name: str) -> ModuleType:
    """The module of a magic without a body: its parser() and run(shell, line)."""
    return importlib.import_module(LINE_MAGICS[name])


# What every measuring magic offers the runtime of a cell.


class CellRun(Protocol):
    """One measured cell, from start() to finish().

    option_error: an error of the magic's options that showed while the cell ran. It is raised in the cell.
    """

    option_error: OptionError | None

    def start(self) -> None:
        """Run set-up code and begin to measure."""

    def finish(self, error: BaseException | None) -> None:
        """End the measurement and show it, also where the body failed."""

    def release(self) -> None:
        """Give back whatever the measurement has taken, however far it came; harmless when called again."""


@runtime_checkable
class RecordedRun(CellRun, Protocol):
    """A cell whose body runs once, with a mark before each of its lines."""

    def mark(self, line: int) -> None:
        """A statement at the cell's own level starts now."""

    def inner(self, line: int, top_line: int) -> None:
        """A statement inside the one at top_line starts now."""


@runtime_checkable
class RepeatedRun(CellRun, Protocol):
    """A cell whose body, or each of its variants, runs many times."""

    def first(self) -> Iterator[tuple[()]]:
        """The run of the next variant that counts for values and output."""

    def more(self) -> bool:
        """Whether the body, or one of several variants, is to run again."""

    def repetitions(self, which: int) -> Iterable[tuple[()]]:
        """The repetitions of a variant now; none while another variant runs."""


class CellMagic(Protocol):
    """A magic that measures a cell.

    repeated: whether begin() gives a RepeatedRun, else a RecordedRun.
    """

    repeated: bool

    def parser(self) -> Parser: ...

    def begin(self, shell: Any, cell: Cell, options: argparse.Namespace, rest: str) -> CellRun: ...


# What an instrumented cell calls.


class Runtime:
    """What an instrumented cell calls, under the name `__perfmagic__` in builtins.

    mark, inner: there while the innermost run is recorded.  first, more, repetitions: there while it is repeated.
    """

    mark: Callable[[int], None]
    inner: Callable[[int, int], None]
    first: Callable[[], Iterator[tuple[()]]]
    more: Callable[[], bool]
    repetitions: Callable[[int], Iterable[tuple[()]]]

    def __init__(self, shell: Any, hints: Callable[[Any], None]) -> None:
        self._shell = shell
        self._runs: list[CellRun] = []
        self.value: object = None  # the last value of the running cell, until take()
        self.hints = hints  # called after each cell
        self.replaced: dict[tuple[str, str], Any] = {}  # other extensions' magics with our names, by kind and name
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
        """The context around cell(), which releases what an interrupt kept that one from releasing."""
        return _Released(self, len(self._runs))

    def cell(self, literal: str) -> _Running:
        """The context a measured body runs in."""
        head = Head.parse(literal, CELL_MAGICS)
        if head is None:
            raise AssertionError(f"{literal!r} is not a head of a measured cell")
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

    def ran(self, value: object) -> object:
        """The last value of a cell, as it is. Raises OptionError for one whose code has not run: a coroutine."""
        __tracebackhide__ = True
        try:
            refuse_unawaited_value(value)
        except OptionError as error:
            self._runs[-1].option_error = error
            raise
        return value

    def printed(self, value: object) -> object:
        """The value of a line magic that ends a cell. A terminal has its text already: there it goes to Out alone."""
        from perfmagic.api.show import in_terminal

        if value is None or not in_terminal(self._shell):
            return value
        self._shell.displayhook.update_user_ns(value)
        return None

    def take(self) -> object:
        value, self.value = self.value, None
        return value

    def refuse(self, message: str) -> None:
        raise UsageError(message)

    def refuse_stacked(self, outer: str, inner: str) -> None:
        ours = inner.removeprefix("%%") in CELL_MAGICS
        advice = "Measure one thing a cell" if ours else f"Put {inner} above %%{outer}, or use one magic a cell"
        raise UsageError(
            f"%%{outer} measures the lines below it, but the next line is another cell magic, {inner}. {advice}"
        )

    def help(self, name: str) -> None:
        print(cell_magic(name).parser().format_help())

    def push(self, run: CellRun) -> None:
        self._runs.append(run)
        self._bind(run)

    def end(self, run: CellRun) -> None:
        """Release a run and remove it from the stack. After an interrupt it stays there for the next call."""
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
        self._runs = others  # last: a call that was interrupted before is repeated

    def _bind(self, run: CellRun | None) -> None:
        """Bind the innermost run's methods here. A mark or a sample then costs one attribute look-up and the call."""
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
    """Whether a value is a tensor on another device than the CPU, or a short sequence with one."""
    torch = sys.modules.get("torch")
    tensor = getattr(torch, "Tensor", None)
    if tensor is None:
        return False
    items = value[:SHOWN_ITEMS] if type(value) in (list, tuple) else (value,)  # type: ignore[index]
    return any(isinstance(item, tensor) and item.device.type not in ("cpu", "meta") for item in items)


class _Released:
    """`with __perfmagic__.released(), …`: ends the runs that are left, and keeps no value of a cell that failed."""

    def __init__(self, runtime: Runtime, depth: int) -> None:
        self._runtime, self._depth = runtime, depth

    def __enter__(self) -> None:
        if not self._depth:
            self._runtime.value = None  # an interrupt may have kept take() from clearing the last one

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        __tracebackhide__ = True
        if error is not None:
            self._runtime.value = None  # of an earlier round: it must not outlive the cell
        self._runtime.end_above(self._depth)


class _Running:
    """`with …, __perfmagic__.cell(…)`: begins, ends and always shows a run; never swallows the body's error."""

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
                raise error.with_traceback(self._from_user_frame(error.__traceback__))  # noqa: B904 - the same error
        except KeyboardInterrupt as stop:
            raise stop.with_traceback(self._from_user_frame(stop.__traceback__))  # noqa: B904 - the same error
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
        if error is not None and error is self._run.option_error:
            self._run.finish(error)
            raise UsageError(str(error)) from None
        self._remove_our_frames(trace, ends=isinstance(error, KeyboardInterrupt) or _ends_hidden(trace))
        try:
            self._run.finish(error)
        except KeyboardInterrupt as stop:  # while the result was made
            raise stop.with_traceback(None)  # noqa: B904 - the same error
        except PerfmagicError as problem:
            if error is None:
                raise UsageError(str(problem)) from None
            print(f"perfmagic: {problem}")  # the user's own error is raised, and must stay visible
        if error is not None and "torch" in sys.modules:
            from perfmagic.capture.devices.no_cuda import advise

            advise(error)

    def _remove_our_frames(self, trace: TracebackType | None, *, ends: bool) -> None:
        """Remove our frames between the user's: those that ran set-up code before a sample.

        ends: remove frames after the user's last one, too. They are the measurement's when an interrupt came, or the
        simulated device's when an operator failed.
        """
        while trace is not None and trace.tb_next is not None:
            if trace.tb_next.tb_frame.f_globals.get("__name__", "").startswith("perfmagic."):
                inner = self._from_user_frame(trace.tb_next)
                if inner is None and not ends:
                    return
                trace.tb_next = inner
            trace = trace.tb_next

    def _from_user_frame(self, trace: TracebackType | None) -> TracebackType | None:
        """From the first frame on that runs code of the notebook, None without one."""
        while trace is not None and trace.tb_frame.f_globals is not self._shell.user_module.__dict__:
            trace = trace.tb_next
        return trace


def _ends_hidden(trace: TracebackType | None) -> bool:
    """Whether the last frame hides itself: IPython still shows the last one."""
    while trace is not None and trace.tb_next is not None:
        trace = trace.tb_next
    return trace is not None and "__tracebackhide__" in trace.tb_frame.f_locals


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
