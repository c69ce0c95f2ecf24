"""The functions behind the benchmark magics: how long does it take, and which is faster?"""

from __future__ import annotations

import difflib
import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import fields
from datetime import datetime
from functools import partial
from typing import Any, overload

from perfmagic.analysis.bench.compare import FORMAT as COMPARE_FORMAT
from perfmagic.analysis.bench.compare import CompareResult, named_by_place
from perfmagic.analysis.bench.compare import compare as compare_results
from perfmagic.analysis.bench.result import BenchResult, summarise
from perfmagic.analysis.bench.saved import format_of, kind_of, text_of
from perfmagic.analysis.bench.sweep import FORMAT as SWEEP_FORMAT
from perfmagic.analysis.bench.sweep import SweepResult, ended_at, side_by_side, sweep_result
from perfmagic.analysis.findings.verdict import verdict
from perfmagic.capture.bench.body_loop import run
from perfmagic.capture.bench.engine import Engine
from perfmagic.capture.bench.inputs import read_by_function
from perfmagic.capture.bench.interleave import measure_interleaved
from perfmagic.capture.bench.measurement import measurement as torch_measurement
from perfmagic.capture.bench.spec import BenchSpec
from perfmagic.capture.bench.stopping import DECIDE_S
from perfmagic.capture.recording.recorder import Recorder
from perfmagic.errors import OptionError
from perfmagic.samples import BenchRecord
from perfmagic.show import last, remember

__all__ = ["bench", "compare", "load", "measurement", "sweep", "syncbench"]


def bench(body: Callable[[], object], **options: Any) -> BenchResult:
    """When does Python come back from body(), and when is the device done?

    body: called many times for real.  options: fields of perfmagic.capture.bench.spec.BenchSpec.
    Source of the quantities: docs/measuring.md, "Four quantities".
    """
    return _measure(body, synced=False, options=options)


def syncbench(body: Callable[[], object], **options: Any) -> BenchResult:
    """When is the device done with what body() queued, and who was the bottleneck?"""
    return _measure(body, synced=True, options=options)


def sweep(
    body: Callable[[Any], object], values: Sequence[Any], *, name: str = "n", synced: bool = True, **options: Any
) -> SweepResult:
    """Time against size: body(value) measured for each value, as `%%syncbench --sweep` does.

    name: of what is swept, for tables.  synced: False for what bench() measures.  options: fields of
    BenchSpec.  Where an exception or an interrupt ends it, perfmagic.last() has the sweep of
    what was measured before.  Raises OptionError for fewer than two values.
    """
    if not callable(body):
        raise _no_function("sweep", body)
    if len(values) < 2:
        raise OptionError(f"sweep: {len(values)} value, at least two are needed")
    measured: list[BenchResult] = []
    try:
        for value in values:  # those before an exception are kept
            measured.append(_measure(partial(body, value), synced=synced, options=options))  # noqa: PERF401 - extend() promises less
    except BaseException:
        cut = last()  # of the value that was being measured
        failed = ""
        if measured and isinstance(cut, BenchResult) and cut is not measured[-1]:
            failed = ended_at(cut.failed, name, values[len(measured)])
            if cut.returns is not None:
                measured.append(cut)
        if measured:
            remember(sweep_result(name, values[: len(measured)], [[result] for result in measured], failed=failed))
        raise
    found = sweep_result(name, values, [[result] for result in measured])
    remember(found)
    return found


def measurement(result: BenchResult, quantity: str | None = None) -> Any:
    """A result as a torch.utils.benchmark.Measurement, for torch's own tables (benchmark.Compare).

    quantity: "returns", "done", "span" or "queued"; left out, *done* where a device was in use, else *returns*.
    Raises OptionError for a quantity that was not measured, TorchMissingError without torch.
    """
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


def _no_function(where: str, given: object) -> OptionError:
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


def _time_of_day(unix_ns: int) -> str:
    """To the millisecond: no two benchmarks are taken in one."""
    return datetime.fromtimestamp(unix_ns / 1e9).astimezone().strftime("%H:%M:%S.%f")[:-3]


def _spec(body: Callable[[], object], options: Mapping[str, Any]) -> BenchSpec:
    """Raises OptionError for names that are no options."""
    if not callable(body):
        raise _no_function("bench", body)
    known = [one.name for one in fields(BenchSpec) if one.name != "inputs"]
    for name in options.keys() - {*known}:
        nearest = difflib.get_close_matches(name, known, n=1)
        meant = f"did you mean {nearest[0]}? " if nearest else ""
        raise OptionError(f"there is no option {name}", hint=f"{meant}there are {', '.join(known)}")
    return BenchSpec(**options, inputs=partial(read_by_function, body))


def _measure(body: Callable[[], object], *, synced: bool, options: dict[str, Any]) -> BenchResult:
    engine = new_engine(_spec(body, options), synced=synced)
    try:
        run(engine.loop(), (body,))
    except BaseException as error:
        engine.failed(error)
        remember(finish_bench(engine))
        raise
    result = finish_bench(engine)
    remember(result)
    return result


@overload
def compare(
    first: BenchResult | Callable[[], object],
    *others: BenchResult | Callable[[], object],
    names: Sequence[str] = (),
    quantity: str | None = None,
    **options: Any,
) -> CompareResult: ...


@overload
def compare(first: SweepResult, *others: SweepResult, quantity: str | None = None) -> SweepResult: ...


@overload
def compare(
    first: BenchResult | SweepResult | str | os.PathLike[str],
    *others: BenchResult | SweepResult | str | os.PathLike[str],
    quantity: str | None = None,
) -> CompareResult | SweepResult: ...


def compare(
    first: BenchResult | SweepResult | str | os.PathLike[str] | Callable[[], object],
    *others: BenchResult | SweepResult | str | os.PathLike[str] | Callable[[], object],
    names: Sequence[str] = (),
    quantity: str | None = None,
    **options: Any,
) -> CompareResult | SweepResult:
    """Is it faster than the first? Of functions, measured in turns here; or of results that were measured before,
    also of files that their save() wrote. Of sweeps at each value that all have: gives one sweep with variants.

    names: what the functions are called, their own names if left out.  quantity: "returns", "done" or "span"; left
    out, *done* where a device was in use, else *returns*.  options: fields of perfmagic.capture.bench.spec.BenchSpec.
    Without time_s or samples it goes on for up to 10 s where the verdict is unclear, up to 60 s where 8 samples take
    longer. Where an exception or an interrupt ends it, perfmagic.last() has the comparison of what was measured before.
    Raises OptionError for a mixture, or fewer than two.  Source: docs/measuring.md, "Comparing".
    """
    given = tuple(load(one) if isinstance(one, (str, os.PathLike)) else one for one in (first, *others))
    results = [one for one in given if isinstance(one, BenchResult)]
    sweeps = [one for one in given if isinstance(one, SweepResult)]
    bodies = []
    for one in given:
        if isinstance(one, (BenchResult, SweepResult)):
            continue
        if not callable(one):
            raise _no_function("compare", one)
        bodies.append(one)
    if len(given) > max(len(results), len(sweeps), len(bodies)):
        raise OptionError(
            f"compare: {len(results)} results, {len(sweeps)} sweeps and {len(bodies)} functions",
            hint="give only functions, which are then measured in turns, or only results, or only sweeps",
        )
    if sweeps:
        if len(sweeps) < 2:
            raise OptionError("compare: one sweep, at least two are needed")
        together = side_by_side(sweeps, _distinct([sweep.variant(0)[0].name for sweep in sweeps]), quantity=quantity)
        remember(together)
        return together
    if not results:
        if len(bodies) < 2 or quantity == "span":
            raise OptionError("compare: two functions or more, by returns or done; a span is measured by syncbench()")
        called = list(names) or [getattr(body, "__name__", "") for body in bodies]
        if len(called) != len(bodies):
            raise OptionError(f"compare: {len(called)} names for {len(bodies)} functions")
        specs = [_spec(body, options | {"name": name}) for body, name in zip(bodies, _distinct(called), strict=True)]
        # who says how long or how often is obeyed, also where the verdict is then unclear
        decide_s = 0.0 if options.keys() & {"time_s", "samples"} else DECIDE_S
        records = measure_interleaved(bodies, specs, decide_s=decide_s, kept=_keep_partial)
        results = [summarise(record) for record in records]
    found = compared(results, quantity)
    remember(found)
    return found


def load(path: str | os.PathLike[str]) -> BenchResult | SweepResult | CompareResult:
    """The benchmark, sweep or comparison that save() wrote. Raises OptionError for other files."""
    kind = kind_of(format_of(text_of(path)))
    if kind == kind_of(SWEEP_FORMAT):
        return SweepResult.load(path)
    return CompareResult.load(path) if kind == kind_of(COMPARE_FORMAT) else BenchResult.load(path)


def compared(results: Sequence[BenchResult], quantity: str | None = None) -> CompareResult:
    """Some benchmarks against the first of them; each has a name in it, so that words and picture say the same."""
    named = tuple(result.named(named_by_place(number)) for number, result in enumerate(results))
    return CompareResult(compare_results(*named, quantity=quantity), named)


def _keep_partial(records: list[BenchRecord]) -> None:
    """What an interrupt left of a comparison is what last() gives, where every function has samples."""
    results = [summarise(record) for record in records]
    if all(result.returns is not None for result in results):
        remember(compared(results))


def _distinct(names: Sequence[str]) -> list[str]:
    """Letters where names are missing, the same, or those of lambdas."""
    if len({*names}) == len(names) and all(name and name != "<lambda>" for name in names):
        return list(names)
    return [chr(ord("A") + i) for i in range(len(names))]


def new_engine(
    spec: BenchSpec, *, synced: bool, on_sample: Callable[[Callable[[], str]], None] | None = None
) -> Engine:
    """The engine both faces of a benchmark use; a synced one ends with one recorded run, for the verdict.

    on_sample: called before every sample with a function that says in words how far the benchmark has come.
    """
    return Engine(spec, synced=synced, profile=Recorder if synced else None, on_sample=on_sample)


def finish_bench(engine: Engine) -> BenchResult:
    """Close an engine and state what it measured, also where the body failed."""
    engine.close()
    record = engine.record()
    judged = verdict(record.trace) if record.trace is not None else None
    return summarise(record, judged)
