"""Virtual time: an op runs where it is launched, on the CPU, and arithmetic says when the device would have done it.

Nothing sleeps, and only operations between ranks have a thread: they wait for each other in real time, and tell each
other in virtual time when they came. The host's time is counted, so that it comes out the same on every run, or it is
Python's own, without what at_work() wraps.
"""

from __future__ import annotations

import itertools
import threading
from typing import Any

import torch

from perfmagic.base.clock import HOST, HOST_NS, VIRTUAL, keep_virtual_time, virtual_clock
from perfmagic.base.kinds import OpKind
from perfmagic.sim import torch_private
from perfmagic.sim.beside import BESIDE, BesideOp, keep_beside
from perfmagic.sim.log import LOG
from perfmagic.sim.pace import Model, Pace, PaceFunction
from perfmagic.sim.queues import Body, Job, Lane, NotComputedError

_host_ns = dict(HOST_NS)  # of the model that the device has
LATENCY_NS = 500  # from the end of the launch call until the op begins on an idle stream
OP_NS = 3_000  # an op of which the pace says nothing: fits of the same records give the smallest kernels 1.6 to 3.6 µs


def spend(what: str) -> None:
    """Let the host need its time for something that is counted; on the real clock it takes its own."""
    if VIRTUAL:
        VIRTUAL[0].advance(_host_ns[what])


def take_host_of(pace: PaceFunction | None) -> None:
    """Let the host need the times that a model has, or those of HOST_NS."""
    _host_ns.update(pace.host_ns if isinstance(pace, Model) else HOST_NS)
    keep_beside(pace.others if isinstance(pace, Model) else ())


def waited(ns: int) -> bool:
    """Hold the host for that long on the virtual clock; False on the real one."""
    clock = virtual_clock()
    if clock is not None:
        clock.advance(ns)
    return clock is not None


_hooks: list[Any] = []  # torch's handle of the one that counts calls of modules


def keep_time(*, virtual: bool, measured: bool = False) -> None:
    """Keep virtual or real time from now on, when nothing is queued. Mends what an interrupt left behind.

    measured: the host's time is Python's own, which has a module's call in it.
    """
    _set_threads_back()
    while _hooks:
        _hooks[-1].remove()
        _hooks.pop()
    if virtual and not measured:
        _hooks.append(torch.nn.modules.module.register_module_forward_pre_hook(_count_module))
    keep_virtual_time(virtual, measured)


def _count_module(module: Any, inputs: tuple[Any, ...]) -> None:
    known = inputs or itertools.islice(module.parameters(), 1)  # torch does not pass what is given by keyword
    if any(isinstance(value, torch.Tensor) and hasattr(value, "_ref") for value in known):
        spend("module")


def run(lane: Lane, job: Job) -> None:
    """Run a job, and set when it is done; the caller holds HOST.moving, so that threads run one op at a time.

    It begins after what its stream had before, and after the jobs it waits for. What meets other ranks, or waits for
    that and is no op, stays open.
    Raises an interrupt, which strikes the line that launched; what else fails is kept for the host's next wait.
    """
    __tracebackhide__ = True
    is_op = job.kind is not None
    launched_ns = HOST.advance(_host_ns["launch" if is_op else "event"])
    if lane.open is not None:
        job.after += (lane.open,)
    job.until_ns = max(launched_ns + LATENCY_NS, lane.tail_ns)
    if job.meets_ranks or (not is_op and not all(earlier.ended for earlier in job.after)):
        return
    lane.open = None
    if job.after:
        job.begin_after()
    takes_ns, engine = _time_of(job, lane.device.pace, of_gpu=lane.device.model is not None) if is_op else (0, "")
    free_ns, ready_ns = lane.device.engines_ns, job.until_ns
    start_ns = max(ready_ns, free_ns.get(engine, 0))
    lane.tail_ns = job.until_ns = job.done_ns = start_ns + takes_ns
    if engine:
        free_ns[engine] = job.done_ns
    beside = [_run_beside(number, lane, job, launched_ns) for number in range(len(BESIDE))] if BESIDE else ()
    if beside:
        job.beside_ns = [op.end_ns for op in beside]
    try:
        if job.body is not None:
            _compute(job, job.body)
    finally:
        job.finish()
    if job.kind is not None and LOG.recording and (job.error is None or not job.direct):
        LOG.add_op(
            start_ns, job.done_ns, job.kind, lane.device.index, lane.stream_id,
            job.name, job.correlation, job.size_bytes, raced=job.raced,
        )  # fmt: skip
        for each, op in zip(BESIDE, beside, strict=True):
            each.ops.append(op)


def _run_beside(number: int, lane: Lane, job: Job, launched_ns: int) -> BesideOp:
    """The job on another GPU, which has waited for the same jobs and runs it after its own."""
    each, takes_ns, engine, is_known = BESIDE[number], 0, "", True
    if job.beside:
        time = job.beside[number]
        takes_ns = round(time.kernel_ns / 1e9 * 1e9) or OP_NS  # as of the first one, to the nanosecond
        engine, is_known = "compute" if time.fills_device else "", time.is_known
    elif job.kind is not None:
        is_copy = job.kind != OpKind.KERNEL  # else torch.sim._sleep
        takes_s = each.model(job.name, job.kind, job.size_bytes) if is_copy else job.least_s
        takes_ns, engine = round(takes_s * 1e9) or OP_NS, _direction(job)
    after = [earlier.beside_ns[number] for earlier in job.after if earlier.beside_ns]
    ready_ns = max(launched_ns + each.lag_ns + LATENCY_NS, *after, 0)
    return BesideOp(job.correlation, *each.run(lane, ready_ns, takes_ns, engine), is_known)


def _time_of(job: Job, pace: PaceFunction | None, *, of_gpu: bool) -> tuple[int, str]:
    """How long an op takes, in ns, and of what it takes all meanwhile, "" where ops of other streams run beside it.

    A rate is that of the whole device or link: ops that it times take turns. A time of its own leaves that open, and
    so does an op too short to fill the device.
    """
    needs_ns = round(job.least_s * 1e9)
    direction = "" if job.kind is OpKind.KERNEL else _direction(job)
    if not isinstance(pace, Pace):
        fills = job.kind == OpKind.MEMSET or "DtoD" in job.name  # at the rate of all its memory
        return needs_ns or OP_NS, (direction or job.engine or ("compute" if fills else "")) if of_gpu else ""
    if not direction and pace.has_time_of(job.name):
        return needs_ns, ""
    return max(needs_ns, OP_NS), direction or ("compute" if needs_ns > OP_NS else "")


def _direction(job: Job) -> str:
    """Which way over the link a copy takes, "" for what takes none."""
    return next((way for way in ("HtoD", "DtoH") if way in job.name), "") if job.kind == OpKind.MEMCPY else ""


def _compute(job: Job, body: Body) -> None:
    """Run the body of a job, and keep what fails."""
    __tracebackhide__ = True
    try:
        _as_in_a_stream(body)
    except NotComputedError as failed:
        job.error = failed.origin
    except Exception as failed:  # noqa: BLE001 - kept: it is raised where the host waits
        job.error = failed.with_traceback(None)  # its frames would hold the caller's variables
        if not job.direct:
            job.lane.device.errors.append((job.name, failed))


def _as_in_a_stream(body: Body) -> None:
    """Run it as a stream's thread would, so that results are the same bit for bit: one core, no modes, no gradients."""
    __tracebackhide__ = True
    _set_threads_back()
    threads = torch.get_num_threads()
    try:
        if threads != 1:
            _threads.before = threads
            torch.set_num_threads(1)
        with torch_private.without_modes(), torch_private.in_inference():
            if torch.is_autocast_enabled("cpu"):
                with torch.autocast("cpu", enabled=False):
                    body()
            else:
                body()
    finally:
        _set_threads_back()


class _Threads(threading.local):
    """How many threads torch had before an op set 1; 0 while no op runs, unless one was interrupted."""

    before = 0


_threads = _Threads()


def _set_threads_back() -> None:
    if _threads.before:
        torch.set_num_threads(_threads.before)
        _threads.before = 0
