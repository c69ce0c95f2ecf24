"""A cell on several numbers of ranks as GitHub's Markdown."""

from __future__ import annotations

from perfmagic.view.ranks.scaling import HEAD, ScalingDoc, scaling_cells
from perfmagic.view.report.markdown import markdown_table, plain
from perfmagic.view.report.table import ReportTable


def scaling_markdown(doc: ScalingDoc) -> str:
    """The sentence and the table."""
    rows = ReportTable("Scaling", HEAD, tuple(scaling_cells(doc)), f"{doc.note}. {doc.fine_print}")
    return f"**{plain(doc.sentence)}**\n\n{markdown_table(rows)}\n"
