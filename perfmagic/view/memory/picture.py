"""Memory as one SVG: layers by reason over the order of allocations, the peak, and the lines that ran below."""

from __future__ import annotations

from collections.abc import Callable
from itertools import pairwise

import numpy as np

from perfmagic import units
from perfmagic.trace.columns import Float64, Int64
from perfmagic.view.memory.doc import MemoryDoc
from perfmagic.view.svg.canvas import WIDTH_PX, Canvas
from perfmagic.view.svg.metrics import width_px
from perfmagic.view.svg.palette import MEMORY_TONES, Tone
from perfmagic.view.svg.path import number

MAX_BYTES = 30_000  # in HTML a third more
PLOT_X, PLOT_PX, PLOT_TOP, PLOT_HEIGHT = 92.0, 796.0, 34.0, 190.0
BAND_PX, LABEL_PX = 14.0, 12.0
RESERVED_SHARE = 1.3  # of the peak: below it, what is reserved is a number only
MOST_ABOVE = 1.5  # of the peak: the scale grows no further for what is reserved
_DARK_TEXT, _LIGHT_TEXT = "#1b1f24", "#ffffff"


def memory_svg(doc: MemoryDoc, most_bytes: int = MAX_BYTES) -> str:
    """The picture, 1000 px wide, light and dark by the reader's system, at most most_bytes."""
    for grain_px in (1.0, 2.0, 4.0, 8.0, 16.0, 32.0):
        picture = _Painter(doc, grain_px).svg()
        if len(picture.encode()) <= most_bytes:
            return picture
    return picture


def alt_text(doc: MemoryDoc) -> str:
    """The picture in one sentence."""
    at_peak = doc.stack.held_bytes[:, doc.stack.peak_step].tolist()
    parts = [f"{units.size(n)} {name}" for name, n in zip(doc.stack.layers, at_peak, strict=True) if n]
    return f"Memory by reason in the order of allocations, {units.size(doc.peak_bytes)} at the peak: {', '.join(parts)}"


def on_tone(tone: Tone) -> Tone:
    """The colour of letters on a layer."""
    return Tone(_letters(tone.light), _letters(tone.dark))


class _Painter:
    """Draws columns, each of which shows one step: of the steps that fall into it the one with the most memory."""

    def __init__(self, doc: MemoryDoc, grain_px: float) -> None:
        self._doc, self._stack, self.canvas = doc, doc.stack, Canvas()
        total = self._stack.total_bytes
        self._shown, self._edges = _columns(total, int(PLOT_PX / grain_px), self._stack.peak_step)
        over = doc.reserved_bytes > RESERVED_SHARE * doc.peak_bytes
        self._reserved = doc.reserved_bytes if over else 0
        self._top_bytes = max(1, doc.peak_bytes, min(self._reserved, int(MOST_ABOVE * doc.peak_bytes)))
        self._labelled: set[str] = set()

    def svg(self) -> str:
        self.canvas.text(
            PLOT_X, 11, "one step to the right is one allocation or one release; waiting takes no room", "ink2"
        )
        self._layers()
        self._scale()
        self._peak()
        y = PLOT_TOP + PLOT_HEIGHT + 4
        y = self._band("cell line", self._stack.line[self._shown], self._cell_line, y, "host1")
        inner = np.where(self._is_in_function(), self._stack.path[self._shown], 0)
        if inner.any():
            y = self._band("in functions", inner, self._in_function, y, "host2")
        return self.canvas.svg(self._key(y + 4), alt_text(self._doc))

    def _layers(self) -> None:
        heights = self._stack.held_bytes[:, self._shown] * (PLOT_HEIGHT / self._top_bytes)
        upper = np.round(np.cumsum(heights, axis=0) * 2) / 2
        lower = np.zeros(upper.shape[1])
        for i, name in enumerate(self._stack.layers):
            self.canvas.fill(_between(self._edges, lower, upper[i]), MEMORY_TONES[name])
            lower = upper[i]
        lower = np.zeros(upper.shape[1])
        for i, name in enumerate(self._stack.layers):
            self._layer_label(name, lower, upper[i])
            lower = upper[i]

    def _layer_label(self, name: str, lower: Float64, upper: Float64) -> None:
        """The name in the thickest place of a layer that has room for it, beside the line of the peak."""
        room = width_px(name, 10) * 1.12 + 8
        peak_x = self._peak_x()
        best, at = LABEL_PX, (0.0, 0.0)
        for a in range(0, len(upper), max(1, len(upper) // 200)):
            left = float(self._edges[a])
            b = int(np.searchsorted(self._edges, left + room))
            if b >= len(self._edges) or left - 3 <= peak_x <= left + room + 3:
                continue
            floor, roof = float(lower[a:b].max()), float(upper[a:b].min())
            if roof - floor > best:
                best, at = roof - floor, (left + 4, (floor + roof) / 2)
        if best > LABEL_PX:
            self._labelled.add(name)
            y = PLOT_TOP + PLOT_HEIGHT - at[1] + 3.5
            self._text_on(round(at[0], 1), round(y, 1), name)

    def _text_on(self, x: float, y: float, name: str) -> None:
        self.canvas.text(x, y, name, on_tone(MEMORY_TONES[name]))

    def _scale(self) -> None:
        """Sizes at the left, what is there at the end and what is reserved at the right; none over another."""
        doc = self._doc
        self.canvas.boxes([(PLOT_X, PLOT_TOP + PLOT_HEIGHT, PLOT_PX, 0.5)], "ink3")
        left = [(doc.peak_bytes, units.size(doc.peak_bytes)), (0, "0"), (doc.start_bytes, units.size(doc.start_bytes))]
        taken: list[float] = []
        for value, words in left:
            y = self._y(value)
            if all(abs(y - other) >= LABEL_PX for other in taken):
                taken.append(y)
                self.canvas.text(PLOT_X - 8, round(y + 3.5, 1), words, "ink2", anchor="end")
        x = PLOT_X + PLOT_PX + 6
        end_y = self._y(doc.end_bytes)
        self.canvas.text(x, round(end_y + 3.5, 1), f"{units.size(doc.end_bytes)} after", "ink2")
        if not doc.reserved_bytes:
            return
        y = PLOT_TOP
        words = f"{units.size(doc.reserved_bytes)} reserved"
        if self._reserved:
            y = self._y(min(self._reserved, self._top_bytes))
            line = f"M{number(PLOT_X)} {number(round(y, 1))}h{number(PLOT_PX)}"
            self.canvas.stroke(line, "ink2", 1.0, dash=(4, 3))
        if abs(y - end_y) < LABEL_PX:
            y = end_y - LABEL_PX
        self.canvas.text(x, round(y + 3.5, 1), words, "ink2")
        if self._reserved > self._top_bytes:
            self.canvas.text(x, round(y - 8.5, 1), "off the scale:", "ink2")

    def _peak(self) -> None:
        doc, x = self._doc, self._peak_x()
        top = self._y(doc.peak_bytes)
        words = f"peak {units.size(doc.peak_bytes)}"
        line = f"M{number(x)} {number(round(top, 1))}V{number(PLOT_TOP + PLOT_HEIGHT)}"
        self.canvas.stroke(line, "ink", 1.0, dash=(2, 2))
        self.canvas.boxes([(x - 2, top - 2, 4, 4)], "ink")
        room = width_px(words, 10, bold=True) * 1.15
        anchor = "end" if x + 6 + room > PLOT_X + PLOT_PX else ""
        self.canvas.text(x - 6 if anchor else x + 6, round(top - 5, 1), words, anchor=anchor, bold=True)

    def _band(self, name: str, value: Int64, words: Callable[[int], tuple[str, ...]], y: float, tone: str) -> float:
        """Stretches with one value as boxes; returns the lower edge."""
        self.canvas.text(PLOT_X - 8, y + 10, name, "ink2", anchor="end")
        cuts = np.flatnonzero(np.diff(value)) + 1
        boxes = []
        for a, b in zip([0, *cuts.tolist()], [*cuts.tolist(), len(value)], strict=True):
            if not value[a]:
                continue
            x, right = float(self._edges[a]), float(self._edges[b])
            width = max(0.5, right - x - 0.5)
            boxes.append((round(x, 1), y, round(width, 1), BAND_PX - 2))
            shown = next((one for one in words(int(value[a])) if width_px(one, 10) * 1.12 + 4 <= width), "")
            if shown:
                self.canvas.text(round(x + width / 2, 1), y + 9.5, shown, "hostink", anchor="middle")
        first = self.canvas.mark()
        self.canvas.boxes(boxes, tone)
        self.canvas.move_down(first, self._ground)
        return y + BAND_PX

    @property
    def _ground(self) -> int:
        return 1  # above the heading, below all else that is drawn

    def _key(self, y: float) -> float:
        """The layers that had no room for their name."""
        x = PLOT_X
        peak = self._stack.held_bytes.max(axis=1).tolist()
        for name, most in zip(self._stack.layers, peak, strict=True):
            if name in self._labelled or not most:
                continue
            width = 14 + width_px(name, 10) * 1.15 + 14
            if x + width > WIDTH_PX:
                x, y = PLOT_X, y + 15
            self.canvas.boxes([(round(x, 1), y + 3, 10, 8)], MEMORY_TONES[name])
            self.canvas.text(round(x + 14, 1), y + 10.5, name, "ink2")
            x += width
        return y + 16

    def _cell_line(self, line: int) -> tuple[str, ...]:
        return (f"line {line}", str(line))

    def _in_function(self, path: int) -> tuple[str, ...]:
        line, function = self._doc.places[path]
        return (f"{function} {line}", f"{function.rsplit('.', 1)[-1]} {line}", str(line))

    def _is_in_function(self) -> np.ndarray[tuple[int], np.dtype[np.bool_]]:
        inner = {path for path, (_, function) in self._doc.places.items() if function}
        return np.isin(self._stack.path[self._shown], list(inner))

    def _peak_x(self) -> float:
        column = int(np.flatnonzero(self._shown == self._stack.peak_step)[0])
        return round(float(self._edges[column] + self._edges[column + 1]) / 2, 1)

    def _y(self, size_bytes: float) -> float:
        return PLOT_TOP + PLOT_HEIGHT * (1 - size_bytes / self._top_bytes)


def _columns(total: Int64, most: int, peak_step: int) -> tuple[Int64, Float64]:
    """The step that each column shows, and the edges of the columns in px; the peak is always one of them."""
    n = len(total)
    if n <= most:
        return np.arange(n), PLOT_X + np.linspace(0, PLOT_PX, n + 1)
    cuts = np.linspace(0, n, most + 1).astype(np.int64)
    shown = np.array([a + int(np.argmax(total[a:b])) for a, b in pairwise(cuts.tolist())])
    shown[int(np.searchsorted(cuts, peak_step, side="right")) - 1] = peak_step
    return shown, PLOT_X + np.linspace(0, PLOT_PX, most + 1)


def _between(edges: Float64, lower: Float64, upper: Float64) -> str:
    """The shape between two step curves, heights in px over the floor; nothing where they meet."""
    found = []
    floor = PLOT_TOP + PLOT_HEIGHT
    drawn = np.concatenate(([False], upper > lower, [False]))
    for a, b in np.flatnonzero(drawn[1:] != drawn[:-1]).reshape(-1, 2).tolist():
        x = np.round(edges[a : b + 1], 1).tolist()
        up, down = upper[a:b].tolist(), lower[a:b].tolist()
        text = f"M{number(x[0])} {number(floor - up[0])}" + _steps(x, up)
        text += f"V{number(floor - down[-1])}" + _steps(x[::-1], down[::-1])
        found.append(text + "z")
    return "".join(found)


def _steps(x: list[float], level: list[float]) -> str:
    """Relative moves along x, at level[i] between x[i] and x[i + 1]; equal levels are one move."""
    text, since = "", 0
    for i in range(1, len(level)):
        if level[i] != level[i - 1]:
            text += f"h{number(round(x[i] - x[since], 1))}v{number(level[i - 1] - level[i])}"
            since = i
    return text + f"h{number(round(x[-1] - x[since], 1))}"


def _letters(ground: str) -> str:
    red, green, blue = (int(ground[i : i + 2], 16) / 255 for i in (1, 3, 5))
    bright = 0.2126 * red**2.2 + 0.7152 * green**2.2 + 0.0722 * blue**2.2
    return _DARK_TEXT if bright > 0.18 else _LIGHT_TEXT
