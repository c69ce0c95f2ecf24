"""What a launch has to do, for a pace that is a rate: floating-point operations, and bytes read and written."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from typing import Any

import torch

from perfmagic.capture.devices.sim.arguments import Arguments
from perfmagic.capture.devices.sim.infer import flat
from perfmagic.capture.devices.sim.operators import Operator, argument
from perfmagic.capture.devices.sim.pace import Pace
from perfmagic.capture.devices.sim.tensor import Buffer, Ref, Spec
from perfmagic.trace.columns import OpKind
from perfmagic.trace.work.flops import flop_of, is_counted
from perfmagic.trace.work.inputs import Inputs

# these write their first argument and do not read it
_FILL = frozenset({"copy", "fill", "uniform", "normal", "random", "bernoulli", "exponential", "eye"})


def least_s(pace: Pace, op: Operator, taken: Arguments, fresh: Sequence[Buffer]) -> float:
    """Least seconds of a kernel by its work. fresh: new results."""
    flop = flop_of(op.name, _inputs(taken)) if is_counted(op.name) else None
    return pace(op.kernel, OpKind.KERNEL, moved_bytes(op, taken, fresh), flop, _dtype(taken))


def _dtype(taken: Arguments) -> str:
    """The type that a kernel computes with: of its first input with a fraction."""
    found = next((ref.spec.dtype for ref in taken.refs if ref.spec.dtype.is_floating_point), None)
    return "" if found is None else str(found).removeprefix("torch.")


def moved_bytes(op: Operator, taken: Arguments, fresh: Sequence[Buffer]) -> int:
    """The bytes of all that an operator reads and writes: the least that a kernel moves if nothing is in a cache."""
    given = [one for place in op.writes for one in flat(argument(place, taken.args, taken.kwargs))]
    written = [one for one in given if isinstance(one, Ref)]
    read = list(taken.refs)
    if op.fills_out or op.kernel in _FILL:
        for ref in written:  # once: what an op also reads is given to it twice
            read.remove(ref)
    return _bytes([ref.spec for ref in (*read, *written)]) + _bytes([buffer.spec for buffer in fresh])


def _bytes(specs: Iterable[Spec]) -> int:
    """An expanded view is no larger than the memory it is a view of."""
    return sum(min(math.prod(spec.size) * spec.dtype.itemsize, spec.storage_bytes) for spec in specs)


def _inputs(taken: Arguments) -> Inputs:
    """As a record writes them: a shape for each input that is a tensor, the value as text for others."""
    shapes, values = [], []
    for value in taken.args:
        shapes.append(_shape(value))
        values.append("" if shapes[-1] else str(value))
    return Inputs(tuple(shapes), ("",) * len(shapes), tuple(values))


def _shape(value: Any) -> tuple[int, ...]:
    if isinstance(value, Ref):
        return tuple(value.spec.size)
    return tuple(value.shape) if isinstance(value, torch.Tensor) else ()
