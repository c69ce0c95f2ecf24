"""Writes tests/data/svg: what the static pictures of some traces hold, an element a line, for people to compare.

A text and its spans are a line, and so is a pattern.

python -m tests.view.timeline.golden
"""

import re
import xml.etree.ElementTree as ET
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from perfmagic.analysis.findings.find import findings
from perfmagic.analysis.timeline.device_operators import roofline_data
from perfmagic.api.comparisons import compare_timelines
from perfmagic.results import TimelineResult
from perfmagic.trace.model import Trace
from perfmagic.view.diff.picture import pair_svg, waterfall_svg
from perfmagic.view.ranks.picture import ranks_svg
from perfmagic.view.timeline.doc import timeline_doc
from perfmagic.view.timeline.picture.timeline import timeline_svg
from perfmagic.view.timeline.roofline import roofline_svg
from tests.analysis.build import Builder
from tests.analysis.shaped import BF16, FLOAT, Shaped
from tests.view.ranks.build import four_ranks
from tests.view.timeline.build import queue_of

FOLDER = Path(__file__).resolve().parents[2] / "data" / "svg"
_RULE = re.compile(r"\.(\w+)\{([^}]*)\}")
_COMMAND = re.compile(r"([MLHVZ])([^A-Za-z]*)", re.IGNORECASE)
_NUMBER = re.compile(r"-?(?:\d+\.?\d*|\.\d+)")
_KEPT = ("id", "href", "fill", "font-size", "font-weight", "text-anchor", "transform", "patternTransform", "role")
_SIZES = ("x", "y", "dx", "width", "height")
_WHOLE = ("text", "pattern")  # their parts are no lines of their own


def cell_with_copies() -> Trace:
    """Compute, communication, a copy and a memset on three streams, gaps with and without queued ops, a sync."""
    b = Builder()
    b.line(0, 2)
    b.op(-20, 40, name="gemm")  # queued before the cell
    for i in range(6):
        b.op(100 + 60 * i, 140 + 60 * i, launch=10 + 5 * i, name="gemm")
    b.op(120, 300, launch=45, name="Memcpy HtoD (Pinned -> Device)", stream=8, size=4096)
    b.op(280, 500, launch=50, name="ncclDevKernel_AllReduce", stream=9)
    b.op(510, 514, launch=55, name="Memset (Device)", stream=8)
    b.op(505, 560, launch=57, name="softmax")
    b.line(60, 3)
    b.host_op(60, 620, "aten::item")
    b.sync(70, 610)
    b.line(620, 4)
    b.op(700, 760, launch=640, name="add")
    return b.trace(start=0, end=800, returned=780)


def roofline_of(properties: dict[str, Any] | None = None) -> Trace:
    """Products of two types, one with few operations for its bytes."""
    s = Shaped(properties) if properties else Shaped()
    sgemm, gemm = "ampere_sgemm_128x64_nn", "ampere_bf16_s16816gemm_bf16_128x64_ldg8_f2f_stages_64x4_tn"
    s.op("aten::mm", [[4096, 4096], [4096, 4096]], BF16, ((gemm, 600.0),))
    s.op("aten::mm", [[4096, 1], [1, 4096]], BF16, ((gemm, 40.0),))
    s.op("aten::addmm", [[512], [512, 512], [512, 512]], FLOAT, ((sgemm, 30.0),))
    return s.op("aten::add", [[4096], [4096]], FLOAT, (("add", 5.0),)).trace()


def described(svg: str) -> list[str]:
    """Every element of a picture, an indented line each: tag, style, place in whole pixels, text."""
    root = ET.fromstring(svg)
    styles = _styles(svg)
    return [f"{'  ' * depth}{_line(element, styles)}" for depth, element in _walk(root) if _tag(element) != "style"]


def picture(trace: Trace) -> list[str]:
    """The elements of the static picture of a trace."""
    return described(timeline_svg(timeline_doc(trace, findings(trace))))


def comparison_pictures(first: Trace, second: Trace) -> list[str]:
    """The elements of both pictures of a comparison."""
    comparison = compare_timelines(TimelineResult(first), TimelineResult(second))
    return [*described(waterfall_svg(comparison)), *described(pair_svg(comparison, *comparison.timelines))]


# every picture by the name of its file, whatever it shows
DRAWN: dict[str, Callable[[], list[str]]] = {
    "cell_with_copies": lambda: picture(cell_with_copies()),
    "comparison_of_cells": lambda: comparison_pictures(cell_with_copies(), queue_of()),
    "roofline": lambda: described(roofline_svg(roofline_data(roofline_of(), 0))),
    "four_ranks": lambda: described(ranks_svg(four_ranks())),
}


def _styles(svg: str) -> dict[str, str]:
    """What each class looks like on a light page: their letters are given out in the order of use."""
    light = svg[: svg.index("@media")] if "@media" in svg else svg
    return {name: rule.removeprefix("fill:") for name, rule in _RULE.findall(light)}


def _walk(element: ET.Element, depth: int = 0) -> Iterator[tuple[int, ET.Element]]:
    yield depth, element
    for child in () if _tag(element) in _WHOLE else element:
        yield from _walk(child, depth + 1)


def _tag(element: ET.Element) -> str:
    return element.tag.rsplit("}", 1)[-1]


def _line(element: ET.Element, styles: dict[str, str]) -> str:
    parts = element.iter() if _tag(element) in _WHOLE else (element,)
    return " | ".join(_described(part, styles) for part in parts)


def _described(element: ET.Element, styles: dict[str, str]) -> str:
    parts = [_tag(element)]
    parts += [styles[name] for name in element.get("class", "").split()]
    parts += [f"{key}={element.get(key)}" for key in _KEPT if element.get(key)]
    sizes = [f"{key}={_px(element.get(key, ''))}" for key in _SIZES if element.get(key)]
    parts += sizes
    if path := element.get("d"):
        parts.append(_outline(path))
    text = element.get("aria-label") or element.text or ""
    return " ".join([*parts, f"“{text}”"] if text.strip() else parts)


def _px(value: str) -> str:
    number = _NUMBER.match(value)
    return f"{round(float(number[0]))}{value[number.end() :]}" if number else value


def _outline(path: str) -> str:
    """A path's figures and corners, its box and its length: "2 figures, 8 corners, 0,56 to 2000,58, 4004 long"."""
    points, length, figures = [], 0.0, 0
    x = y = 0.0
    for command, rest in _COMMAND.findall(path):
        numbers = [float(n) for n in _NUMBER.findall(rest)]
        step = 2 if command in "MmLl" else 1
        for i in range(0, len(numbers), step):
            to = _moved(command, (x, y), numbers[i : i + step])
            length += 0 if command in "Mm" and i == 0 else abs(to[0] - x) + abs(to[1] - y)
            (x, y) = to
            points.append(to)
        figures += command in "Mm"
    if set(path) & set("aAcCqQsStT"):
        return f"curve {path}"
    box = [round(edge(p[axis] for p in points)) for edge in (min, max) for axis in (0, 1)]
    return f"{figures} figures, {len(points)} corners, {box[0]},{box[1]} to {box[2]},{box[3]}, {round(length)} long"


def _moved(command: str, at: tuple[float, float], by: list[float]) -> tuple[float, float]:
    if command in "Hh":
        return (by[0] + (at[0] if command == "h" else 0), at[1])
    if command in "Vv":
        return (at[0], by[0] + (at[1] if command == "v" else 0))
    return (by[0] + at[0], by[1] + at[1]) if command.islower() else (by[0], by[1])


def main() -> None:
    """Write every file anew."""
    FOLDER.mkdir(exist_ok=True)
    for name, draw in DRAWN.items():
        (FOLDER / f"{name}.txt").write_text("\n".join(draw()) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
