"""How long a launch on the simulated device takes: the host's part of an op, beside the same op on CPU tensors.

    python benchmarks/sim_launch.py [launches]

The queue is emptied every few launches, outside of the timing, so that it never fills. Each figure is the median of
single calls; both devices take turns in blocks, so that a change of the machine's load meets both.
"""

import statistics
import sys
import time
from collections.abc import Callable
from typing import Any

import torch

import perfmagic

LAUNCHES = 4000
BLOCK = 200  # well below the 1024 launches at which the host would wait
OPS: dict[str, Callable[[Any], Any]] = {
    "x + y": lambda x: x + x,
    "x @ y": lambda x: x @ x,
    "x.relu_()": lambda x: x.relu_(),
    "x.view(-1)": lambda x: x.view(-1),
    "empty_like(x)": torch.empty_like,
}


def times_ns(op: Callable[[Any], Any], x: Any) -> list[int]:
    """Nanoseconds of each of BLOCK calls."""
    clock, spent = time.perf_counter_ns, []
    for _ in range(BLOCK):
        start_ns = clock()
        op(x)
        spent.append(clock() - start_ns)
    return spent


def main() -> None:
    """Print the table."""
    launches = int(sys.argv[1]) if len(sys.argv) > 1 else LAUNCHES
    first, second = perfmagic.devices(2, "sim")
    torch.set_num_threads(1)
    places = {"cpu": torch.device("cpu"), "sim:0": first, "sim:1": second}
    print(f"median of {launches} calls, µs; torch {torch.__version__}, Python {sys.version.split()[0]}")
    print(f"{'':14}" + "".join(f"{place:>10}" for place in places))
    for name, op in OPS.items():
        tensors = {place: torch.randn(8, 8).to(device) for place, device in places.items()}
        spent: dict[str, list[int]] = {place: [] for place in places}
        for _ in range(-(-launches // BLOCK) + 1):
            for place, x in tensors.items():
                spent[place] += times_ns(op, x)
                torch.sim.synchronize(0)
                torch.sim.synchronize(1)
        # the first block warms up
        print(f"{name:14}" + "".join(f"{statistics.median(t[BLOCK:]) / 1e3:>10.1f}" for t in spent.values()))


if __name__ == "__main__":
    main()
