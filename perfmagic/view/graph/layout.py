"""Where the boxes of a graph stand: columns are steps, rows are lanes.

Sugiyama's method: a box stands one column behind the last that it needs; a line over several columns bends in a
waypoint in each of them; barycentres put what is joined beside each other. Source: K. Sugiyama, S. Tagawa, M. Toda 1981
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise

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
    for before, after in sorted((one, i) for i, mine in enumerate(needs) for one in mine):
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
    room = [labels.get(i, 0) + GAP_PX + (BOX_PX if i < len(needs) else WAYPOINT_PX) for i in range(len(column))]
    stacks: dict[tuple[int, int], list[int]] = defaultdict(list)  # the items of a column in a lane
    lane_px: dict[tuple[int, int], float] = defaultdict(float)
    for item in (item for row in rows for item in row):
        stack = stacks[column[item], lanes[item]]
        stack.append(item)
        band = column[item] // per_band, lanes[item]
        lane_px[band] = max(lane_px[band], float(sum(room[i] for i in stack)))
    top = [0.0] * len(column)
    for (at, one), stack in stacks.items():
        y = (lane_px[at // per_band, one] - sum(room[i] for i in stack) + GAP_PX) / 2
        for item in stack:
            top[item] = y + labels.get(item, 0)
            y += room[item]
    return Layout(column, lanes, top, per_band, dict(lane_px), lines)


def _columns(needs: Sequence[Collection[int]]) -> list[int]:
    """One behind the last that it needs; what needs nothing stands just before the first that needs it."""
    column: list[int] = []
    first_use: dict[int, int] = {}
    for i, mine in enumerate(needs):
        column.append(max((column[one] + 1 for one in mine), default=0))
        for one in mine:
            first_use[one] = min(first_use.get(one, column[i]), column[i])
    return [first_use.get(i, at + 1) - 1 if not needs[i] else at for i, at in enumerate(column)]


def _ordered(
    column: Sequence[int], lanes: Sequence[int], lines: Mapping[tuple[int, int], Sequence[int]]
) -> list[list[int]]:
    """The items of each column from the top, by lane, in each lane near what they are joined with."""
    near = defaultdict[tuple[int, int], list[int]](list)  # (item, -1 for before and 1 for behind)
    for a, b in (step for line in lines.values() for step in pairwise(line)):
        near[a, 1].append(b)
        near[b, -1].append(a)
    rows = [[i for i, at in enumerate(column) if at == one] for one in range(max(column, default=0) + 1)]
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
