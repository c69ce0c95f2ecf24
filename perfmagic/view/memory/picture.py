"""Memory as one SVG: stacked by reason along the allocations, what was there at the peak, what would lower it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from functools import cached_property, partial
from itertools import chain

import numpy as np

from perfmagic.analysis.memory.peak import HeldBytes
from perfmagic.analysis.memory.stack import KINDS, Kind
from perfmagic.analysis.memory.whatif import WhatIf
from perfmagic.base import units
from perfmagic.base.language import counted, say, translate_term, translated
from perfmagic.base.tables import Table, html_table, markdown_table, text_lines
from perfmagic.base.terminal import cut_to_columns, wrapped
from perfmagic.trace.columns import Float64
from perfmagic.view.html import RED, closed, conclusion_html, conclusion_markdown, framed, image, paragraphs, short
from perfmagic.view.memory.doc import MemoryDoc, about, place
from perfmagic.view.svg.canvas import NARROW_PX, WIDTH_PX, Canvas, quantised, step_line, step_path
from perfmagic.view.svg.layouts import FEWER_WIDTHS_PX, WIDTHS_PX, Picture, alone, first_fit, laid_out
from perfmagic.view.svg.metrics import fitted, in_lines, width_px
from perfmagic.view.svg.palette import TOKENS, columns_of

MAX_BYTES = 40_000
LAYOUTS_BYTES = 45_000  # of a picture for several widths: the tables below it have their part of an output
PLOT_X, RIGHT_PX, RIGHT_GAP_PX = 76, 124, 8  # the sizes at the end stand at the right of the plot
HEIGHT_PX, TOP_PX = 150, 30  # room above the peak for its words
CAPTION = "each step to the right is an allocation or a release; waiting takes no room"
BAND_PX, ROW_PX, TITLE_PX = 15, 18, 26
BAR_PX, SIZE_X, COUNT_X, PLACE_X, CODE_X, WHY_X = 56, 124, 158, 170, 300, 560
INDENT_PX, LINE_PX = 6, 13  # of words below a row
PEAK_X, LESS_X, CHANGE_X = 124, 220, 232
MOST_ROWS = 14
RESERVED_SHARE = 1.3  # of the peak: below it, what is reserved is a number only
MOST_ABOVE = 1.5  # of the peak: the scale grows no further for what is reserved
_LABEL_PX = 12  # the least height of a layer with its name in it

_ON_DARK = {Kind.PARAMETERS, Kind.OPTIMIZER, Kind.GRAPH}


def memory_svg(doc: MemoryDoc) -> str:
    """The picture, 1000 px wide, at most 40 kB, light and dark by the reader's system."""
    return first_fit(_pictures(doc), MAX_BYTES).svg


def memory_picture(doc: MemoryDoc) -> Picture:
    """The same laid out for several widths, as finely as LAYOUTS_BYTES allow."""
    ways: list[tuple[tuple[int, ...], int]] = [(WIDTHS_PX, columns) for columns in (800, 300)]
    ways += [(widths_px, columns) for widths_px in FEWER_WIDTHS_PX for columns in (300, 80)]
    by_width = (laid_out(partial(_draw, doc, columns), alt_text(doc), widths_px) for widths_px, columns in ways)
    return first_fit(chain(by_width, _pictures(doc)), LAYOUTS_BYTES)


def _pictures(doc: MemoryDoc) -> Iterator[Picture]:
    """From fine to coarse, 1000 px wide."""
    return (alone(partial(_draw, doc, columns), alt_text(doc)) for columns in (800, 500, 300, 150, 80))


def _draw(doc: MemoryDoc, n_columns: int, canvas: Canvas) -> float:
    return _Painter(canvas, doc, n_columns).draw()


def alt_text(doc: MemoryDoc) -> str:
    """The picture in one sentence."""
    kinds = [kind.value for kind, most in zip(KINDS, doc.stack.size_bytes.max(axis=1), strict=True) if most]
    return say(
        "Memory of {device}, stacked by reason along allocations: {kinds}. {sentence}",
        device=doc.device,
        kinds=say(", ").join(map(translate_term, kinds)),
        sentence=doc.sentence,
    )


class _Painter:
    """Draws one picture on a canvas; n_columns: how finely the stack is drawn, at most."""

    def __init__(self, canvas: Canvas, doc: MemoryDoc, n_columns: int) -> None:
        self.canvas = canvas
        self._doc = doc
        self._is_narrow = canvas.width_px < NARROW_PX
        self._is_stacked = canvas.width_px < WIDTH_PX  # reasons stand below the rows
        self._plot_px = canvas.width_px - PLOT_X - (0 if self._is_narrow else RIGHT_PX)
        self._caption = in_lines(say(CAPTION), canvas.width_px - PLOT_X, 10)
        self._top = TOP_PX + LINE_PX * (len(self._caption) - 1)
        peak = max(1, doc.peak_bytes)
        self._is_reserved_drawn = doc.reserved_bytes > RESERVED_SHARE * peak
        top_bytes = min(doc.reserved_bytes, MOST_ABOVE * peak) if self._is_reserved_drawn else peak
        self._px = HEIGHT_PX / top_bytes
        self._peak_px = doc.peak_bytes * self._px
        self._first, self._shown = columns_of(doc.stack.size_bytes.sum(axis=0), min(n_columns, self._plot_px))
        self._edges = np.append(self._first, len(doc.stack)) * (self._plot_px / len(doc.stack)) + PLOT_X

    @cached_property
    def _peak_x(self) -> float:
        column = int(np.searchsorted(self._first, self._doc.stack.peak_step, side="right")) - 1
        return round(float((self._edges[column] + self._edges[column + 1]) / 2), 1)

    def draw(self) -> float:
        """The whole picture; returns its height."""
        floor = self._top + HEIGHT_PX
        for line, words in enumerate(self._caption):
            self.canvas.text(PLOT_X, 10 + LINE_PX * line, words, "ink2")
        self._stack(floor)
        y = self._bands(floor + 4)
        y = self._at_end(y) if self._is_narrow else y
        y = self._key(y + 6)
        y = self._at_peak(y + 4)
        if self._doc.what_if:
            y = self._changes(y + 4)
        return y + 6

    def _stack(self, floor: float) -> None:
        doc, canvas = self._doc, self.canvas
        size = doc.stack.size_bytes[:, self._shown]
        tops = quantised((np.cumsum(size, axis=0) * self._px).astype(np.float64), 0.5)
        for row in reversed(range(len(KINDS))):
            if size[row].any():
                canvas.fill(step_path(self._edges, tops[row], floor), TOKENS[KINDS[row]])
                canvas.stroke(step_line(self._edges, tops[row], floor, down=False), "ground", 0.5)
        for row, kind in enumerate(KINDS):
            self._name(kind, tops[row - 1] if row else np.zeros(len(self._shown)), tops[row], floor)
        self._sides(floor, self._px)
        self._peak(floor)

    def _name(self, kind: Kind, low: Float64, high: Float64, floor: float) -> None:
        """The name of a layer where it has most room; none where it would not fit."""
        width = width_px(kind.value, 10) + 8
        edges = self._edges
        columns = np.arange(0, len(low), max(1, len(low) // 200))
        until = np.searchsorted(edges, edges[columns] + width)
        crossed = (edges[columns] - 3 <= self._peak_x) & (self._peak_x <= edges[columns] + width + 3)
        fits = (until <= len(low)) & ~crossed  # no name across the line of the peak
        columns = columns[fits]
        spans = np.stack((columns, until[fits]), 1).ravel()
        floor_px, ceiling_px = (
            function.reduceat(np.append(values, values[-1:]), spans)[::2] if len(spans) else values[:0]
            for function, values in ((np.maximum, low), (np.minimum, high))
        )
        best, at = float(_LABEL_PX), -1
        for row, clear_px in enumerate((ceiling_px - floor_px).tolist()):
            if clear_px > best + 2:
                best, at = clear_px, row
        if at >= 0:
            middle = (float(ceiling_px[at]) + float(floor_px[at])) / 2
            ink = "on_mem_dark" if kind in _ON_DARK else "on_mem_middle"
            self.canvas.text(
                round(float(edges[columns[at]]) + 5, 1), round(floor - middle + 3.5, 1), translate_term(kind.value), ink
            )

    def _sides(self, floor: float, px: float) -> None:
        """Sizes at the left edge, what stays at the right one."""
        doc, canvas = self._doc, self.canvas
        start = int(doc.stack.size_bytes[:, 0].sum())
        sizes = [(0, 0.0)] + ([(start, start * px)] if 10 < start * px < self._peak_px - 10 else [])
        for size, height in [*sizes, (doc.peak_bytes, self._peak_px)]:
            canvas.text(
                PLOT_X - 6, round(floor - height + 3.5, 1), units.size(size) if size else "0", "ink2", anchor="end"
            )
        if self._is_reserved_drawn:
            canvas.stroke(f"M{2 * PLOT_X} {2 * self._top}h{2 * self._plot_px}", "ink2", 1.0, dash=(4, 3))
        if self._is_narrow:
            return
        right, end = PLOT_X + self._plot_px + RIGHT_GAP_PX, doc.end_bytes * px
        canvas.text(
            right, round(floor - end + 3.5, 1), say("{size} at the end", size=units.size(doc.end_bytes)), "ink2"
        )
        if doc.reserved_bytes:
            y = self._top if end < HEIGHT_PX - 14 else floor - end + 13
            canvas.text(right, round(y + 3.5, 1), say("{size} reserved", size=units.size(doc.reserved_bytes)), "ink2")
            if self._is_off_the_scale:
                canvas.text(right, y - 9, say("off the scale:"), "ink2")

    @property
    def _is_off_the_scale(self) -> bool:
        """Whether what is reserved lies above the plot."""
        return self._doc.reserved_bytes > MOST_ABOVE * max(1, self._doc.peak_bytes)

    def _at_end(self, y: float) -> float:
        """What stands at the right of the plot where there is room."""
        words = [say("{size} at the end", size=units.size(self._doc.end_bytes))]
        if self._doc.reserved_bytes:
            off = say(" (off the scale)") if self._is_off_the_scale else ""
            words.append(say("{size} reserved", size=units.size(self._doc.reserved_bytes)) + off)
        self.canvas.text(PLOT_X, y + 10, " · ".join(words), "ink2")
        return y + LINE_PX

    def _peak(self, floor: float) -> None:
        x = self._peak_x
        top = round(floor - self._peak_px, 1)
        self.canvas.stroke(f"M{2 * x:g} {2 * top:g}V{2 * floor:g}", "ink", 0.75, dash=(1.5, 1.5))
        self.canvas.boxes([(x - 2, top - 2, 4, 4)], "ink")
        words = say("peak {size}", size=units.size(self._doc.peak_bytes))
        words_px = width_px(words, 10, bold=True) + 8
        anchor = "end" if x + words_px > PLOT_X + self._plot_px else ""
        self.canvas.text(x - 6 if anchor else x + 6, top - 4, words, bold=True, anchor=anchor)

    def _bands(self, y: float) -> float:
        """The line of the cell that ran at each step, and the innermost one where that is in a function."""
        stack = self._doc.stack
        if not stack.cell_line.any() and not stack.line.any():
            return y
        names = np.array([*stack.functions, ""])  # NONE is the last
        function = stack.function[self._shown]
        inner = [(int(line), str(names[f])) for line, f in zip(stack.line[self._shown], function, strict=True)]
        outer = [(int(line), "") for line in stack.cell_line[self._shown]]
        y = self._band(y, "cell line", outer, "host1")
        if any(name for _, name in inner):
            y = self._band(y, "in functions", [label if label[1] else (0, "") for label in inner], "host2")
        return y

    def _band(self, y: float, title: str, labels: list[tuple[int, str]], tone: str) -> float:
        self.canvas.text(PLOT_X - 6, y + 10.5, translate_term(title), "ink2", anchor="end")
        boxes, words_at, first = [], list[tuple[float, str]](), 0
        for i in range(1, len(labels) + 1):
            if i < len(labels) and labels[i] == labels[first]:
                continue
            line, name = labels[first]
            left, right = round(float(self._edges[first]), 1), round(float(self._edges[i]), 1)
            if line:
                boxes.append((left, y, max(0.5, right - left - 0.5), BAND_PX - 2.0))
                words = fitted(f"{name} {line}".strip(), right - left - 5, 10) or fitted(
                    str(line), right - left - 3, 10
                )
                if words and right - left > 8:
                    words_at.append((round((left + right) / 2, 1), words))
            first = i
        self.canvas.boxes(boxes, tone)
        for x, words in words_at:
            self.canvas.text(x, y + 10, words, "hostink", anchor="middle")
        return y + BAND_PX

    def _key(self, y: float) -> float:
        x = float(PLOT_X)
        for kind, most in zip(KINDS, self._doc.stack.size_bytes.max(axis=1), strict=True):
            if not most:
                continue
            words = translate_term(kind.value)
            entry_px = 14 + width_px(words, 10) + 14
            if x + entry_px > self.canvas.width_px:
                x, y = float(PLOT_X), y + 15
            self.canvas.boxes([(round(x, 1), y + 3, 10.0, 8.0)], TOKENS[kind])
            self.canvas.text(round(x + 14, 1), y + 10.5, words, "ink2")
            x += entry_px
        return y + 16

    def _title(self, y: float, title: str, *others: tuple[int, str]) -> float:
        """A heading, and those of columns beside it."""
        self.canvas.text(6, y + TITLE_PX - 9, translate_term(title), size=11, bold=True)
        for x, words in others:
            self.canvas.text(x, y + TITLE_PX - 9, translate_term(words), "ink2")
        return y + TITLE_PX - 2

    def _at_peak(self, y: float) -> float:
        doc = self._doc
        heads = (
            ((PLACE_X, "allocated on; below, why"),)
            if self._is_stacked
            else ((PLACE_X, "allocated on"), (WHY_X, "why"))
        )
        y = self._title(y, "at the peak", *heads)
        for row in doc.at_peak[:MOST_ROWS]:
            y = self._held(row, max(1, doc.peak_bytes), y)
        rest = doc.at_peak[MOST_ROWS:]
        more = counted(len(rest), "{n} more row: .at_peak()", "{n} more rows: .at_peak()")
        if len(rest):
            self.canvas.text(SIZE_X, y + 12.5, units.size(sum(row.size_bytes for row in rest)), anchor="end")
            self.canvas.text(PLACE_X, y + 12.5, translated(more), "ink2")
            y += ROW_PX
        width = self.canvas.width_px
        self.canvas.boxes([(0, y, width, 1)], "ink2")
        self.canvas.text(SIZE_X, y + 13.5, units.size(doc.peak_bytes), anchor="end", bold=True)
        total = fitted(say("the peak: the rows add up to it"), width - PLACE_X, 10)
        self.canvas.text(PLACE_X, y + 13.5, total, "ink2")
        return y + ROW_PX

    def _held(self, row: HeldBytes, peak_bytes: int, y: float) -> float:
        """A row; its bar is its part of the peak, so that all bars end to end are as long as the column of bars."""
        canvas = self.canvas
        canvas.boxes(
            [(6, y + 3, max(0.5, round(BAR_PX * row.size_bytes / peak_bytes, 1)), ROW_PX - 7)], TOKENS[Kind(row.kind)]
        )
        canvas.text(SIZE_X, y + 12.5, units.size(row.size_bytes), anchor="end")
        if row.n_blocks > 1:
            canvas.text(COUNT_X, y + 12.5, f"×{units.count(row.n_blocks)}", "ink2", anchor="end")
        if row.line:
            self._source(row, y + 12.5)
        if self._is_stacked:
            left = INDENT_PX if self._is_narrow else PLACE_X
            y = self._lines(translate_term(row.reason), left, y + LINE_PX)
        else:
            canvas.text(WHY_X, y + 12.5, fitted(translate_term(row.reason), WIDTH_PX - WHY_X - 4, 10))
        canvas.boxes([(0, y + ROW_PX - 0.5, canvas.width_px, 0.5)], "rule")
        return y + ROW_PX

    def _source(self, row: HeldBytes, y: float) -> None:
        """The line that allocated it, and its code where there is room."""
        width = self.canvas.width_px
        available_px = width - PLACE_X if self._is_narrow else CODE_X - PLACE_X - 6
        self.canvas.text(PLACE_X, y, fitted(place(row), available_px, 10), "ink2")
        if not self._is_narrow:
            available_px = width - CODE_X - 4 if self._is_stacked else WHY_X - CODE_X - 10
            code = row.code.strip().replace(" ", "\u00a0")
            self.canvas.text(CODE_X, y, fitted(code, available_px, 10, mono=True), mono=True)

    def _lines(self, words: str, x: float, y: float, token: str = "ink") -> float:
        """Words broken into lines, in a row that begins at y; returns where the row of the last line begins."""
        available_px = self.canvas.width_px - x - 4
        lines = in_lines(words, available_px, 10)
        for index, line in enumerate(lines):
            self.canvas.text(x, y + 12.5 + LINE_PX * index, fitted(line, available_px, 10), token)
        return y + LINE_PX * (len(lines) - 1)

    def _changes(self, y: float) -> float:
        y = self._title(y, "what would lower the peak")
        for row in self._doc.what_if[:MOST_ROWS]:
            y = self._change(row, y)
        if self._doc.what_if.note:
            y = (
                self._lines(translated(self._doc.what_if.note), INDENT_PX if self._is_narrow else CHANGE_X, y, "ink2")
                + ROW_PX
            )
        return y

    def _change(self, row: WhatIf, y: float) -> float:
        canvas, doc = self.canvas, self._doc
        width = round(BAR_PX * row.peak_bytes / max(1, doc.peak_bytes), 1)
        canvas.boxes([(6, y + 3, BAR_PX, ROW_PX - 7)], "mem_passing")
        canvas.boxes([(6, y + 3, max(0.5, width), ROW_PX - 7)], "memory")
        canvas.text(PEAK_X, y + 12.5, units.size(row.peak_bytes), anchor="end")
        canvas.text(LESS_X, y + 12.5, f"{about(row)}−{units.size(row.saved_bytes)}", "ink2", anchor="end")
        words = translated(row.change)
        if self._is_narrow:
            y = self._lines(words, INDENT_PX, y + LINE_PX)
        elif self._is_stacked:
            y = self._lines(words, CHANGE_X, y)
        else:
            canvas.text(CHANGE_X, y + 12.5, fitted(words, WIDTH_PX - CHANGE_X - 4, 10))
        canvas.boxes([(0, y + ROW_PX - 0.5, canvas.width_px, 0.5)], "rule")
        return y + ROW_PX


# Memory as plain text, HTML and Markdown: the answer first.

_REASON = 42  # columns


def memory_text(doc: MemoryDoc, *, details: bool) -> str:
    """The peak, what would lower it; with details what was alive then, all changes, what rounds leave."""
    rest = [counted(len(doc.at_peak), "{n} row at the peak", "{n} rows at the peak")]
    rest += [counted(len(doc.what_if), "{n} change", "{n} changes")] if doc.what_if else []
    rest += [counted(len(doc.below()), "{n} note", "{n} notes")] if doc.below() else []
    more = "" if details else f".text(details=True): {say(', ').join(map(translated, rest))}"
    lines = [doc.conclusion.text(doc.about, more)]
    if doc.failed:
        lines += wrapped(say("The code failed: {failed}", failed=doc.failed))
    if not details:
        return "\n".join(lines)
    held = doc.peak_table
    short = replace(held, rows=[(*row[:-1], cut_to_columns(row[-1], _REASON)) for row in held.rows])
    lines += ["", translate_term(short.title), *text_lines(short, shorten=_cut)]
    if doc.change_table.rows:
        lines += ["", translate_term(doc.change_table.title), *text_lines(doc.change_table, shorten=_cut)]
        lines += [f"  {translated(doc.what_if.note)}"] if doc.what_if.note else []
    lines += [""] if doc.below() else []
    return "\n".join([*lines, *(line for sentence in doc.below() for line in wrapped(sentence, indent=2))])


def _cut(names: Sequence[str], max_columns: int) -> list[str]:
    return [cut_to_columns(name, max_columns) for name in names]


# Memory as HTML that every notebook front end keeps: tables with style attributes.


def memory_html(doc: MemoryDoc) -> str:
    """The peak, what would lower it, the picture; the tables and what rounds leave open with a click."""
    body = conclusion_html(doc.conclusion, doc.about)
    if doc.failed:
        body += f'<div style="margin:4px 0;color:{RED}"><b>{short(doc.failed)}</b></div>'
    body += image(memory_picture(doc), alt_text(doc))
    return framed(body + closed(say("the peak by line, all changes, notes"), paragraphs(doc.below()) + _tables(doc)))


def memory_markdown(doc: MemoryDoc) -> str:
    """The peak, what would lower it, what was alive then."""
    return "\n\n".join([conclusion_markdown(doc.conclusion, doc.about), markdown_table(doc.peak_table)]) + "\n"


def _tables(doc: MemoryDoc) -> str:
    return "".join(map(_titled, filter(lambda table: table.rows, (doc.peak_table, doc.change_table))))


def nothing_html(words: str) -> str:
    """Where no block was recorded."""
    return framed(paragraphs([words]))


def _titled(table: Table) -> str:
    return f'<div style="margin:8px 0 2px 0"><b>{short(translate_term(table.title))}</b></div>{html_table(table)}'
