"""Several ranks as one static SVG: one row per rank, one axis."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import chain

import numpy as np

from perfmagic.analysis.findings.answer import Answer, name_action, times_of
from perfmagic.analysis.ranks.pipelines.stages import Box
from perfmagic.base import units
from perfmagic.base.language import counted, say, translate_term, translated
from perfmagic.base.numerics.intervals import Intervals, occupancy
from perfmagic.trace.columns import NONE, Float64, Int64
from perfmagic.view.ranks.doc import Met, RankRow, RanksDoc, whole_key
from perfmagic.view.svg.canvas import Canvas, Part, in_row, number, quantised, rects, step_path, stretches
from perfmagic.view.svg.layouts import FEWER_WIDTHS_PX, WIDTHS_PX, Picture, alone, first_fit, laid_out
from perfmagic.view.svg.layouts import MAX_BYTES as LAYOUTS_BYTES
from perfmagic.view.svg.metrics import Scale, fitted, in_lines, ticks, width_px
from perfmagic.view.svg.palette import LOST_SHARE, Tone, tint
from perfmagic.view.timeline.answers import Summary
from perfmagic.view.timeline.doc import TITLE
from perfmagic.view.timeline.picture.frame import RIGHT_PX, column_widths, draw_shares

# What joins the rows of the picture of several ranks: a line through each meeting, a dot on the rank that came last,
# an arrow from each send to its receive.

APART_PX = 4  # lines that stand closer are one: that of the longest wait
MOST_ARROWS = 200
LONG_PX = 6  # along the axis
_TIP_PX = (4.0, 1.7)  # length and half width of an arrow's tip
_LINE = tint("wait", 0.6, 0.6)


@dataclass(frozen=True)
class Heights:
    """Of the bands of a row and the gap after it, in px; bands of 0 are left out."""

    host: int
    compute: int
    comm: int
    copy: int
    idle: int
    gap: int

    @property
    def row(self) -> int:
        return self.host + self.compute + self.comm + self.copy + self.idle


@dataclass(frozen=True)
class Places:
    """Where the rows lie: the first one's top, their heights, how many are drawn."""

    top: float
    high: Heights
    n: int

    def comm(self, row: int, share: float) -> float:
        """A height within the band of communication of a row, from its top (0) to its floor (1)."""
        high = self.high
        return self.top + row * (high.row + high.gap) + high.host + high.compute + share * high.comm


def draw_met(canvas: Canvas, met: Met, scale: Scale, places: Places, column_px: int, *, staged: bool = False) -> None:
    """The lines, dots and arrows of what lies in the scale's window; the coarser the columns, the fewer.

    staged: boxes of a schedule say who passes on to whom, so that only slow messages need an arrow.
    """
    if places.n < 2:
        return
    _meetings(canvas, met, scale, places, max(APART_PX, 2 * column_px))
    _arrows(canvas, met, scale, places, MOST_ARROWS // column_px, LONG_PX if staged else 0)


def _meetings(canvas: Canvas, met: Met, scale: Scale, places: Places, apart_px: int) -> None:
    first, last_row = met.first_row, np.minimum(met.last_row, places.n - 1)
    shown = np.flatnonzero((met.met_ns >= scale.start_ns) & (met.met_ns < scale.end_ns) & (first < last_row))
    if not len(shown):
        return
    x_px: Float64 = (met.met_ns - scale.start_ns).astype(np.float64) * scale.px_per_ns
    lines, dots = "", ""
    radius = 2.6 if places.high.row > 20 else 1.8
    for i in sorted(_apart(x_px, shown[np.argsort(-met.waited_ns[shown], kind="stable")], apart_px)):
        x = number(round(float(x_px[i]), 1))
        upper, lower = places.comm(int(first[i]), 0.5), places.comm(int(last_row[i]), 0.5)
        lines += f"M{x} {number(round(upper))}V{number(round(lower))}"
        if met.last[i] != NONE and met.last[i] < places.n:
            dots += f"M{x} {number(round(places.comm(int(met.last[i]), 0.5) * 2) / 2)}h0"
    canvas.stroke(lines, _LINE, 0.8, dash=(2, 2))
    canvas.stroke(dots, "ground", 2 * radius + 1.6, cap="round")
    canvas.stroke(dots, "wait", 2 * radius, cap="round")


def _apart(x_px: Float64, order: Int64, apart_px: float) -> Iterator[int]:
    """The first of some places that keep a distance from all before them."""
    taken: set[int] = set()
    for i in order.tolist():
        column = int(x_px[i] // apart_px)
        if not taken & {column - 1, column, column + 1}:
            taken.add(column)
            yield i


def _arrows(canvas: Canvas, met: Met, scale: Scale, places: Places, most: int, least_px: int) -> None:
    both = met.both_ns
    seen = (both >= scale.start_ns) & (met.arrived_ns < scale.end_ns)
    seen &= (met.source < places.n) & (met.target < places.n)
    seen &= (met.arrived_ns - both) * scale.px_per_ns >= least_px
    shown = np.flatnonzero(seen)
    if len(shown) > most:  # those that took longest
        shown = np.sort(shown[np.argsort(both[shown] - met.arrived_ns[shown], kind="stable")[:most]])
    shafts, tips = "", ""
    for i in shown.tolist():
        x0, x1 = (float(ns - scale.start_ns) * scale.px_per_ns for ns in (both[i], met.arrived_ns[i]))
        y0, y1 = places.comm(int(met.source[i]), 0.25), places.comm(int(met.target[i]), 0.75)
        shafts += f"M{number(round(x0, 1))} {number(round(y0))}L{number(round(x1, 1))} {number(round(y1))}"
        tips += _tip(x0, y0, x1, y1)
    canvas.stroke(shafts, "ink", 0.8, 0.6)
    canvas.fill(tips, "ink")


def _tip(x0: float, y0: float, x1: float, y1: float) -> str:
    long, half = _TIP_PX
    length = max(1e-6, ((x1 - x0) ** 2 + (y1 - y0) ** 2) ** 0.5)
    dx, dy = (x1 - x0) / length, (y1 - y0) / length
    corners = (
        (x1, y1),
        (x1 - long * dx - half * dy, y1 - long * dy + half * dx),
        (x1 - long * dx + half * dy, y1 - long * dy - half * dx),
    )
    return "M" + "L".join(f"{number(round(x, 1))} {number(round(y, 1))}" for x, y in corners) + "z"


MAX_BYTES = 40_000  # as a timeline's picture: base64 in a notebook's output makes 53,400 of it
# from fine to coarse, the width of a column and the most rows drawn: a picture takes the first with which it fits
DETAILS = ((1, 64), (2, 64), (4, 64), (8, 64), (16, 64), (16, 32), (16, 16), (32, 8))
ANSWER_LINE_PX, NUMBER_PX, AXIS_PX = 21, 22, 17
WAIT_SHARE = 0.5  # of a column: from there on it is a box of waiting, with hatching
HATCH_BESIDE_PX = 10  # what a wait that says its length keeps of its hatching
ROLE_TOKENS = (("comp", "on_comp"), ("matrix", "on_matrix"))  # of forward and backward
LABELS_COLUMN_PX = 2  # of coarser columns labels would take too many bytes
MADE_LATE = ("straggler", "uneven_all_to_all")  # whose rank is bold
NUMBER_ROW_PX = 9  # a lower row has no room for labels
BLOCKED = tint("wait", 0.28, 0.34)  # over Python's grey
BESIDE = tint("wait", 0.18, 0.26)  # waiting that costs nothing, as the rank computes meanwhile


def heights(n_rows: int) -> Heights:
    """Rows for up to 12 ranks have all bands; more ranks get lower rows, so that a page still shows all of them."""
    if n_rows <= 12:
        return Heights(5, 14, 10, 4, 3, 8)
    return Heights(0, 9, 7, 3, 0, 5) if n_rows <= 32 else Heights(0, 6, 5, 0, 0, 2)


def ranks_svg(doc: RanksDoc) -> str:
    """The picture of several ranks, 1000 px wide, at most 40 kB, light and dark.

    With who decides, the answers and how the axis was made, for a picture that stands alone.
    """
    return first_fit(_pictures(doc, header=True), MAX_BYTES).svg


def ranks_picture(doc: RanksDoc, most_bytes: int = LAYOUTS_BYTES) -> Picture:
    """The same without what stands around it in HTML, laid out for several widths, in at most most_bytes."""
    ways = [(WIDTHS_PX, DETAILS[0]), *((widths, detail) for widths in FEWER_WIDTHS_PX for detail in DETAILS[:4])]
    by_width = (laid_out(partial(_draw, doc, *detail, False), doc.alt, widths) for widths, detail in ways)
    return first_fit(chain(by_width, _pictures(doc, header=False)), most_bytes)


def _pictures(doc: RanksDoc, *, header: bool) -> Iterator[Picture]:
    """From fine to coarse, 1000 px wide."""
    return (alone(partial(_draw, doc, *detail, header), doc.alt) for detail in DETAILS)


def _draw(doc: RanksDoc, column_px: int, most_rows: int, header: bool, canvas: Canvas) -> float:
    from perfmagic.view.ranks.summary import ranks_summary

    y = _header(canvas, ranks_summary(doc)) if header else 4.0
    if doc.path:
        y = draw_shares(canvas, doc.path, y, TITLE)
    rows, high = doc.rows[:most_rows], heights(len(doc.rows))
    left_px, right_px = column_widths(canvas.width_px)
    scale = Scale(doc.opening.start_ns, doc.opening.end_ns, canvas.width_px - left_px - right_px)
    for line in in_lines(translated(doc.opening.words), canvas.width_px, 11) if doc.opening.words else ():
        canvas.text(0, y + 11, line, "ink2", size=11)
        y += 18
    canvas.shifted(left_px)
    lowest = y + AXIS_PX + len(rows) * (high.row + high.gap)
    _axis(canvas, scale, y, lowest)
    y += AXIS_PX
    late = {rank for finding in doc.findings if finding.rule in MADE_LATE for rank in finding.ranks}
    for row in rows:
        _draw_row(canvas, row, scale, high, y, column_px, bold=row.rank in late)
        y += high.row + high.gap
    places = Places(y - len(rows) * (high.row + high.gap), high, len(rows))
    draw_met(canvas, doc.met, scale, places, column_px, staged=any(row.boxes for row in doc.rows))
    _mark(canvas, doc, scale, places)
    canvas.back()
    if len(doc.rows) > len(rows):
        n = len(doc.rows) - len(rows)
        canvas.text(left_px, y + 8, translated(counted(n, "and {n} more rank", "and {n} more ranks")), "ink2")
        y += 14
    return _key(canvas, doc, y + 2, header=header)


def _header(canvas: Canvas, summary: Summary) -> float:
    """Who decides, what was recorded, the answers; returns the lower edge."""
    who, share = summary.decider
    available_px = canvas.width_px - width_px(summary.total, 15, bold=True) - 12
    who = fitted(who, available_px, 14, bold=True)
    share = fitted(share, available_px - width_px(who, 14, bold=True), 14)
    total = Part(summary.total, size=15, bold=True)
    canvas.run(0, 18, total, Part(who, size=14, bold=True, gap_px=12), Part(share, size=14))
    canvas.text(0, 36, fitted(summary.about, canvas.width_px, 12), "ink2", size=12)
    y = 44.0
    for place, answer in enumerate(summary.answers.answers if summary.answers else (), 1):
        y = _draw_answer(canvas, y, f"{place}", answer)
    if summary.answers and summary.answers.together:
        y = _draw_answer(canvas, y, "", summary.answers.together)
    canvas.boxes([(0, y, canvas.width_px, 1)], "rule")
    for lines, token in ((summary.other_lines, "ink2"), (summary.warning_lines, "wait")):
        for line in (part for whole in lines for part in in_lines(whole, canvas.width_px, 12)):
            canvas.text(0, y + 14.5, line, token, size=12)
            y += ANSWER_LINE_PX
    return y + 6


def _draw_answer(canvas: Canvas, y: float, place: str, answer: Answer) -> float:
    """An answer with its times at the right, and its action below; returns the lower edge."""
    before, after, sure = times_of(answer)
    times = f"{before} → {after}" if before else after
    right = f"{times}, {sure}" if sure else times
    canvas.boxes([(0, y, canvas.width_px, 1)], "rule")
    canvas.text(4, y + 14.5, place, "ink3", size=12)
    room_px = canvas.width_px - NUMBER_PX - width_px(right, 12) - 12
    canvas.text(NUMBER_PX, y + 14.5, fitted(answer.headline, room_px, 12, bold=True), size=12, bold=True)
    canvas.text(canvas.width_px, y + 14.5, right, size=12, anchor="end")
    action = name_action(answer.headline, answer.action, answer.lines)
    if not action:
        return y + ANSWER_LINE_PX
    canvas.text(NUMBER_PX, y + 30.5, fitted(f"→ {action}", canvas.width_px - NUMBER_PX, 12), size=12)
    return y + ANSWER_LINE_PX + 16


def _axis(canvas: Canvas, scale: Scale, y: float, lowest: float) -> None:
    for tick in ticks(scale.end_ns - scale.start_ns, scale.width_px, since_ns=scale.start_ns):
        x = round(scale.x_of(scale.start_ns + tick.offset_ns), 1)
        canvas.boxes([(x, y + 11, 0.75, lowest - y - 11)], "grid")
        half = width_px(tick.text, 10) / 2
        anchor = "" if x < half else "end" if x > scale.width_px - half else "middle"
        canvas.text(x, y + 9, tick.text, "ink2", anchor=anchor)


def _draw_row(
    canvas: Canvas, row: RankRow, scale: Scale, high: Heights, y: float, column_px: int, *, bold: bool
) -> None:
    middle = round(y + high.row / 2 + 4, 1)
    size = 11 if high.row > 14 else 10
    left_px, right_px = column_widths(canvas.width_px)
    canvas.text(-8, middle, fitted(row.label, left_px - 10, size, bold=bold), size=size, anchor="end", bold=bold)
    if right_px == RIGHT_PX:
        _write_numbers(canvas, row, scale.width_px + 8, middle, size if high.row > 20 else 0)
    _backlog_outline(canvas, row.bands["host"], scale, y, high.host, "host1", column_px)
    _backlog_outline(canvas, row.bands["blocked"], scale, y, high.host, BLOCKED, column_px)
    y += high.host
    if row.boxes:
        _micro_batches(canvas, row.boxes, scale, y, high.compute, labels=column_px <= LABELS_COLUMN_PX)
    else:
        _backlog_outline(canvas, row.bands["compute"], scale, y, high.compute, "comp", column_px)
    y += high.compute
    for waits, beside, moves, height in _comm_bands(row, high.comm):
        _backlog_outline(canvas, beside, scale, y, height, BESIDE, column_px)
        _waits(canvas, waits, scale, y, height, column_px)
        _backlog_outline(canvas, moves, scale, y, height, "comm", column_px)
        y += height
    _backlog_outline(canvas, row.bands["copy"], scale, y, high.copy, "htod", column_px)
    y += high.copy
    _backlog_outline(canvas, row.bands["idle"], scale, y, high.idle, "idle", column_px)
    canvas.boxes([(0, round(y + high.idle + high.gap / 2 - 1, 1), scale.width_px, 0.5)], "rule")


def _mark(canvas: Canvas, doc: RanksDoc, scale: Scale, places: Places) -> None:
    """An outline of the work that others wait for longest, with its line where there is room."""
    mark, high = doc.opening.mark, places.high
    row = next((i for i, each in enumerate(doc.rows[: places.n]) if mark and each.rank == mark.rank), None)
    if mark is None or row is None or not (mark.end_ns > scale.start_ns and mark.start_ns < scale.end_ns):
        return
    x, wide = scale.x_of(mark.start_ns), max(2.0, scale.x_of(mark.end_ns) - scale.x_of(mark.start_ns))
    y, tall = places.comm(row, 0) - high.host - high.compute, high.host + high.compute
    canvas.stroke(rects([(round(x, 1), round(y) - 0.5, round(wide, 1), tall + 1.0)]), "ink", 1.5)
    words = translated(mark.words)
    words_px = width_px(words, 10, bold=True) + 6
    if words and tall > NUMBER_ROW_PX and wide > words_px:
        canvas.boxes(
            [(round(x + wide / 2 - words_px / 2, 1), y + high.host, round(words_px, 1), high.compute)], "ground"
        )
        canvas.text(round(x + wide / 2, 1), y + tall - 3.5, words, anchor="middle", bold=True)


def _micro_batches(canvas: Canvas, boxes: Sequence[Box], scale: Scale, y: float, height: int, *, labels: bool) -> None:
    """The schedule of a stage, as textbooks draw it: a box a micro-batch, coloured by its role."""
    for role, (token, on_token) in enumerate(ROLE_TOKENS):
        within = (box for box in boxes if box.end_ns > scale.start_ns and box.start_ns < scale.end_ns)
        shown = [(box, scale.x_of(box.start_ns), scale.x_of(box.end_ns)) for box in within if box.role == role]
        canvas.boxes([(round(x, 1), y, round(max(0.5, end - x - 0.5), 1), height) for _, x, end in shown], token)
        for box, x, end in shown:
            if labels and height > NUMBER_ROW_PX and end - x > width_px(box.label, 9) + 3:
                canvas.text(round((x + end) / 2, 1), y + height - 3.5, box.label, on_token, size=9, anchor="middle")


def _write_numbers(canvas: Canvas, row: RankRow, x: float, middle: float, size: int) -> None:
    """How long the rank waited and computed, the first of them where the row is too low for two (size 0)."""
    waited, computes = row.words
    if not size:
        canvas.text(x, middle, waited or computes, "ink2")
        return
    canvas.text(x, middle - 6 if waited else middle, waited or computes, size=size)
    canvas.text(x, middle + 7, computes if waited else "", "ink2")


def _comm_bands(row: RankRow, height: int) -> list[tuple[Intervals, Intervals, Intervals, int]]:
    """Waiting, waiting overlapped with compute, transfer: of collectives and sends, and below them of receives."""
    bands = row.bands
    of_receives = (bands["asked"], bands["asked_beside"], bands["got"])
    below = height // 2 if any(map(len, of_receives)) else 0
    above = (bands["wait"], bands["wait_beside"], bands["transfer"], height - below)
    return [above, (*of_receives, below)] if below else [above]


def _columns(spans: Intervals, scale: Scale, column_px: int) -> np.ndarray[tuple[int], np.dtype[np.float64]]:
    return occupancy(spans, scale.start_ns, scale.end_ns, scale.width_px // column_px)


def _edges(share: Float64, scale: Scale) -> Float64:
    """The edges of columns in px; shape (columns + 1,)."""
    return np.linspace(0.0, scale.width_px, len(share) + 1)


def _backlog_outline(
    canvas: Canvas, spans: Intervals, scale: Scale, y: float, height: int, token: str | Tone, column_px: int
) -> None:
    """Columns as high as their share of time, standing on y + height."""
    if not height or not len(spans):
        return
    share = _columns(spans, scale, column_px)
    edges = _edges(share, scale)
    tone = tint("wait", 0.45, 0.45) if token == "idle" else token
    canvas.fill(step_path(edges, quantised(share * height, 1.0 if column_px > 1 else 0.5), y + height), tone)


def _waits(canvas: Canvas, spans: Intervals, scale: Scale, y: float, height: int, column_px: int) -> None:
    """Waiting that did not overlap with compute: hatched boxes, long ones with their length; short ones as columns."""
    share = _columns(spans, scale, column_px)
    edges = _edges(share, scale)
    spans_px = [(round(float(edges[a]), 1), round(float(edges[b]), 1)) for a, b in stretches(share >= WAIT_SHARE)]
    boxes = [(x0, y, round(x1 - x0, 1), float(height)) for x0, x1 in spans_px]
    canvas.boxes(boxes, tint("wait", LOST_SHARE, LOST_SHARE))
    canvas.hatch_lost(rects(boxes))
    canvas.boxes([(x, y, 1, height) for x, _, _, _ in boxes], "wait")
    thin = np.where(share >= WAIT_SHARE, 0.0, share)
    canvas.fill(step_path(edges, quantised(thin * height, 1.0), y + height), "wait")
    for x, _, wide, _ in boxes:
        if height >= 10:
            words = say("waits {time}", time=units.duration(_longest_at(spans, scale, x, wide)))
            words_px = width_px(words, 10) + 4
            if wide < words_px + HATCH_BESIDE_PX:
                continue
            canvas.boxes([(round(x + wide / 2 - words_px / 2, 1), y, round(words_px, 1), height)], "ground")
            canvas.text(round(x + wide / 2, 1), y + height - 1.5, words, "wait", anchor="middle")


def _longest_at(spans: Intervals, scale: Scale, x: float, wide: float) -> int:
    """How long the longest of the waits is that a box stands for."""
    from_ns, to_ns = (scale.start_ns + at / scale.px_per_ns for at in (x, x + wide))
    inside = (spans[:, 1] > from_ns) & (spans[:, 0] < to_ns)
    return int((spans[inside, 1] - spans[inside, 0]).max(initial=0))


def _key(canvas: Canvas, doc: RanksDoc, y: float, *, header: bool) -> float:
    x = 0.0
    for token, english in whole_key(doc):
        words = translate_term(english)
        x, y = in_row(canvas, x, y, 14 + width_px(words, 10))
        box = (round(x, 1), y + 3, 10.0, 8.0)
        if token == "wait":
            canvas.boxes([box], tint("wait", LOST_SHARE, LOST_SHARE))
            canvas.hatch_lost(rects([box]))
        elif token == "":
            x -= 14
        elif token == "last":
            canvas.stroke(f"M{number(box[0] + 5)} {number(box[1] + 4)}h0", "wait", 7, cap="round")
        else:
            tones = {"idle": tint("wait", 0.45, 0.45), "blocked": BLOCKED, "beside": BESIDE}
            canvas.boxes([box], tones.get(token, token))
        canvas.text(round(x + 14, 1), y + 10.5, words, "ink2")
        x += 14 + width_px(words, 10) + 12
    if header:
        canvas.text(0, y + 29, fitted(translated(doc.clocks), canvas.width_px, 10), "ink2")
    return y + (34 if header else 16)
