"""Pipelines with several stages a rank: the schedule that their messages follow, and what each rank does in it.

The ranks are a ring: of p ranks the one at place i has the stages i, i + p, i + 2p and so on.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

FORWARD, BACKWARD = 0, 1
NEXT, PREVIOUS = 1, -1  # where a message goes to, or comes from
INTERLEAVED, LOOPED, ZERO_BUBBLE = "interleaved 1F1B", "looped BFS", "interleaved zero bubble"
WEIGHTS = "W"  # the letter of a backward of the weights alone, which sends nothing


class Action(NamedTuple):
    """What a rank does for one micro-batch.  letter: F, B or WEIGHTS.  number: of the micro-batch within its step."""

    letter: str
    stage: int
    number: int

    @property
    def role(self) -> int:
        return FORWARD if self.letter == "F" else BACKWARD


@dataclass(frozen=True)
class Plan:
    """One step of a schedule.  n_ranks, n_chunks, n_micro_batches: stages a rank are chunks."""

    schedule: str
    n_ranks: int
    n_chunks: int
    n_micro_batches: int

    @cached_property
    def orders(self) -> tuple[tuple[Action, ...], ...]:
        """What each rank does, in order; nothing where the schedule cannot have so many micro-batches."""
        order = {INTERLEAVED: _interleaved, LOOPED: _looped, ZERO_BUBBLE: _zero_bubble}[self.schedule]
        return tuple(tuple(order(self, place)) for place in range(self.n_ranks))

    def sends(self, action: Action) -> int:
        """The side to which an action sends its result, 0 for none."""
        last = self.n_ranks * self.n_chunks - 1
        if action.letter == "F":
            return NEXT if action.stage < last else 0
        return PREVIOUS if action.letter == "B" and action.stage else 0

    def needs(self, action: Action) -> int:
        """The side from which an action gets what it works on, 0 for none."""
        if action.letter == "F":
            return PREVIOUS if action.stage else 0
        return NEXT if action.letter == "B" and action.stage < self.n_ranks * self.n_chunks - 1 else 0

    @property
    def least_frac(self) -> float | None:
        """The share of a step in which a rank idles with equal stages; None where no formula is known.

        (p - 1) / (v m + p - 1).  Source: Narayanan et al., SC 21, arXiv 2104.04473, section 2.2.2, which divides by the
        time without a bubble; Lamy-Poirier, arXiv 2211.05953. It holds from as many micro-batches as ranks on.
        """
        if self.schedule == ZERO_BUBBLE or self.n_micro_batches < self.n_ranks:
            return None
        return (self.n_ranks - 1) / (self.n_chunks * self.n_micro_batches + self.n_ranks - 1)


def _both(plan: Plan, place: int) -> tuple[list[Action], list[Action]]:
    """The forward and the backward passes of a rank by rounds of micro-batches, as torch has them."""
    p, v, m = plan.n_ranks, plan.n_chunks, plan.n_micro_batches
    of_round = m // max(1, m // p)
    if m % of_round:
        return [], []
    chunks = [(k // of_round % v, k // (of_round * v) * of_round + k % of_round) for k in range(v * m)]
    forward = [Action("F", chunk * p + place, number) for chunk, number in chunks]
    return forward, [Action("B", (v - 1 - chunk) * p + place, number) for chunk, number in chunks]


def _ahead(plan: Plan, place: int, a_hop: int) -> int:
    """The forward passes of a rank before its first backward one.  a_hop: for each rank behind it."""
    p, m = plan.n_ranks, plan.n_micro_batches
    of_round = m // max(1, m // p)
    return min(plan.n_chunks * m, (plan.n_chunks - 1) * of_round + a_hop * (p - 1 - place))


def _interleaved(plan: Plan, place: int) -> Iterator[Action]:
    """Narayanan et al., arXiv 2104.04473, section 2.2.2; as torch's ScheduleInterleaved1F1B."""
    forward, backward = _both(plan, place)
    ahead = _ahead(plan, place, 2)
    yield from forward[:ahead]
    for pair in zip(forward[ahead:], backward, strict=False):
        yield from pair
    yield from backward[max(0, len(forward) - ahead) :]


def _zero_bubble(plan: Plan, place: int) -> Iterator[Action]:
    """Qi et al., arXiv 2401.10241 (ZB1P); as torch's ScheduleInterleavedZeroBubble."""
    forward, backward = _both(plan, place)
    ahead = _ahead(plan, place, 1)
    yield from forward[:ahead]
    weights = deque(each._replace(letter=WEIGHTS) for each in backward)
    for k, action in enumerate(backward):
        yield from forward[ahead + k : ahead + k + 1]
        yield action
        if k >= place:
            yield weights.popleft()
    yield from weights


def _looped(plan: Plan, place: int) -> Iterator[Action]:
    """Lamy-Poirier, arXiv 2211.05953; as torch's ScheduleLoopedBFS, whose backward begins with the last micro-batch."""
    numbers = range(plan.n_micro_batches)
    stages = range(place, plan.n_ranks * plan.n_chunks, plan.n_ranks)
    yield from (Action("F", stage, number) for stage in stages for number in numbers)
    yield from (Action("B", stage, number) for stage in reversed(stages) for number in reversed(numbers))


def find_plan(sent: Sequence[Sequence[int]], ahead: int) -> tuple[Plan, int] | None:
    """The schedule by which ranks send, and how many steps; None for another one.

    sent: of each place the sides to which it sends, in order; the last one sends nothing on of its last chunk.  ahead:
    how often the first one sends before anything comes round to it. One that has a micro-batch go round before the next
    one sends to the same sides as LOOPED.
    """
    n_link, n_closing = sent[0].count(NEXT), sent[-1].count(NEXT)
    of_chunk = n_link - n_closing
    if of_chunk <= 0 or n_link % of_chunk or n_link == of_chunk:
        return None
    for n_steps in (n for n in range(1, of_chunk + 1) if of_chunk % n == 0):
        for schedule in (INTERLEAVED, LOOPED, ZERO_BUBBLE):
            plan = Plan(schedule, len(sent), n_link // of_chunk, of_chunk // n_steps)
            if ahead >= min(plan.n_ranks, plan.n_micro_batches) and all(
                [side for action in order if (side := plan.sends(action))] * n_steps == list(of_place)
                for order, of_place in zip(plan.orders, sent, strict=True)
            ):
                return plan, n_steps
    return None


def least_by_order(plan: Plan, took_ns: Mapping[str, float]) -> float:
    """The share of a step in which a rank idles where each action of a letter takes took_ns and messages nothing."""
    at_ns, ended = [0.0] * plan.n_ranks, dict[tuple[str, int], dict[int, float]]()
    todo = [deque(order) for order in plan.orders]
    while any(todo):
        before = sum(map(len, todo))
        for place, order in enumerate(todo):
            while order and (since_ns := _ready_ns(plan, order[0], ended)) is not None:
                action = order.popleft()
                at_ns[place] = max(at_ns[place], since_ns) + took_ns[action.letter]
                ended.setdefault((action.letter, action.stage), {})[action.number] = at_ns[place]
        if sum(map(len, todo)) == before:
            return 0.0  # ranks would wait in a circle
    work_ns = sum(took_ns[action.letter] for action in plan.orders[0])
    return 1 - work_ns / max(at_ns)


def _ready_ns(plan: Plan, action: Action, ended: Mapping[tuple[str, int], Mapping[int, float]]) -> float | None:
    """When what an action works on is there; None while it is not."""
    side = plan.needs(action)
    if not side:
        return 0.0
    return ended.get((action.letter, action.stage + (-1 if action.letter == "F" else 1)), {}).get(action.number)
