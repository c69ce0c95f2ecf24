"""A benchmark for several values of one variable: time against size, and where the bottleneck changes."""

from __future__ import annotations

import itertools
import json
import math
import numbers
import os
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from perfmagic.analysis.bench.compare import Comparison, compare
from perfmagic.analysis.bench.conditions import samples_doubt
from perfmagic.analysis.bench.result import BenchResult, Quantity
from perfmagic.analysis.bench.saved import Saved, damaged, parsed
from perfmagic.analysis.rows import Rows
from perfmagic.errors import OptionError
from perfmagic.units import duration_s, significant

if TYPE_CHECKING:
    import pandas as pd
    from typing_extensions import Self

_BOUND = ("host-bound", "device-bound")
FORMAT = "perfmagic sweep 1"
LARGEST_SIZE = 1e300  # beyond it a picture's arithmetic overflows
FLAT_SLOPE = 0.1  # a doubled size changes the time by less than 7 %: it stays


@dataclass(frozen=True)
class SweepPoint:
    """One variant at one value. Times are medians in seconds, None where not measured.

    low_s, high_s: 95 % interval of done_s, or without a device of returns_s; None below 6 samples.
    flop_per_s, moved_bytes_per_s: where the author says what a call does.  verdict: of its recorded run, "" without.
    times_as_fast: the first variant's time by this one's as the comparison takes it, with its 95 % interval.
    comparison: faster, slower, same, unclear; None and "" for the first.
    """

    value: Any
    variant: str
    returns_s: float | None
    done_s: float | None
    low_s: float | None
    high_s: float | None
    span_s: float | None
    queued_s: float | None
    flop_per_s: float | None
    moved_bytes_per_s: float | None
    peak_bytes: int | None
    verdict: str
    times_as_fast: float | None = None
    times_as_fast_low: float | None = None
    times_as_fast_high: float | None = None
    comparison: str = ""


@dataclass(frozen=True, eq=False)
class SweepResult(Saved):
    """A cell measured with a variable set to each of some values.

    name: of the variable.  values: in the order measured.  results: one tuple a value, one result a variant.
    comparisons: one tuple a value: each variant but the first against the first; () without variants.
    failed: what ended it early, at which value; the values are those that were measured.
    """

    name: str
    values: tuple[Any, ...]
    results: tuple[tuple[BenchResult, ...], ...]
    comparisons: tuple[tuple[Comparison, ...], ...] = ()
    failed: str = ""

    @property
    def points(self) -> Rows[SweepPoint]:
        """Every variant at every value."""
        return Rows(
            (
                _point(value, result, self._comparison(i, j))
                for i, (value, row) in enumerate(zip(self.values, self.results, strict=True))
                for j, result in enumerate(row)
            ),
            SweepPoint,
        )

    def named(self, name: str) -> Self:
        """The same, its results called so if they have no name and there are no variants."""
        if len(self.results[0]) > 1:
            return self
        return replace(self, results=tuple((row[0].named(name),) for row in self.results))

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> Self:
        """The sweep that save() wrote, called like the file where it has no name; OptionError for other files."""
        return super().load(path).named(Path(path).stem)

    def _comparison(self, value: int, variant: int) -> Comparison | None:
        return self.comparisons[value][variant - 1] if variant and self.comparisons else None

    @property
    def numeric(self) -> bool:
        """Whether there are several values, all numbers above 0 that grow: then there is an axis of sizes."""
        sizes = all(_is_number(v) and 0 < v < LARGEST_SIZE for v in self.values)
        return len(self.values) > 1 and sizes and all(a < b for a, b in itertools.pairwise(self.values))

    def variant(self, number: int) -> list[BenchResult]:
        """The results of one variant, in the order of the values."""
        return [row[number] for row in self.results]

    def only(self, name: str, called: str | None = None) -> Self:
        """The sweep of one variant by itself, to be compared with another's. Raises OptionError for an unknown name.

        called: its name from now on, the variant's if left out.
        """
        names = [result.name for result in self.results[0]]
        if name not in names:
            raise OptionError(f"this sweep has no variant {name!r}", hint=f"there is {', '.join(map(repr, names))}")
        number = names.index(name)
        rows = tuple((replace(row[number], name=called or name),) for row in self.results)
        return replace(self, results=rows, comparisons=())

    @property
    def sentence(self) -> str:
        """What a reader wants to know first."""
        return variants_in_words(self) if self.comparisons else growth_in_words(self)

    def to_dict(self) -> dict[str, Any]:
        """Values and all results, ready for JSON."""
        return {
            "format": FORMAT,
            "name": self.name,
            "values": [_plain(v) for v in self.values],
            "failed": self.failed,
            "results": [[result.to_dict() for result in row] for row in self.results],
        }

    @classmethod
    def from_json(cls, text: str) -> SweepResult:
        """The sweep that to_json() wrote; values that are neither numbers nor text come back as their repr.

        Raises OptionError for other text.
        """
        data = parsed(text, (FORMAT,), "sweep", hint="SweepResult.to_json() writes one")
        try:
            results = [[BenchResult.from_json(json.dumps(one)) for one in row] for row in data["results"]]
            return sweep_result(data["name"], data["values"], results, failed=data.get("failed", ""))
        except (LookupError, TypeError, ValueError, AttributeError) as error:
            raise damaged("sweep", error) from None

    def to_frame(self) -> pd.DataFrame:
        """One row a value and variant. Needs pandas."""
        return self.points.to_frame()

    def __repr__(self) -> str:
        values = ", ".join(str(v) for v in self.values)
        return f"{self.name} = {values}: {self.sentence}"


def ended_at(failed: str, name: str, value: Any) -> str:
    """What ended a sweep, with the value at which it did; "" where nothing ended it early."""
    return f"{failed} (at {name} = {value})" if failed else ""


def sweep_result(
    name: str,
    values: Sequence[Any],
    results: Sequence[Sequence[BenchResult]],
    *,
    quantity: str | None = None,
    failed: str = "",
) -> SweepResult:
    """The sweep of these results, one row a value; variants are compared at each value."""
    rows = tuple(tuple(row) for row in results)
    comparisons = tuple(tuple(compare(*row, quantity=quantity)) for row in rows) if len(rows[0]) > 1 else ()
    return SweepResult(name, tuple(values), rows, comparisons, failed)


def side_by_side(sweeps: Sequence[SweepResult], names: Sequence[str], *, quantity: str | None = None) -> SweepResult:
    """Sweeps over one variable as variants of one sweep, compared at the values that all have.

    names: what each is called. Raises OptionError where the variables differ, no value is in all, or one has variants.
    """
    first = sweeps[0]
    for sweep, name in zip(sweeps, names, strict=True):
        if sweep.name != first.name:
            raise OptionError(f"compare: {names[0]} sweeps {first.name}, {name} sweeps {sweep.name}")
        if len(sweep.results[0]) > 1:
            have = ", ".join(one.name for one in sweep.results[0])
            raise OptionError(
                f"compare: a sweep has {len(sweep.results[0])} variants ({have}), which are compared in it already",
                hint=f"compare .only({sweep.results[0][0].name!r}) of the sweep; perfmagic.load opens a file",
            )
        if len({repr(_plain(value)) for value in sweep.values}) < len(sweep.values):
            raise OptionError(f"compare: {name} has a value of {sweep.name} twice, so it is not clear which to compare")
    rows = [dict(zip(map(_plain, sweep.values), sweep.variant(0), strict=True)) for sweep in sweeps]
    values = [value for value in rows[0] if all(value in row for row in rows)]
    if not values:
        each = "; ".join(f"{name}: {', '.join(map(str, row))}" for name, row in zip(names, rows, strict=True))
        raise OptionError(f"compare: no value of {first.name} is in all sweeps ({each})")
    results = [[replace(row[value], name=name) for row, name in zip(rows, names, strict=True)] for value in values]
    return sweep_result(first.name, values, results, quantity=quantity)


def _is_number(value: Any) -> bool:
    return isinstance(value, numbers.Real) and not isinstance(value, bool)


def _plain(value: Any) -> Any:
    """A value as JSON has it: numbers of numpy as Python's, what it has no words for as its repr."""
    if _is_number(value) and math.isfinite(value):
        return int(value) if isinstance(value, numbers.Integral) else float(value)
    return value if isinstance(value, (str, bool)) else repr(value)


def _point(value: Any, result: BenchResult, comparison: Comparison | None) -> SweepPoint:
    last = result.done or result.returns
    return SweepPoint(
        value=value,
        variant=result.name,
        returns_s=result.returns_s,
        done_s=result.done_s,
        low_s=last.low_s if last is not None else None,
        high_s=last.high_s if last is not None else None,
        span_s=result.span_s,
        queued_s=result.queued.median_s if result.queued is not None else None,
        flop_per_s=result.flop_per_s,
        moved_bytes_per_s=result.moved_bytes_per_s,
        peak_bytes=result.peak_bytes,
        verdict=result.verdict.kind if result.verdict is not None else "",
        times_as_fast=comparison.ratio if comparison is not None else None,
        times_as_fast_low=comparison.low if comparison is not None else None,
        times_as_fast_high=comparison.high if comparison is not None else None,
        comparison=comparison.verdict if comparison is not None else "",
    )


def crossing(values: Sequence[float], first_s: Sequence[float], second_s: Sequence[float]) -> float | None:
    """Where the second time overtakes the first for good, between two values on straight lines of a log-log plot.

    None where it is above from the start, or never, or a time is 0.
    """
    if min(*first_s, *second_s) <= 0:
        return None
    apart = [math.log(b / a) for a, b in zip(first_s, second_s, strict=True)]
    at = next((i for i in range(len(apart) - 1, 0, -1) if apart[i] > 0 >= apart[i - 1]), None)
    if at is None or any(gap <= 0 for gap in apart[at:]):
        return None
    share = -apart[at - 1] / (apart[at] - apart[at - 1])
    low, high = math.log(values[at - 1]), math.log(values[at])
    return math.exp(low + share * (high - low))


@dataclass(frozen=True)
class Border:
    """Where the bottleneck changes: words for what lies up to a size, and for what lies from a size on.

    Between the two sizes, where they differ, the recorded runs say neither.
    """

    until: float
    since: float
    below: str
    above: str


def bottleneck_border(sweep: SweepResult) -> Border | None:
    """By the verdicts where they part the values, else by whose time is longer; None where neither changes."""
    change, turn = _device_longer_from(sweep), _verdicts_turn(sweep)
    if turn is not None:
        if sweep.values.index(turn[1]) - sweep.values.index(turn[0]) > 1:
            return Border(turn[0], turn[1], *_BOUND)
        inside = change is not None and turn[0] < change <= turn[1]
        size = change if change and inside else math.exp((math.log(turn[0]) + math.log(turn[1])) / 2)
        return Border(size, size, *_BOUND)
    return Border(change, change, "Python needs longer", "the device needs longer") if change is not None else None


def _device_longer_from(sweep: SweepResult) -> float | None:
    """The size from which on the device needs longer than Python to queue its work; None where there is no such."""
    results = sweep.variant(0)
    if not sweep.numeric or any(r.returns is None or r.span is None or r.span_partial for r in results):
        return None
    return crossing(sweep.values, [r.returns_s or 0.0 for r in results], [r.span_s or 0.0 for r in results])


def slope(values: Sequence[float], times_s: Sequence[float]) -> float | None:
    """How the time grows between the last two values: the exponent of a power law; None for a time of 0."""
    if len(values) < 2 or min(times_s[-2:]) <= 0:
        return None
    return math.log(times_s[-1] / times_s[-2]) / math.log(values[-1] / values[-2])


def growth_in_words(sweep: SweepResult) -> str:
    """Where the bottleneck changes, and how the time grows at the end."""
    results = sweep.variant(0)
    quantity = "done" if all(r.done is not None for r in results) else "returns"
    times = [r.quantities[quantity].median_s for r in results]
    spread = f"{quantity} lies between {duration_s(min(times))} and {duration_s(max(times))}"
    if len(times) < 2:
        return f"{quantity} {duration_s(times[0])} at {sweep.name} = {sweep.values[0]}"
    if not sweep.numeric:
        return spread
    words = []
    if turn := _verdicts_turn(sweep):
        words.append(f"host-bound up to {sweep.name} = {turn[0]}, device-bound from {turn[1]} on:")
    elif border := bottleneck_border(sweep):
        at = f"{sweep.name} ≈ {significant(border.until, 2)}"
        words.append(f"Below {at} Python needs longer to queue the work, above it the device to do it.")
    elif (kind := _same_verdict(results)) in _BOUND:
        words.append(f"{kind} at every {sweep.name}:")
    grows = slope(sweep.values, times)
    last, before = sweep.values[-1], sweep.values[-2]
    if grows is None:
        return " ".join([*words, spread])
    if abs(grows) < FLAT_SLOPE:
        words.append(f"{quantity} stays at {duration_s(times[-1])} from {sweep.name} = {before} to {last}")
    elif not _parted(*(r.quantities[quantity] for r in results[-2:])):
        words.append(f"{spread}; intervals at {sweep.name} = {before} and {last} overlap, so no trend is sure there")
    else:
        verb, factor = ("grows", times[-1] / times[-2]) if grows > 0 else ("shrinks", times[-2] / times[-1])
        words.append(f"{quantity} {verb} × {significant(factor, 2)} from {sweep.name} = {before} to {last}")
    return " ".join(words)


def _parted(before: Quantity, last: Quantity) -> bool:
    """Whether the intervals of two medians have nothing in common; so where one has none."""
    if before.low_s is None or before.high_s is None or last.low_s is None or last.high_s is None:
        return True
    return before.high_s < last.low_s or last.high_s < before.low_s


def _verdicts_turn(sweep: SweepResult) -> tuple[Any, Any] | None:
    """The last size that is host-bound and the first from which all are device-bound; None where they do not part."""
    if not sweep.numeric:
        return None
    kinds = [_sure_kind(result) for result in sweep.variant(0)]
    n_host = next((i for i, kind in enumerate(kinds) if kind != "host-bound"), len(kinds))
    n_device = next((i for i, kind in enumerate(reversed(kinds)) if kind != "device-bound"), len(kinds))
    between = kinds[n_host : len(kinds) - n_device]
    if not n_host or not n_device or any(kind != "gaps" for kind in between):
        return None
    return sweep.values[n_host - 1], sweep.values[len(kinds) - n_device]


def _same_verdict(results: Sequence[BenchResult]) -> str:
    """What all recorded runs say, "" where they differ or one is missing."""
    kinds = {_sure_kind(result) for result in results}
    return kinds.pop() if len(kinds) == 1 else ""


def _sure_kind(result: BenchResult) -> str:
    """What the recorded run says, "" where the samples say otherwise or there was none."""
    if result.verdict is None:
        return ""
    kind, sure = result.verdict.kind, True
    if result.span is not None and result.done is not None and result.done.median_s and not result.span_partial:
        sure = not samples_doubt(kind, result.span.median_s / result.done.median_s)
    return kind if sure else ""


def variants_in_words(sweep: SweepResult) -> str:
    """For which values which variant is faster."""
    parts = []
    for j, name in enumerate(result.name for result in sweep.results[0][1:]):
        each = [row[j] for row in sweep.comparisons]
        for verdict in ("faster", "slower", "same", "unclear"):
            at = [str(v) for v, c in zip(sweep.values, each, strict=True) if c.verdict == verdict]
            if at:
                where = f"every {sweep.name}" if len(at) == len(each) else f"{sweep.name} = {', '.join(at)}"
                parts.append(f"{name} is {_AS[verdict].format(each[0].baseline)} at {where}")
    return "; ".join(parts)


_AS = {"faster": "faster than {}", "slower": "slower than {}", "same": "as fast as {}", "unclear": "unclear against {}"}
