"""Copies between host and device: what each holds up, pinned and pageable."""

from __future__ import annotations

from typing import Any

import torch

from perfmagic.capture.devices.sim import pinned
from perfmagic.capture.devices.sim.clock import now_ns
from perfmagic.capture.devices.sim.jobs import Body, Job
from perfmagic.capture.devices.sim.launch import launch_lane, queue_op
from perfmagic.capture.devices.sim.refusals import check_plain
from perfmagic.capture.devices.sim.streams import Stream
from perfmagic.capture.devices.sim.tensor import SimTensor
from perfmagic.capture.devices.sim.waits import wait_for_job
from perfmagic.errors import DeviceError
from perfmagic.trace.columns import OpKind

pin = pinned.note


def to_device(source: torch.Tensor, target: SimTensor, non_blocking: bool) -> SimTensor:
    """Copy host memory into a tensor on the device.

    Pageable memory is staged first: the host is held that long, and may change the tensor afterwards. There is room for
    one such copy a stream, so a second one holds the host until the first has run. Pinned memory is read when the copy
    runs. Without non_blocking the host then waits for the stream. Source: CUDA's cudaMemcpyAsync and
    torch's copy_ for CUDA.
    """
    check_plain(source, "copy_")
    if source.is_meta:
        raise NotImplementedError("Cannot copy out of meta tensor; no data!")
    begin_ns = now_ns()
    is_pinned = pinned.is_pinned(source)
    ref = target._ref
    lane = launch_lane(ref.buffer.device_index, [ref])[0]
    if not is_pinned and lane.staged is not None:
        lane.staged.wait()
    staged = source.detach() if is_pinned else source.detach().clone()
    name = f"Memcpy HtoD ({'Pinned' if is_pinned else 'Pageable'} -> Device)"

    def body() -> None:
        ref.real().copy_(staged)

    job = _queue(target, name, body, _bytes(source), begin_ns, is_pinned, reads=True)
    if not is_pinned:
        lane.staged = job
    if not non_blocking:
        wait_for_job(job, "simStreamSynchronize")
    return target


def to_host(source: SimTensor, target: torch.Tensor, non_blocking: bool) -> torch.Tensor:
    """Copy a tensor on the device into host memory.

    With non_blocking and pinned memory it returns at once; the target holds its values only once the stream has run the
    copy: synchronise before reading it, as with CUDA. Else the host waits.
    """
    check_plain(target, "copy_")
    begin_ns = now_ns()
    is_pinned = pinned.is_pinned(target)
    ref, memory = source._ref, target.detach()
    name = f"Memcpy DtoH (Device -> {'Pinned' if is_pinned else 'Pageable'})"

    def body() -> None:
        real = ref.real()
        if tuple(real.shape) != ref.spec.size:
            raise DeviceError(f"the op gave a result of shape {tuple(real.shape)} where {ref.spec.size} was expected")
        memory.copy_(real)

    job = _queue(source, name, body, _bytes(source), begin_ns, True, reads=True, writes=False)
    if not (non_blocking and is_pinned):
        wait_for_job(job, "simStreamSynchronize")
    return target


def to_peer(source: SimTensor, target: SimTensor) -> SimTensor:
    """Copy a tensor to another device. The host is not held.

    It runs on the current stream of the source's device, after what the target's stream was given so far, and that one
    goes on after it. Source: torch's copy_ for CUDA (Copy.cu, copy_requires_temporaries and below, read in 2.13).
    """
    begin_ns = now_ns()
    origin, destination = source._ref, target._ref
    lane, in_backward = launch_lane(origin.buffer.device_index, [origin])
    there = Stream._of(launch_lane(destination.buffer.device_index, [destination])[0])
    here = Stream._of(lane)
    here.wait_stream(there)

    def body() -> None:
        destination.real().copy_(origin.real())

    queue_op(
        lane,
        "Memcpy PtoP (Device -> Device)",
        OpKind.MEMCPY,
        body,
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
    ref = source._ref
    values: list[Any] = []

    def body() -> None:
        values.append(ref.real().item())

    job = _queue(
        source, "Memcpy DtoH (Device -> Pageable)", body, _bytes(source), now_ns(), True, reads=True, writes=False
    )
    wait_for_job(job, "simStreamSynchronize")
    return values[0]


def _queue(
    tensor: SimTensor,
    name: str,
    body: Body,
    size_bytes: int,
    begin_ns: int,
    free: bool,
    *,
    reads: bool,
    writes: bool = True,
) -> Job:
    """Launch a copy; free: the host need not stage anything, so the call is over when the copy is queued."""
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
