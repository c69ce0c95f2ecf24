"""Adding the magics to a shell, and `%config PerfmagicMagics`: the settings of the extension.

A cell magic has three parts. A cleanup transformer turns its head line into a literal. An AST transformer turns the
literal into a `with` around the body (see perfmagic.capture.cell). The third is a real magic of the same name.
The AST transformer never raises: IPython would drop it and run cells unmeasured.
"""

from __future__ import annotations

import ast
import builtins
import inspect
import re
import sys
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from IPython.core.error import UsageError
from IPython.core.magic import no_var_expand
from traitlets import Enum, TraitError
from traitlets.config import Configurable

from perfmagic.api.options import Settings, described
from perfmagic.base import display as base_display
from perfmagic.base import language as base_language
from perfmagic.base.errors import PerfmagicError, RanksError
from perfmagic.base.imported import torch_if_imported
from perfmagic.base.language import Words, language, phrase, translated
from perfmagic.capture.cell import RUNTIME, Head, below_head, call_instead, head_of, printed_once, replace_head, wrap
from perfmagic.capture.other_clocks import note_once
from perfmagic.magics.running.runtime import (
    CELL_MAGICS,
    LINE_MAGICS,
    SENT_MAGICS,
    Runtime,
    cell_magic,
    line_magic,
    sent_magic,
)

# Hints after a cell: a replacement for CUDA where there is none, coroutines that were never awaited, clocks.

_CELLS = ("%%bench", "%%syncbench", "%%timeline", "%%memory", "%%graph")
_MEASURED = ("%%timeline", "%%syncbench")  # they ask what a device does
_ALL_ON_CPU = phrase(
    "no device was in use, so torch computed on the CPU while Python waited. Without CUDA, "
    "device = perfmagic.device() is a simulated device"
)
_ASKS_FOR_CUDA = "cuda.is_available()"
# calls of torch that do nothing without CUDA, and raise nothing
_WITHOUT_EFFECT = {
    re.compile(r"\bcuda\.empty_cache\("): phrase(
        "torch.cuda.empty_cache() does nothing without CUDA: "
        "torch.get_device_module(device).empty_cache() is for any device"
    ),
    re.compile(r"\bautocast\(\s*(?:device_type\s*=\s*)?['\"]cuda['\"]"): phrase(
        'torch.autocast("cuda") does nothing without CUDA: torch.autocast(device.type) is for any device'
    ),
    re.compile(r"\bGradScaler\(\s*(?:\)|(?:device\s*=\s*)?['\"]cuda['\"])"): phrase(
        'torch.amp.GradScaler("cuda") scales nothing without CUDA: torch.amp.GradScaler(device.type) is for any device'
    ),
}


class Hints:
    """What IPython calls after each cell. Prints below the traceback; changes neither the error nor who handles it."""

    def __init__(self, shell: Any) -> None:
        self._shell = shell
        self._printed: set[str] = set()  # each once a session

    def __call__(self, result: Any) -> None:
        if result is None:  # an interrupt struck before the cell began
            return
        if result.error_in_exec is not None:
            _print_device_hint(result.error_in_exec)
            return
        for hint in _unawaited_hints(result.info.raw_cell, self._shell.user_ns):
            print(f"perfmagic: {translated(hint)}")  # each time: the measurement lacks the coroutine's work
        if note := note_once(result.info.raw_cell, self._shell.user_ns):
            print(f"perfmagic: {translated(note)}")
        for hint in self._device_hints(result.info.raw_cell):
            if hint not in self._printed:
                self._printed.add(hint)
                print(f"perfmagic: {translated(hint)}")

    def _device_hints(self, source: str) -> list[Words]:
        """Hints for a cell that used torch on a machine without CUDA: a measured one, or any beside a device."""
        hints = [hint for pattern, hint in _WITHOUT_EFFECT.items() if pattern.search(source)]
        measured = source.lstrip().startswith(_MEASURED)
        if not (hints or measured) or torch_if_imported() is None:
            return []
        from perfmagic.capture.devices.backends import active_backends, cuda_available

        if cuda_available() or not (measured or active_backends()):
            return []
        if " --on" in source.lstrip().split("\n", 1)[0]:  # "cuda" is a GPU there
            return []
        if measured and not active_backends() and self._asked_for_cuda(source):
            hints.append(_ALL_ON_CPU)
        return hints

    def _asked_for_cuda(self, source: str) -> bool:
        """Whether code of this session asks whether CUDA is available. Otherwise it wants the CPU."""
        return any(_ASKS_FOR_CUDA in cell for cell in (source, *self._shell.user_ns.get("In", ())))


def _print_device_hint(error: BaseException) -> None:
    if torch_if_imported() is None:
        return
    from perfmagic.capture.devices.no_cuda import hint_for

    hint = hint_for(error)
    if hint and hint not in str(error) and hint not in getattr(error, "__notes__", ()):
        print(hint, file=sys.stderr)  # where the traceback is


def _unawaited_hints(source: str, variables: Mapping[str, object]) -> list[Words]:
    """Hints on coroutines that a measured cell created and bound: none of their code has run."""
    created = [name for name, value in variables.items() if _is_new_coroutine(value)]
    if not created or not source.lstrip().startswith(_CELLS):
        return []
    try:
        bound = set(_bound_names(ast.parse(below_head(source))))
    except SyntaxError:  # a cell with other extensions' magics
        return []
    return [
        phrase(
            "{name} is a coroutine that was never awaited: its code has not run and is not in what was measured. "
            "In a cell: {name} = await …",
            name=name,
        )
        for name in created
        if name in bound
    ]


def _bound_names(tree: ast.AST) -> Iterator[str]:
    """Names that code binds at its own level, not within functions and classes."""
    for node in ast.iter_child_nodes(tree):
        if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
            yield node.id
        if not isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef, ast.Lambda, ast.ListComp)):
            yield from _bound_names(node)


def _is_new_coroutine(value: object) -> bool:
    return inspect.iscoroutine(value) and inspect.getcoroutinestate(value) == inspect.CORO_CREATED


_SETTINGS = described(Settings)


class Kept(Enum):  # type: ignore[type-arg]  # the oldest traitlets has no generic one
    """A setting that a module of base keeps, for scripts and `%perfmagic`, too.

    in_force: the value.  choose: for the session.  configure: for a configuration file.
    """

    def __init__(
        self, name: str, in_force: Callable[[], str], choose: Callable[[str], None], configure: Callable[[str], None]
    ) -> None:
        option = _SETTINGS[name]
        super().__init__(option.choices, default_value=option.default, help=option.help)
        self._in_force, self._choose, self._configure = in_force, choose, configure
        self.tag(config=True)

    def get(self, obj: Any, cls: Any = None) -> str:
        return self._in_force()

    def set(self, obj: Any, value: Any) -> None:
        (self._choose if obj.loaded else self._configure)(str(self._validate(obj, value)))


class PerfmagicMagics(Configurable):
    """How perfmagic's magics behave."""

    loaded = False  # until then the configuration file sets

    display = Kept("display", base_display.display_mode, base_display.choose, base_display.configure)
    language = Kept("language", base_language.language, base_language.set_language, base_language.configure)

    def __init__(self, shell: Any) -> None:
        try:
            super().__init__(parent=shell)
        except TraitError as error:  # a mistyped setting must not cost the magics
            print(f"perfmagic: {error}", file=sys.stderr)
        self.loaded = True


# The magics as IPython knows them: for `?`, completion, run_cell_magic and the line form.

_VARIABLE = re.compile(r"\{\w+\}|\$\w+")  # other magics fill these in


class NamedMagic:
    """The real magic behind `%%name`."""

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
        raise UsageError(f"%{self.__name__} must be the first line of its cell: move it to the top")


class SentMagic:
    """A cell magic whose text goes elsewhere as typed: %%ranks."""

    def __init__(self, shell: Any, name: str) -> None:
        self._shell, self.__name__ = shell, name

    def __call__(self, line: str, cell: str) -> object:
        __tracebackhide__ = True
        try:
            return sent_magic(self.__name__).run(self._shell, line, _as_edited(self._shell, self.__name__, line, cell))
        except RanksError:
            raise
        except PerfmagicError as error:
            raise _usage_error(error, line) from None


def _as_edited(shell: Any, name: str, line: str, cell: str) -> str:
    """The cell with its magic's line, at the editor's line numbers: there may be blank lines or a magic above."""
    head = f"%%{name} {line}".rstrip() + "\n"
    rows = shell.history_manager.input_hist_raw
    typed = rows[-1] if rows else ""
    above = typed.rstrip().rpartition(cell.rstrip())[0] if cell.strip() else ""
    return "\n" * max(0, above.count("\n") - 1) + head + cell


class LineMagic:
    """A magic without a body: %trace, %perfmagic."""

    def __init__(self, shell: Any, name: str) -> None:
        self._shell, self.__name__ = shell, name

    def __call__(self, line: str) -> object:
        __tracebackhide__ = True
        try:
            return line_magic(self.__name__).run(self._shell, line)
        except PerfmagicError as error:
            raise _usage_error(error, line) from None


def _usage_error(error: PerfmagicError, line: str) -> UsageError:
    """The error as a magic shows it. Where the line seems to hold variables, it says that they are not filled in."""
    match = _VARIABLE.search(line)
    more = f"\n{match[0]} was taken as typed. Functions take variables: perfmagic.open_trace(path)" if match else ""
    return UsageError(f"{error}{more}")


# made on request: at load time it would import the measuring engine
NamedMagic.__doc__ = property(lambda self: cell_magic(self.__name__).parser().format_help())  # type: ignore[assignment]
LineMagic.__doc__ = property(  # type: ignore[assignment]
    lambda self: line_magic(self.__name__).parser().format_help()
)
SentMagic.__doc__ = property(  # type: ignore[assignment]
    lambda self: sent_magic(self.__name__).parser().format_help()
)


def _run_line(shell: Any, name: str, line: str) -> object:
    """`%bench statement`: measured in the user's namespace; returns the result."""
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
    from perfmagic.api.show import last

    return last()


def _run_cell(shell: Any, name: str, line: str, cell: str) -> object:
    """`run_cell_magic("bench", …)` from code: returns the value of the cell's last expression."""
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


_RESULT = ("perfmagic.results.result", "Result")  # by name: results are imported with the first one


class HeadTransformer:
    """Cleanup transformer: `%%timeline …` becomes a literal on the same line."""

    def __call__(self, lines: list[str]) -> list[str]:
        return replace_head(_with_body(lines), CELL_MAGICS)


def _with_body(lines: list[str]) -> list[str]:
    """A cell of `%%ranks -h` alone gets an empty line below: without one IPython takes it for a mistake."""
    written = [line for line in lines if line.strip()]
    if len(written) != 1 or written[0].split()[0].removeprefix("%%") not in SENT_MAGICS:
        return lines
    return [*lines[:-1], lines[-1].rstrip("\n") + "\n", "\n"] if written[0].startswith("%%") else lines


class BodyTransformer(ast.NodeTransformer):
    """AST transformer: the literal becomes the measuring `with`. Never raises."""

    def __init__(self, shell: Any) -> None:
        self._shell = shell

    def visit(self, node: ast.AST) -> Any:
        head = head_of(node, CELL_MAGICS)
        if not isinstance(node, ast.Module):
            return node
        if head is None:
            return printed_once(node, {*CELL_MAGICS, *LINE_MAGICS})
        try:
            return self._measured(node, head)
        except SyntaxError:  # as in a plain cell, IPython finds it at the same place
            return ast.Module(node.body[1:], node.type_ignores)
        except PerfmagicError as error:
            return call_instead(node, str(error))
        except Exception as error:  # a bug here must not make IPython drop the transformer
            return call_instead(node, f"%%{head.name} could not prepare this cell: {type(error).__name__}: {error}")

    def _measured(self, tree: ast.Module, head: Head) -> ast.Module:
        magic = cell_magic(head.name)
        options, _ = magic.parser().split(head.line)
        if options.help:
            return call_instead(tree, head.name, method="help")
        if len(tree.body) == 1:
            advice = f"a single statement goes behind %{head.name}"
            return call_instead(tree, f"%%{head.name}: the cell is empty, there is nothing to measure; {advice}")
        return wrap(
            tree,
            repeated=magic.repeated or getattr(options, "rounds", 1) != 1,
            interactivity=self._shell.ast_node_interactivity,
            variants=getattr(options, "vs", False),
        )


def load(shell: Any) -> None:
    """Add everything to a shell; a second load changes nothing. Raises UsageError for an unknown PERFMAGIC_LANGUAGE."""
    try:
        language()  # before a cell has run that could not show what it found
    except PerfmagicError as error:
        raise UsageError(str(error)) from None
    if any(isinstance(t, HeadTransformer) for t in shell.input_transformers_cleanup):
        return
    # let `%config` list and set them
    shell.configurables.append(PerfmagicMagics(shell))
    runtime = getattr(builtins, RUNTIME, None)
    if runtime is None or not runtime.running:  # a reload inside a measured cell keeps that cell's runtime
        runtime = Runtime(shell, Hints(shell))
    runtime.leaving = False
    setattr(builtins, RUNTIME, runtime)
    shell.input_transformers_cleanup.insert(0, HeadTransformer())
    shell.ast_transformers.append(BodyTransformer(shell))
    table = shell.magics_manager.magics
    for kind, name in _kinds_and_names():
        if name in table[kind]:
            runtime.replaced[kind, name] = table[kind][name]
    for name in CELL_MAGICS:
        _register(shell, NamedMagic(shell, name), "line_cell", name)
        _register(shell, MisplacedMagic(name), "line", f"%{name}")
    for name in SENT_MAGICS:
        _register(shell, SentMagic(shell, name), "cell", name)
        _register(shell, MisplacedMagic(name), "line", f"%{name}")
    for name in LINE_MAGICS:
        _register(shell, LineMagic(shell, name), "line", name)
    shell.display_formatter.ipython_display_formatter.for_type_by_name(*_RESULT, _display)
    shell.events.register("post_run_cell", runtime.hints)


def _register(shell: Any, magic: Callable[..., object], kind: str, name: str) -> None:
    """Add a magic that gets its line as typed. IPython would run what stands in braces, as in a file's name."""
    shell.register_magic_function(no_var_expand(magic), kind, name)


def unload(shell: Any) -> None:
    """Remove everything, and restore the magics that had our names before."""
    # let `%config` know none of it
    shell.configurables[:] = [
        configurable
        for configurable in shell.configurables
        if type(configurable).__name__ != PerfmagicMagics.__name__  # by name: a reload makes another class
    ]
    base_display.configure("auto")
    base_language.configure("en")
    cleanup, trees = shell.input_transformers_cleanup, shell.ast_transformers
    cleanup[:] = [t for t in cleanup if not isinstance(t, HeadTransformer)]
    trees[:] = [t for t in trees if not isinstance(t, BodyTransformer)]
    for kind, name in _kinds_and_names():
        shell.magics_manager.magics[kind].pop(name, None)
    shell.display_formatter.ipython_display_formatter.pop(".".join(_RESULT), None)
    runtime = getattr(builtins, RUNTIME, None)
    if runtime is None:
        return
    if runtime.hints in shell.events.callbacks["post_run_cell"]:
        shell.events.unregister("post_run_cell", runtime.hints)
    for (kind, name), magic in runtime.replaced.items():
        shell.magics_manager.magics[kind][name] = magic
    runtime.replaced.clear()
    if runtime.running:
        runtime.leave_after_cell()
    else:
        delattr(builtins, RUNTIME)


def _kinds_and_names() -> list[tuple[str, str]]:
    in_cells = [(kind, name) for name in CELL_MAGICS for kind in ("line", "cell")]
    in_cells += [("cell", name) for name in SENT_MAGICS]
    in_cells += [("line", f"%{name}") for name in (*CELL_MAGICS, *SENT_MAGICS)]
    return [*in_cells, *(("line", name) for name in LINE_MAGICS)]


def _display(result: Any) -> None:
    """Show a result that is the value of a cell, unless that cell has just shown it."""
    from perfmagic.api.show import show_once

    show_once(result)
