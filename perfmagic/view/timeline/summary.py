"""What a few lines of text say about a timeline: how long it took and on what, who decides, and what to do."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np

from perfmagic.analysis.findings.answer import Answers
from perfmagic.analysis.findings.catalogue import HEADLINES
from perfmagic.analysis.findings.facts import ITS_EXTENT, THE_CELL
from perfmagic.analysis.findings.finding import Finding
from perfmagic.analysis.replay.prediction import corners, full_trust
from perfmagic.analysis.timeline.activity import memory_curve, streams
from perfmagic.analysis.timeline.host_time import STEP_NAME
from perfmagic.analysis.timeline.overlap import breakdown
from perfmagic.analysis.timeline.queueing import queues
from perfmagic.analysis.timeline.trust import COUNTS
from perfmagic.analysis.verdict import STALLED
from perfmagic.base import units
from perfmagic.base.language import counted, phrase, say, translate_term, translated
from perfmagic.base.terminal import wrapped
from perfmagic.trace.columns import HostKind
from perfmagic.trace.model import Trace, devices_label
from perfmagic.trace.names import unknown_operators


@dataclass(frozen=True)
class Header:
    """The first line of a timeline.

    total_ns: the window drawn.  device_label: what ran; a simulated device says so, and its pace.  n_ops: device ops.
    n_host_ops: operators on the host.  busy_frac: how busy the device was, of several the busiest.  busy_of: what that
    is a share of, "the cell" or, for a file, "its extent".  whole_frac: its share of the window drawn.  n_devices:
    those that executed ops.  queue_max: the deepest queue.  memory_peak: the most bytes allocated on one device, 0 if
    not recorded.  n_steps: marked training steps.  interval: between what a predicted run takes; "" for others.
    at_least: whether some of it has no model, so that all times are lower bounds.
    predicted: whether times are a model's or a replay's.  rough: whether a model's, known to two digits.
    """

    total_ns: int
    device_label: str
    n_ops: int
    n_host_ops: int
    busy_frac: float
    busy_of: str
    whole_frac: float
    n_devices: int
    queue_max: int
    simulated: bool
    memory_peak: int = 0
    n_steps: int = 0
    interval: str = ""
    at_least: bool = False
    predicted: bool = False
    rough: bool = False

    @property
    def total(self) -> str:
        """How long it took, or takes at least."""
        return f"≥ {units.duration(self.total_ns)}" if self.at_least else units.duration(self.total_ns)

    @property
    def parts(self) -> tuple[str, ...]:
        """The line in pieces, the total first."""
        if not self.n_ops:
            return (
                self.total,
                self.device_label,
                counted(self.n_host_ops, "{n} operator", "{n} operators"),
            )
        return (
            self.total,
            self.device_label,
            *([self.interval] if self.interval else []),
            counted(self.n_ops, "{n} device op", "{n} device ops"),
            self.busy,
            phrase("queue ≤ {n}", n=units.count(self.queue_max)),
            *([phrase("peak {size}", size=units.size(self.memory_peak))] if self.memory_peak else []),
        )

    @property
    def about(self) -> str:
        """The line without the total: what was recorded, in the language in force."""
        steps = phrase("times cover all {n} steps", n=units.count(self.n_steps))
        return " · ".join(translated((*self.parts[1:], *([steps] if self.n_steps > 1 else []))))

    @property
    def busy(self) -> str:
        """How busy, and of what: "busy 96 % of the cell"; for a file "busy 50 % of the record, 96 % of its extent"."""
        at_least = "≥ " if self.at_least else ""
        share, whole = (f"{at_least}{units.percent(frac)}" for frac in (self.busy_frac, self.whole_frac))
        of_file = self.busy_of == ITS_EXTENT
        if of_file and share != whole:
            both = phrase("{whole} of the record, {share} of its extent", whole=whole, share=share)
        else:
            both = phrase("{share} of {what}", share=share, what=phrase("the record") if of_file else self.busy_of)
        several = self.n_devices > 1
        return phrase("busiest device busy {shares}", shares=both) if several else phrase("busy {shares}", shares=both)

    @property
    def sentence(self) -> str:
        return " · ".join(self.parts)


@dataclass(frozen=True, eq=False)
class TimelineSummary:
    """What a few lines of text say about a timeline.

    start_ns, end_ns: the window.  n_streams: of all devices.  trust: how far the record can be trusted, in sentences,
    with notes of the capture.  failure: "" or how the cell ended.
    """

    start_ns: int
    end_ns: int
    header: Header
    findings: tuple[Finding, ...]
    n_streams: int
    trust: tuple[str, ...]
    failure: str


def timeline_summary(trace: Trace, findings: Sequence[Finding], comm_names: str | None = None) -> TimelineSummary:
    """The part of a whole timeline_doc that a text without details shows; no lane is laid out for it."""
    window = choose_window(trace, None, None)
    totals = [_of_record(trace, device, window, comm_names) for device in trace.device_ids]
    return summarise(trace, findings, window, totals, comm_names, whole=True)


class DeviceTotals(NamedTuple):
    """What the first line says of a device."""

    device: int
    n_ops: int
    busy_ns: int
    busy_frac: float
    n_streams: int
    queue_max: int
    memory_peak: int


def _of_record(trace: Trace, device: int, window: tuple[int, int], comm_names: str | None) -> DeviceTotals:
    """The same numbers of the whole record, without lanes."""
    parts, memory = breakdown(trace, device, comm_names), memory_curve(trace, device)
    whole_ns = parts.extent_ns if trace.meta.returned_ns is None else window[1] - window[0]
    return DeviceTotals(
        device,
        parts.n_ops,
        parts.busy_ns,
        parts.busy_ns / whole_ns if whole_ns else 0.0,
        len(streams(trace, device)),
        max((queue.ops_max for queue in queues(trace, device)), default=0),
        memory.peak_bytes if memory is not None else 0,
    )


def summarise(
    trace: Trace,
    findings: Sequence[Finding],
    window: tuple[int, int],
    totals: Sequence[DeviceTotals],
    comm_names: str | None,
    *,
    whole: bool,
) -> TimelineSummary:
    """The summary of a window.  whole: it is all of the trace."""
    header = _build_header(trace, totals, *window)
    return TimelineSummary(
        start_ns=window[0],
        end_ns=window[1],
        header=_with_interval(header, trace, totals, comm_names, whole=whole),
        findings=tuple(findings),
        n_streams=sum(total.n_streams for total in totals),
        trust=full_trust(trace, comm_names).sentences,
        failure=_describe_failure(trace),
    )


def choose_window(trace: Trace, start_ns: int | None, end_ns: int | None) -> tuple[int, int]:
    """The requested window; by default the trace's own, widened to all device ops, at least 1 ns long."""
    ops = trace.ops
    start = int(ops.start_ns.min(initial=trace.meta.start_ns)) if start_ns is None else start_ns
    # the window is half-open: it must hold a last op of no length, too
    last = max(int(ops.end_ns.max(initial=trace.meta.end_ns)), int(ops.start_ns.max(initial=start)) + 1)
    end = last if end_ns is None else end_ns
    return start, max(end, start + 1)


def _build_header(trace: Trace, totals: Sequence[DeviceTotals], start_ns: int, end_ns: int) -> Header:
    host = trace.host_ops
    seen = (host.end_ns > start_ns) & (host.start_ns < end_ns)
    marks = np.unique(host.name[seen & (host.kind == HostKind.ANNOTATION)])
    busiest = max(totals, key=lambda total: total.busy_ns, default=None)
    return Header(
        total_ns=end_ns - start_ns,
        device_label=_label_devices(trace, totals),
        n_ops=sum(total.n_ops for total in totals),
        n_host_ops=int(np.count_nonzero(seen & (host.kind == HostKind.OP))),
        busy_frac=busiest.busy_frac if busiest else 0.0,
        whole_frac=busiest.busy_ns / (end_ns - start_ns) if busiest else 0.0,
        busy_of=ITS_EXTENT if trace.meta.returned_ns is None else THE_CELL,
        n_devices=len(totals),
        queue_max=max((total.queue_max for total in totals), default=0),
        simulated=trace.simulated,
        predicted=trace.predicted or bool(trace.meta.predicted),
        rough=trace.predicted,
        n_steps=sum(trace.names[name].startswith(STEP_NAME) for name in marks),
        memory_peak=max((total.memory_peak for total in totals), default=0),
    )


def _with_interval(
    header: Header, trace: Trace, totals: Sequence[DeviceTotals], comm_names: str | None, *, whole: bool
) -> Header:
    """The first line with what is not known of a predicted run.  whole: all of it is drawn."""
    if not trace.predicted or not totals:
        return header
    busiest = max(totals, key=lambda total: total.busy_ns).device
    ends, at_least = corners(trace, busiest, comm_names) if whole else None, bool(unknown_operators(trace))
    return replace(header, interval=ends.words if ends and not at_least else "", at_least=at_least)


def _label_devices(trace: Trace, totals: Sequence[DeviceTotals]) -> str:
    infos = [trace.device_info(total.device) for total in totals] or trace.meta.devices
    none = phrase("no device recorded") if trace.meta.returned_ns is None else phrase("no device")
    label = devices_label(infos) or none
    if not trace.meta.predicted or trace.predicted:
        return label
    return phrase("predicted, not recorded: {label}", label=label)


def _describe_failure(trace: Trace) -> str:
    meta = trace.meta
    if not meta.failed:
        return ""
    after_ns = (meta.end_ns if meta.returned_ns is None else meta.returned_ns) - meta.start_ns
    return phrase("the cell failed after {time}: {error}", time=units.duration(after_ns), error=meta.failed)


# The summary as text.


def answers_text(doc: TimelineSummary, answers: Answers, details: str, below: Sequence[str] = ()) -> str:
    """Who decides, what was recorded, what to do, and where the rest is.

    details: how to see all.  below: lines of functions that were asked for.
    """
    lines = [answers.text(doc.header.about)]
    lines += wrapped(translated(doc.failure)) if doc.failure else []
    note = doc.trust[0] if doc.trust else ""
    if note and not any(_says(warning, note) for warning in answers.warnings):
        shown = translated(note)
        lines += wrapped(f"  ! {shown[:1].upper()}{shown[1:]}", indent=4)
    first = f"{translate_term(doc.findings[0].cause)}{describe_rest(doc.findings[0])}" if doc.findings else ""
    if only := only_sentence(first, translated(answers)):
        lines += wrapped(f"  {only}", indent=2)
    n_findings, n_streams = len(doc.findings), doc.n_streams
    parts = [counted(n_findings, "{n} finding", "{n} findings")] if n_findings else []
    parts += [counted(n_streams, "{n} stream", "{n} streams")] if n_streams else []
    parts += [phrase("notes")] if doc.trust else []
    lines += ["", *below, ""] if below else []
    listed = say(", ").join(translated(part) for part in parts)
    return "\n".join([*lines, f"  {details}: {listed}"])


def _says(warning: str, note: str) -> bool:
    """Whether a warning has what a note of the record says; earlier work is counted by both."""
    both_count = getattr(warning, "template", "") == HEADLINES["mid_flight"]
    return note.lower() in warning.lower() or (both_count and getattr(note, "template", "") in COUNTS["n_orphans"])


def describe_rest(finding: Finding) -> str:
    """What follows the cause: the detail, which begins with its own punctuation, and advice if it is certain."""
    return translated(finding.rest)


def only_sentence(first: str, answers: Answers) -> str:
    """The first finding's sentence if there is neither an answer nor a fact, and no warning says it; else ""."""
    cause, _, rest = first.partition(say(": "))
    reason = rest.partition(say(". "))[0]
    warned = any(
        warning.lower().startswith(cause.lower()) or (reason and reason in warning) for warning in answers.warnings
    )
    known = warned or cause == translate_term(STALLED)  # the decider says that the device was idle
    return "" if known or answers.answers or answers.also_seen else first
