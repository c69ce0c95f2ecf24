"""A report on saved traces for a terminal, at most 100 columns wide."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from perfmagic import units
from perfmagic.analysis.timeline.overlap import breakdown
from perfmagic.view.ranks.doc import RanksDoc
from perfmagic.view.ranks.text import ranks_text
from perfmagic.view.report.ranks import TraceOf, mixed_words
from perfmagic.view.report.table import ReportTable
from perfmagic.view.report.tables import brief_tables, communication_words, shortened, windows_words
from perfmagic.view.svg.metrics import columns, cut_to_columns
from perfmagic.view.text import table, wrapped
from perfmagic.view.timeline.doc import TimelineDoc
from perfmagic.view.timeline.text import timeline_text

_NAME_COLUMNS = 52  # leaves room for four numbers
_TITLE_COLUMNS = 36


def report_text(doc: TimelineDoc, report: Mapping[str, Any]) -> str:
    """One trace for a terminal: findings, streams and the brief tables, at most 100 columns wide."""
    lines = []
    for one in brief_tables(report):
        lines += ["", *_text_table(one)]
    for words in filter(None, (communication_words(report), windows_words(report))):
        lines += ["", *wrapped(words)]
    return timeline_text(doc, below=lines, more_in="")


def files_text(results: Sequence[TraceOf], ranks: Sequence[RanksDoc] = ()) -> str:
    """Several traces in one table, a row for each device: extent, busy share, compute, communication, exposed part.

    ranks: the jobs of which several ranks are among them, which follow with findings and tables of their own.
    """
    rows = []
    for result in results:
        trace = result.trace
        parts = [breakdown(trace, device, result.comm_names) for device in trace.device_ids]
        for part in parts:
            name = cut_to_columns(result.title, _TITLE_COLUMNS) + (f" · {part.device}" if len(parts) > 1 else "")
            rank = "" if trace.meta.rank is None else str(trace.meta.rank)
            times = (part.extent_ns, part.compute_ns, part.communication_ns, part.exposed_communication_ns)
            rows.append((name, rank, units.percent(part.busy_frac), *map(units.duration, times)))
    head = ("", "rank", "busy", "extent", "compute", "communication", "exposed")
    widths = [max(columns(row[i]) for row in (head, *rows)) + 2 for i in range(len(head))]
    lines = [line.rstrip() for line in table(head, rows, widths)]
    mixed = wrapped(mixed_words(results)) if mixed_words(results) else []
    return "\n\n".join(["\n".join(lines), *(["\n".join(mixed)] if mixed else []), *(ranks_text(doc) for doc in ranks)])


def _text_table(one: ReportTable) -> list[str]:
    if not one.rows:
        return wrapped(f"{one.title}: {one.note}")
    rows = [(f"  {shortened(row[0].removeprefix('void '), _NAME_COLUMNS)}", *row[1:]) for row in one.rows]
    head = (f"  {one.title}", *one.head[1:])
    widths = [max(columns(row[i]) for row in (head, *rows)) + 2 for i in range(len(head))]
    return [*(line.rstrip() for line in table(head, rows, widths)), *(wrapped(one.note) if one.note else [])]
