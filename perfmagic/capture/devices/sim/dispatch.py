"""Every operator on the simulated device comes through here: shapes now, values later."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch

from perfmagic.capture.devices.sim import copies
from perfmagic.capture.devices.sim.arguments import (
    Arguments,
    brought,
    check_devices,
    device_index,
    is_elsewhere,
    is_unplaced,
)
from perfmagic.capture.devices.sim.clock import now_ns
from perfmagic.capture.devices.sim.device import NAME, check_usable
from perfmagic.capture.devices.sim.foreign import run_foreign
from perfmagic.capture.devices.sim.infer import Leaf, UnknownResultError, flat, infer, infer_or_raise, map_tree, meta_of
from perfmagic.capture.devices.sim.jobs import Job
from perfmagic.capture.devices.sim.kernels import body_of, real_call
from perfmagic.capture.devices.sim.lanes import Lane, current_lane
from perfmagic.capture.devices.sim.launch import launch_lane, queue_op
from perfmagic.capture.devices.sim.log import LOG
from perfmagic.capture.devices.sim.operators import Operator, argument, operator_of
from perfmagic.capture.devices.sim.refusals import TORCH_ARITHMETIC, check_name, check_plain, refuse_address
from perfmagic.capture.devices.sim.tensor import Buffer, Ref, SimTensor, Spec, become, spec_of
from perfmagic.capture.devices.sim.waits import wait_for_job
from perfmagic.errors import DeviceError
from perfmagic.trace.columns import OpKind

aten = torch.ops.aten
# torch brings the factor to each device itself, where it thinks that a tensor is: clip_grad_norm_ on two devices
_BRING_FACTOR = {aten.mul_.Tensor, aten._foreach_mul_.Tensor}
_ALLOCATIONS = {"aten::empty", "aten::empty_strided", "aten::empty_like", "aten::new_empty", "aten::new_empty_strided"}


def dispatch(func: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """Run one operator for a SimTensor, or for a factory with device="sim"."""
    __tracebackhide__ = True  # a traceback ends at the user's line, as on a device without Python in it
    check_usable()
    start_ns = now_ns()
    op = operator_of(func)
    try:
        return _handler(op)(op, args, kwargs)
    finally:
        if LOG.recording:
            LOG.add_host_op(start_ns, now_ns(), op.name)


Handler = Callable[[Operator, tuple[Any, ...], dict[str, Any]], Any]
_handlers: dict[Any, Handler] = {}


def _handler(op: Operator) -> Handler:
    known = _handlers.get(op.func)
    if known is None:
        known = _handlers[op.func] = _choose(op)
    return known


def _choose(op: Operator) -> Handler:
    special: dict[Any, Handler] = {
        aten.copy_.default: _copy,
        aten._to_copy.default: _to_copy,
        aten._local_scalar_dense.default: _item,
        aten.equal.default: _run_and_wait,
        aten._pack_padded_sequence.default: _pack,
        aten._pin_memory.default: _pin,
        aten._efficientzerotensor.default: _zeros,
    }
    if op.func in special:
        return special[op.func]
    if op.namespace not in TORCH_ARITHMETIC:
        return run_foreign
    if op.composite:
        return _decompose
    if op.names_device:
        return _refuse_device
    if op.reshapes:
        return _reshape_in_place
    if op.is_view:
        return _view
    if op.name.startswith(("aten::_foreach_", "aten::_fused_")):
        return _foreach
    return _allocate if op.name in _ALLOCATIONS else _kernel


def _decompose(op: Operator, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """Inference mode leaves out autograd, and with it torch's own step from such an operator to what it consists of."""
    __tracebackhide__ = True
    return op.func.decompose(*args, **kwargs)


def _refuse_device(op: Operator, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    raise DeviceError(f"{op.name} is not done on the simulated device", hint="use Tensor.to(device)")


def _pin(op: Operator, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    raise RuntimeError(f"cannot pin a tensor on {args[0].device}: only memory of the host can be pinned")


def _zeros(op: Operator, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """torch's zeros without memory, which formulas of gradients use, have memory here."""
    return torch.zeros(*args, **{name: value for name, value in kwargs.items() if name in ("dtype", "device")})


def _copy(op: Operator, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    __tracebackhide__ = True
    target, source = args[0], args[1]
    non_blocking = bool(args[2] if len(args) > 2 else kwargs.get("non_blocking", False))
    if not isinstance(target, SimTensor):
        return copies.to_host(source, target, non_blocking)
    if not isinstance(source, SimTensor):
        return copies.to_device(source, target, non_blocking)
    if source._ref.buffer.device_index != target._ref.buffer.device_index:
        return copies.to_peer(source, target)
    return _kernel(op, args, kwargs)


def _to_copy(op: Operator, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    __tracebackhide__ = True
    device = kwargs.get("device")
    if device is None or torch.device(device).type == NAME:
        # torch means "where it is" and says sim:0, where it takes all of them to be; moves do not come this way
        if args and isinstance(args[0], SimTensor):
            kwargs = {name: value for name, value in kwargs.items() if name != "device"}
        return _kernel(op, args, kwargs)
    taken = Arguments(op.func, args, kwargs)
    spec = infer_or_raise(op.func, taken.args, taken.kwargs, None).spec
    target = torch.empty_strided(spec.size, spec.stride, dtype=spec.dtype)
    non_blocking = bool(kwargs.get("non_blocking", False))
    if non_blocking:
        copies.pin(target)  # as CUDA: what .to("cpu", non_blocking=True) returns is pinned, and filled later
    return copies.to_host(args[0], target, non_blocking)


def _item(op: Operator, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:  # noqa: ARG001 - all handlers look alike
    __tracebackhide__ = True
    return copies.item(args[0])


def _view(op: Operator, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    __tracebackhide__ = True
    taken = Arguments(op.func, args, kwargs)
    specs = infer_or_raise(op.func, taken.args, taken.kwargs, tuple(taken.key))
    base = taken.refs[0].buffer

    def make(leaf: Leaf) -> SimTensor:
        _check_bounds(op, leaf.spec, base)
        return SimTensor(Ref(leaf.spec, base))

    if torch.is_inference_mode_enabled() and not args[0].is_inference():  # a view is what its base is
        with torch.inference_mode(False):
            return map_tree(specs, Leaf, make)
    return map_tree(specs, Leaf, make)


def _check_bounds(op: Operator, spec: Spec, base: Buffer) -> None:
    """Raise RuntimeError, as torch does on other devices, for a view that reaches beyond the memory."""
    last = spec.offset + sum((n - 1) * step for n, step in zip(spec.size, spec.stride, strict=True))
    if 0 in spec.size or (last + 1) * spec.dtype.itemsize <= base.spec.storage_bytes:
        return
    raise RuntimeError(
        f"{op.name}: sizes {list(spec.size)}, strides {list(spec.stride)} and offset {spec.offset} need "
        f"{(last + 1) * spec.dtype.itemsize} bytes, and the tensor's memory has {base.spec.storage_bytes}"
    )


def _reshape_in_place(op: Operator, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    __tracebackhide__ = True
    tensor = args[0]
    if op.name == "aten::set_":
        refuse_address("Tensor.set_")
    taken = Arguments(op.func, args, kwargs)
    spec = infer_or_raise(op.func, taken.args, taken.kwargs, tuple(taken.key)).spec
    held = tensor._ref.buffer
    if spec.storage_bytes <= held.spec.storage_bytes:
        _check_bounds(op, spec, held)
        become(tensor, Ref(spec, held))
    elif held.spec.storage_bytes:  # its views would have to come along
        raise DeviceError(
            f"{op.name}: the simulated device cannot enlarge a tensor's memory "
            f"({held.spec.storage_bytes} to {spec.storage_bytes} bytes)",
            hint="make a new tensor of that size",
        )
    else:
        real = torch.empty_strided(spec.size, spec.stride, dtype=spec.dtype)
        become(tensor, _new_ref(held.device_index, real))
    return tensor


def _foreach(op: Operator, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """One launch for each device in the lists: torch sorts them by device, and takes ours for one and the same."""
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

        some = _kernel(op, tuple(part(a) for a in args), {name: part(value) for name, value in kwargs.items()})
        for row, result in zip(rows, some or (), strict=False):
            results[row] = result
    return results if op.returned is None else None


def _pack(op: Operator, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:  # noqa: ARG001 - all handlers look alike
    """pack_padded_sequence: the lengths are on the host, and so are the sizes of the steps, as on any device."""
    __tracebackhide__ = True
    padded, lengths, batch_first = args
    rows, columns = padded.shape[:2]
    order, steps = op.func(torch.arange(rows * columns).view(rows, columns, 1), lengths, batch_first)
    there = torch.empty(len(order), dtype=torch.int64, device=padded.device).copy_(order.view(-1))
    return padded.reshape(rows * columns, *padded.shape[2:]).index_select(0, there), steps


def _elsewhere(op: Operator, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """zeros_like(t, device="cpu") and its kin: of the tensor here only the shape is wanted."""
    return op.func(*map_tree(args, SimTensor, _meta_like), **map_tree(kwargs, SimTensor, _meta_like))


def _meta_like(t: SimTensor) -> torch.Tensor:
    return meta_of(t._ref)


def _allocate(op: Operator, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    __tracebackhide__ = True
    if is_elsewhere(kwargs):
        return _elsewhere(op, args, kwargs)
    taken = Arguments(op.func, args, kwargs)
    spec = infer_or_raise(op.func, taken.args, taken.kwargs, tuple(taken.key)).spec
    base = torch.empty_strided(spec.size, spec.stride, dtype=spec.dtype)
    index = device_index(kwargs, taken)
    buffer = Buffer(index, spec, current_lane(index).stream_id, base)
    buffer.unplaced = is_unplaced(index, taken)
    return SimTensor(Ref(spec, buffer))


def _kernel(op: Operator, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    __tracebackhide__ = True
    check_name(op.name, kwargs)
    if kwargs and is_elsewhere(kwargs):
        return _elsewhere(op, args, kwargs)
    if op.func in _BRING_FACTOR and isinstance(args[1], SimTensor):
        args = (args[0], brought(args[0], args[1]))
    taken = Arguments(op.func, args, kwargs)
    check_devices(op, taken, args, kwargs)
    known, specs = _inferred(op, taken)
    if not known:
        return _run_and_wait(op, args, kwargs)
    if op.returned and _resize_results(op, args, kwargs, specs):
        return _kernel(op, args, kwargs)
    written = _written(op, args, kwargs) if op.writes else []
    index = device_index(kwargs, taken)
    lane, in_backward = launch_lane(index, taken.refs)
    fresh: list[Buffer] = []
    unplaced = is_unplaced(index, taken)

    def make(leaf: Leaf) -> SimTensor:
        buffer = Buffer(index, leaf.spec, lane.stream_id)
        buffer.unplaced = unplaced
        fresh.append(buffer)
        return SimTensor(Ref(leaf.spec, buffer))

    outcome = _given_back(op, args, kwargs)
    if op.returned is None:
        outcome = map_tree(specs, Leaf, make)
    body = body_of(op, taken, index, fresh, [ref.buffer for ref in written])
    _launch(op, taken, body, lane, in_backward, [*fresh, *(ref.buffer for ref in written)])
    return outcome


def _inferred(op: Operator, taken: Arguments) -> tuple[bool, Any]:
    """Whether the results are known from shapes, and what they are."""
    try:
        return True, infer(op.func, taken.args, taken.kwargs, tuple(taken.key))
    except UnknownResultError:
        return False, None


def _run_and_wait(op: Operator, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """For results that depend on values: the op runs on the stream, and the host waits for it, as on a real device."""
    __tracebackhide__ = True
    taken = Arguments(op.func, args, kwargs)
    check_devices(op, taken, args, kwargs)
    index = device_index(kwargs, taken)
    written = [ref.buffer for ref in _written(op, args, kwargs)]
    results: list[Any] = []
    run = real_call(op, taken, index, fixed=False)

    def body() -> None:
        __tracebackhide__ = True
        results.append(run())

    lane, in_backward = launch_lane(index, taken.refs)
    job = _launch(op, taken, body, lane, in_backward, written, direct=True)
    wait_for_job(job, "simStreamSynchronize")
    if op.returned is not None:
        _take_new_shapes(op, args, kwargs, results[0])
        return _given_back(op, args, kwargs)
    return map_tree(results[0], torch.Tensor, lambda t: _on_device(t, lane))


def _take_new_shapes(op: Operator, args: tuple[Any, ...], kwargs: dict[str, Any], result: Any) -> None:
    """out= tensors whose shape only the kernel knew stand for what it made of them."""
    given = [argument(place, args, kwargs) for place in op.returned or ()]
    for t, real in zip(given, flat(result), strict=False):
        if isinstance(t, SimTensor) and tuple(real.shape) != t._ref.spec.size:
            become(t, _new_ref(t._ref.buffer.device_index, real))


def _new_ref(index: int, real: torch.Tensor) -> Ref:
    spec = spec_of(real)
    return Ref(spec, Buffer(index, spec, current_lane(index).stream_id, real))


def _on_device(real: torch.Tensor, lane: Lane) -> SimTensor:
    check_plain(real, "the result")
    spec = spec_of(real)
    return SimTensor(Ref(spec, Buffer(lane.device.index, spec, lane.stream_id, real)))


def _launch(
    op: Operator,
    taken: Arguments,
    body: Callable[[], None],
    lane: Lane,
    in_backward: bool,
    writes: list[Buffer],
    *,
    direct: bool = False,
) -> Job:
    kind, name, call = _identity(op, taken)
    return queue_op(
        lane,
        name,
        kind,
        body,
        [ref.buffer for ref in taken.refs],
        writes,
        call=call,
        size_bytes=_moved_bytes(taken) if kind != OpKind.KERNEL else -1,
        direct=direct,
        in_backward=in_backward,
    )


def _identity(op: Operator, taken: Arguments) -> tuple[OpKind, str, str]:
    """What a real device would make of the op: a copy inside the device and a zeroing are no kernels."""
    if op.kernel == "zero":
        return OpKind.MEMSET, "Memset (Device)", "simMemsetAsync"
    if op.kernel in ("clone", "copy") and all(ref.spec.dtype == taken.refs[0].spec.dtype for ref in taken.refs):
        return OpKind.MEMCPY, "Memcpy DtoD (Device -> Device)", "simMemcpyAsync"
    return OpKind.KERNEL, op.kernel, "simLaunchKernel"


def _moved_bytes(taken: Arguments) -> int:
    spec = taken.refs[0].spec
    count = spec.dtype.itemsize
    for n in spec.size:
        count *= n
    return count


def _written(op: Operator, args: tuple[Any, ...], kwargs: dict[str, Any]) -> list[Ref]:
    leaves = [t for place in op.writes for t in flat(argument(place, args, kwargs))]
    return [t._ref for t in leaves if isinstance(t, SimTensor)]


def _resize_results(op: Operator, args: tuple[Any, ...], kwargs: dict[str, Any], specs: Any) -> bool:
    """Give out= tensors of another size new memory, as torch does everywhere; True if there was one."""
    given = [argument(place, args, kwargs) for place in op.returned or ()]
    small = [
        (t, leaf.spec)
        for t, leaf in zip(given, flat(specs), strict=False)
        if isinstance(t, SimTensor) and t._ref.spec.size != leaf.spec.size
    ]
    for t, spec in small:
        real = torch.empty_strided(spec.size, spec.stride, dtype=spec.dtype)
        become(t, _new_ref(t._ref.buffer.device_index, real))
    return bool(small)


def _given_back(op: Operator, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    if not op.returned:
        return None
    values = [argument(place, args, kwargs) for place in op.returned]
    return values[0] if op.returns_one else tuple(values)
