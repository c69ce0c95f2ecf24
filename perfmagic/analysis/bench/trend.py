"""Time against size: how it grows, where the bottleneck changes, and which variant is faster where."""

from __future__ import annotations

import itertools
import math
import numbers
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from perfmagic.analysis.bench.bottleneck import has_idle_device
from perfmagic.analysis.verdict import DEVICE_BOUND, HOST_BOUND
from perfmagic.units import duration_s, significant

if TYPE_CHECKING:
    from perfmagic.analysis.bench.comparison import Comparison
    from perfmagic.analysis.bench.quantity import Quantity
    from perfmagic.analysis.bench.result import BenchSummary

LARGEST_SIZE = 1e300  # beyond it a picture's arithmetic overflows
FLAT_SLOPE = 0.1  # a doubled size changes the time by less than 7 %: it stays
_IN_WORDS = {
    "faster": "faster than {}",
    "slower": "slower than {}",
    "same": "as fast as {}",
    "unclear": "unclear against {}",
}


@dataclass(frozen=True)
class Border:
    """Where the bottleneck changes: words for sizes up to `until`, and for sizes from `since` on.

    Between the two, where they differ, the recorded runs say neither.
    """

    until: float
    since: float
    below: str
    above: str


def are_sizes(values: Sequence[Any]) -> bool:
    """Whether there are several values, all numbers above 0 that grow: then there is an axis of sizes."""
    sizes = all(is_number(v) and 0 < v < LARGEST_SIZE for v in values)
    return len(values) > 1 and sizes and all(a < b for a, b in itertools.pairwise(values))


def is_number(value: Any) -> bool:
    """Whether it is a real number, also one of numpy's."""
    return isinstance(value, numbers.Real) and not isinstance(value, bool)


def crossing(values: Sequence[float], first_s: Sequence[float], second_s: Sequence[float]) -> float | None:
    """Where the second time overtakes the first for good, between two values on straight lines of a log-log plot.

    None where it is above from the start, or never, or a time is 0.
    """
    if min(*first_s, *second_s) <= 0:
        return None
    logs = [math.log(b / a) for a, b in zip(first_s, second_s, strict=True)]
    at = next((i for i in range(len(logs) - 1, 0, -1) if logs[i] > 0 >= logs[i - 1]), None)
    if at is None or any(log <= 0 for log in logs[at:]):
        return None
    frac = -logs[at - 1] / (logs[at] - logs[at - 1])
    low, high = math.log(values[at - 1]), math.log(values[at])
    return math.exp(low + frac * (high - low))


def slope(values: Sequence[float], times_s: Sequence[float]) -> float | None:
    """How the time grows between the last two values: the exponent of a power law; None for a time of 0."""
    if len(values) < 2 or min(times_s[-2:]) <= 0:
        return None
    return math.log(times_s[-1] / times_s[-2]) / math.log(values[-1] / values[-2])


def bottleneck_border(values: Sequence[Any], results: Sequence[BenchSummary]) -> Border | None:
    """By the verdicts if they split the values in two, else by whose time is longer; None where neither changes.

    results: of one variant, one per value.
    """
    change, turn = _device_longer_from(values, results), _verdicts_turn(values, results)
    if turn is not None:
        if values.index(turn[1]) - values.index(turn[0]) > 1:
            return Border(turn[0], turn[1], HOST_BOUND, DEVICE_BOUND)
        inside = change is not None and turn[0] < change <= turn[1]
        size = change if change and inside else math.exp((math.log(turn[0]) + math.log(turn[1])) / 2)
        return Border(size, size, HOST_BOUND, DEVICE_BOUND)
    return Border(change, change, "Python needs longer", "the device needs longer") if change is not None else None


def _device_longer_from(values: Sequence[Any], results: Sequence[BenchSummary]) -> float | None:
    """The size from which on the device needs longer than Python to queue its work; None where there is no such."""
    if not are_sizes(values) or any(r.returns is None or r.whole_span is None for r in results):
        return None
    return crossing(values, [r.returns_s or 0.0 for r in results], [r.span_s or 0.0 for r in results])


def _verdicts_turn(values: Sequence[Any], results: Sequence[BenchSummary]) -> tuple[Any, Any] | None:
    """The last size that is host-bound and the first from which all are device-bound; None for any other order."""
    if not are_sizes(values):
        return None
    kinds = [result.supported_verdict for result in results]
    n_host = next((i for i, kind in enumerate(kinds) if kind != HOST_BOUND), len(kinds))
    n_device = next((i for i, kind in enumerate(reversed(kinds)) if kind != DEVICE_BOUND), len(kinds))
    between = kinds[n_host : len(kinds) - n_device]
    if not n_host or not n_device or any(kind == HOST_BOUND or not has_idle_device(kind) for kind in between):
        return None
    return values[n_host - 1], values[len(kinds) - n_device]


def growth_in_words(name: str, values: Sequence[Any], results: Sequence[BenchSummary]) -> str:
    """Where the bottleneck changes, and how the time grows at the end.  results: of one variant, one per value."""
    quantity = "done" if all(r.done is not None for r in results) else "returns"
    each = [r.quantities[quantity] for r in results]
    times_s = [q.median_s for q in each]
    spread = f"{quantity} lies between {duration_s(min(times_s))} and {duration_s(max(times_s))}"
    if len(times_s) < 2:
        return f"{quantity} {duration_s(times_s[0])} at {name} = {values[0]}"
    if not are_sizes(values):
        return spread
    where = _bottleneck_in_words(name, values, results)
    return f"{where} {_end_in_words(name, values, quantity, each) or spread}".lstrip()


def _bottleneck_in_words(name: str, values: Sequence[Any], results: Sequence[BenchSummary]) -> str:
    if turn := _verdicts_turn(values, results):
        return f"host-bound up to {name} = {turn[0]}, device-bound from {turn[1]} on:"
    if border := bottleneck_border(values, results):
        at = f"{name} ≈ {significant(border.until, 2)}"
        return f"Below {at} Python needs longer to queue the work, above it the device to do it."
    kinds = {result.supported_verdict for result in results}
    kind = kinds.pop()
    return f"{kind} at every {name}:" if not kinds and kind in (HOST_BOUND, DEVICE_BOUND) else ""


def _end_in_words(name: str, values: Sequence[Any], quantity: str, each: Sequence[Quantity]) -> str:
    """How the time changes between the last two values; empty for a time of 0."""
    times_s = [q.median_s for q in each]
    grows = slope(values, times_s)
    last, before = values[-1], values[-2]
    if grows is None:
        return ""
    if abs(grows) < FLAT_SLOPE:
        return f"{quantity} stays at {duration_s(times_s[-1])} from {name} = {before} to {last}"
    if _overlap(*each[-2:]):
        spread = f"{quantity} lies between {duration_s(min(times_s))} and {duration_s(max(times_s))}"
        return f"{spread}; the intervals at {name} = {before} and {last} overlap, so no trend is certain there"
    verb, factor = ("grows", times_s[-1] / times_s[-2]) if grows > 0 else ("shrinks", times_s[-2] / times_s[-1])
    return f"{quantity} {verb} × {significant(factor, 2)} from {name} = {before} to {last}"


def _overlap(before: Quantity, last: Quantity) -> bool:
    """Whether the intervals of two medians have something in common; False where one has none."""
    if before.low_s is None or before.high_s is None or last.low_s is None or last.high_s is None:
        return False
    return before.low_s <= last.high_s and last.low_s <= before.high_s


def variants_in_words(name: str, values: Sequence[Any], comparisons: Sequence[Sequence[Comparison]]) -> str:
    """For which values which variant is faster.  comparisons: per value those of all variants but the first."""
    parts = []
    for each in zip(*comparisons, strict=True):
        for verdict, words in _IN_WORDS.items():
            at = [str(v) for v, c in zip(values, each, strict=True) if c.verdict == verdict]
            if at:
                where = f"every {name}" if len(at) == len(each) else f"{name} = {', '.join(at)}"
                parts.append(f"{each[0].name} is {words.format(each[0].baseline)} at {where}")
    return "; ".join(parts)
