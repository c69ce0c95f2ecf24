"""What one recorded call did: operators, floating-point operations, bytes, copies, types, streams."""

from __future__ import annotations

import threading
from collections import Counter
from dataclasses import dataclass, field
from itertools import chain

import numpy as np

from perfmagic.base.kinds import HostKind, OpKind
from perfmagic.base.work import DTYPE_WORDS, Inputs, flop_of, io_bytes_of
from perfmagic.trace.columns import NONE
from perfmagic.trace.hoststack import nested
from perfmagic.trace.model import Trace

NARROW = ("fp16", "bf16", "fp8")
# operators that only make a view, allocate or read: their number depends on what is already in memory
_NO_WORK = (
    "view", "reshape", "t", "transpose", "expand", "permute", "as_strided", "slice", "select", "unsqueeze", "squeeze",
    "detach", "resolve_conj", "resolve_neg", "empty", "empty_like", "empty_strided", "alias", "lift_fresh", "numpy_T",
    "is_nonzero", "item", "_local_scalar_dense", "unbind", "split", "chunk", "narrow", "set_", "resize_", "result_type",
)  # fmt: skip


@dataclass
class Done:
    """The work of one call. ops: operators that compute, by name.  device_ops: kernels, copies and fills."""

    ops: Counter[str] = field(default_factory=Counter)
    device_ops: int = 0
    copies: int = 0
    copied_bytes: int = 0
    flop: int = 0
    bytes: int = 0
    types: set[str] = field(default_factory=set)
    streams: set[tuple[int, int]] = field(default_factory=set)

    @property
    def n(self) -> int:
        """Operators that compute, and ops of devices."""
        return sum(self.ops.values()) + self.device_ops

    @property
    def narrow(self) -> str:
        """The narrowest floating-point type that an operator read, "" if all have 32 bits or more."""
        return next((name for name in reversed(NARROW) if name in self.types), "")


def work_in(trace: Trace) -> Done:
    """The work in a trace; on the host only of this thread, as others may still be finishing earlier work."""
    done = Done(device_ops=len(trace.ops.start_ns))
    ops, host = trace.ops, trace.host_ops
    moved = ops.kind == OpKind.MEMCPY
    done.copies, done.copied_bytes = int(moved.sum()), int(np.maximum(ops.size_bytes[moved], 0).sum())
    done.streams = {*zip(ops.device.tolist(), ops.stream.tolist(), strict=True)}
    thread = threading.get_native_id()
    mine = (host.kind == HostKind.OP) & (host.thread == thread)
    stack, reads = nested(host, mine), _Reads(trace)
    parents, counted = stack.parents().tolist(), {NONE: (False, False)}
    instants = np.flatnonzero(mine & (host.end_ns <= host.start_ns))
    for row in chain(instants.tolist(), *(level.tolist() for level in stack.levels.get(thread, ()))):
        counted[row] = _count(done, reads.of(row), counted[parents[row]])
    return done


@dataclass(frozen=True)
class _Call:
    """What an operator does; no name: it only makes a view, allocates or reads."""

    name: str = ""
    types: frozenset[str] = frozenset()
    flop: int | None = None
    bytes: int | None = None


class _Reads:
    """The calls of a trace by row of host_ops; equal calls are read once."""

    def __init__(self, trace: Trace) -> None:
        host, self._trace, self._read = trace.host_ops, trace, dict[tuple[int, ...], _Call]()
        self._columns = host.name, host.shape, host.dtype, host.value

    def of(self, row: int) -> _Call:
        """The call of a row."""
        key = tuple(int(column[row]) for column in self._columns)
        if key not in self._read:
            self._read[key] = self._call(self._trace.names[key[0]], key[1:])
        return self._read[key]

    def _call(self, name: str, at: tuple[int, ...]) -> _Call:
        if not name.startswith("aten::") or name.removeprefix("aten::") in _NO_WORK:
            return _Call()
        if at[0] == NONE:
            return _Call(name)
        texts = (self._trace.input_shapes, self._trace.input_dtypes, self._trace.input_values)
        inputs = Inputs.read(*(column[i] if i != NONE else None for column, i in zip(texts, at, strict=True)))
        types = frozenset(DTYPE_WORDS[dtype] for dtype in inputs.dtypes if dtype in DTYPE_WORDS)
        return _Call(name, types, flop_of(name, inputs), io_bytes_of(name, inputs))


def _count(done: Done, call: _Call, within: tuple[bool, bool]) -> tuple[bool, bool]:
    """Add a call. within: whether outer operators counted its FLOP, and its bytes, as aten::linear counts addmm's.

    Returns the same for its inner operators.
    """
    if call.name:
        done.ops[call.name] += 1
        done.types |= call.types
    done.flop += 0 if within[0] else call.flop or 0
    done.bytes += 0 if within[1] else call.bytes or 0
    return within[0] or call.flop is not None, within[1] or call.bytes is not None
