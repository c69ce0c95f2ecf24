"""Several GPUs in one run of the virtual device: each one's record is that of a run on it alone."""

from collections.abc import Callable, Iterator
from typing import Any

import pytest
import torch

import perfmagic
from perfmagic import sim
from perfmagic.base.kinds import UNKNOWN_TIME
from perfmagic.capture.recording.recorder import Recorder
from perfmagic.predict.model import DeviceModel, SideBySide
from perfmagic.trace.model import Trace

GPUS = ("H100", "T4", "MI300X")


@pytest.fixture(autouse=True)
def _back() -> Iterator[None]:
    yield
    perfmagic.device("sim", clock="real")
    sim.set_pace(None)


def traces(model: DeviceModel, body: Callable[[Any], None]) -> tuple[Trace, ...]:
    device = perfmagic.device(model)
    sim.load(memory_bytes=0)
    recorder = Recorder(origin="block", memory=True)
    recorder.start()
    body(device)
    return recorder.stop(), *recorder.beside()


def rows(trace: Trace) -> dict[str, Any]:
    """All instants of a trace by what happens there."""
    found = {
        name: [
            (trace.names[row], int(start), int(end))
            for row, start, end in zip(table.name, table.start_ns, table.end_ns, strict=True)
        ]
        for name, table in (("ops", trace.ops), ("calls", trace.calls), ("host ops", trace.host_ops))
    }
    return {
        **found,
        "memory": [at_ns for at_ns in trace.counters.at_ns.tolist() if at_ns],  # at 0: what was there before
        "end": (trace.meta.end_ns, trace.meta.returned_ns),
        "device": [info.label for info in trace.meta.devices],
    }


def check_alike(body: Callable[[Any], None]) -> None:
    first, *others = map(DeviceModel, GPUS)
    together = traces(SideBySide(first.name, others=tuple(others)), body)
    for name, trace in zip(GPUS, together, strict=True):
        assert rows(trace) == rows(traces(DeviceModel(name), body)[0])


def train(device: Any) -> None:
    torch.manual_seed(0)
    net = torch.nn.Sequential(torch.nn.Linear(64, 256), torch.nn.ReLU(), torch.nn.Linear(256, 64)).to(device)
    optimizer = torch.optim.AdamW(net.parameters())
    for _ in range(2):
        loss = net(torch.randn(32, 64).to(device, non_blocking=True)).square().mean()
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        loss.item()


def fill_the_queue(device: Any) -> None:
    x = torch.ones(1 << 20, device=device)
    for _ in range(1200):
        x.add_(1)
    torch.sim.synchronize()


def use_streams(device: Any) -> None:
    x, side = torch.ones(512, 512, device=device), torch.sim.Stream()
    for _ in range(4):
        with torch.sim.stream(side):
            y = (x @ x).sum()
        z = x @ x
        torch.sim.current_stream().wait_stream(side)
        z.add_(y)
    event = torch.sim.Event()
    event.record()
    event.synchronize()


def copy(device: Any) -> None:
    host = torch.ones(1 << 16)
    there = [host.to(device, non_blocking=True) for _ in range(8)]
    there += [host.pin_memory().to(device, non_blocking=True) for _ in range(8)]
    [t.cpu() for t in there]


@pytest.mark.slow
@pytest.mark.parametrize("body", [train, fill_the_queue, use_streams, copy])
def test_each_gpu_has_the_record_of_a_run_on_it_alone(body: Callable[[Any], None]) -> None:
    check_alike(body)


def test_waiting_for_what_is_done_on_the_first_gpu_alone_lasts_on_the_others() -> None:
    def body(device: Any) -> None:
        x = torch.ones(1024, 1024, device=device)
        x @ x
        for _ in range(100):
            x.view(-1)  # meanwhile the product is done on an H100, and not on a T4
        torch.sim.synchronize()

    check_alike(body)


def test_an_op_without_a_model_on_one_gpu_says_so_there_alone() -> None:
    def body(device: Any) -> None:
        x = torch.ones(32, 32, device=device, dtype=torch.float64)
        x @ x
        torch.linalg.svd(x)

    h100, mi300x = traces(SideBySide("H100", others=(DeviceModel("MI300X"),)), body)
    for trace, name in ((h100, "H100"), (mi300x, "MI300X")):
        alone = traces(DeviceModel(name), body)[0]
        assert rows(trace) == rows(alone)
        assert any(trace.names[row].endswith(UNKNOWN_TIME) for row in trace.ops.name)


def test_lines_keep_their_ops_on_every_gpu() -> None:
    first, other = traces(SideBySide("H100", others=(DeviceModel("T4"),)), train)
    assert first.ops.line.tolist() == other.ops.line[other.ops.correlation.argsort()].tolist()
    assert first.meta.end_ns < other.meta.end_ns
