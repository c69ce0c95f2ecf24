"""How much communication moved, how fast and in how many pieces: what both findings on communication say."""

from __future__ import annotations

from collections import defaultdict

import numpy as np

from perfmagic import units
from perfmagic.analysis.findings.facts import Facts
from perfmagic.analysis.timeline.collectives import CollectiveStat, bus_factor, collectives
from perfmagic.trace.columns import Int64
from perfmagic.trace.names import OpClass, op_classes

TOLD_FRAC = 0.1  # of the communication's time; the rate of less says nothing about it
MANY = 100  # in a step; DDP's buckets of 25 MB make tens of a model with a billion parameters
# NCCL needs some 10 µs for any message between GPUs of a machine (NCCL tests, latency of small sizes): a kernel of less
# than three times that is its start
SHORT_NS = 30_000
_BUCKETS = "Fewer and larger ones spend less on starts: put many tensors into one buffer, as DDP does with its buckets"


def communication_rows(facts: Facts) -> Int64:
    """The device's communication ops, rows of trace.ops."""
    ops, classes = facts.trace.ops, op_classes(facts.trace, facts.comm_names)
    return np.flatnonzero((ops.device == facts.device) & (classes == OpClass.COMMUNICATION))


def moved_words(facts: Facts) -> str:
    """What the longest kind of collective moved, and how fast; "" where sizes are recorded for too little of the time.

    Its kernels run while they wait for other ranks: nobody can tell that part from one rank's file.
    """
    by_name: dict[str, list[CollectiveStat]] = defaultdict(list)
    for one in collectives(facts.trace, facts.device, facts.comm_names):
        known = one.group or "gather" not in one.name  # the whole of a gather follows from the ranks of its group
        if one.size_bytes and one.total_ns and known:
            by_name[one.name].append(one)
    kinds = sorted(by_name.values(), key=lambda kind: -sum(one.total_ns for one in kind))
    if not kinds:
        return ""
    most = kinds[0]
    total_ns, sent = sum(one.total_ns for one in most), sum(one.size_bytes or 0 for one in most)
    if total_ns < TOLD_FRAC * facts.breakdown.communication_ns:
        return ""
    # older files do not name the group: that all ranks took part would be a guess
    factors = [bus_factor(one.name, one.group_size if one.group else None) for one in most]
    on_links = sum((one.size_bytes or 0) * (factor or 0) for one, factor in zip(most, factors, strict=True))
    rate, link_rate = units.bandwidth(sent, total_ns), units.bandwidth(on_links, total_ns)
    bus = f", {link_rate} on the links of this rank" if None not in factors and link_rate != rate else ""
    n = sum(one.n_ops for one in most)
    times = f" ×{units.count(n)}" if n > 1 else ""
    moved = f"the longest collective, {most[0].name}{times}, moved {units.size(sent)} in {units.duration(total_ns)}"
    return f"{moved}: {rate}{bus}, waiting for other ranks included"


def pieces_words(facts: Facts) -> tuple[str, str]:
    """How many short collectives a step has, and what to do about it; "" twice where they are few or long."""
    rows = communication_rows(facts)
    steps = [step for step in facts.steps if step.n_ops]
    ops = facts.trace.ops
    each = len(rows) / max(1, len(steps))
    if each < MANY:
        return "", ""
    length_ns = (ops.end_ns - ops.start_ns)[rows]
    median_ns = int(np.median(length_ns))
    if median_ns >= SHORT_NS:
        return "", ""
    often = f"{units.count(round(each))} a step" if steps else f"there are {units.count(len(rows))}"
    pieces = f"{often}, half of them no longer than {units.duration(median_ns)}"
    long = length_ns >= SHORT_NS
    long_ns, all_ns = int(length_ns[long].sum()), int(length_ns.sum())
    if 2 * long_ns <= all_ns:
        return pieces, _BUCKETS
    share = f"{units.count(int(long.sum()))} of {units.plural(len(rows), 'op')} of {units.duration(SHORT_NS)} or more"
    return f"{pieces}; {share} have {units.percent(long_ns / all_ns)} of the time: their size decides", ""
