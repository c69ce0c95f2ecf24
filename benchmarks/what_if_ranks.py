"""What a change on some ranks gains the job, predicted by replaying all ranks, beside what the changed job takes.

    python benchmarks/what_if_ranks.py [--reps N] [--out FILE] [PART OF A NAME ...]

Each pair is a cell of three ranks before and after a change, on simulated devices with paces of 10 ms and more. Both
are recorded: predicted is the job before, measured the critical path of the job after, medians of N each.
"""

import statistics
from dataclasses import dataclass
from typing import Any

import torch
from predicted import head, parsed, refused_row, row_of, row_text, summary

import perfmagic
from perfmagic.analysis.replay.changes.change import Change
from perfmagic.changes import faster, no_item, no_python, on_time, pin

SETUP = """
import time, torch, perfmagic
import torch.distributed as dist
torch.set_num_threads(1)
device = perfmagic.device(pace="{pace}")
x = torch.rand(64, 64, device=device)
grad = torch.rand(64, 64, device=device)
batch = torch.rand(200, 200)
pinned = batch.pin_memory()

def wait():
    torch.sim.synchronize()
    dist.barrier()
"""
PACE = "matmul=20ms, copy=0.01GB/s, link=0.002GB/s, latency=1ms"
STEP = """wait()
for step in range(5):
    {python}
    {compute}
    dist.all_reduce(grad)
    {last}
torch.sim.synchronize()"""


def cell(*, python: str = "pass", compute: str = "y = x @ x", last: str = "pass") -> str:
    """Five steps of Python, compute and an all-reduce; Python is on line 3, compute on 4, the end of a step on 6."""
    return STEP.format(python=python, compute=compute, last=last)


@dataclass(frozen=True)
class Pair:
    """A cell before and after some changes.  ranks: on which they are made, None for all."""

    name: str
    before: str
    after: str
    changes: tuple[Change, ...]
    ranks: tuple[int, ...] | None = None


READ = "grad.sum().item()"
SLOW, QUICK = "time.sleep(0.03 if rank == 2 else 0.005)", "time.sleep(0.005)"
COPY, PINNED = "batch.to(device)", "pinned.to(device, non_blocking=True)"
PAIRS = (
    Pair("rank 2 late by Python → on time", cell(python=SLOW, last=READ), cell(python=QUICK, last=READ), (on_time(),)),
    Pair(
        "rank 1 computes twice → on time",
        cell(compute="y = x @ x; y = y @ x if rank == 1 else y", last=READ),
        cell(last=READ),
        (on_time(),),
    ),
    Pair(
        "rank 2 late, its Python taken away",
        cell(python=SLOW, last=READ),
        cell(python=f"rank == 2 or {QUICK}", last=READ),
        (no_python(4),),
        (2,),
    ),
    Pair(
        "rank 2 late, that of the others taken away",
        cell(python=SLOW, last=READ),
        cell(python="rank != 2 or time.sleep(0.03)", last=READ),
        (no_python(4),),
        (0, 1),
    ),
    Pair(
        ".item() in each step → none",
        cell(python="time.sleep(0.015)", last=READ),
        cell(python="time.sleep(0.015)"),
        (no_item(),),
    ),
    Pair(
        "pageable → pinned on all ranks",
        cell(python=COPY, last=READ),
        cell(python=PINNED, last=READ),
        (pin(),),
    ),
    Pair(
        "pageable → pinned on rank 0",
        cell(python=COPY, last=READ),
        cell(python=f"{PINNED} if rank == 0 else {COPY}", last=READ),
        (pin(),),
        (0,),
    ),
)


def job_ms(found: Any) -> float:
    """How long a recorded job took."""
    return found.what_if(faster(k=1)).prediction.recorded_ns / 1e6


def measured(ranks: perfmagic.rows.Ranks, pair: Pair, reps: int) -> dict[str, Any]:
    """A row of the table; times in ms."""
    for code in (pair.before, pair.after):
        ranks.run(code)
    predictions, afters = [], []
    for _ in range(reps):
        before = ranks.run(pair.before, record=True)
        predictions.append(before.what_if(*pair.changes, ranks=pair.ranks).prediction)
        afters.append(job_ms(ranks.run(pair.after, record=True)))
    return refused_row(predictions, pair.name) or row_of(predictions, statistics.median(afters), pair.name)


def main() -> None:
    """Print the table, and what it says in all."""
    given = parsed(__doc__)
    lines = [
        "# What a change on some ranks gains the job, predicted and measured\n",
        f"three ranks on simulated devices, torch {torch.__version__}; ms, medians of {given.reps}",
        "",
        "`python benchmarks/what_if_ranks.py`",
        "",
        *head("change"),
    ]
    print("\n".join(lines), flush=True)
    rows = []
    with perfmagic.ranks(3, device="sim") as ranks:
        ranks.run(SETUP.format(pace=PACE))
        for pair in PAIRS:
            if given.names and not any(part in pair.name for part in given.names):
                continue
            rows.append(measured(ranks, pair, given.reps))
            lines.append(row_text(rows[-1]))
            print(lines[-1], flush=True)
    if words := summary(rows):
        lines.append(f"\n{words}")
        print(lines[-1])
    if given.out:
        given.out.write_text("\n".join(lines) + "\n", "utf-8")


if __name__ == "__main__":
    main()
