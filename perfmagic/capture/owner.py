"""What a capture takes from the process, and how it gives every part back wherever an interrupt comes.

A capture replaces what belongs to the whole process: torch's profiler, stdout, the garbage collector. Three rules hold:

- A resource is noted before it is acquired. Giving it back is harmless, however much of it was acquired, and twice too.
- Acquiring and giving back are shielded: signal handlers run afterwards, and none is lost.
- An exception can still strike before the first line of an `__exit__`. So the same owner guards twice:

      owner = Owner()
      with owner, owner:
          owner.acquire(Muted())

  A `with` that the user writes has one guard. There a signal waits until `__exit__` can act on it: BlockSignals.
"""

from __future__ import annotations

import signal
import sys
import threading
from collections.abc import Callable
from types import CodeType, FrameType
from typing import Protocol, TypeVar

T = TypeVar("T")


class Resource(Protocol):
    """Something of the process that a capture replaces or occupies."""

    def acquire(self) -> None:
        """Acquire it. An exception may stop this at any line."""

    def give_back(self) -> None:
        """Give back what acquire() took, however far it came. Harmless when called again, or before acquire()."""


class Owner:
    """Everything that one capture has taken. close() gives it back, the last first."""

    def __init__(self) -> None:
        self._taken: list[Resource] = []

    def acquire(self, resource: Resource) -> None:
        """Acquire another resource. Raises what the resource raises; close() then gives back the part acquired."""
        self._taken.append(resource)
        shielded(resource.acquire)

    def close(self) -> None:
        """Give everything back; harmless when called again.

        An exception of one resource does not keep the others; the first is raised at the end. After an interrupt the
        next call goes on where this one stopped.
        """
        if self._taken:
            shielded(self._give_back)

    def _give_back(self) -> None:
        first: Exception | None = None
        while self._taken:
            try:
                self._taken[-1].give_back()
            except Exception as error:  # noqa: BLE001 - raised below, when the others are back too
                first = first or error
            self._taken.pop()
        if first is not None:
            raise first

    def __enter__(self) -> Owner:  # noqa: PYI034 - typing.Self needs Python 3.11
        return self

    def __exit__(self, *_error: object) -> None:
        self.close()


_handlers: dict[int, Callable[[int, FrameType | None], object]] = {}  # those that _wait stood in for last, by signal
_came: dict[int, FrameType | None] = {}  # signals that came meanwhile, with the frame they interrupted
_working: list[object] = []  # what the main thread does shielded; a look at it is short, so that no interrupt strikes
_SIGNALS = tuple(signal.valid_signals())


def shielded(work: Callable[[], T]) -> T:
    """Call work() and return its result. Signal handlers of Python wait until it has ended, then they run.

    Only the main thread runs signal handlers: in any other this is work() alone. Keep it short, and wait for nothing
    that may last: it cannot be interrupted.
    """
    if threading.current_thread() is not threading.main_thread() or _working:
        return work()
    try:
        try:
            _defer_signals()
            _working.append(work)
            return work()
        finally:
            _working.clear()
            _restore_handlers()
    finally:  # again, as an exception may have stopped the first
        _working.clear()
        _restore_handlers()


def _defer_signals() -> None:
    for number in _SIGNALS:
        handler = signal.getsignal(number)
        if callable(handler) and handler is not _wait:
            _handlers[number] = handler
            signal.signal(number, _wait)


def _restore_handlers() -> None:
    """Restore the handlers, then call those whose signal came. Usually one of them raises KeyboardInterrupt."""
    for number, handler in list(_handlers.items()):
        if signal.getsignal(number) is _wait:
            signal.signal(number, handler)
    while _came:
        number, frame = _came.popitem()
        if (waited := _handlers.get(number)) is not None:
            waited(number, frame)


def _wait(number: int, frame: FrameType | None) -> None:
    """Stand in for a handler. Outside of a shield it restores the handlers, and this one runs at once."""
    _came[number] = frame
    if not _is_shielded(frame):
        _restore_handlers()


def _is_shielded(frame: FrameType | None) -> bool:
    while frame is not None and frame.f_code is not shielded.__code__:
        frame = frame.f_back
    return frame is not None


Handler = Callable[[int, FrameType | None], object]


def _of_no_ended_block(number: int, handler: Handler) -> Handler:
    """The handler, or what it stood in for where it is of a block that has ended before."""
    block = getattr(handler, "__self__", None)
    while isinstance(block, BlockSignals) and (before := block.stood_in_for(number)) is not None:
        handler, block = before, getattr(before, "__self__", None)
    return handler


class BlockSignals:
    """Signals from the beginning of a with-block to its end: those that would strike before `__exit__` acts wait.

    Python looks for signals where a function begins, and not after an operator. So an interrupt during the last product
    of a block strikes in `__exit__`, before any of its lines has run.

    leaving: the code of the block's `__exit__`, where signals wait.  hearing: of the function that it calls first; that
    one begins with hear(), and signals do not wait in it.  Everywhere else a signal's handler runs at once.
    A resource that needs no owner: an interrupt may stop acquire() and give_back() anywhere. The handlers left then
    pass every signal on. Blocks of several asyncio tasks may end in any order: the last one restores the handlers that
    were there before all of them.
    """

    def __init__(self, *, leaving: CodeType, hearing: CodeType) -> None:
        self._waits_in = {leaving: True, hearing: False}
        self._ended = False
        self._handlers: dict[int, Handler] = {}
        self._came: dict[int, FrameType | None] = {}

    def acquire(self) -> None:
        """Stand in for every handler of Python's. In other threads than the main one signals never strike."""
        if threading.current_thread() is not threading.main_thread():
            return
        self._ended = False
        for number in _SIGNALS:
            handler = signal.getsignal(number)
            if callable(handler) and handler != self._heard:
                self._handlers[number] = handler
                signal.signal(number, self._heard)

    def hear(self) -> None:
        """Call the handlers of the signals that have waited. Usually one of them raises."""
        while self._came:
            number, frame = self._came.popitem()
            self._handlers[number](number, frame)

    def give_back(self) -> None:
        """Restore the handlers, except those that the block replaced, and call those whose signal has waited."""
        self._ended = True
        if threading.current_thread() is threading.main_thread():
            # SIGINT last: while it is ours it waits, and its own handler would raise before the others are back
            for number in sorted(self._handlers, key=lambda number: number == signal.SIGINT):
                if signal.getsignal(number) == self._heard:
                    signal.signal(number, _of_no_ended_block(number, self._handlers[number]))
        self.hear()

    def stood_in_for(self, number: int) -> Handler | None:
        """The handler of a signal from before an ended block; None while the block runs."""
        return self._handlers[number] if self._ended else None

    def _heard(self, number: int, frame: FrameType | None) -> None:
        if self._waits():
            self._came[number] = frame
        else:
            self._handlers[number](number, frame)

    def _waits(self) -> bool:
        frame: FrameType | None = sys._getframe(1)
        while frame is not None and frame.f_code not in self._waits_in:
            frame = frame.f_back
        return frame is not None and self._waits_in[frame.f_code]
