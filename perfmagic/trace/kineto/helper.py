"""A second process that decodes a share of a large file's chunks, because decoding keeps one core busy.

A plain child of this interpreter: it imports nothing of the user's, gets JSON text through a pipe and gives columns
back. No pool of a library: those start by importing the main module again, or by forking a process with threads, and a
notebook's kernel is no place for either. Where it cannot be started or is lost, the file is read without it.
"""

from __future__ import annotations

import os
import pickle
import queue
import struct
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from types import TracebackType
from typing import IO, Any, Protocol

from perfmagic.base.errors import OptionError
from perfmagic.trace.kineto.decode import UNSOUND, Chunk, decoded
from perfmagic.trace.kineto.gathered import Gathered

VARIABLE = "PERFMAGIC_HELPER"  # 0: none, for batch systems that count processes or give each one core
ALONE_BYTES = 24 << 20  # of text that is read before a helper pays: it takes about as long to start
_WAITING = 2  # chunks that stand ready for the helper
_FRAME = struct.Struct("<qq")  # a chunk's number and length
_GREETING = b"perfmagic"  # before the columns: tells them from what else may print
_PROGRAM = """import gc, sys
gc.disable()
sys.path[:] = {path!r}
from perfmagic.trace.kineto.helper import serve
from perfmagic.trace.kineto.tables import Tables
serve(Tables())"""


class HelperLostError(Exception):
    """The helper ended before it gave its columns: it met damage, or somebody ended it. Chunks it took are lost."""


class Helper:
    """Decodes chunks beside this process, once so much was read that it pays. As a context it never outlives the block.

    wanted: False for one that takes nothing. Raises OptionError where the environment's switch is neither 0 nor 1.
    """

    def __init__(self, *, wanted: bool = True) -> None:
        self._wanted = _allowed() and wanted and _has_cores() and _interpreter() is not None
        self._read_bytes = 0
        self._process: subprocess.Popen[bytes] | None = None
        self._ready: queue.Queue[tuple[int, bytes] | None] = queue.Queue(_WAITING)
        self._feeder = threading.Thread(target=self._feed, name="perfmagic-feeder", daemon=True)
        self._lost = False

    def __enter__(self) -> Helper:  # noqa: PYI034 - typing.Self needs Python 3.11
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, tb: TracebackType | None) -> None:
        if self._process is None:
            return
        self._process.kill()  # is about to end by itself where all went well
        self._process.wait()
        list(self.taken_back())
        self._ready.put(None)  # a write under way has failed with the process
        self._feeder.join()
        for pipe in (self._process.stdin, self._process.stdout):
            with suppress(OSError):  # what was not written
                pipe.close()  # type: ignore[union-attr]  # both were asked for

    def takes(self, number: int, text: bytes) -> bool:
        """Whether the helper takes a chunk; where not, it is for the caller. Raises HelperLostError."""
        self._read_bytes += len(text)
        if not self._wanted or self._read_bytes < ALONE_BYTES:
            return False
        if self._process is None and not self._start():
            return False
        if self._lost:
            raise HelperLostError
        try:
            self._ready.put_nowait((number, text))
        except queue.Full:
            return False
        return True

    def taken_back(self) -> Iterator[tuple[int, bytes]]:
        """The chunks that still wait for the helper: the caller is free, and decodes them itself."""
        with suppress(queue.Empty):
            while True:
                if entry := self._ready.get_nowait():
                    yield entry

    def gathered(self) -> Gathered | None:
        """What the helper's chunks hold, None where there was no helper. Raises HelperLostError."""
        if self._process is None:
            return None
        self._ready.put(None)
        self._feeder.join()
        columns: IO[bytes] = self._process.stdout  # type: ignore[assignment]  # was asked for
        if self._lost or columns.read(len(_GREETING)) != _GREETING:
            raise HelperLostError
        try:
            gathered: Gathered = pickle.load(columns)  # from this process's own child
        except (EOFError, pickle.UnpicklingError) as error:
            raise HelperLostError from error
        return gathered

    def _start(self) -> bool:
        program = _PROGRAM.format(path=[os.fspath(Path(entry).resolve()) for entry in sys.path])
        try:
            self._process = subprocess.Popen(
                [str(_interpreter()), "-c", program], stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                stderr=subprocess.DEVNULL, creationflags=getattr(subprocess, "CREATE_NO_WINDOW", 0),
            )  # fmt: skip
        except OSError:  # too many processes, too little memory: not forbidden, only slower
            self._wanted = False
            return False
        self._feeder.start()
        return True

    def _feed(self) -> None:
        """Write what is ready, in a thread: the pipe is full while the helper decodes."""
        pipe: IO[bytes] = self._process.stdin  # type: ignore[assignment, union-attr]  # started with the process
        try:
            while entry := self._ready.get():
                pipe.write(_FRAME.pack(entry[0], len(entry[1])))
                pipe.write(entry[1])
                pipe.flush()
            pipe.close()
        except OSError:
            self._lost = True


class TakesChunks(Protocol):
    """What gathers the rows of chunks."""

    gathered: Gathered

    def add(self, chunk: Chunk, number: int) -> None: ...


def serve(tables: TakesChunks) -> None:
    """The helper's side: chunks from standard input to its end, then columns to standard output."""
    out = os.fdopen(os.dup(sys.stdout.fileno()), "wb")
    sys.stdout = sys.stderr  # nothing else may print into the columns
    source = sys.stdin.buffer
    try:
        while head := source.read(_FRAME.size):
            number, length = _FRAME.unpack(head)
            tables.add(decoded(source.read(length)), number)
    except (*UNSOUND, struct.error):
        sys.exit(1)  # the reader without a helper finds and reports the damage
    with out:
        out.write(_GREETING)
        pickle.dump(tables.gathered, out, protocol=5)


def _allowed() -> bool:
    choice = os.environ.get(VARIABLE, "") or "1"
    if choice not in ("0", "1"):
        raise OptionError(f"{VARIABLE}: {choice!r} is neither 0 nor 1", hint=f"{VARIABLE}=0 reads without a helper")
    return choice == "1"


def _interpreter() -> str | None:
    """The path of Python, None where it is embedded in another program, which must not be started again."""
    name = Path(sys.executable or "").name.lower()
    return None if getattr(sys, "frozen", False) or not name.startswith(("python", "pypy")) else sys.executable


def _has_cores() -> bool:
    usable: Any = getattr(os, "sched_getaffinity", None)  # not on macOS and Windows
    return (len(usable(0)) if usable else os.cpu_count() or 1) > 1
