"""The functions behind %compare and --vs: which is faster, and what changed between two timelines?"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeAlias, overload

from perfmagic.analysis.bench import result as analysed
from perfmagic.analysis.bench import sweep as swept
from perfmagic.analysis.bench.compare import QUANTITIES, named_by_place
from perfmagic.analysis.bench.compare import compare as compare_results
from perfmagic.analysis.bench.result import summarise
from perfmagic.benchmarks import given_options, load, no_function, options_in_words, spec_of
from perfmagic.capture.bench.interleave import measure_interleaved
from perfmagic.capture.bench.spec import BenchSpec, Work, asks_for_sampling
from perfmagic.capture.bench.stopping import DECIDE_S
from perfmagic.errors import OptionError
from perfmagic.flags import called, option
from perfmagic.keywords import documented
from perfmagic.rank_comparisons import compare_sweeps, is_rank_sweep
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
from perfmagic.samples import BenchRecord
from perfmagic.show import remember
from perfmagic.trace_comparisons import compare_timelines, is_trace_path
from perfmagic.units import plural

__all__ = ["compare", "compare_given", "compared"]

Path: TypeAlias = "str | os.PathLike[str]"
Given: TypeAlias = "BenchResult | SweepResult | TimelineResult | RanksResult | RanksSweep | Path | Callable[[], object]"
Found: TypeAlias = "CompareResult | SweepResult | TraceComparison | RanksSweepComparison"


@overload
def compare(
    first: BenchResult | Callable[[], object],
    *others: BenchResult | Callable[[], object],
    names: Sequence[str] = (),
    quantity: str | None = None,
    samples: int | None = None,
    min_samples: int | None = None,
    max_samples: int = 10_000,
    time_s: float | None = None,
    rel: float = 0.01,
    calls: int | None = None,
    warmup: int | None = None,
    cold: bool = False,
    cooldown_s: float = 0.0,
    runs: int = 1,
    flop: float | None = None,
    moved_bytes: float | None = None,
    work: Callable[[], Work] | None = None,
    setup_each: Callable[[], object] | None = None,
    code: str = "",
    setup: str = "",
) -> CompareResult: ...


@overload
def compare(first: SweepResult, *others: SweepResult, quantity: str | None = None) -> SweepResult: ...


@overload
def compare(
    first: TimelineResult | RanksResult,
    second: TimelineResult | RanksResult | Path,
    /,
    *,
    names: Sequence[str] = (),
) -> TraceComparison: ...


@overload
def compare(first: Path, second: TimelineResult | RanksResult, /, *, names: Sequence[str] = ()) -> TraceComparison: ...


@overload
def compare(first: RanksSweep, second: RanksSweep | Path, /, *, names: Sequence[str] = ()) -> RanksSweepComparison: ...


@overload
def compare(
    first: BenchResult | SweepResult | Path, *others: BenchResult | SweepResult | Path, quantity: str | None = None
) -> Found: ...


@documented(options_in_words(without=["name"], time_s=None))
def compare(
    first: Given,
    *others: Given,
    names: Sequence[str] = (),
    quantity: str | None = None,
    samples: int | None = None,
    min_samples: int | None = None,
    max_samples: int = 10_000,
    time_s: float | None = None,
    rel: float = 0.01,
    calls: int | None = None,
    warmup: int | None = None,
    cold: bool = False,
    cooldown_s: float = 0.0,
    runs: int = 1,
    flop: float | None = None,
    moved_bytes: float | None = None,
    work: Callable[[], Work] | None = None,
    setup_each: Callable[[], object] | None = None,
    code: str = "",
    setup: str = "",
) -> Found:
    """Is it faster than the first? Functions are measured here, interleaved; results and saved files as they are.

    first, others: functions, or results of benchmarks, or sweeps; a path names what save() wrote. Sweeps are compared
    at each value that all have, which gives one sweep with variants.
    Two timelines, or paths of traces, or results or folders of several ranks, give a TraceComparison: what changed from
    the first to the second, and where. It has one run of each, so no statistics. Two sweeps over numbers of ranks give
    a RanksSweepComparison: which is quicker on how many ranks, and in which part.
    names: one for each function or timeline; for functions their own names where left out, for timelines A and B.
    quantity: "returns", "done", "span" or "queued"; None: *done* where a device was in use, else *returns*.
    Left to itself it samples up to 10 s while the verdict is unclear, and up to 60 s where 8 samples take longer. With
    time_s, samples, min_samples, max_samples or rel it obeys these, also where the verdict is then unclear.
    Where an exception or an interrupt ends it, perfmagic.last() has the comparison of what was measured before.
    Raises OptionError for a mixture, for fewer than two, and for options with what is measured already.
    Source: docs/measuring.md, "Comparing".

    >>> perfmagic.compare(lambda: sum(range(50_000)), lambda: sum(range(50)), samples=20).verdict
    'faster'
    >>> print(perfmagic.compare("step.json.gz", "step.json.gz").headline)
    B is as long as A: 167 ms
    """
    return compare_given((first, *others), names, quantity, given_options(locals()))


def compare_given(
    given: Sequence[Given], names: Sequence[str], quantity: str | None, options: dict[str, Any], *, magic: str = ""
) -> Found:
    """What compare() does.  options: fields of BenchSpec.  magic: as there."""
    if quantity is not None and quantity not in QUANTITIES:
        raise OptionError(f"compare: there is no quantity {quantity!r}", hint="one of " + ", ".join(QUANTITIES))
    if any(map(is_rank_sweep, given)):
        return _rank_sweeps(given, names, quantity, options, magic)
    if _are_timelines(given):
        return _timelines(given, names, quantity, options, magic)
    opened = [load(one) if isinstance(one, (str, os.PathLike)) else one for one in given]
    results = [one for one in opened if isinstance(one, analysed.BenchSummary)]
    sweeps = [one for one in opened if isinstance(one, swept.SweepSummary)]
    bodies = [one for one in opened if not isinstance(one, (analysed.BenchSummary, swept.SweepSummary))]
    _check_kinds(len(results), len(sweeps), bodies)
    if not bodies:
        _refuse_options(options, names, magic)
    found: CompareResult | SweepResult
    if sweeps:
        variants = _distinct([sweep.variant(0)[0].name for sweep in sweeps])
        found = SweepResult.of(swept.side_by_side(sweeps, variants, quantity=quantity))
    else:
        found = compared(results or _measured_in_turns(bodies, names, quantity, options, magic), quantity)
    remember(found)
    return found


def _are_timelines(given: Sequence[object]) -> bool:
    """Whether timelines are meant: beside a benchmark, a file that is none is a mistake of its own, told by load()."""
    if any(isinstance(one, (TimelineResult, RanksResult)) for one in given):
        return True
    benchmarks = any(isinstance(one, (analysed.BenchSummary, swept.SweepSummary)) or _is_saved(one) for one in given)
    return not benchmarks and any(map(_is_timeline, given))


def _is_saved(one: object) -> bool:
    """Whether it names a file that a benchmark wrote, or one that is not there."""
    return isinstance(one, (str, os.PathLike)) and not is_trace_path(one)


def _is_timeline(one: object) -> bool:
    if isinstance(one, (str, os.PathLike)):
        return is_trace_path(one)
    return isinstance(one, (TimelineResult, RanksResult))


def _rank_sweeps(
    given: Sequence[Any], names: Sequence[str], quantity: str | None, options: Mapping[str, Any], magic: str
) -> RanksSweepComparison:
    """Two sweeps over numbers of ranks, each a result or the folder it was saved as."""
    n = sum(map(is_rank_sweep, given))
    if n < len(given):
        other = next(one for one in given if not is_rank_sweep(one))
        of_ranks = isinstance(other, RanksResult)
        kind = "ranks of one run" if of_ranks else _kind_words(other)
        hint = "sweep.on(n) is the run on n ranks" if of_ranks else "give two sweeps over numbers of ranks"
        raise OptionError(f"compare: {plural(n, 'sweep')} over numbers of ranks and {kind}", hint=hint)
    if n != 2:
        raise OptionError(f"compare: {plural(n, 'sweep')} over ranks, two are compared", hint="%compare before after")
    _refuse_options({**options, **({} if quantity is None else {"quantity": quantity})}, (), magic)
    _check_names(names)
    found = compare_sweeps(given[0], given[1], names=names)
    remember(found)
    return found


def _timelines(
    given: Sequence[Any], names: Sequence[str], quantity: str | None, options: Mapping[str, Any], magic: str
) -> TraceComparison:
    """Two timelines, each a result, a trace file or a folder of them."""
    n = sum(map(_is_timeline, given))
    if n < len(given):
        other = next(one for one in given if not _is_timeline(one))
        raise OptionError(
            f"compare: {plural(n, 'timeline')} and {_kind_words(other)}",
            hint="give two timelines or trace files, or only benchmarks, or only functions",
        )
    if n != 2:
        raise OptionError(f"compare: {plural(n, 'timeline')}, two are compared", hint="%compare before after")
    _refuse_options({**options, **({} if quantity is None else {"quantity": quantity})}, (), magic)
    _check_names(names)
    found = compare_timelines(given[0], given[1], names=names)
    remember(found)
    return found


def _check_names(names: object) -> None:
    """Raise OptionError for what is no list of names."""
    if isinstance(names, str) or not isinstance(names, Sequence) or not all(isinstance(name, str) for name in names):
        raise OptionError(f"compare: names={names!r} is no list of names", hint='names=["before", "after"]')


def _kind_words(one: object) -> str:
    """What was given beside a timeline."""
    if isinstance(one, (str, os.PathLike)):
        return f"{os.fspath(one)}, which is no trace"
    return "a benchmark" if isinstance(one, (analysed.BenchSummary, swept.SweepSummary)) else f"a {type(one).__name__}"


def _check_kinds(n_results: int, n_sweeps: int, bodies: Sequence[Any]) -> None:
    """Raise OptionError for what is no function, for a mixture, and for fewer than two."""
    for one in bodies:
        if not callable(one):
            raise no_function("compare", one)
    if n_results + n_sweeps + len(bodies) > max(n_results, n_sweeps, len(bodies)):
        raise OptionError(
            f"compare: {n_results} results, {n_sweeps} sweeps and {len(bodies)} functions",
            hint="give only functions, which are then measured interleaved, or only results, or only sweeps",
        )
    if n_sweeps == 1:
        raise OptionError("compare: one sweep, at least two are needed")


def _refuse_options(options: Mapping[str, Any], names: Sequence[str], magic: str) -> None:
    """Raise OptionError where something is to be set for what is measured already."""
    usual = vars(BenchSpec()) | {"time_s": None}
    asked = [option(magic, name) for name, value in options.items() if name not in usual or value != usual[name]]
    asked += ["names"] if names else []
    if asked:
        raise OptionError(
            f"compare: results are compared as they were measured; {', '.join(asked)} cannot be set any more",
            hint="set options where the benchmark is measured, or give functions",
        )


def _measured_in_turns(
    bodies: Sequence[Any], names: Sequence[str], quantity: str | None, options: dict[str, Any], magic: str
) -> list[BenchResult]:
    if len(bodies) < 2 or quantity == "span":
        raise OptionError(
            f"compare: two functions or more, by returns, done or queued; a span is measured by "
            f"{called(magic, 'syncbench')}"
        )
    if quantity == "queued" and (options.get("calls") or 1) < 2:
        raise OptionError(
            "compare: queued is the time of one of several calls in a row, and 1 call is made at a time",
            hint=f"{option(magic, 'calls', 50)} makes 50, where a device works",
        )
    _check_names(names)
    words = list(names) or [getattr(body, "__name__", "") for body in bodies]
    if len(words) != len(bodies):
        raise OptionError(f"compare: {len(words)} names given for {len(bodies)} functions")
    asked = asks_for_sampling(options)
    options = {name: value for name, value in options.items() if value is not None}
    options["magic"] = magic
    specs = [spec_of(body, options | {"name": name}) for body, name in zip(bodies, _distinct(words), strict=True)]
    # an explicit time or number of samples is obeyed, also where the verdict is then unclear
    records = measure_interleaved(bodies, specs, decide_s=0.0 if asked else DECIDE_S, kept=_keep_partial)
    return [BenchResult.of(summarise(record)) for record in records]


def compared(results: Sequence[analysed.BenchSummary], quantity: str | None = None) -> CompareResult:
    """Some benchmarks against the first of them; each gets a name, so that words and picture use the same one."""
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
