"""What host tensors communicate is noted with its kind, its number, its size, its line and its time."""

from __future__ import annotations

from pathlib import Path

import pytest

pytest.importorskip("torch", reason="the process group needs torch")

from tests.many_ranks import run_ranks

pytestmark = pytest.mark.slow

_RECORDED = """
import dataclasses, time
t = torch.ones(1000)
dist.all_reduce(t)
log = groups.HostLog()
log.take()
before_ns = time.perf_counter_ns()
work = dist.all_reduce(t, async_op=True)
work.wait()
dist.broadcast(t.double(), 1)
if rank:
    dist.send(t, 0)
else:
    dist.recv(t, 1)
dist.barrier()
after_ns = time.perf_counter_ns()
log.give_back()
dist.all_reduce(t)
rows = log.read()
lines = open(__file__).read().splitlines()
say(
    rows=[[r.group, r.kind, r.number, r.size_bytes, r.peer, r.on_device, lines[r.line - 1].strip()] for r in rows],
    inside=all(before_ns <= r.start_ns < r.end_ns <= after_ns for r in rows),
    in_turn=all(a.end_ns <= b.start_ns for a, b in zip(rows, rows[1:])),
)
"""


def test_operations_on_host_tensors_are_noted_while_a_log_is_open(tmp_path: Path) -> None:
    said = run_ranks(tmp_path, 2, _RECORDED, backend="perfmagic")
    for rank, mine in enumerate(said):
        message = ["send", "dist.send(t, 0)"] if rank else ["recv", "dist.recv(t, 1)"]
        assert mine["rows"] == [
            ["0", "allreduce", 2, 4000, None, False, "work = dist.all_reduce(t, async_op=True)"],
            ["0", "broadcast", 3, 8000, None, False, "dist.broadcast(t.double(), 1)"],
            ["0", message[0], 1, 4000, 1 - rank, False, message[1]],
            ["0", "barrier", 4, 0, None, False, "dist.barrier()"],
        ]
        assert mine["inside"]
        assert mine["in_turn"]
