"""A report on saved traces as tables: the same rows for Markdown and for a page."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from perfmagic import units
from perfmagic.analysis.overlap import breakdown
from perfmagic.analysis.ranks import RankFinding, rank_findings
from perfmagic.trace.model import Trace
from perfmagic.view.canvas import escaped
from perfmagic.view.html import framed, short
from perfmagic.view.metrics import columns, cut_to_columns
from perfmagic.view.text import GUTTER, table, wrapped

MOST_ROWS = 15
_NAME_LENGTH, _HEAD = 110, 60
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
    """A titled table of words; the first column stands left, the others right."""

    title: str
    head: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]


def report_tables(report: Mapping[str, Any]) -> list[ReportTable]:
    """The tables of one trace, from what perfmagic.analysis.report gives; those without rows are left out."""
    several = len(report["devices"]) > 1
    found = []
    for number, device in report["devices"].items():
        where = f", {device['label']} {number}" if several else ""
        found += [
            _time(device, where),
            _streams(device, where),
            _kernels(device, where),
            _copies(device, where),
        ]
    return [table for table in found if table.rows]


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
    """What the ranks say together, see perfmagic.analysis.ranks; nothing of one file."""
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
    if sentences:
        parts.append("\n".join(f"{i}. {_plain(sentence)}" for i, sentence in enumerate(sentences, 1)))
    parts += [_markdown_table(table) for table in report_tables(report)]
    if trust:
        parts.append("**Trust**\n\n" + "\n".join(f"- {_plain(sentence)}" for sentence in trust))
    return "\n\n".join(parts) + "\n"


def html_tables(report: Mapping[str, Any]) -> str:
    """The tables as HTML for a page."""
    return framed("".join(_html_table(table) for table in report_tables(report)))


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


def _kernels(device: Mapping[str, Any], where: str) -> ReportTable:
    total_ns = device["sum_dur_ns"]
    rows = [
        (
            _cut(kernel["name"]),
            units.count(kernel["calls"]),
            units.duration(kernel["total_ns"]),
            units.duration(kernel["total_ns"] / kernel["calls"]),
            units.percent(kernel["total_ns"] / total_ns) if total_ns else "",
        )
        for kernel in device["top_kernels"][:MOST_ROWS]
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
    lines = [
        f"**{_plain(table.title)}**",
        "",
        _markdown_row(table.head),
        _markdown_row(["---", *["---:"] * len(table.head[1:])]),
    ]
    return "\n".join([*lines, *(_markdown_row(row) for row in table.rows)])


def _markdown_row(cells: Sequence[str]) -> str:
    return "| " + " | ".join(_plain(cell) if set(cell) - set("-:") else cell for cell in cells) + " |"


def _plain(text: str) -> str:
    """Other people's names as text: nothing in them is markup."""
    for character in "\\`*_[]|":
        text = text.replace(character, "\\" + character)
    return text.replace("<", "&lt;").replace(">", "&gt;").replace("\n", " ")


def _html_table(table: ReportTable) -> str:
    title = f'<h2 style="font-size:13px;margin:0">{short(table.title)}</h2>'
    rows = _html_row(table.head, "th") + "".join(_html_row(row, "td") for row in table.rows)
    return f'{title}<table style="border-collapse:collapse;margin:4px 0 16px 0">{rows}</table>'


def _html_row(cells: Sequence[str], tag: str) -> str:
    weight = 400 if tag == "td" else 600
    found = ""
    for i, cell in enumerate(cells):
        style = f"padding:2px 12px 2px 0;text-align:{'right' if i else 'left'};font-weight:{weight}"
        found += f'<{tag} style="{style}">{escaped(cell)}</{tag}>'
    return f"<tr>{found}</tr>"


def _cut(name: str) -> str:
    """A long name without its middle: kernels of one template differ at the end."""
    return name if len(name) <= _NAME_LENGTH else f"{name[:_HEAD]}…{name[-(_NAME_LENGTH - _HEAD - 1) :]}"
