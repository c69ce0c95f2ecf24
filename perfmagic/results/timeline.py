"""The result of %%timeline and %trace: the trace, its findings, and how they are shown."""

from __future__ import annotations

import json
import math
import os
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from functools import cached_property, partial
from numbers import Integral, Real
from pathlib import Path
from typing import TYPE_CHECKING, Any

from perfmagic.analysis.findings.answer import Answers
from perfmagic.analysis.findings.find import findings
from perfmagic.analysis.findings.finding import Finding
from perfmagic.analysis.findings.verdict import verdict
from perfmagic.analysis.replay.build import graph_of
from perfmagic.analysis.replay.changes.change import Change
from perfmagic.analysis.replay.critical_path import PathPart, critical_path
from perfmagic.analysis.replay.prediction import Readings, curve, full_trust, predict, unreadable
from perfmagic.analysis.timeline.activity import StreamStat, Sync, streams, sync_rows
from perfmagic.analysis.timeline.collectives import CollectiveStat, collectives, op_sizes
from perfmagic.analysis.timeline.copies import CopyStat, copies
from perfmagic.analysis.timeline.device_operators import (
    CategoryTime,
    DeviceOperator,
    RooflineData,
    category_times,
    device_operators,
    roofline_data,
)
from perfmagic.analysis.timeline.host_time import HostTime, python_during
from perfmagic.analysis.timeline.idle import IdleGap, gap_rows
from perfmagic.analysis.timeline.kernels import KernelStat, kernels
from perfmagic.analysis.timeline.lines import LineStat, followed_frames, function_lines, lines
from perfmagic.analysis.timeline.operators import AnnotationStat, OperatorStat, operators, user_annotations
from perfmagic.analysis.timeline.origin import launched_from
from perfmagic.analysis.timeline.overlap import ClassOverlap, breakdown, overlap_matrix
from perfmagic.analysis.timeline.phases import Phase, phases
from perfmagic.analysis.timeline.queueing import QueueStat, queues
from perfmagic.analysis.timeline.steps import Step, steps
from perfmagic.analysis.timeline.trust import Trust
from perfmagic.analysis.verdict import Verdict
from perfmagic.base import units
from perfmagic.base.errors import OptionError, TraceError
from perfmagic.base.files import write_text
from perfmagic.base.language import translated
from perfmagic.base.terminal import escaped
from perfmagic.predict.gpus import Peaks
from perfmagic.results.result import Result
from perfmagic.trace.model import Trace, devices_label, in_its_digits
from perfmagic.trace.names import unknown_operators
from perfmagic.trace.rows import Rows, RowT, pandas
from perfmagic.trace.window import window

if TYPE_CHECKING:
    import pandas as pd

    from perfmagic.results.briefs.form import Brief
    from perfmagic.results.flame import FlameResult
    from perfmagic.results.memory import MemoryResult
    from perfmagic.results.what_if import Curve, WhatIfResult
    from perfmagic.sim import Pace
    from perfmagic.view.timeline.doc import TimelineDoc, ViewState
    from perfmagic.view.timeline.lines.doc import LinesDoc
    from perfmagic.view.timeline.live_data import Wire
    from perfmagic.view.timeline.writers import LiveView


# The lines of a timeline: rows, shown as the source with what each line cost beside it.


class Lines(Rows[LineStat]):
    """Each line of the cell, then of the functions that it called, as `LineStat`.

    In a notebook it is the code with a picture; printed, the code with columns. `.in_function("Net.forward")` has the
    rows of one.
    """

    __slots__ = ("_doc",)

    def __init__(self, rows: Iterable[LineStat], doc: LinesDoc | None) -> None:
        super().__init__(rows, LineStat)
        self._doc = doc

    def in_function(self, name: str) -> Rows[LineStat]:
        """The lines of a function by its qualified name, "" for the cell. Raises OptionError where it did not run."""
        rows = [row for row in self if row.function == name]
        if not rows:
            known = ", ".join(dict.fromkeys(row.function for row in self if row.function)) or "none was followed"
            raise OptionError(f"no function {name!r} ran on a line of this record", hint=f"functions: {known}")
        return Rows(rows, LineStat).labelled(self.predicted)

    def __repr__(self) -> str:
        if self._doc is None:
            return super().__repr__()
        from perfmagic.view.timeline.text import lines_text

        label = [f"  {translated(self.predicted)}"] if self.predicted else []
        with units.rough_times(wanted=bool(label)):
            return "\n".join([*lines_text(self._doc), *label]).lstrip("\n")

    def _repr_html_(self) -> str:
        if self._doc is None:
            return super()._repr_html_()
        from perfmagic.view.html import framed, image
        from perfmagic.view.timeline.lines.picture import alt_text, lines_picture

        with units.rough_times(wanted=bool(self.predicted)):
            picture = image(lines_picture(self._doc), alt_text(self._doc))
        return framed(picture + (f"<div>{escaped(translated(self.predicted))}</div>" if self.predicted else ""))


# The roofline of a timeline: its numbers, as a result that can be shown.


@dataclass(frozen=True)
class RooflineResult(Result):
    """Where the operators of a device lie below what it can do at most. data: the numbers."""

    data: RooflineData

    def svg(self) -> str:
        """The picture alone."""
        from perfmagic.view.timeline.roofline import roofline_svg

        return roofline_svg(self.data)

    def text(self) -> str:
        """A line for each of the longest operators: what it achieved, of which peak, for how many operations a byte."""
        from perfmagic.view.timeline.roofline import roofline_text

        return roofline_text(self.data)

    def html(self) -> str:
        """The picture with its words."""
        from perfmagic.view.timeline.roofline import roofline_html

        return roofline_html(self.data)

    def _brief(self) -> Brief:
        from perfmagic.results.briefs.runs import roofline_brief

        return roofline_brief(self.data, self.text())


# Views, predictions and writers are imported where they are used: a script that reads numbers need not load them.


SAVED_AS = (".npz", ".json", ".json.gz")


if TYPE_CHECKING:
    _uncached = cached_property
else:

    class _uncached(cached_property):  # noqa: N801 - a decorator
        """A property that Tab evaluates, unlike all others: recomputed, as the language may change."""

        def __get__(self, instance: Any, owner: Any = None) -> Any:
            return self if instance is None else self.func(instance)


@dataclass(frozen=True, eq=False)
class TimelineResult(Result):
    """A recorded cell, block or trace file, with its findings.

    trace: the columns.  comm_names: a regular expression that says which kernels are communication, None for the
    default rule.  Times in the objects are int64 ns since the window's start.

    >>> t = perfmagic.open_trace("step.json.gz")
    >>> [(row.stream, row.n_ops) for row in t.streams()]
    [(7, 3435), (15, 14), (16, 24), (14, 48)]
    >>> t.save("step.npz").name
    'step.npz'
    >>> perfmagic.open_trace("step.npz").verdict.kind
    'device-bound'
    """

    trace: Trace
    comm_names: str | None = None
    title: str = field(default="")

    def __reduce__(self) -> tuple[type[TimelineResult], tuple[Trace, str | None, str]]:
        """Pickled without what the live views show: a copy in another process has views of its own."""
        return type(self), (self.trace, self.comm_names, self.title)

    @cached_property
    def view_state(self) -> ViewState:
        """What the live views show and have selected."""
        from perfmagic.view.timeline.doc import ViewState

        return ViewState()

    @property
    def selection(self) -> Trace | None:
        """What is selected in the live timeline, as a trace that every analysis takes; None where nothing is."""
        selected = self.view_state.seen.selection
        return None if selected is None or selected[1] <= selected[0] else window(self.trace, *selected)

    def zoom(self, start_ns: int, end_ns: int) -> None:
        """Show [start_ns, end_ns) in the live timeline; times of the trace, as in findings and tables."""
        self.view_state.ask(_window_ns("zoom", start_ns, end_ns))

    def highlight(self, name: str = "", *, line: int = 0) -> None:
        """Mark in the live timeline the slices whose name holds a text, or what a cell line queued; nothing clears."""
        if name and line:
            raise OptionError("highlight: a name or a line, not both")
        self.view_state.mark(name, line)

    @_uncached
    def findings(self) -> Rows[Finding]:
        """The verdict, then what time was lost to, the costliest first."""
        return self._labelled(Rows(translated(self._findings), Finding))

    @cached_property
    def _findings(self) -> tuple[Finding, ...]:
        return findings(self.trace, comm_names=self.comm_names)

    @_uncached
    def answers(self) -> Answers:
        """What to do about it: at most three answers, each with what the recorded run would take with it."""
        from perfmagic.analysis.findings.answers import find_answers

        return translated(find_answers(self.trace, self.comm_names))

    @cached_property
    def verdict(self) -> Verdict:
        """Who decides how long it takes: device-bound, host-bound or another kind of docs/verdict.md."""
        return verdict(self.trace)

    @cached_property
    def lines(self) -> Lines:
        """Each line of the cell, then of functions it called: Python's time and waiting, its ops queued and run (ns).

        A line counts what it called. Functions are there where they were followed: `lines=True`. Shown as the code with
        what each line cost; `.in_function("Net.forward")` has the rows of a function.
        """
        found = Lines((*lines(self.trace), *function_lines(self.trace)), self._lines_doc)
        found.predicted = self.trace.predicted_label
        return found

    @cached_property
    def _lines_doc(self) -> LinesDoc | None:
        """The document that pictures of lines are drawn from; None for a record without lines."""
        from perfmagic.view.timeline.lines.doc import lines_doc

        return lines_doc(self.trace)

    def _followed(self) -> LinesDoc | None:
        """The lines, where functions are among them: those of the cell alone are in the timeline already."""
        doc = self._lines_doc if self.trace.paths is not None else None
        return doc if doc is not None and doc.has_functions else None

    @cached_property
    def trust(self) -> Trust:
        """What the record cannot be trusted in: counts, and sentences about them."""
        return full_trust(self.trace, self.comm_names)

    @property
    def pace(self) -> Pace | None:
        """The pace that this was recorded at, whatever was set later: what a grader may expect of an op's time.

        None where nothing was paced, or by a function, or at several paces. Raises OptionError for a damaged file.
        """
        from perfmagic.sim import Pace

        return Pace.from_json(self.trace.meta.pace) if self.trace.meta.pace else None

    @property
    def memory(self) -> MemoryResult:
        """What held the most memory, by line and by reason. Where blocks were not recorded it says so."""
        from perfmagic.results.memory import MemoryResult

        return MemoryResult(self.trace)

    def kernels(self, device: int | None = None) -> Rows[KernelStat]:
        """Every kernel by name, the longest in sum first: count, times (ns), launch shape, tensor cores."""
        return self._by_device(lambda d: kernels(self.trace, d, self.comm_names), device, KernelStat)

    def operators(self, *, by_thread: bool = False, by_shape: bool = False) -> Rows[OperatorStat]:
        """Every operator by name, the longest first: its time on the host and its ops' time on the devices (ns)."""
        return self._labelled(operators(self.trace, by_thread=bool(by_thread), by_shape=bool(by_shape)))

    def device_operators(
        self, device: int | None = None, *, by_module: bool = False, peaks: Peaks | None = None
    ) -> Rows[DeviceOperator]:
        """Device time by the operator that launched it, with shapes and types: time (ns), FLOP/s, bytes/s, peaks.

        by_module: a row for each torch.nn module, too.  peaks: instead of the data sheet's, see perfmagic.Peaks.
        """
        _check_peaks("device_operators", peaks)
        return self._by_device(
            lambda d: device_operators(self.trace, d, self.comm_names, peaks=peaks, by_module=bool(by_module)),
            device,
            DeviceOperator,
        )

    def categories(self, device: int | None = None) -> Rows[CategoryTime]:
        """Device time (ns) by what it was for: matrix products, attention, elementwise; adds up to all ops' time."""
        return self._by_device(lambda d: category_times(self.trace, d, self.comm_names), device, CategoryTime)

    def roofline(self, device: int | None = None, *, peaks: Peaks | None = None) -> RooflineResult:
        """A picture of the operators of a device below what it can do at most.

        device: the one that was busy longest if left out.  peaks: instead of the data sheet's. Raises TraceError where
        the record has no shapes.
        """
        _check_peaks("roofline", peaks)
        known = self.trace.device_ids
        if device is None and known:
            device = max(known, key=lambda number: breakdown(self.trace, number, self.comm_names).busy_ns)
        if device is None or device not in known:
            which = ", ".join(map(str, known)) or "none"
            raise OptionError(f"device {device} executed nothing here", hint=f"devices with ops: {which}")
        return RooflineResult(roofline_data(self.trace, device, self.comm_names, peaks))

    def steps(self) -> Rows[Step]:
        """The training steps that torch.profiler marked: their time, and that of the ops they launched (ns)."""
        return self._labelled(steps(self.trace, self.comm_names))

    def phases(self) -> Rows[Phase]:
        """Prefill and decode of vLLM, SGLang or ATOM: steps, time of a step (ns), batch size, tokens per second."""
        return self._labelled(phases(self.trace))

    def annotations(self) -> Rows[AnnotationStat]:
        """Every annotation by name, the longest first: its time, and when the ops launched inside it executed (ns)."""
        return self._labelled(user_annotations(self.trace))

    def copies(self, device: int | None = None) -> Rows[CopyStat]:
        """The copies by kind, the longest in sum first: count, duration (ns), size (bytes), bandwidth (bytes/s)."""
        return self._by_device(lambda d: copies(self.trace, d), device, CopyStat)

    def collectives(self, device: int | None = None) -> Rows[CollectiveStat]:
        """The collective operations by name, type and group: duration (ns), size (bytes), bandwidths (bytes/s)."""
        return self._by_device(lambda d: collectives(self.trace, d, self.comm_names), device, CollectiveStat)

    def queues(self, device: int | None = None) -> Rows[QueueStat]:
        """The queue of each stream: the most and the mean of ops in it, and how far (ns) Python ran ahead."""
        return self._by_device(lambda d: queues(self.trace, d), device, QueueStat)

    def streams(self, device: int | None = None) -> Rows[StreamStat]:
        """The streams, the busiest first: number of ops, busy time (ns) and its share of the extent."""
        return self._by_device(lambda d: streams(self.trace, d), device, StreamStat)

    def syncs(self) -> Rows[Sync]:
        """The calls that blocked the host, by start: what asked for them, on which line, how long (ns)."""
        return self._labelled(sync_rows(self.trace))

    def idle_gaps(self, device: int | None = None) -> Rows[IdleGap]:
        """The gaps between device ops, by start: their parts by cause (ns), the line, the op that ended them."""
        return self._by_device(lambda d: gap_rows(self.trace, d), device, IdleGap)

    def critical_path(self) -> Rows[PathPart]:
        """What the run waited for, by start: Python, calls, ops, waits (ns). The parts cover the run; removing one
        gains at most its length.

        Raises TraceError where the record does not say.
        """
        graph = graph_of(self.trace)
        if why := unreadable(graph):
            raise TraceError(f"the critical path is not known: {why}")
        return self._labelled(critical_path(graph, graph.time_ns, self.comm_names).rows())

    def what_if(self, *changes: Change) -> WhatIfResult:
        """How long this run would take with changes (ns), predicted by replaying the record with all of them.

        changes: of perfmagic.changes. Where the record does not carry a prediction the result says why.
        """
        from perfmagic.results.what_if import WhatIfResult, checked_changes

        checked_changes("what_if", changes)
        drawn = partial(TimelineResult, comm_names=self.comm_names, title="predicted, not recorded")
        return WhatIfResult(predict(self._readings, changes), self.trace, self.comm_names, drawn)

    def curve(
        self, name: str = "", factors: Sequence[float] = (1.25, 1.5, 2.0, 4.0, math.inf), *, line: int | None = None
    ) -> Curve:
        """How long the run would take (ns) with kernels k times as fast, for several k: flat where others hold it.

        name: a part of the kernels' name.  line: only those that this line queued. Raises TraceError where nothing is
        predicted.
        """
        from perfmagic.changes import faster
        from perfmagic.results.what_if import Curve

        try:
            points = curve(self._readings, lambda k: faster(name, k, line), factors)
        except ValueError as error:
            raise TraceError(f"nothing is predicted: {error}") from None
        what = f"kernels with {name!r}" if name else "kernels"
        found = Curve(points, self._readings.run_ns, what + (f" of line {line}" if line else ""))
        found.predicted = self.trace.predicted_label
        return found

    @cached_property
    def _readings(self) -> Readings:
        return Readings.from_trace(self.trace)

    def python_during(self, start_ns: float, end_ns: float, *, thread: int | None = None) -> HostTime:
        """What was Python doing in [start_ns, end_ns): its operators, annotations and functions, with times (ns).

        Of a finding: `t.python_during(f.start_ns, f.end_ns)`.  thread: the one with most calls if left out.
        """
        start, end = _window_ns("python_during", start_ns, end_ns)
        return python_during(self.trace, start, end, _thread_number("python_during", thread))

    def flame(
        self,
        start_ns: float | None = None,
        end_ns: float | None = None,
        *,
        step: int | None = None,
        line: int | None = None,
        answer: int | None = None,
        thread: int | None = None,
        by_thread: bool = False,
        weight: str = "time",
    ) -> FlameResult:
        """Where was Python during this time? A flame graph of its frames or lines with operators, or of these alone.

        start_ns, end_ns: as of a finding.  step: a step's number.  line: of the cell.  answer: its number, from 1.
        Without any it is the whole record.  thread: the main one if left out.  by_thread: all threads side by side.
        weight: "idle" counts only the time in which the device was idle and waited for Python. Raises TraceError where
        nothing of the host was recorded.
        """
        from perfmagic.results.flame import Selection, flame_of

        window_ns = None if start_ns is None and end_ns is None else _window_ns("flame", start_ns, end_ns)
        return flame_of(
            self.trace,
            self.comm_names,
            lambda: self.answers,
            Selection(window_ns, step, line, answer),
            thread=_thread_number("flame", thread),
            by_thread=bool(by_thread),
            weight=weight,
        )

    def overlap(self, device: int | None = None) -> Rows[ClassOverlap]:
        """How long (ns) each two classes of ops overlapped: compute, copies by direction, communication, memset."""
        return self._by_device(lambda d: overlap_matrix(self.trace, d, self.comm_names), device, ClassOverlap)

    def _by_device(self, rows: Callable[[int], Rows[RowT]], device: int | None, of: type[RowT]) -> Rows[RowT]:
        known = self.trace.device_ids
        if device is None:
            return self._labelled(Rows.joined([rows(number) for number in known], of))
        if device not in known:
            which = ", ".join(map(str, known)) or "none"
            raise OptionError(f"device {device} executed nothing here", hint=f"devices with ops: {which}")
        return self._labelled(rows(device))

    def _labelled(self, rows: Rows[RowT]) -> Rows[RowT]:
        """The rows, which say where a model gave the times."""
        return rows.labelled(self.trace.predicted_label)

    @cached_property
    @in_its_digits
    def doc(self) -> TimelineDoc:
        """The document every picture is drawn from."""
        from perfmagic.view.timeline.doc import timeline_doc

        return timeline_doc(self.trace, self.findings, self.answers, comm_names=self.comm_names)

    @in_its_digits
    def to_dict(self) -> dict[str, Any]:
        """All totals by device, findings and trust counts, ready for JSON; times in ns, shares as fractions."""
        from perfmagic.analysis.report import report

        return report(self.trace, comm_names=self.comm_names)

    def to_json(self) -> str:
        """to_dict() as JSON text."""
        return json.dumps(self.to_dict(), ensure_ascii=False, indent=1)

    def to_frame(self) -> pd.DataFrame:
        """One row per device op: name, stream, launched, started, ended (ns), line, who launched it. Needs pandas.

        size_bytes: of a copy, a memset or one rank's whole buffer of a collective, missing where it is not known.
        line: of the cell.  operator, module, frame: the innermost around the launch, None where none was recorded;
        where lines of functions were followed, frame is the innermost of them: "In[2](4): f".
        """
        ops, names = self.trace.ops, self.trace.names
        frame: pd.DataFrame = pandas().DataFrame(
            {
                "name": [names[i] for i in ops.name],
                "device": ops.device,
                "stream": ops.stream,
                "launched_ns": self.trace.launch_start_ns(),
                "start_ns": ops.start_ns,
                "end_ns": ops.end_ns,
                "size_bytes": pandas().array(op_sizes(self.trace, self.comm_names), "Int64"),
                "line": ops.line,
                **launched_from(self.trace),
                **followed_frames(self.trace),
            }
        )
        return frame

    @in_its_digits
    def to_html(self, path: str | os.PathLike[str]) -> Path:
        """Write one self-contained page with the live timeline (no network) and give its path."""
        from perfmagic.view.page import live_page
        from perfmagic.view.timeline.writers import live_section

        sections = [live_section(self.doc, self.trace)]
        return write_text(path, live_page(self.title or "perfmagic timeline", sections))

    def save(self, path: str | os.PathLike[str]) -> Path:
        """Write the trace and give the path; perfmagic.open_trace opens both formats.

        Chrome JSON (.json, .json.gz) is for Perfetto and for others; .npz has every column. Raises OptionError for
        another ending.
        """
        if not str(path).endswith(SAVED_AS):
            raise OptionError(f"{path}: a trace is saved as {', '.join(SAVED_AS)}", hint="to_html() writes a page")
        if Path(path).suffix == ".npz":
            from perfmagic.trace.formats.npz import write_npz

            return write_npz(self.trace, path)
        from perfmagic.trace.formats.chrome import write_chrome

        return write_chrome(self.trace, path)

    def to_tensorboard(self, folder: str | os.PathLike[str], worker: str | None = None) -> Path:
        """Write what TensorBoard's plugin torch-tb-profiler reads into a folder, made if need be, and give its path.

        worker: what the plugin lists it as, "rank3" or "worker" if left out. save() keeps more.
        """
        from perfmagic.trace.formats.tensorboard import write_tensorboard

        return write_tensorboard(self.trace, folder, worker)

    @in_its_digits
    def text(self, *, details: bool = False) -> str:
        """Who decides and what to do.

        details: the findings, a table of the streams, lines of functions, and what the record cannot tell, as well.
        """
        below = self._lines_below()
        if not details:
            from perfmagic.view.timeline.summary import answers_text, timeline_summary

            head = timeline_summary(self.trace, self.findings, comm_names=self.comm_names)
            return answers_text(head, self.answers, ".text(details=True)", below)
        from perfmagic.view.timeline.text import timeline_text

        return timeline_text(self.doc, below, answers=self.answers.text(self.doc.header.about))

    def _lines_below(self) -> list[str]:
        """The lines of functions as text, where they were followed."""
        if (followed := self._followed()) is None:
            return []
        from perfmagic.view.timeline.text import lines_below

        return lines_below(followed)

    @in_its_digits
    def html(self) -> str:
        """The first line, the findings, the picture of what was queued and executed; at most 80 kB.

        Where functions were followed their lines open below it, at most 54 kB more.
        """
        from perfmagic.view.timeline.text import lines_html
        from perfmagic.view.timeline.writers import timeline_html

        return timeline_html(self.doc, lines_html(self._followed()))

    @in_its_digits
    def _brief(self) -> Brief:
        from perfmagic.results.briefs.runs import timeline_brief

        return timeline_brief(self.trace, self.comm_names, self.title, self.trust)

    def live(self) -> LiveView:
        """The live timeline: its data, and the window and selection that it shares with this object."""
        return _LiveTimeline(self)

    @in_its_digits
    def __repr__(self) -> str:
        meta = self.trace.meta
        total = units.duration(meta.end_ns - meta.start_ns)
        total = f"at least {total}" if unknown_operators(self.trace) else total
        devices = devices_label(meta.devices) or "CPU, no device records"
        first = f" {self.findings[0].sentence}" if self.findings else ""
        failed = f" The code failed: {meta.failed}." if meta.failed else ""
        where = f", {devices}" if self.trace.predicted else f" on {devices}"
        return f"Timeline of {total}{where}: {units.plural(len(self.trace.ops), 'device op')}.{failed}{first}"


def _check_peaks(method: str, peaks: object) -> None:
    if peaks is not None and not isinstance(peaks, Peaks):
        hint = 'perfmagic.Peaks(flop_per_s={"fp16": 312e12}, bytes_per_s=2.0e12)'
        raise OptionError(f"{method}: peaks are perfmagic.Peaks, not {peaks!r}", hint=hint)


def _thread_number(method: str, thread: Any) -> int | None:
    if thread is not None and not isinstance(thread, Integral):
        raise OptionError(f"{method}: a thread is a number, not {thread!r}", hint="operators(by_thread=True)")
    return None if thread is None else int(thread)


def _window_ns(method: str, start_ns: Any, end_ns: Any) -> tuple[int, int]:
    """A window that is not empty, in whole ns. Raises OptionError, which names the method."""
    if not all(isinstance(instant, Real) and math.isfinite(instant) for instant in (start_ns, end_ns)):
        given = f"{start_ns!r} and {end_ns!r}"
        raise OptionError(f"{method}: times in ns are needed, not {given}", hint="finding.start_ns, finding.end_ns")
    if end_ns <= start_ns:
        raise OptionError(f"{method}: the window ends at {end_ns} ns, not after its start at {start_ns} ns")
    return int(start_ns), int(end_ns)


@dataclass(frozen=True)
class _LiveTimeline:
    """The live view of a timeline."""

    result: TimelineResult

    @property
    def trace(self) -> Trace:
        return self.result.trace

    @property
    def state(self) -> ViewState:
        return self.result.view_state

    @property
    def empty(self) -> bool:
        header = self.result.doc.header
        return header.n_ops + header.n_host_ops == 0

    @in_its_digits
    def wire(self) -> Wire:
        from perfmagic.view.timeline.live_data import timeline_wire

        return timeline_wire(self.result.doc, self.trace)

    def picture_html(self) -> str:
        from perfmagic.view.page import ONLY_THE_PICTURE

        return ONLY_THE_PICTURE + self.result.html()

    @in_its_digits
    def frame_html(self) -> str:
        from perfmagic.view.timeline.writers import live_frame

        return live_frame(self.result.title or "perfmagic timeline", self.result.doc, self.trace)
