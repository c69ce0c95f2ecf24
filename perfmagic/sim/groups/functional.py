"""torch.ops._c10d_functional on tensors of the device: what DTensor, DeviceMesh and functional collectives call.

Results are new tensors. wait_tensor holds the current stream behind the operation that makes its tensor.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
import torch.distributed as dist

from perfmagic.sim import torch_private
from perfmagic.sim.groups import foreign
from perfmagic.sim.launch import launch_lane
from perfmagic.sim.refusals import refuse_communication
from perfmagic.sim.streams import Event, Stream
from perfmagic.sim.torch_private import new_options

_NAMESPACE = "_c10d_functional"


def register() -> None:
    """Register these operators, which are refused otherwise."""
    foreign.set_handler(_NAMESPACE, _run)


def _run(func: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    __tracebackhide__ = True
    name = func.name().removeprefix(f"{_NAMESPACE}::")
    if name == "wait_tensor":
        return _wait(*args)
    known = _OPERATORS.get(name)
    if known is None:  # what wraps a result; and what consists of operators that come here again
        kernel = torch_private.kernel_for_any_device(func)
        return refuse_communication(func.name()) if kernel is None else kernel(*args, **kwargs)
    schema = {a.name: value for a, value in zip(torch_private.schema_of(func).arguments, args, strict=False)} | kwargs
    group = _group(schema.pop("group_name", None))
    if group is None:
        refuse_communication(func.name())
    return known(group, **schema)


def _group(name: Any) -> Any:
    """The process group of that name, if it is one of ours."""
    group = name if isinstance(name, dist.ProcessGroup) else torch_private.process_group_named(name)
    return group if foreign.knows_device(group) else None


def _wait(tensor: Any) -> Any:
    """Make the current stream wait for the operation that writes the tensor."""
    writer = tensor._ref.buffer.writer
    if writer is not None and not writer.done:
        lane = launch_lane(tensor._ref.buffer.device_index, [])[0]
        if lane is not writer.lane:
            Event.of_job(writer).wait(Stream.of_lane(lane))
    return tensor


def _reducing(opts: Any, reduce_op: str) -> Any:
    opts.reduceOp = getattr(dist.ReduceOp, {"sum": "SUM", "avg": "AVG"}.get(reduce_op.lower(), reduce_op.upper()))
    return opts


def _all_reduce_(group: Any, input: Any, reduce_op: str) -> Any:  # noqa: A002 - the schema's names
    group.allreduce([input], _reducing(new_options("Allreduce"), reduce_op))
    return input


def _all_reduce(group: Any, input: Any, reduce_op: str) -> Any:  # noqa: A002
    return _all_reduce_(group, input.clone(memory_format=torch.contiguous_format), reduce_op)


def _all_reduce_coalesced_(group: Any, inputs: Any, reduce_op: str) -> Any:
    group.allreduce_coalesced(inputs, _reducing(new_options("AllreduceCoalesced"), reduce_op))
    return inputs


def _all_reduce_coalesced(group: Any, inputs: Any, reduce_op: str) -> Any:
    return _all_reduce_coalesced_(group, [t.clone(memory_format=torch.contiguous_format) for t in inputs], reduce_op)


def _broadcast_(group: Any, input: Any, src: int) -> Any:  # noqa: A002
    opts = new_options("Broadcast")
    opts.rootRank, opts.rootTensor = src, 0
    group.broadcast([input], opts)
    return input


def _broadcast(group: Any, input: Any, src: int) -> Any:  # noqa: A002
    return _broadcast_(group, input.clone(memory_format=torch.contiguous_format), src)


def _all_gather_coalesced(group: Any, inputs: Any, group_size: int) -> Any:
    outputs = [t.new_empty((group_size * t.shape[0], *t.shape[1:])) for t in inputs]
    group.all_gather_single_coalesced(outputs, [t.contiguous() for t in inputs])
    return outputs


def _all_gather(group: Any, input: Any, group_size: int) -> Any:  # noqa: A002
    return _all_gather_coalesced(group, [input], group_size)[0]


def _all_gather_out(group: Any, input: Any, group_size: int, out: Any) -> Any:  # noqa: A002, ARG001
    group.all_gather_single(out, input.contiguous())
    return out


def _reduce_scatter_coalesced(group: Any, inputs: Any, reduce_op: str, group_size: int) -> Any:
    outputs = [t.new_empty((t.shape[0] // group_size, *t.shape[1:])) for t in inputs]
    opts = _reducing(new_options("ReduceScatter"), reduce_op)
    group.reduce_scatter_single_coalesced(outputs, [t.contiguous() for t in inputs], opts)
    return outputs


def _reduce_scatter(group: Any, input: Any, reduce_op: str, group_size: int) -> Any:  # noqa: A002
    return _reduce_scatter_coalesced(group, [input], reduce_op, group_size)[0]


def _reduce_scatter_out(group: Any, input: Any, reduce_op: str, group_size: int, out: Any) -> Any:  # noqa: A002, ARG001
    group.reduce_scatter_single(out, input.contiguous(), _reducing(new_options("ReduceScatter"), reduce_op))
    return out


def _all_to_all(group: Any, input: Any, output_split_sizes: Any, input_split_sizes: Any) -> Any:  # noqa: A002
    output = input.new_empty((sum(output_split_sizes), *input.shape[1:]))
    group.all_to_all_single(output, input.contiguous(), output_split_sizes, input_split_sizes)
    return output


_OPERATORS: dict[str, Callable[..., Any]] = {
    "all_reduce": _all_reduce,
    "all_reduce_": _all_reduce_,
    "all_reduce_coalesced": _all_reduce_coalesced,
    "all_reduce_coalesced_": _all_reduce_coalesced_,
    "broadcast": _broadcast,
    "broadcast_": _broadcast_,
    "all_gather_into_tensor": _all_gather,
    "all_gather_into_tensor_coalesced": _all_gather_coalesced,
    "all_gather_into_tensor_out": _all_gather_out,
    "reduce_scatter_tensor": _reduce_scatter,
    "reduce_scatter_tensor_coalesced": _reduce_scatter_coalesced,
    "reduce_scatter_tensor_out": _reduce_scatter_out,
    "all_to_all_single": _all_to_all,
}
