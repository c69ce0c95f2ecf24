"""The trace of a run that was predicted, to be drawn beside the recorded one."""

from __future__ import annotations

import re
from dataclasses import replace
from typing import Any

import numpy as np

from perfmagic.analysis.replay.graph import Graph
from perfmagic.analysis.replay.prediction import Prediction
from perfmagic.base.kinds import PredictedFor
from perfmagic.base.language import chained, phrase
from perfmagic.base.numerics.longest import NO_NODE
from perfmagic.predict.gpus import Gpu
from perfmagic.trace.columns import NONE, Int32, Int64, Remark
from perfmagic.trace.model import DeviceInfo, Trace, make_trace


def predicted_trace(prediction: Prediction) -> Trace:
    """What the timeline of the changed run would be; a note says that it was not recorded.

    Launches and ops are where the replay has them; ops that a change leaves out are not there. What Python did between
    two calls is stretched or shortened with the time between them. Memory, waits and lines of functions are left out.
    Raises ValueError for a prediction that was refused.
    """
    if prediction.graph is None or prediction.times_ns is None:
        raise ValueError(f"nothing is predicted: {prediction.refused}")
    graph, times_ns = prediction.graph, prediction.times_ns
    trace = graph.trace
    moved = _Moved(graph, times_ns)
    length_ns = graph.length_ns[graph.op_node]
    kept = (length_ns > 0) | (trace.ops.end_ns == trace.ops.start_ns)
    ops = {name: column[kept] for name, column in trace.ops.to_dict().items() if name not in ("launch", "line")}
    ops["end_ns"] = times_ns[graph.op_node][kept]
    ops["start_ns"] = ops["end_ns"] - length_ns[kept]
    ops["stream"] = graph.stream[kept]
    names, name = _names(graph)
    ops["name"] = name[kept]
    launching = np.ones(len(trace.calls), bool)
    launching[trace.ops.launch[~kept & (trace.ops.launch != NONE)]] = False
    launching[trace.ops.launch[kept & (trace.ops.launch != NONE)]] = True
    meta = trace.meta
    changes = chained("{a}; {b}", prediction.changes)
    end_ns = int(times_ns.max(initial=meta.start_ns))
    predicted = phrase("predicted by replaying the record with a change, not recorded: {changes}", changes=changes)
    return make_trace(
        names,
        replace(
            meta,
            end_ns=end_ns,
            returned_ns=None if meta.returned_ns is None else min(end_ns, moved.main_at(meta.returned_ns)),
            notes=(Remark("predicted", predicted), *meta.notes),
            devices=tuple(_on(graph.gpu, prediction.spread, info) for info in meta.devices),
            predicted=changes,
        ),
        ops=ops,
        calls={name: column[launching] for name, column in moved.calls().items()},
        host_ops=moved.host_ops(),
        marks={**trace.marks.to_dict(), "at_ns": moved.main(trace.marks.at_ns)},
        cell=trace.cell,
        shapes=trace.shapes,
        input_shapes=trace.input_shapes,
        input_dtypes=trace.input_dtypes,
        input_values=trace.input_values,
        collectives=trace.collectives,
    )


def _on(gpu: Gpu | None, spread: float, info: DeviceInfo) -> DeviceInfo:
    """A device as the one that it is replayed on, if another."""
    if gpu is None:
        return info
    kind = "rocm" if gpu.is_amd else "cuda"
    model = PredictedFor(gpu.name, spread)
    return DeviceInfo(info.index, kind, gpu.name, model.words, multiprocessors=gpu.multiprocessors, predicted=model)


def _names(graph: Graph) -> tuple[tuple[str, ...], Int32]:
    """The names of the trace, and those of its ops: what is pinned comes from pinned memory."""
    trace, rows = graph.trace, np.array(graph.pinned, np.int64)
    used, inverse = np.unique(trace.ops.name[rows], return_inverse=True)
    new = tuple(re.sub("pageable", "Pinned", trace.names[name], flags=re.IGNORECASE) for name in used.tolist())
    name = trace.ops.name.copy()
    name[rows] = len(trace.names) + inverse
    return (*trace.names, *new), name


class _Moved:
    """Where the host's times went: exact for calls that are instants, between them in proportion."""

    def __init__(self, graph: Graph, times_ns: Int64) -> None:
        self._graph, self._times_ns = graph, times_ns
        rows = np.flatnonzero(graph.on_host)
        threads, counts = np.unique(graph.thread[rows], return_counts=True)
        begins_ns = graph.trace.meta.start_ns
        self._points: dict[int, tuple[Int64, Int64]] = {}
        for thread in threads.tolist():
            own = rows[graph.thread[rows] == thread]
            old = np.concatenate(([min(begins_ns, int(graph.time_ns[own[0]]))], graph.time_ns[own]))
            new = np.concatenate((old[:1], times_ns[own]))
            self._points[thread] = old, np.maximum.accumulate(new)
        self._main = int(threads[counts.argmax()]) if len(threads) else 0

    def main(self, at_ns: Int64) -> Int64:
        """Instants of the thread that launches most."""
        return self._at(self._main, at_ns)

    def main_at(self, at_ns: int) -> int:
        return int(self.main(np.array([at_ns]))[0])

    def calls(self) -> dict[str, Any]:
        """The columns of the calls."""
        table, graph = self._graph.trace.calls, self._graph
        columns = {name: column for name, column in table.to_dict().items() if name != "line"}
        for name, nodes in (("start_ns", graph.begin_of), ("end_ns", graph.end_of)):
            columns[name] = self._by_thread(table.thread, columns[name])
            known = nodes != NO_NODE
            columns[name][known] = self._times_ns[nodes[known]]
        columns["end_ns"] = np.maximum(columns["start_ns"], columns["end_ns"])
        return columns

    def host_ops(self) -> dict[str, Any]:
        """The columns of operators and annotations."""
        table = self._graph.trace.host_ops
        columns = {name: column for name, column in table.to_dict().items() if name != "line"}
        for name in ("start_ns", "end_ns"):
            columns[name] = self._by_thread(table.thread, columns[name])
        return columns

    def _by_thread(self, thread: Int64, at_ns: Int64) -> Int64:
        moved = at_ns.copy()
        for number in np.unique(thread).tolist():
            own = thread == number
            moved[own] = self._at(number if number in self._points else self._main, at_ns[own])
        return moved

    def _at(self, thread: int, at_ns: Int64) -> Int64:
        if thread not in self._points:
            return at_ns
        old, new = self._points[thread]
        inside = np.interp(at_ns - old[0], old - old[0], new - old[0]).astype(np.int64) + old[0]
        after = at_ns > old[-1]
        return np.where(after, at_ns - old[-1] + new[-1], np.where(at_ns < old[0], at_ns, inside))
