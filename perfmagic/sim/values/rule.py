"""What is computed on the CPU, and what is left out: decided by shapes alone, so that every run decides alike."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from typing import Any

import torch

from perfmagic.base.clock import VIRTUAL
from perfmagic.base.work import flop_of, is_counted
from perfmagic.sim.infer import Arguments, is_dense
from perfmagic.sim.log import LOG
from perfmagic.sim.operators import Operator
from perfmagic.sim.tensor import Buffer, Ref, Spec, view_of
from perfmagic.sim.values import NONE, SMALL, VALUES

# values="small" computes what is within both. On one core of a server's CPU (AVX-512, 2026) that takes at most 25 ms
# for products and attention, 5 ms for elementwise ops, 40 ms for random numbers, 60 ms for a decomposition and 120 ms
# for dropout. Twice as much memory would keep the weights of a 7B model (4096 × 4096 in half precision), 4 GB of them.
MOST_FLOP = 2.2e9  # a product of 1024 × 1024 takes 2.15e9
LARGEST_BYTES = 16 * 2**20

# these write their first argument without reading it
_ONLY_WRITE = {"zero", "fill", "copy", "uniform", "normal", "random", "bernoulli", "exponential", "eye"}

_TESTS = {"isnan": False, "isinf": False, "isfinite": True, "isposinf": False, "isneginf": False}
_LOGIC: dict[str, Callable[[list[Any]], bool]] = {
    **dict.fromkeys(("mul", "all", "logical_and", "bitwise_and"), all),
    **dict.fromkeys(("any", "logical_or", "bitwise_or"), any),
    **dict.fromkeys(("logical_not", "bitwise_not"), lambda known: not known[0]),
}


def is_computed(op: Operator, taken: Arguments, fresh: Iterable[Buffer], written: Sequence[Ref]) -> bool:
    """Whether an op is computed: all that it reads has values, and it is small enough where only small ones are."""
    if VALUES.kept == NONE:
        return False
    reads = list(taken.refs)
    if op.fills_out or op.kernel in _ONLY_WRITE:
        for ref in written:
            reads.remove(ref)
    if any(ref.buffer.missing for ref in reads):
        return False
    if not all(map(is_kept, fresh)) or (VALUES.kept == SMALL and _flop(op, taken) > MOST_FLOP):
        return False
    return all(may_write(ref) for ref in written)


def _flop(op: Operator, taken: Arguments) -> float:
    """Operations of an op where they are counted, 0 where its bytes say enough; of a decomposition about 10 n³."""
    if op.name.startswith(("aten::linalg_", "aten::_linalg_")):
        return 10 * math.pow(max((math.prod(ref.spec.size) for ref in taken.refs), default=0), 1.5)
    return (flop_of(op.name, taken.inputs().read) if is_counted(op.name) else None) or 0


def may_write(ref: Ref) -> bool:
    """Whether what is written to a tensor gives it values; where it had none, only if all its memory is written."""
    buffer = ref.buffer
    if not is_kept(buffer):
        return False
    if buffer.missing:
        if not _is_whole(ref.spec):
            return False
        if buffer.base is None:
            buffer.base = new_memory(buffer)
        buffer.missing = False
    return True


def leave_out(buffers: Iterable[Buffer], assumed: bool | None = None) -> None:
    """Mark what an op writes as without values. On the real clock earlier ops may still read what was there."""
    VALUES.active = True
    for buffer in buffers:
        buffer.missing, buffer.odd, buffer.assumed = True, False, assumed
        if VIRTUAL:
            buffer.base = None


def if_finite(op: Operator, taken: Arguments) -> tuple[bool | None, Buffer | None]:
    """What an op that is not computed tells where every value is finite: its bools, and what keeps its value.

    That is the found_inf of a GradScaler: 0, unless gradients with values had an inf.
    """
    kernel, args = op.kernel, taken.args
    if kernel == "_amp_foreach_non_finite_check_and_unscale":
        LOG.add_given("finite", 0)
        return None, _with_value(args[1].buffer)
    if op.writes:
        return None, None  # a part of a tensor, or one of another type
    if kernel in _TESTS:
        return _TESTS[kernel], None
    if kernel in ("eq", "ne"):  # isfinite is (x == x) * (abs(x) != inf)
        if args[0] is args[1]:
            return kernel == "eq", None
        return (kernel == "ne", None) if args[1] == math.inf else (None, None)
    if kernel not in _LOGIC or any(type(arg) is not Ref for arg in args[: 1 if kernel in ("all", "any") else None]):
        return None, None
    known = [ref.buffer.assumed for ref in taken.refs]
    return (None if None in known else _LOGIC[kernel](known)), None


def _with_value(buffer: Buffer) -> Buffer:
    """A buffer, of zeros where it had no value."""
    if buffer.missing:
        buffer.base, buffer.missing = new_memory(buffer).zero_(), False
    return buffer


def new_memory(buffer: Buffer) -> torch.Tensor:
    """Host memory for a buffer."""
    storage = torch.UntypedStorage(buffer.spec.storage_bytes)  # type: ignore[no-untyped-call]
    return view_of(storage, buffer.spec)


def is_kept(buffer: Buffer) -> bool:
    """Whether values of that size are kept at all."""
    return VALUES.kept != NONE and (VALUES.kept != SMALL or buffer.spec.storage_bytes <= LARGEST_BYTES)


def _is_whole(spec: Spec) -> bool:
    """Whether a tensor covers its memory, each element in a place of its own."""
    return is_dense(spec) and math.prod(spec.size) * spec.dtype.itemsize == spec.storage_bytes
