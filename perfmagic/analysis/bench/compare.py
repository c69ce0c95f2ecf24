"""Is one benchmark faster than another: the ratio of their medians, and one of four verdicts."""

from __future__ import annotations

import json
import math
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from perfmagic.analysis.bench.conditions import option
from perfmagic.analysis.bench.result import BenchResult, Quantity
from perfmagic.analysis.bench.saved import Saved, damaged, parsed
from perfmagic.analysis.bench.separate_runs import Apart, apart
from perfmagic.analysis.rows import Rows
from perfmagic.errors import OptionError
from perfmagic.numerics.ratio import BAND, FEWEST, FEWEST_99, judged, ratio, ratio_interval
from perfmagic.numerics.stats import Float64
from perfmagic.units import NBSP, duration_s, plural, significant

if TYPE_CHECKING:
    import pandas as pd

# not in turns: memory layout and clocks move the medians of two runs by about as much (docs/measuring.md, "Comparing",
# of runs of two processes; those of one lie no closer)
BAND_APART = 0.03
CLOCKS_APART = 0.02  # docs/measuring.md, "Comparing": beyond it no verdict from time alone
QUANTITIES = ("done", "span", "returns", "queued")  # the first that both have is compared
ORDINALS = {1: "second", 2: "third"}
# what the empty loop and two looks at the clock take at least, 0.11 to 0.35 µs (docs/measuring.md, "Preparation"):
# what is subtracted for them is no surer than that
CLOCK_S = 0.1e-6
_MACHINE = ("system", "machine", "cores")  # of an environment: what no two results that differ there share
IN_TURNS = "take them in turns, with --vs or perfmagic.compare(f, g)"
FORMAT = "perfmagic comparison 1"


@dataclass(frozen=True)
class Comparison:
    """One benchmark against another.

    quantity: what is compared.  ratio: how many times as fast it is, above 1 it is faster: of samples taken in turns
    the median of the turns' ratios, else the baseline's median by its own; 0 where one takes no time.  low, high: 95 %
    interval of the ratio, None where there are too few samples; not in turns it reaches over what else was seen
    (perfmagic.analysis.bench.separate_runs).  band: a change within it is "same".
    verdict: faster, slower, same or unclear.  why: what it rests on, or what stands in its way, and what to do.
    """

    baseline: str
    name: str
    quantity: str
    baseline_s: float
    name_s: float
    ratio: float
    low: float | None
    high: float | None
    band: float
    interleaved: bool
    verdict: str
    why: str

    @property
    def sentence(self) -> str:
        """What a reader wants to know first."""
        times = f"{self.quantity} {duration_s(self.name_s)} against {duration_s(self.baseline_s)}"
        return f"{self.words}: {times}, {self.ratio_words}; {self.why}"

    @property
    def words(self) -> str:
        """The verdict with both names: "B is 2.5 times as fast as A"."""
        if self.verdict == "faster":
            return f"{self.name} is {significant(self.ratio, 3)} times as fast as {self.baseline}"
        if self.verdict == "slower":
            return f"{self.name} is slower than {self.baseline}"
        if self.verdict == "same":
            return f"{self.name} is as fast as {self.baseline}"
        return f"unclear whether {self.name} is faster than {self.baseline}"

    @property
    def ratio_words(self) -> str:
        """The ratio with its interval, "× 2.51 [2.40, 2.58]"."""
        if self.low is None or self.high is None:
            return f"× {self.ratio:.3g}"
        digits = 3 if self.high - self.low < 0.02 else 2
        return f"× {self.ratio:.{digits}f} [{self.low:.{digits}f}, {self.high:.{digits}f}]"

    def to_dict(self) -> dict[str, Any]:
        """All fields, ready for JSON."""
        return {**asdict(self), "sentence": self.sentence}


@dataclass(frozen=True, eq=False)
class CompareResult(Saved):
    """Some benchmarks against the first of them. comparisons: one of each other.  results: all of them, in order."""

    comparisons: Rows[Comparison]
    results: tuple[BenchResult, ...]

    @property
    def verdict(self) -> str:
        """Of two: faster, slower, same or unclear. Of more: that of each, by comma."""
        return ", ".join(comparison.verdict for comparison in self.comparisons)

    @property
    def ratio(self) -> float:
        """Of the first comparison: how many times as fast."""
        return self.comparisons[0].ratio

    def to_dict(self) -> dict[str, Any]:
        """The comparisons and all results, ready for JSON."""
        return {
            "format": FORMAT,
            "comparisons": [comparison.to_dict() for comparison in self.comparisons],
            "results": [result.to_dict() for result in self.results],
        }

    @classmethod
    def from_json(cls, text: str) -> CompareResult:
        """The comparison that to_json() wrote, judged anew from its results. Raises OptionError for other text."""
        data = parsed(text, (FORMAT,), "comparison", hint="CompareResult.to_json() writes one")
        try:
            results = tuple(BenchResult.from_json(json.dumps(one)) for one in data["results"])
            return cls(compare(*results, quantity=data["comparisons"][0]["quantity"]), results)
        except (LookupError, TypeError, ValueError, AttributeError) as error:
            raise damaged("comparison", error) from None

    def to_frame(self) -> pd.DataFrame:
        """One row a comparison. Needs pandas."""
        return self.comparisons.to_frame()

    def __repr__(self) -> str:
        return "\n".join(comparison.sentence for comparison in self.comparisons)


def compare(baseline: BenchResult, *others: BenchResult, quantity: str | None = None) -> Rows[Comparison]:
    """Each of some benchmarks against the first.

    quantity: "returns", "done" or "span"; left out, the first of done, span and returns that all of them have.
    Raises OptionError where they have none in common.
    """
    if not others:
        raise OptionError("compare: at least two results are needed, a baseline and another")
    chosen = _quantity((baseline, *others), quantity)
    return Rows((_comparison(baseline, other, chosen, i) for i, other in enumerate(others, 1)), Comparison)


def _quantity(results: tuple[BenchResult, ...], wanted: str | None) -> str:
    if wanted is not None and wanted not in QUANTITIES:
        raise OptionError(f"compare: {wanted!r} is no quantity", hint="one of " + ", ".join(QUANTITIES))
    for name in QUANTITIES if wanted is None else (wanted,):
        if all(name in result.quantities for result in results):
            return name
    have = "; ".join(f"{_name(r, i)}: {', '.join(r.quantities) or 'nothing'}" for i, r in enumerate(results))
    what = f"{wanted} was not measured in all" if wanted else "no quantity that all have"
    hint = {"queued": "-n 50 measures it where a device works", "span": "%%syncbench measures it where a device works"}
    raise OptionError(
        f"compare: {what} ({have})", hint=hint.get(wanted or "", "measure all of them where a device works")
    )


def _name(result: BenchResult, number: int) -> str:
    return result.name or named_by_place(number)


def named_by_place(number: int) -> str:
    """What a result without a name is called in a comparison."""
    return "baseline" if number == 0 else f"result {number + 1}"


def _comparison(baseline: BenchResult, other: BenchResult, quantity: str, number: int) -> Comparison:
    first, second = baseline.quantities[quantity], other.quantities[quantity]
    interleaved = bool(baseline.round_id) and baseline.round_id == other.round_id
    series = np.array(second.samples_s), np.array(first.samples_s)
    far = None if interleaved else apart(baseline, other, quantity)
    if interleaved:
        interval = ratio_interval(*series, interleaved=True)
    else:
        interval = (far.low, far.high) if far is not None else None
    band = BAND if interleaved else BAND_APART
    verdict, why = _judged(baseline, other, (first, second), interval, band, far)
    if interleaved and verdict in ("faster", "slower") and judged(_wider(series), band) != verdict:
        # turns go on until the verdict is clear: it was looked for more than once (perfmagic.capture.bench.interleave)
        verdict, why = (
            "unclear",
            f"nearly {verdict}: {_not_sure(baseline, min(map(len, series)))}",
        )
    if (
        interleaved
        and interval
        and second.median_s
        and not interval[0] <= first.median_s / second.median_s <= interval[1]
    ):
        why += "; both changed during the run: the ratio is of what ran next to each other, not of the two medians"
    names = _name(baseline, 0), _name(other, number)
    if names[0] == names[1]:
        names = f"{names[0]} (first)", f"{names[1]} ({ORDINALS.get(number, f'number {number + 1}')})"
    return Comparison(
        baseline=names[0],
        name=names[1],
        quantity=quantity,
        baseline_s=first.median_s,
        name_s=second.median_s,
        ratio=ratio(*series, interleaved=interleaved),
        low=interval[0] if interval else None,
        high=interval[1] if interval else None,
        band=band,
        interleaved=interleaved,
        verdict=verdict,
        why=why,
    )


def _judged(
    baseline: BenchResult,
    other: BenchResult,
    quantities: tuple[Quantity, Quantity],
    interval: tuple[float, float] | None,
    band: float,
    far: Apart | None,
) -> tuple[str, str]:
    """The verdict, and why.  far: of benchmarks that did not take turns."""
    unlike = _unlike(baseline, other)
    if unlike:
        return "unclear", unlike
    if interval is None:
        n = min(q.n for q in quantities)
        if n < FEWEST:
            enough = option(baseline, "samples", str(FEWEST))
            return "unclear", f"{plural(n, 'sample')} are too few for an interval: {enough} or more"
        return "unclear", "one of them takes no time that the clock can see"
    calls = min(baseline.calls_per_sample, other.calls_per_sample)
    verdict = judged(interval, band)
    if abs(quantities[0].median_s - quantities[1].median_s) * calls < CLOCK_S and verdict in ("faster", "slower"):
        return "unclear", "they differ by less than a look at the clock takes: let one call do more"
    if verdict == "unclear":
        reach = f"the interval reaches over the band of ± {significant(band * 100, 1)}{NBSP}%"
        if far is None:
            return verdict, f"{reach}: {_longer(baseline)}"
        return verdict, f"{_seen(far, band) or reach}: {IN_TURNS}{_runs_advice(far, baseline)}"
    how = "taken in turns" if far is None else f"{_runs_in_words(far)}, one after the other"
    return verdict, f"{how}; ± {significant(band * 100, 1)}{NBSP}% counts as the same"


def _seen(far: Apart, band: float) -> str:
    """What makes a difference unsure that the samples alone would be sure of; empty where they are not."""
    if judged(far.of_samples, band) == "unclear":
        return ""
    speed = far.host_speed
    if speed is not None and not 1 / (1 + band) <= speed <= 1 + band:
        during, times = ("second", speed) if speed > 1 else ("first", 1 / speed)
        return f"a fixed loop beside the samples ran {significant(times, 3)} times as fast during the {during} of them"
    return "their whole runs overlap" if max(far.runs) > 1 else ""


def _runs_advice(far: Apart, baseline: BenchResult) -> str:
    return "" if min(far.runs) > 1 else f", or each again with {option(baseline, 'runs', '5')}"


def _runs_in_words(far: Apart) -> str:
    first, second = far.runs
    return f"{plural(first, 'run')} each" if first == second else f"{first} and {second} runs"


def _wider(series: tuple[Float64, Float64]) -> tuple[float, float]:
    """The interval at 99 %, everything where there are too few samples for one."""
    return ratio_interval(*series, interleaved=True, level=0.99) or (0.0, math.inf)


def _unlike(baseline: BenchResult, other: BenchResult) -> str:
    """What besides the code may make the difference, and what to do; empty where nothing does."""
    if baseline.device_label != other.device_label:
        devices = " and ".join(result.device_label or "the CPU" for result in (baseline, other))
        return f"measured on different devices, {devices}: measure both on one"
    machines = [[result.environment.get(key) for key in _MACHINE] for result in (baseline, other)]
    if machines[0] != machines[1] and baseline.environment and other.environment:
        words = " and ".join(" ".join(str(part) for part in machine) + " cores" for machine in machines)
        return f"measured on different machines, {words}: measure both on one"
    if bool(baseline.cold_bytes) != bool(other.cold_bytes):
        cold = option(baseline, "cold", "True")
        return f"one found cold caches, the other warm ones: take both with {cold}, or both without"
    mhz = _clocks_apart(baseline, other)
    if mhz is not None:
        return (
            f"the GPU ran at {mhz[0]:.0f} and at {mhz[1]:.0f}{NBSP}MHz: its clock alone may make the difference; take "
            "them in turns, or lock the clock with nvidia-smi -lgc"
        )
    return ""


def _clocks_apart(baseline: BenchResult, other: BenchResult) -> tuple[float, float] | None:
    """The median clocks of the first GPU that ran at different ones, in MHz."""
    for one in baseline.clocks:
        for two in other.clocks:
            if one.device == two.device:
                mhz = float(np.median(one.sm_mhz)), float(np.median(two.sm_mhz))
                if abs(mhz[0] - mhz[1]) > CLOCKS_APART * max(mhz):
                    return mhz
    return None


def _not_sure(baseline: BenchResult, n: int) -> str:
    """Why 95 % are not enough for samples in turns, and what would help."""
    if n < FEWEST_99:
        enough = option(baseline, "samples", str(FEWEST_99))
        return f"{plural(n, 'sample')} are too few for an interval of 99{NBSP}%: {enough} or more"
    return f"at 99{NBSP}% the interval would reach over the band: {_longer(baseline)}"


def _longer(baseline: BenchResult) -> str:
    taken = baseline.settings.get("samples")
    if isinstance(taken, int):
        return f"a calmer machine helps, or more: {option(baseline, 'samples', str(4 * taken))}"
    given_s = baseline.settings.get("time_s")
    longer_s = 10 * given_s if isinstance(given_s, (int, float)) else 20
    return f"a calmer machine helps, or longer: {option(baseline, 'time_s', f'{longer_s:g}')}"
