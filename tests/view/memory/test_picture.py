"""The picture of memory: its layers are the ledger's sums, it stays small, and words fit where they stand."""

import re
from typing import Any
from xml.etree import ElementTree as ET

import numpy as np
import pytest

from perfmagic.analysis.findings.catalogue import decides
from perfmagic.analysis.memory.ledger import ledger
from perfmagic.analysis.memory.reasons import reasons
from perfmagic.analysis.memory.stack import KINDS, Kind, stack
from perfmagic.analysis.memory.whatif import _describe_reason
from perfmagic.base import units
from perfmagic.base.errors import TraceError
from perfmagic.results import MemoryResult
from perfmagic.trace.columns import NONE, BlockRole
from perfmagic.trace.model import Cell, Trace, TraceMeta, make_trace
from perfmagic.view.memory.picture import BAR_PX, CHANGE_X, LESS_X, MAX_BYTES, PEAK_X
from perfmagic.view.svg.metrics import width_px

SOURCE = "%%memory\na = f()\n损失 = g(a)  # 保存整个图\ndel a"
MB = 2**20


def memory_trace(n: int = 0, seed: int = 0, reserved: int = 0) -> Trace:
    """Line 2, 3 and 4 of a cell, one after the other; n: blocks at random, or four made by hand, 800 MB at the peak."""
    columns: dict[str, Any] = {
        "order": [0, 2, 3, 5],
        "device": [0] * 4,
        "alloc_ns": [0, 12, 21, 26],
        "free_ns": [NONE, 32, 25, NONE],
        "free_order": [NONE, 6, 4, NONE],
        "size_bytes": [100 * MB, 400 * MB, 300 * MB, 200 * MB],
        "free_thread": [NONE, 0, 0, NONE],
        "before": [1, 0, 0, 0],
        "role": [BlockRole.PARAMETER, BlockRole.UNKNOWN, BlockRole.UNKNOWN, BlockRole.HELD],
        "holder": [0, NONE, NONE, 1],
    }
    if n:
        rng = np.random.default_rng(seed)
        place = rng.permutation(2 * n).reshape(n, 2)
        order, freed = place.min(axis=1), place.max(axis=1)
        stays = rng.random(n) < 0.2
        columns = {
            "order": order,
            "device": np.zeros(n),
            "alloc_ns": 10 + order * 30 // (2 * n),
            "free_ns": np.where(stays, NONE, 10 + freed * 30 // (2 * n)),
            "free_order": np.where(stays, NONE, freed),
            "size_bytes": rng.integers(1, 10_000, n) * 512,
            "free_thread": np.where(stays, NONE, 0),
            "before": rng.random(n) < 0.1,
            "role": rng.integers(0, 7, n),
        }
    marks = {"at_ns": [10, 20, 30, 40], "line": [2, 3, 4, 0], "top_line": [2, 3, 4, 0]}
    meta = TraceMeta("cell", end_ns=50, returned_ns=40)
    counters = {"at_ns": [11], "value": [reserved], "series": [2], "device": [0]} if reserved else None
    names = ["net.weight", "b", "Total Reserved"]
    return make_trace(names, meta, marks=marks, cell=Cell(SOURCE), blocks=columns, counters=counters)


@pytest.mark.parametrize("seed", range(5))
def test_each_step_is_the_sum_of_what_was_allocated_then(seed: int) -> None:
    memory = ledger(memory_trace(200, seed), 0)
    assert memory is not None
    made = stack(memory, reasons(memory))
    total = made.size_bytes.sum(axis=0)
    assert total.max() == memory.peak_bytes == total[made.peak_step]
    assert total[0] == memory.start_bytes
    blocks = memory.blocks
    steps = sorted({*memory.order[~memory.before].tolist(), *blocks.free_order[blocks.free_order != NONE].tolist()})
    for step in range(0, len(steps), 17):
        at = steps[step]
        alive = (memory.order <= at) & ((blocks.free_order == NONE) | (blocks.free_order > at))
        assert total[step + 1] == blocks.size_bytes[alive].sum()


def test_the_kinds_are_those_of_the_reasons() -> None:
    memory = ledger(memory_trace(), 0)
    assert memory is not None
    made = stack(memory, reasons(memory))
    most = {kind: int(size) // MB for kind, size in zip(KINDS, made.size_bytes.max(axis=1), strict=True) if size}
    assert most == {Kind.PARAMETERS: 100, Kind.HELD: 200, Kind.PASSING: 700}
    assert made.cell_line.tolist() == [0, 2, 3, 3, 3, 4]


def test_rows_of_the_picture_have_the_kind_and_sum_of_the_peak() -> None:
    result = MemoryResult(memory_trace())
    assert sum(row.size_bytes for row in result.at_peak()) == result.peak_bytes
    assert {row.kind for row in result.at_peak()} == {Kind.PARAMETERS.value, Kind.PASSING.value}


@pytest.mark.parametrize("n", [0, 50, 20_000])
def test_the_picture_is_whole_and_small(n: int) -> None:
    picture = MemoryResult(memory_trace(n)).svg()
    assert len(picture.encode()) <= MAX_BYTES
    tree = ET.fromstring(picture)
    words = [node.text or "" for node in tree.iter("{http://www.w3.org/2000/svg}text")]
    assert "at the peak" in words
    assert "cell line" in words
    assert tree.get("aria-label", "").startswith("Memory of ")
    width = float(tree.get("viewBox", "").split()[2])
    assert all(0 <= float(node.get("x", 0)) <= width for node in tree.iter("{http://www.w3.org/2000/svg}text"))


def test_code_in_any_script_is_shown() -> None:
    picture = MemoryResult(memory_trace()).svg()
    assert "损失" in picture
    assert "prefers-color-scheme:dark" in picture


def test_html_has_the_picture_and_the_same_as_tables() -> None:
    html = MemoryResult(memory_trace()).html()
    assert html.count("<img ") == 1
    assert "<summary>the peak by line, all changes, notes</summary>" in html
    assert "the peak" in html
    assert len(html.encode()) < 60_000


def test_without_blocks_there_is_no_picture() -> None:
    with pytest.raises(TraceError, match="no block of memory"):
        MemoryResult(make_trace([], TraceMeta("cell"))).svg()


@pytest.mark.parametrize(
    ("reserved", "lines", "off_the_scale"), [(1000, 1, False), (1039, 1, False), (1100, 2, False), (2400, 2, True)]
)
def test_what_is_reserved_is_a_line_only_far_above_the_peak(reserved: int, lines: int, off_the_scale: bool) -> None:
    picture = MemoryResult(memory_trace(reserved=reserved * MB)).svg()
    rules = re.findall(r"\.(\w+)\{[^}]*stroke-dasharray", picture)
    assert len({rule for rule in rules if f'<path class="{rule}"' in picture}) == lines  # one is the peak's
    assert f"{units.size(reserved * MB)} reserved</text>" in picture
    assert ("off the scale:" in picture) == off_the_scale


def test_the_columns_of_a_change_stand_apart() -> None:
    assert LESS_X - width_px(f"about −{units.size(8.88e9)}", 10) - PEAK_X >= 12
    assert CHANGE_X - LESS_X >= 8


def test_the_first_line_of_a_training_step_fits_one_line() -> None:
    """Of the kinds of a step's peak the two with the longest words."""
    used, kept = (_describe_reason(kind, of_cell=True) for kind in (Kind.BACKWARD, Kind.KEPT))
    values = {"size": "22.0 MB", "place": " on line 4 `loss.backward()`", "part": "8.39 MB", "part2": "4.19 MB"}
    assert width_px(decides("peak_and", what=used, what2=kept, **values), 15, bold=True) <= 950


def test_bars_are_parts_of_the_peak() -> None:
    """The rows' bars, end to end, are as long as their column."""
    picture = MemoryResult(memory_trace()).svg()
    bars = [float(width) / 2 for width in re.findall(r"M12 [\d.]+h([\d.]+)v22h", picture)]
    assert sum(bars) == pytest.approx(BAR_PX, abs=0.2)
