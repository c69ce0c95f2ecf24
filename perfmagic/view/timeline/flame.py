"""A flame graph as SVG: callers above what they called, as wide as they took long; and as HTML."""

from __future__ import annotations

import heapq
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import partial

from perfmagic.analysis.timeline.flame.call_paths import ANNOTATION, LINE, OPERATOR, OTHER, OWN, THREAD, CallPath, Flame
from perfmagic.base import units
from perfmagic.base.language import chained, counted, say, translate_term, translated
from perfmagic.base.terminal import columns, cut_to_columns, printable, width, wrapped
from perfmagic.view.html import framed, image
from perfmagic.view.svg.canvas import WIDTH_PX, Canvas, in_row
from perfmagic.view.svg.layouts import FEWER_WIDTHS_PX, MAX_BYTES, WIDTHS_PX, Picture, alone, first_fit, laid_out
from perfmagic.view.svg.metrics import fitted, in_lines, width_px

# The greys of a flame graph, and what each stands for: the same in the picture and in the live view.

TONES = {THREAD: "rule", OWN: "host1", LINE: "host1", OTHER: "host3", OPERATOR: "host2", ANNOTATION: "host2"}
KEY = (
    (OWN, "your code and libraries"),
    (LINE, "lines"),
    (OTHER, "torch, Python and what is built in"),
    (OPERATOR, "operators"),
    (ANNOTATION, "annotations"),
)


ROW_PX, GAP_PX = 15, 1
LABELLED_PX = 30  # a narrower box has no name
LEAST_PX = 0.5
MOST_LEVELS = 64  # code that calls itself can be a thousand deep
MERGED_TONE = "launch"
_PLACE = re.compile(r"^(?P<function>.+) \((?:.*[\\/])?(?P<place>[^()]*:\d+)\)")


@dataclass(frozen=True)
class _Box:
    """A path on the picture, or several that are too narrow for a box each; px.

    path: None for several.  n_paths, total_ns: of these.
    """

    x: float
    width: float
    level: int
    path: CallPath | None
    n_paths: int
    total_ns: int


@dataclass(frozen=True)
class _Detail:
    """least_px: the width of the narrowest box.  titles: whether boxes have tooltips, which an image does not show."""

    least_px: float
    titles: bool


def flame_svg(flame: Flame) -> str:
    """The picture, 1000 px wide, light and dark, with the whole name and the times of each box as its tooltip."""
    return alone(partial(_draw_flame, flame, _Detail(LEAST_PX, titles=True)), translated(flame.sentence)).svg


def flame_html(flame: Flame) -> str:
    """The picture as an image; survives sanitisers. Where it would be too large, more boxes are merged."""
    return framed(image(first_fit(_smaller_and_smaller(flame), MAX_BYTES), translated(flame.sentence)))


def _smaller_and_smaller(flame: Flame) -> Iterator[Picture]:
    """Wider boxes in narrow layouts first, then fewer of these, then wider boxes: most readers see the widest one."""
    sentence = translated(flame.sentence)

    def draw(canvas: Canvas, least_px: float, narrow_px: float) -> float:
        least_px = least_px if canvas.width_px == WIDTH_PX else narrow_px
        return _draw_flame(flame, _Detail(least_px, titles=False), canvas)

    for widths_px, least_px, narrow_px in (
        (WIDTHS_PX, LEAST_PX, LEAST_PX),
        *((widths_px, LEAST_PX, 2.0) for widths_px in (WIDTHS_PX, *FEWER_WIDTHS_PX)),
        *((FEWER_WIDTHS_PX[-1], least_px, 2 * least_px) for least_px in (1.0, 2.0)),
    ):
        yield laid_out(partial(draw, least_px=least_px, narrow_px=narrow_px), sentence, widths_px)
    for least_px in (1.0, 2.0, 4.0, 8.0, 16.0):
        yield alone(partial(draw, least_px=least_px, narrow_px=least_px), sentence)


def _draw_flame(flame: Flame, detail: _Detail, canvas: Canvas) -> float:
    """The picture as wide as the canvas; returns its height."""
    y = 0.0
    for words in in_lines(translated(flame.sentence), canvas.width_px - 4, 12, bold=True):
        y += 16
        canvas.text(2, y - 3, words, size=12, bold=True)
    if flame.device:
        y += 15
        canvas.text(2, y - 3, fitted(translated(flame.device), canvas.width_px - 4, 10), "ink2")
    top = y + 6
    boxes = list(_boxes(flame, canvas.width_px, detail.least_px))
    for box in boxes:
        _draw_box(canvas, flame, box, top + box.level * ROW_PX, titled=detail.titles)
    bottom = top + (max(box.level for box in boxes) + 1) * ROW_PX
    return _draw_key(canvas, flame, boxes, detail.least_px, bottom + 16) + 8


def _boxes(flame: Flame, width_px: int, least_px: float) -> Iterator[_Box]:
    """The boxes, callers first: children from the left edge of their caller, those too narrow as one behind them."""
    inside: dict[int, list[int]] = {}
    for row, path in enumerate(flame.paths):
        inside.setdefault(path.parent, []).append(row)
    px_per_ns = width_px / max(1, flame.total_ns)
    places = [(-1, 0.0, 0)]  # a caller, its left edge, and the level below it
    while places:
        caller, x, level = places.pop()
        narrow = []
        for row in inside.get(caller, ()):
            path = flame.paths[row]
            width = path.total_ns * px_per_ns
            if width < least_px:
                narrow.append(path)
                continue
            yield _Box(x, width, level, path, 1, path.total_ns)
            if level + 1 < MOST_LEVELS:
                places.append((row, x, level + 1))
            x += width
        total_ns = sum(path.total_ns for path in narrow)
        if narrow:
            yield _Box(x, total_ns * px_per_ns, level, None, len(narrow), total_ns)


def _draw_box(canvas: Canvas, flame: Flame, box: _Box, y: float, *, titled: bool) -> None:
    if box.path is None and box.width < LEAST_PX:
        return  # counted below the picture
    if titled:
        canvas.titled(_tooltip(flame, box))
    width = round(max(LEAST_PX / 2, box.width - (0.7 if box.width > 2 else 0.2)), 1)
    tone = TONES[box.path.kind] if box.path else MERGED_TONE
    canvas.boxes([(round(box.x, 1), y, width, ROW_PX - GAP_PX)], tone)
    words = _label(box, width - 6) if width >= LABELLED_PX else ""
    if words:
        is_thread = box.path is not None and box.path.kind == THREAD
        token = "hostink" if box.path else "ground"
        canvas.text(round(box.x + 3, 1), y + 10.5, words, token, bold=is_thread)
    if titled:
        canvas.back()


def _label(box: _Box, max_px: float) -> str:
    """As much as fits of the function, the end of its place, and its time."""
    if box.path is None:
        return fitted(say("{n} more", n=units.count(box.n_paths)), max_px, 10)
    name, time = translated(box.path.name), units.duration(box.total_ns)
    if place := _PLACE.match(name):
        name = f"{place['function']} ({place['place']}){name[place.end() :]}"
    bold = box.path.kind == THREAD
    shortest = place["function"] if place else name
    if place and box.path.kind == LINE:
        shortest += f":{place['place'].rpartition(':')[2]}"
    for words in (f"{name} · {time}", name, shortest):
        if width_px(words, 10, bold=bold) <= max_px:
            return words
    return fitted(shortest, max_px, 10, bold=bold)


def _tooltip(flame: Flame, box: _Box) -> str:
    share = units.percent(box.total_ns / max(1, flame.total_ns))
    if box.path is None:
        paths = say("{n} paths, each narrower than a box", n=units.count(box.n_paths))
        return f"{paths}\n{units.duration(box.total_ns)}, {share}"
    path = box.path
    alone = say("{time} outside of all that is recorded", time=units.duration(path.self_ns))
    if path.kind != THREAD:
        own = units.duration(path.self_ns)
        alone = translated(counted(path.n_calls, "{own} itself · {n} call", "{own} itself · {n} calls", own=own))
    return f"{translated(path.name)}\n{units.duration(path.total_ns)}, {share} · {alone}"


def _draw_key(canvas: Canvas, flame: Flame, boxes: Sequence[_Box], least_px: float, y: float) -> float:
    """What the greys are, and what is not drawn; returns the baseline of the last line."""
    drawn = {box.path.kind for box in boxes if box.path}
    entries = [(TONES[kind], translate_term(words)) for kind, words in KEY if kind in drawn]
    if any(box.path is None and box.width >= LEAST_PX for box in boxes):
        entries.append((MERGED_TONE, say("several too narrow to draw")))
    x = 2.0
    for tone, words in entries:
        width = width_px(words, 10) + 16
        x, y = in_row(canvas, x, y, width, 2.0)
        canvas.boxes([(x, y - 8, 10, 9)], tone)
        canvas.text(x + 14, y, words, "ink2")
        x = round(x + width + 14, 1)
    shown = sum(1 for box in boxes if box.path)
    if shown < len(flame.paths):
        limit = units.duration(least_px * flame.total_ns / canvas.width_px)
        words = say(
            "{n} of {total} paths are drawn: those of {limit} or more",
            n=units.count(shown),
            total=units.count(len(flame.paths)),
            limit=limit,
        )
        y += 15
        canvas.text(2, y, fitted(words, canvas.width_px - 4, 10), "ink2")
    return y


# A flame graph as plain text: the longest paths as a tree.

PASSED_FRAC = 0.9  # of a caller's time: what it called takes its line
LEAST_FRAC = 0.01  # of all; less is no line

Place = tuple[tuple[int, int], ...]


def flame_text(flame: Flame, most_lines: int) -> str:
    """The sentence, then the longest paths, callers above what they called; as wide as the terminal.

    A caller that spends nearly all of its time in one call shares its line: "step (train.py:12) … aten::copy_".
    """
    head = [*wrapped(translated(chained("{a}. {b}", (flame.sentence, flame.device)))), _head()]
    inside: dict[int, list[int]] = {}
    for row, path in enumerate(flame.paths):
        inside.setdefault(path.parent, []).append(row)
    # of each path its place in the tree, the longest first: those of its callers, then its own
    longest: list[tuple[int, int, Place]] = [(0, row, ()) for row in inside[-1]]
    lines: list[tuple[Place, str]] = []
    while longest and len(lines) < most_lines - len(head):
        _, first, around = heapq.heappop(longest)
        last = _passed(flame, inside, first)
        place = (*around, (-flame.paths[first].total_ns, first))
        lines.append((place, _line(flame, first, last, len(around))))
        for row in inside.get(last, ()):
            if flame.paths[row].total_ns >= LEAST_FRAC * flame.total_ns:
                heapq.heappush(longest, (-flame.paths[row].total_ns, row, place))
    return "\n".join([*head, *(line for _, line in sorted(lines))])


def _head() -> str:
    total, itself = say("total"), say("itself")
    return f"{' ' * (9 - columns(total))}{total}{'':8}{' ' * (9 - columns(itself))}{itself}"


def _passed(flame: Flame, inside: dict[int, list[int]], row: int) -> int:
    """The last path of a chain of calls in which each takes nearly all the time of the one around it."""
    while flame.paths[row].kind != THREAD and row in inside:
        longest = max(inside[row], key=lambda inner: flame.paths[inner].total_ns)
        if flame.paths[longest].total_ns < PASSED_FRAC * flame.paths[row].total_ns:
            break
        row = longest
    return row


def _line(flame: Flame, first: int, last: int, depth: int) -> str:
    top, end = flame.paths[first], flame.paths[last]
    share = units.percent(top.total_ns / max(1, flame.total_ns))
    itself = units.duration(end.self_ns)
    words = printable(_describe_chain(flame, first, last))
    return cut_to_columns(f"{units.duration(top.total_ns):>9} {share:>6} {itself:>9}  {'  ' * depth}{words}", width())


def _describe_chain(flame: Flame, first: int, last: int) -> str:
    """The name of the last path of a chain, behind that of the last function of people's own in it."""
    chain: list[CallPath] = [flame.paths[last]]
    row = last
    while row != first:
        row = flame.paths[row].parent
        chain.append(flame.paths[row])
    own = next((path for path in chain if path.kind == OWN), chain[-1])
    return translated(own.name) if own is chain[0] else f"{translated(own.name)} … {translated(chain[0].name)}"
