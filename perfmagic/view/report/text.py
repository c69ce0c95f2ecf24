"""A report on saved traces for a terminal."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any

from perfmagic import units
from perfmagic.analysis.timeline.overlap import breakdown
from perfmagic.trace.short_names import short_names
from perfmagic.view.ranks.doc import RanksDoc
from perfmagic.view.ranks.text import ranks_text
from perfmagic.view.report.ranks import TraceOf, mixed_words
from perfmagic.view.report.table import ReportTable, whole_names
from perfmagic.view.report.tables import TEXT_ROWS, communication_words, report_tables, windows_words
from perfmagic.view.text import table, wrapped
from perfmagic.view.timeline.doc import TimelineDoc
from perfmagic.view.timeline.text import timeline_text

INDENT = "  "
MOST_NAMES = 500  # from which those shown are told: far fewer are shown


def report_text(doc: TimelineDoc, report: Mapping[str, Any]) -> str:
    """One trace for a terminal: findings, streams and the first rows of each table, as wide as the terminal."""
    lines = []
    for one in report_tables(report, TEXT_ROWS, brief=True):
        lines += ["", *table_lines(one)]
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
            name = INDENT + result.title + (f" · {part.device}" if len(parts) > 1 else "")
            rank = "" if trace.meta.rank is None else str(trace.meta.rank)
            times = (part.extent_ns, part.compute_ns, part.communication_ns, part.exposed_communication_ns)
            rows.append((name, rank, units.percent(part.busy_frac), *map(units.duration, times)))
    head = ("", "rank", "busy", "extent", "compute", "communication", "exposed")
    shorten = partial(_shortened, among=[row[0].removeprefix(INDENT) for row in rows], kernels=False)
    lines = [line.rstrip() for line in table(head, rows, shorten=shorten)]
    mixed = wrapped(mixed_words(results)) if mixed_words(results) else []
    return "\n\n".join(["\n".join(lines), *(["\n".join(mixed)] if mixed else []), *(ranks_text(doc) for doc in ranks)])


def table_lines(one: ReportTable) -> list[str]:
    """A table for a terminal: its title heads the first column, whose names are cut."""
    if not one.rows:
        return wrapped(f"{one.title}: {one.note}")
    rows = [(INDENT + full, *row[1:]) for full, row in zip(whole_names(one.rows), one.rows, strict=True)]
    shorten = partial(_shortened, among=one.names, kernels=one.kernels) if one.names else None
    lines = [line.rstrip() for line in table((INDENT + one.title, *one.head[1:]), rows, shorten=shorten)]
    return [*lines, *(wrapped(f"  {one.note}", indent=2) if one.note else [])]


def _shortened(names: Sequence[str], room: int, among: Sequence[str], *, kernels: bool) -> list[str]:
    """Indented names in so many columns, each told from the first others of its table."""
    bare = [name.removeprefix(INDENT) for name in names]
    short = short_names([*among[:MOST_NAMES], *bare], room - len(INDENT), kernels=kernels)
    return [INDENT + short[name] for name in bare]
