"""A graph as one SVG: what needs what, step by step, and below it when it ran and when it could have run."""

from __future__ import annotations

from itertools import pairwise

from perfmagic import units
from perfmagic.view.graph.doc import GraphDoc
from perfmagic.view.graph.layout import BOX_PX, WAYPOINT_PX, Layout, layout
from perfmagic.view.graph.schedules import draw_schedules, ink_on, tone_of
from perfmagic.view.svg.canvas import WIDTH_PX, Canvas, Part
from perfmagic.view.svg.metrics import fitted, width_px
from perfmagic.view.svg.palette import Tone, tint
from perfmagic.view.svg.path import number

LEFT_PX, RIGHT_PX = 104, 10
MOST_COLUMNS = 12  # side by side; further steps begin again below
WIDEST_PX, BESIDE_PX = 112, 16  # of a column, and of the room between two boxes
LABEL_PX, LANE_GAP_PX, BAND_GAP_PX = 12, 4, 16


def graph_svg(doc: GraphDoc) -> str:
    """The picture, 1000 px wide, light and dark by the reader's system."""
    return _Painter(doc).picture()


def alt_text(doc: GraphDoc) -> str:
    """The picture in one sentence."""
    n = len(doc.drawn.units)
    boxes = units.plural(n, "operator") if doc.drawn.by == "operator" else units.plural(n, "box", "boxes")
    lanes = f"{units.plural(len(doc.graph.lanes), 'lane')}: {', '.join(doc.graph.lanes)}"
    return f"Graph of needs, {boxes} in {lanes}. {doc.sentence}"


class _Painter:
    """Draws one picture."""

    def __init__(self, doc: GraphDoc) -> None:
        self._doc, self.canvas = doc, Canvas()
        self._units = doc.drawn.units
        late = {row.number for row in doc.late}
        self._late = {i for i, unit in enumerate(self._units) if len(unit.nodes) == 1 and unit.nodes[0] in late}
        lanes = [unit.lane for unit in self._units]
        needs = [unit.needs for unit in self._units]
        self.layout: Layout = layout(
            needs, lanes, most_columns=MOST_COLUMNS, label_px=dict.fromkeys(self._late, LABEL_PX)
        )
        self._per_band = self.layout.per_band
        room = WIDTH_PX - LEFT_PX - RIGHT_PX
        self._column_px = min(WIDEST_PX, room / self._per_band)
        self._lane_y: dict[tuple[int, int], float] = {}  # (band, lane)
        self._seen: set[str] = set()

    def picture(self) -> str:
        y = 22.0
        for band in range(max(self.layout.column) // self._per_band + 1):
            y = self._band(band, y) + BAND_GAP_PX
        self._lines()
        self._links()
        for i in range(len(self._units)):
            self._box(i)
        self._key()
        y = draw_schedules(self.canvas, self._doc, y, LEFT_PX, WIDTH_PX - LEFT_PX - RIGHT_PX)
        return self.canvas.svg(y + 6, alt_text(self._doc))

    def place(self, item: int) -> tuple[float, float]:
        """The left upper corner of a box or a waypoint, below the label if it has one."""
        band, column = divmod(self.layout.column[item], self._per_band)
        x = LEFT_PX + 4 + column * self._column_px
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
            self.canvas.boxes([(LEFT_PX - 2, round(y, 1), WIDTH_PX - LEFT_PX - RIGHT_PX + 4, round(height, 1))], "grid")
            words = fitted(self._doc.graph.lanes[lane], LEFT_PX - 12, 10)
            self.canvas.text(LEFT_PX - 8, round(y + height / 2 + 3.5, 1), words, "ink2", anchor="end")
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
            return _bow(ax, ay, bx, by) + self._through(b)
        return _bow(ax, ay, WIDTH_PX - RIGHT_PX, ay) + _bow(LEFT_PX - 2, by, bx, by) + self._through(b)

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
        canvas.text(middle, y + 23.5, units.duration(unit.duration_ns), ink, anchor="middle", size=9)
        if i in self._late:
            canvas.boxes([(x - 5, y, 3, BOX_PX)], "wait")
            canvas.text(x + 1, y - 3, self._earlier(i), "wait", size=9)
            self._seen.add("late")

    def _earlier(self, i: int) -> str:
        return f"{units.duration(self._doc.graph.nodes[self._units[i].nodes[0]].earlier_ns)} earlier"

    def _links(self) -> None:
        """Between neighbouring lanes of a column: what ran at once, and what could have."""
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
        found = {(a, b): state(self._units[a], self._units[b]) for a in upper for b in lower}
        for ran, tone, dash, what in ((True, "at_once", (), "at once"), (False, "wait", (2.0, 3.0), "apart")):
            mine = [pair for pair, known in found.items() if known is ran]
            if mine:
                (ax, ay), (_, by) = self.place(mine[0][0]), self.place(mine[0][1])
                x = ax + self.box_px - 7
                if mine[0][1] in self._late and x < ax + 3 + width_px(self._earlier(mine[0][1]), 9):
                    by -= LABEL_PX  # no line through words
                self.canvas.stroke(f"M{number(x)} {number(ay + BOX_PX)}V{number(by)}", tone, 2.0, dash=dash)
                self._seen.add(what)
                return

    def _key(self) -> None:
        """What the marks of this picture mean; of those that it has."""
        parts = [Part("each box needs what its lines come from; "), Part("bold: the longest chain", bold=True)]
        if "at once" in self._seen:
            parts += [Part("green: ran at once", "at_once", gap_px=12)]
        if "apart" in self._seen:
            parts += [Part("red dots: could run side by side, and did not", "wait", gap_px=12)]
        if "late" in self._seen:
            parts += [Part("red bar: could have begun so much earlier", "wait", gap_px=12)]
        if self._doc.drawn.by != "operator":
            parts += [Part(f"a box: a {self._doc.drawn.by}", "ink2", gap_px=12)]
        self.canvas.run(LEFT_PX, 12, *parts)


def _bow(ax: float, ay: float, bx: float, by: float) -> str:
    """A line that leaves and arrives level."""
    if ay == by:
        return f"M{number(ax)} {number(ay)}H{number(bx)}"
    middle = number(round((ax + bx) / 2, 1))
    ends = f"{middle} {number(ay)} {middle} {number(by)} {number(bx)} {number(by)}"
    return f"M{number(ax)} {number(ay)}C{ends}"
