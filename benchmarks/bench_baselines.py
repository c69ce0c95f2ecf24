"""Do baselines of other processes raise false alarms? Equal code, recorded in many processes, calm and busy.

    python benchmarks/bench_baselines.py [--times N] [--out FILE]

Each of N (12) processes records five functions with testing.record_baseline(), four runs of 0.2 s. Then N more do so
while two processes start Python again and again. Every two recordings of a function are compared: the code is equal, so
each "faster" or "slower" is false. Prints a row for each function and kind of pair:

    medians_us   the least and the largest median of a recording of each kind
    false        verdicts that are neither "same" nor "unclear"
    beyond_3     how many there would be if changes beyond ± 3 % counted
    farthest     the largest distance of an interval from 1 on its nearer side: what no band below it forgives

The matrix product has one thread: threads that wait for each other take any time where other processes keep cores busy.
"""

import argparse
import collections
import contextlib
import itertools
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import numpy as np
import rows
import torch

import perfmagic
from perfmagic.base.numerics.stats import BAND_SEPARATE
from perfmagic.results import BenchResult

MATRIX = torch.ones(64, 64)
VALUES = np.random.default_rng(0).random(20_000)
WORDS = [str(i) for i in range(500)]
BODIES: dict[str, Callable[[], object]] = {
    "list": lambda: sum([i * i for i in range(2000)]),
    "generator": lambda: sum(i * i for i in range(2000)),
    "dict": lambda: {word: len(word) for word in WORDS},
    "sort": lambda: np.sort(VALUES),
    "product": lambda: MATRIX @ MATRIX,
}
NEIGHBOUR = (
    "import subprocess, sys\nwhile True: subprocess.run([sys.executable, '-c', 'import json, decimal, asyncio'])"
)


def record(folder: str) -> None:
    """Record every function in this process."""
    torch.set_num_threads(1)
    for name, body in BODIES.items():
        perfmagic.testing.record_baseline(body, name, baselines=Path(folder), time=0.2)


@contextlib.contextmanager
def neighbours(n: int) -> Iterator[None]:
    """Processes that start others, as long as the block lasts."""
    started = [subprocess.Popen([sys.executable, "-c", NEIGHBOUR]) for _ in range(n)]
    try:
        yield
    finally:
        for process in started:
            process.kill()
            process.wait()


def recordings(given: argparse.Namespace, folder: Path) -> dict[str, list[tuple[str, BenchResult]]]:
    """The recordings of each function, with the kind of machine."""
    found: dict[str, list[tuple[str, BenchResult]]] = {name: [] for name in BODIES}
    for kind, n in (("calm", 0), ("busy", 2)):
        with neighbours(n):
            for i in range(given.times):
                place = folder / f"{kind}{i}"
                subprocess.run([sys.executable, __file__, "--record", str(place)], check=True)
                for name, results in found.items():
                    results.append((kind, BenchResult.load(place / f"{name}.json")))
    return found


def judged_pairs(name: str, results: Sequence[tuple[str, BenchResult]]) -> Iterator[rows.Row]:
    """A row for each kind of pair."""
    verdicts: dict[tuple[str, str], list[tuple[str, float, float]]] = collections.defaultdict(list)
    medians_us = {kind: [r.returns_s * 1e6 for k, r in results if k == kind] for kind, _ in results}
    spans = {kind: f"{min(found):.1f} to {max(found):.1f}" for kind, found in medians_us.items()}
    for (kind, first), (other_kind, other) in itertools.combinations(results, 2):
        row = perfmagic.compare(first, other).comparisons[0]
        verdicts[kind, other_kind].append((row.verdict, row.ratio_low or 0.0, row.ratio_high or np.inf))
    for kinds, found in verdicts.items():
        yield {
            "function": name,
            "pair": " and ".join(kinds),
            "medians_us": ", ".join(spans[kind] for kind in dict.fromkeys(kinds)),
            "pairs": len(found),
            "false": sum(verdict not in ("same", "unclear") for verdict, *_ in found),
            "beyond_3": sum(low > 1 + BAND_SEPARATE or high < 1 / (1 + BAND_SEPARATE) for _, low, high in found),
            "farthest": max(max(low, 1 / high, 1.0) for _, low, high in found),
        }


def main(args: Sequence[str] | None = None) -> None:
    """Record, compare and print."""
    parser = rows.parser_of(__doc__)
    parser.add_argument("--times", type=int, default=12, metavar="N")
    parser.add_argument("--record", metavar="FOLDER", help=argparse.SUPPRESS)
    given = parser.parse_args(args)
    if given.record:
        record(given.record)
        return
    with tempfile.TemporaryDirectory() as folder:
        found = recordings(given, Path(folder))
    rows.write(given.out, [rows.printed(row) for name, results in found.items() for row in judged_pairs(name, results)])


if __name__ == "__main__":
    main()
