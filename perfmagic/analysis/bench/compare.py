"""Is one benchmark faster than another: each of some against the first."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Any

import msgspec

from perfmagic.analysis.bench.judge import judge
from perfmagic.analysis.bench.quantity import is_far
from perfmagic.analysis.bench.result import BenchSummary
from perfmagic.analysis.bench.same_work import Check, has_fact
from perfmagic.analysis.bench.saved import Saved, damage_of, of_format, read_json
from perfmagic.base.errors import OptionError
from perfmagic.base.language import chained, phrase
from perfmagic.base.options import called, option
from perfmagic.base.units import duration_s, rough_times, significant
from perfmagic.trace.json_form import JsonForm, one_of, typed
from perfmagic.trace.rows import Rows

if TYPE_CHECKING:
    import pandas as pd


# One benchmark against another, in numbers and in words.


@dataclass(frozen=True)
class Comparison(JsonForm):
    """One benchmark against another.

    baseline: the name of the first.
    name: the name of the other.
    quantity: what is compared.
    baseline_s: the median of the first.
    name_s: the median of the other.
    baseline_mean_s: the mean of the first; far from its median where few calls take much of the time.
    name_mean_s: the mean of the other.
    ratio: how many times as fast as the first, above 1 is faster; 0 where one takes no time. Of interleaved
    samples it is the median of the ratios of pairs, else the ratio of the medians.
    ratio_low: lower end of its 95 % confidence interval; None for too few samples.
    ratio_high: its upper end; None for too few samples.
    band_frac: a change within it is the same, as a share.
    interleaved: whether the samples were interleaved.
    verdict: the verdict.
    why: what it rests on; where it is unclear or not comparable, the reason and what would help.
    note: what makes the ratio differ from that of the medians; empty where nothing does.
    predicted: whose times a GPU's model gave.
    not_comparable: why the two do not do the same work; None where nothing says so. There is no ratio then.
    checks: what was found about the work of both; none if it was not checked.
    sentence: all of it in one line.
    """

    computed = ("sentence",)

    baseline: str
    name: str
    quantity: str
    baseline_s: float
    name_s: float
    baseline_mean_s: float
    name_mean_s: float
    ratio: float
    ratio_low: float | None
    ratio_high: float | None
    band_frac: float
    interleaved: bool
    verdict: Annotated[str, one_of("faster", "slower", "same", "unclear", "not comparable")]
    why: str
    note: str = ""
    predicted: Annotated[str, one_of("none", "baseline", "name", "both")] = "none"
    not_comparable: str | None = None
    checks: tuple[Check, ...] = ()

    @property
    def sentence(self) -> str:
        """Verdict, times, ratio and reason in one line."""
        if self.not_comparable is not None:
            return phrase("{a}; {b}", a=self.words, b=self.times)
        first = phrase("{headline}, {ratio}", headline=self.headline, ratio=self.ratio_text)
        return chained("{a}; {b}", (first, self.why, self.note))

    @property
    def headline(self) -> str:
        """Verdict and times; of what is not comparable the reason alone."""
        return self.words if self.not_comparable is not None else phrase("{a}: {b}", a=self.words, b=self.times)

    @property
    def times(self) -> str:
        """Both medians, with the means that are far from them."""
        now = self._time("name", self.name_s, self.name_mean_s)
        before = self._time("baseline", self.baseline_s, self.baseline_mean_s)
        return phrase("{quantity} {now} against {before}", quantity=phrase(self.quantity), now=now, before=before)

    def _time(self, which: str, seconds: float, mean_s: float) -> str:
        """A median; "1.00 ms (mean 1.38 ms)", or "about 1.3 ms (predicted)" where a model gave it."""
        median = self.median(which, seconds)
        if self.predicted in (which, "both"):
            return phrase("about {time} (predicted)", time=median)
        if is_far(mean_s, seconds):
            return phrase("{median} (mean {mean})", median=median, mean=duration_s(mean_s))
        return median

    def median(self, which: str, seconds: float) -> str:
        """A time of one of the two, with two digits where a model gave it.  which: "name" or "baseline"."""
        with rough_times(wanted=self.predicted in (which, "both")):
            return duration_s(seconds)

    @property
    def explanation(self) -> str:
        """What a reader must know beside the verdict: why it is unclear, and the note; "" where nothing."""
        return chained("{a}; {b}", (self.why if self.verdict == "unclear" else "", self.note))

    @property
    def words(self) -> str:
        """The verdict with both names: "B is 2.5 times as fast as A"."""
        unchecked = has_fact(self.checks, "unchecked")
        return phrase("{words} (results not compared)", words=self._verdict_words) if unchecked else self._verdict_words

    @property
    def _verdict_words(self) -> str:
        if self.not_comparable is not None:
            return phrase("not comparable: {reason}", reason=self.not_comparable)
        names = {"name": self.name, "baseline": self.baseline}
        if self.predicted != "none" and self.verdict in ("faster", "slower"):
            how = phrase("faster") if self.verdict == "faster" else phrase("slower")
            return phrase("{name} is predicted to be {how} than {baseline}", how=how, **names)
        if self.verdict == "faster":
            return phrase("{name} is {ratio} times as fast as {baseline}", ratio=significant(self.ratio, 3), **names)
        if self.verdict == "slower":
            return phrase("{name} is slower than {baseline}", **names)
        if self.verdict == "same":
            return phrase("{name} is as fast as {baseline}", **names)
        return phrase("unclear whether {name} is faster than {baseline}", **names)

    @property
    def ratio_text(self) -> str:
        """The ratio with its interval, "× 2.51 [2.40, 2.58]"; "–" where there is none."""
        if self.not_comparable is not None:
            return "–"
        if self.ratio_low is None or self.ratio_high is None:
            return f"× {self.ratio:.3g}"
        low, high = self.ratio_low, self.ratio_high
        if self.ratio < 0.1 or high >= 100:  # decimals would erase small ratios and fill the line for large ones
            return f"× {significant(self.ratio, 2)} [{significant(low, 2)}, {significant(high, 2)}]"
        digits = 3 if high - low < 0.02 else 2
        return f"× {self.ratio:.{digits}f} [{low:.{digits}f}, {high:.{digits}f}]"


__all__ = ["FORMAT", "QUANTITIES", "CompareSummary", "Comparison", "compare", "named_by_place"]

QUANTITIES = ("done", "span", "returns", "queued")  # the first that both have is compared
ORDINALS = {1: "second", 2: "third"}
FORMAT = "perfmagic comparison 2"
_FORMATS = ("perfmagic comparison 1", FORMAT)  # verdicts are recomputed from the results


class _Judged(msgspec.Struct):
    quantity: str


class _Saved(msgspec.Struct):
    results: Annotated[tuple[Any, ...], msgspec.Meta(min_length=2)]
    comparisons: Annotated[tuple[_Judged, ...], msgspec.Meta(min_length=1)]


@dataclass(frozen=True, eq=False)
class CompareSummary(Saved):
    """Some benchmarks against the first of them.

    format: what kind of file it is.
    comparisons: one for each benchmark but the first.
    results: all benchmarks, in order.
    """

    leading = ("format",)

    comparisons: Rows[Comparison]
    results: tuple[BenchSummary, ...]

    @property
    def verdict(self) -> str:
        """faster, slower, same, unclear or not comparable; of more than two those of all, separated by commas."""
        return ", ".join(comparison.verdict for comparison in self.comparisons)

    @property
    def not_comparable(self) -> str | None:
        """Why they do not do the same work: the reason of the first that does not; None where nothing says so."""
        return next((c.not_comparable for c in self.comparisons if c.not_comparable is not None), None)

    @property
    def checks(self) -> Rows[Check]:
        """What was found about the work of all, one fact per row; those that refuse a verdict first."""
        return Rows((check for comparison in self.comparisons for check in comparison.checks), Check)

    @property
    def ratio(self) -> float:
        """How many times as fast as the baseline the second benchmark is; 0 where they are not comparable."""
        return self.comparisons[0].ratio

    @property
    def predicted(self) -> bool:
        """Whether models gave the times of all, which are then written with two digits."""
        return all(result.predicted for result in self.results)

    @property
    def format(self) -> Annotated[str, one_of(FORMAT)]:
        return FORMAT

    def to_dict(self) -> dict[str, Any]:
        """The comparisons and all results, ready for JSON."""
        return super().to_dict() | {"comparisons": [comparison.to_dict() for comparison in self.comparisons]}

    @classmethod
    def from_json(cls, text: str) -> CompareSummary:
        """The comparison that to_json() wrote, judged again from its results. Raises OptionError for other text."""
        data = of_format(read_json(text), _FORMATS, "comparison", hint="CompareResult.to_json() writes one")
        with damage_of("comparison"):
            saved = typed(data, _Saved)
            results = tuple(map(BenchSummary.from_plain, saved.results))
            return cls(compare(*results, quantity=saved.comparisons[0].quantity), results)

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
        raise OptionError(f"compare: {wanted!r} is not a quantity", hint="one of " + ", ".join(QUANTITIES))
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
    names = _name(baseline, 0), _name(other, number)
    if names[0] == names[1]:
        names = f"{names[0]} (first)", f"{names[1]} ({ORDINALS.get(number, f'number {number + 1}')})"
    judgement = judge(baseline, other, quantity, names)
    low, high = judgement.interval or (None, None)
    predicted = baseline.predicted, other.predicted
    return Comparison(
        predicted={(True, True): "both", (True, False): "baseline", (False, True): "name"}.get(predicted, "none"),
        baseline=names[0],
        name=names[1],
        quantity=quantity,
        baseline_s=baseline.quantities[quantity].median_s,
        name_s=other.quantities[quantity].median_s,
        baseline_mean_s=baseline.quantities[quantity].mean_s,
        name_mean_s=other.quantities[quantity].mean_s,
        ratio=judgement.ratio,
        ratio_low=low,
        ratio_high=high,
        band_frac=judgement.band_frac,
        interleaved=judgement.interleaved,
        verdict=judgement.verdict,
        why=judgement.why,
        note=judgement.note,
        not_comparable=judgement.why if judgement.verdict == "not comparable" else None,
        checks=judgement.checks,
    )
