"""The queue model below the bars of a benchmark, on their axis: launches, ops, and the terms of the formula."""

from __future__ import annotations

from dataclasses import dataclass

from perfmagic import units
from perfmagic.analysis.bench.queue_model import FORMULA, QueueModel
from perfmagic.view.svg.canvas import Canvas, Part
from perfmagic.view.svg.metrics import width_px
from perfmagic.view.svg.palette import tint
from perfmagic.view.svg.path import number

LANE_PX, GAP_PX = 9, 2
BRACKET_Y, LABEL_Y, FORMULA_Y = 27, 41, 56
MODEL_PX = 68  # with the room to what follows
LABEL_GAP_PX = 10
LEAST_STEP_PX = 2.5  # from one op to the next: closer ones are drawn as one box
BACK_SHARE = 0.4  # of the launches' grey: Python does nothing but learn that all is done


@dataclass(frozen=True)
class Term:
    """A term of the formula, and from when to when it lasts, in seconds."""

    words: str
    start_s: float
    end_s: float


def terms(model: QueueModel) -> list[Term]:
    """What the predicted time is made of, one after the other."""
    rest = model.n - 1
    lengths = [(f"t1 = {units.duration_s(model.t1_s)}", model.t1_s)]
    if rest:
        words = f"{units.count(rest)} · max(t1, t2) = {units.count(rest)} · {units.duration_s(model.pace_s)}"
        lengths.append((words, rest * model.pace_s))
    lengths += [(f"t2 = {units.duration_s(model.t2_s)}", model.t2_s)]
    lengths += [(f"t3 = {units.duration_s(model.t3_s)}", model.t3_s)]
    found, at_s = [], 0.0
    for words, length_s in lengths:
        found.append(Term(words, at_s, at_s + length_s))
        at_s += length_s
    return found


def draw_queue_model(canvas: Canvas, model: QueueModel, y: float, px_per_s: float, plot_px: float) -> None:
    """Launches above, ops below, the terms below them; x counts from the axis' zero."""
    canvas.text(-8, y + 13, "queue model", size=11, anchor="end")
    last_end_s = model.predicted_s - model.t3_s
    _draw_lane(canvas, model.n, (0.0, model.t1_s, model.t1_s), y, px_per_s, "launch")
    _draw_lane(canvas, model.n, (model.t1_s, model.pace_s, model.t2_s), y + LANE_PX + GAP_PX, px_per_s, "comp")
    back = (round(last_end_s * px_per_s, 1), y, max(1.0, round(model.t3_s * px_per_s, 1)), LANE_PX)
    canvas.boxes([back], tint("launch", BACK_SHARE, BACK_SHARE))
    canvas.run(
        plot_px + 12,
        y + 13.5,
        Part(units.duration_s(model.predicted_s), size=13, bold=True),
        Part("predicted", "ink2", 11, gap_px=6),
    )
    _draw_terms(canvas, terms(model), y, px_per_s, plot_px)
    meaning = "t1 to launch one op, t2 to execute one, t3 until Python knows that all are done"
    canvas.text(0, y + FORMULA_Y, f"{FORMULA}: {meaning}; n = {units.plural(model.n, 'op')}", "ink2")


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


def _draw_terms(canvas: Canvas, found: list[Term], y: float, px_per_s: float, plot_px: float) -> None:
    """A bracket below each term, and its words near it."""
    widths = [width_px(term.words, 10) for term in found]
    middles = [(term.start_s + term.end_s) / 2 * px_per_s for term in found]
    brackets = ""
    for term in found:
        a, b = round(term.start_s * px_per_s, 1), round(term.end_s * px_per_s, 1)
        foot = y + BRACKET_Y
        brackets += f"M{number(a)} {number(foot - 3)}v{number(3)}H{number(b)}v{number(-3)}"
    canvas.stroke(brackets, "ink3", 1)
    lefts = placed(middles, widths, plot_px)
    for term, left, width, middle in zip(found, lefts, widths, middles, strict=True):
        if not left - 2 <= middle <= left + width + 2:  # the words had to move: a line leads to them
            near = left if middle < left else left + width
            leader = f"M{number(round(middle, 1))} {number(y + BRACKET_Y)}"
            canvas.stroke(f"{leader}L{number(round(near, 1))} {number(y + LABEL_Y - 9)}", "ink3", 0.75)
        canvas.text(round(left, 1), y + LABEL_Y, term.words)


def placed(middles: list[float], widths: list[float], room_px: float) -> list[float]:
    """Where words begin that stand as near to their middles as they can without touching each other."""
    lefts, right = [], 0.0
    for middle, width in zip(middles, widths, strict=True):
        lefts.append(max(right, middle - width / 2))
        right = lefts[-1] + width + LABEL_GAP_PX
    limit = room_px
    for i in range(len(lefts) - 1, -1, -1):
        lefts[i] = min(lefts[i], limit - widths[i])
        limit = lefts[i] - LABEL_GAP_PX
    return lefts
