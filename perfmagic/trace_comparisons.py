"""The functions behind %compare for timelines: what changed between two recordings, or two folders of them?"""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import replace
from typing import TypeAlias

from perfmagic.analysis.diff.diff import jobs_diff, sides, trace_diff
from perfmagic.analysis.ranks.changed import together_changed
from perfmagic.analysis.ranks.host_as_device import host_as_device
from perfmagic.analysis.ranks.pair import waiting_words
from perfmagic.api import open_traces
from perfmagic.errors import OptionError
from perfmagic.files import file_path
from perfmagic.results import RanksResult, TimelineResult, TraceComparison
from perfmagic.results.ranks_folder import is_saved
from perfmagic.results.traces import grouped
from perfmagic.trace.kineto.file import DEFAULT_LIMIT_BYTES
from perfmagic.units import plural

Timelines: TypeAlias = "TimelineResult | RanksResult | str | os.PathLike[str]"

NAMES = ("A", "B")
_FIRST_BYTES = 400  # of a file: enough to see what wrote it


def is_trace_path(path: str | os.PathLike[str]) -> bool:
    """Whether a path is to be opened as a trace: a folder, an .npz, gzipped, or JSON that no benchmark wrote."""
    file = file_path(path)
    if file.is_dir() or not file.is_file():
        return file.is_dir()
    if file.name.endswith((".npz", ".gz")):
        return True
    with file.open("rb") as opened:
        return b'"format": "perfmagic ' not in opened.read(_FIRST_BYTES)


def compare_timelines(
    first: Timelines,
    second: Timelines,
    *,
    names: Sequence[str] = (),
    comm_names: str | None = None,
    max_unpacked_bytes: int = DEFAULT_LIMIT_BYTES,
) -> TraceComparison:
    """What changed from the first timeline to the second, or from the ranks of one job to those of another?

    first, second: results of one or of several ranks, trace files, or folders with the traces of a job's ranks.
    names: what to call the two.
    comm_names, max_unpacked_bytes: for files, as in open_trace(). Raises OptionError for one rank against several,
    TraceError for what cannot be read.
    """
    called = _two(names)
    if comm_names is None:
        first, second = (_of_ranks(one) for one in (first, second))
    opened = [
        _timelines_of(one)
        if isinstance(one, (TimelineResult, RanksResult))
        else open_traces(one, comm_names=comm_names, max_unpacked_bytes=max_unpacked_bytes)
        for one in (first, second)
    ]
    if all(len(results) == 1 for results in opened):
        a, b = opened[0][0], opened[1][0]
        patterns = a.comm_names, b.comm_names
        found = trace_diff(a.trace, b.trace, names=called, titles=(a.title, b.title), comm_names=patterns)
        waited = waiting_words(a.trace, b.trace, called, comm_names=a.comm_names)
        return TraceComparison.of(replace(found, notes=(*waited, *found.notes)), (a, b))
    given = zip((first, second), opened, strict=True)
    jobs = [one if isinstance(one, RanksResult) else _job(results) for one, results in given]
    timelines = [[_on_its_device(one) for one in results] for results in opened]
    return _jobs(timelines[0], timelines[1], called, jobs)


def _of_ranks(one: Timelines) -> Timelines:
    """A folder that a result of several ranks was saved as gives that back, with all it knows; others as they are."""
    return RanksResult.load(one) if isinstance(one, (str, os.PathLike)) and is_saved(one) else one


def _timelines_of(one: TimelineResult | RanksResult) -> Sequence[TimelineResult]:
    return (one,) if isinstance(one, TimelineResult) else [_on_its_device(one.rank(rank)) for rank in one.ranks.ranks]


def _on_its_device(one: TimelineResult) -> TimelineResult:
    """A rank as tables of ranks have it: what its CPU did counts as a device's."""
    return TimelineResult(host_as_device(one.trace), comm_names=one.comm_names, title=one.title)


def _job(results: Sequence[TimelineResult]) -> RanksResult | None:
    """The ranks that all of them are together; None where they are not of one job."""
    found, alone = grouped(results)
    return found[0] if len(found) == 1 and not alone else None


def _two(names: Sequence[str]) -> tuple[str, str]:
    if names and len(names) != 2:
        raise OptionError(f"compare: {len(names)} names given for 2 timelines")
    first, second = names or NAMES
    return NAMES if first == second else (first, second)


def _jobs(
    first: Sequence[TimelineResult],
    second: Sequence[TimelineResult],
    names: tuple[str, str],
    jobs: Sequence[RanksResult | None],
) -> TraceComparison:
    """Two jobs compared by rank.  jobs: what the ranks of each say together, None where they are not of one job."""
    by_rank = [_by_rank(results, name) for results, name in zip((first, second), names, strict=True)]
    common = sorted(by_rank[0].keys() & by_rank[1].keys())
    if not common:
        ranks = [", ".join(map(str, sorted(ranks))) for ranks in by_rank]
        raise OptionError(
            f"compare: {names[0]} has the ranks {ranks[0]}, {names[1]} has {ranks[1]}: none is in both",
            hint="compare two files, or folders with traces of the same ranks",
        )
    pairs = {
        rank: sides(a.trace, b.trace, names=names, titles=(a.title, b.title), comm_names=(a.comm_names, b.comm_names))
        for rank in common
        for a, b in ((by_rank[0][rank], by_rank[1][rank]),)
    }
    missing = sorted(by_rank[0].keys() ^ by_rank[1].keys())
    firsts, seconds = ({rank: pair[i] for rank, pair in pairs.items()} for i in (0, 1))
    waiting_ns = tuple({row.rank: row.exposed_waiting_ns for row in job.table} if job else {} for job in jobs)
    found = jobs_diff(firsts, seconds, missing, (waiting_ns[0], waiting_ns[1]))
    said = together_changed(jobs[0].ranks, jobs[1].ranks, names) if jobs[0] and jobs[1] else ()
    median = next(row.rank for row in found.ranks if row.median)
    found = replace(found, notes=(*said, *found.notes))
    return TraceComparison.of(found, (by_rank[0][median], by_rank[1][median]))


def _by_rank(results: Sequence[TimelineResult], name: str) -> dict[int, TimelineResult]:
    """The timelines of a job by rank. Raises OptionError where the files do not say the rank, or one twice."""
    found: dict[int, TimelineResult] = {}
    for result in results:
        rank = result.trace.meta.rank
        if rank is None or rank in found:
            which = "does not name its rank" if rank is None else f"is rank {rank}, as another one is"
            raise OptionError(
                f"compare: {name} has {plural(len(results), 'trace')}, and {result.title} {which}",
                hint="name one file of each, or folders with one trace of each rank",
            )
        found[rank] = result
    return found
