"""A training step of 7 billion parameters without values: what shapes, times and memory of a GPU cost on this CPU.

    python benchmarks/values.py [memory of the device, "80GB", or a GPU, "H100"]

Prints seconds of CPU and more host memory for building the model and for a forward and backward pass of 2,048 tokens,
then µs an operator: of the first pass, whose shapes are new, and the least of further ones, in a recording and without
one. perfmagic/sim/values says what is left out. Linux, torch.
"""

import resource
import sys
import time
from collections.abc import Callable

import torch
from torch import nn
from torch.nn import functional as F  # noqa: N812 - torch's own name for it

import perfmagic

ROUNDS = 8


class Llama(nn.Module):
    """A language model like Llama's, in plain torch: rotary positions, RMS norms, gated layers."""

    def __init__(self, layers: int, width: int, heads: int, inner: int, vocabulary: int) -> None:
        super().__init__()
        self.tokens = nn.Embedding(vocabulary, width)
        self.layers = nn.ModuleList(Layer(width, heads, inner) for _ in range(layers))
        self.norm, self.head = nn.RMSNorm(width), nn.Linear(width, vocabulary, bias=False)
        self.half = width // heads // 2

    def forward(self, tokens: torch.Tensor) -> torch.Tensor:
        x = self.tokens(tokens)
        places, steps = (torch.arange(n, device=x.device) for n in (tokens.shape[1], self.half))
        angles = torch.outer(places, 10_000.0 ** (-steps / self.half)).to(x.dtype)
        for layer in self.layers:
            x = layer(x, angles.cos(), angles.sin())
        logits: torch.Tensor = self.head(self.norm(x))
        return logits


class Layer(nn.Module):
    """Attention, then a gated layer."""

    def __init__(self, width: int, heads: int, inner: int) -> None:
        super().__init__()
        self.heads = heads
        self.query, self.key, self.value, self.out = (nn.Linear(width, width, bias=False) for _ in range(4))
        self.gate, self.up = (nn.Linear(width, inner, bias=False) for _ in range(2))
        self.down = nn.Linear(inner, width, bias=False)
        self.norms = nn.ModuleList(nn.RMSNorm(width) for _ in range(2))

    def forward(self, x: torch.Tensor, cos: torch.Tensor, sin: torch.Tensor) -> torch.Tensor:
        y = self.norms[0](x)
        q, k, v = (
            part(y).unflatten(-1, (self.heads, -1)).transpose(1, 2) for part in (self.query, self.key, self.value)
        )
        q, k = (turned(part, cos, sin) for part in (q, k))
        y = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        x = x + self.out(y.transpose(1, 2).flatten(2))
        y = self.norms[1](x)
        return x + self.down(F.silu(self.gate(y)) * self.up(y))  # type: ignore[no-any-return]


def turned(x: torch.Tensor, cos: torch.Tensor, sin: torch.Tensor) -> torch.Tensor:
    """Pairs of elements, turned by the angles of their places."""
    a, b = x.chunk(2, -1)
    return torch.cat((a * cos - b * sin, b * cos + a * sin), -1)


def language_loss(model: nn.Module, tokens: torch.Tensor) -> torch.Tensor:
    """How badly a model tells each next token."""
    return F.cross_entropy(model(tokens)[:, :-1].flatten(0, 1).float(), tokens[:, 1:].flatten())


def main() -> None:
    """Build the model, run a step twice, and print a line of each."""
    given = sys.argv[1] if len(sys.argv) > 1 else "80GB"
    if given[0].isdigit():
        device = perfmagic.device(clock="virtual", values="none", memory=given)
    else:
        device = perfmagic.device(given, values="none")
    torch.set_default_dtype(torch.bfloat16)
    at = _now()
    with torch.device(device):
        model = Llama(layers=32, width=4096, heads=32, inner=11_008, vocabulary=32_000)
    n = sum(parameter.numel() for parameter in model.parameters())
    at = _say(f"build, {n / 1e9:.2f} billion parameters", at)
    tokens = torch.randint(32_000, (1, 2048)).to(device)
    operators = recorded(model, tokens)
    _say("forward and backward, first, recorded", at, operators)
    for what, run in (("recorded", recorded), ("not recorded", passed)):
        seconds = min(_seconds(run, model, tokens) for _ in range(ROUNDS))
        print(f"again, {what}: {seconds / operators * 1e6:.0f} µs for each operator, the least of {ROUNDS} rounds")
    print(f"device memory at most {torch.sim.max_memory_allocated(device) / 1e9:.1f} GB")


def passed(model: nn.Module, tokens: torch.Tensor) -> None:
    """A forward and backward pass."""
    language_loss(model, tokens).backward()


def recorded(model: nn.Module, tokens: torch.Tensor) -> int:
    """The same in a recording, which is read; gives the number of operators."""
    with perfmagic.timeline() as timeline:
        passed(model, tokens)
    return len(timeline.result.trace.host_ops)


def _seconds(run: Callable[[nn.Module, torch.Tensor], object], model: nn.Module, tokens: torch.Tensor) -> float:
    start_s = time.process_time()
    run(model, tokens)
    return time.process_time() - start_s


def _now() -> tuple[float, float]:
    """Seconds of this process's CPU, and the MB it had at most."""
    return time.process_time(), resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


def _say(what: str, before: tuple[float, float], operators: int = 0) -> tuple[float, float]:
    seconds, megabytes = (now - then for now, then in zip(_now(), before, strict=True))
    each = f", {seconds / operators * 1e6:.0f} µs for each of {operators:,} operators" if operators else ""
    print(f"{what}: {seconds:.2f} s of CPU, {megabytes:.0f} MB more of host memory{each}")
    return _now()


if __name__ == "__main__":
    main()
