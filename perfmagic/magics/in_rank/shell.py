"""The shell of a rank: streams, displays, values and tracebacks that go to the notebook."""

from __future__ import annotations

import os
import sys
import threading
from contextlib import suppress
from typing import Any

from IPython.core.compilerop import CachingCompiler
from IPython.core.displayhook import DisplayHook
from IPython.core.displaypub import DisplayPublisher
from IPython.core.error import StdinNotImplementedError
from IPython.core.interactiveshell import InteractiveShell

from perfmagic.capture.devices.no_cuda import advise
from perfmagic.capture.ranks.connection import Connection
from perfmagic.capture.ranks.failures import is_mismatch
from perfmagic.capture.ranks.service import Service

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


def ended_by_others(service: Service, error: BaseException) -> bool:
    """Whether a cell ended because its operations were ended, or because the notebook was interrupted."""
    ends = isinstance(error, (RuntimeError, KeyboardInterrupt)) and not is_mismatch(str(error))
    return ends and bool(service.freed or service.interrupted)


def no_input(_prompt: object = "") -> str:
    """input() in a rank. Raises StdinNotImplementedError: several processes cannot ask one person."""
    message = "a rank has nobody to ask: call input() in the notebook, and send the answer with %ranks push NAME"
    raise StdinNotImplementedError(message)


class NamedCells(CachingCompiler):
    """Keeps the file name of the running cell's code."""

    service: Service | None = None

    def cache(self, *args: Any, **kwargs: Any) -> str:
        name: str = super().cache(*args, **kwargs)
        if self.service is not None and not self.service.cell_file:
            self.service.cell_file = name
        return name


class Publisher(DisplayPublisher):
    """Sends what is displayed to the notebook."""

    def publish(self, data: Any, *_: Any, **__: Any) -> None:
        shell: Any = self.shell
        if shell.connection.is_own:  # a forked child cannot reach the notebook
            shell.connection.send({"display": data})

    def clear_output(self, wait: bool = False) -> None:
        """Nothing: the output is shared."""


class Hook(DisplayHook):
    """Keeps the last value of a cell. Earlier values, where all are shown, go to the notebook at once."""

    def write_output_prompt(self) -> None:
        pass

    def write_format_data(self, format_dict: dict[str, Any], md_dict: Any = None) -> None:
        shell: Any = self.shell
        if shell.value is not None:
            shell.connection.send({"display": shell.value})
        shell.value = format_dict

    def finish_displayhook(self) -> None:
        pass


class RankShell(InteractiveShell):
    """Keeps tracebacks and values instead of printing them."""

    compiler_class = NamedCells
    traceback_text = ""
    value: Any = None
    connection: Any = None
    service: Any = None

    def ask_exit(self) -> None:
        """Called by quit()."""
        print("perfmagic: quit() ends no rank; %ranks stop ends all")

    def showtraceback(self, exc_tuple: Any = None, *args: Any, **kwargs: Any) -> None:
        """Format an error, unless it will not be shown: the first time, frames of torch take a second."""
        error = exc_tuple[1] if exc_tuple else sys.exc_info()[1]
        if error is not None and ended_by_others(self.service, error):
            return
        if error is not None:
            advise(error)
        super().showtraceback(exc_tuple, *args, **kwargs)

    def _showtraceback(self, etype: Any, evalue: Any, stb: Any) -> None:
        self.print_traceback()
        self.traceback_text = "\n".join(stb)

    def print_traceback(self) -> None:
        """Print a traceback that did not end the cell: of a failing repr, or of a script under %run."""
        text, self.traceback_text = self.traceback_text, ""
        if text:
            sys.stderr.write(f"{text}\n")
