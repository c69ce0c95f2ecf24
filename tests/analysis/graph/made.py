"""Graphs made by hand: operators on lanes, with times, and what each reads and writes."""

from collections.abc import Sequence
from typing import Any

from perfmagic.analysis.graph.graph import Graph, graph_of
from perfmagic.trace.columns import CallKind, OpKind, SeenOp, SeenOps, Use
from perfmagic.trace.model import Cell, DeviceInfo, Trace, TraceMeta, make_trace

WHOLE = 100  # bytes of a tensor
KERNEL, HTOD, DTOH = "mm", "Memcpy HtoD (Pageable -> Device)", "Memcpy DtoH (Device -> Pageable)"


def op(name: str, start: int, end: int, *, reads: Sequence[int] = (), writes: Sequence[int] = ()) -> SeenOp:
    """One call that reads and writes whole storages."""
    uses = [Use(one, 0, WHOLE, reads=True) for one in reads] + [Use(one, 0, WHOLE, writes=True) for one in writes]
    return SeenOp(name, start, end, 7, tuple(uses), shape=(2,), has_result=bool(writes))


def recorded(
    calls: Sequence[tuple[SeenOp, tuple[str, int, int, int] | None]], lines: Sequence[tuple[int, int, int]] = ()
) -> tuple[Trace, SeenOps]:
    """A recording. calls: each operator with what it launched: name, device, start, end; None: computed on the host.

    lines: marks, (instant, line, top line).
    """
    launched = [(seen, what) for seen, what in calls if what is not None]
    names = sorted({what[0] for _, what in launched} | {"launch"})
    devices = sorted({what[1] for _, what in launched})
    ops: dict[str, Any] = {
        "start_ns": [what[2] for _, what in launched],
        "end_ns": [what[3] for _, what in launched],
        "kind": [OpKind.MEMCPY if "Memcpy" in what[0] else OpKind.KERNEL for _, what in launched],
        "device": [what[1] for _, what in launched],
        "name": [names.index(what[0]) for _, what in launched],
        "correlation": list(range(len(launched))),
    }
    rows: dict[str, Any] = {
        "start_ns": [seen.start_ns for seen, _ in launched],
        "end_ns": [seen.end_ns for seen, _ in launched],
        "kind": [CallKind.LAUNCH] * len(launched),
        "name": [names.index("launch")] * len(launched),
        "thread": [seen.thread for seen, _ in launched],
        "correlation": list(range(len(launched))),
    }
    end = max([what[3] for _, what in launched] + [seen.end_ns for seen, _ in calls], default=0) + 1
    infos = [DeviceInfo(i, "sim", f"sim:{i}" if len(devices) > 1 else "sim") for i in devices]
    meta = TraceMeta("cell", end_ns=end, returned_ns=end, devices=tuple(infos))
    marks = {key: [mark[i] for mark in lines] for i, key in enumerate(("at_ns", "line", "top_line"))} if lines else None
    source = "%%graph\n" + "\n".join(f"statement_{i}()" for i in range(2, 100))
    trace = make_trace(names, meta, ops=ops, calls=rows, marks=marks, cell=Cell(source))
    return trace, SeenOps(tuple(seen for seen, _ in calls))


def two_devices() -> tuple[Trace, SeenOps]:
    """Half of the work on each of two devices; Python read the first half back before it began with the second."""
    calls = []
    for device, at in ((0, 0), (1, 100)):
        x, y, z = 10 * device, 10 * device + 1, 10 * device + 2
        calls += [
            (op("_to_copy", at, at + 1, writes=[x]), (HTOD, device, at + 1, at + 11)),
            (op("mm", at + 2, at + 3, reads=[x], writes=[y]), (KERNEL, device, at + 11, at + 81)),
            (op("_to_copy", at + 4, at + 99, reads=[y], writes=[z]), (DTOH, device, at + 81, at + 91)),
        ]
    calls.append((op("add", 200, 210, reads=[2, 12], writes=[30]), None))
    return recorded(calls, [(0, 2, 2), (100, 3, 3), (200, 4, 4), (211, 0, 0)])


def graph(of: tuple[Trace, SeenOps]) -> Graph:
    """The graph of a recording."""
    return graph_of(of[0], of[1].ops)


def chain(n: int, *, lines: int = 1) -> tuple[Trace, SeenOps]:
    """n operators on the host, each of which needs the one before it, on so many lines of the cell."""
    calls = [(op("add", 10 * i, 10 * i + 8, reads=[i], writes=[i + 1]), None) for i in range(n)]
    marks = [(10 * (n * i // lines), 2 + i, 2 + i) for i in range(lines)]
    return recorded(calls, [*marks, (10 * n, 0, 0)])
