"""An SVG in the making: elements, and the style rules they turned out to need.

Every colour is a class with a light and a dark value, so one picture serves both themes; only what is used is written.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import pairwise

import numpy as np

from perfmagic.base.terminal import escaped
from perfmagic.trace.columns import Bool, Float64
from perfmagic.view.svg.metrics import width_px
from perfmagic.view.svg.palette import TONES, Tone, lighter, tint

# Short path data for SVG: step curves, thin lines and rectangles with rounded, relative coordinates.

UNITS_PER_PX = 2


@lru_cache(maxsize=8192)
def number(px: float) -> str:
    """A length in pixels as user units, at most two decimals, as few characters as possible: 0.25 → ".5"."""
    text = f"{px * UNITS_PER_PX:.2f}".rstrip("0").rstrip(".")
    if text in ("-0", ""):
        return "0"
    return text.replace("0.", ".", 1) if text.startswith(("0.", "-0.")) else text


def quantised(height_px: Float64, step_px: float) -> Float64:
    """Heights rounded to steps; what is not zero keeps at least one step, so that no time disappears."""
    rounded = np.round(height_px / step_px)
    return np.where(height_px > 0, np.maximum(rounded, 1), 0) * step_px


def step_path(edges_px: Float64, height_px: Float64, floor_px: float) -> str:
    """A closed shape standing on the floor: between edges i and i + 1 it is height_px[i] high.

    Heights should be quantised: only changes are written.
    """
    return "".join(_run(edges_px, height_px, floor_px, a, b) + "z" for a, b in stretches(height_px > 0))


def step_line(edges_px: Float64, height_px: Float64, floor_px: float, *, down: bool = True) -> str:
    """An open step curve over the floor. NaN interrupts it; with `down` zero does, and ends go to the floor."""
    drawn = height_px > 0 if down else ~np.isnan(height_px)
    return "".join(_run(edges_px, height_px, floor_px, a, b, feet=down) for a, b in stretches(drawn))


def thin_line(x_px: Float64, y_px: Float64, tolerance_px: float) -> str:
    """An open line through points in x order, in as few straight pieces as stay within the tolerance of every point."""
    kept = _corners(x_px.tolist(), y_px.tolist(), tolerance_px)
    x, y = np.round(x_px[kept], 1).tolist(), np.round(y_px[kept] * 2).tolist()
    text = [f"M{number(x[0])} {number(y[0] / 2)}"]
    for i in range(1, len(kept)):
        down = number((y[i] - y[i - 1]) / 2)
        along = number(x[i] - x[i - 1])
        text.append(f"h{along}" if down == "0" else f"l{along}{'' if down.startswith('-') else ' '}{down}")
    return "".join(text)


def rects(boxes: Iterable[tuple[float, float, float, float]]) -> str:
    """Many rectangles (x, y, width, height) as one path."""
    return "".join(f"M{number(x)} {number(y)}h{number(w)}v{number(h)}h{number(-w)}z" for x, y, w, h in boxes)


def _corners(x: list[float], y: list[float], tolerance: float) -> list[int]:
    """Indices of the points to keep: from each, as far as one straight piece passes all points between."""
    kept, steepest, flattest = [0], float("inf"), float("-inf")
    for i in range(1, len(x)):
        origin = kept[-1]
        run = max(x[i] - x[origin], 1e-9)
        slope = (y[i] - y[origin]) / run
        if not flattest <= slope <= steepest and i - 1 > origin:
            kept.append(i - 1)
            steepest, flattest = float("inf"), float("-inf")
            run = max(x[i] - x[i - 1], 1e-9)
            origin = i - 1
        steepest = min(steepest, (y[i] - y[origin] + tolerance) / run)
        flattest = max(flattest, (y[i] - y[origin] - tolerance) / run)
    return [*kept, len(x) - 1] if len(x) > 1 else kept


def stretches(mask: Bool) -> list[tuple[int, int]]:
    """Index ranges [a, b) in which the mask holds."""
    padded = np.concatenate(([False], mask, [False]))
    flips = np.flatnonzero(padded[1:] != padded[:-1])
    return [(int(a), int(b)) for a, b in flips.reshape(-1, 2)]


def _run(edges: Float64, height: Float64, floor: float, a: int, b: int, *, feet: bool = True) -> str:
    """Slots a to b as relative moves; sums of rounded moves are rounded sums, so nothing drifts."""
    part = height[a:b]
    cuts = np.concatenate(([0], np.flatnonzero(np.diff(part)) + 1))
    x = [*np.round(edges[a:b][cuts], 1).tolist(), round(float(edges[b]), 1)]
    levels = part[cuts].tolist()
    at = 0.0 if feet else levels[0]
    text = [f"M{number(x[0])} {number(floor - at)}"]
    for i, level in enumerate(levels):
        if level != at:
            text.append(f"v{number(at - level)}")
        text.append(f"h{number(x[i + 1] - x[i])}")
        at = level
    if feet:
        text.append(f"v{number(at)}")
    return "".join(text)


WIDTH_PX = 1000
NARROW_PX = 520  # pictures below it have no room for labels beside a plot
HATCH_PX = 5.0
UI_FONT = "Arial,Helvetica,sans-serif"
CODE_FONT = "ui-monospace,Menlo,Consolas,'DejaVu Sans Mono',monospace"


@dataclass(frozen=True)
class Part:
    """A piece of a line of text; gap_px: the room left before it."""

    text: str
    token: str = "ink"
    size: int = 10
    bold: bool = False
    gap_px: int = 0

    def span(self, cls: str) -> str:
        """The piece as SVG."""
        attributes = f' dx="{2 * self.gap_px}"' if self.gap_px else ""  # a picture's own unit is half a pixel
        attributes += f' font-size="{2 * self.size}"' if self.size != 10 else ""
        attributes += ' font-weight="600"' if self.bold else ""
        return f'<tspan class="{cls}"{attributes}>{escaped(self.text)}</tspan>'


class Styles:
    """The classes and hatches that pictures in one file share.  predicted: ops are as pale as predictions are."""

    def __init__(self) -> None:
        self._classes: dict[tuple[str, Tone, str], str] = {}
        self._patterns: dict[str, str] = {}
        self.predicted = False

    def class_of(self, kind: str, tone: str | Tone, extra: str = "") -> str:
        """The class that fills or strokes (kind) with a tone."""
        if isinstance(tone, str):
            tone = lighter(tone) if self.predicted else TONES[tone]
        key = (kind, tone, extra)
        return self._classes.setdefault(key, _short_name(len(self._classes)))

    def hatch(self, token: str, *, turn: int, width: float, opacity: float) -> str:
        """The id of a pattern of lines turned by turn degrees."""
        name = f"{token}{'w' if turn > 0 else 'l'}"
        if name not in self._patterns:
            p = number(HATCH_PX)
            cls = self.class_of("stroke", token, f"stroke-width:{number(width)};opacity:{opacity:g}")
            self._patterns[name] = (
                f'<pattern id="{name}" width="{p}" height="{p}" patternUnits="userSpaceOnUse" '
                f'patternTransform="rotate({turn})"><path class="{cls}" d="M{number(HATCH_PX / 2)} 0V{p}"/></pattern>'
            )
        return name

    def elements(self, rules: str = "") -> str:
        """The style element, with more rules behind its own, and the patterns."""
        light, dark = [], []
        for (kind, tone, extra), name in self._classes.items():
            light.append(f".{name}{{{kind}:{tone.light}{';' + extra if extra else ''}}}")
            dark.append(f".{name}{{{kind}:{tone.dark}}}")
        style = f"{''.join(light)}@media(prefers-color-scheme:dark){{{''.join(dark)}}}{rules}"
        patterns = "".join(self._patterns.values())
        return f"<style>{style}</style>{f'<defs>{patterns}</defs>' if patterns else ''}"


class Canvas:
    """Collects the elements of one picture. width_px: what the picture is laid out for."""

    def __init__(self, width_px: int = WIDTH_PX, styles: Styles | None = None) -> None:
        self.width_px = width_px
        self._styles = styles or Styles()
        self._elements: list[str] = []

    def show_predictions(self) -> None:
        """Draw ops pale from now on, in all pictures with these styles."""
        self._styles.predicted = True

    def fill(self, data: str, tone: str | Tone) -> None:
        """A filled path."""
        if data:
            self._elements.append(f'<path class="{self._class("fill", tone)}" d="{data}"/>')

    def boxes(self, boxes: Iterable[tuple[float, float, float, float]], tone: str | Tone) -> None:
        """Filled rectangles (x, y, width, height) of one colour."""
        self.fill(rects(boxes), tone)

    def stroke(
        self,
        data: str,
        tone: str | Tone,
        width: float = 1.0,
        opacity: float = 1.0,
        *,
        dash: tuple[float, ...] = (),
        cap: str = "",
    ) -> None:
        """A stroked path."""
        if not data:
            return
        extra = f"fill:none;stroke-width:{number(width)}"
        extra += f";opacity:{opacity:g}" if opacity < 1 else ""
        extra += f";stroke-dasharray:{' '.join(map(number, dash))}" if dash else ""
        extra += f";stroke-linecap:{cap}" if cap else ""
        self._elements.append(f'<path class="{self._class("stroke", tone, extra)}" d="{data}"/>')

    def hatch_lost(self, data: str, token: str = "wait") -> None:
        """Lost time: red lines falling to the right, over a path.  token: another colour, where none is lost."""
        self._hatch(data, token, turn=-45, width=1.0, opacity=0.55)

    def hatch_waiting(self, data: str, token: str) -> None:
        """Queued and held: lines in the ink of the class, rising to the right, over a path."""
        self._hatch(data, token, turn=45, width=0.9, opacity=0.6)

    def text(
        self,
        x: float,
        y: float,
        text: str,
        token: str = "ink",
        *,
        size: int = 10,
        anchor: str = "",
        bold: bool = False,
        mono: bool = False,
        turned: bool = False,
    ) -> None:
        """One line of text; y is its baseline.  anchor: "", "middle" or "end".  turned: running upwards.

        Backticks around a name in a sentence are left out; code (mono) is drawn as it is.
        """
        shown = text if mono else re.sub("`([^`]+)`", r"\1", text)
        attributes = f' x="{number(x)}" y="{number(y)}"'
        attributes += f' font-size="{number(size)}"' if size != 10 else ""
        attributes += f' text-anchor="{anchor}"' if anchor else ""
        attributes += ' font-weight="600"' if bold else ""
        attributes += f' font-family="{CODE_FONT}"' if mono else ""
        attributes += f' transform="rotate(-90 {number(x)} {number(y)})"' if turned else ""
        self._elements.append(f'<text class="{self._class("fill", token)}"{attributes}>{escaped(shown)}</text>')

    def run(self, x: float, y: float, *parts: Part) -> None:
        """Pieces of text one after the other: wherever a reader's font ends the first, the next begins."""
        spans = "".join(part.span(self._class("fill", part.token)) for part in parts if part.text)
        self._elements.append(f'<text x="{number(x)}" y="{number(y)}">{spans}</text>')

    def patch(self, box: tuple[float, float, float, float]) -> None:
        """A rounded rectangle of ground that lets a little through; box: x, y, width, height."""
        cls = self._class("fill", "ground", "opacity:.82")
        x, y, width, height = map(number, box)
        self._elements.append(
            f'<rect class="{cls}" x="{x}" y="{y}" width="{width}" height="{height}" rx="{number(3)}"/>'
        )

    def shifted(self, x: float) -> None:
        """From here on x is counted from another place, until `back`."""
        self._elements.append(f'<g transform="translate({number(x)})">')

    def titled(self, words: str) -> None:
        """From here on what is drawn has a tooltip, until `back`."""
        self._elements.append(f"<g><title>{escaped(words)}</title>")

    def back(self) -> None:
        self._elements.append("</g>")

    def mark(self) -> int:
        """The place reached, to insert something below what follows."""
        return len(self._elements)

    def move_down(self, first: int, to: int) -> None:
        """Paint the elements drawn since `first` before the one at `to`: under it."""
        moved = self._elements[first:]
        self._elements[first:] = []
        self._elements[to:to] = moved

    def svg(self, height_px: float, label: str) -> str:
        """The whole picture, on an opaque ground; label: what it says in one sentence."""
        drawn, w, h = self.drawn(height_px), number(self.width_px), number(round(height_px))
        size = f'viewBox="0 0 {w} {h}" width="{self.width_px}" height="{round(height_px)}"'
        return f"<svg {root_attributes(label)} {size}>{self._styles.elements()}{drawn}</svg>\n"

    def drawn(self, height_px: float) -> str:
        """The elements on their ground, in user units."""
        size = f'width="{number(self.width_px)}" height="{number(round(height_px))}"'
        return f'<rect class="{self._class("fill", "ground")}" {size}/>{"".join(self._elements)}'

    def _hatch(self, data: str, token: str, *, turn: int, width: float, opacity: float) -> None:
        if data:
            name = self._styles.hatch(token, turn=turn, width=width, opacity=opacity)
            self._elements.append(f'<path fill="url(#{name})" d="{data}"/>')

    def _class(self, kind: str, tone: str | Tone, extra: str = "") -> str:
        return self._styles.class_of(kind, tone, extra)


def root_attributes(label: str) -> str:
    """What every picture's root element has; label: what it says in one sentence."""
    return (
        f'xmlns="http://www.w3.org/2000/svg" role="img" aria-label="{escaped(label)}" '
        f'font-family="{UI_FONT}" font-size="{number(10)}"'
    )


def _short_name(index: int) -> str:
    letters = "abcdefghijklmnopqrstuvwxyz"
    return letters[index] if index < 26 else letters[index // 26 - 1] + letters[index % 26]


# Samples in the order they were taken, and their distribution beside them.

MOST_DOTS = 400


def draw_dots(canvas: Canvas, x: Float64, y: Float64, hollow: Sequence[bool], token: str, *, size: float = 2.6) -> None:
    """A dot per sample, outliers hollow; very many as the range of each pixel column, and the outliers on top."""
    if len(x) > MOST_DOTS:
        far = np.asarray(hollow, bool)
        _draw_columns(canvas, x[~far], y[~far], token)
        places = sorted({(int(a), round(float(b))) for a, b in zip(x[far], y[far], strict=True)})
        canvas.boxes([(a, b, 1, 1) for a, b in places], token)
        return
    points = [
        (number(round(float(a), 1)), number(round(float(b), 1)), far) for a, b, far in zip(x, y, hollow, strict=True)
    ]
    canvas.stroke("".join(f"M{a} {b}h0" for a, b, far in points if not far), token, size, cap="round")
    canvas.stroke("".join(f"M{a} {b}h0" for a, b, far in points if far), "ink", size + 2, cap="round")
    canvas.stroke("".join(f"M{a} {b}h0" for a, b, far in points if far), "ground", size, cap="round")


def _draw_columns(canvas: Canvas, x: Float64, y: Float64, token: str) -> None:
    column = np.floor(x).astype(int)
    starts = np.flatnonzero(np.diff(column, prepend=-1))
    tops, bottoms = np.minimum.reduceat(y, starts), np.maximum.reduceat(y, starts)
    spans = zip(column[starts].tolist(), tops.round(1).tolist(), bottoms.round(1).tolist(), strict=True)
    canvas.boxes([(c, t, 1, round(max(1.0, b - t), 1)) for c, t, b in spans], token)


def draw_distribution(
    canvas: Canvas, y: Float64, token: str, *, x: float, width: float, top: float, height: float, bins: int
) -> None:
    """How many samples lie in each of some equal steps between top and top + height, as bars to the right of x."""
    counts, _ = np.histogram(y, bins=bins, range=(top, top + height))
    bar = height / bins
    lengths = counts / max(1, counts.max()) * width
    boxes = [
        (x, round(top + i * bar, 1), round(float(length), 1), round(bar - 0.4, 1))
        for i, length in enumerate(lengths)
        if length
    ]
    canvas.boxes(boxes, tint(token, 0.75, 0.75))


# Labels: in rows, on a patch of ground, or where none overlaps another and lines leave them readable.

KEY_ROW_PX = 15


def in_row(canvas: Canvas, x: float, y: float, width: float, left_px: float = 0.0) -> tuple[float, float]:
    """Where the next entry of a key begins: in the next row where this one has no room."""
    return (x, y) if x <= left_px or x + width <= canvas.width_px else (left_px, y + KEY_ROW_PX)


_ABOVE, _BELOW = 0.8, 0.25  # of its size, how far a text reaches from its baseline
_APART_PX = 3  # beside a text


def draw_pill(canvas: Canvas, x: float, y: float, text: str) -> None:
    """A centred label on a patch of ground, its middle at (x, y)."""
    width = width_px(text, 10, bold=True) + 8
    canvas.patch((round(x - width / 2, 1), round(y - 7, 1), round(width, 1), 14.0))
    canvas.text(round(x, 1), round(y + 3.5, 1), text, anchor="middle", bold=True)


class Placed:
    """Draws labels on a canvas where there is room for them; the first come first."""

    def __init__(self, canvas: Canvas) -> None:
        self._canvas = canvas
        self._boxes: list[tuple[float, float, float, float]] = []  # left, top, right, bottom

    def text(
        self,
        x: float,
        y: float,
        words: str,
        token: str = "ink",
        *,
        anchor: str = "middle",
        bold: bool = False,
        size: int = 10,
    ) -> bool:
        """One line of text with its baseline at y, and whether there was room for it."""
        box = self._box(x, y, words, anchor, size, bold=bold)
        if any(_overlap(box, other) for other in self._boxes):
            return False
        self._boxes.append(box)
        self._canvas.text(round(x, 1), round(y, 1), words, token, anchor=anchor, bold=bold, size=size)
        return True

    def fit(self, places: list[float], texts: list[str], *, bold: bool = False, size: int = 10) -> bool:
        """Whether texts side by side, each in the middle of its place, would not touch; places rise."""
        boxes = [self._box(x, 0.0, words, "middle", size, bold=bold) for x, words in zip(places, texts, strict=True)]
        return all(a[2] <= b[0] for a, b in pairwise(boxes))

    def beside(self, left: float, right: float, y: float) -> Iterator[tuple[float, float]]:
        """The pieces (left, right) of a horizontal line at y that cross no label."""
        at = left
        for box in sorted(box for box in self._boxes if box[1] - 1 < y < box[3] + 1):
            if box[2] > at and box[0] < right:
                if box[0] > at:
                    yield at, box[0]
                at = box[2]
        if at < right:
            yield at, right

    @staticmethod
    def _box(
        x: float, y: float, words: str, anchor: str, size: int, *, bold: bool
    ) -> tuple[float, float, float, float]:
        wide = width_px(words, size, bold=bold)
        left = x - {"middle": wide / 2, "end": wide}.get(anchor, 0.0)
        return left - _APART_PX, y - _ABOVE * size, left + wide + _APART_PX, y + _BELOW * size


def _overlap(a: tuple[float, float, float, float], b: tuple[float, float, float, float]) -> bool:
    return a[0] < b[2] and b[0] < a[2] and a[1] < b[3] and b[1] < a[3]


def labels_apart(wanted: Sequence[float], step: float, low: float, high: float) -> list[float]:
    """Places for labels as near to the wanted ones as can be, a step apart and between low and high where they fit."""
    order = sorted(range(len(wanted)), key=lambda i: wanted[i])
    placed = [min(max(wanted[i], low), high) for i in order]
    for i in range(1, len(placed)):
        placed[i] = max(placed[i], placed[i - 1] + step)
    overshoot = placed[-1] - high
    for i in range(len(placed) - 1, -1, -1):
        highest = high - step * (len(placed) - 1 - i)
        placed[i] = max(low, min(placed[i], highest)) if overshoot > 0 else placed[i]
    return [place for _, place in sorted(zip(order, placed, strict=True))]
