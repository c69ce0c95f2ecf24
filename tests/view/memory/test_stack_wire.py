"""The stack of memory as a browser gets it: both ways to cut it have the same sum, which is the peak where it says."""

from typing import Any

import numpy as np
import pytest

from perfmagic.results import MemoryResult
from perfmagic.trace.columns import Int64
from perfmagic.trace.model import TraceMeta, make_trace
from perfmagic.view.svg.palette import TONES
from perfmagic.view.timeline.live_columns import ColumnWriter
from perfmagic.view.timeline.live_data import MOST_COLUMNS, MOST_ROWS, memory_wire
from tests.view.memory.test_picture import memory_trace


class _Kept(ColumnWriter):
    """Columns before they are bytes."""

    def __init__(self) -> None:
        super().__init__()
        self.of: dict[str, list[Int64]] = {}

    def delta(self, table: str, name: str, values: Any) -> None:
        super().delta(table, name, values)
        self.of.setdefault(table, []).append(np.asarray(values))
        assert int(name) == len(self.of[table]) - 1


@pytest.mark.parametrize("n", [0, 100, 5_000])
def test_layers_by_reason_and_by_line_add_up_to_the_same(n: int) -> None:
    out, trace = _Kept(), memory_trace(n)
    wire = memory_wire(out, trace)
    assert wire is not None
    by_reason, by_line = (np.sum(out.of[table], axis=0) for table in ("memory_reasons", "memory_by_line"))
    assert by_reason.tolist() == by_line.tolist()
    assert len(by_reason) <= MOST_COLUMNS
    assert by_reason[wire["peak_column"]] == by_reason.max() == wire["peak_bytes"] == MemoryResult(trace).peak_bytes
    assert len(wire["reasons"]) == len(out.of["memory_reasons"])
    assert len(wire["lines"]) == len(out.of["memory_by_line"])
    assert {token for _, token in (*wire["reasons"], *wire["lines"])} <= set(TONES)


@pytest.mark.parametrize("n", [0, 100, 5_000])
def test_rows_and_the_rest_add_up_to_the_peak_and_to_their_layers(n: int) -> None:
    out = _Kept()
    wire = memory_wire(out, memory_trace(n))
    assert len(wire["rows"]) <= MOST_ROWS
    assert sum(row[-1] for row in wire["rows"]) + wire["more"][1] == wire["peak_bytes"]
    for number, values in enumerate(out.of["memory_reasons"]):
        rows = sum(row[-1] for row in wire["rows"] if row[0] == number)
        assert rows <= values[wire["peak_column"]]
        assert wire["more"][0] or rows == values[wire["peak_column"]]


def test_without_blocks_nothing_is_sent() -> None:
    out = ColumnWriter()
    assert memory_wire(out, make_trace([], TraceMeta("cell"))) is None
    assert out.layout == []
