"""A benchmark for several values of one variable: the results, and the variants compared at each value."""

from __future__ import annotations

import json
import math
import numbers
import os
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from perfmagic.analysis.bench.compare import compare
from perfmagic.analysis.bench.comparison import Comparison
from perfmagic.analysis.bench.result import BenchSummary
from perfmagic.analysis.bench.saved import Saved, damaged, parsed
from perfmagic.analysis.bench.trend import are_sizes, growth_in_words, is_number, variants_in_words
from perfmagic.analysis.rows import Rows
from perfmagic.errors import OptionError

if TYPE_CHECKING:
    import pandas as pd
    from typing_extensions import Self

FORMAT = "perfmagic sweep 2"
_FORMATS = ("perfmagic sweep 1", FORMAT)  # comparisons are computed anew from the results


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


@dataclass(frozen=True, eq=False)
class SweepSummary(Saved):
    """A cell measured with a variable set to each of some values.

    name: of the variable.  values: in the order measured.  results: one tuple per value, one result per variant.
    comparisons: one tuple per value: each variant but the first against the first; () without variants.
    failed: what ended it early, at which value; `values` are those that were measured.
    """

    name: str
    values: tuple[Any, ...]
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
        )

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
            return variants_in_words(self.name, self.values, self.comparisons)
        return growth_in_words(self.name, self.values, self.variant(0))

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
    def from_json(cls, text: str) -> SweepSummary:
        """The sweep that to_json() wrote; values that are neither numbers nor text come back as their repr.

        Raises OptionError for other text.
        """
        data = parsed(text, _FORMATS, "sweep", hint="SweepResult.to_json() writes one")
        try:
            results = [[BenchSummary.from_json(json.dumps(one)) for one in row] for row in data["results"]]
            return sweep_result(data["name"], data["values"], results, failed=data.get("failed", ""))
        except (LookupError, TypeError, ValueError, AttributeError) as error:
            raise damaged("sweep", error) from None

    def to_frame(self) -> pd.DataFrame:
        """One row per value and variant. Needs pandas."""
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
