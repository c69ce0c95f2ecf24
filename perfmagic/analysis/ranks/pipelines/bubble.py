"""The bubble of a pipeline: how long its stages idle, the least of its schedule, and what the slowest stage costs."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from perfmagic.analysis.ranks.pipelines.stages import FORWARD, ROLES, Box, Roles, chains_of, roles_of
from perfmagic.analysis.ranks.ranks import Ranks
from perfmagic.analysis.ranks.replayed_job import ReplayedJob, replayed_job
from perfmagic.trace.columns import NONE, Float64, Int64
from perfmagic.trace.once import once_per_trace

PYTHON_FRAC = 0.7  # of the pipeline's time, on every stage, and longer than its device works: Python sets the pace
UNEVEN_RATIO = 1.1  # times the median of the other stages: below it no stage sets the pace


@dataclass(frozen=True)
class Stage:
    """One stage of a pipeline; times in ns.

    stage: its number.  rank: that runs it.  forward_ns, backward_ns: its own work for a micro-batch, the median.
    idle_ns: in which it did nothing of its own while the pipeline ran, without collectives among other ranks.
    idle_frac: of the pipeline's time.
    """

    stage: int
    rank: int
    forward_ns: int
    backward_ns: int
    idle_ns: int
    idle_frac: float


@dataclass(frozen=True, eq=False)
class Pipeline:
    """A pipeline of ranks.

    stages: in order.  boxes: of each stage its micro-batches; none of several stages a rank.  schedule: "GPipe",
    "1F1B", or "".  n_steps, n_micro_batches: a step.  bubble_frac: the mean of the stages' idle_frac.  least_frac:
    what the schedule needs with equal stages, None where it is another one.  slowest: the stage that sets the pace,
    None where all are alike, or Python sets the pace.  gain_ns: what the replayed job takes less with that stage at the
    median of the others.  span_ns: on the common axis.  python_frac: for how much of that Python worked, on the stage
    where it worked least; 0 where it does not set the pace.
    """

    stages: tuple[Stage, ...]
    boxes: tuple[tuple[Box, ...], ...]
    schedule: str
    n_steps: int
    n_micro_batches: int
    bubble_frac: float
    least_frac: float | None
    slowest: Stage | None
    gain_ns: int
    span_ns: tuple[int, int]
    python_frac: float = 0.0


def least_bubble_frac(n_stages: int, n_micro_batches: int) -> float:
    """The share of a step in which a stage idles with equal stages, by GPipe and by 1F1B.

    (s - 1) / (m + s - 1).  Source: Huang et al., GPipe, arXiv 1811.06965, section 2.3; Narayanan et al., SC 21, arXiv
    2104.04473, section 2.2.1, which divides by the time without a bubble: (p - 1) / m.
    """
    return (n_stages - 1) / (n_micro_batches + n_stages - 1)


@once_per_trace
def pipelines_of(ranks: Ranks) -> tuple[Pipeline, ...]:
    """The pipelines of a job; none whose roles cannot be told apart."""
    job = replayed_job(ranks) if ranks.message_pairs else None
    if job is None or not ranks.alignment.comparable:
        return ()
    found = [roles for chain in chains_of(job) if (roles := roles_of(job, chain)) is not None]
    return tuple(_pipeline(roles) for roles in found if not _may_be_exchange(roles))


@once_per_trace
def boxes_of(ranks: Ranks) -> dict[int, tuple[Box, ...]]:
    """By rank its micro-batches, of the pipelines whose stages are one a rank."""
    return {
        stage.rank: of_stage
        for pipeline in pipelines_of(ranks)
        for stage, of_stage in zip(pipeline.stages, pipeline.boxes, strict=False)
    }


def _may_be_exchange(roles: Roles) -> bool:
    """Two ranks that ask and answer in turn look like one micro-batch a step."""
    return len(roles.stretches) == 2 and not (roles.schedule and roles.n_micro_batches > 1)


def _pipeline(roles: Roles) -> Pipeline:
    boxes = roles.boxes
    start_ns = min(box.start_ns for of_stage in boxes for box in of_stage)
    end_ns = max(box.end_ns for of_stage in boxes for box in of_stage)
    each_ns = _medians(boxes)
    stages = tuple(_stage(roles, i, each_ns[i], end_ns - start_ns) for i in range(len(boxes)))
    python_frac = _python_frac(roles, end_ns - start_ns)
    slowest, gain_ns = (None, 0) if roles.chain.ring or python_frac else _slowest(roles, each_ns)
    known = bool(roles.schedule)
    return Pipeline(
        stages=stages,
        boxes=() if roles.chain.ring else boxes,
        schedule=roles.schedule,
        n_steps=roles.n_steps,
        n_micro_batches=roles.n_micro_batches,
        bubble_frac=float(np.mean([stage.idle_frac for stage in stages])),
        least_frac=least_bubble_frac(len(stages), roles.n_micro_batches) if known else None,
        slowest=None if slowest is None else stages[slowest],
        gain_ns=gain_ns,
        span_ns=(start_ns, end_ns),
        python_frac=python_frac,
    )


def _python_frac(roles: Roles, span_ns: int) -> float:
    """For how much of a pipeline's time Python worked where it did least: from launch to launch, but when blocked."""
    fracs = []
    for place in roles.chain.places:
        summary = roles.job.ranks.summaries[roles.job.ranks.ranks[place]]
        known = np.flatnonzero(summary.comm["launched"] != NONE)
        if not len(known):
            return 0.0
        first, last = known[summary.comm["launched"][known].argsort()[[0, -1]]]
        python_ns, blocked_ns = (
            int(summary.comm[key][last] - summary.comm[key][first]) for key in ("launched", "blocked")
        )
        if python_ns - blocked_ns <= summary.totals.compute_ns:
            return 0.0
        fracs.append((python_ns - blocked_ns) / max(1, span_ns))
    return min(fracs) if min(fracs) >= PYTHON_FRAC else 0.0


def _medians(boxes: tuple[tuple[Box, ...], ...]) -> Float64:
    """What a micro-batch takes on each stage, shape (stages, roles)."""
    return np.array(
        [
            [np.median([box.ns for box in of_stage if box.role == role] or [0]) for role in range(ROLES)]
            for of_stage in boxes
        ]
    )


def _stage(roles: Roles, number: int, each_ns: Float64, span_ns: int) -> Stage:
    job, kept = roles.job, [each for each in roles.stretches[number] if each.roles]
    between = np.arange(kept[0].points[1] + 1, kept[-1].points[0])
    rest_ns = int((job.points.own_ns[between] - roles.ns[between].sum(axis=1)).sum())
    work_ns = sum(box.ns for box in roles.boxes[number]) + rest_ns
    taken_ns = max(1, span_ns - _collectives_ns(roles, np.arange(kept[0].points[0], kept[-1].points[1] + 1)))
    idle_ns = max(0, taken_ns - work_ns)
    rank = job.ranks.ranks[roles.chain.places[number]]
    forward_ns, backward_ns = map(round, each_ns.tolist())
    return Stage(number, rank, forward_ns, backward_ns, idle_ns, idle_ns / taken_ns)


def _collectives_ns(roles: Roles, points: Int64) -> int:
    """How long the lane was in collectives, but for waiting for other stages, which is idling."""
    job, lane = roles.job, roles.job.points
    at = np.intersect1d(job.joins, points)
    before = np.where(at > points[0], lane.at_ns[at - 1], lane.at_ns[at])
    took = (lane.at_ns[at] - before - lane.own_ns[at]).clip(0)
    among = _among_stages(job, roles.chain.places)
    total_ns = 0
    for op, ns in zip(lane.op[at].tolist(), took.tolist(), strict=True):
        if op in among:
            total_ns += min(ns, max(0, int(job.moves_ns[op]))) if among[op] else ns
    return total_ns


def _among_stages(job: ReplayedJob, places: tuple[int, ...]) -> Mapping[int, bool]:
    """The ops of collectives, and whether several stages of a pipeline take part."""
    place = {rank: i for i, rank in enumerate(job.ranks.ranks)}
    found: dict[int, bool] = {}
    for group in job.ranks.matching.groups:
        several = len({place[rank] for rank in group.ranks} & {*places}) > 1
        for rank, of_rank in zip(group.ranks, group.places, strict=True):
            found |= dict.fromkeys((job.op_base[place[rank]] + of_rank).tolist(), several)
    return found


def _slowest(roles: Roles, each_ns: Float64) -> tuple[int | None, int]:
    """The stage that sets the pace, and what the job takes less with it at the median of the others."""
    number = int(each_ns.sum(axis=1).argmax())
    usual_ns = np.median(np.delete(each_ns, number, axis=0), axis=0)
    if each_ns[number].sum() <= UNEVEN_RATIO * usual_ns.sum():
        return None, 0
    job, own_ns = roles.job, roles.job.points.own_ns.copy()
    of_stage = job.points.rank == roles.chain.places[number]
    for role in range(FORWARD, ROLES):
        less = roles.ns[of_stage, role] * (1 - usual_ns[role] / max(1.0, each_ns[number, role]))
        own_ns[of_stage] -= less.round().astype(np.int64)
    gain_ns = job.recorded.end_ns - job.replayed(own_ns, job.began_ns, job.moves_ns).end_ns
    return (number, gain_ns) if gain_ns >= max(1.0, job.ranks.notable_ns) else (None, 0)
