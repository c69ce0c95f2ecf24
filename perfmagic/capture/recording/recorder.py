"""Recording what a piece of code queued and what the devices executed, as one Trace.

CUDA, ROCm and the CPU are recorded by torch's profiler through its low-level entry (0.2 ms to open; torch.profiler
imports 823 inductor modules first); the simulated device keeps its own log. The profiler's result is read through the
same reader as saved files. So all that the reader knows about real GPU records holds for a live cell, too.
Never used for a benchmark number: a recorded cell is slower (docs/kineto.md: 0.3 to 0.6 µs an operator, 5 to 10
a launch).
"""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np

from perfmagic.base import units
from perfmagic.base.clock import is_repeatable, reader, unix_offset_ns, virtual_clock
from perfmagic.base.errors import CaptureError, DeviceError, OptionError
from perfmagic.base.imported import jax_if_imported, sim_loaded, torch_if_imported
from perfmagic.base.kinds import UNKNOWN_TIME
from perfmagic.base.language import phrase
from perfmagic.capture.cell import INNER_MARKS_LIMIT, MarkLog
from perfmagic.capture.devices.backends import AS_CUDA, active_backends, cuda_available
from perfmagic.capture.owner import Owner
from perfmagic.capture.recording.assembly import Limit, Recorded, assemble, is_rank
from perfmagic.capture.recording.holders import Holders, OptimizerSteps, holders
from perfmagic.capture.recording.host import thread_waits, waited_for_core_ns
from perfmagic.capture.watch.watch import LineWatch, by_default
from perfmagic.trace.columns import NONE, Int64, PathMarks, Remark, SeenOps
from perfmagic.trace.host_limits import describe_virtual_clock
from perfmagic.trace.kineto.reader import run_without_gc
from perfmagic.trace.model import Cell, Trace, make_trace
from perfmagic.trace.paths import Paths

if TYPE_CHECKING:
    from perfmagic.capture.recording.fetches import Fetches
    from perfmagic.capture.recording.jax_session import JaxSession
    from perfmagic.capture.recording.op_log import OpLog
    from perfmagic.capture.recording.session import Session
    from perfmagic.sim import BesideRecords, SimRecording, SimRecords, groups

DEVICE_KINDS = ("auto", "cuda", "sim", "cpu")


@dataclass
class Recorder:
    """One recording, from start() to stop().

    cell: the text, for line numbers.  origin: "cell" or "block".  device: which devices to record; "auto" takes those
    in use or possible here.  memory: also what is allocated on the devices, block by block where that is known.
    names: the notebook's variables: at the end they are asked who holds which block.
    shapes: also shapes and types of operators' inputs; a virtual clock always has them.
    lines: whether lines in functions are followed; None for where that costs next to nothing (Python 3.12 and later).
    needs: also which memory every operator reads and writes: seen(), after stop(). On the CPU alone torch's profiler
    then stays closed, and the trace has no operators of its own: it would note each twice, and cost as much again.
    packages: installed ones whose functions count as the user's.  label: what a file is called in front of people.
    ready: called when everything records, before time 0: several ranks begin together. It may give a note.
    clock_ns: unix time less perf_counter, where several processes of a machine have to agree on it; 0: taken at the
    start.
    rank: (rank, world size) of a job; None where torch.distributed knows at the end.
    late_error: what a device reported at the end, when all of the cell's lines had run.
    keeps_interrupted: an interrupt in the wait for the devices leaves what was recorded until then, and waits for
    raise_stopped(), which the owner of the result has to call then. Else it is raised, and the recording is lost.
    Both calls come from the same thread. The caller of start() calls stop() or give_back() in every case.
    """

    cell: Cell | None = None
    origin: str = "cell"
    device: str = "auto"
    memory: bool = False
    names: Mapping[str, Any] | None = None
    shapes: bool = False
    lines: bool | None = None
    needs: bool = False
    packages: tuple[str, ...] = ()
    label: Callable[[str], str] | None = None
    ready: Callable[[], Remark | None] | None = None
    clock_ns: int = 0
    rank: tuple[int, int] | None = None
    marks: MarkLog = field(default_factory=MarkLog)
    late_error: BaseException | None = None
    keeps_interrupted: bool = False
    _stopped: KeyboardInterrupt | None = None
    _owner: Owner = field(default_factory=Owner)
    _session: Session | None = None
    _jax: JaxSession | None = None
    _sim: SimRecording | None = None
    _host_log: groups.HostLog | None = None
    _fetches: Fetches | None = None
    _watch: LineWatch | None = None
    _op_log: OpLog | None = None
    _seen: SeenOps = field(default_factory=SeenOps)
    _optimizers: OptimizerSteps | None = None
    _notes: list[Remark] = field(default_factory=list)
    _start_ns: int = 0
    _offset_ns: int = 0
    _read_ns: Callable[[], int] = time.perf_counter_ns
    _waited_ns: int | None = None  # for a core before the recording, of a rank of a job
    _steps: list[tuple[str, int, int]] = field(default_factory=list)
    _beside: tuple[Trace, ...] = ()
    _pid: int = 0
    _had_sim: bool = False

    def start(self) -> None:
        """Begin to record. Raises CaptureError where another profiler is active, DeviceError for an absent device."""
        self._pid = os.getpid()
        self._check_device()
        torch = torch_if_imported()
        for backend in active_backends():
            backend.synchronize()  # what was queued before does not belong to this recording
        self._had_sim = sim_loaded()
        use_sim = self._had_sim and self.device in ("auto", "sim")
        alone = use_sim and (self.device == "sim" or not cuda_available() or virtual_clock() is not None)
        try:
            if torch is not None and hasattr(torch, "autograd") and not alone:
                self._open_session(torch)
                if not use_sim:  # else its log has them
                    self._open_host_log()
            if torch is None and (jax := jax_if_imported()) is not None:
                self._open_jax(jax)
            if use_sim:
                self._open_sim_log(torch)
            if self.memory and (use_sim or self._session is not None):
                self._open_optimizers(torch)
            if self.needs and torch is not None:
                self._open_op_log()
            if self.ready is not None:
                self._notes += filter(None, [self.ready()])
            self._open_watch()
        except BaseException:  # an interrupt too
            self.give_back()
            raise
        is_virtual = virtual_clock() is not None
        self._waited_ns = waited_for_core_ns() if (self.rank or is_rank()) and not is_virtual else None
        self._read_ns, self._offset_ns = reader(), (not is_virtual and self.clock_ns) or unix_offset_ns()
        self.marks.read_by(self._read_ns, thread_waits() if self._waited_ns is not None else None)
        self._start_ns = self.now_ns()

    def acquire(self) -> None:
        """start(), as the resource of an owner."""
        self.start()

    def give_back(self) -> None:
        """End the recording without a Trace; harmless after stop(), and when called again."""
        if not self.forked():
            self._owner.close()

    def now_ns(self) -> int:
        """Unix time that never steps: what the host's clock reads, plus one offset, both taken at the start."""
        return self._read_ns() + self._offset_ns

    def begin_steps(self) -> None:
        """Note that start-up is over: waits for a core count from now on."""
        self._waited_ns = None if self._waited_ns is None else waited_for_core_ns()

    def step(self, name: str, start_ns: int, end_ns: int) -> None:
        """Note a named stretch of host time (unix ns), as torch's ProfilerStep rows are."""
        self._steps.append((name, start_ns, end_ns))

    def forked(self) -> bool:
        """Whether this is a child process of the one that started the recording; it must not touch it."""
        return os.getpid() != self._pid

    def stop(self, failed: str = "", error: BaseException | None = None) -> Trace:
        """Wait for the devices, end the recording and give it as a Trace; failed: what ended the code, in words.

        error: the same as it was raised: its traceback may hold memory.

        The recording ends also where waiting for the devices fails or is interrupted.
        """
        returned_ns = self.now_ns()
        notes = [*self._notes]
        if self._watch is not None:
            self._watch.give_back()  # what waits and reads below is not the user's code
        try:
            for backend in (*active_backends(), *filter(None, [self._jax])):
                notes += self._synchronize(backend) if self._stopped is None else []
            end_ns = self.now_ns()
            if self._stopped is not None:
                stopped = phrase(
                    "KeyboardInterrupt after waiting {waited} for the devices: "
                    "what they had not finished may be missing",
                    waited=units.duration(end_ns - returned_ns),
                )
                notes += [Remark("interrupted_wait", stopped)] if failed else []
                failed = failed or stopped
            records = self._sim.read() if self._sim is not None else None
            if sim_loaded() and not self._had_sim:
                notes.append(Remark("sim_late", _SIM_LATE))
        finally:
            self.give_back()
        kineto = self._session.read() if self._session is not None else None
        if self._jax is not None:
            kineto = self._jax.read()
            notes += self._jax.remarks(kineto)
        elif jax_if_imported() is not None and kineto is None and records is None and self._op_log is None:
            notes.append(Remark("jax_not_recorded", _JAX_LATE if torch_if_imported() is None else _JAX_BESIDE))
        trace = assemble(
            Recorded(
                start_ns=self._start_ns,
                returned_ns=returned_ns,
                end_ns=end_ns,
                offset_ns=self._offset_ns,
                waited_for_core_ns=_less(waited_for_core_ns(), self._waited_ns),
                origin=self.origin,
                cell=self.cell,
                marks=self.marks,
                kineto=kineto,
                on_host=self._host_rows(),
                sim=records,
                steps=self._steps,
                memory=self.memory,
                failed=failed,
                notes=notes,
                limit=self._limit(records),
                rank=self.rank,
                watch=self._watch,
                holders=self._holders(error),
            )
        )
        others = () if records is None else records.beside
        self._beside = tuple(trace_beside(trace, each) for each in others)
        return trace

    def beside(self) -> tuple[Trace, ...]:
        """The same run on the GPUs that were kept beside the first; after stop()."""
        return self._beside

    def raise_stopped(self, error: BaseException | None) -> None:
        """Raise the interrupt that ended the wait for the devices, after stop().  error: of the code, which goes on."""
        if self._stopped is not None and error is None:
            raise self._stopped

    def seen(self) -> SeenOps:
        """What every operator read and wrote, in the time of the trace; after stop(). Without torch there are none."""
        if self._op_log is not None:
            self._seen = run_without_gc(partial(self._op_log.read, self._offset_ns - self._start_ns))
            self._op_log = None
        return self._seen

    def _open_session(self, torch: Any) -> None:
        from perfmagic.capture.recording.session import Session  # torch is there by now

        cuda = cuda_available() and self.device in ("auto", "cuda")
        if self.needs and not cuda:  # the log of operators says all that is asked
            return
        session = self._session = Session(torch, cuda=cuda, memory=self.memory, shapes=self.shapes)
        statements = units.count(INNER_MARKS_LIMIT)
        self.marks.when_full = lambda: session.end_early(
            f"a recording ends after {statements} statements inside loops; measure fewer rounds"
        )
        session.open(self._owner)

    def _open_jax(self, jax: Any) -> None:
        from perfmagic.capture.recording.jax_session import JaxSession

        self._jax = JaxSession(jax)
        self._jax.open(self._owner)

    def _open_host_log(self) -> None:
        """Where this process has a process group of ours."""
        sim = sys.modules.get("perfmagic.sim")
        if sim is not None:
            log: groups.HostLog = sim.groups.HostLog()
            self._owner.acquire(log)
            self._host_log = log

    def _host_rows(self) -> list[tuple[str, int, int, int, int]]:
        communicated = self._host_log.rows(self._offset_ns) if self._host_log is not None else []
        return communicated + (self._fetches.rows if self._fetches is not None else [])

    def _open_watch(self) -> None:
        """Last, and given back first: it shall see the user's code alone. Counted time is the same on each Python."""
        unasked = by_default() and not is_repeatable() and not AS_CUDA
        if not (unasked if self.lines is None else self.lines):
            return
        watch = LineWatch(self.packages, self.label)
        try:
            self._owner.acquire(watch)
            self._watch = watch
        except CaptureError as error:  # a debugger is at work: the rest can be recorded all the same
            self._notes.append(Remark("lines_not_followed", error.message))

    def _open_sim_log(self, torch: Any) -> None:
        from perfmagic.sim import SimRecording

        recording = SimRecording(memory=self.memory, inputs=self.shapes and self._session is None)
        self._owner.acquire(recording)
        self._sim = recording
        if self._session is None and torch is not None:
            from perfmagic.capture.recording.fetches import Fetches

            self._fetches = Fetches(torch, self.now_ns)
            self._owner.acquire(self._fetches)

    def _open_op_log(self) -> None:
        from perfmagic.capture.recording.op_log import OpLog  # torch is there by now

        log = OpLog()
        self._owner.acquire(log)
        self._op_log = log

    def _open_optimizers(self, torch: Any) -> None:
        self._optimizers = OptimizerSteps(torch)
        self._owner.acquire(self._optimizers)

    def _holders(self, error: BaseException | None) -> tuple[Holders, Holders]:
        """Who holds blocks of memory, as optimizers that stepped tell, and as names do."""
        torch = torch_if_imported()
        if self._optimizers is None or torch is None:
            return Holders(), Holders()
        return self._optimizers.holders, holders(torch, self.names or {}, error)

    def _synchronize(self, backend: Any) -> list[Remark]:
        """Wait for a device. An asynchronous error of it becomes a note, and the recording is kept."""
        try:
            backend.synchronize()
        except KeyboardInterrupt as stop:
            if not self.keeps_interrupted:
                raise
            self._stopped = stop
        except RuntimeError as error:
            self.late_error = error
            return [
                Remark(
                    "async_error",
                    phrase(
                        "an asynchronous error came up while waiting for {device}: {error}",
                        device=backend.kind,
                        error=error,
                    ),
                )
            ]
        return []

    def _check_device(self) -> None:
        if self.device not in DEVICE_KINDS:
            raise OptionError(f"device {self.device!r} is not known", hint="one of " + ", ".join(DEVICE_KINDS))
        if self.device == "cuda" and not cuda_available():
            raise DeviceError(
                "cuda was asked for, but torch sees no CUDA device here",
                hint="leave --device out, or import torch and use perfmagic.device() for a simulated one",
            )
        if virtual_clock() is not None and self.device in ("cuda", "cpu"):
            message = f"{self.device} has no virtual time, and this process keeps a virtual clock"
            raise DeviceError(message, hint='perfmagic.device(clock="real") first')
        if self.device == "sim" and not sim_loaded():
            message = "sim was asked for, but the simulated device is not loaded"
            raise DeviceError(message, hint='load it first: device = perfmagic.device("sim")')

    def _limit(self, sim: SimRecords | None) -> Limit | None:
        """What made the recording incomplete first; None where nothing did. Each part has a reason of its own."""
        limits = []
        if self._session is not None and self._session.ended_ns is not None:
            limits.append(Limit(self._session.ended_ns + self._offset_ns, "; ".join(self._session.notes)))
        if sim is not None and sim.full_ns is not None:
            reason = f"the simulated device's log holds {units.count(sim.limit_ops)} ops; measure fewer rounds"
            limits.append(Limit(sim.full_ns, reason))
        return min(limits, key=lambda limit: limit.at_ns, default=None)


_JAX_LATE = phrase("JAX was imported inside the cell and not recorded: run the cell again")
_JAX_BESIDE = phrase("JAX was not recorded: torch is imported, too, and was recorded instead")
_SIM_LATE = phrase("the simulated device was loaded inside the cell and not recorded: run the cell again")


def _less(now_ns: int | None, before_ns: int | None) -> int | None:
    """What was added since; None where one is not known. Threads that ended meanwhile take theirs with them."""
    return None if now_ns is None or before_ns is None else max(0, now_ns - before_ns)


# The trace of the same run on another GPU, of the first one's and of what the simulated device kept beside it.

_JOINED = ("launch", "line")  # columns that a trace works out itself


def trace_beside(trace: Trace, records: BesideRecords) -> Trace:
    """The run on another GPU: its ops at their times there, and the host later by what it waited more."""
    moved = _Moved(trace.meta.base_unix_ns, records)
    meta = trace.meta
    names, ops = _ops(trace, records, moved)
    first = meta.devices[0].pace
    pace = f"{first.partition(': ')[0]}: {records.model.words}"
    return make_trace(
        names,
        replace(
            meta,
            end_ns=moved.instant(meta.end_ns),
            returned_ns=None if meta.returned_ns is None else moved.instant(meta.returned_ns),
            devices=tuple(replace(info, pace=pace, predicted=records.model.predicted) for info in meta.devices),
            notes=tuple(_of_this_gpu(note, pace) for note in meta.notes),
        ),
        ops=ops,
        calls=moved.columns(trace.calls.to_dict()),
        host_ops=moved.columns(trace.host_ops.to_dict()),
        waits=moved.columns(trace.waits.to_dict()),
        host_waits=moved.columns(trace.host_waits.to_dict()),
        counters=moved.columns(trace.counters.to_dict()),
        marks=moved.columns(trace.marks.to_dict(), keeps_line=True),
        blocks=moved.columns(trace.blocks.to_dict()),
        cell=trace.cell,
        paths=None if trace.paths is None else moved.paths(trace.paths),
        shapes=trace.shapes,
        input_shapes=trace.input_shapes,
        input_dtypes=trace.input_dtypes,
        input_values=trace.input_values,
        collectives=trace.collectives,
    )


def _of_this_gpu(note: Remark, pace: str) -> Remark:
    return replace(note, words=describe_virtual_clock(pace)) if note.kind == "virtual_clock" else note


class _Moved:
    """Instants of the first host as those of the other one, both in ns since the record's start."""

    def __init__(self, base_ns: int, records: BesideRecords) -> None:
        self.base_ns = base_ns
        self._at_ns: Int64 = records.at_ns - base_ns
        self._lag_ns: Int64 = np.concatenate(([0], records.lag_ns))
        self.begin_ns = int(self._lag_ns[np.searchsorted(self._at_ns, 0)])  # how late it was when the record began

    def instants(self, at_ns: Int64) -> Int64:
        """A wait lasts until its instant, and what comes after it is later."""
        return np.asarray(at_ns + self._lag_ns[np.searchsorted(self._at_ns, at_ns)] - self.begin_ns)

    def instant(self, at_ns: int) -> int:
        return int(self.instants(np.array([at_ns]))[0])

    def columns(self, table: dict[str, Any], *, keeps_line: bool = False) -> dict[str, Any]:
        """The columns of a table of the host with its times moved, without those that are joined."""
        columns = {name: column for name, column in table.items() if keeps_line or name not in _JOINED}
        for name in ("start_ns", "end_ns", "at_ns", "alloc_ns", "free_ns", "forward_ns"):
            if name in columns:
                known = columns[name] != NONE
                columns[name] = np.where(known, self.instants(columns[name]), NONE)
        return columns

    def paths(self, paths: Paths) -> Paths:
        """Lines of functions, each at the time when that host ran it."""
        until_ns = NONE if paths.until_ns == NONE else self.instant(paths.until_ns)
        return replace(paths, marks=PathMarks.make(self.columns(paths.marks.to_dict())), until_ns=until_ns)


def _ops(trace: Trace, records: BesideRecords, moved: _Moved) -> tuple[tuple[str, ...], dict[str, Any]]:
    """The names and the columns of the device ops. What has no model there is of unknown time."""
    correlation, start_ns, end_ns, known = records.ops[np.argsort(records.ops[:, 0])].T
    row = np.searchsorted(correlation, trace.ops.correlation)
    columns = moved.columns(trace.ops.to_dict())
    columns["start_ns"] = start_ns[row] - moved.base_ns - moved.begin_ns
    columns["end_ns"] = end_ns[row] - moved.base_ns - moved.begin_ns
    keys = np.stack((trace.ops.name, known[row]), axis=1)
    used, columns["name"] = np.unique(keys, axis=0, return_inverse=True)
    columns["name"] = columns["name"].reshape(-1) + len(trace.names)
    plain = (trace.names[name].removesuffix(UNKNOWN_TIME) for name, _ in used.tolist())
    new = (name if is_known else name + UNKNOWN_TIME for name, (_, is_known) in zip(plain, used.tolist(), strict=True))
    return (*trace.names, *new), columns
