"""The functions behind the magics, for scripts, tests and notebooks alike."""

from __future__ import annotations

import os
import warnings
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from types import TracebackType
from typing import Any, overload

from perfmagic.analysis.bench import BenchResult, summarise
from perfmagic.analysis.compare import CompareResult
from perfmagic.analysis.compare import compare as compare_results
from perfmagic.analysis.ranks import RankFinding
from perfmagic.analysis.ranks import rank_findings as find_in_ranks
from perfmagic.analysis.saved import format_of, text_of
from perfmagic.analysis.sweep import FORMAT as SWEEP_FORMAT
from perfmagic.analysis.sweep import SweepResult, side_by_side, sweep_result
from perfmagic.analysis.verdict import verdict
from perfmagic.capture.block import Benchmark
from perfmagic.capture.device import device, devices, synchronize
from perfmagic.capture.interop import is_profiler, profiler_trace, trace_handler
from perfmagic.capture.measurement import measurement as torch_measurement
from perfmagic.capture.profiler import Recorder
from perfmagic.capture.sim.pace import Pace
from perfmagic.capture.spec import BenchSpec
from perfmagic.capture.timers import Engine
from perfmagic.capture.turns import DECIDE_S, measure_in_turns, run
from perfmagic.errors import CaptureError, OptionError, PerfmagicError, TraceError
from perfmagic.results import TimelineResult
from perfmagic.show import last, remember, show
from perfmagic.trace.kineto_file import DEFAULT_LIMIT_BYTES
from perfmagic.trace.names import checked_pattern
from perfmagic.trace.samples import BenchRecord
from perfmagic.trace.sources import one_file, read_file, trace_files

__all__ = [
    "Benchmark",
    "Pace",
    "bench",
    "compare",
    "device",
    "devices",
    "last",
    "measurement",
    "open_trace",
    "open_traces",
    "rank_findings",
    "sweep",
    "syncbench",
    "synchronize",
    "timeline",
    "trace_handler",
]


def open_trace(
    source: str | os.PathLike[str] | Any,
    *,
    comm_names: str | None = None,
    max_unpacked_bytes: int = DEFAULT_LIMIT_BYTES,
) -> TimelineResult:
    """What a saved trace, or a finished profiler, says. Files are read without torch.

    source: a file (Kineto's Chrome JSON, gzipped or not, or .npz), a folder that holds one, or a finished
    torch.profiler.profile.  comm_names: a regular expression that says which kernels are communication, instead of the
    default rule.  max_unpacked_bytes: larger files are refused, as a gzip file of 2 MB can hold 2 GB.
    Raises TraceError where a file is no trace, or is damaged beyond repair; CaptureError for a profiler without result.
    """
    checked_pattern(comm_names)
    if is_profiler(source):
        return TimelineResult(profiler_trace(source), comm_names=comm_names, title="profiler")
    path = one_file(source)
    trace = read_file(path, max_unpacked_bytes=max_unpacked_bytes)
    return TimelineResult(trace, comm_names=comm_names, title=path.name)


def open_traces(*sources: str | os.PathLike[str], comm_names: str | None = None) -> tuple[TimelineResult, ...]:
    """What several saved traces say: files, and folders with all trace files in them, ranks in their order.

    comm_names: as in open_trace. What cannot be opened is left out with a warning of one line each; where nothing can
    be, the first TraceError is raised.
    """
    checked_pattern(comm_names)
    results: list[TimelineResult] = []
    refused: list[TraceError] = []
    for source in sources:
        for path in _files(source, refused):
            try:
                results.append(open_trace(path, comm_names=comm_names))
            except TraceError as error:  # noqa: PERF203 - one bad file must not cost the others
                refused.append(error)
    if refused and not results:
        raise refused[0]
    for problem in refused:
        warnings.warn(problem.message, stacklevel=2)
    return tuple(results)


def _files(source: str | os.PathLike[str], refused: list[TraceError]) -> list[Path]:
    """The trace files a path names; what is wrong with a folder is added to refused."""
    try:
        return trace_files(source)
    except TraceError as error:
        refused.append(error)
        return []


def rank_findings(results: Sequence[TimelineResult]) -> tuple[RankFinding, ...]:
    """What several ranks of one job say together: who arrives last at collectives, whose totals stand out.

    results: from open_traces, a rank each. Nothing where their files do not say that they are ranks of one job.
    """
    return find_in_ranks([result.trace for result in results], results[0].comm_names if results else None)


def bench(body: Callable[[], object], **options: Any) -> BenchResult:
    """When does Python come back from body(), and when is the device done?

    body: called many times for real.  options: fields of perfmagic.capture.spec.BenchSpec.
    Source of the quantities: MEASURING, "Four quantities".
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
    perfmagic.capture.spec.BenchSpec.  Where an exception or an interrupt ends it, perfmagic.last() has the sweep of
    what was measured before.  Raises OptionError for fewer than two values.
    """
    if len(values) < 2:
        raise OptionError(f"sweep: {len(values)} value, at least two are needed")
    measured: list[BenchResult] = []
    try:
        for value in values:  # those before an exception are kept
            measured.append(_measure(partial(body, value), synced=synced, options=options))  # noqa: PERF401 - extend() promises less
    except BaseException:
        cut = last()  # of the value that was being measured
        if measured and isinstance(cut, BenchResult) and cut is not measured[-1] and cut.returns is not None:
            measured.append(cut)
        if measured:
            remember(sweep_result(name, values[: len(measured)], [[result] for result in measured]))
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
        description=result.name,
    )


def _measure(body: Callable[[], object], *, synced: bool, options: dict[str, Any]) -> BenchResult:
    engine = new_engine(BenchSpec(**options), synced=synced)
    try:
        run(engine.turns(), (body,))
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
    out, *done* where a device was in use, else *returns*.  options: fields of perfmagic.capture.spec.BenchSpec.
    Without time_s or samples it goes on for up to 10 s where the verdict is unclear. Where an exception or an interrupt
    ends it, perfmagic.last() has the comparison of what was measured before.
    Raises OptionError for a mixture, or fewer than two.  Source: MEASURING, "Comparing".
    """
    given = tuple(load_result(one) if isinstance(one, (str, os.PathLike)) else one for one in (first, *others))
    results = [one for one in given if isinstance(one, BenchResult)]
    sweeps = [one for one in given if isinstance(one, SweepResult)]
    bodies = [one for one in given if not isinstance(one, (BenchResult, SweepResult))]
    for one in bodies:
        if not callable(one):
            raise OptionError(f"compare: a {type(one).__name__} is neither a function nor a result of a benchmark")
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
        specs = [BenchSpec(**options | {"name": name}) for name in _distinct(called)]
        # who says how long or how often is obeyed, also where the verdict is then unclear
        decide_s = 0.0 if options.keys() & {"time_s", "samples"} else DECIDE_S
        records = measure_in_turns(bodies, specs, decide_s=decide_s, kept=_keep_partial)
        results = [summarise(record) for record in records]
    found = compared(results, quantity)
    remember(found)
    return found


def load_result(path: str | os.PathLike[str]) -> BenchResult | SweepResult:
    """A benchmark or a sweep that save() wrote. Raises OptionError for other files."""
    kind = SweepResult if format_of(text_of(path)) == SWEEP_FORMAT else BenchResult
    return kind.load(path)


def compared(results: Sequence[BenchResult], quantity: str | None = None) -> CompareResult:
    """Some benchmarks against the first of them."""
    return CompareResult(compare_results(*results, quantity=quantity), tuple(results))


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


def new_engine(spec: BenchSpec, *, synced: bool, told: Callable[[Callable[[], str]], None] | None = None) -> Engine:
    """The engine both faces of a benchmark use; a synced one ends with one recorded run, for the verdict.

    told: called before every sample with what says in words how far it has come.
    """
    return Engine(spec, synced=synced, profile=Recorder if synced else None, told=told)


def finish_bench(engine: Engine) -> BenchResult:
    """Close an engine and state what it measured, also where the body failed."""
    engine.close()
    record = engine.record()
    judged = verdict(record.trace) if record.trace is not None else None
    return summarise(record, judged)


class timeline:  # noqa: N801  a context manager that is used as a function, like torch.no_grad
    """When did Python queue what the devices execute? Records a block, or some steps of a loop.

        with perfmagic.timeline() as t:
            train_step()
        t.result.findings

        with perfmagic.timeline(wait=2, warmup=1, active=3, out="trace_{rank}.json.gz") as t:
            for batch in loader:
                train_step(batch)
                t.step()

    wait, warmup: steps that are not recorded.  active: steps to record; None for all of the block.
    out: where to save the trace; {rank} is replaced.  device: "auto", "cuda", "sim" or "cpu".
    memory: also what is allocated on the devices over time.
    In a notebook the result is shown at the end of the block; elsewhere it is in `.result`.
    """

    def __init__(
        self,
        *,
        wait: int = 0,
        warmup: int = 0,
        active: int | None = None,
        out: str | os.PathLike[str] | None = None,
        device: str = "auto",
        memory: bool = False,
    ) -> None:
        if wait < 0 or warmup < 0 or (active is not None and active < 1):
            raise OptionError(
                f"timeline(wait={wait}, warmup={warmup}, active={active}): steps are counted from 0, active from 1"
            )
        self._skip = wait + warmup
        self._active = active
        self._out = out
        self._recorder = Recorder(origin="block", device=device, memory=memory)
        self._steps = 0
        self._step_start_ns = 0
        self._recording = False
        self._result: TimelineResult | None = None

    @property
    def result(self) -> TimelineResult:
        """What was recorded. Raises CaptureError while the recording is not finished."""
        if self._result is None:
            raise CaptureError(
                f"nothing is recorded yet: {self._steps} steps have passed, {self._skip} are to be skipped first",
                hint="leave the with-block first, or call step() once a step",
            )
        return self._result

    def __enter__(self) -> timeline:
        if self._skip == 0:
            self._start()
        return self

    def step(self) -> None:
        """Say that one step of the loop has ended."""
        self._steps += 1
        if self._recording:
            now_ns = self._recorder.now_ns()
            self._recorder.step(f"ProfilerStep#{self._steps - 1}", self._step_start_ns, now_ns)
            self._step_start_ns = now_ns
            if self._active is not None and self._steps >= self._skip + self._active:
                self._stop("")
        elif self._steps == self._skip and self._result is None:
            self._start()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._recording and not self._recorder.forked():
            try:
                self._stop(describe(error))
            except PerfmagicError as problem:
                if error is None:
                    raise
                warnings.warn(str(problem), stacklevel=2)  # the user's own error goes on, and must be the one seen
        if self._result is not None:
            show(self._result)
        elif error is None:
            raise CaptureError(
                f"no step was recorded: the block ended after {self._steps} steps, {self._skip} were to be skipped",
                hint="call step() once a step, or lower wait and warmup",
            )

    def _start(self) -> None:
        self._recorder.start()
        self._recording = True
        self._step_start_ns = self._recorder.now_ns()

    def _stop(self, failed: str) -> None:
        self._recording = False
        result = TimelineResult(self._recorder.stop(failed), title="perfmagic timeline")
        remember(result)
        self._result = result
        if self._out is not None:
            rank = result.trace.meta.rank
            words = os.environ.get("RANK", "0") if rank is None else str(rank)  # torchrun sets RANK
            result.save(str(self._out).replace("{rank}", words))


def describe(error: BaseException | None) -> str:
    """An exception in one line, empty for None."""
    if error is None:
        return ""
    words = str(error).strip().splitlines()
    return f"{type(error).__name__}: {words[0]}" if words else type(error).__name__
