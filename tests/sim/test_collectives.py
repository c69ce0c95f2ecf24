"""torch.distributed on tensors of the device: gloo reads host memory and waits for no stream. Each form is refused."""

from collections.abc import Callable, Iterator
from contextlib import nullcontext
from typing import Any

import pytest

torch = pytest.importorskip("torch", reason="the simulated device needs torch")
dist = pytest.importorskip("torch.distributed")
if not dist.is_available():
    pytest.skip("this torch has no torch.distributed", allow_module_level=True)

from perfmagic.base.errors import DeviceError  # noqa: E402
from perfmagic.sim.groups import foreign  # noqa: E402 - after the skip

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module", autouse=True)
def _group() -> Iterator[None]:
    dist.init_process_group("gloo", rank=0, world_size=1, store=dist.HashStore())
    yield
    dist.destroy_process_group()


def _t() -> Any:
    return torch.ones(2, device="sim")


def _coalesced() -> None:
    with dist._coalescing_manager():
        dist.all_reduce(_t())


def _distributed() -> None:
    from torch.distributed.device_mesh import init_device_mesh
    from torch.distributed.tensor import Shard, distribute_tensor

    distribute_tensor(_t(), init_device_mesh("sim", (1,)), [Shard(0)])


def _message(op: Any, t: Any) -> Any:
    return dist.P2POp(op=op, tensor=t, peer=0)


FORMS: dict[str, Callable[[], Any]] = {
    "all_reduce": lambda: dist.all_reduce(_t()),
    "all_reduce async": lambda: dist.all_reduce(_t(), async_op=True),
    "coalesced": _coalesced,
    "a distributed tensor": _distributed,
    "reduce": lambda: dist.reduce(_t(), 0),
    "broadcast": lambda: dist.broadcast(_t(), 0),
    "all_gather": lambda: dist.all_gather([_t()], _t()),
    "all_gather from the device": lambda: dist.all_gather([torch.ones(2)], _t()),
    "all_gather to the device": lambda: dist.all_gather([_t()], torch.ones(2)),
    "gather to the device": lambda: dist.gather(torch.ones(2), [_t()], 0),
    "scatter from the device": lambda: dist.scatter(torch.ones(2), [_t()], 0),
    "reduce_scatter from the device": lambda: dist.reduce_scatter(torch.ones(2), [_t()]),
    "all_gather_into_tensor": lambda: dist.all_gather_into_tensor(_t(), _t()),
    "gather": lambda: dist.gather(_t(), [_t()], 0),
    "scatter": lambda: dist.scatter(_t(), [_t()], 0),
    "reduce_scatter": lambda: dist.reduce_scatter(_t(), [_t()]),
    "reduce_scatter_tensor": lambda: dist.reduce_scatter_tensor(_t(), _t()),
    "all_to_all": lambda: dist.all_to_all([_t()], [_t()]),
    "all_to_all_single": lambda: dist.all_to_all_single(_t(), _t()),
    "send": lambda: dist.group.WORLD.send([_t()], 0, 0),
    "recv": lambda: dist.group.WORLD.recv([_t()], 0, 0),
    "a batch of messages": lambda: dist.batch_isend_irecv([_message(dist.isend, _t()), _message(dist.irecv, _t())]),
    "a batch with a message to the device": lambda: dist.batch_isend_irecv(
        [_message(dist.isend, torch.ones(2)), _message(dist.irecv, _t())]
    ),
    "all_gather_coalesced to the device": lambda: dist.all_gather_coalesced([[_t()]], [torch.ones(2)]),
    "all_to_all from the device": lambda: dist.all_to_all([torch.ones(2)], [_t()]),
    "scatter of the group itself": lambda: dist.group.WORLD.scatter([torch.ones(2)], [[_t()]]),
    "the group itself": lambda: dist.group.WORLD.allreduce([_t()]),
    "data parallel": lambda: torch.nn.parallel.DistributedDataParallel(torch.nn.Linear(2, 2).to("sim")),
}

MODES: dict[str, Callable[[], Any]] = {
    "gradients": nullcontext,
    "no gradients": torch.no_grad,
    "inference": torch.inference_mode,
}


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("form", FORMS)
def test_a_collective_of_tensors_on_the_device_is_refused_at_the_call(form: str, mode: str) -> None:
    name = r"(c10d::\w+|torch.distributed.P2POp)"
    with MODES[mode](), pytest.raises(DeviceError, match=f"{name} cannot use tensors on the simulated dev") as refused:
        FORMS[form]()
    assert ".cpu()" in (refused.value.hint or "")


@pytest.mark.filterwarnings("ignore")
def test_functional_collectives_are_refused_too() -> None:
    import torch.distributed._functional_collectives as functional

    for call in (
        lambda: functional.all_reduce(_t(), "sum", dist.group.WORLD),
        lambda: functional.all_gather_tensor(_t(), 0, dist.group.WORLD),
    ):  # wait_tensor communicates nothing; where a process group of the device is known, it has nothing to wait for
        with pytest.raises(DeviceError, match="_c10d_functional::"):
            call()


def test_gloo_itself_takes_no_tensor_of_the_device() -> None:
    gloo = dist.group.WORLD._get_backend(torch.device("cpu"))
    with pytest.raises(RuntimeError, match="unsupported device type sim"):
        gloo.allreduce([_t()])


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("mode", MODES)
def test_tensors_on_the_host_and_objects_are_communicated_as_ever(mode: str) -> None:
    with MODES[mode]():
        here, part, objects = torch.tensor([3.0]), torch.zeros(1), [None]
        all_parts, coalesced = [torch.zeros(1)], [[torch.zeros(1)]]
        dist.all_reduce(here)
        dist.reduce_scatter(part, [here])
        dist.scatter(part, [part * 2], 0, async_op=True).wait()
        dist.all_gather(all_parts, part, async_op=True).wait()
        dist.gather(part, all_parts, 0)
        dist.all_gather_coalesced(coalesced, [part])
        dist.all_gather_object(objects, _t())
        dist.barrier()
        assert (here.tolist(), part.tolist(), objects[0].tolist()) == ([3], [6], [1, 1])
        assert (all_parts[0].tolist(), coalesced[0][0].tolist()) == ([6], [6])


def test_a_group_that_knows_the_device_can_handle_its_operators() -> None:
    from torch._C._distributed_c10d import FakeWork

    taken: list[str] = []

    def take(func: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        taken.append(func.name())
        for t in args[0]:
            t.mul_(5)
        return args[0], FakeWork().boxed()

    foreign.set_handler("c10d", take)
    try:
        t = _t()
        dist.all_reduce(t, async_op=True)
        assert t.tolist() == [5, 5]
    finally:
        foreign.set_handler("c10d", None)
    assert taken == ["c10d::allreduce_"]
