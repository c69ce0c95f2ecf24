"""What is given to a result's methods: plain values, or an error that says what to give."""

from __future__ import annotations

import math
from numbers import Integral, Real
from typing import Any

from perfmagic.analysis.timeline.peaks import Peaks
from perfmagic.errors import OptionError


def span_ns(where: str, start_ns: Any, end_ns: Any) -> tuple[int, int]:
    """A time that is not empty, in whole ns."""
    if not all(isinstance(one, Real) and math.isfinite(one) for one in (start_ns, end_ns)):
        given = f"{start_ns!r} and {end_ns!r}"
        raise OptionError(f"{where}: times in ns are needed, not {given}", hint="finding.start_ns, finding.end_ns")
    if end_ns <= start_ns:
        raise OptionError(f"{where}: the window ends at {end_ns} ns, not after its start at {start_ns} ns")
    return int(start_ns), int(end_ns)


def thread_number(where: str, thread: Any) -> int | None:
    """The number of a thread, None for none."""
    if thread is not None and not isinstance(thread, Integral):
        raise OptionError(f"{where}: a thread is a number, not {thread!r}", hint="operators(by_thread=True)")
    return None if thread is None else int(thread)


def check_peaks(where: str, peaks: object) -> None:
    """Raise OptionError for what are no peaks."""
    if peaks is not None and not isinstance(peaks, Peaks):
        hint = 'perfmagic.Peaks(flop_per_s={"fp16": 312e12}, bytes_per_s=2.0e12)'
        raise OptionError(f"{where}: peaks are perfmagic.Peaks, not {peaks!r}", hint=hint)
