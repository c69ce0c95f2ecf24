"""What a cell in several ranks comes to: what was recorded, and what it failed with."""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

from perfmagic.capture.ranks.failures import message_of, type_of
from perfmagic.capture.ranks.session import CellEnd
from perfmagic.errors import RanksError, RanksInterrupt

if TYPE_CHECKING:
    from perfmagic.results import RanksResult


def raise_failure(end: CellEnd) -> None:
    """Raise what a cell failed with in ranks; nothing where it did not."""
    words = message_of(end.failures, end.standstill)
    if end.interrupted:
        raise RanksInterrupt(words or "KeyboardInterrupt: the cell had ended in all ranks")
    if end.failures or end.standstill:
        raise RanksError.named(type_of(end.failures, end.standstill), words, end.failures)


def result_of(end: CellEnd) -> RanksResult:
    """The ranks of what a cell recorded, which has to be something."""
    from perfmagic.results import RanksResult, TimelineResult
    from perfmagic.trace.formats.sources import read_file

    timelines: list[TimelineResult] = []
    with tempfile.TemporaryDirectory() as folder:
        for rank, payload in sorted(end.recorded.items()):
            path = Path(folder) / f"rank{rank}.npz"
            path.write_bytes(payload)
            timelines.append(TimelineResult(read_file(path), title=f"rank {rank}"))
    return RanksResult.of(timelines)
