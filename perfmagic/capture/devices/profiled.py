"""Whether torch's profiler has been opened by perfmagic in this process.

CUPTI stays subscribed afterwards, and launches are reported 10 to 20 % slower (pytorch #146604): a benchmark says so.
"""

from __future__ import annotations

_profiled = False


def profiled_before() -> bool:
    """Whether perfmagic has opened torch's profiler before."""
    return _profiled


def note_profiled() -> None:
    """Remember that torch's profiler is open now."""
    global _profiled
    _profiled = True
