"""Every operation of torch.distributed in real processes: what each rank gets, compared with what it means."""

from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("torch", reason="the process group needs torch")

from tests.many_ranks import run_ranks

pytestmark = pytest.mark.slow
RANKS = 3

_ALL = """
def t(*values):
    return torch.tensor(values, dtype=torch.float32, device=device)
def blank(n=1):
    return torch.full((n,), -1.0, device=device)
def lists(tensors):
    return [x.tolist() for x in tensors]
n = world_size
a = t(rank + 1, 2); dist.all_reduce(a); say(all_reduce=a.tolist())
a = t(rank + 1, 2); dist.all_reduce(a, op=dist.ReduceOp.MAX, async_op=True).wait(); say(all_reduce_max=a.tolist())
a = t(rank + 1); dist.broadcast(a, 1); say(broadcast=a.tolist())
a = t(rank + 1); dist.reduce(a, 1); say(reduce=a.tolist())
out = [blank() for _ in range(n)]; dist.all_gather(out, t(rank + 1)); say(all_gather=lists(out))
out = blank(2 * n); dist.all_gather_into_tensor(out, t(rank, 5)); say(all_gather_into_tensor=out.tolist())
out = blank(); dist.reduce_scatter(out, [t(k + rank) for k in range(n)]); say(reduce_scatter=out.tolist())
out = blank(); dist.reduce_scatter_tensor(out, t(*[k + rank for k in range(n)]))
say(reduce_scatter_tensor=out.tolist())
out = [blank() for _ in range(n)]
dist.all_to_all(out, [t(10 * rank + k) for k in range(n)]); say(all_to_all=lists(out))
out = blank(n); dist.all_to_all_single(out, t(*[10 * rank + k for k in range(n)])); say(all_to_all_single=out.tolist())
out = blank(n); sent = t(*[float(rank)] * n)
dist.all_to_all_single(out, sent, [1] * n, [1] * n); say(all_to_all_split=out.tolist())
out = [blank() for _ in range(n)] if rank == 1 else None
dist.gather(t(rank + 1), out, 1); say(gather=out and lists(out))
out = blank(); dist.scatter(out, [t(7 + k) for k in range(n)] if rank == 1 else None, 1); say(scatter=out.tolist())
out = [None] * n; dist.all_gather_object(out, {"rank": rank}); say(objects=out)
right, left = (rank + 1) % n, (rank - 1) % n
got = blank(); works = [dist.isend(t(rank), right), dist.irecv(got, left)]
[work.wait() for work in works]; say(ring=got.tolist())
got = blank(); sent = t(rank)
for work in dist.batch_isend_irecv([dist.P2POp(dist.isend, sent, right), dist.P2POp(dist.irecv, got, left)]):
    work.wait()
say(batch=got.tolist())
if rank:
    dist.send(t(rank * 2), 0)
else:
    received = []
    for _ in range(n - 1):
        got = blank(); received.append([dist.recv(got), got.item()])
    say(any_source=sorted(received))
with dist._coalescing_manager():
    x, y = t(1), t(rank); dist.all_reduce(x); dist.all_reduce(y)
say(coalesced=[x.item(), y.item()])
dist.barrier()
pair = dist.new_group([0, 2])
if rank != 1:
    a = t(rank + 1); dist.all_reduce(a, group=pair); say(subgroup=a.item())
# columns of a matrix are not contiguous
matrix = torch.arange(4.0).view(2, 2).to(device)
try:
    dist.all_reduce(matrix.t())
except ValueError as error:
    say(refused=str(error))
big = torch.full((1000, 7), float(rank), device=device); dist.all_reduce(big)
say(big=[big.sum().item(), big.max().item()])
whole = torch.tensor([rank, 2], dtype=torch.int64, device=device)
dist.all_reduce(whole); say(integers=whole.tolist())
say(pending=len(groups.pending()))
dist.destroy_process_group()
"""

_SAME = {
    "all_reduce": [6.0, 6.0],
    "all_reduce_max": [3.0, 2.0],
    "broadcast": [2.0],
    "all_gather": [[1.0], [2.0], [3.0]],
    "all_gather_into_tensor": [0.0, 5.0, 1.0, 5.0, 2.0, 5.0],
    "objects": [{"rank": 0}, {"rank": 1}, {"rank": 2}],
    "coalesced": [3.0, 3.0],
    "all_to_all_split": [0.0, 1.0, 2.0],
    "big": [3.0 * 7000, 3.0],
    "integers": [3, 6],
    "pending": 0,
}


@pytest.mark.parametrize("backend", ["sim", "perfmagic"])
def test_each_operation_gives_each_rank_what_it_means(tmp_path: Path, backend: str) -> None:
    source = _ALL if backend == "sim" else _ALL.replace("dist.all_reduce(matrix.t())", "raise ValueError('contiguous')")
    reports = run_ranks(tmp_path, RANKS, source, backend=backend)
    for rank, report in enumerate(reports):
        assert {key: report[key] for key in _SAME} == _SAME
        assert report["reduce"] == [6.0] if rank == 1 else "reduce" in report
        assert report["reduce_scatter"] == report["reduce_scatter_tensor"] == [3.0 * rank + 3.0]
        assert report["all_to_all"] == [[float(rank)], [10.0 + rank], [20.0 + rank]]
        assert report["all_to_all_single"] == [float(rank), 10.0 + rank, 20.0 + rank]
        assert report["gather"] == ([[1.0], [2.0], [3.0]] if rank == 1 else None)
        assert report["scatter"] == [7.0 + rank]
        assert report["ring"] == report["batch"] == [float((rank - 1) % RANKS)]
        assert report.get("subgroup") == (None if rank == 1 else 4.0)
        assert "contiguous" in report["refused"]
    assert reports[0]["any_source"] == [[1, 2.0], [2, 4.0]]


_DEVICE_ONLY = """
def t(*values):
    return torch.tensor(values, dtype=torch.float32, device=device)
a = t(rank + 1); dist.reduce(a, 1); say(reduce=a.tolist())
a = t(rank + 1, 3); dist.all_reduce(a, op=dist.ReduceOp.AVG); say(average=a.tolist())
a = torch.tensor([rank, 3], device=device); dist.all_reduce(a, op=dist.ReduceOp.AVG); say(whole_average=a.tolist())
out = t(0); dist.reduce_scatter_tensor(out, t(1, 3 + 2 * rank), op=dist.ReduceOp.AVG)
say(scattered_average=out.tolist())
images = torch.full((1, 2, 3, 3), float(rank)).to(device).to(memory_format=torch.channels_last)
dist.all_reduce(images); say(channels_last=images.sum().item())

import torch.distributed._functional_collectives as functional
world = dist.group.WORLD
x = t(rank + 1)
y = functional.all_reduce(x, "sum", world)
z = functional.all_gather_tensor(x, 0, world)
w = functional.reduce_scatter_tensor(t(1, 2), "sum", 0, world)
v = functional.all_to_all_single(t(rank, rank + 10), [1, 1], [1, 1], world)
say(functional=[(result * 1).tolist() for result in (y, z, w, v, x)])
x = t(rank + 1).requires_grad_()
(functional.all_gather_tensor_autograd(x, 0, world) * t(1, 2)).sum().backward()
say(gradient=x.grad.tolist())

from torch.distributed.device_mesh import init_device_mesh
mesh = init_device_mesh("sim", (2, 1), mesh_dim_names=("data", "model"))
a = t(rank + 1); dist.all_reduce(a, group=mesh.get_group("data")); say(mesh=[a.item(), mesh["model"].size()])

wrong = {}
for name, call in {
    "two places": lambda: dist.all_gather([t(0), torch.zeros(1)], t(1)),
    "two types": lambda: dist.all_gather([t(0), t(0).double()], t(1)),
    "too few": lambda: dist.group.WORLD.allgather([[t(0)]], [t(1)]),
    "too small": lambda: dist.all_gather_into_tensor(t(0), t(1)),
    "uneven": lambda: dist.all_to_all_single(t(0), t(1)),
    "another device": lambda: dist.all_reduce(t(0).to("sim:1")),
}.items():
    try:
        call(); wrong[name] = "done"
    except Exception as error:
        wrong[name] = type(error).__name__
say(wrong=wrong)
a = t(1); dist.all_reduce(a); say(goes_on=a.item())
dist.barrier()
"""


def test_averages_functional_collectives_and_meshes_work_and_mistakes_raise_at_the_call(tmp_path: Path) -> None:
    reports = run_ranks(tmp_path, 2, _DEVICE_ONLY)
    for rank, report in enumerate(reports):
        assert report["reduce"] == ([3.0] if rank == 1 else [1.0])  # others keep what they had, as with NCCL
        assert report["average"] == [1.5, 3.0]
        assert report["whole_average"] == [0, 3]
        assert report["scattered_average"] == ([1.0] if rank == 0 else [4.0])
        assert report["channels_last"] == 18.0
        exchanged = [0.0, 1.0] if rank == 0 else [10.0, 11.0]
        assert report["functional"] == [[3.0], [1.0, 2.0], [2.0 + 2 * rank], exchanged, [rank + 1.0]]
        assert report["gradient"] == [2.0 * (rank + 1)]
        assert report["mesh"] == [3.0, 1]
        kinds = dict.fromkeys(("two places", "two types", "too few", "too small", "uneven"), "ValueError")
        assert report["wrong"] == {**kinds, "another device": "DeviceError"}
        assert report["goes_on"] == 2.0


_BUILT_ON_IT = """
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.tensor import Replicate, Shard, distribute_tensor
from torch.distributed.tensor.parallel import ColwiseParallel, RowwiseParallel, parallelize_module
from torch.distributed.optim import ZeroRedundancyOptimizer
mesh = init_device_mesh("sim", (world_size,))
rows = distribute_tensor(torch.arange(8.0).view(4, 2).to(device), mesh, [Shard(0)])
say(sharded=[rows.to_local().tolist(), rows.sum().full_tensor().item(), (rows + 1).full_tensor().tolist()])
say(replicated=rows.redistribute(mesh, [Replicate()]).to_local().tolist())
def model():
    torch.manual_seed(0)
    return torch.nn.Sequential(torch.nn.Linear(4, 8), torch.nn.ReLU(), torch.nn.Linear(8, 4)).double().to(device)
x = torch.ones(2, 4, dtype=torch.float64, device=device)
split = parallelize_module(model(), mesh, {"0": ColwiseParallel(), "2": RowwiseParallel()})
out = split(x); out.sum().backward()
say(tensor_parallel=(out - model()(x)).abs().max().item(), part=list(split[0].weight.to_local().shape))
net, alone = model(), model()
optimizer = ZeroRedundancyOptimizer(net.parameters(), torch.optim.SGD, lr=0.1)
for module, by in ((net, optimizer), (alone, torch.optim.SGD(alone.parameters(), lr=0.1))):
    module(x).sum().backward(); by.step()
say(zero=max((a - b).abs().max().item() for a, b in zip(net.parameters(), alone.parameters())))
# another group after the end of the first one
dist.destroy_process_group()
dist.init_process_group(
    "sim", store=dist.FileStore(sys.argv[3] + " again", world_size), rank=rank, world_size=world_size)
t = torch.ones(2, device=device); dist.all_reduce(t); say(again=t.tolist())
"""


def test_libraries_built_on_the_group_work(tmp_path: Path) -> None:
    reports = run_ranks(tmp_path, 2, _BUILT_ON_IT)
    for rank, report in enumerate(reports):
        rows = [[0.0, 1.0], [2.0, 3.0], [4.0, 5.0], [6.0, 7.0]]
        plus_one = [[value + 1 for value in row] for row in rows]
        assert report["sharded"] == [rows[2 * rank : 2 * rank + 2], 28.0, plus_one]
        assert report["replicated"] == rows
        assert report["tensor_parallel"] < 1e-14
        assert report["part"] == [4, 4]
        assert report["zero"] < 1e-15
        assert report["again"] == [2.0, 2.0]


def _values(reports: list[dict[str, Any]], key: str) -> list[Any]:
    return [report[key] for report in reports]


_OWN_ORDER = """
# rank 1's stream comes to its collective late: what the hosts do meanwhile must not be taken for it
from perfmagic.sim import set_pace
set_pace("sleep=1ms")
if rank == 1:
    torch.sim._sleep(0.3)
on_device = torch.full((4,), float(rank), device=device)
work = dist.all_reduce(on_device, async_op=True)
on_host = torch.full((4,), 10.0 * (rank + 1))
dist.all_reduce(on_host)
work.wait()
say(on_device=on_device.tolist(), on_host=on_host.tolist())
# ring of messages, every host asks for its receive first; and a send overtaken by another to a different rank
got = [torch.zeros(1, device=device) for _ in range(world_size)]
sent = torch.full((1,), float(rank), device=device)
others = [k for k in range(world_size) if k != rank]
works = [dist.irecv(got[k], k) for k in others]
works += [dist.isend(sent, k) for k in reversed(others)]
for work in works:
    work.wait()
say(got=[x.item() for x in got])
dist.barrier()
"""


def test_host_and_device_operations_and_messages_in_any_order_reach_the_right_partner(tmp_path: Path) -> None:
    reports = run_ranks(tmp_path, 3, _OWN_ORDER)
    assert _values(reports, "on_device") == [[3.0] * 4] * 3
    assert _values(reports, "on_host") == [[60.0] * 4] * 3
    assert _values(reports, "got") == [[0.0, 1.0, 2.0], [0.0, 0.0, 2.0], [0.0, 1.0, 0.0]]  # nothing comes from itself
