"""The sentence that a comparison of two timelines begins with."""

from __future__ import annotations

from collections.abc import Sequence

from perfmagic import units
from perfmagic.analysis.diff.side import ComparedTrace
from perfmagic.analysis.diff.times import TimeChange

MOST_PARTS = 4  # that a sentence names
# what a device is idle for, by the causes of perfmagic.analysis.timeline.idle, short enough for a list
IDLE_WORDS = {
    "in_python": "waiting for Python",
    "in_call": "waiting for calls into the driver",
    "launching": "waiting for launches to arrive",
    "between_ops": "gaps between queued ops",
    "blocked": "waiting while Python was blocked",
    "other_device": "waiting for another device",
    "other_stream": "waiting for another stream",
    "unexplained": "idle for reasons not recorded",
}
LEAST_FRAC = 0.05  # of the largest part's difference: smaller parts are in "the rest"


def headline(
    a: ComparedTrace,
    b: ComparedTrace,
    whole: TimeChange,
    parts: Sequence[TimeChange],
    no_verdict: str,
    *,
    per_step: bool,
) -> str:
    """The verdict in one sentence, or why there is none."""
    if no_verdict:
        took = f"a step of {a.name} took" if per_step else f"{a.name} took"
        times = f". In numbers: {took} {units.duration(whole.a_ns)}, {b.name} {units.duration(whole.b_ns)}"
        return f"No verdict: {no_verdict}{times if whole.a_ns and whole.b_ns else ''}"
    one, other = (f"one step of {b.name}", f"one of {a.name}") if per_step else (b.name, a.name)
    if not whole.diff_ns:
        return f"{one} is as long as {other}: {units.duration(whole.b_ns)}"
    than = "shorter" if whole.diff_ns < 0 else "longer"
    share = f", {units.signed_percent(whole.diff_ns / whole.a_ns)}" if whole.a_ns else ""
    span = f"{units.duration(whole.a_ns)} → {units.duration(whole.b_ns)}{share}"
    return (
        f"{one} is {units.duration(abs(whole.diff_ns))} {than} than {other} ({span}): "
        f"{', '.join(_by_part(parts, whole.diff_ns))}"
    )


def part_words(part: TimeChange) -> str:
    """What a part is the time of, for people."""
    return IDLE_WORDS[part.name] if part.kind == "idle" else part.name


def _by_part(parts: Sequence[TimeChange], diff_ns: int) -> list[str]:
    changed = [part for part in parts if part.diff_ns]
    least = LEAST_FRAC * abs(changed[0].diff_ns) if changed else 0
    named = [part for part in changed[:MOST_PARTS] if abs(part.diff_ns) >= least]
    words = [f"{part_words(part)} {units.signed(part.diff_ns)}" for part in named]
    rest_ns = diff_ns - sum(part.diff_ns for part in named)
    return [*words, *([f"the rest {units.signed(rest_ns)}"] if rest_ns else [])]
