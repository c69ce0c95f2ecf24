"""How fast collectives moved data once all ranks were there, worked out by hand, and from the files' own JSON."""

from collections.abc import Sequence
from dataclasses import replace

import pytest

from perfmagic.analysis.ranks.answers import find_job_answers
from perfmagic.analysis.ranks.finding import RankFinding
from perfmagic.analysis.ranks.findings import findings_of
from perfmagic.analysis.ranks.meetings import describe_collectives
from perfmagic.analysis.ranks.ranks import Ranks, ranks_of
from perfmagic.predict.gpus import link_peak
from perfmagic.trace.columns import NONE
from perfmagic.trace.formats.sources import read_file
from perfmagic.trace.model import Collective, DeviceInfo
from tests.analysis.build import Builder
from tests.analysis.findings.build import plain
from tests.analysis.ranks import raw
from tests.analysis.ranks.programs import Program, Rank, ran
from tests.analysis.ranks.programs import job as made
from tests.analysis.ranks.test_ranks import REDUCE

H100 = "NVIDIA H100 80GB HBM3"
FLOATS = 25_000_000  # 100 MB


def job(
    name: str,
    elements: Sequence[Sequence[int]],
    *,
    came_us: Sequence[float] = (900, 1000, 1000, 1000),
    gpu: str = H100,
    boots: Sequence[str] = ("a", "a", "a", "a"),
) -> Ranks:
    """Collectives of 500 µs once the last rank came, the first half of it beside compute.

    elements: of each collective, by rank.
    """
    traces = []
    for rank, (came, boot) in enumerate(zip(came_us, boots, strict=True)):
        b = Builder()
        known = []
        for i, sizes in enumerate(elements):
            at = 10_000 * i
            b.op(at + 1, at + 100, launch=at, name="gemm")
            b.op(at + came, at + 1500, launch=at + 2, name=REDUCE, stream=9)
            b.op(at + 1000, at + 1250, launch=at + 3, name="gemm")
            known.append(Collective(name, sizes[rank], sizes[rank], "Float", len(came_us), "0", (0, 1, 2, 3)))
        trace = b.trace(devices=[DeviceInfo(0, "cuda", gpu)], rank=rank, world_size=len(came_us), boot=boot)
        is_comm = [trace.names[i] == REDUCE for i in trace.ops.name.tolist()]
        number = [sum(is_comm[: i + 1]) - 1 if comm else NONE for i, comm in enumerate(is_comm)]
        ops = replace(trace.ops, collective=trace.ops.collective * 0 + number)
        traces.append(replace(trace, ops=ops, collectives=tuple(known)))
    ranks = ranks_of(traces)
    assert ranks is not None
    return ranks


def test_bandwidth_is_of_the_time_after_the_last_rank_came_and_overlap_of_all_of_it() -> None:
    (row,) = job("allreduce", [[FLOATS] * 4] * 3).collectives
    assert (row.kind, row.n, row.size_bytes, row.transfer_ns) == ("all_reduce Float", 3, 100e6, 3 * 500_000)
    assert row.bus_bytes_per_s == pytest.approx(100e6 * 1.5 / 500e-6)  # 2 × 3 / 4
    assert (row.link, row.peak_bytes_per_s) == ("NVLink", 450e9)
    assert row.peak_frac == pytest.approx(300 / 450)
    assert row.overlap_frac == pytest.approx(4 * 250 / (600 + 3 * 500))
    assert row.imbalance is None


def test_buckets_of_other_sizes_are_rows_of_their_own_and_one_line_describes_them() -> None:
    rows = job("allreduce", [[FLOATS] * 4, [FLOATS // 4] * 4, [FLOATS] * 4]).collectives
    assert [(row.n, row.size_bytes) for row in rows] == [(2, 100e6), (1, 25e6)]
    assert describe_collectives(rows).replace("\u00a0", " ") == (
        "Collectives: 2 × all_reduce Float of 100 MB, bus bandwidth 300 GB/s, 67 % of 450 GB/s NVLink, 48 % "
        "overlapped with compute; 1 × all_reduce Float of 25.0 MB, bus bandwidth 75.0 GB/s, 17 % of 450 GB/s NVLink, "
        "48 % overlapped with compute"
    )


def test_an_all_to_all_has_the_bytes_of_each_rank_and_how_uneven_they_are() -> None:
    (row,) = job("all_to_allv", [[1000, 200, 200, 600], [200, 1000, 200, 600]]).collectives
    assert row.rank_bytes == (4800, 4800, 1600, 4800)
    assert row.imbalance == pytest.approx(2)  # 4000 of 2000 each time, though another rank's
    assert row.bus_bytes_per_s == pytest.approx(4000 * 0.75 / 500e-6)
    assert "moves 2.00 × the mean" in describe_collectives([row])


def test_without_a_known_link_there_is_no_share() -> None:
    for unknown in ({"gpu": "Test GPU"}, {"boots": ("a", "a", "b", "b")}):
        (row,) = job("allreduce", [[FLOATS] * 4], **unknown).collectives  # type: ignore[arg-type]
        assert (row.link, row.peak_bytes_per_s, row.peak_frac) == ("", None, None)
        assert row.bus_bytes_per_s == pytest.approx(300e9)


def test_a_size_that_the_record_does_not_say_gives_no_bandwidth() -> None:
    ranks = job("barrier", [[1] * 4])
    (row,) = ranks.collectives
    assert row.bus_bytes_per_s is None
    assert describe_collectives(ranks.collectives) == ""


@pytest.mark.parametrize(
    ("name", "n_ranks", "peak"),
    [
        ("H100 SXM", 2, (450e9, "NVLink")),
        ("V100 SXM2 32 GB", 8, (150e9, "NVLink")),
        ("V100 SXM2 32 GB", 2, None),  # some pairs have one link, some two
        ("MI300X", 2, (64e9, "Infinity Fabric")),
        ("RTX 4090", 2, (pytest.approx(31.5e9, rel=1e-3), "PCIe 4")),
        ("GB10", 2, None),
    ],
)
def test_the_peak_is_that_of_the_links_between_the_ranks(name: str, n_ranks: int, peak: object) -> None:
    assert link_peak(name, n_ranks) == peak


@pytest.mark.slow
def test_eight_recorded_ranks_have_the_bandwidth_that_their_own_json_gives() -> None:
    ranks = ranks_of([read_file(path) for path in raw.PATHS])
    if ranks is None:
        pytest.skip("the recorded ranks are not here")
    rows = {row.size_bytes: row for row in ranks.collectives if row.kind == "all_reduce"}
    took_us = sorted(
        min(took.values())
        for took, event in zip(raw.durations(), raw.collectives()[0], strict=True)
        if "AllReduce" in event["name"]
    )
    assert sorted(row.transfer_ns for row in rows.values()) == [us * 1000 for us in took_us]
    largest = max(rows)
    assert rows[largest].bus_bytes_per_s == pytest.approx(largest * 2 * 7 / 8 / (took_us[-1] * 1e-6))
    assert rows[largest].link == "NVLink"
    assert all(0 <= (row.overlap_frac or 0) <= 1 for row in rows.values())


def experts(*, rows: int = 40, work: float = 10, bytes_only: bool = False, line: int = 5) -> Program:
    """Four steps of an expert on each rank. Rank 1 gets so many rows, works so long (ms); the others 10 of both."""

    def program(r: Rank) -> None:
        hot = r.number == 1
        for step in range(4):
            r.step(step)
            r.work(4, 20)
            r.share(rows if hot else 10, 0, 1, 2, 3)
            r.work(5, 10)
            r.work(line, work - 10 if hot and not bytes_only else 0)
            r.share(rows if hot else 10, 0, 1, 2, 3)

    return program


def of_all_to_all(program: Program, link_ms: float = 0.1) -> list[RankFinding]:
    return [each for each in findings_of(made(4, program, link_ms=link_ms)) if each.rule == "uneven_all_to_all"]


def ended_ns(program: Program, link_ms: float = 0.1) -> int:
    return max(end for rows in ran(4, program, link_ms=link_ms) for *_, end in rows)


def test_a_hot_expert_is_named_with_its_bytes_and_what_balancing_wins() -> None:
    ranks = made(4, experts(work=40))
    (found,) = of_all_to_all(experts(work=40))
    assert (found.ranks, found.line) == ((1,), 5)
    assert plain(found.headline) == "Rank 1 moves 4.0 × its peers' bytes in all_to_all"
    transfers_ns = 8 * round((40 - 17.5) * 0.1e6)  # as long as the mean rank's rows take
    assert found.cost_ns == pytest.approx(transfers_ns + 4 * 30e6, rel=0.01)
    answers = find_job_answers(ranks)
    assert (answers.answers[0].headline, answers.answers[0].action) == (found.headline, found.action)
    assert "Balance the rows for rank 1" in found.action
    assert all("straggler" not in answer.rules for answer in answers.answers)  # no gain counts twice
    assert any("Line 5" in fact for fact in answers.also_seen)


def test_bytes_alone_cost_what_the_transfers_take_less_with_as_many_for_each_rank() -> None:
    (found,) = of_all_to_all(experts(bytes_only=True), link_ms=1)
    even = ended_ns(experts(rows=10), link_ms=1) + 8 * round(7.5e6)  # 17.5 rows for each
    assert found.cost_ns == ended_ns(experts(bytes_only=True), link_ms=1) - even


@pytest.mark.parametrize(
    "program",
    [
        experts(rows=10),
        experts(rows=14, work=14),
        experts(rows=10, work=60),  # late for another reason: its bytes are its peers'
        experts(bytes_only=True, line=9),  # bytes that cost next to nothing
    ],
)
def test_nothing_is_said_of_bytes_that_are_even_or_cost_nothing(program: Program) -> None:
    assert of_all_to_all(program, link_ms=0.001) == []


def test_work_that_does_not_grow_with_the_bytes_keeps_its_own_answer() -> None:
    ranks = made(4, experts(work=100, line=9), link_ms=0.5)
    (found,) = [each for each in findings_of(ranks) if each.rule == "uneven_all_to_all"]
    assert found.line == 0
    answers = find_job_answers(ranks).answers
    assert {rule for answer in answers for rule in answer.rules} >= {"straggler", "uneven_all_to_all"}
