"""A prediction as text and as a picture: the critical path recorded and predicted, on one scale."""

from __future__ import annotations

from collections.abc import Sequence

from perfmagic import units
from perfmagic.analysis.replay.path_shares import PathShare
from perfmagic.view.html import framed, image, short
from perfmagic.view.svg.canvas import WIDTH_PX, Canvas, Part
from perfmagic.view.svg.metrics import WIDEST_FONT, width_px
from perfmagic.view.text import wrapped
from perfmagic.view.timeline.critical import TITLE, as_shares, path_words
from perfmagic.view.timeline.picture.head import share_box, share_words

LEFT_PX, ROW_PX = 80, 40

Bars = Sequence[tuple[str, Sequence[PathShare]]]


def what_if_text(sentence: str, bars: Bars) -> str:
    """The sentence, then a line for each bar."""
    lines = wrapped(sentence)
    for name, shares in bars:
        run_ns = sum(share.ns for share in shares)
        lines += wrapped(f"{name} {units.duration(run_ns)}, {path_words(as_shares(shares))}")
    return "\n".join(lines)


def what_if_html(sentence: str, bars: Bars) -> str:
    """The sentence and the picture."""
    first, colon, rest = sentence.partition(": ")
    said = f'<div style="margin:4px 0"><b>{short(first)}</b>{colon}{short(rest)}</div>'
    return framed(said + (image(what_if_svg(bars), f"{TITLE}: {sentence}") if bars else ""))


def what_if_svg(bars: Bars) -> str:
    """A bar a run, as long as the run."""
    canvas, y = Canvas(), 4.0
    longest_ns = max((sum(share.ns for share in shares) for _, shares in bars), default=1)
    for name, shares in bars:
        run_ns = sum(share.ns for share in shares)
        canvas.text(LEFT_PX - 10, y + 12, name, anchor="end", size=12)
        x, words = float(LEFT_PX), units.duration(run_ns)
        room = WIDTH_PX - LEFT_PX - width_px(words, 12, bold=True) * WIDEST_FONT - 8
        for share in as_shares(shares):
            width = share.ns / longest_ns * room
            share_box(canvas, share, round(x, 1), y + 2, round(max(0.5, width - 1), 1), 12)
            x += width
        canvas.run(round(x + 6, 1), y + 12, Part(words, size=12, bold=True))
        x = float(LEFT_PX)
        for share in as_shares(shares):
            x = share_words(canvas, share, x, y + 18)
        y += ROW_PX
    return canvas.svg(y, f"{TITLE}, recorded and predicted")
