"""The stages of a pipeline of ranks: who passes micro-batches to whom, and what each rank does of which role.

A stage works forward before it sends to the next stage, and backward before it sends to the previous one.
"""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import groupby
from typing import TYPE_CHECKING

import numpy as np

from perfmagic.analysis.ranks.pipelines.interleaved import BACKWARD, FORWARD, NEXT, PREVIOUS, Action, Plan, find_plan
from perfmagic.analysis.timeline.doings import Doing
from perfmagic.analysis.timeline.own_work import ENDS, JOINS, STARTS
from perfmagic.trace.columns import NONE, Float64, Int64

if TYPE_CHECKING:
    from perfmagic.analysis.ranks.replayed_job import ReplayedJob
    from perfmagic.analysis.ranks.waits import MatchedMessages

ROLES = 2
SURE_FRAC = 0.9  # of what is known of some work: less is not one role
OUTSIDE_RATIO = 2  # times the median: the first or last micro-batch then has other work in it
METADATA_FRAC = 0.25  # of the largest message of a pair: smaller ones are no micro-batches
SMALL_FRAC = 0.05  # of a stretch of work: less tells nothing about its roles
MOST_CELLS = 50_000_000  # points times kinds of work: 400 MB
GPIPE, ONE_F_ONE_B = "GPipe", "1F1B"


@dataclass(frozen=True)
class Event:
    """A point of a lane at which a message is sent (sends), or has been received; to or from the stage at `side`."""

    point: int
    sends: bool
    side: int


@dataclass(frozen=True)
class Stretch:
    """The points of a lane between two events, with the roles of their work in order; none for work of no role.

    actions: the same with stages and micro-batches, where a plan tells them.
    """

    points: tuple[int, int]
    roles: tuple[int, ...]
    actions: tuple[Action, ...] = ()


@dataclass(frozen=True)
class Box:
    """A micro-batch on a stage.  start_ns, end_ns: on the common axis; ns: its work.

    actions: one; several where the record does not tell them apart.  chunks: whether ranks have several stages.
    """

    actions: tuple[Action, ...]
    start_ns: int
    end_ns: int
    ns: int
    chunks: bool = False

    @property
    def role(self) -> int:
        return self.actions[0].role

    @property
    def label(self) -> str:
        """As torch prints a schedule: F2 is the forward pass of micro-batch 2, 4F2 that of stage 4."""
        return "+".join(f"{each.stage if self.chunks else ''}{each.letter}{each.number}" for each in self.actions)


@dataclass(frozen=True, eq=False)
class Chain:
    """Ranks that pass messages on in both directions, as places in the job; stage 0 sends first.

    ring: whether the last one passes on to the first, as with several stages a rank.  n: messages each way of a link.
    """

    places: tuple[int, ...]
    ring: bool
    n: int


def chains_of(job: ReplayedJob) -> list[Chain]:
    """The pipelines of a job, as its messages have them; those that ranks only exchange are none."""
    place = {rank: i for i, rank in enumerate(job.ranks.ranks)}
    counts: dict[tuple[int, int], int] = {}
    first_ns: dict[tuple[int, int], int] = {}
    for pair in job.ranks.message_pairs:
        link, kept = (place[pair.source], place[pair.target]), _batches(job, pair)
        if len(kept):
            counts[link] = len(kept)
            first_ns[link] = int(pair.sent_ns[kept[0]]) + job.ranks.alignment.offset_ns[pair.source]
    near: dict[int, set[int]] = {}
    for source, target in counts:
        near.setdefault(source, set()).add(target)
        near.setdefault(target, set()).add(source)
    found = []
    for group in _connected(near):
        links = [link for link in counts if link[0] in group]
        sizes = {counts[link] for link in links}
        both = all(counts.get(link[::-1]) == counts[link] for link in links)
        if both and all(len(near[each]) <= 2 for each in group):
            first = min(links, key=lambda link: first_ns[link])
            chain = _ordered(near, group, first, max(sizes))
            if len(sizes) == 1 or chain.ring:  # the link that closes a ring carries less
                found.append(chain)
    return found


def _batches(job: ReplayedJob, pair: MatchedMessages) -> Int64:
    """The messages of a pair that may be micro-batches: before its first step torch also sends shapes and types."""
    sizes = job.ranks.summaries[pair.source].comm["bytes"][pair.sent_places]
    known = len(sizes) and (sizes != NONE).all()
    return np.flatnonzero(sizes >= METADATA_FRAC * sizes.max()) if known else np.arange(len(sizes))


def _connected(near: dict[int, set[int]]) -> list[set[int]]:
    groups: list[set[int]] = []
    for each in sorted(near):
        if any(each in group for group in groups):
            continue
        group, more = {each}, [each]
        while more:
            new = near[more.pop()] - group
            group |= new
            more += new
        groups.append(group)
    return groups


def _ordered(near: dict[int, set[int]], group: set[int], first: tuple[int, int], n: int) -> Chain:
    """The ranks of a group in the order of their stages.  first: the link of the first message."""
    ring = len(group) > 2 and all(len(near[each]) == 2 for each in group)
    order = list(first)
    if not ring:  # the end from which the first message goes
        ends = [each for each in sorted(group) if len(near[each]) == 1]
        start = first[0] if first[0] in ends else next(end for end in ends if end != first[1])
        order = [start, *near[start]]
    while len(order) < len(group):
        order.append(next(each for each in near[order[-1]] if each not in order))
    return Chain(tuple(order), ring, n)


@dataclass(frozen=True, eq=False)
class Roles:
    """What each stage does of which role.

    stretches: of each rank, in order.  ns: of each point its work of each role, shape (points, roles).
    plan: of several stages a rank, with the number of steps; None without.
    """

    job: ReplayedJob
    chain: Chain
    stretches: tuple[tuple[Stretch, ...], ...]
    ns: Int64
    plan: tuple[Plan, int] | None = None

    @cached_property
    def orders(self) -> list[list[int]]:
        """The roles of each stage in its order."""
        return [[role for stretch in of_stage for role in stretch.roles] for of_stage in self.stretches]

    @cached_property
    def n_steps(self) -> int:
        """How often all micro-batches of the first stage are through: then a step has ended."""
        if self.plan:
            return self.plan[1]
        open_ = np.cumsum([1 if role == FORWARD else -1 for role in self.orders[0]])
        return max(1, int((open_ == 0).sum()))

    @property
    def n_micro_batches(self) -> int:
        """Of a step."""
        if self.plan:
            return self.plan[0].n_micro_batches
        return self.chain.n // self.n_steps

    @cached_property
    def schedule(self) -> str:
        """GPIPE, ONE_F_ONE_B or that of the plan; "" for another one."""
        if self.plan:
            return self.plan[0].schedule
        n, m, steps = len(self.orders), self.n_micro_batches, self.n_steps
        if self.chain.ring or m * steps != self.chain.n:
            return ""
        all_first = [FORWARD] * m + [BACKWARD] * m
        if all(order == all_first * steps for order in self.orders):
            return GPIPE
        in_turn = [_one_f_one_b(n, i, m) * steps for i in range(n)]
        return ONE_F_ONE_B if self.orders == in_turn else ""

    @cached_property
    def boxes(self) -> tuple[tuple[Box, ...], ...]:
        """Of each rank its micro-batches; the work before the first and after the last one left out."""
        return tuple(_boxes(self, i) for i in range(len(self.stretches)))


def _one_f_one_b(n: int, stage: int, m: int) -> list[int]:
    """One step of a stage (PipeDream-Flush: Narayanan et al., SC 21, arXiv 2104.04473, section 2.2.1)."""
    ahead = min(n - 1 - stage, m)
    return [FORWARD] * ahead + [FORWARD, BACKWARD] * (m - ahead) + [BACKWARD] * ahead


def roles_of(job: ReplayedJob, chain: Chain) -> Roles | None:
    """What each rank of a chain does; None where messages are no micro-batches, or roles cannot be told apart."""
    every_events = [_events(job, chain, i) for i in range(len(chain.places))]
    if not all(_passes_on(events, chain, i) for i, events in enumerate(every_events)):
        return None
    plan = _plan(job, every_events) if chain.ring else None
    stretches = tuple(
        tuple(_planned(job, chain, i, events, plan) if plan else _stretches(job, chain, i, events))
        for i, events in enumerate(every_events)
    )
    numbers = _numbers(job)
    if len(job.points.rank) * len(numbers) > MOST_CELLS:
        return None
    ns = _told_apart(_work(job, numbers), numbers, stretches)
    if ns is None:
        return None
    for of_stage in stretches:
        _cut_ends(ns, _of_roles(of_stage))
    roles = Roles(job, chain, stretches, ns, plan)
    if not chain.ring and any(order.count(role) != chain.n for order in roles.orders for role in range(ROLES)):
        return None
    return roles


def _told_apart(work: Int64, numbers: dict[Doing, int], stretches: Sequence[Sequence[Stretch]]) -> Int64 | None:
    """Of each point its work of each role, shape (points, roles); None where some cannot be told apart."""
    every = [each for of_stage in stretches for each in of_stage]
    ends = {of_stage[i] for of_stage in map(_of_roles, stretches) for i in (0, -1) if of_stage}
    inner = [each for each in every if each not in ends]
    for among in (inner, every):  # what a stage does before and after is in its ends, too
        ns = _ns_of(work, _evidence(work, numbers, among), every, ends)
        if ns is not None:
            return ns
    return None


def _of_roles(stretches: Sequence[Stretch]) -> list[Stretch]:
    return [each for each in stretches if each.roles]


def _ns_of(work: Int64, known: Int64, stretches: Sequence[Stretch], ends: set[Stretch]) -> Int64 | None:
    """Of each point its work of each role; None where some cannot be told apart."""
    ns = np.zeros((len(work), ROLES), np.int64)
    for each in stretches:
        points = slice(each.points[0], each.points[1] + 1)
        distinct = tuple(dict.fromkeys(each.roles))
        if len(distinct) > 1:
            shares = _split(work[points], known, distinct)
            if shares is None:
                return None
            ns[points] = shares
        elif distinct:
            (role,) = distinct
            like = work[points][:, known[:, role] > 0].sum(axis=1)
            ns[points, role] = like if each in ends and like.any() else work[points].sum(axis=1)
    return ns


def _events(job: ReplayedJob, chain: Chain, stage: int) -> list[Event]:
    """The messages of a stage with its neighbours, by the points at which they are sent or have come."""
    n, here, ranks = len(chain.places), chain.places[stage], job.ranks.ranks
    events = []
    for side in (PREVIOUS, NEXT):
        if not (0 <= stage + side < n or chain.ring):
            continue
        other = chain.places[(stage + side) % n]
        for pair in job.ranks.message_pairs:
            ends, kept = (pair.source, pair.target), _batches(job, pair)
            if ends == (ranks[here], ranks[other]):
                events += [
                    Event(int(job.came[op]), True, side) for op in job.meetings.op_base[here] + pair.sent_places[kept]
                ]
            elif ends == (ranks[other], ranks[here]):
                ops = job.meetings.op_base[here] + pair.got_places[kept]
                came = np.where(job.joined[ops] != NONE, job.joined[ops], job.came[ops])
                events += [Event(point, False, side) for point in came.tolist()]
    return sorted(events, key=lambda event: event.point)


def _passes_on(events: Sequence[Event], chain: Chain, stage: int) -> bool:
    """Whether a stage sends on only what has come to it from the other side."""
    had: Counter[int] = Counter()
    ends = (0, len(chain.places) - 1)
    for event in events:
        if not event.sends:
            had[-event.side] += 1
            continue
        had[event.side] -= 1
        begins = stage == (ends[0] if event.side == NEXT else ends[1])
        if had[event.side] < 0 and not begins:
            return False
    return True


def _stretches(job: ReplayedJob, chain: Chain, stage: int, events: Sequence[Event]) -> Iterable[Stretch]:
    """The work between events, with its roles: by what it sends at its end, and by what came before it."""
    first = stage == 0 and not chain.ring
    last = stage == len(chain.places) - 1 and not chain.ring
    since = int(np.searchsorted(job.points.rank, chain.places[stage]))
    end = int(job.ends[chain.places[stage]])
    waiting = 0  # micro-batches that have come and were not worked on
    for event in events:
        if event.sends:
            role = FORWARD if event.side == NEXT else BACKWARD
            roles: tuple[int, ...] = (role,)
            if (first or last) and waiting:
                roles = (1 - role, role)
            yield Stretch((since, event.point), roles)
            waiting = 0 if first or last else waiting - 1
        elif (first or last) and waiting:
            yield Stretch((since, event.point), (BACKWARD if first else FORWARD,))
        elif waiting <= 0:
            yield Stretch((since, event.point), ())
            waiting = 1
        else:  # came before it is worked on: what follows belongs to what is
            waiting += 1
            continue
        since = event.point + 1
    yield Stretch((since, end), (BACKWARD,) if first and waiting else ())


# Several stages a rank: what a rank does follows from the schedule by which it sends.


def _plan(job: ReplayedJob, every: Sequence[Sequence[Event]]) -> tuple[Plan, int] | None:
    """The schedule that all ranks send by, and its steps; None for another one."""
    sent = [[event.side for event in events if event.sends] for events in every]
    kinds = job.points.kind  # what is asked for early, and not waited for, tells nothing
    waits = (i for i, e in enumerate(every[0]) if not e.sends and e.side == PREVIOUS and kinds[e.point] == JOINS)
    return find_plan(sent, sum(event.sends for event in every[0][: next(waits, None)]))


def _planned(
    job: ReplayedJob, chain: Chain, place: int, events: Sequence[Event], plan: tuple[Plan, int]
) -> Iterator[Stretch]:
    """The work up to each send and each wait for what comes, with the actions of the plan."""
    schedule, n_steps = plan
    sent = deque(event.point for event in events if event.sends)
    came = {side: deque(e.point for e in events if not e.sends and e.side == side) for side in (NEXT, PREVIOUS)}
    since = int(np.searchsorted(job.points.rank, chain.places[place]))
    open_: list[Action] = []

    def until(point: int) -> Stretch:
        nonlocal since, open_
        done, actions = (since, point), tuple(open_)
        since, open_ = point + 1, []
        return Stretch(done, tuple(action.role for action in actions), actions)

    for action in schedule.orders[place] * n_steps:
        side = schedule.needs(action)
        at = came[side].popleft() if side and came[side] else NONE
        if at >= since and job.points.kind[at] == JOINS:
            yield until(at)
        open_.append(action)
        if schedule.sends(action):
            yield until(sent.popleft())
    yield until(int(job.ends[chain.places[place]]))


# Which work is of which role: stretches of one role tell, and then a stretch of two is divided.


def _work(job: ReplayedJob, numbers: dict[Doing, int]) -> Int64:
    """Of each point its own work by doing, shape (points, doings); what is start-up is left out."""
    base = 0
    work = np.zeros((len(job.points.rank), len(numbers)), np.int64)
    for rank in job.ranks.ranks:
        lane = job.ranks.summaries[rank].lane
        known = np.array([numbers[doing] for doing in lane.doings], np.int64)
        kept = lane.pieces["step"] != STARTS
        at = lane.pieces["point"][kept] + base, known[lane.pieces["doing"][kept]]
        np.add.at(work, at, lane.pieces["ns"][kept])
        base += len(lane.points["kind"])
    return work


def _numbers(job: ReplayedJob) -> dict[Doing, int]:
    doings = (doing for rank in job.ranks.ranks for doing in job.ranks.summaries[rank].lane.doings)
    return {doing: i for i, doing in enumerate(dict.fromkeys(doings))}


def _evidence(work: Int64, numbers: dict[Doing, int], stretches: Sequence[Stretch]) -> Int64:
    """How long each doing was of each role, where only one role can be meant; shape (doings, roles)."""
    known = np.zeros((len(numbers), ROLES), np.int64)
    for each in stretches:
        if len({*each.roles}) == 1:
            known[:, each.roles[0]] += work[each.points[0] : each.points[1] + 1].sum(axis=0)
    for doing, i in numbers.items():
        if doing.phase == "backward":
            known[i] = (0, 1)
    return known


def _split(work: Int64, known: Int64, roles: Sequence[int]) -> Int64 | None:
    """The work of a stretch by role; None where it cannot be told apart.  Work without any evidence has no role."""
    sums = work.sum(axis=0)
    there = np.flatnonzero(sums > SMALL_FRAC * sums.sum())
    shares: Float64 = known / np.maximum(1, known.sum(axis=1, keepdims=True))
    sure = shares >= SURE_FRAC
    if (known[there].any(axis=1) & ~sure[there].any(axis=1)).any():
        return None
    if not known[there].any() and len(there) == ROLES:  # in the order in which they were first seen
        sure[there, list(roles)] = True
    split = np.stack([work[:, sure[:, role]].sum(axis=1) for role in range(ROLES)], axis=1)
    return split if split.sum(axis=0).all() else None


def _cut_ends(ns: Int64, stretches: Sequence[Stretch]) -> None:
    """Make the first and the last micro-batch of a stage take at most what the median of the others takes.

    What else the stage did before and after, such as making a model, is no part of them.
    """
    for end in (stretches[:1], stretches[-1:]):
        for each in end:
            like = [
                other for other in stretches if other.roles == each.roles and other not in (stretches[0], stretches[-1])
            ]
            if len(each.roles) == 1 and like:
                points, role = slice(each.points[0], each.points[1] + 1), each.roles[0]
                usual = float(np.median([ns[one.points[0] : one.points[1] + 1, role].sum() for one in like]))
                own = ns[points, role].sum()
                if own > OUTSIDE_RATIO * usual:
                    ns[points, role] = (ns[points, role] * (usual / own)).astype(np.int64)


def _boxes(roles: Roles, place: int) -> tuple[Box, ...]:
    """The micro-batches of a rank, each before what it sends; what sends nothing at its stretch's beginning."""
    job, m, counts = roles.job, roles.n_micro_batches, [0] * ROLES
    made: list[Box] = []
    for each in _of_roles(roles.stretches[place]):
        points = np.arange(each.points[0], each.points[1] + 1)
        sums = roles.ns[points].sum(axis=0).tolist()
        worked = points[job.points.own_ns[points] > 0]
        actions = list(each.actions)
        for role in () if actions else each.roles:
            actions.append(Action("FB"[role], place, counts[role] % m))
            counts[role] += 1
        for group in _groups(actions):
            ns = sums[group[0].role] if len({*each.roles}) > 1 and len({a.role for a in group}) == 1 else sum(sums)
            if group[-1] is actions[-1] and job.points.kind[each.points[1]] != ENDS:
                at = int(worked[-1]) if len(worked) else each.points[1]
                end_ns = int(job.points.at_ns[at]) - _gap_ns(job, at)
            else:
                at = int(worked[0]) if len(worked) else each.points[0]
                end_ns = _since_ns(job, at) + ns
            made.append(Box(group, end_ns - ns, end_ns, ns, bool(each.actions)))
    return tuple(made)


def _groups(actions: Sequence[Action]) -> list[tuple[Action, ...]]:
    """Actions of one role after another, which nothing tells apart; all of them where roles take turns."""
    groups = [tuple(group) for _, group in groupby(actions, lambda action: action.role)]
    return groups if len(groups) <= ROLES else [tuple(actions)]


def _since_ns(job: ReplayedJob, point: int) -> int:
    """When the lane was at the point before."""
    goes_on = point > 0 and job.points.rank[point - 1] == job.points.rank[point]
    return int(job.points.at_ns[point - 1] if goes_on else job.began_ns[job.points.rank[point]])


def _gap_ns(job: ReplayedJob, point: int) -> int:
    """How long the lane waited right before a point."""
    return max(0, int(job.points.at_ns[point] - _since_ns(job, point) - job.points.own_ns[point]))
