"""The column of memory in the lines of a cell: it adds up to the peak, and is there only where blocks were recorded."""

import re
from dataclasses import replace

from perfmagic.trace.columns import NONE, BlockRole, Blocks
from perfmagic.trace.model import Trace
from perfmagic.view.timeline.lines.doc import LinesDoc, lines_doc
from perfmagic.view.timeline.lines.picture import MAX_BYTES, lines_svg
from perfmagic.view.timeline.text import lines_text
from tests.analysis.timeline.test_by_path import AUTOGRAD, MAIN, MS, WORKER, trace_of

KB = 1000
# kB, from before the cell, when, on which thread; 32 kB are given back before the peak
HELD = [
    (16, True, 0, MAIN),
    (1, False, 5, MAIN),  # on the cell's line
    (2, False, 11, MAIN),  # on line 2 of step
    (4, False, 14, WORKER),  # on line 11 of work
    (8, False, 31, MAIN),  # on line 2 of step, one call deeper
    (32, False, 6, MAIN),
    (64, False, 50, AUTOGRAD),  # the line of the main thread, which waits for it
]


def with_blocks() -> Trace:
    n = len(HELD)
    at = [ms * MS for _, _, ms, _ in HELD]
    blocks = {
        "order": [2 * ms for _, _, ms, _ in HELD],
        "device": [0] * n,
        "alloc_ns": at,
        "free_ns": [NONE] * 5 + [7 * MS, NONE],
        "free_order": [NONE] * 5 + [13, NONE],
        "size_bytes": [kb * KB for kb, *_ in HELD],
        "thread": [thread for *_, thread in HELD],
        "free_thread": [NONE] * 5 + [MAIN, NONE],
        "before": [int(before) for _, before, _, _ in HELD],
        "role": [BlockRole.UNKNOWN] * n,
        "holder": [NONE] * n,
    }
    return replace(trace_of([(11, MAIN), (31, MAIN)]), blocks=Blocks.make(blocks))


def doc() -> LinesDoc:
    lines = lines_doc(with_blocks())
    assert lines is not None
    return lines


def kilobytes(of: LinesDoc) -> dict[tuple[str, int], int]:
    return {(block.name, row.line): row.peak_bytes // KB for block in of.blocks for row in block.rows}


def test_a_line_holds_what_it_and_what_it_called_allocated_and_recursion_once() -> None:
    sizes_kb = kilobytes(doc())
    assert sizes_kb["", 2] == 1 + 2 + 4 + 8 + 64
    assert sizes_kb["step", 2] == 2 + 8
    assert sizes_kb["step", 3] == 8
    assert sizes_kb["work", 11] == 4


def test_the_column_of_the_cell_adds_up_to_the_peak() -> None:
    memory = doc().memory
    assert memory.closing() == [("before the cell", 16 * KB), ("the peak", 95 * KB)]
    assert sum(memory.cell_bytes.values()) + memory.before_bytes == memory.peak_bytes


def test_picture_and_text_close_the_column_with_the_peak() -> None:
    svg = lines_svg(doc())
    said = [text.replace("\u00a0", " ") for text in re.findall(r"<text[^>]*>([^<]*)</text>", svg)]
    assert said.count("at the peak") == 1
    assert {"79.0 kB", "before the cell", "16.0 kB", "the peak", "95.0 kB"} <= set(said)
    assert len(svg.encode()) <= MAX_BYTES
    text = "\n".join(lines_text(doc())).replace("\u00a0", " ")
    assert re.search(r"before the cell +16.0 kB\n +the peak +95.0 kB", text)


def test_without_blocks_there_is_no_column() -> None:
    lines = lines_doc(trace_of([(11, MAIN), (31, MAIN)]))
    assert lines.memory is None
    assert "at the peak" not in lines_svg(lines)
    assert "at the peak" not in "\n".join(lines_text(lines))


def test_functions_without_a_cell_have_the_column_too() -> None:
    trace = replace(with_blocks(), cell=None)
    lines = lines_doc(trace)
    assert kilobytes(lines)["step", 2] == 2 + 8
    assert "at the peak" in lines_svg(lines)
    assert re.search(r"at the peak\n(.*\n)*.*10.0 kB", "\n".join(lines_text(lines)).replace("\u00a0", " "))
