"""What Python reads of tensors without values: refused at the user's line, or answered by item=."""

from __future__ import annotations

from typing import Any, NoReturn

import torch

from perfmagic.base.user_lines import describe_line, user_line
from perfmagic.sim.infer import Arguments, infer_or_raise
from perfmagic.sim.log import LOG
from perfmagic.sim.operators import Operator
from perfmagic.sim.refusals import refuse_overlap
from perfmagic.sim.tensor import NoValueError, Ref
from perfmagic.sim.values import VALUES

_SIZES = 'smaller sizes with values="real"'
_BY_VALUES = {torch.Tag.data_dependent_output, torch.Tag.dynamic_output_shape}


def read_one(ref: Ref) -> Any:
    """What reading the one value of a tensor gives that has none: item=, in the tensor's type. Each is counted."""
    __tracebackhide__ = True
    if VALUES.item is None:
        refuse_read("reads a value", ref, f"item=0.5 gives every such read that number; or {_SIZES}")
    if LOG.recording:
        LOG.add_given(VALUES.item)
    return torch.tensor(VALUES.item).to(ref.spec.dtype).item()


def refuse_copy(ref: Ref) -> NoReturn:
    """Refuse to copy a tensor without values to the host: whatever it held there would be invented."""
    __tracebackhide__ = True
    refuse_read("copies values to the host", ref, f"{_SIZES}; item= answers reads of one value only")


def check_read(op: Operator, taken: Arguments) -> None:
    """Refuse an op whose result depends on values that are not there. Shapes that do not fit raise torch's error."""
    __tracebackhide__ = True
    missing = next((ref for ref in taken.refs if ref.buffer.missing), None)
    if missing is None:
        return
    if not _BY_VALUES.intersection(op.func.tags):
        try:
            infer_or_raise(op.func, taken.args, taken.kwargs, None)
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
