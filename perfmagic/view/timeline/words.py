"""The sentences of a timeline, put together once for text, HTML and SVG."""

from __future__ import annotations

from perfmagic import units
from perfmagic.analysis.findings.finding import Finding
from perfmagic.analysis.verdict import NO_VERDICT
from perfmagic.terminal import ALARM
from perfmagic.trace.model import LaunchShape
from perfmagic.view.timeline.doc import TimelineDoc

AT_ONCE = 6  # findings that are shown; the others open, or are said to be there
MAX_ALT = 400  # characters; a longer one holds other people's names


def alt_text(doc: TimelineDoc) -> str:
    """The picture in one sentence, for those who cannot see it."""
    parts = [f"Timeline of {doc.header.parts[0]}", *doc.header.parts[1:]]
    if doc.launches is not None and len(doc.launches.blocked_start_ns):
        blocked_ns = int((doc.launches.blocked_end_ns - doc.launches.blocked_start_ns).sum())
        parts.append(f"Python blocked {units.duration(blocked_ns)}")
    if doc.failure:
        parts.append(doc.failure)
    sentence = f"{parts[0]}: {', '.join(parts[1:])}"
    return sentence if len(sentence) <= MAX_ALT else sentence[: MAX_ALT - 1] + "…"


def shape_words(shape: LaunchShape) -> tuple[str, str]:
    """A launch shape in two parts: "4,096 × 8 blocks" and "of 256 threads, 48 registers, 16.4 kB shared"."""
    grid, block = _extent(shape.grid), _extent(shape.block)
    parts = [f"of {block} threads"]
    parts += [f"{units.count(shape.registers)} registers"] if shape.registers else []
    parts += [f"{units.size(shape.shared_bytes)} shared"] if shape.shared_bytes else []
    return f"{grid} {'block' if grid == '1' else 'blocks'}", ", ".join(parts)


def _extent(dimensions: tuple[int, int, int]) -> str:
    """The dimensions up to the last that is not 1."""
    last = max((i for i, n in enumerate(dimensions) if n > 1), default=0)
    return " × ".join(units.count(n) for n in dimensions[: last + 1])


def cost_words(finding: Finding, busy_frac: float) -> str:
    """The left column of a finding: "race", time that could be won, "costs nothing", nothing where it is not known.

    That time is what its change gains where that is predicted, with "≤" where it is a bound; else what it cost.

    Of a verdict with nothing to win, how busy the device is: busy_frac, as the first line has it.
    """
    if finding.is_wrong:
        return ALARM
    if finding.gain_ns is not None and finding.won_ns is not None and finding.mended:
        bound = "≤ " if finding.won_ns and finding.at_most else ""
        return f"{bound}{units.duration(finding.won_ns)}" if finding.won_ns else "gains ≈ 0"
    if finding.cost_ns is None:
        told = finding.rule == "verdict" and finding.cause != NO_VERDICT
        return f"{units.percent(busy_frac)} busy" if busy_frac and told else ""
    return units.duration(finding.cost_ns) if finding.cost_ns else "costs nothing"


def trust_words(doc: TimelineDoc) -> tuple[str, tuple[str, ...]]:
    """The fine print: what stands in its one line, and the sentences behind "more", none where the line has all."""
    first, more = doc.trust[:1], doc.trust[1:]
    return (" · ".join((*first, units.plural(len(more), "more note"))) if more else "".join(first)), more


def rest_words(finding: Finding) -> str:
    """What follows the cause: the detail, which begins with what joins it, and advice where it is certain."""
    return finding.rest
