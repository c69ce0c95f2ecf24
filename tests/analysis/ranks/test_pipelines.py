"""Pipelines of ranks whose schedule and slow stage are injected: roles, the bubble beside its minimum, and the gain."""

from collections.abc import Sequence

import pytest

from perfmagic.analysis.ranks.answers import find_job_answers
from perfmagic.analysis.ranks.causes import causes_of
from perfmagic.analysis.ranks.finding import RankFinding
from perfmagic.analysis.ranks.findings import findings_of
from perfmagic.analysis.ranks.pipelines.bubble import Pipeline, least_bubble_frac, pipeline_stages, pipelines_of
from perfmagic.analysis.ranks.pipelines.interleaved import INTERLEAVED, LOOPED, ZERO_BUBBLE, Plan, least_by_order
from perfmagic.analysis.ranks.ranks import Ranks
from perfmagic.base.units import duration
from perfmagic.results import RanksResult
from perfmagic.view.ranks.doc import ranks_doc
from perfmagic.view.ranks.live_data import ranks_wire
from perfmagic.view.ranks.picture import ranks_svg
from tests.analysis.findings.build import plain
from tests.analysis.ranks.programs import MS, Program, Rank, job, ran

STAGES, MICRO_BATCHES, STEPS = 4, 6, 2


def orders(schedule: str, stage: int) -> str:
    """The roles of one step of a stage."""
    if schedule == "GPipe":
        return "F" * MICRO_BATCHES + "B" * MICRO_BATCHES
    ahead = STAGES - 1 - stage
    if schedule == "other":  # one more ahead on each stage than 1F1B
        ahead = min(MICRO_BATCHES, ahead + 1)
    return "F" * ahead + "FB" * (MICRO_BATCHES - ahead) + "B" * ahead


def staged(
    schedule: str, *, slow: int = -1, own_lines: bool = False, one_line: bool = False, optimizer_ms: float = 0
) -> Program:
    def program(r: Rank) -> None:
        times, line = (4 if r.number == slow else 1), (2 * r.number if own_lines else 0)
        for _ in range(STEPS):
            for role in orders(schedule, r.number):
                comes, goes = (-1, 1) if role == "F" else (1, -1)
                if 0 <= r.number + comes < STAGES:
                    r.recv(r.number + comes)
                r.work(2 + line if role == "F" or one_line else 3 + line, (10 if role == "F" else 20) * times)
                if 0 <= r.number + goes < STAGES:
                    r.send(r.number + goes)
            r.work(18, optimizer_ms)

    return program


def pipeline(ranks: Ranks) -> Pipeline:
    (found,) = pipelines_of(ranks)
    return found


def finding(ranks: Ranks) -> RankFinding:
    return next(each for each in findings_of(ranks) if each.rule == "pipeline")


def ended_ns(program: Program) -> int:
    return max(end for rows in ran(STAGES, program) for *_, end in rows)


def labels(of_stage: Sequence[object]) -> str:
    return " ".join(str(getattr(box, "label", "")) for box in of_stage)


@pytest.mark.parametrize("own_lines", [False, True])
@pytest.mark.parametrize("schedule", ["GPipe", "1F1B"])
def test_a_balanced_pipeline_has_the_least_bubble_of_its_schedule_and_blames_nobody(
    schedule: str, own_lines: bool
) -> None:
    ranks = job(STAGES, staged(schedule, own_lines=own_lines), link_ms=0.01)
    found = pipeline(ranks)
    assert (found.schedule, found.n_steps, found.n_micro_batches) == (schedule, STEPS, MICRO_BATCHES)
    assert found.least_frac == pytest.approx(3 / 9)
    assert found.bubble_frac == pytest.approx(found.least_frac, rel=0.02)
    assert (found.slowest, found.gain_ns, causes_of(ranks)) == (None, 0, ())
    assert {(each.forward_ns, each.backward_ns) for each in found.stages} == {(10 * MS, 20 * MS)}
    assert plain(finding(ranks).headline) == f"Pipeline of 4 stages: bubble 33 %, {schedule} needs 33 %"
    assert plain(finding(ranks).action) == "Run 12 micro-batches a step: the minimum bubble is then 20 %"
    rules = {each.rule for each in findings_of(ranks)}
    assert not rules & {"straggler", "slow_link", "ranks_in_turn"}


@pytest.mark.parametrize("slow", range(STAGES))
@pytest.mark.parametrize("schedule", ["GPipe", "1F1B"])
def test_a_slow_stage_sets_the_pace_and_balancing_wins_what_the_program_without_it_takes_less(
    schedule: str, slow: int
) -> None:
    program = staged(schedule, slow=slow)
    ranks = job(STAGES, program)
    found = pipeline(ranks)
    assert found.slowest is not None
    assert (found.slowest.stage, found.slowest.rank) == (slow, slow)
    assert (found.slowest.forward_ns, found.slowest.backward_ns) == (40 * MS, 80 * MS)
    assert found.gain_ns == pytest.approx(ended_ns(program) - ended_ns(staged(schedule)), rel=0.002)
    assert found.least_frac == pytest.approx(3 / 9)
    assert found.bubble_frac > (found.least_frac or 1)
    said = finding(ranks)
    assert plain(said.headline).startswith(f"Stage {slow} on rank {slow} sets the pace: bubble ")
    assert said.action == f"Move layers from stage {slow} on rank {slow} to the other stages"
    assert (said.ranks, said.cost_ns) == ((slow,), found.gain_ns)
    answers = find_job_answers(ranks)
    first = answers.answers[0]
    assert (first.headline, answers.total_ns - (first.after_ns or 0)) == (said.headline, found.gain_ns)
    assert f"costs {duration(found.gain_ns)} of" in answers.decides
    assert all("straggler" not in answer.rules for answer in answers.answers)  # no gain counts twice
    assert any(f"more on rank {slow}" in fact for fact in answers.also_seen)


@pytest.mark.parametrize("schedule", ["GPipe", "1F1B"])
def test_each_stage_has_its_micro_batches_in_the_order_of_its_schedule(schedule: str) -> None:
    program = staged(schedule, slow=1, own_lines=True, optimizer_ms=7)
    ranks, rows = job(STAGES, program), ran(STAGES, program)
    found = pipeline(ranks)
    for stage, boxes in enumerate(found.boxes):
        counts, order = [0, 0], []
        for role in orders(schedule, stage):
            order.append(f"{role}{counts[role == 'B']}")
            counts[role == "B"] += 1
        assert labels(boxes) == " ".join(order * STEPS)
        works = [row[2:] for row in rows[stage] if row[0] == "work" and row[1] != 18]
        assert [(box.start_ns, box.end_ns) for box in boxes] == works


def test_an_unknown_schedule_has_a_bubble_without_a_minimum() -> None:
    ranks = job(STAGES, staged("other"))
    found = pipeline(ranks)
    assert (found.schedule, found.least_frac, found.slowest) == ("", None, None)
    assert 0.3 < found.bubble_frac < 0.5
    assert plain(finding(ranks).headline).startswith("Pipeline of 4 stages: bubble ")
    assert "the minimum of its schedule is not known" in finding(ranks).sentence


# Several stages a rank.

RANKS, CHUNKS = 4, 2


def chunked(plan: Plan, *, slow: int = -1, other: bool = False) -> Program:
    """The steps of a schedule; one stage takes four times as long.  other: by micro-batches alone."""

    def program(r: Rank) -> None:
        for _ in range(STEPS):
            order = [*plan.orders[r.number]]
            if other:
                sign = {"F": 1, "B": -1}
                order.sort(key=lambda each: (-sign[each.letter], each.number, sign[each.letter] * each.stage))
            for action in order:
                if side := plan.needs(action):
                    r.recv((r.number + side) % RANKS)
                ms = {"F": 10, "B": 20, "W": 10}[action.letter] * (4 if action.stage == slow else 1)
                r.work(2 if action.letter == "F" else 3, ms)
                if side := plan.sends(action):
                    r.send((r.number + side) % RANKS)
            r.work(18, 7)

    return program


@pytest.mark.parametrize("schedule", [INTERLEAVED, LOOPED])
def test_interleaved_stages_have_the_least_bubble_of_their_schedule(schedule: str) -> None:
    plan = Plan(schedule, RANKS, CHUNKS, 8)
    ranks = job(RANKS, chunked(plan), link_ms=0.01)
    found = pipeline(ranks)
    assert (found.schedule, found.n_steps, found.n_micro_batches) == (schedule, STEPS, 8)
    assert found.least_frac == pytest.approx(3 / (2 * 8 + 3))
    assert found.bubble_frac == pytest.approx(found.least_frac, abs=0.015)  # the optimizer's 7 ms lie between the steps
    assert {(each.forward_ns, each.backward_ns) for each in found.stages} == {(10 * MS, 20 * MS)}
    assert [(each.stage, each.rank) for each in found.stages] == [(n, n % RANKS) for n in range(RANKS * CHUNKS)]
    assert (found.slowest, causes_of(ranks)) == (None, ())
    assert plain(finding(ranks).headline).endswith(f"{schedule} needs 16 %")
    assert plain(finding(ranks).action) == "Run 16 micro-batches a step: the minimum bubble is then 9 %"


@pytest.mark.parametrize("schedule", [INTERLEAVED, LOOPED, ZERO_BUBBLE])
def test_each_micro_batch_of_interleaved_stages_has_its_box(schedule: str) -> None:
    plan = Plan(schedule, RANKS, CHUNKS, 8)
    ranks, rows = job(RANKS, chunked(plan)), ran(RANKS, chunked(plan))
    for place, boxes in enumerate(pipeline(ranks).boxes):
        done = [f"{each.stage}{each.letter}{each.number}" for each in plan.orders[place] * STEPS]
        assert "+".join(box.label for box in boxes).split("+") == done
        spans = [row[2:] for row in rows[place] if row[0] == "work" and row[1] != 18]
        works = dict(zip(done[: len(done) // STEPS], spans, strict=False))
        alone = {box.label: (box.start_ns, box.end_ns) for box in boxes[: len(boxes) // STEPS] if len(box.actions) == 1}
        assert len(alone) >= (30 if schedule != ZERO_BUBBLE else 6)
        assert alone.items() <= works.items()


def test_the_slow_one_of_interleaved_stages_is_named_with_what_balancing_wins() -> None:
    plan = Plan(INTERLEAVED, RANKS, CHUNKS, 8)
    ranks = job(RANKS, chunked(plan, slow=6))
    found = pipeline(ranks)
    assert found.slowest is not None
    assert (found.slowest.stage, found.slowest.rank) == (6, 2)
    ended = [max(end for rows in ran(RANKS, chunked(plan, slow=slow)) for *_, end in rows) for slow in (6, -1)]
    assert found.gain_ns == pytest.approx(ended[0] - ended[1], rel=0.02)  # a replayed send waits for its receive
    assert plain(finding(ranks).headline).startswith("Stage 6 on rank 2 sets the pace")
    table = RanksResult((), ranks).pipelines()
    assert (table.to_dict()[6]["stage"], len(table.to_frame()), table) == (6, 8, pipeline_stages(ranks))
    assert [row.gain_ns for row in table] == [found.gain_ns if row.stage == 6 else None for row in table]


def test_interleaved_stages_of_another_schedule_have_a_bubble_without_a_minimum() -> None:
    ranks = job(RANKS, chunked(Plan(LOOPED, RANKS, CHUNKS, 4), other=True))
    found = pipeline(ranks)
    assert (found.schedule, found.least_frac, found.slowest, found.boxes) == ("", None, None, ())
    assert "needs" not in finding(ranks).headline


@pytest.mark.parametrize("schedule", [INTERLEAVED, LOOPED])
@pytest.mark.parametrize(("n_ranks", "n_chunks", "n_micro_batches"), [(3, 2, 6), (4, 3, 8), (4, 2, 10), (4, 2, 4)])
def test_the_minimum_of_interleaved_stages_is_what_their_order_takes(
    schedule: str, n_ranks: int, n_chunks: int, n_micro_batches: int
) -> None:
    plan = Plan(schedule, n_ranks, n_chunks, n_micro_batches)
    assert plan.least_frac == pytest.approx(least_by_order(plan, {"F": 1, "B": 2}))


@pytest.mark.slow
@pytest.mark.parametrize(
    ("schedule", "of_torch"),
    [
        (INTERLEAVED, "ScheduleInterleaved1F1B"),
        (LOOPED, "ScheduleLoopedBFS"),
        (ZERO_BUBBLE, "ScheduleInterleavedZeroBubble"),
    ],
)
@pytest.mark.parametrize("n_micro_batches", [3, 4, 8, 10])
def test_the_order_of_a_schedule_is_torch_s(schedule: str, of_torch: str, n_micro_batches: int) -> None:
    schedules = pytest.importorskip("torch.distributed.pipelining.schedules")
    its = object.__new__(getattr(schedules, of_torch))  # its stages would need ranks
    its.pp_group_size, its.n_local_stages, its._n_microbatches, its._stages = RANKS, CHUNKS, n_micro_batches, [0, 0]
    its.microbatches_per_round = n_micro_batches // max(1, n_micro_batches // RANKS)
    letters = {"FORWARD": "F", "FULL_BACKWARD": "B", "BACKWARD_INPUT": "B", "BACKWARD_WEIGHT": "W"}
    for place, order in enumerate(Plan(schedule, RANKS, CHUNKS, n_micro_batches).orders):
        said = [each for each in its._calculate_single_rank_operations(place) if each is not None]
        names = [(letters[each.computation_type.name], each.stage_index, each.microbatch_index) for each in said]
        assert names == [tuple(action) for action in order]


def test_messages_that_are_only_exchanged_make_no_pipeline() -> None:
    def halo(r: Rank) -> None:
        for _ in range(6):
            r.work(2, 10)
            near = [each for each in (r.number - 1, r.number + 1) if 0 <= each < 4]
            for each in near:
                r.send(each)
            for each in near:
                r.recv(each)

    def ask_and_answer(r: Rank) -> None:
        for _ in range(6):
            for sends in (0, 1):
                if r.number == sends:
                    r.work(2 + sends, 10)
                    r.send(1 - sends)
                else:
                    r.recv(sends)

    assert pipelines_of(job(4, halo)) == ()
    assert pipelines_of(job(2, ask_and_answer)) == ()


def test_no_bubble_is_named_where_roles_cannot_be_told_apart() -> None:
    ranks = job(STAGES, staged("1F1B", one_line=True))
    assert pipelines_of(ranks) == ()
    assert "pipeline" not in {each.rule for each in findings_of(ranks)}


def test_the_minimum_is_that_of_the_papers() -> None:
    assert least_bubble_frac(4, 4) == pytest.approx(3 / 7)
    assert least_bubble_frac(8, 56) / (1 - least_bubble_frac(8, 56)) == pytest.approx(7 / 56)  # (p - 1) / m


@pytest.mark.parametrize("schedule", ["GPipe", "1F1B"])
def test_picture_and_live_view_open_on_one_step_with_a_box_for_each_micro_batch(schedule: str) -> None:
    ranks = job(STAGES, staged(schedule, slow=1))
    doc = ranks_doc(ranks)
    first_ns, last_ns = pipeline(ranks).steps_ns[1]
    assert doc.opening.start_ns < first_ns < last_ns <= doc.opening.end_ns
    assert last_ns - first_ns > 0.9 * (doc.opening.end_ns - doc.opening.start_ns)
    svg = ranks_svg(doc)
    assert all(svg.count(f">F{i}<") >= 1 for i in range(MICRO_BATCHES))  # those of the slow stage are wide
    assert all(STAGES <= svg.count(f">B{i}<") <= STAGES + 1 for i in range(MICRO_BATCHES))
    header = ranks_wire(doc, {}).header
    assert header["view"] == [doc.opening.start_ns, doc.opening.end_ns]
    assert [row["boxes"] for row in header["ranks"]] == [labels(of_stage) for of_stage in pipeline(ranks).boxes]
    assert ["", "F2: forward, micro-batch 2"] in header["key"]
