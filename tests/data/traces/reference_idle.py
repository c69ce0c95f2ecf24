"""Why a device was idle, by one walk over all instants at which anything changes: see reference_sweep.py.

A pause ends with an op, E: of those that start there and have a length, the one that was launched first. An op is
*pending* from the start of its launch to its own start; one that was launched before the record, all the time before
it. An instant of a pause belongs to, in this order:

- nothing is pending: *other_device* or *blocked* while a thread is in a blocking call and another device executes or
  not; *in_call* while the thread that launches E is in a long call; else *in_python*
- *blocked* in the call of a blocking copy that is E; *in_call* in a long call that launched a pending op, while no
  pending op is out of its call or a blocking copy
- *one_by_one* after the launch of E, where the device had run dry before it, runs dry after E, and no thread waits
- *launching* in the call that launches E, and before it while every pending op is still in its call and one of these
  is no blocking copy
- the rest, in stretches: shorter than a launch takes, *between_ops* where E was queued before the pause, else
  *launching*; longer, or before an E of which nothing is known, *unexplained*

Stream waits are not looked at: no pause of the traces here is explained by one.
"""

import re
from bisect import bisect_left
from collections import Counter, defaultdict
from itertools import groupby
from typing import Any, NamedTuple

LAUNCH_NS = 10_000
LONG_CALL_NS = 50_000
BLOCKING_COPY = re.compile(r"(cuda|hip|cu)Memcpy")


class Call(NamedTuple):
    """A runtime or driver call, times in ns."""

    start_ns: int
    end_ns: int
    name: str
    thread: Any


class Work(NamedTuple):
    """A device op, times in ns. launch: the call that queued it, where that is recorded."""

    start_ns: int
    end_ns: int
    stream: str
    name: str
    launch: Call | None


class Pause(NamedTuple):
    """A gap between ops, with what is known of the op that ended it. copies: whether its call held its thread."""

    start_ns: int
    end_ns: int
    launch: Call | None
    known: bool
    launched_ns: int
    returned_ns: int
    copies: bool


def idle_by_cause(devices: dict[str, list[Work]], calls: list[Call]) -> dict[str, dict[str, int]]:
    """The idle time of each device by cause, in ns."""
    copied = {work.launch for ops in devices.values() for work in ops if "pageable" in work.name.lower()}
    waits = {call for call in calls if _waits(call) or call in copied}
    long = {call for call in calls if call.end_ns - call.start_ns >= LONG_CALL_NS} - waits
    return {device: dict(_of_device(device, devices, waits, long)) for device in devices}


def _waits(call: Call) -> bool:
    if BLOCKING_COPY.match(call.name):
        return not any(word in call.name for word in ("Async", "DtoD", "Peer"))
    return "Synchronize" in call.name and call.name.startswith(("cu", "hip", "hsa_")) and "Launch" not in call.name


def _of_device(device: str, devices: dict[str, list[Work]], waits: set[Call], long: set[Call]) -> Counter[str]:
    ops = sorted(devices[device], key=lambda op: (op.start_ns, op.end_ns))
    pauses = _pauses(ops, waits)
    dry = _followed_by_a_dry_pause(ops, pauses)
    changes = _changes(ops, waits, long)
    for other, rows in devices.items():
        if other != device:
            _count(changes, "elsewhere", [(op.start_ns, op.end_ns) for op in rows])
    for pause in pauses:  # each begins and ends a segment
        for at in (pause.start_ns, pause.launched_ns, pause.returned_ns, pause.end_ns):
            changes[at]["nothing"] += 0
    found: Counter[str] = Counter()
    now: Counter[Any] = Counter()
    instants = sorted(changes)
    following = iter(pauses)
    pause = next(following, None)
    stretch: list[Any] = ["", 0]
    for at, then in zip(instants, [*instants[1:], instants[-1]], strict=True):
        now.update(changes[at])
        if pause is None or at < pause.start_ns:
            continue
        label = _label(now, at, pause, pause.end_ns in dry)
        if label != stretch[0]:
            _close(found, stretch, pause)
            stretch[:] = [label, 0]
        stretch[1] += then - at
        if then == pause.end_ns:
            _close(found, stretch, pause)
            stretch[:] = ["", 0]
            pause = next(following, None)
    return found


def _pauses(ops: list[Work], waits: set[Call]) -> list[Pause]:
    orphans = _launched_before_the_record(ops)
    with_length = [op for op in ops if op.end_ns > op.start_ns]
    found, reached = [], ops[0].start_ns
    for start_ns, together in groupby(with_length, key=lambda op: op.start_ns):
        at_once = list(together)
        if start_ns > reached:
            first = min(at_once, key=lambda op: op.launch.start_ns if op.launch else op.start_ns)
            found.append(_pause(reached, start_ns, first, orphan=first in orphans, copies=first.launch in waits))
        reached = max(reached, *(op.end_ns for op in at_once))
    return found


def _pause(start_ns: int, end_ns: int, op: Work, *, orphan: bool, copies: bool) -> Pause:
    if op.launch is None:
        return Pause(start_ns, end_ns, None, orphan, start_ns, start_ns, copies=False)
    launched_ns = min(max(op.launch.start_ns, start_ns), end_ns)
    returned_ns = min(max(op.launch.end_ns, launched_ns), end_ns)
    return Pause(start_ns, end_ns, op.launch, True, launched_ns, returned_ns, copies)


def _launched_before_the_record(ops: list[Work]) -> set[Work]:
    """Ops without a launch that start before the first one with a launch, of their stream or else of the device."""
    first: dict[str, int] = {}
    for op in ops:
        if op.launch:
            first.setdefault(op.stream, op.start_ns)
    on_device = min(first.values(), default=None)
    found = set()
    for op in ops:
        until = first.get(op.stream, on_device)
        if op.launch is None and until is not None and op.start_ns < until:
            found.add(op)
    return found


def _followed_by_a_dry_pause(ops: list[Work], pauses: list[Pause]) -> set[int]:
    """The starts of ops after which the device runs dry, with nothing launched of what ends the next pause."""
    starts = [op.start_ns for op in ops]
    return {starts[bisect_left(starts, p.start_ns) - 1] for p in pauses if p.launched_ns > p.start_ns}


def _changes(ops: list[Work], waits: set[Call], long: set[Call]) -> dict[int, Counter[Any]]:
    """What begins (+1) and ends (-1) at each instant."""
    changes: dict[int, Counter[Any]] = defaultdict(Counter)
    before_ns = min(op.start_ns for op in ops) - 1
    orphans = _launched_before_the_record(ops)
    for op in ops:
        if op.launch:
            called = min(op.launch.start_ns, op.start_ns)
            back = min(max(op.launch.end_ns, called), op.start_ns)
            _count(changes, "pending", [(called, op.start_ns)])
            _count(changes, "arrived", [(back, op.start_ns)])
            if op.launch in long:
                _count(changes, "holding", [(called, back)])
            _count(changes, "copying" if op.launch in waits else "calling", [(called, back)])
        elif op in orphans:
            _count(changes, "pending", [(before_ns, op.start_ns)])
            _count(changes, "arrived", [(before_ns, op.start_ns)])
    _count(changes, "waiting", [(call.start_ns, call.end_ns) for call in waits])
    for call in long:
        _count(changes, ("long", call.thread), [(call.start_ns, call.end_ns)])
    return changes


def _count(changes: dict[int, Counter[Any]], what: Any, spans: list[tuple[int, int]]) -> None:
    for start_ns, end_ns in spans:
        if end_ns > start_ns:
            changes[start_ns][what] += 1
            changes[end_ns][what] -= 1


def _label(now: Counter[Any], at: int, pause: Pause, runs_dry: bool) -> str:
    """The cause of a segment, or the kind of stretch that it belongs to."""
    if not now["pending"] and pause.known:
        if now["waiting"]:
            return "other_device" if now["elsewhere"] else "blocked"
        return "in_call" if pause.launch and now["long", pause.launch.thread] else "in_python"
    if pause.copies and pause.launched_ns <= at < pause.returned_ns:
        return "blocked"
    if now["holding"] and not now["arrived"] and not now["copying"]:
        return "in_call"
    if at < pause.launched_ns:
        return "launching" if now["calling"] and not now["arrived"] else "others"
    if pause.known and pause.launched_ns > pause.start_ns and runs_dry and not now["waiting"]:
        return "one_by_one"
    return "launching" if at < pause.returned_ns else "own"


def _close(found: Counter[str], stretch: list[Any], pause: Pause) -> None:
    label, length_ns = stretch
    if label in ("own", "others"):
        queued = label == "own" and pause.launched_ns == pause.start_ns
        short = length_ns < LAUNCH_NS and pause.known
        label = ("between_ops" if queued else "launching") if short else "unexplained"
    if length_ns:
        found[label] += length_ns
