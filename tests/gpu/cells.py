"""Cells that show one thing each on a device, and how to record one without a notebook."""

import ast
import builtins
from dataclasses import dataclass
from typing import Any

import torch

from perfmagic.capture.cell import RUNTIME, marked
from perfmagic.capture.recording.recorder import Recorder
from perfmagic.trace.model import Cell, Trace


@dataclass(frozen=True)
class Scene:
    """Source that prepares, and the cell that is recorded; both see `torch`, `device` and the device's module `m`.

    needs: "any", or "cuda" for what a simulated device has not.  memory: also recorded.
    shows: what the picture must show, for PROVENANCE.
    """

    shows: str
    setup: str
    cell: str
    needs: str = "any"
    memory: bool = False


SCENES: dict[str, Scene] = {
    "two_streams": Scene(
        "the same work on two streams, side by side",
        "a = torch.randn(n, n, device=device)\nfirst, second = m.Stream(), m.Stream()\nm.synchronize()",
        "for _ in range(12):\n    with m.stream(first):\n        x = a @ a\n"
        "    with m.stream(second):\n        y = a @ a",
    ),
    "copies_overlap": Scene(
        "pinned copies beside compute, pageable ones that hold Python",
        "host = torch.randn(6000 * n)\npinned = host.pin_memory()\nside = m.Stream()\n"
        "a = torch.randn(2 * n, 2 * n, device=device)",
        "b = a @ a\nwith m.stream(side):\n    c = pinned.to(device, non_blocking=True)\n"
        "for _ in range(6):\n    b = a @ a\nd = host.to(device)\n"
        "back = torch.empty(2 * n, 2 * n).pin_memory()\nback.copy_(b, non_blocking=True)\ne = b.cpu()",
    ),
    "waits": Scene(
        "a stream that waits for another's event",
        "a = torch.randn(n, n, device=device)\nside = m.Stream()",
        "for _ in range(8):\n    b = a @ a\nside.wait_stream(m.current_stream())\nwith m.stream(side):\n"
        "    for _ in range(8):\n        c = b @ a\nm.current_stream().wait_stream(side)\nd = c + 1",
    ),
    "training_step": Scene(
        "three steps of a small network: forward, backward, optimiser",
        "net = torch.nn.Sequential(torch.nn.Linear(512, 1024), torch.nn.ReLU(), torch.nn.Linear(1024, 10)).to(device)\n"
        "opt = torch.optim.SGD(net.parameters(), lr=0.1)\nx = torch.randn(256, 512, device=device)\n"
        "y = torch.randint(0, 10, (256,), device=device)\nloss_of = torch.nn.CrossEntropyLoss()",
        "for _ in range(3):\n    opt.zero_grad()\n    loss = loss_of(net(x), y)\n    loss.backward()\n    opt.step()\n"
        "loss.item()",
    ),
    "launch_bound": Scene(
        "ops shorter than their launches: an empty queue, a device that waits for Python",
        "x = torch.zeros(64, device=device)",
        "for _ in range(200):\n    x = x + 1",
    ),
    "sync_bound": Scene(
        ".item() in a loop: Python waits for every round",
        "a = torch.randn(n, n, device=device)\ntotal = 0.0",
        "for _ in range(30):\n    total += (a @ a)[0, 0].item()",
    ),
    "deep_queue": Scene(
        "more launches than the queue holds: Python is blocked in a launch",
        "a = torch.randn(n, n, device=device)",
        "for _ in range(1400):\n    b = a @ a",
    ),
    "memory": Scene(
        "results kept, then dropped, then not kept",
        "a = torch.randn(n, n, device=device)",
        "kept = [a @ a for _ in range(20)]\ndel kept\nfor _ in range(20):\n    b = a @ a",
        memory=True,
    ),
    "graph": Scene(
        "a CUDA graph: one launch, many ops",
        "a = torch.randn(512, 512, device=device)\ng = torch.cuda.CUDAGraph()\n"
        "for _ in range(3):\n    b = (a @ a).relu()\nm.synchronize()\n"
        "with torch.cuda.graph(g):\n    b = a\n    for _ in range(12):\n        b = (b @ a).relu()",
        "for _ in range(4):\n    g.replay()",
        needs="cuda",
    ),
    "compiled": Scene(
        "torch.compile: the same step, fewer kernels",
        "def step(x):\n    return ((x * 2 + 1).relu() - 0.5).tanh().sum()\n"
        "fast = torch.compile(step)\nx = torch.randn(1 << 20, device=device)\nfor _ in range(3):\n    fast(x)",
        "for _ in range(5):\n    step(x)\nfor _ in range(5):\n    fast(x)",
        needs="cuda",
    ),
}


def names_for(device: str) -> dict[str, Any]:
    """What a scene's source sees; n: the side of a matrix, small where a processor has to multiply it."""
    n = 64 if device.startswith("sim") else 1024
    return {"torch": torch, "device": device, "m": torch.get_device_module(device), "n": n}


def record_cell(source: str, names: dict[str, Any], *, device: str = "auto", memory: bool = False) -> Trace:
    """Run source under the recorder with marks on its lines, as %%timeline does. What the cell raises is raised."""
    recorder = Recorder(cell=Cell(source), device=device, memory=memory)
    tree = ast.parse(source)
    tree.body = marked(tree.body)
    code = compile(ast.fix_missing_locations(tree), "<cell>", "exec")
    setattr(builtins, RUNTIME, recorder.marks)
    try:
        recorder.start()
        try:
            exec(code, names)  # the scene's own source
        finally:
            trace = recorder.stop()
    finally:
        delattr(builtins, RUNTIME)
    return trace


def play(scene: Scene, device: str, *, warm: bool = True) -> Trace:
    """Prepare a scene, run its cell once unrecorded (kernels load, memory is reserved), then record it."""
    names = names_for(device)
    exec(scene.setup, names)
    if warm:
        exec(scene.cell, names)
    names["m"].synchronize()
    return record_cell(scene.cell, names, device=device.split(":", maxsplit=1)[0], memory=scene.memory)
