"""What sys.stdout and sys.stderr are in a rank."""

from __future__ import annotations

import os
import threading
from contextlib import suppress

from perfmagic.capture.ranks.connection import Connection

_KEPT_CHARS = 1 << 12  # of a line that is overwritten again and again


class Stream:
    """A stream of a rank: sends whole lines to the notebook, and of overwritten lines the last state.

    Lines of a forked child (a loader's worker) go to the rank's pipe, like output of C++.
    """

    encoding, errors, closed = "utf-8", "replace", False

    def __init__(self, connection: Connection, name: str) -> None:
        self.name = name
        self._connection, self._lock = connection, threading.RLock()
        self._rest: list[str] = []  # of a line that has not ended
        self._rest_chars = 0
        os.register_at_fork(after_in_child=self._forked)

    def _forked(self) -> None:
        """Start with no lock and no unfinished line: another thread of the parent may have been writing."""
        self._lock, self._rest, self._rest_chars = threading.RLock(), [], 0

    def write(self, text: str) -> int:
        with self._lock:
            whole, newline, rest = text.rpartition("\n")
            if newline:
                self._send("".join([*self._rest, whole]))
                self._rest, self._rest_chars = [], 0
            self._rest.append(rest)
            self._rest_chars += len(rest)
            if "\r" in rest and self._rest_chars > _KEPT_CHARS:
                self._rest = [_last_state("".join(self._rest))]
                self._rest_chars = len(self._rest[0])
        return len(text)

    def writelines(self, lines: list[str]) -> None:
        for line in lines:
            self.write(line)

    def end(self) -> None:
        """Send an unfinished line."""
        with self._lock:
            rest = "".join(self._rest)
            self._rest, self._rest_chars = [], 0
            if rest:
                self._send(rest)

    def flush(self) -> None:
        """Do nothing: lines are sent when they end, so that ranks do not mix within a line."""

    def close(self) -> None:
        """Only end(): the next cell prints, too."""
        self.end()

    def isatty(self) -> bool:
        return False

    def fileno(self) -> int:
        return 1 if self.name == "stdout" else 2

    def readable(self) -> bool:
        return False

    def writable(self) -> bool:
        return True

    def _send(self, text: str) -> None:
        lines = "\n".join(_last_state(line).rstrip("\r") for line in text.split("\n"))
        if self._connection.is_own:
            self._connection.send({"stream": self.name, "text": lines})
            return
        unsent = f"{lines}\n".encode(errors="replace")
        with suppress(OSError):  # the rank has ended before its child
            while unsent:
                unsent = unsent[os.write(self.fileno(), unsent) :]


def _last_state(line: str) -> str:
    """The text that last overwrote a line."""
    visible = line.rstrip("\r")
    return visible.rpartition("\r")[2] + line[len(visible) :]


def is_usable(stream: object) -> bool:
    """Whether a stream of a cell can be written to by the next one: not None, and not closed."""
    can = all(callable(getattr(stream, name, None)) for name in ("write", "flush"))
    return can and not getattr(stream, "closed", False)
