"""A timeline as one static SVG: small enough to stay in the notebook when the kernel is gone."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import pairwise, product

from perfmagic import units
from perfmagic.view.svg.canvas import Canvas
from perfmagic.view.svg.metrics import WIDEST_FONT, fitted, width_px
from perfmagic.view.svg.scale import Scale, ticks
from perfmagic.view.timeline.critical import TITLE
from perfmagic.view.timeline.doc import TimelineDoc
from perfmagic.view.timeline.lanes import DeviceGroup, Flag
from perfmagic.view.timeline.picture.device import device_heading, draw_staves, draw_stream
from perfmagic.view.timeline.picture.frame import DETAILS, LEFT_PX, PLOT_PX, RIGHT_PX, Detail, Frame
from perfmagic.view.timeline.picture.head import draw_header, draw_key, draw_shares
from perfmagic.view.timeline.picture.host import draw_cell, draw_launches, draw_threads, line_tones
from perfmagic.view.timeline.picture.memory import draw_memory
from perfmagic.view.timeline.words import alt_text

MAX_BYTES = 40_000  # of the file; base64 in a notebook's output makes 53,400 of it
AXIS_PX = 15
FLAG_PX = 28
BRACKET_X = -LEFT_PX + 1
OPEN_STREAMS = 2  # with few ops on so few streams every op gets a row of its own


def timeline_svg(doc: TimelineDoc, *, header: bool = True, most_bytes: int = MAX_BYTES) -> str:
    """The picture of a timeline, 1000 px wide, at most 40 kB (or most_bytes), light and dark by the reader's system.

    header: with the first line, the findings and the trust line, for a picture that stands alone.
    """
    return smallest_fit(lambda detail: _picture(doc, detail, header), most_bytes)


def smallest_fit(draw: Callable[[Detail], str], most_bytes: int) -> str:
    """The finest picture that fits, else the coarsest one, found by halves: a coarser one is smaller."""
    finest = draw(DETAILS[0])
    if len(finest.encode()) <= most_bytes:
        return finest
    fits, low, high = "", 1, len(DETAILS) - 1
    while low < high:
        middle = (low + high) // 2
        picture = draw(DETAILS[middle])
        if len(picture.encode()) <= most_bytes:
            fits, high = picture, middle
        else:
            low = middle + 1
    return fits or draw(DETAILS[-1])


def _picture(doc: TimelineDoc, detail: Detail, header: bool) -> str:
    canvas = Canvas()
    y = draw_header(canvas, doc) if header else 4.0
    if len(doc.groups) == 1 and doc.groups[0].shares:
        y = draw_shares(canvas, doc.groups[0].shares, y)
    if doc.path:
        y = draw_shares(canvas, doc.path, y, title=TITLE)
    frame = Frame(canvas, Scale(doc.start_ns, doc.end_ns, PLOT_PX), detail)
    canvas.shifted(LEFT_PX)
    y = _draw_body(frame, doc, y)
    canvas.back()
    y = draw_key(canvas, doc, y + 4, header=header)
    return canvas.svg(y, alt_text(doc))


def _draw_body(frame: Frame, doc: TimelineDoc, y: float) -> float:
    if doc.flags:
        y += FLAG_PX
    axis_y, below = y, frame.canvas.mark()
    y = _draw_host(frame, doc, y + AXIS_PX)
    for group in doc.groups:
        y = _draw_group(frame, doc, group, y)
    lowest, above = y, frame.canvas.mark()
    _draw_axis(frame, axis_y, lowest)
    frame.canvas.move_down(above, below)
    _draw_flags(frame, doc.flags, doc.start_ns, axis_y - FLAG_PX, lowest)
    return lowest


def _draw_host(frame: Frame, doc: TimelineDoc, y: float) -> float:
    top = y
    if doc.cell is not None and len(doc.cell):
        y = draw_cell(frame, doc.cell, y) + 4
    if doc.threads and not doc.groups:
        y = draw_threads(frame, doc.threads, doc.names, y)
    if doc.launches is not None:
        returned = None if doc.returned_ns is None else frame.scale.x_of(doc.returned_ns)
        y = draw_launches(frame, doc.launches, returned, y) + 3
    _bracket(frame, top, y - 3, "Python", "host1")
    return y + 6 if y > top else y


def _draw_group(frame: Frame, doc: TimelineDoc, group: DeviceGroup, y: float) -> float:
    several = len(doc.groups) > 1
    if several:
        text = fitted(device_heading(group, doc.header.busy_of), PLOT_PX, 11, bold=True)
        frame.canvas.text(0, y + 11, text, size=11, bold=True)
        y += 18
    top, tones = y, line_tones(doc.cell)
    open_rows = doc.few_ops and len(group.streams) <= OPEN_STREAMS and not several
    drawn = group.streams[: frame.detail.streams]
    for i, lane in enumerate(drawn):
        y = draw_stream(frame, lane, doc.names, y, first=i == 0, open_rows=open_rows, tones=tones)
    hidden = len(group.streams) - len(drawn) + group.n_folded
    if hidden:
        y = _draw_rest(frame, group, len(drawn), hidden, y)
    name = f"{group.short_label} {group.device}" if several else group.short_label
    _bracket(frame, top, y - 8, name, "comp")
    y = draw_staves(frame, group.staves, y)
    if group.memory is not None:
        y = draw_memory(frame, group.memory, y + 6)
    return y + (8 if several else 2)


def _draw_rest(frame: Frame, group: DeviceGroup, n_drawn: int, hidden: int, y: float) -> float:
    """One line for the streams that are not drawn; their time is in the staves all the same."""
    n_ops = sum(len(lane) for lane in group.streams[n_drawn:]) + group.folded_ops
    words = f"and {units.plural(hidden, 'more stream')} with {units.plural(n_ops, 'op')}"
    frame.canvas.text(0, y + 7, words, "ink2")
    return y + 18


def _draw_axis(frame: Frame, y: float, lowest: float) -> None:
    for tick in ticks(frame.scale.end_ns - frame.scale.start_ns, PLOT_PX):
        x = round(frame.scale.x_of(frame.scale.start_ns + tick.offset_ns), 1)
        frame.canvas.boxes([(x, y + 11, 0.75, lowest - y - 11)], "grid")
        half = width_px(tick.text, 10) / 2
        anchor = "" if x < half else "end" if x > PLOT_PX - half else "middle"
        frame.canvas.text(x, y + 9, tick.text, "ink2", anchor=anchor)


def _draw_flags(frame: Frame, flags: tuple[Flag, ...], start_ns: int, y: float, lowest: float) -> None:
    """Lines through all lanes, each with its words on the side that has room."""
    xs = [round(frame.scale.x_of(flag.at_ns), 1) for flag in flags]
    widths = [(width_px(flag.text, 11, bold=True) + 8) * WIDEST_FONT for flag in flags]
    sides = word_sides(xs, widths)
    for flag, x, side in zip(flags, xs, sides, strict=True):
        top = y if side else y + FLAG_PX  # a line without words of its own keeps out of the other's
        frame.canvas.boxes([(x, top, 1, lowest - top)], "ink")
        if not side:
            continue
        at, anchor = (x - 6, "end") if side == "left" else (x + 7, "")
        frame.canvas.text(at, y + 9, flag.text, size=11, anchor=anchor, bold=True)
        frame.canvas.text(at, y + 21, units.duration(flag.at_ns - start_ns), "ink2", anchor=anchor)


def word_sides(xs: Sequence[float], widths: Sequence[float]) -> tuple[str, ...]:
    """On which side of its line each flag's words stand, "" for a flag whose words find no place beside the others.

    xs: of the lines, rising, in px from the plot's left edge.  widths: of the words.
    """
    liked = [("left", "right") if x > PLOT_PX / 2 and x == xs[-1] else ("right", "left") for x in xs]
    for first in (0, len(xs) - 1):  # without room for all, the last flag says how it ended
        for sides in product(*liked[first:]):
            spans = [
                (x, x + width) if side == "right" else (x - width, x)
                for x, width, side in zip(xs[first:], widths[first:], sides, strict=True)
            ]
            apart = all(a[1] <= b[0] for a, b in pairwise(spans))
            if apart and spans and spans[0][0] >= -LEFT_PX and spans[-1][1] <= PLOT_PX + RIGHT_PX:
                return ("",) * first + sides
    return ("",) * len(xs)


def _bracket(frame: Frame, top: float, bottom: float, name: str, token: str) -> None:
    """The only grouping: a bar at the far left, with its name where there is room."""
    if bottom <= top:
        return
    frame.canvas.boxes([(BRACKET_X, round(top, 1), 2, round(bottom - top, 1))], token)
    if bottom - top >= width_px(name, 10) + 4:
        middle = round((top + bottom) / 2, 1)
        frame.canvas.text(BRACKET_X + 12, middle, name, "ink2", anchor="middle", turned=True)
