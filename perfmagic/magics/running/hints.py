"""Hints after a cell: a replacement for CUDA where there is none, coroutines that nobody awaited, clocks."""

from __future__ import annotations

import ast
import inspect
import re
import sys
from collections.abc import Iterator, Mapping
from typing import Any

from perfmagic.capture.cell import below_head
from perfmagic.capture.devices.backends import active_backends, cuda_available, torch_if_imported
from perfmagic.capture.other_clocks import note_once

_CELLS = ("%%bench", "%%syncbench", "%%timeline", "%%memory", "%%graph")
_MEASURED = ("%%timeline", "%%syncbench")  # they ask what a device does
_ALL_ON_CPU = (
    "no device was in use, so torch computed on the CPU while Python waited. Without CUDA, "
    "device = perfmagic.device() is a simulated device"
)
_ASKS_FOR_CUDA = "cuda.is_available()"
# calls of torch that do nothing without CUDA, and raise nothing
_WITHOUT_EFFECT = {
    re.compile(r"\bcuda\.empty_cache\("): "torch.cuda.empty_cache() does nothing without CUDA: "
    "torch.get_device_module(device).empty_cache() is for any device",
    re.compile(r"\bautocast\(\s*(?:device_type\s*=\s*)?['\"]cuda['\"]"): 'torch.autocast("cuda") does nothing '
    "without CUDA: torch.autocast(device.type) is for any device",
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
            print(f"perfmagic: {hint}")  # each time: the measurement lacks the coroutine's work
        if note := note_once(result.info.raw_cell, self._shell.user_ns):
            print(f"perfmagic: {note}")
        for hint in self._device_hints(result.info.raw_cell):
            if hint not in self._printed:
                self._printed.add(hint)
                print(f"perfmagic: {hint}")

    def _device_hints(self, source: str) -> list[str]:
        """Hints for a measured cell that used torch on a machine without CUDA."""
        magic = source.lstrip().split(maxsplit=1)[:1]
        if not magic or magic[0] not in _MEASURED or torch_if_imported() is None or cuda_available():
            return []
        if " --on" in source.lstrip().split("\n", 1)[0]:  # "cuda" is a GPU there
            return []
        hints = [hint for pattern, hint in _WITHOUT_EFFECT.items() if pattern.search(source)]
        if not active_backends() and self._asked_for_cuda(source):
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


def _unawaited_hints(source: str, variables: Mapping[str, object]) -> list[str]:
    """Hints on coroutines that a measured cell created and bound: none of their code has run."""
    created = [name for name, value in variables.items() if _is_new_coroutine(value)]
    if not created or not source.lstrip().startswith(_CELLS):
        return []
    try:
        bound = set(_bound_names(ast.parse(below_head(source))))
    except SyntaxError:  # a cell with other extensions' magics
        return []
    return [
        f"{name} is a coroutine that nobody has awaited: its code has not run and is not in what was measured. "
        f"In a cell: {name} = await …"
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
