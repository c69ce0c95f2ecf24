"""An operation between ranks goes onto its stream, as NCCL's kernels do; on host tensors a thread runs it.

As on a stream of the device, collectives of a group come one after another. So do messages of one tag to or from one
rank.
"""

from __future__ import annotations

import sys
import threading
import weakref
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from datetime import timedelta
from queue import Empty, SimpleQueue
from typing import Any

import torch
import torch.distributed as dist

from perfmagic.base import units
from perfmagic.base.clock import VIRTUAL, next_turn, now_ns, virtual_clock
from perfmagic.base.errors import CommunicationError
from perfmagic.base.kinds import OpKind
from perfmagic.sim import torch_private
from perfmagic.sim.device import check_usable, lane_of, sim_device
from perfmagic.sim.groups.agreement import Came, Check
from perfmagic.sim.groups.arguments import Memory, refs_in
from perfmagic.sim.groups.gloo import Gloo
from perfmagic.sim.groups.ledger import Ledger, Request
from perfmagic.sim.groups.operations import OperationKind
from perfmagic.sim.launch import launch_lane, queue_op
from perfmagic.sim.log import LOG, SimCollective
from perfmagic.sim.pace import between, link_s
from perfmagic.sim.queues import Job, Lane
from perfmagic.sim.streams import POOL_STREAMS, Event, Stream, wait_for_job
from perfmagic.sim.values import VALUES
from perfmagic.sim.values.rule import leave_out

_SWITCH_INTERVAL_S = 5e-5  # else a courier waits up to 5 ms for the interpreter before its operation begins


class Errand:
    """One operation, from the call until it is over.  error: what it failed with.

    until_ns: when it is done by the virtual clock; 0 on the real one.
    No locks: an interrupt may strike the main thread anywhere.
    """

    def __init__(self, do: Callable[[], None]) -> None:
        self._do: Callable[[], None] | None = do
        self._then: deque[Callable[[], object]] = deque()
        self.done = False
        self.error: BaseException | None = None
        self.until_ns = 0

    def run(self) -> None:
        """Run the operation, on the courier's thread."""
        do, self._do = self._do, None
        error: BaseException | None = None
        try:
            # no gradients here; memory made in inference mode may be written; and HostLog is what records operations
            with torch.inference_mode(), torch_private.unrecorded():
                if do is not None:
                    do()
        except BaseException as raised:  # noqa: BLE001 - kept: it is raised in the waiting thread
            error = raised.with_traceback(None)  # its frames would keep what the operation used
        del do
        self.end(error)

    def end(self, error: BaseException | None) -> None:
        """Mark it as over, or as given up; only the first call counts."""
        if not self.done:
            self.error, self.done = error, True
            self._call()

    def when_done(self, then: Callable[[], object]) -> None:
        """Call `then` at the end; at once where the operation is over."""
        self._then.append(then)
        if self.done:
            self._call()

    def wait(self, timeout_s: float | None = None) -> bool:
        """Block until it is over; False where it is not within the time. An interrupt ends the wait."""
        bell: SimpleQueue[None] = SimpleQueue()
        self.when_done(lambda: bell.put(None))
        try:
            bell.get(timeout=timeout_s)
        except Empty:
            return self.done
        return True

    def _call(self) -> None:
        while self._then:
            try:
                then = self._then.popleft()
            except IndexError:  # another thread was quicker
                return
            then()


class Courier:
    """A thread and its queue; it ends with the object, or with end().

    until_ns: when its last errand is done by the virtual clock.
    """

    until_ns = 0

    def __init__(self, name: str) -> None:
        sys.setswitchinterval(min(sys.getswitchinterval(), _SWITCH_INTERVAL_S))
        self._errands: SimpleQueue[Errand | None] = SimpleQueue()
        self.turn = next_turn()  # the number of its thread in virtual time
        self._thread = threading.Thread(target=_work, args=(self._errands,), name=f"gloo: {name}", daemon=True)
        self._thread.start()
        weakref.finalize(self, self._errands.put, None)

    def take(self, errand: Errand) -> None:
        """Queue an errand."""
        self._errands.put(errand)

    def end(self, within_s: float) -> None:
        """Accept no more errands, and wait for the thread."""
        self._errands.put(None)
        self._thread.join(within_s)


def _work(errands: SimpleQueue[Errand | None]) -> None:
    torch.get_num_threads()  # a thread takes over the process's number at its first use, which must not come later
    while (errand := errands.get()) is not None:
        errand.run()
        del errand  # what it holds is not kept until the next one comes


# What an operation returns: for the device the stream waits, as with NCCL; for the host the host does.

_Work: Any = dist.Work  # its stubs declare more than a work of Python has to have


class DeviceWork(_Work):  # type: ignore[misc]
    """An operation on the device's stream.

    job: queued.  result: what a future gives.  reads: tensors that are held until wait(), as NCCL holds them.
    blocks: the host waits in wait(), as it does at a barrier.
    source: which rank a message came from, once it is there.
    """

    def __init__(
        self, job: Job, result: Any, reads: Any, *, blocks: bool = False, source: Callable[[], int | None]
    ) -> None:
        super().__init__()
        self._job, self._result, self._blocks, self._source = job, result, blocks, source
        self._reads = reads

    def wait(self, timeout: timedelta | None = None) -> bool:
        """Make the current stream wait for the operation."""
        __tracebackhide__ = True
        lane = launch_lane(self._job.lane.device.index, [])[0]
        Event.of_job(self._job).wait(Stream.of_lane(lane))
        self._reads = ()
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

        torch orders the streams of its users, so that op races with nothing.
        """
        self._job.in_backward = self._job.ends_future = True
        self._job.joined = None
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
        clock = virtual_clock()
        if clock is not None:
            clock.wait_until(self._errand.until_ns)
        return True

    def is_completed(self) -> bool:
        if VIRTUAL:  # other ranks know when it is done
            self._errand.wait()
        return self._errand.done and (not self._errand.until_ns or self._errand.until_ns <= now_ns())

    def is_success(self) -> bool:
        return self.is_completed() and self._errand.error is None

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
        """A future that ends or fails with the operation; on a virtual clock the host waits for it here."""
        over: Any = torch.futures.Future()
        if VIRTUAL:
            self._errand.wait()

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
    refs = refs_in(call.reads, call.writes)
    current, in_backward = launch_lane(call.device, refs)
    lane = _lane(group, call)
    Stream.of_lane(lane).wait_stream(Stream.of_lane(current))
    job = queue_op(
        lane,
        call.name,
        OpKind.KERNEL,
        _body(group, call, request, check, run, lane),
        [ref.buffer for ref in refs],
        [ref.buffer for ref in refs_in(call.writes)],
        least_s=0.0,
        in_backward=in_backward,
        meets_ranks=True,
    )
    request.is_done, request.settle = (lambda: job.ended), job.settle
    if LOG.recording:
        LOG.add_collective(job.correlation, _record(group, call), request.number)
        LOG.add_host_op(start_ns or now_ns(), now_ns(), call.operation.host)
    return DeviceWork(job, result, call.reads, blocks=call.blocks, source=source)


def _body(group: Group, call: Call, request: Request, check: Check, run: Run, lane: Lane) -> Callable[[], None]:
    writes = [ref.buffer for ref in refs_in(call.writes)]
    empty = VALUES.active and any(ref.buffer.missing for ref in refs_in(call.reads, call.writes))
    # no tensors in here: their memory would be held until the thread has come to it
    gloo, device, operation, name = group.gloo, sim_device(call.device), call.operation, call.name
    work = between(device.pace, _who(group, call)), call.size_bytes, len(group.ranks)
    rest_ns = round(link_s(work[0], operation.title, operation.link_bytes(*work[1:])) * 1e9)

    def body() -> None:
        __tracebackhide__ = True
        request.running = True
        job = lane.jobs[0]  # this body's, as it is the one that runs
        came = Came(job.until_ns, operation.takes_ns(*work) if job.until_ns else rest_ns, empty)
        try:
            agreed = check(gloo, gloo.device, came)
            if agreed.empty:
                leave_out(writes)
            else:
                _move(gloo, operation, name, run)
        except CommunicationError:
            group.ledger.note_failure(request)
            raise
        if job.until_ns:
            job.until_ns = agreed.leave_ns
            return
        job.skipped_ns = agreed.spent_ns
        # all ranks are there now: from here on the link works, for the same time on each
        if agreed.takes_ns:
            device.closing.wait(agreed.takes_ns / 1e9)

    return body


def _who(group: Group, call: Call) -> tuple[int, ...]:
    """The ranks of the job that an operation is between; of a message from any rank only this one: the other knows."""
    if not call.way:
        return group.ranks
    return tuple(group.ranks[i] for i in (group.rank, call.peer) if i is not None)


def _move(gloo: Gloo, operation: OperationKind, name: str, run: Run) -> None:
    """Let gloo do it. Raises CommunicationError where other ranks do not take part."""
    __tracebackhide__ = True
    with Memory() as memory:
        gloo.run(name, lambda: run(gloo.device.group, memory))
        if operation.rooted:  # all leave together: what a rank is in for longer than others, it waited
            gloo.run(name, lambda: gloo.device.group.barrier().wait())


def _lane(group: Group, call: Call) -> Lane:
    uses = _streams.setdefault(call.device, {})
    number = uses.setdefault((group.name, call.way, call.peer), POOL_STREAMS + 1 + len(uses))
    return lane_of(sim_device(call.device), number)


def _record(group: Group, call: Call) -> SimCollective:
    dtype = "" if call.dtype is None else _DTYPES.get(call.dtype, str(call.dtype).removeprefix("torch.").capitalize())
    n_in, n_out = call.elements
    return SimCollective(call.operation.kind, n_in, n_out, dtype, len(group.ranks), group.name, group.ranks)
