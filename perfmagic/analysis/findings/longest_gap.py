"""The finding "longest idle gap" and its sentence."""

from __future__ import annotations

from perfmagic import units
from perfmagic.analysis.findings.facts import Facts, listed, sentences
from perfmagic.analysis.findings.finding import Finding
from perfmagic.analysis.findings.places import on_time_lines
from perfmagic.analysis.findings.python_was import python_was
from perfmagic.analysis.timeline.idle import CAUSES
from perfmagic.numerics.intervals import EMPTY, intersect, union
from perfmagic.trace.columns import NO_LINE

LONG_GAP_FRAC = 0.05  # of the extent


def longest_gap(facts: Facts) -> list[Finding]:
    """The longest idle gap, its parts by cause, and where Python was."""
    gaps = facts.gaps
    if not len(gaps) or int(gaps.length_ns.max()) < LONG_GAP_FRAC * facts.breakdown.extent_ns:
        return []
    row = int(gaps.length_ns.argmax())
    line = int(gaps.line[row])
    where = union(gaps.start_ns[[row]], gaps.end_ns[[row]])
    # what Python did explains a gap only where the device waited for it
    for_host = 2 * int(gaps.for_python_ns[row]) >= int(gaps.length_ns[row])
    was = python_was(facts, intersect(where, facts.cell_time.waited_for_host) if for_host else EMPTY)
    waited = f"{facts.the_device} waited {_parts(facts, row)}{on_time_lines(facts, where, [line])}"
    return [
        Finding(
            rule="longest_gap",
            cost_ns=int(gaps.length_ns[row]),
            cause="longest idle gap",
            detail=f", {units.duration(int(gaps.length_ns[row]))}: {sentences(waited, was.words)}",
            lines=(line,) if line != NO_LINE else (),
            start_ns=int(gaps.start_ns[row]),
            end_ns=int(gaps.end_ns[row]),
            device=facts.device,
            frames=was.frames,
            where=where,
        )
    ]


def _parts(facts: Facts, row: int) -> str:
    """What an idle gap was made of: "for Python", or "50.0 µs for Python and 5.00 µs for launches to arrive"."""
    parts = facts.gaps.parts_ns(row)
    inside_ns = parts.pop("in_call", 0)
    if inside_ns:
        parts["in_python"] = parts.get("in_python", 0) + inside_ns
    inside = f", {units.duration(inside_ns)} of it inside calls into the driver" if inside_ns else ""
    told = {cause: words + (inside if cause == "in_python" else "") for cause, words in CAUSES.items()}
    if len(parts) == 1:
        return told[next(iter(parts))]
    longest = sorted(parts.items(), key=lambda part: -part[1])
    return listed([f"{units.duration(ns)} {told[cause]}" for cause, ns in longest])
