"""The finding "steps stand out" and its sentence."""

from __future__ import annotations

from perfmagic import units
from perfmagic.analysis.findings.facts import Facts, listed, sentences
from perfmagic.analysis.findings.finding import Finding
from perfmagic.analysis.timeline.steps import StepOut, outstanding

NAMED = 3  # steps that a sentence lists; the table has all
TOLD_FRAC = 0.1  # of what a lap has more; smaller parts are not told


def step(facts: Facts) -> list[Finding]:
    """Training steps that took the device much longer than the median one.

    It costs nothing of its own: what a long step lost is in the findings about its time.
    """
    out = sorted(outstanding(facts.trace, facts.steps, facts.comm_names), key=lambda one: -one.lap_ns)
    if not out:
        return []
    numbers = [str(one.number) for one in out[:NAMED]]
    several = len(out) > 1
    which = f"step{'s' if several else ''} {listed(numbers)}"
    more = f" and {units.count(len(out) - NAMED)} more" if len(out) > NAMED else ""
    longest = f"step {out[0].number} took " if several else "it took "
    took = f"{longest}{units.duration(out[0].lap_ns)}, the median step {units.duration(out[0].median_ns)}"
    return [
        Finding(
            rule="step",
            cost_ns=None,
            cause=f"{which}{more} stand{'' if several else 's'} out",
            detail=": " + sentences(took, _why(out[0])),
            lines=(),
            start_ns=out[0].start_ns,
            end_ns=out[0].end_ns,
            device=facts.device,
        )
    ]


def _why(one: StepOut) -> str:
    """By which parts a step is longer than the others, the longest first."""
    least = TOLD_FRAC * (one.lap_ns - one.median_ns)
    parts = sorted(((ns, name) for name, ns in one.parts_ns.items() if ns >= least), reverse=True)
    words = [f"{units.duration(ns)} more {name}" for ns, name in parts]
    return f"it has {listed(words)}" if words else ""
