"""Adding the magics to a shell.

A cell magic is a cleanup transformer (its head line becomes a literal), an AST transformer (the literal becomes a
`with` around the body, see perfmagic.capture.cell) and a real magic of the same name (perfmagic.magics.running.forms).
The AST transformer never raises: IPython would drop it and run cells unmeasured.
"""

from __future__ import annotations

import ast
import builtins
from typing import Any

from perfmagic.capture.cell.marks import RUNTIME
from perfmagic.capture.cell.source import Head, replace_head
from perfmagic.capture.cell.tree import head_of, refusal, wrap
from perfmagic.errors import PerfmagicError
from perfmagic.magics.running.forms import LineMagic, MisplacedMagic, NamedMagic, SentMagic
from perfmagic.magics.running.names import CELL_MAGICS, LINE_MAGICS, SENT_MAGICS, cell_magic
from perfmagic.magics.running.runtime import Runtime

_RESULT = ("perfmagic.results.faces", "Result")  # by name: the classes of results come in with the first result


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
            advice = f"a single statement goes behind %{head.name}"
            return refusal(tree, f"%%{head.name}: the cell is empty, there is nothing to measure; {advice}")
        return wrap(
            tree,
            repeated=magic.repeated or getattr(options, "rounds", 1) != 1,
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
    for name in CELL_MAGICS:
        shell.register_magic_function(NamedMagic(shell, name), "line_cell", name)
        shell.register_magic_function(MisplacedMagic(name), "line", f"%{name}")
    for name in SENT_MAGICS:
        shell.register_magic_function(SentMagic(shell, name), "cell", name)
        shell.register_magic_function(MisplacedMagic(name), "line", f"%{name}")
    for name in LINE_MAGICS:
        shell.register_magic_function(LineMagic(shell, name), "line", name)
    shell.display_formatter.ipython_display_formatter.for_type_by_name(*_RESULT, _display)


def unload(shell: Any) -> None:
    """Take everything out again, and put back what had our names before."""
    cleanup, trees = shell.input_transformers_cleanup, shell.ast_transformers
    cleanup[:] = [t for t in cleanup if not isinstance(t, HeadTransformer)]
    trees[:] = [t for t in trees if not isinstance(t, BodyTransformer)]
    for kind, name in _kinds_and_names():
        shell.magics_manager.magics[kind].pop(name, None)
    shell.display_formatter.ipython_display_formatter.pop(".".join(_RESULT), None)
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
    in_cells = [(kind, name) for name in CELL_MAGICS for kind in ("line", "cell")]
    in_cells += [("cell", name) for name in SENT_MAGICS]
    in_cells += [("line", f"%{name}") for name in (*CELL_MAGICS, *SENT_MAGICS)]
    return [*in_cells, *(("line", name) for name in LINE_MAGICS)]


def _display(result: Any) -> None:
    """A result as the value of a cell: drawn, unless that very cell has just drawn it."""
    from perfmagic.show import show_once

    show_once(result)
