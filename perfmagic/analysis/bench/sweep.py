"""A benchmark for several values of one variable: the results, and the variants compared at each value."""

from __future__ import annotations

import itertools
import math
import numbers
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import msgspec

from perfmagic.analysis.bench.compare import Comparison, compare
from perfmagic.analysis.bench.quantity import has_idle_device
from perfmagic.analysis.bench.result import BenchSummary
from perfmagic.analysis.bench.saved import Saved, damage_of, of_format, read_json
from perfmagic.analysis.verdict import DEVICE_BOUND, HOST_BOUND
from perfmagic.base.errors import OptionError
from perfmagic.base.language import chained, phrase
from perfmagic.base.units import duration_s, significant
from perfmagic.trace.json_form import Int64Number, JsonForm, Real, one_of, typed
from perfmagic.trace.model import in_its_digits
from perfmagic.trace.rows import Rows

if TYPE_CHECKING:
    import pandas as pd
    from typing_extensions import Self

    from perfmagic.analysis.bench.compare import Comparison
    from perfmagic.analysis.bench.quantity import Quantity
    from perfmagic.analysis.bench.result import BenchSummary


# Time against size: how it grows, where the bottleneck changes, and which variant is faster where.

LARGEST_SIZE = 1e300  # beyond it a picture's arithmetic overflows
FLAT_SLOPE = 0.1  # a doubled size changes the time by less than 7 %: it stays


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
            return Border(turn[0], turn[1], phrase(HOST_BOUND), phrase(DEVICE_BOUND))
        inside = change is not None and turn[0] < change <= turn[1]
        size = change if change and inside else math.exp((math.log(turn[0]) + math.log(turn[1])) / 2)
        return Border(size, size, phrase(HOST_BOUND), phrase(DEVICE_BOUND))
    longer = phrase("Python needs longer"), phrase("the device needs longer")
    return Border(change, change, *longer) if change is not None else None


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


def describe_growth(name: str, values: Sequence[Any], results: Sequence[BenchSummary]) -> str:
    """Where the bottleneck changes, and how the time grows at the end.  results: of one variant, one per value."""
    quantity = "done" if all(r.done is not None for r in results) else "returns"
    each = [r.quantities[quantity] for r in results]
    times_s = [q.median_s for q in each]
    if len(times_s) < 2:
        time = duration_s(times_s[0])
        return phrase(
            "{quantity} {time} at {value}", quantity=phrase(quantity), time=time, value=f"{name} = {values[0]}"
        )
    spread = _spread(quantity, times_s)
    if not are_sizes(values):
        return spread
    where = _describe_bottleneck(name, values, results)
    return chained("{a} {b}", (where, _describe_end(name, values, quantity, each) or spread))


def _spread(quantity: str, times_s: Sequence[float]) -> str:
    low, high = duration_s(min(times_s)), duration_s(max(times_s))
    return phrase("{quantity} lies between {low} and {high}", quantity=phrase(quantity), low=low, high=high)


def _describe_bottleneck(name: str, values: Sequence[Any], results: Sequence[BenchSummary]) -> str:
    if turn := _verdicts_turn(values, results):
        until, since = (f"{name} = {value}" for value in turn)
        return phrase("Python decides up to {until}, the device from {since} on:", until=until, since=since)
    if border := bottleneck_border(values, results):
        at = f"{name} ≈ {significant(border.until, 2)}"
        return phrase("Python decides below {at}, the device above it:", at=at)
    kinds = {result.supported_verdict for result in results}
    if kinds == {HOST_BOUND}:
        return phrase("Python decides at every {name}:", name=name)
    return phrase("The device decides at every {name}:", name=name) if kinds == {DEVICE_BOUND} else ""


def _describe_end(name: str, values: Sequence[Any], quantity: str, each: Sequence[Quantity]) -> str:
    """How the time changes between the last two values; empty for a time of 0."""
    times_s = [q.median_s for q in each]
    grows = slope(values, times_s)
    between = {"before": f"{name} = {values[-2]}", "last": values[-1]}
    if grows is None:
        return ""
    shown = phrase(quantity)
    if abs(grows) < FLAT_SLOPE:
        time = duration_s(times_s[-1])
        return phrase("{quantity} stays at {time} from {before} to {last}", quantity=shown, time=time, **between)
    if _overlap(*each[-2:]):
        return phrase(
            "{spread}; the intervals at {before} and {last} overlap, so no trend is certain there",
            spread=_spread(quantity, times_s),
            **between,
        )
    if grows > 0:
        factor = significant(times_s[-1] / times_s[-2], 2)
        return phrase("{quantity} grows × {factor} from {before} to {last}", quantity=shown, factor=factor, **between)
    factor = significant(times_s[-2] / times_s[-1], 2)
    return phrase("{quantity} shrinks × {factor} from {before} to {last}", quantity=shown, factor=factor, **between)


def _overlap(before: Quantity, last: Quantity) -> bool:
    """Whether the intervals of two medians have something in common; False where one has none."""
    if before.low_s is None or before.high_s is None or last.low_s is None or last.high_s is None:
        return False
    return before.low_s <= last.high_s and last.low_s <= before.high_s


def describe_variants(name: str, values: Sequence[Any], comparisons: Sequence[Sequence[Comparison]]) -> str:
    """For which values which variant is faster.  comparisons: per value those of all variants but the first."""
    parts = []
    for each in zip(*comparisons, strict=True):
        for verdict in ("faster", "slower", "same", "unclear", "not comparable"):
            at = [str(v) for v, c in zip(values, each, strict=True) if c.verdict == verdict]
            if at:
                values_named = f"{name} = {', '.join(at)}"
                where = phrase("every {name}", name=name) if len(at) == len(each) else values_named
                parts.append(_describe_variant(verdict, {"name": each[0].name, "baseline": each[0].baseline}, where))
    return chained("{a}; {b}", parts)


def _describe_variant(verdict: str, names: Mapping[str, str], where: str) -> str:
    if verdict == "faster":
        return phrase("{name} is faster than {baseline} at {where}", where=where, **names)
    if verdict == "slower":
        return phrase("{name} is slower than {baseline} at {where}", where=where, **names)
    if verdict == "same":
        return phrase("{name} is as fast as {baseline} at {where}", where=where, **names)
    if verdict == "not comparable":
        return phrase("{name} is not comparable with {baseline} at {where}", where=where, **names)
    return phrase("{name} is unclear against {baseline} at {where}", where=where, **names)


_Row = Annotated[tuple[Any, ...], msgspec.Meta(min_length=1)]
_SWEPT = msgspec.Meta(extra_json_schema={"items": {"type": ["number", "string", "boolean", "null"]}})
FORMAT = "perfmagic sweep 2"
_FORMATS = ("perfmagic sweep 1", FORMAT)  # comparisons are recomputed from the results


@dataclass(frozen=True)
class SweepPoint:
    """One variant at one value. Times are medians in seconds, None where not measured.

    value: of the swept variable.  variant: its name.  low_s, high_s: 95 % confidence interval of done_s, or without a
    device of returns_s; None below 6 samples.  flop_per_s, moved_bytes_per_s: where the user said what a call does.
    peak_bytes: of device memory.  verdict: of its recorded run, "unclear" where the samples contradict it, "" without
    one.  times_as_fast: the first variant's time divided by this one's, with its 95 % confidence interval.  comparison:
    faster, slower, same or unclear. Both are None and "" for the first variant.
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


class _Saved(msgspec.Struct):
    name: str
    values: tuple[str | bool | Int64Number | Real, ...]
    results: Annotated[tuple[_Row, ...], msgspec.Meta(min_length=1)]
    failed: str = ""


@dataclass(frozen=True, eq=False)
class SweepSummary(Saved):
    """A cell measured with a variable set to each of some values.

    format: what kind of file it is.
    name: what is swept.
    values: its values, in the order measured; what is neither number nor text as its repr.
    failed: what ended it early; empty for nothing.
    results: for each value, a benchmark for each variant.
    comparisons: for each value, each variant but the first against the first; empty without variants.
    """

    leading = ("format",)
    left_out = ("comparisons",)

    name: str
    values: Annotated[tuple[Any, ...], _SWEPT]
    results: tuple[tuple[BenchSummary, ...], ...]
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
        ).labelled(self.results[0][0].device_label if self.predicted else "")

    def named(self, name: str) -> Self:
        """The same with this name for its results, if they have none and there are no variants."""
        if len(self.results[0]) > 1:
            return self
        return replace(self, results=tuple((row[0].named(name),) for row in self.results))

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> Self:
        """The sweep that save() wrote, if it has no name with the file's. Raises OptionError for other files."""
        return super().load(path).named(Path(path).stem)

    def _comparison(self, value: int, variant: int) -> Comparison | None:
        return self.comparisons[value][variant - 1] if variant and self.comparisons else None

    @property
    def numeric(self) -> bool:
        """Whether there are several values, all numbers above 0 that grow: then there is an axis of sizes."""
        return are_sizes(self.values)

    def variant(self, number: int) -> list[BenchSummary]:
        """The results of one variant, in the order of the values."""
        return [row[number] for row in self.results]

    def only(self, name: str, called: str | None = None) -> Self:
        """The sweep of one variant alone, to be compared with another's. Raises OptionError for an unknown name.

        called: its new name, the variant's if left out.
        """
        names = [result.name for result in self.results[0]]
        if name not in names:
            raise OptionError(f"this sweep has no variant {name!r}", hint=f"there is {', '.join(map(repr, names))}")
        number = names.index(name)
        rows = tuple((replace(row[number], name=called or name),) for row in self.results)
        return replace(self, results=rows, comparisons=())

    @property
    def sentence(self) -> str:
        """Which variant is faster where; without variants how the time grows and where the bottleneck changes."""
        if self.comparisons:
            return describe_variants(self.name, self.values, self.comparisons)
        return describe_growth(self.name, self.values, self.variant(0))

    @property
    def predicted(self) -> bool:
        """Whether models gave its times, which are then written with two digits."""
        return all(result.predicted for row in self.results for result in row)

    @property
    def format(self) -> Annotated[str, one_of(FORMAT)]:
        return FORMAT

    def to_dict(self) -> dict[str, Any]:
        """Values and all results, ready for JSON."""
        return JsonForm.to_dict(replace(self, values=tuple(map(_plain, self.values))))

    @classmethod
    def from_json(cls, text: str) -> SweepSummary:
        """The sweep that to_json() wrote; values that are neither numbers nor text come back as their repr.

        Raises OptionError for other text.
        """
        data = of_format(read_json(text), _FORMATS, "sweep", hint="SweepResult.to_json() writes one")
        with damage_of("sweep"):
            saved = typed(data, _Saved)
            results = [[BenchSummary.from_plain(plain) for plain in row] for row in saved.results]
            if {len(row) for row in results} != {len(results[0])} or len(results) != len(saved.values):
                raise ValueError(f"{len(saved.values)} values, {[len(row) for row in results]} variants of each")
            for value, row in zip(saved.values, results, strict=True):
                if any(result.returns is None for result in row):
                    raise ValueError(f"there is no `returns` at {saved.name} = {value}")
            return sweep_result(saved.name, saved.values, results, failed=saved.failed)

    def to_frame(self) -> pd.DataFrame:
        """One row per value and variant. Needs pandas."""
        return self.points.to_frame()

    @in_its_digits
    def __repr__(self) -> str:
        values = ", ".join(str(v) for v in self.values)
        return f"{self.name} = {values}: {self.sentence}"


def ended_at(failed: str, name: str, value: Any) -> str:
    """What ended a sweep, with the value at which it did; "" where nothing ended it early."""
    return f"{failed} (at {name} = {value})" if failed else ""


def sweep_result(
    name: str,
    values: Sequence[Any],
    results: Sequence[Sequence[BenchSummary]],
    *,
    quantity: str | None = None,
    failed: str = "",
) -> SweepSummary:
    """The sweep of these results, one row per value; variants are compared at each value."""
    rows = tuple(tuple(row) for row in results)
    comparisons = tuple(tuple(compare(*row, quantity=quantity)) for row in rows) if len(rows[0]) > 1 else ()
    return SweepSummary(name, tuple(values), rows, comparisons, failed)


def side_by_side(sweeps: Sequence[SweepSummary], names: Sequence[str], *, quantity: str | None = None) -> SweepSummary:
    """Sweeps over one variable as variants of one sweep, compared at the values that all have.

    names: what each is called. Raises OptionError where the variables differ, no value is in all, or one has variants.
    """
    first = sweeps[0]
    for sweep, name in zip(sweeps, names, strict=True):
        if sweep.name != first.name:
            raise OptionError(f"compare: {names[0]} sweeps {first.name}, {name} sweeps {sweep.name}")
        if len(sweep.results[0]) > 1:
            have = ", ".join(result.name for result in sweep.results[0])
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
        raise OptionError(f"compare: the sweeps share no value of {first.name} ({each})")
    results = [[replace(row[value], name=name) for row, name in zip(rows, names, strict=True)] for value in values]
    return sweep_result(first.name, values, results, quantity=quantity)


def _plain(value: Any) -> Any:
    """A value as JSON has it: numpy's numbers as Python's, and as its repr what JSON cannot express."""
    if is_number(value) and math.isfinite(value):
        return int(value) if isinstance(value, numbers.Integral) else float(value)
    return value if isinstance(value, (str, bool)) else repr(value)


def _point(value: Any, result: BenchSummary, comparison: Comparison | None) -> SweepPoint:
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
        verdict=result.supported_verdict or ("unclear" if result.verdict is not None else ""),
        times_as_fast=comparison.ratio if comparison is not None else None,
        times_as_fast_low=comparison.ratio_low if comparison is not None else None,
        times_as_fast_high=comparison.ratio_high if comparison is not None else None,
        comparison=comparison.verdict if comparison is not None else "",
    )
