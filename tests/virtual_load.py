"""Do the figures of a virtual clock depend on what else the machine does? A part of `make test`.

    python -m tests.virtual_load
    python -m tests.virtual_load lessons   # some minutes; not a part of it

Two processes record the same: one alone, the other beside a process on every core that never rests. Every line must be
the same. It takes half a minute. Lessons are stored as `demos/run.py --store` does it, without outputs of real time.
"""

import difflib
import json
import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

BURN = "while True: pass"
DEMOS = Path(__file__).resolve().parents[1] / "demos"
LESSONS = "0[0-5]_*.ipynb"  # those on a virtual clock


def figures() -> Iterator[str]:
    """What people and programs read of a step, of streams and copies, and of a full queue, line by line."""
    import torch

    import perfmagic.changes

    device = perfmagic.device(clock="virtual", pace="matmul=2TFLOP/s, copies=12GB/s")
    for result in benchmarks(lambda: step(torch, device), perfmagic):
        yield result.text()
    for code in (step, streams, full_queue):
        yield from recorded_by(lambda code=code: code(torch, device), perfmagic)
    device = perfmagic.device("H100")
    yield from recorded_by(lambda: step(torch, device), perfmagic)


def benchmarks(run: Callable[[], object], perfmagic: Any) -> Iterator[Any]:
    """What measures a function, and its graph."""
    yield perfmagic.bench(run)
    yield perfmagic.syncbench(run)
    yield perfmagic.compare(run, run)
    yield perfmagic.graph(run)


def recorded_by(run: Callable[[], object], perfmagic: Any) -> Iterator[str]:
    """A timeline in words, what it predicts, and all its times."""
    with perfmagic.timeline(memory=True) as timeline:
        run()
    result = timeline.result
    yield result.text(details=True)
    yield result.memory.text()
    yield result.what_if(perfmagic.changes.faster("mm", 2)).text()
    ops, calls = result.trace.ops, result.trace.calls
    yield from map(str, zip(*(column.tolist() for column in (ops.start_ns, ops.end_ns, ops.stream)), strict=True))
    yield from map(str, zip(calls.start_ns.tolist(), calls.end_ns.tolist(), strict=True))


def step(torch: Any, device: Any) -> float:
    """Some training of a block with attention."""
    torch.manual_seed(0)
    block = torch.nn.TransformerEncoderLayer(32, 4, 64, batch_first=True).to(device)
    optimizer = torch.optim.AdamW(block.parameters())
    for _ in range(3):
        optimizer.zero_grad()
        loss = block(torch.ones(4, 16, 32).to(device)).square().mean()
        loss.backward()
        optimizer.step()
    return loss.item()  # type: ignore[no-any-return]


def streams(torch: Any, device: Any) -> None:
    """Copies beside products, ordered by events."""
    side, event = torch.sim.Stream(), torch.sim.Event(enable_timing=True)
    host, x = torch.ones(1 << 18).pin_memory(), torch.ones(256, 256, device=device)
    for _ in range(20):
        with torch.sim.stream(side):
            copied = host.to(device, non_blocking=True)
            event.record()
        y = x @ x
        torch.sim.current_stream().wait_event(event)
        (y + copied.view(-1, 256)[:256]).sum()
    torch.sim.synchronize()


def full_queue(torch: Any, device: Any) -> None:
    """More launches than the queue takes, behind a long product."""
    x, small = torch.ones(1024, 1024, device=device), torch.ones(8, device=device)
    x @ x
    for _ in range(1500):
        small.add_(1)
    small.sum().item()


def lessons() -> Iterator[str]:
    """The lessons as they are stored, line by line."""
    import nbformat

    from demos.run import run, stored

    for lesson in sorted(DEMOS.glob(LESSONS)):
        notebook = nbformat.read(lesson, as_version=4)
        if run(notebook, DEMOS):
            sys.exit(f"{lesson.name} failed")
        for cell in stored(notebook).cells:
            if "nbval-ignore-output" not in cell.metadata.get("tags", ()):
                yield from f"{lesson.name}, {cell.id}\n{json.dumps(cell, indent=1)}".splitlines()


def recorded(what: str) -> tuple[list[str], float]:
    """The lines of a process of their own, and how long it took in s."""
    start_s = time.perf_counter()
    run = subprocess.run([sys.executable, "-m", "tests.virtual_load", "print", what], capture_output=True, text=True)
    if run.returncode:
        sys.exit(f"no {what} were recorded:\n{run.stderr}")
    return run.stdout.splitlines(), time.perf_counter() - start_s


@contextmanager
def burners() -> Iterator[None]:
    """A process on every core that never rests."""
    burning = [subprocess.Popen([sys.executable, "-c", BURN]) for _ in range(os.cpu_count() or 1)]
    try:
        yield
    finally:
        for process in burning:
            process.kill()
            process.wait()


def main(what: str = "figures") -> None:
    """Compare, and end with 1 and the lines that differ."""
    alone, alone_s = recorded(what)
    with burners():
        beside, beside_s = recorded(what)
    differing = list(difflib.unified_diff(alone, beside, "alone", "beside burners", lineterm="", n=0))
    if differing:
        sys.exit("\n".join([f"{what} of a virtual clock depend on the load:", *differing[:60]]))
    print(f"{len(alone)} lines of {what}, the same alone ({alone_s:.0f} s) and beside burners ({beside_s:.0f} s)")


if __name__ == "__main__":
    if sys.argv[1:2] == ["print"]:
        print("\n".join({"figures": figures, "lessons": lessons}[sys.argv[2]]()))
    else:
        main(*sys.argv[1:])
