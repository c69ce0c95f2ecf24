"""How much memory this process has, and how much there still is: of Linux, which tells both."""

from __future__ import annotations

from pathlib import Path

_KB = 1024


def own_bytes() -> int:
    """Memory of this process that is backed by no file, 0 where that is not known."""
    return _kb_of(Path("/proc/self/status"), "RssAnon:") * _KB


def available_bytes() -> int:
    """Memory that could still be had without swapping, 0 where that is not known."""
    return _kb_of(Path("/proc/meminfo"), "MemAvailable:") * _KB


def _kb_of(file: Path, key: str) -> int:
    try:
        rows = file.read_text().splitlines()
    except OSError:
        return 0
    return next((int(row.split()[1]) for row in rows if row.startswith(key)), 0)
