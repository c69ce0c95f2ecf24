"""How often does the 95 % interval of a benchmark hold the true median, with the stopping rule deciding when to end?

    python benchmarks/bench_coverage.py [--series N] [--real SECONDS] [--out FILE]

Simulated: N series (2000) of each kind, fed to the stopping rule of %%bench sample by sample until it ends; the truth
is known. Kinds: independent (lognormal, spread 5 %), autocorrelated (first order, ρ = 0.3, 0.6 and 0.9, normal),
drifting (2 % over the longest run), with outliers (3 % of samples three times as long). Where a series drifts the truth
is the median of what was running while samples were taken. Wanted: within 3 points of 95 %.

Looked at: pairs of series as a comparison in turns takes them, on a machine whose speed steps by 1.8 every 400 samples
and whose samples have spikes, looked at after every 25 % more until the verdict is clear; how many of equal bodies are
called different, and after how many samples a body that takes 5 % more is found, if each look asks for 95 % or for
what perfmagic asks for.

Real: one long series of a body of about 100 µs is taken for so many seconds. Figures that are not the same:
    within the run   the series is cut into runs of 2000; every fifth sample of one is given to the stopping rule. How
                     often does its interval hold the median of that run? What changes the machine's speed meets both.
    a little later   400 samples in a row are given to the rule. How often does its interval hold the median of the next
                     400? Where a machine is shared that is another question, and the interval does not answer it.
    between runs     the spread of medians of whole runs in new processes: (largest - smallest) / median of 8 runs

Prints a table and writes the same as JSON with machine and versions.
"""

import collections
import itertools
import statistics
import subprocess
import sys
from collections.abc import Callable, Iterator

import numpy as np
import rows

from perfmagic.base.numerics import stats
from perfmagic.base.numerics.stats import BAND, judged, ratio_interval
from perfmagic.capture.bench.spec import MORE_FRAC, SURE_LEVEL, StoppingRule

CALL_S = 1e-3  # what the clock of a simulated series goes on by with each sample
MOST = 2000  # samples of --time 2 at 1 ms each
SPREAD = 0.05
RUN = (
    "import perfmagic, sys; r = perfmagic.bench(lambda: sum(range(5000)), time=1.0);"
    "print(r.returns_s, r.returns.low_s, r.returns.high_s)"
)


def independent(random: np.random.Generator) -> tuple[np.ndarray, Callable[[int], float]]:
    """A lognormal series and its median."""
    return np.exp(random.normal(0, SPREAD, MOST)), lambda _n: 1.0


def autocorrelated(rho: float) -> Callable[[np.random.Generator], tuple[np.ndarray, Callable[[int], float]]]:
    """A first-order autoregressive series around 1."""

    def make(random: np.random.Generator) -> tuple[np.ndarray, Callable[[int], float]]:
        noise = random.normal(0, SPREAD * np.sqrt(1 - rho**2), MOST)
        series = np.empty(MOST)
        series[0] = random.normal(0, SPREAD)
        for i in range(1, MOST):
            series[i] = rho * series[i - 1] + noise[i]
        return 1 + series, lambda _n: 1.0

    return make


def drifting(random: np.random.Generator) -> tuple[np.ndarray, Callable[[int], float]]:
    """A normal series that rises by 2 %; the truth after n samples is the middle of the way gone so far."""
    rise = np.linspace(0, 0.02, MOST)
    return 1 + rise + random.normal(0, SPREAD, MOST), lambda n: 1 + float(rise[: max(1, n)].mean())


def outlying(random: np.random.Generator) -> tuple[np.ndarray, Callable[[int], float]]:
    """A lognormal series of which 3 % are three times as long; its median moves up by that share."""
    series = np.exp(random.normal(0, SPREAD, MOST)) * np.where(random.random(MOST) < 0.03, 3.0, 1.0)
    truth = float(np.exp(SPREAD * statistics.NormalDist().inv_cdf(0.5 / 0.97)))
    return series, lambda _n: truth


KINDS = {
    "independent": independent,
    "autocorrelated 0.3": autocorrelated(0.3),
    "autocorrelated 0.6": autocorrelated(0.6),
    "autocorrelated 0.9": autocorrelated(0.9),
    "drifting": drifting,
    "outliers": outlying,
}


def stopped(series: np.ndarray, call_s: float = CALL_S) -> tuple[int, tuple[float, float] | None]:
    """Where the rule ends a series, and the interval reported then."""
    rule = StoppingRule()
    n = 0
    for value in series.tolist():
        n += 1
        rule.add((value,), n * call_s)
        if rule.finished:
            break
    return n, stats.median_interval(series[:n])


def holds(samples: np.ndarray, truth: float) -> bool:
    """Whether the interval reported where the rule ends holds a value."""
    _, interval = stopped(samples, float(np.median(samples)))
    return interval is not None and interval[0] <= truth <= interval[1]


def simulated(n_series: int) -> Iterator[dict[str, object]]:
    """Coverage of each kind."""
    random = np.random.default_rng(20)
    for name, make in KINDS.items():
        held, lengths, widths = 0, [], []
        for _ in range(n_series):
            series, truth = make(random)
            n, interval = stopped(series)
            assert interval is not None
            held += interval[0] <= truth(n) <= interval[1]
            lengths.append(n)
            widths.append((interval[1] - interval[0]) / 2)
        yield {
            "series": name,
            "coverage": held / n_series,
            "samples_median": statistics.median(lengths),
            "half_width_median": statistics.median(widths),
        }


def looked_at(n_pairs: int, more: float, level: float) -> dict[str, object]:
    """What many looks at pairs of series end in, the second of which takes `more` in addition."""
    random = np.random.default_rng(5)
    verdicts: collections.Counter[str] = collections.Counter()
    lengths = []
    for _ in range(n_pairs):
        first, second = pair(random, more)
        n = 20
        while True:
            plain = judged(ratio_interval(second[:n], first[:n], interleaved=True) or (0, 9), BAND)
            sure = judged(ratio_interval(second[:n], first[:n], interleaved=True, level=level) or (0, 9), BAND)
            if plain == "same" or sure in ("faster", "slower") or n == len(first):
                break
            n = min(len(first), n + max(2, int(n * MORE_FRAC)))
        verdicts[plain] += 1
        lengths.append(n)
    shares = {name: verdicts[name] / n_pairs for name in ("faster", "slower", "same", "unclear")}
    name = f"looked at with {level}, second takes {more:.0%} more"
    return {"series": name, **shares, "samples_median": statistics.median(lengths)}


def pair(random: np.random.Generator, more: float) -> tuple[np.ndarray, np.ndarray]:
    """Two series that took turns, A B B A."""
    speed = 1 + 0.8 * (np.cumsum(random.random(2 * MOST) < 1 / 400) % 2)
    spikes = np.where(random.random(2 * MOST) < 0.08, random.uniform(1.3, 3, 2 * MOST), 1)
    taken = (speed * np.exp(random.normal(0, SPREAD, 2 * MOST)) * spikes).reshape(MOST, 2)
    back = np.arange(MOST) % 2 == 1
    taken[back] = taken[back, ::-1]
    return taken[:, 0], taken[:, 1] * (1 + more)


def real(seconds: float) -> list[dict[str, object]]:
    """Coverage within one long run, and the spread between runs."""
    import perfmagic

    long = perfmagic.bench(lambda: sum(range(5000)), time=seconds, samples=int(seconds / 120e-6), warmup=2000)
    assert long.returns is not None
    samples = np.array(long.returns.samples_s)
    runs = [samples[i : i + 2000] for i in range(0, len(samples) - 1999, 2000)]
    within = [holds(run[start::5], float(np.median(run))) for run in runs for start in range(5)]
    parts = [samples[i : i + 400] for i in range(0, len(samples) - 399, 400)]
    later = [holds(part, float(np.median(after))) for part, after in itertools.pairwise(parts)]
    medians = []
    for _ in range(8):
        words = subprocess.run([sys.executable, "-c", RUN], capture_output=True, text=True, check=True).stdout
        medians.append(float(words.split()[0]))
    spread = (max(medians) - min(medians)) / statistics.median(medians)
    return [
        {"series": "real, within the run", "coverage": statistics.mean(within), "intervals": len(within)},
        {"series": "real, a little later", "coverage": statistics.mean(later), "intervals": len(later)},
        {"series": "real, between 8 runs", "spread_of_medians": spread},
    ]


def measured(series: int, real_s: float) -> Iterator[dict[str, object]]:
    """All rows, each as soon as it is there."""
    yield from simulated(series)
    for more in (0.0, 0.05):
        for level in (0.95, SURE_LEVEL):
            yield looked_at(series // 5 + 1, more, level)
    if real_s:
        yield from real(real_s)


def main() -> None:
    """Measure and print."""
    parser = rows.parser_of(__doc__)
    parser.add_argument("--series", type=int, default=2000)
    parser.add_argument("--real", type=float, default=20.0, metavar="SECONDS")
    given = parser.parse_args()
    rows.write(given.out, map(rows.printed, measured(given.series, given.real)))


if __name__ == "__main__":
    main()
