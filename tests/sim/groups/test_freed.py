"""Ranks that wait for one that failed: freed with the reason, and their groups and models go on."""

from pathlib import Path

import pytest

pytest.importorskip("torch", reason="the process group needs torch")

from tests.many_ranks import run_ranks

pytestmark = pytest.mark.slow

_FREED = """
import threading, time
from perfmagic.base.errors import CommunicationError
where = {"device": device, "host": "cpu"}
pair = dist.new_group([0, 1])
net = torch.nn.Linear(4, 4).to(device)
ddp = torch.nn.parallel.DistributedDataParallel(net)
torch.manual_seed(rank)
def step():
    ddp(torch.randn(2, 4).to(device)).sum().backward()
    if device.type == "sim":
        torch.sim.synchronize()
step()
def wait_until(condition):
    while not condition():
        time.sleep(0.005)
def blocked(place):
    # rank 0 waits in an operation that rank 1 does not come to; freed from another thread once it is in it
    seen = []
    def free():
        wait_until(lambda: any(operation.running for operation in groups.pending()))
        seen.extend(groups.pending())
        groups.free("rank 1 failed on line 2 with ValueError")
    threading.Thread(target=free, daemon=True).start()
    t = torch.ones(3, device=where[place])
    try:
        dist.all_reduce(t, group=pair)
        if place == "device":
            torch.sim.synchronize()
    except CommunicationError as error:
        first = seen[0]
        say(**{place: str(error), place + "_pending": [
            first.group, list(first.ranks), first.kind, first.title, first.number, first.size_bytes, first.on_device,
            first.file == __file__, open(__file__).read().splitlines()[first.line - 1].strip()]})
    try:
        dist.all_reduce(t, group=pair)
    except CommunicationError as error:
        say(**{place + "_again": str(error)})
    open(__file__ + place, "w").close()
places = [place for place in where if place == "host" or device.type == "sim"]
for epoch, place in enumerate(places):
    if rank == 0:
        blocked(place)
    else:  # the connections of a rank that fails are shut last here, as that would free the other one without a reason
        wait_until(lambda: os.path.exists(__file__ + place))
        groups.free("this rank failed")
    groups.renew(epoch)
    t = torch.full((2,), rank + 1.0, device=where[place])
    dist.all_reduce(t, group=pair); dist.all_reduce(t)
    say(**{place + "_after": t.tolist()})
    step()
say(same=net.weight.grad.sum().item())
# again and again: nothing piles up
def counts():
    return [len(os.listdir("/proc/self/fd")), len(os.listdir("/proc/self/task"))] if os.path.isdir("/proc/self") else []
before = []
for round in range(12):
    t = torch.full((1000,), float(rank), device=device)
    if rank == round % 2:
        work = dist.all_reduce(t, async_op=True)
        if round % 3:
            wait_until(lambda: work.is_completed() or any(operation.running for operation in groups.pending()))
        groups.free("again")
    else:
        groups.free("again")
    groups.renew(100 + round)
    t = torch.full((2,), rank + 1.0, device=device)
    dist.all_reduce(t)
    assert t.tolist() == [3.0, 3.0], t
    if round == 2:
        before = counts()
import time
until = time.monotonic() + 20  # what gloo lost is given up on threads of their own, which end some seconds later
while any(now - then >= 9 for now, then in zip(counts(), before)) and time.monotonic() < until:
    time.sleep(0.1)
say(before=before, after=counts())
dist.barrier()
dist.destroy_process_group()
"""


@pytest.mark.parametrize("backend", ["sim", "perfmagic"])
def test_a_blocked_rank_is_freed_with_the_reason_and_its_groups_are_renewed(tmp_path: Path, backend: str) -> None:
    reports = run_ranks(tmp_path, 2, _FREED, backend=backend)
    places = ("device", "host") if backend == "sim" else ("host",)
    for place in places:
        words = "all_reduce was given up: rank 1 failed on line 2 with ValueError"
        assert reports[0][place] == reports[0][f"{place}_again"] == words
        group, ranks, kind, title, _, size_bytes, on_device, in_file, line = reports[0][f"{place}_pending"]
        assert (ranks, kind, title, size_bytes, on_device) == ([0, 1], "allreduce", "all_reduce", 12, place == "device")
        assert group != "0"
        assert in_file
        assert line == "dist.all_reduce(t, group=pair)"
        assert reports[0][f"{place}_after"] == reports[1][f"{place}_after"] == [6.0, 6.0]
    assert reports[0]["same"] == reports[1]["same"]
    for report in reports:
        if report["before"]:  # each of nine more rounds would have left some; the last one's may be there still
            files, threads = (now - then for now, then in zip(report["after"], report["before"], strict=True))
            assert files < 9
            assert threads < 9


_GONE = """
t = torch.ones(2, device=device)
dist.all_reduce(t)
torch.sim.synchronize()
if rank == 1:
    os._exit(7)
try:
    dist.all_reduce(t)
    torch.sim.synchronize()
except Exception as error:
    say(kind=type(error).__name__, words=str(error))
"""


def test_a_rank_whose_partner_is_gone_gets_an_error(tmp_path: Path) -> None:
    reports = run_ranks(tmp_path, 2, _GONE, fails=(1,))
    assert reports[0]["kind"] == "CommunicationError"
    assert reports[0]["words"].startswith("all_reduce failed: ")
    assert "another rank failed, ended or did not call it" in reports[0]["words"]


_LOST = """
import threading
from perfmagic.sim.groups import agreement
t = torch.ones(2)
dist.all_reduce(t)
exchange = agreement.Collective.__call__
if rank == 0:  # as gloo loses a send that is under way while its connection is shut
    agreement.Collective.__call__ = lambda *given: threading.Event().wait()
work = dist.all_reduce(t, async_op=True)
while not (work.is_completed() or any(operation.running for operation in groups.pending())):
    pass  # the other one may have freed both by now
agreement.Collective.__call__ = exchange
groups.free("the cell was interrupted")
groups.renew(1)
t = torch.full((2,), rank + 1.0)
dist.all_reduce(t)
say(after=t.tolist())
"""


def test_an_operation_that_gloo_does_not_end_is_left_behind(tmp_path: Path) -> None:
    assert [report["after"] for report in run_ranks(tmp_path, 2, _LOST)] == [[3.0, 3.0], [3.0, 3.0]]


_ENDS = """
t = torch.ones(2, device=device)
dist.all_reduce(t)
torch.sim.synchronize()  # else this process may end before the other one has connected
if rank == 1:
    dist.all_reduce(t)  # nobody comes to this one, and the process ends with it under way
say(ended=True)
"""


def test_a_process_that_ends_with_an_operation_under_way_ends(tmp_path: Path) -> None:
    assert [report["ended"] for report in run_ranks(tmp_path, 2, _ENDS)] == [True, True]
