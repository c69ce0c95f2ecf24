"""Which line of the user's code is running, and how others read of it."""

from __future__ import annotations

import re
import sys
import threading
from pathlib import Path
from types import FrameType

_OURS = ("torch", "perfmagic", "contextlib", "typing_extensions")  # the last two wrap functions of torch
# files that say nothing of the user: installed packages, the standard library, and what has no file of Python's
_LIBRARY = re.compile(r"(?:site|dist)-packages|[/\\]lib[/\\]python\d|[/\\]torch[/\\]|^<(?!ipython)|^\?\?")
_SOURCES = (".py", ">")  # a file, or a cell
_CELL = re.compile(r"<ipython-input-(\d+)-")  # as IPython names the code of a cell that no file has


def user_line() -> tuple[str, int]:
    """File and line of the innermost code of the user's on this thread, ("", 0) where there is none.

    A device's part of a backward pass runs on a thread of torch's: it was asked for where the main thread waits for it.
    """
    frame = _users(sys._getframe(1))
    if frame is None:
        frame = _in_backward(sys._current_frames().get(threading.main_thread().ident or 0))
    if frame is None or _module_of(frame) == "threading":
        return "", 0
    return frame.f_code.co_filename, frame.f_lineno


def _users(frame: FrameType | None) -> FrameType | None:
    while frame is not None and _module_of(frame) in _OURS:
        frame = frame.f_back
    return frame


def _in_backward(frame: FrameType | None) -> FrameType | None:
    """The user's code that started the backward pass which this thread is in."""
    inside = frame is not None and frame.f_globals.get("__name__", "").startswith("torch.autograd")
    return _users(frame) if inside else None


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


def _module_of(frame: FrameType) -> str:
    return str(frame.f_globals.get("__name__", "")).split(".", 1)[0]
