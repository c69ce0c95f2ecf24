"""The tables of a report on a saved trace, as text cells: the same for terminal, Markdown and page."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from perfmagic import units
from perfmagic.analysis.findings.verdict import cause_words
from perfmagic.view.timeline.lanes import PARTITION_WORDS

TEXT_ROWS, MARKDOWN_ROWS, HTML_ROWS = 5, 15, 200
ALL = "--json has all"


class Cell(str):
    """The text of a cell, with the number it stands for, by which it is sorted, and the name it shortens."""

    value: float | None
    full: str

    __slots__ = ("full", "value")


def cell(text: str, value: float | None = None, full: str = "") -> Cell:
    """A text with what it stands for."""
    made = Cell(text)
    made.value, made.full = value, full
    return made


@dataclass(frozen=True)
class ReportTable:
    """A table of text cells with a title. The first column is left-aligned, the others are right-aligned.

    note: a line below the table, or in its place where there are no rows.  thing: what a row is, in the singular,
    "" where every face shows all rows.  names: what stands in the first column of all rows, whole, where these are
    names that may be shortened.  kernels: whether these are kernels' names.
    """

    title: str
    head: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    note: str = ""
    thing: str = ""
    names: tuple[str, ...] = ()
    kernels: bool = False

    def first(self, most: int) -> ReportTable:
        """The table with its first rows, and a note of how many there are more and where."""
        more = len(self.rows) - most
        if more <= 0 or not self.thing:
            return self
        words = f"and {units.plural(more, f'more {self.thing}')}: {ALL}"
        note = ". ".join(filter(None, (words, self.note)))
        return replace(self, rows=self.rows[:most], note=note)


def report_tables(report: Mapping[str, Any], most: int = HTML_ROWS) -> list[ReportTable]:
    """The tables of one trace, each with its first rows. Tables without rows and note are left out.

    report: from perfmagic.analysis.report.
    """
    found = [_steps(report)]
    for device, where in _devices(report):
        found += [
            _time(device, where),
            _idle(device, where, report),
            _streams(device, where),
            _kernels(device, where),
            _copies(device, where),
            _collectives(device, where),
            _overlaps(device, where),
            _memory(device, where),
        ]
    found += [_operators(report), _annotations(report), _lines(report), _syncs(report)]
    return [table.first(most) for table in found if table.rows or table.note]


def _named(
    title: str, head: tuple[str, ...], rows: Sequence[tuple[str, ...]], thing: str, note: str = ""
) -> ReportTable:
    """A table whose first column has names."""
    return ReportTable(title, head, tuple(rows), note, thing, tuple(whole_names(rows)))


def _time_cell(ns: float) -> Cell:
    return cell(units.duration(ns), ns)


def _count(n: int) -> Cell:
    return cell(units.count(n), n)


def _share(frac: float) -> Cell:
    return cell(units.percent(frac), frac)


def _size(size_bytes: int | None) -> Cell:
    return cell(units.size(size_bytes), size_bytes) if size_bytes else cell("")


def _rate(bytes_per_s: float | None) -> Cell:
    return cell(f"{units.size(bytes_per_s)}/s", bytes_per_s) if bytes_per_s else cell("")


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


def _time(device: Mapping[str, Any], where: str) -> ReportTable:
    extent_ns = device["extent_ns"]
    rows = [
        (PARTITION_WORDS[key], _time_cell(ns), _share(ns / extent_ns)) for key, ns in device["partition"].items() if ns
    ]
    return ReportTable(f"Where the {units.duration(extent_ns)} went{where}", ("", "time", "share"), tuple(rows))


def _streams(device: Mapping[str, Any], where: str) -> ReportTable:
    deepest = {queue["stream"]: queue["ops_max"] for queue in device["queues"]}
    rows = [
        (
            cell(f"stream {stream['stream']}", stream["stream"]),
            _count(stream["n_ops"]),
            _time_cell(stream["busy_ns"]),
            _share(stream["busy_frac"]),
            _count(deepest[stream["stream"]]) if stream["stream"] in deepest else "",
        )
        for stream in device["streams"]
    ]
    head = ("", "ops", "busy", "of the extent", "queue ≤")
    return ReportTable(f"Streams{where}", head, tuple(rows), thing="stream")


def _steps(report: Mapping[str, Any]) -> ReportTable:
    rows = [
        (
            cell(f"step {step['number']}", step["number"]),
            _time_cell(step["duration_ns"]),
            _share(step["busy_frac"]),
            *(_time_cell(step[f"{what}_ns"]) for what in ("compute", "communication", "copy")),
            _count(step["n_ops"]),
        )
        for step in report["steps"]
    ]
    head = ("", "on the host", "busy", "compute", "communication", "copies", "ops")
    return ReportTable("Steps", head, tuple(rows), thing="step")


def _idle(device: Mapping[str, Any], where: str, report: Mapping[str, Any]) -> ReportTable:
    idle_ns = device["idle_ns"]
    simulated = any(one["kind"] == "sim" for one in report["meta"]["devices"])
    causes = sorted(device["idle"]["by_cause_ns"].items(), key=lambda item: -item[1])
    rows = [
        (f"waiting for {cause_words(cause, simulated=simulated)}", _time_cell(ns), _share(ns / idle_ns))
        for cause, ns in causes
        if ns
    ]
    return ReportTable(f"Idle by cause{where}", ("", "time", "of idle"), tuple(rows))


def _collectives(device: Mapping[str, Any], where: str) -> ReportTable:
    rows = [
        (
            f"{one['name']} {one['dtype']}".rstrip() + (f", group {one['group']}" if one["group"] else ""),
            _count(one["n_ops"]),
            _time_cell(one["total_ns"]),
            _size(one["size_bytes"]),
            _rate(one["bus_bytes_per_s"]),
        )
        for one in device["collectives"]
    ]
    head = ("", "ops", "total", "size", "bus bandwidth")
    note = "; ".join(note["words"] for note in device["notes"])
    return _named(f"Collectives{where}", head, rows, "collective", note)


def _kernels(device: Mapping[str, Any], where: str) -> ReportTable:
    rows = [
        (
            cell(kernel["short_name"], full=kernel["name"]),
            _count(kernel["n_ops"]),
            _time_cell(kernel["total_ns"]),
            _time_cell(kernel["mean_ns"]),
            _share(kernel["share_frac"]),
        )
        for kernel in device["kernels"]
    ]
    head = ("", "ops", "total", "mean", "of all kernels")
    return replace(_named(f"Kernels{where}", head, rows, "kernel"), kernels=True)


def _copies(device: Mapping[str, Any], where: str) -> ReportTable:
    rows = [
        (
            copy["name"],
            _count(copy["n_ops"]),
            _time_cell(copy["total_ns"]),
            _size(copy["size_bytes"]),
            _rate(copy["bandwidth_bytes_per_s"]),
        )
        for copy in device["copies"]
    ]
    head = ("", "copies", "total", "size", "while copying")
    return _named(f"Copies{where}", head, rows, "kind")


def _overlaps(device: Mapping[str, Any], where: str) -> ReportTable:
    rows = [
        (
            f"{one['first']} and {one['second']}",
            _time_cell(one["overlap_ns"]),
            _share(one["frac_of_first"]),
            _share(one["frac_of_second"]),
        )
        for one in sorted(device["overlaps"], key=lambda one: -one["overlap_ns"])
        if one["overlap_ns"]
    ]
    head = ("", "time", "of the first", "of the second")
    return ReportTable(f"At the same time{where}", head, tuple(rows), thing="pair")


def _memory(device: Mapping[str, Any], where: str) -> ReportTable:
    memory = device["memory"]
    if memory is None:
        return ReportTable(f"Memory{where}", (), ())
    rows: list[tuple[str, ...]] = [("allocated, at most", _size(memory["peak_bytes"]))]
    rows += [("reserved, at most", _size(memory["reserved_max_bytes"]))] if memory["reserved_max_bytes"] else []
    return ReportTable(f"Memory{where}", ("", "size"), tuple(rows))


def _operators(report: Mapping[str, Any]) -> ReportTable:
    rows = [
        (
            cell(one["name"], full=one["name"]),
            _count(one["n_calls"]),
            *(_time_cell(one[f"{what}_ns"]) for what in ("host", "host_self", "device", "device_self")),
            _count(one["n_ops"]),
        )
        for one in report["operators"]
    ]
    head = ("", "calls", "host", "host, self", "device", "device, self", "ops")
    return _named("Operators", head, rows, "operator")


def _annotations(report: Mapping[str, Any]) -> ReportTable:
    rows = [
        (
            cell(one["name"], full=one["name"]),
            _count(one["n_occurrences"]),
            _time_cell(one["host_ns"]),
            _time_cell(one["busy_ns"]),
            _count(one["n_ops"]),
        )
        for one in report["annotations"]
    ]
    head = ("", "times", "host", "device busy", "ops")
    return _named("Annotations", head, rows, "annotation")


def _lines(report: Mapping[str, Any]) -> ReportTable:
    rows = [
        (
            cell(f"{one['line']}: {one['text'].strip()}", one["line"]),
            *(_time_cell(one[f"{what}_ns"]) for what in ("host", "blocked", "device", "queued", "idle")),
            _count(one["n_ops"]),
        )
        for one in report["lines"]
    ]
    head = ("", "host", "blocked", "device", "queued", "idle", "ops")
    return ReportTable("Lines of the cell", head, tuple(rows), thing="line")


def _syncs(report: Mapping[str, Any]) -> ReportTable:
    rows = [
        (
            one["asked_by"] + (f", line {', '.join(map(str, one['lines']))}" if one["lines"] else ""),
            _count(one["n_calls"]),
            _time_cell(one["blocked_ns"]),
            _time_cell(one["busy_ns"]),
        )
        for one in report["syncs"]
    ]
    head = ("", "calls", "Python blocked", "device busy meanwhile")
    return _named("Waits for the device", head, rows, "wait")


def whole_names(rows: Sequence[Sequence[str]]) -> list[str]:
    """The first cells of some rows before they were shortened."""
    return [row[0].full or row[0] if isinstance(row[0], Cell) else row[0] for row in rows]
