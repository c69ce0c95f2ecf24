"""Does perfmagic.compare tell the truth with its checks on: false alarms, true differences found, intervals that hold?

    python benchmarks/bench_verdicts.py [--kinds KIND…] [--more FRAC] [--times N] [--burner] [--seconds S] [--out FILE]

Pairs of functions, of which the second does `--more` (0) of the work of the first in addition, are compared --times
(100) times with fresh inputs, so that the timed calls are checked. Kinds:

    python     adds up squares in a loop
    torch      multiplies matrices on the CPU; inputs are made for every call
    in place   the same where the given tensors are drawn anew in place
    queued     multiplies matrices on the simulated device, real clock, 100 µs each: asynchronous
    overlap    the same, and the first of both lets Python sleep for 1 ms meanwhile: returns differ, done does not
    jitter     the same on its virtual clock, where drawn times give the true ratio exactly: spread, drift, spikes
    baseline   `python`, measured now against a baseline that testing.record_baseline() kept before (separate runs)
    steps      `torch`, as 12 steps in each of two recordings: what `compare A B --fail-if-slower` decides by

Every "faster" or "slower" of equal pairs is a false verdict. "holds" is the share of 95 % intervals that hold the true
ratio. Wanted: no false verdict, 5 % found, intervals that hold in 95 % of comparisons; in 300 at least 93 %.
With --burner processes that keep all cores busy start in the middle of every comparison, and end with it.
--seconds: sampling ends after so many; else as it does by itself.

Prints a row for each kind and writes the same as JSON with machine and versions.
"""

import collections
import math
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import numpy as np
import rows
import torch

import perfmagic
from perfmagic.api.gates import gate

TURNS = 20  # of the work in a body: 5 % more is one turn more
VERDICTS = ("faster", "slower", "same", "unclear", "not comparable")
BURN = "import sys, time; time.sleep(float(sys.argv[1]))\nwhile True: pass"
Body = Callable[..., object]
Found = tuple[str, tuple[float, float] | None, int, str]  # verdict, interval of the ratio, samples of each, in words


def squares(turns: int) -> Body:
    """A loop in Python, so many times."""

    def run(values: list[float]) -> float:
        total = 0.0
        for _ in range(turns):
            total = 0.0
            for value in values:
                total += value * value
        return total

    return run


def products(turns: int) -> Body:
    """So many products of the same matrices."""

    def run(x: torch.Tensor, w: torch.Tensor) -> torch.Tensor:
        for _ in range(turns):
            y = x @ w
        return y

    return run


def overlapped(turns: int) -> Body:
    """The same products, during which Python sleeps for a while in one of both."""
    multiply = products(TURNS)

    def run(x: torch.Tensor, w: torch.Tensor) -> object:
        y = multiply(x, w)
        if turns == TURNS:
            time.sleep(1e-3)
        return y

    return run


def numbers(rng: torch.Generator) -> list[Any]:
    """A list of numbers."""
    return [torch.randn(60, generator=rng).tolist()]


def matrices(rng: torch.Generator) -> list[Any]:
    """Two matrices on the CPU."""
    return [torch.randn(96, 96, generator=rng) for _ in range(2)]


def on_device(rng: torch.Generator) -> list[Any]:
    """Two matrices on the simulated device."""
    return [torch.randn(16, 16, generator=rng).to("sim") for _ in range(2)]


def compared(first: Body, other: Body, inputs: Any, seconds: float | None) -> Found:
    """What compare() finds."""
    limit = {} if seconds is None else {"time": seconds}
    return found_of(perfmagic.compare(first, other, inputs=inputs, names=["A", "B"], **limit))


def found_of(result: Any) -> Found:
    """The same of a result."""
    row = result.comparisons[0]
    interval = None if row.ratio_low is None else (row.ratio_low, row.ratio_high)
    return row.verdict, interval, result.results[0].quantities[row.quantity].n, f"{row.sentence}"


def against_baseline(first: Body, other: Body, inputs: Any, seconds: float | None) -> Found:
    """What a test finds that compares with a baseline of an earlier run."""
    made = inputs(torch.Generator())
    bodies = [lambda body=body: body(*made) for body in (first, other)]
    with tempfile.TemporaryDirectory() as folder:
        perfmagic.testing.record_baseline(bodies[0], "A", baselines=folder, time=seconds or 0.3)
        try:
            return found_of(perfmagic.testing.not_slower(bodies[1], "A", baselines=folder, time=seconds or 0.3))
        except AssertionError:
            return found_of(perfmagic.last())


def by_steps(first: Body, other: Body, inputs: Any, _seconds: float | None) -> Found:
    """What a gate finds in two recordings of steps; it knows no "faster"."""
    made = inputs(torch.Generator())
    recorded = []
    for body in (first, other):
        with perfmagic.timeline(device="cpu") as timeline:
            for _ in range(12):
                body(*made)
                timeline.step()
        recorded.append(timeline.result)
    changed = perfmagic.compare(*recorded)
    steps, said = changed.step_times, gate(changed, 0.0)
    interval = (1 / steps.ratio_high, 1 / steps.ratio_low) if steps.ratio_low and steps.ratio_high else None
    verdict = "same" if said.verdict == "not slower" else said.verdict
    return verdict, interval, min(len(steps.a_ns), len(steps.b_ns)), said.sentence


class Noise:
    """How much longer each call on a virtual clock takes: spread, drift, steps of the speed, and spikes."""

    def __init__(self) -> None:
        self.random = np.random.default_rng(34)
        self.call_s, self._drift, self._speed = 20e-3, 0.0, 1.0

    def next(self, turns: int) -> None:
        """Draw the next call."""
        draw = self.random
        self._drift = 0.9 * self._drift + draw.normal(0, 0.02)
        self._speed = 2.8 - self._speed if draw.random() < 1 / 400 else self._speed
        spike = draw.uniform(1.3, 3) if draw.random() < 0.08 else 1
        self.call_s = 1e-3 * turns * self._speed * spike * math.exp(self._drift + draw.normal(0, 0.05))

    def body(self, turns: int) -> Body:
        """One product that takes what was drawn."""

        def run(x: torch.Tensor, w: torch.Tensor) -> torch.Tensor:
            self.next(turns)
            return x @ w

        return run


def on_sim(pace: Any, clock: str = "real") -> None:
    """Make the simulated device."""
    perfmagic.device("sim", pace=pace, clock=clock)


@dataclass(frozen=True)
class Kind:
    """A kind of pair.  make: gives one of it.  unlike: both differ in what does not count, whatever `--more` says."""

    make: Callable[[int], Body]
    inputs: Any
    find: Callable[[Body, Body, Any, float | None], Found] = compared
    ready: Callable[[], None] = lambda: None
    unlike: bool = False


NOISE = Noise()
KINDS = {
    "python": Kind(squares, numbers),
    "torch": Kind(products, matrices),
    "in place": Kind(products, [torch.randn(96, 96) for _ in range(2)]),
    "queued": Kind(products, on_device, ready=lambda: on_sim("matmul=100us")),
    "overlap": Kind(overlapped, on_device, ready=lambda: on_sim("matmul=100us"), unlike=True),
    "jitter": Kind(NOISE.body, on_device, ready=lambda: on_sim(lambda *_: NOISE.call_s, "virtual")),
    "baseline": Kind(squares, numbers, against_baseline),
    "steps": Kind(products, matrices, by_steps),
}


@contextmanager
def burning(wanted: bool, after_s: float) -> Iterator[None]:
    """Keep every core busy from the middle on."""
    n = os.cpu_count() or 1
    burners = [subprocess.Popen([sys.executable, "-c", BURN, str(after_s)]) for _ in range(n if wanted else 0)]
    try:
        yield
    finally:
        for burner in burners:
            burner.kill()
            burner.wait()


def run(name: str, given: Any) -> dict[str, Any]:
    """Verdicts over the pairs of a kind."""
    kind = KINDS[name]
    kind.ready()
    turns = round(TURNS * (1 + given.more))
    truth = 1.0 if kind.unlike else TURNS / turns
    verdicts: collections.Counter[str] = collections.Counter()
    held, seconds, samples, load, said = [], [], [], [], []
    for i in range(given.times):
        first, other = kind.make(TURNS), kind.make(turns + kind.unlike)
        start = time.perf_counter()
        with burning(given.burner, statistics.median(seconds) / 2 if seconds else 1.5):
            verdict, interval, n, words = kind.find(first, other, kind.inputs, given.seconds)
        seconds.append(time.perf_counter() - start)
        samples.append(n)
        load.append(os.getloadavg()[0])
        verdicts[verdict] += 1
        held += [] if interval is None else [interval[0] <= truth <= interval[1]]
        if verdict == "not comparable" or (verdict in ("faster", "slower") and truth == 1):
            said.append(words)
        if (i + 1) % 20 == 0:
            print(f"  {name} {i + 1}: {dict(verdicts)} holds {np.mean(held or [0]):.3f} {said[-1:]}", flush=True)
    if name == "jitter":
        perfmagic.device("sim", clock="real")  # the other kinds are measured
    return {
        "kind": name,
        "second_does_more_frac": given.more,
        "burner": given.burner,
        "seconds_given": given.seconds or "–",
        "comparisons": given.times,
        **{verdict: verdicts[verdict] for verdict in VERDICTS},
        "holds": float(np.mean(held)) if held else 0.0,
        "intervals": len(held),
        "seconds_median": statistics.median(seconds),
        "samples_median": statistics.median(samples),
        "load_median": statistics.median(load),
        "false": said,
    }


def main(args: Sequence[str] | None = None) -> None:
    """Measure and print."""
    parser = rows.parser_of(__doc__)
    parser.add_argument("--kinds", nargs="+", choices=KINDS, default=[*KINDS], metavar="KIND")
    parser.add_argument("--more", type=float, default=0.0, metavar="FRAC")
    parser.add_argument("--times", type=int, default=100, metavar="N")
    parser.add_argument("--seconds", type=float)
    parser.add_argument("--burner", action="store_true")
    given = parser.parse_args(args)
    torch.set_num_threads(1)
    rows.write(given.out, [rows.printed(run(name, given)) for name in given.kinds])


if __name__ == "__main__":
    main()
