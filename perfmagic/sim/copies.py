"""Copies between host and device: what each holds up, pinned and pageable."""

from __future__ import annotations

import weakref
from collections.abc import Callable, Sequence
from typing import Any

import torch

from perfmagic.base.clock import now_ns
from perfmagic.base.errors import DeviceError
from perfmagic.base.kinds import OpKind
from perfmagic.sim.device import NAME, device_of, meant, sim_device
from perfmagic.sim.launch import launch_lane, queue_op
from perfmagic.sim.queues import Body, Job
from perfmagic.sim.refusals import check_plain
from perfmagic.sim.streams import Stream, stream, wait_for_job
from perfmagic.sim.tensor import Ref, SimTensor
from perfmagic.sim.values import VALUES
from perfmagic.sim.values.reads import copy_missing, read_one
from perfmagic.sim.values.rule import leave_out, may_write

# Pinned host memory, as far as a machine without a driver has it: memory that is marked so.

_marked: set[int] = set()


def is_tensor_pinned(t: torch.Tensor, device: Any = None) -> bool:  # noqa: ARG001 - torch passes it
    """Is the memory of this tensor, or of the one it is a view of, marked?"""
    return t.untyped_storage().data_ptr() in _marked


def mark_pinned(t: torch.Tensor) -> torch.Tensor:
    """Mark the memory of a tensor for as long as it lives."""
    storage = t.untyped_storage()
    address = storage.data_ptr()
    if address and address not in _marked:
        _marked.add(address)
        weakref.finalize(storage, _marked.discard, address).atexit = False
    return t


def pinned_copy(t: torch.Tensor, device: Any = None) -> torch.Tensor:  # noqa: ARG001 - torch passes it
    """A copy of a tensor in marked memory: what t.pin_memory() gives."""
    return mark_pinned(t.clone())


def to_device(source: torch.Tensor, target: SimTensor, non_blocking: bool) -> SimTensor:
    """Copy host memory into a tensor on the device.

    Pageable memory is staged first: the host waits that long, and may change the tensor afterwards. Each stream stages
    one copy at a time, so that a second one makes the host wait until the first has run. Pinned memory is read when the
    copy runs. Without non_blocking the host then waits for the stream. Another type is made on the host, in pageable
    memory.
    Source: CUDA's cudaMemcpyAsync and torch's copy_ for CUDA.
    """
    check_plain(source, "copy_")
    if source.is_meta:
        raise NotImplementedError("Cannot copy out of meta tensor; no data!")
    begin_ns = now_ns()
    is_pinned = is_tensor_pinned(source) and source.dtype == target.dtype
    ref = target._ref
    lane = launch_lane(ref.buffer.device_index, [ref])[0]
    if not is_pinned and lane.staged is not None:
        lane.staged.wait()
    name = f"Memcpy HtoD ({'Pinned' if is_pinned else 'Pageable'} -> Device)"
    is_copied = _is_copied(ref)
    staged = source.detach() if is_pinned or not is_copied else source.detach().to(target.dtype, copy=True)

    def body() -> None:
        ref.real().copy_(staged)

    size_bytes = source.numel() * target.element_size()
    job = _queue(target, name, body if is_copied else None, size_bytes, begin_ns, is_pinned, reads=True)
    if not is_pinned:
        lane.staged = job
    if not non_blocking:
        wait_for_job(job, "simStreamSynchronize")
    return target


def to_host(source: SimTensor, target: torch.Tensor, non_blocking: bool) -> torch.Tensor:
    """Copy a tensor on the device into host memory.

    With non_blocking and pinned memory it returns at once; the target holds its values only once the stream has run the
    copy: synchronise before reading it, as with CUDA. Else the host waits. With non_blocking another type is made on
    the device, else on the host.
    """
    check_plain(target, "copy_")
    if non_blocking and source.dtype != target.dtype:
        source = source.to(target.dtype)
    begin_ns = now_ns()
    is_pinned = is_tensor_pinned(target)
    ref, memory = source._ref, target.detach()
    given = copy_missing(ref, target.dtype) if ref.buffer.missing else None
    name = f"Memcpy DtoH (Device -> {'Pinned' if is_pinned else 'Pageable'})"

    def body() -> None:
        if given is not None:
            memory.fill_(given)
            return
        real = ref.real()
        if tuple(real.shape) != ref.spec.size:
            raise DeviceError(
                f"the op returned a result of shape {tuple(real.shape)} where {ref.spec.size} was expected"
            )
        memory.copy_(real)

    job = _queue(source, name, body, _bytes(source), begin_ns, True, reads=True, writes=False)
    if not (non_blocking and is_pinned):
        wait_for_job(job, "simStreamSynchronize")
    return target


def to_peer(source: SimTensor, target: SimTensor) -> SimTensor:
    """Copy a tensor to another device. The host is not held.

    It runs on the current stream of the source's device, after what the target's stream was given so far. That one
    continues after it. Source: torch's copy_ for CUDA (Copy.cu, copy_requires_temporaries and below, read in 2.13).
    """
    begin_ns = now_ns()
    origin, destination = source._ref, target._ref
    lane, in_backward = launch_lane(origin.buffer.device_index, [origin])
    there = Stream.of_lane(launch_lane(destination.buffer.device_index, [destination])[0])
    here = Stream.of_lane(lane)
    here.wait_stream(there)

    is_copied = _is_copied(destination, origin)

    def body() -> None:
        destination.real().copy_(origin.real())

    queue_op(
        lane,
        "Memcpy PtoP (Device -> Device)",
        OpKind.MEMCPY,
        body if is_copied else None,
        [origin.buffer, destination.buffer],
        [destination.buffer],
        call="simMemcpyPeerAsync",
        size_bytes=_bytes(source),
        in_backward=in_backward,
        start_ns=begin_ns,
    )
    there.wait_stream(here)
    return target


def item(source: SimTensor) -> Any:
    """The one value of a tensor: a copy, and a wait for the stream."""
    __tracebackhide__ = True
    ref = source._ref
    given = read_one(ref) if ref.buffer.missing else None
    values: list[Any] = []

    def body() -> None:
        values.append(ref.real().item() if given is None else given)

    job = _queue(
        source, "Memcpy DtoH (Device -> Pageable)", body, _bytes(source), now_ns(), True, reads=True, writes=False
    )
    wait_for_job(job, "simStreamSynchronize")
    return values[0]


def _is_copied(target: Ref, source: Ref | None = None) -> bool:
    """Whether a copy to a device is computed; if not, its target has no value."""
    is_there = source is None or not source.buffer.missing
    if not VALUES.active or (is_there and may_write(target)):
        return True
    leave_out((target.buffer,))
    return False


def _queue(
    tensor: SimTensor,
    name: str,
    body: Body | None,
    size_bytes: int,
    begin_ns: int,
    free: bool,
    *,
    reads: bool,
    writes: bool = True,
) -> Job:
    """Launch a copy.  free: the host stages nothing, so the call ends when the copy is queued."""
    ref = tensor._ref
    lane, in_backward = launch_lane(ref.buffer.device_index, [ref])
    pace = lane.device.pace
    hold_s = pace(name, OpKind.MEMCPY, size_bytes) if pace and not free else 0.0
    return queue_op(
        lane,
        name,
        OpKind.MEMCPY,
        body,
        [ref.buffer] if reads else [],
        [ref.buffer] if writes else [],
        call="simMemcpyAsync",
        size_bytes=size_bytes,
        in_backward=in_backward,
        start_ns=begin_ns,
        hold_s=hold_s,
    )


def _bytes(t: torch.Tensor) -> int:
    return t.numel() * t.element_size()


# Copies to and from several devices of one process, which torch.nn.parallel is made of.

Tensors = Sequence[torch.Tensor]


def functions() -> dict[str, tuple[Callable[..., Any], Callable[..., bool]]]:
    """By torch's name: a function, and a test whether its arguments concern the simulated device."""
    return {
        "_broadcast": (_broadcast, is_ours),
        "_broadcast_out": (_broadcast_out, is_ours),
        "_broadcast_coalesced": (_broadcast_coalesced, is_ours),
        "_scatter": (_scatter, is_ours),
        "_scatter_out": (_scatter_out, is_ours),
        "_gather": (_gather, is_ours),
        "_gather_out": (_gather_out, is_ours),
    }


def is_ours(tensors: Any, *others: Any) -> bool:
    """Whether tensors are on the simulated device, or on their way to it from the host.

    torch.nn.parallel numbers devices: of torch's accelerator, which ours is once it is loaded.
    """
    flat = [*(tensors if isinstance(tensors, (list, tuple)) else (tensors,))]
    out = others[0] if others and isinstance(others[0], (list, tuple)) else ()
    if any(isinstance(t, SimTensor) for t in (*flat, *out)):
        return True
    current = torch.accelerator.current_accelerator()
    return current is not None and current.type == NAME


def _place(index: int) -> torch.device:
    return torch.device("cpu") if index < 0 else torch.device(NAME, index)


def _on(t: torch.Tensor, place: torch.device) -> torch.Tensor:
    """The tensor on a device; a copy to the host is complete."""
    return t if t.device == place else t.to(place, non_blocking=place.type == NAME)


def _broadcast(tensor: torch.Tensor, devices: Sequence[int]) -> list[torch.Tensor]:
    """A copy on each device. The first has to be the tensor's own, and gets the tensor itself."""
    if tensor.device.type == NAME and tensor.device != _place(devices[0]):
        raise RuntimeError(f"broadcast: the tensor is on {tensor.device}, which must be the first of {list(devices)}")
    return [_on(tensor, _place(index)) for index in devices]


def _broadcast_out(tensor: torch.Tensor, out: Tensors) -> list[torch.Tensor]:
    """In-place variant: write into the given outputs."""
    for t in out:
        if t.shape != tensor.shape:
            raise RuntimeError(f"broadcast: an output has the shape {tuple(t.shape)}, not {tuple(tensor.shape)}")
        t.copy_(tensor, non_blocking=t.device.type == NAME)
    return list(out)


def _broadcast_coalesced(tensors: Tensors, devices: Sequence[int], _buffer_size: int) -> list[list[torch.Tensor]]:
    """For each device a copy of each tensor."""
    if any(t.device != _place(devices[0]) for t in tensors):
        raise RuntimeError(f"all tensors must be on {_place(devices[0])}, the first of the devices")
    return [
        [t.detach() if index == devices[0] else _on(t.detach(), _place(index)) for t in tensors] for index in devices
    ]


def _scatter(
    tensor: torch.Tensor, devices: Sequence[int], sizes: Sequence[int] | None, dim: int, streams: Sequence[Any] | None
) -> list[torch.Tensor]:
    """A part of the tensor on each device, copied on the stream given for that device."""
    if sizes is not None and (len(sizes) != len(devices) or sum(sizes) != tensor.shape[dim]):
        raise RuntimeError(
            f"scatter: chunks of {list(sizes)} do not make up {tensor.shape[dim]} for {len(devices)} devices"
        )
    parts = tensor.chunk(len(devices), dim) if sizes is None else torch.split(tensor, list(sizes), dim)
    copies = []
    for number, (part, index) in enumerate(zip(parts, devices, strict=False)):
        with stream(_ours(streams, number)):
            copies.append(_on(part.contiguous(), _place(index)))
    return copies


def _scatter_out(tensor: torch.Tensor, out: Tensors, dim: int, streams: Sequence[Any] | None) -> list[torch.Tensor]:
    """In-place variant: write into the given outputs, whose sizes say what each gets."""
    for number, (part, t) in enumerate(zip(torch.split(tensor, [t.shape[dim] for t in out], dim), out, strict=True)):
        with stream(_ours(streams, number)):
            t.copy_(part, non_blocking=t.device.type == NAME)
    return list(out)


def _ours(streams: Sequence[Any] | None, number: int) -> Stream | None:
    """torch's own streams, which torch.nn.parallel gives, stand for the current one here."""
    given = streams[number] if streams else None
    return given if isinstance(given, Stream) else None


def _gather(tensors: Tensors, dim: int, destination: int | None) -> torch.Tensor:
    """All tensors one after the other on one device."""
    place = tensors[0].device if destination is None else _place(destination)
    return torch.cat([_on(t, place) for t in tensors], dim)


def _gather_out(tensors: Tensors, out: torch.Tensor, dim: int) -> torch.Tensor:
    """In-place variant: write into the given output."""
    for part, t in zip(torch.split(out, [t.shape[dim] for t in tensors], dim), tensors, strict=True):
        part.copy_(t, non_blocking=out.device.type == NAME)
    return out


# Tensor.to and Tensor.cpu between simulated devices, which torch itself takes for one and the same.

_plain_to = torch.Tensor.to
_ORDER = ("dtype", "non_blocking", "copy")  # of the arguments after the device


def to(t: SimTensor, *args: Any, **options: Any) -> torch.Tensor:
    """Tensor.to in all its forms: a dtype, a device, another tensor."""
    __tracebackhide__ = True
    wanted = args[0] if args else options.get("device", options.get("other"))
    if wanted is None or isinstance(wanted, torch.dtype):
        return _plain_to(t, *args, **options)
    options = {k: v for k, v in options.items() if k not in ("device", "other")}
    if isinstance(wanted, torch.Tensor):
        options |= {"dtype": wanted.dtype, **dict(zip(_ORDER[1:], args[1:], strict=False))}
        wanted = wanted.device
    else:
        options |= dict(zip(_ORDER, args[1:], strict=False))
    target = torch.device(NAME, wanted) if isinstance(wanted, int) else meant(torch.device(wanted))
    here = t._ref.buffer.device_index
    if target.type == NAME:
        target = torch.device(NAME, sim_device(device_of(target)).index)
        if target.index == here:
            return _plain_to(t, torch.device(NAME, 0), **options)
    elif target.type == "cpu" and here == 0:
        return _plain_to(t, target, **options)
    return _moved(t, target, options)


def _moved(t: torch.Tensor, target: torch.device, options: dict[str, Any]) -> torch.Tensor:
    """The tensor on another device, converted before it travels."""
    __tracebackhide__ = True
    shape = {k: options[k] for k in ("dtype", "memory_format") if options.get(k) is not None}
    if shape:
        t = _plain_to(t, **shape)
    non_blocking = bool(options.get("non_blocking", False))
    if t.requires_grad and torch.is_grad_enabled():
        moved: torch.Tensor = _Moved.apply(t, target, non_blocking)  # type: ignore[no-untyped-call]
        return moved
    return _copied(t, target, non_blocking)


class _Moved(torch.autograd.Function):
    """A move that sends the gradient back to the device the tensor came from."""

    @staticmethod
    def forward(ctx: Any, t: torch.Tensor, target: torch.device, non_blocking: bool) -> torch.Tensor:
        ctx.home = meant(t.device)
        return _copied(t, target, non_blocking)

    @staticmethod
    def backward(ctx: Any, gradient: torch.Tensor) -> tuple[torch.Tensor, None, None]:
        return gradient.to(ctx.home), None, None


@torch.no_grad()
def _copied(t: torch.Tensor, target: torch.device, non_blocking: bool) -> torch.Tensor:
    if target.type != NAME:
        host = _plain_to(t, torch.device("cpu"), non_blocking=non_blocking and target.type == "cpu")
        return host if target.type == "cpu" else host.to(target)
    stride = torch.empty_like(torch.empty_strided(t.shape, t.stride(), device="meta")).stride()
    there = torch.empty_strided(t.shape, stride, dtype=t.dtype, device=target)
    return there.copy_(t, non_blocking=non_blocking)
