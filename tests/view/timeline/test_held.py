"""Where ops are queued and their stream runs nothing, the static picture says so."""

import re

import pytest

from perfmagic.view.svg.canvas import Canvas
from perfmagic.view.svg.metrics import Scale
from perfmagic.view.timeline.picture.frame import DETAILS, PLOT_PX, Frame
from perfmagic.view.timeline.picture.lanes import draw_backlog
from tests.analysis.build import Builder

from .build import doc_of


class Hatched(Canvas):
    """Remembers what was hatched as queued and held."""

    def __init__(self) -> None:
        super().__init__()
        self.waiting = ""

    def hatch_waiting(self, data: str, token: str) -> None:
        self.waiting += data
        super().hatch_waiting(data, token)


def held(n_ops: int, gap_us: float, busy_us: float = 90) -> list[tuple[float, float]]:
    """Where the backlog of n ops, all launched in the first 10 µs, is hatched; in µs.

    After the first op starts at 20 µs, each is busy for busy_us and followed by a gap.
    """
    b = Builder()
    for i in range(n_ops):
        start = 20 + (busy_us + gap_us) * i
        b.op(start, start + busy_us, launch=10 * i / n_ops)
    trace = b.trace(returned=11)
    canvas, span_us = Hatched(), (trace.meta.end_ns - trace.meta.start_ns) / 1000
    frame = Frame(canvas, Scale(trace.meta.start_ns, trace.meta.end_ns, PLOT_PX), DETAILS[0])
    draw_backlog(frame, doc_of(trace).groups[0].streams[0], 0, 100, in_cell=False)
    return [_extent_us(shape, span_us) for shape in canvas.waiting.split("z") if shape]


def _extent_us(shape: str, span_us: float) -> tuple[float, float]:
    """From where to where a shape goes; a picture's own unit is half a pixel."""
    first = float(re.match(r"M(\S+) ", shape)[1])  # type: ignore[index]
    along = sum(float(step) for step in re.findall(r"h(-?[\d.]+)", shape))
    per_unit = span_us / PLOT_PX / 2
    return first * per_unit, (first + along) * per_unit


@pytest.mark.parametrize("n_ops", [3, 12, 60, 100])
def test_every_gap_in_which_ops_are_queued_is_hatched_from_the_end_of_an_op_to_the_next_start(n_ops: int) -> None:
    pixel_us = (20 + 190 * n_ops) / PLOT_PX
    gaps = [(110 + 190 * i, 210 + 190 * i) for i in range(n_ops - 1)]
    expected = [(edge, end) for edge, end in [(0, 20), *gaps] if end - edge >= 3.5 * pixel_us]
    intervals = held(n_ops, 100)
    assert len(intervals) == len(expected)
    for (start, end), (op_end, next_start) in zip(intervals, expected, strict=True):
        assert (start, end) == pytest.approx((op_end, next_start), abs=1.1 * pixel_us)


def test_a_stream_that_goes_from_op_to_op_is_hatched_only_until_it_begins() -> None:
    (before,) = held(12, 0)
    assert before == pytest.approx((0, 20), abs=2)
