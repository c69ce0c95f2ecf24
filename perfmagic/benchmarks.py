"""The functions behind %%bench, %%syncbench and --sweep: how long does it take?"""

from __future__ import annotations

import os
import textwrap
from collections.abc import Callable, Collection, Mapping, Sequence, Sized
from dataclasses import fields
from datetime import datetime
from functools import partial
from typing import Any

from perfmagic.analysis.bench.compare import FORMAT as COMPARE_FORMAT
from perfmagic.analysis.bench.result import summarise
from perfmagic.analysis.bench.saved import format_of, kind_of, text_of
from perfmagic.analysis.bench.sweep import FORMAT as SWEEP_FORMAT
from perfmagic.analysis.bench.sweep import ended_at, sweep_result
from perfmagic.analysis.findings.verdict import verdict
from perfmagic.capture.bench.body_loop import run
from perfmagic.capture.bench.engine import Engine
from perfmagic.capture.bench.inputs import read_by_function
from perfmagic.capture.bench.measurement import measurement as torch_measurement
from perfmagic.capture.bench.spec import BenchSpec, Work
from perfmagic.capture.recording.recorder import Recorder
from perfmagic.errors import OptionError
from perfmagic.keywords import documented
from perfmagic.results import BenchResult, CompareResult, SweepResult
from perfmagic.show import last, remember
from perfmagic.units import plural

__all__ = ["bench", "load", "measurement", "sweep", "syncbench"]

_WORDS = {
    "samples": "take exactly this many samples; None: until the confidence interval is narrow enough or time is up",
    "min_samples": "the fewest samples where samples is None; None: 20 for calls below 50 ms, 10 below 0.5 s, else 3",
    "max_samples": "the most samples where samples is None",
    "time_s": "how long to sample, in seconds",
    "rel": "stop at this half-width of the median's 95 % confidence interval, as a fraction of the median",
    "calls": (
        "calls back to back in one sample; None: as many as the clock needs. Where a device works, a sample of "
        "*returns* and *done* stays one call, and calls above 1 add the quantity *per call, queued*"
    ),
    "warmup": "calls before the samples, after the very first call; None: until the times settle",
    "cold": "overwrite the caches before each sample",
    "cooldown_s": "pause before each sample, in seconds",
    "runs": "whole runs, each with its own warm-up; they show how far the medians of runs differ",
    "flop": "floating-point operations of one call, for the rate in FLOP/s",
    "moved_bytes": "bytes that one call moves, for the bandwidth",
    "work": "a function that returns both as a perfmagic.Work instead; it is called once, after the first call",
    "setup_each": "a function to call before each sample; its time is not measured",
    "name": "what the result is called",
    "code": "source text to keep with the result",
    "setup": "source text of the set-up code to keep with the result",
}


def options_in_words(*, without: Collection[str] = (), **defaults: object) -> str:
    """What each option of a benchmark does, with its default, for the docstrings of the functions that take them.

    without: options that are left out.  defaults: those that differ from BenchSpec's.
    """
    usual = {one.name: one.default for one in fields(BenchSpec)} | defaults
    lines = [f"{name} (default {usual[name]!r}): {words}." for name, words in _WORDS.items() if name not in without]
    wrapped = [textwrap.fill(line, 100, subsequent_indent="    ") for line in lines]
    return "\n".join(["Options of the benchmark; docs/measuring.md explains them:", "", *wrapped])


@documented(options_in_words())
def bench(
    body: Callable[[], object],
    *,
    samples: int | None = None,
    min_samples: int | None = None,
    max_samples: int = 10_000,
    time_s: float = 2.0,
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
    name: str = "",
    code: str = "",
    setup: str = "",
) -> BenchResult:
    """When does Python come back from body(), and when is the device done?

    body: called many times for real. Where an exception or an interrupt ends it, perfmagic.last() has what was measured
    before. Raises OptionError for a value that cannot be used.
    Source of the quantities: docs/measuring.md, "Four quantities".

    >>> result = perfmagic.bench(lambda: sorted(range(100)), samples=20)
    >>> result.returns.n, result.returns.low_s <= result.returns.median_s <= result.returns.high_s
    (20, True)
    """
    return _measure(body, given_options(locals()), synced=False)


@documented(options_in_words())
def syncbench(
    body: Callable[[], object],
    *,
    samples: int | None = None,
    min_samples: int | None = None,
    max_samples: int = 10_000,
    time_s: float = 2.0,
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
    name: str = "",
    code: str = "",
    setup: str = "",
) -> BenchResult:
    """When is the device done with what body() queued, and was the host or the device the bottleneck?

    body: called many times for real, and once more under the recorder, for the verdict. The rest as in bench().
    """
    return _measure(body, given_options(locals()), synced=True)


@documented(options_in_words(without=["name"]))
def sweep(
    body: Callable[[Any], object],
    values: Sequence[Any],
    *,
    name: str = "n",
    synced: bool = True,
    samples: int | None = None,
    min_samples: int | None = None,
    max_samples: int = 10_000,
    time_s: float = 2.0,
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
) -> SweepResult:
    """How does the time grow with size? Measures body(value) for each value, as `%%syncbench --sweep` does.

    values: a list of two or more.  name: of what is swept, for tables.  synced: False measures as bench() does, without
    a verdict. Where an exception or an interrupt ends it, perfmagic.last() has the sweep of what was measured before.
    Raises OptionError for fewer than two values, and for an iterator.
    """
    options = given_options(locals())
    del options["name"]  # here it is the variable's, not the results'
    if not callable(body):
        raise no_function("sweep", body)
    if not isinstance(values, Sized):  # an iterator may have no end
        raise OptionError(
            f"sweep: values is of type {type(values).__name__}, which has no length", hint="give a list of values"
        )
    values = list(values)
    if len(values) < 2:
        raise OptionError(
            f"sweep: {plural(len(values), 'value')} given, at least two are needed", hint="sweep(body, [256, 512])"
        )
    measured: list[BenchResult] = []
    try:
        for value in values:  # those before an exception are kept
            measured.append(_measure(partial(body, value), options, synced=synced))  # noqa: PERF401 - extend() promises less
    except BaseException:
        _remember_cut(measured, values, name)
        raise
    found = SweepResult.of(sweep_result(name, values, [[result] for result in measured]))
    remember(found)
    return found


def _remember_cut(measured: list[BenchResult], values: Sequence[Any], name: str) -> None:
    """Make what was measured before an exception the last result."""
    cut = last()  # of the value that was being measured
    failed = ""
    if measured and isinstance(cut, BenchResult) and cut is not measured[-1]:
        failed = ended_at(cut.failed, name, values[len(measured)])
        if cut.returns is not None:
            measured.append(cut)
    if measured:
        rows = [[result] for result in measured]
        remember(SweepResult.of(sweep_result(name, values[: len(measured)], rows, failed=failed)))


def measurement(result: BenchResult, quantity: str | None = None) -> Any:
    """A result as a torch.utils.benchmark.Measurement, for torch's own tables (benchmark.Compare).

    quantity: "returns", "done", "span" or "queued"; None: *done* where a device was in use, else *returns*.
    Raises OptionError for what is no result of a benchmark and for a quantity that was not measured,
    TorchMissingError without torch.
    """
    if not isinstance(result, BenchResult):
        raise OptionError(
            f"measurement: the result of a benchmark is needed, not {result!r} ({type(result).__name__})",
            hint="perfmagic.bench(function) gives one",
        )
    name = quantity or ("done" if result.done is not None else "returns")
    if name not in result.quantities:
        have = ", ".join(result.quantities) or "nothing"
        raise OptionError(f"measurement: {name} was not measured", hint=f"there is {have}")
    calls = {"span": 1, "queued": result.queued_calls}.get(name, result.calls_per_sample)
    return torch_measurement(
        result.quantities[name].samples_s,
        calls_per_sample=calls,
        code=result.code,
        setup=result.setup,
        label=name,
        description=result.name or f"taken {_time_of_day(result.taken_unix_ns)}",
    )


def load(path: str | os.PathLike[str]) -> BenchResult | SweepResult | CompareResult:
    """The benchmark, sweep or comparison that save() wrote. Raises OptionError for other files."""
    if str(path).endswith((".npz", ".gz")):
        raise OptionError(f"{path} is no benchmark, sweep or comparison", hint="perfmagic.open_trace opens traces")
    kind = kind_of(format_of(text_of(path)))
    if kind == kind_of(SWEEP_FORMAT):
        return SweepResult.load(path)
    return CompareResult.load(path) if kind == kind_of(COMPARE_FORMAT) else BenchResult.load(path)


def given_options(values: Mapping[str, Any]) -> dict[str, Any]:
    """Of a function's arguments, those that are fields of BenchSpec."""
    return {name: values[name] for name in _WORDS if name in values}


def spec_of(body: Callable[[], object], options: Mapping[str, Any], where: str = "bench") -> BenchSpec:
    """How a function is to be measured. Raises OptionError, in the name of `where`, if it is no function."""
    if not callable(body):
        raise no_function(where, body)
    return BenchSpec(**options, inputs=partial(read_by_function, body))


def no_function(where: str, given: object) -> OptionError:
    """The error for something given in place of a function."""
    if isinstance(given, CompareResult):
        return OptionError(
            f"{where}: one of them is a comparison already",
            hint="its .results are the benchmarks it was made of; perfmagic.load opens a file",
        )
    or_result = ", nor a result of a benchmark" if where == "compare" else ""
    return OptionError(
        f"{where}: {type(given).__name__} is no function{or_result}",
        hint="give the function itself, without () behind it",
    )


def _measure(body: Callable[[], object], options: Mapping[str, Any], *, synced: bool) -> BenchResult:
    engine = new_engine(spec_of(body, options, "syncbench" if synced else "bench"), synced=synced)
    with engine, engine:  # twice: see capture/owner.py
        try:
            run(engine.loop(), (body,))
        except BaseException as error:
            engine.failed(error)
            remember(finish_bench(engine))
            raise
        result = finish_bench(engine)
    remember(result)
    return result


def new_engine(
    spec: BenchSpec, *, synced: bool, on_sample: Callable[[Callable[[], str]], None] | None = None
) -> Engine:
    """The engine that magics and functions use; a synced one ends with one recorded run, for the verdict.

    on_sample: called before every sample with a function that describes the progress.
    """
    return Engine(spec, synced=synced, profile=Recorder if synced else None, on_sample=on_sample)


def finish_bench(engine: Engine) -> BenchResult:
    """Close an engine and summarise what it measured, also where the body failed."""
    engine.close()
    record = engine.record()
    judged = verdict(record.trace) if record.trace is not None else None
    return BenchResult.of(summarise(record, judged))


def _time_of_day(unix_ns: int) -> str:
    """To the millisecond: no two benchmarks begin in the same one."""
    return datetime.fromtimestamp(unix_ns / 1e9).astimezone().strftime("%H:%M:%S.%f")[:-3]
