"""The ranks of one job from files wherever they lie, each read where an executor likes: what comes here is small."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import Executor
from typing import Any

from perfmagic import units
from perfmagic.analysis.ranks.files import missing, unread, without_match
from perfmagic.analysis.ranks.findings import mixed_jobs
from perfmagic.analysis.ranks.jobs import jobs
from perfmagic.analysis.ranks.of_file import FileOfRank, Said, summarised
from perfmagic.analysis.ranks.summary import Ranks
from perfmagic.errors import OptionError, TraceError
from perfmagic.keywords import documented
from perfmagic.results.ranks import RanksResult
from perfmagic.terminal import Progress
from perfmagic.trace.formats.remote import is_url, remote_files, remote_name
from perfmagic.trace.formats.sources import by_numbers, is_trace_name, trace_files
from perfmagic.trace.kineto.file import DEFAULT_LIMIT_BYTES
from perfmagic.trace.names import checked_pattern

Sources = str | os.PathLike[str] | Sequence[str | os.PathLike[str]]
FEW_RANKS = 8  # of more the traces are not kept for a page
CELLS, FEWEST, MOST = 1 << 16, 128, 1024  # columns of all rows of a picture together, of one at least and at most


@documented()
def open_ranks(
    source: Sources,
    *,
    executor: Executor | None = None,
    comm_names: str | None = None,
    max_unpacked_bytes: int = DEFAULT_LIMIT_BYTES,
    storage_options: Mapping[str, Any] | None = None,
    progress: bool | None = None,
) -> RanksResult:
    """The ranks of one job on one axis, from any number of files, of which no trace is kept.

    source: a folder, a .zip with the files of ranks, a URL that fsspec opens (s3, gs, abfs, http, zip, …; may hold
    asterisks), or several of those.
    executor: a concurrent.futures.Executor whose workers read the files: a ProcessPoolExecutor, Dask's
    client.get_executor(pure=False), ipyparallel's view.executor. They need perfmagic and must see the files. None reads
    one file after the other here.
    comm_names, max_unpacked_bytes: as in open_trace().
    storage_options: for fsspec, such as {"anon": True}.
    progress: whether to say on stderr how many files are read; None: in a terminal or a notebook, after a second.
    The result is that of open_traces(source).ranks, and `.rank(3)` reads that rank's file again. Its findings say
    which ranks of the job have no file, and which files cannot be read.
    Raises TraceError where none can be read, OptionError where no two of them are ranks of one job.

    >>> job = perfmagic.open_ranks("runs")
    >>> longest = max(job.table, key=lambda row: row.extent_ns)
    >>> longest.rank
    3
    """
    checked_pattern(comm_names)
    if executor is not None and not callable(getattr(executor, "map", None)):
        raise OptionError(
            f"open_ranks(executor={executor!r}): no Executor", hint="ProcessPoolExecutor(), or None for this process"
        )
    options = dict(storage_options or {})
    names = list(_listed(source, options))
    columns = min(MOST, max(FEWEST, CELLS // max(1, len(names))))
    files = [FileOfRank(url, name, comm_names, max_unpacked_bytes, columns, options) for url, name in names]
    said: list[Said] = []
    with Progress("read", len(files), "file", shown=progress) as told:
        for one in map(summarised, files) if executor is None else executor.map(summarised, files):
            said.append(one)
            told.at(len(said))
    return _together(files, said, comm_names)


def n_files(sources: Sources) -> int:
    """How many trace files some paths name; more than FEW_RANKS for what lies elsewhere, 0 where a path names none."""
    given = [sources] if isinstance(sources, (str, os.PathLike)) else sources
    try:
        return sum(FEW_RANKS + 1 if is_url(one) else len(trace_files(one)) for one in given)
    except TraceError:
        return 0


def _listed(source: Sources, options: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    """Each file with its name: of folders and patterns in the order of their numbers."""
    for one in [source] if isinstance(source, (str, os.PathLike)) else source:
        if is_url(one):
            urls = remote_files(one, is_trace_name, options)
            yield from sorted(((url, remote_name(url)) for url in urls), key=lambda found: by_numbers(found[1]))
        else:
            yield from ((str(path.absolute()), path.name) for path in trace_files(one))


def _together(files: Sequence[FileOfRank], said: Sequence[Said], comm_names: str | None) -> RanksResult:
    problems = [one.problem for one in said if one.summary is None]
    read = [(file, one.summary) for file, one in zip(files, said, strict=True) if one.summary is not None]
    if not read:
        raise TraceError(problems[0], hint=f"none of {units.plural(len(files), 'file')} can be read")
    summaries = [summary for _, summary in read]
    of_job = jobs(summaries)
    with_ops = [i for i in of_job[0].members if summaries[i].n_ops and summaries[i].meta.rank is not None]
    mixed = mixed_jobs(summaries)
    if len(with_ops) < 2:
        raise OptionError(
            f"{units.plural(len(read), 'trace')}, and no two of them are ranks of one job",
            hint="".join(one.sentence for one in mixed) or "open the files of several ranks",
        )
    found = {summaries[i].meta.rank or 0: summaries[i] for i in with_ops}
    if without_match(comm_names, {rank: len(one.comm["row"]) for rank, one in found.items()}):
        raise OptionError(
            f"comm names {comm_names!r} match no kernel of {units.plural(len(found), 'rank')}",
            hint="open_trace() of one file says which names are nearest",
        )
    world_size = next(iter(found.values())).meta.world_size
    of_files = (*unread(problems, len(files)), *missing(found, world_size), *mixed)
    ranks = Ranks({}, comm_names, given=dict(sorted(found.items())), of_files=of_files)
    return RanksResult((), ranks, files={summaries[i].meta.rank or 0: read[i][0] for i in with_ops})
