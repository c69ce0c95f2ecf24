"""One reading: a process of its own, watched by a thread, ended when it takes too long or nobody waits."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import time
from concurrent.futures import Future
from contextlib import suppress
from pathlib import Path
from typing import Any

from perfmagic import units
from perfmagic.server.limits import Limits, settable
from perfmagic.server.outcomes import Refused, told

LOOKS_EVERY_S = 0.05
STARTS_GROUP = os.name == "posix"


class Reading:
    """What one file or folder becomes.

    target: the file to make; beside it lie what the process says (.said) and what it complains of (.err).
    """

    def __init__(self, source: Path, target: Path, size_bytes: int, limits: Limits) -> None:
        self.source, self.target, self.limits = source, target, limits
        self.done: Future[None] = Future()  # when it is over, well or not
        self._size_bytes = size_bytes
        self._said, self._err = target.with_suffix(".said"), target.with_suffix(".err")
        self._refused: Refused | None = None
        self._began = self._asked = time.monotonic()
        self._waits = True

    def start(self, turn: threading.Semaphore) -> None:
        """Read as soon as it is this one's turn. The thread is a daemon: a server that ends waits for none."""
        threading.Thread(target=self._run, args=(turn,), name="perfmagic reading", daemon=True).start()

    def asked(self) -> None:
        """Somebody waits for it."""
        self._asked = time.monotonic()

    def progress(self) -> dict[str, Any]:
        """How far it is: size_bytes, seconds, and of a folder how many files of how many are read."""
        said = told(self._said)
        return {
            "waits": self._waits,
            "size_bytes": self._size_bytes,
            "seconds": round(time.monotonic() - self._began, 1),
            "files": said.get("files", 0),
            "of": said.get("of", 0),
        }

    @property
    def refused(self) -> bool:
        return self._refused is not None

    def result(self) -> Path:
        """The finished file. Raises Refused."""
        if self._refused is not None:
            raise self._refused
        return self.target

    def _run(self, turn: threading.Semaphore) -> None:
        try:
            with turn:
                self._waits = False
                self._began = time.monotonic()
                if self._idle():
                    raise Refused("nobody waited for it any more", "open it again")
                self._read()
        except Refused as refused:
            self._refused = refused
        except OSError as error:
            self._refused = Refused(f"{self.source.name} cannot be read here: {error.strerror or error}")
        finally:
            for rest in (self._said, self._err):
                rest.unlink(missing_ok=True)
            self.done.set_result(None)

    def _read(self) -> None:
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
                start_new_session=STARTS_GROUP,
            )
        try:
            self._watch(process)
        finally:
            _end(process)
        if process.returncode != 0:
            raise self._why(process.returncode)

    def _watch(self, process: subprocess.Popen[bytes]) -> None:
        """Wait for the process. Raises Refused where it takes too long."""
        while process.poll() is None:
            if time.monotonic() - self._began > self.limits.seconds:
                raise Refused(
                    f"{self.source.name}: reading took more than {self.limits.seconds:g} s",
                    settable("seconds"),
                )
            if self._idle():
                raise Refused("nobody waited for it any more", "open it again")
            time.sleep(LOOKS_EVERY_S)

    def _idle(self) -> bool:
        return time.monotonic() - self._asked > self.limits.idle_s

    def _why(self, status: int) -> Refused:
        said = told(self._said)
        if "message" in said:
            return Refused(said["message"], said.get("hint", ""))
        ended = f"ended with status {status}" if status >= 0 else f"was ended by signal {-status}"
        last = "".join(f": {line}" for line in self._err.read_text(errors="replace").strip().splitlines()[-1:])
        limit = f"it may take {units.size(self.limits.memory_bytes)} of memory: {settable('memory_bytes')}"
        return Refused(f"{self.source.name}: the process that read it {ended}{last}", limit)


def _end(process: subprocess.Popen[bytes]) -> None:
    """End a process, and those that it started."""
    if process.poll() is None:
        with suppress(ProcessLookupError):
            if STARTS_GROUP:
                os.killpg(process.pid, signal.SIGKILL)
            else:
                process.kill()
        process.wait()
    if process.stdin is not None:
        process.stdin.close()
