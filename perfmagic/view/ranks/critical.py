"""The critical path of a job as every face shows it: what held all ranks, and on which of them."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from perfmagic.analysis.ranks.job.prediction import job_in_passing
from perfmagic.analysis.ranks.summary import Ranks
from perfmagic.trace.columns import Int64
from perfmagic.view.timeline.critical import as_shares
from perfmagic.view.timeline.lanes import Share


@dataclass(frozen=True, eq=False)
class RankPathLane:
    """The path in time, neighbours of one kind as one part; ns on the common axis.

    share: row of the kinds.  row: of the rank that held the job then, by rank.
    """

    start_ns: Int64
    end_ns: Int64
    share: Int64
    row: Int64

    def __len__(self) -> int:
        return len(self.start_ns)


def critical_path_of(ranks: Ranks) -> tuple[tuple[Share, ...], RankPathLane | None]:
    """The kinds of the path by length, and the path in time; nothing where the records do not say."""
    job = job_in_passing(ranks)
    if job is None or job.unreadable or not len(job.path):
        return (), None
    path = job.path
    key = np.column_stack((path.share, path.rank))
    begins = np.flatnonzero(np.concatenate(([True], (key[1:] != key[:-1]).any(axis=1))))
    end_ns = path.end_ns[np.append(begins[1:], len(key)) - 1]
    return as_shares(path.shares), RankPathLane(path.start_ns[begins], end_ns, path.share[begins], path.rank[begins])
