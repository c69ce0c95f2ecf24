"""What several ranks of one job say together."""

from dataclasses import replace

import numpy as np

from perfmagic.analysis.ranks.finding import RankFinding
from perfmagic.analysis.ranks.findings import rank_findings
from perfmagic.analysis.ranks.matching import matched_collectives
from perfmagic.analysis.ranks.rank_summary import rank_summary
from perfmagic.analysis.ranks.waits import Matching
from perfmagic.trace.columns import NONE, HostKind
from perfmagic.trace.model import Cell, Collective, Trace
from tests.analysis.build import US, Builder

REDUCE = "ncclDevKernel_AllReduce_Sum_f32_RING_LL"


def rank(
    number: int,
    *,
    compute_us: float = 500,
    host_us: float = 20,
    n: int = 4,
    world_size: int = 2,
    skew_us: float = 0,
    step: int = 0,
    kernel: str = REDUCE,
) -> Trace:
    """n rounds of 1 ms: Python for host_us, a kernel of compute_us, then a collective that ends with the round.

    skew_us: how far this rank's clock is off.
    """
    b = Builder()
    for i in range(n):
        at = 1000 * i + skew_us
        b.host_op(at, at + 990, f"ProfilerStep#{step + i}", kind=HostKind.ANNOTATION)
        b.op(at + host_us, at + host_us + compute_us, launch=at + host_us - 2, name="gemm")
        b.op(at + host_us + compute_us, at + 1000, launch=at + host_us - 1, name=kernel, stream=9)
    return b.trace(rank=number, world_size=world_size)


def matched(traces: dict[int, Trace]) -> Matching:
    return matched_collectives({number: rank_summary(trace) for number, trace in traces.items()})


def late_findings(*traces: Trace) -> list[RankFinding]:
    """The findings but that on exposed communication, which all late ranks give."""
    return [finding for finding in rank_findings(traces) if finding.rule != "rank_exposed"]


def rules(*traces: Trace) -> list[str]:
    return [finding.rule for finding in late_findings(*traces)]


def plain(finding: RankFinding) -> str:
    return finding.sentence.replace("\u00a0", " ")


def test_identical_ranks_have_nothing_to_say() -> None:
    assert rules(rank(0), rank(1)) == []
    assert rules(rank(0), rank(1, skew_us=123_456)) == []


def test_a_rank_that_computes_longer_arrives_last_and_the_others_wait_inside_the_collective() -> None:
    (late,) = late_findings(rank(0), rank(1, compute_us=800, skew_us=-77_000))
    assert (late.rule, late.ranks, late.cost_ns) == ("straggler", (1,), 4 * 300 * US)
    assert plain(late) == (
        "rank 1 takes 1.20 ms more than its peers in gemm in every step: 3.20 ms, and not 2.00 ms. With its peers' "
        "time the job takes 1.20 ms less. The other rank waits 1.20 ms less. Look at gemm on rank 1"
    )


def test_a_rank_with_slow_python_is_distinguished_from_one_that_computes() -> None:
    traces = [rank(i, host_us=320 if i == 2 else 20, world_size=4) for i in range(4)]
    (finding,) = late_findings(*traces)
    assert (finding.rule, finding.ranks, finding.cost_ns) == ("straggler", (2,), 3 * 300 * US)  # but before the record
    assert plain(finding).startswith("rank 2 takes 900 µs more than its peers in Python in steps 1, 2 and 3: 960 µs")
    assert plain(finding).endswith("Look at what Python does there, and at what else runs on its host")


def test_of_ranks_that_one_launcher_started_on_one_clock_the_host_is_no_suspect() -> None:
    def where(first: int, apart: int, *, skew_us: float = 0) -> str:
        ranks = [rank(i, host_us=320 if i == 2 else 20, world_size=4, skew_us=skew_us * i) for i in range(4)]
        threads = (np.full(len(one.calls), first + apart * i) for i, one in enumerate(ranks))
        started = [
            replace(one, calls=replace(one.calls, thread=thread)) for one, thread in zip(ranks, threads, strict=True)
        ]
        return plain(late_findings(*started)[0]).partition("what else runs on its ")[2]

    assert where(4711, 1) == "cores or NUMA node"
    assert where(4711, 7) == "host"
    assert where(4711, 1, skew_us=500) == "host"
    assert where(7, 0) == "host"


def test_where_most_ranks_wait_longer_for_python_than_for_each_other_that_comes_first() -> None:
    slow = [rank(i, host_us=500, compute_us=430 if i == 2 else 400, world_size=4) for i in range(4)]
    first, second = late_findings(*slow)
    assert (first.rule, first.ranks, second.rule) == ("ranks_wait_for_python", (0, 1, 2, 3), "straggler")
    # of its 3.5 ms each device idles 500 µs between two rounds; the launches come 2 µs earlier
    assert first.cost_ns == 3 * 498 * US
    assert plain(first) == (
        "the devices of all 4 ranks waited for Python: each 1.49 ms, 43 % of its extent, and computed for 1.60 ms to "
        "1.72 ms. If all 4 ranks were on time, the median rank would wait 120 µs less for others. Without its exposed "
        "waiting for other ranks an extent is still 3.38 ms to 3.50 ms. Shorten what Python does first: each rank's "
        "own findings say where it waited"
    )
    assert rules(*[rank(i, compute_us=900 if i == 2 else 100, world_size=4, host_us=60) for i in range(4)])[0] == (
        "straggler"
    )
    two_of_four = [
        rank(i, host_us=500 if i < 2 else 20, compute_us=300 if i < 2 else 780, world_size=4) for i in range(4)
    ]
    assert "ranks_wait_for_python" not in rules(*two_of_four)


def test_python_is_blamed_by_a_total_only_where_ranks_do_not_wait_for_each_other() -> None:
    slow = [rank(i, host_us=320 if i == 2 else 20, world_size=4, kernel="scale") for i in range(4)]
    (finding,) = late_findings(*slow)
    assert (finding.rule, finding.ranks, finding.cost_ns) == ("rank_idle", (2,), 3 * 300 * US)


def on_cpu(number: int, slow_us: float, *, on_line: int = 2) -> Trace:
    """Two rounds on the CPU: Python on lines 2 and 3, 10 µs each or slow_us, then gloo, which ends on all at 1000 i."""
    b = Builder()
    for i in range(2):
        at = 1000.0 * i
        for line in (2, 3):
            b.line(at, line)
            at += slow_us if line == on_line else 10
        b.line(at, 4)
        b.host_op(at, 1000 * i + 990, "gloo:all_reduce", thread=9)
    b.line(2000, 0)
    trace = b.trace(devices=(), cell="the same", rank=number, world_size=2)
    return replace(trace, meta=replace(trace.meta, boot="a", monotonic_base_ns=0, returned_ns=2_000_000))


def test_the_line_on_which_a_late_rank_sleeps_is_named() -> None:
    late = late_findings(on_cpu(0, 10), on_cpu(1, 600))[0]
    assert plain(late).startswith(
        "rank 1 takes 1.18 ms more than its peers on line 2 in every round: 1.20 ms, and not 20.0"
    )
    assert plain(late).endswith("Look at line 2 on rank 1")
    assert "line 3" in plain(late_findings(on_cpu(0, 10), on_cpu(1, 600, on_line=3))[0])
    other = replace(on_cpu(1, 600), cell=Cell("another"))
    # of another cell no line is the same: all that each did is compared
    assert late_findings(on_cpu(0, 10), other)[0].cost_ns == 2 * 590 * US


def test_each_of_two_ranks_has_its_own_exposed_communication() -> None:
    (found,) = [f for f in rank_findings([rank(0), rank(1, compute_us=800)]) if f.rule == "rank_exposed"]
    assert ": rank 0 has 1.92 ms of it, 1.20 ms waiting for rank 1, 720 µs moving data. Rank 1 has 720 µs of it, " in (
        plain(found)
    )
    ranks = [rank(i, world_size=4, compute_us=us) for i, us in enumerate((500, 500, 500, 800))]
    (of_four,) = [f for f in rank_findings(ranks) if f.rule == "rank_exposed"]
    assert "a rank has 1.62 ms of it on average, 900 µs waiting for the last rank, 720 µs moving" in plain(of_four)


def test_two_ranks_that_are_late_together_are_one_cause() -> None:
    late = {2: 800, 3: 780}
    traces = [rank(i, compute_us=late.get(i, 500), world_size=4) for i in range(4)]
    straggler = late_findings(*traces)[0]
    assert (straggler.ranks, straggler.cost_ns) == ((2, 3), 4 * 300 * US)  # rank 2 alone wins 80 µs
    assert plain(straggler).startswith("ranks 2 and 3 take 2.32 ms more than their peers in gemm in every step")


def test_a_difference_too_small_to_matter_gives_no_finding() -> None:
    assert rules(rank(0), rank(1, compute_us=519)) == []  # 76 µs of waiting in an extent of 3,980


def test_different_numbers_of_collectives_are_said_with_the_numbers_and_nothing_is_concluded() -> None:
    findings = {f.rule: f for f in rank_findings([rank(0), rank(1, n=3, compute_us=800)])}
    assert findings.keys() == {"unmatched", "other_steps"}
    assert "in stream 9 rank 0 has 4 collectives, rank 1 3. No rank can be called a straggler" in plain(
        findings["unmatched"]
    )
    assert "rank 0 has 4 steps (0, 1, 2, …), rank 1 3 steps (0, 1, 2)" in plain(findings["other_steps"])


def test_as_many_collectives_of_other_kinds_do_not_match() -> None:
    (finding,) = rank_findings([rank(0), rank(1, kernel="ncclDevKernel_AllGather_RING_LL")])
    assert finding.rule == "unmatched"
    assert "number 1 is ncclDevKernel_AllReduce_Sum_f32_RING_LL on rank 0 and" in plain(finding)


def test_totals_of_other_steps_are_not_compared() -> None:
    assert rules(rank(0), rank(1, step=7, compute_us=800)) == ["straggler", "other_steps"]


def test_only_different_ranks_of_one_job_are_compared() -> None:
    slow = rank(1, compute_us=800)
    assert rules(rank(1), slow) == ["mixed_jobs"]
    assert rules(rank(0, world_size=8), slow) == ["mixed_jobs"]
    assert rules(rank(0)) == []
    assert rank_findings([]) == ()


def grouped(number: int, group: str, size: int, ranks: tuple[int, ...] = (), first: int = NONE, *, n: int = 4) -> Trace:
    """n all-reduces of one group. first: the sequence number of the first; NONE: not counted."""
    trace = rank(number, n=n, world_size=4, compute_us=800 if number == 1 else 500)
    comm = [0 if name == REDUCE else -1 for name in (trace.names[i] for i in trace.ops.name)]
    ops = replace(trace.ops, collective=trace.ops.collective + 1 + comm)
    if first != NONE:
        counted = np.where(ops.collective == NONE, NONE, first + np.cumsum(ops.collective != NONE) - 1)
        ops = replace(ops, sequence=counted)
    return replace(trace, ops=ops, collectives=(Collective("allreduce", 10, 10, "Float", size, group, ranks),))


def test_ranks_are_matched_in_the_groups_their_record_names() -> None:
    pairs = {i: grouped(i, "left" if i < 2 else "right", 2) for i in range(4)}
    matching = matched(pairs)
    assert [(group.ranks, group.kinds[0]) for group in matching.groups] == [
        ((0, 1), "all_reduce Float"),
        ((2, 3), "all_reduce Float"),
    ]
    assert matching.groups[0].duration_ns.tolist() == [[480 * US] * 4, [180 * US] * 4]
    shared = matched({i: grouped(i, "tp", 2) for i in range(4)})
    assert shared.groups == ()
    assert shared.refused == ("4 ranks name group tp, which has 2: several groups share the name",)


def test_groups_with_the_same_name_are_distinguished_by_their_ranks() -> None:
    left, right = (0, 1), (2, 3)
    assert matched({0: grouped(0, "tp", 2, left), 2: grouped(2, "tp", 2, right)}).groups == ()
    near = matched({0: grouped(0, "tp", 2, left), 1: grouped(1, "tp", 2, left)})
    assert [(group.ranks, len(group.kinds)) for group in near.groups] == [((0, 1), 4)]
    every = matched({i: grouped(i, "tp", 2, left if i < 2 else right) for i in range(4)})
    assert [group.ranks for group in every.groups] == [(0, 1), (2, 3)]
    assert every.refused == ()
    # without the ranks a file of each is taken for one group, as names are all there is
    assert matched({0: grouped(0, "tp", 2), 2: grouped(2, "tp", 2)}).groups[0].ranks == (0, 2)


def test_of_a_large_group_the_first_ranks_are_known_and_its_other_ranks_are_no_strangers() -> None:
    first = tuple(range(30))
    matching = matched({0: grouped(0, "dp", 64, first), 40: grouped(40, "dp", 64, first)})
    assert [group.ranks for group in matching.groups] == [(0, 40)]
    other = matched({0: grouped(0, "dp", 64, first), 40: grouped(40, "dp", 64, tuple(range(1, 31)))})
    assert other.groups == ()


def test_a_rank_that_is_not_in_the_group_it_names_is_rejected() -> None:
    matching = matched({0: grouped(0, "tp", 2, (0, 1)), 5: grouped(5, "tp", 2, (0, 1))})
    assert matching.groups == ()
    assert matching.refused == ("rank 5 took part in group tp of ranks 0, 1 and is none of them",)


def test_collectives_of_one_number_belong_together_where_the_record_counts_them() -> None:
    shifted = matched({0: grouped(0, "tp", 2, first=7), 1: grouped(1, "tp", 2, first=9)})
    assert shifted.groups[0].duration_ns.tolist() == [[480 * US] * 2, [180 * US] * 2]
    longer = matched({0: grouped(0, "tp", 2, first=7, n=6), 1: grouped(1, "tp", 2, first=7)})
    assert (longer.n, longer.refused) == (4, ())
    apart = matched({0: grouped(0, "tp", 2, first=7), 1: grouped(1, "tp", 2, first=11)})
    assert apart.groups == ()
    assert apart.refused == ("in group tp no collective has the same number on all ranks",)
    # some without a number: by order, which needs as many on each rank
    mixed = matched({0: grouped(0, "tp", 2, first=7, n=6), 1: grouped(1, "tp", 2)})
    assert mixed.refused == ("in group tp rank 0 has 6 collectives, rank 1 4",)


def test_point_to_point_kernels_are_not_matched() -> None:
    traces = [rank(0, kernel="ncclDevKernel_SendRecv"), rank(1, kernel="ncclDevKernel_SendRecv", compute_us=510)]
    assert matched(dict(enumerate(traces))).n == 0
    assert rank_findings(traces) == ()
