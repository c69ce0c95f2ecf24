"""Several ranks as one Chrome JSON: Perfetto shows a process for each rank's Python and each of its devices."""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from perfmagic.trace.formats.chrome import HOST_PID, events_of, microseconds, write_events
from perfmagic.trace.model import Trace

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
    """Save the ranks of one job on one axis, gzipped where the name ends in .gz; gives the path.

    traces, offset_ns: by rank.  arrows: between ops of two ranks. The file appears whole or not at all. Raises
    OptionError where it cannot be written.
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
    """An event of one rank's file as it stands in that of all."""
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
    """The event as JSON, with some numbers that are JSON text already."""
    more = "".join(f', "{key}": {number}' for key, number in numbers.items())
    return json.dumps(event, ensure_ascii=False)[:-1] + more + "}"
