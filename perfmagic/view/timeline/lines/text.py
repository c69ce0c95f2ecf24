"""Lines as plain text: the code with a column for each cost."""

from __future__ import annotations

from perfmagic.analysis.memory.peak import PeakByLine
from perfmagic.base import units
from perfmagic.base.language import counted, phrase, say, translate_term, translated
from perfmagic.base.tables import Table, text_lines
from perfmagic.base.terminal import cut_to_columns, prose_width
from perfmagic.view.html import image
from perfmagic.view.timeline.lines.doc import Block, LineRow, LinesDoc
from perfmagic.view.timeline.lines.picture import alt_text, lines_picture

MOST_ROWS = 60
HEAD = ("Python", "waiting", "device", "its backward", "ops")
NUMBER_COLUMNS, COST_COLUMNS, MEMORY_COLUMNS = 6, 52, 13
LEAST_OF_PEAK = 0.005  # of memory at the peak: below it a line is left out
LEAST_NS = 1000  # below it a cost is noise
MUCH = 10  # as many times the least cost: what lines that are left out may take together without a word
BELOW_ROWS, BELOW_SHARE = (
    24,
    0.005,
)  # below a timeline: at most this many rows, each with at least this share of the time


def lines_text(doc: LinesDoc, most_rows: int = MOST_ROWS, least_ns: int = LEAST_NS) -> list[str]:
    """A table for each block; lines that cost next to nothing are left out, and what had no room is counted.

    Lines that each cost little and much together are counted, too.
    """
    lines: list[str] = []
    left = most_rows
    least_bytes = max(1.0, LEAST_OF_PEAK * doc.memory.peak_bytes) if doc.memory else float("inf")
    for block in doc.blocks:
        rows = [row for row in block.rows if _cost_ns(row) >= least_ns or row.peak_bytes >= least_bytes]
        shown = rows[: max(0, left)]
        left -= len(shown)
        if shown:
            lines += ["", *_block(block, shown, doc.memory)]
        if len(rows) > len(shown):
            n_more, whose = len(rows) - len(shown), block.name or phrase("the cell")
            more = counted(
                n_more, "and {n} more line of {name}, in .lines", "and {n} more lines of {name}, in .lines", name=whose
            )
            lines.append(f"  {translated(more)}")
        lines += _small(block, least_ns)
    return lines + [f"  {note}" for note in translated(doc.notes)]


def _small(block: Block, least_ns: int) -> list[str]:
    costs = [ns for row in block.rows if 0 < (ns := _cost_ns(row)) < least_ns]
    if sum(costs) < MUCH * least_ns:
        return []
    each, together = units.duration(least_ns), units.duration(sum(costs))
    words = counted(
        len(costs),
        "{n} line of {name} below {each} each, {together} together",
        "{n} lines of {name} below {each} each, {together} together",
        name=block.name or phrase("the cell"),
        each=each,
        together=together,
    )
    return [f"  {translated(words)}"]


def lines_below(doc: LinesDoc | None) -> list[str]:
    """The lines below a timeline's table of streams; none without a document."""
    if doc is None:
        return []
    return lines_text(doc, BELOW_ROWS, round(BELOW_SHARE * (doc.end_ns - doc.start_ns)))


def _block(block: Block, rows: list[LineRow], memory: PeakByLine | None) -> list[str]:
    more = MEMORY_COLUMNS if memory else 0
    code_columns = max(20, prose_width() - COST_COLUMNS - NUMBER_COLUMNS - more)
    title = [f"  {block.name} · {block.where}", *([f"  {block.note}"] if block.note else [])] if block.name else []
    cells = [
        (
            f"{row.line:>{NUMBER_COLUMNS}}  {cut_to_columns(row.code.expandtabs(4), code_columns)}",
            *_numbers(row),
            *_size(row, memory),
        )
        for row in rows
    ]
    if memory and not block.name:
        cells += [
            (" " * (NUMBER_COLUMNS + 2) + translate_term(words), *[""] * len(HEAD), units.size(n))
            for words, n in memory.closing()
        ]
    head: tuple[str, ...] = ("", *HEAD)
    least: tuple[int, ...] = (code_columns + NUMBER_COLUMNS + 2, 9, 9, 9, 9, 6)
    if memory:
        head, least = (*head, "at the peak"), (*least, 11)
    return [*title, *text_lines(Table("", head, cells), least=least)]


def _size(row: LineRow, memory: PeakByLine | None) -> tuple[str, ...]:
    """The cell of memory's column; none without one."""
    return () if memory is None else (units.size(row.peak_bytes) if row.peak_bytes else "",)


def _cost_ns(row: LineRow) -> int:
    s = row.stat
    return max(s.host_ns, s.blocked_ns, s.device_ns, s.backward_ns) if s is not None else 0


def _numbers(row: LineRow) -> tuple[str, ...]:
    s = row.stat
    assert s is not None
    values = (row.python_ns, s.blocked_ns, s.device_ns, s.backward_ns)
    return (*(units.duration(v) if v >= LEAST_NS else "" for v in values), units.count(s.n_ops) if s.n_ops else "")


# Lines as HTML below a timeline: the picture in an element that opens without a script.

STYLE = "font-size:12px;margin:4px 0"


def lines_html(doc: LinesDoc | None) -> str:
    """The picture behind a summary that opens it; nothing without lines."""
    if doc is None:
        return ""
    summary = f"<summary>{say('<b>lines</b> of the cell and of its functions')}</summary>"
    return f'<details style="{STYLE}">{summary}{image(lines_picture(doc), alt_text(doc))}</details>'
