"""A cell on several numbers of ranks: its table, picture, text and HTML."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import pairwise

from perfmagic.analysis.findings.answer import Conclusion
from perfmagic.analysis.ranks.scaling import ScalingChange, ScalingStat
from perfmagic.base import units
from perfmagic.base.language import chained, counted, phrase, say, sentences, translate_term, translated
from perfmagic.base.tables import Table, html_table, markdown_table, text_lines
from perfmagic.base.terminal import wrapped
from perfmagic.view.html import closed, conclusion_html, conclusion_markdown, framed, image, paragraphs, short
from perfmagic.view.svg.canvas import Canvas, Placed, in_row, number, rects
from perfmagic.view.svg.layouts import alone, in_bytes
from perfmagic.view.svg.metrics import fitted, width_px
from perfmagic.view.svg.palette import LOST_SHARE, Tone, tint

# Several numbers of ranks as SVG: the speed-up beside the ideal, and where the time of each went.

TOP_PX, PLOT_PX = 30, 160
STACKED_PX = 620  # below it the times stand under the speed-up
INSET_PX = 26
BAR_PX = 56
LABEL_PX = 30  # a part that is lower has no room for its length
PARTS = (
    ("compute_ns", "compute", "comp"),
    ("exposed_transfer_ns", "data moving", "comm"),
    ("exposed_waiting_ns", "waiting for ranks", "wait"),
    ("rest_ns", "Python, copies, idle", "host2"),
)
IDEAL = "ideal"
ON = ("comp", "comm")  # parts dark enough for letters of their own color


@dataclass(frozen=True)
class _Half:
    """Where one of the two plots stands, in px."""

    left: float
    right: float
    top: float

    @property
    def floor(self) -> float:
        return self.top + PLOT_PX

    @property
    def width(self) -> float:
        return self.right - self.left


def draw_scaling(rows: Sequence[ScalingStat], scaling: str, device_label: str, alt: str) -> str:
    """The picture, 1000 px wide: both halves have a place for each number of ranks."""
    return alone(partial(_draw_scaling, rows, scaling, device_label), alt).svg


def _draw_scaling(rows: Sequence[ScalingStat], scaling: str, device_label: str, canvas: Canvas) -> float:
    """Speed-up and times, beside each other where there is room; returns the height."""
    speed, time = _halves(canvas.width_px)
    against = counted(rows[0].ranks, "{n} rank", "{n} ranks")
    _title(canvas, speed, say("speed-up against {ranks}, {kind} scaling", ranks=against, kind=phrase(scaling)))
    _title(canvas, time, say("time of the cell, mean of the ranks"))
    _draw_speedup(canvas, rows, speed)
    _draw_times(canvas, rows, time)
    bottom = _key(canvas, time.left, time.floor + 42.0)
    canvas.text(canvas.width_px, bottom, fitted(device_label, canvas.width_px, 10), "ink2", anchor="end")
    return bottom + 8


def _halves(width_px: int) -> tuple[_Half, _Half]:
    """The plot of the speed-up and that of the times in a picture of a width."""
    if width_px < STACKED_PX:
        return _Half(56, width_px - 12, TOP_PX), _Half(12, width_px - 12, TOP_PX + PLOT_PX + 66)
    return _Half(56, 0.4 * width_px, TOP_PX), _Half(0.5 * width_px, width_px - 12, TOP_PX)


def _title(canvas: Canvas, half: _Half, words: str) -> None:
    x = max(0.0, min(half.left, canvas.width_px - width_px(words, 11, bold=True)))
    canvas.text(round(x, 1), half.top - 16, words, size=11, bold=True)


def _places(rows: Sequence[ScalingStat], half: _Half) -> list[float]:
    """Where each number of ranks stands: doubling it is one distance."""
    low, high = math.log(rows[0].ranks), math.log(rows[-1].ranks)
    inner_px = half.width - 2 * INSET_PX
    shares = [(math.log(row.ranks) - low) / (high - low) if high > low else 0.5 for row in rows]
    return [half.left + INSET_PX + inner_px * share for share in shares]


def _draw_speedup(canvas: Canvas, rows: Sequence[ScalingStat], half: _Half) -> None:
    x, fewest = _places(rows, half), rows[0].ranks
    ideal = [row.ranks / fewest for row in rows]
    low = math.log2(min(1.0, *(row.speedup for row in rows))) - 0.6
    high = math.log2(max(*ideal, *(row.speedup for row in rows))) + 0.3

    def y(times: float) -> float:
        """Doubling is one distance here too, so that the ideal is a straight line."""
        return half.floor - PLOT_PX * (math.log2(times) - low) / (high - low)

    powers = range(math.ceil(low), math.floor(high) + 1)
    _grid(canvas, half, [2.0**power for power in powers], y, lambda times: f"\u00d7 {times:g}")
    canvas.stroke(_path(x, [y(times) for times in ideal]), "ink3", 1.5, dash=(3.0, 2.5))
    canvas.stroke(_path(x, [y(row.speedup) for row in rows]), "comp", 1.5)
    placed = Placed(canvas)
    for i in _by_worth(rows):
        at, row = x[i], rows[i]
        canvas.stroke(f"M{number(round(at, 1))} {number(round(y(row.speedup), 1))}h0", "comp", 6, cap="round")
        below = y(row.speedup) + 16 if row.efficiency_frac < 1 else y(row.speedup) - 8
        placed.text(at, below, units.percent(row.efficiency_frac), bold=True)
    top = y(ideal[-1])
    if not placed.text(x[-1] - 10, top - 3, say(IDEAL), "ink2", anchor="end"):
        placed.text(x[-1] - 10, top + 20, say(IDEAL), "ink2", anchor="end")
    _numbers(canvas, x, rows, half.floor)


def _draw_times(canvas: Canvas, rows: Sequence[ScalingStat], half: _Half) -> None:
    x = _places(rows, half)
    top = max(*(row.time_ns for row in rows), *(row.ideal_ns for row in rows)) * 1.12
    near = min((b - a for a, b in pairwise(x)), default=2.0 * BAR_PX)
    wide = min(BAR_PX, near * 0.8)

    def y(ns: float) -> float:
        return half.floor - PLOT_PX * ns / top

    labels: list[tuple[float, float, str, str]] = []
    for at, row in zip(x, rows, strict=True):
        done = 0.0
        for name, _, token in PARTS:
            length = getattr(row, name)
            box = (round(at - wide / 2, 1), round(y(done + length), 1), wide, round(y(done) - y(done + length), 1))
            _part(canvas, box, token)
            words = units.duration(length)
            if box[3] >= LABEL_PX / 2 and width_px(words, 10) + 4 <= wide:
                labels.append((at, box[1] + box[3] / 2 + 3.5, words, f"on_{token}" if token in ON else "ink"))
            done += length
    placed = Placed(canvas)
    for i in _by_worth(rows):
        placed.text(x[i], y(rows[i].time_ns) - 5, units.duration(rows[i].time_ns), bold=True)
    for at, level, words, ink in labels:
        placed.text(at, level, words, ink)
    for at, row in zip(x, rows, strict=True):
        level = round(y(row.ideal_ns), 1)
        past = min(6.0, (near - wide) / 2)  # of a neighbour's line it stays away
        pieces = placed.beside(at - wide / 2 - past, at + wide / 2 + past, level)
        data = "".join(f"M{number(round(a, 1))} {number(level)}h{number(round(b - a, 1))}" for a, b in pieces)
        canvas.stroke(data, "ink", 1.2, dash=(3.0, 2.5))
    canvas.boxes([(half.left, half.floor, half.width, 0.75)], "rule")
    _numbers(canvas, x, rows, half.floor)


def _part(canvas: Canvas, box: tuple[float, float, float, float], token: str) -> None:
    """A part of the time; red is lost time, hatched as in the ranks' rows."""
    if box[3] <= 0:
        return
    tone: str | Tone = tint("wait", LOST_SHARE, LOST_SHARE) if token == "wait" else token
    canvas.boxes([box], tone)
    if token == "wait":
        canvas.hatch_lost(rects([box]))


def _grid(
    canvas: Canvas,
    half: _Half,
    values: Sequence[float],
    y: Callable[[float], float],
    words: Callable[[float], str],
) -> None:
    for value in values:
        at = round(y(value), 1)
        canvas.boxes([(half.left, at, half.width, 0.75)], "grid")
        canvas.text(half.left - 6, at + 3.5, words(value), "ink2", anchor="end")
    canvas.boxes([(half.left, half.floor, half.width, 0.75)], "rule")


def _numbers(canvas: Canvas, x: Sequence[float], rows: Sequence[ScalingStat], floor: float) -> None:
    """The numbers of ranks below a half; more ranks than cores are said. Where they are many, numbers alone."""
    placed = Placed(canvas)
    words = [translated(counted(row.ranks, "{n} rank", "{n} ranks")).strip() for row in rows]
    many = not placed.fit(list(x), words, bold=True)
    if many:
        words = [str(row.ranks) for row in rows[:-1]] + words[-1:]
    for i in _by_worth(rows):
        row = rows[i]
        shown = placed.text(x[i], floor + 14, words[i], bold=True)
        if shown and row.crowded and (not many or row is rows[-1]):
            placed.text(x[i], floor + 26, fitted(_describe_cores(row.cores or 0), 90, 10), "ink2")


def _describe_cores(n: int) -> str:
    return translated(counted(n, "on {n} core", "on {n} cores"))


def _by_worth(rows: Sequence[ScalingStat]) -> list[int]:
    """Where there is no room for the labels of all, the last and the first have theirs; the table has the rest."""
    return list(dict.fromkeys((len(rows) - 1, 0, *range(len(rows)))))


def _key(canvas: Canvas, left: float, y: float) -> float:
    x = left
    for _, english, token in PARTS:
        words = say(english)
        x, y = in_row(canvas, x, y, 14 + width_px(words, 10), left)
        _part(canvas, (round(x, 1), y - 8, 10, 9), token)
        canvas.text(round(x + 14, 1), y, words, "ink2")
        x += width_px(words, 10) + 30
    ideal = say(IDEAL)
    x, y = in_row(canvas, x, y, 22 + width_px(ideal, 10), left)
    canvas.stroke(f"M{number(round(x, 1))} {number(y - 3)}h{number(18)}", "ink", 1.2, dash=(3.0, 2.5))
    canvas.text(round(x + 22, 1), y, ideal, "ink2")
    return y + 16


def _path(x: Sequence[float], y: Sequence[float]) -> str:
    return "M" + "L".join(f"{number(round(a, 1))} {number(round(b, 1))}" for a, b in zip(x, y, strict=True))


SAME_WORK = {"weak": "each rank has the same work", "strong": "all ranks share one work"}


@dataclass(frozen=True, eq=False)
class ScalingDoc:
    """conclusion: what is lost, and what to do.  rows: the fewest ranks first.

    n_runs: of each, the fewest and the most.
    """

    conclusion: Conclusion
    rows: Sequence[ScalingStat]
    scaling: str
    device_label: str
    n_runs: tuple[int, int]

    @property
    def sentence(self) -> str:
        """How efficient the most ranks are, in the language in force."""
        return translated(self.conclusion.decides)

    @property
    def fine_print(self) -> str:
        """How it was measured, the device last."""
        fewest, most = self.n_runs
        n = fewest if fewest == most else phrase("{low} to {high}", low=fewest, high=most)
        runs = phrase("one run each") if most == 1 else phrase("median of {n} runs", n=n)
        how = phrase("{kind} scaling: {work}", kind=phrase(self.scaling), work=phrase(SAME_WORK[self.scaling]))
        return translated(chained("{a} · {b}", (how, runs, self.device_label)))

    @property
    def note(self) -> str:
        """What the columns are."""
        columns = phrase(
            "Speed-up and efficiency are against {ranks}. The other times are the mean of the ranks. Exposed: not"
            " overlapped with compute; waiting for ranks is a part of it",
            ranks=counted(self.rows[0].ranks, "{n} rank", "{n} ranks"),
        )
        known = any(row.waited_for_core_ns is not None for row in self.rows)
        cores = phrase("Waiting for a core: all threads of a rank added up") if known else ""
        return translated(sentences(columns, cores))


def scaling_table(doc: ScalingDoc) -> Table:
    """A row for each number of ranks."""
    head = (
        "ranks", "time", "ideal", "speed-up", "efficiency", "compute", "exposed comm.", "waiting for ranks",
        "waiting for a core",
    )  # fmt: skip
    rows = [
        (
            str(row.ranks),
            units.duration(row.time_ns),
            units.duration(row.ideal_ns),
            f"\u00d7 {units.significant(row.speedup)}",
            units.percent(row.efficiency_frac),
            units.duration(row.compute_ns),
            units.duration(row.exposed_communication_ns),
            units.duration(row.exposed_waiting_ns),
            "" if row.waited_for_core_ns is None else units.duration(row.waited_for_core_ns),
        )
        for row in doc.rows
    ]
    return Table("Scaling", head, rows, doc.note + say(". ") + doc.fine_print)


_FEW_COLUMNS = 5  # of the table, beside what to do


def scaling_text(doc: ScalingDoc, *, details: bool) -> str:
    """How efficient it is, what to do, the table; with details all its columns and what they are."""
    table = scaling_table(doc)
    if details:
        lines = [doc.conclusion.text(doc.fine_print), "", *text_lines(table), "", *wrapped(doc.note)]
    else:
        few = replace(table, head=table.head[:_FEW_COLUMNS], rows=[row[:_FEW_COLUMNS] for row in table.rows])
        rest = f".text(details=True): {say('compute, communication, waiting')}"
        lines = [doc.conclusion.text(doc.fine_print), "", *text_lines(few), "", f"  {rest}"]
    return "\n".join(line.rstrip() for line in lines)


def scaling_html(doc: ScalingDoc) -> str:
    """How efficient it is, what to do, the picture as an image; the table opens with a click; survives sanitisers."""
    head = conclusion_html(doc.conclusion, doc.fine_print)
    picture = in_bytes(partial(_draw_scaling, doc.rows, doc.scaling, doc.device_label), doc.sentence)
    below = closed(say("all times as a table"), html_table(scaling_table(doc)) + paragraphs([doc.note]))
    return framed(head + image(picture, doc.sentence) + below)


def scaling_markdown(doc: ScalingDoc) -> str:
    """How efficient it is, what to do, and the table as GitHub's Markdown."""
    return f"{conclusion_markdown(doc.conclusion, doc.fine_print)}\n\n{markdown_table(scaling_table(doc))}\n"


# Two sweeps over numbers of ranks compared: the table as text and HTML.

NOTE = (
    "Differences of parts are the mean of the ranks, and add up to the difference. Exposed: not overlapped with "
    "compute. Efficiency is that of each sweep against its own fewest ranks"
)
APART = {True: "apart", False: "overlap", None: "one run"}


def change_table(rows: Sequence[ScalingChange], names: tuple[str, str]) -> Table:
    """A row for each number of ranks."""
    named = [phrase("{name}", name=name) for name in names]
    head = ["ranks", *named, "difference", "runs", "efficiency", "compute", "exposed transfer", "waiting", "rest"]
    cells = [
        [
            str(row.ranks),
            units.duration(row.a_ns),
            units.duration(row.b_ns),
            units.signed(row.diff_ns),
            translate_term(APART[row.apart]),
            f"{units.percent(row.efficiency_a_frac)} → {units.percent(row.efficiency_b_frac)}",
            units.signed(row.compute_diff_ns),
            units.signed(row.exposed_transfer_diff_ns),
            units.signed(row.exposed_waiting_diff_ns),
            units.signed(row.rest_diff_ns),
        ]
        for row in rows
    ]
    return Table("", head, cells)


def change_text(headline: str, rows: Sequence[ScalingChange], names: tuple[str, str], notes: Sequence[str]) -> str:
    """The verdict, the table and the notes, as wide as the terminal."""
    said = [line for note in (*notes, say(NOTE)) for line in wrapped(note)]
    lines = [*wrapped(translated(headline)), "", *text_lines(change_table(rows, names)), "", *said]
    return "\n".join(line.rstrip() for line in lines)


def change_html(headline: str, rows: Sequence[ScalingChange], names: tuple[str, str], notes: Sequence[str]) -> str:
    """The same as HTML; survives sanitisers."""
    line = f'<div style="margin:4px 0"><b>{short(translated(headline))}</b></div>'
    return framed(line + html_table(change_table(rows, names)) + paragraphs([*notes, say(NOTE)]))
