"""An operation between ranks goes onto its stream, as NCCL's kernels do."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch

from perfmagic.capture.devices.groups.agreement import Check
from perfmagic.capture.devices.groups.gloo import Gloo
from perfmagic.capture.devices.groups.link import Operation
from perfmagic.capture.devices.groups.memory import Memory, tensors_in
from perfmagic.capture.devices.groups.standing import Asked, Ledger
from perfmagic.capture.devices.groups.work import DeviceWork
from perfmagic.capture.devices.sim.chosen import lane_of
from perfmagic.capture.devices.sim.clock import now_ns
from perfmagic.capture.devices.sim.device import check_usable, sim_device
from perfmagic.capture.devices.sim.lanes import Lane
from perfmagic.capture.devices.sim.launch import launch_lane, queue_op
from perfmagic.capture.devices.sim.log import LOG
from perfmagic.capture.devices.sim.pace import link_s
from perfmagic.capture.devices.sim.streams import POOL_STREAMS, Stream
from perfmagic.trace.columns import OpKind
from perfmagic.trace.model import Collective

Run = Callable[[Any, Memory], None]  # (gloo group, memory): do it, and come back when it is done
_streams: dict[int, dict[tuple[str, str, int | None], int]] = {}  # of each device: what its streams after the pool's do
# what records of real devices call a type (c10/core/ScalarType.h), where that is not torch's own name with a capital
_DTYPES = {
    torch.float64: "Double", torch.float32: "Float", torch.float16: "Half", torch.bfloat16: "BFloat16",
    torch.int64: "Long", torch.int32: "Int", torch.int16: "Short", torch.int8: "Char", torch.uint8: "Byte",
    torch.complex64: "ComplexFloat", torch.complex128: "ComplexDouble",
}  # fmt: skip


@dataclass(frozen=True)
class Group:
    """What the queue has to know of a process group. ranks: in the whole job."""

    name: str
    rank: int
    ranks: tuple[int, ...]
    gloo: Gloo
    ledger: Ledger


@dataclass
class Call:
    """One operation, as it was called.

    elements: put in and got out.  dtype: of what is moved, None for nothing.  size_bytes: of one rank's whole buffer.
    reads, writes: tensors, in lists of lists.  peer: of a message, its other rank in the group.
    way: "" for collectives, which share a stream and numbers; "send" and "recv" for messages, which have those to each
    rank. NCCL has them for each pair of ranks.  blocks: the host waits for it in wait().  device: where it runs.
    """

    operation: Operation
    elements: tuple[int, int]
    dtype: torch.dtype | None
    size_bytes: int
    device: int
    reads: Any = ()
    writes: Any = ()
    peer: int | None = None
    way: str = ""
    blocks: bool = False
    title: str = ""

    @property
    def name(self) -> str:
        return self.title or self.operation.title


def post(
    group: Group, call: Call, asked: Asked, check: Check, run: Run, result: Any, source: Callable[[], int | None]
) -> DeviceWork:
    """Queue an operation behind what the current stream was given so far.

    check: that the ranks agree on it.  source: which rank a message came from, once it is there.
    """
    __tracebackhide__ = True
    check_usable()
    start_ns = now_ns() if LOG.recording else 0
    refs = [t._ref for t in tensors_in(call.reads, call.writes)]  # type: ignore[attr-defined]
    current, in_backward = launch_lane(call.device, refs)
    lane = _lane(group, call)
    Stream._of(lane).wait_stream(Stream._of(current))
    job = queue_op(
        lane,
        call.name,
        OpKind.KERNEL,
        _body(group, call, asked, check, run, lane),
        [ref.buffer for ref in refs],
        [t._ref.buffer for t in tensors_in(call.writes)],  # type: ignore[attr-defined]
        least_s=0.0,
        in_backward=in_backward,
    )
    asked.is_done, asked.settle = (lambda: job.done), job.wait
    if LOG.recording:
        LOG.add_collective(job.correlation, _record(group, call), asked.number)
        LOG.add_host_op(start_ns or now_ns(), now_ns(), call.operation.host)
    return DeviceWork(job, result, blocks=call.blocks, source=source)


def _body(group: Group, call: Call, asked: Asked, check: Check, run: Run, lane: Lane) -> Callable[[], None]:
    gloo, device = group.gloo, sim_device(call.device)
    link_bytes = call.operation.link_bytes(call.size_bytes, len(group.ranks))
    rest_s = link_s(device.pace, call.operation.title, link_bytes)

    def body() -> None:
        __tracebackhide__ = True
        asked.running = True
        lane.jobs[0].skipped_ns = check(gloo, gloo.device)  # of this body's job, which is the one that runs
        with Memory() as memory:
            gloo.run(call.name, lambda: run(gloo.device.group, memory))
            if call.operation.rooted:  # all leave together: what a rank is in for longer than others, it waited
                gloo.run(call.name, lambda: gloo.device.group.barrier().wait())
        # all ranks are there now: from here on the link works, for the same time on each
        if rest_s > 0:
            device.closing.wait(rest_s)

    return body


def _lane(group: Group, call: Call) -> Lane:
    uses = _streams.setdefault(call.device, {})
    number = uses.setdefault((group.name, call.way, call.peer), POOL_STREAMS + 1 + len(uses))
    return lane_of(sim_device(call.device), number)


def _record(group: Group, call: Call) -> Collective:
    dtype = "" if call.dtype is None else _DTYPES.get(call.dtype, str(call.dtype).removeprefix("torch.").capitalize())
    n_in, n_out = call.elements
    return Collective(call.operation.kind, n_in, n_out, dtype, len(group.ranks), group.name, group.ranks)
