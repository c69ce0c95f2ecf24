"""The device ops of a line's backward: queued by `backward()`, and charged beside the line of their forward."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from perfmagic.analysis.timeline.by_path import Sites, op_paths, sites
from perfmagic.trace.columns import NO_LINE, NONE, Bool, Int32, Int64
from perfmagic.trace.model import Trace
from perfmagic.trace.once import once_per_trace
from perfmagic.trace.paths import NOWHERE


@dataclass(frozen=True, eq=False)
class BackwardRows:
    """Ops by the lines that their forward operator was on, less those that were queued on the same line.

    site, row: of a line of a function (perfmagic.analysis.timeline.by_path), and a row of ops.  cell_line: of the
    forward operator, shape of ops, NO_LINE where there is none or where the op is the line's own.
    """

    site: Int64
    row: Int64
    cell_line: Int32

    def of_site(self, site: int) -> Int64:
        """Rows of ops, rising."""
        return np.sort(self.row[self.site == site])

    def of_cell_line(self, line: int) -> Int64:
        """Rows of ops, rising."""
        return np.flatnonzero(self.cell_line == line)


@once_per_trace
def backward_rows(trace: Trace) -> BackwardRows:
    """The backward of every line; none where the record has no sequence numbers of autograd's."""
    path = forward_paths(trace)
    known = sites(trace)
    site, row = known.rows_on(path)
    other = ~_on_own_path(known, op_paths(trace)[row], site)
    line = np.zeros(len(path), np.int32)
    if trace.paths is not None:
        line = np.where(path != NOWHERE, trace.paths.cell_line[path], NO_LINE)
    return BackwardRows(site[other], row[other], np.where(line == trace.ops.line, NO_LINE, line).astype(np.int32))


@once_per_trace
def forward_paths(trace: Trace) -> Int64:
    """The path that the forward operator of each op of a backward was on, NOWHERE for other ops; shape of ops."""
    found = np.full(len(trace.ops), NOWHERE, np.int64)
    known = np.flatnonzero(trace.ops.forward_ns != NONE)
    if trace.paths is not None and len(known):
        found[known] = trace.paths.at(trace.ops.forward_thread[known], trace.ops.forward_ns[known])
    return found


def _on_own_path(known: Sites, path: Int64, site: Int64) -> Bool:
    """Whether each site lies on a path; shape of both."""
    n = max(len(known), 1)
    pairs = np.repeat(np.arange(len(known.begin) - 1), np.diff(known.begin)) * n + known.site
    return np.isin(path * n + site, pairs)
