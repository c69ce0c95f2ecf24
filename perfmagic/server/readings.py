"""The readings of a server: each file is read once, a few at a time; results stay on disk while the server runs."""

from __future__ import annotations

import asyncio
import hashlib
import os
import tempfile
import threading
from collections import OrderedDict
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import IO, Any

from perfmagic.base.files import open_regular
from perfmagic.server.reading import Limits, Reading, Turn, UnreadableError


class Readings:
    """The readings of one server. Their folder is this user's alone and goes when the server ends."""

    def __init__(self, limits: Limits) -> None:
        self.limits = limits
        self._folder = _new_folder()
        self._folder_identity = _identity(self._folder)
        self._places = threading.Semaphore(limits.processes), threading.Semaphore(limits.processes)
        self._running: dict[str, Reading] = {}
        self._kept: OrderedDict[str, tuple[Path, int]] = OrderedDict()  # with their sizes in bytes

    @property
    def folder(self) -> Path:
        """Where readings are kept: a new folder where the last one was removed, also if its name is taken by now."""
        with suppress(OSError):
            if _identity(self._folder) == self._folder_identity:
                return Path(self._folder.name)
        with suppress(OSError):
            self._folder.cleanup()
        self._folder = _new_folder()
        self._folder_identity = _identity(self._folder)
        return Path(self._folder.name)

    async def get(self, source: Path, wait_s: float) -> IO[bytes] | dict[str, Any]:
        """The finished reading of a file or folder, open; its progress where that takes longer than wait_s.

        Raises UnreadableError.
        """
        key, size_bytes = await asyncio.to_thread(_state, source)
        self._sweep()
        if (file := self._open(key)) is not None:
            return file
        reading = self._running.get(key)
        if reading is None:
            reading = self._running[key] = Reading(source, self.folder / key, size_bytes, self.limits)
            reading.start(Turn(*self._places))
        reading.keep_alive()
        await asyncio.wait({asyncio.wrap_future(reading.done)}, timeout=wait_s)
        reading.keep_alive()
        if reading.done.done():
            self._sweep()
            reading.check()
            if (file := self._open(key)) is not None:
                return file
        return reading.progress()  # also where its file was deleted: the next request reads it again

    def _open(self, key: str) -> IO[bytes] | None:
        """A kept reading, None where its file has changed: anybody may delete temporary files."""
        target, size_bytes = self._kept.get(key, (None, 0))
        if target is None:
            return None
        with suppress(OSError):
            file = open_regular(target)
            if os.fstat(file.fileno()).st_size == size_bytes:
                self._kept.move_to_end(key)
                return file
            file.close()
        del self._kept[key]
        return None

    def _sweep(self) -> None:
        """Keep finished readings, and drop the least recently used.

        Waiting requests hold their reading, so that each gets its error; a later request reads the file again.
        """
        for key, reading in list(self._running.items()):
            if reading.done.done():
                del self._running[key]
                with suppress(OSError):  # it may be deleted already
                    if not reading.failed:
                        self._kept[key] = reading.target, reading.target.stat().st_size
        while len(self._kept) > 1 and sum(size for _, size in self._kept.values()) > self.limits.kept_bytes:
            target, _ = self._kept.popitem(last=False)[1]
            with suppress(OSError):
                target.unlink()


def _new_folder() -> tempfile.TemporaryDirectory[str]:
    Path(tempfile.gettempdir()).mkdir(parents=True, exist_ok=True)  # a cleaner may have removed it, too
    return tempfile.TemporaryDirectory(prefix="perfmagic-timelines-")  # mode 0700


def _identity(folder: tempfile.TemporaryDirectory[str]) -> tuple[int, int, int]:
    """Numbers that differ for another folder of the same name."""
    stat = Path(folder.name).lstat()
    return stat.st_dev, stat.st_ino, stat.st_uid


def _state(source: Path) -> tuple[str, int]:
    """A key for the present content of a path, and its size in bytes. Raises UnreadableError where it is gone."""
    try:
        files = [(name, stat.st_mtime_ns, stat.st_size) for name, stat in _stats(source)]
    except OSError as error:
        raise UnreadableError(f"{source.name} cannot be read: {error.strerror or error}") from None
    content = repr((os.fspath(source), sorted(files)))
    return hashlib.sha256(content.encode(errors="surrogateescape")).hexdigest()[:32], sum(size for *_, size in files)


def _stats(source: Path) -> Iterator[tuple[str, os.stat_result]]:
    if not source.is_dir():
        yield source.name, source.stat()
        return
    with os.scandir(source) as entries:
        for entry in entries:
            if entry.is_file() and not entry.name.startswith("."):
                yield entry.name, entry.stat()
