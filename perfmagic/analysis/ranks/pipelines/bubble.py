"""The bubble of a pipeline: how long its stages idle, the least of its schedule, and what the slowest stage costs."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

import numpy as np

from perfmagic.analysis.ranks.finding import PipelineStage
from perfmagic.analysis.ranks.pipelines.interleaved import WEIGHTS, least_by_order
from perfmagic.analysis.ranks.pipelines.stages import Box, Roles, chains_of, roles_of
from perfmagic.analysis.ranks.ranks import Ranks
from perfmagic.analysis.ranks.replayed_job import ReplayedJob, replayed_job
from perfmagic.trace.columns import NONE, Float64, Int64
from perfmagic.trace.model import once_per_trace
from perfmagic.trace.rows import Rows

PYTHON_FRAC = 0.7  # of the pipeline's time, on every rank, and longer than its device works: Python sets the pace
UNEVEN_RATIO = 1.1  # times the median of the other stages: below it no stage sets the pace


@dataclass(frozen=True)
class Stage:
    """One stage of a pipeline; times in ns.

    stage: its number.  rank: that runs it.  forward_ns, backward_ns: its own work for a micro-batch, the median.
    idle_ns: in which its rank did nothing of its own while the pipeline ran, without collectives among other ranks.
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

    stages: in order.  ranks: in order.  boxes: of each rank its micro-batches; none of several stages a rank whose
    schedule is not known.  schedule: "GPipe", "1F1B" or as perfmagic.analysis.ranks.pipelines.interleaved has them, or
    "".  n_steps, n_micro_batches: a step.  bubble_frac: the mean of the ranks' idle_frac.  least_frac: what the
    schedule needs with equal stages, None where it is another one.  slowest: the stage that sets the pace, None where
    all are alike, or Python sets the pace.  gain_ns: what the replayed job takes less with that stage at the median of
    the others.  steps_ns: of each step, on the common axis.  python_frac: for how much of the time Python worked, on
    the rank where it worked least; 0 where it does not set the pace.
    """

    stages: tuple[Stage, ...]
    ranks: tuple[int, ...]
    boxes: tuple[tuple[Box, ...], ...]
    schedule: str
    n_steps: int
    n_micro_batches: int
    bubble_frac: float
    least_frac: float | None
    slowest: Stage | None
    gain_ns: int
    steps_ns: tuple[tuple[int, int], ...]
    python_frac: float = 0.0

    def least_with(self, n_micro_batches: int) -> float:
        """The least bubble of the schedule with more micro-batches; of several stages a rank with as many."""
        return least_bubble_frac(len(self.ranks), n_micro_batches * len(self.stages) // len(self.ranks))


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
    """By rank its micro-batches."""
    return {
        rank: of_rank
        for pipeline in pipelines_of(ranks)
        for rank, of_rank in zip(pipeline.ranks, pipeline.boxes, strict=False)
    }


def _may_be_exchange(roles: Roles) -> bool:
    """Two ranks that ask and answer in turn look like one micro-batch a step."""
    return len(roles.stretches) == 2 and not (roles.schedule and roles.n_micro_batches > 1)


def _pipeline(roles: Roles) -> Pipeline:
    boxes, known = roles.boxes, bool(roles.schedule)
    start_ns = min(box.start_ns for of_rank in boxes for box in of_rank)
    end_ns = max(box.end_ns for of_rank in boxes for box in of_rank)
    each_ns = _medians(roles)
    idle = [_idle(roles, place, end_ns - start_ns) for place in range(len(boxes))]
    ranks = tuple(roles.job.ranks.ranks[place] for place in roles.chain.places)
    stages = tuple(
        Stage(number, ranks[number % len(ranks)], round(forward), round(backward), *idle[number % len(ranks)])
        for number, (forward, backward) in enumerate(each_ns.tolist())
    )
    python_frac = _python_frac(roles, end_ns - start_ns)
    unknown = python_frac or (roles.chain.ring and not known)
    slowest, gain_ns = (None, 0) if unknown else _slowest(roles, each_ns)
    return Pipeline(
        stages=stages,
        ranks=ranks,
        boxes=() if roles.chain.ring and not known else boxes,
        schedule=roles.schedule,
        n_steps=roles.n_steps,
        n_micro_batches=roles.n_micro_batches,
        bubble_frac=float(np.mean([idle_frac for _, idle_frac in idle])),
        least_frac=_least_frac(roles, boxes) if known else None,
        slowest=None if slowest is None else stages[slowest],
        gain_ns=gain_ns,
        steps_ns=_steps_ns(boxes, roles.n_steps if known else 1),
        python_frac=python_frac,
    )


def _python_frac(roles: Roles, span_ns: int) -> float:
    """For how much of a pipeline's time Python worked where it did least: from launch to launch, but when blocked."""
    fracs = []
    for place in roles.chain.places:
        summary = roles.job.ranks.summaries[roles.job.ranks.ranks[place]]
        launched, blocked = summary.comm["launched"], summary.comm["blocked"]
        known = np.flatnonzero(launched != NONE)
        if not len(known):
            return 0.0
        first, last = known[launched[known].argsort()[[0, -1]]]
        python_ns = int(launched[last] - launched[first] - (blocked[last] - blocked[first]))
        if python_ns <= summary.totals.compute_ns:
            return 0.0
        fracs.append(python_ns / max(1, span_ns))
    return min(fracs) if min(fracs) >= PYTHON_FRAC else 0.0


def _steps_ns(boxes: tuple[tuple[Box, ...], ...], n_steps: int) -> tuple[tuple[int, int], ...]:
    """From the first micro-batch of each step to its last one."""
    times = [[(box.start_ns, box.end_ns) for box in of_rank] for of_rank in boxes]
    cuts = [np.array_split(np.array(of_rank, np.int64).reshape(-1, 2), n_steps) for of_rank in times]
    parts = [np.concatenate(of_step) for of_step in zip(*cuts, strict=True)]
    return tuple((int(part[:, 0].min()), int(part[:, 1].max())) for part in parts)


def _least_frac(roles: Roles, boxes: tuple[tuple[Box, ...], ...]) -> float | None:
    """The minimum of the schedule: by its formula, else by its order with what each pass takes in the median."""
    if roles.plan is None:
        return least_bubble_frac(len(boxes), roles.n_micro_batches)
    plan = roles.plan[0]
    took: dict[str, list[int]] = {}
    for box in (box for of_rank in boxes for box in of_rank if len(box.actions) == 1):
        took.setdefault(box.actions[0].letter, []).append(box.ns)
    if plan.least_frac is not None or {action.letter for action in plan.orders[0]} - took.keys():
        return plan.least_frac
    return least_by_order(plan, {letter: float(np.median(ns)) for letter, ns in took.items()})


def _medians(roles: Roles) -> Float64:
    """What a micro-batch takes on each stage, backward of weights included; shape (stages, roles)."""
    n_ranks = len(roles.boxes)
    took: dict[tuple[int, str], list[int]] = {}
    for box in (box for of_rank in roles.boxes for box in of_rank):
        if len({(action.stage, action.number) for action in box.actions}) == 1:
            letters = "".join(action.letter for action in box.actions)
            took.setdefault((box.actions[0].stage, letters), []).append(box.ns)

    def usual(stage: int, letters: str) -> float:
        return float(np.median(took.get((stage, letters)) or [0]))

    stages = range(n_ranks * (roles.plan[0].n_chunks if roles.plan else 1))
    backward = [usual(stage, "BW") or usual(stage, "B") + usual(stage, WEIGHTS) for stage in stages]
    return np.array([[usual(stage, "F"), backward[stage]] for stage in stages])


def _idle(roles: Roles, place: int, span_ns: int) -> tuple[int, float]:
    """How long a rank did nothing of its own while the pipeline ran, and its share."""
    job, kept = roles.job, [each for each in roles.stretches[place] if each.roles]
    between = np.arange(kept[0].points[1] + 1, kept[-1].points[0])
    rest_ns = int((job.points.own_ns[between] - roles.ns[between].sum(axis=1)).sum())
    work_ns = sum(box.ns for box in roles.boxes[place]) + rest_ns
    taken_ns = max(1, span_ns - _collectives_ns(roles, np.arange(kept[0].points[0], kept[-1].points[1] + 1)))
    idle_ns = max(0, taken_ns - work_ns)
    return idle_ns, idle_ns / taken_ns


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
            found |= dict.fromkeys((job.meetings.op_base[place[rank]] + of_rank).tolist(), several)
    return found


def _slowest(roles: Roles, each_ns: Float64) -> tuple[int | None, int]:
    """The stage that sets the pace, and what the job takes less with it at the median of the others."""
    number = int(each_ns.sum(axis=1).argmax())
    usual_ns = np.median(np.delete(each_ns, number, axis=0), axis=0)
    if each_ns[number].sum() <= UNEVEN_RATIO * usual_ns.sum():
        return None, 0
    job, own_ns = roles.job, roles.job.points.own_ns.copy()
    for points, role in _of_stage(roles, number):
        less = roles.ns[points, role] * (1 - usual_ns[role] / max(1.0, each_ns[number, role]))
        own_ns[points] -= less.round().astype(np.int64)
    gain_ns = job.recorded.end_ns - job.replayed(own_ns, job.moves_ns).end_ns
    return (number, gain_ns) if gain_ns >= max(1.0, job.ranks.notable_ns) else (None, 0)


def _of_stage(roles: Roles, number: int) -> Iterator[tuple[slice, int]]:
    """The points of a stage's work, with its role."""
    for each in roles.stretches[number % len(roles.stretches)]:
        for role in dict.fromkeys(each.roles):
            stages = {action.stage for action in each.actions if action.role == role} or {number}
            if stages == {number}:
                yield slice(each.points[0], each.points[1] + 1), role


# The stages of all pipelines as a table.


def pipeline_stages(ranks: Ranks) -> Rows[PipelineStage]:
    """A row for each stage of each pipeline."""
    rows = (
        PipelineStage(
            pipeline=number,
            schedule=pipeline.schedule,
            stage=stage.stage,
            rank=stage.rank,
            n_steps=pipeline.n_steps,
            n_micro_batches=pipeline.n_micro_batches,
            forward_ns=stage.forward_ns,
            backward_ns=stage.backward_ns,
            idle_ns=stage.idle_ns,
            bubble_frac=stage.idle_frac,
            minimum_frac=pipeline.least_frac,
            gain_ns=pipeline.gain_ns if stage is pipeline.slowest else None,
        )
        for number, pipeline in enumerate(pipelines_of(ranks))
        for stage in pipeline.stages
    )
    return Rows(rows, PipelineStage)
