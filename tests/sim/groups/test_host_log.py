"""What host tensors communicate is noted with its kind, its number, its size, its line and its time."""

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
log.acquire()
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
    reports = run_ranks(tmp_path, 2, _RECORDED, backend="perfmagic")
    for rank, report in enumerate(reports):
        message = ["send", "dist.send(t, 0)"] if rank else ["recv", "dist.recv(t, 1)"]
        assert report["rows"] == [
            ["0", "allreduce", 2, 4000, None, False, "work = dist.all_reduce(t, async_op=True)"],
            ["0", "broadcast", 3, 8000, None, False, "dist.broadcast(t.double(), 1)"],
            ["0", message[0], 1, 4000, 1 - rank, False, message[1]],
            ["0", "barrier", 4, 0, None, False, "dist.barrier()"],
        ]
        assert report["inside"]
        assert report["in_turn"]


_TIMELINE = """
import perfmagic
t, got = torch.ones(1000), torch.zeros(1000)
right, left = (rank + 1) % world_size, (rank - 1) % world_size
dist.all_reduce(t)
with perfmagic.timeline(device="cpu") as timeline:
    for _ in range(2):
        for work in (dist.isend(t, right), dist.irecv(got, left)):
            work.wait()
    dist.all_reduce(t)
timeline.result.save(os.path.join(os.path.dirname(__file__), f"rank{rank}.npz"))
dist.barrier()
"""


def test_a_timeline_on_the_cpu_says_to_whom_messages_went_and_ranks_match_them(tmp_path: Path) -> None:
    import perfmagic

    run_ranks(tmp_path, 3, _TIMELINE, backend="perfmagic")
    for rank in range(3):
        trace = perfmagic.open_trace(tmp_path / f"rank{rank}.npz").trace
        names = [trace.names[i] for i in trace.host_ops.name if trace.names[i].startswith("gloo:")]
        right, left = (rank + 1) % 3, (rank - 1) % 3
        assert sorted(names) == sorted(
            [*[f"gloo:send {rank}->{right}", f"gloo:recv {rank}<-{left}"] * 2, "gloo:all_reduce"]
        )
    ranks = perfmagic.open_traces(tmp_path).ranks
    pairs = sorted((m.source, m.target, m.number) for m in ranks.messages())
    assert pairs == sorted((rank, (rank + 1) % 3, n) for rank in range(3) for n in range(2))
    assert [meeting.kind for meeting in ranks.meetings()] == ["all_reduce"]
    (row,) = [row for row in ranks.collectives() if row.kind == "all_reduce"]
    assert (row.n, row.size_bytes, row.rank_bytes) == (1, 4000, (4000,) * 3)
    if row.transfer_ns:
        assert row.bus_bytes_per_s == pytest.approx(4000 * 4 / 3 / row.transfer_ns * 1e9)
    assert {row.size_bytes for row in ranks.collectives() if row.kind == "send"} <= {4000}
