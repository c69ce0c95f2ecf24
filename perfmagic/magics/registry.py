"""Adding the magics to a shell, and running what they measure.

A cell magic is a cleanup transformer (its head line becomes a literal), an AST transformer (the literal becomes a
`with` around the body, see perfmagic.capture.cell) and a real magic of the same name, which serves `?`, completion,
`run_cell_magic` and the line form. The AST transformer never raises: IPython would drop it and run cells unmeasured.
"""

from __future__ import annotations

import ast
import builtins
import importlib
import linecache
import sys
from collections.abc import Iterator
from types import TracebackType
from typing import TYPE_CHECKING, Any

from IPython.core.error import UsageError

from perfmagic.capture.cell import Head, as_typed, head_of, refusal, replace_head, wrap
from perfmagic.capture.lines import RUNTIME
from perfmagic.errors import PerfmagicError
from perfmagic.magics.run import CellMagic, CellRun

if TYPE_CHECKING:
    from perfmagic.trace.model import Cell

_CELL_MAGICS = {
    "timeline": "perfmagic.magics.timeline",
    "bench": "perfmagic.magics.bench",
    "syncbench": "perfmagic.magics.bench",
}
_RESULTS = (
    ("perfmagic.results", "TimelineResult"),
    ("perfmagic.analysis.bench", "BenchResult"),
    ("perfmagic.analysis.compare", "CompareResult"),
    ("perfmagic.analysis.sweep", "SweepResult"),
)
_LINE_MAGICS = {
    "trace": "perfmagic.magics.trace",
    "compare": "perfmagic.magics.compare",
    "perfmagic": "perfmagic.magics.status",
}


def cell_magic(name: str) -> CellMagic:
    """The magic of that name; its module is imported when it is first used."""
    magic: CellMagic = importlib.import_module(_CELL_MAGICS[name]).MAGICS[name]
    return magic


class Runtime:
    """What an instrumented cell talks to, under the name `__perfmagic__` in builtins."""

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

    def cell(self, literal: str) -> _Running:
        """The context a measured body runs in."""
        head = Head.parse(literal, _CELL_MAGICS)
        if head is None:
            raise AssertionError(f"{literal!r} is no head of a measured cell")
        from perfmagic.trace.model import Cell  # numpy comes in with the first measured cell, not with %load_ext

        source = _source(self._shell, sys._getframe(1).f_code.co_filename, literal)
        return _Running(self, self._shell, head, Cell(source))

    def mark(self, line: int) -> None:
        self._runs[-1].mark(line)

    def inner(self, line: int, top_line: int) -> None:
        self._runs[-1].inner(line, top_line)

    def first(self) -> Iterator[tuple[()]]:
        """One round: the run that counts for values and output."""
        return self._runs[-1].first()

    def more(self) -> Iterator[tuple[()]]:
        """The repetitions, driven by the measuring engine."""
        return self._runs[-1].more()

    def turn(self) -> bool:
        """Whether one of several variants is to run again."""
        return self._runs[-1].turn()

    def steps(self, which: int) -> Iterator[tuple[()]]:
        """The repetitions of a variant now; none where it is not its turn."""
        return self._runs[-1].steps(which)

    def take(self) -> object:
        value, self.value = self.value, None
        return value

    def refuse(self, message: str) -> None:
        raise UsageError(message)

    def refuse_stacked(self, outer: str, inner: str) -> None:
        ours = inner.removeprefix("%%") in _CELL_MAGICS
        advice = "Measure one thing a cell" if ours else f"Put {inner} above %%{outer}, or use one magic a cell"
        raise UsageError(
            f"%%{outer} measures the lines below it, and the next line is another cell magic, {inner}. {advice}"
        )

    def help(self, name: str) -> None:
        print(cell_magic(name).parser().format_help())

    def push(self, run: CellRun) -> None:
        self._runs.append(run)
        # bound directly: a mark then costs one attribute look-up and the log's own call
        self.mark, self.inner = run.mark, run.inner  # type: ignore[method-assign]

    def pop(self) -> None:
        self._runs.pop()
        if self._runs:
            self.mark, self.inner = self._runs[-1].mark, self._runs[-1].inner  # type: ignore[method-assign]

    @property
    def running(self) -> bool:
        """Whether a cell is being measured now."""
        return bool(self._runs)


class _Running:
    """`with __perfmagic__.cell(…)`: begins, ends and always shows; never swallows what the body raised."""

    def __init__(self, runtime: Runtime, shell: Any, head: Head, cell: Cell) -> None:
        self._runtime, self._shell, self._head, self._cell = runtime, shell, head, cell

    def __enter__(self) -> None:
        __tracebackhide__ = True
        magic = cell_magic(self._head.name)
        try:
            options, rest = magic.parser().split(self._head.line)
            self._run = magic.begin(self._shell, self._cell, options, rest)
            self._runtime.push(self._run)
            try:
                self._run.start()
            except BaseException as error:  # of the user's set-up code, an interrupt too: __exit__ will not be called
                self._runtime.pop()
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
        self._runtime.pop()
        if error is not None:
            self._runtime.value = None  # of an earlier round: it must not outlive the cell
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


class HeadTransformer:
    """Cleanup transformer: `%%timeline …` becomes a literal on the same line."""

    def __call__(self, lines: list[str]) -> list[str]:
        return replace_head(lines, _CELL_MAGICS)


class BodyTransformer(ast.NodeTransformer):
    """AST transformer: the literal becomes the measuring `with`. Never raises."""

    def __init__(self, shell: Any) -> None:
        self._shell = shell

    def visit(self, node: ast.AST) -> Any:
        head = head_of(node, _CELL_MAGICS)
        if head is None or not isinstance(node, ast.Module):
            return node
        try:
            return self._measured(node, head)
        except SyntaxError:  # as in a plain cell, IPython finds it at the same place
            return ast.Module(node.body[1:], node.type_ignores)
        except PerfmagicError as error:
            return refusal(node, str(error))
        except Exception as error:  # a fault of ours must not make IPython drop the transformer
            return refusal(node, f"%%{head.name} could not prepare this cell: {type(error).__name__}: {error}")

    def _measured(self, tree: ast.Module, head: Head) -> ast.Module:
        magic = cell_magic(head.name)
        options, _ = magic.parser().split(head.line)
        if options.help:
            return refusal(tree, head.name, method="help")
        if len(tree.body) == 1:
            return refusal(tree, f"%%{head.name}: the cell is empty, there is nothing to measure")
        return wrap(
            tree,
            repeated=magic.repeated,
            interactivity=self._shell.ast_node_interactivity,
            variants=getattr(options, "vs", False),
        )


def load(shell: Any) -> None:
    """Add everything to a shell; a second load changes nothing."""
    if any(isinstance(t, HeadTransformer) for t in shell.input_transformers_cleanup):
        return
    runtime = getattr(builtins, RUNTIME, None)
    if runtime is None or not runtime.running:  # a reload inside a measured cell keeps that cell's
        runtime = Runtime(shell)
    runtime.leaving = False
    setattr(builtins, RUNTIME, runtime)
    shell.input_transformers_cleanup.insert(0, HeadTransformer())
    shell.ast_transformers.append(BodyTransformer(shell))
    table = shell.magics_manager.magics
    for kind, name in _kinds_and_names():
        if name in table[kind]:
            runtime.replaced[kind, name] = table[kind][name]
    for name in _CELL_MAGICS:
        shell.register_magic_function(NamedMagic(shell, name), "line_cell", name)
        shell.register_magic_function(MisplacedMagic(name), "line", f"%{name}")
    for name in _LINE_MAGICS:
        shell.register_magic_function(LineMagic(shell, name), "line", name)
    for home, name in _RESULTS:
        shell.display_formatter.ipython_display_formatter.for_type_by_name(home, name, _display)


def unload(shell: Any) -> None:
    """Take everything out again, and put back what had our names before."""
    cleanup, trees = shell.input_transformers_cleanup, shell.ast_transformers
    cleanup[:] = [t for t in cleanup if not isinstance(t, HeadTransformer)]
    trees[:] = [t for t in trees if not isinstance(t, BodyTransformer)]
    for kind, name in _kinds_and_names():
        shell.magics_manager.magics[kind].pop(name, None)
    for home, name in _RESULTS:
        shell.display_formatter.ipython_display_formatter.pop(f"{home}.{name}", None)
    runtime = getattr(builtins, RUNTIME, None)
    if runtime is None:
        return
    for (kind, name), magic in runtime.replaced.items():
        shell.magics_manager.magics[kind][name] = magic
    runtime.replaced.clear()
    if runtime.running:
        runtime.leave_after_cell()
    else:
        delattr(builtins, RUNTIME)


def _kinds_and_names() -> list[tuple[str, str]]:
    in_cells = [(kind, name) for name in _CELL_MAGICS for kind in ("line", "cell")]
    in_cells += [("line", f"%{name}") for name in _CELL_MAGICS]
    return [*in_cells, *(("line", name) for name in _LINE_MAGICS)]


def _display(result: Any) -> None:
    """A result as the value of a cell: drawn, unless that very cell has just drawn it."""
    from perfmagic.show import show_once

    show_once(result)


class NamedMagic:
    """The real magic behind `%%name`: for `?`, completion, run_cell_magic and the line form."""

    def __init__(self, shell: Any, name: str) -> None:
        self._shell, self.__name__ = shell, name

    def __call__(self, line: str, cell: str | None = None) -> object:
        __tracebackhide__ = True
        if cell is None:
            return _run_line(self._shell, self.__name__, line)
        return _run_cell(self._shell, self.__name__, line, cell)


class MisplacedMagic:
    """`%%name` below the first line of a cell, which IPython takes for a line magic called `%name`."""

    def __init__(self, name: str) -> None:
        self.__name__ = f"%{name}"

    def __call__(self, _line: str) -> None:
        raise UsageError(f"%{self.__name__} must be the first line of its cell: move it above everything else")


class LineMagic:
    """A magic without a body: %trace, %perfmagic."""

    def __init__(self, shell: Any, name: str) -> None:
        self._shell, self.__name__ = shell, name

    def __call__(self, line: str) -> object:
        __tracebackhide__ = True
        module = importlib.import_module(_LINE_MAGICS[self.__name__])
        try:
            return module.run(self._shell, line)
        except PerfmagicError as error:
            raise UsageError(str(error)) from None


# the help is made when somebody asks: made at load time it would import the measuring engine
NamedMagic.__doc__ = property(lambda self: cell_magic(self.__name__).parser().format_help())  # type: ignore[assignment]
LineMagic.__doc__ = property(  # type: ignore[assignment]
    lambda self: importlib.import_module(_LINE_MAGICS[self.__name__]).parser().format_help()
)


def _run_line(shell: Any, name: str, line: str) -> object:
    """`%bench statement`: measured in the user's namespace; gives the result object."""
    __tracebackhide__ = True
    parser = cell_magic(name).parser()
    try:
        options, statement = parser.split(line)
    except PerfmagicError as error:
        raise UsageError(str(error)) from None
    if options.help:
        print(parser.format_help())
        return None
    if not statement:
        raise UsageError(f"%{name}: no statement to measure; %{name} -h lists the options")
    option_words = line.rstrip().removesuffix(statement).strip().removesuffix("--")
    if getattr(options, "vs", False):
        raise UsageError(f"%{name} --vs: a line has one statement; use %%{name} --vs with a line  # --- B  between two")
    literal = Head(name, option_words).literal()
    tree = shell.compile.ast_parse(f"{literal}\n{shell.transform_cell(statement)}")
    ast.increment_lineno(tree, -1)  # the statement is line 1 of what is measured, and the head shares that line
    ast.increment_lineno(tree.body[0], 1)
    _execute(shell, tree, statement)
    from perfmagic.show import last

    return last()


def _run_cell(shell: Any, name: str, line: str, cell: str) -> object:
    """`run_cell_magic("bench", …)` from code: gives what the cell's last expression gave."""
    __tracebackhide__ = True
    source = f"%%{name} {line}\n{cell}"
    return _execute(shell, shell.compile.ast_parse(shell.transform_cell(source)), source)


def _execute(shell: Any, tree: ast.Module, source: str) -> object:
    __tracebackhide__ = True
    tree = shell.transform_ast(tree)
    filename = shell.compile.cache(source, len(shell.history_manager.input_hist_parsed) - 1)
    try:
        code = compile(tree, filename, "exec", dont_inherit=True)
    except SyntaxError as error:
        if "await" not in str(error.msg):
            raise
        raise UsageError(
            "await works in a cell that begins with the magic, not in a line magic or run_cell_magic"
        ) from None
    exec(code, shell.user_ns)  # the user's own code, as typed
    return getattr(builtins, RUNTIME).take()


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
