"""Two schedules on one scale: as executed, and as the needs alone would allow."""

from __future__ import annotations

from collections.abc import Sequence

from perfmagic import units
from perfmagic.trace.names import OpClass
from perfmagic.view.graph.doc import EXECUTED, PLANNED, GraphDoc
from perfmagic.view.svg.canvas import Canvas
from perfmagic.view.svg.metrics import fitted
from perfmagic.view.svg.palette import CLASS_TOKENS
from perfmagic.view.svg.scale import Scale, ticks

ROW_PX, TITLE_PX, AXIS_PX = 16, 18, 16
_LEAST_PX = 0.5
_NARROW_PX = 2.0  # bars of one colour below it that touch are drawn as one
_NAMED_PX = 24  # a bar this wide may have a name in it


def tone_of(colour: OpClass | None) -> str:
    """The colour of what executed a node."""
    return "launch" if colour is None else CLASS_TOKENS[colour]


def ink_on(colour: OpClass | None) -> str:
    """The colour of words on that."""
    return "ground" if colour is None else f"on_{CLASS_TOKENS[colour]}"


def draw_schedules(canvas: Canvas, doc: GraphDoc, y: float, x: int, width_px: int) -> float:
    """Draw both from y on, between x and x + width_px; where the last one ends."""
    graph = doc.graph
    scale = Scale(0, max(1, graph.elapsed_ns), width_px)
    first_ns = graph.start_ns
    executed = [(node.start_ns - first_ns, node.end_ns - first_ns) for node in graph.nodes]
    planned = [(at, at + node.duration_ns) for at, node in zip(graph.planned_ns, graph.nodes, strict=True)]
    for title, times, took in ((EXECUTED, executed, graph.elapsed_ns), (PLANNED, planned, graph.possible_ns)):
        canvas.text(x, y + 12, f"{title}: {units.duration(took)}", bold=True)
        y += TITLE_PX
        for lane in range(len(graph.lanes)):
            _lane(canvas, doc, scale, lane, times, x, y)
            y += ROW_PX
        y += 4
    for tick in ticks(scale.end_ns, width_px):
        at = round(x + scale.x_of(tick.offset_ns), 1)
        anchor = "end" if at > x + width_px - 30 else "middle" if tick.offset_ns else ""
        canvas.text(at, y + 8, tick.text, "ink3", size=9, anchor=anchor)
    return y + AXIS_PX


def _lane(
    canvas: Canvas, doc: GraphDoc, scale: Scale, lane: int, times: Sequence[tuple[int, int]], x: int, y: float
) -> None:
    """A bar for each node of a lane; those too narrow to be told apart are drawn as one."""
    graph = doc.graph
    canvas.boxes([(x, y + 1, scale.width_px, ROW_PX - 2)], "grid")
    canvas.text(x - 8, y + 11.5, fitted(graph.lanes[lane], x - 12, 10), "ink2", anchor="end")
    bars: list[tuple[float, float, str]] = []  # left, right, colour
    named: list[tuple[float, str, str]] = []
    for start, end, node in sorted((*times[i], i) for i, on in enumerate(graph.lane) if on == lane):
        left = scale.x_of(start)
        right = max(scale.x_of(end), left + _LEAST_PX)
        colour = graph.placed[node].colour
        last = bars[-1] if bars else (-9.0, -9.0, "")
        if right - left < _NARROW_PX and left < last[1] + _LEAST_PX and last[2] == tone_of(colour):
            bars[-1] = (last[0], max(last[1], right), last[2])
        elif right > last[1]:
            bars.append((max(left, last[1]), right, tone_of(colour)))
        words = fitted(graph.nodes[node].name, right - left - 3, 10) if right - left >= _NAMED_PX else ""
        if words:
            named.append((round(x + (left + right) / 2, 1), words, ink_on(colour)))
    for token in dict.fromkeys(bar[2] for bar in bars):
        mine = [(left, right - (_LEAST_PX if right - left > 3 else 0)) for left, right, of in bars if of == token]
        canvas.boxes([(round(x + a, 1), y + 1, round(b - a, 1), ROW_PX - 2.0) for a, b in mine], token)
    for middle, words, ink in named:
        canvas.text(middle, y + 11.5, words, ink, anchor="middle")
