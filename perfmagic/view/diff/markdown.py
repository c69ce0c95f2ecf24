"""A comparison of two timelines as GitHub's Markdown."""

from __future__ import annotations

from perfmagic.analysis.diff.diff import TraceDiff
from perfmagic.view.diff.tables import comparison_tables
from perfmagic.view.report.markdown import markdown_table, plain


def comparison_markdown(diff: TraceDiff) -> str:
    """The verdict, what a reader must know, and the tables."""
    parts = [f"## {plain(diff.a.name)} and {plain(diff.b.name)}", f"**{plain(diff.headline)}**"]
    parts.append("\n".join(f"- {plain(note)}" for note in diff.notes))
    return "\n\n".join([*parts, *(markdown_table(table) for table in comparison_tables(diff))])
