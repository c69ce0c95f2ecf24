"""Write a trace as Chrome JSON: Perfetto and chrome://tracing open it, and `read_trace` returns the same trace.

Host names, users and folders are left out: Python frames keep only their file's name. The cell's text is written
unchanged.
"""

from __future__ import annotations

import gzip
import json
import os
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import IO, Any

import numpy as np

from perfmagic.base.files import whole_file
from perfmagic.trace.columns import NONE, CallKind, HostKind, OpKind, Remark, call_kind
from perfmagic.trace.kineto.reader import EXPORT_SCHEMA
from perfmagic.trace.model import Collective, DeviceInfo, LaunchShape, Trace

HOST_PID = 1 << 20  # devices use their index as pid

OP_CATEGORY = {OpKind.KERNEL: "kernel", OpKind.MEMCPY: "gpu_memcpy", OpKind.MEMSET: "gpu_memset"}
HOST_CATEGORY = {HostKind.OP: "cpu_op", HostKind.ANNOTATION: "user_annotation", HostKind.PYTHON: "python_function"}
_ABSOLUTE_FOLDER = re.compile(r"(?:(?<![\w./\\])(?:~|[A-Za-z]:)?[/\\])(?:[^\s/\\\"'():,]+[/\\])+")
_META_KEYS = (
    *("start_ns", "end_ns", "returned_ns", "torch_version", "dropped_events", "races"),
    *("repaired_ops", "repaired_ns", "repaired_calls"),
    *("boot", "monotonic_base_ns", "waited_for_core_ns", "cores", "threads", "pings", "pace"),
)


def write_chrome(trace: Trace, path: str | os.PathLike[str]) -> Path:
    """Save a trace as Chrome JSON, gzipped if the name ends in .gz; returns the path.

    The file appears whole or not at all. Raises OptionError if it cannot be written.
    """
    return write_events(path, header(trace), events_of(trace))


def write_events(path: str | os.PathLike[str], head: dict[str, Any], events: Iterable[str]) -> Path:
    """Save a Chrome JSON file, see write_chrome.  head: the keys beside the events.  events: each as JSON."""
    with whole_file(path) as (target, file):
        _write(file, head, events, packed=target.suffix == ".gz")
    return target


def without_folders(text: str) -> str:
    """The text with absolute paths cut to the file's name: "/home/ann/train.py(3): step" → "train.py(3): step"."""
    return _ABSOLUTE_FOLDER.sub("", text)


def _write(file: IO[bytes], head: dict[str, Any], events: Iterable[str], *, packed: bool) -> None:
    if not packed:
        _write_text(file, head, events)
        return
    with gzip.GzipFile(filename="", mode="wb", fileobj=file, compresslevel=6, mtime=0) as out:
        _write_text(out, head, events)


def _write_text(out: IO[bytes] | gzip.GzipFile, head: dict[str, Any], events: Iterable[str]) -> None:
    out.write(json.dumps(head, ensure_ascii=False)[:-1].encode() + b', "traceEvents": [')
    separator = "\n"
    for event in events:
        out.write(f"{separator}{event}".encode())
        separator = ",\n"
    out.write(b"\n]}\n")


def header(trace: Trace) -> dict[str, Any]:
    """The keys beside the events of a file."""
    return {
        "schemaVersion": 1,
        "displayTimeUnit": "ns",
        "baseTimeNanoseconds": trace.meta.base_unix_ns,
        "deviceProperties": [_properties(d) for d in trace.meta.devices],
        "distributedInfo": {"rank": trace.meta.rank, "world_size": trace.meta.world_size},
        "perfmagic": _own_part(trace),
    }


def _properties(device: DeviceInfo) -> dict[str, Any]:
    sizes = {
        "totalGlobalMem": device.memory_bytes,
        "numSms": device.multiprocessors,
        "computeMajor": device.compute_major,
    }
    return {"id": device.index, "name": device.label} | {key: n for key, n in sizes.items() if n is not None}


def _own_part(trace: Trace) -> dict[str, Any]:
    """What Chrome's format has no place for; read back by perfmagic.trace.kineto.reader.restored."""
    meta = trace.meta
    texts = {
        "failed": without_folders(meta.failed),
        "predicted": meta.predicted,
        "repairs": [_remark(remark) for remark in meta.repairs],
        "notes": [_remark(remark) for remark in meta.notes],
    }
    return {
        "schema": EXPORT_SCHEMA,
        "meta": {key: getattr(meta, key) for key in _META_KEYS} | texts,
        "devices": [asdict(device) for device in meta.devices],
        "marks": {name: column.tolist() for name, column in trace.marks.to_dict().items()},
        "cell": trace.cell.source if trace.cell else None,
    }


def _remark(remark: Remark) -> dict[str, Any]:
    return remark.to_dict() | {"words": without_folders(remark.words)}


def events_of(trace: Trace) -> Iterator[str]:
    """Every event of a trace, as JSON."""
    names = json_names(trace)
    yield from metadata(trace)
    yield from _ops(trace, names)
    yield from _calls(trace, names)
    yield from _host_ops(trace)
    yield from flows(trace)
    yield from _waits(trace)
    yield from _host_waits(trace)
    yield from counters(trace, names)


def metadata(trace: Trace) -> Iterator[str]:
    """Names of processes and threads, the host above the devices."""
    yield _named("process_name", HOST_PID, 0, {"name": "Python"})
    yield _named("process_sort_index", HOST_PID, 0, {"sort_index": -1})
    tables = (trace.calls, trace.host_ops, trace.python_frames.table)
    threads = np.unique(np.concatenate([table.thread for table in tables])).tolist()
    for thread in threads:
        yield _named("thread_name", HOST_PID, thread, {"name": f"thread {thread}"})
    for device in trace.device_ids:
        yield _named("process_name", device, 0, {"name": trace.device_info(device).label})
        yield _named("process_sort_index", device, 0, {"sort_index": device})
        for stream in sorted(set(trace.ops.stream[trace.ops.device == device].tolist())):
            yield _named("thread_name", device, stream, {"name": f"stream {stream}"})


def _named(what: str, pid: int, tid: int, args: dict[str, Any]) -> str:
    return json.dumps({"ph": "M", "name": what, "pid": pid, "tid": tid, "args": args}, ensure_ascii=False)


def _ops(trace: Trace, names: list[str]) -> Iterator[str]:
    for row in rows(trace.ops):
        args = {key: row[key] for key in ("correlation",) if row[key] != NONE} | op_args(trace, row)
        yield span(OP_CATEGORY[OpKind(row["kind"])], names[row["name"]], row["device"], row["stream"], row, args)


def op_args(trace: Trace, row: dict[str, Any]) -> dict[str, Any]:
    """The arguments of a device op, except its correlation."""
    args = {"device": row["device"], "stream": row["stream"]}
    args |= {"bytes": row["size_bytes"]} if row["size_bytes"] != NONE else {}
    args |= _collective_args(trace.collectives[row["collective"]]) if row["collective"] != NONE else {}
    args |= {"Seq": row["sequence"]} if row["sequence"] != NONE else {}
    args |= _shape_args(trace.shapes[row["shape"]]) if row["shape"] != NONE else {}
    return args | ({"line": row["line"]} if row["line"] else {})


def _collective_args(collective: Collective) -> dict[str, Any]:
    args = {
        "Collective name": collective.name,
        "In msg nelems": collective.in_elements,
        "Out msg nelems": collective.out_elements,
        "Group size": collective.group_size,
        "dtype": collective.dtype or None,
        "Process Group Name": collective.group or None,
        "Process Group Ranks": _ranks(collective) if collective.ranks else None,
    }
    return {key: value for key, value in args.items() if value is not None}


def _ranks(collective: Collective) -> str:
    more = len(collective.ranks) < (collective.group_size or 0)
    return f"[{', '.join(map(str, collective.ranks))}{', ...' if more else ''}]"


def _shape_args(shape: LaunchShape) -> dict[str, Any]:
    args: dict[str, Any] = {"grid": shape.grid, "block": shape.block}
    args |= {} if shape.registers is None else {"registers per thread": shape.registers}
    return args | ({} if shape.shared_bytes is None else {"shared memory": shape.shared_bytes})


def _calls(trace: Trace, names: list[str]) -> Iterator[str]:
    args_of = call_args(trace)
    for row in rows(trace.calls):
        args: dict[str, Any] = {"correlation": row["correlation"]} if row["correlation"] != NONE else {}
        yield span("cuda_runtime", names[row["name"]], HOST_PID, row["thread"], row, args | args_of(row))


def call_args(trace: Trace) -> Callable[[dict[str, Any]], dict[str, Any]]:
    """A function from a row of calls to its line, and its kind if the name does not imply it; no correlation."""
    named_kinds = [call_kind(name) for name in trace.names]

    def args_of(row: dict[str, Any]) -> dict[str, Any]:
        args = {"line": row["line"]} if row["line"] else {}
        return args | ({"call": CallKind(row["kind"]).name} if named_kinds[row["name"]] != row["kind"] else {})

    return args_of


def _host_ops(trace: Trace) -> Iterator[str]:
    names = host_names(trace)
    for row in rows(trace.whole_host()):
        category = HOST_CATEGORY[HostKind(row["kind"])]
        yield span(category, names[row["name"]], HOST_PID, row["thread"], row, host_args(trace, row))


def json_names(trace: Trace) -> list[str]:
    """The names of ops, calls and counters as JSON."""
    return [json.dumps(name, ensure_ascii=False) for name in trace.names]


def host_names(trace: Trace) -> list[str]:
    """The names of host ops as JSON, without folders."""
    return [json.dumps(without_folders(name), ensure_ascii=False) for name in trace.names]


def host_args(trace: Trace, row: dict[str, Any]) -> dict[str, Any]:
    """The arguments of an operator, annotation or Python frame."""
    args: dict[str, Any] = {"line": row["line"]} if row["line"] else {}
    args |= {"Input Dims": json.loads(trace.input_shapes[row["shape"]])} if row["shape"] != NONE else {}
    for key, of, texts in (
        ("Input type", "dtype", trace.input_dtypes),
        ("Concrete Inputs", "value", trace.input_values),
    ):
        if row[of] != NONE and texts[row[of]]:
            args[key] = json.loads(texts[row[of]])
    return args


def flows(trace: Trace) -> Iterator[str]:
    """An arrow from every launch to each of its ops."""
    for at, row in enumerate(rows(trace.ops)):
        if row["launch"] != NONE:
            call = row["launch"]
            thread, call_ns = int(trace.calls.thread[call]), int(trace.calls.start_ns[call])
            flow = f'"cat": "ac2g", "name": "ac2g", "id": {at}'
            yield f'{{"ph": "s", {flow}, "pid": {HOST_PID}, "tid": {thread}, "ts": {microseconds(call_ns)}}}'
            place = f'"pid": {row["device"]}, "tid": {row["stream"]}, "ts": {microseconds(row["start_ns"])}'
            yield f'{{"ph": "f", "bp": "e", {flow}, {place}}}'


def _waits(trace: Trace) -> Iterator[str]:
    for row in rows(trace.waits):
        args = {
            "device": row["device"],
            "stream": row["stream"],
            "correlation": row["correlation"],
            "wait_on_stream": row["on_stream"],
            "wait_on_cuda_event_record_corr_id": row["on_correlation"],
            "wait_on_device": row["on_device"],
        }
        at = {"start_ns": row["at_ns"], "end_ns": row["at_ns"]}
        yield span("cuda_sync", '"Stream Wait Event"', row["device"], row["stream"], at, args)


def _host_waits(trace: Trace) -> Iterator[str]:
    for row in rows(trace.host_waits):
        of_event = row["on_correlation"] != NONE
        args = {"device": row["device"], "stream": row["stream"], "correlation": row["correlation"]}
        if of_event:
            args |= {"wait_on_stream": row["stream"], "wait_on_cuda_event_record_corr_id": row["on_correlation"]}
        name = "Event Sync" if of_event else "Context Sync" if row["stream"] == NONE else "Stream Sync"
        at = {"start_ns": row["at_ns"], "end_ns": row["at_ns"]}
        yield span("cuda_sync", f'"{name}"', row["device"], row["stream"], at, args)


def counters(trace: Trace, names: list[str]) -> Iterator[str]:
    """Memory and power over time."""
    for row in rows(trace.counters):
        name, place = names[row["series"]], f'"pid": {row["device"]}, "ts": {microseconds(row["at_ns"])}'
        yield f'{{"ph": "C", "name": {name}, {place}, "args": {{"value": {json.dumps(row["value"])}}}}}'


def rows(table: Any) -> Iterator[dict[str, Any]]:
    """The rows of a table, as dicts by column."""
    columns = table.to_dict()
    for values in zip(*(column.tolist() for column in columns.values()), strict=True):
        yield dict(zip(columns, values, strict=True))


def span(category: str, name: str, pid: int, tid: int, row: dict[str, Any], args: dict[str, Any]) -> str:
    """One complete event; name is JSON text already."""
    start, length = microseconds(row["start_ns"]), microseconds(row["end_ns"] - row["start_ns"])
    place = f'"pid": {pid}, "tid": {tid}, "ts": {start}, "dur": {length}'
    return f'{{"ph": "X", "cat": "{category}", "name": {name}, {place}, "args": {json.dumps(args)}}}'


def microseconds(ns: int) -> str:
    """Nanoseconds as microseconds with three decimals, by integer arithmetic: nothing is rounded."""
    sign, ns = ("-", -ns) if ns < 0 else ("", ns)
    return f"{sign}{ns // 1000}.{ns % 1000:03d}"


# Several ranks as one Chrome JSON: Perfetto shows a process for each rank's Python and each of its devices.

_PIDS = 10_000  # of a rank: its Python first, then its devices


@dataclass(frozen=True)
class Arrow:
    """From one op to another.  source, target: rank and row of its trace.ops."""

    source: tuple[int, int]
    target: tuple[int, int]
    name: str


def write_chrome_ranks(
    traces: Mapping[int, Trace], offset_ns: Mapping[int, int], arrows: Iterable[Arrow], path: str | os.PathLike[str]
) -> Path:
    """Save the ranks of one job on one axis, gzipped if the name ends in .gz; returns the path.

    traces, offset_ns: by rank.  arrows: between ops of two ranks. The file appears whole or not at all. Raises
    OptionError if it cannot be written.
    """
    head = {"schemaVersion": 1, "displayTimeUnit": "ns", "distributedInfo": {"world_size": len(traces)}}
    return write_events(path, head, _events(traces, offset_ns, arrows))


def _events(traces: Mapping[int, Trace], offset_ns: Mapping[int, int], arrows: Iterable[Arrow]) -> Iterator[str]:
    for rank, trace in sorted(traces.items()):
        for text in events_of(trace):
            yield _moved(text, rank, offset_ns[rank])
    for number, arrow in enumerate(arrows):
        for phase, (rank, row) in (("s", arrow.source), ("f", arrow.target)):
            ops = traces[rank].ops
            place = {"pid": _pid(rank, int(ops.device[row])), "tid": int(ops.stream[row])}
            at = {"ts": microseconds(int(ops.start_ns[row]) + offset_ns[rank])}
            yield _text({"ph": phase, "cat": "ranks", "name": arrow.name, "id": f"ranks.{number}", **place}, at)


def _moved(text: str, rank: int, by_ns: int) -> str:
    """An event of one rank's file as it appears in the file of all ranks."""
    event: dict[str, Any] = json.loads(text)
    host = event["pid"] == HOST_PID
    event["pid"] = _pid(rank, None if host else event["pid"])
    if event["ph"] == "M" and event["name"] == "process_name":
        event["args"]["name"] = f"rank {rank}: {event['args']['name']}"
    elif event["ph"] == "M" and event["name"] == "process_sort_index":
        event["args"]["sort_index"] = event["pid"]
    if "id" in event:
        event["id"] = f"{rank}.{event['id']}"
    if "ts" not in event:
        return json.dumps(event, ensure_ascii=False)
    at_ns = round(event.pop("ts") * 1000) + by_ns
    return _text(event, {"ts": microseconds(at_ns)})


def _pid(rank: int, device: int | None) -> int:
    return rank * _PIDS + (0 if device is None else 1 + device)


def _text(event: dict[str, Any], numbers: Mapping[str, str]) -> str:
    """The event as JSON.  numbers: values that are JSON text already."""
    more = "".join(f', "{key}": {number}' for key, number in numbers.items())
    return json.dumps(event, ensure_ascii=False)[:-1] + more + "}"
