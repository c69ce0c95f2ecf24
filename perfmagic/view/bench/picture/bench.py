"""A benchmark as SVG: two bars on one axis, then a row per quantity with its samples in order."""

from __future__ import annotations

import numpy as np

from perfmagic import units
from perfmagic.view.bench.doc import BenchDoc, Row
from perfmagic.view.bench.fine_print import BETWEEN
from perfmagic.view.bench.picture.queue_model import MODEL_PX, draw_queue_model
from perfmagic.view.bench.strip import Strip
from perfmagic.view.svg.canvas import WIDTH_PX, Canvas, Part
from perfmagic.view.svg.dots import draw_distribution, draw_dots
from perfmagic.view.svg.metrics import fitted, width_px
from perfmagic.view.svg.palette import LOST_SHARE, tint
from perfmagic.view.svg.path import number, rects
from perfmagic.view.svg.scale import ticks

LEFT_PX, PLOT_PX = 92, 776
BAR_PX, BAR_STEP_PX = 18, 24
ROW_PX = 44
ORDER_X, ORDER_PX = 338, 290  # samples in the order taken
SPREAD_X, SPREAD_PX = 640, 66  # their distribution on the same y
MEDIAN_X, INTERVAL_X, LEAST_X, IQR_X, OUTLIERS_X = 186, 262, 800, 900, 1000
HEADS = (
    (MEDIAN_X, "median", "end"),
    (INTERVAL_X, "95 % confidence interval", "middle"),
    (ORDER_X, "samples in order", ""),
    (SPREAD_X, "distribution", ""),
    (LEAST_X, "min", "end"),
    (IQR_X, "IQR", "end"),
    (OUTLIERS_X, "outliers", "end"),
)
BINS = 16
FADE_STEPS, FADE_PX = 16, 80
UNKNOWN_SHARE = 0.2  # as pale as what is queued: nothing says that the device was busy


def draw_bench(doc: BenchDoc, *, header: bool) -> str:
    """The picture of a benchmark, 1000 px wide."""
    canvas = Canvas()
    y = 4.0
    if header:
        shown = fitted(doc.rest, WIDTH_PX - width_px(doc.lead, 14, bold=True) - 8, 13)
        canvas.run(0, 18, Part(doc.lead, size=14, bold=True), Part(shown, "ink2", 13, gap_px=8))
        y = 30.0
    if doc.returns_s is not None:
        y = _draw_bars(canvas, doc, y)
    y = _draw_table(canvas, doc, y)
    y = _draw_method(canvas, doc, y, header=header)
    return canvas.svg(y, f"Benchmark: {doc.sentence} {doc.device_label}")


def _draw_bars(canvas: Canvas, doc: BenchDoc, y: float) -> float:
    quantities = [row.quantity for row in doc.rows if row.name != "device span"]
    shown_s = [max(q.median_s, q.high_s or 0.0) for q in quantities]
    shown_s += [doc.queue_model.predicted_s] if doc.queue_model else []
    end_s = max(1e-9, *shown_s) * 1.02  # a body of nothing takes none
    canvas.shifted(LEFT_PX)
    for tick in ticks(end_s * 1e9, PLOT_PX):
        x = round(tick.offset_ns / 1e9 / end_s * PLOT_PX, 1)
        canvas.boxes([(x, y + 13, 0.75, BAR_STEP_PX * (1 if doc.done_s is None else 2))], "grid")
        anchor = "" if x < 10 else "end" if x > PLOT_PX - 10 else "middle"
        canvas.text(x, y + 9, tick.text, "ink2", anchor=anchor)
    y += 15
    _draw_python(canvas, doc, y, PLOT_PX / end_s)
    _beside(canvas, doc, "returns", "Python", y, PLOT_PX / end_s)
    if doc.done_s is not None:
        y += BAR_STEP_PX
        _draw_device(canvas, doc, doc.done_s, y, PLOT_PX / end_s)
        _beside(canvas, doc, "done", "device", y, PLOT_PX / end_s)
    if doc.queue_model:
        draw_queue_model(canvas, doc.queue_model, y + BAR_STEP_PX + 6, PLOT_PX / end_s, PLOT_PX)
        y += MODEL_PX
    canvas.back()
    return y + BAR_STEP_PX + 4


def _draw_python(canvas: Canvas, doc: BenchDoc, y: float, px_per_s: float) -> None:
    returned = round((doc.returns_s or 0.0) * px_per_s, 1)
    canvas.boxes([(0, y, max(1.0, returned), BAR_PX)], "launch")
    wait = doc.python_wait
    if wait is None or doc.done_s is None:
        return
    done = round(doc.done_s * px_per_s, 1)
    if wait.lost:
        _lost(canvas, returned, y, done, wait.words)
    else:
        canvas.stroke(f"M{number(returned + 6)} {number(y + BAR_PX / 2)}H{number(done)}", "ink3", 1, dash=(1.0, 4.0))
        _in_gap(canvas, wait.words, returned, done, y, "ink2")


def _draw_device(canvas: Canvas, doc: BenchDoc, done_s: float, y: float, px_per_s: float) -> None:
    """The device's span at the end of its bar; where the span is not known, a bar that fades in."""
    done = round(done_s * px_per_s, 1)
    if doc.span_s is None and doc.python_wait is None:
        _sometime(canvas, done, y)
        return
    if doc.span_s is None:
        _fading_in(canvas, done, y)
        return
    start = round(done - min(done_s, doc.span_s) * px_per_s, 1)
    if doc.device_idle is not None and doc.device_idle.lost:
        _lost(canvas, 0.0, y, start, doc.device_idle.words)
    elif doc.device_idle is not None:
        _in_gap(canvas, doc.device_idle.words, 0.0, start, y, "ink2")
    canvas.boxes([(start, y, max(1.0, round(done - start, 1)), BAR_PX)], "comp")
    words = f"device span {units.duration_s(doc.span_s)}"
    if width_px(words, 10) + 10 <= done - start:
        canvas.text(start + 6, y + 12.5, words, "on_comp")


def _sometime(canvas: Canvas, done: float, y: float) -> None:
    """The device was done when Python was: when it worked, or whether, these clocks do not tell."""
    canvas.boxes([(0.0, y, max(1.0, done), BAR_PX)], tint("comp", UNKNOWN_SHARE, UNKNOWN_SHARE))
    _in_gap(canvas, "done by then", 0.0, done, y, "ink2")


def _fading_in(canvas: Canvas, done: float, y: float) -> None:
    fade = min(FADE_PX, done / 2)
    for i in range(FADE_STEPS):
        share = 0.12 + 0.88 * i / FADE_STEPS
        box = (round(fade * i / FADE_STEPS, 1), y, round(fade / FADE_STEPS + 0.5, 1), BAR_PX)
        canvas.boxes([box], tint("comp", share, share))
    canvas.boxes([(round(fade, 1), y, max(1.0, round(done - fade, 1)), BAR_PX)], "comp")


def _lost(canvas: Canvas, x0: float, y: float, x1: float, words: str) -> None:
    box = (x0, y, round(x1 - x0, 1), BAR_PX)
    canvas.boxes([box], tint("wait", LOST_SHARE, LOST_SHARE))
    canvas.hatch_lost(rects([box]))
    canvas.boxes([(round(x1 - 1, 1), y, 1, BAR_PX)], "wait")
    _in_gap(canvas, words, x0, x1, y, "wait")


def _in_gap(canvas: Canvas, words: str, x0: float, x1: float, y: float, token: str) -> None:
    width, middle = width_px(words, 10) + 14, (x0 + x1) / 2
    if width <= x1 - x0 - 12:
        canvas.boxes([(round(middle - width / 2, 1), y, round(width, 1), BAR_PX)], "ground")
        canvas.text(round(middle, 1), y + 12.5, words, token, anchor="middle")


def _beside(canvas: Canvas, doc: BenchDoc, name: str, label: str, y: float, px_per_s: float) -> None:
    """Name on the left, median on the right, the interval as a whisker below the bar's end."""
    canvas.text(-8, y + 13, label, size=11, anchor="end")
    row = doc.row(name)
    if row is None:
        return
    canvas.run(PLOT_PX + 12, y + 13.5, Part(row.median, size=13, bold=True), Part(name, "ink2", 11, gap_px=6))
    low, high = row.quantity.low_s, row.quantity.high_s
    if low is not None and high is not None:
        a, b, foot = round(low * px_per_s, 1), round(max(high * px_per_s, low * px_per_s + 1), 1), y + BAR_PX + 3
        feet = "".join(f"M{number(x)} {number(foot - 2)}v{number(4)}" for x in (a, b))
        canvas.stroke(f"M{number(a)} {number(foot)}H{number(b)}{feet}", "ink", 1)


def _draw_table(canvas: Canvas, doc: BenchDoc, y: float) -> float:
    canvas.boxes([(0, y, WIDTH_PX, 1)], "rule")
    for x, text, anchor in HEADS:
        canvas.text(x, y + 13, text, "ink2", anchor=anchor)
    y += 19
    for row in doc.rows:
        canvas.boxes([(0, y, WIDTH_PX, 1)], "rule")
        _draw_row(canvas, row, y)
        y += ROW_PX
    canvas.boxes([(0, y, WIDTH_PX, 1)], "rule")
    return y + 6


def _draw_row(canvas: Canvas, row: Row, y: float) -> None:
    middle = y + ROW_PX / 2 + 4
    canvas.text(LEFT_PX, middle, row.name, size=11, anchor="end")
    canvas.text(MEDIAN_X, middle, row.median, size=13, anchor="end", bold=True)
    canvas.text(INTERVAL_X, middle, row.interval, "ink2", size=11, anchor="middle")
    canvas.text(LEAST_X, middle, row.least, size=11, anchor="end")
    canvas.text(IQR_X, middle, row.spread, size=11, anchor="end")
    strip = Strip.of(row.quantity)
    _draw_outliers(canvas, row, strip, middle)
    _draw_samples(canvas, row, strip, y + 6, ROW_PX - 12)


def _draw_outliers(canvas: Canvas, row: Row, strip: Strip, middle: float) -> None:
    """How many there are, and how far those go that lie beyond the strip's scale."""
    reach = [f"up to {units.duration_s(strip.above[-1])}"] if strip.above else []
    reach += [f"down to {units.duration_s(strip.below[0])}"] if strip.below else []
    y = middle - 6 * len(reach)
    canvas.text(OUTLIERS_X, y, row.outliers, size=11, anchor="end")
    for line, words in enumerate(reach, 1):
        canvas.text(OUTLIERS_X, y + 12 * line, words, "ink2", anchor="end")


def _draw_samples(canvas: Canvas, row: Row, strip: Strip, y: float, height: float) -> None:
    quantity = row.quantity
    _draw_range(canvas, row, strip, y, height)
    unit_ns = quantity.median_s * 1e9
    for value_s, base in ((strip.high_s, y + 6), (strip.low_s, y + height + 2)):
        text = units.duration_like(value_s * 1e9, strip.room_s * 1e8, unit_of_ns=unit_ns, unit=False)
        canvas.text(ORDER_X - 6, base, text, "ink2", anchor="end")
    at = strip.ys(quantity, y, height)
    x = np.linspace(ORDER_X + 2, ORDER_X + ORDER_PX - 2, len(at))
    draw_dots(canvas, x, at, quantity.is_outlier, row.token)
    samples = np.array(quantity.samples_s)
    inside = at[(samples >= strip.low_s) & (samples <= strip.high_s)]
    draw_distribution(canvas, inside, row.token, x=SPREAD_X, width=SPREAD_PX, top=y, height=height, bins=BINS)


def _draw_range(canvas: Canvas, row: Row, strip: Strip, y: float, height: float) -> None:
    """The interval as a band, the median as a line, across samples and distribution."""
    quantity, width = row.quantity, SPREAD_X + SPREAD_PX - ORDER_X
    if quantity.low_s is not None and quantity.high_s is not None:
        top, bottom = strip.y(quantity.high_s, y, height), strip.y(quantity.low_s, y, height)
        canvas.boxes([(ORDER_X, round(top, 1), width, round(max(0.5, bottom - top), 1))], tint(row.token, 0.18, 0.25))
    # the median of bimodal samples describes neither mode
    for shown_s in [mode.median_s for mode in quantity.modes] or [quantity.median_s]:
        canvas.boxes([(ORDER_X, round(strip.y(shown_s, y, height) - 0.5, 1), width, 1)], row.token)


def _draw_method(canvas: Canvas, doc: BenchDoc, y: float, *, header: bool) -> float:
    if not header:  # the text around the picture has the words; only the device belongs into the picture
        canvas.text(WIDTH_PX, y + 10, doc.device_label, "ink2", anchor="end")
        return y + 16
    if doc.failure:
        canvas.text(0, y + 10, fitted(doc.failure, WIDTH_PX, 10), "wait")
        y += 15
    canvas.text(0, y + 10, fitted(BETWEEN.join(doc.fine_print), WIDTH_PX, 10), "ink2")
    y += 15
    for warning in doc.warnings:
        canvas.stroke(f"M{number(6)} {number(y + 7)}h0", "warn", 12, cap="round")
        canvas.text(6, y + 10.5, "!", "on_comm", anchor="middle", bold=True)
        canvas.text(16, y + 10.5, fitted(warning, WIDTH_PX - 20, 10))
        y += 15
    return y + 4
