"""How much memory this process has and had, and how much there still is: mostly of Linux, which tells all three."""

from __future__ import annotations

import sys
from contextlib import suppress
from pathlib import Path

_KB = 1024


def own_bytes() -> int:
    """Memory of this process that is backed by no file, 0 where that is not known."""
    return _kb_of(Path("/proc/self/status"), "RssAnon:") * _KB


def available_bytes() -> int:
    """Memory that could still be had without swapping, 0 where that is not known."""
    return _kb_of(Path("/proc/meminfo"), "MemAvailable:") * _KB


def peak_bytes() -> int:
    """The most memory this process has held, 0 where the system does not report it (Windows)."""
    with suppress(ImportError):
        import resource

        return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * (1 if sys.platform == "darwin" else _KB)
    return 0


def _kb_of(file: Path, key: str) -> int:
    try:
        rows = file.read_text().splitlines()
    except OSError:
        return 0
    return next((int(row.split()[1]) for row in rows if row.startswith(key)), 0)
