"""Recording what a piece of code queued and what the devices executed, as one Trace.

CUDA, ROCm and the CPU are recorded by torch's profiler through its low-level entry (0.2 ms to open; torch.profiler
imports 823 inductor modules first); the simulated device keeps its own log. The profiler's result is read through the
same reader as saved files, so that everything the reader knows of real GPU records holds for a live cell too.
Never used for a benchmark number: a recorded cell is slower (docs/kineto.md: 0.3 to 0.6 µs an operator, 5 to 10
a launch).
"""

from __future__ import annotations

import os
import time
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from perfmagic import units
from perfmagic.capture.cell.marks import INNER_MARKS_LIMIT, MarkLog
from perfmagic.capture.devices.backends import (
    SIM_INDEX_BASE,
    active_backends,
    cuda_available,
    sim_loaded,
    sim_name,
    torch_if_imported,
)
from perfmagic.errors import DeviceError, OptionError
from perfmagic.trace.columns import NONE, HostKind
from perfmagic.trace.model import Cell, DeviceInfo, Trace, TraceMeta, make_trace
from perfmagic.trace.remarks import Remark
from perfmagic.trace.window import window

if TYPE_CHECKING:
    from perfmagic.capture.recording.session import Session

MOST_RACES = 10_000  # one line that forgets to wait, in a loop: more would say the same
DEVICE_KINDS = ("auto", "cuda", "sim", "cpu")


@dataclass
class Recorder:
    """One recording, from start() to stop().

    cell: the text, for line numbers.  origin: "cell" or "block".  device: which devices to record; "auto" takes those
    in use or possible here.  memory: also what is allocated on the devices.  Both calls come from the same thread.
    """

    cell: Cell | None = None
    origin: str = "cell"
    device: str = "auto"
    memory: bool = False
    marks: MarkLog = field(default_factory=MarkLog)
    _session: Session | None = None
    _sim_from: Any = None
    _start_ns: int = 0
    _offset_ns: int = 0
    _steps: list[tuple[str, int, int]] = field(default_factory=list)
    _pid: int = 0

    def start(self) -> None:
        """Begin to record. Raises CaptureError where another profiler is active, DeviceError for an absent device."""
        self._pid = os.getpid()
        self._check_device()
        torch = torch_if_imported()
        for backend in active_backends():
            backend.synchronize()  # what was queued before does not belong to this recording
        use_sim = sim_loaded() and self.device in ("auto", "sim")
        alone = use_sim and (self.device == "sim" or not cuda_available())
        if torch is not None and hasattr(torch, "autograd") and not alone:
            self._session = self._open_session(torch)
        if use_sim:
            self._sim_from = _sim_log_start(self.memory)
        self._offset_ns = time.time_ns() - time.perf_counter_ns()
        self._start_ns = self.now_ns()

    def now_ns(self) -> int:
        """Unix time that never steps: perf_counter plus one offset, taken at the start."""
        return time.perf_counter_ns() + self._offset_ns

    def step(self, name: str, start_ns: int, end_ns: int) -> None:
        """Note a named stretch of host time (unix ns), as torch's ProfilerStep rows are."""
        self._steps.append((name, start_ns, end_ns))

    def forked(self) -> bool:
        """Whether this is a child process of the one that started the recording; it must not touch it."""
        return os.getpid() != self._pid

    def stop(self, failed: str = "") -> Trace:
        """Wait for the devices, end the recording and give it as a Trace; failed: what ended the code, in words.

        The profiler is ended whatever happens while waiting.
        """
        returned_ns = self.now_ns()
        notes: list[Remark] = []
        try:
            for backend in active_backends():
                notes += _synchronize(backend)
        finally:
            end_ns = self.now_ns()
            kineto = self._session.close() if self._session is not None else None
            sim = _sim_log_stop(self._sim_from) if self._sim_from is not None else None
        return self._trace(kineto, sim, returned_ns, end_ns, failed, notes)

    def _open_session(self, torch: Any) -> Session:
        from perfmagic.capture.recording.session import Session  # torch is there by now

        session = Session(torch, cuda=cuda_available() and self.device in ("auto", "cuda"), memory=self.memory)
        statements = units.count(INNER_MARKS_LIMIT)
        self.marks.when_full = lambda: session.end_early(
            f"a recording ends after {statements} statements inside loops; measure fewer rounds"
        )
        return session

    def _check_device(self) -> None:
        if self.device not in DEVICE_KINDS:
            raise OptionError(f"device {self.device!r} is not known", hint="one of " + ", ".join(DEVICE_KINDS))
        if self.device == "cuda" and not cuda_available():
            raise DeviceError(
                "cuda was asked for, but torch sees no CUDA device here",
                hint="leave --device out, or import torch and use perfmagic.device() for a simulated one",
            )
        if self.device == "sim" and not sim_loaded():
            raise DeviceError(
                "sim was asked for, but the simulated device is not loaded",
                hint='load it first: device = perfmagic.device("sim")',
            )

    def _trace(
        self, kineto: Trace | None, sim: Any, returned_ns: int, end_ns: int, failed: str, notes: list[Remark]
    ) -> Trace:
        base = self._start_ns
        parts = _Parts(base)
        if kineto is not None:
            parts.add_trace(kineto)
        if sim is not None:
            parts.add_sim(sim, first_device=SIM_INDEX_BASE if parts.devices else 0, host_ops=kineto is None)
        parts.add_steps(self._steps)
        limit_ns = self._limit_ns(sim)
        if limit_ns is not None and limit_ns < end_ns:
            until, whole = units.duration(limit_ns - base), units.duration(returned_ns - base)
            words = f"recorded until {until} of the cell's {whole}: {self._limit_reason()}"
            notes.append(Remark("ended_early", words, {"recorded_ns": limit_ns - base, "cell_ns": returned_ns - base}))
        elif self.marks.inner_dropped:
            words = "lines inside loops are told apart in the first marks only; later work counts to the loop"
            notes.append(Remark("inner_lines_dropped", words))
        notes += _no_ops_note(parts, sim)
        if self.memory and not len(parts.tables.get("counters", {}).get("at_ns", ())):
            words = "no device reported what it allocates: memory is recorded of CUDA and of the simulated device"
            notes.append(Remark("no_memory_record", words))
        meta = TraceMeta(
            origin=self.origin,
            base_unix_ns=base,
            start_ns=0,
            end_ns=end_ns - base,
            returned_ns=returned_ns - base,
            devices=tuple(parts.devices),
            torch_version=str(getattr(torch_if_imported(), "__version__", "")),
            failed=failed,
            dropped_events=parts.dropped,
            races=parts.races,
            notes=tuple(notes),
            **_rank(),
        )
        marks = self.marks.columns(self._offset_ns - base, returned_ns - base)
        tables: dict[str, Any] = parts.tables
        trace = make_trace(parts.names, meta, marks=marks, cell=self.cell, **tables)
        trace = replace(trace, **parts.details)
        return trace if limit_ns is None else _until(trace, limit_ns - base)

    def _limit_reason(self) -> str:
        from perfmagic.capture.devices.sim.log import LIMIT_OPS

        notes = self._session.notes if self._session is not None else []
        return "; ".join(notes) or f"the limit is {units.count(LIMIT_OPS)} device ops; measure fewer rounds"

    def _limit_ns(self, sim: Any) -> int | None:
        """When the recording became incomplete, in unix ns; None where it did not."""
        session_ns = self._session.ended_ns if self._session is not None else None
        ends = [] if session_ns is None else [session_ns + self._offset_ns]
        ends += [sim.full_ns] if sim is not None and sim.full_ns is not None else []
        return min(ends, default=None)


class _Parts:
    """Columns from several sources, shifted to one time base and one name table."""

    def __init__(self, base_ns: int) -> None:
        self.base_ns = base_ns
        self.names: list[str] = []
        self.devices: list[DeviceInfo] = []
        self.dropped = 0
        self.races: tuple[tuple[int, int], ...] = ()
        self.tables: dict[str, dict[str, Any]] = {}
        # of Kineto, which is the first and only one to have any
        self.details: dict[str, Any] = {}

    def add_trace(self, trace: Trace) -> None:
        shift = trace.meta.base_unix_ns - self.base_ns
        ops = {k: v for k, v in trace.ops.to_dict().items() if k not in ("launch", "line")}
        tables = {"ops": ops, "waits": trace.waits.to_dict(), "counters": trace.counters.to_dict()}
        for key, table in (("calls", trace.calls), ("host_ops", trace.whole_host())):
            tables[key] = {k: v for k, v in table.to_dict().items() if k != "line"}
        self._add(tables, trace.names, shift, 0)
        self.details = {key: getattr(trace, key) for key in ("shapes", "input_shapes", "collectives")}
        self.devices += [d for d in trace.meta.devices if d.kind != "unknown" or d.index in trace.device_ids]
        self.dropped += trace.meta.dropped_events

    def add_sim(self, records: Any, first_device: int, *, host_ops: bool) -> None:
        """host_ops: False where torch's profiler recorded the same operators."""
        kept = ("ops", "calls", "waits", "counters", *(("host_ops",) if host_ops else ()))
        tables = {k: dict(getattr(records, k)) for k in kept}
        self._add(tables, tuple(records.names), -self.base_ns, first_device)
        from perfmagic.capture.devices import sim

        used = sorted({int(d) for d in np.unique(tables["ops"].get("device", np.zeros(0)))}) or [0]
        self.devices += [DeviceInfo(first_device + d, "sim", sim_name(d, used), sim.pace_words()) for d in used]
        self.dropped += records.dropped
        self.races = tuple(records.races[:MOST_RACES])

    def add_steps(self, steps: list[tuple[str, int, int]]) -> None:
        if not steps:
            return
        columns = {
            "start_ns": [start for _, start, _ in steps],
            "end_ns": [end for _, _, end in steps],
            "kind": [HostKind.ANNOTATION] * len(steps),
            "name": list(range(len(steps))),
            "thread": [0] * len(steps),
        }
        self._add({"host_ops": columns}, tuple(name for name, _, _ in steps), -self.base_ns, 0)

    def _add(self, tables: Mapping[str, dict[str, Any]], names: tuple[str, ...], shift: int, device: int) -> None:
        first_name = len(self.names)
        self.names += names
        for key, columns in tables.items():
            moved = {k: self._moved(k, np.asarray(v), shift, first_name, device) for k, v in columns.items()}
            old = self.tables.get(key)
            if old is not None and set(old) == set(moved):
                moved = {k: np.concatenate((old[k], v)) for k, v in moved.items()}
            elif old is not None:
                moved = _concatenate_unlike(old, moved)
            self.tables[key] = moved

    def _moved(self, column: str, values: Any, shift: int, first_name: int, device: int) -> Any:
        if column in ("start_ns", "end_ns", "at_ns"):
            return values.astype(np.int64) + shift
        if column in ("name", "series"):
            return values.astype(np.int32) + first_name
        return values + device if column in ("device", "on_device") else values


def _until(trace: Trace, end_ns: int) -> Trace:
    """The part that is complete: time without records must not look like an idle device."""
    if end_ns >= trace.meta.end_ns:
        return trace
    cut = window(trace, trace.meta.start_ns, max(end_ns, trace.meta.start_ns + 1))
    returned_ns = min(trace.meta.returned_ns or end_ns, cut.meta.end_ns)
    return replace(cut, meta=replace(cut.meta, returned_ns=returned_ns))


def _concatenate_unlike(old: dict[str, Any], new: dict[str, Any]) -> dict[str, Any]:
    """Rows of two column sets; a column one of them lacks is filled with its default."""
    n_old, n_new = len(next(iter(old.values()))), len(next(iter(new.values())))
    optional = ("correlation", "size_bytes", "shape", "collective", "sequence", "on_device")
    defaults = dict.fromkeys(optional, NONE)
    out = {}
    for key in {**old, **new}:
        a = old.get(key, np.full(n_old, defaults.get(key, 0)))
        b = new.get(key, np.full(n_new, defaults.get(key, 0)))
        out[key] = np.concatenate((a, b))
    return out


def _sim_log_start(memory: bool) -> Any:
    from perfmagic.capture.devices import sim

    log = sim.log()
    log.start(memory=memory)
    return log.mark()


def _sim_log_stop(mark: Any) -> Any:
    from perfmagic.capture.devices import sim

    log = sim.log()
    try:
        return log.since(mark)
    finally:
        log.stop()


def _synchronize(backend: Any) -> list[Remark]:
    """Wait for a device; an error it kept back is told, not lost and not in the way of the recording."""
    try:
        backend.synchronize()
    except RuntimeError as error:
        return [Remark("async_error", f"an asynchronous error came up while waiting for {backend.kind}: {error}")]
    return []


def _no_ops_note(parts: _Parts, sim: Any) -> list[Remark]:
    n_ops, n_host_ops = (len(parts.tables.get(key, {}).get("start_ns", ())) for key in ("ops", "host_ops"))
    if n_host_ops and not n_ops and any(b.kind in ("cuda", "rocm") for b in active_backends()):
        words = "CUDA is in use and the profiler gave no device record: nothing ran there, or CUPTI is not at hand"
        return [Remark("no_device_record", words)]
    if n_ops or n_host_ops:
        return []
    if sim is not None:
        words = "nothing ran on the simulated device; --device cpu records what the host did"
        return [Remark("no_device_ops", words)]
    if torch_if_imported() is None:
        return [Remark("no_torch", "torch is not imported: only lines of the cell were recorded")]
    return []


def _rank() -> dict[str, Any]:
    torch = torch_if_imported()
    distributed = getattr(torch, "distributed", None)
    if distributed is None or not distributed.is_available() or not distributed.is_initialized():
        return {}
    return {"rank": distributed.get_rank(), "world_size": distributed.get_world_size()}
