"""The clocks of several ranks: what one host, pings and causality say, and how far the axis may be wrong."""

from collections.abc import Callable
from dataclasses import replace
from itertools import product

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from perfmagic.analysis.ranks.alignment import Ping
from perfmagic.analysis.ranks.findings import findings_of
from perfmagic.analysis.ranks.ranks import Ranks, ranks_of
from perfmagic.trace.kineto.reader import read_trace
from perfmagic.trace.model import Trace
from tests.analysis.build import US, Builder
from tests.analysis.findings.build import plain
from tests.analysis.ranks.raw import PATHS, collectives
from tests.analysis.ranks.test_ranks import rank

BASE = 5_000_000_000
UNIX = 1_700_000_000_000_000_000


def joint(*traces: Trace, pings: tuple[Ping, ...] = ()) -> Ranks:
    return ranks_of(traces, pings=pings)


def on_host(trace: Trace, boot: str, *, unix_off_ns: int = 0, monotonic_off_ns: int = 0) -> Trace:
    """The trace as a host records it whose unix clock is off, and whose monotonic clock began at some time."""
    meta = replace(trace.meta, base_unix_ns=UNIX + unix_off_ns, boot=boot, monotonic_base_ns=BASE + monotonic_off_ns)
    return replace(trace, meta=meta)


def test_ranks_of_one_host_share_a_clock_whatever_their_unix_times_say() -> None:
    """Rank 1 read its unix time 9 ms late; both monotonic clocks are one."""
    alignment = joint(on_host(rank(0), "a"), on_host(rank(1, compute_us=800), "a", unix_off_ns=9_000_000)).alignment
    assert (alignment.how, alignment.bound_ns, alignment.comparable) == ("one host", 0, True)
    assert alignment.offset_ns[0] == alignment.offset_ns[1]
    assert alignment.words == "one clock: one host ran all ranks"


def test_pings_bound_two_hosts_by_half_the_shortest_round_trip() -> None:
    """The true difference of the monotonic clocks is 7 ms; answers took 40 to 60 µs there and 10 to 30 back."""
    pings = tuple(
        Ping(0, 1, asked_ns=k * US, answered_ns=k * US + (40 + k) * US + 7_000_000, back_ns=k * US + (50 + 2 * k) * US)
        for k in range(20)
    )
    traces = (on_host(rank(0), "a"), on_host(rank(1), "b", monotonic_off_ns=7_000_000))
    alignment = joint(*traces, pings=pings).alignment
    assert (alignment.how, alignment.bound_ns) == ("pings", 25 * US)
    assert abs(alignment.offset_ns[1] - alignment.offset_ns[0]) <= 25 * US
    assert plain(alignment.words) == "clocks agree within ±25.0 µs, by pings between the ranks"


def test_two_rounds_of_pings_between_which_clocks_drift_hold_both() -> None:
    """Before the cell the clocks agree, after it rank 1's is 100 µs ahead: any moment lies between."""
    before = Ping(0, 1, asked_ns=0, answered_ns=10 * US, back_ns=20 * US, round=0)
    after = Ping(0, 1, asked_ns=0, answered_ns=110 * US, back_ns=20 * US, round=1)
    alignment = joint(on_host(rank(0), "a"), on_host(rank(1), "b"), pings=(before, after)).alignment
    assert alignment.contradiction is None
    assert alignment.bound_ns == 60 * US


@pytest.mark.parametrize(("late_us", "missed_us"), [(3000, 2980), (-3000, 0), (40, 0)])
def test_pings_that_collectives_contradict_are_said_to_be_and_widen_the_bound(late_us: int, missed_us: int) -> None:
    """Pings say that the clocks agree within 20 µs; by them rank 1 leaves each collective before rank 0 comes."""
    traces = []
    for number, off_us in enumerate((late_us, 0)):
        b = Builder()
        for i in range(3):
            at = 20_000 * i + 5000 + off_us
            b.op(at, at + (1 if late_us > 0 else 4000), launch=at - 5, name="ncclDevKernel_AllReduce")
        traces.append(on_host(b.trace(rank=number, world_size=2), "ab"[number]))
    ping = Ping(0, 1, asked_ns=0, answered_ns=20 * US, back_ns=40 * US)
    alignment = joint(*traces, pings=(ping,)).alignment
    # rank 1 leaves at +1 µs what rank 0 enters at +3,000 µs: its clock is 2,999 µs behind at least, and pings say 20
    assert alignment.missed_ns == (missed_us - 1) * US * (missed_us > 0)
    assert alignment.bound_ns == 20 * US + alignment.missed_ns
    assert ("collectives contradict them by 2.98 ms" in plain(alignment.words)) == (missed_us > 0)


def drifting(gain: float, *, n: int = 15, off_us: Callable[[int], float] = lambda i: 0.0) -> Ranks:
    """Two hosts a second apart in each collective, who comes last in turn; rank 1's clock gains so much."""
    traces = []
    for number, gains in enumerate((0, gain)):
        b = Builder()
        for i in range(n):
            at = 1_000_000 * i
            came, left = at + 10_000 * (number == i % 2), at + 20_000 + number * off_us(i)
            b.op(came + at * gains, left + at * gains, launch=came + at * gains - 5, name="ncclDevKernel_AllReduce")
        traces.append(on_host(b.trace(rank=number, world_size=2), "ab"[number]))
    return joint(*traces)


@pytest.mark.parametrize("gain", [1e-3, 2e-5, -2e-5])
def test_a_clock_that_drifts_evenly_is_corrected_and_so_are_the_waits(gain: float) -> None:
    """1,000 ppm are 14 ms after 14 s; 20 ppm are 280 µs."""
    found = drifting(gain)
    assert found.alignment.drifts[1].rate - found.alignment.drifts[0].rate == pytest.approx(-gain, rel=0.02)
    ends = [abs(met.end_ns[1] - met.end_ns[0]) for met in found.meetings]
    assert max(ends) < 30 * US  # within a collective of 20 ms the clock drifts on
    assert [met.last for met in found.meetings] == [i % 2 for i in range(15)]
    assert all(abs(met.waited_ns - 10_000 * US) < 30 * US for met in found.meetings)
    seconds = "1.00 ms" if gain == 1e-3 else "20.0 µs"
    assert plain(found.alignment.words).endswith(f"after a steady drift of {seconds} per second is removed")
    assert "clocks that do not drift agree within" in found.alignment.words


@pytest.mark.parametrize(
    "off_us", [lambda i: 0.0, lambda i: 300.0 * (i > 7), lambda i: 900.0 * (i % 3), lambda i: 20.0 * (i > 4)]
)
def test_clocks_that_differ_otherwise_are_not_taken_for_a_drift(off_us: Callable[[int], float]) -> None:
    """None, a step, scatter, and what ends of collectives on one host differ by."""
    assert not drifting(0, off_us=off_us).alignment.drifts


def test_rounds_of_pings_that_contradict_each_other_show_a_drift_and_bound_what_is_left() -> None:
    """Rank 1's clock gains 50 ppm: it is 0.5 ms ahead of rank 0's after 10 s, and 1 ms after 20 s."""
    pings = tuple(
        Ping(0, 1, BASE + at, BASE + at + 10 * US + at // 20_000, BASE + at + 20 * US, round=i)
        for i, at in enumerate((0, 10_000_000_000, 20_000_000_000))
    )
    pings = tuple(
        replace(p, asked_ns=p.asked_ns + BASE, answered_ns=p.answered_ns + BASE, back_ns=p.back_ns + BASE)
        for p in pings
    )
    traces = [on_host(rank(number, n=4), "ab"[number]) for number in (0, 1)]
    alignment = joint(*traces, pings=pings).alignment
    assert alignment.drifts[1].rate == pytest.approx(-5e-5, rel=0.01)
    assert alignment.bound_ns == pytest.approx(10 * US, rel=0.02)
    bent = replace(pings[1], answered_ns=pings[1].answered_ns + 300 * US)
    assert joint(*traces, pings=(pings[0], bent, pings[2])).alignment.bound_ns > 150 * US


def test_pings_that_collectives_contradict_yield_to_unix_clocks_that_agree_with_them() -> None:
    """NTP keeps the unix clocks together; the pings are of another boot, 3 ms off."""
    traces = [on_host(rank(number), "ab"[number], monotonic_off_ns=3_000_000 * number) for number in (0, 1)]
    ping = Ping(0, 1, asked_ns=0, answered_ns=20 * US, back_ns=40 * US)
    alignment = joint(*traces, pings=(ping,)).alignment
    assert alignment.how == "causality"
    assert alignment.offset_ns[0] == alignment.offset_ns[1]
    assert "pings are left out: collectives contradict them by 2" in plain(alignment.words)


def test_exchanges_of_one_round_that_cannot_both_be_are_a_contradiction() -> None:
    first = Ping(0, 1, asked_ns=0, answered_ns=10 * US, back_ns=20 * US)
    second = Ping(0, 1, asked_ns=0, answered_ns=510 * US, back_ns=20 * US)
    alignment = joint(on_host(rank(0), "a"), on_host(rank(1), "b"), pings=(first, second)).alignment
    assert alignment.contradiction == ((0, 1), 480 * US)
    assert "clocks of ranks 0 and 1 contradict each other by 480 µs" in plain(alignment.words)
    assert not alignment.comparable


@pytest.mark.slow
@settings(deadline=None, max_examples=60)
@given(
    skews=st.lists(st.integers(-40_000, 40_000), min_size=3, max_size=3),
    came=st.lists(st.lists(st.integers(1, 900), min_size=3, max_size=3), min_size=1, max_size=5),
    left=st.lists(st.lists(st.integers(0, 80), min_size=3, max_size=3), min_size=5, max_size=5),
)
def test_causality_of_collectives_holds_the_true_clocks(
    skews: list[int], came: list[list[int]], left: list[list[int]]
) -> None:
    """Ranks come when they like, and leave up to 80 µs apart, none before the last has come."""
    traces = []
    for number, skew in enumerate(skews):
        b = Builder()
        for i, times in enumerate(came):
            at = 2000 * i + skew
            b.op(at + times[number], at + max(times) + left[i][number] + 1, launch=at, name="ncclDevKernel_AllReduce")
        b.op(20_000 + skew, 20_001 + skew, launch=20_000 + skew)
        traces.append(b.trace(rank=number, world_size=3))
    alignment = joint(*traces).alignment
    assert alignment.how == "causality"
    assert alignment.contradiction is None
    bound = alignment.bound_ns
    for i, j in product(range(3), repeat=2):
        true = (skews[i] - skews[j]) * US
        assert abs(alignment.offset_ns[j] - alignment.offset_ns[i] - true) <= bound


def messages(*, skew_us: float) -> tuple[Trace, Trace]:
    """Rank 0 sends at 10 µs and gets its answer at 90; rank 1 gets at 40 and sends at 60."""
    first, second = Builder(), Builder()
    first.host_op(5, 8, "nccl:send 0->1")
    first.op(10, 30, launch=6, name="ncclDevKernel_SendRecv")
    first.host_op(50, 53, "nccl:recv 0<-1")
    first.op(55, 90, launch=51, name="ncclDevKernel_SendRecv")
    s = skew_us
    second.host_op(s + 1, s + 4, "nccl:recv 1<-0")
    second.op(s + 5, s + 40, launch=s + 2, name="ncclDevKernel_SendRecv")
    second.host_op(s + 52, s + 54, "nccl:send 1->0")
    second.op(s + 60, s + 80, launch=s + 53, name="ncclDevKernel_SendRecv")
    return first.trace(rank=0, world_size=2), second.trace(rank=1, world_size=2)


def test_messages_there_and_back_bound_two_clocks() -> None:
    """Rank 1's clock lies at most 10 - 40 = 30 µs behind, and at most 90 - 60 = 30 µs ahead."""
    alignment = joint(*messages(skew_us=0)).alignment
    assert (alignment.how, alignment.bound_ns) == ("causality", 30 * US)
    far = joint(*messages(skew_us=500)).alignment
    assert far.moved_ns == {1: -500 * US}
    assert plain(far.words) == "clocks that do not drift agree within ±30.0 µs, as no message arrives before it is sent"


@pytest.mark.slow
def test_the_clocks_of_eight_recorded_ranks_are_as_well_known_as_their_files_say() -> None:
    """Straight from the JSON: the least end less start of any two ranks, joined over all others."""
    kernels = {rank: [(e["ts"], e["ts"] + e["dur"]) for e in found] for rank, found in collectives().items()}
    most = [
        [0 if i == j else min(a[1] - b[0] for a, b in zip(kernels[i], kernels[j], strict=True)) for j in range(8)]
        for i in range(8)
    ]
    for k, i, j in product(range(8), repeat=3):
        most[i][j] = min(most[i][j], most[i][k] + most[k][j])
    farthest = max(most[i][j] for i, j in product(range(8), repeat=2))  # the clocks are as recorded
    eight = joint(*(read_trace(path) for path in PATHS)).alignment
    assert (eight.moved_ns, eight.bound_ns) == ({}, farthest * US)
    assert f"clocks that do not drift agree within ±{farthest} µs, as" in plain(eight.words)


def test_waits_shorter_than_the_bound_are_no_findings_and_longer_ones_name_it() -> None:
    """Rank 1 comes 300 µs late to 4 collectives; pings leave ±400 µs, then ±20."""

    def described(trip_us: int) -> list[str]:
        ping = Ping(0, 1, asked_ns=0, answered_ns=trip_us // 2 * US, back_ns=trip_us * US)
        job = joint(on_host(rank(0), "a"), on_host(rank(1, compute_us=800), "b"), pings=(ping,))
        assert job.alignment.bound_ns == trip_us // 2 * US
        assert job.table[0].waiting_bound_ns == 4 * (trip_us // 2) * US
        assert [m.last for m in job.meetings] == ([None] * 4 if trip_us // 2 > 300 else [1] * 4)
        return [plain(f.sentence) for f in findings_of(job) if f.rule == "straggler"]

    assert described(800) == []
    (sentence,) = described(40)
    assert "The other rank waits 1.20 ms less" in sentence


def test_a_wait_for_a_core_that_is_shorter_than_what_others_wait_for_the_late_rank_comes_last() -> None:
    def late(of_rank_1_ns: int, of_rank_0_ns: int) -> list[str]:
        traces = (on_host(rank(i, compute_us=800 if i else 300), "a") for i in range(2))  # rank 0 waits 4 × 500 µs
        ns = {0: of_rank_0_ns, 1: of_rank_1_ns}
        findings = findings_of(
            joint(*(replace(t, meta=replace(t.meta, waited_for_core_ns=ns[t.meta.rank or 0], cores=2)) for t in traces))
        )
        of_cores = [f for f in findings if "core" in f.rule]
        assert all(("look for a cause in the code" in f.sentence) == (f is findings[0]) for f in of_cores)
        return [f.rule for f in findings]

    assert late(1_100_000, 0)[0] == "waited_for_core"
    assert late(900_000, 0)[0] == "straggler"
    assert late(1_900_000, 1_000_000)[0] == "straggler"  # both wait for a core: that makes neither late
    assert late(900_000, 0)[-1] == "waited_for_core"
    assert late(0, 50_000_000)[0] == "straggler"  # it is not late


def test_where_no_rank_is_late_a_wait_for_a_core_comes_first_only_if_it_is_long() -> None:
    def described(frac: float) -> list[str]:
        traces = [on_host(rank(i, compute_us=300), "a") for i in range(2)]
        extent_ns = max(int(t.ops.end_ns.max() - t.ops.start_ns.min()) for t in traces)
        ns = int(frac * extent_ns)
        findings = findings_of(
            joint(*(replace(t, meta=replace(t.meta, waited_for_core_ns=ns, cores=2)) for t in traces))
        )
        return [f.rule for f in findings]

    assert described(0.12)[0] == "waited_for_core"
    assert described(0.08)[-1] == "waited_for_core"
    assert len(described(0.08)) > 1
    assert "waited_for_core" not in described(0.01)


@pytest.mark.parametrize("n_cores", [2, None])
def test_a_rank_that_waited_for_a_core_is_named_before_any_code(n_cores: int | None) -> None:
    def waited(number: int, ns: int) -> Trace:
        trace = on_host(rank(number, compute_us=800 if number == 2 else 300, world_size=4), "a")
        return replace(trace, meta=replace(trace.meta, waited_for_core_ns=ns, cores=n_cores))

    findings = findings_of(joint(*(waited(i, 41_000_000 if i == 2 else 1_000_000 * (i + 1)) for i in range(4))))
    first = plain(findings[0].sentence)
    on_two = "rank 2 waited 41.0 ms for a core, the others 2.00 ms in the median; all threads of a rank added up. "
    assert first.startswith(("4 ranks on 2 cores: " if n_cores else "") + on_two)
    assert first.endswith("before you look for a cause in the code")
    assert [f.rule for f in findings][:2] == ["waited_for_core", "straggler"]
    assert plain(findings[1].sentence).endswith("That it waited for a core may be why")
    assert "its kernels" not in findings[1].sentence
    calm = findings_of(joint(*(waited(i, 1000) for i in range(4))))
    assert "waited_for_core" not in [f.rule for f in calm]


def test_ends_that_lie_further_apart_than_causality_allows_are_not_taken_for_one_instant() -> None:
    """As with gloo: who comes last to an all-reduce leaves it 5 ms after the other, which leaves 20 µs after that."""
    traces = []
    for number in range(2):
        b = Builder()
        for i in range(4):
            at, late = 10_000 * i, number == i % 2
            b.op(at + (100 if late else 70), at + (5120 if late else 120), launch=at, name="ncclDevKernel_AllReduce")
        traces.append(b.trace(rank=number, world_size=2))
    job = joint(*traces)
    assert (job.alignment.comparable, job.alignment.how, job.alignment.bound_ns) == (True, "causality", 20 * US)
    assert (
        plain(job.alignment.words)
        == "clocks that do not drift agree within ±20.0 µs, as no rank leaves a collective before all have entered it"
    )
    assert [(m.last, m.waited_ns, m.bound_ns) for m in job.meetings] == [(i % 2, 30 * US, 20 * US) for i in range(4)]
