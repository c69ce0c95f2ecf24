"""The renderers of a benchmark: text, picture and HTML."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial

import numpy as np

from perfmagic.analysis.bench.queue_model import FORMULA, QueueModel
from perfmagic.analysis.bench.result import Quantity
from perfmagic.analysis.findings.answer import answer_lines, in_row
from perfmagic.base import terminal, units
from perfmagic.base.language import counted, phrase, say, translate_term, translated
from perfmagic.base.numerics.stats import Float64
from perfmagic.base.tables import Table, text_lines
from perfmagic.base.terminal import columns, cut_to_columns, prose_width, wrapped
from perfmagic.view.bench.doc import BenchDoc, Row, Term, bench_doc, terms
from perfmagic.view.html import PALE, answer_row, answers_table_html, framed, image, paragraphs, short
from perfmagic.view.svg.canvas import NARROW_PX, WIDTH_PX, Canvas, Part, draw_distribution, draw_dots, number, rects
from perfmagic.view.svg.layouts import Picture, alone, in_bytes
from perfmagic.view.svg.metrics import fitted, in_lines, ticks, width_px
from perfmagic.view.svg.palette import LOST_SHARE, tint

# How a result was measured: one line below it, and the rest on demand.

BETWEEN = " · "
STYLE = "font-size:11px;margin:2px 0 4px 0"


def one_line(parts: Sequence[str]) -> str:
    """The parts in one line of a terminal: what does not fit goes, from the last but one backwards.

    The last part, which names the device, stays: a simulated device must not be mistaken for a real one.
    """
    kept, width = list(parts), prose_width()
    while len(kept) > 2 and columns(BETWEEN.join(kept)) > width:
        del kept[-2]
    return cut_to_columns(BETWEEN.join(kept), width)


def unfolding(line: str, details: Sequence[str], below: Sequence[str]) -> str:
    """HTML: the line, which unfolds into details, and what stands below it in any case.

    Hosts that do not know <details> show all of it.
    """
    if not details:
        return paragraphs([line, *below])
    inside = "<br>".join(short(detail) for detail in details)
    summary = f'<summary style="cursor:pointer">{short(line)}</summary>'
    return (
        f'<details style="{STYLE}">{summary}<div style="margin-left:14px">{inside}</div></details>{paragraphs(below)}'
    )


# Samples in the order taken, on a scale of the usual ones; outliers at the edge, with their value in words.


@dataclass(frozen=True)
class Strip:
    """A scale for samples. low_s, high_s: what it spans, in seconds.  above, below: the outliers beyond it, sorted."""

    low_s: float
    high_s: float
    above: tuple[float, ...]
    below: tuple[float, ...]

    @classmethod
    def of(cls, quantity: Quantity) -> Strip:
        """The scale of one quantity."""
        low_s, high_s = quantity.usual_range_s
        samples = sorted(quantity.samples_s)
        return cls(low_s, high_s, tuple(s for s in samples if s > high_s), tuple(s for s in samples if s < low_s))

    @property
    def span_s(self) -> float:
        """What the scale spans, never 0."""
        return (self.high_s - self.low_s) or self.high_s or 1.0

    def y(self, seconds: float, top: float, height: float) -> float:
        """The place of a time between top + height (low) and top (high); what lies beyond is at the edge."""
        frac = (seconds - self.low_s) / self.span_s
        return top + height - max(0.0, min(1.0, frac)) * height

    def ys(self, quantity: Quantity, top: float, height: float) -> Float64:
        """The places of all samples."""
        return np.array([self.y(s, top, height) for s in quantity.samples_s], np.float64)


def describe_beyond(above: tuple[float, ...]) -> str:
    """How many samples a scale leaves out, and how far they go: "3 outliers up to 9.30 ms"; empty without any.

    above: their times in seconds, sorted.
    """
    if not above:
        return ""
    end = units.duration_s(above[-1])
    reach = phrase("up to {time}", time=end) if len(above) > 1 else phrase("at {time}", time=end)
    return translated(counted(len(above), "{n} outlier {reach}", "{n} outliers {reach}", reach=reach))


# The queue model below the bars of a benchmark, on their axis: launches, ops, and the terms of the formula.

LANE_PX, GAP_PX = 9, 2
BRACKET_Y, LABEL_Y, LINE_PX = 27, 41, 15
AFTER_MODEL_PX = 6  # the room to what follows
LABEL_GAP_PX = 10
LEAST_STEP_PX = 2.5  # from one op to the next: closer ones are drawn as one box
BACK_SHARE = 0.4  # of the launches' grey: Python does nothing but learn that all is done


def draw_queue_model(canvas: Canvas, model: QueueModel, y: float, px_per_s: float, plot_px: float) -> float:
    """Launches above, ops below, the terms below them; x counts from the axis' zero.  Returns the lower edge."""
    canvas.text(-8, y + 13, say("queue model"), size=11, anchor="end")
    last_end_s = model.predicted_s - model.t3_s
    _draw_lane(canvas, model.n, (0.0, model.t1_s, model.t1_s), y, px_per_s, "launch")
    _draw_lane(canvas, model.n, (model.t1_s, model.pace_s, model.t2_s), y + LANE_PX + GAP_PX, px_per_s, "comp")
    back = (round(last_end_s * px_per_s, 1), y, max(1.0, round(model.t3_s * px_per_s, 1)), LANE_PX)
    canvas.boxes([back], tint("launch", BACK_SHARE, BACK_SHARE))
    canvas.run(
        plot_px + 12,
        y + 13.5,
        Part(units.duration_s(model.predicted_s), size=13, bold=True),
        Part(say("predicted") if canvas.width_px >= NARROW_PX else "", "ink2", 11, gap_px=6),
    )
    parts = terms(model)
    _draw_brackets(canvas, parts, y + BRACKET_Y, px_per_s)
    y += LABEL_Y
    explained = say(
        "{formula}: t1 to launch one op, t2 to execute one, t3 until Python knows that all are done; n = {ops}",
        formula=FORMULA,
        ops=counted(model.n, "{n} op", "{n} ops"),
    )
    lines = in_lines(explained, plot_px + right_px(canvas), 10)
    if sum(width_px(term.words, 10) + LABEL_GAP_PX for term in parts) <= plot_px:
        _write_terms(canvas, parts, y, px_per_s, plot_px)
        y += LINE_PX
    else:
        lines = [term.words for term in parts] + lines
    for line in lines:
        canvas.text(0, y, line, "ink2")
        y += LINE_PX
    return y - LINE_PX + AFTER_MODEL_PX


def _draw_lane(
    canvas: Canvas, n: int, times_s: tuple[float, float, float], y: float, px_per_s: float, token: str
) -> None:
    """n boxes.  times_s: of the first start, from one to the next, and of each length."""
    start, step, length = (seconds * px_per_s for seconds in times_s)
    if step < LEAST_STEP_PX:
        share = 1.0 if length >= step else max(0.2, length / step)  # as pale as the lane is empty
        whole = max(1.0, round((n - 1) * step + length, 1))
        canvas.boxes([(round(start, 1), y, whole, LANE_PX)], token if share == 1 else tint(token, share, share))
        return
    edge = 0.75 if length > step - 0.75 else 0.0  # between boxes that touch
    boxes = [(round(start + i * step, 1), y, max(0.75, round(length - edge, 1)), LANE_PX) for i in range(n)]
    canvas.boxes(boxes, token)


def _draw_brackets(canvas: Canvas, parts: list[Term], foot: float, px_per_s: float) -> None:
    """A bracket below each term."""
    brackets = ""
    for term in parts:
        a, b = round(term.start_s * px_per_s, 1), round(term.end_s * px_per_s, 1)
        brackets += f"M{number(a)} {number(foot - 3)}v{number(3)}H{number(b)}v{number(-3)}"
    canvas.stroke(brackets, "ink3", 1)


def _write_terms(canvas: Canvas, parts: list[Term], y: float, px_per_s: float, plot_px: float) -> None:
    """The words of each term near its bracket."""
    widths = [width_px(term.words, 10) for term in parts]
    middles = [(term.start_s + term.end_s) / 2 * px_per_s for term in parts]
    lefts = placed(middles, widths, plot_px)
    for term, left, width, middle in zip(parts, lefts, widths, middles, strict=True):
        if not left - 2 <= middle <= left + width + 2:  # the words had to move: a line leads to them
            near = left if middle < left else left + width
            leader = f"M{number(round(middle, 1))} {number(y + BRACKET_Y - LABEL_Y)}"
            canvas.stroke(f"{leader}L{number(round(near, 1))} {number(y - 9)}", "ink3", 0.75)
        canvas.text(round(left, 1), y, term.words)


def placed(middles: list[float], widths: list[float], max_px: float) -> list[float]:
    """Where words begin that stand as near to their middles as they can without touching each other."""
    lefts, right = [], 0.0
    for middle, width in zip(middles, widths, strict=True):
        lefts.append(max(right, middle - width / 2))
        right = lefts[-1] + width + LABEL_GAP_PX
    limit = max_px
    for i in range(len(lefts) - 1, -1, -1):
        lefts[i] = min(lefts[i], limit - widths[i])
        limit = lefts[i] - LABEL_GAP_PX
    return lefts


# A benchmark as SVG: two bars on one axis, then a row per quantity with its samples in order.

LEFT_PX = 92
BAR_PX, BAR_STEP_PX = 18, 24
ROW_PX, NOTE_PX = 44, 18
MEDIAN_X, INTERVAL_X, LEAST_X, IQR_X, OUTLIERS_X = 186, 262, 800, 900, 1000


@dataclass(frozen=True)
class Columns:
    """Where a row draws its samples: order_x, order_px: in the order taken; spread_x, spread_px: their distribution.

    stacked: too narrow for a column a number; numbers stand below each other, and the rest of them below the samples.
    """

    order_x: int
    order_px: int
    spread_x: int
    spread_px: int
    stacked: bool

    @classmethod
    def of(cls, width_px: int) -> Columns:
        """The columns of a picture of a width."""
        if width_px >= WIDTH_PX:
            return cls(338, 290, 640, 66, stacked=False)
        order_x, spread_px = (200, 66) if width_px >= NARROW_PX else (150, 40)
        spread_x = width_px - spread_px
        return cls(order_x, spread_x - 12 - order_x, spread_x, spread_px, stacked=True)

    @property
    def end_x(self) -> int:
        return self.spread_x + self.spread_px

    def heads(self) -> tuple[tuple[int, str, str], ...]:
        """The heading of each column: its place, its words, its anchor."""
        samples = ((self.order_x, say("samples in order"), ""), (self.end_x, say("distribution"), "end"))
        if self.stacked:
            return ((0, say("median, 95 % interval"), ""), *samples)
        return (
            (MEDIAN_X, say("median"), "end"),
            (INTERVAL_X, say("95 % confidence interval"), "middle"),
            (self.order_x, say("samples in order"), ""),
            (self.spread_x, say("distribution"), ""),
            (LEAST_X, say("min"), "end"),
            (IQR_X, say("IQR"), "end"),
            (OUTLIERS_X, say("outliers"), "end"),
        )


BINS = 16
FADE_STEPS, FADE_PX = 16, 80
UNKNOWN_SHARE = 0.2  # as pale as what is queued: nothing says that the device was busy


def left_px(canvas: Canvas) -> int:
    """The room for names at the left of the bars."""
    return LEFT_PX if canvas.width_px >= NARROW_PX else 80


def right_px(canvas: Canvas) -> int:
    """The room for numbers at their right."""
    return 132 if canvas.width_px >= NARROW_PX else 80


def draw_bench(canvas: Canvas, doc: BenchDoc, *, header: bool) -> float:
    """The picture of a benchmark, as wide as the canvas; returns its height."""
    y = 4.0
    if header:
        shown = fitted(doc.rest, canvas.width_px - width_px(doc.lead, 14, bold=True) - 8, 13)
        canvas.run(0, 18, Part(doc.lead, size=14, bold=True), Part(shown, "ink2", 13, gap_px=8))
        y = 30.0
        for words in _below_headline(doc):
            canvas.text(0, y + 8, fitted(words, canvas.width_px, 12), "ink2", size=12)
            y += 18
    if doc.returns_s is not None:
        y = _draw_bars(canvas, doc, y)
    y = _draw_table(canvas, doc, y)
    return _draw_method(canvas, doc, y, header=header)


def _below_headline(doc: BenchDoc) -> list[str]:
    """What to do, and what the recorded run says, a line each."""
    asked = f"→ {doc.answer.action} · {in_row(doc.times)}" if doc.answer is not None else ""
    return [words for words in (asked, doc.recorded) if words]


def _draw_bars(canvas: Canvas, doc: BenchDoc, y: float) -> float:
    quantities = [row.quantity for row in doc.rows if row.name != "device span"]
    shown_s = [max(q.median_s, q.high_s or 0.0) for q in quantities]
    shown_s += [doc.queue_model.predicted_s] if doc.queue_model else []
    end_s = max(1e-9, *shown_s) * 1.02  # a body of nothing takes none
    plot_px = canvas.width_px - left_px(canvas) - right_px(canvas)
    canvas.shifted(left_px(canvas))
    for tick in ticks(end_s * 1e9, plot_px):
        x = round(tick.offset_ns / 1e9 / end_s * plot_px, 1)
        canvas.boxes([(x, y + 13, 0.75, BAR_STEP_PX * (1 if doc.done_s is None else 2))], "grid")
        anchor = "" if x < 10 else "end" if x > plot_px - 10 else "middle"
        canvas.text(x, y + 9, tick.text, "ink2", anchor=anchor)
    y += 15
    _draw_python(canvas, doc, y, plot_px / end_s)
    _beside(canvas, doc, "returns", "Python", y, plot_px, plot_px / end_s)
    if doc.done_s is not None:
        y += BAR_STEP_PX
        _draw_device(canvas, doc, doc.done_s, y, plot_px / end_s)
        _beside(canvas, doc, "done", say("device"), y, plot_px, plot_px / end_s)
    if doc.queue_model:
        y = draw_queue_model(canvas, doc.queue_model, y + BAR_STEP_PX + 6, plot_px / end_s, plot_px)
    canvas.back()
    return y + (4 if doc.queue_model else BAR_STEP_PX + 4)


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
        _fade_in(canvas, done, y)
        return
    start = round(done - min(done_s, doc.span_s) * px_per_s, 1)
    if doc.device_idle is not None and doc.device_idle.lost:
        _lost(canvas, 0.0, y, start, doc.device_idle.words)
    elif doc.device_idle is not None:
        _in_gap(canvas, doc.device_idle.words, 0.0, start, y, "ink2")
    canvas.boxes([(start, y, max(1.0, round(done - start, 1)), BAR_PX)], "comp")
    words = say("device span {time}", time=units.duration_s(doc.span_s))
    if width_px(words, 10) + 10 <= done - start:
        canvas.text(start + 6, y + 12.5, words, "on_comp")


def _sometime(canvas: Canvas, done: float, y: float) -> None:
    """The device was done when Python was: when it worked, or whether, these clocks do not tell."""
    canvas.boxes([(0.0, y, max(1.0, done), BAR_PX)], tint("comp", UNKNOWN_SHARE, UNKNOWN_SHARE))
    _in_gap(canvas, say("done by then"), 0.0, done, y, "ink2")


def _fade_in(canvas: Canvas, done: float, y: float) -> None:
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


def _beside(canvas: Canvas, doc: BenchDoc, name: str, label: str, y: float, plot_px: float, px_per_s: float) -> None:
    """Name on the left, median on the right, the interval as a whisker below the bar's end."""
    canvas.text(-8, y + 13, label, size=11, anchor="end")
    row = doc.row(name)
    if row is None:
        return
    named = Part(translate_term(name) if canvas.width_px >= NARROW_PX else "", "ink2", 11, gap_px=6)
    canvas.run(plot_px + 12, y + 13.5, Part(row.median, size=13, bold=True), named)
    low, high = row.quantity.low_s, row.quantity.high_s
    if low is not None and high is not None:
        a, b, foot = round(low * px_per_s, 1), round(max(high * px_per_s, low * px_per_s + 1), 1), y + BAR_PX + 3
        feet = "".join(f"M{number(x)} {number(foot - 2)}v{number(4)}" for x in (a, b))
        canvas.stroke(f"M{number(a)} {number(foot)}H{number(b)}{feet}", "ink", 1)


def _draw_table(canvas: Canvas, doc: BenchDoc, y: float) -> float:
    places = Columns.of(canvas.width_px)
    canvas.boxes([(0, y, canvas.width_px, 1)], "rule")
    for x, text, anchor in places.heads():
        canvas.text(x, y + 13, text, "ink2", anchor=anchor)
    y += 19
    for row in doc.rows:
        canvas.boxes([(0, y, canvas.width_px, 1)], "rule")
        strip = Strip.of(row.quantity)
        _draw_samples(canvas, row, strip, y + 6, places)
        if places.stacked:
            _stack_numbers(canvas, row, strip, y)
        else:
            _write_numbers(canvas, row, strip, y + ROW_PX / 2 + 4)
        y += ROW_PX + (NOTE_PX if places.stacked else 0)
    canvas.boxes([(0, y, canvas.width_px, 1)], "rule")
    return y + 6


def _write_numbers(canvas: Canvas, row: Row, strip: Strip, middle: float) -> None:
    """One column per number."""
    canvas.text(LEFT_PX, middle, translate_term(row.name), size=11, anchor="end")
    canvas.text(MEDIAN_X, middle, row.median, size=13, anchor="end", bold=True)
    canvas.text(INTERVAL_X, middle, row.interval, "ink2", size=11, anchor="middle")
    canvas.text(LEAST_X, middle, row.least, size=11, anchor="end")
    canvas.text(IQR_X, middle, row.spread, size=11, anchor="end")
    _draw_outliers(canvas, row, strip, middle)


def _stack_numbers(canvas: Canvas, row: Row, strip: Strip, y: float) -> None:
    """Name, median and interval below each other, the rest in a line below the samples."""
    canvas.text(0, y + 14, translate_term(row.name), size=11)
    canvas.text(0, y + 29, row.median, size=13, bold=True)
    canvas.text(0, y + 43, row.interval, "ink2")
    beyond = say("outliers") + f" {row.outliers}" + "".join(f", {words}" for words in _reaches(strip))
    note = f"{say('min')} {row.least}{BETWEEN}{say('IQR')} {row.spread}{BETWEEN}{beyond}"
    canvas.text(0, y + ROW_PX + 12, fitted(note, canvas.width_px, 10), "ink2")


def _reaches(strip: Strip) -> list[str]:
    """How far those go that lie beyond the strip's scale."""
    above = [say("up to {time}", time=units.duration_s(strip.above[-1]))] if strip.above else []
    return above + ([say("down to {time}", time=units.duration_s(strip.below[0]))] if strip.below else [])


def _draw_outliers(canvas: Canvas, row: Row, strip: Strip, middle: float) -> None:
    """How many there are, and how far those go that lie beyond the strip's scale."""
    reach = _reaches(strip)
    y = middle - 6 * len(reach)
    canvas.text(OUTLIERS_X, y, row.outliers, size=11, anchor="end")
    for line, words in enumerate(reach, 1):
        canvas.text(OUTLIERS_X, y + 12 * line, words, "ink2", anchor="end")


def _draw_samples(canvas: Canvas, row: Row, strip: Strip, y: float, places: Columns) -> None:
    quantity, height = row.quantity, ROW_PX - 12
    _draw_range(canvas, row, strip, y, places)
    unit_ns = quantity.median_s * 1e9
    for value_s, base in ((strip.high_s, y + 6), (strip.low_s, y + height + 2)):
        text = units.duration_like(value_s * 1e9, strip.span_s * 1e8, unit_of_ns=unit_ns, unit=False)
        canvas.text(places.order_x - 6, base, text, "ink2", anchor="end")
    at = strip.ys(quantity, y, height)
    x = np.linspace(places.order_x + 2, places.order_x + places.order_px - 2, len(at))
    draw_dots(canvas, x, at, quantity.is_outlier, row.token)
    samples = np.array(quantity.samples_s)
    inside = at[(samples >= strip.low_s) & (samples <= strip.high_s)]
    x_px, width = places.spread_x, places.spread_px
    draw_distribution(canvas, inside, row.token, x=x_px, width=width, top=y, height=height, bins=BINS)


def _draw_range(canvas: Canvas, row: Row, strip: Strip, y: float, places: Columns) -> None:
    """The interval as a band, the median as a line, across samples and distribution."""
    quantity, x, height = row.quantity, places.order_x, ROW_PX - 12
    width = places.end_x - x
    if quantity.low_s is not None and quantity.high_s is not None:
        top, bottom = strip.y(quantity.high_s, y, height), strip.y(quantity.low_s, y, height)
        canvas.boxes([(x, round(top, 1), width, round(max(0.5, bottom - top), 1))], tint(row.token, 0.18, 0.25))
    # the median of bimodal samples describes neither mode
    for shown_s in [mode.median_s for mode in quantity.modes] or [quantity.median_s]:
        canvas.boxes([(x, round(strip.y(shown_s, y, height) - 0.5, 1), width, 1)], row.token)


def _draw_method(canvas: Canvas, doc: BenchDoc, y: float, *, header: bool) -> float:
    if not header:  # the text around the picture has the words; only the device belongs into the picture
        device = fitted(doc.device_label, canvas.width_px, 10)
        canvas.text(canvas.width_px, y + 10, device, "ink2", anchor="end")
        return y + 16
    if doc.failure:
        canvas.text(0, y + 10, fitted(doc.failure, canvas.width_px, 10), "wait")
        y += 15
    canvas.text(0, y + 10, fitted(BETWEEN.join(doc.fine_print), canvas.width_px, 10), "ink2")
    y += 15
    for warning in doc.warnings:
        canvas.stroke(f"M{number(6)} {number(y + 7)}h0", "warn", 12, cap="round")
        canvas.text(6, y + 10.5, "!", "on_comm", anchor="middle", bold=True)
        canvas.text(16, y + 10.5, fitted(warning, canvas.width_px - 20, 10))
        y += 15
    return y + 4


__all__ = ["BenchDoc", "bench_doc", "bench_html", "bench_svg", "bench_text"]

INTERVAL = "95 % confidence interval"


def bench_text(doc: BenchDoc) -> str:
    """The headline, a table of the quantities, one line of fine print and the warnings, as wide as the terminal."""
    head = ("", "median", INTERVAL, "min", "IQR", "outliers", "samples")
    rows = [
        (translate_term(r.name), r.median, r.interval, r.least, r.spread, r.outliers, units.count(r.quantity.n))
        for r in doc.rows
    ]
    lines = wrapped(doc.sentence)
    lines += wrapped(doc.failure) if doc.failure else []
    if doc.answer is not None:
        lines += answer_lines(1, doc.answer.headline, doc.answer.action, in_row(doc.times))
    lines += wrapped(doc.recorded)
    lines += ["", *text_lines(Table("", head, rows)), ""] if rows else [""]
    lines.append(one_line(doc.fine_print))
    for warning in doc.warnings:
        lines += wrapped(f"! {warning}", indent=2)
    return "\n".join(cut_to_columns(line.rstrip(), terminal.width()) for line in lines)


def bench_svg(doc: BenchDoc) -> str:
    """Python above, the device below, on one axis; then the quantities with their samples.  1000 px wide."""
    return alone(partial(draw_bench, doc=doc, header=True), _alt(doc)).svg


def bench_picture(doc: BenchDoc) -> Picture:
    """The same without what stands around it in HTML, laid out for several widths."""
    return in_bytes(partial(draw_bench, doc=doc, header=False), _alt(doc))


def _alt(doc: BenchDoc) -> str:
    return say("Benchmark: {sentence}", sentence=f"{doc.sentence} {doc.device_label}")


def bench_html(doc: BenchDoc) -> str:
    """The headline, the picture as an image, one line that unfolds, and the warnings; survives sanitisers."""
    failure = f"<div><b>{short(doc.failure)}</b></div>" if doc.failure else ""
    line = f'<div style="margin:4px 0"><b>{short(doc.lead)}</b> {short(doc.rest)}</div>'
    alt = say("Benchmark: {sentence}", sentence=f"{doc.sentence} {_describe_figure(doc.rows)} {doc.device_label}")
    picture = image(bench_picture(doc), alt) if doc.rows else ""
    below = unfolding(BETWEEN.join(doc.fine_print), doc.details, [f"! {warning}" for warning in doc.warnings])
    return framed(line + failure + _asked_html(doc) + picture + below)


def _asked_html(doc: BenchDoc) -> str:
    """What to do, and what the recorded run says."""
    answer = doc.answer
    rows = [answer_row("1", answer.headline, answer.action, doc.times)] if answer is not None else []
    recorded = f'<div style="font-size:12px;{PALE}">{short(doc.recorded)}</div>' if doc.recorded else ""
    return answers_table_html(rows) + recorded


def _describe_figure(rows: Sequence[Row]) -> str:
    return " ".join(f"{translate_term(row.name)} {row.median} ({row.interval})." for row in rows)
