"""Several devices in one process: torch.nn.parallel's functions and DataParallel, compared with one device."""

import threading
import warnings
from typing import Any

import pytest

torch = pytest.importorskip("torch", reason="the simulated device needs torch")

from torch.nn import parallel  # noqa: E402 - after the skip
from torch.nn.parallel import comm  # noqa: E402

import perfmagic  # noqa: E402
from tests.sim.test_log import Recorded  # noqa: E402

ROWS = torch.arange(8.0).view(4, 2)


def _devices() -> tuple[Any, Any]:
    first, second = perfmagic.devices(2, "sim")
    return first, second


def _read(tensors: Any) -> list[tuple[str, list[Any]]]:
    return [(str(t.device), t.tolist()) for t in tensors]


HALVES = [("sim:0", ROWS[:2].tolist()), ("sim:1", ROWS[2:].tolist())]
BOTH = [("sim:0", ROWS.tolist()), ("sim:1", ROWS.tolist())]


@pytest.mark.parametrize("source", ["cpu", "sim:0", "sim:1"])
@pytest.mark.parametrize("numbers", [True, False])
def test_scatter_puts_equal_parts_on_the_devices_in_order(source: str, numbers: bool) -> None:
    devices = _devices()
    targets = [0, 1] if numbers else devices
    assert _read(parallel.scatter(ROWS.to(source), targets)) == HALVES
    assert _read(comm.scatter(ROWS.to(source), targets, [1, 3])) == [
        ("sim:0", ROWS[:1].tolist()),
        ("sim:1", ROWS[1:].tolist()),
    ]
    out = [torch.zeros(2, 2, device=d) for d in devices]
    assert _read(comm.scatter(ROWS.to(source), out=out)) == HALVES


@pytest.mark.parametrize("target", ["cpu", "sim:0", "sim:1"])
def test_gather_joins_what_is_on_the_devices_and_sends_gradients_back(target: str) -> None:
    parts = [ROWS[:2].to(d).requires_grad_() for d in _devices()]
    whole = parallel.gather(parts, target)
    assert _read([whole]) == [(target, [*ROWS[:2].tolist(), *ROWS[:2].tolist()])]
    (whole * torch.arange(4.0).view(4, 1).to(target)).sum().backward()
    assert [(str(p.grad.device), p.grad[:, 0].tolist()) for p in parts] == [("sim:0", [0, 1]), ("sim:1", [2, 3])]
    out = torch.zeros(4, 2, device=target)
    assert _read([comm.gather([p.detach() for p in parts], out=out)]) == _read([whole.detach()])


def test_broadcast_and_its_sum() -> None:
    first, second = _devices()
    here = ROWS.to(first)
    assert _read(comm.broadcast(here, [first, second])) == BOTH
    assert _read(comm.broadcast(here, out=[torch.zeros(4, 2, device=second)])) == BOTH[1:]
    copies = comm.broadcast_coalesced([here, here + 1], [0, 1])
    assert [_read(some)[0] for some in copies] == BOTH
    assert _read([comm.reduce_add([ROWS.to(first), ROWS.to(second)], 1)]) == [("sim:1", (2 * ROWS).tolist())]
    assert _read(comm.reduce_add_coalesced([[here], [ROWS.to(second)]], 0)) == [("sim:0", (2 * ROWS).tolist())]
    with pytest.raises(RuntimeError, match="must be the first"):
        comm.broadcast(ROWS.to(second), [first, second])


def _net() -> Any:
    torch.manual_seed(0)
    return torch.nn.Sequential(torch.nn.Linear(2, 5), torch.nn.Tanh(), torch.nn.Linear(5, 3)).double()


@pytest.mark.parametrize("source", ["cpu", "sim:0"])
@pytest.mark.parametrize("ids", [[0, 1], None, "devices"])
def test_data_parallel_equals_one_device(ids: Any, source: str) -> None:
    devices = _devices()
    rows = ROWS.double()
    alone = _net()
    expected = alone(rows)
    expected.pow(2).sum().backward()
    net = torch.nn.DataParallel(_net().to("sim"), device_ids=list(devices) if ids == "devices" else ids)
    with Recorded() as rec:
        got = net(rows.to(source))
        got.pow(2).sum().backward()
    assert str(got.device) == "sim:0"
    torch.testing.assert_close(got.detach().cpu(), expected.detach(), rtol=1e-14, atol=1e-14)
    for own, theirs in zip(net.module.parameters(), alone.parameters(), strict=True):
        assert str(own.grad.device) == "sim:0"
        torch.testing.assert_close(own.grad.cpu(), theirs.grad, rtol=1e-13, atol=1e-13)
    trace = rec.trace()
    on = {int(d) for d, name in zip(trace.ops.device, trace.ops.name, strict=True) if trace.names[name] == "addmm"}
    assert on == {0, 1}  # each device computes its part


def test_replicas_run_beside_each_other_and_an_error_in_one_is_raised() -> None:
    devices = _devices()
    copies = parallel.replicate(_net().to("sim"), devices)
    assert [str(copy[0].weight.device) for copy in copies] == ["sim:0", "sim:1"]
    outputs = parallel.parallel_apply(copies, [ROWS.double().to(d) for d in devices])
    assert [str(t.device) for t in outputs] == ["sim:0", "sim:1"]
    assert outputs[0].tolist() == outputs[1].tolist()
    with pytest.raises(RuntimeError, match="replica 1"):
        parallel.parallel_apply(copies, [ROWS.double().to(devices[0]), torch.ones(1, 7).double().to(devices[1])])


def test_adding_up_gradients_does_not_warn_of_nccl() -> None:
    devices = _devices()
    parts = [torch.ones(3, device=d) for d in devices]
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert comm.reduce_add(parts).tolist() == [2.0, 2.0, 2.0]


def test_on_a_virtual_clock_replicas_take_turns_without_threads(monkeypatch: pytest.MonkeyPatch) -> None:
    perfmagic.devices(2, "sim", clock="virtual")
    devices = _devices()
    net = torch.nn.Sequential(*(torch.nn.Linear(2, 2) for _ in range(3))).to(devices[0])
    wrapped = parallel.DataParallel(net, device_ids=devices)
    monkeypatch.setattr(threading.Thread, "start", lambda _: pytest.fail("a thread was started"))
    with Recorded() as rec:
        outputs = wrapped(ROWS)
    assert outputs.tolist() == net(ROWS.to(devices[0])).tolist()
    trace = rec.trace()
    products = [row for row in trace.launch_start_ns().argsort() if trace.names[trace.ops.name[row]] == "addmm"]
    assert trace.ops.device[products].tolist() == [0, 0, 0, 1, 1, 1]
