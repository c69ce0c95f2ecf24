"""Cells on the simulated device whose memory is known, measured beside the allocator's own counter."""

import textwrap

from perfmagic.results import MemoryResult

from .conftest import Notebook

SETUP = """
import gc, torch, perfmagic
from torch import nn
import torch.utils.checkpoint as cp
device = perfmagic.device("sim")
class Blk(nn.Module):
    def __init__(self, d):
        super().__init__()
        self.a, self.b = nn.Linear(d, 4 * d), nn.Linear(4 * d, d)
    def forward(self, x):
        h = self.a(x)
        h = torch.relu(h)
        return x + self.b(h)
class Net(nn.Module):
    def __init__(self, d=64, n=3):
        super().__init__()
        self.blocks = nn.ModuleList(Blk(d) for _ in range(n))
    def forward(self, x):
        for b in self.blocks:
            x = b(x)
        return x
def train_step(x):
    out = net(x)
    loss = (out - x).square().mean()
    opt.zero_grad()
    loss.backward()
    opt.step()
    return loss
torch.manual_seed(0)
net = Net().to(device)
stack = nn.Sequential(*net.blocks)
opt = torch.optim.Adam(net.parameters())
x = torch.randn(1024, 64, device=device)
(net(x) - x).square().mean().backward()
opt.step()
opt.zero_grad()
"""
CLEAN = """
a = b = c = i = y = out = err = loss = losses = scores = mean = held = m = None
opt.zero_grad()
gc.collect()
torch.sim.empty_cache()  # else a block may get a piece that is larger than it needs
torch.sim.reset_peak_memory_stats()
"""

CELLS = {
    "a training step": """
        out = net(x)
        loss = (out - x).square().mean()
        opt.zero_grad()
        loss.backward()
        opt.step()
    """,
    "evaluation": """
        for i in range(3):
            out = net(x)
            err = (out - x).abs().max()
    """,
    "losses with graphs": """
        losses = []
        for i in range(3):
            loss = (net(x) - x).square().mean()
            losses.append(loss)
    """,
    "a function": """
        for i in range(2):
            loss = train_step(x)
    """,
    "temporaries": """
        a = torch.randn(1000, 1000, device=device)
        b = (a * 2 + 1).relu().sum()
        del a
        c = torch.zeros(256, 256, device=device)
    """,
    "gradients late": """
        for i in range(3):
            out = net(x)
            loss = (out - x).square().mean()
            opt.zero_grad()
            loss.backward()
            opt.step()
    """,
    "gradients early": """
        for i in range(3):
            out = net(x)
            loss = (out - x).square().mean()
            loss.backward()
            opt.step()
            opt.zero_grad()
    """,
    "streams": """
        a = torch.ones(700, 700, device=device)
        with torch.sim.stream(torch.sim.Stream()):
            b = a + 1
            c = [b * 2 for i in range(3)]
        del b
        out = c[0] + c[1]
    """,
    "checkpoints": """
        loss = cp.checkpoint(net, x, use_reentrant=False).square().mean()
        loss.backward()
    """,
    "no_grad": """
        with torch.no_grad():
            for i in range(3):
                out = net(x)
    """,
    "copies": """
        a = torch.randn(500, 500).to(device)
        b = a.cpu()
        c = a.clone()
    """,
    "a larger block than asked for": """
        a = torch.empty(20 * 2**20 - 600_000, dtype=torch.uint8, device=device)
        b = torch.empty(1_200_000, dtype=torch.uint8, device=device)
    """,
}


def body(cell: str) -> str:
    """A cell's source as it stands in a notebook."""
    return textwrap.dedent(cell).strip("\n")


def measured(notebook: Notebook, source: str, options: str = "") -> MemoryResult:
    """The result of %%memory for a cell that begins with nothing but the model on the device."""
    notebook.run(CLEAN)
    ran = notebook.run(f"%%memory -o m {options}\n{body(source)}")
    assert ran.error is None, ran.traceback
    result = notebook.names["m"]
    assert isinstance(result, MemoryResult)
    return result
