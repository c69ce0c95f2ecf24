"""What Python reads of tensors without values: refused at the user's line, or answered by item= or NaN."""

from __future__ import annotations

import math
from typing import Any, NoReturn

import torch

from perfmagic.base.user_lines import describe_line, user_line
from perfmagic.sim.device import ALIAS, sim_device
from perfmagic.sim.infer import Arguments, infer_or_raise
from perfmagic.sim.log import LOG
from perfmagic.sim.operators import Operator
from perfmagic.sim.refusals import refuse_overlap
from perfmagic.sim.tensor import NoValueError, Ref
from perfmagic.sim.values import VALUES

_SIZES = 'smaller sizes with values="real"'
_BY_VALUES = {torch.Tag.data_dependent_output, torch.Tag.dynamic_output_shape}


def read_one(ref: Ref) -> Any:
    """What reading the one value of a tensor gives that has none: item=, in the tensor's type. Each is counted.

    Whether anything is inf or NaN is answered without item=: no, as nothing was computed.
    """
    __tracebackhide__ = True
    if ref.buffer.assumed is not None:
        LOG.add_given("finite", ref.buffer.assumed)
        return ref.buffer.assumed
    if VALUES.item is None:
        refuse_read("reads a value", ref, f"{_with_item(ref)} gives every such read that number; or {_SIZES}")
    LOG.add_given("item", VALUES.item)
    return torch.tensor(VALUES.item).to(ref.spec.dtype).item()


def _with_item(ref: Ref) -> str:
    """What the user writes to give item=, in place of what chose the device."""
    if ALIAS:
        return "--item 0.5 (timeline(on=…, item=0.5) in a script)"
    model = sim_device(ref.buffer.device_index).model
    if model is None:
        return 'perfmagic.device(clock="virtual", item=0.5)'
    return f"perfmagic.device({model.given}, item=0.5)"


def copy_missing(ref: Ref, dtype: torch.dtype) -> Any:
    """What fills the host's tensor, of a dtype, in a copy without values: NaN, which is no invented number.

    One element is a read of it. Raises NoValueError for types that have no NaN.
    """
    __tracebackhide__ = True
    n = math.prod(ref.spec.size)
    if n < 2:
        return read_one(ref) if n else 0
    if not all(t.is_floating_point or t.is_complex for t in (ref.spec.dtype, dtype)):
        refuse_read("copies values to the host", ref, f"{_SIZES}; item= answers reads of one value only")
    LOG.add_given("copy", math.nan)
    return math.nan


def check_read(op: Operator, taken: Arguments) -> None:
    """Refuse an op whose result depends on values that are not there. Shapes that do not fit raise torch's error."""
    __tracebackhide__ = True
    missing = next((ref for ref in taken.refs if ref.buffer.missing), None)
    if missing is None:
        return
    if not _BY_VALUES.intersection(op.func.tags):
        try:
            infer_or_raise(taken, kept=False)
        except NotImplementedError:
            pass
        else:
            refuse_overlap()  # its result is known: it is here for what it writes
    refuse_read(f"calls {op.kernel}, whose result Python cannot know without values", missing, _SIZES)


def refuse_read(does: str, ref: Ref, hint: str) -> NoReturn:
    """Raise NoValueError for what the user's line does with a tensor."""
    __tracebackhide__ = True
    shape, dtype = tuple(ref.spec.size), str(ref.spec.dtype).removeprefix("torch.")
    writer = ref.buffer.writer
    made = f"the result of {writer.name}" if writer is not None else "a tensor"
    place = describe_line(*user_line()) or "this line"
    raise NoValueError(
        f"{place} {does}, and there is no data: {made}, {dtype} of shape {shape}, was not computed", hint=hint
    )
