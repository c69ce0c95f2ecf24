"""The ranks of one job from local or remote files. Workers read the files, and only summaries come back."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import Executor
from typing import TYPE_CHECKING, Any

from perfmagic.analysis.ranks.job_prediction import most_instants
from perfmagic.analysis.ranks.jobs import jobs, mixed_jobs, unread, without_match
from perfmagic.analysis.ranks.rank_files import FileOfRank, ReadFile, summarize_file
from perfmagic.analysis.ranks.ranks import ranks_given, ranks_of
from perfmagic.api.options import ReadOptions, keywords
from perfmagic.base import units
from perfmagic.base.errors import OptionError, TraceError
from perfmagic.base.terminal import Progress
from perfmagic.results.ranks import RanksResult
from perfmagic.results.timeline import TimelineResult
from perfmagic.trace.formats.registry import is_trace_name
from perfmagic.trace.formats.remote import is_url, remote_files, remote_name
from perfmagic.trace.formats.sources import by_numbers, trace_files, without_dumps
from perfmagic.trace.names import checked_pattern

if TYPE_CHECKING:
    from typing_extensions import Unpack

Sources = str | os.PathLike[str] | Sequence[str | os.PathLike[str]]
FEW_RANKS = 8  # of more the traces are not kept for a page
CELLS, FEWEST, MOST = 1 << 16, 128, 1024  # columns of all rows of a picture together, of one at least and at most


@keywords(ReadOptions)
def open_ranks(
    source: Sources, *, executor: Executor | None = None, progress: bool | None = None, **options: Unpack[ReadOptions]
) -> RanksResult:
    """The ranks of one job on one axis, from any number of files; only small traces are kept.

    source: a folder, a .zip with the files of ranks, a URL that fsspec opens (s3, gs, abfs, http, zip, …; may hold
    asterisks), or several of those.
    executor: a concurrent.futures.Executor whose workers read the files: a ProcessPoolExecutor, Dask's
    client.get_executor(pure=False), ipyparallel's view.executor. They need perfmagic and must see the files. None reads
    one file after the other here.
    progress: whether to say on stderr how many files are read; None: in a terminal or a notebook, after a second.
    The result is that of open_traces(source).ranks: larger traces are read again when needed. Its
    findings say which ranks of the job have no file, and which files cannot be read.
    Raises TraceError where none can be read, OptionError where no two of them are ranks of one job.

    >>> job = perfmagic.open_ranks("runs")
    >>> longest = max(job.table, key=lambda row: row.extent_ns)
    >>> longest.rank
    3
    """
    comm_names = options["comm_names"]
    checked_pattern(comm_names)
    if executor is not None and not callable(getattr(executor, "map", None)):
        message = f"open_ranks(executor={executor!r}): no Executor"
        raise OptionError(message, hint="ProcessPoolExecutor(), or None for this process")
    sources, dumps = without_dumps([source] if isinstance(source, (str, os.PathLike)) else source)
    if dumps and not sources:
        message = f"{dumps[0]}: a dump of torch's flight recorder, and no trace"
        raise TraceError(message, hint="perfmagic.open_traces(folder).flight reads dumps")
    storage = dict(options["storage_options"] or {})
    names = list(_listed(sources, storage))
    columns = min(MOST, max(FEWEST, CELLS // max(1, len(names))))
    limit_bytes = options["max_unpacked_bytes"]
    kept = most_instants(len(names))
    files = [FileOfRank(url, name, comm_names, limit_bytes, columns, kept, storage) for url, name in names]
    answers: list[ReadFile] = []
    with Progress("read", len(files), "file", shown=progress) as shown:
        read = map(summarize_file, files) if executor is None else executor.map(summarize_file, files)
        for n, of_file in enumerate(read, 1):
            answers += of_file
            shown.at(n)
    return _one_job(answers, comm_names, len(files))


def n_files(sources: Sources) -> int:
    """The number of trace files that some paths name. A URL counts as more than FEW_RANKS. 0 where a path has none."""
    given = [sources] if isinstance(sources, (str, os.PathLike)) else sources
    try:
        return sum(FEW_RANKS + 1 if is_url(source) else len(trace_files(source)) for source in given)
    except TraceError:
        return 0


def _listed(sources: Sources, storage_options: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    """Each file with its name: of folders and patterns in the order of their numbers."""
    for source in [sources] if isinstance(sources, (str, os.PathLike)) else sources:
        if is_url(source):
            urls = remote_files(source, is_trace_name, storage_options)
            yield from sorted(((url, remote_name(url)) for url in urls), key=lambda file: by_numbers(file[1]))
        else:
            yield from ((str(path.absolute()), path.name) for path in trace_files(source))


def _one_job(answers: Sequence[ReadFile], comm_names: str | None, n_files: int) -> RanksResult:
    """The ranks of one job, with findings on files that are missing or cannot be read."""
    problems = [answer.problem for answer in answers if answer.summary is None]
    read = [(answer.file, answer.summary) for answer in answers if answer.summary is not None]
    if not read:
        raise TraceError(problems[0], hint=f"none of {units.plural(n_files, 'file')} can be read")
    summaries = [summary for _, summary in read]
    of_job = jobs(summaries)
    with_ops = [i for i in of_job[0].members if summaries[i].n_ops and summaries[i].meta.rank is not None]
    mixed = mixed_jobs(summaries)
    if len(with_ops) < 2:
        raise OptionError(
            f"{units.plural(len(read), 'trace')}, and no two of them are ranks of one job",
            hint="".join(finding.sentence for finding in mixed) or "open the files of several ranks",
        )
    by_rank = {summaries[i].meta.rank or 0: i for i in with_ops}
    given = {rank: summaries[i] for rank, i in sorted(by_rank.items())}
    if without_match(comm_names, {rank: len(summary.comm["row"]) for rank, summary in given.items()}):
        message = f"comm names {comm_names!r} match no kernel of {units.plural(len(given), 'rank')}"
        raise OptionError(message, hint="open_trace() of one file says which names are nearest")
    of_files = (*unread(problems, n_files), *mixed)
    traces = [answer.trace for answer in answers if answer.summary is not None]
    of_ranks = {rank: read[by_rank[rank]][0] for rank in given}
    kept = [trace for rank in given if (trace := traces[by_rank[rank]])]
    ranks = ranks_of(kept, comm_names, of_files=of_files) if len(kept) == len(given) else None
    if ranks is None:
        return RanksResult((), ranks_given(given, comm_names, of_files), files=of_ranks)
    named = zip(kept, of_ranks.values(), strict=True)
    return RanksResult(tuple(TimelineResult(trace, comm_names, file.name) for trace, file in named), ranks)
