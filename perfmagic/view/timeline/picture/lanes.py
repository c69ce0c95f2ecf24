"""The lanes of a device as SVG: per stream what is queued above what runs, then the staves."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from perfmagic.base import units
from perfmagic.base.language import counted, phrase, say, translated
from perfmagic.base.numerics.intervals import Int64, union
from perfmagic.trace.columns import NO_LINE, Bool, Float64
from perfmagic.trace.names import OpClass
from perfmagic.view.svg.canvas import draw_pill, quantised, step_line, step_path, stretches, thin_line
from perfmagic.view.svg.metrics import fitted, width_px
from perfmagic.view.svg.palette import CLASS_TOKENS, HIDDEN_SHARE, queued, tint
from perfmagic.view.timeline.lanes import (
    BEFORE_THE_RECORD,
    Backlog,
    DeviceGroup,
    Run,
    Stave,
    StavePart,
    StreamLane,
    flow_stride,
)
from perfmagic.view.timeline.picture.frame import Frame, stacked

# The backlog of queued layers as SVG.

LEAST_PX, MOST_PX, PX_PER_DOUBLING = 7.0, 66.0, 6.2
OPEN_ROW_PX, OPEN_MOST_PX = 11.0, 132.0  # where every op can be seen alone
OWN_LAYER_ROW_PX = 1.5  # rows at least so thick are one op each, in its own class colour
MAX_OWN_LAYERS = 200
EXACT_EDGES = 240  # up to this many launches and starts are drawn at their exact places, not in columns
LABEL_THICKNESS_PX = 15.0
HELD_BUSY_FRAC = 0.05  # a column in which the stream runs less counts as waiting
LEAST_HELD_PX = 3.0
LEAST_FLOW_PX = 2.0
FLOW_TOLERANCE_PX = 0.4


def backlog_height(queue_max: int, *, open_rows: bool) -> float:
    """How high a backlog is: by the logarithm of its depth, or one row per op where all ops can be seen alone."""
    if not queue_max:
        return 0.0
    if open_rows:
        return max(LEAST_PX, min(OPEN_MOST_PX, OPEN_ROW_PX * queue_max))
    return float(round(max(LEAST_PX, min(MOST_PX, PX_PER_DOUBLING * math.log2(1 + queue_max)))))


@dataclass(frozen=True, eq=False)
class Drawn:
    """A backlog on its way to the picture: slots between edges, in time and in pixels.

    exact: slots end at launches and starts; else they are pixel columns.
    """

    lane: StreamLane
    backlog: Backlog
    edges_ns: Float64
    edges_px: Float64
    row_px: float
    floor_px: float
    exact: bool

    def heights(self, depth: Float64, grain_px: float) -> Float64:
        return quantised(depth * self.row_px, grain_px)


@dataclass(frozen=True, eq=False)
class Layer:
    """Neighbouring layers of one tint: how thick they are in each slot, and what lies below."""

    run: Run
    below: Float64
    thickness: Float64

    @property
    def top(self) -> Float64:
        return np.where(self.thickness > 0, self.below + self.thickness, 0.0)


def draw_backlog(frame: Frame, lane: StreamLane, y: float, height_px: float, *, in_cell: bool) -> None:
    """The queued ops of a stream, standing on y + height_px.  in_cell: layers have lines of a cell."""
    edges_ns = _edges(frame, lane)
    row_px, exact = height_px / max(1, lane.queue_max), len(edges_ns) <= EXACT_EDGES
    drawn = Drawn(lane, lane.backlog, edges_ns, frame.scale.x(edges_ns), row_px, y + height_px, exact)
    layers = _layers(drawn)
    _draw_layers(frame, drawn, layers)
    _draw_flow(frame, drawn, layers)
    _draw_surface(frame, drawn, drawn.backlog.depth(edges_ns))
    _draw_held(frame, drawn)
    if not _own_layers(drawn):
        _label_layers(frame, drawn, layers, in_cell)


def _edges(frame: Frame, lane: StreamLane) -> Float64:
    """Slots that end at every launch and start where those are few, else the pixel columns."""
    scale = frame.scale
    events = np.concatenate((lane.launch_ns, lane.start_ns)).clip(scale.start_ns, scale.end_ns)
    if len(events) > 40 * EXACT_EDGES:
        return frame.columns_ns()
    exact = np.unique(np.append(events, (scale.start_ns, scale.end_ns))).astype(np.float64)
    return exact if len(exact) <= EXACT_EDGES else frame.columns_ns()


def _own_layers(drawn: Drawn) -> bool:
    return drawn.row_px >= OWN_LAYER_ROW_PX and len(drawn.backlog) <= MAX_OWN_LAYERS


def _layers(drawn: Drawn) -> list[Layer]:
    """Bottom first; runs too thin to see are joined to the one above them."""
    keys = np.arange(len(drawn.backlog)) if _own_layers(drawn) else drawn.lane.layer_keys
    layers: list[Layer] = []
    below = np.zeros(len(drawn.edges_ns) - 1)
    first = 0
    runs = drawn.backlog.runs(keys)
    for run in runs:
        thickness = drawn.backlog.layer_depth(first, run.last, drawn.edges_ns)
        if float(thickness.max(initial=0.0)) * drawn.row_px < 0.3 and run is not runs[-1]:
            continue
        layers.append(Layer(Run(first, run.last, run.key), below, thickness))
        below, first = below + thickness, run.last
    return layers


def _draw_layers(frame: Frame, drawn: Drawn, layers: list[Layer]) -> None:
    """From the top down, each to the floor: the ones below paint over it, so only top edges are written."""
    own = _own_layers(drawn)
    for number, layer in reversed(list(enumerate(layers))):
        tone = queued(
            _layer_token(drawn, layer.run, own), number, orphan=layer.run.key == BEFORE_THE_RECORD and not own
        )
        frame.canvas.fill(
            step_path(drawn.edges_px, drawn.heights(layer.top, frame.detail.grain_px), drawn.floor_px), tone
        )


def _layer_token(drawn: Drawn, run: Run, own: bool) -> str:
    lane = drawn.lane
    if own:
        return CLASS_TOKENS[int(lane.op_class[run.first])]
    length = (lane.end_ns[run.first : run.last] - lane.start_ns[run.first : run.last] + 1).astype(np.float64)
    main = int(np.bincount(lane.op_class[run.first : run.last], weights=length).argmax())
    return "comp" if main == OpClass.MATRIX else CLASS_TOKENS[main]


def _ink(lane: StreamLane) -> str:
    main = lane.main_class
    return "matrix" if main in (OpClass.MATRIX, OpClass.COMPUTE) else CLASS_TOKENS[main]


def _draw_surface(frame: Frame, drawn: Drawn, depth: Float64) -> None:
    """Where Python lays the next op; dashed where it is not known when the top one was laid."""
    lane = drawn.lane
    known = Backlog(lane.launch_ns[~lane.orphan], lane.start_ns[~lane.orphan]).depth(drawn.edges_ns)
    heights = drawn.heights(depth, frame.detail.grain_px)
    unknown = (known <= 0) & (depth > 0)
    frame.canvas.stroke(step_line(drawn.edges_px, np.where(unknown, 0, heights), drawn.floor_px), _ink(lane), 0.9)
    dashed = np.where(unknown, heights, np.nan)
    frame.canvas.stroke(step_line(drawn.edges_px, dashed, drawn.floor_px, down=False), "ink2", 0.9, dash=(2.0, 2.0))


def _draw_flow(frame: Frame, drawn: Drawn, layers: list[Layer]) -> None:
    """The paths of every k-th op, and of the first op of each layer."""
    own = _own_layers(drawn)
    edges = [_bottom(layer) for layer in layers[1:]]
    frame.canvas.stroke("".join(_line(drawn, e) for e in edges), _ink(drawn.lane), 0.75, 0.45 if own else 0.9)
    if own or not frame.detail.flow_gap_px:
        return
    bounds = {layer.run.first for layer in layers[1:]}
    each = flow_stride(drawn.row_px, frame.detail.flow_gap_px)
    ranks = (rank for rank in range(0, len(drawn.backlog), each) if rank not in bounds and _is_long(drawn, rank))
    data = "".join(_line(drawn, drawn.backlog.level(rank, drawn.edges_ns)) for rank in ranks)
    frame.canvas.stroke(data, _ink(drawn.lane), 0.75, 0.42)


def _bottom(layer: Layer) -> Float64:
    return np.where(layer.thickness > 0, layer.below, np.nan)


def _is_long(drawn: Drawn, rank: int) -> bool:
    px_per_ns = (drawn.edges_px[-1] - drawn.edges_px[0]) / (drawn.edges_ns[-1] - drawn.edges_ns[0])
    return float(drawn.backlog.start_ns[rank] - drawn.backlog.launch_ns[rank]) * float(px_per_ns) >= LEAST_FLOW_PX


def _line(drawn: Drawn, level: Float64) -> str:
    """A path through the backlog: a staircase where slots are exact, else a thin line; along the floor nothing."""
    heights = np.where(level * drawn.row_px > 0.25, level * drawn.row_px, np.nan)
    if drawn.exact:
        return step_line(drawn.edges_px, heights, drawn.floor_px, down=False)
    middle = (drawn.edges_px[1:] + drawn.edges_px[:-1]) / 2
    parts = (slice(a, b) for a, b in stretches(~np.isnan(heights)) if b - a >= LEAST_FLOW_PX)
    return "".join(thin_line(middle[p], drawn.floor_px - heights[p], FLOW_TOLERANCE_PX) for p in parts)


def _draw_held(frame: Frame, drawn: Drawn) -> None:
    """Queued, and the stream runs nothing: another stream is waited for, or the launch is on its way."""
    lane, edges_ns = drawn.lane, drawn.edges_ns
    if drawn.exact:  # a slot ends at a launch or a start: where an op ends inside, the rest of it may be a gap
        ends_ns = lane.end_ns.clip(frame.scale.start_ns, frame.scale.end_ns)
        edges_ns = np.unique(np.concatenate((edges_ns, ends_ns)))
    edges_px, depth = frame.scale.x(edges_ns), drawn.backlog.depth(edges_ns)
    busy = frame.occupancy(union(lane.start_ns, lane.end_ns), edges_ns)
    held = _long_enough((depth > 0) & (busy < HELD_BUSY_FRAC), edges_px)
    heights = np.where(held, drawn.heights(depth, frame.detail.grain_px), 0)
    frame.canvas.hatch_waiting(step_path(edges_px, heights, drawn.floor_px), _ink(lane))


def _long_enough(mask: Bool, edges_px: Float64) -> Bool:
    result = mask.copy()
    for a, b in stretches(mask):
        if edges_px[b] - edges_px[a] < LEAST_HELD_PX:
            result[a:b] = False
    return result


def _label_layers(frame: Frame, drawn: Drawn, layers: list[Layer], in_cell: bool) -> None:
    """The line of each layer, in its longest stretch that is thick enough."""
    taken: list[tuple[float, float, float]] = []
    for layer in layers:
        text = describe_layer(layer.run, in_cell)
        thick = stretches(layer.thickness * drawn.row_px >= LABEL_THICKNESS_PX)
        if not text or not thick:
            continue
        a, b = max(thick, key=lambda s: drawn.edges_px[s[1]] - drawn.edges_px[s[0]])
        x0, x1 = float(drawn.edges_px[a]), float(drawn.edges_px[b])
        width = width_px(text, 10, bold=True) + 14
        slot = int(np.searchsorted(drawn.edges_px, (x0 + x1) / 2, side="right")) - 1
        y = drawn.floor_px - float(layer.below[slot] + layer.thickness[slot] / 2) * drawn.row_px
        box = ((x0 + x1 - width) / 2, (x0 + x1 + width) / 2, y)
        if x1 - x0 >= width and all(box[1] < t[0] or box[0] > t[1] or abs(y - t[2]) > 15 for t in taken):
            taken.append(box)
            draw_pill(frame.canvas, (x0 + x1) / 2, y, text)


def describe_layer(run: Run, in_cell: bool) -> str:
    """What a layer is called: the line that launched it, or where it came from."""
    if run.key == BEFORE_THE_RECORD:
        return say("{n} launched before the recording", n=units.count(len(run)))
    if not in_cell:
        return ""
    return say("before this cell") if run.key == NO_LINE else say("line {line}", line=run.key)


BUSY_LANE_PX, CALM_LANE_PX, OPEN_LANE_PX = 20, 14, 24
BUSY_FRAC = 0.3
STRIP_PX, STAVE_PX, STAVE_PITCH_PX = 11, 10, 13
NAME_FROM_PX = 34.0
MEMSET_SHARE = 0.55
# from the lane's floor up
STACK = (
    OpClass.MATRIX,
    OpClass.COMPUTE,
    OpClass.UNKNOWN,
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
    """One stream with its backlog; returns the lower edge.  first: the busiest.  tones: of the cell's lines."""
    queue_px = backlog_height(lane.queue_max, open_rows=open_rows)
    if queue_px:
        draw_backlog(frame, lane, y, queue_px, in_cell=bool(tones))
        _label_queue(frame, lane, y, queue_px)
        y += queue_px
    height = OPEN_LANE_PX if open_rows else BUSY_LANE_PX if first or lane.busy_frac > BUSY_FRAC else CALM_LANE_PX
    draw_lane(frame, lane, names, y, height)
    frame.label(y + height / 2, lane.label)
    frame.number(y + height / 2, say("{share} busy", share=units.percent(lane.busy_frac)))
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


def draw_markers(frame: Frame, staves: tuple[Stave, ...], y: float) -> float:
    """Compute, communication, copy and idle over the whole device; returns the lower edge."""
    for stave in staves:
        frame.label(y + STAVE_PX / 2 + 1, stave.name)
        _draw_stave(frame, stave.parts, y)
        exposed = stave.exposed_ns
        text = (
            units.duration(stave.active_ns) if exposed is None else say("exposed {time}", time=units.duration(exposed))
        )
        frame.number(y + STAVE_PX / 2 + 1, text)
        y += STAVE_PITCH_PX
    return y


def device_heading(group: DeviceGroup, busy_of: str) -> str:
    """The line above a device's lanes, where there are several devices.  busy_of: as in the document's header."""
    parts = (
        group.label,
        counted(group.n_ops, "{n} device op", "{n} device ops"),
        phrase("busy {share} of {what}", share=units.percent(group.busy_frac), what=busy_of),
        phrase("queue ≤ {n}", n=units.count(group.queue_max)),
    )
    return " · ".join(translated(parts))


def _label_queue(frame: Frame, lane: StreamLane, y: float, height: float) -> None:
    deepest = f"≤ {units.count(lane.queue_max)}"
    middle = y + height / 2
    if height > 30:
        frame.label(middle - 6, "queued")
        frame.label(middle + 6, deepest, "ink2", size=10)
        frame.number(middle, say("mean {n} queued", n=_describe_mean(lane.queue_mean)), "ink2", size=10)
    elif height > 12:
        frame.label(middle, say("{n} queued", n=deepest), "ink2", size=10)


def _describe_mean(mean: float) -> str:
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
        frame.canvas.fill(step_path(frame.columns_px(), heights, y + height), CLASS_TOKENS[op_class])


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
    for run in lane.backlog.runs(lane.layer_keys):
        x0 = frame.scale.x_of(float(lane.start_ns[run.first]))
        x1 = frame.scale.x_of(float(lane.end_ns[run.first : run.last].max()))
        if x1 - x0 < 0.5:
            continue
        tone = tones.get(run.key, "host3")
        frame.canvas.boxes([(round(x0, 1), y, round(max(0.5, x1 - x0 - 0.7), 1), STRIP_PX)], tone)
        words = say("before this cell") if run.key in (BEFORE_THE_RECORD, NO_LINE) else describe_layer(run, True)
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
        frame.canvas.fill(step_path(frame.columns_px(), heights, y + STAVE_PX), tone)
    frame.canvas.boxes([(0, y + STAVE_PX, frame.plot_px, 0.5)], "rule")
