"""Does %%bench measure what timeit, torch's Timer and pyperf measure, and in what time?

    python benchmarks/bench_accuracy.py [--rounds N] [--bodies NAME…] [--alone N] [--pyperf DIR] [--out FILE]

Bodies of some 10 ns, 1 µs, 100 µs and 10 ms, without names, which a cell looks up otherwise than a function does.

side by side  In each round (30) a %%bench cell measures the body, and between its samples timeit and torch's Timer take
              theirs, of as many calls, in an order drawn by lot, so that all of them meet the machine at the same
              speed. Said of a round: the median of the turns' ratios (of their differences for the shortest body), and
              the ratio of medians.
alone         Each tool by itself, one after the other, as its user runs it, and how long it takes. Between two of them
              a shared machine may change its speed, so this is --alone rounds (5) and no measure of agreement.

    perfmagic   a %%bench cell in an IPython shell; alone with its defaults but --time 1
    timeit      Timer.timeit(); alone Timer.autorange() and repeat(5) as `python -m timeit` does, the median of them
    torch       torch.utils.benchmark.Timer.timeit(); alone its blocked_autorange(min_run_time=1), its median
    pyperf      alone only, as it has processes of its own: `pyperf timeit -p 2 --fast`, its median; with --pyperf, a
                folder it is installed into with pip's --target

No peer takes its loop off, so it is taken off here, side by side; perfmagic does so by itself. Beside a body the loop
of a peer takes some 3 ns less than beside `pass`, where each round waits for the one before. So it is what the peer
measures for the shortest body written once and twice, 2 × once - twice. Wanted: perfmagic's median over each peer's
within 1 % in the median round (0.2 ns for the shortest body), at most 0.2 µs of loop a call, subtracted, and no more
time than they take.

Prints two tables and writes the same as JSON with machine and versions.
"""

import collections
import contextlib
import io
import json
import os
import random
import statistics
import subprocess
import sys
import tempfile
import time
import timeit
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any
from unittest.mock import patch

import numpy as np
import rows
from IPython.core.displaypub import CapturingDisplayPublisher
from IPython.core.interactiveshell import InteractiveShell
from torch.utils.benchmark import Timer

from perfmagic.results import BenchResult

BODIES = {
    "10 ns": "1 < 2",
    "1 µs": "'-'.join(('ab',) * 60)",
    "100 µs": "'-'.join(('ab',) * 6000)",
    "10 ms": "'-'.join(('ab',) * 600_000)",
}
SAMPLES = {"10 ns": 200, "1 µs": 200, "100 µs": 200, "10 ms": 40}
BLOCK_S = 2e-3  # of calls in a peer's sample, as in one of perfmagic's
LOOP_CALLS = 20_000  # of the shortest body, to find out what a peer's loop takes; 0.6 ms
LOOP_SEEN_S = 100e-6  # of a body: the loop of a longer one is below 0.02 %, and not taken off
Measured = tuple[float, float]  # seconds a call, seconds spent on it


def with_perfmagic(shell: Any, body: str) -> Measured:
    """A cell of a notebook."""
    start = time.perf_counter()
    result = with_cell(shell, "--time 1", body)
    return result.returns_s or 0.0, time.perf_counter() - start


def with_timeit(body: str) -> Measured:
    """As `python -m timeit`, but the median."""
    start = time.perf_counter()
    timer = timeit.Timer(body)
    number, _ = timer.autorange()
    each = [seconds / number for seconds in timer.repeat(5, number)]
    return statistics.median(each), time.perf_counter() - start


def with_torch(body: str) -> Measured:
    """torch's own."""
    start = time.perf_counter()
    found = Timer(body).blocked_autorange(min_run_time=1)
    return found.median, time.perf_counter() - start


def with_pyperf(body: str, folder: Path) -> Measured:
    """In processes of its own, as it works."""
    with tempfile.TemporaryDirectory() as scratch:
        out = Path(scratch) / "out.json"
        start = time.perf_counter()
        command = [sys.executable, "-m", "pyperf", "timeit", "-p", "2", "--fast", "--quiet", "-o", str(out), body]
        environ = {**os.environ, "PYTHONPATH": str(folder)}
        subprocess.run(command, check=True, capture_output=True, env=environ)
        spent = time.perf_counter() - start
        runs = json.loads(out.read_text("utf-8"))["benchmarks"][0]["runs"]
    return statistics.median(value for run in runs for value in run.get("values", ())), spent


def call_seconds(timer: Any, calls: int) -> float:
    """What a peer says a call takes, with its loop.

    With its own defaults timeit runs 0.2 s and more, and what ran before it does not matter. A sample of 2 ms beside
    those of others begins cold, so it makes the calls before it that torch's Timer makes by itself.
    """
    if isinstance(timer, timeit.Timer):
        timer.timeit(max(calls // 100, 2))
    found = timer.timeit(calls)
    return found / calls if isinstance(found, float) else float(found.median)


def loop_seconds(once: Any, twice: Any) -> float:
    """What a peer's loop takes a call. Right after each other, there and back: the machine changes its speed."""
    parts = [call_seconds(once, LOOP_CALLS), call_seconds(twice, LOOP_CALLS // 2)]
    parts += [call_seconds(twice, LOOP_CALLS // 2), call_seconds(once, LOOP_CALLS)]
    return parts[0] + parts[3] - (parts[1] + parts[2]) / 2


class Peers:
    """Takes a sample of each peer between two of perfmagic's. Stands in for the progress of a cell.

    A turn is one sample of each tool in an order drawn by lot, as what ran just before a sample is worth up to 1 %.
    """

    display_id = None
    stage = ""

    def __init__(self, body: str) -> None:
        calls, seconds = timeit.Timer(body).autorange()
        call_s = seconds / calls
        n_calls = max(1, round(BLOCK_S / call_s))
        self._timed: dict[str, Callable[[], float]] = {}
        shortest = BODIES["10 ns"]
        for peer, kind in (("timeit", timeit.Timer), ("torch", Timer)):
            self._timed[peer] = partial(call_seconds, kind(body), n_calls)
            if call_s < LOOP_SEEN_S:
                self._timed[f"{peer} loop"] = partial(loop_seconds, kind(shortest), kind(f"{shortest}; {shortest}"))
        self.taken: dict[str, list[float]] = {name: [] for name in self._timed}
        self._random = random.Random(1)
        self._later: list[str] = []  # those of this turn that come after perfmagic's sample

    def __call__(self, _so_far: object) -> None:
        """Take what is left of the last turn, and what comes before perfmagic's sample in the next."""
        self.finish()
        order = self._random.sample([*self._timed, ""], len(self._timed) + 1)
        self._take(order[: order.index("")])
        self._later = order[order.index("") + 1 :]

    def finish(self) -> None:
        """Take what is left of the last turn."""
        self._take(self._later)
        self._later = []

    def _take(self, names: list[str]) -> None:
        for name in names:
            self.taken[name].append(self._timed[name]())

    def samples(self, peer: str, n: int) -> np.ndarray:
        """Those of the last n turns, without the loop."""
        loop = self.taken.get(f"{peer} loop", ())[-n:]
        return np.array(self.taken[peer][-n:]) - (np.median(loop) if loop else 0.0)


def side_by_side(shell: Any, name: str) -> dict[str, dict[str, float]]:
    """One round of one body: what each peer's samples say beside perfmagic's."""
    peers = Peers(BODIES[name])
    with patch("perfmagic.magics.bench.Progress", lambda *_args, **_more: peers):
        result = with_cell(shell, f"-r {SAMPLES[name]}", BODIES[name])
    peers.finish()
    ours = np.array(result.returns.samples_s)
    found = {}
    for peer in ("timeit", "torch"):
        theirs = peers.samples(peer, len(ours))
        found[peer] = {
            "perfmagic_ns": result.returns_s * 1e9,
            "peer_ns": float(np.median(theirs)) * 1e9,
            "ratio_of_turns": float(np.median(ours / theirs)),
            "ratio_of_medians": result.returns_s / float(np.median(theirs)),
            "difference_of_turns_ns": float(np.median(ours - theirs)) * 1e9,
            "loop_ns": result.record.loop_overhead_s * 1e9,
        }
    return found


def with_cell(shell: Any, options: str, body: str) -> BenchResult:
    """What a cell of a notebook measures."""
    with contextlib.redirect_stdout(io.StringIO()):  # the cell's value
        shell.run_cell(f"%%bench -q -o measured {options}\n{body}")
    measured: BenchResult = shell.user_ns["measured"]
    return measured


def alone(tools: dict[str, Callable[[str], Measured]], rounds: int, names: list[str]) -> list[dict[str, Any]]:
    """Each tool by itself: the medians over the rounds."""
    taken: dict[tuple[str, str], list[Measured]] = collections.defaultdict(list)
    for number in range(rounds):
        order = [*tools][number % len(tools) :] + [*tools][: number % len(tools)]
        for name in names:
            for tool in order:
                taken[name, tool].append(tools[tool](BODIES[name]))
        print(f"alone: round {number + 1} of {rounds}", file=sys.stderr, flush=True)
    return [
        {
            "body": name,
            "tool": tool,
            "call_ns": statistics.median(call_s for call_s, _ in each) * 1e9,
            "spent_s": statistics.median(spent_s for _, spent_s in each),
        }
        for (name, tool), each in taken.items()
    ]


def main() -> None:
    """Measure and print."""
    parser = rows.parser_of(__doc__)
    parser.add_argument("--rounds", type=int, default=30)
    parser.add_argument("--bodies", nargs="+", choices=[*BODIES], default=[*BODIES])
    parser.add_argument("--alone", type=int, default=5, metavar="N")
    parser.add_argument("--pyperf", type=Path, metavar="DIR")
    given = parser.parse_args()
    shell = InteractiveShell.instance(display_pub_class=CapturingDisplayPublisher)
    shell.history_manager.enabled = False
    shell.run_line_magic("load_ext", "perfmagic")
    rounds: dict[str, list[dict[str, dict[str, float]]]] = {name: [] for name in given.bodies}
    for number in range(given.rounds):
        for name in given.bodies:
            rounds[name].append(side_by_side(shell, name))
        print(f"round {number + 1} of {given.rounds}", file=sys.stderr, flush=True)
    beside = [
        row_of(name, peer, [one[peer] for one in rounds[name]]) for name in rounds for peer in ("timeit", "torch")
    ]
    tools: dict[str, Callable[[str], Measured]] = {
        "perfmagic": lambda body: with_perfmagic(shell, body),
        "timeit": with_timeit,
        "torch": with_torch,
    }
    if given.pyperf is not None:
        tools["pyperf"] = lambda body: with_pyperf(body, given.pyperf)
    by_itself = alone(tools, given.alone, given.bodies)
    print(*map(rows.table, (beside, by_itself)), sep="\n\n")
    rows.write(given.out, beside, rounds=given.rounds, alone_rounds=given.alone, alone=by_itself)


def row_of(name: str, peer: str, rounds: list[dict[str, float]]) -> dict[str, Any]:
    """The median round, and between which two the middle half of them lies."""
    quartiles = np.percentile([one["ratio_of_turns"] for one in rounds], (25, 75))
    return {
        "body": name,
        "peer": peer,
        **{key: statistics.median(one[key] for one in rounds) for key in rounds[0]},
        "ratio_middle_half": f"{quartiles[0]:.4f} to {quartiles[1]:.4f}",
    }


if __name__ == "__main__":
    main()
