"""What one recorded call did: operators, floating-point operations, bytes, copies, types, streams."""

from __future__ import annotations

import threading
from collections import Counter
from dataclasses import dataclass, field

import numpy as np

from perfmagic.base.kinds import HostKind, OpKind
from perfmagic.base.work import DTYPE_WORDS, Inputs, flop_of, io_bytes_of
from perfmagic.trace.columns import NONE
from perfmagic.trace.model import Trace

NARROW = ("fp16", "bf16", "fp8")
# operators that only make a view, allocate or look: their number depends on what is in memory already
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
        """The narrowest floating-point type that an operator read, "" where all are of 32 bits or more."""
        return next((name for name in reversed(NARROW) if name in self.types), "")


def work_in(trace: Trace) -> Done:
    """What a trace says was done; of the host by this thread: others may still do what nobody asked them for now."""
    done = Done(device_ops=len(trace.ops.start_ns))
    ops, host = trace.ops, trace.host_ops
    moved = ops.kind == OpKind.MEMCPY
    done.copies, done.copied_bytes = int(moved.sum()), int(np.maximum(ops.size_bytes[moved], 0).sum())
    done.streams = {*zip(ops.device.tolist(), ops.stream.tolist(), strict=True)}
    rows = np.flatnonzero((host.kind == HostKind.OP) & (host.thread == threading.get_native_id()))
    calls = Counter(zip(*(c[rows].tolist() for c in (host.name, host.shape, host.dtype, host.value)), strict=True))
    for (name, shape, dtype, value), n in calls.items():
        _count(done, trace, trace.names[name], (shape, dtype, value), n)
    return done


def _count(done: Done, trace: Trace, name: str, at: tuple[int, int, int], n: int) -> None:
    if not name.startswith("aten::") or name.removeprefix("aten::") in _NO_WORK:
        return
    done.ops[name] += n
    if at[0] == NONE:
        return
    texts = (trace.input_shapes, trace.input_dtypes, trace.input_values)
    inputs = Inputs.read(*(column[i] if i != NONE else None for column, i in zip(texts, at, strict=True)))
    done.types |= {DTYPE_WORDS[dtype] for dtype in inputs.dtypes if dtype in DTYPE_WORDS}
    done.flop += n * (flop_of(name, inputs) or 0)
    done.bytes += n * (io_bytes_of(name, inputs) or 0)
