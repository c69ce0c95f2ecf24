"""The findings on communication: exposed, overlapped or not recognized by kernel names; and on exposed copies."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import replace

import numpy as np

from perfmagic.analysis.findings.advice import FORWARD
from perfmagic.analysis.findings.catalogue import action, count_things, headline
from perfmagic.analysis.findings.facts import Facts
from perfmagic.analysis.findings.finding import Finding, Outcome, Silent, name_lines, of_extent, too_short
from perfmagic.analysis.timeline.collectives import (
    CollectiveStat,
    asked_collectives,
    bus_factor,
    collectives,
    late_collectives,
    op_bytes,
)
from perfmagic.base import units
from perfmagic.base.language import chained, counted, listed, phrase, sentences
from perfmagic.base.numerics.intervals import (
    Intervals,
    covered_ns,
    distinct,
    intersect,
    subtract,
    total_ns,
    union,
)
from perfmagic.trace.columns import NO_LINE, NONE, Int8, Int64, OpKind
from perfmagic.trace.hoststack import COLLECTIVE_NOTE
from perfmagic.trace.names import OpClass, kernel_short_names, op_classes
from perfmagic.trace.signatures import function_name

# How much data communication moved, how fast and in how many pieces: both findings on communication report it.

RATED_FRAC = 0.1  # of the communication's time; the rate of a smaller part says nothing about the whole
MANY = 100  # in a step; DDP's buckets of 25 MB make tens of a model with a billion parameters


# NCCL needs some 10 µs for any message between GPUs of a machine (NCCL tests, latency of small sizes): a kernel of less
# than three times that is mostly latency
SHORT_NS = 30_000
_BUCKETS = phrase(
    "Fewer, larger collectives spend less time on latency: pack tensors into one buffer, as DDP does with its buckets"
)


def communication_rows(facts: Facts) -> Int64:
    """The device's communication ops, rows of trace.ops."""
    ops, classes = facts.trace.ops, op_classes(facts.trace, facts.comm_names)
    return np.flatnonzero((ops.device == facts.device) & (classes == OpClass.COMMUNICATION))


def describe_traffic(facts: Facts) -> str:
    """What the longest kind of collective moved, and how fast; "" where sizes are recorded for too little of the time.

    Its kernels also run while they wait for other ranks: one rank's file does not show how long that is.
    """
    by_name: dict[str, list[CollectiveStat]] = defaultdict(list)
    for stat in collectives(facts.trace, facts.device, facts.comm_names):
        known = stat.group or "gather" not in stat.name  # the whole of a gather follows from the ranks of its group
        if stat.size_bytes and stat.total_ns and known:
            by_name[stat.name].append(stat)
    kinds = sorted(by_name.values(), key=lambda kind: -sum(stat.total_ns for stat in kind))
    if not kinds:
        return ""
    most = kinds[0]
    total_ns, sent = sum(stat.total_ns for stat in most), sum(stat.size_bytes or 0 for stat in most)
    if total_ns < RATED_FRAC * facts.breakdown.communication_ns:
        return ""
    # older files do not name the group, and it may not include all ranks
    factors = [bus_factor(stat.name, stat.group_size if stat.group else None) for stat in most]
    on_links = sum((stat.size_bytes or 0) * (factor or 0) for stat, factor in zip(most, factors, strict=True))
    rate, link_rate = units.bandwidth(sent, total_ns), units.bandwidth(on_links, total_ns)
    on_bus = None not in factors and link_rate != rate
    n = sum(stat.n_ops for stat in most)
    return phrase(
        "the longest collective, {name}, moved {size} in {time}: {rate}{bus}, including time spent waiting for other "
        "ranks",
        name=most[0].name + (f" ×{units.count(n)}" if n > 1 else ""),
        size=units.size(sent),
        time=units.duration(total_ns),
        rate=rate,
        bus=phrase(", {rate} on the links of this rank", rate=link_rate) if on_bus else "",
    )


def describe_pieces(facts: Facts, *, late: bool = False) -> tuple[str, str]:
    """How many short collectives a step has, and what to do about it; "" twice where they are few or long.

    late: Python launches them late, which their own duration does not explain.
    """
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
    there_are = phrase("there are {n}", n=units.count(len(rows)))
    number = phrase("{n} a step", n=units.count(round(each))) if steps else there_are
    pieces = phrase("{number}, with a median duration of {time}", number=number, time=units.duration(median_ns))
    long = length_ns >= SHORT_NS
    long_ns, all_ns = int(length_ns[long].sum()), int(length_ns.sum())
    if late or 2 * long_ns <= all_ns:
        return pieces, "" if late else _BUCKETS
    few = phrase(
        "{n} of {ops} take {time} or more and make up {share} of the time, so their size decides",
        n=units.count(int(long.sum())),
        ops=count_things(len(rows), "op"),
        time=units.duration(SHORT_NS),
        share=units.percent(long_ns / all_ns),
    )
    return chained("{a}; {b}", (pieces, few)), ""


# The findings "exposed communication" and "exposed copies", and their sentences.

KNOWN_FRAC = 0.9  # of compute kernels: with fewer known launches, whether any was queued is not known
LONG_FRAC = 0.01  # of the extent: of a collective that counts as a tail
WHOLE_FRAC = 0.95  # of its time: what overlaps less than the rest overlaps nothing
EXPOSED_FRAC = 0.02  # of the extent; less is not worth a sentence
OF_EXTENT = of_extent(EXPOSED_FRAC)
COPIES = {OpClass.HTOD: "HtoD", OpClass.DTOH: "DtoH", OpClass.DTOD: "DtoD", OpClass.PTOP: "PtoP"}


def exposed_communication(facts: Facts, free: Intervals) -> Outcome:
    """Communication that did not overlap with compute."""
    return _exposed(
        facts,
        free,
        "exposed_communication",
        phrase("exposed communication"),
        (OpClass.COMMUNICATION,),
        facts.breakdown.communication_ns,
    )


def exposed_copy(facts: Facts, free: Intervals) -> Outcome:
    """Copies that did not overlap with compute."""
    cause = phrase("exposed copies")
    return _exposed(facts, free, "exposed_copy", cause, tuple(COPIES), facts.breakdown.copy_ns)


def _exposed(
    facts: Facts, free: Intervals, rule: str, cause: str, classes: tuple[OpClass, ...], all_ns: int
) -> Outcome:
    parts, exposed_ns = facts.breakdown, facts.breakdown.class_ns(rule)
    where = intersect(
        parts.intervals[rule], free
    )  # where a copy overlaps communication, the time counts as communication
    least_ns = EXPOSED_FRAC * parts.extent_ns
    if not all_ns:
        of_copies = phrase("no copies ran{where}", where=facts.on_device)
        of_communication = phrase("no communication ran{where}", where=facts.on_device)
        return Silent(of_copies if rule == "exposed_copy" else of_communication)
    if not len(where) or total_ns(where) < least_ns:
        return too_short(phrase("{kernels} took", kernels=cause), total_ns(where), least_ns, OF_EXTENT)
    kinds = op_classes(facts.trace, facts.comm_names)
    rows = np.flatnonzero((facts.trace.ops.device == facts.device) & np.isin(kinds, classes))
    if rule == "exposed_copy" and (again := facts.copied_again):  # they have a finding
        rows = np.setdiff1d(rows, np.concatenate([tensor.rows for tensor in again]))
        exposed_ns = total_ns(where)
    most, line, longest_op = _most_exposed(facts, rows, kinds, parts.intervals[rule])
    directions, advice, late = "", "", False
    exposed = headline(rule, time=units.duration(exposed_ns))
    if rule == "exposed_copy":
        directions = _by_direction(facts)
        more = [_why_copies_are_exposed(facts)]
    else:
        late = _late_in_pieces(facts, len(rows))
        pieces, advice = describe_pieces(facts, late=late)
        alone = _alone(facts)
        length = units.duration(total_ns(_where(facts, alone)))
        tail = counted(
            len(alone),
            "{n} collective of DDP, {time}, overlapped nothing",
            "{n} collectives of DDP, {time}, overlapped nothing",
            time=length,
        )
        queued = _nothing_queued(facts, parts.intervals[rule])
        exposed = headline("many_collectives", n=count_things(len(rows), "collective")) if late else exposed
        more = [queued, tail if len(alone) else "", pieces, describe_traffic(facts)]
    share = phrase(
        "{part}{directions} did not overlap with compute", part=_part(exposed_ns, all_ns), directions=directions
    )
    return [
        Finding(
            rule=rule,
            cost_ns=total_ns(where),
            cause=cause,
            headline=_pieces_headline(facts, rows) if advice else exposed,
            action=action("one_buffer") if late else _action(facts, rule, bool(advice)),
            detail=phrase("{where}: {facts}", where=facts.on_device, facts=sentences(share, longest_op, *more)),
            lines=(line,) if line != NO_LINE else (),
            start_ns=int(facts.trace.ops.start_ns[most]),
            end_ns=int(facts.trace.ops.end_ns[most]),
            device=facts.device,
            advice=advice,
            where=where,
        )
    ]


def _late_in_pieces(facts: Facts, n_collectives: int) -> bool:
    """Whether each step has many collectives, and the device waits long for Python to launch one after the other."""
    many = n_collectives >= MANY * max(1, sum(step.n_ops > 0 for step in facts.steps))
    waited = intersect(facts.between_collectives, facts.cell_time.waited_for_host)
    return many and total_ns(waited) >= EXPOSED_FRAC * facts.breakdown.extent_ns


def _pieces_headline(facts: Facts, rows: Int64) -> str:
    median_ns = np.median((facts.trace.ops.end_ns - facts.trace.ops.start_ns)[rows])
    return headline("tiny_kernels", n=count_things(len(rows), "collective"), time=units.duration(float(median_ns)))


def _action(facts: Facts, rule: str, in_pieces: bool) -> str:
    """What hides copies behind compute, or makes many collectives few."""
    if rule == "exposed_communication":
        if in_pieces:
            return action("bucket")
        alone_ns, in_all_ns = total_ns(_where(facts, _alone(facts))), facts.breakdown.exposed_communication_ns
        return action("last_bucket") if 2 * alone_ns >= in_all_ns else ""
    if facts.copies_beside:
        return ""
    pageable, pinned = facts.pageable_copies, facts.pinned_copies
    exposed_ns = _exposed_by_direction(facts)
    most = max(exposed_ns, key=exposed_ns.__getitem__)
    if most not in (OpClass.HTOD, OpClass.DTOH):
        return ""
    if most == OpClass.HTOD and pageable and (pinned is None or total_ns(pageable.exposed) > total_ns(pinned.exposed)):
        return action("pin")
    return action("prefetch" if most == OpClass.HTOD else "read_on_stream")


def _alone(facts: Facts) -> Int64:
    """Reductions of DistributedDataParallel that overlap no compute, two or more: backward has ended.  Rows of ops."""
    if FORWARD not in facts.trace.names:
        return np.zeros(0, np.int64)
    ops, rows = facts.trace.ops, communication_rows(facts)
    start_ns, end_ns = ops.start_ns[rows], ops.end_ns[rows]
    exposed_ns = covered_ns(facts.breakdown.intervals["exposed_communication"], start_ns, end_ns)
    alone = end_ns - start_ns >= LONG_FRAC * facts.breakdown.extent_ns
    alone &= exposed_ns >= WHOLE_FRAC * (end_ns - start_ns)
    reductions = np.array([row for row in rows[alone].tolist() if _reduces(facts, row)], np.int64)
    return reductions if len(reductions) > 1 else reductions[:0]


def _where(facts: Facts, rows: Int64) -> Intervals:
    return union(facts.trace.ops.start_ns[rows], facts.trace.ops.end_ns[rows])


def _reduces(facts: Facts, row: int) -> bool:
    """Whether a communication op reduces; one kernel of RCCL does all, and without its call it counts as that."""
    trace, asked = facts.trace, asked_collectives(facts.trace, facts.comm_names).get(row)
    recorded = trace.ops.collective[row]
    known = trace.collectives[recorded] if recorded != NONE else asked
    name = trace.names[trace.ops.name[row]] if known is None else known.name
    return "reduce" in name.lower() or (known is None and "Generic" in name)


def _why_copies_are_exposed(facts: Facts) -> str:
    """Why pinned copies are exposed; nothing where pageable ones are the most of it, which have a finding."""
    if facts.copies_beside:
        return phrase("copies have streams of their own already")
    pinned, pageable = facts.pinned_copies, facts.pageable_copies
    if pinned is None or pinned.overlap or (pageable and total_ns(pageable.exposed) > total_ns(pinned.exposed)):
        return ""
    return pinned.overlap_reason


def _nothing_queued(facts: Facts, exposed: Intervals) -> str:
    """How long no compute was queued meanwhile, where that is most of the time: Python is late, not the network."""
    ops, launched = facts.trace.ops, facts.trace.launch_start_ns()
    kinds = op_classes(facts.trace, facts.comm_names)
    compute = (ops.device == facts.device) & (ops.kind == OpKind.KERNEL) & (kinds != OpClass.COMMUNICATION)
    known = compute & (ops.launch != NONE)
    if facts.trace.simulated or not known.any() or known.sum() < KNOWN_FRAC * compute.sum():
        return ""
    without = subtract(exposed, union(np.minimum(launched, ops.start_ns)[known], ops.start_ns[known]))
    ns = total_ns(without)
    if 2 * ns < total_ns(exposed):
        return ""
    return phrase("for {time} of that time, Python had queued no compute", time=units.duration(ns))


def _by_direction(facts: Facts) -> str:
    """What was exposed of each direction, the longest first, in brackets; nothing where there is one only."""
    directions = sorted(((ns, COPIES[which]) for which, ns in _exposed_by_direction(facts).items() if ns), reverse=True)
    parts = chained("{a}, {b}", (f"{name} {units.duration(ns)}" for ns, name in directions))
    return phrase(" ({parts})", parts=parts) if len(directions) > 1 else ""


def _exposed_by_direction(facts: Facts) -> dict[OpClass, int]:
    sets = facts.breakdown.intervals
    return {which: total_ns(subtract(sets[name.lower()], sets["compute"])) for which, name in COPIES.items()}


def _part(ns: int, of_ns: int, whose: str = "") -> str:
    """A part of some time: "4.00 ms of 5.15 ms", "all 5.15 ms", "all its 5.15 ms"."""
    if ns != of_ns:
        return phrase("{time} of {total}", time=units.duration(ns), total=units.duration(of_ns))
    return phrase("all {whose}{time}", whose=whose, time=units.duration(of_ns))


def _most_exposed(facts: Facts, rows: Int64, kinds: Int8, exposed: Intervals) -> tuple[int, int, str]:
    """The op that was exposed longest, its line, and "the most exposed of 14 ops is an HtoD copy: 4 ms of 5.15 ms"."""
    ops = facts.trace.ops
    exposed_ns = covered_ns(exposed, ops.start_ns[rows], ops.end_ns[rows])
    row, most_ns = int(rows[exposed_ns.argmax()]), int(exposed_ns.max())
    line, length_ns = int(ops.line[row]), int(ops.end_ns[row] - ops.start_ns[row])
    copy = COPIES.get(OpClass(int(kinds[row])), "")
    kernel = kernel_short_names(facts.trace)[facts.trace.names[ops.name[row]]]
    of_copy = phrase("an HtoD copy") if copy == "HtoD" else phrase("a {direction} copy", direction=copy)
    name = of_copy if copy else kernel
    queued_by = phrase(", queued by {place}", place=name_lines([line])) if line != NO_LINE else ""
    if len(rows) == 1:
        time = units.duration(length_ns)
        return row, line, phrase("it is {name} of {time}{queued_by}", name=name, time=time, queued_by=queued_by)
    most_exposed = phrase(
        "the most exposed of {n} ops is {name}: {part}{queued_by}",
        n=units.count(len(rows)),
        name=name,
        part=_part(most_ns, length_ns, phrase("its ")),
        queued_by=queued_by,
    )
    return row, line, most_exposed


FEW_NAMES = 8  # a library of collectives runs a handful of kernels; a model's side stream runs its operators
LONG_NS = 50_000  # in the mean; an all-to-all between GPUs takes more, most elementwise kernels less
NOTABLE_FRAC = 0.05  # of the extent, as of an exposed copy
NAMED = 3  # kernels that a sentence lists
_ASKED = (COLLECTIVE_NOTE, "c10d::", "nccl:")  # what torch.distributed records on the host


def communication(facts: Facts) -> Outcome:
    """Overlapped communication; a job without any; or kernels that look like communication and count as compute.

    Such kernels are long, have a stream to themselves and names that run on no other stream. Only the user knows what
    they are: the sentence names the option that decides.
    """
    trace = facts.trace
    if trace.simulated or not len(trace.ops) or trace.meta.world_size == 1:
        one = trace.meta.world_size == 1
        return Silent(phrase("the job has one rank") if one else phrase("the device is simulated"))
    has_any = bool((op_classes(trace, facts.comm_names) == OpClass.COMMUNICATION).any())
    distributed = (trace.meta.world_size or 0) > 1 or _asked(facts)
    suspects = [rows for stream in _streams(facts) if len(rows := _suspects(facts, stream))]
    if suspects:
        return [_looks_like(facts, max(suspects, key=lambda rows: _length_ns(facts, rows)), distributed)]
    if facts.comm_names is not None and not has_any:
        no_match = phrase("no kernel matches comm_names={names}", names=repr(facts.comm_names))
        advice = phrase("Correct the expression, or leave it out")
        return [facts.finding(rule="communication", cause=no_match, detail="", advice=advice)]
    if has_any:
        return _hidden(facts)
    return [_nothing(facts)] if distributed else Silent(phrase("no communication was recorded"))


def _hidden(facts: Facts) -> Outcome:
    """How long communication took and what it moved, where too little is exposed for a finding of its own."""
    parts = facts.breakdown
    all_ns, exposed_ns = parts.communication_ns, parts.exposed_communication_ns
    least_ns, exposed_least_ns = NOTABLE_FRAC * parts.extent_ns, EXPOSED_FRAC * parts.extent_ns
    if all_ns < least_ns:
        return too_short(phrase("communication took"), all_ns, least_ns, of_extent(NOTABLE_FRAC))
    if exposed_ns >= exposed_least_ns:
        exposed = phrase(
            "{time} of communication is exposed, {share} or more: see exposed_communication",
            time=units.duration(exposed_ns),
            share=OF_EXTENT,
        )
        return Silent(exposed, exposed_ns, exposed_least_ns, "ns")
    overlapped = phrase("{part} overlapped with compute", part=_part(all_ns - exposed_ns, all_ns))
    pieces, advice = describe_pieces(facts)
    detail = phrase(": {detail}", detail=sentences(overlapped, pieces, describe_traffic(facts)))
    return [facts.finding(rule="communication", cause=phrase("communication"), detail=detail, advice=advice)]


def _asked(facts: Facts) -> bool:
    """Whether the host called torch.distributed."""
    names = (facts.trace.names[name] for name in distinct(facts.trace.host_ops.name).tolist())
    return any(name.startswith(_ASKED) for name in names)


def _streams(facts: Facts) -> list[int]:
    """The streams other than the busiest that were busy for long enough."""
    least_ns = NOTABLE_FRAC * facts.breakdown.extent_ns
    return [stat.stream for stat in facts.streams[1:] if stat.busy_ns >= least_ns]


def _suspects(facts: Facts, stream: int) -> Int64:
    """The kernels of a stream that look like communication, rows of trace.ops; none where they do not."""
    ops, classes = facts.trace.ops, op_classes(facts.trace, facts.comm_names)
    on_device = (ops.device == facts.device) & (ops.kind == OpKind.KERNEL)
    rows = np.flatnonzero(on_device & (ops.stream == stream) & (classes == OpClass.COMPUTE))
    matrix = on_device & (ops.stream == stream) & (classes == OpClass.MATRIX)
    names = np.unique(ops.name[rows])
    elsewhere = np.isin(names, ops.name[on_device & (ops.stream != stream)]).any()
    if not len(rows) or matrix.any() or len(names) > FEW_NAMES or elsewhere:
        return np.zeros(0, np.int64)
    length_ns = _length_ns(facts, rows)
    notable = length_ns >= NOTABLE_FRAC * facts.breakdown.extent_ns and length_ns >= LONG_NS * len(rows)
    return rows if notable else np.zeros(0, np.int64)


def _length_ns(facts: Facts, rows: Int64) -> int:
    return int((facts.trace.ops.end_ns - facts.trace.ops.start_ns)[rows].sum())


def _looks_like(facts: Facts, rows: Int64, distributed: bool) -> Finding:
    ops = facts.trace.ops
    names, n = np.unique(ops.name[rows], return_counts=True)
    short = list(dict.fromkeys(function_name(facts.trace.names[names[i]]) for i in np.argsort(-n, kind="stable")))
    where = phrase(
        "{kernels} on stream {stream} ({time}: {names}{more}) run on no other stream and count as compute",
        kernels=count_things(len(rows), "kernel"),
        stream=int(ops.stream[rows[0]]),
        time=units.duration(_length_ns(facts, rows)),
        names=listed(short[:NAMED]),
        more=phrase(" and {n} more", n=len(short) - NAMED) if len(short) > NAMED else "",
    )
    patterns = dict.fromkeys(name.rsplit("::", maxsplit=1)[-1] for name in short[:NAMED])
    size = facts.trace.meta.world_size
    job = _of_job(size) if size or distributed else ""
    finding = facts.finding(
        rule="communication",
        cause=phrase("possible communication"),
        detail=phrase(": {detail}", detail=sentences(where, job)),
        advice=phrase('If these kernels communicate, pass comm_names="{names}"', names="|".join(patterns)),
    )
    return replace(finding, start_ns=int(ops.start_ns[rows[0]]), end_ns=int(ops.end_ns[rows].max()))


def _nothing(facts: Facts) -> Finding:
    size = facts.trace.meta.world_size or 0
    no_kernel = phrase("no kernel counts as communication, so none is reported as exposed or overlapped")
    return facts.finding(
        rule="communication",
        cause=phrase("no communication"),
        detail=phrase(": {detail}", detail=sentences(_of_job(size if size > 1 else None), no_kernel)),
        advice=phrase('If some kernels communicate, pass their names: comm_names="…"'),
    )


def _of_job(world_size: int | None) -> str:
    """How many ranks the job has; without a number that it is one."""
    if not world_size:
        return phrase("the host calls torch.distributed")
    return counted(world_size, "the job has {n} rank", "the job has {n} ranks")


# The finding "waits for another rank": collectives that took far longer than larger ones of their kind.

WAITS_FRAC = 0.05  # of the extent, as of the longest gap


def waits_for_rank(facts: Facts) -> Outcome:
    """Exposed time of collectives that waited for another rank, whose own record says why."""
    late, ops, parts = late_collectives(facts.trace, facts.device, facts.comm_names), facts.trace.ops, facts.breakdown
    if facts.trace.simulated or not len(late.rows):
        return Silent(phrase("no collective took far longer than another of its kind with as many bytes"))
    waits = union(ops.start_ns[late.rows], ops.end_ns[late.rows] - late.usual_ns)
    where = intersect(waits, parts.intervals["exposed_communication"])
    least_ns, waited_ns = WAITS_FRAC * parts.extent_ns, total_ns(where)
    if waited_ns < least_ns:
        return too_short(phrase("collectives waited"), waited_ns, least_ns, of_extent(WAITS_FRAC))
    length_ns = (ops.end_ns - ops.start_ns)[late.rows]
    most = int(length_ns.argmax())
    size_bytes = op_bytes(facts.trace, facts.comm_names)[int(late.rows[most])]
    waited = counted(
        len(late.rows), "{n} collective waited {time}", "{n} collectives waited {time}", time=units.duration(waited_ns)
    )
    longest = phrase(
        "the longest took {time} for {size}", time=units.duration(int(length_ns[most])), size=units.size(size_bytes)
    )
    usual = phrase(
        "another of its kind with as many bytes or more took {time}", time=units.duration(int(late.usual_ns[most]))
    )
    return [
        Finding(
            rule="waits_for_rank",
            cost_ns=waited_ns,
            cause=phrase("waits for another rank"),
            detail=phrase("{where}: {facts}", where=facts.on_device, facts=sentences(waited, longest, usual)),
            lines=(),
            start_ns=int(ops.start_ns[late.rows].min()),
            end_ns=int(ops.end_ns[late.rows].max()),
            device=facts.device,
            advice=phrase("The files of all ranks, opened together, name the rank that came last"),
            headline=headline("waits_for_rank", time=units.duration(waited_ns)),
            action=action("open_ranks"),
            where=where,
        )
    ]
