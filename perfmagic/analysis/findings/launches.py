"""The findings on launches: single, slow, as graphs or into a full queue; on zeroed gradients and on data loading."""

from __future__ import annotations

import re

import numpy as np

from perfmagic.analysis.findings.advice import can_compile, compiled, ddp_remedy, for_gpus, fused
from perfmagic.analysis.findings.catalogue import Remedy, action, count_things, headline
from perfmagic.analysis.findings.facts import Facts
from perfmagic.analysis.findings.finding import (
    Finding,
    Outcome,
    Silent,
    of_extent,
    on_call_lines,
    on_time_lines,
    too_short,
)
from perfmagic.analysis.timeline.idle import long_calls
from perfmagic.analysis.timeline.origin import Source, origins
from perfmagic.analysis.timeline.queueing import LaunchBound
from perfmagic.base import units
from perfmagic.base.language import chained, counted, listed, phrase, sentences
from perfmagic.base.numerics.intervals import Intervals, covered_ns, intersect, total_ns, union
from perfmagic.trace.columns import NO_LINE, NONE, Bool, Int64
from perfmagic.trace.names import fetches, is_loader
from perfmagic.trace.rows import Rows
from perfmagic.trace.signatures import function_name

WAITS_FRAC = 0.1  # of the ops: a graph cannot contain waits of Python
LAUNCH_BOUND_FRAC = 0.05  # of the extent, as for the longest gap: less is not worth rewriting the step


def one_by_one(facts: Facts, free: Intervals) -> Outcome:
    """Stretches in which the device had finished before Python launched the next op."""
    gaps, stretches = facts.gaps, facts.one_by_one
    in_stretch = np.flatnonzero(facts.in_stretches & (gaps.for_python_ns > 0))
    where = intersect(free, union(gaps.start_ns[in_stretch], gaps.end_ns[in_stretch]))
    lost_ns = total_ns(where)
    least_ns = LAUNCH_BOUND_FRAC * facts.breakdown.extent_ns
    if not stretches:
        return Silent(phrase("{device} never waited for several launches in a row", device=facts.the_device))
    if lost_ns < least_ns:
        waited = phrase("between ops launched one by one, the device waited")
        return too_short(waited, lost_ns, least_ns, of_extent(LAUNCH_BOUND_FRAC))
    n_ops, inside = sum(s.n_ops for s in stretches), _inside(facts, stretches)
    # one long collective would move the mean
    median_ns = float(np.median((facts.trace.ops.end_ns - facts.trace.ops.start_ns)[inside]))
    length_ns = sum(s.end_ns - s.start_ns for s in stretches)
    lines = np.unique(gaps.line[in_stretch])
    launched = facts.trace.launch_start_ns(gaps.op[in_stretch])
    several = phrase(" in {n} stretches", n=units.count(len(stretches))) if len(stretches) > 1 else ""
    pace = phrase(
        "one every {time} on average, with a median duration of {median}",
        time=units.duration(length_ns / n_ops),
        median=units.duration(median_ns),
    )
    late = phrase(
        "the queue ran empty before each, and {device} waited {time} for Python{where}{steps}",
        device=facts.the_device,
        time=units.duration(lost_ns),
        where=on_time_lines(facts.trace, where, lines[:3]),
        steps=facts.in_steps(launched),
    )
    # an option of DDP removes these ops, which neither graphs nor torch.compile would
    of_ddp = ddp_remedy(facts.trace, inside)
    remedy = of_ddp if of_ddp.action else _for_launches(facts, inside)
    return [
        Finding(
            rule="one_by_one",
            cost_ns=lost_ns,
            cause=phrase("{n} ops launched one by one", n=units.count(n_ops)),
            detail=phrase(
                "{where}: {facts}",
                where=chained("{a}{b}", (facts.on_device, several)),
                facts=sentences(pace, late),
            ),
            lines=tuple(int(n) for n in lines[:3] if n > 0),
            start_ns=min(s.start_ns for s in stretches),
            end_ns=max(s.end_ns for s in stretches),
            device=facts.device,
            where=where,
            advice=remedy.advice,
            action=remedy.action,
            headline=_headline(remedy, n_ops),
        )
    ]


def _headline(remedy: Remedy, n_ops: int) -> str:
    """The headline, which names DDP where the remedy is an option of DDP."""
    of_ddp: dict[str, str] = {action("bucket_view"): "ddp_buckets", action("no_broadcast"): "ddp_buffers"}
    return headline(of_ddp.get(remedy.action, "one_by_one"), n=units.count(n_ops))


def _for_launches(facts: Facts, inside: Bool) -> Remedy:
    """What launches fewer ops, or many at once; never what most of these ops use already.

    inside: which ops were launched one by one.
    """
    trace, device, n_ops = facts.trace, facts.device, int(inside.sum())
    lines, n = np.unique(trace.ops.line[inside], return_counts=True)
    loop = int(lines[n.argmax()]) if 2 * n.max() > n_ops else NO_LINE
    fewer = action("fewer_ops", line=loop) if loop > 0 else ""
    n_waits = _waits_between(facts, inside)
    if n_waits > WAITS_FRAC * n_ops:
        waits = counted(
            n_waits,
            "Python waits for the device {n} time between them, which a CUDA graph cannot capture: do more work in "
            "each op",
            "Python waits for the device {n} times between them, which a CUDA graph cannot capture: do more work in "
            "each op",
        )
        return Remedy(waits, fewer or action("batch", n=units.count(n_waits)))
    if 2 * int((inside & compiled(trace)).sum()) < n_ops:
        compiles = can_compile(trace, device)
        either = phrase("CUDA graphs or torch.compile launch many ops at once")
        advice = for_gpus(trace, device, either if compiles else _GRAPHS)
        if trace.device_info(device).paced:
            return Remedy(advice, fewer)
        return Remedy(advice, action("compile_or_graphs" if compiles else "graphs"))
    if not fused(trace)[inside].any():
        unfused = phrase(
            "Compiled code made most of these launches, but no fused kernel is among them: torch.compile's default "
            "backend (inductor) fuses kernels"
        )
        return Remedy(sentences(unfused, _GRAPHS), action("fuse_by_inductor"))
    already = phrase("Compiled code made most of these launches already")
    return Remedy(sentences(already, _GRAPHS), action("graphs"))


_GRAPHS = phrase("CUDA graphs launch many ops at once")


def _waits_between(facts: Facts, inside: Bool) -> int:
    """How often Python waited for the device between the launches of some ops."""
    blocking, launched_ns = facts.syncs, facts.trace.launch_start_ns(inside & (facts.trace.ops.launch != NONE))
    if not len(launched_ns):
        return 0
    between = (blocking.start_ns > launched_ns.min()) & (blocking.start_ns < launched_ns.max())
    spans = _spans(facts.one_by_one)
    between &= covered_ns(spans, blocking.start_ns, blocking.end_ns) > 0
    return blocking.n_asked(np.flatnonzero(between & ~blocking.after_cell & ~blocking.at_edge))


def _spans(stretches: Rows[LaunchBound]) -> Intervals:
    return union(*(np.array(column) for column in zip(*((s.start_ns, s.end_ns) for s in stretches), strict=True)))


def _inside(facts: Facts, stretches: Rows[LaunchBound]) -> Bool:
    """Which ops of the device ran in some stretches; shape of ops."""
    ops = facts.trace.ops
    inside: Bool = (ops.device == facts.device) & (covered_ns(_spans(stretches), ops.start_ns, ops.end_ns) > 0)
    return inside


# The finding "calls into the driver", which blocked Python while the device had nothing to do, and its sentence.

NAMED = 3  # calls that the sentence names
MOSTLY = 0.9  # of the cost: then the headline names one call alone
_LAUNCH = re.compile(r"(?<!graph)launch", re.IGNORECASE)
_PIN = re.compile(r"(?:Malloc|MemAlloc|Host)(?:Host|Alloc|Register)", re.IGNORECASE)  # host memory, not device memory


# cuModuleLoadData, cuLibraryLoadData, hipModuleLoad; cudaFuncGetAttributes loads the kernel too
_LOAD = re.compile(
    r"(?:module|library|func|kernel).*(?:load|get)|(?:load|get).*(?:module|library|func|kernel)", re.IGNORECASE
)
_MEMORY = re.compile(r"malloc|free|alloc|mem(?:create|map|unmap|setaccess|address)", re.IGNORECASE)
_LAZY = phrase(
    "The first launch of a kernel loads its code: run the cell once before recording, "
    "or set CUDA_MODULE_LOADING=EAGER to load all at the start"
)
_ALLOCATE = phrase(
    "The allocator asks the driver for memory in the first steps: run them before recording. If it still does later, "
    "use PYTORCH_ALLOC_CONF=expandable_segments:True or constant shapes"
)


_PINNED = phrase("The driver pins host memory each time: allocate pinned buffers once and reuse them")


# the allocator frees memory only to make room; a library such as cuDNN or cuBLAS calls cudaFree when it initializes
_FREE = re.compile(r"^(?:cuda|hip|cuMem|hipMem)Free(?!Async|Host)")
_RETRY = phrase(
    "The allocator freed cached memory to make room: torch.cuda.memory_stats()['num_alloc_retries'] counts it; "
    "smaller batches, or PYTORCH_ALLOC_CONF=expandable_segments:True, avoid it"
)


def in_call(facts: Facts, free: Intervals) -> Outcome:
    """Time in which the device had nothing to do because Python was blocked in runtime or driver calls.

    Source of the settings: CUDA C++ Programming Guide, "Lazy Loading"; PyTorch, "CUDA semantics", memory management.
    """
    where = intersect(facts.cell_time.causes.in_call, free)
    cost_ns = total_ns(where)
    if cost_ns < facts.notable_ns:
        waited = phrase("during long calls into the driver, {device} waited", device=facts.the_device)
        return facts.below_notable(waited, cost_ns)
    rows, blocked_ns = _calls_in(facts, where)
    names, code = np.unique(facts.trace.calls.name[rows], return_inverse=True)
    sums = np.bincount(code, weights=blocked_ns, minlength=len(names)).astype(np.int64)
    order = np.argsort(-sums, kind="stable").tolist()
    calls_named = [_describe_calls(facts, rows[code == i], blocked_ns[code == i]) for i in order[:NAMED]]
    more = len(order) - NAMED
    calls_named += [counted(more, "{n} other call", "{n} other calls")] if more > 0 else []
    lines = np.unique(facts.trace.calls.line[rows])
    longest = blocked_ns[code == order[0]]
    longest_call = facts.trace.names[names[order[0]]]
    fact, remedy = _for_call(longest_call, longest)
    if fact == "first_call" and sums[order[0]] < MOSTLY * cost_ns:
        fact = "first_calls"
    idle = phrase(
        ": {device} had nothing to do while Python was in {calls}{where}",
        device=facts.the_device,
        calls=listed(calls_named),
        where=on_call_lines(facts.trace, rows, 3),
    )
    return [
        Finding(
            rule="in_call",
            cost_ns=cost_ns,
            cause=phrase("{time} in calls into the driver", time=units.duration(cost_ns)),
            detail=idle,
            lines=tuple(int(n) for n in lines[:3] if n > 0),
            start_ns=int(where[0, 0]),
            end_ns=int(where[-1, 1]),
            device=facts.device,
            advice=remedy.advice,
            action=remedy.action,
            headline=headline(fact, time=units.duration(cost_ns), call=function_name(longest_call)),
            where=where,
        )
    ]


def _calls_in(facts: Facts, where: Intervals) -> tuple[Int64, Int64]:
    """The long calls within some time, and how much of it each covers; where calls nest, the outer one."""
    calls, rows = facts.trace.calls, long_calls(facts.trace)
    inside_ns = covered_ns(where, calls.start_ns[rows], calls.end_ns[rows])
    rows, inside_ns = rows[inside_ns > 0], inside_ns[inside_ns > 0]
    reached = np.concatenate(([np.iinfo(np.int64).min], np.maximum.accumulate(calls.end_ns[rows])[:-1]))[: len(rows)]
    outer = calls.start_ns[rows] >= reached
    return rows[outer], inside_ns[outer]


def _describe_calls(facts: Facts, rows: Int64, blocked_ns: Int64) -> str:
    """Calls of one name in words: "cudaLaunchKernel for 626 ms (×12, the longest 102 ms)"."""
    name = facts.trace.names[facts.trace.calls.name[rows[0]]]
    time = units.duration(int(blocked_ns.sum()))
    if len(rows) == 1:
        return phrase("{call} for {time}", call=name, time=time)
    longest = units.duration(int(blocked_ns.max()))
    n = units.count(len(rows))
    return phrase("{call} for {time} (×{n}, the longest {longest})", call=name, time=time, n=n, longest=longest)


def _for_call(name: str, blocked_ns: Int64) -> tuple[str, Remedy]:
    """The headline and the remedy for the call that blocked Python longest.

    blocked_ns: how long each call of that name blocked it.
    """
    if _LAUNCH.search(name) or _LOAD.search(name):
        return "first_launches", Remedy(_LAZY, action("warm_up"))
    if _FREE.match(name) and 2 * int(blocked_ns.max()) > int(blocked_ns.sum()):
        initializes = phrase(
            "{call}: one call takes most of the time, as when CUDA or a library such as cuDNN initializes: run the "
            "cell once before recording, and do not empty the allocator's cache afterwards",
            call=name,
        )
        return "first_call", Remedy(initializes, action("warm_up"))
    if _FREE.match(name):
        return "retries", Remedy(_RETRY, action("smaller_batches"))
    if _PIN.search(name):
        return "pinning", Remedy(_PINNED, action("keep_pinned"))
    if _MEMORY.search(name) and "Host" not in name:
        return "allocations", Remedy(_ALLOCATE, action("expandable_segments"))
    return "driver_calls", Remedy()


# The finding "the queue was full" and its sentence.


def queue_full(facts: Facts) -> Outcome:
    """Launch calls that waited for room in the queue: no time is lost, because the device has work."""
    calls, rows = facts.trace.calls, facts.launches.blocked
    if not len(rows):
        return Silent(phrase("no launch waited for room in the queue"))
    length_ns = int((calls.end_ns - calls.start_ns)[rows].sum())
    lines = np.unique(calls.line[rows])
    blocked = phrase(
        "{launches} blocked Python for {time}{where}",
        launches=count_things(len(rows), "launch"),
        time=units.duration(length_ns),
        where=on_call_lines(facts.trace, rows),
    )
    deepest = phrase("up to {n} launches were queued", n=units.count(facts.launches.deepest))
    return [
        Finding(
            rule="queue_full",
            cost_ns=0,
            cause=phrase("the queue was full"),
            detail=phrase(": {detail}", detail=sentences(blocked, deepest)),
            lines=tuple(int(line) for line in lines if line > 0),
            start_ns=int(calls.start_ns[rows].min()),
            end_ns=int(calls.end_ns[rows].max()),
            device=facts.device,
        )
    ]


# The finding "one graph launch", a fact about how the work was queued, and its sentence.

MOST_FRAC = 0.5  # of the device's ops


def graph_launch(facts: Facts) -> Outcome:
    """A graph that contains most of a device's ops: the record names no operator inside it."""
    origin, ops = origins(facts.trace), facts.trace.ops
    here = ops.device == facts.device
    graph = here & (origin.source == Source.GRAPH)
    if not graph.any():
        return Silent(phrase("no graph launch was recorded"))
    names, n = np.unique(origin.name[graph], return_counts=True)
    rows = np.flatnonzero(graph & (origin.name == names[np.argmax(n)]))
    least = MOST_FRAC * int(here.sum())
    if len(rows) <= least:
        ops_here = counted(int(here.sum()), "{n} device op", "{n} device ops")
        ran = phrase(
            "the largest graph ran {n} of {ops}, not more than {share}",
            n=units.count(len(rows)),
            ops=ops_here,
            share=units.percent(MOST_FRAC),
        )
        return Silent(ran, len(rows), least)
    length = ops.end_ns - ops.start_ns
    n_launches = len(np.unique(ops.launch[rows]))
    several = phrase("{n} launches of one graph", n=units.count(n_launches))
    ran = phrase(
        "{where} ran {n} of {ops}, {time} of {total}",
        where=facts.on_device,
        n=units.count(len(rows)),
        ops=counted(int(here.sum()), "{n} device op", "{n} device ops"),
        time=units.duration(int(length[rows].sum())),
        total=units.duration(int(length[here].sum())),
    )
    return [
        Finding(
            rule="graph_launch",
            cost_ns=None,
            cause=phrase("one graph launch") if n_launches == 1 else several,
            detail=sentences(ran, phrase("the record shows the kernels of a graph, but not their operators")),
            lines=tuple(int(line) for line in np.unique(ops.line[rows])[:3] if line > 0),
            start_ns=int(ops.start_ns[rows].min()),
            end_ns=int(ops.end_ns[rows].max()),
            device=facts.device,
        )
    ]


# The finding "gradients set to zero" and its sentence.

_ZERO_GRAD = re.compile(r"^Optimizer\.zero_grad#")  # what torch.optim records around the call
_SET_TO_NONE = phrase(
    "zero_grad(set_to_none=True), torch's default since 2.0, drops the gradients: nothing is filled, "
    "and the next backward pass writes them instead of adding to zeros"
)


def zero_grad(facts: Facts, free: Intervals) -> Outcome:
    """Gradients filled with zeros, one op for each parameter. Source: torch.optim.Optimizer.zero_grad, set_to_none."""
    trace, host = facts.trace, facts.trace.host_ops
    named = np.array([_ZERO_GRAD.match(name) is not None for name in trace.names], bool)
    rows = np.flatnonzero(named[host.name]) if len(host) else np.zeros(0, np.int64)
    if not len(rows):
        return Silent(phrase("no call of an optimizer's zero_grad() was recorded"))
    inside = union(host.start_ns[rows], host.end_ns[rows])
    ops, launched = trace.ops, trace.launch_start_ns()
    filled = (ops.device == facts.device) & (ops.launch != NONE) & (covered_ns(inside, launched, launched + 1) > 0)
    where = intersect(free, inside)
    cost_ns, busy_ns = total_ns(where), int((ops.end_ns - ops.start_ns)[filled].sum())
    if not filled.any() or not len(where):
        return Silent(phrase("zero_grad() filled nothing, or the device did not wait for Python meanwhile"))
    if cost_ns + busy_ns < facts.notable_ns:
        filling = phrase("filling gradients with zeros, and waiting for Python meanwhile, took")
        return facts.below_notable(filling, cost_ns + busy_ns)
    lines = np.unique(ops.line[filled])
    waited = phrase(
        "{device} waited {time} for Python meanwhile{where}{steps}",
        device=facts.the_device,
        time=units.duration(cost_ns),
        where=on_time_lines(facts.trace, where, lines[:3]),
        steps=facts.in_steps(host.start_ns[rows]),
    )
    n = int(filled.sum())
    fills = counted(n, "{n} op of {time} fills them", "{n} ops of {time} fill them", time=units.duration(busy_ns))
    return [
        Finding(
            rule="zero_grad",
            cost_ns=cost_ns,
            cause=phrase("gradients set to zero"),
            detail=phrase("{where}: {facts}", where=facts.on_device, facts=sentences(fills, waited)),
            lines=tuple(int(line) for line in lines[:3] if line > 0),
            start_ns=int(where[0, 0]),
            end_ns=int(where[-1, 1]),
            device=facts.device,
            advice=_SET_TO_NONE,
            headline=headline("zero_grad", n=count_things(n, "op")),
            action=action("set_to_none"),
            where=where,
        )
    ]


# The finding "data loading" and its sentence.

_USE_WORKERS = phrase("With num_workers, the DataLoader fetches batches ahead of time")


def data_loading(facts: Facts, free: Intervals) -> Outcome:
    """Device time lost while Python fetched the next batch."""
    host = fetches(facts.trace)
    if not len(host):
        return Silent(phrase("no fetch of a batch was recorded"))
    where = intersect(union(host.start_ns, host.end_ns), free)
    lost_ns = total_ns(where)
    if lost_ns < facts.notable_ns:
        waited = phrase("while Python fetched batches, {device} waited", device=facts.the_device)
        return facts.below_notable(waited, lost_ns)
    no_workers = all("SingleProcess" in facts.trace.names[n] for n in host.name)
    was = facts.python_was(where)
    python_in = was.sentence if was.names[2] and not is_loader(was.names[2]) else ""
    lines = np.unique(host.line)
    waited = phrase(
        "{device} waited {time} while Python fetched {batches}{where}",
        device=facts.the_device,
        time=units.duration(lost_ns),
        batches=counted(len(host), "{n} batch", "{n} batches"),
        where=on_time_lines(facts.trace, where, lines),
    )
    return [
        Finding(
            rule="data_loading",
            cost_ns=lost_ns,
            cause=phrase("data loading"),
            detail=phrase(": {detail}", detail=sentences(waited, python_in)),
            frames=was.frames,
            lines=tuple(int(line) for line in lines if line > 0),
            start_ns=int(where[0, 0]),
            end_ns=int(where[-1, 1]),
            device=facts.device,
            where=where,
            advice=_USE_WORKERS if no_workers else "",
            headline=headline("data_loading", time=units.duration(lost_ns)),
            action=action("workers" if no_workers else "more_workers"),
        )
    ]
