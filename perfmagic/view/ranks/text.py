"""Several ranks for a terminal: the first line, the findings, the table, how the axis was made."""

from __future__ import annotations

from perfmagic import terminal
from perfmagic.view.ranks.doc import RanksDoc
from perfmagic.view.ranks.table import HEAD, NOTE, cost_words, rank_cells
from perfmagic.view.svg.metrics import columns
from perfmagic.view.text import table, wrapped
from perfmagic.view.timeline.critical import path_words

_GUTTER = 10
# in a narrow terminal these stand in the way of the others
_DISPENSABLE = ("device", "idle", "extent", "copies")


def ranks_text(doc: RanksDoc) -> str:
    """Several ranks, as wide as the terminal."""
    lines = wrapped(doc.sentence) + wrapped(path_words(doc.path))
    for finding in doc.findings:
        lines += wrapped(f"{cost_words(finding.cost_ns):>{_GUTTER}}  {finding.sentence}", indent=_GUTTER + 2)
    return "\n".join([*lines, "", *rank_lines(doc), "", *wrapped(NOTE), *wrapped(doc.clocks)])


def rank_lines(doc: RanksDoc) -> list[str]:
    """The table, with as many columns as fit."""
    cells, shown = [HEAD, *rank_cells(doc)], list(range(len(HEAD)))
    for name in ("", *_DISPENSABLE):
        shown = [i for i in shown if HEAD[i] != name or not name]
        widths = [max(columns(row[i]) for row in cells) + 2 for i in shown]
        if sum(widths) <= terminal.width():
            break
    rows = [[row[i] for i in shown] for row in cells]
    return [line.rstrip() for line in table(rows[0], rows[1:])]
