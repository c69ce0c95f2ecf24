"""Findings form a tree by time: no instant is told twice by findings that stand beside each other."""

import re

import pytest
from hypothesis import given, settings

from perfmagic.analysis.findings.facts import Facts
from perfmagic.analysis.findings.find import findings
from perfmagic.analysis.findings.finding import Finding
from perfmagic.analysis.findings.verdict import verdict_of
from perfmagic.analysis.ranks.rank_summary import rank_summary
from perfmagic.analysis.ranks.totals import TOTALS
from perfmagic.analysis.report import report
from perfmagic.analysis.verdict import HOST_BOUND, NO_VERDICT
from perfmagic.base.numerics.intervals import intersect, merge, subtract, total_ns
from perfmagic.base.units import duration
from perfmagic.trace.kineto.reader import read_trace
from perfmagic.trace.model import Trace
from tests.analysis.build import US, queued
from tests.analysis.findings.build import plain
from tests.analysis.timeline.test_pauses import traces
from tests.trace.recorded import ALL, real


def siblings(found: tuple[Finding, ...]) -> list[tuple[Finding | None, list[Finding]]]:
    """Each finding that has parts with them, and None with those of depth 0."""
    rows: list[tuple[Finding | None, list[Finding]]] = [(None, [])]
    path: list[list[Finding]] = [rows[0][1]]
    for i, finding in enumerate(found):
        assert finding.depth <= (found[i - 1].depth + 1 if i else 0)
        del path[finding.depth + 1 :]
        path[finding.depth].append(finding)
        rows.append((finding, []))
        path.append(rows[-1][1])
    return [(parent, parts) for parent, parts in rows if parts]


def check_tree(trace: Trace) -> None:
    facts, found = Facts(trace), findings(trace)
    for parent, parts in siblings(found):
        for i, one in enumerate(parts):
            assert one.cost_ns is None or 0 <= one.cost_ns <= max(total_ns(one.where), 0), one
            for other in parts[:i]:
                assert not total_ns(intersect(one.where, other.where)), (one, other)
            if parent is not None and one.cost_ns:
                assert not total_ns(subtract(one.where, parent.where)), (one, parent)
        if parent is not None and parent.cost_ns:
            assert sum(one.cost_ns or 0 for one in parts) <= parent.cost_ns, parent
    if not len(trace.ops):
        return
    time, sets = facts.cell_time, facts.breakdown.intervals
    recoverable = merge(time.not_busy, sets["busy"])
    top = [f for f in found if f.depth == 0 and f.cost_ns]
    assert sum(f.cost_ns for f in top if f.cost_ns) <= total_ns(merge(*(f.where for f in top))) <= total_ns(recoverable)
    idle = [f for f in top if not f.rule.startswith("exposed")]
    assert sum(f.cost_ns for f in idle if f.cost_ns) <= total_ns(time.not_busy)
    check_one_number(facts, found)


def check_one_number(facts: Facts, found: tuple[Finding, ...]) -> None:
    """How long the device waited for Python: the same in the verdict, its finding, the table, and between ranks."""
    judged = verdict_of(facts)
    if judged.kind == NO_VERDICT:
        return
    waited_ns = facts.cell_time.waited_for_host_ns
    costs = {f.rule: f.cost_ns for f in found if f.rule in ("waited_for_host", "verdict")}
    if judged.kind == HOST_BOUND:
        assert judged.cost_ns == costs["verdict"] == waited_ns
    if "waited_for_host" in costs:
        assert costs["waited_for_host"] == waited_ns
    told = [re.search(r"waited ([\d.]+ \S+) for Python", plain(f.sentence)) for f in found]
    said = {m[1] for m, f in zip(told, found, strict=True) if m and f.rule in ("waited_for_host", "verdict")}
    assert said <= {plain(duration(waited_ns))}
    (of_ranks,) = (total.value for total in TOTALS if total.rule == "rank_idle")
    rank = rank_summary(facts.trace)
    if rank.start.since_ns <= facts.trace.ops.start_ns.min():  # of ranks only what follows start-up counts
        assert of_ranks(rank.totals) == waited_ns
    if facts.trace.meta.returned_ns is None:  # a cell waits before its first op, too
        gaps = facts.gaps
        assert int(gaps.for_python_ns.sum()) == waited_ns
        by_cause = report(facts.trace)["devices"][str(facts.device)]["idle"]["by_cause_ns"]
        assert by_cause["in_python"] + by_cause["in_call"] == waited_ns
        assert by_cause == facts.cell_time.waited_ns


@pytest.mark.slow
@given(traces())
@settings(deadline=None, max_examples=100)
def test_findings_beside_each_other_share_no_time_and_parts_lie_within(trace: Trace) -> None:
    check_tree(trace)


@pytest.mark.slow
@pytest.mark.parametrize("name", ALL)
def test_findings_of_recorded_traces_tell_no_instant_twice(name: str) -> None:
    check_tree(read_trace(real(name)))


def test_parts_follow_the_finding_they_are_part_of_and_the_dearest_comes_first() -> None:
    b = queued((10, 110, 2))
    b.launch(120, 320, name="cudaMalloc")
    b.op(340, 350, launch=330)
    b.host_op(360, 800, "enumerate(DataLoader)#_SingleProcessDataLoaderIter.__next__")
    b.op(900, 1000, launch=890)
    tree = [(f.depth, f.rule, f.cost_ns) for f in findings(b.trace())]
    assert tree[:3] == [(0, "verdict", 770 * US), (1, "data_loading", 440 * US), (1, "in_call", 200 * US)]
    assert {depth for depth, *_ in tree[3:]} <= {0}


def test_a_wait_that_cost_nothing_comes_last() -> None:
    b = queued((10, 900, 2))
    b.op(10, 480, launch=3, stream=8)
    b.sync(20, 490)
    b.op(902, 1300, launch=590)
    found = findings(b.trace())
    assert (found[-1].rule, found[-1].cost_ns) == ("sync", 0)
    assert found[-1].gain_ns is not None
    assert not found[-1].gain_text  # "no time lost" says it
