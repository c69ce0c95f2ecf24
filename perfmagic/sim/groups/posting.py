"""An operation between ranks goes onto its stream, as NCCL's kernels do."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

import torch
import torch.distributed as dist

from perfmagic.base import units
from perfmagic.base.clock import now_ns
from perfmagic.base.errors import CommunicationError
from perfmagic.base.kinds import OpKind
from perfmagic.sim.device import check_usable, lane_of, sim_device
from perfmagic.sim.groups.agreement import Check
from perfmagic.sim.groups.arguments import Memory, tensors_in
from perfmagic.sim.groups.courier import Errand
from perfmagic.sim.groups.gloo import Gloo
from perfmagic.sim.groups.ledger import Ledger, Request
from perfmagic.sim.groups.operations import OperationKind
from perfmagic.sim.lanes import Job, Lane
from perfmagic.sim.launch import launch_lane, queue_op
from perfmagic.sim.log import LOG, SimCollective
from perfmagic.sim.pace import link_s
from perfmagic.sim.streams import POOL_STREAMS, Event, Stream, wait_for_job

# What an operation returns: for the device the stream waits, as with NCCL; for the host the host does.

_Work: Any = dist.Work  # its stubs declare more than a work of Python has to have


class DeviceWork(_Work):  # type: ignore[misc]
    """An operation on the device's stream.

    job: queued.  result: what a future gives.  blocks: the host waits in wait(), as it does at a barrier.
    source: which rank a message came from, once it is there.
    """

    def __init__(self, job: Job, result: Any, *, blocks: bool = False, source: Callable[[], int | None]) -> None:
        super().__init__()
        self._job, self._result, self._blocks, self._source = job, result, blocks, source

    def wait(self, timeout: timedelta | None = None) -> bool:
        """Make the current stream wait for the operation."""
        __tracebackhide__ = True
        lane = launch_lane(self._job.lane.device.index, [])[0]
        Event.of_job(self._job).wait(Stream.of_lane(lane))
        if self._blocks:
            wait_for_job(self._job, "simStreamSynchronize")
        return True

    def is_completed(self) -> bool:
        return self._job.done

    def is_success(self) -> bool:
        return self._job.done and self._job.error is None

    def exception(self) -> BaseException | None:
        return self._job.error

    def result(self) -> Any:
        return self._result

    def synchronize(self) -> None:
        self.wait()

    def _source_rank(self) -> int:
        wait_for_job(self._job, "simStreamSynchronize")
        return _rank_of(self._source())

    source_rank = _source_rank

    def get_future(self) -> Any:
        """A future that is done already: the first op that uses the result waits on its stream.

        torch orders the streams of whoever takes one, so that op races with nobody.
        """
        self._job.in_backward = self._job.ends_future = True
        future: Any = torch.futures.Future()
        future.set_result(self._result)
        return future


class HostWork(_Work):  # type: ignore[misc]
    """An operation on host tensors, which a courier does.

    request: the operation.  result: what a future gives.  source: which rank a message came from, once it is there.
    """

    def __init__(self, errand: Errand, request: Request, result: Any, source: Callable[[], int | None]) -> None:
        super().__init__()
        self._errand, self._request, self._result, self._source = errand, request, result, source

    def wait(self, timeout: timedelta | None = None) -> bool:
        """Block until it is done. Raises CommunicationError where it failed, was ended or takes longer than timeout."""
        __tracebackhide__ = True
        limit_s = timeout.total_seconds() if timeout else 0.0
        self._request.waited = True
        try:
            done = self._errand.wait(limit_s or None)
        finally:
            self._request.waited = False
        if not done:
            raise CommunicationError(f"{self._request.title} was not done within {units.duration_s(limit_s)}")
        if self._errand.error is not None:
            raise self._errand.error.with_traceback(None)
        return True

    def is_completed(self) -> bool:
        return self._errand.done

    def is_success(self) -> bool:
        return self._errand.done and self._errand.error is None

    def exception(self) -> BaseException | None:
        return self._errand.error

    def result(self) -> Any:
        return self._result

    def synchronize(self) -> None:
        self.wait()

    def _source_rank(self) -> int:
        self.wait()
        return _rank_of(self._source())

    source_rank = _source_rank

    def get_future(self) -> Any:
        """A future that ends or fails with the operation."""
        over: Any = torch.futures.Future()

        def finished(_: Any) -> Any:
            self.wait()
            return self._result

        future = over.then(finished)
        self._errand.when_done(lambda: over.set_result(None))
        return future


def _rank_of(source: int | None) -> int:
    """The rank as torch expects it, -1 for none."""
    return -1 if source is None else source


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
    """A process group, as far as the queues need it.  ranks: in the whole job.  desc: what its maker calls it."""

    name: str
    rank: int
    ranks: tuple[int, ...]
    gloo: Gloo
    ledger: Ledger
    desc: str = ""


@dataclass
class Call:
    """One call of an operation.

    elements: put in and got out.  dtype: of what is moved, None for nothing.  size_bytes: of one rank's whole buffer.
    reads, writes: tensors, in lists of lists.  peer: of a message, its other rank in the group.
    way: "" for collectives, which share a stream and numbers; "send" and "recv" for messages, which have those to each
    rank. NCCL has them for each pair of ranks.  blocks: the host waits for it in wait().  device: where it runs.
    """

    operation: OperationKind
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
    group: Group, call: Call, request: Request, check: Check, run: Run, result: Any, source: Callable[[], int | None]
) -> DeviceWork:
    """Queue an operation on the group's stream, behind all that the current stream has now.

    check: that the ranks agree on it.  source: which rank a message came from, once it is there.
    """
    __tracebackhide__ = True
    check_usable()
    start_ns = now_ns() if LOG.recording else 0
    refs = [t._ref for t in tensors_in(call.reads, call.writes)]  # type: ignore[attr-defined]
    current, in_backward = launch_lane(call.device, refs)
    lane = _lane(group, call)
    Stream.of_lane(lane).wait_stream(Stream.of_lane(current))
    job = queue_op(
        lane,
        call.name,
        OpKind.KERNEL,
        _body(group, call, request, check, run, lane),
        [ref.buffer for ref in refs],
        [t._ref.buffer for t in tensors_in(call.writes)],  # type: ignore[attr-defined]
        least_s=0.0,
        in_backward=in_backward,
        meets_ranks=True,
    )
    request.is_done, request.settle = (lambda: job.done), job.wait
    if LOG.recording:
        LOG.add_collective(job.correlation, _record(group, call), request.number)
        LOG.add_host_op(start_ns or now_ns(), now_ns(), call.operation.host)
    return DeviceWork(job, result, blocks=call.blocks, source=source)


def _body(group: Group, call: Call, request: Request, check: Check, run: Run, lane: Lane) -> Callable[[], None]:
    gloo, device = group.gloo, sim_device(call.device)
    link_bytes = call.operation.link_bytes(call.size_bytes, len(group.ranks))
    rest_s = link_s(device.pace, call.operation.title, link_bytes)

    def body() -> None:
        __tracebackhide__ = True
        request.running = True
        try:
            lane.jobs[0].skipped_ns = check(gloo, gloo.device)  # of this body's job, which is the one that runs
            with Memory() as memory:
                gloo.run(call.name, lambda: run(gloo.device.group, memory))
                if call.operation.rooted:  # all leave together: what a rank is in for longer than others, it waited
                    gloo.run(call.name, lambda: gloo.device.group.barrier().wait())
        except CommunicationError:
            group.ledger.note_failure(request)
            raise
        # all ranks are there now: from here on the link works, for the same time on each
        if rest_s > 0:
            device.closing.wait(rest_s)

    return body


def _lane(group: Group, call: Call) -> Lane:
    uses = _streams.setdefault(call.device, {})
    number = uses.setdefault((group.name, call.way, call.peer), POOL_STREAMS + 1 + len(uses))
    return lane_of(sim_device(call.device), number)


def _record(group: Group, call: Call) -> SimCollective:
    dtype = "" if call.dtype is None else _DTYPES.get(call.dtype, str(call.dtype).removeprefix("torch.").capitalize())
    n_in, n_out = call.elements
    return SimCollective(call.operation.kind, n_in, n_out, dtype, len(group.ranks), group.name, group.ranks)
