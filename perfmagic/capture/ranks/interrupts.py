"""While a cell runs in ranks, an interrupt of the notebook is counted: it is for the ranks, and no message is torn."""

from __future__ import annotations

import os
import signal
import threading
from contextlib import suppress
from typing import Any


class Interrupts:
    """A resource of an Owner.  count: how many came.  wake: a descriptor that becomes readable with each."""

    def __init__(self) -> None:
        self.count = 0
        self.wake = -1
        self._end = -1
        self._before: Any = None

    def take(self) -> None:
        self.wake, self._end = os.pipe()
        for fd in (self.wake, self._end):
            os.set_blocking(fd, False)
        if threading.current_thread() is threading.main_thread() and callable(signal.getsignal(signal.SIGINT)):
            self._before = signal.signal(signal.SIGINT, self._came)

    def give_back(self) -> None:
        if self._before is not None:
            signal.signal(signal.SIGINT, self._before)
            self._before = None
        for fd in (self.wake, self._end):
            if fd >= 0:
                with suppress(OSError):
                    os.close(fd)
        self.wake = self._end = -1

    def check(self) -> None:
        """Raises KeyboardInterrupt where one has come: between two messages."""
        if self.count:
            raise KeyboardInterrupt

    def _came(self, *_: object) -> None:
        self.count += 1
        with suppress(OSError):
            os.write(self._end, b"i")
