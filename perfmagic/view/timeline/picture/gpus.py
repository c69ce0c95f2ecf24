"""One run on several GPUs as one static SVG: on one axis, a group of lanes a GPU."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from perfmagic.analysis.findings.answer import Answers
from perfmagic.base import units
from perfmagic.base.language import phrase, say, translate_term, translated
from perfmagic.base.tables import NOTHING, Table, markdown_table, markdown_text
from perfmagic.base.terminal import wrapped
from perfmagic.predict.runs import GpuStat
from perfmagic.view.html import table_lines
from perfmagic.view.svg.canvas import Canvas
from perfmagic.view.svg.layouts import MAX_PICTURE_BYTES, Draw, Picture, alone, fit_layouts, smallest_fit
from perfmagic.view.svg.metrics import Scale, fitted
from perfmagic.view.timeline.doc import TimelineDoc
from perfmagic.view.timeline.picture.frame import DETAILS, Detail, Frame, column_widths, narrow_detail
from perfmagic.view.timeline.picture.lanes import draw_stream
from perfmagic.view.timeline.picture.timeline import AXIS_PX, draw_axis, draw_key, draw_launches

# One run predicted for several GPUs: the table of their numbers as text, HTML and Markdown, with the picture.

NOTE = "predicted, not recorded: the cell ran once, as on the first GPU; Python takes the same time on each host"
_PEAK_KNOWN_FRAC = 0.05  # peaks of five public models on H100 came out so close to their recordings
TITLE = "GPU, predicted"
HEAD = ("predicted", "who decides", "busy", "queue ≤", "no .item()", "memory")


@dataclass(frozen=True)
class GpusDoc:
    """What text, table and picture are made of.

    sentence: which GPU is the fastest.  notes: what to know of the run.  docs: the timelines.
    """

    sentence: str
    notes: tuple[str, ...]
    rows: tuple[GpuStat, ...]
    docs: tuple[TimelineDoc, ...]

    @property
    def alt(self) -> str:
        """What the picture says, in words."""
        times = ", ".join(f"{row.gpu} {units.rough_duration(row.time_ns)}" for row in self.rows)
        return say("one run on several GPUs, predicted: {times}", times=times)


def gpus_table(rows: Sequence[GpuStat]) -> Table:
    """A row a GPU."""
    cells = [
        (
            row.gpu,
            _time(row),
            translate_term(row.verdict),
            units.percent(row.busy_frac),
            units.count(row.queue_max),
            NOTHING if row.without_waits_ns is None else units.rough_duration(row.without_waits_ns),
            describe_memory(row),
        )
        for row in rows
    ]
    return Table(TITLE, ("GPU", *HEAD), cells, note=phrase(NOTE))


def _time(row: GpuStat) -> str:
    """The time, and between what it lies in four of five cases."""
    time = units.rough_duration(row.time_ns)
    if row.low_ns is None or row.high_ns is None:
        return f"≥ {time}"
    low, high = (units.rough_duration(ns) for ns in (row.low_ns, row.high_ns))
    (low, unit), other = low.split(units.NBSP), high.split(units.NBSP)[1]
    return f"{time} ({low}–{high})" if unit == other else f"{time} ({low}{units.NBSP}{unit}–{high})"


def describe_memory(row: GpuStat) -> str:
    """The peak, and whether the GPU has so much, as far as that is known."""
    if abs(row.peak_bytes / row.memory_bytes - 1) < _PEAK_KNOWN_FRAC:
        return say("open: {peak} of {there}", peak=units.size(row.peak_bytes), there=units.size(row.memory_bytes))
    words = {"peak": units.rough_size(row.peak_bytes), "there": units.rough_size(row.memory_bytes)}
    return say("{peak} of {there}", **words) if row.fits else say("needs {peak} of {there}", **words)


def gpus_text(doc: GpusDoc, answers: Answers) -> str:
    """Which GPU is the fastest, the table, and what to do on the first."""
    lines = [*wrapped(capital(doc.sentence)), "", *table_lines(gpus_table(doc.rows)), ""]
    lines[-1:] = [line for note in translated(doc.notes) for line in wrapped(f"  ! {note}", indent=4)] + [""]
    first = doc.rows[0].gpu
    lines += [f"{first}:", answers.text(), "", *wrapped(rest_of(doc))]
    return "\n".join(line.rstrip() for line in lines)


def rest_of(doc: GpusDoc) -> str:
    """Where the rest is."""
    return say('.on("{gpu}") is the timeline of one GPU', gpu=doc.rows[-1].gpu)


def capital(sentence: str) -> str:
    """A sentence that stands alone."""
    shown = translated(sentence)
    return shown[:1].upper() + shown[1:]


def gpus_markdown(doc: GpusDoc) -> str:
    """Which GPU is the fastest, and the table."""
    notes = "".join(f"\n! {markdown_text(note)}\n" for note in translated(doc.notes))
    return f"**{capital(doc.sentence)}**\n\n{markdown_table(gpus_table(doc.rows))}\n{notes}"


STREAMS = 2  # of each GPU: .on(GPU) has all


def gpus_svg(doc: GpusDoc) -> str:
    """The picture alone, 1000 px wide."""
    return smallest_fit(lambda detail: alone(_drawing(doc, detail), doc.alt), DETAILS, MAX_PICTURE_BYTES).svg


def gpus_picture(doc: GpusDoc, most_bytes: int) -> Picture:
    """The same for several widths."""
    return fit_layouts(lambda detail: _drawing(doc, detail), DETAILS, narrow_detail, doc.alt, most_bytes)


def _drawing(doc: GpusDoc, detail: Detail) -> Draw:
    return lambda canvas: _draw(canvas, doc, detail)


def _draw(canvas: Canvas, doc: GpusDoc, detail: Detail) -> float:
    canvas.show_predictions()
    left_px, right_px = column_widths(canvas.width_px)
    longest_ns = max(each.end_ns - each.start_ns for each in doc.docs)
    canvas.shifted(left_px)
    frames = [
        Frame(canvas, Scale(each.start_ns, each.start_ns + longest_ns, canvas.width_px - left_px - right_px), detail)
        for each in doc.docs
    ]
    y, below = 4.0 + AXIS_PX, canvas.mark()
    for row, each, frame in zip(doc.rows, doc.docs, frames, strict=True):
        y = _draw_gpu(frame, row, each, y) + 8
    above = canvas.mark()
    draw_axis(frames[0], 4.0, y)
    canvas.move_down(above, below)
    canvas.back()
    first, groups = doc.docs[0], tuple(group for each in doc.docs for group in each.groups)
    header = replace(first.header, device_label=phrase("predicted, not recorded"))
    return draw_key(canvas, replace(first, groups=groups, header=header), y, header=False)


def _draw_gpu(frame: Frame, row: GpuStat, doc: TimelineDoc, y: float) -> float:
    """The name with its time, when Python queued, when the device executed, and where the run ends."""
    parts = (row.gpu, units.rough_duration(row.time_ns), translate_term(row.verdict), describe_memory(row))
    frame.canvas.text(0, y + 11, fitted("  ·  ".join(parts), frame.plot_px, 11, bold=True), size=11, bold=True)
    y += 18
    top = y
    if doc.launches is not None:
        y = draw_launches(frame, doc.launches, None, y) + 3
    for group in doc.groups:
        for i, lane in enumerate(group.streams[:STREAMS]):
            y = draw_stream(frame, lane, doc.names, y, first=i == 0, open_rows=False, tones={})
    frame.canvas.boxes([(round(frame.scale.x_of(doc.end_ns), 1), top, 1, y - top)], "ink")
    return y
