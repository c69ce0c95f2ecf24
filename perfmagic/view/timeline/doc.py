"""A timeline as a document: everything that renderers draw, immutable and without pixels."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import numpy as np

from perfmagic.analysis.findings.answer import Answers
from perfmagic.analysis.findings.finding import Finding
from perfmagic.analysis.replay.critical_path import PathShare
from perfmagic.analysis.replay.prediction import drawn_path, path_shares
from perfmagic.analysis.timeline.activity import syncs
from perfmagic.analysis.verdict import NO_VERDICT
from perfmagic.base import units
from perfmagic.base.language import counted, phrase, say, translate_term, translated
from perfmagic.base.terminal import ALARM
from perfmagic.trace.columns import NONE
from perfmagic.trace.model import LaunchShape, Trace
from perfmagic.trace.names import shown_names
from perfmagic.view.timeline.lanes import CellLane, DeviceGroup, Flag, HostOpsLane, LaunchLane, PathLane, Share
from perfmagic.view.timeline.summary import DeviceTotals, TimelineSummary, _of_record, choose_window, summarise
from perfmagic.view.timeline.trace_lanes import cell_lane, device_group, host_ops_lanes, launch_lane

# The critical path as every renderer shows it: one bar, and the same in words.

TITLE = "critical path"
WORDS = 4  # kinds that a line of text names
# the colour of each kind; other kinds, neither Python's nor a device's, get "rule"
_TOKENS = {
    "Python": "host1",
    "launches and calls": "launch",
    "matrix kernels": "matrix",
    "other kernels": "comp",
    "communication": "comm",
    "HtoD copies": "htod",
    "DtoH copies": "dtoh",
    "DtoD copies": "dtod",
    "PtoP copies": "dtod",
    "memsets": "memset",
    "unexplained": "idle",
}


def critical_path_shares(trace: Trace, comm_names: str | None = None) -> tuple[Share, ...]:
    """The kinds of the path by length, with their colours; empty if the record has no path."""
    return as_shares(path_shares(trace, comm_names))


def path_lane(trace: Trace, comm_names: str | None = None) -> PathLane | None:
    """The path over time, neighbours of one kind on one stream joined; None if the record has no path."""
    path = drawn_path(trace, comm_names)
    if path is None or not len(path):
        return None
    # neighbouring parts may belong to two ops of one stream: to a reader they are one part
    device = np.where(path.op == NONE, NONE, trace.ops.device[path.op])
    stream = np.where(path.op == NONE, NONE, trace.ops.stream[path.op])
    key = np.column_stack((path.share, device, stream))
    first = np.concatenate(([True], (key[1:] != key[:-1]).any(axis=1)))
    begins = np.flatnonzero(first)
    end_ns = path.end_ns[np.append(begins[1:], len(key)) - 1]
    return PathLane(path.start_ns[begins], end_ns, path.share[begins], path.op[begins])


def as_shares(path: Sequence[PathShare]) -> tuple[Share, ...]:
    """Parts of a path with their colours."""
    return tuple(Share(share.words, share.ns, _TOKENS.get(share.name, "rule")) for share in path)


def describe_path(shares: Sequence[Share]) -> str:
    """The path in a line: "critical path: Python 57 %, other kernels 40 %"; "" without one."""
    run_ns = sum(share.ns for share in shares)
    if not run_ns:
        return ""
    named = [f"{translate_term(share.name)} {units.percent(share.ns / run_ns)}" for share in shares[:WORDS]]
    return say("{a}: {b}", a=phrase(TITLE), b=say(", ").join(named))


FEW_OPS = 64  # a picture of this many ops or fewer can be read op by op


@dataclass(frozen=True, eq=False)
class TimelineDoc(TimelineSummary):
    """What was queued and what was executed, ready to be drawn.

    groups: one per device.  names: as people read them, by their number in the trace.  cell: None without line marks.
    threads: operators in flame order.  returned_ns: when the cell's last line returned, None for files.  path: what the
    critical path of the whole run consists of, empty without one.  path_lane: the path over time, or None.
    answers: what the bottleneck is and what to do, None if not asked for.
    """

    groups: tuple[DeviceGroup, ...]
    names: tuple[str, ...]
    cell: CellLane | None
    threads: tuple[HostOpsLane, ...]
    launches: LaunchLane | None
    flags: tuple[Flag, ...]
    returned_ns: int | None
    origin: str
    path: tuple[Share, ...] = ()
    path_lane: PathLane | None = None
    answers: Answers | None = None

    @property
    def span_ns(self) -> int:
        return self.end_ns - self.start_ns

    @property
    def predicted(self) -> bool:
        """Whether a model gave its times."""
        return self.header.rough

    @property
    def few_ops(self) -> bool:
        return 0 < self.header.n_ops <= FEW_OPS


def timeline_doc(
    trace: Trace,
    findings: Sequence[Finding],
    answers: Answers | None = None,
    *,
    device: int | None = None,
    start_ns: int | None = None,
    end_ns: int | None = None,
    comm_names: str | None = None,
) -> TimelineDoc:
    """What a timeline of a trace shows.

    findings, answers: from perfmagic.analysis.findings.  device: only this one; all by default.

    start_ns, end_ns: the window; the trace's own by default, widened to hold every device op.
    comm_names: a regular expression that says which kernels are communication, None for the default rule.
    """
    (start, end), whole = choose_window(trace, start_ns, end_ns), (start_ns, end_ns) == (None, None)
    devices = [d for d in trace.device_ids if device is None or d == device]
    groups = tuple(device_group(trace, d, start, end, comm_names) for d in devices)
    here = [f for f in findings if device is None or f.device in (None, NONE, device)]
    totals = [_of_record(trace, g.device, (start, end), comm_names) if whole else _of_group(g) for g in groups]
    head = summarise(trace, here, (start, end), totals, comm_names, whole=whole)
    return TimelineDoc(
        **{name: getattr(head, name) for name in TimelineSummary.__match_args__},
        groups=groups,
        names=shown_names(trace),
        cell=cell_lane(trace, start, end),
        threads=host_ops_lanes(trace, start, end),
        launches=launch_lane(trace, syncs(trace), start, end),
        flags=_find_flags(trace, groups),
        returned_ns=trace.meta.returned_ns,
        origin=trace.meta.origin,
        path=critical_path_shares(trace, comm_names) if whole else (),
        path_lane=path_lane(trace, comm_names) if whole else None,
        answers=answers,
    )


def _of_group(group: DeviceGroup) -> DeviceTotals:
    peak = group.memory.peak_bytes if group.memory is not None else 0
    n_streams = len(group.streams) + group.n_folded
    return DeviceTotals(group.device, group.n_ops, group.busy_ns, group.busy_frac, n_streams, group.queue_max, peak)


def _find_flags(trace: Trace, groups: tuple[DeviceGroup, ...]) -> tuple[Flag, ...]:
    """The two moments of a small cell: Python had queued everything, the device had done everything."""
    launched = trace.ops.launch != NONE
    n_ops = sum(g.n_ops for g in groups)
    if trace.meta.returned_ns is None or not launched.any() or not 0 < n_ops <= FEW_OPS:
        return ()
    queued_ns = int(trace.launch_end_ns(launched).max())
    finished_ns = int(trace.ops.end_ns.max())
    return Flag(queued_ns, "Python has queued everything"), Flag(finished_ns, "the device has finished")


# The sentences of a timeline, put together once for text, HTML and SVG.

AT_ONCE = 6  # findings that are shown at first; the others unfold, or are counted
MAX_ALT = 400  # characters; only long names from a file make it longer


def alt_text(doc: TimelineDoc) -> str:
    """The picture in one sentence, for people who cannot see it."""
    first, *parts = translated(doc.header.parts)
    if doc.launches is not None and len(doc.launches.blocked_start_ns):
        blocked_ns = int((doc.launches.blocked_end_ns - doc.launches.blocked_start_ns).sum())
        parts.append(say("Python blocked {time}", time=units.duration(blocked_ns)))
    if doc.failure:
        parts.append(translated(doc.failure))
    sentence = say("Timeline of {time}: {rest}", time=first, rest=say(", ").join(parts))
    return sentence if len(sentence) <= MAX_ALT else sentence[: MAX_ALT - 1] + "…"


def describe_shape(shape: LaunchShape) -> tuple[str, str]:
    """A launch shape in two parts: "4,096 × 8 blocks" and "of 256 threads, 48 registers, 16.4 kB shared"."""
    grid, block = _trim_dimensions(shape.grid), _trim_dimensions(shape.block)
    parts = [say("of {n} threads", n=block)]
    parts += [say("{n} registers", n=units.count(shape.registers))] if shape.registers else []
    parts += [say("{size} shared", size=units.size(shape.shared_bytes))] if shape.shared_bytes else []
    blocks = say("{n} block", n=grid) if grid == "1" else say("{n} blocks", n=grid)
    return blocks, say(", ").join(parts)


def _trim_dimensions(dimensions: tuple[int, int, int]) -> str:
    """The dimensions up to the last that is not 1."""
    last = max((i for i, n in enumerate(dimensions) if n > 1), default=0)
    return " × ".join(units.count(n) for n in dimensions[: last + 1])


def describe_cost(finding: Finding, busy_frac: float) -> str:
    """The left column of a finding: "race", the time that could be saved, "no time lost", or "" if not known.

    That time is what its change gains, if predicted, with "≤" for a bound; else what it cost.

    A verdict with nothing to save shows how busy the device is: busy_frac, as in the first line.
    """
    if finding.is_wrong:
        return translate_term(ALARM)
    if finding.gain_ns is not None and finding.won_ns is not None and finding.gain_text:
        bound = "≤ " if finding.won_ns and finding.at_most else ""
        return f"{bound}{units.duration(finding.won_ns)}" if finding.won_ns else say("saves ≈ 0")
    if finding.cost_ns is None:
        has_share = finding.rule == "verdict" and finding.cause != NO_VERDICT
        return say("{share} busy", share=units.percent(busy_frac)) if busy_frac and has_share else ""
    return units.duration(finding.cost_ns) if finding.cost_ns else say("no time lost")


def describe_trust(doc: TimelineDoc) -> tuple[str, tuple[str, ...]]:
    """The fine print: its one line, and the sentences behind "more", none if the line holds all."""
    first, *more = translated(doc.trust) or ("",)
    n_more = counted(len(more), "{n} more note", "{n} more notes")
    return (f"{first} · {translated(n_more)}" if more else first), tuple(more)


# What a person sees and has selected of a timeline, shared by the object in Python and every live view of it.

Window = tuple[int, int]  # ns of the trace


@dataclass(frozen=True)
class Seen:
    """One state.  asked: the window that Python wants shown.  view, selection: as views report.  name, line: marked."""

    asked: Window | None = None
    view: Window | None = None
    selection: Window | None = None
    name: str = ""
    line: int = 0


class ViewState:
    """The current state, and who listens to changes that Python makes."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._seen = Seen()
        self._listeners: list[Callable[[Seen], None]] = []

    @property
    def seen(self) -> Seen:
        with self._lock:
            return self._seen

    def ask(self, window: Window) -> None:
        """Python wants this window shown."""
        self._change(asked=window)

    def mark(self, name: str, line: int) -> None:
        """Python wants these slices marked, nothing for "" and 0."""
        self._change(name=name, line=line)

    def report(self, view: Window | None, selection: Window | None) -> None:
        """A view reports what it shows; no listener is called."""
        with self._lock:
            self._seen = replace(self._seen, view=view, selection=selection)

    def listen(self, listener: Callable[[Seen], None]) -> Callable[[], None]:
        """Call `listener` on every change that Python makes; returns what ends it."""
        with self._lock:
            self._listeners.append(listener)

        def stop() -> None:
            with self._lock:
                if listener in self._listeners:
                    self._listeners.remove(listener)

        return stop

    def _change(self, **changes: object) -> None:
        with self._lock:
            self._seen = replace(self._seen, **changes)  # type: ignore[arg-type]  # the callers above name fields
            seen, listeners = self._seen, tuple(self._listeners)
        for listener in listeners:
            listener(seen)
