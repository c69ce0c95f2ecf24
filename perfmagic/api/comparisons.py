"""The functions behind %compare and --vs: which is faster, and what changed between two timelines?"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any, TypeAlias, overload

from perfmagic.analysis.bench import result as analysed
from perfmagic.analysis.bench import sweep as swept
from perfmagic.analysis.bench.compare import QUANTITIES, named_by_place
from perfmagic.analysis.bench.compare import compare as compare_results
from perfmagic.analysis.bench.result import summarise
from perfmagic.analysis.diff.diff import jobs_diff, sides, trace_diff
from perfmagic.analysis.ranks.comparison import describe_changes, describe_waiting
from perfmagic.analysis.ranks.rank_summary import host_as_device
from perfmagic.api.benchmarks import (
    BenchOptions,
    SamplingOptions,
    bench_keywords,
    bench_settings,
    load,
    no_function,
    spec_for,
)
from perfmagic.api.opening import open_traces
from perfmagic.api.options import ReadOptions
from perfmagic.api.same_work import CheckOptions, limit_of, recordings, same_work_of, split
from perfmagic.api.show import remember
from perfmagic.base.errors import OptionError
from perfmagic.base.files import file_path, open_regular
from perfmagic.base.options import called, option
from perfmagic.base.units import plural
from perfmagic.capture.bench.interleave import measure_interleaved
from perfmagic.capture.bench.spec import DECIDE_S, BenchSpec, asks_for_sampling
from perfmagic.results import (
    BenchResult,
    CompareResult,
    RanksResult,
    RanksSweep,
    RanksSweepComparison,
    SweepResult,
    TimelineResult,
    TraceComparison,
)
from perfmagic.results.ranks import grouped, is_saved, is_sweep
from perfmagic.results.what_if import Predicted
from perfmagic.trace.samples import BenchRecord, Condition

if TYPE_CHECKING:
    from typing_extensions import Unpack

# The functions behind %compare for timelines: what changed between two recordings, or two folders of them?

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
    try:
        with open_regular(file) as opened:
            return b'"format": "perfmagic ' not in opened.read(_FIRST_BYTES)
    except OSError:
        return True  # opening the trace will say why it cannot be read


def compare_timelines(
    first: Timelines, second: Timelines, *, names: Sequence[str] = (), **options: Unpack[ReadOptions]
) -> TraceComparison:
    """What changed from the first timeline to the second, or from the ranks of one job to those of another?

    first, second: results of one or of several ranks, trace files, or folders with the traces of a job's ranks.
    names: what to call the two.
    options: for files, as in open_trace(). Raises OptionError for one rank against several, TraceError for what cannot
    be read.
    """
    called = _two_names(names)
    if options.get("comm_names") is None:
        first, second = _load_saved_ranks(first), _load_saved_ranks(second)
    opened = [
        _timelines_from(source) if isinstance(source, (TimelineResult, RanksResult)) else open_traces(source, **options)
        for source in (first, second)
    ]
    if all(len(results) == 1 for results in opened):
        a, b = opened[0][0], opened[1][0]
        patterns = a.comm_names, b.comm_names
        diff = trace_diff(a.trace, b.trace, names=called, titles=(a.title, b.title), comm_names=patterns)
        waited = describe_waiting(a.trace, b.trace, called, comm_names=a.comm_names)
        return TraceComparison.of(replace(diff, notes=(*waited, *diff.notes)), (a, b))
    given = zip((first, second), opened, strict=True)
    jobs = [source if isinstance(source, RanksResult) else _job(results) for source, results in given]
    timelines = [[_host_as_device(result) for result in results] for results in opened]
    return _compare_jobs(timelines[0], timelines[1], called, jobs)


def _load_saved_ranks(source: Timelines) -> Timelines:
    """The result of several ranks that a folder was saved from; anything else as it is."""
    return RanksResult.load(source) if isinstance(source, (str, os.PathLike)) and is_saved(source) else source


def _timelines_from(result: TimelineResult | RanksResult) -> Sequence[TimelineResult]:
    if isinstance(result, TimelineResult):
        return (result,)
    return [_host_as_device(result.rank(rank)) for rank in result.ranks.ranks]


def _host_as_device(result: TimelineResult) -> TimelineResult:
    """A rank as tables of ranks have it: what its CPU did counts as a device's."""
    return TimelineResult(host_as_device(result.trace), comm_names=result.comm_names, title=result.title)


def _job(results: Sequence[TimelineResult]) -> RanksResult | None:
    """The result of one job with these ranks; None where they are not of one job."""
    jobs, alone = grouped(results)
    return jobs[0] if len(jobs) == 1 and not alone else None


def _two_names(names: Sequence[str], what: str = "timelines") -> tuple[str, str]:
    if names and len(names) != 2:
        raise OptionError(f"compare: {len(names)} names given for 2 {what}")
    first, second = names or NAMES
    return NAMES if first == second else (first, second)


def _compare_jobs(
    first: Sequence[TimelineResult],
    second: Sequence[TimelineResult],
    names: tuple[str, str],
    jobs: Sequence[RanksResult | None],
) -> TraceComparison:
    """Compare two jobs rank by rank.  jobs: the result of each job, None where the traces are not of one job."""
    by_rank = [_by_rank(results, name) for results, name in zip((first, second), names, strict=True)]
    common = sorted(by_rank[0].keys() & by_rank[1].keys())
    if not common:
        ranks = [", ".join(map(str, sorted(ranks))) for ranks in by_rank]
        message = f"compare: {names[0]} has the ranks {ranks[0]}, {names[1]} has {ranks[1]}: none is in both"
        raise OptionError(message, hint="compare two files, or folders with traces of the same ranks")
    pairs = {
        rank: sides(a.trace, b.trace, names=names, titles=(a.title, b.title), comm_names=(a.comm_names, b.comm_names))
        for rank in common
        for a, b in ((by_rank[0][rank], by_rank[1][rank]),)
    }
    missing = sorted(by_rank[0].keys() ^ by_rank[1].keys())
    firsts, seconds = ({rank: pair[i] for rank, pair in pairs.items()} for i in (0, 1))
    waiting_ns = tuple({row.rank: row.exposed_waiting_ns for row in job.table} if job else {} for job in jobs)
    diff = jobs_diff(firsts, seconds, missing, (waiting_ns[0], waiting_ns[1]))
    notes = describe_changes(jobs[0].ranks, jobs[1].ranks, names) if jobs[0] and jobs[1] else ()
    median = next(row.rank for row in diff.ranks if row.median)
    diff = replace(diff, notes=(*notes, *diff.notes))
    return TraceComparison.of(diff, (by_rank[0][median], by_rank[1][median]))


def _by_rank(results: Sequence[TimelineResult], name: str) -> dict[int, TimelineResult]:
    """The timelines of a job by rank. Raises OptionError for a file without a rank, and for a rank with two files."""
    by_rank: dict[int, TimelineResult] = {}
    for result in results:
        rank = result.trace.meta.rank
        if rank is None or rank in by_rank:
            which = "does not name its rank" if rank is None else f"is rank {rank}, as another one is"
            message = f"compare: {name} has {plural(len(results), 'trace')}, and {result.title} {which}"
            raise OptionError(message, hint="name one file of each, or folders with one trace of each rank")
        by_rank[rank] = result
    return by_rank


# The function behind %compare for sweeps over numbers of ranks.

Sweeps: TypeAlias = "RanksSweep | str | os.PathLike[str]"


def is_rank_sweep(source: Any) -> bool:
    """Whether it is a sweep over numbers of ranks, or names the folder that one was saved as."""
    return isinstance(source, RanksSweep) or (isinstance(source, (str, os.PathLike)) and is_sweep(source))


def compare_sweeps(first: Sweeps, second: Sweeps, *, names: Sequence[str] = ()) -> RanksSweepComparison:
    """What changed from the first sweep over numbers of ranks to the second?

    first, second: results, or folders that they were saved as.  names: what to call the two, A and B if left out.
    Raises OptionError where one is weak scaling and the other strong, and where no number of ranks is in both.
    """
    called = _two_names(names, "sweeps")
    opened = [source if isinstance(source, RanksSweep) else RanksSweep.load(source) for source in (first, second)]
    return RanksSweepComparison.of(opened[0], opened[1], called)


__all__ = ["compare", "compare_given", "compared"]


class CompareOptions(SamplingOptions, CheckOptions, total=False):
    """How functions are measured and compared."""


class GateOptions(BenchOptions, CheckOptions, total=False):
    """The same for a check of speed, whose function has a name."""


Path: TypeAlias = "str | os.PathLike[str]"
Given: TypeAlias = "BenchResult | SweepResult | TimelineResult | RanksResult | RanksSweep | Path | Callable[[], object]"
AnyComparison: TypeAlias = "CompareResult | SweepResult | TraceComparison | RanksSweepComparison"


@overload
def compare(
    first: BenchResult | Callable[[], object],
    *others: BenchResult | Callable[[], object],
    names: Sequence[str] = (),
    quantity: str | None = None,
    **options: Unpack[CompareOptions],
) -> CompareResult: ...


@overload
def compare(first: SweepResult, *others: SweepResult, quantity: str | None = None) -> SweepResult: ...


@overload
def compare(
    first: TimelineResult | RanksResult, second: TimelineResult | RanksResult | Path, /, *, names: Sequence[str] = ()
) -> TraceComparison: ...


@overload
def compare(first: Path, second: TimelineResult | RanksResult, /, *, names: Sequence[str] = ()) -> TraceComparison: ...


@overload
def compare(first: RanksSweep, second: RanksSweep | Path, /, *, names: Sequence[str] = ()) -> RanksSweepComparison: ...


@overload
def compare(
    first: BenchResult | SweepResult | Path, *others: BenchResult | SweepResult | Path, quantity: str | None = None
) -> AnyComparison: ...


@bench_keywords(CompareOptions, time=None)
def compare(
    first: Given,
    *others: Given,
    names: Sequence[str] = (),
    quantity: str | None = None,
    **options: Unpack[CompareOptions],
) -> AnyComparison:
    """Is it faster than the first? Functions are measured here, interleaved; results and saved files as they are.

    first, others: functions, or results of benchmarks, or sweeps; a path names what save() wrote. Sweeps are compared
    at each value that all have, which gives one sweep with variants.
    Two timelines, or paths of traces, or results or folders of several ranks, give a TraceComparison: what changed from
    the first to the second, and where. It has one run of each, so no statistics. Two sweeps over numbers of ranks give
    a RanksSweepComparison: which is quicker on how many ranks, and in which part.
    names: one for each function or timeline; for functions their own names where left out, for timelines A and B.
    quantity: "returns", "done", "span" or "queued"; None: *done* where a device was in use, else *returns*.
    inputs: what both are called with, fresh for every call. "faster" is said of functions that do the same work: the
    timed calls themselves are checked (docs/same-work.md). Else the verdict is "not comparable", with the reason in
    `.not_comparable` and each fact in `.checks`.
    By default it samples up to 10 s while the verdict is unclear. The limit is 60 s if 8 samples take longer. With
    time, samples, min_samples, max_samples or rel it obeys these, even if the verdict is then unclear.
    After an exception or an interrupt, perfmagic.last() has the comparison of what was measured before.
    Raises OptionError for a mixture, for fewer than two, and for options with what is measured already.
    Source: docs/measuring.md, "Comparing".

    >>> perfmagic.compare(lambda: sum(range(50_000)), lambda: 1_249_975_000, samples=20).verdict
    'faster'
    >>> print(perfmagic.compare("step.json.gz", "step.json.gz").headline)
    B is as long as A: 202 ms
    """
    checks, sampling = split(options)
    return compare_given((first, *others), names, quantity, bench_settings(sampling), checks=checks)


def compare_given(
    given: Sequence[Given],
    names: Sequence[str],
    quantity: str | None,
    settings: dict[str, Any],
    *,
    magic: str = "",
    checks: Mapping[str, Any] | None = None,
) -> AnyComparison:
    """What compare() does.  settings: fields of BenchSpec.  magic: as in BenchSpec.  checks: CheckOptions."""
    if quantity is not None and quantity not in QUANTITIES:
        raise OptionError(f"compare: there is no quantity {quantity!r}", hint="one of " + ", ".join(QUANTITIES))
    if any(map(is_rank_sweep, given)):
        return _rank_sweeps(given, names, quantity, settings, magic)
    if _are_timelines(given):
        return _timelines(given, names, quantity, settings, magic)
    opened = [load(source) if isinstance(source, (str, os.PathLike)) else source for source in given]
    results = [source for source in opened if isinstance(source, analysed.BenchSummary)]
    sweeps = [source for source in opened if isinstance(source, swept.SweepSummary)]
    bodies = [source for source in opened if not isinstance(source, (analysed.BenchSummary, swept.SweepSummary))]
    _check_kinds(len(results), len(sweeps), bodies)
    if not bodies:
        _refuse_options(settings, names, magic)
        _refuse_checks(checks or {}, magic)
    comparison: CompareResult | SweepResult
    if sweeps:
        variants = _distinct([sweep.variant(0)[0].name for sweep in sweeps])
        comparison = SweepResult.of(swept.side_by_side(sweeps, variants, quantity=quantity))
    else:
        comparison = compared(results or _measured_in_turns(bodies, names, quantity, settings, magic, checks), quantity)
    remember(comparison)
    return comparison


def _are_timelines(given: Sequence[object]) -> bool:
    """Whether timelines are compared. With a benchmark among them they are not: load() then refuses a trace file."""
    if any(isinstance(source, (TimelineResult, RanksResult)) for source in given):
        return True
    return not any(map(_is_benchmark, given)) and any(map(_is_timeline, given))


def _is_benchmark(source: object) -> bool:
    """Whether it is a result of a benchmark, or a path that names no trace."""
    if isinstance(source, (str, os.PathLike)):
        return not is_trace_path(source)
    return isinstance(source, (analysed.BenchSummary, swept.SweepSummary))


def _is_timeline(source: object) -> bool:
    if isinstance(source, (str, os.PathLike)):
        return is_trace_path(source)
    return isinstance(source, (TimelineResult, RanksResult))


def _rank_sweeps(
    given: Sequence[Any], names: Sequence[str], quantity: str | None, settings: Mapping[str, Any], magic: str
) -> RanksSweepComparison:
    """Two sweeps over numbers of ranks, each a result or the folder it was saved as."""
    n = sum(map(is_rank_sweep, given))
    if n < len(given):
        other = next(source for source in given if not is_rank_sweep(source))
        of_ranks = isinstance(other, RanksResult)
        kind = "ranks of one run" if of_ranks else _describe_kind(other)
        hint = "sweep.on(n) is the run on n ranks" if of_ranks else "give two sweeps over numbers of ranks"
        raise OptionError(f"compare: {plural(n, 'sweep')} over numbers of ranks and {kind}", hint=hint)
    if n != 2:
        raise OptionError(f"compare: {plural(n, 'sweep')} over ranks, two are compared", hint="%compare before after")
    _refuse_options({**settings, **({} if quantity is None else {"quantity": quantity})}, (), magic)
    _check_names(names)
    comparison = compare_sweeps(given[0], given[1], names=names)
    remember(comparison)
    return comparison


def _timelines(
    given: Sequence[Any], names: Sequence[str], quantity: str | None, settings: Mapping[str, Any], magic: str
) -> TraceComparison:
    """Two timelines, each a result, a trace file or a folder of them."""
    n = sum(map(_is_timeline, given))
    if n < len(given):
        other = next(source for source in given if not _is_timeline(source))
        message = f"compare: {plural(n, 'timeline')} and {_describe_kind(other)}"
        if isinstance(other, Predicted):
            raise OptionError(message, hint="predicted.check(t) sets a prediction beside a recording")
        raise OptionError(message, hint="give two timelines or trace files, or only benchmarks, or only functions")
    if n != 2:
        raise OptionError(f"compare: {plural(n, 'timeline')}, two are compared", hint="%compare before after")
    _refuse_options({**settings, **({} if quantity is None else {"quantity": quantity})}, (), magic)
    _check_names(names)
    comparison = compare_timelines(given[0], given[1], names=names)
    remember(comparison)
    return comparison


def _check_names(names: object) -> None:
    """Raise OptionError for anything but a list of names."""
    if isinstance(names, str) or not isinstance(names, Sequence) or not all(isinstance(name, str) for name in names):
        raise OptionError(f"compare: names={names!r} is not a list of names", hint='names=["before", "after"]')


def _describe_kind(source: object) -> str:
    """What was given beside a timeline."""
    if isinstance(source, (str, os.PathLike)):
        return f"{os.fspath(source)}, which is no trace"
    return "a benchmark" if _is_benchmark(source) else f"a {type(source).__name__}"


def _check_kinds(n_results: int, n_sweeps: int, bodies: Sequence[Any]) -> None:
    """Raise OptionError for anything but functions, for a mixture, and for fewer than two."""
    for body in bodies:
        if not callable(body):
            raise no_function("compare", body)
    if n_results + n_sweeps + len(bodies) > max(n_results, n_sweeps, len(bodies)):
        raise OptionError(
            f"compare: {n_results} results, {n_sweeps} sweeps and {len(bodies)} functions",
            hint="give only functions, which are then measured interleaved, or only results, or only sweeps",
        )
    if n_sweeps == 1:
        raise OptionError("compare: one sweep, at least two are needed")


def _refuse_options(settings: Mapping[str, Any], names: Sequence[str], magic: str) -> None:
    """Raise OptionError for settings other than the usual ones: results are measured already."""
    usual = vars(BenchSpec()) | {"time_s": None}
    asked = [option(magic, name) for name, value in settings.items() if name not in usual or value != usual[name]]
    asked += ["names"] if names else []
    if asked:
        message = f"compare: results are compared as they were measured; {', '.join(asked)} cannot be set any more"
        raise OptionError(message, hint="set options where the benchmark is measured, or give functions")


def _refuse_checks(checks: Mapping[str, Any], magic: str) -> None:
    """Raise OptionError for options of the check: what was measured already is not run again."""
    asked = [option(magic, name) for name, value in checks.items() if value not in (None, (), False, "fresh")]
    if asked:
        message = f"compare: {', '.join(asked)} is for functions, which are then measured here"
        raise OptionError(message, hint="give the functions themselves")


def _measured_in_turns(
    bodies: Sequence[Any],
    names: Sequence[str],
    quantity: str | None,
    settings: dict[str, Any],
    magic: str,
    checks: Mapping[str, Any] | None,
) -> list[BenchResult]:
    if len(bodies) < 2 or quantity == "span":
        raise OptionError(
            f"compare takes two or more functions, by returns, done or queued; "
            f"{called(magic, 'syncbench')} measures a span"
        )
    if quantity == "queued" and (settings.get("calls") or 1) < 2:
        message = "compare: queued is the time of one of several calls in a row, and 1 call is made at a time"
        raise OptionError(message, hint=f"{option(magic, 'calls', 50)} makes 50, where a device works")
    _check_names(names)
    body_names = list(names) or [getattr(body, "__name__", "") for body in bodies]
    if len(body_names) != len(bodies):
        raise OptionError(f"compare: {len(body_names)} names given for {len(bodies)} functions")
    asked = asks_for_sampling(settings)
    settings = {name: value for name, value in settings.items() if value is not None} | {"magic": magic}
    specs = [
        spec_for(body, settings | {"name": name}, magic or "compare")
        for body, name in zip(bodies, _distinct(body_names), strict=True)
    ]
    # an explicit time or number of samples is obeyed, also where the verdict is then unclear
    decide_s = 0.0 if asked else DECIDE_S
    same_work = same_work_of(bodies, specs, checks or {})
    records = measure_interleaved(
        bodies, specs, decide_s=decide_s, kept=_keep_partial, same_work=same_work, record=recordings(),
        limit_s=limit_of(checks or {}),
    )  # fmt: skip
    if same_work is None:
        records = [records[0], *(replace(record, checks=(Condition("unchecked"),)) for record in records[1:])]
    return [BenchResult.of(summarise(record)) for record in records]


def compared(results: Sequence[analysed.BenchSummary], quantity: str | None = None) -> CompareResult:
    """Some benchmarks against the first of them; each gets a name, so that text and picture use the same one."""
    named = tuple(BenchResult.of(result.named(named_by_place(number))) for number, result in enumerate(results))
    return CompareResult(compare_results(*named, quantity=quantity), named)


def _keep_partial(records: list[BenchRecord]) -> None:
    """Remember what was measured before an interrupt, where every function has samples."""
    results = [summarise(record) for record in records]
    if all(result.returns is not None for result in results):
        remember(compared(results))


def _distinct(names: Sequence[str]) -> list[str]:
    """Letters where names are missing, the same, or those of lambdas."""
    if len({*names}) == len(names) and all(name and name != "<lambda>" for name in names):
        return list(names)
    return [chr(ord("A") + i) for i in range(len(names))]
