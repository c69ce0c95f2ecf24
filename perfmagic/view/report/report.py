"""A report on saved traces as tables: the same rows for Markdown and for a page."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from perfmagic import units
from perfmagic.analysis.findings.verdict import cause_words
from perfmagic.analysis.ranks.findings import RankFinding, rank_findings
from perfmagic.analysis.timeline.overlap import breakdown
from perfmagic.trace.model import Trace
from perfmagic.view.html import framed, short
from perfmagic.view.svg.canvas import escaped
from perfmagic.view.svg.metrics import columns, cut_to_columns
from perfmagic.view.text import table, wrapped
from perfmagic.view.timeline.doc import TimelineDoc
from perfmagic.view.timeline.text import GUTTER, timeline_text

MOST_ROWS = 15
BRIEF_ROWS = 5  # of kernels, in a terminal
_TEXT_NAME = 52  # columns of a name in a terminal, so that four numbers stand beside it
_NAME_LENGTH, _HEAD_FRAC = 110, 0.55
_TITLE_COLUMNS = 36
_PARTS = (
    ("compute alone", "compute_alone_ns"),
    ("compute beside copies or communication", "compute_with_other_ns"),
    ("exposed communication", "exposed_comm_ns"),
    ("exposed copies", "exposed_copy_ns"),
    ("memset alone", "memset_alone_ns"),
    ("idle", "idle_ns"),
)


class TraceOf(Protocol):
    """A result of a trace: what the table of several files needs of it."""

    @property
    def trace(self) -> Trace: ...

    @property
    def comm_names(self) -> str | None: ...

    @property
    def title(self) -> str: ...


@dataclass(frozen=True)
class ReportTable:
    """A titled table of words; the first column stands left, the others right.

    note: what stands below it, or alone where there are no rows.
    """

    title: str
    head: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    note: str = ""


def report_tables(report: Mapping[str, Any]) -> list[ReportTable]:
    """The tables of one trace, from what perfmagic.analysis.report gives; those without rows are left out."""
    found = [_steps(report)]
    for device, where in _devices(report):
        found += [
            _time(device, where),
            _idle(device, where, report),
            _streams(device, where),
            _kernels(device, where, MOST_ROWS),
            _copies(device, where),
            _collectives(device, where),
        ]
    return [table for table in found if table.rows or table.note]


def brief_tables(report: Mapping[str, Any]) -> list[ReportTable]:
    """The tables for a terminal: steps, and of each device idle time by cause and the kernels that took the most."""
    found = [_steps(report)]
    for device, where in _devices(report):
        found += [
            _idle(device, where, report),
            _kernels(device, where, BRIEF_ROWS),
            _note_alone(_collectives(device, where)),
        ]
    return [table for table in found if table.rows or table.note]


def _devices(report: Mapping[str, Any]) -> list[tuple[Mapping[str, Any], str]]:
    """Each device, and the words that name it in a title where there are several."""
    several = len(report["devices"]) > 1
    return [(d, f", {d['label']} {number}" if several else "") for number, d in report["devices"].items()]


def _note_alone(table: ReportTable) -> ReportTable:
    return ReportTable(table.title, table.head, (), table.note)


def windows_words(report: Mapping[str, Any]) -> str:
    """What the two lengths in a report are, where they read differently; nothing where they do not, or of a cell.

    The first line has the length of all records, the tables that of a device's ops.
    """
    meta, devices = report["meta"], report["devices"]
    spans_ns = sorted(device["span_ns"] for device in devices.values())
    extents = list(dict.fromkeys(units.duration(ns) for ns in (spans_ns[:1] + spans_ns[-1:])))
    whole = units.duration(meta["end_ns"] - meta["start_ns"])
    if meta["returned_ns"] is not None or extents in ([], [whole]):
        return ""
    return (
        f"{whole} is from the first record to the last, those of the host too; {' to '.join(extents)} is from the "
        "first op of a device to its last (the extent): busy, idle and shares are of that"
    )


def report_text(doc: TimelineDoc, report: Mapping[str, Any]) -> str:
    """One trace for a terminal: findings, streams and the brief tables, at most 100 columns wide."""
    lines = []
    for one in brief_tables(report):
        lines += ["", *_text_table(one)]
    if words := windows_words(report):
        lines += ["", *wrapped(words)]
    return timeline_text(doc, below=lines)


def _text_table(one: ReportTable) -> list[str]:
    if not one.rows:
        return wrapped(f"{one.title}: {one.note}")
    rows = [(f"  {_cut(row[0].removeprefix('void '), _TEXT_NAME)}", *row[1:]) for row in one.rows]
    head = (f"  {one.title}", *one.head[1:])
    widths = [max(columns(row[i]) for row in (head, *rows)) + 2 for i in range(len(head))]
    return [*(line.rstrip() for line in table(head, rows, widths)), *(wrapped(one.note) if one.note else [])]


def files_text(results: Sequence[TraceOf]) -> str:
    """Several traces side by side, a row a device: how long, how busy, and how much communication was exposed."""
    rows = []
    for result in results:
        trace = result.trace
        parts = [breakdown(trace, device, result.comm_names) for device in trace.device_ids]
        for part in parts:
            name = cut_to_columns(result.title, _TITLE_COLUMNS) + (f" · {part.device}" if len(parts) > 1 else "")
            rank = "" if trace.meta.rank is None else str(trace.meta.rank)
            times = (part.extent_ns, part.compute_ns, part.comm_ns, part.exposed_comm_ns)
            rows.append((name, rank, units.percent(part.busy_frac), *map(units.duration, times)))
    head = ("", "rank", "busy", "extent", "compute", "comm", "exposed")
    widths = [max(columns(row[i]) for row in (head, *rows)) + 2 for i in range(len(head))]
    lines = [line.rstrip() for line in table(head, rows, widths)]
    return "\n".join([*lines, *_rank_lines(_of_ranks(results))])


def _of_ranks(results: Sequence[TraceOf]) -> tuple[RankFinding, ...]:
    """What the ranks say together, see perfmagic.analysis.ranks.findings; nothing of one file."""
    return rank_findings([r.trace for r in results], results[0].comm_names) if len(results) > 1 else ()


def _rank_lines(found: Sequence[RankFinding]) -> list[str]:
    lines = [""] if found else []
    for finding in found:
        cost = "" if finding.cost_ns is None else units.duration(finding.cost_ns)
        lines += wrapped(f"{cost:>{GUTTER}}  {finding.sentence}", indent=GUTTER + 2)
    return lines


def ranks_markdown(results: Sequence[TraceOf]) -> str:
    """What the ranks say together as GitHub's Markdown; nothing of one file."""
    found = _of_ranks(results)
    lines = [f"{i}. {_plain(finding.sentence)}" for i, finding in enumerate(found, 1)]
    return "\n".join(["## Ranks", "", *lines, "", ""]) if found else ""


def ranks_html(results: Sequence[TraceOf]) -> str:
    """What the ranks say together as HTML for a page; nothing of one file."""
    found = _of_ranks(results)
    items = "".join(f"<li>{escaped(finding.sentence)}</li>" for finding in found)
    head = '<h2 style="font-size:14px;margin:0 0 4px 0">Ranks</h2>'
    return framed(f"{head}<ol>{items}</ol>") if found else ""


def heading(title: str, results: Sequence[object]) -> str:
    """The name above a section of a page that has several."""
    return f'<h2 style="font-size:14px;margin:0 0 4px 0">{short(title)}</h2>' if len(results) > 1 else ""


def markdown(title: str, header: str, sentences: Sequence[str], trust: Sequence[str], report: Mapping[str, Any]) -> str:
    """One trace as GitHub's Markdown."""
    parts = [f"## {_plain(title)}", _plain(header)]
    if words := windows_words(report):
        parts.append(_plain(words))
    if sentences:
        parts.append("\n".join(f"{i}. {_plain(sentence)}" for i, sentence in enumerate(sentences, 1)))
    parts += [_markdown_table(table) for table in report_tables(report)]
    if trust:
        parts.append("**Trust**\n\n" + "\n".join(f"- {_plain(sentence)}" for sentence in trust))
    return "\n\n".join(parts) + "\n"


def html_tables(report: Mapping[str, Any]) -> str:
    """The tables as HTML for a page."""
    words = windows_words(report)
    head = f"<p>{escaped(words)}</p>" if words else ""
    return framed(head + "".join(_html_table(table) for table in report_tables(report)))


def _time(device: Mapping[str, Any], where: str) -> ReportTable:
    span_ns = device["span_ns"]
    rows = [
        (words, units.duration(device["partition"][key]), units.percent(device["partition"][key] / span_ns))
        for words, key in _PARTS
        if span_ns and device["partition"][key]
    ]
    return ReportTable(f"Where the {units.duration(span_ns)} went{where}", ("", "time", "share"), tuple(rows))


def _streams(device: Mapping[str, Any], where: str) -> ReportTable:
    rows = [
        (
            f"stream {name}",
            units.count(stream["n"]),
            units.duration(stream["busy_ns"]),
            units.percent(stream["busy_ns"] / device["span_ns"]) if device["span_ns"] else "",
            units.count(device["queues"][name]["ops_max"]) if name in device["queues"] else "",
        )
        for name, stream in list(device["streams"].items())[:MOST_ROWS]
    ]
    return ReportTable(f"Streams{where}", ("", "ops", "busy", "of the extent", "queue ≤"), tuple(rows))


def _steps(report: Mapping[str, Any]) -> ReportTable:
    rows = [
        (
            f"step {step['number']}",
            units.duration(step["duration_ns"]),
            units.percent(step["busy_frac"]),
            *(units.duration(step[f"{what}_ns"]) for what in ("compute", "comm", "copy")),
            units.count(step["n_ops"]),
        )
        for step in report["steps"][:MOST_ROWS]
    ]
    more = len(report["steps"]) - MOST_ROWS
    note = f"and {units.plural(more, 'more step')}" if more > 0 else ""
    return ReportTable("Steps", ("", "on the host", "busy", "compute", "comm", "copies", "ops"), tuple(rows), note)


def _idle(device: Mapping[str, Any], where: str, report: Mapping[str, Any]) -> ReportTable:
    idle_ns = device["idle_ns"]
    simulated = any(one["kind"] == "sim" for one in report["meta"]["devices"])
    causes = sorted(device["idle"]["by_cause_ns"].items(), key=lambda item: -item[1])
    rows = [
        (f"waiting for {cause_words(cause, simulated=simulated)}", units.duration(ns), units.percent(ns / idle_ns))
        for cause, ns in causes
        if ns
    ]
    return ReportTable(f"Idle by cause{where}", ("", "time", "of idle"), tuple(rows))


def _collectives(device: Mapping[str, Any], where: str) -> ReportTable:
    rows = [
        (
            f"{_cut(one['name'])} {one['dtype']}".rstrip() + (f", group {one['group']}" if one["group"] else ""),
            units.count(one["n"]),
            units.duration(one["duration_ns"]),
            units.size(one["size_bytes"]) if one["size_bytes"] is not None else "",
            f"{units.size(one['bus_bytes_per_s'])}/s" if one["bus_bytes_per_s"] else "",
        )
        for one in device["collectives"][:MOST_ROWS]
    ]
    head = ("", "ops", "total", "size", "bus bandwidth")
    return ReportTable(f"Collectives{where}", head, tuple(rows), device["collectives_note"])


def _kernels(device: Mapping[str, Any], where: str, most: int) -> ReportTable:
    total_ns = device["sum_dur_ns"]
    rows = [
        (
            _cut(kernel["name"]),
            units.count(kernel["calls"]),
            units.duration(kernel["total_ns"]),
            units.duration(kernel["total_ns"] / kernel["calls"]),
            units.percent(kernel["total_ns"] / total_ns) if total_ns else "",
        )
        for kernel in device["top_kernels"][:most]
    ]
    return ReportTable(f"Kernels{where}", ("", "calls", "total", "mean", "of all ops"), tuple(rows))


def _copies(device: Mapping[str, Any], where: str) -> ReportTable:
    rows = [
        (
            name,
            units.count(copy["n"]),
            units.duration(copy["ns"]),
            units.size(copy["bytes"]) if copy["bytes"] else "",
            f"{copy['GBps']:.3g} GB/s" if copy["GBps"] else "",
        )
        for name, copy in list(device["memcpy"].items())[:MOST_ROWS]
    ]
    return ReportTable(f"Copies{where}", ("", "copies", "total", "size", "while copying"), tuple(rows))


def _markdown_table(table: ReportTable) -> str:
    if not table.rows:
        return f"**{_plain(table.title)}**: {_plain(table.note)}"
    lines = [
        f"**{_plain(table.title)}**",
        "",
        _markdown_row(table.head),
        _markdown_row(["---", *["---:"] * len(table.head[1:])]),
    ]
    note = ["", _plain(table.note)] if table.note else []
    return "\n".join([*lines, *(_markdown_row(row) for row in table.rows), *note])


def _markdown_row(cells: Sequence[str]) -> str:
    return "| " + " | ".join(_plain(cell) if set(cell) - set("-:") else cell for cell in cells) + " |"


def _plain(text: str) -> str:
    """Other people's names as text: nothing in them is markup."""
    for character in "\\`*_[]|":
        text = text.replace(character, "\\" + character)
    return text.replace("<", "&lt;").replace(">", "&gt;").replace("\n", " ")


def _html_table(table: ReportTable) -> str:
    title = f'<h2 style="font-size:13px;margin:0">{short(table.title)}</h2>'
    note = f'<p style="margin:4px 0 16px 0">{escaped(table.note)}</p>' if table.note else ""
    if not table.rows:
        return title + note
    rows = _html_row(table.head, "th") + "".join(_html_row(row, "td") for row in table.rows)
    return f'{title}<table style="border-collapse:collapse;margin:4px 0 16px 0">{rows}</table>{note}'


def _html_row(cells: Sequence[str], tag: str) -> str:
    weight = 400 if tag == "td" else 600
    found = ""
    for i, cell in enumerate(cells):
        style = f"padding:2px 12px 2px 0;text-align:{'right' if i else 'left'};font-weight:{weight}"
        found += f'<{tag} style="{style}">{escaped(cell)}</{tag}>'
    return f"<tr>{found}</tr>"


def _cut(name: str, length: int = _NAME_LENGTH) -> str:
    """A long name without its middle: kernels of one template differ at the end."""
    head = round(length * _HEAD_FRAC)
    return name if len(name) <= length else f"{name[:head]}…{name[-(length - head - 1) :]}"
