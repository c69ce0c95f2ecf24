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
from perfmagic.capture.ranks.failures import is_mismatch
from perfmagic.capture.ranks.service import Service
from perfmagic.capture.ranks.wire import Wire

_KEPT_CHARS = 1 << 12  # of a line that is overwritten again and again


def ended_by_others(service: Service, error: BaseException) -> bool:
    """Whether a cell ended because its operations were ended, or because the notebook was interrupted."""
    ends = isinstance(error, (RuntimeError, KeyboardInterrupt)) and not is_mismatch(str(error))
    return ends and bool(service.freed or service.interrupted)


def no_input(_prompt: object = "") -> str:
    """input() in a rank. Raises StdinNotImplementedError: several processes cannot ask one person."""
    words = "a rank has nobody to ask: call input() in the notebook, and send the answer with %ranks push NAME"
    raise StdinNotImplementedError(words)


class Stream:
    """A stream of a rank: whole lines go to the notebook; of one that was overwritten, its last state.

    Lines of a forked child (a loader's worker) go to the rank's pipe, as what C++ prints does.
    """

    encoding, errors, closed = "utf-8", "replace", False

    def __init__(self, wire: Wire, name: str) -> None:
        self.name = name
        self._wire, self._lock = wire, threading.RLock()
        self._rest: list[str] = []  # of a line that has not ended
        self._rest_chars = 0
        os.register_at_fork(after_in_child=self._forked)

    def _forked(self) -> None:
        """Another thread of the parent may have been writing; what it began is the parent's to say."""
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
        """Send what has no end of line."""
        with self._lock:
            rest = "".join(self._rest)
            self._rest, self._rest_chars = [], 0
            if rest:
                self._send(rest)

    def flush(self) -> None:
        """A line is sent when it ends: a part of one could be anybody's."""

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
        if self._wire.mine:
            self._wire.send({"stream": self.name, "text": lines})
            return
        left = f"{lines}\n".encode(errors="replace")
        with suppress(OSError):  # the rank has ended before its child
            while left:
                left = left[os.write(self.fileno(), left) :]


def _last_state(line: str) -> str:
    """What a line was last overwritten with."""
    seen = line.rstrip("\r")
    return seen.rpartition("\r")[2] + line[len(seen) :]


class NamedCells(CachingCompiler):
    """Remembers what the running cell's code is called."""

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
        if shell.wire.mine:  # a child's picture has no way to the notebook
            shell.wire.send({"display": data})

    def clear_output(self, wait: bool = False) -> None:
        """Nothing: the output is shared."""


class Hook(DisplayHook):
    """Keeps the last value of a cell; those before it, where all are shown, go to the notebook at once."""

    def write_output_prompt(self) -> None:
        pass

    def write_format_data(self, format_dict: dict[str, Any], md_dict: Any = None) -> None:
        shell: Any = self.shell
        if shell.value is not None:
            shell.wire.send({"display": shell.value})
        shell.value = format_dict

    def finish_displayhook(self) -> None:
        pass


class RankShell(InteractiveShell):
    """Keeps tracebacks and values instead of printing them."""

    compiler_class = NamedCells
    traceback_text = ""
    value: Any = None
    wire: Any = None
    service: Any = None

    def ask_exit(self) -> None:
        """What quit() asks for."""
        print("perfmagic: quit() ends no rank; %ranks stop ends all")

    def showtraceback(self, exc_tuple: Any = None, *args: Any, **kwargs: Any) -> None:
        """Format what was raised, unless nobody will see it: for frames of torch that takes a second the first time."""
        error = exc_tuple[1] if exc_tuple else sys.exc_info()[1]
        if error is not None and ended_by_others(self.service, error):
            return
        if error is not None:
            advise(error)
        super().showtraceback(exc_tuple, *args, **kwargs)

    def _showtraceback(self, etype: Any, evalue: Any, stb: Any) -> None:
        self.say_traceback()
        self.traceback_text = "\n".join(stb)

    def say_traceback(self) -> None:
        """Print one that is not of the cell's own end: of a value whose repr fails, of a script under %run."""
        text, self.traceback_text = self.traceback_text, ""
        if text:
            sys.stderr.write(f"{text}\n")
