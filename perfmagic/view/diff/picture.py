"""Two timelines on one time axis, their steps aligned pair by pair, with changed ops marked; and the waterfall."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from typing import Protocol

import numpy as np

from perfmagic.analysis.diff.diff import TraceDiff, describe_part, median_step
from perfmagic.analysis.diff.side import ComparedTrace
from perfmagic.analysis.diff.times import TimeChange
from perfmagic.analysis.diff.work import changed_ops
from perfmagic.analysis.timeline.activity import recorded_span, streams
from perfmagic.analysis.timeline.overlap import breakdown
from perfmagic.analysis.timeline.steps import Step, steps
from perfmagic.base import units
from perfmagic.base.language import counted, say, translate_term, translated
from perfmagic.base.numerics.intervals import Intervals, clip, union
from perfmagic.trace.columns import Bool
from perfmagic.trace.model import Trace
from perfmagic.trace.names import OpClass, op_classes
from perfmagic.view.svg.canvas import NARROW_PX, Canvas, Part, in_row, rects
from perfmagic.view.svg.layouts import MAX_PICTURE_BYTES as MAX_BYTES
from perfmagic.view.svg.layouts import Picture, alone, fit_layouts, in_bytes, smallest_fit
from perfmagic.view.svg.metrics import Scale, fitted, in_lines, ticks, width_px
from perfmagic.view.svg.palette import CLASS_TOKENS, LOST_SHARE, tint
from perfmagic.view.timeline.lanes import StreamLane
from perfmagic.view.timeline.picture.frame import DETAILS, KEY_NAMES, Detail, Frame, column_widths, narrow_detail
from perfmagic.view.timeline.picture.lanes import draw_lane
from perfmagic.view.timeline.trace_lanes import device_group, windowed

MOST_STEPS = 4  # more would be too narrow to compare
MOST_STREAMS = 4  # of each side, the busiest; idle time counts all
LANE_PX, IDLE_PX, MARK_PX, BAND_GAP_PX = 16, 8, 4, 10
HEAD_PX, AXIS_PX = 16, 15
CHANGED_FRAC = 0.1  # of its own time: a kernel that changed by more is marked, as are new and removed ones


class Drawn(Protocol):
    """The parts of a timeline that the picture needs."""

    @property
    def trace(self) -> Trace: ...

    @property
    def comm_names(self) -> str | None: ...


@dataclass(frozen=True)
class Segment:
    """A part of a trace, [start_ns, end_ns), drawn at_ns after the picture's start.  words: its name."""

    start_ns: int
    end_ns: int
    at_ns: int
    words: str

    @property
    def length_ns(self) -> int:
        return self.end_ns - self.start_ns


@dataclass(frozen=True, eq=False)
class _Band:
    """One side of the picture."""

    drawn: Drawn
    facts: ComparedTrace
    device: int
    segments: Sequence[Segment]
    changed: Bool
    idle: Intervals
    ranked: Sequence[int]  # streams, the busiest first
    lanes: Sequence[Sequence[StreamLane]]  # of each segment


def pair_svg(diff: TraceDiff, first: Drawn, second: Drawn) -> str:
    """The picture, 1000 px wide, light and dark, in at most MAX_BYTES if coarser drawing makes that possible.

    Both must have device ops. With the same number of steps, each pair starts at the same place, with a gap after the
    shorter one. With different numbers of steps: the median step of each. Without steps: the whole cells, or from the
    first op on.
    """
    bands, label = _bands(diff, first, second), _pair_alt(diff)
    return smallest_fit(lambda detail: alone(partial(_draw, bands, detail), label), DETAILS, MAX_BYTES).svg


def pair_picture(diff: TraceDiff, first: Drawn, second: Drawn, most_bytes: int) -> Picture:
    """The same for several widths, in at most most_bytes if coarser drawing makes that possible."""
    bands = _bands(diff, first, second)
    return fit_layouts(
        lambda detail: partial(_draw, bands, detail), DETAILS, narrow_detail, _pair_alt(diff), max(8_000, most_bytes)
    )


def _bands(diff: TraceDiff, first: Drawn, second: Drawn) -> list[_Band]:
    segments = aligned(diff, first, second)
    return [
        _Band(
            drawn,
            facts,
            device,
            side,
            _marked(diff, drawn.trace),
            breakdown(drawn.trace, device, drawn.comm_names).intervals["idle"],
            [stat.stream for stat in streams(drawn.trace, device)],
            [_lanes(drawn, device, segment) for segment in side],
        )
        for drawn, facts, side in zip((first, second), (diff.a, diff.b), segments, strict=True)
        for device in (facts.device,)
        if device is not None
    ]


def _lanes(drawn: Drawn, device: int, segment: Segment) -> Sequence[StreamLane]:
    cut = windowed(drawn.trace, segment.start_ns, segment.end_ns)
    return device_group(cut, device, segment.start_ns, segment.end_ns, drawn.comm_names).streams


def _pair_alt(diff: TraceDiff) -> str:
    return say("{a} above {b} on one axis: {headline}", a=diff.a.name, b=diff.b.name, headline=diff.headline)


def _marked(diff: TraceDiff, trace: Trace) -> Bool:
    """The marked ops; none in samples, where it is unknown what is missing."""
    if diff.of_samples:
        return np.zeros(len(trace.ops), bool)
    return changed_ops(trace, diff.kernels, CHANGED_FRAC, by_shape=diff.by_shape)


def aligned(diff: TraceDiff, first: Drawn, second: Drawn) -> tuple[list[Segment], list[Segment]]:
    """The segments of both sides, which are drawn pair by pair."""
    a, b = (list(steps(drawn.trace, drawn.comm_names)) for drawn in (first, second))
    if a and b:
        pairs = list(zip(a, b, strict=False))[:MOST_STEPS]
        return _of_steps(pairs if len(a) == len(b) else [(median_step(a), median_step(b))])
    windows = [_window(drawn, facts, diff) for drawn, facts in ((first, diff.a), (second, diff.b))]
    return [Segment(*windows[0], 0, "")], [Segment(*windows[1], 0, "")]


def _of_steps(pairs: Sequence[tuple[Step, Step]]) -> tuple[list[Segment], list[Segment]]:
    firsts, seconds, at_ns = [], [], 0
    for a, b in pairs:
        firsts.append(Segment(a.start_ns, a.end_ns, at_ns, say("step {n}", n=a.number)))
        seconds.append(Segment(b.start_ns, b.end_ns, at_ns, say("step {n}", n=b.number)))
        at_ns += max(a.duration_ns, b.duration_ns)
    return firsts, seconds


def _window(drawn: Drawn, facts: ComparedTrace, diff: TraceDiff) -> tuple[int, int]:
    """All that is compared; of the mean step of files the extent of the device."""
    parts = breakdown(drawn.trace, -1 if facts.device is None else facts.device, drawn.comm_names)
    start = parts.extent_start_ns if diff.per_step and not diff.as_cell else recorded_span(drawn.trace)[0]
    return start, start + max(1, facts.whole_ns)


def _draw(bands: Sequence[_Band], detail: Detail, canvas: Canvas) -> float:
    total = max(segment.at_ns + segment.length_ns for band in bands for segment in band.segments)
    total = max(total, sum(map(max, *([segment.length_ns for segment in band.segments] for band in bands))))
    left_px, right_px = column_widths(canvas.width_px)
    scale = Scale(0, total, canvas.width_px - left_px - right_px)
    canvas.shifted(left_px)
    below = canvas.mark()
    lanes_px, y = list[tuple[float, float]](), float(AXIS_PX + 4)
    for band in bands:
        lanes_px.append(_draw_band(canvas, band, y, scale, detail))
        y = lanes_px[-1][1] + BAND_GAP_PX
    above = canvas.mark()
    _draw_axis(canvas, bands, scale, lanes_px)
    canvas.move_down(above, below)
    canvas.back()
    return _draw_key(canvas, bands, y)


def _draw_band(canvas: Canvas, band: _Band, y: float, scale: Scale, detail: Detail) -> tuple[float, float]:
    """One timeline: title, streams, idle time and changes. Returns the edges of the part below the title."""
    facts = band.facts
    title = f"{facts.name} · {units.duration(facts.whole_ns)} · {facts.device_label}"
    for line in in_lines(title, scale.width_px, 11, bold=True):
        canvas.text(0, y + 11, fitted(line, scale.width_px, 11, bold=True), size=11, bold=True)
        y += HEAD_PX
    shown = band.ranked[: min(MOST_STREAMS, detail.streams)]
    frames = [_frame(canvas, segment, scale, detail) for segment in band.segments]
    tops = {stream: y + i * (LANE_PX + 3) for i, stream in enumerate(shown)}
    bottom = y + len(shown) * (LANE_PX + 3)
    trace = band.drawn.trace
    for segment, lanes, frame in zip(band.segments, band.lanes, frames, strict=True):
        for lane in lanes:
            if lane.stream in tops:
                draw_lane(frame, lane, trace.names, tops[lane.stream], LANE_PX)
        _draw_shares(frame, segment, band.idle, bottom, IDLE_PX, "wait")
        marks = union(trace.ops.start_ns[band.changed], trace.ops.end_ns[band.changed])
        _draw_shares(frame, segment, marks, bottom + IDLE_PX + 3, MARK_PX, "ink")
    for stream, top in tops.items():
        frames[0].label(top + LANE_PX / 2, say("stream {n}", n=stream))
        frames[0].rule(top + LANE_PX)
    frames[0].label(bottom + IDLE_PX / 2, "idle", "ink2", size=10)
    frames[0].label(bottom + IDLE_PX + 3 + MARK_PX / 2 + 2, "changed", "ink2", size=10)
    lowest = bottom + IDLE_PX + MARK_PX + 6
    if len(band.ranked) > len(shown):
        n = len(band.ranked) - len(shown)
        if canvas.width_px >= NARROW_PX:
            frames[0].number(
                tops[shown[-1]] + LANE_PX / 2, translated(counted(n, "+ {n} stream", "+ {n} streams")), "ink2"
            )
        else:
            canvas.text(0, lowest + 9, translated(counted(n, "and {n} stream more", "and {n} streams more")), "ink2")
            lowest += HEAD_PX
    return y, lowest


def _frame(canvas: Canvas, segment: Segment, scale: Scale, detail: Detail) -> Frame:
    """A frame that puts the segment at its place on the common axis."""
    start = segment.start_ns - segment.at_ns
    return Frame(canvas, Scale(start, start + scale.end_ns, scale.width_px), detail)


def _draw_shares(frame: Frame, segment: Segment, busy: Intervals, y: float, height: float, token: str) -> None:
    share = frame.occupancy(clip(busy, segment.start_ns, segment.end_ns), frame.columns_ns())
    tone = tint("wait", 0.7, 0.7) if token == "wait" else token
    frame.canvas.fill(frame.step_path(share, y, height), tone)


def _draw_axis(canvas: Canvas, bands: Sequence[_Band], scale: Scale, lanes_px: Sequence[tuple[float, float]]) -> None:
    """Times since the start for whole timelines, otherwise the names of the steps.

    lanes_px: the upper and the lower edge of the lanes of each band.
    """
    lowest = lanes_px[-1][1]
    segments = bands[0].segments
    if not segments[0].words:
        for tick in ticks(scale.end_ns, scale.width_px):
            x = round(scale.x_of(tick.offset_ns), 1)
            canvas.boxes([(x, 11, 0.75, lowest - 11)], "grid")
            anchor = "" if x < 20 else "end" if x > scale.width_px - 20 else "middle"
            canvas.text(x, 9, tick.text, "ink2", anchor=anchor)
        return
    for a, b in zip(*(band.segments for band in bands), strict=True):
        x = round(scale.x_of(a.at_ns), 1)
        canvas.boxes([(x, 2, 1, lowest - 2)], "ink3")
        words = a.words if a.words == b.words else say("{a} and {b}", a=a.words, b=b.words)
        times = f"{units.duration(a.length_ns)} → {units.duration(b.length_ns)}"
        lengths = say("{a}: {b}", a=words, b=times)
        longer_ns = max(a.length_ns, b.length_ns)
        available_px = longer_ns * scale.px_per_ns - 6
        shown = next((text for text in (lengths, words) if width_px(text, 10) <= available_px), "")
        canvas.text(x + 4, 10, shown, "ink2")
        for segment, edges in zip((a, b), lanes_px, strict=False):
            _draw_gap(canvas, segment, longer_ns, scale, edges)


def _draw_gap(canvas: Canvas, segment: Segment, longer_ns: int, scale: Scale, edges: tuple[float, float]) -> None:
    """The gap after the shorter of two steps."""
    x0, x1 = scale.x_of(segment.at_ns + segment.length_ns), scale.x_of(segment.at_ns + longer_ns)
    if x1 - x0 >= 1:
        box = (round(x0, 1), edges[0], round(x1 - x0, 1), round(edges[1] - edges[0], 1))
        canvas.boxes([box], tint("ink3", 0.08, 0.12))


def _draw_key(canvas: Canvas, bands: Sequence[_Band], y: float) -> float:
    """What the colours mean."""
    present = {
        int(c)
        for band in bands
        for trace in (band.drawn.trace,)
        for c in np.unique(op_classes(trace, band.drawn.comm_names)[trace.ops.device == band.device])
    }
    entries = [KEY_NAMES[op_class] for op_class in OpClass if op_class in present]
    changed = say("new, gone, or changed by {share} or more", share=units.percent(CHANGED_FRAC))
    entries += [("idle", "wait"), (changed, "ink")]
    x = 0.0
    for english, token in entries:
        text = translate_term(english)
        tone = tint("wait", 0.7, 0.7) if token == "wait" else token
        x, y = in_row(canvas, x, y, 14 + width_px(text, 10))
        canvas.boxes([(round(x, 1), y + 3, 10, 8)], tone)
        canvas.text(round(x + 14, 1), y + 10.5, text, "ink2")
        x += 14 + width_px(text, 10) + 14
    return y + 18


# The waterfall: from one total to the other, part by part. A bar starts where the previous one ended.

MOST_PARTS = 9  # with a bar each; the others share one bar
LABELS_PX = 252  # left of the bars; at most LABELS_SHARE of a narrower picture
LABELS_SHARE = 0.4
VALUE_PX = 138  # right of the longest bar
NARROW_VALUE_PX = 70  # where labels stand above the bars
ROW_PX, BAR_PX = 18, 12
TOP_PX = 6
LABEL_GAP_PX, LABEL_PX = 6, 16
GONE_SHARE = 0.3  # of the class colour, for a part that got shorter


def waterfall_svg(diff: TraceDiff) -> str:
    """The total of the first, the change of each part, the total of the second; 1000 px wide, light and dark."""
    return alone(partial(_draw_waterfall, diff), _waterfall_alt(diff)).svg


def waterfall_picture(diff: TraceDiff) -> Picture:
    """The same for several widths."""
    return in_bytes(partial(_draw_waterfall, diff), _waterfall_alt(diff))


def _waterfall_alt(diff: TraceDiff) -> str:
    return say("From {a} to {b}: {headline}", a=diff.a.name, b=diff.b.name, headline=diff.headline)


def _draw_waterfall(diff: TraceDiff, canvas: Canvas) -> float:
    whole, one_step = diff.whole, say(", one step") if diff.per_step else ""
    steps = drawn_parts(diff)
    ends = [whole.a_ns]
    for _, diff_ns, _ in steps:
        ends.append(ends[-1] + diff_ns)
    bars = _Bars.for_ends(canvas, [*ends, whole.b_ns])
    y = bars.draw_whole(float(TOP_PX), f"{diff.a.name}{one_step}", whole.a_ns)
    for (words, diff_ns, token), before, after in zip(steps, ends, ends[1:], strict=False):
        y = bars.draw_change(y, words, (before, after), diff_ns, token)
    y = bars.draw_whole(y, f"{diff.b.name}{one_step}", whole.b_ns, joined=True)
    if bars.low_ns:
        canvas.text(bars.left_px, y + 8, say("the axis starts at {time}", time=units.duration(bars.low_ns)), "ink2")
    canvas.text(canvas.width_px, y + 8, say("one run each"), "ink2", anchor="end")
    return y + 14


@dataclass(frozen=True)
class _Bars:
    """Draws bars on one scale. low_ns: where the scale starts."""

    canvas: Canvas
    left_px: float
    low_ns: int
    px_per_ns: float

    @classmethod
    def for_ends(cls, canvas: Canvas, ends_ns: Sequence[int]) -> _Bars:
        """The scale that contains all ends. If the parts are small beside the total, it starts near the lowest end."""
        least, most = min(ends_ns), max(ends_ns)
        low = 0 if most - least > 0.25 * most else max(0, round(least - 0.5 * (most - least)))
        is_narrow = canvas.width_px < NARROW_PX
        left = 8.0 if is_narrow else min(float(LABELS_PX), LABELS_SHARE * canvas.width_px)
        plot = canvas.width_px - left - (NARROW_VALUE_PX if is_narrow else VALUE_PX)
        return cls(canvas, left, low, plot / max(1, most - low))

    def draw_whole(self, y: float, words: str, ns: int, *, joined: bool = False) -> float:
        """A bar from the start.  joined: the bar above ends where this one does.  Returns the lower edge of the row."""
        top = y + self._label_px
        if joined:
            self._join(y, top, ns)
        self._label(y, words, bold=True)
        self.canvas.boxes([self._box(top, (self.low_ns, ns))], "host1")
        self._value(top, ns, units.duration(ns))
        return top + ROW_PX

    def draw_change(self, y: float, words: str, span: tuple[int, int], diff_ns: int, token: str) -> float:
        """A part that got longer is solid, one that got shorter is pale with a solid end; waiting is hatched."""
        canvas = self.canvas
        y_above, y = y, y + self._label_px
        self._join(y_above, y, span[0])
        self._label(y_above, words)
        box = self._box(y, span)
        x, top, width, height = box
        shorter = span[1] < span[0]
        if token == "wait":
            canvas.boxes([box], tint("wait", LOST_SHARE, LOST_SHARE))
            if not shorter:
                canvas.hatch_lost(rects([box]))
        else:
            canvas.boxes([box], tint(token, GONE_SHARE, GONE_SHARE) if shorter else token)
        canvas.boxes([(x if shorter else round(x + width - 1, 1), top, 1, height)], token)
        self._value(y, max(span), units.signed(diff_ns))
        return y + ROW_PX

    @property
    def _label_px(self) -> int:
        """How far below its label a bar starts."""
        return LABEL_PX if self.canvas.width_px < NARROW_PX else 0

    def _x(self, ns: float) -> float:
        return self.left_px + (ns - self.low_ns) * self.px_per_ns

    def _join(self, y: float, top: float, ns: int) -> None:
        """A line from the bar of the row above to the bar that starts at top."""
        first = y - ROW_PX + BAR_PX
        self.canvas.boxes([(round(self._x(ns), 1), first, 0.75, top - first + BAR_PX)], "rule")

    def _box(self, y: float, span: tuple[float, float]) -> tuple[float, float, float, float]:
        first, last = sorted(span)
        return round(self._x(first), 1), y, round(max(1.0, (last - first) * self.px_per_ns), 1), BAR_PX

    def _label(self, y: float, words: str, *, bold: bool = False) -> None:
        """A label left of the bar, or above it in a narrow picture."""
        if self._label_px:
            shown = fitted(words, self.canvas.width_px - self.left_px, 11, bold=bold)
            self.canvas.text(self.left_px, y + 10, shown, size=11, bold=bold)
        else:
            shown = fitted(words, self.left_px - 10, 11, bold=bold)
            self.canvas.text(self.left_px - 8, y + 10, shown, size=11, anchor="end", bold=bold)

    def _value(self, y: float, at_ns: float, words: str) -> None:
        x = min(self._x(at_ns) + LABEL_GAP_PX, self.canvas.width_px - width_px(words, 11) - 4)
        self.canvas.run(round(x, 1), y + 10, Part(words, size=11))


def drawn_parts(diff: TraceDiff) -> list[tuple[str, int, str]]:
    """Label, difference in ns and colour of each bar; the parts add up to the difference of the totals."""
    changed = [part for part in diff.parts if part.diff_ns]
    drawn = [(translated(describe_part(part)), part.diff_ns, _token(part)) for part in changed[:MOST_PARTS]]
    rest = changed[MOST_PARTS:]
    if rest:
        words = _describe_rest(rest)
        drawn.append((words, sum(part.diff_ns for part in rest), "ink3"))
    return drawn


def _describe_rest(rest: Sequence[TimeChange]) -> str:
    if len(rest) > 1:
        return say("{n} smaller parts", n=units.count(len(rest)))
    return translated(describe_part(rest[0]))


def _token(part: TimeChange) -> str:
    if part.kind != "busy":
        return "wait" if part.kind == "idle" else "ink3"
    return CLASS_TOKENS[OpClass[part.op_class.upper()]]
