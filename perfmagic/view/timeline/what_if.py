"""A prediction as text and as a picture: the critical path recorded and predicted, on one scale."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from functools import partial

from perfmagic.analysis.replay.critical_path import PathShare
from perfmagic.analysis.replay.prediction import CurvePoint
from perfmagic.base import units
from perfmagic.base.language import phrase, say, translate_term, translated
from perfmagic.base.terminal import wrapped
from perfmagic.view.html import framed, image, short
from perfmagic.view.svg.canvas import UNITS_PER_PX, Canvas, Part, Placed
from perfmagic.view.svg.layouts import alone, in_bytes
from perfmagic.view.svg.metrics import in_lines, width_px
from perfmagic.view.timeline.doc import TITLE, as_shares, describe_path
from perfmagic.view.timeline.picture.frame import list_shares, share_box

LEFT_PX = 80

Bars = Sequence[tuple[str, Sequence[PathShare], Callable[[float], str]]]  # a path's name, and how its time is written


def what_if_text(sentence: str, bars: Bars) -> str:
    """The sentence, then a line for each bar."""
    lines = wrapped(translated(sentence))
    for name, shares, shown in bars:
        run_ns = sum(share.ns for share in shares)
        words = {"name": translate_term(name), "time": shown(run_ns), "path": describe_path(as_shares(shares))}
        lines += wrapped(say("{name} {time}, {path}", **words))
    return "\n".join(lines)


def what_if_html(sentence: str, bars: Bars) -> str:
    """The sentence and the picture."""
    first, colon, rest = translated(sentence).partition(say(": "))
    said = f'<div style="margin:4px 0"><b>{short(first)}</b>{colon}{short(rest)}</div>'
    if not bars:
        return framed(said)
    picture = in_bytes(partial(_draw_bars, bars), say("critical path, recorded and predicted"))
    return framed(said + image(picture, say("{a}: {b}", a=phrase(TITLE), b=sentence)))


def _draw_bars(bars: Bars, canvas: Canvas) -> float:
    """A bar a run, as long as the run; returns the height."""
    y = 4.0
    longest_ns = max(sum(share.ns for share in shares) for _, shares, _ in bars)
    for name, shares, shown in bars:
        words = shown(sum(share.ns for share in shares))
        canvas.text(LEFT_PX - 10, y + 12, translate_term(name), anchor="end", size=12)
        x, longest_px = float(LEFT_PX), canvas.width_px - LEFT_PX - width_px(words, 12, bold=True) - 8
        for share in as_shares(shares):
            width = share.ns / longest_ns * longest_px
            share_box(canvas, share, round(x, 1), y + 2, round(max(0.5, width - 1), 1), 12)
            x += width
        canvas.run(round(x + 6, 1), y + 12, Part(words, size=12, bold=True))
        y = list_shares(canvas, as_shares(shares), LEFT_PX, y + 18, LEFT_PX) + 22
    return y


# How a run shrinks as some kernels become faster: a line that goes flat where something else limits the run.

CURVE_LEFT_PX, CURVE_RIGHT_PX, TOP_PX, PLOT_PX, HIGH_PX = 80, 80, 30, 420, 130


def curve_svg(points: Sequence[CurvePoint], recorded_ns: int, what: str) -> str:
    """The predicted time over how much shorter the kernels become, with its interval; 1000 px wide.

    points: in any order.  recorded_ns: how long the run took, the line's beginning.  what: whose kernels these are.
    """
    return alone(partial(_draw_curve, points, recorded_ns, what), _curve_alt(what)).svg


def curve_html(points: Sequence[CurvePoint], recorded_ns: int, what: str) -> str:
    """The same laid out for several widths, as an image."""
    alt = _curve_alt(what)
    return framed(image(in_bytes(partial(_draw_curve, points, recorded_ns, what), alt), alt))


def _curve_alt(what: str) -> str:
    return say("the run as {what} become faster", what=phrase(what))


def _draw_curve(points: Sequence[CurvePoint], recorded_ns: int, what: str, canvas: Canvas) -> float:
    known = sorted(points, key=lambda point: point.k)
    most_ns = max([recorded_ns, *(point.high_ns for point in known)])
    plot_px = min(PLOT_PX, canvas.width_px - CURVE_LEFT_PX - CURVE_RIGHT_PX)
    words = say("how long the run takes with {what} k times as fast", what=phrase(what))
    title = in_lines(words, canvas.width_px - CURVE_LEFT_PX, 10)
    top = TOP_PX + 13.0 * (len(title) - 1)

    def x(k: float) -> float:
        return CURVE_LEFT_PX + (1 - 1 / k if k >= 1 else 0.0) * plot_px

    def y(ns: int) -> float:
        return top + HIGH_PX * (1 - ns / most_ns)

    faster = [point for point in known if point.k >= 1]
    line = [(x(1), y(recorded_ns)), *((x(point.k), y(point.predicted_ns)) for point in faster)]
    upper = [(x(1), y(recorded_ns)), *((x(point.k), y(point.high_ns)) for point in faster)]
    lower = [(x(1), y(recorded_ns)), *((x(point.k), y(point.low_ns)) for point in faster)]
    for index, words in enumerate(title):
        canvas.text(CURVE_LEFT_PX, 14 + 13 * index, words, "ink2")
    for ns in (0, recorded_ns):
        canvas.stroke(_path([(CURVE_LEFT_PX, y(ns)), (CURVE_LEFT_PX + plot_px, y(ns))]), "rule")
        canvas.text(CURVE_LEFT_PX - 8, y(ns) + 4, units.duration(ns) if ns else "0", "ink2", anchor="end")
    canvas.fill(_path([*upper, *reversed(lower)]), "rule")
    canvas.stroke(_path(line), "comp", 2)
    for point in faster:
        canvas.boxes([(x(point.k) - 2, y(point.predicted_ns) - 2, 4, 4)], "comp")
    labels = Placed(canvas)
    for point in reversed(faster):  # without room for all, the fastest has its label
        labels.text(x(point.k), top + HIGH_PX + 15, _times(point.k), "ink2")
    if faster:
        last = faster[-1]
        canvas.text(x(last.k) + 10, y(last.predicted_ns) + 4, units.duration(last.predicted_ns), bold=True)
    return top + HIGH_PX + 24


def _times(k: float) -> str:
    return say("in no time") if math.isinf(k) else f"{k:g} ×"


def _path(places: Sequence[tuple[float, float]]) -> str:
    """Straight lines from place to place, in the picture's own unit."""
    return "M" + "L".join(f"{round(x * UNITS_PER_PX)} {round(y * UNITS_PER_PX)}" for x, y in places)
