"""Several ranks as one static SVG: a row a rank, one axis."""

from __future__ import annotations

import numpy as np

from perfmagic import units
from perfmagic.numerics.intervals import Intervals, occupancy
from perfmagic.view.ranks.doc import RankRow, RanksDoc
from perfmagic.view.ranks.picture_met import Heights, Places, draw_met
from perfmagic.view.ranks.table import cost_words
from perfmagic.view.svg.canvas import WIDTH_PX, Canvas, Part
from perfmagic.view.svg.metrics import fitted, width_px
from perfmagic.view.svg.palette import LOST_SHARE, Tone, tint
from perfmagic.view.svg.path import number, quantised, rects, skyline, stretches
from perfmagic.view.svg.scale import Scale, ticks
from perfmagic.view.timeline.critical import TITLE
from perfmagic.view.timeline.picture.head import draw_shares

MAX_BYTES = 40_000  # as a timeline's picture: base64 in a notebook's output makes 53,400 of it
LEFT_PX, PLOT_PX = 92, 796
# from fine to coarse, the width of a column and the most rows drawn: a picture takes the first with which it fits
DETAILS = ((1, 64), (2, 64), (4, 64), (8, 64), (16, 64), (16, 32), (16, 16), (32, 8))
FINDING_PX, AXIS_PX = 21, 17
WAIT_SHARE = 0.5  # of a column: from there on it is a box of waiting, with hatching
LABEL_PX = 60  # of a wait that says its length
KEY = (
    ("host1", "Python"), ("blocked", "Python blocked"), ("comp", "compute"), ("comm", "data moving"),
    ("wait", "waiting for a rank"), ("beside", "the same beside compute"), ("last", "came last"), ("htod", "copies"),
    ("idle", "device idle"),
)  # fmt: skip
BLOCKED = tint("wait", 0.28, 0.34)  # over Python's grey
BESIDE = tint("wait", 0.18, 0.26)  # waiting that costs nothing, as the rank computes meanwhile


def heights(n_rows: int) -> Heights:
    """Rows for up to 12 ranks have all bands; more ranks get lower rows, so that a page still shows all of them."""
    if n_rows <= 12:
        return Heights(5, 14, 10, 4, 3, 8)
    return Heights(0, 9, 7, 3, 0, 5) if n_rows <= 32 else Heights(0, 6, 5, 0, 0, 2)


def ranks_svg(doc: RanksDoc, *, header: bool = True, most_bytes: int = MAX_BYTES) -> str:
    """The picture of several ranks, 1000 px wide, at most 40 kB (or most_bytes), light and dark.

    header: with the first line, the findings and how the axis was made, for a picture that stands alone.
    """
    picture = ""
    for column_px, most_rows in DETAILS:
        picture = _picture(doc, column_px, most_rows, header)
        if len(picture.encode()) <= most_bytes:
            break
    return picture


def _picture(doc: RanksDoc, column_px: int, most_rows: int, header: bool) -> str:
    canvas = Canvas()
    y = _header(canvas, doc) if header else 4.0
    if doc.path:
        y = draw_shares(canvas, doc.path, y, TITLE)
    rows, high = doc.rows[:most_rows], heights(len(doc.rows))
    scale = Scale(0, doc.span_ns, PLOT_PX)
    canvas.shifted(LEFT_PX)
    lowest = y + AXIS_PX + len(rows) * (high.row + high.gap)
    _axis(canvas, scale, y, lowest)
    y += AXIS_PX
    late = {rank for finding in doc.findings if finding.rule == "straggler" for rank in finding.ranks}
    for row in rows:
        _draw_row(canvas, row, scale, high, y, column_px, bold=row.rank in late)
        y += high.row + high.gap
    draw_met(canvas, doc.met, scale, Places(y - len(rows) * (high.row + high.gap), high, len(rows)), column_px)
    canvas.back()
    if len(doc.rows) > len(rows):
        canvas.text(LEFT_PX, y + 8, f"and {units.plural(len(doc.rows) - len(rows), 'more rank')}", "ink2")
        y += 14
    return canvas.svg(_key(canvas, doc, y + 2, header=header), doc.alt)


def _header(canvas: Canvas, doc: RanksDoc) -> float:
    total, rest = doc.parts[0], doc.parts[1:]
    shown = fitted("  ·  ".join(rest), WIDTH_PX - width_px(total, 15, bold=True) - 12, 12)
    canvas.run(0, 18, Part(total, size=15, bold=True), Part(shown, "ink2", 12, gap_px=12))
    y = 28.0
    for finding in doc.findings:
        canvas.boxes([(0, y, WIDTH_PX, 1)], "rule")
        canvas.text(LEFT_PX - 12, y + 14.5, cost_words(finding.cost_ns), size=12, anchor="end", bold=True)
        cause = fitted(finding.cause, WIDTH_PX - LEFT_PX, 12, bold=True)
        room = WIDTH_PX - LEFT_PX - width_px(cause, 12, bold=True)
        rest_of_it = fitted(finding.sentence.removeprefix(finding.cause), room, 12)
        canvas.run(LEFT_PX, y + 14.5, Part(cause, size=12, bold=True), Part(rest_of_it, size=12))
        y += FINDING_PX
    if doc.findings:
        canvas.boxes([(0, y, WIDTH_PX, 1)], "rule")
    return y + 6


def _axis(canvas: Canvas, scale: Scale, y: float, lowest: float) -> None:
    for tick in ticks(scale.end_ns, PLOT_PX):
        x = round(scale.x_of(tick.offset_ns), 1)
        canvas.boxes([(x, y + 11, 0.75, lowest - y - 11)], "grid")
        half = width_px(tick.text, 10) / 2
        anchor = "" if x < half else "end" if x > PLOT_PX - half else "middle"
        canvas.text(x, y + 9, tick.text, "ink2", anchor=anchor)


def _draw_row(
    canvas: Canvas, row: RankRow, scale: Scale, high: Heights, y: float, column_px: int, *, bold: bool
) -> None:
    middle = round(y + high.row / 2 + 4, 1)
    size = 11 if high.row > 14 else 10
    canvas.text(-8, middle, row.label, size=size, anchor="end", bold=bold)
    waited, computes = row.words
    if high.row > 20:
        canvas.text(PLOT_PX + 8, middle - 6 if waited else middle, waited or computes, size=size)
        canvas.text(PLOT_PX + 8, middle + 7, computes if waited else "", "ink2")
    else:
        canvas.text(PLOT_PX + 8, middle, waited or computes, "ink2")
    _sky(canvas, row.bands["host"], scale, y, high.host, "host1", column_px)
    _sky(canvas, row.bands["blocked"], scale, y, high.host, BLOCKED, column_px)
    y += high.host
    _sky(canvas, row.bands["compute"], scale, y, high.compute, "comp", column_px)
    y += high.compute
    for waits, beside, moves, height in _comm_bands(row, high.comm):
        _sky(canvas, beside, scale, y, height, BESIDE, column_px)
        _waits(canvas, waits, scale, y, height, column_px)
        _sky(canvas, moves, scale, y, height, "comm", column_px)
        y += height
    _sky(canvas, row.bands["copy"], scale, y, high.copy, "htod", column_px)
    y += high.copy
    _sky(canvas, row.bands["idle"], scale, y, high.idle, "idle", column_px)
    canvas.boxes([(0, round(y + high.idle + high.gap / 2 - 1, 1), PLOT_PX, 0.5)], "rule")


def _comm_bands(row: RankRow, height: int) -> list[tuple[Intervals, Intervals, Intervals, int]]:
    """The waiting, that beside compute and the transfer of collectives and sends, and below them those of receives."""
    bands = row.bands
    of_receives = (bands["asked"], bands["asked_beside"], bands["got"])
    below = height // 2 if any(map(len, of_receives)) else 0
    above = (bands["wait"], bands["wait_beside"], bands["transfer"], height - below)
    return [above, (*of_receives, below)] if below else [above]


def _columns(spans: Intervals, scale: Scale, column_px: int) -> np.ndarray[tuple[int], np.dtype[np.float64]]:
    return occupancy(spans, scale.start_ns, scale.end_ns, PLOT_PX // column_px)


def _sky(
    canvas: Canvas, spans: Intervals, scale: Scale, y: float, height: int, token: str | Tone, column_px: int
) -> None:
    """Columns as high as their share of time, standing on y + height."""
    if not height or not len(spans):
        return
    share = _columns(spans, scale, column_px)
    edges = np.arange(0, len(share) + 1, dtype=np.float64) * column_px
    tone = tint("wait", 0.45, 0.45) if token == "idle" else token
    canvas.fill(skyline(edges, quantised(share * height, 1.0 if column_px > 1 else 0.5), y + height), tone)


def _waits(canvas: Canvas, spans: Intervals, scale: Scale, y: float, height: int, column_px: int) -> None:
    """Waiting with no compute beside: hatched boxes, a long one with its length; what is too short, as columns."""
    share = _columns(spans, scale, column_px)
    boxes = [
        (a * float(column_px), y, (b - a) * float(column_px), float(height)) for a, b in stretches(share >= WAIT_SHARE)
    ]
    canvas.boxes(boxes, tint("wait", LOST_SHARE, LOST_SHARE))
    canvas.hatch_lost(rects(boxes))
    canvas.boxes([(x, y, 1, height) for x, _, _, _ in boxes], "wait")
    edges = np.arange(0, len(share) + 1, dtype=np.float64) * column_px
    thin = np.where(share >= WAIT_SHARE, 0.0, share)
    canvas.fill(skyline(edges, quantised(thin * height, 1.0), y + height), "wait")
    for x, _, wide, _ in boxes:
        if wide >= LABEL_PX and height >= 10:
            words = f"waits {units.duration(_longest_at(spans, scale, x, wide))}"
            room = width_px(words, 9) + 4
            canvas.boxes([(round(x + wide / 2 - room / 2, 1), y, round(room, 1), height)], "ground")
            canvas.text(round(x + wide / 2, 1), y + height - 1.5, words, "wait", size=9, anchor="middle")


def _longest_at(spans: Intervals, scale: Scale, x: float, wide: float) -> int:
    """How long the longest of the waits is that a box stands for."""
    from_ns, to_ns = (scale.start_ns + at / scale.px_per_ns for at in (x, x + wide))
    inside = (spans[:, 1] > from_ns) & (spans[:, 0] < to_ns)
    return int((spans[inside, 1] - spans[inside, 0]).max(initial=0))


def _key(canvas: Canvas, doc: RanksDoc, y: float, *, header: bool) -> float:
    x = 0.0
    for token, words in KEY:
        box = (round(x, 1), y + 3, 10.0, 8.0)
        if token == "wait":
            canvas.boxes([box], tint("wait", LOST_SHARE, LOST_SHARE))
            canvas.hatch_lost(rects([box]))
        elif token == "last":
            canvas.stroke(f"M{number(box[0] + 5)} {number(box[1] + 4)}h0", "wait", 7, cap="round")
        else:
            tones = {"idle": tint("wait", 0.45, 0.45), "blocked": BLOCKED, "beside": BESIDE}
            canvas.boxes([box], tones.get(token, token))
        canvas.text(round(x + 14, 1), y + 10.5, words, "ink2")
        x += 14 + width_px(words, 10) * 1.1 + 12
    if header:
        canvas.text(0, y + 29, fitted(doc.clocks, WIDTH_PX, 10), "ink2")
    return y + (34 if header else 16)
