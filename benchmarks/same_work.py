"""What it costs a comparison to find out whether both do the same work.

    python -m benchmarks.same_work

Each pair is compared with a fixed number of samples, checked and unchecked in turn, and the median of the CPU time of
this process counts: other work on the machine hardly changes it. The unchecked one calls functions without arguments,
as there are none to be made. "made" calls the function that makes them twice: its own time is printed, too.
"""

import statistics
import time
from collections.abc import Callable
from functools import partial

import torch

import perfmagic

SAMPLES, ROUNDS = 25, 5


def product(x: torch.Tensor, w: torch.Tensor) -> torch.Tensor:
    """Three products in a row."""
    return ((x @ w) @ w) @ w


PAIRS = {
    "product, 64 × 64": (64, product, lambda x, w: product(x, w) + 0),
    "product, 1024 × 1024": (1024, product, lambda x, w: product(x, w) + 0),
    "sum of products, 512 × 512": (512, lambda x, w: x * w + x, lambda x, w: torch.addcmul(x, x, w)),
    "sum of products, 2048 × 2048": (2048, lambda x, w: x * w + x, lambda x, w: torch.addcmul(x, x, w)),
}


def ways(n: int, first: Callable[..., object], other: Callable[..., object]) -> dict[str, Callable[[], object]]:
    """The same comparison, unchecked and checked."""
    x, w = (torch.randn(n, n) / n**0.5 for _ in range(2))

    def make(rng: torch.Generator) -> list[torch.Tensor]:
        return [torch.randn(n, n, generator=rng) / n**0.5 for _ in range(2)]

    alone = partial(first, x, w), partial(other, x, w)
    return {
        "unchecked": partial(perfmagic.compare, *alone, samples=SAMPLES, check=False),
        "checked": partial(perfmagic.compare, *alone, samples=SAMPLES),
        "made": partial(perfmagic.compare, first, other, samples=SAMPLES, inputs=make),
        "in place": partial(perfmagic.compare, first, other, samples=SAMPLES, inputs=[x, w]),
        "make": partial(make, torch.Generator()),
    }


def seconds(run: Callable[[], object]) -> float:
    """The CPU time that it takes."""
    start = time.process_time()
    run()
    return time.process_time() - start


def main() -> None:
    """Print a row for each pair."""
    torch.set_num_threads(1)
    for name, pair in PAIRS.items():
        given = ways(*pair)
        taken: dict[str, list[float]] = {how: [] for how in given}
        for _ in range(ROUNDS):
            for how, run in given.items():
                taken[how].append(seconds(run))
        usual = {how: statistics.median(each) for how, each in taken.items()}
        unchecked, making = usual.pop("unchecked"), usual.pop("make")
        added = ", ".join(f"{how} {each / unchecked - 1:+.0%}" for how, each in usual.items())
        print(f"{name}: {unchecked:.2f} s unchecked; {added}; make() {making / unchecked:.0%}")


if __name__ == "__main__":
    main()
