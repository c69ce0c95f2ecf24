"""Which findings a trace has: the rules, what each says, and a tree by time."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, partial
from typing import Any, ClassVar

from perfmagic.analysis.findings.communication import communication, exposed_communication, exposed_copy, waits_for_rank
from perfmagic.analysis.findings.device_time import device_time
from perfmagic.analysis.findings.facts import Facts
from perfmagic.analysis.findings.finding import Finding, Outcome, Silent
from perfmagic.analysis.findings.gains import Gains
from perfmagic.analysis.findings.gaps import (
    longest_gap,
    many_gaps,
    repeated_gap,
    repeated_gap_queued,
    waited_for_host,
)
from perfmagic.analysis.findings.kernels import (
    eager_attention,
    low_occupancy,
    tensor_cores,
    tiny_kernels,
    unaligned_gemm,
)
from perfmagic.analysis.findings.launches import data_loading, graph_launch, in_call, one_by_one, queue_full, zero_grad
from perfmagic.analysis.findings.record import (
    began_late,
    clocks,
    incomplete,
    no_model,
    race,
    start_up,
    step,
    streams,
    went_on_alone,
)
from perfmagic.analysis.findings.sync import pageable, repeated_copy, slower_copies, sync
from perfmagic.analysis.findings.verdict import claimed_by_verdict, failed, kind_of, no_verdict, verdict_of
from perfmagic.analysis.timeline.trust import incomplete_graphs
from perfmagic.analysis.verdict import DEVICE_BOUND, HOST_BOUND, HOST_TAIL, Verdict
from perfmagic.base.errors import OptionError
from perfmagic.base.language import chained, phrase, say, translated
from perfmagic.base.numerics.intervals import Intervals, intersect, merge, overlap_ns, subtract, total_ns
from perfmagic.base.options import did_you_mean
from perfmagic.base.tables import html_block
from perfmagic.base.terminal import cut_to_columns, width
from perfmagic.trace.json_form import JsonForm
from perfmagic.trace.model import Trace, in_its_digits, once_per_trace
from perfmagic.trace.rows import Rows

__all__ = ["Finding", "findings"]


# A rule that explains time gets what earlier rules left unexplained, and says which part of that it claims.
TimeRule = Callable[[Facts, Intervals], Outcome]
Rule = Callable[[Facts], Outcome]
# in the order in which they are asked: of the time that the device waited for Python, was idle for other reasons, or
# communicated and copied without computing
FOR_HOST: tuple[TimeRule, ...] = (data_loading, in_call, began_late, zero_grad, one_by_one, repeated_gap, many_gaps)
IDLE: tuple[TimeRule, ...] = (pageable, sync, repeated_gap_queued, went_on_alone)
EXPOSED: tuple[TimeRule, ...] = (exposed_communication, repeated_copy, exposed_copy)
# these read names and grids of kernels, which a prediction for another GPU does not have
BY_RECORDED_KERNELS: tuple[Rule, ...] = (unaligned_gemm, tensor_cores, low_occupancy)
BUSY: tuple[Rule, ...] = (unaligned_gemm, eager_attention, tensor_cores, low_occupancy, tiny_kernels)
WITHOUT_TIME: tuple[Rule, ...] = (start_up, step, streams, graph_launch, communication)
# true however long the ops lasted
WITHOUT_DURATIONS: tuple[Rule, ...] = (race, queue_full, clocks, incomplete, no_model)


class Outcomes:
    """What each rule says about a trace that has device ops, computed when asked for."""

    def __init__(self, facts: Facts) -> None:
        self.facts = facts
        self._known: dict[TimeRule | Rule, Outcome] = {}

    @cached_property
    def judged(self) -> Verdict:
        return verdict_of(self.facts)

    def outcome(self, rule: Rule) -> Outcome:
        """What a rule that claims no time says."""
        if rule not in self._known:
            by_names = rule in BY_RECORDED_KERNELS and not (rule is tensor_cores and self.facts.trace.simulated)
            silent = _other_kernels(self.facts) if by_names else None
            self._known[rule] = rule(self.facts) if silent is None else silent
        return self._known[rule]

    def claimed(self, chain: Sequence[TimeRule]) -> list[Finding]:
        """What the rules of a chain say, each about the time that earlier rules left."""
        return [finding for rule in chain for finding in self.claim(chain, rule)]

    def claim(self, chain: Sequence[TimeRule], rule: TimeRule) -> Outcome:
        """What one rule of a chain says about the time that earlier rules left; later ones are not asked."""
        if rule not in self._known:
            self._known[rule] = rule(self.facts, self.left(chain, chain.index(rule)))
        return self._known[rule]

    def left(self, chain: Sequence[TimeRule], n: int | None = None) -> Intervals:
        """The time of a chain that its first n rules leave unexplained; None: all of its rules."""
        free = self.offered(chain)
        for rule in chain[:n]:
            for finding in self.claim(chain, rule):
                free = subtract(free, finding.where)
        return free

    def offered(self, chain: Sequence[TimeRule]) -> Intervals:
        """The time that a chain is about."""
        if chain is EXPOSED:
            sets = self.facts.breakdown.intervals
            return merge(sets["exposed_communication"], sets["exposed_copy"])
        time = self.facts.cell_time
        if chain is FOR_HOST:
            return time.waited_for_host
        rest = subtract(time.not_busy, time.waited_for_host)
        if len(time.tail) and kind_of(self.facts) == HOST_TAIL:  # the verdict covers the whole tail
            return subtract(rest, time.tail)
        return rest

    def slower_copies(self) -> Outcome:
        """What pageable memory adds to the time of exposed copies."""
        return slower_copies(self.facts, lambda: self.claim(EXPOSED, exposed_copy))

    def lacks(self, chain: Sequence[TimeRule] | Sequence[Rule] = ()) -> Silent | None:
        """Why the rules of a chain are not asked; None if they are. No chain: the rules that need all durations."""
        if not len(self.facts.trace.ops):
            return Silent(phrase("no device op was recorded"))
        if failed(self.facts.trace):
            return Silent(phrase("the code failed before its end, so there is no advice"))
        # where ops of graphs are missing, those that are recorded took their time all the same
        asked = chain is WITHOUT_DURATIONS or (chain is BUSY and incomplete_graphs(self.facts.trace))
        why = "" if asked else no_verdict(self.facts)
        return Silent(phrase("there is no verdict: {why}", why=why)) if why else None


def _other_kernels(facts: Facts) -> Silent | None:
    """That a run is predicted, for a GPU where libraries choose other kernels; None where it was recorded."""
    info = facts.trace.device_info(facts.device)
    if info.predicted is None:
        return None
    if info.simulated:
        return Silent(phrase("a prediction has no names and grids of kernels"))
    return Silent(phrase("kernel names and grids are those of the recorded GPU"))


MOSTLY = 0.9  # of the longest gap: if a finding explains this share of it, the gap becomes its part


@dataclass(frozen=True)
class Node:
    """A finding and its parts."""

    finding: Finding
    parts: tuple[Node, ...] = ()

    def findings(self) -> Iterable[Finding]:
        yield self.finding
        for part in self.parts:
            yield from part.findings()

    def flat(self, gains: Gains, depth: int = 0) -> Iterable[Finding]:
        yield replace(gains.with_gain(self.finding), depth=depth)
        for part in self.parts:
            yield from part.flat(gains, depth + 1)


@in_its_digits
def findings(trace: Trace, comm_names: str | None = None) -> tuple[Finding, ...]:
    """What is worth knowing about a trace: missing waits, the verdict, then what cost time, the costliest first.

    Each finding is followed by its parts, one `depth` below it: their time lies within its own. Findings at one depth
    share no time, so their costs add up to the most that could be saved.
    Code that failed gets no advice: only that it has no verdict.
    comm_names: as in perfmagic.trace.names.op_classes. Empty only where there is neither a device op nor a host
    operator.
    """
    outcomes, gains = known(trace, comm_names)
    if not len(trace.ops):
        return (verdict_finding(outcomes),) if trace.has_host_rows else ()
    if failed(trace):
        return (verdict_finding(outcomes),)
    ordered, head = tree(outcomes, gains)
    return _flat(ordered, head, gains)


@once_per_trace
def known(trace: Trace, comm_names: str | None = None) -> tuple[Outcomes, Gains]:
    """What the rules found, and what each change gains: for both findings and answers."""
    outcomes = Outcomes(Facts(trace, comm_names))
    return outcomes, Gains(outcomes.facts)


@once_per_trace
def tree(outcomes: Outcomes, gains: Gains) -> tuple[list[Node], Node]:
    """What is found beside the verdict, in order, and the verdict, each with its parts."""
    kind = outcomes.judged.kind
    untimed = _nodes(outcomes, WITHOUT_DURATIONS)
    if outcomes.lacks() is not None:
        known = [*_busy_nodes(outcomes, gains), *untimed] if outcomes.lacks(BUSY) is None else untimed
        return _by_worth(known, gains), Node(verdict_finding(outcomes))
    head, idle = _idle_tree(outcomes, gains)
    exposed = [Node(f, _parts_of_exposed(outcomes, f)) for f in outcomes.claimed(EXPOSED)]
    busy = _busy_nodes(outcomes, gains)
    rest = _by_worth([*idle, *exposed, *_nodes(outcomes, WITHOUT_TIME), *untimed], gains)
    # if a device was busy all the time, what it waited for while idle does not matter
    return [*busy, *rest] if kind == DEVICE_BOUND else _by_worth([*busy, *rest], gains), head


def _nodes(outcomes: Outcomes, rules: Iterable[Rule]) -> list[Node]:
    return [Node(finding) for rule in rules for finding in outcomes.outcome(rule)]


def _busy_nodes(outcomes: Outcomes, gains: Gains) -> list[Node]:
    """Where a busy device's time went, with the causes of slowness as its parts; else only these causes."""
    slow = _by_worth(_nodes(outcomes, BUSY), gains)
    return [Node(finding, tuple(slow)) for finding in outcomes.outcome(device_time)] or slow


def _parts_of_exposed(outcomes: Outcomes, exposed: Finding) -> tuple[Node, ...]:
    """Waits for another rank; what pageable memory adds to the time of exposed copies."""
    if exposed.rule == "exposed_communication":
        return tuple(_nodes(outcomes, (waits_for_rank,)))
    return tuple(Node(finding) for finding in outcomes.slower_copies()) if exposed.rule == "exposed_copy" else ()


def _flat(nodes: Sequence[Node], verdict: Node, gains: Gains) -> tuple[Finding, ...]:
    """Wrong results first: these cost more than any time. Then the verdict. All changes together come last."""
    wrong = [node for node in nodes if node.finding.is_wrong]
    others = [node for node in nodes if not node.finding.is_wrong]
    flat = [finding for node in (*wrong, verdict, *others) for finding in node.flat(gains)]
    return (*flat, *together(others, verdict, gains))


def together(nodes: Sequence[Node], verdict: Node, gains: Gains) -> Outcome:
    """What all changes at once would gain."""
    timed = [node for node in nodes if not node.finding.is_wrong]
    return gains.together([finding for node in (verdict, *timed) for finding in node.findings()])


def _by_worth(nodes: Sequence[Node], gains: Gains) -> list[Node]:
    """The largest gain first, or cost if no gain is known; then what has neither; what gains nothing last."""

    def place(node: Node) -> tuple[bool, int, int]:
        worth_ns = gains.worth_ns(node.finding)
        return worth_ns == 0, -(worth_ns or 0), node.finding.start_ns

    return sorted(nodes, key=place)


@dataclass(frozen=True)
class IdleParts:
    """Findings about the time that the device waited for Python, and about its other idle time.

    gap: the longest idle gap, which is a part of one of them, or stands alone.
    """

    for_host: list[Node]
    other: list[Node]
    gap: Outcome


def idle_parts(outcomes: Outcomes) -> IdleParts:
    """What an idle device waited for, with the longest gap where it belongs."""
    for_host, other = ([Node(f) for f in outcomes.claimed(chain)] for chain in (FOR_HOST, IDLE))
    outcome = outcomes.outcome(longest_gap)
    for gap in outcome:
        waited = 2 * overlap_ns(gap.where, outcomes.offered(FOR_HOST)) >= total_ns(gap.where)
        chain, nodes = (FOR_HOST, for_host) if waited else (IDLE, other)
        placed = _placed(gap, outcomes.offered(chain), nodes, outcomes.left(chain))
        if isinstance(placed, Silent):
            return IdleParts(for_host, other, placed)
        gaps = [finding for node in placed for finding in node.findings() if finding.rule == gap.rule]
        return IdleParts(placed, other, gaps) if waited else IdleParts(for_host, placed, gaps)
    return IdleParts(for_host, other, outcome)


def all_for_host(outcomes: Outcomes, parts: IdleParts) -> Outcome:
    """All the time that the device waited for Python, unless that is the verdict."""
    if kind_of(outcomes.facts) == HOST_BOUND:
        return Silent(phrase("the verdict, {kind}, covers it", kind=phrase(HOST_BOUND)))
    return waited_for_host(outcomes.facts, [node.finding for node in parts.for_host])


def _idle_tree(outcomes: Outcomes, gains: Gains) -> tuple[Node, list[Node]]:
    """The verdict with the parts of its time, and what else an idle device waited for."""
    verdict, parts = verdict_finding(outcomes), idle_parts(outcomes)
    host_nodes = tuple(_by_worth(parts.for_host, gains))
    if outcomes.judged.kind == HOST_BOUND:
        return Node(verdict, host_nodes), parts.other
    nodes = [*(Node(finding, host_nodes) for finding in all_for_host(outcomes, parts)), *parts.other]
    if len(verdict.where) and outcomes.judged.kind != HOST_TAIL:
        return Node(verdict, tuple(_by_worth(nodes, gains))), []
    return Node(verdict), nodes


def _placed(gap: Finding, time: Intervals, nodes: list[Node], free: Intervals) -> list[Node] | Silent:
    """The nodes, with the longest gap as a part of the one that explains it, else as one more node.

    The gap is left out if it lies in several nodes, or if a finding is about little else.  time: the nodes and `free`
    are parts of it; only this part of the gap counts.
    """
    where = intersect(gap.where, time)
    least_ns = MOSTLY * total_ns(where)
    for i, node in enumerate(nodes):
        inside = intersect(where, node.finding.where)
        if total_ns(inside) >= least_ns:
            if total_ns(inside) >= MOSTLY * total_ns(node.finding.where):
                of_gap = phrase("the finding {rule} is mostly about the longest idle gap", rule=node.finding.rule)
                return Silent(of_gap)
            cost_ns = min(total_ns(inside), node.finding.cost_ns or 0)  # some of it may be lost whatever one does
            part = Node(replace(gap, where=inside, cost_ns=cost_ns))
            return [*nodes[:i], Node(node.finding, (*node.parts, part)), *nodes[i + 1 :]]
    inside = intersect(where, free)
    if total_ns(inside) < least_ns:
        return Silent(phrase("the longest idle gap lies in the time of several findings"))
    return [*nodes, Node(replace(gap, where=inside, cost_ns=total_ns(inside)))]


def verdict_finding(outcomes: Outcomes) -> Finding:
    """The verdict as a finding, without what the critical path says about it."""
    facts, judged = outcomes.facts, outcomes.judged
    parts, where = facts.breakdown, claimed_by_verdict(facts, judged)
    return Finding(
        rule="verdict",
        cost_ns=judged.cost_ns,
        cause=phrase(judged.kind),
        detail=phrase(": {detail}", detail=judged.detail) if judged.detail else "",
        lines=judged.lines,
        start_ns=parts.extent_start_ns,
        end_ns=parts.extent_end_ns,
        device=parts.device,
        where=where,
    )


# What one rule says about a trace: its findings, or why it has none.

PAGE = "docs/findings.md"


@dataclass(frozen=True, repr=False)
class Explanation(JsonForm):
    """What one rule says about a trace: what it found, or why it is silent.

    rule: its name, as in `.findings`.  findings: what it found, without the gain that `t.findings` predicts.
    silent: why it found nothing, with a reason for each case that it knows.
    """

    shown: ClassVar[tuple[str, ...]] = ("rule", "sentence")  # in a table of rules
    left_out = ("silent",)
    computed = ("reason", "value", "threshold", "docs")

    rule: str
    findings: tuple[Finding, ...]
    silent: tuple[Silent, ...] = ()

    @property
    def finding(self) -> Finding | None:
        """The first of its findings; None if it is silent."""
        return self.findings[0] if self.findings else None

    @property
    def reason(self) -> str:
        """Why it is silent, "" where it found something."""
        return chained("{a}; {b}", dict.fromkeys(silent.reason for silent in self.silent))

    @property
    def value(self) -> float | None:
        """The first number below its threshold, in ns or a count as the reason says; None if there is none."""
        return next((silent.value for silent in self.silent if silent.value is not None), None)

    @property
    def threshold(self) -> float | None:
        """What that number was compared with."""
        return next((silent.threshold for silent in self.silent if silent.value is not None), None)

    @property
    def sentence(self) -> str:
        """The sentences of its findings, or "silent: " and the reason."""
        found = chained("{a} | {b}", [finding.sentence for finding in self.findings])
        return found or phrase("silent: {reason}", reason=self.reason)

    @property
    def docs(self) -> str:
        """Where the rule is documented."""
        return f"{PAGE}#{self.rule}"

    def text(self) -> str:
        """The rule, then a line for each finding or reason, then where it is documented."""
        sentences = [finding.sentence for finding in self.findings]
        lines = sentences or [silent.reason for silent in dict.fromkeys(self.silent)]
        said = say("{rule}: found", rule=self.rule) if sentences else say("{rule}: silent", rule=self.rule)
        return "\n".join([said, *(f"  {translated(line)}" for line in lines), self.docs])

    def __repr__(self) -> str:
        return self.text()


class Explanations(Rows[Explanation]):
    """What every rule says about a trace, one line per rule."""

    __slots__ = ()

    def __init__(self, rows: Iterable[Explanation]) -> None:
        super().__init__(rows, Explanation)

    def text(self) -> str:
        """A line for each rule, as wide as the terminal."""
        longest, room = max(len(row.rule) for row in self), width()
        return "\n".join(cut_to_columns(f"{row.rule:{longest}}  {translated(row.sentence)}", room) for row in self)

    def __repr__(self) -> str:
        return self.text()

    def _repr_html_(self) -> str:
        return html_block(self._title, self._shown(len(self)), [])

    def to_dict(self) -> list[dict[str, Any]]:
        """Ready for JSON, a dict for each rule."""
        return [row.to_dict() for row in self]


@in_its_digits
def explain(trace: Trace, rule: str, comm_names: str | None = None) -> Explanation:
    """What one rule says; only what it needs is computed.

    comm_names: as in perfmagic.trace.names.op_classes. Raises OptionError if there is no such rule.
    """
    check_rule(rule)
    return _explained(Outcomes(Facts(trace, comm_names)), rule)


@in_its_digits
def explain_all(trace: Trace, comm_names: str | None = None) -> Explanations:
    """What every rule says."""
    outcomes = Outcomes(Facts(trace, comm_names))
    return Explanations(_explained(outcomes, rule) for rule in RULES)


def check_rule(rule: object) -> None:
    """Raise OptionError with the closest name if there is no such rule."""
    if rule not in RULES:
        hint = f"{did_you_mean(str(rule), RULES)}there are {', '.join(RULES)}"
        raise OptionError(f"explain: there is no rule {rule!r}", hint=hint)


def _explained(outcomes: Outcomes, rule: str) -> Explanation:
    said = [ask(outcomes) for ask in RULES[rule]]
    findings = tuple(finding for outcome in said for finding in outcome)
    silent = () if findings else tuple(outcome for outcome in said if isinstance(outcome, Silent))
    return Explanation(rule, findings, silent)


Ask = Callable[[Outcomes], Outcome]


# functions whose findings have other names; all others are named like their findings
OTHER_NAMES = {
    **dict.fromkeys(("began_late", "start_up", "went_on_alone"), "alone"),
    "repeated_gap_queued": "repeated_gap",
    "slower_copies": "pageable",
}


def _rules() -> dict[str, list[Ask]]:
    """How to ask each function that finds something, by the finding's name."""
    asks: dict[str, list[Ask]] = defaultdict(list)
    asks["verdict"].append(_verdict)
    asks["waited_for_host"].append(partial(_asked, (), lambda outcomes: all_for_host(outcomes, idle_parts(outcomes))))
    for chain in (FOR_HOST, IDLE, EXPOSED):
        for claim in chain:
            ask = partial(Outcomes.claim, chain=chain, rule=claim)
            asks[_name(claim)].append(partial(_asked, chain, ask))
    asks["longest_gap"].append(partial(_asked, (), lambda outcomes: idle_parts(outcomes).gap))
    asks["pageable"].append(partial(_asked, EXPOSED, Outcomes.slower_copies))
    asks["waits_for_rank"].append(partial(_asked, EXPOSED, partial(Outcomes.outcome, rule=waits_for_rank)))
    asks["device_time"].append(partial(_asked, BUSY, partial(Outcomes.outcome, rule=device_time)))
    for rules in (BUSY, WITHOUT_TIME, WITHOUT_DURATIONS):
        for rule in rules:
            asks[_name(rule)].append(partial(_asked, rules, partial(Outcomes.outcome, rule=rule)))
    asks["together"].append(partial(_asked, (), _together))
    return dict(asks)


def _name(rule: Callable[..., Outcome]) -> str:
    return OTHER_NAMES.get(rule.__name__, rule.__name__)


def _asked(chain: Any, ask: Ask, outcomes: Outcomes) -> Outcome:
    lacks = outcomes.lacks(chain)
    return ask(outcomes) if lacks is None else lacks


def _verdict(outcomes: Outcomes) -> Outcome:
    trace = outcomes.facts.trace
    empty = not len(trace.ops) and not trace.has_host_rows
    return Silent(phrase("neither device nor host was recorded")) if empty else [verdict_finding(outcomes)]


def _together(outcomes: Outcomes) -> Outcome:
    gains = Gains(outcomes.facts)
    nodes, head = tree(outcomes, gains)
    return together(nodes, head, gains)


RULES = _rules()
