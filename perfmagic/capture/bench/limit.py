"""Calls that do not return, or keep more and more memory: the end of a benchmark before the process ends."""

from __future__ import annotations

import gc
import signal
import threading
from collections.abc import Callable
from contextlib import nullcontext, suppress

from perfmagic.base.clock import virtual_clock
from perfmagic.base.errors import CaptureError
from perfmagic.base.free_memory import available_bytes, own_bytes, peak_bytes
from perfmagic.base.units import duration_s, size
from perfmagic.capture.same_work.process import NOW_NS, own_threads

LIMIT_S = 600.0  # of one call: compiling with autotuning takes minutes
LOOK_S = 1.0  # how often; four times within a shorter limit
SLOW = 3  # looks in a row between which the clock went too slowly
MOST_OF_FREE = 0.5  # of the memory that was free at first, that calls may keep
LEAST_S = 0.1  # shorter calls are not worth a word


class Limit:
    """Interrupts the main thread, as Ctrl-C does, when a call has run for longer than a limit.

    running_s: for how long the call under way has run, in real time; 0 where none does.
    stands_still: whether the clock does, as something has replaced it from below: then it interrupts, too.
    over: whether that happened. It cannot elsewhere than in the main thread, and where interrupts are ignored; on
    a virtual clock and without threads it is looked for only where a limit was given.
    """

    def __init__(self, limit_s: float | None, running_s: Callable[[], float]) -> None:
        self.limit_s = LIMIT_S if limit_s is None else limit_s
        self.stands_still = False
        self.over, self._given = False, limit_s is not None
        self._running_s, self._ended = running_s, False
        self._open = threading.Lock()  # released when nothing is measured any more; no `with`: an interrupt may strike
        self._open.acquire()

    def start(self) -> None:
        """Begin to look, in a thread of its own."""
        main = threading.current_thread() is threading.main_thread()
        can = main and callable(signal.getsignal(signal.SIGINT)) and hasattr(signal, "pthread_kill")
        if can and (self._given or virtual_clock() is None):
            with nullcontext() if self._given else suppress(RuntimeError):  # where no thread can be started
                threading.Thread(target=self._watch, daemon=True).start()

    def close(self) -> None:
        """No interrupt comes from here on; harmless when repeated, and when interrupted anywhere."""
        self._ended = True
        if self._open.locked():
            self._open.release()

    def _watch(self) -> None:
        own_threads[0] += 1
        try:
            self._look()
        finally:
            own_threads[0] -= 1

    def _look(self) -> None:
        wait_s, slow = min(LOOK_S, self.limit_s / 4), 0
        from_ns = NOW_NS()
        while not self._open.acquire(timeout=wait_s) and not self._ended:
            now_ns = NOW_NS()  # the wait ignores Python's clocks
            slow = slow + 1 if now_ns - from_ns < wait_s * 1e9 / 2 else 0
            from_ns, self.stands_still = now_ns, slow >= SLOW
            if self.stands_still or self._running_s() > self.limit_s:
                self.over = True
                signal.pthread_kill(threading.main_thread().ident or 0, signal.SIGINT)

    @property
    def hint(self) -> str:
        """What would help."""
        return "start Python anew" if self.stands_still else "limit= gives it longer"

    def words(self, name: str) -> str:
        """What had been going on when an interrupt came; "" between calls, and where they are short."""
        if self.stands_still:
            return f"the clock stands still: {name or 'the function'} may have replaced it"
        running_s = self._running_s()
        if running_s < LEAST_S:
            return ""
        stopped = f", and was stopped: limit={self.limit_s:g} s" if self.over else ""
        return f"a call of {name or 'the function'} had not returned after {duration_s(running_s)}{stopped}"


class HostRoom:
    """Ends a benchmark whose calls keep memory before the system ends the process, and all variables with it."""

    def __init__(self) -> None:
        self._peak_bytes, self._own_bytes = peak_bytes(), own_bytes()
        self._most_bytes = available_bytes() * MOST_OF_FREE

    def look(self) -> None:
        """Raises CaptureError where more than half of the memory that was free at first is gone."""
        if not 0 < self._most_bytes < peak_bytes() - self._peak_bytes:
            return  # the peak is read in 1 µs, the present value in 30
        gc.collect()
        if (grown_bytes := own_bytes() - self._own_bytes) > self._most_bytes:
            raise CaptureError(
                f"the calls keep memory: this process holds {size(grown_bytes)} more than before them",
                hint="let each call free what it makes, or set the number of calls: samples=, calls=",
            )
