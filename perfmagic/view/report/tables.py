"""The tables of a report on a saved trace, as text cells: the same for terminal, Markdown and page."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from perfmagic import units
from perfmagic.analysis.timeline.idle import CAUSES
from perfmagic.trace.short_names import short_names
from perfmagic.view.report import host
from perfmagic.view.report.operators import brief_operator_table, category_table, operator_table
from perfmagic.view.report.table import (
    ReportTable,
    cell,
    columns_of,
    count_cell,
    named_table,
    rate_cell,
    share_cell,
    size_cell,
    time_cell,
)
from perfmagic.view.timeline.lanes import PARTITION_WORDS

TEXT_ROWS, MARKDOWN_ROWS, HTML_ROWS = 5, 15, 200
RULE_NAMES, RULE_LENGTH = 15, 60  # names in a sentence on communication, and the columns of each


def report_tables(report: Mapping[str, Any], most: int = HTML_ROWS, *, brief: bool = False) -> list[ReportTable]:
    """The tables of one trace, each with its first rows. Tables without rows and note are left out.

    report: from perfmagic.analysis.report.  brief: as a terminal has room for; without those of the streams, which the
    timeline's own text has.
    """
    found = [host.steps_table(report)]
    # where work is missing from a record, nobody can tell what its idle time waited for
    lacks = any(remark["kind"] in ("sample", "graph_ops") for remark in report["trust"]["remarks"])
    for device, where in _devices(report):
        found += [
            _time(device, where),
            *([] if lacks else [_idle(device, where)]),
            *([] if brief else [_streams(device, where)]),
            category_table(device, where),
            brief_operator_table(device, where) if brief else operator_table(device, where),
            _kernels(device, where),
            _copies(device, where),
            _collectives(device, where),
            _overlaps(device, where),
            _memory(device, where),
        ]
    found += [
        host.operators_table(report),
        host.annotations_table(report),
        host.lines_table(report),
        host.syncs_table(report),
    ]
    return [table.first(most) for table in found if table.rows or table.note]


def _devices(report: Mapping[str, Any]) -> list[tuple[Mapping[str, Any], str]]:
    """Each device, and the words that name it in a title if there are several."""
    several = len(report["devices"]) > 1
    return [(d, f", {d['label']} {number}" if several else "") for number, d in report["devices"].items()]


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
    names = list(short_names(report["communication_kernels"], RULE_LENGTH).values())
    more = f" and {units.count(len(names) - RULE_NAMES)} more" if len(names) > RULE_NAMES else ""
    shown = ", ".join(names[:RULE_NAMES])
    matched = f"{units.plural(len(names), 'kernel name')}: {shown}{more}" if names else "no kernel name"
    return f"As communication count kernels that match {report['comm_names']!r}: {matched}."


def _time(device: Mapping[str, Any], where: str) -> ReportTable:
    extent_ns = device["extent_ns"]
    rows = [
        (PARTITION_WORDS[key], time_cell(ns), share_cell(ns / extent_ns))
        for key, ns in device["partition"].items()
        if ns
    ]
    return ReportTable(f"Where the {units.duration(extent_ns)} went{where}", ("", "time", "share"), tuple(rows))


def _streams(device: Mapping[str, Any], where: str) -> ReportTable:
    deepest = {queue["stream"]: queue["ops_max"] for queue in device["queues"]}
    rows = [
        (
            cell(f"stream {stream['stream']}", stream["stream"]),
            count_cell(stream["n_ops"]),
            time_cell(stream["busy_ns"]),
            share_cell(stream["busy_frac"]),
            count_cell(deepest[stream["stream"]]) if stream["stream"] in deepest else "",
        )
        for stream in device["streams"]
    ]
    head = ("", "ops", "busy", "of the extent", "queue ≤")
    return ReportTable(f"Streams{where}", head, tuple(rows), thing="stream")


def _idle(device: Mapping[str, Any], where: str) -> ReportTable:
    idle_ns = device["idle_ns"]
    by_cause = dict(device["idle"]["by_cause_ns"])
    inside_ns = by_cause.pop("in_call")
    by_cause["in_python"] += inside_ns
    named = []
    for cause, ns in sorted(by_cause.items(), key=lambda item: -item[1]):
        named += [(f"waiting {CAUSES[cause]}", ns)]
        named += [("  of it inside calls into the driver", inside_ns)] if cause == "in_python" else []
    rows = [(words, time_cell(ns), share_cell(ns / idle_ns)) for words, ns in named if ns]
    return ReportTable(f"Idle by cause{where}", ("", "time", "of idle"), tuple(rows))


def _collectives(device: Mapping[str, Any], where: str) -> ReportTable:
    head, rows = columns_of(
        device["collectives"],
        lambda one: f"{one['name']} {one['dtype']}".rstrip() + (f", group {one['group']}" if one["group"] else ""),
        (
            ("ops", count_cell, "n_ops"),
            ("total", time_cell, "total_ns"),
            ("size", size_cell, "size_bytes"),
            ("bus bandwidth", rate_cell, "bus_bytes_per_s"),
        ),
    )
    note = "; ".join(note["words"] for note in device["notes"])
    return named_table(f"Collectives{where}", head, rows, "collective", note)


def _kernels(device: Mapping[str, Any], where: str) -> ReportTable:
    head, rows = columns_of(
        device["kernels"],
        lambda kernel: cell(kernel["short_name"], full=kernel["name"]),
        (
            ("ops", count_cell, "n_ops"),
            ("total", time_cell, "total_ns"),
            ("mean", time_cell, "mean_ns"),
            ("of all kernels", share_cell, "share_frac"),
        ),
    )
    return replace(named_table(f"Kernels{where}", head, rows, "kernel"), kernels=True)


def _copies(device: Mapping[str, Any], where: str) -> ReportTable:
    head, rows = columns_of(
        device["copies"],
        lambda copy: copy["name"],
        (
            ("copies", count_cell, "n_ops"),
            ("total", time_cell, "total_ns"),
            ("size", size_cell, "size_bytes"),
            ("while copying", rate_cell, "bandwidth_bytes_per_s"),
        ),
    )
    return named_table(f"Copies{where}", head, rows, "kind")


def _overlaps(device: Mapping[str, Any], where: str) -> ReportTable:
    head, rows = columns_of(
        [one for one in sorted(device["overlaps"], key=lambda one: -one["overlap_ns"]) if one["overlap_ns"]],
        lambda one: f"{one['first']} and {one['second']}",
        (
            ("time", time_cell, "overlap_ns"),
            ("of the first", share_cell, "frac_of_first"),
            ("of the second", share_cell, "frac_of_second"),
        ),
    )
    return ReportTable(f"At the same time{where}", head, tuple(rows), thing="pair")


def _memory(device: Mapping[str, Any], where: str) -> ReportTable:
    memory = device["memory"]
    if memory is None:
        return ReportTable(f"Memory{where}", (), ())
    rows: list[tuple[str, ...]] = [("allocated, at most", size_cell(memory["peak_bytes"]))]
    rows += [("reserved, at most", size_cell(memory["reserved_max_bytes"]))] if memory["reserved_max_bytes"] else []
    return ReportTable(f"Memory{where}", ("", "size"), tuple(rows))
