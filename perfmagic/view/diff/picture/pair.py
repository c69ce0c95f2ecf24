"""Both timelines on one time axis, each pair of steps beginning at the same place, with what changed marked below."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

import numpy as np

from perfmagic import units
from perfmagic.analysis.diff.diff import TraceDiff
from perfmagic.analysis.diff.side import ComparedTrace
from perfmagic.analysis.diff.steps import median_step
from perfmagic.analysis.diff.work import changed_ops
from perfmagic.analysis.timeline.overlap import breakdown
from perfmagic.analysis.timeline.steps import Step, steps
from perfmagic.analysis.timeline.streams import streams
from perfmagic.numerics.intervals import Intervals, clip, union
from perfmagic.trace.columns import Bool
from perfmagic.trace.model import Trace
from perfmagic.trace.names import OpClass, op_classes
from perfmagic.view.svg.canvas import Canvas
from perfmagic.view.svg.metrics import fitted, width_px
from perfmagic.view.svg.palette import tint
from perfmagic.view.svg.scale import Scale, ticks
from perfmagic.view.timeline.device_lanes import device_group, windowed
from perfmagic.view.timeline.picture.device import draw_lane
from perfmagic.view.timeline.picture.frame import LEFT_PX, PLOT_PX, Detail, Frame
from perfmagic.view.timeline.picture.head import KEY_NAMES
from perfmagic.view.timeline.picture.timeline import MAX_BYTES, smallest_fit

MOST_STEPS = 4  # more would be too narrow to be compared
MOST_STREAMS = 4  # of each side, the busiest; idle time is of all
LANE_PX, IDLE_PX, MARK_PX, BAND_GAP_PX = 16, 8, 4, 10
HEAD_PX, AXIS_PX = 16, 15
CHANGED_FRAC = 0.1  # of its own time: a kernel that changed by more is marked, as is one that is new or gone


class Drawn(Protocol):
    """What is drawn of a timeline."""

    @property
    def trace(self) -> Trace: ...

    @property
    def comm_names(self) -> str | None: ...


@dataclass(frozen=True)
class Segment:
    """A part of a trace: [start_ns, end_ns), which begins at_ns after the picture's start.  words: what it is."""

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


def pair_svg(diff: TraceDiff, first: Drawn, second: Drawn, most_bytes: int = MAX_BYTES) -> str:
    """The picture, 1000 px wide, light and dark, in at most most_bytes where coarser drawing can do it.

    Both must have device ops. Where both have as many steps, each begins at the same place in both: room behind the
    shorter one is left free. Other numbers of steps: the median step of each. Without steps: the whole cells, or from
    the first op.
    """
    segments = aligned(diff, first, second)
    bands = [
        _Band(
            drawn,
            facts,
            device,
            mine,
            _marked(diff, drawn.trace),
            breakdown(drawn.trace, device, drawn.comm_names).intervals["idle"],
        )
        for drawn, facts, mine in zip((first, second), (diff.a, diff.b), segments, strict=True)
        for device in (facts.device,)
        if device is not None
    ]
    return smallest_fit(lambda detail: _picture(diff, bands, detail), min(MAX_BYTES, max(8_000, most_bytes)))


def _marked(diff: TraceDiff, trace: Trace) -> Bool:
    """The ops that are marked; none in samples, of which nobody knows what they lack."""
    if diff.of_samples:
        return np.zeros(len(trace.ops), bool)
    return changed_ops(trace, diff.kernels, CHANGED_FRAC, by_shape=diff.by_shape)


def aligned(diff: TraceDiff, first: Drawn, second: Drawn) -> tuple[list[Segment], list[Segment]]:
    """The parts of both that are drawn beside each other."""
    a, b = (list(steps(one.trace, one.comm_names)) for one in (first, second))
    if a and b:
        pairs = list(zip(a, b, strict=False))[:MOST_STEPS]
        return _of_steps(pairs if len(a) == len(b) else [(median_step(a), median_step(b))])
    windows = [_window(one, facts, diff) for one, facts in ((first, diff.a), (second, diff.b))]
    return [Segment(*windows[0], 0, "")], [Segment(*windows[1], 0, "")]


def _of_steps(pairs: Sequence[tuple[Step, Step]]) -> tuple[list[Segment], list[Segment]]:
    firsts, seconds, at_ns = [], [], 0
    for a, b in pairs:
        firsts.append(Segment(a.start_ns, a.end_ns, at_ns, f"step {a.number}"))
        seconds.append(Segment(b.start_ns, b.end_ns, at_ns, f"step {b.number}"))
        at_ns += max(a.duration_ns, b.duration_ns)
    return firsts, seconds


def _window(drawn: Drawn, facts: ComparedTrace, diff: TraceDiff) -> tuple[int, int]:
    """A whole cell, of which also the time before its first op is compared, or the extent of the device."""
    parts = breakdown(drawn.trace, -1 if facts.device is None else facts.device, drawn.comm_names)
    start = parts.extent_start_ns - (parts.head_ns if diff.as_cell else 0)
    return start, start + max(1, facts.whole_ns)


def _picture(diff: TraceDiff, bands: Sequence[_Band], detail: Detail) -> str:
    canvas = Canvas()
    total = max(segment.at_ns + segment.length_ns for band in bands for segment in band.segments)
    total = max(total, sum(map(max, *([segment.length_ns for segment in band.segments] for band in bands))))
    canvas.shifted(LEFT_PX)
    below = canvas.mark()
    edges = [float(AXIS_PX + 4)]
    for band in bands:
        edges.append(_draw_band(canvas, band, edges[-1], total, detail) + BAND_GAP_PX)
    above = canvas.mark()
    _draw_axis(canvas, bands, total, edges)
    canvas.move_down(above, below)
    canvas.back()
    y = _draw_key(canvas, bands, edges[-1])
    return canvas.svg(y, f"{diff.a.name} above {diff.b.name} on one axis: {diff.headline}")


def _draw_band(canvas: Canvas, band: _Band, y: float, total_ns: int, detail: Detail) -> float:
    """One timeline: a line of words, its streams, where it idled, what changed; returns the lower edge."""
    facts = band.facts
    title = f"{facts.name} · {units.duration(facts.whole_ns)} · {facts.device_label}"
    canvas.text(0, y + 11, fitted(title, PLOT_PX, 11, bold=True), size=11, bold=True)
    y += HEAD_PX
    ranked = [stat.stream for stat in streams(band.drawn.trace, band.device)]
    shown = ranked[: min(MOST_STREAMS, detail.streams)]
    frames = [_frame(canvas, segment, total_ns, detail) for segment in band.segments]
    tops = {stream: y + i * (LANE_PX + 3) for i, stream in enumerate(shown)}
    bottom = y + len(shown) * (LANE_PX + 3)
    for segment, frame in zip(band.segments, frames, strict=True):
        trace, pattern = band.drawn.trace, band.drawn.comm_names
        cut = windowed(trace, segment.start_ns, segment.end_ns)
        for lane in device_group(cut, band.device, segment.start_ns, segment.end_ns, pattern).streams:
            if lane.stream in tops:
                draw_lane(frame, lane, trace.names, tops[lane.stream], LANE_PX)
        _draw_shares(frame, segment, band.idle, bottom, IDLE_PX, "wait")
        marks = union(trace.ops.start_ns[band.changed], trace.ops.end_ns[band.changed])
        _draw_shares(frame, segment, marks, bottom + IDLE_PX + 3, MARK_PX, "ink")
    for stream, top in tops.items():
        frames[0].label(top + LANE_PX / 2, f"stream {stream}")
        frames[0].rule(top + LANE_PX)
    frames[0].label(bottom + IDLE_PX / 2, "idle", "ink2", size=10)
    frames[0].label(bottom + IDLE_PX + 3 + MARK_PX / 2 + 2, "changed", "ink2", size=10)
    if len(ranked) > len(shown):
        frames[0].number(tops[shown[-1]] + LANE_PX / 2, f"+ {units.plural(len(ranked) - len(shown), 'stream')}", "ink2")
    return bottom + IDLE_PX + MARK_PX + 6


def _frame(canvas: Canvas, segment: Segment, total_ns: int, detail: Detail) -> Frame:
    """A frame in which the segment lies at its place of the common axis."""
    start = segment.start_ns - segment.at_ns
    return Frame(canvas, Scale(start, start + total_ns, PLOT_PX), detail)


def _draw_shares(frame: Frame, segment: Segment, busy: Intervals, y: float, height: float, token: str) -> None:
    share = frame.occupancy(clip(busy, segment.start_ns, segment.end_ns), frame.columns_ns())
    tone = tint("wait", 0.7, 0.7) if token == "wait" else token
    frame.canvas.fill(frame.skyline(share, y, height), tone)


def _draw_axis(canvas: Canvas, bands: Sequence[_Band], total_ns: int, edges: Sequence[float]) -> None:
    """Instants since the start where whole timelines are drawn, else the names of the steps.

    edges: the upper edge of each band, and that of what follows.
    """
    scale, lowest = Scale(0, total_ns, PLOT_PX), edges[-1] - BAND_GAP_PX
    segments = bands[0].segments
    if not segments[0].words:
        for tick in ticks(total_ns, PLOT_PX):
            x = round(scale.x_of(tick.offset_ns), 1)
            canvas.boxes([(x, 11, 0.75, lowest - 11)], "grid")
            canvas.text(x, 9, tick.text, "ink2", anchor="" if x < 20 else "end" if x > PLOT_PX - 20 else "middle")
        return
    for a, b in zip(*(band.segments for band in bands), strict=True):
        x = round(scale.x_of(a.at_ns), 1)
        canvas.boxes([(x, 2, 1, lowest - 2)], "ink3")
        words = a.words if a.words == b.words else f"{a.words} and {b.words}"
        lengths = f"{words}: {units.duration(a.length_ns)} → {units.duration(b.length_ns)}"
        room = max(a.length_ns, b.length_ns) * scale.px_per_ns - 6
        shown = next((text for text in (lengths, words) if width_px(text, 10) <= room), "")
        canvas.text(x + 4, 10, shown, "ink2")
        longer_ns = max(a.length_ns, b.length_ns)
        for segment, top, bottom in zip((a, b), edges, edges[1:], strict=False):
            _draw_free(canvas, segment, longer_ns, scale, (top + HEAD_PX, bottom - BAND_GAP_PX))


def _draw_free(canvas: Canvas, segment: Segment, longer_ns: int, scale: Scale, edges: tuple[float, float]) -> None:
    """The room behind the shorter of two steps."""
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
    entries = [KEY_NAMES[one] for one in OpClass if one in present]
    entries += [("idle", "wait"), (f"new, gone, or changed by {units.percent(CHANGED_FRAC)} or more", "ink")]
    x = 0.0
    for text, token in entries:
        tone = tint("wait", 0.7, 0.7) if token == "wait" else token
        canvas.boxes([(round(x, 1), y + 3, 10, 8)], tone)
        canvas.text(round(x + 14, 1), y + 10.5, text, "ink2")
        x += 14 + width_px(text, 10) * 1.18 + 14
    return y + 18
