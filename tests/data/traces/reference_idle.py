"""What idle devices of a recorded trace waited for, in whole nanoseconds, by going from instant to instant.

    python tests/data/traces/reference_idle.py TRACE.json.gz ... > expected_idle.json

Nothing of perfmagic is used, and nothing outside the standard library but the reading of reference_sweep.py beside it.
All instants at which anything begins or ends cut the idle time of a device into pieces; each piece has one cause:

nothing of the device is launched and not started:
    blocked        a thread is in a synchronising call, or in a copy that holds its thread
    other_device   the same, while another device executes
    in_call        the thread that launches what ends the gap is in a call of 50 µs or longer
    in_python      else
something is:
    blocked        the call of a copy that holds its thread has not begun to copy
    in_call        a launch of 50 µs or longer has not returned, nor its op started
    in_python      the gap began with nothing of what ends it launched, another such gap follows the op, no thread waits
    launching      a shorter launch has not returned, nor its op started
    launching, between_ops, unexplained   what is left, by stretches: below 10 µs the first, or the second where what
                   ends the gap was launched before it; else, and where the launch is not recorded, the third

Traces with recorded waits of one stream for another are not for this script.
"""

from __future__ import annotations

import bisect
import gzip
import itertools
import json
import re
import sys
from collections import Counter, defaultdict
from pathlib import Path
from typing import Any, NamedTuple

from reference_sweep import CALLS, COPIES, KERNELS, MEMSETS, Spans, _span_ns, union

LONG_NS, SOON_NS = 50_000, 10_000
HOLDS = re.compile(r"(?:cuda|hip|cu)Memcpy(?!.*(?:Async|DtoD|Peer))")


class Call(NamedTuple):
    """A runtime or driver call, in ns."""

    start_ns: int
    end_ns: int
    name: str
    thread: Any


class Op(NamedTuple):
    """A device op, in ns. call: None where it is not recorded.  early: launched before the record began."""

    start_ns: int
    end_ns: int
    stream: str
    name: str
    call: Call | None
    early: bool = False

    @property
    def launched_ns(self) -> int:
        return -(2**62) if self.early else self.call.start_ns if self.call else 2**62


def idle(path: Path) -> dict[str, dict[str, int]]:
    """The idle time of every device of a file by cause."""
    opener = gzip.open if path.read_bytes()[:2] == b"\x1f\x8b" else open
    with opener(path, "rt", encoding="utf-8", errors="replace") as file:
        whole = json.load(file, parse_float=str)
    events = [e for e in (whole if isinstance(whole, list) else whole["traceEvents"]) if e.get("ph") == "X"]
    calls, launches, rows = [], {}, defaultdict(list)
    for event in events:
        args = event.get("args") or {}
        if event.get("cat") in CALLS:
            call = Call(*_span_ns(event), event["name"], (event.get("pid"), event.get("tid")))
            calls.append(call)
            if args.get("correlation") is not None:
                launches.setdefault(args["correlation"], call)
        elif event.get("cat") in KERNELS | COPIES | MEMSETS:
            rows[str(event.get("pid"))].append((event, args.get("correlation")))
    devices = {device: _ops(found, launches) for device, found in sorted(rows.items())}
    held = {op.call for ops in devices.values() for op in ops if op.call and "pageable" in op.name.lower()}
    held |= {call for call in calls if HOLDS.match(call.name)}
    waits = union((c.start_ns, c.end_ns) for c in calls if "Synchronize" in c.name or c in held)
    long = [c for c in calls if c.end_ns - c.start_ns >= LONG_NS and "Synchronize" not in c.name and c not in held]
    busy = {device: union((op.start_ns, op.end_ns) for op in ops) for device, ops in devices.items()}
    found = {}
    for device, ops in devices.items():
        others = union(span for other, spans in busy.items() if other != device for span in spans)
        found[device] = dict(sorted(_causes(ops, busy[device], waits, others, held, long).items()))
    return found


def _ops(rows: list[tuple[dict[str, Any], Any]], launches: dict[Any, Call]) -> list[Op]:
    """The ops of a device by start, with those marked that come before the first with a launch on their stream."""
    ops = sorted(Op(*_span_ns(e), str(e.get("tid")), e["name"], launches.get(key)) for e, key in rows)
    matched = [op for op in ops if op.call]
    first: dict[str, int] = {}
    for op in matched:
        first.setdefault(op.stream, op.start_ns)
    any_first = matched[0].start_ns if matched else -(2**62)
    return [op._replace(early=not op.call and op.start_ns < first.get(op.stream, any_first)) for op in ops]


def _causes(ops: list[Op], busy: Spans, waits: Spans, others: Spans, held: set[Call], long: list[Call]) -> Counter[str]:
    sums: Counter[str] = Counter()
    queued = union((op.launched_ns, op.start_ns) for op in ops if op.launched_ns < op.start_ns)
    copying, slow, short = [], [], []
    longs = set(long)
    for op in ops:
        if op.call:
            kind = copying if op.call in held else slow if op.call in longs else short
            kind.append((op.call.start_ns, min(op.call.end_ns, op.start_ns)))
    in_launch = {"blocked": union(copying), "in_call": union(slow), "launching": union(short)}
    by_thread: dict[Any, list[tuple[int, int]]] = defaultdict(list)
    for call in long:
        by_thread[call.thread].append((call.start_ns, call.end_ns))
    calls = {thread: union(spans) for thread, spans in by_thread.items()}
    gaps = [(a[1], b[0]) for a, b in itertools.pairwise(busy)]
    ends = [_ending(ops, end) for _, end in gaps]
    starts = [op.start_ns for op in ops]
    dry = [start for (start, end), op in zip(gaps, ends, strict=False) if min(op.launched_ns, end) > start and op.call]
    before_dry = {starts[max(bisect.bisect_left(starts, at) - 1, 0)] for at in dry}
    for (start, end), op in zip(gaps, ends, strict=False):
        mine = calls.get(op.call.thread, []) if op.call else []
        sets = {"queued": queued, "waits": waits, "others": others, "mine": mine, **in_launch}
        late = bool(op.call) and op.launched_ns > start and end in before_dry
        rest_ns = 0  # of the stretch that nothing but the way of an op explains, up to here
        known = bool(op.call) or op.early
        for low, high in _pieces(start, end, sets, op):
            inside = {name for name, spans in sets.items() if _holds(spans, low)}
            pending = "queued" in inside or op.launched_ns <= low or not known
            cause = _cause(inside, pending=pending, late=late and op.launched_ns <= low)
            if cause:
                sums[cause] += high - low
            if cause and rest_ns:
                sums[_rest(rest_ns, known, op.launched_ns <= start)] += rest_ns
            rest_ns = 0 if cause else rest_ns + high - low
        if rest_ns:
            sums[_rest(rest_ns, known, op.launched_ns <= start)] += rest_ns
    return sums


def _ending(ops: list[Op], at_ns: int) -> Op:
    """The op that ends a gap: one with a length, launched first."""
    row = bisect.bisect_left(ops, at_ns, key=lambda op: op.start_ns)
    there = []
    while row < len(ops) and ops[row].start_ns == at_ns:
        there.append(ops[row])
        row += 1
    return min(there, key=lambda op: (op.end_ns == op.start_ns, op.call.start_ns if op.call else op.start_ns))


def _pieces(start: int, end: int, sets: dict[str, Spans], op: Op) -> list[tuple[int, int]]:
    cuts = {start, end, min(max(op.launched_ns, start), end)}
    for spans in sets.values():
        row = max(bisect.bisect_left(spans, (start,)) - 1, 0)
        while row < len(spans) and spans[row][0] < end:
            cuts.update(at for at in spans[row] if start < at < end)
            row += 1
    ordered = sorted(cuts)
    return list(itertools.pairwise(ordered))


def _holds(spans: Spans, at_ns: int) -> bool:
    row = bisect.bisect_right(spans, (at_ns, 2**63)) - 1
    return row >= 0 and spans[row][1] > at_ns


def _cause(inside: set[str], *, pending: bool, late: bool) -> str:
    """The cause of a piece, "" for what the length of the stretch decides."""
    if not pending:
        if "waits" in inside:
            return "other_device" if "others" in inside else "blocked"
        return "in_call" if "mine" in inside else "in_python"
    if "blocked" in inside:
        return "blocked"
    if "in_call" in inside:
        return "in_call"
    if late and "waits" not in inside:
        return "in_python"
    return "launching" if "launching" in inside else ""


def _rest(length_ns: int, known: bool, was_queued: bool) -> str:
    if not known or length_ns >= SOON_NS:
        return "unexplained"
    return "between_ops" if was_queued else "launching"


if __name__ == "__main__":
    print(json.dumps({Path(name).name.split(".json")[0]: idle(Path(name)) for name in sys.argv[1:]}, indent=1))
