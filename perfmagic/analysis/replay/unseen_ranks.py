"""Ranks that a record says nothing of: a collective with them may end as it did, whatever changes here."""

from __future__ import annotations

import numpy as np

from perfmagic.analysis.replay.graph import Edge, Graph, Links
from perfmagic.numerics.longest import NO_NODE
from perfmagic.trace.columns import NONE, Int64
from perfmagic.trace.model import Trace
from perfmagic.trace.names import OpClass, op_classes


def with_others(trace: Trace) -> Int64:
    """The ops that communicate with other ranks, rows of trace.ops; those of a group of one do not."""
    rows = np.flatnonzero(op_classes(trace) == OpClass.COMMUNICATION)
    alone = [i for i, one in enumerate(trace.collectives) if one.group_size == 1]
    collective = trace.ops.collective[rows]
    found: Int64 = rows[(collective == NONE) | ~np.isin(collective, alone)]
    return found


def not_earlier(graph: Graph, ops: Int64) -> Graph:
    """The graph with some ops that end no earlier than they did, as where other ranks come no earlier.

    ops: rows of trace.ops; those that a change lets take no time end when they may.
    """
    ops = ops[graph.length_ns[graph.op_node[ops]] > 0]
    n, more = len(graph), len(ops)
    ends = graph.op_node[ops]
    held, done = n + np.arange(more), n + more + np.arange(more)
    ended_ns = graph.trace.ops.end_ns[ops]
    # what held the op until now becomes an instant of its own, beside the one at which it ended
    first = _moved(graph.first, ends, ended_ns)
    second = _moved(graph.second, ends, np.zeros(more, np.int64))
    for links, before in ((first, held), (second, done)):
        links.node[ends], links.lag_ns[ends], links.kind[ends] = before, 0, Edge.OTHER_RANK
    order = None
    if not graph.reordered:
        place = np.empty(n, np.int64)
        place[graph.order] = np.arange(n)
        order = np.concatenate((done, np.insert(graph.order, place[ends], held)))
    return graph.with_joins(first, second, np.concatenate((ended_ns, ended_ns)), order)


def _moved(links: Links, ends: Int64, lag_ns: Int64) -> Links:
    """Links of two more instants for each of some: what those had, and none.  lag_ns: of those without."""
    return links.extended(
        np.concatenate((links.node[ends], np.full(len(ends), NO_NODE, np.int64))),
        np.concatenate((links.lag_ns[ends], lag_ns)),
        np.concatenate((links.kind[ends], np.full(len(ends), Edge.ORIGIN))).astype(np.int8),
    )
