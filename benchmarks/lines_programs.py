"""What benchmarks/lines.py runs: a training step that Python limits, a hot loop of plain Python, lines of 1 to 5 µs.

All code here is the user's: a tool that follows lines follows these.
"""

import math
from collections.abc import Callable
from typing import Any

STEPS = 20
HOT = 2_000_000
CALLS = 3_000

FUNCTIONS: list[Any] = []  # what line_profiler is told to follow


def hot(n: int) -> int:
    """Lines of some 30 ns."""
    total = 0
    for i in range(n):
        if i % 3:
            total += i
        else:
            total ^= i
    return total


def text_of(n: int) -> str:
    """Lines of 1 to 5 µs: not hot enough to be let go of, and much of the time is the events'."""
    numbers = list(range(n, n + 150))
    total = sum([x * x for x in numbers[:60]])
    words = ",".join(map(str, numbers[:30]))
    pairs = dict(enumerate(numbers))
    largest = max(numbers, key=pairs.__contains__)
    root = math.fsum(map(math.sqrt, numbers))
    order = sorted(numbers, key=math.sin)
    found = words.replace(",", ";").split(";")
    return f"{total} {largest} {root:.3f} {order[0]} {len(found)}"


def small_lines() -> None:
    """A function of such lines, called over and over."""
    for i in range(CALLS):
        text_of(i)


def training() -> Callable[[], None]:
    """A step of a small net on the CPU, 71 lines of it the user's; Python takes all its time."""
    import torch
    from torch import nn

    torch.set_num_threads(1)
    torch.manual_seed(0)

    class Block(nn.Module):
        def __init__(self, width: int) -> None:
            super().__init__()
            self.norm, self.wide = nn.LayerNorm(width), nn.Linear(width, 2 * width)
            self.narrow = nn.Linear(2 * width, width)

        def forward(self, x: Any) -> Any:
            h = self.norm(x)
            h = self.wide(h)
            h = torch.nn.functional.gelu(h)
            h = self.narrow(h)
            return x + h

    class Net(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.blocks = nn.ModuleList(Block(16) for _ in range(6))
            self.out = nn.Linear(16, 4)

        def forward(self, x: Any) -> Any:
            for block in self.blocks:
                x = block(x)
            return self.out(x)

    net = Net()
    optimizer = torch.optim.SGD(net.parameters(), lr=0.01)
    x, y = torch.randn(8, 16), torch.randn(8, 4)

    def step() -> Any:
        difference = net(x) - y
        loss = (difference * difference).mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        return loss

    def steps() -> None:
        for _ in range(STEPS):
            step()

    FUNCTIONS.extend([Block.forward, Net.forward, step, steps])
    return steps


def hot_loop() -> None:
    """One of them."""
    hot(HOT)


PROGRAMS = {
    "training step": "a training step of 71 lines that Python limits, on the CPU",
    "hot loop": "a loop of plain Python, lines of some 30 ns",
    "small lines": "functions whose lines take 1 to 5 µs",
}


def of(program: str) -> Callable[[], object]:
    """What a chunk of a program runs."""
    if program == "training step":
        return training()
    FUNCTIONS.extend([hot, hot_loop] if program == "hot loop" else [text_of, small_lines])
    return hot_loop if program == "hot loop" else small_lines
