"""The critical path of a job: for each instant the one thing, on one of the ranks, that all of them waited for.

Where a collective waits for its last rank, the path goes on in that rank.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from perfmagic.analysis.ranks.job.graph import JobGraph
from perfmagic.analysis.replay.critical_path import HELD_WORDS, CriticalPath, Held, tiles_back
from perfmagic.analysis.replay.path_shares import KIND_WORDS, PathShare, by_length, kinds_of
from perfmagic.analysis.rows import Rows, names_at
from perfmagic.trace.columns import NO_LINE, NONE, Int8, Int64

SMALL_FRAC = 0.01  # of the run: what is less, on one rank, has no place of its own


@dataclass(frozen=True)
class JobPathPart:
    """A part of the critical path of a job, times in ns on the common axis.

    rank: on which it is.  held: what it is, in words.  name: of the op or the call; of Python the call that ends it.
    line: of the cell, 0 for none.
    """

    start_ns: int
    end_ns: int
    rank: int
    held: str
    name: str
    line: int

    @property
    def length_ns(self) -> int:
        return self.end_ns - self.start_ns


@dataclass(frozen=True, eq=False)
class JobPath:
    """The parts of the critical path of a job, first to last; arrays of equal length, times in ns on the common axis.

    job: whose it is.  rank: place among its ranks.  held: Held.  op: row of that rank's trace.ops of what ran or was
    late, call: of its trace.calls; NONE for none.
    """

    job: JobGraph
    comm_names: str | None
    start_ns: Int64
    end_ns: Int64
    rank: Int64
    held: Int8
    op: Int64
    call: Int64

    def __len__(self) -> int:
        return len(self.start_ns)

    @property
    def length_ns(self) -> Int64:
        return self.end_ns - self.start_ns

    @property
    def run_ns(self) -> int:
        """How long the job took: the sum of all parts."""
        return int(self.length_ns.sum())

    @property
    def shares(self) -> tuple[PathShare, ...]:
        """What held the job on which rank, the longest first; what is short together as "other"."""
        return self._shares[0]

    @property
    def share(self) -> Int64:
        """Of each part its row of shares."""
        return self._shares[1]

    @cached_property
    def _shares(self) -> tuple[tuple[PathShare, ...], Int64]:
        number = np.zeros(len(self), np.int64)
        for i, path in self._of_ranks():
            number[self.rank == i] = i * len(KIND_WORDS) + kinds_of(path, self.comm_names)
        kinds = [PathShare(words, 0, rank) for rank in self.job.ranks for words in KIND_WORDS]
        return by_length(number, self.length_ns, kinds, SMALL_FRAC)

    def rows(self) -> Rows[JobPathPart]:
        """The parts one by one, by start."""
        name, line = np.full(len(self), "", object), np.zeros(len(self), np.int64)
        for i, path in self._of_ranks():
            mine, parts = self.rank == i, path.rows()
            name[mine], line[mine] = [part.name for part in parts], [part.line for part in parts]
        columns = {
            "start_ns": self.start_ns,
            "end_ns": self.end_ns,
            "rank": np.array(self.job.ranks, np.int64)[self.rank],
            "held": names_at(tuple(HELD_WORDS.values()), self.held.astype(np.int64)),
            "name": name,
            "line": line,
            "length_ns": self.length_ns,
        }
        return Rows.of_columns(columns, JobPathPart)

    def _of_ranks(self) -> Iterator[tuple[int, CriticalPath]]:
        """What of the path each rank has, which leaves gaps where other ranks held the job."""
        for i in np.unique(self.rank).tolist():
            trace, mine = self.job.graphs[i].trace, self.rank == i
            op, call = self.op[mine], self.call[mine]
            line = np.full(len(op), NO_LINE, np.int32)
            line[op != NONE] = trace.ops.line[op[op != NONE]]
            line[call != NONE] = trace.calls.line[call[call != NONE]]
            yield i, CriticalPath(trace, self.start_ns[mine], self.end_ns[mine], self.held[mine], op, call, line)


def job_path(job: JobGraph, times_ns: Int64, comm_names: str | None = None) -> JobPath:
    """What held the job, from its beginning to the instant that came last on any rank.

    times_ns: of the instants, as from job.replayed_ns().  comm_names: as in perfmagic.trace.names.op_classes.
    """
    tiles = tiles_back(job, times_ns, job.classes(comm_names), job.syncs, job.begins_ns)
    rank = job.rank[tiles.node]
    path = JobPath(
        job,
        comm_names,
        tiles.start_ns,
        tiles.end_ns,
        rank,
        tiles.held,
        np.where(tiles.op != NONE, tiles.op - job.op_base[rank], NONE),
        np.where(tiles.call != NONE, tiles.call - job.call_base[rank], NONE),
    )
    return _from_its_record(path)


def _from_its_record(path: JobPath) -> JobPath:
    """The path without a word on what a rank did before its record began, where it begins in that rank."""
    if not len(path):
        return path
    known_ns = min(int(path.job.known_from_ns[path.rank[0]]), int(path.end_ns[0]))
    if known_ns <= path.start_ns[0]:
        return path
    two = np.repeat(np.arange(len(path)), [2, *[1] * (len(path) - 1)])
    start_ns, end_ns, held = path.start_ns[two], path.end_ns[two], path.held[two]
    op, call = path.op[two], path.call[two]
    start_ns[1] = end_ns[0] = known_ns
    held[0], op[0], call[0] = Held.BEFORE, NONE, NONE
    kept = end_ns > start_ns  # nothing of the first part may be left
    return JobPath(
        path.job, path.comm_names, start_ns[kept], end_ns[kept], path.rank[two][kept], held[kept], op[kept], call[kept]
    )
