"""A timeline as plain text: for terminals, logs and the text/plain face of an output."""

from __future__ import annotations

from collections.abc import Sequence

from perfmagic import units
from perfmagic.view.lanes import DeviceGroup
from perfmagic.view.metrics import columns, cut_to_columns
from perfmagic.view.timeline import TimelineDoc
from perfmagic.view.words import cost_words, rest_words

WIDTH = 100
MAX_STREAMS = 8
GUTTER = 10
_NUMBERS = (("busy", 7), ("time", 9), ("ops", 9), ("queue ≤", 9), ("mean", 8))


def timeline_text(doc: TimelineDoc, below: Sequence[str] = ()) -> str:
    """The first line, the findings, a table of the streams and the trust line, at most 100 columns wide.

    below: lines that stand between the streams and the trust line.
    """
    lines = wrapped(doc.header.sentence)
    if doc.failure:
        lines += wrapped(doc.failure)
    for finding in doc.findings:
        first = f"{cost_words(finding, doc.header.busy_frac):>{GUTTER}}  {finding.cause}{rest_words(finding)}"
        lines += wrapped(first, indent=GUTTER + 2)
    for group in doc.groups:
        lines += ["", *_stream_table(group, several=len(doc.groups) > 1)]
    lines += below
    lines += [""] if doc.trust else []
    for sentence in doc.trust:
        lines += wrapped(sentence)
    return "\n".join(line.rstrip() for line in lines)


def wrapped(text: str, indent: int = 0, width: int = WIDTH) -> list[str]:
    """Lines of at most so many terminal columns, all but the first indented; a longer word is cut."""
    plain = _printable(text).replace("\n", " ")
    words = plain.lstrip(" ").split(" ")
    line = plain[: len(plain) - len(plain.lstrip(" "))] + words[0]
    lines = []
    for word in words[1:]:
        if columns(f"{line} {word}") <= width:
            line = f"{line} {word}"
        else:
            lines.append(cut_to_columns(line, width))
            line = " " * indent + word
    return [*lines, cut_to_columns(line, width)]


def table(head: Sequence[str], rows: Sequence[Sequence[str]], widths: Sequence[int]) -> list[str]:
    """Rows of text: the first column to the left, the others to the right, each at least so wide."""
    return [_table_line(row, widths) for row in (head, *rows)]


def _table_line(row: Sequence[str], widths: Sequence[int]) -> str:
    cells = zip(row, widths, strict=True)
    return "".join(_cell(text, width, left=i == 0) for i, (text, width) in enumerate(cells))


def _stream_table(group: DeviceGroup, *, several: bool) -> list[str]:
    drawn = group.streams[:MAX_STREAMS]
    rows = [
        (
            f"  {lane.label}",
            units.percent(lane.busy_frac),
            units.duration(lane.busy_ns),
            units.count(len(lane)),
            units.count(lane.queue_max),
            _mean_words(lane.queue_mean),
        )
        for lane in drawn
    ]
    first = max((columns(row[0]) for row in rows), default=0) + 2
    title = f"{group.label}, device {group.device}" if several else ""
    head = ("  stream", *(name for name, _ in _NUMBERS))
    lines = wrapped(title) if title else []
    lines += table(head, rows, (max(first, 12), *(w for _, w in _NUMBERS)))
    hidden = len(group.streams) - len(drawn) + group.n_folded
    return [*lines, f"  and {units.plural(hidden, 'more stream')}"] if hidden else lines


def _mean_words(mean: float) -> str:
    return units.count(mean) if mean >= 10 else units.significant(mean, 2) if mean >= 0.01 or not mean else "<0.01"


def _cell(text: str, width: int, *, left: bool) -> str:
    padding = " " * max(0, width - columns(text))
    return text + padding if left else padding + text


def _printable(text: str) -> str:
    """Without control characters: a kernel's name must not steer a terminal."""
    return "".join(c if c.isprintable() or c in "\n\u00a0" else "\ufffd" for c in text)
