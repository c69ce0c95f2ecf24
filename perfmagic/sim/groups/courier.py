"""Threads that run operations on host tensors, so that the caller does not wait.

As on a stream of the device, collectives of a group come one after another, and so do messages of one tag to or from
one rank.
"""

from __future__ import annotations

import sys
import threading
import weakref
from collections import deque
from collections.abc import Callable
from queue import Empty, SimpleQueue

import torch

from perfmagic.sim import torch_private

_SWITCH_INTERVAL_S = 5e-5  # else a courier waits up to 5 ms for the interpreter before its operation begins


class Errand:
    """One operation, from the call until it is over.  error: what it failed with.

    No locks: an interrupt may strike the main thread anywhere.
    """

    def __init__(self, do: Callable[[], None]) -> None:
        self._do: Callable[[], None] | None = do
        self._then: deque[Callable[[], object]] = deque()
        self.done = False
        self.error: BaseException | None = None

    def run(self) -> None:
        """Run the operation, on the courier's thread."""
        do, self._do = self._do, None
        error: BaseException | None = None
        try:
            # no gradients here; memory made in inference mode may be written; and HostLog is what records operations
            with torch.inference_mode(), torch_private.unrecorded():
                if do is not None:
                    do()
        except BaseException as raised:  # noqa: BLE001 - kept: it is raised where somebody waits
            error = raised.with_traceback(None)  # its frames would keep what the operation used
        del do
        self.end(error)

    def end(self, error: BaseException | None) -> None:
        """Mark it as over, or as given up; only the first call counts."""
        if not self.done:
            self.error, self.done = error, True
            self._call()

    def when_done(self, then: Callable[[], object]) -> None:
        """Call `then` at the end; at once where the operation is over."""
        self._then.append(then)
        if self.done:
            self._call()

    def wait(self, timeout_s: float | None = None) -> bool:
        """Block until it is over; False where it is not within the time. An interrupt ends the wait."""
        bell: SimpleQueue[None] = SimpleQueue()
        self.when_done(lambda: bell.put(None))
        try:
            bell.get(timeout=timeout_s)
        except Empty:
            return self.done
        return True

    def _call(self) -> None:
        while self._then:
            try:
                then = self._then.popleft()
            except IndexError:  # another thread was quicker
                return
            then()


class Courier:
    """A thread and its queue; it ends with the object, or with end()."""

    def __init__(self, name: str) -> None:
        sys.setswitchinterval(min(sys.getswitchinterval(), _SWITCH_INTERVAL_S))
        self._errands: SimpleQueue[Errand | None] = SimpleQueue()
        self._thread = threading.Thread(target=_work, args=(self._errands,), name=f"gloo: {name}", daemon=True)
        self._thread.start()
        weakref.finalize(self, self._errands.put, None)

    def take(self, errand: Errand) -> None:
        """Queue an errand."""
        self._errands.put(errand)

    def end(self, within_s: float) -> None:
        """Accept no more errands, and wait for the thread."""
        self._errands.put(None)
        self._thread.join(within_s)


def _work(errands: SimpleQueue[Errand | None]) -> None:
    torch.get_num_threads()  # a thread takes over the process's number at its first use, which must not come later
    while (errand := errands.get()) is not None:
        errand.run()
        del errand  # what it holds is not kept until the next one comes
