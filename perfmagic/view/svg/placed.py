"""Labels of a picture of which none overlaps another, and lines that leave them readable."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise

from perfmagic.view.svg.canvas import Canvas
from perfmagic.view.svg.metrics import width_px

_ABOVE, _BELOW = 0.8, 0.25  # of its size, how far a text reaches from its baseline
_APART_PX = 3  # beside a text


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
