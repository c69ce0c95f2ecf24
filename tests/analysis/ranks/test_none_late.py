"""What the job would take if no rank were late."""

from perfmagic.analysis.ranks.finding import RankFinding
from perfmagic.analysis.ranks.findings import rank_findings, won_by_rank_ns
from perfmagic.analysis.ranks.ranks import ranks_of
from perfmagic.trace.model import Trace
from tests.analysis.build import US, Builder
from tests.analysis.ranks.test_ranks import REDUCE, rank


def asked(*traces: Trace) -> list[RankFinding]:
    return [finding for finding in rank_findings(traces) if finding.rule == "none_late"]


def won(*traces: Trace) -> list[int]:
    return won_by_rank_ns(ranks_of(traces))


def job(*compute_us: float) -> list[Trace]:
    return [rank(i, compute_us=us, world_size=len(compute_us)) for i, us in enumerate(compute_us)]


def test_each_collective_but_the_first_is_won_what_the_last_comes_after_the_median() -> None:
    assert won(*job(300, 300, 800, 300)) == [3 * 500 * US] * 4
    assert won(*job(300, 400, 800)) == [3 * 400 * US] * 3
    assert won(*job(300, 400, 600, 800)) == [3 * 300 * US] * 4  # between the two in the middle


def test_the_finding_names_both_times_the_share_and_the_assumption() -> None:
    (found,) = asked(*job(300, 300, 800, 300))
    sentence = found.sentence.replace("\u00a0", " ")
    # from the first op of a rank, 20 µs after it began, to the end of its 4th round
    assert sentence.startswith(
        "were no rank later than the median, a rank's extent would be 2.48 ms, not 3.98 ms in the median"
    )
    assert "(38 % less). This is an estimate without a replay" in sentence
    assert "assumed to take as long as it did" in sentence
    assert found.cost_ns is None


def test_ranks_in_time_and_two_ranks_have_nothing_to_win_so() -> None:
    assert asked(*job(300, 300, 300)) == []
    assert asked(*job(300, 800)) == []


def test_waiting_beside_compute_wins_nothing() -> None:
    def overlapped(number: int, came_us: float) -> Trace:
        b = Builder()
        for at in (0, 1000, 2000):
            b.op(at, at + 900, launch=at, name="gemm")
            b.op(at + came_us, at + 900, launch=at, name=REDUCE, stream=9)
        return b.trace(rank=number, world_size=3)

    late = overlapped(2, 600)
    first, second, third = won(overlapped(0, 100), overlapped(1, 100), late)
    assert first == second == 0
    assert third == 2 * 500 * US  # its own work before them would be so much shorter
    assert asked(overlapped(0, 100), overlapped(1, 100), late) == []
