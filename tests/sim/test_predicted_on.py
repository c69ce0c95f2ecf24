"""on("H100") of a record that device("A100") predicted is what device("H100") predicts."""

from collections.abc import Callable, Iterator

import pytest
import torch

import perfmagic
from perfmagic import sim
from perfmagic.changes import on
from perfmagic.results import TimelineResult

Program = Callable[[torch.nn.Module, torch.Tensor], object]


def timeline(gpu: str, program: Program, width: int, depth: int) -> TimelineResult:
    device = perfmagic.device(gpu)
    model = torch.nn.Sequential(*(torch.nn.Linear(width, width, device=device) for _ in range(depth)))
    data = torch.empty(8192, width, device=device)
    with perfmagic.timeline(shapes=True) as t:
        program(model, data)
    return t.result


def waits(model: torch.nn.Module, data: torch.Tensor) -> None:
    model(data)
    torch.sim.synchronize()


def waits_each_step(model: torch.nn.Module, data: torch.Tensor) -> None:
    for _ in range(4):
        waits(model, data)


def learns(model: torch.nn.Module, data: torch.Tensor) -> None:
    model(data).sum().backward()


def learns_and_waits(model: torch.nn.Module, data: torch.Tensor) -> None:
    learns(model, data)
    torch.sim.synchronize()


def learns_in_steps(model: torch.nn.Module, data: torch.Tensor) -> None:
    for _ in range(5):
        model(data[:1024]).sum().backward()
    torch.sim.synchronize()


def steps_with_an_optimizer(model: torch.nn.Module, data: torch.Tensor) -> None:
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for _ in range(3):
        learns(model, data)
        optimizer.step()
        optimizer.zero_grad()
    torch.sim.synchronize()


def fills_the_queue(model: torch.nn.Module, data: torch.Tensor) -> None:
    for _ in range(1500):
        data = data.relu()
    torch.sim.synchronize()


def fills_the_queue_in_backward(model: torch.nn.Module, data: torch.Tensor) -> None:
    out = data[:256].detach().requires_grad_()
    for _ in range(700):
        out = out.relu()
    out.sum().backward()
    torch.sim.synchronize()


def uses_two_streams(model: torch.nn.Module, data: torch.Tensor) -> None:
    side = torch.sim.Stream()
    for _ in range(3):
        side.wait_stream(torch.sim.current_stream())
        with torch.sim.stream(side):
            model(data)
        model(data[:4096])
        torch.sim.current_stream().wait_stream(side)
    torch.sim.synchronize()


def copies_beside(model: torch.nn.Module, data: torch.Tensor) -> None:
    side, pinned = torch.sim.Stream(), torch.empty(4096, data.shape[1]).pin_memory()
    for _ in range(3):
        with torch.sim.stream(side):
            batch = pinned.to(data.device, non_blocking=True)
        torch.sim.current_stream().wait_stream(side)
        model(batch)
    torch.sim.synchronize()


def copies_pageable(model: torch.nn.Module, data: torch.Tensor) -> None:
    for _ in range(3):
        model(torch.empty(4096, data.shape[1]).to(data.device))
    torch.sim.synchronize()


def reads_values(model: torch.nn.Module, data: torch.Tensor) -> None:
    small = torch.ones(1, device=data.device)
    for _ in range(4):
        model(data)
        (small + 1).item()


PROGRAMS = (
    waits,
    waits_each_step,
    learns,
    learns_and_waits,
    learns_in_steps,
    steps_with_an_optimizer,
    fills_the_queue,
    fills_the_queue_in_backward,
    uses_two_streams,
    copies_beside,
    copies_pageable,
    reads_values,
)


@pytest.fixture(autouse=True)
def _real_clock_after(_device: None) -> Iterator[None]:
    yield
    sim.load(clock="real")
    torch.sim.empty_cache()


@pytest.mark.parametrize("width", [pytest.param(256, marks=pytest.mark.slow), 4096])
@pytest.mark.parametrize("program", PROGRAMS)
def test_a_replay_on_another_gpu_is_that_gpus_own_prediction(program: Program, width: int) -> None:
    there, here = (timeline(gpu, program, width, 8) for gpu in ("H100", "A100"))
    meta, found = there.trace.meta, here.what_if(on("H100"))
    assert found.predicted_ns == pytest.approx(meta.end_ns - meta.start_ns, rel=0.02)


def test_a_wait_after_backward_leaves_who_decides_to_the_device() -> None:
    found = timeline("H100", learns_and_waits, 4096, 8)
    assert found.verdict.kind == "device-bound"
    assert found.what_if(on("H100")).path[0].name != "Python"


def test_a_record_that_needs_more_memory_than_a_gpu_has_is_refused() -> None:
    device = perfmagic.device("H100")
    with perfmagic.timeline(shapes=True, memory=True) as t:
        data = torch.empty(5 * 2**30, device=device)
        (data * 2).sum()
    found = t.result.what_if(on("T4"))
    assert found.refused.replace("\xa0", " ") == "T4 does not fit: needs 43 GB of 16 GB"
