"""One rank's file: its summary for a job of many ranks, and when the rank did what, for the rows of a picture."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from perfmagic.analysis.findings.facts import Facts
from perfmagic.analysis.ranks.rank_summary import RankSummary, host_as_device, rank_summary
from perfmagic.base.errors import TraceError, without_secrets
from perfmagic.base.numerics.intervals import Intervals, covered_ns, merge, union
from perfmagic.base.numerics.packed import Columns
from perfmagic.trace.columns import HostKind
from perfmagic.trace.formats.sources import read_traces, title_of
from perfmagic.trace.model import Trace

# When a rank did what: whole where its trace is at hand, else as shares of some columns.

OWN_BANDS = ("host", "blocked", "compute", "copy", "idle")


def own_bands(given: Trace, comm_names: str | None = None) -> dict[str, Intervals]:
    """By the names of OWN_BANDS, in ns of the rank's own clock.

    Python ran a line of the cell, an operator or a call; Python was in a call that blocks it; the device computed,
    copied, was idle between its first op and its last.
    """
    trace = host_as_device(given)
    facts = Facts(trace, comm_names)
    sets, syncs = facts.breakdown.intervals, facts.syncs
    return {
        "host": _python(trace),
        "blocked": union(syncs.start_ns, syncs.end_ns),
        "compute": sets["compute"],
        "copy": merge(sets["copy"], sets["memset"]),
        "idle": sets["idle"],
    }


def in_columns(spans: Intervals, start_ns: int, end_ns: int, columns: int) -> Columns:
    """Intervals as their shares of some columns of [start_ns, end_ns): at most one interval a column, at its beginning.

    Sums of whole columns stay exact; the place within a column is lost.
    """
    if len(spans) <= columns:
        return Columns({"start": spans[:, 0], "end": spans[:, 1]})
    edges = np.linspace(start_ns, end_ns, columns + 1).astype(np.int64)
    covered = covered_ns(spans, edges[:-1], edges[1:])
    kept = covered > 0
    merged = union(edges[:-1][kept], edges[:-1][kept] + covered[kept])
    return Columns({"start": merged[:, 0], "end": merged[:, 1]})


def _python(trace: Trace) -> Intervals:
    """When Python ran a line of the cell; of a record without lines, an operator or a call."""
    marks = trace.marks
    if len(marks):
        ends = np.append(marks.at_ns[1:], trace.meta.returned_ns or max(trace.meta.end_ns, int(marks.at_ns[-1])))
        ran = (marks.top_line > 0) & (ends > marks.at_ns)
        return union(marks.at_ns[ran], ends[ran])
    host = trace.host_ops.select(trace.host_ops.kind == HostKind.OP)
    return merge(union(host.start_ns, host.end_ns), union(trace.calls.start_ns, trace.calls.end_ns))


# The summary of a file, made where the file is read: one call a file, for any executor.


@dataclass(frozen=True)
class FileOfRank:
    """One file to read.  source: a path, or a URL for fsspec with its options.  columns: of the bands of a picture.

    comm_names, max_unpacked_bytes: as in perfmagic.open_trace().  most_kept: instants of a trace that is kept.
    part: which of the file's traces is this rank's.
    """

    source: str = field(repr=False)
    name: str
    comm_names: str | None
    max_unpacked_bytes: int
    columns: int
    most_kept: int = 0
    options: Mapping[str, Any] = field(default_factory=dict, repr=False)

    part: int = 0

    def read(self) -> Trace:
        """The trace of its rank. Raises TraceError."""
        return self.traces()[self.part]

    def traces(self, *, helper: bool = True) -> list[Trace]:
        """All traces of the file. Raises TraceError.  helper: whether a second process may decode a large file."""
        return read_traces(self.source, self.options, max_unpacked_bytes=self.max_unpacked_bytes, helper=helper)


@dataclass(frozen=True)
class ReadFile:
    """The result of reading a rank's file: the summary, or why there is none.  trace: of a small one."""

    file: FileOfRank
    summary: RankSummary | None = None
    trace: Trace | None = None
    problem: str = ""


def summarize_file(file: FileOfRank) -> list[ReadFile]:
    """The summary of each rank in a file, or what is wrong with it. No error of one file ends the others.

    Runs in a worker, which is one of several on its host: no process is started beside it.
    """
    try:
        return [
            _summarized(replace(file, name=title_of(file.name, trace), part=part), trace)
            for part, trace in enumerate(file.traces(helper=False))
        ]
    except TraceError as error:
        return [ReadFile(file, problem=error.message)]
    except Exception as error:  # noqa: BLE001 - see above
        words = without_secrets(str(error), file.source, file.options)
        return [ReadFile(file, problem=f"{file.name} cannot be read: {type(error).__name__}: {words}")]


def _summarized(file: FileOfRank, trace: Trace) -> ReadFile:
    summary = rank_summary(trace, file.comm_names)
    edges = (summary.first_ns, summary.last_ns, file.columns)
    bands = {name: in_columns(spans, *edges) for name, spans in own_bands(trace, file.comm_names).items()}
    kept = trace if summary.n_instants <= file.most_kept else None
    return ReadFile(file, replace(summary, bands=bands), kept)
