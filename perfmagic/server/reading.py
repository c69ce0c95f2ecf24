"""One reading: a separate process, watched by a thread, ended when it takes too long or has no reader."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Mapping
from concurrent.futures import Future
from contextlib import suppress
from dataclasses import dataclass, fields, replace
from pathlib import Path
from typing import Any

from perfmagic.base import units

# Limits on what reading traces costs a Jupyter server.


@dataclass(frozen=True)
class Limits:
    """In a server's configuration: `c.Perfmagic.memory_bytes = 4 << 30`.

    processes: readings at a time, and as many more of those that take longer than ten seconds.
    memory_bytes: address space of each process, where the system can limit it.  seconds: of one reading.
    kept_bytes: all finished readings on disk, and the most that one may take.
    idle_s: a reading without a request for this long is ended.
    """

    processes: int = 2
    memory_bytes: int = 8 << 30
    seconds: float = 600.0
    kept_bytes: int = 1 << 30
    idle_s: float = 40.0


def limit_hint(limit: str) -> str:
    """The setting to quote in an error."""
    return f"c.Perfmagic.{limit} in the configuration of the Jupyter server sets the limit"


def limits_from(config: Mapping[str, Any]) -> Limits:
    """The limits that a server's configuration sets; defaults for the others."""
    given = config.get("Perfmagic", {})
    return replace(Limits(), **{field.name: given[field.name] for field in fields(Limits) if field.name in given})


# What a reading reports to the server, as a small JSON file: its progress, or why it failed.


class UnreadableError(Exception):
    """A path that does not open as a timeline.

    hint: what the user can do, "" for nothing.
    """

    def __init__(self, message: str, hint: str = "") -> None:
        super().__init__(message)
        self.message = message
        self.hint = hint


def write_message(path: Path, **fields: Any) -> None:
    """Replace a file's message; a reader sees the old message or the new one, complete."""
    beside = path.with_suffix(".new")
    beside.write_text(json.dumps(fields))
    beside.replace(path)


def read_message(path: Path) -> dict[str, Any]:
    """A file's message; {} before the first."""
    with suppress(OSError, ValueError):
        message = json.loads(path.read_text())
        return message if isinstance(message, dict) else {}
    return {}


POLL_S = 0.05
LONG_S = 10.0  # a reading that takes longer leaves its place to others: it may hang
END_TIMEOUT_S = 5.0  # a process blocked by a dead network mount ignores even SIGKILL
HAS_PROCESS_GROUPS = os.name == "posix"


class Turn:
    """A place among the running readings.  for_long: as many places again, for readings that take long.

    Readings that hang therefore block no others, unless they fill those places, too.
    """

    def __init__(self, places: threading.Semaphore, for_long: threading.Semaphore) -> None:
        self._held, self._places, self._for_long = places, places, for_long

    def __enter__(self) -> None:
        self._held.acquire()

    def __exit__(self, *_error: object) -> None:
        self._held.release()

    def step_aside(self) -> None:
        """Move to a place for long readings, where one is free."""
        if self._held is self._places and self._for_long.acquire(blocking=False):
            self._held = self._for_long
            self._places.release()


class Reading:
    """The reading of one file or folder.

    target: the file to make. Beside it lie the process's message (.said) and its stderr (.err).
    """

    def __init__(self, source: Path, target: Path, size_bytes: int, limits: Limits) -> None:
        self.source, self.target, self.limits = source, target, limits
        self.done: Future[None] = Future()  # when it is over, well or not
        self._size_bytes = size_bytes
        self._message_file, self._err = target.with_suffix(".said"), target.with_suffix(".err")
        self._error: UnreadableError | None = None
        self._began_s = self._asked_s = time.monotonic()
        self._waits = True

    def start(self, turn: Turn) -> None:
        """Read as soon as it is this one's turn. The thread is a daemon: a server that ends waits for none."""
        threading.Thread(target=self._run, args=(turn,), name="perfmagic reading", daemon=True).start()

    def keep_alive(self) -> None:
        """Note that a client waits for it."""
        self._asked_s = time.monotonic()

    def progress(self) -> dict[str, Any]:
        """Its progress: size_bytes, seconds, and for a folder the number of files read, and of all."""
        message = read_message(self._message_file)
        return {
            "waits": self._waits,
            "size_bytes": self._size_bytes,
            "seconds": round(time.monotonic() - self._began_s, 1),
            "files": message.get("files", 0),
            "of": message.get("of", 0),
        }

    @property
    def failed(self) -> bool:
        return self._error is not None

    def check(self) -> None:
        """Raise UnreadableError where the reading ended without a file."""
        if self._error is not None:
            raise self._error

    def _run(self, turn: Turn) -> None:
        try:
            with turn:
                self._waits = False
                self._began_s = time.monotonic()
                if self._idle():
                    raise UnreadableError("no request waited for it any more", "open it again")
                self._read(turn)
        except UnreadableError as error:
            self._error = error
        except OSError as error:
            self._error = UnreadableError(f"{self.source.name} cannot be read here: {error.strerror or error}")
        finally:
            removed = True
            with suppress(OSError):  # the folder may be another's by now, or closed to us
                removed = not self.target.parent.is_dir()
                for file in (self._message_file, self._err):
                    file.unlink(missing_ok=True)
            if removed:
                self._error = None  # temporary files were removed: the trace may be sound
            self.done.set_result(None)

    def _read(self, turn: Turn) -> None:
        command = [sys.executable, "-m", "perfmagic.server.work", os.fspath(self.source), os.fspath(self.target)]
        command += [str(self.limits.memory_bytes), str(self.limits.kept_bytes)]
        with self._err.open("wb") as err:
            process = subprocess.Popen(
                command,
                stdin=subprocess.PIPE,  # it ends when this closes, so that none outlives the server
                stdout=subprocess.DEVNULL,
                stderr=err,
                env={**os.environ, "OPENBLAS_NUM_THREADS": "1"},  # each of its threads reserves memory
                cwd=self.target.parent,  # with -m the working folder is searched first: never the user's
                start_new_session=HAS_PROCESS_GROUPS,
            )
        try:
            self._watch(process, turn)
        finally:
            _end(process)
        if process.returncode != 0:
            raise self._error_for(process.returncode)

    def _watch(self, process: subprocess.Popen[bytes], turn: Turn) -> None:
        """Wait for the process. Raises UnreadableError where it takes too long."""
        while process.poll() is None:
            if time.monotonic() - self._began_s > LONG_S:
                turn.step_aside()
            if time.monotonic() - self._began_s > self.limits.seconds:
                raise UnreadableError(
                    f"{self.source.name}: reading took more than {self.limits.seconds:g} s", limit_hint("seconds")
                )
            if self._idle():
                raise UnreadableError("no request waited for it any more", "open it again")
            time.sleep(POLL_S)

    def _idle(self) -> bool:
        return time.monotonic() - self._asked_s > self.limits.idle_s

    def _error_for(self, status: int) -> UnreadableError:
        message = read_message(self._message_file)
        if "message" in message:
            return UnreadableError(message["message"], message.get("hint", ""))
        ended = f"ended with status {status}" if status >= 0 else f"was ended by signal {-status}"
        last = "".join(f": {line}" for line in self._err.read_text(errors="replace").strip().splitlines()[-1:])
        limit = f"it may take {units.size(self.limits.memory_bytes)} of memory: {limit_hint('memory_bytes')}"
        return UnreadableError(f"{self.source.name}: the process that read it {ended}{last}", limit)


def _end(process: subprocess.Popen[bytes]) -> None:
    """End a process, and those that it started."""
    if process.poll() is None:
        with suppress(ProcessLookupError):
            if HAS_PROCESS_GROUPS:
                os.killpg(process.pid, signal.SIGKILL)
            else:
                process.kill()
        with suppress(subprocess.TimeoutExpired):
            process.wait(END_TIMEOUT_S)
    if process.stdin is not None:
        process.stdin.close()
