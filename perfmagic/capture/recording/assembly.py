"""One Trace from the parts of a recording: torch's profiler, the simulated device's log, marks and steps."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from perfmagic.base import units
from perfmagic.base.clock import is_repeatable, virtual_clock
from perfmagic.base.imported import torch_if_imported
from perfmagic.base.language import phrase
from perfmagic.capture.cell import MarkLog
from perfmagic.capture.devices.backends import SIM_INDEX_BASE, active_backends, sim_name
from perfmagic.capture.recording.holders import Holder, Holders, held_blocks, most_telling
from perfmagic.capture.recording.host import cores, host_clock
from perfmagic.capture.watch.watch import LineWatch
from perfmagic.trace.columns import HOST_DEVICE, NONE, WHOLE_BUFFER, BlockRole, Blocks, HostKind, Remark, forward_rows
from perfmagic.trace.host_limits import clock_remarks, given_remarks, pace_remarks, paced, said_of, shared_cores
from perfmagic.trace.model import Cell, Collective, DeviceInfo, Race, Trace, TraceMeta, make_trace
from perfmagic.trace.paths import Paths
from perfmagic.trace.window import window

if TYPE_CHECKING:
    from perfmagic.sim import SimRecords

DETAILS = ("shapes", "input_shapes", "input_dtypes", "input_values", "collectives")
MOST_RACES = 10_000  # one line that forgets to wait, in a loop: more would say the same


@dataclass(frozen=True)
class Limit:
    """When a recording became incomplete, in unix ns, and why, in words that name what was full or had ended."""

    at_ns: int
    reason: str


@dataclass(frozen=True)
class Recorded:
    """All parts of a recording; times are unix ns.

    offset_ns: from perf_counter to unix time.  kineto, sim: None where that source did not record.
    on_host: operations on host tensors and fetches of batches, name, start, end, thread and bytes of each.
    steps: name, start and end of named stretches.  memory: whether it was asked for.  failed: what ended the code.
    notes: what came up while waiting for the devices.
    limit: what made the recording incomplete, None where nothing did.
    waited_for_core_ns: how long the threads of a rank waited for a core; None where that is not known.
    rank: (rank, world size); None where torch.distributed is asked.
    watch: what followed the lines of functions; None where nothing did.
    holders: who holds blocks of memory, as optimizers that stepped tell, and as names do.
    """

    start_ns: int
    returned_ns: int
    end_ns: int
    offset_ns: int
    origin: str
    cell: Cell | None
    marks: MarkLog
    kineto: Trace | None = None
    sim: SimRecords | None = None
    on_host: list[tuple[str, int, int, int, int]] = field(default_factory=list)
    steps: list[tuple[str, int, int]] = field(default_factory=list)
    memory: bool = False
    failed: str = ""
    notes: list[Remark] = field(default_factory=list)
    limit: Limit | None = None
    waited_for_core_ns: int | None = None
    rank: tuple[int, int] | None = None
    watch: LineWatch | None = None
    holders: tuple[Holders, Holders] = (Holders(), Holders())


def assemble(recorded: Recorded) -> Trace:
    """One trace of all parts, with times from the start of the recording. It ends where the parts became incomplete."""
    base = recorded.start_ns
    parts = _parts(recorded)
    shift_ns = recorded.offset_ns - base
    paths = None if recorded.watch is None else recorded.watch.paths(shift_ns, has_cell=recorded.cell is not None)
    meta = TraceMeta(
        origin=recorded.origin,
        base_unix_ns=base,
        start_ns=0,
        end_ns=recorded.end_ns - base,
        returned_ns=recorded.returned_ns - base,
        devices=tuple(parts.devices),
        torch_version=str(getattr(torch_if_imported(), "__version__", "")),
        failed=recorded.failed,
        dropped_events=parts.dropped,
        races=parts.races,
        pace=parts.pace,
        notes=(*_notes(recorded, parts), *_of_paths(paths, recorded.watch)),
        **_of_rank(recorded),
    )
    marks = recorded.marks.columns(recorded.offset_ns - base, recorded.returned_ns - base)
    tables: dict[str, Any] = parts.tables
    trace = make_trace(parts.names, meta, marks=marks, cell=recorded.cell, paths=paths, **tables)
    trace = replace(trace, **parts.details)
    return trace if recorded.limit is None else _until(trace, recorded.limit.at_ns - base)


def _parts(recorded: Recorded) -> _Parts:
    parts = _Parts(recorded.start_ns)
    if recorded.kineto is not None:
        parts.add_trace(recorded.kineto)
    if recorded.memory:
        parts.add_places(recorded)
    if recorded.sim is not None:
        first = SIM_INDEX_BASE if parts.devices else 0
        parts.add_sim(recorded.sim, first_device=first, host_ops=recorded.kineto is None)
        parts.add_blocks(recorded.sim, recorded.offset_ns - recorded.start_ns, first, recorded.holders)
    parts.add_annotations(recorded.on_host)
    parts.add_annotations([(*step, 0, 0) for step in recorded.steps])
    return parts


def _notes(recorded: Recorded, parts: _Parts) -> list[Remark]:
    notes = list(recorded.notes)
    if recorded.limit is not None and recorded.limit.at_ns < recorded.end_ns:
        numbers = {
            "recorded_ns": recorded.limit.at_ns - recorded.start_ns,
            "cell_ns": recorded.returned_ns - recorded.start_ns,
        }
        until, whole = map(units.duration, numbers.values())
        message = phrase(
            "recorded until {until} of the cell's {whole}: {why}", until=until, whole=whole, why=recorded.limit.reason
        )
        notes.append(Remark("ended_early", message, numbers))
    elif recorded.marks.inner_dropped:
        message = phrase(
            "lines inside loops are timed separately in the first marks only; later work is attributed to the loop"
        )
        notes.append(Remark("inner_lines_dropped", message))
    notes += _no_ops_note(parts, recorded.sim)
    notes += pace_remarks(() if recorded.sim is None else paced(recorded.sim.paced))
    notes += given_remarks(() if recorded.sim is None else recorded.sim.given)
    worked = [info for info in parts.devices if info.index in parts.device_indices()]
    notes += clock_remarks(parts.devices) + shared_cores(worked)
    notes += _of_threads(recorded.sim) if is_repeatable() else []
    if recorded.memory and not any(len(parts.tables.get(key, {}).get("device", ())) for key in ("counters", "blocks")):
        message = phrase("nothing was allocated, and no name of the notebook leads to a tensor")
        notes.append(Remark("no_memory_record", message))
    return notes


def _of_threads(sim: SimRecords | None) -> list[Remark]:
    """That launches of threads took turns: by Python's switches, as they share one virtual clock. Autograd's do not."""
    if sim is None:
        return []
    threads = sim.nodes["thread"]
    mine = threads[~np.isin(threads, threads[sim.nodes["running"] != NONE])]
    n_turns, n = 1 + np.count_nonzero(np.diff(mine)), len(np.unique(mine))
    if n < 2 or n_turns <= n + 1:  # a thread that was waited for comes between two turns of another
        return []
    message = phrase("order of launches from {n} threads may differ between runs", n=n)
    return [Remark("threads_in_turn", message, {"n_threads": n})]


def _of_paths(paths: Paths | None, watch: LineWatch | None) -> list[Remark]:
    """Remarks on lines of functions that were not followed."""
    if paths is None or watch is None:
        return []
    remarks = []
    if paths.unfollowed:
        names = ", ".join(f"`{paths.functions[i].name}`" for i in paths.unfollowed)
        message = phrase(
            "lines of {names} are not timed separately: a hot loop of plain Python, lines within 2 µs of each other",
            names=names,
        )
        remarks.append(Remark("hot_loop", message, {"n_functions": len(paths.unfollowed)}))
    if paths.until_ns != NONE:
        message = phrase(
            "lines of functions were followed for {time}: {why}",
            time=units.duration(paths.until_ns),
            why=watch.ended_because,
        )
        remarks.append(Remark("lines_ended_early", message, {"followed_ns": paths.until_ns}))
    return remarks


class _Parts:
    """Columns from several sources, shifted to one time base and one name table."""

    def __init__(self, base_ns: int) -> None:
        self.base_ns = base_ns
        self.names: list[str] = []
        self.devices: list[DeviceInfo] = []
        self.dropped = 0
        self.races: tuple[Race, ...] = ()
        self.pace = ""
        self.tables: dict[str, dict[str, Any]] = {}
        # of Kineto, which comes first; of the simulated device collectives, and without Kineto inputs
        self.details: dict[str, Any] = {}

    def add_trace(self, trace: Trace) -> None:
        shift = trace.meta.base_unix_ns - self.base_ns
        ops = {k: v for k, v in trace.ops.to_dict().items() if k not in ("launch", "line")}
        tables = {"ops": ops, "waits": trace.waits.to_dict(), "host_waits": trace.host_waits.to_dict()}
        if len(trace.counters):
            tables["counters"] = trace.counters.select(trace.counters.device != HOST_DEVICE).to_dict()
        for key, table in (("calls", trace.calls), ("host_ops", trace.whole_host())):
            tables[key] = {k: v for k, v in table.to_dict().items() if k != "line"}
        self._add(tables, trace.names, shift, 0)
        self.details = {key: getattr(trace, key) for key in DETAILS}
        self.devices += [d for d in trace.meta.devices if d.kind != "unknown" or d.index in trace.device_ids]
        self.dropped += trace.meta.dropped_events

    def add_sim(self, records: SimRecords, first_device: int, *, host_ops: bool) -> None:
        """host_ops: False where torch's profiler recorded the same operators."""
        kept = ("ops", "calls", "waits", "host_waits", "counters", *(("host_ops",) if host_ops else ()))
        tables = {k: dict(getattr(records, k)) for k in kept}
        if records.collectives:  # numbered after those of Kineto
            before = self.details.get("collectives", ())
            numbers = tables["ops"]["collective"]
            tables["ops"]["collective"] = np.where(numbers == NONE, NONE, numbers + len(before))
            self.details["collectives"] = (*before, *(Collective(*each) for each in records.collectives))
        _add_forward(tables["ops"], records)
        if host_ops:
            self._number_inputs(tables["host_ops"], records)
        self._add(tables, tuple(records.names), -self.base_ns, first_device)
        used = sorted({int(d) for d in np.unique(tables["ops"].get("device", np.zeros(0)))}) or [0]
        pace = said_of(records.pace, paced(records.paced))
        self.pace = records.pace_json
        self.devices += [
            DeviceInfo(first_device + d, "sim", sim_name(d, used), pace, predicted=records.predicted) for d in used
        ]
        self.dropped += records.dropped
        self.races = tuple(Race(*race) for race in records.races[:MOST_RACES])

    def _number_inputs(self, host_ops: dict[str, Any], records: SimRecords) -> None:
        """Inputs of operators as three columns, each a row of its texts; Kineto has none beside them."""
        for column in ("shape", "dtype", "value") if records.inputs else ():
            texts: dict[str, int] = {}
            of = [getattr(inputs, f"{column}s") for inputs in records.inputs]
            rows = [texts.setdefault(text, len(texts)) if text else NONE for text in of]
            host_ops[column] = np.array([*rows, NONE], np.int64)[records.input_rows]  # NONE is -1, the last
            self.details[f"input_{column}s"] = tuple(texts)

    def device_indices(self) -> set[int]:
        """The devices that executed something."""
        return set(np.asarray(self.tables.get("ops", {}).get("device", ()), np.int64).tolist())

    def add_places(self, recorded: Recorded) -> None:
        """Memory that torch's profiler reports. The host's counts only where no simulated device computes in it."""
        blocks, base_ns = Blocks.make(), recorded.start_ns
        if recorded.kineto is not None:
            blocks, base_ns = recorded.kineto.blocks, recorded.kineto.meta.base_unix_ns
        if recorded.sim is not None:
            blocks = blocks.select(blocks.device != HOST_DEVICE)
        steps, names = (part if recorded.sim is None else part.on_devices() for part in recorded.holders)
        clock_ns = recorded.offset_ns - base_ns
        columns, held = held_blocks(blocks.to_dict(), steps, names, clock_ns, recorded.start_ns - base_ns)
        shift = base_ns - self.base_ns
        columns["alloc_ns"] += shift
        columns["free_ns"] = np.where(columns["free_order"] == NONE, NONE, columns["free_ns"] + shift)
        if held:
            self._add_held(columns, held)

    def add_blocks(self, records: SimRecords, shift: int, device: int, holders: tuple[Holders, Holders]) -> None:
        """Memory of the simulated device, whose names were added. Its times are of perf_counter, as those of lines.

        device: the first simulated one.
        """
        blocks, names = records.blocks, records.names
        if not blocks.get("order"):
            return
        columns = {
            key: np.asarray(values, np.int64) for key, values in blocks.items() if key not in ("number", "gathered")
        }
        columns["device"] += device
        columns["alloc_ns"] += shift
        columns["free_ns"] = np.where(columns["free_order"] == NONE, NONE, columns["free_ns"] + shift)
        first_name = len(self.names) - len(names)
        for key in ("node", "free_node"):
            columns[key] = np.where(columns[key] == NONE, NONE, columns[key] + first_name)
        steps, named = (part.by_number for part in holders)
        known = [most_telling(steps.get(number), named.get(number)) for number in blocks["number"]]
        gathered = Holder(BlockRole.GATHERED, "")
        self._add_held(columns, [gathered if new else who for new, who in zip(blocks["gathered"], known, strict=True)])

    def _add_held(self, columns: dict[str, Any], known: list[Holder | None]) -> None:
        names: dict[str, int] = {}
        at = len(self.names)
        columns["role"] = np.full(len(known), BlockRole.UNKNOWN, np.int64)
        columns["holder"] = np.full(len(known), NONE, np.int64)
        for row, holder in enumerate(known):
            if holder is not None:
                columns["role"][row] = holder.role
                if holder.name:
                    columns["holder"][row] = at + names.setdefault(holder.name, len(names))
        self.names += names
        old = self.tables.get("blocks")
        self.tables["blocks"] = columns if old is None else _concatenate_unlike(old, columns)

    def add_annotations(self, rows: list[tuple[str, int, int, int, int]]) -> None:
        """rows: name, start, end, thread and bytes of each; what moves bytes has them as its input."""
        if not rows:
            return
        names, start_ns, end_ns, threads, sizes = zip(*rows, strict=True)
        known = tuple(dict.fromkeys(names))
        columns = {
            "start_ns": start_ns,
            "end_ns": end_ns,
            "kind": [HostKind.ANNOTATION] * len(rows),
            "name": [known.index(name) for name in names],
            "thread": threads,
            **self._bytes_as_inputs(sizes),
        }
        self._add({"host_ops": columns}, known, -self.base_ns, 0)

    def _bytes_as_inputs(self, sizes: tuple[int, ...]) -> dict[str, Any]:
        """The columns that say what each row moved, as the shape of a buffer of bytes; none where none moved any."""
        if not any(sizes):
            return {}
        known = sorted({*sizes} - {0})
        shapes, dtypes = self.details.get("input_shapes", ()), self.details.get("input_dtypes", ())
        self.details["input_shapes"] = (*shapes, *(f"[[{n}]]" for n in known))
        self.details["input_dtypes"] = (*dtypes, WHOLE_BUFFER)
        moved = np.array(sizes) > 0
        rows = len(shapes) + np.searchsorted(known, sizes)
        return {"shape": np.where(moved, rows, NONE), "dtype": np.where(moved, len(dtypes), NONE)}

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
        if column == "forward_ns":
            return np.where(values == NONE, NONE, values.astype(np.int64) + shift)
        if column in ("name", "series"):
            return values.astype(np.int32) + first_name
        return values + device if column in ("device", "on_device") else values


def _add_forward(ops: dict[str, Any], records: SimRecords) -> None:
    """Give ops of a backward the instant and the thread of their forward: the first launch after its node was made."""
    correlation, at_ns, thread, made, running = records.nodes.values()
    if not np.any(running != NONE):
        return
    _, first = np.unique(np.column_stack((thread, made)), axis=0, return_index=True)  # in the order of launches
    backward = np.flatnonzero(running != NONE)
    forwards = forward_rows(made[first], at_ns[first], running[backward], at_ns[backward])
    has = forwards != NONE
    of = dict(zip(correlation[backward[has]].tolist(), first[forwards[has]].tolist(), strict=True))
    rows = [of.get(op, NONE) for op in ops["correlation"].tolist()]
    ops["forward_ns"] = np.array([NONE if row == NONE else at_ns[row] for row in rows], np.int64)
    ops["forward_thread"] = np.array([0 if row == NONE else thread[row] for row in rows], np.int64)


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
    optional = (
        "address", "correlation", "size_bytes", "shape", "dtype", "value", "collective", "sequence", "on_device",
        "forward_ns",
    )  # fmt: skip
    defaults = dict.fromkeys(optional, NONE)
    out = {}
    for key in {**old, **new}:
        a = old.get(key, np.full(n_old, defaults.get(key, 0)))
        b = new.get(key, np.full(n_new, defaults.get(key, 0)))
        out[key] = np.concatenate((a, b))
    return out


def _no_ops_note(parts: _Parts, sim: SimRecords | None) -> list[Remark]:
    n_ops, n_host_ops = (len(parts.tables.get(key, {}).get("start_ns", ())) for key in ("ops", "host_ops"))
    if n_host_ops and not n_ops and any(b.kind in ("cuda", "rocm") for b in active_backends()):
        message = phrase(
            "CUDA is in use, but the profiler recorded no device work: nothing ran there, or CUPTI is unavailable"
        )
        return [Remark("no_device_record", message)]
    if n_ops or n_host_ops:
        return []
    if sim is not None:
        instead = phrase("nothing ran on the simulated device; --device cpu records what the host did")
        message = phrase("nothing ran on the simulated device") if virtual_clock() else instead
        return [Remark("no_device_ops", message)]
    if torch_if_imported() is None:
        return [Remark("no_torch", phrase("torch is not imported: only lines of the cell were recorded"))]
    return []


def is_rank() -> bool:
    """Whether this process is a rank of a job: torch.distributed is set up in it."""
    distributed = getattr(torch_if_imported(), "distributed", None)
    return distributed is not None and distributed.is_available() and bool(distributed.is_initialized())


def _of_rank(recorded: Recorded) -> dict[str, Any]:
    """Which rank this process is, and what its host says; nothing for a process that is none."""
    if recorded.rank is not None:
        rank, world = recorded.rank
    elif is_rank() and (torch := torch_if_imported()) is not None:
        rank, world = torch.distributed.get_rank(), torch.distributed.get_world_size()
    else:
        return {}
    ranks = {"rank": rank, "world_size": world}
    torch = torch_if_imported()
    threads = None if torch is None else torch.get_num_threads()
    n_cores = cores() if virtual_clock() is None else None  # which virtual time does not depend on
    waited = {"waited_for_core_ns": recorded.waited_for_core_ns, "cores": n_cores, "threads": threads}
    return ranks | waited | host_clock(recorded.start_ns, recorded.offset_ns)
