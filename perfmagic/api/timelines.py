"""The functions behind %%timeline and %%graph: record a block; ask one rule of the findings, or several ranks."""

from __future__ import annotations

import functools
import inspect
import os
import warnings
from collections.abc import Callable, Sequence
from contextlib import nullcontext, suppress
from functools import partial
from operator import index
from types import TracebackType
from typing import TYPE_CHECKING, Any, TypeVar, cast, overload

from perfmagic.analysis.findings.find import Explanation, Explanations, check_rule, explain_all
from perfmagic.analysis.findings.find import explain as explain_rule
from perfmagic.api.opening import open_trace
from perfmagic.api.options import DeviceOptions, TimelineOptions, keywords
from perfmagic.api.show import last, remember, show
from perfmagic.base.errors import CaptureError, OptionError, PerfmagicError
from perfmagic.capture.bench.block import Benchmark
from perfmagic.capture.devices.backends import device, devices, require_torch, synchronize
from perfmagic.capture.owner import BlockSignals, Owner
from perfmagic.capture.recording.interop import trace_handler
from perfmagic.capture.recording.on_gpus import OnGpus, check_options, models_named
from perfmagic.capture.recording.recorder import Recorder
from perfmagic.capture.recording.training import line_up
from perfmagic.capture.unawaited import refuse_async, refuse_unawaited
from perfmagic.results import TimelineResult
from perfmagic.results.graph import GraphResult
from perfmagic.sim import Pace
from perfmagic.trace.model import Trace
from perfmagic.trace.names import check_matches, checked_pattern
from perfmagic.trace.rows import Rows

if TYPE_CHECKING:
    from typing_extensions import Unpack

    from perfmagic.analysis.ranks.finding import RankFinding
    from perfmagic.results.on_gpus import OnGpusResult

F = TypeVar("F", bound="Callable[..., Any]")

__all__ = [
    "Benchmark", "Pace", "device", "devices", "explain", "last", "rank_findings", "synchronize", "timeline",
    "trace_handler",
]  # fmt: skip


def rank_findings(results: Sequence[TimelineResult]) -> Rows[RankFinding]:
    """How do the ranks of one job differ: which is the straggler at collectives, whose totals are outliers?

    results: from open_traces(), one for each rank. Empty where the files do not name the ranks of one job.
    Raises OptionError where they are no timelines.

    >>> findings = perfmagic.rank_findings(perfmagic.open_traces("runs"))
    >>> print(findings[0].sentence.split(":")[0])
    the devices of all 8 ranks waited for Python
    """
    _check_timelines(results)
    from perfmagic.analysis.ranks.finding import RankFinding
    from perfmagic.analysis.ranks.findings import rank_findings as find_in_ranks

    findings = find_in_ranks([result.trace for result in results], results[0].comm_names if results else None)
    return Rows(findings, RankFinding)


def _check_timelines(given: object) -> None:
    """Raise OptionError for anything but timelines."""
    if isinstance(given, Sequence) and all(isinstance(result, TimelineResult) for result in given):
        return
    what = "one timeline alone" if isinstance(given, TimelineResult) else f"{given!r} ({type(given).__name__})"
    message = f"rank_findings: timelines are needed, one for each rank, not {what}"
    raise OptionError(message, hint="rank_findings(open_traces(FOLDER))")


class timeline:  # noqa: N801  a context manager that is used as a function, like torch.no_grad
    """When did Python queue what the devices execute? Records a block, or some steps of a loop.

        with perfmagic.timeline() as t:
            train_step()
        t.result.findings

        with perfmagic.timeline(wait=2, warmup=1, active=3, out="trace_{rank}.json.gz") as t:
            for batch in loader:
                train_step(batch)
                t.step()

    Where a with-block does not fit, start() and stop() are its two ends. `@perfmagic.timeline()` records each call of a
    function, an asynchronous one too, and perfmagic.last() has the record of the last call.

    In a notebook the result is shown at the end of the block; elsewhere it is in `.result`.
    Raises OptionError for numbers of steps that make no sense, CaptureError where nothing can be recorded.
    """

    @keywords(TimelineOptions)
    def __init__(self, *function: object, **options: Unpack[TimelineOptions]) -> None:
        if function:
            raise OptionError(
                f"timeline: a function ({function[0]!r}) is no option, and what is recorded is a block or each call",
                hint="with perfmagic.timeline() as t: step(); or @perfmagic.timeline() above the function",
            )
        on = models_named(options["on"])
        check_options(on, options["device"], options["item"])
        self._on = OnGpus(on, options["item"]) if on else None
        self._owner = Owner()
        self._again = partial(timeline, **options)
        self._skip = _steps("wait", options["wait"], 0) + _steps("warmup", options["warmup"], 0)
        self._active = None if options["active"] is None else _steps("active", options["active"], 1)
        self._out = options["out"]
        self._recorder = Recorder(
            origin="block",
            device=options["device"],
            memory=options["memory"],
            shapes=options["shapes"],
            lines=True if options["packages"] and options["lines"] is None else options["lines"],
            packages=tuple(options["packages"]),
            ready=line_up if self._skip else None,
            keeps_interrupted=True,
        )
        self._signals = BlockSignals(leaving=timeline.__exit__.__code__, hearing=timeline._end.__code__)
        self._steps = 0
        self._step_start_ns = 0
        self._recording = False
        self._result: TimelineResult | OnGpusResult | None = None

    @property
    def result(self) -> TimelineResult | OnGpusResult:
        """What was recorded. Raises CaptureError while the recording is not finished."""
        if self._result is None:
            message = f"nothing is recorded yet: {self._steps} steps have passed, {self._skip} are to be skipped first"
            raise CaptureError(message, hint="leave the with-block first, or call step() at the end of each step")
        return self._result

    def start(self) -> timeline:
        """Begin to record, as entering a with-block does: for code that ends elsewhere. stop() has to follow."""
        self._go_there()
        if self._skip == 0:
            self._start()
        return self

    def stop(self) -> TimelineResult | OnGpusResult:
        """End what start() began, show the result in a notebook, and return it.

        Raises CaptureError where nothing was recorded.
        """
        try:
            self._end(None)
        finally:
            self._give_back()
        self._present(None)
        return self.result

    def __call__(self, function: F) -> F:
        """The function with each of its calls recorded. Raises OptionError for steps, and for generators."""
        given: object = function
        if not callable(given) or self._skip or self._active is not None:
            raise OptionError(
                "timeline as a decorator needs a function, and has no wait, warmup or active: nothing calls step()",
                hint="@perfmagic.timeline() above the function",
            )
        if inspect.isgeneratorfunction(function) or inspect.isasyncgenfunction(function):
            message = f"timeline: {function.__qualname__}() is a generator, and its call runs none of its code"
            raise OptionError(message, hint="record the loop over it: with perfmagic.timeline() as t: …")
        return cast("F", _recorded_calls(function, self._again))

    def __enter__(self) -> timeline:
        try:
            self._signals.acquire()
            self._go_there()
            if self._skip == 0:
                self._start()
            return self
        except BaseException:  # an interrupt too: a block that was not entered is never left
            self._give_back()
            raise

    def step(self) -> None:
        """Mark the end of one training step."""
        self._steps += 1
        if self._recording:
            now_ns = self._recorder.now_ns()
            self._recorder.step(f"ProfilerStep#{self._steps - 1}", self._step_start_ns, now_ns)
            self._step_start_ns = now_ns
            if self._active is not None and self._steps >= self._skip + self._active:
                self._stop("")
                self._recorder.raise_stopped(None)
        elif self._steps == self._skip and self._result is None:
            self._start()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        try:
            self._end(error)
        finally:
            self._give_back()  # also after an interrupt anywhere above
        self._present(error)

    def _present(self, error: BaseException | None) -> None:
        """Show what was recorded; raises CaptureError where nothing was."""
        if self._result is not None:
            show(self._result)
            self._recorder.raise_stopped(error)
        elif error is None:
            raise CaptureError(
                f"no step was recorded: the block ended after {self._steps} steps, {self._skip} were to be skipped",
                hint="call step() at the end of each step, or lower wait and warmup",
            )

    def _go_there(self) -> None:
        if self._on is not None:
            synchronize()  # here, as acquiring cannot be interrupted
            self._owner.acquire(self._on)

    def _start(self) -> None:
        self._recorder.start()
        self._step_start_ns = self._recorder.now_ns()
        self._recording = True

    def _end(self, error: BaseException | None) -> None:
        """Stop a recording that runs. The block's own error takes precedence over errors of the recording."""
        self._signals.hear()
        if not self._recording or self._recorder.forked():
            return
        try:
            self._stop(describe(error))
        except PerfmagicError as problem:
            if error is None:
                raise
            warnings.warn(str(problem), stacklevel=3)  # the user's own error is raised, and must stay visible

    def _give_back(self) -> None:
        try:
            self._recorder.give_back()
        finally:
            try:
                self._owner.close()
            finally:
                self._signals.give_back()

    def _stop(self, failed: str) -> None:
        self._recording = False
        result = recorded(self._recorder, self._on, failed, title="perfmagic timeline")
        remember(result)
        self._result = result
        if self._out is not None:
            rank = result.trace.meta.rank if isinstance(result, TimelineResult) else None
            number = os.environ.get("RANK", "0") if rank is None else str(rank)  # torchrun sets RANK
            result.save(str(self._out).replace("{rank}", number))


def recorded(
    recorder: Recorder,
    on: OnGpus | None,
    failed: str,
    comm_names: str | None = None,
    *,
    title: str = "",
    noted: Callable[[Trace], Trace] = lambda trace: trace,
) -> TimelineResult | OnGpusResult:
    """What a recording gives: the timeline, or those of each of several GPUs it was predicted for.

    failed: what ended the code, in words.  noted: gives the first trace another note.
    """
    with nullcontext() if on is None else on.hidden():
        traces = (noted(recorder.stop(failed)), *recorder.beside())
    timelines = [TimelineResult(trace, comm_names, title) for trace in traces]
    if on is None or len(on.models) == 1:
        return timelines[0]
    from perfmagic.results.on_gpus import OnGpusResult

    return OnGpusResult(tuple(timelines), on.models, on.peak_bytes())


timeline.__doc__ = f"{inspect.cleandoc(timeline.__doc__ or '')}\n\n{(timeline.__init__.__doc__ or '').strip()}"


def _recorded_calls(function: Callable[..., Any], block: Callable[[], timeline]) -> Callable[..., Any]:
    """The function, each call in a block of its own."""
    if inspect.iscoroutinefunction(function):

        @functools.wraps(function)
        async def awaited(*args: Any, **keywords: Any) -> Any:
            with block():
                return await function(*args, **keywords)

        return awaited

    @functools.wraps(function)
    def called(*args: Any, **keywords: Any) -> Any:
        with block():
            return function(*args, **keywords)

    return called


def _steps(keyword: str, given: int, least: int) -> int:
    """A number of training steps as Python's own int. Raises OptionError for anything else."""
    with suppress(TypeError):
        if (steps := index(given)) >= least:
            return steps
    message = f"timeline({keyword}={given!r}): a whole number of training steps is needed, {least} or more"
    raise OptionError(message, hint=f"timeline({keyword}={least + 1})")


def describe(error: BaseException | None) -> str:
    """An exception in one line, empty for None."""
    if error is None:
        return ""
    lines = str(error).strip().splitlines()
    return f"{type(error).__name__}: {lines[0]}" if lines else type(error).__name__


# %%graph as a function: which operator needs which, and what could have run side by side?


@keywords(DeviceOptions)
def graph(body: Callable[[], object], **options: Unpack[DeviceOptions]) -> GraphResult:
    """Which operator of body() needs the data of which, what could have run side by side, and what did?

    body: called once. Where an exception or an interrupt ends it, perfmagic.last() has what ran before.
    Raises CaptureError where nothing can be recorded, DeviceError for an absent device, TorchMissingError
    without torch.

    >>> import torch
    >>> graph = perfmagic.graph(lambda: torch.ones(2) * torch.ones(2) + 2)
    >>> [(edge.needs_name, edge.of_name) for edge in graph.edges()]
    [('ones', 'mul'), ('ones', 'mul'), ('mul', 'add')]
    """
    refuse_async("graph", body)
    require_torch("graph")
    recorder = Recorder(
        origin="block",
        device=options["device"],
        lines=True,
        packages=tuple(options["packages"]),
        needs=True,
        keeps_interrupted=True,
    )
    owner = Owner()
    with owner, owner:
        owner.acquire(recorder)
        try:
            refuse_unawaited("graph", body())
        except BaseException as error:
            if not recorder.forked():
                _result(recorder, error)
            raise
        return _result(recorder, None)


def _result(recorder: Recorder, error: BaseException | None) -> GraphResult:
    trace = recorder.stop(describe(error), error)
    result = GraphResult(trace, recorder.seen())
    remember(result)
    recorder.raise_stopped(error)
    return result


@overload
def explain(
    source: TimelineResult | Trace | str | os.PathLike[str], rule: str, *, comm_names: str | None = None
) -> Explanation: ...


@overload
def explain(
    source: TimelineResult | Trace | str | os.PathLike[str], rule: None = None, *, comm_names: str | None = None
) -> Explanations: ...


def explain(
    source: TimelineResult | Trace | str | os.PathLike[str], rule: str | None = None, *, comm_names: str | None = None
) -> Explanation | Explanations:
    """Why does a timeline have a finding, or not have it? Asks one rule alone, or all of them.

    source: a timeline, its `.trace`, or a file or folder as in open_trace().
    rule: a name of docs/findings.md, such as "pageable". None: all of them, a line for each.
    comm_names: as in open_trace(); None takes what the timeline was opened with.
    A rule that is silent gives the reason, with the numbers that it compared. The gains of findings are not predicted
    here: `t.findings` has them. Raises OptionError where there is no such rule, TraceError for anything but a trace.

    >>> t = perfmagic.open_trace("step.json.gz")
    >>> perfmagic.explain(t, "graph_launch")
    graph_launch: silent
      the largest graph ran 502 of 3,521 device ops, not more than 50 %
    docs/findings.md#graph_launch
    >>> perfmagic.explain(t, "queue_full").finding.cost_ns
    0
    """
    if rule is not None:
        check_rule(rule)
    checked_pattern(comm_names)
    trace, names = _trace_of(source, comm_names)
    return explain_all(trace, names) if rule is None else explain_rule(trace, rule, names)


def _trace_of(source: object, comm_names: str | None) -> tuple[Trace, str | None]:
    """The trace, and the expression for names of communication."""
    if isinstance(source, (str, os.PathLike)):
        return open_trace(source, comm_names=comm_names).trace, comm_names
    if isinstance(source, Trace):
        trace, names = source, comm_names
    elif isinstance(source, TimelineResult):
        trace, names = source.trace, comm_names or source.comm_names
    else:
        what = f"{source!r} ({type(source).__name__})"
        raise OptionError(f"explain: a timeline, a trace or a file is needed, not {what}", hint="explain(t)")
    check_matches(comm_names, [trace])
    return trace, names
