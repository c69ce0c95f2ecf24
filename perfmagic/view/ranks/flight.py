"""Where ranks hang, by their flight recorders: as text, HTML and Markdown, the answer first."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from perfmagic.analysis.flight.report import FlightReport, RankState
from perfmagic.analysis.flight.words import describe_ranks, spans
from perfmagic.base.language import counted, phrase, say, translated
from perfmagic.base.tables import Column, Table, html_table, markdown_table, text_lines
from perfmagic.base.terminal import cut_to_columns, escaped, wrapped
from perfmagic.view.html import closed, conclusion_html, conclusion_markdown, framed

TITLE, HEAD = "where the ranks are", ("rank", "last ended", "waits in", "state", "line")
MOST_ROWS = 40  # ranks at one place are one row


def flight_text(report: FlightReport, *, details: bool) -> str:
    """Who keeps whom waiting, what to look at, and where the ranks are.  details: the last stack of each, too."""
    more = "" if details else f".text(details=True): {say('the last stack of each rank')}"
    lines = [report.conclusion.text(_about(report)), "", *text_lines(_table(report), shorten=_cut)]
    lines += ["", *wrapped(f"  {more}", indent=2)] if more and _stacks(report) else []
    for title, stack in _stacks(report) if details else ():
        lines += ["", title, *(f"    {frame}" for frame in stack)]
    return "\n".join(line.rstrip() for line in lines)


def flight_html(report: FlightReport) -> str:
    """The same for a notebook; stacks open with a click."""
    stacks = "".join(
        f"<b>{escaped(title)}</b><pre>{escaped(chr(10).join(stack))}</pre>" for title, stack in _stacks(report)
    )
    below = closed(say("the last stack of each rank"), stacks) if stacks else ""
    return framed(conclusion_html(report.conclusion, _about(report)) + html_table(_table(report)) + below)


def flight_markdown(report: FlightReport) -> str:
    """The same as GitHub's Markdown, without stacks."""
    return "\n\n".join([conclusion_markdown(report.conclusion, _about(report)), markdown_table(_table(report))]) + "\n"


def _about(report: FlightReport) -> str:
    n_ranks, n_calls = len(report.ranks), sum(row.n_calls for row in report.ranks)
    recorder = phrase("torch's flight recorder {version}", version=report.version or "?")
    parts = [counted(n_ranks, "{n} dump", "{n} dumps"), recorder, counted(n_calls, "{n} call", "{n} calls")]
    return " · ".join([*map(translated, parts), *([report.library] if report.library else [])])


def _alike(report: FlightReport) -> list[list[RankState]]:
    """The ranks at one place together."""
    groups: dict[object, list[RankState]] = {}
    for row in report.ranks:
        groups.setdefault((row.last_ended, row.waits_in, row.state, row.file, row.line), []).append(row)
    return list(groups.values())


def _who(rows: Sequence[RankState]) -> str:
    return translated(describe_ranks([row.rank for row in rows]))


def _table(report: FlightReport) -> Table:
    alike = _alike(report)
    rows = [
        (
            spans([row.rank for row in rows]),
            rows[0].last_ended,
            rows[0].waits_in,
            rows[0].state,
            _line(rows[0]),
        )
        for rows in alike[:MOST_ROWS]
    ]
    if (hidden := sum(map(len, alike[MOST_ROWS:]))) > 0:
        rows.append((translated(counted(hidden, "{n} more rank", "{n} more ranks")), "", "", "", ".ranks"))
    return Table(TITLE, [Column(words, numeric=False) for words in HEAD], rows)


def _line(row: RankState) -> str:
    return say("{file}, line {line}", file=Path(row.file).name, line=row.line) if row.file else ""


def _stacks(report: FlightReport) -> list[tuple[str, Sequence[str]]]:
    """Who, in which call, and its stack, innermost first; ranks with one stack together."""
    groups: dict[tuple[str, ...], list[RankState]] = {}
    for row in report.ranks:
        if row.stack:
            groups.setdefault((row.waits_in, *row.stack), []).append(row)
    shown = list(groups.items())[:MOST_ROWS]
    return [(" · ".join(filter(None, [_who(rows), waits])), stack) for (waits, *stack), rows in shown]


def _cut(names: Sequence[str], max_columns: int) -> list[str]:
    return [cut_to_columns(name, max_columns) for name in names]
