"""What is being read, and what was: each file once, a few at a time, the results on disk while the server runs."""

from __future__ import annotations

import asyncio
import hashlib
import os
import tempfile
import threading
from collections import OrderedDict
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from perfmagic.server.limits import Limits
from perfmagic.server.outcomes import Refused
from perfmagic.server.reading import Reading


class Readings:
    """The readings of one server. Their folder is this user's alone and goes when the server ends."""

    def __init__(self, limits: Limits) -> None:
        self.limits = limits
        self._home = tempfile.TemporaryDirectory(prefix="perfmagic-timelines-")  # mode 0700
        self._turn = threading.Semaphore(limits.processes)
        self._running: dict[str, Reading] = {}
        self._kept: OrderedDict[str, Path] = OrderedDict()

    @property
    def folder(self) -> Path:
        return Path(self._home.name)

    async def get(self, source: Path, wait_s: float) -> Path | dict[str, Any]:
        """The finished reading of a file or folder as a file; how far it is where that takes longer.

        wait_s: how long to wait for the end, in seconds.  Raises Refused.
        """
        key, size_bytes = await asyncio.to_thread(_state, source)
        self._sweep()
        if key in self._kept:
            self._kept.move_to_end(key)
            return self._kept[key]
        reading = self._running.get(key)
        if reading is None:
            reading = self._running[key] = Reading(source, self.folder / key, size_bytes, self.limits)
            reading.start(self._turn)
        reading.asked()
        await asyncio.wait({asyncio.wrap_future(reading.done)}, timeout=wait_s)
        reading.asked()
        if not reading.done.done():
            return reading.progress()
        self._sweep()
        return reading.result()

    def _sweep(self) -> None:
        """Keep what has been read, and let go of what was asked for longest ago.

        All who asked hold the reading, so that a refusal is told to each; who asks later has the file read again.
        """
        for key, reading in list(self._running.items()):
            if reading.done.done():
                del self._running[key]
                if not reading.refused:
                    self._kept[key] = reading.target
        while len(self._kept) > 1 and sum(one.stat().st_size for one in self._kept.values()) > self.limits.kept_bytes:
            self._kept.popitem(last=False)[1].unlink(missing_ok=True)


def _state(source: Path) -> tuple[str, int]:
    """A name for what a path holds now, and its size in bytes. Raises Refused where it has gone."""
    try:
        found = [(name, one.st_mtime_ns, one.st_size) for name, one in _stats(source)]
    except OSError as error:
        raise Refused(f"{source.name} cannot be read: {error.strerror or error}") from error
    words = repr((os.fspath(source), sorted(found)))
    return hashlib.sha256(words.encode(errors="surrogateescape")).hexdigest()[:32], sum(size for *_, size in found)


def _stats(source: Path) -> Iterator[tuple[str, os.stat_result]]:
    if not source.is_dir():
        yield source.name, source.stat()
        return
    with os.scandir(source) as entries:
        for entry in entries:
            if entry.is_file() and not entry.name.startswith("."):
                yield entry.name, entry.stat()
