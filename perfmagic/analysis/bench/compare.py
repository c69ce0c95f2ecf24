"""Is one benchmark faster than another: each of some against the first."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from perfmagic.analysis.bench.comparison import Comparison
from perfmagic.analysis.bench.judge import judge
from perfmagic.analysis.bench.result import BenchSummary
from perfmagic.analysis.bench.saved import Saved, damaged, parsed
from perfmagic.analysis.rows import Rows
from perfmagic.errors import OptionError
from perfmagic.flags import called, option

if TYPE_CHECKING:
    import pandas as pd

__all__ = ["FORMAT", "QUANTITIES", "CompareSummary", "Comparison", "compare", "named_by_place"]

QUANTITIES = ("done", "span", "returns", "queued")  # the first that both have is compared
ORDINALS = {1: "second", 2: "third"}
FORMAT = "perfmagic comparison 2"
_FORMATS = ("perfmagic comparison 1", FORMAT)  # verdicts are computed anew from the results


@dataclass(frozen=True, eq=False)
class CompareSummary(Saved):
    """Some benchmarks against the first of them.

    comparisons: one per other benchmark.  results: all of them, in order.
    """

    comparisons: Rows[Comparison]
    results: tuple[BenchSummary, ...]

    @property
    def verdict(self) -> str:
        """faster, slower, same or unclear; of more than two benchmarks those of all, separated by commas."""
        return ", ".join(comparison.verdict for comparison in self.comparisons)

    @property
    def ratio(self) -> float:
        """How many times as fast as the baseline the second benchmark is."""
        return self.comparisons[0].ratio

    def to_dict(self) -> dict[str, Any]:
        """The comparisons and all results, ready for JSON."""
        return {
            "format": FORMAT,
            "comparisons": [comparison.to_dict() for comparison in self.comparisons],
            "results": [result.to_dict() for result in self.results],
        }

    @classmethod
    def from_json(cls, text: str) -> CompareSummary:
        """The comparison that to_json() wrote, judged anew from its results. Raises OptionError for other text."""
        data = parsed(text, _FORMATS, "comparison", hint="CompareResult.to_json() writes one")
        try:
            results = tuple(BenchSummary.from_json(json.dumps(one)) for one in data["results"])
            return cls(compare(*results, quantity=data["comparisons"][0]["quantity"]), results)
        except (LookupError, TypeError, ValueError, AttributeError) as error:
            raise damaged("comparison", error) from None

    def to_frame(self) -> pd.DataFrame:
        """One row per comparison. Needs pandas."""
        return self.comparisons.to_frame()

    def __repr__(self) -> str:
        return "\n".join(comparison.sentence for comparison in self.comparisons)


def compare(baseline: BenchSummary, *others: BenchSummary, quantity: str | None = None) -> Rows[Comparison]:
    """Each of some benchmarks against the first.

    quantity: "returns", "done" or "span"; left out, the first of done, span and returns that all of them have.
    Raises OptionError where they have none in common.
    """
    if not others:
        raise OptionError("compare: at least two results are needed, a baseline and another")
    chosen = _quantity((baseline, *others), quantity)
    return Rows((_comparison(baseline, other, chosen, i) for i, other in enumerate(others, 1)), Comparison)


def _quantity(results: tuple[BenchSummary, ...], wanted: str | None) -> str:
    if wanted is not None and wanted not in QUANTITIES:
        raise OptionError(f"compare: {wanted!r} is no quantity", hint="one of " + ", ".join(QUANTITIES))
    for name in QUANTITIES if wanted is None else (wanted,):
        if all(name in result.quantities for result in results):
            return name
    have = "; ".join(f"{_name(r, i)}: {', '.join(r.quantities) or 'nothing'}" for i, r in enumerate(results))
    what = f"{wanted} was not measured in all" if wanted else "no quantity that all have"
    magic = results[0].magic
    with_what = {"queued": option(magic, "calls", 50), "span": called(magic, "syncbench")}
    raise OptionError(
        f"compare: {what} ({have})",
        hint=f"{with_what[wanted]} measures it where a device works"
        if wanted in with_what
        else "measure all of them where a device works",
    )


def _name(result: BenchSummary, number: int) -> str:
    return result.name or named_by_place(number)


def named_by_place(number: int) -> str:
    """What a result without a name is called in a comparison."""
    return "baseline" if number == 0 else f"result {number + 1}"


def _comparison(baseline: BenchSummary, other: BenchSummary, quantity: str, number: int) -> Comparison:
    found = judge(baseline, other, quantity)
    low, high = found.interval or (None, None)
    names = _name(baseline, 0), _name(other, number)
    if names[0] == names[1]:
        names = f"{names[0]} (first)", f"{names[1]} ({ORDINALS.get(number, f'number {number + 1}')})"
    return Comparison(
        baseline=names[0],
        name=names[1],
        quantity=quantity,
        baseline_s=baseline.quantities[quantity].median_s,
        name_s=other.quantities[quantity].median_s,
        ratio=found.ratio,
        ratio_low=low,
        ratio_high=high,
        band_frac=found.band_frac,
        interleaved=found.interleaved,
        verdict=found.verdict,
        why=found.why,
        note=found.note,
    )
