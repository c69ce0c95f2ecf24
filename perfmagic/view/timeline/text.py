"""A timeline as plain text: for terminals, logs and the text of an output."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from perfmagic.base import units
from perfmagic.base.language import counted, phrase, say, translate_term, translated
from perfmagic.base.tables import Table, text_lines
from perfmagic.base.terminal import columns, cut_to_columns, prose_width, wrapped
from perfmagic.view.timeline.doc import TimelineDoc, describe_cost, describe_path, describe_trust
from perfmagic.view.timeline.lanes import DeviceGroup
from perfmagic.view.timeline.lines.doc import Block, LineRow, LinesDoc
from perfmagic.view.timeline.summary import describe_rest

if TYPE_CHECKING:
    from perfmagic.analysis.memory.peak import PeakByLine

MAX_STREAMS = 8
GUTTER = 13
PART = "└ "  # before a part of the finding above
_NUMBERS = (("busy", 7), ("time", 9), ("ops", 9), ("queue ≤", 9), ("mean", 8))


def timeline_text(doc: TimelineDoc, below: Sequence[str] = (), more_in: str = ".trust", answers: str = "") -> str:
    """All about a timeline: findings, a table of the streams and the trust line, as wide as the terminal.

    answers: what stands above, in place of the header.  below: lines between the streams and the trust line.
    more_in: where the notes are that it has no room for; "" to give them lines of their own.
    """
    lines = [answers, ""] if answers else wrapped(" · ".join(translated(doc.header.parts)))
    lines += wrapped(describe_path(doc.path)) if doc.path else []
    if doc.failure and not answers:
        lines += wrapped(translated(doc.failure))
    for finding in doc.findings:
        part = "  " * (finding.depth - 1) + PART if finding.depth else ""
        words = describe_cost(finding, doc.header.busy_frac)
        cost = " " * (GUTTER - columns(words)) + f"{words}  "
        lines += wrapped(
            f"{cost}{part}{translate_term(finding.cause)}{describe_rest(finding)}", indent=GUTTER + 2 + len(part)
        )
    for group in doc.groups:
        lines += ["", *_stream_table(group, several=len(doc.groups) > 1)]
    lines += below
    lines += [""] if doc.trust else []
    lines += _fine_print(doc, more_in) if doc.trust else []
    return "\n".join(line.rstrip() for line in lines)


def _fine_print(doc: TimelineDoc, more_in: str) -> list[str]:
    """The first note, and how many more there are where; all of them where nothing else has them."""
    if not more_in:
        return [line for note in translated(doc.trust) for line in wrapped(note)]
    _, more = describe_trust(doc)
    n_more = counted(len(more), " · {n} more note in {place}", " · {n} more notes in {place}", place=more_in)
    return wrapped(translated(doc.trust[0]) + (translated(n_more) if more else ""))


def _stream_table(group: DeviceGroup, *, several: bool) -> list[str]:
    drawn = group.streams[:MAX_STREAMS]
    rows = [
        (
            f"  {lane.label}",
            units.percent(lane.busy_frac),
            units.duration(lane.busy_ns),
            units.count(len(lane)),
            units.count(lane.queue_max),
            _describe_mean(lane.queue_mean),
        )
        for lane in drawn
    ]
    first = max((columns(row[0]) for row in rows), default=0) + 2
    title = say("{label}, device {n}", label=group.label, n=group.device) if several else ""
    head = (f"  {say('stream')}", *(name for name, _ in _NUMBERS))
    lines = wrapped(title) if title else []
    lines += text_lines(Table("", head, rows), least=(max(first, 12), *(w for _, w in _NUMBERS)))
    hidden = len(group.streams) - len(drawn) + group.n_folded
    more = counted(hidden, "and {n} more stream, in .streams()", "and {n} more streams, in .streams()")
    return [*lines, f"  {translated(more)}"] if hidden else lines


def _describe_mean(mean: float) -> str:
    return units.count(mean) if mean >= 10 else units.significant(mean, 2) if mean >= 0.01 or not mean else "<0.01"


# Lines as plain text: the code with a column for each cost.

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


def lines_below(doc: LinesDoc) -> list[str]:
    """The lines below a timeline's table of streams."""
    return lines_text(doc, BELOW_ROWS, round(BELOW_SHARE * (doc.end_ns - doc.start_ns)))


def _block(block: Block, rows: list[LineRow], memory: PeakByLine | None) -> list[str]:
    more = MEMORY_COLUMNS if memory else 0
    code_columns = max(20, prose_width() - COST_COLUMNS - NUMBER_COLUMNS - more)
    where = f"{block.name} · {translated(block.where)}"
    title = [f"  {line}" for line in (where, translated(block.note)) if line] if block.name else []
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
    from perfmagic.view.html import image
    from perfmagic.view.timeline.lines.picture import alt_text, lines_picture

    summary = f"<summary>{say('<b>lines</b> of the cell and of its functions')}</summary>"
    return f'<details style="{STYLE}">{summary}{image(lines_picture(doc), alt_text(doc))}</details>'
