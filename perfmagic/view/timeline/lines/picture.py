"""Lines as one SVG: the code, when each line's work was queued and executed, and what it cost in columns."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial
from itertools import accumulate, chain

import numpy as np

from perfmagic.base import units
from perfmagic.base.language import chained, counted, say, translate_term, translated
from perfmagic.base.numerics.intervals import Intervals
from perfmagic.view.svg.canvas import NARROW_PX, WIDTH_PX, Canvas, in_row, rects
from perfmagic.view.svg.layouts import FEWER_WIDTHS_PX, WIDTHS_PX, Picture, alone, first_fit, laid_out
from perfmagic.view.svg.metrics import Scale, fitted, in_lines, ticks, width_px
from perfmagic.view.svg.palette import LOST_SHARE, queued, tint
from perfmagic.view.timeline.lines.doc import Block, LineRow, LinesDoc

# Where the columns of numbers stand in the picture of lines, in px.


@dataclass(frozen=True)
class Column:
    """A column of numbers: its heading, where its bars begin, and where its numbers end."""

    name: str
    bar_x: int
    right: int

    def shifted(self, px: int) -> Column:
        """The same further to the right."""
        return Column(self.name, self.bar_x + px, self.right + px)


BAR_ROOM_PX = 36  # of the longest bar: numbers go beside it
PYTHON, WAITING, DEVICE = Column("Python", 632, 706), Column("waiting", 716, 786), Column("device", 796, 866)
BACKWARD = Column("its backward", 878, 950)
OPS, OPS_WITHOUT_BACKWARD = Column("ops", 954, 994), Column("ops", 872, 912)
MEMORY = Column("at the peak", 930, 996)
MEMORY_ROOM_PX, MEMORY_BAR_PX = 70, 24  # the strips give that up where all columns are there

MAX_BYTES = 40_000
ROW_PX, TITLE_PX, HEAD_PX = 17, 26, 18
NUMBER_X, CODE_X = 26, 34
CODE_SHARE = 0.49  # of the room left of the columns: beside the code stand the strips
GAP_PX, EDGE_PX = 12, 4  # before the columns, and behind them in a narrow picture
LEAST_LEFT_PX = 400  # where the columns leave less, the strips and they stand below the code
LEAST_COLUMN_PX = 34
BAR_PX, STRIP_PX = 5, 15
MOST_ROWS = 44  # in all; longer ones are cut, and the rest is counted
_CODE_SIZE = 10
NEXT_TO_NOTHING = 0.0002  # of the time drawn: a dot instead of meaningless digits
DOT = "·"
# from fine to coarse: what strips are rounded to, and the most rows
DETAILS = ((0.5, MOST_ROWS), (1.0, MOST_ROWS), (2.0, MOST_ROWS), (3.0, 24), (6.0, 16))


@dataclass(frozen=True)
class _Layout:
    """Where everything stands in a picture of a width.

    columns: those of this document, by name.  strips_y, numbers_y: below the top of a row.  row_px: how high a row is.
    """

    code_px: int
    plot_x: int
    plot_px: int
    columns: dict[str, Column]
    has_bars: bool
    strips_y: int
    numbers_y: int
    row_px: int

    @classmethod
    def for_width(cls, picture_px: int, columns: list[Column], unit: str) -> _Layout:
        """Code, strips and columns beside each other where there is room, else below each other."""
        if picture_px < NARROW_PX:
            spread = _spread(columns, picture_px, unit)
            plot_px = picture_px - CODE_X - EDGE_PX
            return cls(
                plot_px, CODE_X, plot_px, spread, False, ROW_PX - 2, ROW_PX + STRIP_PX - 4, ROW_PX + 2 * STRIP_PX
            )
        if picture_px < WIDTH_PX:
            columns = [column.shifted(picture_px - EDGE_PX - columns[-1].right) for column in columns]
        named, end = {column.name: column for column in columns}, columns[0].bar_x - GAP_PX
        if end < LEAST_LEFT_PX:
            code_px = picture_px - CODE_X - EDGE_PX
            return cls(code_px, CODE_X, end - CODE_X, named, True, ROW_PX - 2, ROW_PX - 2, 2 * ROW_PX - 2)
        code_px = 286 if picture_px == WIDTH_PX else round(CODE_SHARE * (end - CODE_X))
        plot_x = CODE_X + code_px + 10
        return cls(code_px, plot_x, end - plot_x, named, True, 0, 0, ROW_PX)

    @property
    def is_stacked(self) -> bool:
        """Whether numbers stand below the code."""
        return self.numbers_y > 0


def _spread(columns: list[Column], picture_px: int, unit: str) -> dict[str, Column]:
    """The columns over the whole width, each with room for its heading."""
    widths_px = [max(LEAST_COLUMN_PX, round(width_px(_heading(column, unit), 10))) for column in columns]
    gap = (picture_px - EDGE_PX - sum(widths_px)) // len(widths_px)
    rights = accumulate(width + gap for width in widths_px)
    return {column.name: Column(column.name, 0, right) for column, right in zip(columns, rights, strict=True)}


def _heading(column: Column, unit: str) -> str:
    name = translate_term(column.name)
    return f"{name}, {unit}" if column.name == PYTHON.name else name


def lines_svg(doc: LinesDoc) -> str:
    """The picture, 1000 px wide, at most MAX_BYTES, light and dark by the reader's system."""
    return first_fit(_alone(doc), MAX_BYTES).svg


def lines_picture(doc: LinesDoc) -> Picture:
    """The same laid out for several widths."""
    ways = [(WIDTHS_PX, DETAILS[1]), (FEWER_WIDTHS_PX[0], DETAILS[2])]
    ways += [(FEWER_WIDTHS_PX[1], detail) for detail in DETAILS[1:]]
    by_width = (laid_out(partial(_draw, doc, *detail), alt_text(doc), widths_px) for widths_px, detail in ways)
    return first_fit(chain(by_width, _alone(doc)), MAX_BYTES)


def _alone(doc: LinesDoc) -> Iterator[Picture]:
    return (alone(partial(_draw, doc, *detail), alt_text(doc)) for detail in DETAILS)


def _draw(doc: LinesDoc, grain_px: float, most_rows: int, canvas: Canvas) -> float:
    painter = _Painter(canvas, doc, grain_px)
    y = painter.heading(4.0)
    top, axis = y, canvas.mark()
    left = most_rows
    for block in doc.blocks:
        shown = block.rows[: max(0, left)]
        left -= len(shown)
        if shown:
            y = painter.block(block, shown, y)
        elif block.name:
            painter.hidden.append(block.name)
        if not block.name:
            y = painter.total(y)
    y = painter.rest(y)
    above = canvas.mark()
    painter.grid(top, y)
    canvas.move_down(above, axis)
    return painter.key(y + 6)


def alt_text(doc: LinesDoc) -> str:
    """The picture in one sentence."""
    names = ", ".join(block.name or say("the cell") for block in doc.blocks)
    if doc.memory is None:
        return say("Lines of {names}: Python's time, waiting, device time and ops of each", names=names)
    return say(
        "Lines of {names}: Python's time, waiting, device time and ops of each, and its memory at the peak", names=names
    )


class _Painter:
    """Draws rows onto a canvas, with one scale of time for the strips and one for all columns of time."""

    def __init__(self, canvas: Canvas, doc: LinesDoc, grain_px: float) -> None:
        self.canvas = canvas
        self.hidden: list[str] = []
        self._doc, self._grain = doc, grain_px
        stats = [(row.stat, row.python_ns) for block in doc.blocks for row in block.rows if row.stat]
        self._most = max([1, *(max(p, s.blocked_ns, s.device_ns, s.backward_ns) for s, p in stats)])
        self._has_backward = any(s.backward_ns for s, _ in stats)
        self._most_bytes = max((row.peak_bytes for block in doc.blocks for row in block.rows), default=0)
        self._unit, self._factor = _unit(max(self._most, 1))
        self._at = _Layout.for_width(canvas.width_px, self._known_columns(), self._unit)
        self._scale = Scale(doc.start_ns, doc.end_ns, self._at.plot_px)

    def _known_columns(self) -> list[Column]:
        """The columns of this document, as they stand in the widest picture."""
        columns = [PYTHON, WAITING, DEVICE, *([BACKWARD, OPS] if self._has_backward else [OPS_WITHOUT_BACKWARD])]
        if self._doc.memory is None:
            return columns
        shift = -MEMORY_ROOM_PX if self._has_backward else 0
        return [*(column.shifted(shift) for column in columns), MEMORY]

    def heading(self, y: float) -> float:
        at = self._at
        for tick in ticks(self._doc.end_ns - self._doc.start_ns, at.plot_px, 70):
            x = at.plot_x + self._scale.x_of(self._doc.start_ns + tick.offset_ns)
            anchor = "" if x < at.plot_x + 20 else "end" if x > at.plot_x + at.plot_px - 20 else "middle"
            self.canvas.text(round(x, 1), y + 9, tick.text, "ink2", anchor=anchor)
        y += 0 if at.has_bars else STRIP_PX - 2
        for column in at.columns.values():
            self.canvas.text(column.right, y + 9, _heading(column, self._unit), "ink2", anchor="end")
        return y + HEAD_PX

    def block(self, block: Block, rows: tuple[LineRow, ...], y: float) -> float:
        """One function, or the cell; returns the lower edge."""
        y = self._title(block, y) if block.name else y
        for row in rows:
            y = self._row(row, y)
        if len(block.rows) > len(rows):
            more = counted(len(block.rows) - len(rows), "and {n} more line", "and {n} more lines")
            self.canvas.text(CODE_X, y + 11, translated(more), "ink2")
            y += ROW_PX
        return y

    def _title(self, block: Block, y: float) -> float:
        """The name of a function, and beside it, or below where there is no room, where it is."""
        left, width = NUMBER_X - 20, self.canvas.width_px
        name = fitted(block.name, min(300, width - left), 11, bold=True)
        self.canvas.text(left, y + TITLE_PX - 9, name, size=11, bold=True)
        words = translated(chained("{a} · {b}", (block.where, block.note)))
        x = round(left + width_px(name, 11, bold=True) + 10)
        if x + width_px(words, 10) <= width:
            self.canvas.text(x, y + TITLE_PX - 9, words, "ink2")
            return y + TITLE_PX
        return self._sentence(words, y + TITLE_PX - 14) + 4

    def _sentence(self, words: str, y: float) -> float:
        """A sentence in as many lines as it takes; returns the lower edge."""
        available_px = self.canvas.width_px - NUMBER_X + 10
        for line in in_lines(words, available_px, 10):
            self.canvas.text(NUMBER_X - 20, y + 14, fitted(line, available_px, 10), "ink2")
            y += 15
        return y

    def total(self, y: float) -> float:
        total = self._doc.total
        if total is None:
            return y
        self.canvas.text(CODE_X, y + 12, say("every op counts once; a line counts what it called"), "ink2")
        y += ROW_PX if self._at.is_stacked else 0
        python_ns = total.host_ns - total.blocked_ns
        for column, value in ((PYTHON, python_ns), (WAITING, total.blocked_ns), (DEVICE, total.device_ns)):
            self._number(column, y, self._time(value), bold=True)
        self._number(OPS, y, units.count(total.n_ops), bold=True)
        return self._memory_sum(y) + ROW_PX + 2

    def _number(self, column: Column, y: float, words: str, *, bold: bool = False) -> None:
        self.canvas.text(self._at.columns[column.name].right, y + 12, words, anchor="end", bold=bold)

    def _memory_sum(self, y: float) -> float:
        """What the column of memory lacks to the peak, row by row; returns the last row."""
        memory = self._doc.memory
        if memory is None:
            return y
        self._number(MEMORY, y, units.size(sum(memory.cell_bytes.values())), bold=True)
        for english, size in memory.closing():
            words = translate_term(english)
            y += ROW_PX - 2
            right = self._at.columns[MEMORY.name].right - (MEMORY.right - MEMORY.bar_x) - 8
            self.canvas.text(right, y + 12, words, "ink2", anchor="end")
            self._number(MEMORY, y, units.size(size), bold=size == memory.peak_bytes)
        return y

    def rest(self, y: float) -> float:
        """What is not drawn, by name."""
        sentences = list(translated(self._doc.notes))
        if self.hidden:
            sentences.append(say("not drawn: {names}: all are in .lines", names=", ".join(self.hidden)))
        if self._doc.folded:
            sentences.append(say("under 1 % each: {names}", names=", ".join(self._doc.folded)))
        for sentence in sentences:
            y = self._sentence(sentence, y)
        return y

    def grid(self, top: float, bottom: float) -> None:
        for tick in ticks(self._doc.end_ns - self._doc.start_ns, self._at.plot_px, 70):
            x = round(self._at.plot_x + self._scale.x_of(self._doc.start_ns + tick.offset_ns), 1)
            self.canvas.boxes([(x, top, 0.75, bottom - top)], "grid")

    def key(self, y: float) -> float:
        x = 6.0
        for english, tone in (
            ("Python on this line", "launch"),
            ("waiting", ""),
            ("its ops queued", queued("comp", 0)),
            ("its ops executing", "comp"),
            ("its backward, queued by another line", "outline"),
            ("allocated by it, alive at the peak", tint("memory", 0.5, 0.6)),
        ):
            if english.startswith("allocated") and not self._most_bytes:
                continue
            if tone == "outline" and not self._has_backward:
                continue
            words = translate_term(english)
            x, y = in_row(self.canvas, x, y, 14 + width_px(words, 10), 6.0)
            box = (round(x, 1), y + 3, 10.0, 8.0)
            if tone == "":
                self._waiting([box])
            elif tone == "outline":
                self._outline([box])
            else:
                self.canvas.boxes([box], tone)
            self.canvas.text(round(x + 14, 1), y + 10.5, words, "ink2")
            x += 14 + width_px(words, 10) + 16
        return y + 20

    def _row(self, row: LineRow, y: float) -> float:
        stat, width, at = row.stat, self.canvas.width_px, self._at
        lowest = y + (ROW_PX if stat is None else at.row_px)
        if stat is not None and stat.blocked_ns > 0.1 * self._most:
            self.canvas.boxes([(0, y, width, lowest - y)], tint("wait", LOST_SHARE * 0.6, LOST_SHARE * 0.6))
        self.canvas.boxes([(0, lowest - 0.5, width, 0.5)], "rule")
        self.canvas.text(NUMBER_X, y + 12, str(row.line), "ink2", anchor="end", mono=True)
        shown = fitted(row.code.expandtabs(4).replace(" ", "\u00a0"), at.code_px, _CODE_SIZE, mono=True)
        self.canvas.text(CODE_X, y + 12, shown, "ink" if stat else "ink3", mono=True)
        if stat is None:
            return lowest
        self._strips(row, y + at.strips_y)
        y += at.numbers_y
        values = ((PYTHON, row.python_ns), (WAITING, stat.blocked_ns), (DEVICE, stat.device_ns))
        for column, value in (*values, *(((BACKWARD, stat.backward_ns),) if self._has_backward else ())):
            if value and at.has_bars:
                self._bar(column, value, y)
            if value:
                self._number(column, y, self._time(value))
        if stat.n_ops:
            self._number(OPS, y, units.count(stat.n_ops))
        if row.peak_bytes:
            if at.has_bars:
                wide = round(max(0.5, MEMORY_BAR_PX * row.peak_bytes / self._most_bytes), 1)
                bar_x = at.columns[MEMORY.name].bar_x
                self.canvas.boxes([(bar_x, y + 2, wide, ROW_PX - 5)], tint("memory", 0.5, 0.6))
            self._number(MEMORY, y, units.size(row.peak_bytes))
        return lowest

    def _strips(self, row: LineRow, y: float) -> None:
        upper, lower = y + 2, y + 2 + BAR_PX + 1
        self.canvas.boxes(self._boxes(row.python, upper), "launch")
        self._waiting(self._boxes(row.waiting, upper))
        self.canvas.boxes(self._boxes(row.queued, lower), queued("comp", 0))
        self.canvas.boxes(self._boxes(row.executing, lower), "comp")
        self._outline(self._boxes(row.backward, lower))

    def _bar(self, column: Column, value: int, y: float) -> None:
        width = round(max(0.5, BAR_ROOM_PX * value / self._most), 1)
        box = (self._at.columns[column.name].bar_x, y + 2, width, ROW_PX - 5)
        if column is PYTHON:
            self.canvas.boxes([box], "host1")
        elif column is WAITING:
            self._waiting([box])
        elif column is BACKWARD:
            self._outline([box])
        else:
            self.canvas.boxes([box], tint("comp", 0.5, 0.6))

    def _waiting(self, boxes: list[tuple[float, float, float, float]]) -> None:
        if boxes:
            self.canvas.boxes(boxes, tint("wait", LOST_SHARE, LOST_SHARE))
            self.canvas.hatch_lost(rects(boxes))
            self.canvas.stroke(rects(boxes), "wait", 0.75)

    def _outline(self, boxes: list[tuple[float, float, float, float]]) -> None:
        self.canvas.stroke(rects([(x + 0.5, y + 0.5, max(0.5, w - 1), h - 1) for x, y, w, h in boxes]), "comp", 0.9)

    def _boxes(self, when: Intervals, y: float) -> list[tuple[float, float, float, float]]:
        """Intervals as boxes on whole grains; what touches in them is one."""
        if not len(when):
            return []
        grain = self._grain
        begin = np.floor(self._scale.x(when[:, 0]) / grain)
        end = np.maximum(np.ceil(self._scale.x(when[:, 1]) / grain), begin + 1)
        fresh = np.concatenate(([True], begin[1:] > np.maximum.accumulate(end)[:-1]))
        first = np.flatnonzero(fresh)
        last = np.append(first[1:], len(begin)) - 1
        right = np.maximum.accumulate(end)[last]
        return [
            (self._at.plot_x + a * grain, y, max(0.5, (b - a) * grain), float(BAR_PX))
            for a, b in zip(begin[first].tolist(), right.tolist(), strict=True)
        ]

    def _time(self, ns: int) -> str:
        if ns < NEXT_TO_NOTHING * (self._doc.end_ns - self._doc.start_ns):
            return DOT
        return units.significant(ns / self._factor)


def _unit(ns: int) -> tuple[str, float]:
    """The unit of all times of a picture, by the longest."""
    return next(
        ((name, factor) for name, factor in (("s", 1e9), ("ms", 1e6), ("µs", 1e3)) if ns >= factor), ("ns", 1.0)
    )
