"""Memory as a picture and tables: layers by reason add up to the peak, and words agree with what is drawn."""

from __future__ import annotations

import re
from typing import Any
from xml.etree import ElementTree as ET

import numpy as np
import pytest

from perfmagic import units
from perfmagic.analysis.memory.ledger import ledger
from perfmagic.analysis.memory.peak import Words
from perfmagic.analysis.memory.reasons import Why, reasons
from perfmagic.analysis.memory.stack import LAYERS, memory_stack
from perfmagic.results import MemoryResult
from perfmagic.trace.columns import NONE, BlockRole
from perfmagic.trace.model import Cell, Trace, TraceMeta, make_trace
from perfmagic.view.html import MAX_OUTPUT_BYTES
from perfmagic.view.memory.doc import MemoryDoc
from perfmagic.view.memory.picture import MAX_BYTES, alt_text, memory_svg
from perfmagic.view.svg.palette import MEMORY_TONES
from tests.view.timeline.build import HOSTILE

MB = 10**6
RESERVED = "Total Reserved"


def trace_of(blocks: dict[str, Any], source: str = "a = 1\nb = 2\nc = 3", reserved: int = 0, n_ns: int = 50) -> Trace:
    """A cell whose line k runs from 10 (k - 1) ns on."""
    marks = {"at_ns": [0, 10, 20, 40], "line": [1, 2, 3, 0], "top_line": [1, 2, 3, 0]}
    meta = TraceMeta("cell", end_ns=n_ns, returned_ns=n_ns)
    names = ["net.weight", "b", "Total Allocated", RESERVED]
    counters = {"at_ns": [1, 2, 3], "value": [0, 1, reserved], "series": [2, 2, 3], "device": [0, 0, 0]}
    return make_trace(names, meta, marks=marks, cell=Cell(source), blocks=blocks, counters=counters)


def small(**changed: Any) -> Trace:
    """1 MB of parameters, 4 MB of line 1 until line 3, 3 MB temporary on line 2, 2 MB held by b."""
    blocks = {
        "order": [0, 2, 3, 5],
        "device": [0] * 4,
        "alloc_ns": [0, 2, 11, 16],
        "free_ns": [NONE, 32, 15, NONE],
        "free_order": [NONE, 6, 4, NONE],
        "size_bytes": [MB, 4 * MB, 3 * MB, 2 * MB],
        "free_thread": [NONE, 0, 0, NONE],
        "before": [1, 0, 0, 0],
        "role": [BlockRole.PARAMETER, BlockRole.UNKNOWN, BlockRole.UNKNOWN, BlockRole.HELD],
        "holder": [0, NONE, NONE, 1],
    }
    return trace_of(blocks, **changed)


def many(n: int) -> Trace:
    """Blocks of random sizes and lives."""
    rng = np.random.default_rng(3)
    order = rng.permutation(2 * n).reshape(n, 2)
    order.sort(axis=1)
    blocks = {
        "order": order[:, 0],
        "device": np.zeros(n, np.int64),
        "alloc_ns": order[:, 0],
        "free_ns": order[:, 1],
        "free_order": order[:, 1],
        "size_bytes": rng.integers(1, 10_000, n) * 512,
        "free_thread": np.zeros(n, np.int64),
        "before": np.zeros(n, np.int64),
        "role": rng.choice([role.value for role in BlockRole], n),
        "holder": np.full(n, 1),
    }
    return trace_of(blocks, n_ns=2 * n + 1)


def doc_of(trace: Trace) -> MemoryDoc:
    return MemoryResult(trace)._doc()


def texts(svg: str) -> list[str]:
    return re.findall(r"<text[^>]*>([^<]*)</text>", svg)


def test_each_layer_has_what_its_reason_holds_after_each_step() -> None:
    stack = doc_of(small()).stack
    assert stack.layers == ("parameters", "held by variables", "until later", "temporary")
    assert (stack.held_bytes // MB).tolist() == [[1] * 6, [0, 0, 0, 0, 2, 2], [0, 4, 4, 4, 4, 0], [0, 0, 3, 0, 0, 0]]
    assert stack.peak_step == 2
    assert stack.line.tolist() == [0, 1, 2, 2, 2, 3]


@pytest.mark.parametrize("trace", [small(), many(300)])
def test_layers_and_rows_add_up_to_the_peak(trace: Trace) -> None:
    doc = doc_of(trace)
    at_peak = dict(zip(doc.stack.layers, doc.stack.held_bytes[:, doc.stack.peak_step].tolist(), strict=True))
    assert doc.stack.total_bytes.max() == sum(at_peak.values()) == doc.peak_bytes
    rows = dict.fromkeys(doc.stack.layers, 0)
    for row in doc.at_peak:
        rows[doc.stack.of_reason[row.reason]] += row.size_bytes
    assert rows == at_peak
    assert doc.stack.total_bytes[0] == doc.start_bytes
    assert doc.stack.total_bytes[-1] == doc.end_bytes


def test_every_reason_has_a_layer_and_every_layer_a_colour() -> None:
    assert sorted(why.value for whys in LAYERS.values() for why in whys) == sorted(why.value for why in Why)
    assert list(LAYERS) == list(MEMORY_TONES)


def test_the_picture_says_what_the_words_say() -> None:
    doc = doc_of(small())
    svg = memory_svg(doc)
    said = texts(svg)
    assert f"peak {units.size(doc.peak_bytes)}" in said
    assert doc.sentence.startswith(f"peak {units.size(doc.peak_bytes)}")
    assert f"{units.size(doc.end_bytes)} after" in said
    assert {"parameters", "held by variables", "until later", "temporary"} <= set(said)
    assert {"line 1", "line 2", "line 3"} <= set(said)
    assert "held by variables" not in alt_text(doc)  # nothing of it at the peak
    assert "3.00 MB temporary" in alt_text(doc).replace("\u00a0", " ")
    assert alt_text(doc) in ET.fromstring(svg).attrib["aria-label"]


def drawn_dashes(svg: str) -> int:
    return svg.count("stroke-dasharray")


@pytest.mark.parametrize(
    ("reserved", "lines", "off_the_scale"),
    [(0, 1, False), (10 * MB, 1, False), (11 * MB, 2, False), (30 * MB, 2, True)],
)
def test_what_is_reserved_is_a_line_only_far_above_the_peak(reserved: int, lines: int, off_the_scale: bool) -> None:
    svg = memory_svg(doc_of(small(reserved=reserved)))
    assert drawn_dashes(svg) == lines  # one is the peak's
    assert (f"{units.size(reserved)} reserved" in texts(svg)) == (reserved > 0)
    assert ("off the scale:" in texts(svg)) == off_the_scale


@pytest.mark.parametrize("n", [1, 50, 1_000, 30_000])
def test_pictures_stay_small_and_whole(n: int) -> None:
    doc = doc_of(many(n))
    svg = memory_svg(doc)
    assert len(svg.encode()) <= MAX_BYTES
    assert f"peak {units.size(doc.peak_bytes)}" in texts(svg)
    ET.fromstring(svg)


def test_the_output_stays_below_what_a_notebook_takes() -> None:
    assert len(MemoryResult(many(5_000)).html().encode()) <= MAX_OUTPUT_BYTES


def test_bars_of_the_table_add_up_to_the_width_of_the_peak() -> None:
    doc = doc_of(small())
    shares = [row.size_bytes / doc.peak_bytes for row in doc.at_peak]
    html = MemoryResult(small()).html()
    assert re.findall(r'<img alt="(\d+%)"', html) == [f"{share:.0%}" for share in shares]
    assert sum(shares) == pytest.approx(1)


def test_other_peoples_names_stay_text() -> None:
    source = f"a = {HOSTILE!r}\n损失 = 模型(输入)\nc = 3"
    html = MemoryResult(small(source=source)).html()
    assert "<script" not in html
    assert "损失 = 模型(输入)" in html


def test_a_cell_that_only_gives_back_has_its_peak_before() -> None:
    trace = trace_of(
        {
            "order": [0],
            "device": [0],
            "alloc_ns": [0],
            "free_ns": [12],
            "free_order": [1],
            "size_bytes": [MB],
            "free_thread": [0],
            "before": [1],
            "role": [BlockRole.UNKNOWN],
            "holder": [NONE],
        }
    )
    doc = doc_of(trace)
    assert doc.stack.peak_step == 0
    assert (doc.stack.held_bytes // MB).tolist() == [[1, 0]]
    assert doc.stack.layers == ("before the cell",)
    assert "before the cell" in texts(memory_svg(doc))


def test_a_ledger_and_its_stack_agree_at_every_step() -> None:
    """The same sum, computed block by block."""
    found = ledger(many(120), 0)
    assert found is not None
    stack = memory_stack(found, Words(found, reasons(found)))
    blocks = found.blocks
    for step in range(len(stack.total_bytes)):
        alive = (blocks.order < step) & (blocks.free_order >= step)
        assert stack.total_bytes[step] == blocks.size_bytes[alive].sum()
