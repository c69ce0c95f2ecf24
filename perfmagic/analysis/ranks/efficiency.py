"""How well more ranks pay off: the time of the same work, or of so much more, on more ranks."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

from perfmagic.analysis.rows import Rows
from perfmagic.errors import OptionError

Scaling = Literal["weak", "strong"]


@dataclass(frozen=True)
class EfficiencyStat:
    """One number of ranks. Source: docs/words.md, "efficiency".

    time_ns: of the work.  speedup: how many times the work per second of the fewest ranks is done.  efficiency_frac:
    that over how many times the ranks there are.
    """

    ranks: int
    time_ns: float
    speedup: float
    efficiency_frac: float


def efficiency(times_ns: Mapping[int, float], scaling: Scaling) -> Rows[EfficiencyStat]:
    """A row for each number of ranks, compared with the fewest.

    times_ns: by number of ranks.  scaling: "weak" where each rank has the same work whatever their number, "strong"
    where all share one. Raises OptionError for another word, no times, or times that are not above 0.
    """
    if scaling not in ("weak", "strong"):
        raise OptionError(f"scaling {scaling!r}: weak or strong", hint="weak: each rank has the same work")
    if not times_ns or min(times_ns.values()) <= 0:
        raise OptionError("efficiency needs a time above 0 for each number of ranks")
    fewest = min(times_ns)
    rows = []
    for ranks, time_ns in sorted(times_ns.items()):
        more = ranks / fewest
        speedup = times_ns[fewest] / time_ns * (more if scaling == "weak" else 1)
        rows.append(EfficiencyStat(ranks, time_ns, speedup, speedup / more))
    return Rows(rows, EfficiencyStat)
