"""What a change gains, predicted from a record of the program before it, beside what the changed program takes.

    python benchmarks/what_if.py [--reps N] [--out FILE] [PART OF A NAME ...]

Each pair is a program before and after a change, on the simulated device with paces of 15 ms and more. The program
before is recorded a few times and predicted; then both run unrecorded in turns. The prediction is scaled by what the
unrecorded run before took beside the recorded one: a recording takes time itself. The margin of the interval was
chosen on the pairs marked "chosen"; the others, "held out", check it. A pair marked "refuse" must get no number.
Last come programs with three possible changes each: which one is best is said before any of them runs.
"""

import gc
import statistics
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from predicted import head, parsed, refused_row, row_of, row_text, summary

import perfmagic
from perfmagic.analysis.replay.changes.change import Change
from perfmagic.analysis.replay.changes.copies import NoWaits, OwnStream, Pin
from perfmagic.analysis.replay.changes.host import FasterPython, NoItem
from perfmagic.analysis.replay.changes.kernels import FasterKernels, Fused, OneGraph
from perfmagic.analysis.replay.prediction import Prediction, Readings, predict

STEPS = 6
Program = Callable[[], Any]


@dataclass(frozen=True)
class Pair:
    """A program before and after a change.

    make: gives both.  pace, pace_after: of the simulated device.  half: "chosen", "held out" or "refuse".
    """

    name: str
    half: str
    pace: str
    make: Callable[[], tuple[Program, Program]]
    changes: tuple[Change, ...]
    pace_after: str = ""


def square() -> torch.Tensor:
    """What a product is made of."""
    return torch.randn(64, 64, device="sim")


def copied(pinned: bool, stream: Any = None, *, read: bool = False, python_s: float = 0.0) -> Program:
    """Steps that copy a batch to the device and compute beside it."""
    x = square()
    batches = [torch.randn(500, 500) for _ in range(STEPS)]
    batches = [batch.pin_memory() for batch in batches] if pinned else batches

    def run() -> None:
        total: Any = 0.0
        for batch in batches:
            with torch.sim.stream(stream or torch.sim.current_stream()):
                batch.to("sim", non_blocking=True)
            y = x @ x
            time.sleep(python_s)
            if python_s:
                total = total + (y.sum().item() if read else y.sum())

    return run


def read(each: bool, python_s: float = 0.02) -> Program:
    """Steps that compute, and read a number each or at the end."""
    x = square()

    def run() -> None:
        total: Any = 0.0
        for _ in range(STEPS):
            total = total + ((x @ x).sum().item() if each else (x @ x).sum())
            time.sleep(python_s)
        if not each:
            total.item()

    return run


def in_series(series: bool) -> Program:
    """The same work on two devices, one after the other or at once."""
    both = [torch.randn(64, 64, device=f"sim:{i}") for i in (0, 1)]

    def run() -> None:
        for i, x in enumerate(both):
            for _ in range(STEPS):
                x @ x
            if series:
                torch.sim.synchronize(i)

    return run


def computed(own: bool) -> Program:
    """Steps that each need a batch from pinned memory: copied on the stream of the compute, or ahead on its own."""
    w = torch.randn(500, 500, device="sim")
    batches = [torch.randn(500, 500).pin_memory() for _ in range(STEPS)]
    side = torch.sim.Stream()

    def run() -> None:
        current = torch.sim.current_stream()
        for batch in batches:
            with torch.sim.stream(side if own else current):
                there = batch.to("sim", non_blocking=True)
            if own:
                current.wait_stream(side)
            there @ w

    return run


def saved(own: bool) -> Program:
    """Steps whose result goes to pinned memory: copied on the stream of the compute, or on its own."""
    x = torch.randn(500, 500, device="sim")
    there = [torch.empty(500, 500).pin_memory() for _ in range(STEPS)]
    side = torch.sim.Stream()

    def run() -> None:
        current = torch.sim.current_stream()
        for out in there:
            y = x @ x
            if own:
                side.wait_stream(current)
            with torch.sim.stream(side if own else current):
                out.copy_(y, non_blocking=True)

    return run


def waiting(waits: bool) -> Program:
    """Two streams with work of their own, which wait for each other or not."""
    x, z = square(), square()
    a, b = torch.sim.Stream(), torch.sim.Stream()

    def run() -> None:
        for _ in range(STEPS):
            with torch.sim.stream(a):
                x @ x
            if waits:
                b.wait_stream(a)
            with torch.sim.stream(b):
                z @ z
            if waits:
                a.wait_stream(b)

    return run


def beside_python(python_s: float = 0.02, *, first: bool = False) -> Program:
    """Steps of compute with Python beside.  first: Python comes first, and each step ends with a read."""
    x = square()

    def run() -> None:
        for _ in range(STEPS):
            if first:
                time.sleep(python_s)
                (x @ x).sum().item()
            else:
                x @ x
                time.sleep(python_s)

    return run


def added(together: bool) -> Program:
    """200 small ops, one by one or as one."""
    tensors = [torch.randn(64, device="sim") for _ in range(200)]

    def run() -> None:
        if together:
            torch._foreach_add_(tensors, 1.0)
        else:
            for tensor in tensors:
                tensor.add_(1.0)

    return run


def combined(together: bool) -> Program:
    """Six products, each followed by an elementwise product and a sum, or by one op that does both."""
    x, w = torch.rand(64, 64, device="sim"), torch.rand(64, 64, device="sim")

    def run() -> None:
        for _ in range(6):
            y = x @ x
            y = torch.addcmul(y, y, w) if together else y + y * w

    return run


def side_copies() -> tuple[Program, Program]:
    """Copies on a stream of their own."""
    stream = torch.sim.Stream()
    return copied(False, stream), copied(True, stream)


def twice(make: Callable[..., Program], *args: Any) -> Callable[[], tuple[Program, Program]]:
    """The same program before and after, where the device itself changes."""

    def both() -> tuple[Program, Program]:
        program = make(*args)
        return program, program

    return both


COPY, SLOW_COPY, STEP = "matmul=30ms, copy=0.05GB/s", "matmul=30ms, copy=0.04GB/s", 0.015


def both(
    program: Callable[..., Program], *before_and_after: Any, **options: Any
) -> Callable[[], tuple[Program, Program]]:
    """A program made with the first of two arguments, and with the second."""
    before, after = before_and_after
    return lambda: (program(before, **options), program(after, **options))


def trained(pinned: bool, read: bool) -> Program:
    """Steps that copy, compute, and maybe read."""
    return copied(pinned, read=read, python_s=STEP)


PAIRS = (
    Pair("pageable → pinned, one stream", "chosen", COPY, both(copied, False, True), (Pin(),)),
    Pair("pageable → pinned, copies on a side stream", "held out", COPY, side_copies, (Pin(),)),
    Pair(".item() in each step → one at the end", "chosen", "matmul=30ms", both(read, True, False), (NoItem(),)),
    Pair(
        *(".item() in each step, Python 35 ms", "held out", "matmul=30ms"),
        both(read, True, False, python_s=0.035),
        (NoItem(),),
    ),
    Pair("two devices in series → at once", "chosen", "matmul=25ms", both(in_series, True, False), (NoItem(),)),
    Pair(
        *("batches on the compute's stream → their own", "chosen", SLOW_COPY),
        both(computed, False, True),
        (OwnStream(),),
    ),
    Pair("results on the compute's stream → their own", "held out", COPY, both(saved, False, True), (OwnStream(),)),
    Pair("waits between two streams → none", "held out", "matmul=25ms", both(waiting, True, False), (NoWaits(),)),
    Pair(
        *("matmul 30 ms → 15 ms, Python 20 ms", "chosen", "matmul=30ms"),
        twice(beside_python),
        (FasterKernels("mm", 2.0),),
        "matmul=15ms",
    ),
    Pair(
        *("matmul 60 ms → 20 ms, Python 20 ms", "held out", "matmul=60ms"),
        twice(beside_python),
        (FasterKernels("mm", 3.0),),
        "matmul=20ms",
    ),
    Pair(
        "Python 50 ms → 25 ms a step",
        "held out",
        "matmul=30ms",
        both(beside_python, 0.05, 0.025, first=True),
        (FasterPython(2.0),),
    ),
    Pair(
        *("pinned, and no .item()", "chosen", COPY),
        lambda: (trained(False, True), trained(True, False)),
        (Pin(), NoItem()),
    ),
    Pair("the same, pinned only", "held out", COPY, lambda: (trained(False, True), trained(True, True)), (Pin(),)),
    Pair(
        *("the same, no .item() only", "held out", COPY),
        lambda: (trained(False, True), trained(False, False)),
        (NoItem(),),
    ),
    Pair(
        *("two elementwise ops → one", "held out", "matmul=10ms, mul=8ms, add=8ms, addcmul=8ms"),
        both(combined, False, True),
        (Fused(),),
    ),
    Pair("200 small ops → one", "refuse", "kernel=30us", both(added, False, True), (OneGraph(),)),
)


@dataclass(frozen=True)
class Choice:
    """A program, and three changes of it of which one is best. pace: of the simulated device.  python_s: of a step."""

    name: str
    pace: str
    python_s: float

    @property
    def before(self) -> Program:
        return copied(False, read=True, python_s=self.python_s)

    @property
    def changed(self) -> tuple[tuple[str, Change, Program], ...]:
        python_s = self.python_s
        return (
            ("pin", Pin(), copied(True, read=True, python_s=python_s)),
            ("no .item()", NoItem(), copied(False, python_s=python_s)),
            ("Python × 2", FasterPython(2.0), copied(False, read=True, python_s=python_s / 2)),
        )


CHOICES = (
    Choice("long copies", "matmul=30ms, copy=0.04GB/s", 0.01),
    Choice("reads on a busy device", "matmul=30ms, copy=1GB/s", 0.025),
    Choice("long Python", "matmul=8ms, copy=1GB/s", 0.06),
)


def chosen(choice: Choice, reps: int) -> str:
    """A row of the second table as Markdown: what was predicted of three changes, and what they took."""
    from perfmagic import sim

    sim.set_pace(choice.pace)
    before = choice.before
    before()
    cells, predicted, took = [], [], []
    for name, change, after in choice.changed:
        found = [recorded(before, (change,)) for _ in range(reps)]
        after()
        predicted.append(statistics.median(one.expected_ns for one in found) / 1e6)
        took.append(statistics.median(took_ms(after) for _ in range(reps)))
        cells.append(f"{name}: {predicted[-1]:.0f}, {took[-1]:.0f}")
    best, picked = (choice.changed[times.index(min(times))][0] for times in (took, predicted))
    return f"| {choice.name} | {' | '.join(cells)} | {picked} | {best} |"


def recorded(program: Program, changes: tuple[Change, ...]) -> Prediction:
    """The prediction from one recording."""
    torch.sim.synchronize(0), torch.sim.synchronize(1)
    with perfmagic.timeline(device="sim") as t:
        program()
    return predict(Readings.from_trace(t.result.trace), changes)


def took_ms(program: Program) -> float:
    """One unrecorded run, until both devices are done."""
    torch.sim.synchronize(0), torch.sim.synchronize(1)
    start = time.perf_counter()
    program()
    torch.sim.synchronize(0), torch.sim.synchronize(1)
    return (time.perf_counter() - start) * 1e3


def measured(pair: Pair, reps: int) -> dict[str, Any]:
    """A row of the table."""
    from perfmagic import sim

    sim.set_pace(pair.pace)
    before, after = pair.make()
    before(), after()
    predictions = [recorded(before, pair.changes) for _ in range(reps)]
    if refused := refused_row(predictions, pair.name, pair.half):
        return refused
    gc.collect()
    befores, afters = [], []
    for _ in range(reps):
        sim.set_pace(pair.pace)
        befores.append(took_ms(before))
        sim.set_pace(pair.pace_after or pair.pace)
        afters.append(took_ms(after))
    before_ms, after_ms = map(statistics.median, (befores, afters))
    return row_of(predictions, after_ms, pair.name, pair.half, before_ms=before_ms)


def main() -> None:
    """Print the table, and what it says in all."""
    given = parsed(__doc__)
    perfmagic.devices(2, "sim")
    torch.set_num_threads(1)
    lines = [
        "# What a change gains, predicted and measured\n",
        f"simulated device, torch {torch.__version__}; ms, medians of {given.reps}; `python benchmarks/what_if.py`",
        "",
        *head("change", "pairs"),
    ]
    print("\n".join(lines), flush=True)
    rows = []
    for pair in PAIRS:
        if given.names and not any(part in pair.name for part in given.names):
            continue
        rows.append(measured(pair, given.reps))
        lines.append(row_text(rows[-1]))
        print(lines[-1], flush=True)
    for half in ("chosen", "held out"):
        if words := summary([row for row in rows if row["labels"][1] == half]):
            lines.append(f"\n{half}: {words}")
            print(lines[-1])
    if not given.names:
        lines += ["\n| program | each change: predicted, measured | | | picked | best |", "|---|---|---|---|---|---|"]
        print("\n".join(lines[-2:]))
        for choice in CHOICES:
            lines.append(chosen(choice, given.reps))
            print(lines[-1], flush=True)
    if given.out:
        given.out.write_text("\n".join(lines) + "\n", "utf-8")


if __name__ == "__main__":
    main()
