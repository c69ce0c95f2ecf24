"""Which line of the user's code is running, and how others read of it."""

from __future__ import annotations

import gc
import re
import sys
import threading
from functools import partial
from itertools import accumulate, chain, islice, repeat, takewhile
from operator import attrgetter, is_not, methodcaller
from pathlib import Path
from types import CodeType, FrameType
from typing import Any, NamedTuple

_OURS = ("torch", "perfmagic", "contextlib", "typing_extensions")  # the last two wrap functions of torch
# files that are not the user's: installed packages, the standard library, and what has no file of Python's
_LIBRARY = re.compile(r"(?:site|dist)-packages|[/\\]lib[/\\]python\d|[/\\]torch[/\\]|^<(?!ipython)|^\?\?")
_SOURCES = (".py", ">")  # a file, or a cell
_CELL = re.compile(r"<ipython-input-(\d+)-")  # as IPython names the code of a cell that no file has
_CONTAINERS = 500  # two for each function on a stack (60 in a notebook, 100 under pytest), one for each thread


def user_line() -> tuple[str, int]:
    """File and line of the innermost code of the user's on this thread, ("", 0) where there is none.

    A device's part of a backward pass runs on a thread of torch's: it was asked for where the main thread waits for it.
    """
    frame: FrameType | None = sys._getframe(1)
    while frame is not None and _package(frame.f_globals) in _OURS:
        frame = frame.f_back
    place = _in_backward() if frame is None else Place(frame.f_code, frame.f_lineno, frame.f_globals)
    if place is None or place.module == "threading":
        return "", 0
    return place.code.co_filename, place.line


def _in_backward() -> Place | None:
    """The user's code on the main thread that started the backward pass which this thread is in."""
    stack = stack_of(threading.main_thread().ident)
    inside = stack and stack[0].module.startswith("torch.autograd")
    return next((place for place in stack if _package(place.variables) not in _OURS), None) if inside else None


class Place(NamedTuple):
    """Where a function is that a thread runs.  variables: of its module."""

    code: CodeType
    line: int
    variables: dict[str, Any]

    @property
    def module(self) -> str:
        """The name of its module."""
        return str(self.variables.get("__name__", ""))


def stack_of(thread: int | None) -> list[Place]:
    """What a thread runs, the innermost function first; nothing for a thread that has ended.

    It is read in one call into C, during which no thread goes on. Code that holds a frame while its function returns
    holds its tensors, too: autograd then copies a gradient that it would have kept, and the device has one op more.
    Before Python 3.12, a garbage collection can start inside such a call and let other threads run: it goes first.
    """
    if sys.version_info < (3, 12) and gc.isenabled() and 0 < gc.get_threshold()[0] - _CONTAINERS < gc.get_count()[0]:
        gc.collect(0)
    innermost = map(methodcaller("get", thread), islice(iter(sys._current_frames, None), 1))
    frames = takewhile(partial(is_not, None), accumulate(chain(innermost, repeat("f_back")), getattr))
    return list(map(Place._make, list(map(attrgetter("f_code", "f_lineno", "f_globals"), frames))))


def running_threads() -> list[int]:
    """The numbers of all threads that run Python, also of those that Python has not started."""
    return next(map(list, iter(sys._current_frames, None)))


def is_main_in_backward() -> bool:
    """Whether the main thread waits for a backward pass."""
    return _in_backward() is not None


def is_users(file: str) -> bool:
    """Whether a file, as stacks name it, holds code of the user's."""
    return file.endswith(_SOURCES) and _LIBRARY.search(file) is None


def is_torchs(file: str) -> bool:
    """Whether a file, as stacks name it, is of torch."""
    return "/torch/" in file.replace("\\", "/")


def describe_line(file: str, line: int) -> str:
    """A line of code as other ranks read it: `line 3`, `a.py, line 3`, "" for line 0.

    `cell 2, line 3` where another cell runs than the one of the line.
    """
    if not line:
        return ""
    cell = _CELL.match(file)
    if cell is None:
        return f"line {line}" if "ipykernel_" in file else f"{Path(file).name}, line {line}"
    running, frame = cell, sys._getframe(1)
    while (below := frame.f_back) is not None:
        running, frame = _CELL.match(frame.f_code.co_filename) or running, below
    return f"line {line}" if running[1] == cell[1] else f"cell {cell[1]}, line {line}"


def _package(variables: dict[str, Any]) -> str:
    return str(variables.get("__name__", "")).split(".", 1)[0]
