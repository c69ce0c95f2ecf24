"""One image that holds a picture laid out for several widths, of which the reader sees the widest that fits.

Media queries inside an image ask for the width of the image itself: of the cell, column or sheet, not of the window.
They survive every front end that keeps an image. The elements `picture` and `source` do not, and know only the window.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import chain, pairwise
from typing import TypeVar

from perfmagic.view.svg.canvas import WIDTH_PX, Canvas, Styles, number, root_attributes

# from the widest: a notebook beside an open sidebar, a sheet of paper less its margins and prompts, a telephone
WIDTHS_PX = (WIDTH_PX, 780, 580, 320)
FEWER_WIDTHS_PX = ((WIDTH_PX, 580, 320), (WIDTH_PX, 320))  # where all of them take too many bytes
LEAST_SCALE = 0.92  # a layout is shown down to this share of its width: letters of 11 px become 10 px
MAX_PICTURE_BYTES = 40_000  # of a picture drawn once; base64 in a notebook's output makes 53,400 of it
MAX_BYTES = 52_000  # of the file; base64 in a notebook's output makes 69,400 of it

Draw = Callable[[Canvas], float]  # draws a picture as wide as the canvas, and returns its height in px


@dataclass(frozen=True)
class Picture:
    """An image, and how high it is in the layout of each width, from the widest to the narrowest."""

    svg: str
    heights_px: dict[int, int]

    @property
    def n_bytes(self) -> int:
        return len(self.svg.encode())

    @property
    def margin(self) -> str:
        """As CSS: what takes away the height by which the layout shown is lower than the highest one.

        An image has one height, and a length in CSS no condition: each term is a step of 1 px at a width, times a jump.
        """
        heights = sorted(self.heights_px.items())
        terms = "".join(
            f" + {height - below} * clamp(0px, (100% - {_least_px(width_px)}px) * 9999 + 1px, 1px)"
            for (_, below), (width_px, height) in pairwise(heights)
            if height != below
        )
        return f"calc({heights[0][1] - max(self.heights_px.values())}px{terms})" if terms else "0"


def alone(draw: Draw, label: str) -> Picture:
    """What `draw` draws on a canvas, 1000 px wide; it returns the height. label: what the picture says."""
    canvas = Canvas()
    height = draw(canvas)
    return Picture(canvas.svg(height, label), {WIDTH_PX: round(height)})


def laid_out(draw: Draw, label: str, widths_px: tuple[int, ...] = WIDTHS_PX) -> Picture:
    """The same on canvases of several widths, the widest first."""
    styles, heights, layouts = Styles(), {}, ""
    for index, width_px in enumerate(widths_px):
        canvas = Canvas(width_px, styles)
        heights[width_px] = round(draw(canvas))
        layouts += _layout(index, canvas, heights[width_px])
    root = f'<svg {root_attributes(label)} width="100%" height="{max(heights.values())}">'
    return Picture(f"{root}{styles.elements(_rules(widths_px))}{layouts}</svg>\n", heights)


def in_bytes(draw: Draw, label: str) -> Picture:
    """The same for as many widths as fit into MAX_BYTES."""
    by_width = (laid_out(draw, label, widths_px) for widths_px in (WIDTHS_PX, *FEWER_WIDTHS_PX))
    return first_fit(chain(by_width, map(partial(alone, draw), [label])), MAX_BYTES)


def first_fit(pictures: Iterator[Picture], most_bytes: int) -> Picture:
    """The first picture that fits, else the last; those after it are not drawn."""
    picture = next(pictures)
    while picture.n_bytes > most_bytes:
        smaller = next(pictures, None)
        if smaller is None:
            break
        picture = smaller
    return picture


def _layout(index: int, canvas: Canvas, height_px: int) -> str:
    """One layout, never enlarged; the narrowest is made as small as the image is."""
    box = f'viewBox="0 0 {number(canvas.width_px)} {number(height_px)}" preserveAspectRatio="xMinYMin"'
    hidden = ' display="none"' if index else ""  # a reader without media queries sees the first
    return f'<svg class="L{index}" {box} width="100%" height="{height_px}"{hidden}>{canvas.drawn(height_px)}</svg>'


def _least_px(width_px: int) -> int:
    """The least width of an image at which a layout is shown, scaled by LEAST_SCALE at most."""
    return round(width_px * LEAST_SCALE)


def _rules(widths_px: tuple[int, ...]) -> str:
    least_px = [_least_px(width_px) for width_px in widths_px]
    rules = f"@media(max-width:{least_px[0] - 0.02}px){{.L0{{display:none}}}}"
    for index, (above_px, width_px) in enumerate(pairwise(least_px), 1):
        least = f"(min-width:{width_px}px) and " if index < len(widths_px) - 1 else ""
        rules += f"@media {least}(max-width:{above_px - 0.02}px){{.L{index}{{display:inline}}}}"
    return rules


DetailT = TypeVar("DetailT")


def fit_layouts(
    drawing: Callable[[DetailT], Draw],
    details: Sequence[DetailT],
    narrow: Callable[[DetailT], DetailT],
    label: str,
    most_bytes: int,
) -> Picture:
    """First all layouts, then fewer, then one: each as fine as fits.

    details: from fine to coarse.  narrow: the detail of narrow layouts beside a wide one.  label: what it says.
    """

    def pictures() -> Iterator[Picture]:
        yield laid_out(drawing(details[0]), label)
        for widths_px in FEWER_WIDTHS_PX:
            yield smallest_fit(partial(fewer, widths_px), details, most_bytes)
        yield smallest_fit(lambda detail: alone(drawing(detail), label), details, most_bytes)

    def fewer(widths_px: tuple[int, ...], detail: DetailT) -> Picture:
        """Layouts of which only the widest has the detail: most readers see that one."""
        return laid_out(
            lambda canvas: drawing(detail if canvas.width_px == WIDTH_PX else narrow(detail))(canvas), label, widths_px
        )

    return first_fit(pictures(), most_bytes)


def smallest_fit(draw: Callable[[DetailT], Picture], details: Sequence[DetailT], most_bytes: int) -> Picture:
    """The finest picture that fits, else the coarsest one, found by halves: a coarser one is smaller."""
    finest = draw(details[0])
    if finest.n_bytes <= most_bytes:
        return finest
    fits, low, high = None, 1, len(details) - 1
    while low < high:
        middle = (low + high) // 2
        picture = draw(details[middle])
        if picture.n_bytes <= most_bytes:
            fits, high = picture, middle
        else:
            low = middle + 1
    return fits or draw(details[-1])
