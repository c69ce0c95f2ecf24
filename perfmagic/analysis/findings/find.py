"""Which findings a trace has, the costliest first. Each rule's sentence is worded in the file named after it."""

from __future__ import annotations

from collections.abc import Callable

from perfmagic.analysis.findings.alone import alone
from perfmagic.analysis.findings.clocks import clocks
from perfmagic.analysis.findings.communication import unrecognised_communication
from perfmagic.analysis.findings.data_loading import data_loading
from perfmagic.analysis.findings.exposed import exposed_communication, exposed_copy
from perfmagic.analysis.findings.facts import Facts
from perfmagic.analysis.findings.finding import Finding
from perfmagic.analysis.findings.incomplete import incomplete
from perfmagic.analysis.findings.longest_gap import longest_gap
from perfmagic.analysis.findings.one_by_one import one_by_one
from perfmagic.analysis.findings.pageable import pageable_uploads
from perfmagic.analysis.findings.queue_full import queue_full
from perfmagic.analysis.findings.race import missing_waits
from perfmagic.analysis.findings.repeated_gap import repeated_gaps
from perfmagic.analysis.findings.step import steps_stand_out
from perfmagic.analysis.findings.streams import side_by_side
from perfmagic.analysis.findings.sync import blocked
from perfmagic.analysis.findings.tensor_cores import tensor_cores_unused
from perfmagic.analysis.findings.verdict import verdict_of
from perfmagic.analysis.verdict import DEVICE_BOUND_FRAC, NO_VERDICT, Verdict
from perfmagic.trace.model import Trace

__all__ = ["Finding", "findings"]

RULES: tuple[Callable[[Facts], list[Finding]], ...] = (
    pageable_uploads,
    blocked,
    exposed_communication,
    exposed_copy,
    one_by_one,
    repeated_gaps,
    longest_gap,
    steps_stand_out,
    side_by_side,
    queue_full,
    missing_waits,
    data_loading,
    alone,
    unrecognised_communication,
    tensor_cores_unused,
    clocks,
    incomplete,
)

WITHOUT_DURATIONS = (missing_waits, queue_full, clocks, incomplete)  # what holds where those of the ops do not
# what these find is time in which the device had nothing to do
IDLE_RULES = frozenset({"pageable", "sync", "one_by_one", "repeated_gap", "longest_gap", "data_loading", "alone"})


def findings(trace: Trace, comm_names: str | None = None, limit: int = 6) -> tuple[Finding, ...]:
    """What is worth knowing about a trace: waits that are missing, the verdict, then what time was lost to, by cost.

    limit: the most findings given.  comm_names: as in perfmagic.trace.names.op_classes. Empty only where there is
    neither a device op nor a host operator.
    """
    facts = Facts(trace, comm_names)
    if not len(trace.ops):
        return (_verdict(facts, verdict_of(facts)),) if trace.has_host_rows else ()
    judged = verdict_of(facts)
    rules = WITHOUT_DURATIONS if judged.kind == NO_VERDICT else RULES
    rest = [finding for rule in rules for finding in rule(facts)]
    wrong = [f for f in rest if f.is_wrong]  # a wrong result is dearer than any time
    lost = sorted((f for f in rest if not f.is_wrong), key=lambda f: (-(f.cost_ns or 0), f.start_ns))
    agreeing = _agreeing_first(lost) if judged.busy_frac >= DEVICE_BOUND_FRAC else lost
    return (*wrong, _verdict(facts, judged), *agreeing)[:limit]


def _agreeing_first(rest: list[Finding]) -> list[Finding]:
    """The findings by cost, but none about an idle device first, where there is another cause: the device was busy."""
    agreeing = (i for i, f in enumerate(rest) if f.rule not in IDLE_RULES and f.cost_ns != 0)
    best = next(agreeing, None)
    return rest if best is None else [rest[best], *rest[:best], *rest[best + 1 :]]


def _verdict(facts: Facts, judged: Verdict) -> Finding:
    parts = facts.breakdown
    return Finding(
        rule="verdict",
        cost_ns=judged.cost_ns,
        cause=judged.kind,
        detail=f": {judged.detail}" if judged.detail else "",
        lines=judged.lines,
        start_ns=parts.extent_start_ns,
        end_ns=parts.extent_end_ns,
        device=parts.device,
    )
