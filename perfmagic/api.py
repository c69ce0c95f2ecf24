"""The functions behind %%timeline and %trace: record a block, open saved traces."""

from __future__ import annotations

import os
import warnings
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from operator import index
from types import TracebackType
from typing import TYPE_CHECKING, Any

from perfmagic.analysis.rows import Rows
from perfmagic.capture.bench.block import Benchmark
from perfmagic.capture.devices.backends import device, devices, synchronize
from perfmagic.capture.devices.sim.pace import Pace
from perfmagic.capture.owner import BlockSignals
from perfmagic.capture.recording.interop import is_profiler, profiler_trace, trace_handler
from perfmagic.capture.recording.recorder import Recorder
from perfmagic.errors import CaptureError, OptionError, PerfmagicError, TraceError
from perfmagic.files import file_path
from perfmagic.keywords import documented
from perfmagic.results import MemoryResult, TimelineResult
from perfmagic.show import last, remember, show
from perfmagic.trace.formats.sources import FileRead, read_each, read_one
from perfmagic.trace.kineto.file import DEFAULT_LIMIT_BYTES
from perfmagic.trace.model import Trace
from perfmagic.trace.names import check_matches, checked_pattern

# one trace is opened without what several ranks need
if TYPE_CHECKING:
    from perfmagic.analysis.ranks.finding import RankFinding
    from perfmagic.results import Traces

__all__ = [
    "Benchmark",
    "Pace",
    "device",
    "devices",
    "last",
    "open_snapshot",
    "open_trace",
    "open_traces",
    "rank_findings",
    "synchronize",
    "timeline",
    "trace_handler",
]


@documented()
def open_trace(
    source: str | os.PathLike[str] | Any,
    *,
    comm_names: str | None = None,
    max_unpacked_bytes: int = DEFAULT_LIMIT_BYTES,
    storage_options: Mapping[str, Any] | None = None,
) -> TimelineResult:
    """The timeline of a saved trace, or of a finished profiler. Files are read without torch.

    source: a file (Kineto's Chrome JSON, gzipped or not, or .npz), a folder that holds one, a URL of either that fsspec
    opens (s3, gs, abfs, hf, http, …), or a finished torch.profiler.profile.
    comm_names: a regular expression; kernels whose name it matches count as communication. None: the default rule.
    One that matches no kernel raises OptionError with the names that are nearest.
    max_unpacked_bytes: larger files are refused, in bytes after unpacking; a gzip file of 2 MB can hold 2 GB.
    storage_options: of a URL, for fsspec, such as {"anon": True}.
    Raises TraceError where a file is no trace, or is damaged beyond repair; CaptureError for a profiler without result;
    OptionError for a URL without fsspec.

    >>> t = perfmagic.open_trace("step.json.gz")
    >>> t.verdict.kind
    'device-bound'
    >>> print(t.findings[0].sentence.split(". ")[0])
    device-bound: the device was busy 96 % of its extent
    """
    checked_pattern(comm_names)
    if is_profiler(source):
        trace, title = profiler_trace(source), "profiler"
    else:
        trace, title = read_one(source, max_unpacked_bytes, storage_options or {})
    check_matches(comm_names, [trace])
    return TimelineResult(trace, comm_names=comm_names, title=title)


def open_snapshot(source: str | os.PathLike[str]) -> MemoryResult:
    """The memory that a snapshot of CUDA's allocator tells of: torch.cuda.memory._dump_snapshot("snapshot.pickle").

    Of several devices the one with the highest peak; `.trace` has all. The file is read as plain data: a pickle that
    asks for code is refused. Raises TraceError for other files.

    >>> perfmagic.open_snapshot("snapshot.pickle").at_peak()  # doctest: +SKIP
    """
    from perfmagic.trace.formats.snapshot import read_snapshot

    return MemoryResult(read_snapshot(file_path(source)))


@documented()
def open_traces(
    *sources: str | os.PathLike[str],
    comm_names: str | None = None,
    max_unpacked_bytes: int = DEFAULT_LIMIT_BYTES,
    storage_options: Mapping[str, Any] | None = None,
) -> Traces:
    """The timelines of several saved traces: files, and folders with all trace files in them, ranks in order.

    The result is a tuple of them; `.ranks` has those of one job on one axis.

    comm_names, max_unpacked_bytes, storage_options: as in open_trace(). A file that cannot be read is left out with a
    warning of one line; where none can be read, the first TraceError is raised.

    >>> job = perfmagic.open_traces("runs")
    >>> len(job), [row.rank for row in job.ranks.table]
    (8, [0, 1, 2, 3, 4, 5, 6, 7])
    """
    results: list[TimelineResult] = []
    refused: list[TraceError] = []
    each = open_each(
        sources, comm_names=comm_names, max_unpacked_bytes=max_unpacked_bytes, storage_options=storage_options
    )
    for _, found in each:
        if isinstance(found, TraceError):
            refused.append(found)
        else:
            results.append(found)
    if refused and not results:
        raise refused[0]
    for problem in refused:
        warnings.warn(problem.message, stacklevel=3)  # the caller's line: documented() adds a frame
    from perfmagic.results import Traces

    return Traces(results)


def open_each(
    sources: Iterable[str | os.PathLike[str]],
    *,
    comm_names: str | None = None,
    max_unpacked_bytes: int = DEFAULT_LIMIT_BYTES,
    storage_options: Mapping[str, Any] | None = None,
) -> Iterator[tuple[FileRead, TimelineResult | TraceError]]:
    """Every file that some paths name, one by one, with its timeline or the reason why it cannot be read.

    After the last one, OptionError where comm_names matched no kernel of any of them.
    """
    checked_pattern(comm_names)
    opened: list[Trace] = []
    for read in read_each(sources, max_unpacked_bytes=max_unpacked_bytes, storage_options=storage_options):
        if read.trace is not None:
            opened += [read.trace] if comm_names is not None else []
            yield read, TimelineResult(read.trace, comm_names=comm_names, title=read.path.name)
        elif read.problem is not None:
            yield read, read.problem
    check_matches(comm_names, opened)


def rank_findings(results: Sequence[TimelineResult]) -> Rows[RankFinding]:
    """How do the ranks of one job differ: which is the straggler at collectives, whose totals are outliers?

    results: from open_traces(), one for each rank. Empty where the files do not name the ranks of one job.
    Raises OptionError where they are no timelines.

    >>> found = perfmagic.rank_findings(perfmagic.open_traces("runs"))
    >>> print(found[0].sentence.split(":")[0])
    the devices of all 8 ranks waited for Python
    """
    _check_timelines(results)
    from perfmagic.analysis.ranks.finding import RankFinding
    from perfmagic.analysis.ranks.findings import rank_findings as find_in_ranks

    found = find_in_ranks([result.trace for result in results], results[0].comm_names if results else None)
    return Rows(found, RankFinding)


def _check_timelines(given: object) -> None:
    """Raise OptionError for what are no timelines."""
    if isinstance(given, Sequence) and all(isinstance(one, TimelineResult) for one in given):
        return
    what = "one timeline alone" if isinstance(given, TimelineResult) else f"{given!r} ({type(given).__name__})"
    raise OptionError(
        f"rank_findings: timelines are needed, one for each rank, not {what}",
        hint="rank_findings(open_traces(FOLDER))",
    )


class timeline:  # noqa: N801  a context manager that is used as a function, like torch.no_grad
    """When did Python queue what the devices execute? Records a block, or some steps of a loop.

        with perfmagic.timeline() as t:
            train_step()
        t.result.findings

        with perfmagic.timeline(wait=2, warmup=1, active=3, out="trace_{rank}.json.gz") as t:
            for batch in loader:
                train_step(batch)
                t.step()

    wait, warmup (0): training steps that are not recorded.
    active (None): training steps to record after them; None records to the end of the block.
    out (None): the file to save the trace to; {rank} in its name is replaced by the rank.
    device ("auto"): what to record: "auto" for what is in use, "cuda", "sim" or "cpu".
    memory (False): also record what is allocated on the devices over time.
    shapes (False): also record shapes and types of operators' inputs, for FLOP/s and the roofline; on the simulated
    device alone there are none.
    lines (None): also follow the lines of functions; None does so on Python 3.12 and later, where it costs next to
    nothing.
    packages (()): installed packages whose functions are followed, too.
    In a notebook the result is shown at the end of the block; elsewhere it is in `.result`.
    Raises OptionError for numbers of steps that make no sense, CaptureError where nothing can be recorded.
    """

    @documented()
    def __init__(
        self,
        *,
        wait: int = 0,
        warmup: int = 0,
        active: int | None = None,
        out: str | os.PathLike[str] | None = None,
        device: str = "auto",
        memory: bool = False,
        shapes: bool = False,
        lines: bool | None = None,
        packages: Sequence[str] = (),
    ) -> None:
        self._skip = _steps("wait", wait, 0) + _steps("warmup", warmup, 0)
        self._active = None if active is None else _steps("active", active, 1)
        self._out = out
        self._recorder = Recorder(
            origin="block",
            device=device,
            memory=memory,
            shapes=shapes,
            lines=True if packages and lines is None else lines,
            packages=tuple(packages),
            keeps_interrupted=True,
        )
        self._signals = BlockSignals(leaving=timeline.__exit__.__code__, hearing=timeline._end.__code__)
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
                hint="leave the with-block first, or call step() at the end of each step",
            )
        return self._result

    def __enter__(self) -> timeline:
        try:
            self._signals.take()
            if self._skip == 0:
                self._start()
            return self
        except BaseException:  # an interrupt too: nobody leaves a block that was not entered
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
        if self._result is not None:
            show(self._result)
            self._recorder.raise_stopped(error)
        elif error is None:
            raise CaptureError(
                f"no step was recorded: the block ended after {self._steps} steps, {self._skip} were to be skipped",
                hint="call step() at the end of each step, or lower wait and warmup",
            )

    def _start(self) -> None:
        self._recorder.start()
        self._step_start_ns = self._recorder.now_ns()
        self._recording = True

    def _end(self, error: BaseException | None) -> None:
        """Stop where a recording is under way; an error of the block is the one that is seen."""
        self._signals.hear()
        if not self._recording or self._recorder.forked():
            return
        try:
            self._stop(describe(error))
        except PerfmagicError as problem:
            if error is None:
                raise
            warnings.warn(str(problem), stacklevel=3)  # the user's own error goes on, and must be the visible one

    def _give_back(self) -> None:
        try:
            self._recorder.give_back()
        finally:
            self._signals.give_back()

    def _stop(self, failed: str) -> None:
        self._recording = False
        result = TimelineResult(self._recorder.stop(failed), title="perfmagic timeline")
        remember(result)
        self._result = result
        if self._out is not None:
            rank = result.trace.meta.rank
            words = os.environ.get("RANK", "0") if rank is None else str(rank)  # torchrun sets RANK
            result.save(str(self._out).replace("{rank}", words))


def _steps(keyword: str, given: int, least: int) -> int:
    """A number of training steps as Python's own int. Raises OptionError for anything else."""
    with suppress(TypeError):
        if (steps := index(given)) >= least:
            return steps
    raise OptionError(
        f"timeline({keyword}={given!r}): a whole number of training steps is needed, {least} or more",
        hint=f"timeline({keyword}={least + 1})",
    )


def describe(error: BaseException | None) -> str:
    """An exception in one line, empty for None."""
    if error is None:
        return ""
    words = str(error).strip().splitlines()
    return f"{type(error).__name__}: {words[0]}" if words else type(error).__name__
