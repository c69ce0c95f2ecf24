"""The picture of a flame graph and its text: what has a box, what has a name, and what is said of the rest."""

import re
import xml.etree.ElementTree as ET

import pytest

from perfmagic import TimelineResult
from perfmagic.base.terminal import columns
from perfmagic.rows import FlameResult
from perfmagic.trace.columns import HostKind
from perfmagic.trace.model import DeviceInfo
from perfmagic.view.html import MAX_OUTPUT_BYTES
from perfmagic.view.svg.metrics import width_px
from perfmagic.view.timeline.flame import flame_svg
from tests.analysis.build import Builder
from tests.trace.recorded import real_trace

SVG = "{http://www.w3.org/2000/svg}"
HIDDEN = "aten::a_name_that_is_much_too_long_for_its_box"


def flame_of(b: Builder, end: float, **asked: object) -> FlameResult:
    return TimelineResult(b.trace(end=end)).flame(**asked)  # type: ignore[arg-type]


def boxes(svg: str) -> list[tuple[str, str, float, float, float]]:
    """The tooltip, the label, and x, y and width in px of each box."""
    found = []
    for group in ET.fromstring(svg).iter(f"{SVG}g"):
        title, path, text = (group.find(f"{SVG}{tag}") for tag in ("title", "path", "text"))
        assert title is not None
        assert path is not None
        x, y, width = (float(n) / 2 for n in re.findall(r"-?[\d.]+", path.attrib["d"])[:3])
        found.append((title.text or "", "" if text is None else text.text or "", x, y, width))
    return found


def calls() -> Builder:
    """An operator of half the time, one of 4 %, and 40 of 0.01 % with names of their own."""
    b = Builder()
    b.host_op(0, 50_000, "run.py(1): main", kind=HostKind.PYTHON)
    b.host_op(50_000, 54_000, f"<built-in method {HIDDEN} of type object at 0x1>", kind=HostKind.PYTHON)
    for number in range(80):
        b.host_op(60_000 + 20 * number, 60_010 + 20 * number, f"tiny.py({number}): f{number}", kind=HostKind.PYTHON)
    return b


def test_a_box_is_as_wide_as_its_time_and_begins_below_its_caller() -> None:
    b = calls()
    b.host_op(10_000, 30_000, "aten::mm")
    found = {box[0].split("\n")[0]: box for box in boxes(flame_of(b, 100_000).svg())}
    assert found["main thread"][4] == pytest.approx(1000, abs=1)
    assert found["main (run.py:1)"][4] == pytest.approx(500, abs=1)
    assert found["aten::mm"][4] == pytest.approx(200, abs=1)
    assert found["aten::mm"][2] == found["main (run.py:1)"][2]
    assert found["aten::mm"][3] > found["main (run.py:1)"][3] > found["main thread"][3]


def test_calls_narrower_than_half_a_pixel_are_one_box_with_their_number() -> None:
    svg = flame_of(calls(), 100_000).svg()
    (merged,) = [box for box in boxes(svg) if "80 paths" in box[0]]
    assert merged[4] == pytest.approx(8, abs=1)
    assert "several too narrow to draw" in svg
    assert "3 of 83 paths are drawn: those of 50.0\u00a0µs or more" in svg


def test_a_label_fits_its_box_and_the_tooltip_has_the_whole_name() -> None:
    found = boxes(flame_of(calls(), 100_000).svg())
    for _, label, _, _, width in found:
        assert width_px(label, 10) <= width
    (cut,) = [box for box in found if HIDDEN in box[0]]
    assert cut[1].endswith("…")
    assert HIDDEN.startswith(cut[1][:-1])
    assert "4.00\u00a0ms" in cut[0]
    assert "1 call" in cut[0]


def test_the_picture_is_one_svg_for_both_themes_and_says_what_it_is_of() -> None:
    flame = flame_of(calls(), 100_000)
    svg = flame.svg()
    assert "prefers-color-scheme:dark" in svg
    assert "frames recorded" in svg
    assert "Test GPU" in svg
    assert svg == flame_svg(flame.data)


def test_a_simulated_device_says_so() -> None:
    trace = calls().trace(end=100_000, devices=[DeviceInfo(0, "sim", "sim", "paced: mm ≥ 1 ms")])
    flame = TimelineResult(trace).flame()
    assert "simulated device, paced" in flame.svg()
    assert "simulated device, paced" in flame.text()


def test_names_of_files_cannot_break_out_of_the_picture() -> None:
    b = Builder()
    b.host_op(0, 50, "</title><script>alert(1)</script>")
    assert "<script" not in flame_of(b, 50).svg()
    assert "<script" not in flame_of(b, 50).html()


@pytest.mark.parametrize("name", ["b200_pdl_overlaps_python_stacks", "v100_4streams_nccl_step"])
def test_what_a_notebook_stores_is_small(name: str) -> None:
    flame = TimelineResult(real_trace(name)).flame(by_thread=True)
    assert len(flame.html()) < MAX_OUTPUT_BYTES
    assert flame._repr_mimebundle_() == {"text/plain": flame.text(), "text/html": flame.html(), **flame.for_programs()}


def deep(n: int) -> Builder:
    """Calls inside each other, each nearly as long as the one around it; a tenth as long is one at the end."""
    b = Builder()
    for depth in range(n):
        b.host_op(depth, 2000 - depth, f"lib.py({depth}): f{depth}", kind=HostKind.PYTHON)
    b.host_op(500, 700, "aten::mm")
    return b


def test_a_chain_of_calls_is_one_line_of_the_text_and_very_deep_ones_leave_the_picture() -> None:
    flame = flame_of(deep(100), 2000)
    lines = flame.text().splitlines()
    assert [line.split("  ")[-1] for line in lines[2:]] == ["main thread", "f99 (lib.py:99)", "aten::mm"]
    assert len(boxes(flame.svg())) == 64
    assert "64 of 102 paths are drawn" in flame.svg()


def test_the_text_has_the_longest_paths_in_at_most_14_lines(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "90")
    flame = TimelineResult(real_trace("b200_pdl_overlaps_python_stacks")).flame()
    lines = flame.text().splitlines()
    assert len(lines) == 14
    assert max(map(columns, lines)) <= 90
    assert len(flame.text(most_lines=30).splitlines()) == 30
    b = calls()
    b.host_op(10_000, 30_000, "aten::mm")
    assert re.sub(r"\s+", " ", flame_of(b, 100_000).text()).endswith(
        "total itself 100 ms 100 % 45.2 ms main thread 50.0 ms 50 % 30.0 ms main (run.py:1) "
        f"20.0 ms 20 % 20.0 ms aten::mm 4.00 ms 4 % 4.00 ms {HIDDEN} (built-in)"
    )
