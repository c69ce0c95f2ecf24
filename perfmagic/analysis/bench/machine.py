"""Where two benchmarks were measured: what differs besides the code."""

from __future__ import annotations

from typing import TYPE_CHECKING

from perfmagic.analysis.bench.judge import incomparable
from perfmagic.base.language import listed, phrase

if TYPE_CHECKING:
    from perfmagic.analysis.bench.result import BenchSummary

# of an environment (perfmagic.capture.devices.environment); what one of the two does not say is not compared
MACHINE = ("system", "machine", "processor", "cores", "threads", "driver")
VERSIONS = ("python", "torch", "perfmagic")


def other_machine(baseline: BenchSummary, other: BenchSummary) -> str:
    """Why the times of two benchmarks are of other machines, devices or caches, in words; "" where they are not."""
    return incomparable(baseline, other) or (
        "" if is_computed(baseline, other) else _differing(baseline, other, MACHINE)
    )


def other_versions(baseline: BenchSummary, other: BenchSummary) -> str:
    """Which versions of Python and packages differ, in words; "" where none does."""
    return _differing(baseline, other, VERSIONS)


def _differing(baseline: BenchSummary, other: BenchSummary, names: tuple[str, ...]) -> str:
    before, now = baseline.environment, other.environment
    differing = [
        phrase("{name} {before}, now {now}", name=name, before=str(before[name]), now=str(now[name]))
        for name in names
        if name in before and name in now and before[name] != now[name]
    ]
    return listed(differing)


def is_computed(*results: BenchSummary) -> bool:
    """Whether a virtual clock computed the times, so that the machine does not matter."""
    kinds = [{warning.kind for warning in result.warnings} for result in results]
    return all("virtual clock" in each and "measured host" not in each for each in kinds)
