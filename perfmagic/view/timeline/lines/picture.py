"""Lines as one SVG: the code, when each line's work was queued and executed, and what it cost in columns."""

from __future__ import annotations

import numpy as np

from perfmagic import units
from perfmagic.numerics.intervals import Intervals
from perfmagic.view.svg.canvas import WIDTH_PX, Canvas
from perfmagic.view.svg.metrics import fitted, width_px
from perfmagic.view.svg.palette import LOST_SHARE, queued, tint
from perfmagic.view.svg.path import rects
from perfmagic.view.svg.scale import Scale, ticks
from perfmagic.view.timeline.lines.columns import (
    BACKWARD,
    BAR_ROOM_PX,
    DEVICE,
    MEMORY,
    MEMORY_BAR_PX,
    MEMORY_ROOM_PX,
    OPS_X,
    OPS_X_WITHOUT_BACKWARD,
    PYTHON,
    WAITING,
    Column,
)
from perfmagic.view.timeline.lines.doc import Block, LineRow, LinesDoc

MAX_BYTES = 40_000
ROW_PX, TITLE_PX, HEAD_PX = 17, 26, 18
NUMBER_X, CODE_X, CODE_PX = 26, 34, 286
PLOT_X, PLOT_PX = 330, 290
BAR_PX = 5
MOST_ROWS = 44  # in all; longer ones are cut, and the rest is counted
_CODE_SIZE = 10
NEXT_TO_NOTHING = 0.0002  # of the time drawn: a dot instead of digits that nobody reads
DOT = "·"


def lines_svg(doc: LinesDoc, most_bytes: int = MAX_BYTES) -> str:
    """The picture, 1000 px wide, at most 40 kB (or most_bytes), light and dark by the reader's system."""
    for grain_px, most_rows in ((0.5, MOST_ROWS), (1.0, MOST_ROWS), (2.0, MOST_ROWS), (3.0, 24), (6.0, 16)):
        picture = _picture(doc, grain_px, most_rows)
        if len(picture.encode()) <= most_bytes:
            return picture
    return picture


def _picture(doc: LinesDoc, grain_px: float, most_rows: int) -> str:
    painter = _Painter(doc, grain_px)
    y = painter.heading(4.0)
    top, axis = y, painter.canvas.mark()
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
    y = painter.rest(doc, y)
    above = painter.canvas.mark()
    painter.grid(top, y)
    painter.canvas.move_down(above, axis)
    return painter.canvas.svg(painter.key(y + 6), alt_text(doc))


def alt_text(doc: LinesDoc) -> str:
    """The picture in one sentence."""
    names = [block.name or "the cell" for block in doc.blocks]
    memory = "" if doc.memory is None else ", and its memory at the peak"
    return f"Lines of {', '.join(names)}: Python's time, waiting, device time and ops of each{memory}"


class _Painter:
    """Draws rows onto a canvas, with one scale of time for the strips and one for all columns of time."""

    def __init__(self, doc: LinesDoc, grain_px: float) -> None:
        self.canvas = Canvas()
        self.hidden: list[str] = []
        self._doc, self._grain = doc, grain_px
        stats = [(row.stat, row.python_ns) for block in doc.blocks for row in block.rows if row.stat]
        self._most = max([1, *(max(p, s.blocked_ns, s.device_ns, s.backward_ns) for s, p in stats)])
        self._has_backward = any(s.backward_ns for s, _ in stats)
        self._most_bytes = max((row.peak_bytes for block in doc.blocks for row in block.rows), default=0)
        self._shift = MEMORY_ROOM_PX if doc.memory is not None and self._has_backward else 0
        self._plot_px = PLOT_PX - self._shift
        self._scale = Scale(doc.start_ns, doc.end_ns, self._plot_px)
        self._unit, self._factor = _unit(max(self._most, 1))

    def heading(self, y: float) -> float:
        for tick in ticks(self._doc.end_ns - self._doc.start_ns, self._plot_px, 70):
            x = PLOT_X + self._scale.x_of(self._doc.start_ns + tick.offset_ns)
            anchor = "" if x < PLOT_X + 20 else "end" if x > PLOT_X + self._plot_px - 20 else "middle"
            self.canvas.text(round(x, 1), y + 9, tick.text, "ink2", anchor=anchor)
        for column in self._columns():
            words = f"{column.name}, {self._unit}" if column.name == PYTHON.name else column.name
            self.canvas.text(column.right, y + 9, words, "ink2", anchor="end")
        return y + HEAD_PX

    def block(self, block: Block, rows: tuple[LineRow, ...], y: float) -> float:
        """One function, or the cell; returns the lower edge."""
        if block.name:
            self.canvas.text(
                NUMBER_X - 20, y + TITLE_PX - 9, fitted(block.name, 300, 11, bold=True), size=11, bold=True
            )
            x = NUMBER_X - 20 + width_px(fitted(block.name, 300, 11, bold=True), 11, bold=True) * 1.1 + 10
            words = f"{block.where} · {block.note}" if block.note else block.where
            self.canvas.text(round(x), y + TITLE_PX - 9, fitted(words, WIDTH_PX - x, 10), "ink2")
            y += TITLE_PX
        for row in rows:
            y = self._row(row, y)
        if len(block.rows) > len(rows):
            self.canvas.text(CODE_X, y + 11, f"and {units.plural(len(block.rows) - len(rows), 'more line')}", "ink2")
            y += ROW_PX
        return y

    def total(self, y: float) -> float:
        total = self._doc.total
        if total is None:
            return y
        self.canvas.text(CODE_X, y + 12, "every op counts once; a line counts what it called", "ink2")
        python_ns = total.host_ns - total.blocked_ns
        for column, value in ((PYTHON, python_ns), (WAITING, total.blocked_ns), (DEVICE, total.device_ns)):
            right = column.right - self._shift
            self.canvas.text(right, y + 12, self._time(value), anchor="end", bold=True)
        self.canvas.text(self._ops_x(), y + 12, units.count(total.n_ops), anchor="end", bold=True)
        return self._memory_sum(y) + ROW_PX + 2

    def _memory_sum(self, y: float) -> float:
        """What the column of memory lacks to the peak, row by row; returns the last row."""
        memory = self._doc.memory
        if memory is None:
            return y
        self._size(sum(memory.cell_bytes.values()), y, bold=True)
        for words, size in memory.closing():
            y += ROW_PX - 2
            self.canvas.text(MEMORY.bar_x - 8, y + 12, words, "ink2", anchor="end")
            self._size(size, y, bold=size == memory.peak_bytes)
        return y

    def _size(self, size_bytes: int, y: float, *, bold: bool = False) -> None:
        self.canvas.text(MEMORY.right, y + 12, units.size(size_bytes), anchor="end", bold=bold)

    def rest(self, doc: LinesDoc, y: float) -> float:
        """What is not drawn, by name."""
        sentences = list(doc.notes)
        if self.hidden:
            sentences.append(f"not drawn: {', '.join(self.hidden)}: all are in .lines")
        if doc.folded:
            sentences.append(f"under 1 % each: {', '.join(doc.folded)}")
        for sentence in sentences:
            self.canvas.text(NUMBER_X - 20, y + 14, fitted(sentence, WIDTH_PX - 10, 10), "ink2")
            y += 15
        return y

    def grid(self, top: float, bottom: float) -> None:
        for tick in ticks(self._doc.end_ns - self._doc.start_ns, self._plot_px, 70):
            x = round(PLOT_X + self._scale.x_of(self._doc.start_ns + tick.offset_ns), 1)
            self.canvas.boxes([(x, top, 0.75, bottom - top)], "grid")

    def key(self, y: float) -> float:
        x = 6.0
        for words, tone in (
            ("Python on this line", "launch"),
            ("waiting", ""),
            ("its ops queued", queued("comp", 0)),
            ("its ops executing", "comp"),
            ("its backward, queued by another line", "outline"),
            ("allocated by it, alive at the peak", tint("memory", 0.5, 0.6)),
        ):
            if words.startswith("allocated") and not self._most_bytes:
                continue
            if tone == "outline" and not self._has_backward:
                continue
            box = (round(x, 1), y + 3, 10.0, 8.0)
            if tone == "":
                self._waiting([box])
            elif tone == "outline":
                self._outline([box])
            else:
                self.canvas.boxes([box], tone)
            self.canvas.text(round(x + 14, 1), y + 10.5, words, "ink2")
            x += 14 + width_px(words, 10) * 1.15 + 16
        return y + 20

    def _row(self, row: LineRow, y: float) -> float:
        stat = row.stat
        if stat is not None and stat.blocked_ns > 0.1 * self._most:
            self.canvas.boxes([(0, y, WIDTH_PX, ROW_PX)], tint("wait", LOST_SHARE * 0.6, LOST_SHARE * 0.6))
        self.canvas.boxes([(0, y + ROW_PX - 0.5, WIDTH_PX, 0.5)], "rule")
        self.canvas.text(NUMBER_X, y + 12, str(row.line), "ink2", anchor="end", mono=True)
        shown = fitted(row.code.expandtabs(4).replace(" ", "\u00a0"), CODE_PX, _CODE_SIZE, mono=True)
        self.canvas.text(CODE_X, y + 12, shown, "ink" if stat else "ink3", mono=True)
        if stat is None:
            return y + ROW_PX
        self._strips(row, y)
        values = ((PYTHON, row.python_ns), (WAITING, stat.blocked_ns), (DEVICE, stat.device_ns))
        for column, value in (*values, *(((BACKWARD, stat.backward_ns),) if self._has_backward else ())):
            self._bar(column, value, y)
        if stat.n_ops:
            self.canvas.text(self._ops_x(), y + 12, units.count(stat.n_ops), anchor="end")
        if row.peak_bytes:
            width = round(max(0.5, MEMORY_BAR_PX * row.peak_bytes / self._most_bytes), 1)
            self.canvas.boxes([(MEMORY.bar_x, y + 2, width, ROW_PX - 5)], tint("memory", 0.5, 0.6))
            self._size(row.peak_bytes, y)
        return y + ROW_PX

    def _strips(self, row: LineRow, y: float) -> None:
        upper, lower = y + 2, y + 2 + BAR_PX + 1
        self.canvas.boxes(self._boxes(row.python, upper), "launch")
        self._waiting(self._boxes(row.waiting, upper))
        self.canvas.boxes(self._boxes(row.queued, lower), queued("comp", 0))
        self.canvas.boxes(self._boxes(row.executing, lower), "comp")
        self._outline(self._boxes(row.backward, lower))

    def _bar(self, column: Column, value: int, y: float) -> None:
        if not value:
            return
        width = round(max(0.5, BAR_ROOM_PX * value / self._most), 1)
        box = (column.bar_x - self._shift, y + 2, width, ROW_PX - 5)
        if column is PYTHON:
            self.canvas.boxes([box], "host1")
        elif column is WAITING:
            self._waiting([box])
        elif column is BACKWARD:
            self._outline([box])
        else:
            self.canvas.boxes([box], tint("comp", 0.5, 0.6))
        self.canvas.text(column.right - self._shift, y + 12, self._time(value), anchor="end")

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
            (PLOT_X + a * grain, y, max(0.5, (b - a) * grain), float(BAR_PX))
            for a, b in zip(begin[first].tolist(), right.tolist(), strict=True)
        ]

    def _columns(self) -> tuple[Column, ...]:
        known = (PYTHON, WAITING, DEVICE, *((BACKWARD,) if self._has_backward else ()))
        shifted = (one.shifted(-self._shift) for one in known)
        memory = () if self._doc.memory is None else (MEMORY,)
        return (*shifted, Column("ops", 0, self._ops_x()), *memory)

    def _ops_x(self) -> int:
        return OPS_X - self._shift if self._has_backward else OPS_X_WITHOUT_BACKWARD

    def _time(self, ns: int) -> str:
        if ns < NEXT_TO_NOTHING * (self._doc.end_ns - self._doc.start_ns):
            return DOT
        return units.significant(ns / self._factor)


def _unit(ns: int) -> tuple[str, float]:
    """The unit of all times of a picture, by the longest."""
    return next(
        ((name, factor) for name, factor in (("s", 1e9), ("ms", 1e6), ("µs", 1e3)) if ns >= factor), ("ns", 1.0)
    )
