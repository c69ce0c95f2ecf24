"""What stands above and below the lanes: the first line, findings, where the span went, the key."""

from __future__ import annotations

from collections.abc import Sequence

from perfmagic import units
from perfmagic.analysis.findings.finding import Finding
from perfmagic.trace.names import OpClass
from perfmagic.view.svg.canvas import WIDTH_PX, Canvas, Part
from perfmagic.view.svg.metrics import WIDEST_FONT, fitted, width_px
from perfmagic.view.svg.palette import LOST_SHARE, queued, tint
from perfmagic.view.svg.path import rects
from perfmagic.view.timeline.doc import TimelineDoc
from perfmagic.view.timeline.lanes import Share
from perfmagic.view.timeline.words import AT_ONCE, cost_words, rest_words, trust_words

GUTTER_PX = 92
FINDING_PX = 21
PART_PX = 18  # how far a part of a finding is set in
KEY_NAMES = {
    OpClass.MATRIX: ("matrix kernels", "matrix"),
    OpClass.COMPUTE: ("other kernels", "comp"),
    OpClass.COMMUNICATION: ("communication", "comm"),
    OpClass.HTOD: ("copy HtoD", "htod"),
    OpClass.DTOH: ("DtoH", "dtoh"),
    OpClass.DTOD: ("DtoD", "dtod"),
    OpClass.PTOP: ("PtoP", "dtod"),
    OpClass.MEMSET: ("memset", "memset"),
}


def draw_header(canvas: Canvas, doc: TimelineDoc) -> float:
    """The first line and the findings; returns the lower edge."""
    total, rest = doc.header.parts[0], doc.header.parts[1:]
    shown = fitted("  ·  ".join(rest), WIDTH_PX - width_px(total, 15, bold=True) - 12, 12)
    canvas.run(0, 18, Part(total, size=15, bold=True), Part(shown, "ink2", 12, gap_px=12))
    y = 28.0
    if doc.failure:
        canvas.text(0, y + 12, fitted(doc.failure, WIDTH_PX, 12, bold=True), "wait", size=12, bold=True)
        y += FINDING_PX
    for finding in doc.findings[:AT_ONCE]:
        canvas.boxes([(0, y, WIDTH_PX, 1)], "rule")
        _draw_finding(canvas, y + 14.5, finding, cost_words(finding, doc.header.busy_frac))
        y += FINDING_PX
    if len(doc.findings) > AT_ONCE:
        more = f"{units.count(len(doc.findings) - AT_ONCE)} more in .findings"
        canvas.text(GUTTER_PX, y + 14.5, more, "ink2", size=12)
        y += FINDING_PX
    if doc.findings:
        canvas.boxes([(0, y, WIDTH_PX, 1)], "rule")
    return y + 6


def draw_shares(canvas: Canvas, shares: Sequence[Share], y: float, title: str = "") -> float:
    """What some time consists of, each instant once, as one bar and its words; returns the lower edge."""
    total = max(1, sum(share.ns for share in shares))
    x = 0.0
    for share in shares:
        width = share.ns / total * WIDTH_PX
        share_box(canvas, share, round(x, 1), y, round(max(0.5, width - 1), 1), 7)
        x += width
    x = 0.0
    if title:
        canvas.text(0, y + 21, title, "ink2")
        x = width_px(title, 10) * WIDEST_FONT + 14
    for share in shares:
        x = share_words(canvas, share, x, y + 13)
    return y + 28


def draw_key(canvas: Canvas, doc: TimelineDoc, y: float, *, header: bool) -> float:
    """What the colours mean, and which device this was; returns the lower edge of the picture."""
    x = 0.0
    for text, token in _classes(doc):
        canvas.boxes([(round(x, 1), y + 3, 10, 8)], token)
        x = _key_text(canvas, text, x, y)
    if any(s.queue_max for g in doc.groups for s in g.streams):
        canvas.boxes([(round(x, 1), y + 3, 10, 8)], queued("comp", 1))
        x = _key_text(canvas, "queued", x, y)
        box = (round(x, 1), y + 3, 10.0, 8.0)
        canvas.boxes([box], queued("comp", 0))
        canvas.hatch_waiting(rects([box]), "matrix")
        x = _key_text(canvas, "queued, stream idle", x, y)
    room = WIDTH_PX - x - 10
    canvas.text(WIDTH_PX, y + 10.5, fitted(doc.header.device_label, room, 10), "ink2", anchor="end")
    return y + 18 if not header else _draw_trust(canvas, doc, y + 20)


def _draw_trust(canvas: Canvas, doc: TimelineDoc, y: float) -> float:
    if not doc.trust:
        return y + 2
    _, more = trust_words(doc)
    ending = f" · {units.plural(len(more), 'more note')} in .trust and in the report" if more else ""
    canvas.text(0, y + 9, fitted(doc.trust[0], WIDTH_PX - width_px(ending, 10), 10) + ending, "ink2")
    return y + 16


def _draw_finding(canvas: Canvas, y: float, finding: Finding, cost: str) -> None:
    """One finding in a line; a part of another is set in."""
    bold, x, rest = finding.cost_ns != 0 and not finding.depth, GUTTER_PX + PART_PX * finding.depth, rest_words(finding)
    token = "wait" if finding.is_wrong else "ink" if finding.cost_ns != 0 else "ink2"
    words = "wait" if finding.is_wrong else "ink"
    canvas.text(GUTTER_PX - 12, y, cost, token, size=12, anchor="end", bold=bold)
    cause = fitted(finding.cause, WIDTH_PX - x, 12, bold=True)
    gap_px = 3 if rest[:1] == " " else 0
    shown = fitted(rest.lstrip(), WIDTH_PX - x - width_px(cause, 12, bold=True) - gap_px, 12)
    canvas.run(x, y, Part(cause, words, 12, bold=True), Part(shown, words, 12, gap_px=gap_px))


def share_box(canvas: Canvas, share: Share, x: float, y: float, width: float, height: float) -> None:
    """A part of a bar, in its colour; time in which nothing ran is hatched."""
    box = (x, y, width, height)
    if share.token == "wait":
        canvas.boxes([box], tint("wait", LOST_SHARE, LOST_SHARE))
        canvas.hatch_lost(rects([box]))
        canvas.boxes([(x, y, 1, height), (round(x + max(0.0, width - 1), 1), y, 1, height)], "wait")
        return
    canvas.boxes([box], share.token)
    if share.second:
        canvas.boxes([(x, y + height / 2, width, height / 2)], share.second)


def share_words(canvas: Canvas, share: Share, x: float, y: float) -> float:
    """Its colour, how long and what, where there is room; returns where the next one begins."""
    amount = units.duration(share.ns)
    words_px = width_px(amount, 10, bold=True) + 4 + width_px(share.name, 10)
    needed = 14 + words_px * WIDEST_FONT + 14
    if x + needed > WIDTH_PX + 18:
        return x
    share_box(canvas, share, round(x, 1), y, 10, 8)
    canvas.run(round(x + 14, 1), y + 8, Part(amount, bold=True), Part(share.name, "ink2", gap_px=4))
    return x + needed


def _key_text(canvas: Canvas, text: str, x: float, y: float) -> float:
    canvas.text(round(x + 14, 1), y + 10.5, text, "ink2")
    return x + 14 + width_px(text, 10) * WIDEST_FONT + 14


def _classes(doc: TimelineDoc) -> list[tuple[str, str]]:
    present = {int(c) for g in doc.groups for s in g.streams for c in set(s.op_class.tolist())}
    return [KEY_NAMES[c] for c in OpClass if c in present]
