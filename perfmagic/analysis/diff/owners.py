"""Which operator each device op belongs to, in names that two traces share."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from perfmagic.numerics.grouped import coded
from perfmagic.trace.columns import NONE, Int64
from perfmagic.trace.hoststack import operator_stack
from perfmagic.trace.model import Trace
from perfmagic.trace.once import once_per_trace

Place = tuple[str, str | None]  # an operator's name, and the shape of its inputs where both traces record shapes


@dataclass(frozen=True, eq=False)
class Owners:
    """Rows of trace.host_ops of the operators that each device op was launched in; NONE where none; shape of trace.ops.

    inner: the innermost.  outer: the outermost.
    """

    inner: Int64
    outer: Int64


@once_per_trace
def owners(trace: Trace) -> Owners:
    """The operators that launched each device op."""
    ops, stack = trace.ops, operator_stack(trace)
    inner, outer = np.full(len(ops), NONE, np.int64), np.full(len(ops), NONE, np.int64)
    launched = np.flatnonzero(ops.launch != NONE)
    thread, at_ns = trace.calls.thread[ops.launch[launched]], trace.calls.start_ns[ops.launch[launched]]
    inner[launched] = stack.innermost_at(thread, at_ns)
    outer[launched] = stack.outermost_at(thread, at_ns)
    return Owners(inner, outer)


def has_shapes(trace: Trace) -> bool:
    """Whether the record says of what shape the inputs of operators were."""
    return bool((trace.host_ops.shape != NONE).any())


@once_per_trace
def places(trace: Trace, *, by_shape: bool, outermost: bool = False) -> tuple[tuple[Place, ...], Int64]:
    """The operators that launched device ops, and for each op its place among them; NONE where no operator did."""
    known = owners(trace)
    host_row = known.outer if outermost else known.inner
    result = np.full(len(host_row), NONE, np.int64)
    inside = np.flatnonzero(host_row != NONE)
    host = trace.host_ops
    shape = host.shape[host_row[inside]] if by_shape else np.full(len(inside), NONE)
    n_shapes = len(trace.input_shapes) + 1
    keys, result[inside] = coded(host.name[host_row[inside]].astype(np.int64) * n_shapes + shape + 1)
    named = tuple((trace.names[key // n_shapes], _shape(trace, key % n_shapes - 1)) for key in keys.tolist())
    return named, result


def _shape(trace: Trace, row: int) -> str | None:
    return None if row == NONE else trace.input_shapes[row]
