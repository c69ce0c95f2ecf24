"""The roofline: what it holds, where things stand, and what it says where peaks or shapes are missing."""

import re
import xml.etree.ElementTree as ET

import pytest

from perfmagic import Peaks, TimelineResult, TraceError
from perfmagic.base.terminal import columns
from perfmagic.rows import RooflineResult
from tests.analysis.shaped import BF16, FLOAT, Shaped
from tests.view.timeline.golden import roofline_of


def result(**properties: object) -> TimelineResult:
    return TimelineResult(roofline_of(dict(properties) if properties else None))


def test_the_picture_is_one_svg_for_both_themes() -> None:
    svg = result().roofline().svg()
    assert ET.fromstring(svg).tag.endswith("svg")
    assert "prefers-color-scheme:dark" in svg


def test_roofs_are_of_the_types_that_occur_and_say_where_they_are_from() -> None:
    data = result().roofline().data
    assert [(roof.compute, roof.flop_per_s) for roof in data.roofs] == [("fp32", 19.5e12), ("bf16", 312e12)]
    assert (data.bytes_per_s, data.kind) == (2039e9, "data sheet")
    svg = result().roofline().svg()
    assert "bf16 312\u00a0TFLOP/s" in svg
    assert "data sheet" in svg


def test_an_unknown_device_has_operators_and_no_roof() -> None:
    roofline = result(id=0, name="NVIDIA Unheard Of").roofline()
    assert roofline.data.roofs == ()
    assert "no peak of NVIDIA Unheard Of is known" in " ".join(roofline.text().split())
    assert "of the device's time, at" in roofline.text().splitlines()[0]
    assert "data sheet" not in roofline.svg()


def test_given_peaks_are_drawn_as_given() -> None:
    roofline = result().roofline(peaks=Peaks(flop_per_s={"fp16": 2e14}, bytes_per_s=1e12))
    assert [roof.flop_per_s for roof in roofline.data.roofs] == [2e14]
    assert roofline.data.kind == "given"


def test_no_dot_stands_outside_the_plot() -> None:
    svg = result().roofline().svg()
    dots = [(int(float(x)), int(float(y))) for x, y in re.findall(r'd="M([\d.]+) ([\d.]+)h0"', svg)]
    assert len(dots) == 2 * 3
    assert all(2 * 96 <= x <= 2 * 872 and 2 * 16 <= y <= 2 * 356 for x, y in dots)


def test_a_record_without_shapes_is_refused_with_what_to_do() -> None:
    bare = TimelineResult(Shaped().op("aten::mm").trace())
    with pytest.raises(TraceError, match="has no shapes of operators' inputs") as error:
        bare.roofline()
    assert "record_shapes=True" in str(error.value)
    uncounted = TimelineResult(Shaped().op("aten::sum", [[8]], FLOAT).trace())
    with pytest.raises(TraceError, match="no operator that is counted"):
        uncounted.roofline()


def test_the_text_fits_a_terminal_and_the_html_a_notebook() -> None:
    roofline = result().roofline()
    assert isinstance(roofline, RooflineResult)
    assert max(map(columns, roofline.text().splitlines())) <= 100
    html = roofline._repr_mimebundle_()["text/html"]
    assert html.count("<img") == 1
    assert "<script" not in html
    assert BF16 not in html
