"""Ranks on virtual clocks: they meet at one instant, however slow the machine is, and do the same each time."""

import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("torch", reason="the process group needs torch")

from perfmagic.predict.model import DeviceModel
from perfmagic.sim.groups import operations as ops
from perfmagic.sim.pace import Pace
from perfmagic.sim.virtual import OP_NS
from tests.many_ranks import run_ranks

US = 1_000
MB = 10**6

_CLOCK = """
from perfmagic.base.clock import now_ns, START_NS
device = perfmagic.device(clock="virtual", pace=PACE)
def ops(code):
    dist.barrier()
    with perfmagic.timeline() as timeline:
        code()
    trace = timeline.result.trace
    columns = trace.ops.name.tolist(), trace.ops.start_ns.tolist(), trace.ops.end_ns.tolist()
    return sorted(((trace.names[name], start, end) for name, start, end in zip(*columns)), key=lambda row: row[::-1])
def only(name, rows):
    return [row[1:] for row in rows if row[0] == name]
"""

_STEP = (
    _CLOCK.replace("PACE", '"matmul=1GFLOP/s, link=1GB/s, latency=20us"')
    + """
torch.manual_seed(0)
net = torch.nn.Sequential(*[torch.nn.Linear(64, 64) for _ in range(4)]).to(device)
net = torch.nn.parallel.DistributedDataParallel(net, bucket_cap_mb=0.02)
optimizer, x = torch.optim.SGD(net.parameters(), lr=0.1), torch.ones(16, 64, device=device)
def step():
    optimizer.zero_grad()
    net(x).sum().backward()
    optimizer.step()
def late():
    if rank == 2:
        torch.sim._sleep(500e-6)
    step()
step(), step()
say(steps=[ops(step), ops(step)], late=ops(late))
from torch.distributed.device_mesh import init_device_mesh
mesh, sums = init_device_mesh("sim", (2, 2), mesh_dim_names=("dp", "tp")), {}
for name in mesh.mesh_dim_names:
    t = torch.full((1,), float(rank), device=device)
    dist.all_reduce(t, group=mesh.get_group(name))
    sums[name] = t.item()
say(sums=sums)
"""
)


@pytest.mark.slow
def test_a_step_takes_the_same_on_all_ranks_each_time_and_beside_a_busy_process(tmp_path: Path) -> None:
    said = run_ranks(tmp_path, 4, _STEP)
    rows = said[0]["steps"][0]
    assert all(step == rows for rank in said for step in rank["steps"])
    bucket_bytes = 4 * 2 * (64 * 64 + 64)  # of two layers, by a tree of four ranks over 1 GB/s
    reduces = [end - start for name, start, end in rows if name == "all_reduce"]
    assert reduces == [4 * 20 * US + 2 * bucket_bytes] * 2
    busy = subprocess.Popen([sys.executable, "-c", "while True: pass"])
    try:
        assert run_ranks(tmp_path, 4, _STEP) == said
    finally:
        busy.kill()
        busy.wait()
    waited = [[end - start for name, start, end in rank["late"] if name == "all_reduce"] for rank in said]
    ends = [[end for name, _, end in rank["late"] if name == "all_reduce"] for rank in said]
    assert all(each == ends[0] for each in ends)  # all leave together
    assert waited[0] == waited[1] == waited[3]
    assert waited[2] == reduces
    assert waited[0][0] > waited[2][0] + 400 * US  # for the straggler
    assert [rank["sums"] for rank in said] == [{"dp": dp, "tp": tp} for dp, tp in ((2, 1), (4, 1), (2, 5), (4, 5))]


_ANY_ORDER = (
    _CLOCK.replace("PACE", '"link=1GB/s"')
    + """
import time
x, y = (torch.full((250,), float(rank), device=device) for _ in range(2))
def crossed():
    if rank == 0:
        work = dist.all_reduce(x, async_op=True)
        dist.send(y, 1)  # the other one comes to the all_reduce after that
        work.wait()
    else:
        time.sleep(0.3)
        dist.recv(y, 0)
        dist.all_reduce(x)
rows = ops(crossed)
say(sums=(x + y).tolist() == [1.0] * 250, met=only("all_reduce", rows))
say(sent=only(("send 0->1", "recv 1<-0")[rank], rows))
def asked():
    if rank:
        torch.sim._sleep(1e-3)
    work = dist.all_reduce(x, async_op=True)
    event = torch.sim.Event()
    answers = [work.is_completed()]
    work.wait()
    event.record()
    while not event.query():
        answers.append(work.is_completed())
    return answers + [work.is_completed()]
dist.barrier()
say(asked=asked())
def held():
    torch.sim.reset_peak_memory_stats()
    t = torch.ones(250_000, device=device)
    time.sleep(0.3 * rank)
    work = dist.all_reduce(t, async_op=True)
    del t, work
    time.sleep(0.1 * rank)  # the other one's all_reduce is not over, this one's is
    more = torch.ones(250_000, device=device)
    return torch.sim.max_memory_allocated()
dist.barrier()
say(peak=held())
time.sleep(0.2 * rank)
dist.barrier()
began_ns, host = now_ns(), torch.ones(250)
if rank:
    torch.sim._sleep(1e-3), torch.sim.synchronize()
work = dist.all_reduce(host, async_op=True)
called_ns = now_ns()
work.wait()
say(host=host[0].item(), called=called_ns - began_ns, left=now_ns() - began_ns, done=work.is_completed())
dist.group.WORLD.monitored_barrier()
say(end=now_ns())
"""
)


@pytest.mark.slow
def test_ranks_call_in_any_order_that_streams_allow_and_answers_depend_on_virtual_time_only(tmp_path: Path) -> None:
    first, second = said = run_ranks(tmp_path, 2, _ANY_ORDER)
    assert run_ranks(tmp_path, 2, _ANY_ORDER) == said
    assert first["sums"]
    assert second["sums"]
    (sent,), (received,), (early,), (late,) = first["sent"], second["sent"], first["met"], second["met"]
    assert sent[1] == received[1] == max(sent[0], received[0]) + OP_NS
    assert early[1] == late[1] == late[0] + OP_NS > early[0] + OP_NS
    for answers in (first["asked"], second["asked"]):
        assert (answers[0], answers[-1]) == (False, True)
        assert answers.count(False) > 100  # as long as rank 1 sleeps
    assert first["peak"] == second["peak"]  # however long the operation really takes
    # host tensors: the host that waits goes on when the last one has come and the link has done its work
    assert first["host"] == 2
    assert first["left"] == second["left"] == second["called"] + OP_NS
    assert first["called"] < 10 * US < 1000 * US < second["called"]
    assert first["done"]
    assert first["end"] == second["end"]


_MACHINES = (
    _CLOCK.replace("PACE", '"link=1GB/s, network=100MB/s, machine=2ranks"')
    + """
t, inside = torch.ones(250_000, device=device), dist.new_subgroups(2)[0]
def message(to):
    if rank in (0, to):
        dist.send(t, to) if rank == 0 else dist.recv(t, 0)
took = {}
for name, code in {
    "inside": lambda: dist.all_reduce(t, group=inside),
    "all": lambda: dist.all_reduce(t),
    "to 1": lambda: message(1),
    "to 2": lambda: message(2),
}.items():
    took[name] = max((end - start for _, start, end in ops(code)), default=0)
say(took=took)
"""
)


@pytest.mark.slow
def test_what_leaves_a_machine_goes_over_its_network(tmp_path: Path) -> None:
    took = [said["took"] for said in run_ranks(tmp_path, 4, _MACHINES)]
    assert [each["inside"] for each in took] == [MB] * 4
    assert [each["all"] for each in took] == [1.5 * MB * 10] * 4
    assert (took[0]["to 1"], took[1]["to 1"]) == (MB, MB)
    assert (took[0]["to 2"], took[2]["to 2"]) == (10 * MB, 10 * MB)


_CHANGED = """
if rank:
    perfmagic.device(clock="virtual")
try:
    dist.barrier()
    torch.sim.synchronize()
except Exception as error:
    say(error=str(error))
"""


@pytest.mark.slow
def test_ranks_of_different_clocks_do_not_meet(tmp_path: Path) -> None:
    expected = "clocks do not match: that of ranks 1, 2 is virtual, that of rank 0 is real"
    for said in run_ranks(tmp_path, 3, _CHANGED):
        assert said["error"].startswith(expected)
        assert "--clock virtual" in said["error"]


@pytest.mark.parametrize(
    ("operation", "ranks", "steps", "link_bytes"),
    [
        (ops.ALL_REDUCE, 4, 6, 1.5 * MB),
        (ops.ALL_REDUCE, 1, 0, 0),
        (ops.ALL_GATHER_BASE, 8, 7, 7 / 8 * MB),
        (ops.REDUCE_SCATTER, 2, 1, MB / 2),
        (ops.BROADCAST, 8, 7, MB),
        (ops.ALL_TO_ALL, 8, 1, 7 / 8 * MB),
        (ops.SEND, 8, 1, MB),
    ],
)
def test_a_collective_takes_a_latency_a_step_and_its_bytes_on_a_link(
    operation: ops.OperationKind, ranks: int, steps: int, link_bytes: float
) -> None:
    pace = Pace(link_bytes_per_s=1e9, link_latency_s=1e-5)
    assert operation.takes_ns(pace, MB, ranks) == max(OP_NS, round(steps * 10_000 + link_bytes))


def test_a_small_all_reduce_goes_through_a_tree_and_a_barrier_too() -> None:
    pace = Pace(link_bytes_per_s=1e9, link_latency_s=1e-5)
    assert [ops.ALL_REDUCE.takes_ns(pace, 8, ranks) for ranks in (2, 8, 64)] == [20_008, 60_016, 120_016]
    assert ops.BARRIER.takes_ns(pace, 0, 9) == 8 * 10 * US
    named = Pace(link_bytes_per_s=1e9, by_name={"all_reduce": 1e-6})
    assert ops.ALL_REDUCE.takes_ns(named, MB, 8) == US
    assert ops.ALL_REDUCE.takes_ns(None, MB, 8) == OP_NS

    (ring_s,) = {model.link_s("all_reduce", 175e7, 14) for model in (DeviceModel("H100"), DeviceModel("H200"))}
    assert ops.ALL_REDUCE.takes_ns(DeviceModel("H100"), 10**9, 8) == round(ring_s * 1e9)
    assert 1.75 / ring_s == pytest.approx(370, rel=0.05)  # as NCCL's authors expect of a ring

    def asked(*given: Any) -> float:
        return 1e-3 if given[2] == 1_750_000 else 2e-3

    assert ops.ALL_REDUCE.takes_ns(asked, MB, 8) == 1000 * US


_EMPTY = (
    _CLOCK.replace("pace=PACE", 'pace="link=1GB/s", values="small"')
    + """
def refusal(code):
    try:
        return code()
    except Exception as error:
        return str(error)
large, small = torch.ones(8_000_000, device=device), torch.ones(1_000_000, device=device)
(start, end), = only("all_reduce", ops(lambda: dist.all_reduce(large)))
say(large=end - start, read=refusal(large.sum().item))
if rank == 0:  # what only one rank lacks, all get without a value
    small = large[:1_000_000] + 1
dist.all_reduce(small)
(again, done), = only("all_reduce", ops(lambda: dist.all_reduce(small)))
say(small=done - again, none=refusal((small + 1).sum().item), own=refusal(torch.ones(3, device=device).sum().item))
"""
)


@pytest.mark.slow
def test_tensors_without_values_take_their_time_and_stay_without(tmp_path: Path) -> None:
    for said in run_ranks(tmp_path, 2, _EMPTY):
        assert (said["large"], said["small"]) == (32_000_000, 4_000_000)
        assert "there is no data" in said["read"]
        assert "there is no data" in said["none"]
        assert said["own"] == 3
