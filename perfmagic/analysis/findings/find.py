"""Which findings a trace has, as a tree by time. Each rule's sentence is worded in the file named after it."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace

from perfmagic.analysis.findings.alone import began_late, start_up, went_on_alone
from perfmagic.analysis.findings.clocks import clocks
from perfmagic.analysis.findings.communication import communication
from perfmagic.analysis.findings.data_loading import data_loading
from perfmagic.analysis.findings.device_time import device_time
from perfmagic.analysis.findings.eager_attention import eager_attention
from perfmagic.analysis.findings.exposed import exposed_communication, exposed_copy
from perfmagic.analysis.findings.facts import Facts
from perfmagic.analysis.findings.finding import Finding
from perfmagic.analysis.findings.gains import Gains
from perfmagic.analysis.findings.graph_launch import graph_launch
from perfmagic.analysis.findings.in_call import in_call
from perfmagic.analysis.findings.incomplete import incomplete
from perfmagic.analysis.findings.longest_gap import LONG_GAP_FRAC, longest_gap
from perfmagic.analysis.findings.low_occupancy import low_occupancy
from perfmagic.analysis.findings.one_by_one import one_by_one
from perfmagic.analysis.findings.pageable import pageable, slower_copies
from perfmagic.analysis.findings.queue_full import queue_full
from perfmagic.analysis.findings.race import race
from perfmagic.analysis.findings.repeated_gap import repeated_gap, repeated_gap_queued
from perfmagic.analysis.findings.step import step
from perfmagic.analysis.findings.streams import streams
from perfmagic.analysis.findings.sync import sync
from perfmagic.analysis.findings.tensor_cores import tensor_cores
from perfmagic.analysis.findings.tiny_kernels import tiny_kernels
from perfmagic.analysis.findings.unaligned_gemm import unaligned_gemm
from perfmagic.analysis.findings.verdict import claimed_by_verdict, verdict_of
from perfmagic.analysis.findings.waited_for_host import waited_for_host
from perfmagic.analysis.findings.zero_grad import zero_grad
from perfmagic.analysis.timeline.graph_record import incomplete_graphs
from perfmagic.analysis.verdict import DEVICE_BOUND, HOST_BOUND, HOST_TAIL, NO_VERDICT, Verdict
from perfmagic.numerics.intervals import Intervals, intersect, merge, overlap_ns, subtract, total_ns
from perfmagic.trace.model import Trace

__all__ = ["Finding", "findings"]

# A rule that explains time is given the time that no rule before it has explained, and says which part of it it claims.
Claim = Callable[[Facts, Intervals], list[Finding]]
Rule = Callable[[Facts], list[Finding]]

FOR_HOST: tuple[Claim, ...] = (data_loading, in_call, began_late, zero_grad, one_by_one, repeated_gap)
IDLE: tuple[Claim, ...] = (pageable, sync, repeated_gap_queued, went_on_alone)
EXPOSED: tuple[Claim, ...] = (exposed_communication, exposed_copy)
BUSY: tuple[Rule, ...] = (unaligned_gemm, eager_attention, tensor_cores, low_occupancy, tiny_kernels)
WITHOUT_TIME: tuple[Rule, ...] = (start_up, step, streams, graph_launch, communication)
WITHOUT_DURATIONS: tuple[Rule, ...] = (race, queue_full, clocks, incomplete)  # true whatever the ops lasted
MOSTLY = 0.9  # of the longest gap: a finding that explains so much of it has it as its part


@dataclass(frozen=True)
class _Node:
    """A finding and its parts."""

    finding: Finding
    parts: tuple[_Node, ...] = ()

    def findings(self) -> Iterable[Finding]:
        yield self.finding
        for part in self.parts:
            yield from part.findings()

    def flat(self, gains: Gains, depth: int = 0) -> Iterable[Finding]:
        yield replace(gains.told(self.finding), depth=depth)
        for part in self.parts:
            yield from part.flat(gains, depth + 1)


def findings(trace: Trace, comm_names: str | None = None) -> tuple[Finding, ...]:
    """What is worth knowing about a trace: waits that are missing, the verdict, then what time was lost to, by cost.

    Each finding is followed by its parts, one `depth` below it: their time lies within its own. Findings beside each
    other share no time, so that their costs add up to what could be won at most.
    comm_names: as in perfmagic.trace.names.op_classes. Empty only where there is neither a device op nor a host
    operator.
    """
    facts = Facts(trace, comm_names)
    gains = Gains(facts)
    if not len(trace.ops):
        return (_verdict(facts, verdict_of(facts)),) if trace.has_host_rows else ()
    judged = verdict_of(facts)
    untimed = [_Node(finding) for rule in WITHOUT_DURATIONS for finding in rule(facts)]
    if judged.kind == NO_VERDICT:
        # where ops of graphs are missing, those that are recorded took their time all the same
        told = [*_busy_nodes(facts, gains), *untimed] if incomplete_graphs(trace) else untimed
        return _flat([*_by_worth(told, gains)], _Node(_verdict(facts, judged)), gains)
    head, idle = _idle_tree(facts, judged, gains)
    head = replace(head, finding=replace(head.finding, mended=gains.against(judged.kind)))
    sets = facts.breakdown.intervals
    exposed, _ = _claimed(facts, EXPOSED, merge(sets["exposed_communication"], sets["exposed_copy"]))
    exposed_nodes = [_Node(f, _parts_of_exposed(facts, f)) for f in exposed]
    beside = [_Node(finding) for rule in WITHOUT_TIME for finding in rule(facts)]
    busy = _busy_nodes(facts, gains)
    rest = _by_worth([*idle, *exposed_nodes, *beside, *untimed], gains)
    # what an idle device waited for does not decide where it was busy all the time
    ordered = [*busy, *rest] if judged.kind == DEVICE_BOUND else _by_worth([*busy, *rest], gains)
    return _flat(ordered, head, gains)


def _busy_nodes(facts: Facts, gains: Gains) -> list[_Node]:
    """Where a busy device's time went, with what makes it slow as its parts; only these where it is not told."""
    slow = _by_worth([_Node(finding) for rule in BUSY for finding in rule(facts)], gains)
    return [_Node(finding, tuple(slow)) for finding in device_time(facts)] or slow


def _parts_of_exposed(facts: Facts, exposed: Finding) -> tuple[_Node, ...]:
    """What pageable memory costs of the time of exposed copies."""
    if exposed.rule != "exposed_copy":
        return ()
    return tuple(_Node(finding) for finding in slower_copies(facts, exposed.where))


def _flat(nodes: Sequence[_Node], verdict: _Node, gains: Gains) -> tuple[Finding, ...]:
    """The verdict first, but for results that are wrong: these are dearer than any time. All together come last."""
    wrong = [node for node in nodes if node.finding.is_wrong]
    others = [node for node in nodes if not node.finding.is_wrong]
    found = [finding for node in (*wrong, verdict, *others) for finding in node.flat(gains)]
    plain = [one for node in (verdict, *others) for one in node.findings()]
    return (*found, *gains.together(plain))


def _by_worth(nodes: Sequence[_Node], gains: Gains) -> list[_Node]:
    """What gains most first, by its cost where no gain is known; then what has neither, and what wins nothing last."""

    def place(node: _Node) -> tuple[bool, int, int]:
        worth_ns = gains.worth_ns(node.finding)
        return worth_ns == 0, -(worth_ns or 0), node.finding.start_ns

    return sorted(nodes, key=place)


def _idle_tree(facts: Facts, judged: Verdict, gains: Gains) -> tuple[_Node, list[_Node]]:
    """The verdict with what is part of its time, and what else an idle device waited for."""
    time, verdict = facts.cell_time, _verdict(facts, judged)
    for_host, host_free = _claimed(facts, FOR_HOST, time.waited_for_host)
    not_for_host = subtract(time.not_busy, time.waited_for_host)
    if judged.kind == HOST_TAIL:  # all of the tail is told by the verdict
        not_for_host = subtract(not_for_host, verdict.where)
    rest, rest_free = _claimed(facts, IDLE, not_for_host)
    host_nodes, rest_nodes = [_Node(f) for f in for_host], [_Node(f) for f in rest]
    for gap in longest_gap(facts):
        if 2 * overlap_ns(gap.where, time.waited_for_host) >= total_ns(gap.where):
            host_nodes = _placed(gap, time.waited_for_host, host_nodes, host_free)
        else:
            rest_nodes = _placed(gap, not_for_host, rest_nodes, rest_free)
    host_nodes = _by_worth(host_nodes, gains)
    if judged.kind == HOST_BOUND:
        return _Node(verdict, tuple(host_nodes)), rest_nodes
    nodes = rest_nodes
    if host_nodes or time.waited_for_host_ns >= max(1, LONG_GAP_FRAC * facts.window_ns):
        nodes = [_Node(waited_for_host(facts, time.waited_for_host), tuple(host_nodes)), *rest_nodes]
    if len(verdict.where) and judged.kind != HOST_TAIL:
        return _Node(verdict, tuple(_by_worth(nodes, gains))), []
    return _Node(verdict), nodes


def _claimed(facts: Facts, rules: Iterable[Claim], free: Intervals) -> tuple[list[Finding], Intervals]:
    """What some rules say about some time, each about what the ones before left, and what none of them explains."""
    found = []
    for rule in rules:
        for finding in rule(facts, free):
            found.append(finding)
            free = subtract(free, finding.where)
    return found, free


def _placed(gap: Finding, of: Intervals, nodes: list[_Node], free: Intervals) -> list[_Node]:
    """The nodes with the longest gap as a part of the one that explains it, else beside them.

    Left out where it lies in several, and where a finding is about little else.  of: the time that the nodes and
    `free` are parts of; only that part of the gap counts.
    """
    where = intersect(gap.where, of)
    least_ns = MOSTLY * total_ns(where)
    for i, node in enumerate(nodes):
        inside = intersect(where, node.finding.where)
        if total_ns(inside) >= least_ns:
            if total_ns(inside) >= MOSTLY * total_ns(node.finding.where):
                return nodes  # the gap is all that the finding speaks of: it is told once
            cost_ns = min(total_ns(inside), node.finding.cost_ns or 0)  # some of it may be lost whatever one does
            part = _Node(replace(gap, where=inside, cost_ns=cost_ns))
            return [*nodes[:i], _Node(node.finding, (*node.parts, part)), *nodes[i + 1 :]]
    inside = intersect(where, free)
    own = total_ns(inside) >= least_ns
    return [*nodes, _Node(replace(gap, where=inside, cost_ns=total_ns(inside)))] if own else nodes


def _verdict(facts: Facts, judged: Verdict) -> Finding:
    parts, where = facts.breakdown, claimed_by_verdict(facts, judged)
    return Finding(
        rule="verdict",
        cost_ns=judged.cost_ns,
        cause=judged.kind,
        detail=f": {judged.detail}" if judged.detail else "",
        lines=judged.lines,
        start_ns=parts.extent_start_ns,
        end_ns=parts.extent_end_ns,
        device=parts.device,
        where=where,
    )
