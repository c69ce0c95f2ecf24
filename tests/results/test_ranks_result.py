"""What a result of several ranks gives: meetings, messages, one frame, files that give it back."""

import json
from collections import Counter
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from perfmagic.analysis.ranks.alignment import Ping
from perfmagic.api.opening import open_traces
from perfmagic.base.errors import OptionError
from perfmagic.results import RanksResult, TimelineResult
from perfmagic.results.ranks import grouped
from perfmagic.trace.columns import HostKind
from perfmagic.trace.model import Collective, DeviceInfo, Trace
from perfmagic.view.ranks.doc import HEAD, rank_table
from tests.analysis.build import US, Builder
from tests.analysis.ranks.raw import collectives, durations
from tests.analysis.ranks.test_ranks import rank
from tests.trace.recorded import eight_ranks

pytestmark = pytest.mark.slow

FOLDER = eight_ranks()


def result_of(*traces: Trace) -> RanksResult:
    (found,), alone = grouped([TimelineResult(trace, title=f"rank{trace.meta.rank}") for trace in traces])
    assert not alone
    return found


def on_one_host(trace: Trace) -> Trace:
    return replace(trace, meta=replace(trace.meta, boot="a", monotonic_base_ns=0))


@pytest.fixture(scope="module")
def eight() -> RanksResult:
    return open_traces(FOLDER).ranks


def test_meetings_of_recorded_ranks_say_what_the_files_say(eight: RanksResult) -> None:
    kernels = collectives()
    first = min(e["ts"] for mine in kernels.values() for e in mine)
    seen = sorted(eight.meetings(), key=lambda m: m.number)
    assert [m.kind for m in seen] == ["all_to_all"] * 4 + ["all_reduce", "all_to_all", "all_reduce", "all_reduce"]
    began = seen[0].start_ns[seen[0].ranks.index(1)]  # rank 1 is the first of all to come
    for i, m in enumerate(seen):
        took = durations()[i]
        last = min(took, key=lambda r: took[r])
        ends = [mine[i]["ts"] + mine[i]["dur"] for mine in kernels.values()]
        assert (m.ranks, m.last) == (tuple(range(8)), last)
        assert m.waiting_ns == tuple((took[r] - took[last]) * US for r in range(8))
        assert set(m.transfer_ns) == {took[last] * US}
        assert m.met_ns - began == (kernels[last][i]["ts"] - first) * US
        assert (m.bound_ns, m.waited_ns) == ((max(ends) - min(ends)) * US, max(m.waiting_ns))


def test_one_frame_has_the_ops_of_all_ranks_on_one_axis(eight: RanksResult) -> None:
    frame = eight.to_frame()
    assert len(frame) == sum(len(one.trace.ops) for one in eight.timelines)
    assert sorted(frame["rank"].unique()) == list(range(8))
    of_nccl = frame[frame["name"].str.contains("nccl")]
    ends = of_nccl.groupby("rank")["end_ns"].max()
    assert ends.max() - ends.min() <= 7 * US


def test_a_rank_is_a_timeline_and_one_that_is_not_there_is_named(eight: RanksResult) -> None:
    assert eight.rank(5) is eight.timelines[5]
    with pytest.raises(OptionError, match="rank 9 is not here"):
        eight.rank(9)


def test_chrome_json_keeps_what_a_rank_s_host_says(tmp_path: Path) -> None:
    trace = on_one_host(rank(0))
    trace = replace(trace, meta=replace(trace.meta, waited_for_core_ns=7, cores=3))
    TimelineResult(trace).save(tmp_path / "rank0.json")
    TimelineResult(on_one_host(rank(1))).save(tmp_path / "rank1.json")
    again = open_traces(tmp_path)
    meta = again[0].trace.meta
    assert (meta.boot, meta.monotonic_base_ns, meta.waited_for_core_ns, meta.cores) == ("a", 0, 7, 3)
    assert again.ranks.clocks.how == "one host"


def test_one_file_for_perfetto_has_a_process_a_rank_and_an_arrow_a_wait(tmp_path: Path) -> None:
    found = result_of(*(rank(i, compute_us=800 if i == 1 else 300, skew_us=-77_000 * i) for i in range(2)))
    data = json.loads(found.save(tmp_path / "all.json").read_text())
    events = data["traceEvents"]
    names = {e["args"]["name"] for e in events if e["name"] == "process_name"}
    assert names == {"rank 0: Python", "rank 0: Test GPU", "rank 1: Python", "rank 1: Test GPU"}
    ends = [e["ts"] + e["dur"] for e in events if e["ph"] == "X" and "nccl" in e["name"]]
    assert Counter(ends) == {1000.0: 2, 2000.0: 2, 3000.0: 2, 4000.0: 2}  # on one axis, though recorded 77 ms apart
    flows = [e for e in events if e.get("cat") == "ranks"]
    assert [e["ph"] for e in flows] == ["s", "f"] * 4  # from rank 1, which comes last, to rank 0
    assert {e["pid"] for e in flows if e["ph"] == "s"} == {10_001}
    ids = Counter((e["ph"], e["cat"], str(e["id"])) for e in events if e["ph"] in "sf")
    assert max(ids.values()) == 1


def ring(number: int) -> Trace:
    """Three ranks pass one message around: rank r sends to r + 1 at 100 (r + 1) µs, and asks for its own at 10 r."""
    b = Builder()
    before, after = (number - 1) % 3, (number + 1) % 3
    b.host_op(0, 3, f"nccl:recv {number}<-{before}")
    b.op(10 * number + 5, 100 * (before + 1) + 50, launch=1, name="ncclDevKernel_SendRecv")
    b.host_op(4, 8, f"nccl:send {number}->{after}")
    b.op(100 * (number + 1), 100 * (number + 1) + 50, launch=5, name="ncclDevKernel_SendRecv", stream=8)
    b.op(400, 410, launch=380, name="gemm")
    return on_one_host(b.trace(rank=number, world_size=3))


def test_sends_meet_their_receives() -> None:
    found = result_of(*map(ring, range(3)))
    seen = [
        (m.source, m.target, m.met_ns, m.arrived_ns, m.sender_waited_ns, m.receiver_waited_ns) for m in found.messages()
    ]
    # rank 0's receive at 5 µs; rank 1's at 15, rank 2's at 25; the axis begins with the first record at 0
    assert seen == [
        (0, 1, 100 * US, 150 * US, 0, 85 * US),
        (1, 2, 200 * US, 250 * US, 0, 175 * US),
        (2, 0, 300 * US, 350 * US, 0, 295 * US),
    ]
    rows = {row.rank: row for row in found.table}
    # rank 1 waits 85 µs to receive, of which its own send at 200 hides nothing, and moves 50 + 50
    assert (rows[1].exposed_waiting_ns, rows[1].exposed_transfer_ns) == (85 * US, 100 * US)
    # rank 0 sends from 100 to 150 while it waits from 5 to 300 to receive: data move, so that is transfer
    assert (rows[0].exposed_waiting_ns, rows[0].exposed_transfer_ns) == ((295 - 50) * US, 100 * US)
    assert (rows[0].waiting_ns, rows[0].transfer_ns) == (245 * US, 100 * US)  # no instant counts twice


def test_messages_in_a_group_of_some_ranks_are_those_of_the_ranks_themselves() -> None:
    """As the simulated device records them: the op names places of the group, the collective the ranks of it."""
    traces = []
    for place, number in enumerate((2, 5)):
        b = Builder()
        name = "send 0->1" if place == 0 else "recv 1<-0"
        b.op(100 + 50 * place, 300, launch=90, name=name)
        b.op(310, 320, launch=91, name="gemm")
        trace = on_one_host(b.trace(rank=number, world_size=8))
        group = Collective(name.split(maxsplit=1)[0], group_size=2, group="pair", ranks=(2, 5))
        of_op = np.where(trace.ops.name == trace.names.index(name), 0, -1).astype(np.int32)
        traces.append(replace(trace, collectives=(group,), ops=replace(trace.ops, collective=of_op)))
    (message,) = result_of(*traces).messages()
    assert (message.source, message.target, message.sender_waited_ns) == (2, 5, 50 * US)


def gloo(number: int, came_us: float) -> Trace:
    """What torch.profiler records of two all-reduces on gloo's threads: the second waits from came_us to 900 µs."""
    b = Builder()
    b.host_op(0, 300, "aten::mm", thread=1)
    b.host_op(10, 200, "aten::inner", thread=1)
    b.host_op(300, 310, "c10d::allreduce_", thread=1)
    b.host_op(100, 400, "gloo:all_reduce", thread=50, kind=HostKind.ANNOTATION)
    b.host_op(came_us, 1000, "gloo:all_reduce", thread=51, kind=HostKind.ANNOTATION)
    return on_one_host(b.trace(rank=number, world_size=2, devices=()))


def test_gloo_on_its_own_threads_is_the_communication_of_a_rank_on_the_cpu() -> None:
    found = result_of(gloo(0, 500), gloo(1, 900))
    meetings = found.meetings()
    assert [(m.kind, m.met_ns, m.last) for m in meetings] == [
        ("all_reduce", 100 * US, None),  # both came at one instant
        ("all_reduce", 900 * US, 1),
    ]
    assert meetings[1].waiting_ns == (400 * US, 0)
    assert found.table[0].waiting_bound_ns == 0
    row = found.table[0]
    assert row.compute_ns == 300 * US  # the inner operator counts once, and asking for a collective is none
    assert (row.communication_ns, row.exposed_communication_ns) == (800 * US, 600 * US)
    assert row.exposed_waiting_ns == 400 * US
    assert found.doc.device_label == "CPU"
    assert not len(found.timelines[0].trace.ops)  # the timeline of the rank itself stays what was recorded


def test_pings_give_the_axis_of_two_hosts_its_bound() -> None:
    traces = [rank(0), rank(1, compute_us=800)]
    traces = [replace(t, meta=replace(t.meta, boot=f"host {i}", monotonic_base_ns=0)) for i, t in enumerate(traces)]
    found = result_of(*traces)
    assert found.clocks.how == "causality"
    known = found.aligned_by([Ping(0, 1, asked_ns=0, answered_ns=20 * US, back_ns=40 * US)])
    assert (known.clocks.how, known.clocks.bound_ns) == ("pings", 20 * US)
    assert [m.bound_ns for m in known.meetings()] == [20 * US] * 4
    assert found.clocks.how == "causality"


def of_cpu(number: int, kind: str, *rows: str) -> Trace:
    """The record of a rank without device ops, whose host has rows of 100 µs each."""
    b = Builder()
    for i, name in enumerate(rows):
        b.host_op(100 * i, 100 * i + 90, name)
    trace = on_one_host(b.trace(rank=number, world_size=2))
    devices = (DeviceInfo(0, kind, kind),) if kind else ()
    return replace(trace, meta=replace(trace.meta, devices=devices))


def test_ranks_that_only_print_are_a_result_that_says_so_and_has_no_picture() -> None:
    found = RanksResult.of([TimelineResult(of_cpu(i, "sim")) for i in (1, 0)])
    assert [row.rank for row in found.table] == [0, 1]
    assert list(found.findings) == []
    assert found.text() == found.nothing
    assert found.nothing == (
        "nothing ran on the simulated device of any of the 2 ranks: there is no picture; --device cpu records what the "
        "CPU did"
    )
    assert "<img" not in found.html()
    assert found.nothing in found.html()
    assert RanksResult.of([TimelineResult(of_cpu(0, ""))]).nothing == (
        "nothing between ranks, and no operator, ran in the rank: there is no picture"
    )


def test_ranks_on_a_cpu_that_do_not_communicate_are_on_one_axis_too() -> None:
    found = RanksResult.of([TimelineResult(of_cpu(i, "", "aten::mm", "aten::add")) for i in range(2)])
    assert [row.compute_ns for row in found.table] == [180 * US] * 2
    assert (found.nothing, found.rank(1).trace.meta.rank) == ("", 1)


def test_one_rank_alone_is_a_result_of_ranks() -> None:
    found = RanksResult.of([TimelineResult(rank(0, world_size=1), title="rank 0")])
    assert ([row.compute_ns for row in found.table], found.title) == ([4 * 500 * US], "rank 0")
    assert "1 rank" in found.text()
    with pytest.raises(OptionError, match="timelines of ranks"):
        RanksResult.of([])


def test_ranks_with_a_device_that_communicate_on_the_cpu_are_told_that_their_compute_is_not_recorded() -> None:
    found = RanksResult.of([TimelineResult(of_cpu(i, "sim", "gloo:all_reduce")) for i in range(2)])
    assert [f.rule for f in found.findings] == ["device_left_alone"]
    assert found.findings[0].cause == "nothing ran on the simulated device"
    compute, communication = (
        [row[name] for row in rank_table(found.doc).rows] for name in map(HEAD.index, ("compute", "exposed comm."))
    )
    assert (compute, communication) == (["", ""], ["90.0\u00a0µs"] * 2)
    recorded = RanksResult.of([TimelineResult(of_cpu(i, "sim", "gloo:all_reduce", "aten::mm")) for i in range(2)])
    assert "device_left_alone" not in [f.rule for f in recorded.findings]
    assert recorded.table[0].compute_ns == 90 * US


def test_messages_of_which_the_record_names_the_other_rank_alone_are_matched() -> None:
    def with_peers(number: int, *names: str) -> Trace:
        b = Builder()
        for i, _ in enumerate(names):
            b.op(100 * i, 100 * i + 50 + 10 * number, launch=100 * i, name="ncclDevKernel_SendRecv", stream=8)
        known = tuple(Collective(name, group="pp", group_size=2, ranks=(1, 3)) for name in names)
        trace = on_one_host(b.trace(rank=number, world_size=4))
        return replace(trace, ops=replace(trace.ops, collective=np.arange(len(names))), collectives=known)

    found = result_of(with_peers(1, "send to 3", "recv from 3"), with_peers(3, "recv from 1", "send to 1"))
    assert [(m.source, m.target, m.sent_ns, m.arrived_ns) for m in found.messages()] == [
        (1, 3, 0, 80 * US),
        (3, 1, 100 * US, 160 * US),
    ]
    assert len(found.meetings()) == 0


def test_messages_of_torch_s_own_gloo_are_matched_between_two_ranks() -> None:
    found = RanksResult.of([TimelineResult(of_cpu(i, "", f"gloo:{'send' if i else 'recv'}")) for i in range(2)])
    assert [(m.source, m.target) for m in found.messages()] == [(1, 0)]
    of_four = [replace(one.trace, meta=replace(one.trace.meta, world_size=4)) for one in found.timelines]
    assert list(RanksResult.of([TimelineResult(trace) for trace in of_four]).messages()) == []


def test_collectives_of_groups_on_the_cpu_are_told_apart() -> None:
    own = {0: (1, "0, 1"), 1: (1, "0, 1"), 2: (2, "2, 3"), 3: (2, "2, 3")}

    def in_groups(number: int) -> Trace:
        group, ranks = own[number]
        trace = of_cpu(number, "", f"gloo:all_reduce in group {group} of ranks {ranks}", "gloo:all_reduce")
        return replace(trace, meta=replace(trace.meta, world_size=4))

    found = RanksResult.of([TimelineResult(in_groups(i)) for i in range(4)])
    assert sorted((m.group, m.kind, m.ranks) for m in found.meetings()) == [
        ("group gloo", "all_reduce", (0, 1, 2, 3)),
        ("group gloo 1 of ranks 0, 1", "all_reduce", (0, 1)),
        ("group gloo 2 of ranks 2, 3", "all_reduce", (2, 3)),
    ]
