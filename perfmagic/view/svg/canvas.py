"""An SVG in the making: elements, and the style rules they turned out to need.

Every colour is a class with a light and a dark value, so one picture serves both themes; only what is used is written.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass

from perfmagic.view.svg.metrics import width_px
from perfmagic.view.svg.palette import TONES, Tone
from perfmagic.view.svg.path import number, rects

WIDTH_PX = 1000
HATCH_PX = 5.0
UI_FONT = "Arial,Helvetica,sans-serif"
CODE_FONT = "ui-monospace,Menlo,Consolas,'DejaVu Sans Mono',monospace"
# what XML 1.0 cannot hold, and what would turn the direction of the text around it
_UNFIT = re.compile("[^\t\n\r\x20-\x7e\x85\xa0-\u2029\u202f-\u2065\u206a-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")


def escaped(text: str) -> str:
    """Other people's text as XML character data and attribute values."""
    plain = _UNFIT.sub("\ufffd", text)
    return plain.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;").replace('"', "&quot;")


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


class Canvas:
    """Collects the elements of one picture."""

    def __init__(self) -> None:
        self._elements: list[str] = []
        self._patterns: dict[str, str] = {}
        self._classes: dict[tuple[str, Tone, str], str] = {}

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

    def hatch_lost(self, data: str) -> None:
        """Lost time: red lines falling to the right, over a path."""
        self._hatch(data, "wait", turn=-45, width=1.0, opacity=0.55)

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
        """One line of text; y is its baseline.  anchor: "", "middle" or "end".  turned: running upwards."""
        attributes = f' x="{number(x)}" y="{number(y)}"'
        attributes += f' font-size="{number(size)}"' if size != 10 else ""
        attributes += f' text-anchor="{anchor}"' if anchor else ""
        attributes += ' font-weight="600"' if bold else ""
        attributes += f' font-family="{CODE_FONT}"' if mono else ""
        attributes += f' transform="rotate(-90 {number(x)} {number(y)})"' if turned else ""
        self._elements.append(f'<text class="{self._class("fill", token)}"{attributes}>{escaped(text)}</text>')

    def run(self, x: float, y: float, *parts: Part) -> None:
        """Pieces of text one after the other: wherever a reader's font ends the first, the next begins."""
        spans = "".join(part.span(self._class("fill", part.token)) for part in parts if part.text)
        self._elements.append(f'<text x="{number(x)}" y="{number(y)}">{spans}</text>')

    def pill(self, x: float, y: float, text: str) -> None:
        """A centred label on a patch of ground, its middle at (x, y)."""
        width = width_px(text, 10, bold=True) + 8
        cls = self._class("fill", "ground", "opacity:.82")
        self._elements.append(
            f'<rect class="{cls}" x="{number(round(x - width / 2, 1))}" y="{number(round(y - 7, 1))}" '
            f'width="{number(round(width, 1))}" height="{number(14)}" rx="{number(3)}"/>'
        )
        self.text(round(x, 1), round(y + 3.5, 1), text, anchor="middle", bold=True)

    def shifted(self, x: float) -> None:
        """From here on x is counted from another place, until `back`."""
        self._elements.append(f'<g transform="translate({number(x)})">')

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
        ground = self._class("fill", "ground")
        w, h = number(WIDTH_PX), number(round(height_px))
        size = f'viewBox="0 0 {w} {h}" width="{WIDTH_PX}" height="{round(height_px)}"'
        return (
            f'<svg xmlns="http://www.w3.org/2000/svg" {size} '
            f'role="img" aria-label="{escaped(label)}" font-family="{UI_FONT}" font-size="{number(10)}">'
            f"<style>{self._style()}</style>"
            f"{'<defs>' + ''.join(self._patterns.values()) + '</defs>' if self._patterns else ''}"
            f'<rect class="{ground}" width="{w}" height="{h}"/>'
            f"{''.join(self._elements)}</svg>\n"
        )

    def _hatch(self, data: str, token: str, *, turn: int, width: float, opacity: float) -> None:
        if not data:
            return
        name = f"{token}{'w' if turn > 0 else 'l'}"
        if name not in self._patterns:
            p = number(HATCH_PX)
            cls = self._class("stroke", token, f"stroke-width:{number(width)};opacity:{opacity:g}")
            self._patterns[name] = (
                f'<pattern id="{name}" width="{p}" height="{p}" patternUnits="userSpaceOnUse" '
                f'patternTransform="rotate({turn})"><path class="{cls}" d="M{number(HATCH_PX / 2)} 0V{p}"/></pattern>'
            )
        self._elements.append(f'<path fill="url(#{name})" d="{data}"/>')

    def _class(self, kind: str, tone: str | Tone, extra: str = "") -> str:
        key = (kind, TONES[tone] if isinstance(tone, str) else tone, extra)
        return self._classes.setdefault(key, _short_name(len(self._classes)))

    def _style(self) -> str:
        light, dark = [], []
        for (kind, tone, extra), name in self._classes.items():
            light.append(f".{name}{{{kind}:{tone.light}{';' + extra if extra else ''}}}")
            dark.append(f".{name}{{{kind}:{tone.dark}}}")
        return f"{''.join(light)}@media(prefers-color-scheme:dark){{{''.join(dark)}}}"


def _short_name(index: int) -> str:
    letters = "abcdefghijklmnopqrstuvwxyz"
    return letters[index] if index < 26 else letters[index // 26 - 1] + letters[index % 26]
