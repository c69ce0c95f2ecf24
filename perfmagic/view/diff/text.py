"""A comparison of two timelines for a terminal, as wide as it is."""

from __future__ import annotations

from perfmagic.analysis.diff.diff import TraceDiff
from perfmagic.view.diff.tables import BRIEF_ROWS, comparison_tables
from perfmagic.view.report.text import table_lines
from perfmagic.view.text import wrapped


def comparison_text(diff: TraceDiff) -> str:
    """The verdict, what a reader must know, and the tables."""
    lines = [*wrapped(diff.headline, indent=2), *(line for note in diff.notes for line in wrapped(f"  {note}", 4))]
    for table in comparison_tables(diff, BRIEF_ROWS, narrow=True):
        lines += ["", *table_lines(table)]
    return "\n".join(lines)
