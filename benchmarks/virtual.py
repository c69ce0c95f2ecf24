"""What does an operator cost on a virtual clock, where it is launched, run and timed in one go?

    python benchmarks/virtual.py [blocks]

Processor time of an operator on tensors of 64 elements, all threads together, and of the same operator on the CPU: the
least of blocks, of which those of both devices take turns, so that a change of the machine's load meets both.
"""

import sys
import time
from collections.abc import Callable
from typing import Any

import torch
from torch.utils._python_dispatch import TorchDispatchMode

import perfmagic

BLOCKS = 20
CALLS = 200  # of one operator in a block
STEPS = 4  # of the transformer's block
Op = Callable[[], Any]


class Counted(TorchDispatchMode):
    """Counts the operators that reach a device."""

    n = 0

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        self.n += 1
        return func(*args, **(kwargs or {}))


def operators(device: Any) -> dict[str, tuple[int, Op]]:
    """Calls in a block and what is called, by name: one operator, but for the last."""
    x, w = torch.ones(8, 8, device=device), torch.ones(8, device=device)
    with_grad = torch.ones(8, 8, device=device, requires_grad=True)
    block = torch.nn.TransformerEncoderLayer(16, 2, 32, dropout=0.0, batch_first=True).to(device)
    tokens = torch.ones(2, 4, 16, device=device)

    def step() -> None:
        block(tokens).sum().backward()
        block.zero_grad()

    return {
        "x + x": (CALLS, lambda: x + x),
        "x * 2.0": (CALLS, lambda: x * 2.0),
        "x @ x": (CALLS, lambda: x @ x),
        "x.view(-1)": (CALLS, lambda: x.view(-1)),
        "layer_norm": (CALLS, lambda: torch.nn.functional.layer_norm(x, (8,), w, w)),
        "x + x, autograd": (CALLS, lambda: with_grad + with_grad),
        "transformer block, step": (STEPS, step),
    }


def block_us(calls: int, op: Op) -> float:
    """Processor time of a call, in µs."""
    start_ns = time.process_time_ns()
    for _ in range(calls):
        op()
    return (time.process_time_ns() - start_ns) / calls / 1e3


def main() -> None:
    """Print the table."""
    torch.set_num_threads(1)
    blocks = int(sys.argv[1]) if len(sys.argv) > 1 else BLOCKS
    there, here = operators(perfmagic.device(clock="virtual")), operators("cpu")
    print(f"torch {torch.__version__}, Python {sys.version.split()[0]}: µs an operator, the least of {blocks} blocks")
    print(f"{'':26}{'operators':>10}{'virtual':>9}{'CPU':>7}{'ratio':>7}")
    for name, (calls, op) in there.items():
        with Counted() as counted:  # also warms up
            op()
        n = counted.n if "step" in name else 1
        both = [(block_us(calls, op) / n, block_us(*here[name]) / n) for _ in range(blocks + 1)][1:]
        virtual, cpu = map(min, zip(*both, strict=True))
        print(f"{name:26}{n:>10}{virtual:>9.1f}{cpu:>7.1f}{virtual / cpu:>7.0f}", flush=True)


if __name__ == "__main__":
    main()
