"""FSDP2 and pipelines: the same losses as gloo's on the CPU, on both clocks, and memory that comes and goes."""

from pathlib import Path

import pytest

pytest.importorskip("torch", reason="the process group needs torch")

from tests.many_ranks import run_ranks

pytestmark = pytest.mark.slow

_TRAINED = """
from torch.distributed.checkpoint.state_dict import StateDictOptions, get_model_state_dict, set_model_state_dict
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import FullyShardedDataParallel, MixedPrecisionPolicy, fully_shard
from torch.distributed.pipelining import PipelineStage, Schedule1F1B, ScheduleGPipe
mse = torch.nn.functional.mse_loss
def layers(width=6):
    torch.manual_seed(0)
    return [torch.nn.Sequential(torch.nn.Linear(width, 2 * width + 1), torch.nn.ReLU(),
                                torch.nn.Linear(2 * width + 1, width)) for _ in range(2)]
def sharded(on, width=6, **options):
    net, mesh = torch.nn.Sequential(*layers(width)), init_device_mesh(on.type, (world_size,))
    for module in (*net, net):
        fully_shard(module, mesh=mesh, **options)  # moves it to the device
    return net
def step(net, optimizer, x):
    optimizer.zero_grad()
    loss = net(x).float().square().mean()
    loss.backward()
    optimizer.step()
    return loss.item()
def trained(on, **options):
    net = sharded(on, **options)
    optimizer = torch.optim.Adam(net.parameters(), lr=0.01)
    torch.manual_seed(1 + rank)
    x = torch.randn(4, 6).to(on)
    losses = [step(net, optimizer, x) for _ in range(3)]
    whole = get_model_state_dict(net, options=StateDictOptions(full_state_dict=True, cpu_offload=True))
    again = sharded(on, **options)
    set_model_state_dict(again, whole, options=StateDictOptions(full_state_dict=True, broadcast_from_rank0=True))
    return losses, {name: t.sum().item() for name, t in whole.items()}, step(again, optimizer, x) < losses[-1]
def piped(on, kind):
    stage = PipelineStage(layers()[rank].to(on), rank, world_size, on)
    schedule, losses = kind(stage, n_microbatches=4, loss_fn=mse), []
    torch.manual_seed(1)
    x, y = torch.randn(2, 8, 6).to(on)
    schedule.step(*([x] if rank == 0 else []), **({} if rank == 0 else {"target": y, "losses": losses}))
    return [loss.item() for loss in losses], [p.grad.sum().item() for p in stage.submod.parameters()]
def all_on(on):
    half = MixedPrecisionPolicy(param_dtype=torch.bfloat16, reduce_dtype=torch.float32)
    plain = [trained(on), trained(on, reshard_after_forward=False), trained(on, mp_policy=half)]
    return [*plain, *(piped(on, kind) for kind in (ScheduleGPipe, Schedule1F1B))]
say(host=all_on(torch.device("cpu")), real=all_on(device))
try:
    FullyShardedDataParallel(layers()[0].to(device))
except perfmagic.PerfmagicError as error:
    say(refused=str(error))
virtual = perfmagic.device(clock="virtual", pace="matmul=10GFLOP/s, link=10GB/s")
say(virtual=all_on(virtual))

net, x = sharded(virtual, 256), torch.ones(32, 256, device=virtual)
optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
step(net, optimizer, x)
optimizer.zero_grad()
held = torch.sim.memory_allocated()
net[0].unshard()
unsharded = torch.sim.memory_allocated()
net[0].reshard()
say(held=held, unsharded=unsharded - held, resharded=torch.sim.memory_allocated() - held)
with perfmagic.timeline() as timeline:
    step(net, optimizer, x)
trace = timeline.result.trace
streams = {}
for name, stream in zip(trace.ops.name.tolist(), trace.ops.stream.tolist()):
    streams.setdefault(trace.names[name], set()).add(stream)
say(streams={name: sorted(some) for name, some in streams.items()}, races=len(trace.meta.races))
spare = torch.ones(2, device=virtual)
spare.untyped_storage().resize_(0)
try:
    spare.sum().item()
except perfmagic.PerfmagicError as error:
    say(freed=str(error))
if rank == 0:
    net(x)  # the other one is not in this step
groups.free("a rank failed")
groups.renew(1)
say(trains=step(net, optimizer, x))
a = torch.ones(2, device=virtual)
dist.all_reduce(a)
say(after=a.tolist())
group = dist.group.WORLD
dist.destroy_process_group()
groups.forget()
say(ended=repr(group))
"""


def test_sharded_and_piped_models_train_as_gloo_trains_them_and_free_their_memory(tmp_path: Path) -> None:
    for report in run_ranks(tmp_path, 2, _TRAINED):
        assert report["real"] == report["virtual"] == report["host"]
        assert "fully_shard" in report["refused"]
        layer_bytes = 4 * (256 * 513 + 513 + 513 * 256 + 256)
        assert layer_bytes <= report["unsharded"] <= layer_bytes + 3 * 512  # each parameter in whole blocks of 512
        assert report["resharded"] == 0
        streams = report["streams"]
        assert streams["addmm"] == streams["mm"] == streams["split_with_sizes_copy"] == [0]
        assert 0 not in streams["_all_gather_base"] == streams["_reduce_scatter_base"]
        assert report["races"] == 0
        assert "was freed" in report["freed"]
        assert report["trains"] > 0
        assert report["after"] == [2.0, 2.0]
        assert "make models, meshes and groups again" in report["ended"]


_MEASURED = """
from IPython.core.interactiveshell import InteractiveShell
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import fully_shard
shell = InteractiveShell.instance()
shell.run_line_magic("load_ext", "perfmagic")
net = torch.nn.Sequential(*[torch.nn.Linear(256, 256) for _ in range(4)])
for module in (*net, net):
    fully_shard(module, mesh=init_device_mesh("sim", (world_size,)))
x = torch.randn(8, 256, device=device)
net(x).square().mean().backward()
net.zero_grad()
shell.push({"net": net, "x": x})
shell.run_cell("%%memory -o m\\nnet(x).square().mean().backward()").raise_error()
m = shell.user_ns["m"]
say(rows=[(row.reason, row.size_bytes) for row in m.blocks()], answers=[a.headline for a in m.conclusion.proposals])
"""


def test_what_a_layer_gathers_is_of_the_model_and_does_not_grow_with_the_batch(tmp_path: Path) -> None:
    for report in run_ranks(tmp_path, 2, _MEASURED):
        whole = [size for why, size in report["rows"] if why == "whole parameters or gradients of a sharded layer"]
        assert sum(size == 4 * 256 * 256 for size in whole) >= 8  # of each layer in the forward pass and in the other
        shards = [size for why, size in report["rows"] if why == "before the cell: parameters"]
        assert sum(size == 4 * 128 * 256 for size in shards) == 4
        assert not any("batch" in headline for headline in report["answers"])
