"""A graph as one SVG: what depends on what, step by step, and below it when it ran and when it could have run."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import pairwise
from typing import Any

import numpy as np

from perfmagic.base import units
from perfmagic.base.language import chained, counted, phrase, say, translate_term, translated
from perfmagic.base.tables import html_table, markdown_table, text_lines
from perfmagic.base.terminal import wrapped
from perfmagic.trace.columns import Float64
from perfmagic.trace.names import OpClass
from perfmagic.view.graph.doc import EXECUTED, PLANNED, GraphDoc, tone_of
from perfmagic.view.html import RED, closed, conclusion_html, conclusion_markdown, framed, image, paragraphs, short
from perfmagic.view.svg.canvas import NARROW_PX, Canvas, Part, in_row, number
from perfmagic.view.svg.layouts import Picture, alone, in_bytes
from perfmagic.view.svg.metrics import Scale, fitted, in_lines, ticks, width_px
from perfmagic.view.svg.palette import CLASS_TOKENS, Tone, tint

# Where the boxes of a graph stand: columns are steps, rows are lanes.

BOX_PX, WAYPOINT_PX, GAP_PX = 28, 9, 8
_SWEEPS = 12


@dataclass(frozen=True)
class Layout:
    """Boxes 0 to n - 1, then waypoints, which hold a line that passes their column.

    column, lane, top_px: of each item, the last from the top of its lane.  per_band: columns side by side; further ones
    begin again below.  lane_px: how high each lane of a band is, by (band, lane).  lines: of each pair (before, after)
    the items that its line passes, both boxes included.
    """

    column: list[int]
    lane: list[int]
    top_px: list[float]
    per_band: int
    lane_px: dict[tuple[int, int], float]
    lines: dict[tuple[int, int], list[int]]


def layout(
    needs: Sequence[Collection[int]],
    lane: Sequence[int],
    *,
    most_columns: int = 12,
    label_px: Mapping[int, int] | None = None,
) -> Layout:
    """A place for each box. needs: of each the boxes before it; they come first.  lane: a number for each box.

    most_columns: side by side.  label_px: the room for words above some boxes.
    """
    column, lanes = _columns(needs), list(lane)
    lines: dict[tuple[int, int], list[int]] = {}
    waypoint: dict[tuple[int, int], int] = {}  # of a box in a column: all lines that leave it share them
    for before, after in sorted((box, i) for i, boxes in enumerate(needs) for box in boxes):
        line = lines[before, after] = [before]
        for at in range(column[before] + 1, column[after]):
            line.append(waypoint.setdefault((before, at), len(column)))
            if line[-1] == len(column):
                column.append(at)
                lanes.append(lane[before])
        line.append(after)
    rows = _ordered(column, lanes, lines)
    per_band = -(-len(rows) // -(-len(rows) // most_columns))  # bands of equal length
    labels = label_px or {}
    height_px = [labels.get(i, 0) + GAP_PX + (BOX_PX if i < len(needs) else WAYPOINT_PX) for i in range(len(column))]
    stacks: dict[tuple[int, int], list[int]] = defaultdict(list)  # the items of a column in a lane
    lane_px: dict[tuple[int, int], float] = defaultdict(float)
    for item in (item for row in rows for item in row):
        stack = stacks[column[item], lanes[item]]
        stack.append(item)
        band = column[item] // per_band, lanes[item]
        lane_px[band] = max(lane_px[band], float(sum(height_px[i] for i in stack)))
    top = [0.0] * len(column)
    for (at, row), stack in stacks.items():
        y = (lane_px[at // per_band, row] - sum(height_px[i] for i in stack) + GAP_PX) / 2
        for item in stack:
            top[item] = y + labels.get(item, 0)
            y += height_px[item]
    return Layout(column, lanes, top, per_band, dict(lane_px), lines)


def _columns(needs: Sequence[Collection[int]]) -> list[int]:
    """One behind the last that it needs; what needs nothing stands just before the first that needs it."""
    column: list[int] = []
    first_use: dict[int, int] = {}
    for i, before in enumerate(needs):
        column.append(max((column[box] + 1 for box in before), default=0))
        for box in before:
            first_use[box] = min(first_use.get(box, column[i]), column[i])
    return [first_use.get(i, at + 1) - 1 if not needs[i] else at for i, at in enumerate(column)]


def _ordered(
    column: Sequence[int], lanes: Sequence[int], lines: Mapping[tuple[int, int], Sequence[int]]
) -> list[list[int]]:
    """The items of each column from the top, by lane, in each lane near what they are joined with."""
    near = defaultdict[tuple[int, int], list[int]](list)  # (item, -1 for before and 1 for behind)
    for a, b in (step for line in lines.values() for step in pairwise(line)):
        near[a, 1].append(b)
        near[b, -1].append(a)
    rows = [[i for i, at in enumerate(column) if at == number] for number in range(max(column, default=0) + 1)]
    place = [float(i) for i in range(len(column))]
    for sweep in range(_SWEEPS):
        side = -1 if sweep % 2 == 0 else 1
        for row in rows[::-side]:
            row.sort(key=lambda i: (lanes[i], _middle(near[i, side], place, place[i])))
            for at, item in enumerate(row):
                place[item] = at
    return rows


def _middle(near: Sequence[int], place: Sequence[float], own: float) -> float:
    return sum(place[i] for i in near) / len(near) if near else own


# Two schedules on one scale: as executed, and as the dependencies allow.

ROW_PX, TITLE_PX, AXIS_PX = 16, 18, 16
_LEAST_PX = 0.5
_NARROW_PX = 2.0  # bars of one colour below it that touch are drawn as one
_NAMED_PX = 24  # a bar this wide may have a name in it


def ink_on(colour: OpClass | None) -> str:
    """The colour of words on that."""
    return "ground" if colour is None else f"on_{CLASS_TOKENS[colour]}"


def draw_schedules(canvas: Canvas, doc: GraphDoc, y: float, x: int, width_px: int) -> float:
    """Draw both from y on, between x and x + width_px; where the last one ends."""
    graph = doc.graph
    scale = Scale(0, max(1, graph.elapsed_ns), width_px)
    for title, elapsed_ns in ((EXECUTED, graph.elapsed_ns), (PLANNED, graph.possible_ns)):
        words = say("{a}: {b}", a=phrase(title), b=units.duration(elapsed_ns))
        for line in in_lines(words, canvas.width_px - x, 10, bold=True):
            canvas.text(x, y + 12, line, bold=True)
            y += TITLE_PX
        for lane in range(len(graph.lanes)):
            _lane(canvas, doc, scale, (title, lane), x, y)
            y += ROW_PX
        y += 4
    for tick in ticks(scale.end_ns, width_px):
        at = round(x + scale.x_of(tick.offset_ns), 1)
        anchor = "end" if at > x + width_px - 30 else "middle" if tick.offset_ns else ""
        canvas.text(at, y + 9, tick.text, "ink3", anchor=anchor)
    return y + AXIS_PX


def _lane(canvas: Canvas, doc: GraphDoc, scale: Scale, of: tuple[str, int], x: int, y: float) -> None:
    """A bar for each time that a node of a lane runs; those too narrow to be distinguished are drawn as one.

    of: EXECUTED or PLANNED, and the lane.
    """
    graph, (how, lane) = doc.graph, of
    canvas.boxes([(x, y + 1, scale.width_px, ROW_PX - 2)], "grid")
    canvas.text(x - 6, y + 11.5, fitted(translate_term(graph.lanes[lane]), x - 8, 10), "ink2", anchor="end")
    nodes, start_ns, end_ns = doc.bars(how, lane).T
    left, end = scale.x(start_ns), scale.x(end_ns)
    right = np.maximum(end, left + _LEAST_PX)
    for token, bars in _bars(left, right, doc.tones[nodes]).items():
        canvas.boxes([(round(x + a, 1), y + 1, round(b - a, 1), ROW_PX - 2.0) for a, b in bars], token)
    for row in np.flatnonzero(right - left >= _NAMED_PX).tolist():
        node = int(nodes[row])
        words = fitted(graph.nodes[node].name, float(right[row] - left[row]) - 3, 10)
        if words:
            middle = round(x + float(left[row] + right[row]) / 2, 1)
            canvas.text(middle, y + 11.5, words, ink_on(graph.placed[node].colour), anchor="middle")


def _bars(left: Float64, right: Float64, tones: Any) -> dict[str, list[tuple[float, float]]]:
    """The edges of the bars of each colour, side by side. What ends before an earlier node's end is behind its bar."""
    shown = np.flatnonzero(right > np.maximum.accumulate(np.append(-9.0, right[:-1])))
    left, right, tones = left[shown], right[shown], tones[shown]
    before = np.append(-9.0, right[:-1])
    joined = (right - left < _NARROW_PX) & (left < before + _LEAST_PX) & (tones == np.append([""], tones[:-1]))
    first = np.flatnonzero(~joined)
    found: dict[str, list[tuple[float, float]]] = {}
    ends = right[np.append(first[1:], len(right)) - 1] if len(first) else right
    for tone, a, b in zip(tones[first], np.maximum(left, before)[first].tolist(), ends.tolist(), strict=True):
        found.setdefault(str(tone), []).append((a, b - (_LEAST_PX if b - a > 3 else 0)))
    return found


LEFT_PX, RIGHT_PX = 104, 10
NARROW_LEFT_PX = 76  # in a narrow picture
MOST_COLUMNS = 12  # side by side; further steps begin again below
WIDEST_PX, LEAST_PX, BESIDE_PX = 112, 73, 16  # of a column, and of the room between two boxes
LABEL_PX, LANE_GAP_PX, BAND_GAP_PX = 12, 4, 16


def graph_svg(doc: GraphDoc) -> str:
    """The picture, 1000 px wide, light and dark by the reader's system."""
    return alone(partial(_draw_graph, doc), alt_text(doc)).svg


def graph_picture(doc: GraphDoc) -> Picture:
    """The same laid out for several widths: fewer columns stand side by side in a narrower one."""
    return in_bytes(partial(_draw_graph, doc), alt_text(doc))


def _draw_graph(doc: GraphDoc, canvas: Canvas) -> float:
    return Painter(canvas, doc).draw()


def alt_text(doc: GraphDoc) -> str:
    """The picture in one sentence."""
    n = len(doc.drawn.units)
    operators, boxes = counted(n, "{n} operator", "{n} operators"), counted(n, "{n} box", "{n} boxes")
    return say(
        "Graph of dependencies, {boxes} in {lanes}: {names}. {sentence}",
        boxes=operators if doc.drawn.by == "operator" else boxes,
        lanes=counted(len(doc.graph.lanes), "{n} lane", "{n} lanes"),
        names=say(", ").join(map(translate_term, doc.graph.lanes)),
        sentence=doc.sentence,
    )


class Painter:
    """Draws one picture on a canvas."""

    def __init__(self, canvas: Canvas, doc: GraphDoc) -> None:
        self._doc, self.canvas = doc, canvas
        self._units = doc.drawn.units
        late = {row.number for row in doc.late}
        self._late = {i for i, unit in enumerate(self._units) if len(unit.nodes) == 1 and unit.nodes[0] in late}
        lanes = [unit.lane for unit in self._units]
        needs = [unit.needs for unit in self._units]
        self._left_px = LEFT_PX if canvas.width_px >= NARROW_PX else NARROW_LEFT_PX
        self._inner_px = canvas.width_px - self._left_px - RIGHT_PX
        most_columns = min(MOST_COLUMNS, self._inner_px // LEAST_PX)
        self.layout: Layout = layout(
            needs, lanes, most_columns=most_columns, label_px=dict.fromkeys(self._late, LABEL_PX)
        )
        self._per_band = self.layout.per_band
        self._column_px = min(WIDEST_PX, self._inner_px / self._per_band)
        self._lane_y: dict[tuple[int, int], float] = {}  # (band, lane)
        self._seen: set[str] = set()

    def draw(self) -> float:
        """The whole picture; returns its height."""
        y = 8.0
        for band in range(max(self.layout.column) // self._per_band + 1):
            y = self._band(band, y) + BAND_GAP_PX
        self._lines()
        self._links()
        for i in range(len(self._units)):
            self._box(i)
        y = self._key(y - BAND_GAP_PX + 4)
        return draw_schedules(self.canvas, self._doc, y + 6, self._left_px, self._inner_px) + 6

    def place(self, item: int) -> tuple[float, float]:
        """The left upper corner of a box or a waypoint, below the label if it has one."""
        band, column = divmod(self.layout.column[item], self._per_band)
        x = self._left_px + 4 + column * self._column_px
        return round(x, 1), round(self._lane_y[band, self.layout.lane[item]] + self.layout.top_px[item], 1)

    @property
    def box_px(self) -> float:
        return round(self._column_px - BESIDE_PX, 1)

    def _band(self, band: int, y: float) -> float:
        """The ground of each lane that has something in these columns."""
        here = {
            lane
            for lane, column in zip(self.layout.lane, self.layout.column, strict=True)
            if column // self._per_band == band
        }
        for lane in sorted(here):
            self._lane_y[band, lane] = y
            height = self.layout.lane_px[band, lane]
            self.canvas.boxes([(self._left_px - 2, round(y, 1), self._inner_px + 4, round(height, 1))], "grid")
            words = fitted(translate_term(self._doc.graph.lanes[lane]), self._left_px - 8, 10)
            self.canvas.text(self._left_px - 6, round(y + height / 2 + 3.5, 1), words, "ink2", anchor="end")
            y += height + LANE_GAP_PX
        return y - LANE_GAP_PX

    def _lines(self) -> None:
        bold = self._doc.drawn.chain
        drawn: set[tuple[int, int]] = set()
        thin, thick = "", ""
        for pair, items in sorted(self.layout.lines.items()):
            steps = list(pairwise(items))
            if pair in bold:
                thick += "".join(self._step(a, b) for a, b in steps)
            else:
                thin += "".join(self._step(a, b) for a, b in steps if (a, b) not in drawn)
                drawn |= set(steps)
        self.canvas.stroke(thin, "ink3", 1.0)
        self.canvas.stroke(thick, "ink", 2.0)

    def _step(self, a: int, b: int) -> str:
        """From one column to the next; over the end of a band, to its edge and on from the next one's."""
        (ax, ay), (bx, by) = self._right(a), self._left(b)
        if self.layout.column[a] // self._per_band == self.layout.column[b] // self._per_band:
            return _arc_path(ax, ay, bx, by) + self._through(b)
        right = self.canvas.width_px - RIGHT_PX
        return _arc_path(ax, ay, right, ay) + _arc_path(self._left_px - 2, by, bx, by) + self._through(b)

    def _through(self, item: int) -> str:
        """The straight piece of a line beside the boxes of a column."""
        if item < len(self._units):
            return ""
        (ax, y), (bx, _) = self._left(item), self._right(item)
        return f"M{number(ax)} {number(y)}H{number(bx)}"

    def _left(self, item: int) -> tuple[float, float]:
        x, y = self.place(item)
        return x, y + (BOX_PX if item < len(self._units) else WAYPOINT_PX) / 2

    def _right(self, item: int) -> tuple[float, float]:
        x, y = self._left(item)
        return round(x + self.box_px, 1), y

    def _box(self, i: int) -> None:
        unit, canvas = self._units[i], self.canvas
        x, y = self.place(i)
        token, wide = tone_of(unit.colour), self.box_px
        ground: str | Tone = token if unit.longest else tint(token, 0.24, 0.36)
        ink = ink_on(unit.colour) if unit.longest else "ink"
        canvas.boxes([(x, y, wide, BOX_PX)], ground)
        middle = round(x + wide / 2, 1)
        times = f" ×{units.count(len(unit.nodes))}" if len(unit.nodes) > 1 else ""
        name = fitted(unit.name, wide - 4 - width_px(times, 10), 10)
        canvas.text(middle, y + 12, name + times, ink, anchor="middle")
        canvas.text(middle, y + 24, units.duration(unit.duration_ns), ink, anchor="middle")
        if i in self._late:
            canvas.boxes([(x - 5, y, 3, BOX_PX)], "wait")
            canvas.text(x + 1, y - 3, self._earlier(i), "wait")
            self._seen.add("late")

    def _earlier(self, i: int) -> str:
        earlier_ns = self._doc.graph.nodes[self._units[i].nodes[0]].earlier_ns
        return say("{time} late", time=units.duration(earlier_ns))

    def _links(self) -> None:
        """Between neighbouring lanes of a column: what ran concurrently, and what could have."""
        columns: dict[int, dict[int, list[int]]] = {}
        for i, unit in enumerate(self._units):
            if not self._doc.drawn.matters(unit):
                continue
            columns.setdefault(self.layout.column[i], {}).setdefault(unit.lane, []).append(i)
        for by_lane in columns.values():
            lanes = sorted(by_lane)
            for upper, lower in pairwise(lanes):
                self._link(by_lane[upper], by_lane[lower])

    def _link(self, upper: list[int], lower: list[int]) -> None:
        top = self.layout.top_px
        upper, lower = sorted(upper, key=lambda i: -top[i]), sorted(lower, key=lambda i: top[i])
        state = self._doc.drawn.side_by_side
        states = {(a, b): state(self._units[a], self._units[b]) for a in upper for b in lower}
        for ran, tone, dash, what in ((True, "at_once", (), "at once"), (False, "wait", (2.0, 3.0), "apart")):
            pairs = [pair for pair, ran_at_once in states.items() if ran_at_once is ran]
            if pairs:
                (ax, ay), (_, by) = self.place(pairs[0][0]), self.place(pairs[0][1])
                x = ax + self.box_px - 7
                if pairs[0][1] in self._late and x < ax + 3 + width_px(self._earlier(pairs[0][1]), 10):
                    by -= LABEL_PX  # no line through words
                self.canvas.stroke(f"M{number(x)} {number(ay + BOX_PX)}V{number(by)}", tone, 2.0, dash=dash)
                self._seen.add(what)
                return

    def _key(self, y: float) -> float:
        """What the marks of this picture mean; of those that it has.  Returns the lower edge."""
        parts = [Part(say("lines: dependencies")), Part(say("bold: the critical path"), bold=True)]
        if "at once" in self._seen:
            parts.append(Part(say("green: ran concurrently"), "at_once"))
        if "apart" in self._seen:
            parts.append(Part(say("red dots: independent, but did not run concurrently"), "wait"))
        if "late" in self._seen:
            parts.append(Part(say("red bar: its inputs and its lane were ready that long before"), "wait"))
        if self._doc.drawn.by != "operator":
            parts.append(Part(say("a box: a {kind}", kind=phrase(self._doc.drawn.by)), "ink2"))
        left = float(self._left_px) if self.canvas.width_px >= NARROW_PX else 6.0
        x = left
        for part in parts:
            wide = width_px(part.text, 10, bold=part.bold)
            x, y = in_row(self.canvas, x, y, wide, left)
            self.canvas.text(round(x, 1), y + 10.5, part.text, part.token, bold=part.bold)
            x += wide + 12
        return y + 16


def _arc_path(ax: float, ay: float, bx: float, by: float) -> str:
    """A line that leaves and arrives level."""
    if ay == by:
        return f"M{number(ax)} {number(ay)}H{number(bx)}"
    middle = number(round((ax + bx) / 2, 1))
    ends = f"{middle} {number(ay)} {middle} {number(by)} {number(bx)} {number(by)}"
    return f"M{number(ax)} {number(ay)}C{ends}"


# A graph as plain text, HTML and Markdown: the answer first.


def graph_text(doc: GraphDoc, *, details: bool) -> str:
    """What decides, what to do; with details the lanes, both schedules, late operators, the critical path."""
    n_late, n_notes = len(doc.late), len(doc.notes)
    rest = [counted(len(doc.graph.lanes), "{n} lane", "{n} lanes"), phrase("critical path")]
    rest += [counted(n_late, "{n} late operator", "{n} late operators")] if n_late else []
    rest += [counted(n_notes, "{n} note", "{n} notes")] if n_notes else []
    more = "" if details else f".text(details=True): {say(', ').join(map(translated, rest))}"
    lines = [doc.conclusion.text(_about(doc), more)]
    if doc.failed:
        lines += wrapped(say("The code failed: {failed}", failed=doc.failed))
    if not details:
        return "\n".join(lines)
    lines += ["", *text_lines(doc.lanes), ""]
    graph = doc.graph
    lines += wrapped(_how_long(EXECUTED, graph.elapsed_ns), indent=2)
    lines += wrapped(_how_long(PLANNED, graph.possible_ns), indent=2)
    return "\n".join([*lines, *(line for sentence in doc.below() for line in wrapped(sentence, indent=2))])


def graph_html(doc: GraphDoc) -> str:
    """What decides, what to do, the picture; what could have begun earlier and the lanes open with a click."""
    body = conclusion_html(doc.conclusion, _about(doc))
    if doc.failed:
        body += f'<div style="margin:4px 0;color:{RED}"><b>{short(doc.failed)}</b></div>'
    body += image(graph_picture(doc), alt_text(doc))
    return framed(body + closed(say("lanes, critical path, notes"), paragraphs(doc.below()) + html_table(doc.lanes)))


def graph_markdown(doc: GraphDoc) -> str:
    """What decides, what to do, the lanes."""
    return "\n\n".join([conclusion_markdown(doc.conclusion, _about(doc)), markdown_table(doc.lanes)]) + "\n"


def _about(doc: GraphDoc) -> str:
    return translated(chained("{a} · {b}", (doc.device, doc.about)))


def _how_long(how: str, ns: int) -> str:
    return say("{a}: {b}", a=phrase(how), b=units.duration(ns))


def nothing_html(words: str) -> str:
    """Where no operator ran."""
    return framed(paragraphs([words]))
