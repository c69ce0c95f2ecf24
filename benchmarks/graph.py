"""What does %%graph cost an operator, and how long does its result take?

    python benchmarks/graph.py [calls]

Cost: the least of blocks of calls, plain, under a mode of torch that does nothing, and noted; blocks take turns, so
that a change of the machine's load meets all. tests/capture/recording/test_op_log.py has whether its needs are true.
"""

import sys
import time
from collections.abc import Callable
from itertools import pairwise
from typing import Any

import torch

import perfmagic
from perfmagic.capture.devices import torch_private
from perfmagic.capture.recording.op_log import OpLog

CALLS = 4000
BLOCK = 200
OPS: dict[str, Callable[[Any], Any]] = {
    "x + y": lambda x: x + x,
    "x @ y": lambda x: x @ x,
    "x.add_(y)": lambda x: x.add_(x),
    "x[0]": lambda x: x[0],
    "cat of 8": lambda x: torch.cat([x] * 8),
}


class Nothing(torch_private.dispatch_mode()):  # type: ignore[misc]
    """A mode that passes every operator on."""

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        return func(*args, **kwargs) if kwargs else func(*args)


def block_us(op: Callable[[Any], Any], x: Any) -> float:
    """Microseconds of one of BLOCK calls: processor time of this thread alone.

    The threads of the simulated device compute meanwhile, and take turns with it.
    """
    start = time.thread_time_ns()
    for _ in range(BLOCK):
        op(x)
    spent = time.thread_time_ns() - start
    if x.device.type == "sim":
        torch.sim.synchronize()
    return spent / BLOCK / 1e3


def noted_us(op: Callable[[Any], Any], x: Any) -> float:
    """The same while operators are noted."""
    log = OpLog()
    log.acquire()
    try:
        return block_us(op, x)
    finally:
        log.give_back()


def passed_on_us(op: Callable[[Any], Any], x: Any) -> float:
    """The same under a mode that does nothing."""
    with Nothing():
        return block_us(op, x)


def costs(calls: int) -> None:
    """The table of costs."""
    print(f"processor µs of a call in its thread, the least of {calls // BLOCK} blocks of {BLOCK};")
    print("noting adds the difference to plain")
    print(f"{'':18}{'plain':>9}{'a mode':>9}{'noted':>9}{'noting adds':>14}")
    for device in ("cpu", "sim"):
        for name, op in OPS.items():
            x = torch.zeros(8, 8, device=device)
            ways = (block_us, passed_on_us, noted_us)
            found = [[way(op, x) for way in ways] for _ in range(calls // BLOCK + 1)][1:]  # the first warms up
            plain, mode, noted = map(min, zip(*found, strict=True))
            print(f"{device + '  ' + name:18}{plain:>9.1f}{mode:>9.1f}{noted:>9.1f}{noted - plain:>14.1f}")


def chain(n: int) -> Callable[[], None]:
    """Some n operators in one lane, two of three at once."""

    def run() -> None:
        x = torch.zeros(4)
        for _ in range(n // 3):
            y = x + 1
            z = x * 2
            x = y + z

    return run


def to_and_fro(n: int) -> Callable[[], None]:
    """Some n operators in two lanes that take turns."""

    def run() -> None:
        x = torch.zeros(4)
        for _ in range(n // 4):
            x = (x.to("sim") * 2).cpu() + 1

    return run


def late_to_and_fro(n: int) -> Callable[[], None]:
    """Some n operators, of which the last tenth are in two lanes that take turns."""

    def run() -> None:
        chain(9 * n // 10)()
        to_and_fro(n // 10)()

    return run


def results() -> None:
    """How long the numbers and the picture take."""
    print(f"{'':18}{'operators':>10}{'numbers ms':>12}{'picture ms':>12}{'picture kB':>12}")
    for name, program in (("one lane", chain), ("to and fro", to_and_fro), ("late to and fro", late_to_and_fro)):
        for n in (30, 300, 3000, 30_000):
            found = perfmagic.graph(program(n))
            times = [time.perf_counter()]
            len(found.edges())
            times.append(time.perf_counter())
            picture = found.svg()
            times.append(time.perf_counter())
            numbers, drawing = (1e3 * (b - a) for a, b in pairwise(times))
            print(
                f"{name:18}{len(found.nodes()):>10}{numbers:>12.1f}{drawing:>12.1f}{len(picture) / 1e3:>12.1f}",
                flush=True,
            )


def main() -> None:
    """Print both tables."""
    perfmagic.devices(2)
    print(f"torch {torch.__version__}, Python {sys.version.split()[0]}")
    costs(int(sys.argv[1]) if len(sys.argv) > 1 else CALLS)
    print()
    results()


if __name__ == "__main__":
    main()
