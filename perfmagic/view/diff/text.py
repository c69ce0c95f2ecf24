"""A comparison of two timelines for a terminal: what changed in all, at most three differences, and the rest."""

from __future__ import annotations

from perfmagic.analysis.diff.comparable import ONE_RUN
from perfmagic.analysis.diff.diff import TraceDiff, describe_part
from perfmagic.analysis.diff.times import TimeChange
from perfmagic.base import units
from perfmagic.base.language import counted, say, translated
from perfmagic.base.terminal import columns, cut_to_columns, width, wrapped
from perfmagic.view.diff.tables import comparison_tables
from perfmagic.view.tables import table_lines

BRIEF_ROWS = 6  # of a table of operators, kernels or replacements
MOST_NOTES = 2  # before the details


def comparison_text(diff: TraceDiff, details: str = "") -> str:
    """How much longer the second took, who decides in each, and what changed most.

    details: how to see all the rest; "" to have it here.
    """
    lines = _first(diff)
    about = [note for note in diff.notes if note != ONE_RUN]
    if details:
        lines += [line for note in about[:MOST_NOTES] for line in wrapped(f"  ! {note}", indent=4)]
        tables = len(comparison_tables(diff, BRIEF_ROWS, narrow=True))
        more = [counted(len(diff.notes), "{n} note", "{n} notes"), counted(tables, "{n} table", "{n} tables")]
        return "\n".join([*lines, f"  {details}: {say(', ').join(map(translated, more))}"])
    lines += [line for note in diff.notes for line in wrapped(f"  {note}", indent=4)]
    for table in comparison_tables(diff, BRIEF_ROWS, narrow=True):
        lines += ["", *table_lines(table)]
    return "\n".join(lines)


def _first(diff: TraceDiff) -> list[str]:
    who = "" if diff.no_verdict else f": {diff.decides}"
    lines = wrapped(diff.total + who, indent=2)
    return lines + [_with_times(number, part) for number, part in enumerate(diff.differences, 1)]


def _with_times(number: int, part: TimeChange) -> str:
    """A difference, with its times at the end of the line."""
    right = f"{units.duration(part.a_ns)} → {units.duration(part.b_ns)}"
    described = translated(describe_part(part))
    what = described[:1].upper() + described[1:]
    left = cut_to_columns(f"{number:>3}  {what}", width() - columns(right) - 2)
    return left + " " * (width() - columns(left) - columns(right)) + right
