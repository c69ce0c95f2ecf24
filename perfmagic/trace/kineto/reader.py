"""Reading the traces that torch.profiler writes (Kineto, Chrome JSON), of every version since 2021.

Bytes (`file`) → events, chunk by chunk (`decode`, or `repair` for damaged files) → columns
(`tables`, `event_columns`), brought together with exact times (`gathered`) → a Trace, here. Works without torch.
"""

from __future__ import annotations

import gc
import os
import re
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace
from itertools import count as count_up
from pathlib import Path
from typing import Any, TypeVar

import msgspec
import numpy as np

from perfmagic.base.errors import TraceError
from perfmagic.base.files import printable
from perfmagic.base.language import counted, phrase
from perfmagic.base.units import count, duration
from perfmagic.trace.columns import NONE, HostKind, Remark, forward_rows, keep_freed_memory
from perfmagic.trace.json_form import EXACT, FAR_NS, Line, Ns, typed
from perfmagic.trace.kineto.blocks import blocks_of
from perfmagic.trace.kineto.decode import UNSOUND, Header, Helper, HelperLostError, SoundFile, decoded
from perfmagic.trace.kineto.event_columns import Tables
from perfmagic.trace.kineto.file import DEFAULT_LIMIT_BYTES, Blocks, Source, text_blocks, text_bytes
from perfmagic.trace.kineto.gathered import (
    CALLS,
    COUNTERS,
    FRAMES,
    HOST_OPS,
    HOST_WAITS,
    LINKS,
    MEMORY,
    OPS,
    WAITS,
    Columns,
    around,
    finished,
)
from perfmagic.trace.model import Cell, DeviceInfo, Trace, TraceMeta, make_trace, with_models

Made = TypeVar("Made")

EXPORT_SCHEMA = 2  # 1 had repairs and notes as text
_REPAIRED = ("repaired_ops", "repaired_ns", "repaired_calls")
_EPOCH_NS = 10**18  # of 2001: times above are unix time already
_AMD = re.compile(r"AMD|Instinct|Radeon|gfx\d|MI\d{3}", re.IGNORECASE)


@dataclass(frozen=True)
class Restored:
    """What perfmagic wrote into its own export, see perfmagic.trace.formats.chrome."""

    fields: dict[str, Any]
    devices: tuple[DeviceInfo, ...]
    marks: dict[str, list[int]]
    cell: Cell | None

    def meta(self, read: TraceMeta) -> TraceMeta:
        """The meta of the file, completed by the saved meta of the original."""
        sums = {key: self.fields.get(key, 0) + getattr(read, key) for key in _REPAIRED}
        both = {"repairs": (*self.fields.get("repairs", ()), *read.repairs)}
        return replace(read, devices=self.devices or read.devices, **(self.fields | sums | both))


class _Schema(msgspec.Struct):
    schema: Any


_MARKS = ("at_ns", "line", "top_line")  # that every file has


class _Marks(msgspec.Struct):
    at_ns: list[Ns]
    line: list[Line]
    top_line: list[Line]
    waited_ns: list[Ns] = msgspec.field(default_factory=list)  # files of older versions have none


class _OwnPart(msgspec.Struct):
    meta: dict[str, Any]
    devices: tuple[DeviceInfo, ...]
    marks: _Marks
    cell: str | None


def restored(header: Header, repairs: list[Remark]) -> Restored | None:
    """perfmagic's own part of a file; None in files of others."""
    block = header.perfmagic
    if block is None:
        return None
    try:
        schema = typed(block, _Schema).schema
        if schema != EXPORT_SCHEMA:
            words = phrase(
                "the perfmagic part has schema {schema}, this version reads {known}; it was left out",
                schema=schema,
                known=EXPORT_SCHEMA,
            )
            repairs.append(Remark("own_part_schema", words))
            return None
        # raises ValueError for what does not fit
        own = typed(block, _OwnPart)
        meta = typed(own.meta | {"origin": "", "devices": ()}, TraceMeta)
        known = own.meta.keys() & TraceMeta.__dataclass_fields__.keys() - {"origin", "devices"}
        marks = {name: column for name, column in msgspec.structs.asdict(own.marks).items() if column or name in _MARKS}
        if len({len(column) for column in marks.values()}) > 1:
            raise ValueError("marks of different lengths")
        return Restored(
            {key: getattr(meta, key) for key in known},
            with_models(own.devices),
            marks,
            None if own.cell is None else Cell(own.cell),
        )
    except ValueError as error:
        words = phrase("the perfmagic part is damaged ({error}) and was left out", error=error)
        repairs.append(Remark("own_part_damaged", words))
        return None


def base_unix_ns(header: Header, first_ns: int, saved: Restored | None) -> tuple[int, int]:
    """The unix time of the trace's instant 0, and that instant in the file's clock.

    Instant 0 is the first record; in perfmagic's own exports it stays where it was. Unix time is 0 where not known.
    """
    base = _possible(header.baseTimeNanoseconds, FAR_NS) or 0
    if saved:
        return base, 0
    return (first_ns if first_ns > _EPOCH_NS else base + first_ns if base else 0), first_ns


def device_infos(header: Header, used: list[int], names: Iterable[str]) -> tuple[DeviceInfo, ...]:
    """The devices that executed something, by the file's properties where it has them."""
    listed = header.deviceProperties if isinstance(header.deviceProperties, list) else []
    by_id = {_whole(d.get("id")): d for d in listed if isinstance(d, dict) and d.get("name")}
    guess = _kind_by_calls(names) if used else "unknown"
    if (
        len({str({key: value for key, value in d.items() if key != "id"}) for d in by_id.values()}) == 1
    ):  # every device the process saw is of this kind, by any number
        by_id |= {index: next(iter(by_id.values())) for index in used if index not in by_id}
    return tuple(
        _listed_device(index, by_id[index]) if index in by_id else DeviceInfo(index, guess, f"device {index}")
        for index in used
    )


def _listed_device(index: int, listed: dict[str, Any]) -> DeviceInfo:
    name = str(listed["name"])
    kind = "rocm" if _AMD.search(name) else "cuda"
    memory_bytes, multiprocessors, major = _sizes(listed, "totalGlobalMem", "numSms", "computeMajor")
    return DeviceInfo(index, kind, name, "", memory_bytes, multiprocessors, major)


def _sizes(saved: dict[str, Any], *keys: str) -> list[int | None]:
    """The memory, the multiprocessors and the like of a device, None where they are no possible numbers."""
    known = [_whole(saved.get(key)) for key in keys]
    return [n if n is not None and 0 < n < 2**62 else None for n in known]


def rank_and_world(header: Header) -> tuple[int | None, int | None]:
    """The rank and the number of ranks, None where the file does not say."""
    info = header.distributedInfo if isinstance(header.distributedInfo, dict) else {}
    return _possible(info.get("rank"), EXACT), _possible(info.get("world_size"), EXACT)


def _kind_by_calls(names: Iterable[str]) -> str:
    for name in names:
        if re.match(r"hip[A-Z]", name):
            return "rocm"
        if re.match(r"cu(?:da)?[A-Z]", name):
            return "cuda"
    return "unknown"


def _possible(value: Any, most: int) -> int | None:
    """A whole number from 0 on; None for what is none, or so large that a saved trace cannot hold it."""
    number = _whole(value)
    return number if number is not None and 0 <= number <= most else None


def _whole(value: Any) -> int | None:
    try:
        return None if value is None or isinstance(value, bool) else int(value)
    except (TypeError, ValueError, OverflowError):
        return None


MOST_DEVICES = 1024  # one process uses 16 at most, 56 where each is cut in seven
MOST_CHARACTERS = 1 << 16  # of a name: those of templates reach some 10,000


def read_trace(
    source: str | os.PathLike[str] | bytes | Blocks,
    *,
    origin: str | None = None,
    max_unpacked_bytes: int = DEFAULT_LIMIT_BYTES,
    helper: bool = True,
    links: bool = False,
) -> Trace:
    """Reads a saved trace: Chrome JSON as torch.profiler writes it, plain or gzipped, whatever the name ends in.

    source: a file, its content, or a file elsewhere.  origin: what the trace is called; the file's name (never its
    folder) if left out.  helper: whether a second process may decode a part of a large file.
    links: also find the forward operator of each device op of a backward, which takes longer.
    Times are exact nanoseconds since the first record; `meta.base_unix_ns` is that instant in unix time, where the file
    has one. The window is the extent of device ops, calls and operators; annotations and Python frames count only where
    there is nothing else, because a step annotation may stretch far beyond the records a file was cut down to.
    Damage is repaired and reported in `meta.repairs`; a sound file has none.
    Raises TraceError where the file cannot be read or holds neither a host nor a device record.
    """
    content = Path(source) if isinstance(source, (str, os.PathLike)) else source
    name = printable(origin or ("trace" if isinstance(content, bytes) else content.name))
    keep_freed_memory()
    collector = Collector()
    with collector, collector:  # twice: an interrupt may strike before the first line of one __exit__
        gc.disable()
        tables, header, repairs = _read(content, name, max_unpacked_bytes, helper=helper, links=links)
        return build(tables, header, name, repairs)


def sniff(_head: bytes) -> bool:
    """Whether a file may be Kineto's: any, as what is damaged is repaired or refused here."""
    return True


def read(file: Path | Blocks, max_unpacked_bytes: int, *, helper: bool) -> list[Trace]:
    """The trace of a file, as perfmagic.trace.formats.registry.Reader has it."""
    return [read_trace(file, max_unpacked_bytes=max_unpacked_bytes, helper=helper)]


def _read(
    content: Source, name: str, max_unpacked_bytes: int, *, helper: bool, links: bool
) -> tuple[Tables, Header, list[Remark]]:
    """The events of a file, the fields beside them, and the repairs it needed."""
    for helped in (True, False):
        repairs: list[Remark] = []
        try:
            wanted = helped and helper and not links  # the helper does not read links
            with Helper(wanted=wanted, text_bytes=text_bytes(content)) as beside:
                tables, header = _sound(text_blocks(content, name, max_unpacked_bytes, repairs), beside, links=links)
            break
        except HelperLostError:
            continue
        except UNSOUND:
            from perfmagic.trace.kineto.repair import repair  # few files are damaged

            repairs, tables = [], Tables()
            chunk, header = repair(b"".join(text_blocks(content, name, max_unpacked_bytes, repairs)), name, repairs)
            tables.add(chunk)
            break
    return tables, header, repairs


def _sound(blocks: Iterator[bytes], helper: Helper, *, links: bool) -> tuple[Tables, Header]:
    """The events of a file that needs no repair, and its other keys. Raises UNSOUND and HelperLostError."""
    tables, numbers = Tables(), count_up()

    def decode(text: bytes) -> None:
        number = next(numbers)
        if not helper.takes(number, text):
            tables.add(decoded(text, links=links), number)

    header = SoundFile(blocks).read(decode)
    late = Tables()  # apart: chunks of one Tables must come in the file's order, by which names are numbered
    for number, text in helper.taken_back():
        late.add(decoded(text), number)
    others = [gathered for gathered in (late.gathered, helper.gathered()) if gathered and gathered.parts]
    if others:
        tables.take_over(others)
    return tables, header


def build(tables: Tables, header: Header, origin: str, repairs: list[Remark]) -> Trace:
    """The trace of what was gathered. Raises TraceError where that is nothing."""
    if tables.empty:
        raise _no_records(tables, origin)
    whole = finished(tables.gathered, repairs)
    columns = whole.columns
    ops, calls, host_ops, frames = (columns[table] for table in (OPS, CALLS, HOST_OPS, FRAMES))
    waits, host_waits = columns[WAITS], columns[HOST_WAITS]
    n_ops, n_calls, n_host_ops, n_frames = (len(table["start_ns"]) for table in (ops, calls, host_ops, frames))
    if not n_ops + n_calls + n_host_ops + n_frames:
        raise _no_records(tables, origin)
    saved = restored(header, repairs)
    devices, names = _devices(ops, origin), _cut_names(tables.names, repairs)
    base_ns, zero_ns = base_unix_ns(header, whole.first_ns, saved)
    for table in columns.values():
        table["start_ns"] -= zero_ns
        table["end_ns"] -= zero_ns
    linked = {name: host_ops.pop(name) for name in LINKS if name in host_ops}
    start_ns, end_ns = _window(ops, calls, host_ops, frames)
    rank, world_size = rank_and_world(header)
    meta = TraceMeta(
        origin=origin,
        base_unix_ns=base_ns,
        start_ns=start_ns,
        end_ns=end_ns,
        devices=device_infos(header, devices, names),
        rank=rank,
        world_size=world_size,
        repairs=tuple(repairs),
        repaired_ops=int(whole.repaired[OPS].sum()),
        repaired_ns=int((ops["end_ns"] - ops["start_ns"])[whole.repaired[OPS]].sum()),
        repaired_calls=int(whole.repaired[CALLS].sum()),
        notes=tuple(_notes(tables, n_ops, n_calls, n_host_ops + n_frames)),
    )
    counters, memory = columns[COUNTERS], columns[MEMORY]
    for instants in (waits, host_waits, counters, memory):
        del instants["end_ns"]
        instants["at_ns"] = instants.pop("start_ns")
    blocks = blocks_of(memory, host_ops, linked, names) if len(memory["at_ns"]) else None
    trace = make_trace(
        names,
        saved.meta(meta) if saved else meta,
        ops=ops if n_ops else None,
        calls=calls if n_calls else None,
        host_ops=(dict(host_ops) if linked else host_ops) if n_host_ops else None,
        python_frames=frames if n_frames else None,
        waits=waits if len(waits["at_ns"]) else None,
        host_waits=host_waits if len(host_waits["at_ns"]) else None,
        counters=counters if len(counters["at_ns"]) else None,
        blocks=blocks,
        marks=saved.marks if saved else None,
        cell=saved.cell if saved else None,
        shapes=tables.shapes,
        input_shapes=tables.input_shapes,
        input_dtypes=tables.input_dtypes,
        input_values=tables.input_values,
        collectives=tables.collectives,
    )
    return _with_forward(trace, host_ops, linked) if linked else trace


def _devices(ops: Columns, origin: str) -> list[int]:
    """The devices of the ops, each of which gets its rows. Raises TraceError for more than any process has."""
    devices: list[int] = np.unique(ops["device"]).tolist() if "device" in ops else []
    if len(devices) > MOST_DEVICES:
        raise TraceError(
            f"{origin} names {count(len(devices))} devices, more than {count(MOST_DEVICES)}",
            hint="open the trace of one process; perfmagic.open_ranks(folder) opens those of many",
        )
    return devices


def _cut_names(names: list[str], repairs: list[Remark]) -> list[str]:
    """The names, the longest cut, which is a repair: patterns are searched in every name."""
    longest = max(map(len, names), default=0)
    if longest <= MOST_CHARACTERS:
        return names
    n = sum(len(name) > MOST_CHARACTERS for name in names)
    words = counted(
        n,
        "{n} name of up to {longest} characters cut to {most}",
        "{n} names of up to {longest} characters cut to {most}",
        longest=count(longest),
        most=count(MOST_CHARACTERS),
    )
    repairs.append(Remark("long_name", words, {"n": n, "longest": longest}))
    return [name[:MOST_CHARACTERS] for name in names]


def _notes(tables: Tables, n_ops: int, n_calls: int, n_host_ops: int) -> list[Remark]:
    """What was not recorded, and the overhead of the profiler."""
    notes, gathered = [], tables.gathered
    if n_ops and not n_calls:
        notes.append(Remark("no_launches", phrase("no launch was recorded: when ops were queued is unknown")))
    if n_ops and not n_host_ops:
        notes.append(Remark("no_host_ops", phrase("no host operator was recorded: what Python did is unknown")))
    if gathered.overheads:
        took_ns, n = round(gathered.overhead_us * 1000), gathered.overheads
        words = counted(
            n,
            "profiler overhead: {time} of host time in {n} record",
            "profiler overhead: {time} of host time in {n} records",
            time=duration(took_ns),
        )
        notes.append(Remark("profiler_overhead", words, {"host_ns": took_ns, "n_records": n}))
    return notes


def _no_records(tables: Tables, origin: str) -> TraceError:
    seen = tables.gathered.seen
    what = ", ".join(f"{count(n)} {kind}" for kind, n in seen.most_common(5)) or "no events at all"
    return TraceError(
        f"{origin} holds no record of a device or of the host, only {what}" if seen else f"{origin} holds {what}",
        hint="record again with torch.profiler.profile(activities=[ProfilerActivity.CPU, ProfilerActivity.CUDA])",
    )


def _window(ops: Columns, calls: Columns, host_ops: Columns, frames: Columns) -> tuple[int, int]:
    operators = host_ops["kind"] == HostKind.OP if len(host_ops["start_ns"]) else np.zeros(0, bool)
    parts = [
        (ops["start_ns"], ops["end_ns"]),
        (calls["start_ns"], calls["end_ns"]),
        (host_ops["start_ns"][operators], host_ops["end_ns"][operators]),
    ]
    if not any(len(start) for start, _ in parts):
        parts = [(table["start_ns"], table["end_ns"]) for table in (host_ops, frames)]
    return min(int(s.min()) for s, _ in parts if len(s)), max(int(e.max()) for _, e in parts if len(e))


class Collector:
    """Puts the cycle collector back as it was: it would walk every new row again and again and find nothing."""

    def __init__(self) -> None:
        self._was_on = gc.isenabled()

    def __enter__(self) -> None:
        """The block itself switches it off: an interrupt in here would skip __exit__."""

    def __exit__(self, *_error: object) -> None:
        if self._was_on:
            gc.enable()


def run_without_gc(work: Callable[[], Made]) -> Made:
    """What some work makes, without the cycle collector meanwhile."""
    collector = Collector()
    with collector, collector:  # twice: an interrupt may strike before the first line of one __exit__
        gc.disable()
        return work()


def _with_forward(trace: Trace, host_ops: Columns, linked: Columns) -> Trace:
    """The trace whose ops know when, and on which thread, the operator of their forward began.

    host_ops, linked: columns of one length: start_ns, end_ns and thread; sequence and forward_thread.
    """
    sequence, thread = linked["sequence"], host_ops["thread"]
    numbered = sequence != NONE
    backward = np.flatnonzero(numbered & (linked["forward_thread"] > 0))
    forward = np.flatnonzero(numbered & (linked["forward_thread"] <= 0))
    launch = trace.ops.launch
    known = np.flatnonzero(launch != NONE)
    if not len(backward) or not len(forward) or not len(known):
        return trace
    calls = trace.calls
    inner = around(host_ops, backward, calls.thread[launch[known]], calls.start_ns[launch[known]])
    inside = inner != NONE
    rows, at = known[inside], inner[inside]
    forward_row = forward_rows(sequence[forward], host_ops["start_ns"][forward], sequence[at], host_ops["start_ns"][at])
    has = forward_row != NONE
    forward_ns, forward_thread = trace.ops.forward_ns.copy(), trace.ops.forward_thread.copy()
    forward_ns[rows[has]] = host_ops["start_ns"][forward[forward_row[has]]]
    forward_thread[rows[has]] = thread[forward[forward_row[has]]]
    for column in (forward_ns, forward_thread):
        column.flags.writeable = False
    return replace(trace, ops=replace(trace.ops, forward_ns=forward_ns, forward_thread=forward_thread))
