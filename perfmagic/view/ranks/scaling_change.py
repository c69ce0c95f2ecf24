"""Two sweeps over numbers of ranks compared: the table and its faces as text and HTML."""

from __future__ import annotations

from collections.abc import Sequence

from perfmagic import units
from perfmagic.analysis.ranks.scaling_change import ScalingChange
from perfmagic.view.html import cells_table, framed, paragraphs, short
from perfmagic.view.text import table, wrapped

NOTE = (
    "Differences of parts are the mean of the ranks, and add up to the difference. Exposed: with no compute beside it. "
    "Efficiency is that of each sweep against its own fewest ranks"
)
APART = {True: "apart", False: "overlap", None: "one run"}


def change_cells(rows: Sequence[ScalingChange], names: tuple[str, str]) -> tuple[list[str], list[list[str]]]:
    """The headings, and a row for each number of ranks."""
    head = ["ranks", *names, "difference", "runs", "efficiency", "compute", "exposed transfer", "waiting", "rest"]
    return head, [
        [
            str(row.ranks),
            units.duration(row.a_ns),
            units.duration(row.b_ns),
            units.signed(row.diff_ns),
            APART[row.apart],
            f"{units.percent(row.efficiency_a_frac)} → {units.percent(row.efficiency_b_frac)}",
            units.signed(row.compute_diff_ns),
            units.signed(row.exposed_transfer_diff_ns),
            units.signed(row.exposed_waiting_diff_ns),
            units.signed(row.rest_diff_ns),
        ]
        for row in rows
    ]


def change_text(headline: str, rows: Sequence[ScalingChange], names: tuple[str, str], notes: Sequence[str]) -> str:
    """The verdict, the table and the notes, as wide as the terminal."""
    said = [line for note in (*notes, NOTE) for line in wrapped(note)]
    lines = [*wrapped(headline), "", *table(*change_cells(rows, names)), "", *said]
    return "\n".join(line.rstrip() for line in lines)


def change_html(headline: str, rows: Sequence[ScalingChange], names: tuple[str, str], notes: Sequence[str]) -> str:
    """The same as HTML; survives sanitisers."""
    line = f'<div style="margin:4px 0"><b>{short(headline)}</b></div>'
    return framed(line + cells_table(*change_cells(rows, names)) + paragraphs([*notes, NOTE]))
