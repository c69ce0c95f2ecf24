"""Which kernels took the time of all ranks, and on which rank each took longest."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from perfmagic.analysis.rows import Rows
from perfmagic.analysis.timeline.kernels import KernelStat
from perfmagic.trace.short_names import short_names

KEPT = 32  # kernels of a rank, the longest; the others are one row


class KernelTime(NamedTuple):
    """A kernel of one rank, "" for all that are not among the longest; its runs; their summed ns."""

    name: str
    n_ops: int
    total_ns: int


@dataclass(frozen=True)
class KernelOfRanks:
    """One kernel of several ranks; times in ns, of each rank summed over its runs.

    name: "all others" where ranks have more than they keep.  short_name: as it is read, which no other row shares.
    n_ranks: that have it among their longest.  n_ops, total_ns: the median of these.  least_ns, most_ns: the shortest
    and the longest of them, on least_rank and most_rank.  share_frac: of the kernel time of all ranks.
    """

    name: str
    short_name: str
    n_ranks: int
    n_ops: float
    total_ns: float
    least_ns: int
    least_rank: int
    most_ns: int
    most_rank: int
    share_frac: float


OTHERS = "all others"


def longest(kernels: Rows[KernelStat]) -> tuple[KernelTime, ...]:
    """The kernels of one rank that took longest, then all others together.  kernels: the longest first."""
    kept = [KernelTime(one.name, one.n_ops, one.total_ns) for one in kernels[:KEPT]]
    rest = kernels[KEPT:]
    if rest:
        kept.append(KernelTime("", sum(one.n_ops for one in rest), sum(one.total_ns for one in rest)))
    return tuple(kept)


def kernels_of_ranks(by_rank: Mapping[int, tuple[KernelTime, ...]]) -> Rows[KernelOfRanks]:
    """A row a kernel, the most time of all ranks first, and what no rank has among its longest last."""
    found: dict[str, list[tuple[int, KernelTime]]] = {}
    for rank, kernels in by_rank.items():
        for one in kernels:
            found.setdefault(one.name, []).append((rank, one))
    all_ns = max(1, sum(one.total_ns for kernels in by_rank.values() for one in kernels))
    short = short_names(name for name in found if name)
    rows = []
    for name, ranks in found.items():
        totals = [one.total_ns for _, one in ranks]
        least, most = int(np.argmin(totals)), int(np.argmax(totals))
        rows.append(
            KernelOfRanks(
                name=name or OTHERS,
                short_name=short.get(name, OTHERS),
                n_ranks=len(ranks),
                n_ops=float(np.median([one.n_ops for _, one in ranks])),
                total_ns=float(np.median(totals)),
                least_ns=totals[least],
                least_rank=ranks[least][0],
                most_ns=totals[most],
                most_rank=ranks[most][0],
                share_frac=sum(totals) / all_ns,
            )
        )
    return Rows(sorted(rows, key=lambda row: (row.name == OTHERS, -row.share_frac)), KernelOfRanks)
