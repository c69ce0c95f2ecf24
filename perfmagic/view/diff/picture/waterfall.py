"""From one whole to the other, part by part: a bar begins where the one before ended."""

from __future__ import annotations

from perfmagic import units
from perfmagic.analysis.diff.diff import TraceDiff
from perfmagic.analysis.diff.times import TimeChange
from perfmagic.analysis.diff.words import part_words
from perfmagic.trace.names import OpClass
from perfmagic.view.svg.canvas import WIDTH_PX, Canvas, Part
from perfmagic.view.svg.metrics import fitted, width_px
from perfmagic.view.svg.palette import CLASS_TOKENS, LOST_SHARE, tint
from perfmagic.view.svg.path import rects

MOST_PARTS = 9  # drawn one by one; the others are one bar
LEFT_PX, PLOT_PX = 252, 610
ROW_PX, BAR_PX = 18, 12
TOP_PX = 6
LABEL_GAP_PX = 6
GONE_SHARE = 0.3  # of the class colour in a bar that got shorter


def waterfall_svg(diff: TraceDiff) -> str:
    """The whole of the first, the difference of each part, the whole of the second; 1000 px wide, light and dark."""
    canvas = Canvas()
    whole = diff.whole
    steps = drawn_parts(diff)
    ends = [whole.a_ns]
    for _, diff_ns, _ in steps:
        ends.append(ends[-1] + diff_ns)
    # where the parts are small beside the whole, the axis begins near the lowest point
    least, most = min(*ends, whole.b_ns), max(*ends, whole.b_ns)
    low = 0 if most - least > 0.25 * most else max(0, round(least - 0.5 * (most - least)))
    scale = PLOT_PX / max(1, most - low)
    y = float(TOP_PX)
    _bar(canvas, y, f"{diff.a.name}{', one step' if diff.per_step else ''}", (low, whole.a_ns), low, scale, "host1")
    _value(canvas, y, whole.a_ns, low, scale, units.duration(whole.a_ns))
    for (words, diff_ns, token), before, after in zip(steps, ends, ends[1:], strict=False):
        y += ROW_PX
        canvas.boxes([(round(LEFT_PX + (before - low) * scale, 1), y - ROW_PX + BAR_PX, 0.75, ROW_PX)], "rule")
        _change(canvas, y, words, (before, after), low, scale, token)
        _value(canvas, y, max(before, after), low, scale, units.signed(diff_ns))
    y += ROW_PX
    canvas.boxes([(round(LEFT_PX + (whole.b_ns - low) * scale, 1), y - ROW_PX + BAR_PX, 0.75, ROW_PX)], "rule")
    _bar(canvas, y, f"{diff.b.name}{', one step' if diff.per_step else ''}", (low, whole.b_ns), low, scale, "host1")
    _value(canvas, y, whole.b_ns, low, scale, units.duration(whole.b_ns))
    y += ROW_PX
    if low:
        canvas.text(LEFT_PX, y + 8, f"the axis begins at {units.duration(low)}", "ink2")
    canvas.text(WIDTH_PX, y + 8, "one run each", "ink2", anchor="end")
    return canvas.svg(y + 14, f"From {diff.a.name} to {diff.b.name}: {diff.headline}")


def drawn_parts(diff: TraceDiff) -> list[tuple[str, int, str]]:
    """Words, difference in ns and colour of each bar; the parts add up to the difference of the wholes."""
    changed = [part for part in diff.parts if part.diff_ns]
    found = [(part_words(part), part.diff_ns, _token(part)) for part in changed[:MOST_PARTS]]
    rest = changed[MOST_PARTS:]
    if rest:
        words = f"{units.count(len(rest))} smaller parts" if len(rest) > 1 else part_words(rest[0])
        found.append((words, sum(part.diff_ns for part in rest), "ink3"))
    return found


def _token(part: TimeChange) -> str:
    if part.kind != "busy":
        return "wait" if part.kind == "idle" else "ink3"
    return CLASS_TOKENS[OpClass[part.op_class.upper()]]


def _bar(canvas: Canvas, y: float, words: str, span: tuple[float, float], low: float, scale: float, token: str) -> None:
    _label(canvas, y, words, bold=True)
    canvas.boxes([_box(y, span, low, scale)], token)


def _change(canvas: Canvas, y: float, words: str, span: tuple[int, int], low: float, scale: float, token: str) -> None:
    """A part that takes longer is solid, one that takes less is pale with a solid end; waiting is hatched."""
    _label(canvas, y, words)
    box = _box(y, span, low, scale)
    x, top, width, height = box
    shorter = span[1] < span[0]
    if token == "wait":
        canvas.boxes([box], tint("wait", LOST_SHARE, LOST_SHARE))
        if not shorter:
            canvas.hatch_lost(rects([box]))
    else:
        canvas.boxes([box], tint(token, GONE_SHARE, GONE_SHARE) if shorter else token)
    end = x if shorter else round(x + width - 1, 1)
    canvas.boxes([(end, top, 1, height)], token)


def _box(y: float, span: tuple[float, float], low: float, scale: float) -> tuple[float, float, float, float]:
    first, last = sorted(span)
    x = LEFT_PX + (first - low) * scale
    return round(x, 1), y, round(max(1.0, (last - first) * scale), 1), BAR_PX


def _label(canvas: Canvas, y: float, words: str, *, bold: bool = False) -> None:
    shown = fitted(words, LEFT_PX - 10, 11, bold=bold)
    canvas.text(LEFT_PX - 8, y + 10, shown, size=11, anchor="end", bold=bold)


def _value(canvas: Canvas, y: float, at_ns: float, low: float, scale: float, words: str) -> None:
    x = LEFT_PX + (at_ns - low) * scale + LABEL_GAP_PX
    x = min(x, WIDTH_PX - width_px(words, 11) - 4)
    canvas.run(round(x, 1), y + 10, Part(words, size=11))
