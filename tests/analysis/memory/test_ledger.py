"""A ledger by hand: the peak, other ends, growth, lines without functions, a part in time, a saved file."""

import html
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from perfmagic.analysis.memory.ledger import Ledger, ledger
from perfmagic.analysis.memory.peak import growth, held
from perfmagic.analysis.memory.reasons import Descriptions, reasons
from perfmagic.analysis.memory.whatif import what_if
from perfmagic.base.errors import TraceError
from perfmagic.results import MemoryResult
from perfmagic.trace.columns import NONE, BlockRole
from perfmagic.trace.formats.npz import read_npz, write_npz
from perfmagic.trace.model import Cell, Trace, TraceMeta, make_trace
from perfmagic.trace.window import window

SOURCE = "%%memory\na = f()\nb = g(a)\ndel a"
LIMIT = 10**9


def _trace(**changed: Any) -> Trace:
    """Line 2 at 10, line 3 at 20, line 4 at 30.

    0: 100 bytes from before, kept.  1: 400 at 12, back at 32.  2: 300 at 21, back at 25.  3: 200 at 26, kept.
    """
    blocks = {
        "order": [0, 2, 3, 5],
        "device": [0, 0, 0, 0],
        "alloc_ns": [0, 12, 21, 26],
        "free_ns": [NONE, 32, 25, NONE],
        "free_order": [NONE, 6, 4, NONE],
        "size_bytes": [100, 400, 300, 200],
        "free_thread": [NONE, 0, 0, NONE],
        "before": [1, 0, 0, 0],
        "role": [BlockRole.PARAMETER, BlockRole.UNKNOWN, BlockRole.UNKNOWN, BlockRole.HELD],
        "holder": [0, NONE, NONE, 1],
    }
    marks = {"at_ns": [10, 20, 30, 40], "line": [2, 3, 4, 0], "top_line": [2, 3, 4, 0]}
    meta = TraceMeta("cell", end_ns=50, returned_ns=40)
    return make_trace(["net.weight", "b"], meta, marks=marks, cell=Cell(SOURCE), blocks=blocks | changed)


def _ledger(trace: Trace) -> tuple[Ledger, Descriptions]:
    blocks_ledger = ledger(trace, 0)
    return blocks_ledger, Descriptions(blocks_ledger, reasons(blocks_ledger))


def test_the_peak_is_the_most_that_lived_at_once() -> None:
    found, words = _ledger(_trace())
    assert (found.start_bytes, found.peak_bytes, found.peak_ns) == (100, 800, 21)
    rows = [(row.line, row.size_bytes, row.reason, row.code) for row in held(found, words, found.at_peak)]
    assert rows == [
        (2, 400, "until line 4", "a = f()"),
        (3, 300, "temporary", "b = g(a)"),
        (0, 100, "before the cell: parameters", ""),
    ]


def test_what_is_alive_at_the_end_is_named_with_its_holder() -> None:
    found, words = _ledger(_trace())
    assert [(row.size_bytes, row.reason) for row in held(found, words, found.at_end)] == [
        (200, "held by `b`"),
        (100, "before the cell: parameters"),
    ]


def test_a_block_that_is_freed_sooner_lowers_the_peak() -> None:
    found, _ = _ledger(_trace())
    assert found.replayed({}) == 800
    assert found.replayed({1: found.order_at(20)}) == 500  # then blocks 0 and 1 are the most
    assert found.replayed({2: 10.0}) == 800  # later than it did come back
    assert found.replayed({1: -5.0, 2: -5.0}) == 500  # each still has its own allocation


def test_an_instant_is_a_place_after_all_that_happened_before_it() -> None:
    found, _ = _ledger(_trace())
    assert [found.order_at(at) for at in (0, 13, 25, 26, 33)] == [-0.5, 2.5, 3.5, 4.5, 6.5]


def test_a_ledger_without_a_peak_of_its_own_says_that_it_was_there_before() -> None:
    only = {key: column[:1] for key, column in _trace().blocks.to_dict().items()}
    result = MemoryResult(_trace(**only))
    said = "Peak 100 B from before the cell: 100 B is parameters and buffers"
    assert result.sentence == said.replace(" B", "\u00a0B")
    assert len(result.what_if()) == 0


def test_rounds_leave_what_lives_when_the_next_one_has_ended() -> None:
    # rounds begin at 0, 10, 20, 30 and end at 40; line 2 leaves 64 in each, line 3 in the first alone
    blocks = {
        "order": [1, 2, 3, 4, 5],
        "device": [0] * 5,
        "alloc_ns": [1, 6, 11, 21, 31],
        "free_ns": [NONE] * 5,
        "size_bytes": [64, 1000, 64, 64, 64],
    }
    marks = {
        "at_ns": [0, 5, 10, 15, 20, 25, 30, 35, 40],
        "line": [2, 3, 2, 3, 2, 3, 2, 3, 0],
        "top_line": [2, 3, 2, 3, 2, 3, 2, 3, 0],
    }
    trace = make_trace([], TraceMeta("cell", end_ns=50), marks=marks, cell=Cell(SOURCE), blocks=blocks)
    found, words = _ledger(trace)
    (row,) = growth(found, words, (0, 10, 20, 30, 40))
    assert (row.line, row.bytes_per_round, row.n_rounds) == (2, 64.0, 3)


def test_a_window_has_the_blocks_that_live_in_it() -> None:
    cut = window(_trace(), 22, 28)
    assert cut.blocks.size_bytes.tolist() == [100, 400, 300, 200]
    assert cut.blocks.before.tolist() == [1, 1, 1, 0]
    assert cut.blocks.free_ns.tolist() == [NONE, NONE, 25, NONE]
    found, _ = _ledger(cut)
    assert (found.start_bytes, found.peak_bytes) == (800, 800)
    assert window(_trace(), 26, 50).blocks.size_bytes.tolist() == [100, 400, 200]


def test_blocks_are_saved_and_read(tmp_path: Path) -> None:
    trace = _trace()
    again = read_npz(write_npz(trace, tmp_path / "run.npz"), LIMIT)
    for name, column in trace.blocks.to_dict().items():
        assert np.array_equal(again.blocks.to_dict()[name], column), name


def test_a_file_without_blocks_is_read(tmp_path: Path) -> None:
    trace = make_trace([], TraceMeta("cell", end_ns=1))
    assert len(read_npz(write_npz(trace, tmp_path / "run.npz"), LIMIT).blocks) == 0


@pytest.mark.parametrize(
    "damage", [{"free_order": [NONE, 1, 4, NONE]}, {"holder": [0, NONE, NONE, 2]}, {"size_bytes": [100, 400, -1, 200]}]
)
def test_damaged_blocks_are_refused(tmp_path: Path, damage: dict[str, Any]) -> None:
    path = write_npz(_trace(**damage), tmp_path / "run.npz")
    with pytest.raises(TraceError, match="blocks of memory"):
        read_npz(path, LIMIT)


def test_a_small_gain_is_no_advice() -> None:
    found, words = _ledger(_trace())
    assert [row.change for row in what_if(found, words)] == []


@pytest.mark.slow
def test_the_renderers_give_the_same_numbers() -> None:
    result = MemoryResult(_trace())
    for face in (result.text(details=True), result.html(), result.markdown()):
        assert html.escape(result.sentence.split(" on line")[0]) in " ".join(face.split("\n"))
        assert "before the cell: parameters" in face
    assert result.to_dict()["peak_bytes"] == 800
    assert list(result.to_frame()["size_bytes"]) == [100, 400, 300, 200]


def test_graphs_that_no_line_made_have_no_change() -> None:
    roles = [BlockRole.PARAMETER, BlockRole.UNKNOWN, BlockRole.UNKNOWN, BlockRole.GRAPH]
    found, words = _ledger(_trace(role=roles, alloc_ns=[0, 12, 21, 5], order=[0, 2, 3, 1]))
    assert [why.why.name for why in words.why].count("GRAPH") == 1
    assert list(what_if(found, words)) == []
