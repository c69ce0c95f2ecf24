"""perfmagic.compare of several ranks, and of sweeps over numbers of ranks: results and what they were saved as."""

import re
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

import perfmagic
from perfmagic.results import RanksResult, RanksSweep, RanksSweepComparison, TimelineResult, TraceComparison
from perfmagic.trace.model import DeviceInfo, Trace
from tests.analysis.findings.build import plain
from tests.analysis.ranks.test_ranks import rank

pytestmark = pytest.mark.slow


def of_host(trace: Trace, kind: str = "") -> Trace:
    meta = replace(trace.meta, boot="a", monotonic_base_ns=0, cores=8)
    return replace(trace, meta=replace(meta, devices=(DeviceInfo(0, kind, "a processor"),)) if kind else meta)


def job(slow_us: float = 500, n: int = 2, rounds: int = 4, kind: str = "") -> RanksResult:
    """Rounds of 1 ms, in which rank 1 computes so long and the others 500 µs."""
    made = [rank(i, compute_us=slow_us if i == 1 else 500, n=rounds, world_size=n) for i in range(n)]
    return RanksResult.of([TimelineResult(of_host(starts, kind)) for starts in made])


def test_two_runs_of_ranks_are_compared_by_rank(tmp_path: Path) -> None:
    comparison = perfmagic.compare(job(), job(slow_us=800), names=["even", "skewed"])
    assert isinstance(comparison, TraceComparison)
    assert [(row.rank, row.compute_diff_ns) for row in comparison.ranks] == [(0, 0), (1, 4 * 300_000)]
    # of 1 ms a round rank 1 computes 300 µs more, so its collective is so much shorter, and rank 0 waits so much longer
    assert [row.exposed_communication_diff_ns for row in comparison.ranks] == [0, -4 * 300_000]
    assert [row.exposed_waiting_diff_ns for row in comparison.ranks] == [4 * 300_000, 0]
    notes = [plain(note) for note in comparison.notes]
    assert re.fullmatch(
        r"waiting changed most at nccl\w+ number 1, by \+300 µs: 0 ns in even, 300 µs in skewed; "
        r"last to arrive: rank 1 in skewed",
        notes[0],
    )
    assert notes[1] == "clocks of both: one clock: one host ran all ranks"
    assert "+1.20 ms" in plain(comparison.text(details=True))
    assert perfmagic.last() is comparison


def test_a_run_of_ranks_is_compared_with_the_folder_of_another(tmp_path: Path) -> None:
    folder = job(slow_us=800).save(tmp_path / "later")
    results = perfmagic.compare(job(), job(slow_us=800))
    for comparison in (perfmagic.compare(job(), folder), perfmagic.compare(job().save(tmp_path / "before"), folder)):
        assert (comparison.ranks, comparison.notes) == (results.ranks, results.notes)


def test_a_change_within_the_clock_error_is_not_reported() -> None:
    def apart(ranks: RanksResult) -> RanksResult:
        """As files without a word on their hosts: ends of collectives are all there is."""
        traces = [
            replace(t.trace, meta=replace(t.trace.meta, boot="", monotonic_base_ns=None)) for t in ranks.timelines
        ]
        return RanksResult.of([TimelineResult(trace) for trace in traces])

    skewed = [rank(0, skew_us=0), rank(1, skew_us=40, compute_us=520)]
    comparison = perfmagic.compare(
        apart(job()), apart(RanksResult.of([TimelineResult(of_host(start)) for start in skewed]))
    )
    assert not [note for note in comparison.notes if note.startswith("waiting changed most")]
    assert any(note.startswith("clocks of A: ") for note in comparison.notes)


def sweep(slow_us: float = 500, *, runs: int = 3, scaling: Any = "weak", n: Sequence[int] = (1, 2)) -> RanksSweep:
    """Rounds of one number of ranks, each run a little longer than the one before."""
    return RanksSweep.of([[job(slow_us, k, rounds=4 + i) for i in range(runs)] for k in n], scaling)


def test_two_sweeps_are_compared_at_each_number_of_ranks(tmp_path: Path) -> None:
    a, b = sweep(), sweep(800)
    comparison = perfmagic.compare(a, b, names=["before", "after"])
    assert isinstance(comparison, RanksSweepComparison)
    assert [row.ranks for row in comparison.table] == [1, 2]
    two = comparison.table[1]
    assert two.diff_ns == 0
    # the parts are the mean of two ranks in five rounds: one computes 300 µs more, and the other waits for it
    assert two.compute_diff_ns == pytest.approx(5 * 150_000)
    assert two.exposed_waiting_diff_ns == pytest.approx(5 * 150_000)
    assert two.exposed_transfer_diff_ns == pytest.approx(-5 * 300_000)
    parts = two.compute_diff_ns + two.exposed_waiting_diff_ns + two.exposed_transfer_diff_ns + two.rest_diff_ns
    assert parts == pytest.approx(two.diff_ns)
    assert plain(comparison.headline) == "On 2 ranks after takes as long as before (5.00 ms → 5.00 ms)"
    saved = perfmagic.compare(a.save(tmp_path / "a"), b.save(tmp_path / "b"), names=["before", "after"])
    assert saved.to_dict() == comparison.to_dict()


def test_the_sentence_names_the_changed_part_only_where_runs_differ() -> None:
    a, b = sweep(runs=2, n=(2,)), RanksSweep.of([[job(rounds=9), job(rounds=8)]], "weak")
    comparison = perfmagic.compare(a, b)
    assert plain(comparison.headline) == (
        "On 2 ranks B is 4.00 ms longer than A (4.00 ms → 8.00 ms, +100 %): compute +2.00 ms"
    )
    assert comparison.table[0].apart is True
    overlapping = perfmagic.compare(sweep(n=(2,)), RanksSweep.of([[job(rounds=k) for k in (5, 6, 7)]], "weak"))
    assert overlapping.table[0].apart is False
    assert "overlap" in overlapping.headline
    alone = perfmagic.compare(sweep(runs=1, n=(2,)), RanksSweep.of([[job(rounds=8)]], "weak"))
    assert alone.table[0].apart is None
    assert "1 run of A and 1 run of B, one sweep after the other: no statistics" in alone.notes


def test_an_invalid_comparison_suggests_a_valid_one(tmp_path: Path) -> None:
    one = sweep()
    for given, options, words in (
        ((one, sweep(scaling="strong")), {}, "A has weak scaling, B has strong"),
        ((sweep(n=(1,)), sweep(n=(2,))), {}, "A has 1 ranks, B has 2: none is in both"),
        ((one, job()), {}, r"sweep over numbers of ranks and ranks of one run\nHint: sweep\.on\(n\) is the run on n"),
        ((one.save(tmp_path), lambda: 1), {}, "1 sweep over numbers of ranks and a function"),
        ((one, one, one), {}, "3 sweeps over ranks, two are compared"),
        ((one, one), {"samples": 3}, "samples cannot be set any more"),
    ):
        with pytest.raises(perfmagic.OptionError, match=words):
            perfmagic.compare(*given, **options)
    cpu, other = RanksSweep.of([[job(kind="cpu")]], "weak"), sweep()
    comparison = perfmagic.compare(other, cpu)
    assert comparison.headline == f"No verdict: A ran on {other.device_label}, B on {cpu.device_label}"


def test_a_comparison_of_sweeps_has_every_representation() -> None:
    comparison = perfmagic.compare(sweep(), RanksSweep.of([[job(n=1, rounds=9)], [job(rounds=9)], [job(n=4)]], "weak"))
    assert "only one has 4 ranks" in comparison.text()
    assert plain(comparison.html()).count("<tr") == 3
    assert comparison.to_frame()["ranks"].tolist() == [1, 2]
    assert comparison.to_json().count('"apart"') == 2
    assert repr(comparison) == comparison.headline


def test_the_step_that_changed_most_is_named() -> None:
    a, b = (RanksResult.of([TimelineResult(of_host(rank(i))) for i in range(2)]) for _ in range(2))
    assert not [note for note in perfmagic.compare(a, b).notes if "changed most" in note]
    slow = RanksResult.of([TimelineResult(of_host(_with_a_longer_step(rank(i)))) for i in range(2)])
    notes = [plain(note) for note in perfmagic.compare(a, slow).notes]
    assert "of its steps step 2 changed most, by +5.00 µs (990 µs → 995 µs)" in notes


def _with_a_longer_step(trace: Trace) -> Trace:
    ends = trace.host_ops.end_ns.copy()
    ends[2] += 5_000
    return replace(trace, host_ops=replace(trace.host_ops, end_ns=ends))
