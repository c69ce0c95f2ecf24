"""Reading the traces that torch.profiler writes (Kineto, Chrome JSON), of every version since 2021.

Bytes (`file`) → events, chunk by chunk (`decode`, or `repair` for damaged files) → columns
(`tables`, `event_columns`), brought together with exact times (`finish`, `times`) → a Trace, here. Works without torch.
"""

from __future__ import annotations

import gc
import os
from collections.abc import Iterator
from itertools import count as count_up
from pathlib import Path

import numpy as np

from perfmagic.base.errors import TraceError
from perfmagic.base.language import counted, phrase
from perfmagic.base.units import count, duration
from perfmagic.trace.columns import HostKind, Remark
from perfmagic.trace.json_form import printable
from perfmagic.trace.kineto.blocks import blocks_of
from perfmagic.trace.kineto.decode import UNSOUND, Header, SoundFile, decoded
from perfmagic.trace.kineto.file import DEFAULT_LIMIT_BYTES, Blocks, Source, text_blocks
from perfmagic.trace.kineto.finish import finished, with_forward
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
)
from perfmagic.trace.kineto.header import base_unix_ns, device_infos, rank_and_world, restored
from perfmagic.trace.kineto.helper import Helper, HelperLostError
from perfmagic.trace.kineto.repair import repair
from perfmagic.trace.kineto.tables import Tables
from perfmagic.trace.model import Trace, TraceMeta, make_trace

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
    collector = _Collector()
    with collector, collector:  # twice: an interrupt may strike before the first line of one __exit__
        gc.disable()
        tables, header, repairs = _read(content, name, max_unpacked_bytes, helper=helper, links=links)
        return _build(tables, header, name, repairs)


def _read(
    content: Source, name: str, max_unpacked_bytes: int, *, helper: bool, links: bool
) -> tuple[Tables, Header, list[Remark]]:
    """The events of a file, what stands beside them, and the repairs it needed."""
    for helped in (True, False):
        repairs: list[Remark] = []
        try:
            with Helper(wanted=helped and helper and not links) as beside:  # the helper knows nothing of links
                tables, header = _sound(text_blocks(content, name, max_unpacked_bytes, repairs), beside, links=links)
            break
        except HelperLostError:
            continue
        except UNSOUND:
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


def _build(tables: Tables, header: Header, origin: str, repairs: list[Remark]) -> Trace:
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
        table["start_ns"] = table["start_ns"] - zero_ns
        table["end_ns"] = table["end_ns"] - zero_ns
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
    blocks = blocks_of(memory, host_ops, linked, names)
    trace = make_trace(
        names,
        saved.meta(meta) if saved else meta,
        ops=ops if n_ops else None,
        calls=calls if n_calls else None,
        host_ops=host_ops if n_host_ops else None,
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
    return with_forward(trace, host_ops, linked) if linked else trace


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


class _Collector:
    """Puts the cycle collector back as it was: it would walk every new row again and again and find nothing."""

    def __init__(self) -> None:
        self._was_on = gc.isenabled()

    def __enter__(self) -> None:
        """The block itself switches it off: an interrupt in here would skip __exit__."""

    def __exit__(self, *_error: object) -> None:
        if self._was_on:
            gc.enable()
