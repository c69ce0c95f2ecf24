"""The two moments of a small cell never overprint each other in the static picture."""

from itertools import pairwise
from xml.etree import ElementTree as ET

import pytest
from hypothesis import given
from hypothesis import strategies as st

from perfmagic.view.svg.canvas import UNITS_PER_PX
from perfmagic.view.svg.metrics import width_px
from perfmagic.view.timeline.picture.frame import LEFT_PX, PLOT_PX, RIGHT_PX
from perfmagic.view.timeline.picture.timeline import timeline_svg
from tests.analysis.build import Builder

from .build import UNHURRIED, doc_of

pytestmark = pytest.mark.slow

FLAGS = ("Python has queued everything", "the device has finished")


def printed(queued_us: float, finished_us: float) -> list[tuple[float, float]]:
    """From where to where the words of each flag go in a picture, in the widest font, in px from the plot's edge."""
    b = Builder()
    b.op(1, finished_us, launch=(0, queued_us))
    svg = timeline_svg(doc_of(b.trace(end=1000, returned=1000)))
    extents = []
    for text in ET.fromstring(svg).iter("{http://www.w3.org/2000/svg}text"):
        if text.text not in FLAGS:
            continue
        x, width = float(text.attrib["x"]) / UNITS_PER_PX, width_px(text.text, 11, bold=True)
        extents.append((x - width, x) if text.attrib.get("text-anchor") == "end" else (x, x + width))
    return sorted(extents)


@given(st.floats(1, 999), st.floats(0, 60))
@UNHURRIED
def test_the_words_of_both_moments_stand_apart_however_close_they_are(queued_us: float, later_us: float) -> None:
    spans = printed(queued_us, max(2.0, min(1000.0, queued_us + later_us)))
    assert 1 <= len(spans) <= 2
    assert all(left[1] < right[0] for left, right in pairwise(spans))
    assert spans[0][0] >= -LEFT_PX
    assert spans[-1][1] <= PLOT_PX + RIGHT_PX


def test_both_are_written_where_there_is_room_for_both() -> None:
    assert len(printed(500, 504)) == 2
