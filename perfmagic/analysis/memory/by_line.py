"""What was alive when the most was allocated, by the lines that its allocation lies on, innermost and callers."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from perfmagic.analysis.memory.ledger import Ledger, ledger
from perfmagic.analysis.timeline.by_path import sites
from perfmagic.trace.columns import NONE, Int64
from perfmagic.trace.model import Trace
from perfmagic.trace.once import once_per_trace
from perfmagic.trace.paths import NOWHERE


@dataclass(frozen=True, eq=False)
class PeakByLine:
    """Bytes alive at the peak of the device with the highest one.

    cell_bytes: by line of the cell, callees included.  site_bytes: of each line of a function, shape of sites().
    before_bytes: allocated before the cell.  elsewhere_bytes: during it, by no line of the cell's.  These add up to
    peak_bytes: cell_bytes, before_bytes and elsewhere_bytes.
    """

    cell_bytes: dict[int, int]
    site_bytes: Int64
    before_bytes: int
    elsewhere_bytes: int
    peak_bytes: int
    peak_ns: int

    def of_cell_line(self, line: int) -> int:
        return self.cell_bytes.get(line, 0)

    def closing(self) -> list[tuple[str, int]]:
        """What comes below the lines of the cell, in words and bytes: the rest of the peak, then the peak."""
        elsewhere = [("no line of the cell", self.elsewhere_bytes)] if self.elsewhere_bytes else []
        return [*elsewhere, ("before the cell", self.before_bytes), ("the peak", self.peak_bytes)]


@once_per_trace
def peak_by_line(trace: Trace) -> PeakByLine | None:
    """None where blocks were not recorded."""
    devices = np.unique(trace.blocks.device).tolist()
    found = [one for device in devices if (one := ledger(trace, device)) is not None]
    return _by_line(max(found, key=lambda one: one.peak_bytes)) if found else None


def _by_line(of: Ledger) -> PeakByLine:
    size = np.where(of.at_peak, of.blocks.size_bytes, 0)
    made = np.where(of.before, 0, size)
    root = of.visits.path[of.visits.root[of.visit]]
    is_cell = np.array([function.is_cell for function in of.paths.functions], bool)
    in_cell = (root != NOWHERE) & np.append(is_cell, False)[np.where(root == NOWHERE, NONE, of.paths.function[root])]
    by_line = np.bincount(of.paths.line[root[in_cell]], weights=made[in_cell]).astype(np.int64)
    followed = of.trace.paths is not None
    return PeakByLine(
        cell_bytes={line: int(n) for line, n in enumerate(by_line.tolist()) if n},
        site_bytes=sites(of.trace).charged(of.path, made) if followed else np.zeros(0, np.int64),
        before_bytes=int(size[of.before].sum()),
        elsewhere_bytes=int(made[~in_cell].sum()),
        peak_bytes=of.peak_bytes,
        peak_ns=of.peak_ns,
    )
