"""Who kept whom waiting, of jobs whose truth is injected.  Run as a program it prints case, sentence and truth."""

import random
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import NamedTuple

import numpy as np
import pytest

from perfmagic.analysis.ranks.answers import find_job_answers
from perfmagic.analysis.ranks.causes import LINK, Cause, causes_of, find_causes
from perfmagic.analysis.ranks.findings import findings_of
from perfmagic.analysis.ranks.ranks import Ranks, ranks_of
from perfmagic.analysis.ranks.replayed_job import replayed_job
from perfmagic.analysis.timeline.own_work import CORE
from perfmagic.trace.columns import LineMarks, PythonFrames
from perfmagic.trace.model import Trace
from tests.analysis.findings.build import plain
from tests.analysis.ranks.programs import MS, Program, Rank, job, ran, random_job, traced

ALL = (0, 1, 2, 3)


def subgroups(r: Rank) -> None:
    for step in range(3):
        r.step(step)
        r.work(2, 20)
        r.work(3, 100 if (r.number, step) == (3, 1) else 0)
        r.meet(*((0, 1) if r.number < 2 else (2, 3)))
        r.meet(*ALL)


def tensor_and_data_parallel(r: Rank) -> None:
    first = r.number // 2 * 2
    for step in range(4):
        r.step(step)
        for layer in range(3):
            r.work(2 + layer, 40 if (r.number, layer) == (2, 1) else 10)
            r.meet(first, first + 1)
        r.meet(r.number % 2, r.number % 2 + 2)


def ring(r: Rank) -> None:
    for step in range(3):
        r.step(step)
        r.work(2, 10)
        r.work(3, 100 if (r.number, step) == (2, 1) else 0)
        r.send((r.number + 1) % 4)
        r.recv((r.number - 1) % 4)


def pipeline(*, one_f_one_b: bool, own_lines: bool) -> Program:
    """Two steps of four micro-batches through four stages, of which stage 2 takes four times as long."""

    def program(r: Rank) -> None:
        heavy, line = (4 if r.number == 2 else 1), (2 * r.number if own_lines else 0)

        def forward() -> None:
            if r.number:
                r.recv(r.number - 1)
            r.work(2 + line, 10 * heavy)
            if r.number < 3:
                r.send(r.number + 1)

        def backward() -> None:
            if r.number < 3:
                r.recv(r.number + 1)
            r.work(3 + line, 20 * heavy)
            if r.number:
                r.send(r.number - 1)

        warm_up = 3 - r.number if one_f_one_b else 4
        for step in range(2):
            r.step(step)
            order = [forward] * warm_up + [forward, backward] * (4 - warm_up) + [backward] * warm_up
            for each in order:
                each()

    return program


def hot_expert(r: Rank) -> None:
    for step in range(3):
        r.step(step)
        r.work(2, 10)
        r.meet(*ALL)
        r.work(3, 70 if r.number == 1 else 10)
        r.meet(*ALL)


def bigger_batch(r: Rank) -> None:
    times = 3 if r.number == 0 else 1
    for step in range(3):
        r.step(step)
        r.work(2, 5)
        r.work(3, 10 * times)
        r.work(4, 20 * times)
        r.meet(*ALL)


def start_up_and_once(r: Rank) -> None:
    r.work(2, 500 if r.number == 0 else 5)
    for step in range(10):
        r.step(step)
        r.work(3, 20)
        r.work(4, 80 if (r.number, step) == (1, 4) else 0)
        r.meet(0, 1)


def in_turn(r: Rank) -> None:
    for step in range(10):
        r.step(step)
        r.work(2, 60 if (r.number, step % 2) in ((1, 0), (3, 1)) else 20)
        r.meet(*ALL)


def links(r: Rank) -> None:
    for step in range(4):
        r.step(step)
        r.work(2, 10)
        r.meet(*((0, 1) if r.number < 2 else (2, 3)))
        r.meet(*ALL)


class Case(NamedTuple):
    """truth: rank, line and what the job takes less, in ms, of each cause; in the order of their gains."""

    name: str
    make: Callable[[], Ranks]
    truth: tuple[tuple[int, int, float], ...]
    said: str


CASES = (
    Case("subgroups [0,1], [2,3], sleep on 3", lambda: job(4, subgroups), ((3, 3, 100),), "on rank 3 in step 1"),
    Case(
        "tensor × data parallel, layer on 2", lambda: job(4, tensor_and_data_parallel), ((2, 3, 120),), "in every step"
    ),
    Case("ring, sleep on 2", lambda: job(4, ring), ((2, 3, 100),), "on rank 2 in step 1"),
    Case(
        "GPipe, stage 2 × 4",
        lambda: job(4, pipeline(one_f_one_b=False, own_lines=False)),
        ((2, 3, 480), (2, 2, 240)),
        "on rank 2",
    ),
    Case(
        "1F1B, stage 2 × 4",
        lambda: job(4, pipeline(one_f_one_b=True, own_lines=False)),
        ((2, 3, 460), (2, 2, 200)),
        "on rank 2",
    ),
    Case("all-to-all, hot expert on 1", lambda: job(4, hot_expert), ((1, 3, 180),), "on rank 1 in every step"),
    Case("three times the rows on 0", lambda: job(4, bigger_batch), ((0, 4, 120), (0, 3, 60)), "on rank 0"),
    Case("1 and 3 in turn", lambda: job(4, in_turn), ((1, 2, 200), (3, 2, 200)), "on rank 1 in 5 of 10 steps"),
)


def found(causes: tuple[Cause, ...]) -> list[tuple[int, int, float]]:
    return [(each.rank, each.line, round(each.gain_ns / MS)) for each in causes if len(each.ranks) == 1]


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_each_cause_has_its_rank_line_steps_and_gain(case: Case) -> None:
    ranks = case.make()
    causes = causes_of(ranks)
    assert found(causes) == list(case.truth)
    first = next(finding for finding in findings_of(ranks) if finding.rule == "straggler")
    assert f"Line {case.truth[0][1]} takes " in plain(first.headline)
    assert plain(first.headline).endswith(case.said) or case.said in plain(first.headline)
    assert first.action.startswith(f"Look at line {first.line} on rank {first.ranks[0]}: line_{first.line}()")
    assert plain(find_job_answers(ranks).decides).startswith(f"Rank {case.truth[0][0]} is late: ")


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_the_replay_without_a_change_is_the_record(case: Case) -> None:
    replayed = replayed_job(case.make())
    assert replayed is not None
    assert (replayed.recorded.came_ns == replayed.meetings.start_ns).all()
    assert (replayed.recorded.times_ns[replayed.joins] == replayed.points.at_ns[replayed.joins]).all()
    assert replayed.recorded.end_ns == max(replayed.points.at_ns[replayed.ends])


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_gains_add_up_to_what_all_causes_win_together(case: Case) -> None:
    ranks = case.make()
    causes = causes_of(ranks)
    answers = find_job_answers(ranks)
    if len(causes) > 1:  # of a pipeline's slowest stage one answer has the gain of all of them
        together = answers.together or answers.answers[0]
        assert answers.total_ns - (together.after_ns or 0) == sum(each.gain_ns for each in causes)
    assert sum(each.gain_ns for each in causes) <= answers.total_ns


@pytest.mark.parametrize("one_f_one_b", [False, True])
def test_stages_with_lines_of_their_own_are_compared_by_all_their_work(one_f_one_b: bool) -> None:
    causes = causes_of(job(4, pipeline(one_f_one_b=one_f_one_b, own_lines=True)))
    same = causes_of(job(4, pipeline(one_f_one_b=one_f_one_b, own_lines=False)))
    assert {each.rank for each in causes} == {2}
    assert [each.line for each in causes] == [7, 6]
    assert sum(each.gain_ns for each in causes) == sum(each.gain_ns for each in same)


def test_start_up_hides_no_straggler_and_is_none() -> None:
    ranks = job(2, start_up_and_once, file=True)
    (cause,) = causes_of(ranks)
    assert (cause.rank, cause.name, cause.steps, cause.gain_ns) == (1, "line_4", (4,), 80 * MS)
    rules = {finding.rule: plain(finding.sentence) for finding in findings_of(ranks)}
    assert "ranks began up to 495 ms apart, rank 0 last" in rules["ranks_start_up"]
    assert found(causes_of(job(2, start_up_and_once))) == [(0, 2, 495), (1, 4, 80)]  # a cell begins on all together


def test_a_slow_link_shows_where_its_rank_takes_part() -> None:
    (cause,) = causes_of(job(4, links, link_ms=2, slow={2: 4}))
    assert (cause.phase, cause.ranks, cause.gain_ns) == (LINK, (2, 3), 24 * MS)  # of pairs either may be it

    def other_pairs(r: Rank) -> None:
        links(r)
        for _ in range(4):
            r.meet(*((0, 3) if r.number in (0, 3) else (1, 2)))

    ranks = job(4, other_pairs, link_ms=2, slow={2: 4})
    (cause,) = causes_of(ranks)
    assert (cause.phase, cause.ranks, cause.gain_ns) == (LINK, (2,), 48 * MS)
    (finding,) = (finding for finding in findings_of(ranks) if finding.rule == "slow_link")
    assert plain(finding.headline) == "all_reduce with rank 2 takes 4.0 × as long as without"
    assert causes_of(job(4, other_pairs, link_ms=2)) == ()


def with_rows(traces: list[Trace], more: Sequence[int], of: str = "") -> Ranks:
    """Ranks of 32 rows in each operator, some of 96 in those with a name."""

    def of_rank(number: int, trace: Trace) -> Trace:
        bigger = np.array([number in more and of in name for name in trace.names])[trace.host_ops.name]
        ops = replace(trace.host_ops, shape=bigger.astype(np.int32))
        return replace(trace, input_shapes=("[[32, 64], [64, 64]]", "[[96, 64], [64, 64]]"), host_ops=ops)

    ranks = ranks_of([of_rank(number, trace) for number, trace in enumerate(traces)])
    assert ranks is not None
    return ranks


def test_more_rows_in_the_same_operators_are_called_so_and_no_device_is_slower() -> None:
    ranks = with_rows(traced(4, ran(4, bigger_batch), file=True), (0,))
    assert {cause.rows for cause in causes_of(ranks)} == {3.0}
    stragglers = [finding for finding in findings_of(ranks) if finding.rule == "straggler"]
    assert all("It has 3 × the rows in the same operators" in finding.sentence for finding in stragglers)
    assert all("rows" in finding.action for finding in stragglers)
    assert not any("slower device" in finding.sentence for finding in findings_of(ranks))


@pytest.mark.parametrize(("file", "of"), [(True, "line_2"), (False, "gloo")])
def test_more_rows_elsewhere_are_no_cause(file: bool, of: str) -> None:
    ranks = with_rows(traced(4, ran(4, bigger_batch), file=file), (0,), of)
    assert [(cause.rank, cause.rows) for cause in causes_of(ranks)] == [(0, 1.0), (0, 1.0)]
    assert not any("rows" in finding.sentence + finding.action for finding in findings_of(ranks))


@pytest.mark.parametrize(("more", "told"), [((0, 1), True), ((0,), False), ((1,), False)])
def test_several_ranks_have_more_rows_if_each_has(more: tuple[int, ...], told: bool) -> None:
    def program(r: Rank) -> None:
        for step in range(3):
            r.step(step)
            r.work(2, 30 if r.number < 2 else 10)
            r.meet(*ALL)

    ranks = with_rows(traced(4, ran(4, program), file=True), more)
    (cause,) = causes_of(ranks)
    assert (cause.ranks, cause.rows) == ((0, 1), 3.0 if told else 1.0)
    (finding,) = (finding for finding in findings_of(ranks) if finding.rule == "straggler")
    assert ("They have 3 × the rows in the same operators" in finding.sentence) is told


def with_stacks(trace: Trace) -> Trace:
    """A file whose line 3 runs in load(), which step() calls; both in train.py."""
    host = trace.host_ops
    load = host.select(np.array([name == "line_3" for name in trace.names])[host.name])
    n, last_ns = len(trace.names), trace.meta.end_ns
    frames = {
        "start_ns": np.append(0, load.start_ns),
        "end_ns": np.append(last_ns, load.end_ns),
        "name": np.append(n, np.full(len(load), n + 1)),
        "thread": np.full(len(load) + 1, 1),
    }
    names = (*trace.names, "/job/train.py(20): step", "/job/train.py(4): load")
    return replace(trace, names=names, python_frames=PythonFrames(frames))


def test_stacks_of_a_profiler_name_the_function() -> None:
    ranks = ranks_of([with_stacks(trace) for trace in traced(4, ran(4, subgroups), file=True)])
    assert ranks is not None
    (cause,) = causes_of(ranks)
    assert (cause.rank, round(cause.gain_ns / MS)) == (3, 100)
    (finding,) = (finding for finding in findings_of(ranks) if finding.rule == "straggler")
    assert plain(finding.headline) == "load (train.py:4) takes 100 ms more on rank 3 in step 1"
    assert finding.action == "Look at load (train.py:4) on rank 3"
    assert "Steps count from 0" in finding.sentence


def with_core_waits(trace: Trace, line: int, waits_ns: int) -> Trace:
    """The trace with so much waiting for a core on a line."""
    marks = trace.marks
    waited = np.concatenate(([0], np.cumsum(np.where(marks.line[:-1] == line, waits_ns, 0))))
    return replace(trace, marks=LineMarks.make({**marks.to_dict(), "waited_ns": waited}))


def test_waiting_for_a_core_is_told_from_a_sleep() -> None:
    traces = traced(4, ran(4, subgroups))
    slept = ranks_of([with_core_waits(trace, 2, MS // 2) for trace in traces])
    waited = ranks_of([with_core_waits(trace, 3, 98 * MS) for trace in traces])
    assert slept is not None
    assert waited is not None
    assert found(causes_of(slept)) == [(3, 3, 100)]
    (cause,) = causes_of(waited)
    assert (cause.rank, cause.name, round(cause.gain_ns / MS)) == (3, CORE, 98)
    (finding,) = (finding for finding in findings_of(waited) if finding.rule == "straggler")
    assert plain(finding.headline) == "Waiting for a core takes 98.0 ms more on rank 3 in step 1"
    assert "line" not in finding.action


def test_ranks_that_wait_for_cores_as_long_as_they_communicate_move_no_data_for_it() -> None:
    def even(r: Rank) -> None:
        for _ in range(10):
            r.work(2, 5)
            r.meet(*ALL)

    def of(waited_ms: int) -> Ranks:
        traces = traced(4, ran(4, even, link_ms=30))
        metas = [replace(trace.meta, waited_for_core_ns=waited_ms * MS, cores=2) for trace in traces]
        made = ranks_of([replace(trace, meta=meta) for trace, meta in zip(traces, metas, strict=True)])
        assert made is not None
        return made

    def exposed(ranks: Ranks) -> str:
        return next(plain(finding.sentence) for finding in findings_of(ranks) if finding.rule == "rank_exposed")

    assert exposed(of(0)).startswith("exposed communication is mostly transfer")
    assert exposed(of(250)).startswith("exposed communication is of unknown cause")
    assert plain(find_job_answers(of(250)).decides) == (
        "Cores decide: 4 ranks on 2 cores wait for one, which looks like transfer"
    )


def test_no_sync_on_one_rank_is_a_mismatch_and_nobody_is_blamed() -> None:
    def program(r: Rank) -> None:
        for _ in range(4):
            r.work(2, 60 if r.number == 1 else 20)
            r.meet(*ALL)

    rows = ran(4, program)
    left_out = [row for row in rows[1] if row[0] == "meet"][:3]
    rows[1] = [row for row in rows[1] if row not in left_out]
    ranks = ranks_of(traced(4, rows))
    assert ranks is not None
    said = {finding.rule: plain(finding.sentence) for finding in findings_of(ranks)}
    assert "rank 0 has 4 collectives, rank 1 1. No rank can be called a straggler" in said["unmatched"]
    assert "straggler" not in said


@pytest.mark.slow
@pytest.mark.parametrize("jitter", [0.05, 0.3])
def test_of_random_jobs_the_culprit_comes_first_with_the_waiting_it_causes(jitter: float) -> None:
    """60 jobs with one delay of 30 to 150 ms; those in which nobody waits 5 ms for it say nothing."""
    told = near = 0
    for seed in range(60):
        delayed = random_job(seed, jitter, 30, 150)
        if delayed.waited_ns < 5 * MS:
            continue
        replayed = replayed_job(delayed.ranks)
        assert replayed is not None
        cause = find_causes(replayed, 0.005 * replayed.recorded.end_ns)[0]
        assert (cause.ranks, cause.line) == ((delayed.rank,), delayed.line), seed
        assert delayed.step in cause.steps, seed
        told += 1
        near += abs(cause.waited_ns - delayed.waited_ns) <= 0.1 * delayed.waited_ns
    assert told == 59
    assert near >= 55


@pytest.mark.slow
def test_of_random_jobs_a_delay_as_short_as_the_jitter_comes_first_in_most() -> None:
    """60 jobs with one delay of 5 to 30 ms at a jitter of 3 ms."""
    told = first = 0
    for delayed in (random_job(seed, 0.3, 5, 30) for seed in range(60)):
        replayed = replayed_job(delayed.ranks)
        assert replayed is not None
        if delayed.waited_ns >= 5 * MS:
            causes = find_causes(replayed, 0.005 * replayed.recorded.end_ns)
            told += 1
            first += [(each.ranks, each.line) for each in causes[:1]] == [((delayed.rank,), delayed.line)]
    assert told == 55
    assert first >= 45


@pytest.mark.slow
@pytest.mark.parametrize("jitter", [0.05, 0.15, 0.3])
def test_of_random_jobs_without_a_delay_hardly_one_has_a_cause(jitter: float) -> None:
    assert sum(bool(causes_of(random_job(seed, jitter, 0, 0).ranks)) for seed in range(100)) <= 2


@pytest.mark.slow
@pytest.mark.parametrize("jitter", [0.05, 0.15, 0.3])
@pytest.mark.parametrize("n", [2, 4, 8])
def test_chance_is_no_cause(n: int, jitter: float) -> None:
    named = 0
    for seed in range(20):

        def even(r: Rank, seed: int = seed) -> None:
            own = random.Random(seed * 100 + r.number)
            for step in range(10):
                r.step(step)
                r.work(2, 20 * max(0.1, own.gauss(1, jitter)))
                r.meet(*range(n))

        named += bool(causes_of(job(n, even)))
    assert named <= 1


def test_one_round_is_judged_by_the_other_ranks() -> None:
    def once(*ms: float) -> Ranks:
        def program(r: Rank) -> None:
            r.work(2, ms[r.number])
            r.meet(*ALL)

        return job(4, program)

    assert causes_of(once(20, 26, 17, 23)) == ()
    assert found(causes_of(once(20, 120, 19.9, 20.1))) == [(1, 2, 100)]


if __name__ == "__main__":
    for case in CASES:
        ranks = case.make()
        first = next(finding for finding in findings_of(ranks) if finding.rule == "straggler")
        truth = "; ".join(f"rank {rank}, line {line}, {ms:g} ms" for rank, line, ms in case.truth)
        print(f"{case.name} | {plain(find_job_answers(ranks).decides)} | {plain(first.headline)} | {truth}")
