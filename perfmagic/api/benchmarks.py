"""The functions behind %%bench, %%syncbench and --sweep: how long does it take?"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence, Sized
from dataclasses import replace
from datetime import datetime
from functools import partial
from typing import TYPE_CHECKING, Annotated, Any, TypedDict

from perfmagic.analysis.bench.compare import FORMAT as COMPARE_FORMAT
from perfmagic.analysis.bench.result import summarise
from perfmagic.analysis.bench.saved import format_of, kind_of, text_of
from perfmagic.analysis.bench.sweep import FORMAT as SWEEP_FORMAT
from perfmagic.analysis.bench.sweep import ended_at, sweep_result
from perfmagic.analysis.findings.verdict import verdict
from perfmagic.api.options import Option, keywords
from perfmagic.api.show import last, remember
from perfmagic.base.errors import OptionError
from perfmagic.base.options import RENAMED, as_fraction
from perfmagic.base.units import plural
from perfmagic.capture.bench.engine import Engine
from perfmagic.capture.bench.engine import measurement as torch_measurement
from perfmagic.capture.bench.sampling import run
from perfmagic.capture.bench.spec import BenchSpec, Work
from perfmagic.capture.bench.watchers import read_by_function
from perfmagic.capture.recording.recorder import Recorder
from perfmagic.capture.unawaited import refuse_async
from perfmagic.results import BenchResult, CompareResult, SweepResult

if TYPE_CHECKING:
    from typing_extensions import Unpack

__all__ = ["bench", "load", "measurement", "sweep", "syncbench"]

_USUAL = BenchSpec()
_FIELDS = {option: field for field, option in RENAMED.items()}  # of BenchSpec, by the names of options


class SamplingOptions(TypedDict, total=False):
    """How a benchmark is measured: fields of BenchSpec, under the names that options have."""

    samples: Annotated[
        int | None,
        Option(
            "take exactly this many samples",
            _USUAL.samples,
            unset="until the confidence interval is narrow enough or time is up",
            short="-r",
            metavar="R",
        ),
    ]
    min_samples: Annotated[
        int | None,
        Option(
            "the fewest samples where samples is None",
            _USUAL.min_samples,
            unset="20 for calls below 50 ms, 10 below 0.5 s, else 3",
        ),
    ]
    max_samples: Annotated[int, Option("the most samples where samples is None", _USUAL.max_samples)]
    time: Annotated[
        float,
        Option(
            "how long to sample",
            _USUAL.time_s,
            unit="seconds",
            metavar="S",
            flag="how long to sample each variant and value; at least 20 samples are taken, 10 of calls above 50 ms, "
            "3 above 0.5 s",
        ),
    ]
    rel: Annotated[
        float | str,
        Option(
            "stop at this half-width of the median's 95 % confidence interval: a fraction of the median, or `1%`",
            _USUAL.rel,
            metavar="P",
        ),
    ]
    calls: Annotated[
        int | None,
        Option(
            "calls back to back in one sample. Where a device works, a sample of *returns* and *done* stays one call, "
            "and calls above 1 add the quantity *per call, queued*",
            _USUAL.calls,
            unset="as many as the clock needs",
            short="-n",
            metavar="N",
            flag="calls back to back in one sample; with a device this adds *per call, queued*",
        ),
    ]
    warmup: Annotated[
        int | None,
        Option(
            "calls before the samples, after the very first call; 0 for none",
            _USUAL.warmup,
            unset="until the times settle",
            metavar="N",
        ),
    ]
    cold: Annotated[bool, Option("overwrite the caches before each sample", _USUAL.cold)]
    cooldown: Annotated[float, Option("pause before each sample", _USUAL.cooldown_s, unit="seconds", metavar="S")]
    runs: Annotated[
        int,
        Option(
            "repeat the whole run, each time with a warm-up; shows how far medians of runs differ",
            _USUAL.runs,
            metavar="N",
        ),
    ]
    flops: Annotated[
        float | None,
        Option(
            "floating-point operations of one call, for the rate in FLOP/s",
            _USUAL.flop,
            metavar="EXPR",
            flag="floating-point operations of one call, such as `2*n**3`: shows FLOP/s",
        ),
    ]
    bytes: Annotated[
        float | None,
        Option(
            "bytes that one call moves, for the bandwidth",
            _USUAL.moved_bytes,
            metavar="EXPR",
            flag="bytes that one call moves: shows the bandwidth",
        ),
    ]
    work: Annotated[
        Callable[[], Work] | None,
        Option(
            "a function that returns both as a perfmagic.Work instead; it is called once, after the first call",
            _USUAL.work,
        ),
    ]
    setup_each: Annotated[
        Callable[[], object] | None,
        Option(
            "a function to call before each sample; its time is not measured",
            _USUAL.setup_each,
            flag="run the set-up code before each sample instead of once",
        ),
    ]
    code: Annotated[str, Option("source text to keep with the result", _USUAL.code)]
    setup: Annotated[str, Option("source text of the set-up code to keep with the result", _USUAL.setup)]


class BenchOptions(SamplingOptions, total=False):
    """How a benchmark is measured, and what its result is called."""

    name: Annotated[str, Option("what the result is called", _USUAL.name, metavar="TEXT")]


bench_keywords = partial(keywords, intro="Options of the benchmark; docs/measuring.md explains them:")


@bench_keywords(BenchOptions)
def bench(body: Callable[[], object], **options: Unpack[BenchOptions]) -> BenchResult:
    """When does Python come back from body(), and when is the device done?

    body: called many times for real. Where an exception or an interrupt ends it, perfmagic.last() has what was measured
    before. Raises OptionError for a value that cannot be used.
    Source of the quantities: docs/measuring.md, "Four quantities".

    >>> result = perfmagic.bench(lambda: sorted(range(100)), samples=20)
    >>> result.returns.n, result.returns.low_s <= result.returns.median_s <= result.returns.high_s
    (20, True)
    """
    return _measure(body, bench_settings(options), "bench", synced=False)


@bench_keywords(BenchOptions)
def syncbench(body: Callable[[], object], **options: Unpack[BenchOptions]) -> BenchResult:
    """When is the device done with what body() queued, and was the host or the device the bottleneck?

    body: called many times for real, and once more under the recorder, for the verdict. The rest as in bench().
    """
    return _measure(body, bench_settings(options), "syncbench", synced=True)


@bench_keywords(SamplingOptions)
def sweep(
    body: Callable[[Any], object],
    values: Sequence[Any],
    *,
    name: str = "n",
    synced: bool = True,
    **options: Unpack[SamplingOptions],
) -> SweepResult:
    """How does the time grow with size? Measures body(value) for each value, as `%%syncbench --sweep` does.

    values: a list of two or more.  name: of what is swept, for tables.  synced: False measures as bench() does, without
    a verdict. Where an exception or an interrupt ends it, perfmagic.last() has the sweep of what was measured before.
    Raises OptionError for fewer than two values, and for an iterator.
    """
    settings = bench_settings(options)
    if not callable(body):
        raise no_function("sweep", body)
    if not isinstance(values, Sized):  # an iterator may have no end
        raise OptionError(
            f"sweep: values is of type {type(values).__name__}, which has no length", hint="give a list of values"
        )
    values = list(values)
    if len(values) < 2:
        message = f"sweep: {plural(len(values), 'value')} given, at least two are needed"
        raise OptionError(message, hint="sweep(body, [256, 512])")
    measured: list[BenchResult] = []
    try:
        for value in values:  # those before an exception are kept
            measured.append(_measure(partial(body, value), settings, "sweep", synced=synced))  # noqa: PERF401 - extend() promises less
    except BaseException:
        _remember_partial_sweep(measured, values, name)
        raise
    result = SweepResult.of(sweep_result(name, values, [[result] for result in measured]))
    remember(result)
    return result


def _remember_partial_sweep(measured: list[BenchResult], values: Sequence[Any], name: str) -> None:
    """Make what was measured before an exception the last result."""
    partial_result = last()  # of the value that was being measured
    failed = ""
    if measured and isinstance(partial_result, BenchResult) and partial_result is not measured[-1]:
        failed = ended_at(partial_result.failed, name, values[len(measured)])
        if partial_result.returns is not None:
            measured.append(partial_result)
    if measured:
        rows = [[result] for result in measured]
        remember(SweepResult.of(sweep_result(name, values[: len(measured)], rows, failed=failed)))


def measurement(result: BenchResult, quantity: str | None = None) -> Any:
    """A result as a torch.utils.benchmark.Measurement, for torch's own tables (benchmark.Compare).

    quantity: "returns", "done", "span" or "queued"; None: *done* where a device was in use, else *returns*.
    Raises OptionError for other objects than results of benchmarks, and for a quantity that was not measured. Raises
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
        raise OptionError(f"{path} is not a benchmark, sweep or comparison", hint="perfmagic.open_trace opens traces")
    kind = kind_of(format_of(text_of(path)))
    if kind == kind_of(SWEEP_FORMAT):
        return SweepResult.load(path)
    return CompareResult.load(path) if kind == kind_of(COMPARE_FORMAT) else BenchResult.load(path)


def bench_settings(options: Mapping[str, Any]) -> dict[str, Any]:
    """Options of a benchmark by the names of BenchSpec's fields, `rel` as a fraction."""
    settings = {_FIELDS.get(name, name): value for name, value in options.items()}
    return settings | {"rel": as_fraction(settings["rel"])} if "rel" in settings else settings


def spec_for(body: Callable[[], object], settings: Mapping[str, Any], where: str) -> BenchSpec:
    """How a function is to be measured. Raises OptionError, which names `where`, if it is not a function."""
    if not callable(body):
        raise no_function(where, body)
    refuse_async(where, body)
    return BenchSpec(**settings, inputs=partial(read_by_function, body))


def no_function(where: str, given: object) -> OptionError:
    """The error for something given in place of a function."""
    if isinstance(given, CompareResult):
        return OptionError(
            f"{where}: one of them is a comparison already",
            hint="its .results are the benchmarks it was made of; perfmagic.load opens a file",
        )
    or_result = ", nor a result of a benchmark" if where == "compare" else ""
    return OptionError(
        f"{where}: {type(given).__name__} is not a function{or_result}",
        hint="give the function itself, without () after it",
    )


def _measure(body: Callable[[], object], settings: Mapping[str, Any], where: str, *, synced: bool) -> BenchResult:
    engine = new_engine(spec_for(body, settings, where), synced=synced)
    with engine, engine:  # twice: see capture/owner.py
        try:
            run(engine.loop(), (body,), where)
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
    result = BenchResult.of(summarise(record, judged))
    if record.trace is None or not result.supported_verdict:
        return result
    from perfmagic.analysis.findings.answers import first_answer  # of a recorded run alone

    return replace(result, answer=first_answer(record.trace, result.supported_verdict))


def _time_of_day(unix_ns: int) -> str:
    """To the millisecond: no two benchmarks begin in the same one."""
    return datetime.fromtimestamp(unix_ns / 1e9).astimezone().strftime("%H:%M:%S.%f")[:-3]
