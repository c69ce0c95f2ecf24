"""A report on saved traces for a terminal."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any, Protocol

from perfmagic.analysis.findings.finding import Finding
from perfmagic.analysis.ranks.jobs import mixed_jobs
from perfmagic.analysis.timeline.overlap import breakdown
from perfmagic.base import units
from perfmagic.base.language import say, translated
from perfmagic.base.tables import Table, markdown_table, markdown_text, text_lines
from perfmagic.base.terminal import escaped, wrapped
from perfmagic.trace.model import Trace
from perfmagic.view.html import INDENT, framed, html_section, short, shorten_indented, table_lines
from perfmagic.view.ranks.doc import RanksDoc, rank_table
from perfmagic.view.ranks.summary import ranks_summary
from perfmagic.view.report.tables import (
    MARKDOWN_ROWS,
    TEXT_ROWS,
    answers_table,
    describe_communication,
    describe_windows,
    report_tables,
)
from perfmagic.view.timeline.doc import TimelineDoc
from perfmagic.view.timeline.text import timeline_text

_MANY_FILES = 4  # whose names a title does not list

# The ranks of the jobs in a report on several files.


class TraceOf(Protocol):
    """What a report on several files needs of each result."""

    @property
    def trace(self) -> Trace: ...

    @property
    def comm_names(self) -> str | None: ...

    @property
    def title(self) -> str: ...


def describe_mix(results: Sequence[TraceOf]) -> str:
    """Which jobs the files are of, where it is more than one; "" else."""
    if len(results) < 2:
        return ""
    return "".join(translated(finding.sentence) for finding in mixed_jobs([result.trace for result in results]))


def report_text(doc: TimelineDoc, report: Mapping[str, Any], answers: str = "") -> str:
    """All about one trace for a terminal: what to do, findings, streams and the first rows of each table.

    answers: what to do, as text.
    """
    lines = ["", *wrapped(report["phase_headline"])] if report["phase_headline"] else []
    for table in report_tables(report, TEXT_ROWS, brief=True):
        lines += ["", *table_lines(table)]
    for words in filter(None, (describe_communication(report), describe_windows(report))):
        lines += ["", *wrapped(words)]
    return timeline_text(doc, below=lines, more_in="", answers=answers)


def files_text(results: Sequence[TraceOf], of_jobs: Sequence[str] = ()) -> str:
    """Several traces in one table, a row for each device: extent, busy share, compute, communication, exposed part.

    of_jobs: the texts of the jobs of which several ranks are among them, which come first.
    """
    rows = []
    for result in results:
        trace = result.trace
        parts = [breakdown(trace, device, result.comm_names) for device in trace.device_ids]
        for part in parts:
            name = INDENT + result.title + (f" · {part.device}" if len(parts) > 1 else "")
            rank = "" if trace.meta.rank is None else str(trace.meta.rank)
            times = (part.extent_ns, part.compute_ns, part.communication_ns, part.exposed_communication_ns)
            rows.append((name, rank, units.percent(part.busy_frac), *map(units.duration, times)))
    head = ("", "rank", "busy", "extent", "compute", "communication", "exposed")
    shorten = partial(shorten_indented, among=[row[0].removeprefix(INDENT) for row in rows], kernels=False)
    lines = [line.rstrip() for line in text_lines(Table("", head, rows), shorten=shorten)]
    mixed = wrapped(describe_mix(results)) if describe_mix(results) else []
    return "\n\n".join([*(["\n".join(mixed)] if mixed else []), *of_jobs, "\n".join(lines)])


# A report on saved traces as GitHub's Markdown.


def markdown(
    title: str, header: Sequence[str], findings: Sequence[Finding], trust: Sequence[str], report: Mapping[str, Any]
) -> str:
    """One trace as GitHub's Markdown."""
    shown = report["answers"]
    parts = [
        f"## {markdown_text(title)}",
        f"**{markdown_text(shown['decides'])}**",
        markdown_text(" · ".join(map(translated, header))),
    ]
    said = (report["phase_headline"], describe_windows(report), describe_communication(report))
    parts += [markdown_text(words) for words in said if words]
    answers = answers_table(report)
    parts += [markdown_table(answers)] if answers.rows or answers.note else []
    parts += [markdown_text(f"! {warning}") for warning in shown["warnings"]]
    if findings:
        lines = (f"{'   ' * finding.depth}- {markdown_text(translated(finding.sentence))}" for finding in findings)
        parts.append("\n".join(lines))
    parts += [markdown_table(table) for table in report_tables(report, MARKDOWN_ROWS)]
    if trust:
        parts.append(f"**{say('Trust')}**\n\n" + "\n".join(f"- {markdown_text(translated(words))}" for words in trust))
    return "\n\n".join(parts) + "\n"


def ranks_markdown(results: Sequence[TraceOf], jobs: Sequence[RanksDoc]) -> str:
    """The jobs of which several ranks are among some files as GitHub's Markdown: who decides, what to do, the ranks.

    The findings open with a click.
    """
    parts = [markdown_text(describe_mix(results))] if describe_mix(results) else []
    for doc in jobs:
        summary = ranks_summary(doc)
        answers = answers_table({"answers": translated(doc.answers).to_dict()})
        lines = [f"{i}. {markdown_text(translated(finding.sentence))}" for i, finding in enumerate(doc.findings, 1)]
        opened = f"<details><summary>{summary.findings_summary}</summary>"
        parts += [
            f"## {say('Ranks')}",
            f"**{markdown_text(summary.total)} · {markdown_text(''.join(summary.decider))}**",
            markdown_text(summary.about),
            *([markdown_table(answers)] if answers.rows or answers.note else []),
            *(markdown_text(line) for line in summary.warning_lines),
            markdown_table(rank_table(doc)),
            *([opened, "\n".join(lines), "</details>"] if lines else []),
        ]
    return "\n\n".join(parts) + "\n\n" if parts else ""


# A report on saved traces as HTML for a page.


def html_tables(report: Mapping[str, Any]) -> str:
    """The tables as HTML for a page."""
    said = (report["phase_headline"], describe_windows(report), describe_communication(report))
    head = "".join(f"<p>{escaped(words)}</p>" for words in said if words)
    answers = answers_table(report)
    tables = [*([answers] if answers.rows or answers.note else []), *report_tables(report)]
    return framed(head + "".join(html_section(table) for table in tables))


def page_title(names: Sequence[str]) -> str:
    """The names of the files; of many the first and the last."""
    return ", ".join(names) if len(names) < _MANY_FILES else f"{names[0]} … {names[-1]}, {len(names)} files"


def heading(title: str, results: Sequence[object]) -> str:
    """The title of a section of a page; nothing if there is one section only."""
    return f'<h2 style="font-size:14px;margin:0 0 4px 0">{short(title)}</h2>' if len(results) > 1 else ""


def mixed_html(results: Sequence[TraceOf]) -> str:
    """Which jobs the files are of, where it is more than one; nothing else."""
    words = describe_mix(results)
    return framed(f"<p>{escaped(words)}</p>") if words else ""


def folded(title: str, body: str) -> str:
    """A section of a page that opens with a click, and needs no script for that."""
    return f'<details style="margin:2px 0"><summary>{short(title)}</summary>{body}</details>'
