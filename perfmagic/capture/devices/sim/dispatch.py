"""Every operator on the simulated device comes through here: shapes now, values later."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch

from perfmagic.capture.devices.sim import copies, random
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
from perfmagic.capture.devices.sim.infer import Leaf, UnknownResultError, infer, infer_or_raise, map_tree, meta_of
from perfmagic.capture.devices.sim.jobs import Job, NotComputedError
from perfmagic.capture.devices.sim.lanes import Lane, current_lane
from perfmagic.capture.devices.sim.launch import launch_lane, queue_op
from perfmagic.capture.devices.sim.log import LOG
from perfmagic.capture.devices.sim.operators import Operator, argument, operator_of
from perfmagic.capture.devices.sim.substitutes import substitute_for
from perfmagic.capture.devices.sim.tensor import Buffer, Ref, SimTensor, become, spec_of
from perfmagic.capture.devices.sim.waits import wait_for_job
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
    }
    if op.func in special:
        return special[op.func]
    if op.reshapes:
        return _reshape_in_place
    if op.is_view:
        return _view
    if op.name.startswith(("aten::_foreach_", "aten::_fused_")):
        return _foreach
    return _allocate if op.name in _ALLOCATIONS else _kernel


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
    return map_tree(specs, Leaf, lambda leaf: SimTensor(Ref(leaf.spec, base)))


def _reshape_in_place(op: Operator, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    tensor = args[0]
    taken = Arguments(op.func, args, kwargs)
    spec = infer_or_raise(op.func, taken.args, taken.kwargs, tuple(taken.key)).spec
    if spec.storage_bytes > tensor._ref.spec.storage_bytes:
        raise NotImplementedError(f"{op.name}: the simulated device cannot make a tensor's memory larger in place")
    become(tensor, Ref(spec, tensor._ref.buffer))
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
    if kwargs and is_elsewhere(kwargs):
        return _elsewhere(op, args, kwargs)
    if op.func in _BRING_FACTOR and isinstance(args[1], SimTensor):
        args = (args[0], brought(args[0], args[1]))
    taken = Arguments(op.func, args, kwargs)
    check_devices(op, taken)
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
    body = _body(op, taken, index, fresh, [ref.buffer for ref in written])
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
    check_devices(op, taken)
    index = device_index(kwargs, taken)
    written = [ref.buffer for ref in _written(op, args, kwargs)]
    results: list[Any] = []
    run = _real_call(op, taken, index)

    def body() -> None:
        __tracebackhide__ = True
        results.append(run())

    lane, in_backward = launch_lane(index, taken.refs)
    job = _launch(op, taken, body, lane, in_backward, written, direct=True)
    wait_for_job(job, "simStreamSynchronize")
    if op.returned is not None:
        return _given_back(op, args, kwargs)
    return map_tree(results[0], torch.Tensor, lambda t: _on_device(t, lane))


def _on_device(real: torch.Tensor, lane: Lane) -> SimTensor:
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


def _real_call(op: Operator, taken: Arguments, index: int) -> Callable[[], Any]:
    """The call on real memory. Random ops get their seed here, at the launch."""
    args, kwargs = taken.args, _named_cpu(taken.kwargs)
    substitute = substitute_for(op.func)
    seeded = _seeding(op, args, kwargs, index) if op.seeded else None

    def run() -> Any:
        __tracebackhide__ = True
        a, k = seeded() if seeded is not None else (args, kwargs)
        # most arguments are plain: what the stream's thread does here, the host cannot do meanwhile
        real = [v.real() if type(v) is Ref else map_tree(v, Ref, Ref.real) if type(v) in _NESTED else v for v in a]
        return substitute(*real, **map_tree(k, Ref, Ref.real)) if k else substitute(*real)

    return run


_NESTED = {list, tuple}


def _seeding(op: Operator, args: tuple[Any, ...], kwargs: dict[str, Any], index: int) -> Callable[[], Any]:
    if op.generator is None:
        raise NotImplementedError(
            f"{op.name} draws random numbers and takes no generator: the simulated device cannot run it without "
            "touching the host's random numbers"
        )
    position, name = op.generator
    seed = random.next_seed(index, argument(op.generator, args, kwargs))
    if position < len(args):
        return lambda: ((*args[:position], random.generator_for(seed), *args[position + 1 :]), kwargs)
    return lambda: (args, {**kwargs, name: random.generator_for(seed)})


def _body(op: Operator, taken: Arguments, index: int, fresh: list[Buffer], written: list[Buffer]) -> Callable[[], None]:
    run = _real_call(op, taken, index)

    def body() -> None:
        __tracebackhide__ = True
        try:
            result = run()
        except BaseException as error:
            _spoil(fresh, written, error)
            raise
        if fresh:
            _fill(fresh, result)

    return body


def _spoil(fresh: list[Buffer], written: list[Buffer], error: BaseException) -> None:
    """Nothing new was made. Memory that was to be changed keeps what it has, unless the change itself was not run."""
    skipped = isinstance(error, NotComputedError)
    origin = error.origin if isinstance(error, NotComputedError) else error
    for buffer in (*fresh, *(written if skipped else ())):
        buffer.error = origin


def _fill(fresh: list[Buffer], result: Any) -> None:
    real = [value for value in _flat(result) if isinstance(value, torch.Tensor)]  # None: a result that was not wanted
    for buffer, values in zip(fresh, real, strict=True):
        buffer.fill(values)


def _written(op: Operator, args: tuple[Any, ...], kwargs: dict[str, Any]) -> list[Ref]:
    leaves = [t for place in op.writes for t in _flat(argument(place, args, kwargs))]
    return [t._ref for t in leaves if isinstance(t, SimTensor)]


def _resize_results(op: Operator, args: tuple[Any, ...], kwargs: dict[str, Any], specs: Any) -> bool:
    """Give out= tensors of another size new memory, as torch does everywhere; True if there was one."""
    given = [argument(place, args, kwargs) for place in op.returned or ()]
    small = [
        (t, leaf.spec)
        for t, leaf in zip(given, _flat(specs), strict=False)
        if isinstance(t, SimTensor) and t._ref.spec.size != leaf.spec.size
    ]
    for t, spec in small:
        real = torch.empty_strided(spec.size, spec.stride, dtype=spec.dtype)
        index = t._ref.buffer.device_index
        become(t, Ref(spec, Buffer(index, spec, current_lane(index).stream_id, real)))
    return bool(small)


def _given_back(op: Operator, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    if not op.returned:
        return None
    values = [argument(place, args, kwargs) for place in op.returned]
    return values[0] if op.returns_one else tuple(values)


def _named_cpu(kwargs: dict[str, Any]) -> dict[str, Any]:
    if kwargs.get("device") is None:
        return kwargs
    return {**kwargs, "device": torch.device("cpu")}


def _flat(value: Any) -> list[Any]:
    if isinstance(value, (tuple, list)):
        return [leaf for v in value for leaf in _flat(v)]
    return [value]
