"""From observations to facts; perfmagic.analysis.bench says which prevent a verdict, and has their texts."""

from __future__ import annotations

import math
import operator
import statistics
from collections import Counter
from collections.abc import Iterator
from typing import TYPE_CHECKING

from perfmagic.capture.same_work.effects import left_out
from perfmagic.capture.same_work.recorded import Done
from perfmagic.trace.samples import Condition

if TYPE_CHECKING:
    from perfmagic.capture.same_work.same_work import SameWork
    from perfmagic.capture.same_work.state import State
    from perfmagic.capture.same_work.watched import Watched

LEFT = 3  # samples that leave a thread running: a pool starts only once
BUSY_NS, BUSY_FRAC = 10_000_000, 0.1  # CPU time of threads between calls: idle ones sometimes wake up
LATE_NS, LATE_TIMES = 300_000, 5
NEARLY = 0.95  # of the elements: optimizers keep a step counter for each parameter
WORK_TIMES = 1.02  # times the first's floating-point operations or bytes, at most: shapes are rounded


def conclude(same: SameWork, which: int) -> Iterator[Condition]:
    """All facts of one function, compared with the first."""
    first, it = same.watched[0], same.watched[which]
    longest = same.arguments.longest() if same.arguments is not None else 1
    yield from same.results.facts(which, longest, fresh=same.fresh)
    # if the first raises on other values, too, they are outside its domain
    yield from (fact for kind, fact in it.facts.items() if kind != "raised" or kind not in first.facts)
    if same.arguments is None or not same.fresh:
        yield Condition("same inputs" if same.arguments is None else "inputs stay")
    else:
        yield Condition("fresh inputs")
        yield from _kept(first, it)
    if it.keeps_object and not first.keeps_object:
        yield Condition("kept object")
    if names := same.resized(which):
        yield Condition("resized", {"names": ", ".join(names[:3])})
    if it.shares > first.shares:
        yield Condition("shared parts")
    if it.aliases != first.aliases:
        yield Condition("aliased" if it.aliases else "not aliased")
    yield from _process(same, first, it)
    yield from _work(first, it, declared=bool(same.asked.dtype))
    yield from left_out(first.effects, it.effects, reads=_named(same))
    if names := sorted(first.unseen | it.unseen):
        yield Condition("state unseen", {"names": ", ".join(names[:3])})
    yield from _state(same, first, it, which)
    yield from _held(same, first, it, which)


def _process(same: SameWork, first: Watched, it: Watched) -> Iterator[Condition]:
    if it.left >= LEFT > first.left:
        yield Condition("threads left", {"n": it.left})
    if (n := same.process.processes()) > 0:
        yield Condition("process left", {"n": n})
    if same.busy_ns > BUSY_NS and same.busy_ns > BUSY_FRAC * same.rested_ns:
        yield Condition("threads between", {"busy_s": same.busy_ns / 1e9, "of_s": same.rested_ns / 1e9})
    if _ends_late(first, it):
        yield Condition("dropped", {"late_s": statistics.median(it.times_ns["dropped"]) / 1e9})
    if it.unjoined and not first.unjoined:
        yield Condition("unjoined stream")
    if it.reuses and not first.reuses:
        yield Condition("reused memory")
    for kind in ("replaced", "set"):  # by the first: the others are then compared with different code
        if kind in first.facts:
            yield Condition(f"{kind} by first", first.facts[kind].values)


def _named(same: SameWork) -> bool:
    """Whether files may be inputs of the functions: no arguments, or file names among them."""
    return same.arguments is None or any(
        type(each) is str or hasattr(each, "__fspath__") for each in same.arguments.slots[0]
    )


def _ends_late(first: Watched, it: Watched) -> bool:
    """Whether results work when they end, which no clock sees: memory is given back by both."""
    own, other = (statistics.median(each.times_ns.get("dropped", [0])) for each in (first, it))
    return other > LATE_NS + LATE_TIMES * own and other > min(it.times_ns.get("fresh", [LATE_NS]))


def _kept(first: Watched, it: Watched) -> Iterator[Condition]:
    """Whether less is done for values that were seen: both runs had the same ones."""
    if it.does_less("") and it.does_less(" again") and not (first.does_less("") and first.does_less(" again")):
        yield Condition("kept", {"fresh": it.done["fresh"].n, "seen": it.done["seen"].n})
        return
    if it.keeps_by_time and not first.keeps_by_time:
        new, again = (statistics.median(it.times_ns[label]) for label in ("new 0", "again 0"))
        yield Condition("kept time", {"times": new / max(1, again)})
        return
    yield Condition("not kept")


def _work(first: Watched, it: Watched, *, declared: bool) -> Iterator[Condition]:
    """What one recorded call of each did."""
    own, done = first.done.get("fresh"), it.done.get("fresh")
    if own is None or done is None:
        return
    if not own.n and not done.n:
        yield Condition("nothing recorded")
        return
    if own.device_ops and not done.device_ops:
        yield Condition("no device work", {"n": own.device_ops})
    if done.narrow and not own.narrow:
        yield Condition("narrow declared" if declared else "narrow", {"type": done.narrow})
    other, own_other = it.done.get("other"), first.done.get("other")
    if other and own_other and _shape(own_other) == _shape(own) and it.does_more_on_others():
        yield Condition("other work", {"given": done.n, "other": other.n})
    yield Condition("work" if done.n else "no ops", {"first": own.n, "n": done.n})
    for kind in ("flop", "bytes", "copies"):
        a, b = getattr(own, kind), getattr(done, kind)
        if max(a, b) > WORK_TIMES * min(a, b):
            yield Condition("less flop" if kind == "flop" and b < a else kind, {"first": a, "other": b})
    if len(done.streams) != len(own.streams):
        yield Condition("streams", {"first": len(own.streams), "other": len(done.streams)})


def _shape(done: Done) -> tuple[int, int]:
    return done.n, done.flop


def _state(same: SameWork, first: Watched, it: Watched, which: int) -> Iterator[Condition]:
    """Whether both changed the same outside state."""
    states = same.last_states
    if not states:
        return
    own, other = states[0], states[which]
    both = own.found.keys() & other.found.keys()
    for less, more, by in ((it, first, own), (first, it, other)):
        missing = (more.changed - less.changed) & both
        missing |= set() if less.changed else more.changed & by.learned
        if missing and not _has_own(
            more.changed - less.changed, by, less.changed - more.changed, own if by is other else other
        ):
            names = sorted({by.name(key) for key in missing})
            yield Condition("state", {"by": more.name, "not": less.name, "names": ", ".join(names[:3])})
            return


def _held(same: SameWork, first: Watched, it: Watched, which: int) -> Iterator[Condition]:
    """Whether the first changes the contents of outside containers, and the other does not."""
    if not same.last_states:
        return
    own, other = same.last_states[0].held, same.last_states[which].held
    altered, instead = first.alters(operator.ne), it.alters(operator.ne)
    left = {key for key in altered if key in other and key in own} - instead
    if len(left) > len(instead - altered):  # each may have a list of its own for its results
        names = sorted({own[key][0] for key in left})
        yield Condition("state", {"by": first.name, "not": it.name, "names": ", ".join(names[:3])})


def _has_own(changed: set[int], of: State, instead: set[int], of_other: State) -> bool:
    """Whether the other changes as much state of its own: a copied model, or weights stored together."""
    shapes = [
        Counter(tuple(state.found[key][1].shape) for key in keys)
        for keys, state in ((changed, of), (instead, of_other))
    ]
    sizes = [sum(n * math.prod(shape) for shape, n in each.items()) for each in shapes]
    return not shapes[0] - shapes[1] or 0 < sizes[0] * NEARLY <= sizes[1]
