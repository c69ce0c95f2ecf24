"""One run on several GPUs as one static SVG: on one axis, a group of lanes a GPU."""

from __future__ import annotations

from dataclasses import replace

from perfmagic.base import units
from perfmagic.base.language import phrase, translate_term
from perfmagic.predict.runs import GpuStat
from perfmagic.view.svg.canvas import Canvas
from perfmagic.view.svg.layouts import MAX_PICTURE_BYTES, Draw, Picture, alone, fit_layouts, smallest_fit
from perfmagic.view.svg.metrics import Scale, fitted
from perfmagic.view.timeline.doc import TimelineDoc
from perfmagic.view.timeline.gpus import GpusDoc, describe_memory
from perfmagic.view.timeline.picture.frame import DETAILS, Detail, Frame, column_widths, narrow_detail
from perfmagic.view.timeline.picture.host import draw_launches
from perfmagic.view.timeline.picture.lanes import draw_stream
from perfmagic.view.timeline.picture.timeline import AXIS_PX, draw_axis, draw_key

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
