"""The tables of a report on a saved trace, as text cells: the same for terminal, Markdown and page."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from perfmagic import units
from perfmagic.analysis.timeline.idle import CAUSES
from perfmagic.trace.names import short_name
from perfmagic.view.report.operators import brief_operator_table, category_table, operator_table
from perfmagic.view.report.table import ReportTable
from perfmagic.view.timeline.lanes import PARTITION_WORDS

MOST_ROWS = 15
BRIEF_ROWS = 5  # of kernels, in a terminal
_NAME_LENGTH, _HEAD_FRAC = 110, 0.55
_RULE_LENGTH = 60  # of names in a sentence


def report_tables(report: Mapping[str, Any]) -> list[ReportTable]:
    """The tables of one trace. report: from perfmagic.analysis.report. Tables without rows and note are left out."""
    found = [_steps(report)]
    for device, where in _devices(report):
        found += [
            _time(device, where),
            _idle(device, where),
            _streams(device, where),
            category_table(device, where),
            operator_table(device, where, MOST_ROWS),
            _kernels(device, where, MOST_ROWS),
            _copies(device, where),
            _collectives(device, where),
        ]
    return [table for table in found if table.rows or table.note]


def brief_tables(report: Mapping[str, Any]) -> list[ReportTable]:
    """The tables for a terminal: steps, and for each device idle time by cause and the longest kernels."""
    found = [_steps(report)]
    for device, where in _devices(report):
        found += [
            _idle(device, where),
            brief_operator_table(device, where, BRIEF_ROWS),
            _kernels(device, where, BRIEF_ROWS),
            _note_alone(_collectives(device, where)),
        ]
    return [table for table in found if table.rows or table.note]


def _devices(report: Mapping[str, Any]) -> list[tuple[Mapping[str, Any], str]]:
    """Each device, and the words that name it in a title if there are several."""
    several = len(report["devices"]) > 1
    return [(d, f", {d['label']} {number}" if several else "") for number, d in report["devices"].items()]


def _note_alone(table: ReportTable) -> ReportTable:
    return ReportTable(table.title, table.head, (), table.note)


def windows_words(report: Mapping[str, Any]) -> str:
    """Explains the two lengths in a report on a file, of all records and of a device's ops; "" if they are the same."""
    meta, devices = report["meta"], report["devices"]
    extents_ns = sorted(device["extent_ns"] for device in devices.values())
    extents = list(dict.fromkeys(units.duration(ns) for ns in (extents_ns[:1] + extents_ns[-1:])))
    whole = units.duration(meta["end_ns"] - meta["start_ns"])
    if meta["returned_ns"] is not None or extents in ([], [whole]):
        return ""
    return (
        f"The trace is {whole} long, from its first operator, call or device op to its last. The extent of a device, "
        f"{' to '.join(extents)}, runs from its first op to its last; busy, idle and shares refer to the extent."
    )


def communication_words(report: Mapping[str, Any]) -> str:
    """Which kernels count as communication by an expression of the user's; "" for the built-in rule."""
    if report["comm_names"] is None:
        return ""
    names = list(dict.fromkeys(short_name(name) for name in report["communication_kernels"]))
    shown = ", ".join(shortened(name, _RULE_LENGTH) for name in names[:MOST_ROWS])
    more = f" and {units.count(len(names) - MOST_ROWS)} more" if len(names) > MOST_ROWS else ""
    matched = f"{units.plural(len(names), 'kernel name')}: {shown}{more}" if names else "no kernel name"
    return f"As communication count kernels that match {report['comm_names']!r}: {matched}."


def _time(device: Mapping[str, Any], where: str) -> ReportTable:
    extent_ns = device["extent_ns"]
    rows = [
        (PARTITION_WORDS[key], units.duration(ns), units.percent(ns / extent_ns))
        for key, ns in device["partition"].items()
        if ns
    ]
    return ReportTable(f"Where the {units.duration(extent_ns)} went{where}", ("", "time", "share"), tuple(rows))


def _streams(device: Mapping[str, Any], where: str) -> ReportTable:
    deepest = {queue["stream"]: queue["ops_max"] for queue in device["queues"]}
    rows = [
        (
            f"stream {stream['stream']}",
            units.count(stream["n_ops"]),
            units.duration(stream["busy_ns"]),
            units.percent(stream["busy_frac"]),
            units.count(deepest[stream["stream"]]) if stream["stream"] in deepest else "",
        )
        for stream in device["streams"][:MOST_ROWS]
    ]
    return ReportTable(f"Streams{where}", ("", "ops", "busy", "of the extent", "queue ≤"), tuple(rows))


def _steps(report: Mapping[str, Any]) -> ReportTable:
    rows = [
        (
            f"step {step['number']}",
            units.duration(step["duration_ns"]),
            units.percent(step["window_busy_frac"]),
            *(units.duration(step[f"{what}_ns"]) for what in ("compute", "communication", "copy")),
            "" if step["lap_ns"] is None else units.duration(step["lap_ns"]),
            units.count(step["n_ops"]),
        )
        for step in report["steps"][:MOST_ROWS]
    ]
    more = len(report["steps"]) - MOST_ROWS
    notes = [f"and {units.plural(more, 'more step')}"] if more > 0 else []
    notes += [report["steps_note"]] if report["steps_note"] else []
    head = ("", "on the host", "busy then", "compute", "communication", "copies", "lap", "ops")
    return ReportTable("Steps", head, tuple(rows), ". ".join(notes))


def _idle(device: Mapping[str, Any], where: str) -> ReportTable:
    idle_ns = device["idle_ns"]
    by_cause = dict(device["idle"]["by_cause_ns"])
    inside_ns = by_cause.pop("in_call")
    by_cause["in_python"] += inside_ns
    named = []
    for cause, ns in sorted(by_cause.items(), key=lambda item: -item[1]):
        named += [(f"waiting {CAUSES[cause]}", ns)]
        named += [("  of it inside calls into the driver", inside_ns)] if cause == "in_python" else []
    rows = [(words, units.duration(ns), units.percent(ns / idle_ns)) for words, ns in named if ns]
    return ReportTable(f"Idle by cause{where}", ("", "time", "of idle"), tuple(rows))


def _collectives(device: Mapping[str, Any], where: str) -> ReportTable:
    rows = [
        (
            f"{shortened(one['name'])} {one['dtype']}".rstrip() + (f", group {one['group']}" if one["group"] else ""),
            units.count(one["n_ops"]),
            units.duration(one["total_ns"]),
            units.size(one["size_bytes"]) if one["size_bytes"] is not None else "",
            f"{units.size(one['bus_bytes_per_s'])}/s" if one["bus_bytes_per_s"] else "",
        )
        for one in device["collectives"][:MOST_ROWS]
    ]
    head = ("", "ops", "total", "size", "bus bandwidth")
    return ReportTable(f"Collectives{where}", head, tuple(rows), "; ".join(note["words"] for note in device["notes"]))


def _kernels(device: Mapping[str, Any], where: str, most: int) -> ReportTable:
    rows = [
        (
            shortened(kernel["name"]),
            units.count(kernel["n_ops"]),
            units.duration(kernel["total_ns"]),
            units.duration(kernel["mean_ns"]),
            units.percent(kernel["share_frac"]),
        )
        for kernel in device["kernels"][:most]
    ]
    return ReportTable(f"Kernels{where}", ("", "ops", "total", "mean", "of all kernels"), tuple(rows))


def _copies(device: Mapping[str, Any], where: str) -> ReportTable:
    rows = [
        (
            copy["name"],
            units.count(copy["n_ops"]),
            units.duration(copy["total_ns"]),
            units.size(copy["size_bytes"]) if copy["size_bytes"] else "",
            f"{units.size(copy['bandwidth_bytes_per_s'])}/s" if copy["bandwidth_bytes_per_s"] else "",
        )
        for copy in device["copies"][:MOST_ROWS]
    ]
    return ReportTable(f"Copies{where}", ("", "copies", "total", "size", "while copying"), tuple(rows))


def shortened(name: str, length: int = _NAME_LENGTH) -> str:
    """A long name without its middle: kernels of one template differ at the end."""
    head = round(length * _HEAD_FRAC)
    return name if len(name) <= length else f"{name[:head]}…{name[-(length - head - 1) :]}"
