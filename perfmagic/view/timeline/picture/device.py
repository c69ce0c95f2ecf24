"""The lanes of a device as SVG: per stream what is queued above what runs, then the staves."""

from __future__ import annotations

import numpy as np

from perfmagic import units
from perfmagic.numerics.intervals import Int64, union
from perfmagic.trace.columns import NO_LINE, Bool
from perfmagic.trace.names import OpClass
from perfmagic.view.svg.metrics import fitted, width_px
from perfmagic.view.svg.palette import CLASS_TOKENS, HIDDEN_SHARE, tint
from perfmagic.view.svg.path import quantised, skyline
from perfmagic.view.timeline.lanes import BEFORE_THE_RECORD, DeviceGroup, Stave, StavePart, StreamLane
from perfmagic.view.timeline.picture.frame import PLOT_PX, Frame, stacked
from perfmagic.view.timeline.picture.pile import draw_pile, layer_words, pile_height

BUSY_LANE_PX, CALM_LANE_PX, OPEN_LANE_PX = 20, 14, 24
BUSY_FRAC = 0.3
STRIP_PX, STAVE_PX, STAVE_PITCH_PX = 11, 10, 13
NAME_FROM_PX = 34.0
MEMSET_SHARE = 0.55
# from the lane's floor up
STACK = (
    OpClass.MATRIX,
    OpClass.COMPUTE,
    OpClass.MEMSET,
    OpClass.DTOD,
    OpClass.PTOP,
    OpClass.HTOD,
    OpClass.DTOH,
    OpClass.COMMUNICATION,
)


def draw_stream(
    frame: Frame,
    lane: StreamLane,
    names: tuple[str, ...],
    y: float,
    *,
    first: bool,
    open_rows: bool,
    tones: dict[int, str],
) -> float:
    """One stream with its pile; returns the lower edge.  first: the busiest.  tones: of cell lines, for its strip."""
    queue_px = pile_height(lane.queue_max, open_rows=open_rows)
    if queue_px:
        draw_pile(frame, lane, y, queue_px, in_cell=bool(tones))
        _label_queue(frame, lane, y, queue_px)
        y += queue_px
    height = OPEN_LANE_PX if open_rows else BUSY_LANE_PX if first or lane.busy_frac > BUSY_FRAC else CALM_LANE_PX
    draw_lane(frame, lane, names, y, height)
    frame.label(y + height / 2, lane.label)
    frame.number(y + height / 2, f"{units.percent(lane.busy_frac)} busy")
    y += height
    frame.rule(y)
    if first and len(tones) > 1:
        _draw_strip(frame, lane, y + 1, tones)
        y += STRIP_PX + 1
    return y + 8


def draw_lane(frame: Frame, lane: StreamLane, names: tuple[str, ...], y: float, height: float) -> None:
    """What a stream ran: ops one by one where they are wide enough, the rest as shares of pixel columns."""
    x0, x1 = frame.scale.x(lane.start_ns), frame.scale.x(lane.end_ns)
    wide = x1 - x0 >= frame.detail.slice_px
    _draw_shares(frame, lane, ~wide, y, height)
    rows = np.flatnonzero(wide)
    for token in dict.fromkeys(CLASS_TOKENS):
        mine = rows[np.isin(lane.op_class[rows], [i for i, t in enumerate(CLASS_TOKENS) if t == token])]
        boxes = [_slice_box(lane, int(i), float(x0[i]), float(x1[i]), y, height) for i in mine]
        frame.canvas.boxes(boxes, token)
    if frame.detail.labels:
        _write_names(frame, lane, names, rows[(x1 - x0)[rows] >= NAME_FROM_PX], y, height)


def draw_staves(frame: Frame, staves: tuple[Stave, ...], y: float) -> float:
    """Compute, communication, copy and idle over the whole device; returns the lower edge."""
    for stave in staves:
        frame.label(y + STAVE_PX / 2 + 1, stave.name)
        _draw_stave(frame, stave.parts, y)
        exposed = stave.exposed_ns
        text = units.duration(stave.active_ns) if exposed is None else f"exposed {units.duration(exposed)}"
        frame.number(y + STAVE_PX / 2 + 1, text)
        y += STAVE_PITCH_PX
    return y


def device_heading(group: DeviceGroup, busy_of: str) -> str:
    """The line above a device's lanes, where there are several devices.  busy_of: as in the document's header."""
    parts = (
        group.label,
        units.plural(group.n_ops, "device op"),
        f"busy {units.percent(group.busy_frac)} of {busy_of}",
        f"queue ≤ {units.count(group.queue_max)}",
    )
    return " · ".join(parts)


def _label_queue(frame: Frame, lane: StreamLane, y: float, height: float) -> None:
    deepest = f"≤ {units.count(lane.queue_max)}"
    middle = y + height / 2
    if height > 30:
        frame.label(middle - 6, "queued")
        frame.label(middle + 6, deepest, "ink2", size=10)
        frame.number(middle, f"mean {_mean_words(lane.queue_mean)} queued", "ink2", size=10)
    elif height > 12:
        frame.label(middle, f"{deepest} queued", "ink2", size=10)


def _mean_words(mean: float) -> str:
    return units.count(mean) if mean >= 9.95 else units.significant(mean, 2) if mean >= 0.095 else "<0.1"


def _draw_shares(frame: Frame, lane: StreamLane, small: Bool, y: float, height: float) -> None:
    """Narrow ops: classes stacked from the floor, painted from the highest sum down."""
    edges = frame.columns_ns()
    present = [c for c in STACK if (small & (lane.op_class == c)).any()]
    shares = []
    for op_class in present:
        mine = small & (lane.op_class == op_class)
        share = frame.occupancy(union(lane.start_ns[mine], lane.end_ns[mine]), edges)
        shares.append(share * (MEMSET_SHARE if op_class == OpClass.MEMSET else 1.0))
    tops = stacked(shares)
    for op_class, share, top in reversed(list(zip(present, shares, tops, strict=True))):
        heights = np.where(share > 0, quantised(top * height, frame.detail.grain_px), 0)
        frame.canvas.fill(skyline(frame.columns_px(), heights, y + height), CLASS_TOKENS[op_class])


def _slice_box(
    lane: StreamLane, row: int, x0: float, x1: float, y: float, height: float
) -> tuple[float, float, float, float]:
    """An op's rectangle, half a pixel short so that neighbours part; ops that overlap share the height."""
    part = height / int(lane.packing.split[row])
    top = y + int(lane.packing.sub_lane[row]) * part
    tall = part * MEMSET_SHARE if lane.op_class[row] == OpClass.MEMSET else part
    return round(x0, 1), round(top + part - tall, 1), round(max(0.5, x1 - x0 - 0.5), 1), round(tall, 1)


def _write_names(frame: Frame, lane: StreamLane, names: tuple[str, ...], rows: Int64, y: float, height: float) -> None:
    x0, x1 = frame.scale.x(lane.start_ns), frame.scale.x(lane.end_ns)
    for i in rows.tolist():
        left, top, width, tall = _slice_box(lane, i, float(x0[i]), float(x1[i]), y, height)
        text = fitted(names[int(lane.name[i])], float(width) - 8, 10)
        if text and tall >= 9:
            token = f"on_{CLASS_TOKENS[int(lane.op_class[i])]}"
            frame.canvas.text(round(left + 4, 1), round(top + tall / 2 + 3.5, 1), text, token)


def _draw_strip(frame: Frame, lane: StreamLane, y: float, tones: dict[int, str]) -> None:
    """Which cell line's ops run: the cell row once more, in device time."""
    for run in lane.pile.runs(lane.layer_keys):
        x0 = frame.scale.x_of(float(lane.start_ns[run.first]))
        x1 = frame.scale.x_of(float(lane.end_ns[run.first : run.last].max()))
        if x1 - x0 < 0.5:
            continue
        tone = tones.get(run.key, "host3")
        frame.canvas.boxes([(round(x0, 1), y, round(max(0.5, x1 - x0 - 0.7), 1), STRIP_PX)], tone)
        words = "before this cell" if run.key in (BEFORE_THE_RECORD, NO_LINE) else layer_words(run, True)
        text = next((t for t in (words, str(max(run.key, 0))) if width_px(t, 10) <= x1 - x0 - 6), "")
        if text and text != "0":
            frame.canvas.text(round(x0 + 4, 1), y + 9, text, "hostink")


def _draw_stave(frame: Frame, parts: tuple[StavePart, ...], y: float) -> None:
    """Pale: hidden under compute.  Full: exposed.  Parts stack from the floor, painted from the highest sum down."""
    edges = frame.columns_ns()
    shares, tones = [], []
    for part in parts:
        active = frame.occupancy(part.active, edges)
        bare = np.minimum(active, frame.occupancy(part.exposed, edges))
        shares += [bare, active - bare]
        token = "dtod" if part.name == "ptop" else part.name  # both go from device to device
        tones += [token, tint(token, HIDDEN_SHARE, HIDDEN_SHARE)]
    for share, top, tone in reversed(list(zip(shares, stacked(shares), tones, strict=True))):
        heights = np.where(share > 1e-9, quantised(top * STAVE_PX, frame.detail.small_grain_px), 0)
        frame.canvas.fill(skyline(frame.columns_px(), heights, y + STAVE_PX), tone)
    frame.canvas.boxes([(0, y + STAVE_PX, PLOT_PX, 0.5)], "rule")
