"""While a cell runs in ranks, an interrupt of the notebook is counted: it is for the ranks, and no message is torn."""

from __future__ import annotations

import os
import signal
import threading
from contextlib import suppress
from typing import Any


class Interrupts:
    """A with block.  count: how many came.  wake: a descriptor that becomes readable with each.

    hear() gives the count; one that comes after the last hear() strikes at the end of the block.

    No resource of an Owner: that one puts back the handlers which it found, and this replaces one.
    """

    def __init__(self) -> None:
        self.count = self._heard = 0
        self.wake = self._end = -1
        self._before: Any = None

    def __enter__(self) -> Interrupts:  # noqa: PYI034 - typing.Self needs Python 3.11
        self.wake, self._end = os.pipe()
        for fd in (self.wake, self._end):
            os.set_blocking(fd, False)
        if threading.current_thread() is threading.main_thread() and callable(signal.getsignal(signal.SIGINT)):
            self._before = signal.signal(signal.SIGINT, self._came)
        return self

    def __exit__(self, kind: object, *_error: object) -> None:
        ends, self.wake, self._end = (self.wake, self._end), -1, -1
        for fd in ends:
            os.close(fd)
        if self._before is not None:  # the last of all: from here on an interrupt strikes
            signal.signal(signal.SIGINT, self._before)
            if kind is None and self.count > self._heard:
                self._before(signal.SIGINT, None)

    def hear(self) -> int:
        """How many have come, all of which are acted upon."""
        self._heard = self.count
        return self._heard

    def check(self) -> None:
        """Raises KeyboardInterrupt where one has come: between two messages."""
        if self.count:
            raise KeyboardInterrupt

    def _came(self, *_: object) -> None:
        self.count += 1
        with suppress(OSError):
            os.write(self._end, b"i")
