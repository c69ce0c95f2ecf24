"""Several ranks for a terminal: who decides and what to do; then the findings, the table, how the axis was made."""

from __future__ import annotations

from perfmagic.base import terminal
from perfmagic.base.language import counted, phrase, say, translated
from perfmagic.base.tables import Table, text_lines
from perfmagic.base.terminal import columns, wrapped
from perfmagic.view.ranks.doc import NOTE, RanksDoc, describe_cost, rank_table
from perfmagic.view.ranks.summary import ranks_summary
from perfmagic.view.timeline.doc import describe_path

_GUTTER = 10
# in a narrow terminal these stand in the way of the others
_DISPENSABLE = ("device", "idle", "extent", "copies")


def ranks_answers_text(doc: RanksDoc, details: str) -> str:
    """Who decides, what was recorded, what to do, and where the rest is.  details: how to see all."""
    n_findings = len(doc.findings)
    parts = [counted(n_findings, "{n} finding", "{n} findings")] if n_findings else []
    parts += [counted(len(doc.rows), "{n} rank", "{n} ranks"), phrase("clocks")]
    rest = say(", ").join(translated(part).strip() for part in parts)
    first = ranks_summary(doc).first_finding
    lines = [doc.answers.text(doc.about), *(wrapped(f"  {first}", indent=2) if first else [])]
    return "\n".join([*lines, f"  {details}: {rest}"])


def ranks_text(doc: RanksDoc) -> str:
    """All about several ranks, as wide as the terminal."""
    lines = [doc.answers.text(doc.about), "", *(wrapped(describe_path(doc.path)) if doc.path else [])]
    for finding in doc.findings:
        lines += wrapped(
            f"{describe_cost(finding.cost_ns):>{_GUTTER}}  {translated(finding.sentence)}", indent=_GUTTER + 2
        )
    notes = (
        line
        for words in (say(NOTE), translated(doc.collectives), translated(doc.clocks))
        if words
        for line in wrapped(words)
    )
    return "\n".join([*lines, "", *rank_lines(doc), "", *notes])


def rank_lines(doc: RanksDoc) -> list[str]:
    """The table, with as many columns as fit."""
    table = rank_table(doc)
    head, cells, shown = table.head, [table.headings, *table.rows], list(range(len(table.head)))
    for name in ("", *_DISPENSABLE):
        shown = [i for i in shown if head[i] != name or not name]
        widths = [max(columns(row[i]) for row in cells) + 2 for i in shown]
        if sum(widths) <= terminal.width():
            break
    fitting = Table("", [head[i] for i in shown], [[row[i] for i in shown] for row in table.rows])
    return [line.rstrip() for line in text_lines(fitting)]
