"""What a group was asked for and has not done: for whoever has to say why a rank waits."""

from __future__ import annotations

import re
import sys
import time
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from types import FrameType

_OURS = ("torch", "perfmagic", "contextlib", "typing_extensions")  # the last two wrap functions of torch
_CELL = re.compile(r"<ipython-input-(\d+)-")  # as IPython names the code of a cell that no file has


@dataclass(frozen=True)
class Operation:
    """One operation between ranks, as a rank was asked for it.

    group: its name.  ranks: of the group, in the whole job.  kind, title: as in a record ("allreduce", "all_reduce").
    number: from 1, of the group's collectives; of a message, of those to or from the same rank.
    size_bytes: of one rank's whole buffer.  peer: a message's other rank in the whole job; None for a collective, and
    for a message from any rank.  on_device: the simulated device runs it.
    file, line: where the code that asked for it stands; "", 0 for a backward pass.
    """

    group: str
    ranks: tuple[int, ...]
    kind: str
    title: str
    number: int
    size_bytes: int
    peer: int | None
    on_device: bool
    file: str
    line: int


@dataclass(frozen=True)
class Standing(Operation):
    """One that is queued or under way.

    running: it has begun; False while it waits for its stream.  since_ns: when it was asked for, by perf_counter_ns.
    """

    running: bool
    since_ns: int


@dataclass(frozen=True)
class Took(Operation):
    """One on host tensors that is over.

    start_ns, end_ns: from its turn to its end, by perf_counter_ns.  thread: which did it, as the system numbers it.
    given_up: it never came about, as other ranks did not take part.
    """

    start_ns: int
    end_ns: int
    thread: int
    given_up: bool = False


@dataclass
class Asked:
    """An operation from the call on. is_done, and settle, which waits, are given once it is queued; settle takes on
    host tensors for how many seconds, and says whether it is over.

    began_ns: when its turn came, on host tensors; later by what it took to learn that all ranks are in it.
    """

    kind: str
    title: str
    number: int
    size_bytes: int
    peer: int | None
    on_device: bool
    file: str
    line: int
    since_ns: int = field(default_factory=time.perf_counter_ns)
    began_ns: int = 0
    running: bool = False
    is_done: Callable[[], bool] = lambda: False
    settle: Callable[..., object] = lambda *_: True

    def what(self, ranks: tuple[int, ...]) -> tuple[str, str, int, int, int | None, bool, str, int]:
        """What an Operation says after its ranks; ranks: of its group, in the whole job."""
        peer = None if self.peer is None else ranks[self.peer]
        return self.kind, self.title, self.number, self.size_bytes, peer, self.on_device, self.file, self.line

    def done(self) -> None:
        """It is over: let go what is_done and settle hold."""
        self.is_done, self.settle = (lambda: True), (lambda *_: True)


class Ledger:
    """Of one group: the numbers of its operations, and those not done. No locks: an interrupt may strike anywhere."""

    def __init__(self) -> None:
        self._asked: deque[Asked] = deque()
        self._numbers: dict[tuple[str, int | None], int] = {}

    def forget(self) -> None:
        """Count from 1 again: all ranks of a group that was connected anew do."""
        self._asked.clear()
        self._numbers.clear()

    def next_number(self, way: str, peer: int | None) -> int:
        """The number of a collective (way ""), or of a message to ("send") or from ("recv") a rank."""
        number = self._numbers[way, peer] = self._numbers.get((way, peer), 0) + 1
        return number

    def add(self, asked: Asked) -> None:
        """Note an operation, and forget those done."""
        while self._asked and self._asked[0].is_done():
            self._asked.popleft()
        self._asked.append(asked)

    def drop(self, asked: Asked) -> None:
        """An operation that could not be queued."""
        if asked in self._asked:
            self._asked.remove(asked)

    def open(self) -> list[Asked]:
        """Those not done, in the order they were asked for."""
        return [asked for asked in list(self._asked) if not asked.is_done()]


def where_asked() -> tuple[str, int]:
    """File and line of the innermost code of the user's on this thread, ("", 0) where there is none."""
    frame: FrameType | None = sys._getframe(1)
    while frame is not None and _module_of(frame) in _OURS:
        frame = frame.f_back
    if frame is None or _module_of(frame) == "threading":
        return "", 0
    return frame.f_code.co_filename, frame.f_lineno


def where_words(file: str, line: int) -> str:
    """Such a place for other ranks: `line 3`, `cell 2, line 3` of another cell than the one that runs, `a.py, line 3`.

    "" for line 0.
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
