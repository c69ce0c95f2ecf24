"""Runs every operator on the simulated device: shapes at the call, values later, in order of the queue."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from functools import partial
from operator import sub
from typing import Any

import torch

from perfmagic.base.clock import HOST, VIRTUAL, at_work, now_ns
from perfmagic.base.errors import DeviceError
from perfmagic.base.kinds import UNKNOWN_TIME, OpKind
from perfmagic.sim import copies
from perfmagic.sim.device import NAME, check_usable, device_of, sim_device
from perfmagic.sim.groups.foreign import run_foreign
from perfmagic.sim.infer import (
    FUSED_ATTENTION,
    Arguments,
    Leaf,
    UnknownResultError,
    are_alike,
    attention_name,
    brought,
    check_devices,
    device_index,
    infer,
    infer_or_raise,
    inputs_of,
    is_channels_last,
    is_elsewhere,
    is_fused,
    is_unplaced,
    least_s,
    meta_of,
    modelled,
)
from perfmagic.sim.launch import launch_lane, queue_op
from perfmagic.sim.log import LOG
from perfmagic.sim.operators import Operator, argument, map_tree, operator_of
from perfmagic.sim.pace import Pace
from perfmagic.sim.queues import Job, Lane
from perfmagic.sim.refusals import TORCH_ARITHMETIC, check_layout, is_refused, refuse_address, refuse_name
from perfmagic.sim.results import (
    check_apart,
    check_bounds,
    empty_ref,
    given_back,
    make_body,
    on_device,
    pass_over,
    real_call,
    repeats,
    resize_results,
    take_new_shapes,
    written_by,
)
from perfmagic.sim.streams import wait_for_job
from perfmagic.sim.tensor import Buffer, Ref, SimTensor, become, without_work
from perfmagic.sim.values import VALUES
from perfmagic.sim.values.reads import check_read
from perfmagic.sim.values.rule import is_computed
from perfmagic.sim.virtual import spend

# Operators that do something other than launch one kernel.

BY_RESULT = {"linear", "linalg_matrix_rank"}  # their out= variants compute a result and copy it


def decompose(op: Operator, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """Run an operator as the operators it is composed of, as autograd does; inference mode skips autograd."""
    __tracebackhide__ = True
    return op.func.decompose(*args, **kwargs)


def by_result(op: Operator, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """Compute the result and copy it to out: torch's own out= variant fails for tensor subclasses or without values."""
    __tracebackhide__ = True
    out = kwargs["out"]
    result = op.func.overloadpacket(*args, **{name: value for name, value in kwargs.items() if name != "out"})
    if out.shape != result.shape:
        out.resize_(result.shape)
    return out.copy_(result)


def refuse_device(op: Operator, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:  # noqa: ARG001 - as all handlers
    """Refuse operators with a positional device argument: they would run on that device."""
    raise DeviceError(f"the simulated device does not support {op.name}", hint="use Tensor.to(device)")


def pin(op: Operator, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:  # noqa: ARG001 - as all handlers
    """Raise the error that CUDA raises."""
    raise RuntimeError(f"cannot pin a tensor on {args[0].device}: only memory of the host can be pinned")


def zeros(op: Operator, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:  # noqa: ARG001 - as all handlers
    """Allocate zeros that torch's gradient formulas would leave without memory."""
    return torch.zeros(*args, **{name: value for name, value in kwargs.items() if name in ("dtype", "device")})


def ctc(op: Operator, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """ctc_loss with lengths on the host: for a tensor subclass, torch would divide the losses by the raw lengths."""
    __tracebackhide__ = True
    log_probs, targets, *lengths = args[:4]
    if any(t.device.type != "cpu" for t in lengths):
        return op.func.decompose(*args, **kwargs)
    return aten.ctc_loss.IntList(log_probs, targets, *(t.tolist() for t in lengths), *args[4:], **kwargs)


def attention(op: Operator, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """Attention as one kernel where the GPU of a model has it, else as the operators that it is composed of."""
    __tracebackhide__ = True
    query, key, value = args[:3]
    mask, dropout_p = argument((3, "attn_mask"), args, kwargs), argument((4, "dropout_p"), args, kwargs) or 0.0
    if not is_fused(query, key, value, mask, dropout_p):
        return op.func.decompose(*args, **kwargs)
    if mask is not None and mask.dtype == torch.bool:  # torch's fused kernels take numbers
        mask = torch.zeros_like(mask, dtype=query.dtype).masked_fill_(mask.logical_not(), -math.inf)
    is_causal = bool(argument((5, "is_causal"), args, kwargs))
    fused, scale = aten._scaled_dot_product_flash_attention_for_cpu, kwargs.get("scale")
    return fused(query, key, value, dropout_p, is_causal, attn_mask=mask, scale=scale)[0]


class _RmsNorm(torch.autograd.Function):
    """The fused kernel with its backward, one kernel too."""

    @staticmethod
    def forward(ctx: Any, t: Any, normalized_shape: Any, weight: Any, eps: float | None) -> Any:
        result, rstd = _kernel(operator_of(aten._fused_rms_norm.default), (t, normalized_shape, weight, eps), {})
        ctx.save_for_backward(t, rstd, weight)
        ctx.normalized_shape = normalized_shape
        ctx.mark_non_differentiable(rstd)
        ctx.set_materialize_grads(False)  # zeros for rstd would be a kernel
        return result, rstd

    @staticmethod
    def backward(ctx: Any, grad: Any, _: Any) -> Any:
        t, rstd, weight = ctx.saved_tensors
        wanted = [ctx.needs_input_grad[0], ctx.needs_input_grad[2]]
        of_t, of_weight = aten._fused_rms_norm_backward(grad, t, ctx.normalized_shape, rstd, weight, wanted)
        return of_t, None, of_weight, None


def rms_norm(op: Operator, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """One kernel where a GPU's model gives the times, as torch has it for GPUs since 2.9 (layer_norm.cpp)."""
    __tracebackhide__ = True
    t, weight = args[0], argument((2, "weight"), args, kwargs)
    if sim_device(device_of(t.device)).model is None or t.is_complex():
        return op.func.decompose(*args, **kwargs)
    given = (t, args[1], weight, argument((3, "eps"), args, kwargs))
    if torch.is_grad_enabled() and any(each is not None and each.requires_grad for each in (t, weight)):
        return _RmsNorm.apply(*given)  # type: ignore[no-untyped-call]
    return _kernel(op, given, {})


def pack(op: Operator, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:  # noqa: ARG001 - as all handlers
    """pack_padded_sequence: lengths and batch sizes are on the host, as on any device."""
    __tracebackhide__ = True
    padded, lengths, batch_first = args
    rows, columns = padded.shape[:2]
    order, steps = op.func(torch.arange(rows * columns).view(rows, columns, 1), lengths, batch_first)
    order_on_device = torch.empty(len(order), dtype=torch.int64, device=padded.device).copy_(order.view(-1))
    return padded.reshape(rows * columns, *padded.shape[2:]).index_select(0, order_on_device), steps


aten = torch.ops.aten
# these write one value, so writing an element twice is harmless: torch allows only these on expanded tensors
_WRITES_ONE_VALUE = {"fill", "zero", "masked_fill", "index_fill"}
_ALLOCATIONS = {"aten::empty", "aten::empty_strided", "aten::empty_like", "aten::new_empty", "aten::new_empty_strided"}


@partial(at_work, through_torch=True)
def dispatch(func: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """Run one operator for a SimTensor, or for a factory with device="sim"."""
    __tracebackhide__ = True  # a traceback ends at the user's line, as on a real device
    check_usable()
    op = operator_of(func)
    handler = _handlers.get(op)
    if handler is None:
        handler = _handlers[op] = _choose(op)
    return _recorded(handler, op, args, kwargs) if LOG.recording else handler(op, args, kwargs)


def measure_way() -> None:
    """Find how long torch takes to call the device and to return, once a process, by operators that do nothing.

    A quarter of them is faster: others were disturbed.
    """
    if not HOST.way_ns:
        t = torch.empty(1, device=NAME)
        with without_work(at_work(lambda _operator, args, _kwargs: args[0])):
            begun_ns = [now_ns() for _ in range(_WAYS) if t.add_(1) is t]
        HOST.way_ns = sorted(map(sub, begun_ns[1:], begun_ns))[_WAYS // 4]


_WAYS = 200


def _recorded(handler: Handler, op: Operator, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    __tracebackhide__ = True
    start_ns = now_ns()
    taken = inputs = None  # before the call, as it may change a shape
    if LOG.with_inputs:
        if handler in _BY_SHAPES:
            taken = Arguments(op, args, kwargs)
        inputs = inputs_of(op, args, kwargs) if taken is None else taken.inputs()
    try:
        return handler(op, args, kwargs) if taken is None else handler(op, args, kwargs, taken)
    finally:
        if LOG.recording:
            LOG.add_host_op(start_ns, now_ns(), op.name, inputs)


Handler = Callable[..., Any]
_handlers: dict[Operator, Handler] = {}


def _choose(op: Operator) -> Handler:
    by_hand: dict[Any, Handler] = {
        aten.copy_.default: _copy,
        aten._to_copy.default: _to_copy,
        aten._local_scalar_dense.default: _item,
        aten.equal.default: _run_and_wait,
        aten._pack_padded_sequence.default: pack,
        aten._pin_memory.default: pin,
        aten.ctc_loss.Tensor: ctc,
        aten.scaled_dot_product_attention.default: attention,
        aten._fused_rms_norm.default: rms_norm,
        aten._fused_rms_norm_backward.default: _kernel,
        aten._efficientzerotensor.default: zeros,
    }
    if op.func in by_hand:
        return by_hand[op.func]
    choices: tuple[tuple[bool, Handler], ...] = (
        (op.namespace not in TORCH_ARITHMETIC, run_foreign),
        (is_refused(op.name), refuse_name),
        (op.kernel in BY_RESULT and op.fills_out, by_result),
        (op.composite, decompose),
        (op.names_device, refuse_device),
        (op.reshapes, _reshape_in_place),
        (op.is_view or op.name == "aten::_unsafe_view", _view),  # its schema hides that it copies nothing
        (op.name.startswith(("aten::_foreach_", "aten::_fused_")), _foreach),
        (op.name in _ALLOCATIONS, _allocate),
    )
    return next((handler for applies, handler in choices if applies), _kernel)


def _copy(op: Operator, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    __tracebackhide__ = True
    target, source = args[0], args[1]
    non_blocking = bool(args[2] if len(args) > 2 else kwargs.get("non_blocking", False))
    if not isinstance(target, SimTensor):
        return copies.to_host(source, target, non_blocking)
    check_apart(target)
    if not isinstance(source, SimTensor):
        return copies.to_device(source, target, non_blocking)
    if source._ref.buffer.device_index != target._ref.buffer.device_index:
        return copies.to_peer(source, target)
    return _kernel(op, args, kwargs)


def _to_copy(op: Operator, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    __tracebackhide__ = True
    device = kwargs.get("device")
    if device is None or torch.device(device).type == NAME:
        # torch passes sim:0 for "the same device", as it knows only one; moves between devices do not get here
        if args and isinstance(args[0], SimTensor):
            kwargs = {name: value for name, value in kwargs.items() if name != "device"}
        return _kernel(op, args, kwargs)
    taken = Arguments(op, args, kwargs)
    spec = infer_or_raise(taken, kept=False).spec
    target = torch.empty_strided(spec.size, spec.stride, dtype=spec.dtype)
    non_blocking = bool(kwargs.get("non_blocking", False))
    if non_blocking:
        copies.mark_pinned(
            target
        )  # as on CUDA, where .to("cpu", non_blocking=True) returns pinned memory that is filled later
    return copies.to_host(args[0], target, non_blocking)


def _item(op: Operator, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:  # noqa: ARG001 - as all handlers
    __tracebackhide__ = True
    return copies.item(args[0])


def _view(op: Operator, args: tuple[Any, ...], kwargs: dict[str, Any], taken: Arguments | None = None) -> Any:
    __tracebackhide__ = True
    if VIRTUAL:
        spend("view")
    taken = taken or Arguments(op, args, kwargs)
    specs = infer_or_raise(taken)
    base = taken.refs[0].buffer

    def make(leaf: Leaf) -> SimTensor:
        __tracebackhide__ = True
        check_bounds(op, leaf, base)
        return SimTensor(Ref(leaf.spec, base))

    if (
        torch.is_inference_mode_enabled() and not args[0].is_inference()
    ):  # a view is an inference tensor only if its base is
        with torch.inference_mode(False):
            return map_tree(specs, Leaf, make)
    return map_tree(specs, Leaf, make)


def _reshape_in_place(op: Operator, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    __tracebackhide__ = True
    tensor = args[0]
    if op.name == "aten::set_":
        refuse_address("Tensor.set_")
    taken = Arguments(op, args, kwargs)
    leaf = infer_or_raise(taken)
    spec, buffer = leaf.spec, tensor._ref.buffer
    if spec.storage_bytes <= buffer.spec.storage_bytes:
        check_bounds(op, leaf, buffer)
        become(tensor, Ref(spec, buffer))
    elif buffer.spec.storage_bytes:  # its views would have to move with it
        raise DeviceError(
            f"{op.name}: the simulated device cannot enlarge a tensor's memory "
            f"({buffer.spec.storage_bytes} to {spec.storage_bytes} bytes)",
            hint="make a new tensor of that size",
        )
    else:
        become(tensor, empty_ref(buffer.device_index, spec))
    return tensor


def _foreach(op: Operator, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """One launch for each device in the lists: torch groups by device, but takes all simulated ones for the same."""
    __tracebackhide__ = True
    devices = [t._ref.buffer.device_index if isinstance(t, SimTensor) else 0 for t in args[0]]
    if len(set(devices)) < 2:
        return _kernel(op, args, kwargs)
    results: list[Any] = [None] * len(devices)
    for device in sorted(set(devices)):
        rows = [row for row, index in enumerate(devices) if index == device]

        def part(value: Any, rows: list[int] = rows) -> Any:
            in_rows = isinstance(value, (list, tuple)) and len(value) == len(devices)
            return [value[row] for row in rows] if in_rows else value

        part_results = _kernel(op, tuple(part(a) for a in args), {name: part(value) for name, value in kwargs.items()})
        for row, result in zip(rows, part_results or (), strict=False):
            results[row] = result
    return results if op.returned is None else None


def _elsewhere(op: Operator, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """zeros_like(t, device="cpu") and the like, which need only the shape of the tensor here."""
    return op.func(*map_tree(args, SimTensor, _meta_like), **map_tree(kwargs, SimTensor, _meta_like))


def _meta_like(t: SimTensor) -> torch.Tensor:
    return meta_of(t._ref)


def _allocate(op: Operator, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    __tracebackhide__ = True
    if is_elsewhere(kwargs):
        return _elsewhere(op, args, kwargs)
    if VIRTUAL:
        spend("view")
    taken = Arguments(op, args, kwargs)
    spec = infer_or_raise(taken).spec
    index = device_index(kwargs, taken)
    ref = empty_ref(index, spec)
    ref.buffer.unplaced = is_unplaced(index, taken)
    return SimTensor(ref)


def _kernel(op: Operator, args: tuple[Any, ...], kwargs: dict[str, Any], taken: Arguments | None = None) -> Any:
    __tracebackhide__ = True
    if kwargs:
        check_layout(op.name, kwargs)
        if is_elsewhere(kwargs):
            return _elsewhere(op, args, kwargs)
    if op.brings_factor and isinstance(args[1], SimTensor):
        args, taken = (args[0], brought(args[0], args[1])), None
    taken = taken or Arguments(op, args, kwargs)
    check_devices(op, taken, args, kwargs)
    known, specs = _inferred(taken)
    if not known:
        return _run_and_wait(op, args, kwargs)
    if op.returned and resize_results(op, args, kwargs, specs):
        return _kernel(op, args, kwargs)
    written_refs = written_by(op, args, kwargs) if op.writes else []
    if op.kernel not in _WRITES_ONE_VALUE and any(map(repeats, written_refs)):
        return _run_and_wait(op, args, kwargs)  # nearly all refuse that with their own message, here at the user's line
    written = [ref.buffer for ref in written_refs]
    index = device_index(kwargs, taken)
    lane, in_backward = launch_lane(index, taken.refs)
    fresh: list[Buffer] = []
    unplaced = is_unplaced(index, taken)

    def make(leaf: Leaf) -> SimTensor:
        __tracebackhide__ = True
        buffer = Buffer(index, leaf.spec, lane.stream_id)
        buffer.unplaced = unplaced
        fresh.append(buffer)
        return SimTensor(Ref(leaf.spec, buffer))

    if op.returned is not None:
        outcome = given_back(op, args, kwargs)
    else:
        outcome = make(specs) if type(specs) is Leaf else map_tree(specs, Leaf, make)
    body = None
    if not VALUES.active or is_computed(op, taken, fresh, written_refs):
        body = make_body(op, taken, index, fresh, written)
    else:
        pass_over(op, taken, index, [*fresh, *written])
    _launch(op, taken, body, lane, in_backward, [*fresh, *written], fresh)
    return outcome


_BY_SHAPES = {_kernel, _view}  # take arguments that were taken apart already


def _inferred(taken: Arguments) -> tuple[bool, Any]:
    """Whether the results are known from shapes, and what they are."""
    specs = (taken.found or taken.known()).specs
    try:
        return True, specs[0] if specs else infer(taken)
    except UnknownResultError:
        return False, None


def _run_and_wait(op: Operator, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """For results that depend on values: the op runs on the stream, and the host waits for it, as on a real device."""
    __tracebackhide__ = True
    taken = Arguments(op, args, kwargs)
    check_devices(op, taken, args, kwargs)
    if VALUES.active:
        check_read(op, taken)
    index = device_index(kwargs, taken)
    written = [ref.buffer for ref in written_by(op, args, kwargs)]
    results: list[Any] = []
    run = real_call(op, taken, index, fixed=False)

    def body() -> None:
        __tracebackhide__ = True
        results.append(run())

    lane, in_backward = launch_lane(index, taken.refs)
    job = _launch(op, taken, body, lane, in_backward, written, direct=True)
    wait_for_job(job, "simStreamSynchronize")
    if op.returned is not None:
        take_new_shapes(op, args, kwargs, results[0])
        return given_back(op, args, kwargs)
    return map_tree(results[0], torch.Tensor, lambda t: on_device(t, lane, op.name))


def _launch(
    op: Operator,
    taken: Arguments,
    body: Callable[[], None] | None,
    lane: Lane,
    in_backward: bool,
    writes: list[Buffer],
    fresh: Sequence[Buffer] = (),
    *,
    direct: bool = False,
) -> Job:
    kind, name, call = _identity(op, taken, fresh)
    pace = lane.device.pace
    by_work = pace if isinstance(pace, Pace) and pace.by_work and kind == OpKind.KERNEL else None
    model = None
    if lane.device.model is not None and kind == OpKind.KERNEL:
        model = modelled(lane.device.model, taken, fresh)
        if op.kernel == "convolution" and is_channels_last(taken.refs[0].spec):
            LOG.add_given("channels_last", 1)
        if name.startswith(FUSED_ATTENTION):
            name = attention_name(lane.device.model, name, taken)
    return queue_op(
        lane,
        name if model is None or model.is_known else name + UNKNOWN_TIME,
        kind,
        body,
        [ref.buffer for ref in taken.refs],
        writes,
        call=call,
        size_bytes=_moved_bytes(taken) if kind != OpKind.KERNEL else -1,
        least_s=least_s(by_work, op, taken, fresh) if by_work else None,
        direct=direct,
        in_backward=in_backward or op.kernel.endswith("_like"),  # which waits for a shape, and reads no memory
        model=model,
    )


def _identity(op: Operator, taken: Arguments, fresh: Sequence[Buffer]) -> tuple[OpKind, str, str]:
    """Kind, name and call of the op as a real device records them: zero fills and copies byte by byte are no kernels.

    fresh: new results.
    """
    if op.kernel == "zero":
        return OpKind.MEMSET, "Memset (Device)", "simMemsetAsync"
    if op.kernel in ("clone", "copy") and are_alike([*(ref.spec for ref in taken.refs), *(b.spec for b in fresh)]):
        return OpKind.MEMCPY, "Memcpy DtoD (Device -> Device)", "simMemcpyAsync"
    return OpKind.KERNEL, op.kernel, "simLaunchKernel"


def _moved_bytes(taken: Arguments) -> int:
    spec = taken.refs[0].spec
    count = spec.dtype.itemsize
    for n in spec.size:
        count *= n
    return count
