"""How much work an op is, for a pace that has rates: floating-point operations, and bytes read and written."""

from __future__ import annotations

import math
from typing import Any

import torch
from torch.utils import flop_counter
from torch.utils._pytree import tree_leaves

from perfmagic.capture.devices.sim.operators import Operator
from perfmagic.capture.devices.sim.pace import Pace

aten = torch.ops.aten
# kernels of the CPU, which take their arguments as those of CUDA that torch counts
_COUNTED_AS = {
    aten._scaled_dot_product_flash_attention_for_cpu: aten._scaled_dot_product_flash_attention,
    aten._scaled_dot_product_flash_attention_for_cpu_backward: aten._scaled_dot_product_flash_attention_backward,
}


def flop_of(op: Operator, args: tuple[Any, ...], kwargs: dict[str, Any], outcome: Any) -> int:
    """Floating-point operations of a call, from its shapes; 0 for an operator that torch does not count.

    Source: torch.utils.flop_counter, whose rules these are: a product and its addition are two operations.
    """
    packet: Any = getattr(op.func, "overloadpacket", None)
    rule = flop_counter.flop_registry.get(_COUNTED_AS.get(packet, packet))
    return int(rule(*args, **kwargs, out_val=outcome)) if rule else 0


def moved_bytes(args: tuple[Any, ...], kwargs: dict[str, Any], outcome: Any) -> int:
    """Bytes of all tensors that a call reads or gives back, each once."""
    tensors = {id(t): t for t in tree_leaves((args, kwargs, outcome)) if isinstance(t, torch.Tensor)}
    return sum(math.prod(t.shape) * t.dtype.itemsize for t in tensors.values())


def work_s(pace: Pace, op: Operator, args: tuple[Any, ...], kwargs: dict[str, Any], outcome: Any) -> float:
    """Least seconds of a call by the rates of a pace."""
    return pace.work_s(op.kernel, flop_of(op, args, kwargs, outcome), moved_bytes(args, kwargs, outcome))
