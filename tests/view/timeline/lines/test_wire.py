"""Lines as they go to a browser: few bytes a row, every op on its lines, nothing lost where there is too much."""

import json
import zlib
from dataclasses import replace
from typing import Any

import numpy as np

from perfmagic.analysis.findings.find import findings
from perfmagic.trace.columns import PathMarks
from perfmagic.trace.model import Trace
from perfmagic.trace.paths import Paths, UserFunction
from perfmagic.view.timeline.doc import timeline_doc
from perfmagic.view.timeline.lines.live_data import EXACT, GRID, MOST_ROWS, NOT_DRAWN
from perfmagic.view.timeline.live_data import Wire, timeline_wire
from tests.analysis.timeline.test_by_path import MAIN, MS, WORKER, trace_of
from tests.view.timeline.build import HOSTILE, decoded, noisy, queue_of
from tests.view.timeline.lines.build import BACKWARD, with_backward

BYTES_A_ROW = 120  # compressed, of rows with a few intervals each


def wire_of(trace: Trace) -> Wire:
    return timeline_wire(timeline_doc(trace, findings(trace)), trace)


def _where(wire: Wire, table: str, name: str) -> dict[str, Any]:
    return next(c for c in wire.header["columns"] if (c["table"], c["name"]) == (table, name))


def _bytes(wire: Wire, table: str, name: str) -> bytes:
    column = _where(wire, table, name)
    return zlib.decompress(wire.payload)[column["at"] : column["at"] + column["width"] * column["rows"]]


def column(wire: Wire, table: str, name: str) -> list[int]:
    return decoded(zlib.decompress(wire.payload), wire.header["columns"], table, name)


def chains(wire: Wire, name: str) -> list[list[tuple[str, int, int]]]:
    """For each op of the first stream its places, the innermost first."""
    places, all_chains = json.loads(_bytes(wire, "", "chains"))
    return [
        [tuple(places[place]) for place in all_chains[number - 1]] if number else []
        for number in column(wire, "stream0", name)
    ]


def test_every_op_names_its_lines_from_the_innermost_and_those_of_its_forward() -> None:
    wire = wire_of(with_backward())
    assert chains(wire, "chain") == [
        [("step", 2, 2), ("", 2, 1)],
        [("work", 11, 4), ("", 2, 1)],
        [("step", 2, 2), ("step", 3, 3), ("", 2, 1)],
        [("", 2, 1)],
    ]
    forward = chains(wire, "forward")
    assert forward[BACKWARD] == [("step", 2, 2), ("", 2, 1)]
    assert forward[:BACKWARD] == [[], [], []]


def test_a_trace_without_lines_sends_none_and_one_without_functions_its_cell() -> None:
    assert wire_of(noisy(100)).header["lines"] is None
    alone = wire_of(queue_of())
    assert alone.header["lines"]["followed"] is False
    assert [block["name"] for block in alone.header["lines"]["blocks"]] == [""]
    assert {places[0] for places in chains(alone, "chain")} == {("", 2, 1)}


def test_a_function_that_is_not_drawn_still_names_its_line() -> None:
    launches = [(14, WORKER), *((ms, MAIN) for ms in range(50, 450, 2))]  # 1 of 201 ops in `work`
    wire = wire_of(trace_of(launches, until_ms=10_000))
    assert "work" in wire.header["lines"]["folded"]
    assert chains(wire, "chain")[0] == [("work", 11, NOT_DRAWN), ("", 2, 1)]


def test_a_recursion_a_thousand_deep_names_each_line_once() -> None:
    wire = wire_of(deep(trace_of([(11, MAIN), (31, MAIN)]), 1000))
    assert max(len(chain) for chain in chains(wire, "chain")) == 2  # step line 3 again and again, then the cell
    assert len(_bytes(wire, "", "chains")) < 2000


def test_rows_are_counted_beyond_the_most() -> None:
    trace = with_backward()
    assert trace.cell is not None
    long = replace(trace, cell=replace(trace.cell, source="\n".join(["%%timeline", "step(1)", *["pass"] * 2000])))
    wire = wire_of(long)
    blocks = wire.header["lines"]["blocks"]
    assert sum(block["rows"] for block in blocks) == MOST_ROWS
    assert sum(block["more"] for block in blocks) == 2002 + 3 - MOST_ROWS
    assert chains(wire, "chain")[0] == [("step", 2, NOT_DRAWN), ("", 2, 1)]


def test_many_intervals_are_merged_on_a_grid_and_lose_no_end() -> None:
    trace = trace_of([(11, MAIN)])
    assert trace.paths is not None
    n = 2 * EXACT  # in and out of step line 2, each 1 µs long
    at = np.concatenate((np.arange(n) * 2000, [40 * MS]))
    path = np.concatenate((np.arange(n) % 2 + 1, [1]))
    marks = PathMarks.make({"at_ns": at, "thread": np.full(n + 1, MAIN), "path": path})
    wire = wire_of(replace(trace, paths=replace(trace.paths, marks=marks)))
    grain = wire.header["lines"]["grain_ns"]
    assert grain == 100 * MS // GRID
    assert sum(column(wire, "lines", "n_python")) < 2 * GRID
    assert max(column(wire, "lines_python", "duration")) >= (n - 2) * 2000  # one stretch from the first to the last


def test_a_row_takes_few_bytes() -> None:
    trace = with_backward()
    wire = wire_of(trace)
    sent = [c for c in wire.header["columns"] if c["table"].startswith("lines") or c["name"] in ("codes", "chains")]
    together = b"".join(_bytes(wire, c["table"], c["name"]) for c in sent)
    assert len(zlib.compress(together, 1)) <= BYTES_A_ROW * 5


def test_hostile_code_and_names_are_text() -> None:
    trace = with_backward()
    cell, _, work = trace.paths.functions
    bad = UserFunction(HOSTILE, "In[0]", 1, ((2, HOSTILE), (3, "\x00")))
    wire = wire_of(replace(trace, paths=replace(trace.paths, functions=(cell, bad, work))))
    assert HOSTILE.encode("utf-8", "replace").decode() in json.loads(_bytes(wire, "", "codes"))
    json.loads(wire.header_json)


def deep(trace: Trace, depth: int) -> Trace:
    """The ops on the innermost of many calls of step line 3."""
    assert trace.paths is not None
    parent = [0, 0, *range(1, depth + 1)]
    function = [-1, 0, *[1] * depth]
    line = [0, 2, *[3] * depth]
    paths = replace(
        trace.paths,
        parent=np.array(parent, np.int32),
        function=np.array(function, np.int32),
        line=np.array(line, np.int32),
        marks=PathMarks.make({"at_ns": [0], "thread": [MAIN], "path": [depth + 1]}),
    )
    assert isinstance(paths, Paths)
    return replace(trace, paths=paths)
