"""Does perfmagic.compare tell the truth: false alarms for equal code, and true differences found?

    python benchmarks/bench_verdicts.py [--repetitions N] [--slower N] [--apart N] [--out FILE]

A/A: two functions of the same code are compared N times (400). Every "faster" or "slower" is a false verdict.
Slower by 5 % and by 10 %: the second function does so much more of the same work, --slower times each (100).
Wanted: at most 1 % false verdicts, "same" in at least 60 %; 5 % found in at least 80 %, 10 % in at least 95 %; a
comparison may take 10 s.

Beside it, on the same bodies in the same minute, what a notebook usually does: as many samples of the one, then of the
other, and Welch's t-test at 5 %. (From 100 samples on its distribution is the normal one within 0.4 %.)

One after the other: with --apart N (0) two functions are benchmarked each by itself, N times of the same code and N of
which the second does half as much again, with one run of 1 s and with --runs 4 of them; then their results are compared
as they are, and by their samples alone, without the fixed loop that was measured beside them and without their runs.

Prints a table and writes the same as JSON with machine and versions.
"""

import collections
import math
import statistics
import time
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import Any

import rows

import perfmagic
from perfmagic.analysis.bench.result import Quantity

WORK = 6000  # numbers to add up: about 100 µs
LEAST_SAMPLES = 100  # for the t-test
VERDICTS = ("faster", "slower", "same", "unclear")


def body(work: int) -> Callable[[], int]:
    """A function that adds up so many numbers."""
    return lambda: sum(range(work))


def t_test(first: Callable[[], int], second: Callable[[], int], n: int) -> bool:
    """Whether Welch's test calls them different, one measured after the other."""
    means, errors = [], []
    for function in (first, second):
        taken = []
        for _ in range(n):
            start = time.perf_counter_ns()
            function()
            taken.append(time.perf_counter_ns() - start)
        means.append(statistics.fmean(taken))
        errors.append(statistics.variance(taken) / n)
    t = abs(means[0] - means[1]) / math.sqrt(sum(errors))
    return math.erfc(t / math.sqrt(2)) < 0.05


def run(more: float, repetitions: int) -> dict[str, Any]:
    """Verdicts over functions of which the second does `more` of the work of the first in addition."""
    verdicts: collections.Counter[str] = collections.Counter()
    alarms, seconds, samples = 0, [], []
    for i in range(repetitions):
        first, second = body(WORK), body(round(WORK * (1 + more)))
        start = time.perf_counter()
        found = perfmagic.compare(first, second)
        seconds.append(time.perf_counter() - start)
        n = len(found.results[0].quantities["returns"].samples_s)
        samples.append(n)
        verdicts[found.verdict] += 1
        alarms += t_test(first, second, max(LEAST_SAMPLES, n))
        if (i + 1) % 50 == 0:
            print(f"  {i + 1}: {dict(verdicts)}, t-test {alarms}", flush=True)
    shares = {name: verdicts[name] / repetitions for name in VERDICTS}
    return {
        "second_does_more_frac": more,
        "repetitions": repetitions,
        **shares,
        "seconds_median": statistics.median(seconds),
        "seconds_most": max(seconds),
        "samples_median": statistics.median(samples),
        "t_test_different": alarms / repetitions,
    }


def run_apart(more: float, repetitions: int, runs: int) -> dict[str, Any]:
    """The same for results of benchmarks that were taken one after the other."""
    as_they_are: collections.Counter[str] = collections.Counter()
    alone: collections.Counter[str] = collections.Counter()
    for _ in range(repetitions):
        results = [perfmagic.bench(body(round(WORK * (1 + extra))), time=1, runs=runs) for extra in (0.0, more)]
        as_they_are[perfmagic.compare(*results).verdict] += 1
        bare = [replace(one, reference_s=(), returns=Quantity.of(one.returns.samples_s)) for one in results]
        alone[perfmagic.compare(*bare).verdict] += 1
    return {
        "one_after_the_other_second_does_more_frac": more,
        "repetitions": repetitions,
        "runs": runs,
        **{name: as_they_are[name] / repetitions for name in VERDICTS},
        **{f"{name}_by_samples_alone": alone[name] / repetitions for name in VERDICTS},
    }


def main() -> None:
    """Measure and print."""
    parser = rows.parser_of(__doc__)
    parser.add_argument("--repetitions", type=int, default=400)
    parser.add_argument("--slower", type=int, default=100)
    parser.add_argument("--apart", type=int, default=0)
    given = parser.parse_args()
    parts = [partial(run, 0.0, given.repetitions)] if given.repetitions else []
    parts += [partial(run, more, given.slower) for more in (0.05, 0.10) if given.slower]
    parts += [partial(run_apart, more, given.apart, runs) for runs in (1, 4) for more in (0.0, 0.5) if given.apart]
    rows.write(given.out, [rows.printed(part()) for part in parts])


if __name__ == "__main__":
    main()
