"""The finding "a wait is missing", of data used on one stream while another still writes them, and its sentence."""

from __future__ import annotations

import numpy as np

from perfmagic import units
from perfmagic.analysis.findings.facts import Facts, sentences
from perfmagic.analysis.findings.finding import Finding
from perfmagic.trace.columns import NONE
from perfmagic.trace.short_names import kernel_short_names


def race(facts: Facts) -> list[Finding]:
    """Where an op used what an op of another stream writes, with no wait between: known of simulated devices only.

    One finding for each pair of lines and of streams: a function on one line may lack a wait each way. The simulated
    device keeps the order all the same, so the values are right here.
    """
    trace = facts.trace
    if not trace.meta.races:
        return []
    row_of = {int(c): row for row, c in enumerate(trace.ops.correlation.tolist()) if c != NONE}
    pairs: dict[tuple[tuple[int, int], ...], list[tuple[int, int]]] = {}
    for reader, writer in trace.meta.races:
        if reader in row_of and writer in row_of:
            both = row_of[reader], row_of[writer]
            key = tuple((int(trace.ops.line[row]), int(trace.ops.stream[row])) for row in both)
            pairs.setdefault(key, []).append(both)
    return [
        _finding(facts, of_reader[0], of_writer[0], found) for (of_reader, of_writer), found in sorted(pairs.items())
    ]


def _finding(facts: Facts, read_line: int, write_line: int, found: list[tuple[int, int]]) -> Finding:
    trace, (reader, writer) = facts.trace, found[0]
    short = kernel_short_names(trace)
    names = [short[trace.names[trace.ops.name[row]]] for row in (reader, writer)]
    places = [f" on line {line}" if line > 0 else "" for line in (read_line, write_line)]
    streams = [int(trace.ops.stream[row]) for row in (reader, writer)]
    times = f", ×{units.count(len(found))}" if len(found) > 1 else ""
    writes = f"{names[1]}{places[1]} writes on stream {streams[1]}{times}"
    uses = f"{names[0]}{places[0]} uses on stream {streams[0]} what {writes}"
    rows = np.array(found)
    return Finding(
        rule="race",
        cost_ns=None,  # a wrong result has no price
        cause="a wait is missing, and on a GPU the result may be wrong",
        detail=f": {sentences(uses, 'only the simulated device keeps that order')}",
        lines=tuple(sorted({line for line in (read_line, write_line) if line > 0})),
        start_ns=int(trace.ops.start_ns[rows].min()),
        end_ns=int(trace.ops.end_ns[rows].max()),
        device=facts.device,
        advice=f"Stream {streams[0]} has to wait for stream {streams[1]} first, with wait_stream()",
    )
