"""Pipelines of torch's own schedules on the virtual clock: what a job's messages say is the schedule that it ran."""

import pytest

pytest.importorskip("torch", reason="ranks need torch")

import perfmagic
from perfmagic.analysis.ranks.pipelines.bubble import pipelines_of
from perfmagic.analysis.ranks.pipelines.interleaved import INTERLEAVED, LOOPED, ZERO_BUBBLE, Plan
from perfmagic.view.ranks.doc import ranks_doc

pytestmark = pytest.mark.slow

RANKS, CHUNKS, MICRO_BATCHES, STEPS = 3, 2, 6, 2
JOB = f"""
import torch, torch.distributed as dist
from torch.distributed.pipelining import PipelineStage, schedules
dev = perfmagic.device(pace="matmul=1GFLOP/s, link=1GB/s, latency=20us")
rank, world = dist.get_rank(), dist.get_world_size()
def layers(): return torch.nn.Sequential(torch.nn.Linear(128, 128), torch.nn.ReLU(), torch.nn.Linear(128, 128))
stages = [PipelineStage(layers().to(dev), rank + world * c, world * {CHUNKS}, dev) for c in range({CHUNKS})]
x, y = torch.ones(192, 128, device=dev), torch.ones(192, 128, device=dev)
"""
STEP = f"""
schedule = schedules.NAME(stages, {MICRO_BATCHES}, loss_fn=lambda out, target: ((out - target) ** 2).mean())
for step in range({STEPS}):
    if rank == 0: schedule.step(x)
    elif rank == world - 1: schedule.step(target=y, losses=[])
    else: schedule.step()
"""


@pytest.mark.parametrize(
    ("name", "schedule"),
    [
        ("ScheduleInterleaved1F1B", INTERLEAVED),
        ("ScheduleLoopedBFS", LOOPED),
        ("ScheduleInterleavedZeroBubble", ZERO_BUBBLE),
    ],
)
def test_interleaved_stages_of_torch_have_their_schedule_and_its_boxes(name: str, schedule: str) -> None:
    with perfmagic.ranks(RANKS, device="sim", clock="virtual") as ranks:
        ranks.run(f"import perfmagic\n{JOB}")
        result = ranks.run(STEP.replace("NAME", name), record=True)
    assert result is not None
    (found,) = pipelines_of(result.ranks)
    assert (found.schedule, found.n_steps, found.n_micro_batches) == (schedule, STEPS, MICRO_BATCHES)
    of_inner_rank = next(stage for stage in found.stages if stage.rank == 1)  # the first stage has no gradient to give
    assert of_inner_rank.idle_frac == pytest.approx(found.least_frac, abs=0.02)
    for row, order in zip(
        ranks_doc(result.ranks).rows, Plan(schedule, RANKS, CHUNKS, MICRO_BATCHES).orders, strict=True
    ):
        shown = [action for box in row.boxes for action in box.actions]
        assert shown == list(order) * STEPS
