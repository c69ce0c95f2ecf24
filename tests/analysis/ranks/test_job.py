"""All ranks of a job replayed together: what held it, and what it would take with a change."""

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import pytest

from perfmagic.analysis.ranks.job_graph import meetings_of, traced_job
from perfmagic.analysis.ranks.job_prediction import JobReplay, job_replay
from perfmagic.analysis.ranks.ranks import Ranks, ranks_of
from perfmagic.analysis.replay.changes.change import Change
from perfmagic.analysis.replay.prediction import Prediction
from perfmagic.changes import faster, faster_python, on_time, overlap_communication, pin
from perfmagic.results import RanksResult, TimelineResult
from perfmagic.trace.formats.sources import read_file
from perfmagic.trace.model import Trace
from perfmagic.view.timeline.picture.timeline import timeline_svg
from tests.analysis.build import US, Builder
from tests.analysis.ranks.test_clocks_of_ranks import on_host
from tests.trace.recorded import eight_ranks

pytestmark = pytest.mark.slow

REDUCE = "ncclDevKernel_AllReduce_Sum_f32_RING_LL"
SEND_RECV = "ncclDevKernel_SendRecv"
MOVES_US = 100
DLRM = sorted(eight_ranks().glob("*.gz"))


def took_us(python_us: Sequence[float], compute_us: Sequence[float], rounds: int) -> float:
    """From the first launch to the last return: what `steps` takes, worked out by hand."""
    slowest = max(p + c for p, c in zip(python_us, compute_us, strict=True))
    # launch 1, latency 3, hand-over to the other stream 1, moving data, the wait's return 2
    return rounds * (slowest + 1 + 3 + 1 + MOVES_US + 2) - min(python_us)


def steps(
    python_us: Sequence[float], compute_us: Sequence[float], rounds: int = 4, skew_us: Sequence[float] = ()
) -> list[Trace]:
    """Ranks in rounds: Python, a kernel, an all-reduce on another stream that waits for it, and Python waits for that.

    skew_us: how far each rank's clock is off.
    """
    builders = [Builder() for _ in python_us]
    at = 0.0
    for _ in range(rounds):
        launched = [at + us for us in python_us]
        began = [first + 4 for first in launched]
        ended = [start + us for start, us in zip(began, compute_us, strict=True)]
        met = max(ended) + 1
        for b, first, start, end, skew in zip(builders, launched, began, ended, skew_us or [0] * 9, strict=False):
            gemm = b.op(start + skew, end + skew, launch=first + skew, name="gemm")
            b.wait(first + 1 + skew, 9, 7, gemm)
            b.op(end + 1 + skew, met + MOVES_US + skew, launch=first + 2 + skew, name=REDUCE, stream=9)
            b.sync(first + 3 + skew, met + MOVES_US + 2 + skew, name="cudaDeviceSynchronize")
        at = met + MOVES_US + 2
    starts = [us + skew for us, skew in zip(python_us, skew_us or [0] * 9, strict=False)]  # with its first call
    return [b.trace(start=starts[i], rank=i, world_size=len(builders)) for i, b in enumerate(builders)]


def job(traces: Sequence[Trace]) -> JobReplay:
    return job_replay(ranks_of(traces))


def predicted(traces: Sequence[Trace], *changes: Change, on: Sequence[int] = ()) -> Prediction:
    replay = job(traces)
    return replay.predict(changes, on or replay.ranks.ranks)[0]


def recorded_again(ranks: Ranks) -> None:
    """Without a change each rank is reached when it was, in both readings."""
    replay = job_replay(ranks)
    for unseen in (False, True):
        graphs = {rank: each.waits if unseen else each.stays for rank, each in replay.readings.items()}
        joined = traced_job(graphs, graphs, ranks.alignment.offset_ns, meetings_of(ranks))
        times = joined.replayed_ns()
        for i, (rank, graph) in enumerate(graphs.items()):
            own_ns = times[joined.base[i] : joined.base[i + 1]] - ranks.alignment.offset_ns[rank]
            assert np.array_equal(own_ns, graph.time_ns)


@pytest.mark.parametrize("skew_us", [(0, 0, 0), (0, 70_000, -3_000)])
def test_without_a_change_the_replay_is_every_ranks_record(skew_us: Sequence[float]) -> None:
    ranks = ranks_of(steps([50, 80, 400], [300, 200, 310], skew_us=skew_us))
    recorded_again(ranks)
    assert job_replay(ranks).path.run_ns == took_us([50, 80, 400], [300, 200, 310], 4) * US


def test_without_a_change_the_replay_is_the_record_of_eight_real_ranks() -> None:
    ranks = ranks_of([read_file(file) for file in DLRM])
    assert len(ranks.ranks) == 8
    recorded_again(ranks)


def test_the_path_goes_through_the_rank_that_all_wait_for_and_tiles_the_job() -> None:
    path = job(steps([50, 80, 400], [300, 200, 310])).path
    assert path.start_ns[0] == 0  # where the earliest record begins
    assert np.array_equal(path.start_ns[1:], path.end_ns[:-1])
    assert path.run_ns == int(path.length_ns.sum()) == sum(share.ns for share in path.shares)
    by_words = {share.words: share.ns for share in path.shares}
    # until its first launch nothing of it is recorded
    assert by_words["before the record of rank 2"] == (400 - 50) * US
    assert by_words["Python on rank 2"] == 3 * 400 * US
    assert by_words["matrix kernels on rank 2"] == 4 * 310 * US
    assert "matrix kernels on rank 0" not in by_words
    rows = path.rows_of_job()
    assert {row.rank for row in rows if row.name == "gemm"} == {2}
    assert sum(row.length_ns for row in rows) == path.run_ns


@pytest.mark.parametrize(
    ("changes", "on", "python_us", "compute_us"),
    [
        ([faster("gemm", 2)], [0, 1, 2], [50, 80, 400], [150, 100, 155]),
        ([faster("gemm", 2)], [2], [50, 80, 400], [300, 200, 155]),
        ([faster("gemm", 2)], [0, 1], [50, 80, 400], [150, 100, 310]),
        ([on_time()], [0, 1, 2], [50, 80, 80], [300, 200, 270]),  # its own way is 350 long, as the median one
    ],
)
def test_a_change_gains_what_the_job_takes_less_with_it(
    changes: list[Change], on: list[int], python_us: list[float], compute_us: list[float]
) -> None:
    rounds = 5
    before = steps([50, 80, 400], [300, 200, 310], rounds)
    prediction = predicted(before, *changes, on=on)
    assert prediction.refused == ""
    assert prediction.recorded_ns == took_us([50, 80, 400], [300, 200, 310], rounds) * US
    if on_time() in changes:
        # the first collective stays, to which ranks come as their records begin
        late_us = took_us([50, 80, 400], [300, 200, 310], rounds)
        won_us = (late_us - took_us(python_us, compute_us, rounds)) * (rounds - 1) / rounds
        assert prediction.expected_ns == pytest.approx((late_us - won_us) * US, abs=rounds)
    else:
        assert prediction.expected_ns == took_us(python_us, compute_us, rounds) * US
    assert prediction.low_ns <= prediction.expected_ns <= prediction.high_ns


def test_a_faster_rank_that_nobody_waits_for_gains_nothing() -> None:
    prediction = predicted(steps([50, 80, 400], [300, 200, 310]), faster("gemm", 2), on=[0])
    assert prediction.won_ns == 0
    assert prediction.changes == ("make kernels with 'gemm' 2 × as fast on rank 0",)


def test_nobody_is_late_by_what_clocks_may_be_off_nor_one_of_two() -> None:
    even = predicted(steps([50, 50, 50, 50], [300, 300, 300, 301], skew_us=[0, 5000, 0, 0]), on_time())
    assert even.won_ns <= 4 * US
    two = predicted(steps([50, 400], [300, 300]), on_time())
    assert two.refused == "no collective of 3 ranks or more was matched: of two, none is the median one"


def test_hidden_communication_lets_ranks_wait_for_nobody() -> None:
    prediction = predicted(steps([50, 80, 400], [300, 200, 310]), overlap_communication())
    assert prediction.at_most
    assert prediction.recorded_ns - prediction.expected_ns >= 4 * MOVES_US * US


def test_a_change_that_applies_to_no_rank_is_rejected_and_one_that_applies_to_some_is_not() -> None:
    traces = steps([50, 80, 400], [300, 200, 310])
    assert "on none of 3 ranks" in predicted(traces, pin()).refused
    alone = predicted(traces, pin(), on=[1])
    assert alone.refused
    assert "none of" not in alone.refused
    b = Builder()
    b.op(30, 130, launch=(1, 129), name="Memcpy HtoD (Pageable -> Device)", size=10**6)
    b.op(200, 300, launch=150, name="gemm")
    with_copy = b.trace(rank=3, world_size=4)
    prediction = predicted([*traces, with_copy], pin())
    assert "on none of" not in prediction.refused


def test_ranks_with_unmatched_collectives_or_unreadable_records_are_rejected() -> None:
    shorter = steps([50, 80, 400], [300, 200, 310], rounds=3)[2]
    prediction = predicted([*steps([50, 80, 400], [300, 200, 310])[:2], shorter], faster("gemm", 2))
    assert prediction.refused.startswith("collectives do not match: in stream 9 rank 0 has 4 collectives, rank 2 3")
    bare = Builder()
    bare.op(0, 100, name="gemm")
    bare.op(100, 200, name=REDUCE, stream=9)
    prediction = predicted([bare.trace(rank=i, world_size=2) for i in range(2)], faster("gemm", 2))
    assert prediction.refused == "rank 0: no launch was recorded: when ops were queued is unknown"


def test_a_message_arrives_only_after_it_was_sent() -> None:
    def pair(gemm_us: float) -> list[Trace]:
        sender, receiver = Builder(), Builder()
        end = 10 + gemm_us
        of = sender.op(10, end, launch=5, name="gemm")
        sender.wait(6, 9, 7, of)
        sender.host_op(7, 8, "nccl:send 0->1")
        sender.op(end + 1, end + 51, launch=7, name=SEND_RECV, stream=9)
        receiver.host_op(5, 6, "nccl:recv 1<-0")
        got = receiver.op(10, end + 51, launch=5, name=SEND_RECV, stream=9)
        receiver.wait(6, 7, 9, got)
        receiver.op(end + 52, end + 152, launch=7, name="gemm")
        traces = [sender.trace(rank=0, world_size=2), receiver.trace(rank=1, world_size=2)]
        return [on_host(trace, "a") for trace in traces]

    ranks = ranks_of(pair(1000))
    assert ranks.alignment.comparable
    recorded_again(ranks)
    slow, quick = (job_replay(ranks_of(pair(us))) for us in (1000, 500))  # type: ignore[arg-type]
    prediction, after = slow.predict([faster("gemm", 2)], [0])
    assert prediction.expected_ns == quick.path.run_ns
    assert {share.rank for share in after.shares} - {None} == {0, 1}


def buffered(computes_us: float) -> list[Trace]:
    """A message sent at 511 µs and buffered for 50; its receiver computes before it, and for 100 after it."""
    sender, receiver = Builder(), Builder()
    of = sender.op(10, 510, launch=5, name="gemm")
    sender.wait(6, 9, 7, of)
    sender.host_op(7, 8, "nccl:send 0->1")
    sender.op(511, 561, launch=7, name=SEND_RECV, stream=9)
    receiver.op(10, 10 + computes_us, launch=5, name="relu")
    receiver.host_op(7, 8, "nccl:recv 1<-0")
    asked = 11 + computes_us
    got = max(asked, 511) + 50
    receiver.op(asked, got, launch=7, name=SEND_RECV)
    receiver.op(got + 1, got + 101, launch=8, name="gemm")
    return [on_host(b.trace(rank=i, world_size=2), "a") for i, b in enumerate((sender, receiver))]


def test_a_receiver_that_comes_before_a_message_that_was_buffered_waits_for_it() -> None:
    ranks = ranks_of(buffered(1000))
    recorded_again(ranks)
    prediction, _ = job_replay(ranks).predict([faster("relu", 10)], [1])
    assert prediction.expected_ns == job(buffered(100)).path.run_ns == (511 + 50 + 101) * US


def test_a_message_that_was_buffered_does_not_hold_its_sender() -> None:
    prediction, _ = job(buffered(1000)).predict([faster("relu", 0.5)], [1])
    assert prediction.expected_ns == job(buffered(2000)).path.run_ns


def test_one_rank_alone_says_what_its_gain_rests_on() -> None:
    trace = TimelineResult(steps([50, 80, 400], [300, 200, 310])[0])
    prediction = trace.what_if(faster_python(2), faster("gemm", 2))
    assert prediction.prediction.alone_ns > prediction.prediction.high_ns
    assert "if the other ranks gain as much; else up to" in prediction.sentence
    assert "only the records of all ranks show who was late" in trace.what_if(on_time()).sentence
    alone = Builder()
    alone.op(10, 500, launch=5, name="gemm")
    assert TimelineResult(alone.trace()).what_if(faster("gemm", 2)).prediction.alone_ns is None


def test_the_result_has_the_path_the_prediction_and_its_check() -> None:
    before = RanksResult.of([TimelineResult(trace) for trace in steps([50, 80, 400], [300, 200, 310])])
    after = RanksResult.of([TimelineResult(trace) for trace in steps([50, 80, 400], [300, 200, 155])])
    prediction = before.what_if(faster("gemm", 2), ranks=2)
    assert "critical path: matrix kernels on rank 2 39 %, Python on rank 2" in before.text(details=True).replace(
        "\u00a0", " "
    )
    assert before.critical_path()[0].rank == 2
    assert prediction.path[0].rank == 2
    assert "recorded" in prediction.text()
    assert "<img" in prediction.html()
    check = prediction.check(after)
    assert check.within
    assert check.error_frac == 0
    assert prediction.prediction.expected_ns == after.what_if(faster("gemm", 1)).prediction.recorded_ns
    assert np.array_equal(before.doc.path_lane.start_ns[1:], before.doc.path_lane.end_ns[:-1])
    assert "path" in {column["table"] for column in before.wire.header["columns"]}
    assert [share["name"] for share in before.wire.header["path"]] == [share.name for share in before.doc.path]


def failed(trace: Trace) -> Trace:
    return replace(trace, meta=replace(trace.meta, failed="ValueError: no"))


def test_ranks_of_which_one_failed_have_no_critical_path() -> None:
    traces = steps([50, 80, 400], [300, 200, 310])
    result = RanksResult.of([TimelineResult(trace) for trace in (*traces[:2], failed(traces[2]))])
    assert "critical path" not in result.text(details=True)
    assert (result.doc.path, result.doc.path_lane) == ((), None)
    assert not result.wire.header["path"]


def test_a_cell_that_failed_has_no_critical_path_unless_asked() -> None:
    whole = steps([50, 80, 400], [300, 200, 310])[0]
    assert all("critical path" in words for words in views_of(TimelineResult(whole)))
    cut = TimelineResult(failed(whole))
    assert not any("critical path" in words for words in views_of(cut))
    assert (cut.doc.path, cut.doc.path_lane) == ((), None)  # what the widget gets
    assert len(cut.critical_path())


def views_of(result: TimelineResult) -> tuple[str, str]:
    return result.text(details=True), timeline_svg(result.doc)


def test_of_some_ranks_of_a_job_it_says_what_its_gain_rests_on() -> None:
    some = steps([50, 80, 400], [300, 200, 310])[1:]
    prediction = predicted(some, faster_python(2))
    assert prediction.if_others
    # each collective ends as it did: only what comes behind the last one may be shorter
    assert prediction.recorded_ns - prediction.alone_ns <= 2 * US
    everyone = predicted(steps([50, 80, 400], [300, 200, 310]), faster_python(2))
    assert everyone.alone_ns is None
