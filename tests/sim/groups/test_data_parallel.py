"""DistributedDataParallel on the simulated device: the same as one process with the whole batch, and in the record."""

from pathlib import Path

import pytest

pytest.importorskip("torch", reason="the process group needs torch")

from tests.many_ranks import run_ranks

pytestmark = pytest.mark.slow

_MODEL = """
from perfmagic import sim
def model():
    torch.manual_seed(0)
    widths = [torch.nn.Linear(16, 64), torch.nn.Linear(64, 64), torch.nn.Linear(64, 4)]
    layers = [widths[0], torch.nn.ReLU(), widths[1], torch.nn.ReLU(), widths[2]]
    return torch.nn.Sequential(*layers).double().to(device)
torch.manual_seed(1)
batch, target = torch.randn(32, 16).double(), torch.randn(32, 4).double()
def step(net, optimizer, x, y):
    optimizer.zero_grad()
    torch.nn.functional.mse_loss(net(x.to(device)), y.to(device)).backward()
    optimizer.step()
def parallel(**options):
    net = model()
    ddp = torch.nn.parallel.DistributedDataParallel(net, bucket_cap_mb=0.01, **options)
    return net, ddp, torch.optim.SGD(ddp.parameters(), lr=0.1)
part = [t.chunk(world_size)[rank] for t in (batch, target)]
def flat(net):
    return torch.cat([p.detach().cpu().reshape(-1) for p in net.parameters()])
"""

_EQUAL = (
    _MODEL
    + """
alone = model()
optimizer = torch.optim.SGD(alone.parameters(), lr=0.1)
for _ in range(3):
    step(alone, optimizer, batch, target)
for name, options in {"plain": {}, "views": {"gradient_as_bucket_view": True}}.items():
    net, ddp, optimizer = parallel(**options)
    for _ in range(3):
        step(ddp, optimizer, *part)
    say(**{name: (flat(net) - flat(alone)).abs().max().item(), name + "_sum": flat(net).sum().item().hex()})
# where arithmetic has one order only: two ranks of one row each, and a sum of two gradients
net, ddp, optimizer = parallel()
step(ddp, optimizer, batch[rank : rank + 1], target[rank : rank + 1])
for row in range(world_size):
    single = model()
    torch.nn.functional.mse_loss(single(batch[row : row + 1].to(device)), target[row : row + 1].to(device)).backward()
    summed = [p.grad / 2 for p in single.parameters()] if row == 0 else [
        total.add_(p.grad / 2) for total, p in zip(summed, single.parameters())]
for p, gradient in zip(single.parameters(), summed):
    p.grad = gradient
torch.optim.SGD(single.parameters(), lr=0.1).step()
say(exact=bool((flat(net) == flat(single)).all()))
# no_sync leaves the gradients apart, and a hook of the user's gets the buckets
net, ddp, optimizer = parallel()
with ddp.no_sync():
    torch.nn.functional.mse_loss(ddp(part[0].to(device)), part[1].to(device)).backward()
say(apart=net[0].weight.grad.sum().item())
ddp.register_comm_hook(None, lambda state, bucket: dist.all_reduce(bucket.buffer(), async_op=True).get_future().then(
    lambda future: future.value()[0] / 2))
net.zero_grad()
torch.nn.functional.mse_loss(ddp(part[0].to(device)), part[1].to(device)).backward()
say(hooked=net[0].weight.grad.sum().item())
dist.barrier()
"""
)


def test_it_equals_one_process_with_the_whole_batch(tmp_path: Path) -> None:
    reports = run_ranks(tmp_path, 2, _EQUAL)
    for report in reports:
        assert report["plain"] < 1e-14  # of doubles of about 1: the order of sums
        assert report["views"] < 1e-14
        assert report["exact"]
    for key in ("plain_sum", "views_sum", "hooked"):
        assert reports[0][key] == reports[1][key], key
    assert reports[0]["apart"] != reports[1]["apart"]


_UNUSED = (
    _MODEL
    + """
class Branches(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.branches = torch.nn.ModuleList(torch.nn.Linear(2, 1, bias=False) for _ in range(3))
    def forward(self, x, used):
        return self.branches[used](x).sum()
for options in ({"find_unused_parameters": True}, {"static_graph": True}):
    torch.manual_seed(0)
    net = Branches().to(device)
    ddp = torch.nn.parallel.DistributedDataParallel(net, **options)
    for used in ([rank, rank] if "static_graph" not in options else [0, 0]):  # the third branch is never used
        net.zero_grad()
        ddp(torch.full((1, 2), rank + 1.0, device=device), used).backward()
    say(**{next(iter(options)): [p.grad if p.grad is None else p.grad.tolist() for p in net.parameters()]})
say(after=torch.ones(2, device=device).sum().item())
dist.barrier()
"""
)


def test_parameters_that_a_rank_does_not_use_get_the_gradients_of_others(tmp_path: Path) -> None:
    for report in run_ranks(tmp_path, 2, _UNUSED):
        # the mean over two ranks of the gradient 1, of rank 0 alone, and of the gradient 2, of rank 1 alone
        assert report["find_unused_parameters"] == [[[0.5, 0.5]], [[1.0, 1.0]], None]
        assert report["static_graph"] == [[[1.5, 1.5]], None, None]
        assert report["after"] == 2


_RECORDED = (
    _MODEL
    + """
net, ddp, optimizer = parallel()
step(ddp, optimizer, *part); step(ddp, optimizer, *part)  # DDP arranges its buckets after the first
torch.sim.synchronize(); dist.barrier()
sim.set_pace("kernel=5ms, link=10MB/s, latency=5ms")
with perfmagic.timeline() as timeline:
    step(ddp, optimizer, *part)
words = sim.devices_in_use()[0].pace_description
sim.set_pace(None)
trace = timeline.result.trace
from perfmagic.trace.formats.chrome import write_chrome
write_chrome(trace, os.path.join(os.path.dirname(__file__), f"rank{rank}.json"))
from perfmagic.analysis.timeline.collectives import collectives
stats = collectives(trace, 0)
say(
    stats=[[s.name, s.dtype, s.group, s.group_size, s.n_ops, s.size_bytes] for s in stats], note=stats.note,
    parameters=sum(p.numel() for p in net.parameters()), races=len(trace.meta.races),
    rank=trace.meta.rank, world_size=trace.meta.world_size, words=words,
)
dist.barrier()
"""
)


def test_its_all_reduces_are_in_the_record_as_communication_beside_backward(tmp_path: Path) -> None:
    import json

    reports = run_ranks(tmp_path, 2, _RECORDED)
    for rank, report in enumerate(reports):
        assert report["races"] == 0
        assert (report["rank"], report["world_size"], report["note"]) == (rank, 2, "")
        assert "link 10\xa0MB/s and 5\xa0ms" in report["words"]
        ((name, dtype, group, size, n_ops, size_bytes),) = report["stats"]
        assert (name, dtype, group, size) == ("all_reduce", "Double", "0", 2)
        assert size_bytes == 8 * report["parameters"]
        # an independent walk over the file
        events = json.loads((tmp_path / f"rank{rank}.json").read_text())["traceEvents"]
        ops = [e for e in events if e.get("cat") in ("kernel", "gpu_memcpy", "gpu_memset")]
        comm = [e for e in ops if e["args"].get("Collective name") == "allreduce"]
        assert len(comm) == n_ops > 1
        assert {e["name"] for e in comm} == {"all_reduce"}
        assert sum(e["args"]["In msg nelems"] for e in comm) == report["parameters"]
        assert all(e["args"]["Process Group Ranks"] == "[0, 1]" for e in comm)
        numbers = [e["args"]["Seq"] for e in sorted(comm, key=lambda e: e["ts"])]
        assert numbers == list(range(numbers[0], numbers[0] + n_ops))
        backward_end = max(e["ts"] + e["dur"] for e in ops if e["name"] == "mm")
        assert min(e["ts"] for e in comm) < backward_end  # beside backward, by order and not by a clock's reading
        assert len({e["tid"] for e in comm}) == 1
        assert {e["tid"] for e in comm}.isdisjoint({e["tid"] for e in ops if e not in comm})
        for e in comm:  # at least the link's time: 5 ms, and once the bytes (2 (n - 1) / n) at 10 MB/s
            assert e["dur"] >= 5_000 + e["args"]["In msg nelems"] * 8 / 10.0
    walked = [{name: report[name] for name in ("stats", "parameters")} for report in reports]
    assert walked[0] == walked[1]
