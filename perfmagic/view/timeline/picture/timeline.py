"""A timeline as one static SVG: small enough to stay in the notebook when the kernel is gone."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise, product

import numpy as np

from perfmagic.analysis.findings.finding import Finding
from perfmagic.analysis.timeline.activity import MemoryCurve
from perfmagic.base import units
from perfmagic.base.language import counted, say, translate_term, translated
from perfmagic.base.numerics.intervals import Int64, union
from perfmagic.trace.columns import Float64
from perfmagic.trace.model import in_its_digits
from perfmagic.trace.names import OpClass
from perfmagic.view.svg.canvas import Canvas, Part, in_row, number, quantised, rects, step_path
from perfmagic.view.svg.layouts import MAX_BYTES as LAYOUTS_BYTES
from perfmagic.view.svg.layouts import MAX_PICTURE_BYTES as MAX_BYTES
from perfmagic.view.svg.layouts import Draw, Picture, alone, fit_layouts, smallest_fit
from perfmagic.view.svg.metrics import Scale, fitted, ticks, width_px
from perfmagic.view.svg.palette import LOST_SHARE, Tone, queued, tint
from perfmagic.view.timeline.doc import AT_ONCE, TITLE, TimelineDoc, alt_text, describe_cost, describe_trust
from perfmagic.view.timeline.lanes import CellLane, DeviceGroup, Flag, HostOpsLane, LaunchLane
from perfmagic.view.timeline.picture.frame import (
    DETAILS,
    GUTTER_PX,
    KEY_NAMES,
    Detail,
    Frame,
    column_widths,
    draw_shares,
    narrow_detail,
)
from perfmagic.view.timeline.picture.lanes import device_heading, draw_markers, draw_stream
from perfmagic.view.timeline.summary import describe_rest

# Python's lanes as SVG: cell lines, operators, launches and what blocked them.

CELL_PX, LEVEL_PX, LAUNCH_PX = 18, 11, 14
MAIN_LEVELS, OTHER_LEVELS, MAX_THREADS = 4, 2, 6
LEAST_BLOCKED_PX = 1.2  # narrower calls become a tick of 1 px, never hidden


def line_tones(cell: CellLane | None) -> dict[int, str]:
    """The grey of each cell line, neighbours differing; used wherever the line is met again."""
    if cell is None:
        return {}
    lines = list(dict.fromkeys(cell.line.tolist()))
    return {line: ("host2", "host1")[i % 2] for i, line in enumerate(lines)}


def draw_cell(frame: Frame, cell: CellLane, y: float) -> float:
    """The statements of the cell as they ran; returns the lower edge."""
    frame.label(y + CELL_PX / 2, "cell line")
    tones = line_tones(cell)
    x0, x1 = frame.scale.x(cell.start_ns), frame.scale.x(cell.end_ns)
    wide = x1 - x0 >= 1
    wide |= np.diff(np.floor(x0), prepend=-1.0) > 0  # of several within a pixel the first stands for them
    for tone in ("host1", "host2"):
        mine = wide & np.array([tones[int(n)] == tone for n in cell.line], bool)
        boxes = zip(x0[mine].round(1).tolist(), x1[mine].round(1).tolist(), strict=True)
        frame.canvas.boxes([(a, y, round(max(0.5, b - a - 0.7), 1), CELL_PX) for a, b in boxes], tone)
    for line, a, b in zip(cell.line.tolist(), x0.tolist(), x1.tolist(), strict=True):
        _write_line(frame, y, line, cell.texts.get(line, ""), a, b - a)
    return y + CELL_PX


def draw_threads(frame: Frame, lanes: tuple[HostOpsLane, ...], names: tuple[str, ...], y: float) -> float:
    """Operators of the threads in flame order; returns the lower edge."""
    for i, lane in enumerate(lanes[:MAX_THREADS]):
        levels = min(lane.depth, MAIN_LEVELS if i == 0 else OTHER_LEVELS)
        frame.label(y + LEVEL_PX / 2, lane.label)
        for level in range(levels):
            _draw_level(frame, lane, names, level, y + level * LEVEL_PX)
        y += levels * LEVEL_PX + 4
    if len(lanes) > MAX_THREADS:
        more = counted(len(lanes) - MAX_THREADS, "and {n} more thread", "and {n} more threads")
        frame.label(y + 5, translated(more), "ink2", size=10)
        y += 14
    return y


def draw_launches(frame: Frame, lane: LaunchLane, returned_x: float | None, y: float) -> float:
    """Launch calls by share of the column, blocked time hatched; returns the lower edge.

    returned_x: where the cell gave control back, None where that is not known or at the end.
    """
    frame.label(y + LAUNCH_PX / 2, "launches")
    n_launches = counted(lane.n_launches, "{n} launch", "{n} launches")
    frame.number(y + LAUNCH_PX / 2, translated(n_launches))
    share = frame.occupancy(union(lane.start_ns, lane.end_ns), frame.columns_ns())
    # a launch too short for its column still shows: one pixel
    frame.canvas.fill(frame.step_path(np.where(share > 0, np.maximum(share, 1 / LAUNCH_PX), 0), y, LAUNCH_PX), "launch")
    _draw_blocked(frame, lane, y)
    if returned_x is not None and frame.plot_px - returned_x > 100:
        _draw_returned(frame, returned_x, y)
    return y + LAUNCH_PX


def _write_line(frame: Frame, y: float, line: int, text: str, x: float, width: float) -> None:
    x, digits = round(x, 1), str(line)
    digits_px = width_px(digits, 11, bold=True)
    if width >= digits_px + 6:
        frame.canvas.text(round(x + 5 if width > digits_px + 12 else x + 3, 1), y + 13, digits, size=11, bold=True)
    code = fitted(text, width - digits_px - 16, 10, mono=True) if width > 60 else ""
    if code:
        frame.canvas.text(round(x + digits_px + 10, 1), y + 13, code, "hostink", mono=True)


def _draw_level(frame: Frame, lane: HostOpsLane, names: tuple[str, ...], level: int, y: float) -> None:
    rows = np.flatnonzero(lane.level == level)
    start, end = lane.start_ns[rows], lane.end_ns[rows]
    x0, x1 = frame.scale.x(start), frame.scale.x(end)
    wide = x1 - x0 >= max(2.5, frame.detail.slice_px)
    tone = ("host1", "host2", "host3")[min(2, level)]
    small = frame.occupancy(union(start[~wide], end[~wide]), frame.columns_ns())
    frame.canvas.fill(frame.step_path(small, y, LEVEL_PX - 1), tone)
    boxes = [(a, b, int(lane.name[rows[i]])) for i, a, b in _spans(np.flatnonzero(wide), x0, x1)]
    frame.canvas.boxes([(a, y, round(max(0.5, b - a - 0.7), 1), LEVEL_PX - 1) for a, b, _ in boxes], tone)
    for a, b, name in boxes:
        shown = fitted(names[name], b - a - 7, 10) if b - a > 30 and frame.detail.labels else ""
        if shown:
            frame.canvas.text(round(a + 3.5, 1), y + 8.5, shown, "hostink")


def _spans(
    rows: Int64, x0: np.typing.NDArray[np.float64], x1: np.typing.NDArray[np.float64]
) -> list[tuple[int, float, float]]:
    return [(int(i), round(float(x0[i]), 1), round(float(x1[i]), 1)) for i in rows]


def _draw_blocked(frame: Frame, lane: LaunchLane, y: float) -> None:
    x0, x1 = frame.scale.x(lane.blocked_start_ns), frame.scale.x(lane.blocked_end_ns)
    wide = x1 - x0 >= LEAST_BLOCKED_PX
    spans = _spans(np.flatnonzero(wide), x0, x1)
    for quiet, token, ink in ((True, "ink3", "ink2"), (False, "wait", "wait")):
        ticks = np.unique(np.round(x0[~wide & (lane.beside_work == quiet)])).clip(0, frame.plot_px - 1)
        frame.canvas.boxes([(float(x), y, 1, LAUNCH_PX) for x in ticks], token)
        mine = [span for span in spans if bool(lane.beside_work[span[0]]) is quiet]
        boxes = [(a, y, round(b - a, 1), LAUNCH_PX) for _, a, b in mine]
        frame.canvas.boxes(boxes, tint(token, LOST_SHARE, LOST_SHARE))
        frame.canvas.hatch_lost(rects(boxes), token)
        frame.canvas.boxes([(x, y, 1, LAUNCH_PX) for _, a, b in mine for x in (a, round(b - 1, 1))], token)
        for i, a, b in mine:
            if b - a > 70:
                blocked_ns = int(lane.blocked_end_ns[i] - lane.blocked_start_ns[i])
                _write_in_gap(frame, _describe_blocked(lane.words[i], blocked_ns, b - a - 24), a, b, y, ink)


def _describe_blocked(asked_by: str, blocked_ns: int, max_px: float) -> str:
    time = units.duration(blocked_ns)
    whole, short = say("Python blocked {time}", time=time), say("blocked {time}", time=time)
    for words in (say("{a}: {b}", a=whole, b=asked_by), whole, short):
        if width_px(words, 10) <= max_px:
            return words
    return fitted(short, max_px, 10)


def _write_in_gap(frame: Frame, words: str, x0: float, x1: float, y: float, token: str) -> None:
    if not words:
        return
    width, middle = width_px(words, 10) + 12, (x0 + x1) / 2
    frame.canvas.boxes([(round(middle - width / 2, 1), y, round(width, 1), LAUNCH_PX)], "ground")
    frame.canvas.text(round(middle, 1), y + 10.5, words, token, anchor="middle")


def _draw_returned(frame: Frame, x: float, y: float) -> None:
    middle = y + LAUNCH_PX / 2
    frame.canvas.stroke(
        f"M{number(round(x + 4, 1))} {number(middle)}H{number(frame.plot_px)}", "ink3", 1, dash=(1.0, 4.0)
    )
    _write_in_gap(frame, say("Python has returned"), x, frame.plot_px, y, "ink2")


# The memory of a device in a picture: a curve, scaled to its peak.

LANE_PX, HEAD_PX = 58, 10


def draw_memory(frame: Frame, lane: MemoryCurve, y: float) -> float:
    """The curve, scaled to its peak; returns the lower edge."""
    heights = highest(lane, frame.columns_ns()) / max(1, lane.peak_bytes) * (LANE_PX - HEAD_PX)
    frame.canvas.fill(step_path(frame.columns_px(), quantised(heights, 0.5), y + LANE_PX), "memory")
    frame.label(y + LANE_PX / 2, "memory")
    frame.number(y + LANE_PX / 2, say("peak {size}", size=units.size(lane.peak_bytes)))
    if lane.reserved_max_bytes:
        frame.number(y + LANE_PX - 6, say("{size} reserved", size=units.size(lane.reserved_max_bytes)), "ink2", size=10)
    return y + LANE_PX + 6


def highest(lane: MemoryCurve, edges_ns: Float64) -> Float64:
    """The most that was allocated in each column; shape (columns,).  edges_ns: columns + 1 instants, rising."""
    first = np.maximum(np.searchsorted(lane.at_ns, edges_ns[:-1], side="right") - 1, 0)
    last = np.maximum(np.searchsorted(lane.at_ns, edges_ns[1:], side="left") - 1, first)
    peaks = lane.allocated_bytes[first].astype(np.float64)
    for column in np.flatnonzero(last > first).tolist():
        peaks[column] = float(lane.allocated_bytes[first[column] : last[column] + 1].max())
    return peaks


AXIS_PX = 15
FLAG_PX = 28
OPEN_STREAMS = 2  # with few ops on so few streams every op gets a row of its own


@in_its_digits
def timeline_svg(doc: TimelineDoc) -> str:
    """The picture of a timeline, 1000 px wide, at most 40 kB, light and dark by the reader's system.

    With the first line, the findings and the trust line, for a picture that stands alone.
    """
    return smallest_fit(lambda detail: alone(_drawing(doc, detail, header=True), alt_text(doc)), DETAILS, MAX_BYTES).svg


@in_its_digits
def timeline_picture(doc: TimelineDoc, most_bytes: int = LAYOUTS_BYTES) -> Picture:
    """The same without what stands around it in HTML, laid out for several widths, in at most most_bytes."""
    return fit_layouts(
        lambda detail: _drawing(doc, detail, header=False), DETAILS, narrow_detail, alt_text(doc), most_bytes
    )


def _drawing(doc: TimelineDoc, detail: Detail, *, header: bool) -> Draw:
    return lambda canvas: _draw(canvas, doc, detail, header=header)


def _draw(canvas: Canvas, doc: TimelineDoc, detail: Detail, *, header: bool) -> float:
    """The whole picture, as wide as the canvas; returns its height."""
    if doc.header.predicted:
        canvas.show_predictions()
    y = draw_header(canvas, doc) if header else 4.0
    if len(doc.groups) == 1 and doc.groups[0].shares:
        y = draw_shares(canvas, doc.groups[0].shares, y)
    if doc.path:
        y = draw_shares(canvas, doc.path, y, title=TITLE)
    left_px, right_px = column_widths(canvas.width_px)
    frame = Frame(canvas, Scale(doc.start_ns, doc.end_ns, canvas.width_px - left_px - right_px), detail)
    canvas.shifted(left_px)
    y = _draw_body(frame, doc, y)
    canvas.back()
    return draw_key(canvas, doc, y + 4, header=header)


def _draw_body(frame: Frame, doc: TimelineDoc, y: float) -> float:
    if doc.flags:
        y += FLAG_PX
    axis_y, below = y, frame.canvas.mark()
    y = _draw_host(frame, doc, y + AXIS_PX)
    for group in doc.groups:
        y = _draw_group(frame, doc, group, y)
    lowest, above = y, frame.canvas.mark()
    draw_axis(frame, axis_y, lowest)
    frame.canvas.move_down(above, below)
    _draw_flags(frame, doc.flags, doc.start_ns, axis_y - FLAG_PX, lowest)
    return lowest


def _draw_host(frame: Frame, doc: TimelineDoc, y: float) -> float:
    top = y
    if doc.cell is not None and len(doc.cell):
        y = draw_cell(frame, doc.cell, y) + 4
    if doc.threads and not doc.groups:
        y = draw_threads(frame, doc.threads, doc.names, y)
    if doc.launches is not None:
        returned = None if doc.returned_ns is None else frame.scale.x_of(doc.returned_ns)
        y = draw_launches(frame, doc.launches, returned, y) + 3
    _bracket(frame, top, y - 3, "Python", "host1")
    return y + 6 if y > top else y


def _draw_group(frame: Frame, doc: TimelineDoc, group: DeviceGroup, y: float) -> float:
    several = len(doc.groups) > 1
    if several:
        text = fitted(device_heading(group, doc.header.busy_of), frame.plot_px, 11, bold=True)
        frame.canvas.text(0, y + 11, text, size=11, bold=True)
        y += 18
    top, tones = y, line_tones(doc.cell)
    open_rows = doc.few_ops and len(group.streams) <= OPEN_STREAMS and not several
    drawn = group.streams[: frame.detail.streams]
    for i, lane in enumerate(drawn):
        y = draw_stream(frame, lane, doc.names, y, first=i == 0, open_rows=open_rows, tones=tones)
    hidden = len(group.streams) - len(drawn) + group.n_folded
    if hidden:
        y = _draw_rest(frame, group, len(drawn), hidden, y)
    short = translate_term(group.short_label)
    name = f"{short} {group.device}" if several else short
    _bracket(frame, top, y - 8, name, "comp")
    y = draw_markers(frame, group.staves, y)
    if group.memory is not None:
        y = draw_memory(frame, group.memory, y + 6)
    return y + (8 if several else 2)


def _draw_rest(frame: Frame, group: DeviceGroup, n_drawn: int, hidden: int, y: float) -> float:
    """One line for the streams that are not drawn; their time is still in the staves."""
    n_ops = sum(len(lane) for lane in group.streams[n_drawn:]) + group.folded_ops
    ops = counted(n_ops, "{n} op", "{n} ops")
    words = counted(hidden, "and {n} more stream with {ops}", "and {n} more streams with {ops}", ops=ops)
    frame.canvas.text(0, y + 7, translated(words), "ink2")
    return y + 18


def draw_axis(frame: Frame, y: float, lowest: float) -> None:
    """Ticks above all lanes, and lines through them."""
    for tick in ticks(frame.scale.end_ns - frame.scale.start_ns, frame.plot_px):
        x = round(frame.scale.x_of(frame.scale.start_ns + tick.offset_ns), 1)
        frame.canvas.boxes([(x, y + 11, 0.75, lowest - y - 11)], "grid")
        half = width_px(tick.text, 10) / 2
        anchor = "" if x < half else "end" if x > frame.plot_px - half else "middle"
        frame.canvas.text(x, y + 9, tick.text, "ink2", anchor=anchor)


def _draw_flags(frame: Frame, flags: tuple[Flag, ...], start_ns: int, y: float, lowest: float) -> None:
    """Lines through all lanes, each with its words on the side that has room."""
    xs = [round(frame.scale.x_of(flag.at_ns), 1) for flag in flags]
    shown = [translate_term(flag.text) for flag in flags]
    widths = [(width_px(words, 11, bold=True) + 8) for words in shown]
    sides = word_sides(xs, widths, frame)
    for flag, words, x, side in zip(flags, shown, xs, sides, strict=True):
        top = y if side else y + FLAG_PX  # a line without words of its own keeps out of the other's
        frame.canvas.boxes([(x, top, 1, lowest - top)], "ink")
        if not side:
            continue
        at, anchor = (x - 6, "end") if side == "left" else (x + 7, "")
        frame.canvas.text(at, y + 9, words, size=11, anchor=anchor, bold=True)
        frame.canvas.text(at, y + 21, units.duration(flag.at_ns - start_ns), "ink2", anchor=anchor)


def word_sides(xs: Sequence[float], widths: Sequence[float], frame: Frame) -> tuple[str, ...]:
    """On which side of its line each flag's words stand, "" for a flag whose words find no place beside the others.

    xs: of the lines, rising, in px from the plot's left edge.  widths: of the words.
    """
    liked = [("left", "right") if x > frame.plot_px / 2 and x == xs[-1] else ("right", "left") for x in xs]
    for first in (0, len(xs) - 1):  # without room for all, the last flag says how it ended
        for sides in product(*liked[first:]):
            spans = [
                (x, x + width) if side == "right" else (x - width, x)
                for x, width, side in zip(xs[first:], widths[first:], sides, strict=True)
            ]
            apart = all(a[1] <= b[0] for a, b in pairwise(spans))
            if apart and spans and spans[0][0] >= -frame.left_px and spans[-1][1] <= frame.plot_px + frame.right_px:
                return ("",) * first + sides
    return ("",) * len(xs)


def _bracket(frame: Frame, top: float, bottom: float, name: str, token: str) -> None:
    """The only grouping: a bar at the far left, with its name where there is room."""
    if bottom <= top:
        return
    left = 1 - frame.left_px
    frame.canvas.boxes([(left, round(top, 1), 2, round(bottom - top, 1))], token)
    if bottom - top >= width_px(name, 10):
        middle = round((top + bottom) / 2, 1)
        frame.canvas.text(left + 12, middle, name, "ink2", anchor="middle", turned=True)


# The first line and the findings above the lanes, the key below them.

FINDING_PX = 21
HELD, BLOCKED, BESIDE_WORK = "queued, stream idle", "Python blocked", "Python blocked, device busy"
PART_PX = 18  # how far a part of a finding is set in


def draw_header(canvas: Canvas, doc: TimelineDoc) -> float:
    """The first line and the findings; returns the lower edge."""
    total, *rest = translated(doc.header.parts)
    shown = fitted("  ·  ".join(rest), canvas.width_px - width_px(total, 15, bold=True) - 12, 12)
    canvas.run(0, 18, Part(total, size=15, bold=True), Part(shown, "ink2", 12, gap_px=12))
    y = 28.0
    if doc.failure:
        canvas.text(
            0, y + 12, fitted(translated(doc.failure), canvas.width_px, 12, bold=True), "wait", size=12, bold=True
        )
        y += FINDING_PX
    for finding in doc.findings[:AT_ONCE]:
        canvas.boxes([(0, y, canvas.width_px, 1)], "rule")
        _draw_finding(canvas, y + 14.5, finding, describe_cost(finding, doc.header.busy_frac))
        y += FINDING_PX
    if len(doc.findings) > AT_ONCE:
        more = say("{n} more in .findings", n=units.count(len(doc.findings) - AT_ONCE))
        canvas.text(GUTTER_PX, y + 14.5, more, "ink2", size=12)
        y += FINDING_PX
    if doc.findings:
        canvas.boxes([(0, y, canvas.width_px, 1)], "rule")
    return y + 6


def draw_key(canvas: Canvas, doc: TimelineDoc, y: float, *, header: bool) -> float:
    """What the colours mean, and which device this was; returns the lower edge of the picture."""
    entries: list[tuple[str, str | Tone]] = [*_classes(doc)]
    if any(s.queue_max for g in doc.groups for s in g.streams):
        entries += [("queued", queued("comp", 1)), (HELD, queued("comp", 0))]
    for english, token, quiet in ((BLOCKED, "wait", False), (BESIDE_WORK, "ink3", True)):
        if doc.launches is not None and (doc.launches.beside_work == quiet).any():
            entries.append((english, tint(token, LOST_SHARE, LOST_SHARE)))
    if any(share.token == "idle" for group in doc.groups for share in group.shares):
        entries.append(("device idle", "idle"))
    x = 0.0
    for english, tone in entries:
        text = translate_term(english)
        x, y = in_row(canvas, x, y, 14 + width_px(text, 10))
        box = (round(x, 1), y + 3, 10.0, 8.0)
        canvas.boxes([box], tone)
        if english == HELD:
            canvas.hatch_waiting(rects([box]), "matrix")
        elif english in (BLOCKED, BESIDE_WORK):
            canvas.hatch_lost(rects([box]), "wait" if english == BLOCKED else "ink3")
        canvas.text(round(x + 14, 1), y + 10.5, text, "ink2")
        x += 14 + width_px(text, 10) + 14
    device = fitted(translated(doc.header.device_label), canvas.width_px, 10)
    x, y = in_row(canvas, x, y, width_px(device, 10))
    canvas.text(canvas.width_px, y + 10.5, device, "ink2", anchor="end")
    return y + 18 if not header else _draw_trust(canvas, doc, y + 20)


def _draw_trust(canvas: Canvas, doc: TimelineDoc, y: float) -> float:
    if not doc.trust:
        return y + 2
    _, more = describe_trust(doc)
    n_more = counted(
        len(more), " · {n} more note in .trust and in the report", " · {n} more notes in .trust and in the report"
    )
    ending = translated(n_more) if more else ""
    canvas.text(0, y + 9, fitted(translated(doc.trust[0]), canvas.width_px - width_px(ending, 10), 10) + ending, "ink2")
    return y + 16


def _draw_finding(canvas: Canvas, y: float, finding: Finding, cost: str) -> None:
    """One finding in a line; a part of another is set in."""
    bold, x, rest = (
        finding.cost_ns != 0 and not finding.depth,
        GUTTER_PX + PART_PX * finding.depth,
        describe_rest(finding),
    )
    token = "wait" if finding.is_wrong else "ink" if finding.cost_ns != 0 else "ink2"
    words = "wait" if finding.is_wrong else "ink"
    canvas.text(GUTTER_PX - 12, y, cost, token, size=12, anchor="end", bold=bold)
    cause = fitted(translate_term(finding.cause), canvas.width_px - x, 12, bold=True)
    gap_px = 3 if rest[:1] == " " else 0
    shown = fitted(rest.lstrip(), canvas.width_px - x - width_px(cause, 12, bold=True) - gap_px, 12)
    canvas.run(x, y, Part(cause, words, 12, bold=True), Part(shown, words, 12, gap_px=gap_px))


def _classes(doc: TimelineDoc) -> list[tuple[str, str | Tone]]:
    present = {int(c) for g in doc.groups for s in g.streams for c in set(s.op_class.tolist())}
    return [KEY_NAMES[c] for c in OpClass if c in present]
