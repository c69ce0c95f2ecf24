"""What stands behind a stream: a queue of jobs and the thread that works it off."""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Iterable
from itertools import chain, repeat
from queue import SimpleQueue
from typing import Any

import torch

from perfmagic.capture.devices.sim.clock import now_ns
from perfmagic.capture.devices.sim.jobs import Job, NotComputedError, Owner, Queue
from perfmagic.capture.devices.sim.log import LOG
from perfmagic.errors import CommunicationError

QUEUE_LAUNCHES = 1024  # launches that wait on a stream before the host blocks (CUDA: about 1000)

# runs an iterator to its end inside one call into C: an interrupt strikes before or after, never between its steps
_at_once = deque[Any](maxlen=0).extend


class Lane:
    """What stands behind a stream: a queue and the thread that works it off, started with the first job."""

    def __init__(self, device: Owner, stream_id: int) -> None:
        self.device = device
        self.stream_id = stream_id
        self.jobs: deque[Job] = deque()  # the running one first
        self.seen: dict[Queue, int] = {}  # of other streams: up to which launch ours is ordered behind them
        self.last_correlation = 0
        self.staged: Job | None = None  # the last copy from pageable memory
        self._bell: SimpleQueue[None] = SimpleQueue()
        self._sleeping = False
        self._room_bells: deque[SimpleQueue[None]] = deque()
        self._claim = threading.Lock()
        self.thread: threading.Thread | None = None

    def commit(self, job: Job, writes: Iterable[Any]) -> None:
        """Queue a job and make it the writer of some buffers. Blocks while the queue is full.

        An interrupt either comes before the job is queued, and nothing has happened, or finds it queued in full.
        """
        if self.thread is None:
            self._start()
        if len(self.jobs) > QUEUE_LAUNCHES:
            self._wait_for_room()
        job.seen = dict(self.seen)
        _at_once(chain(map(self.jobs.append, (job,)), map(setattr, writes, repeat("writer"), repeat(job))))
        self.last_correlation = job.correlation
        self.wake()

    def wake(self) -> None:
        """Ring the thread if it sleeps. Every wait does so too, for a launch that was interrupted before it could."""
        if self._sleeping:
            self._bell.put(None)

    def ring(self) -> None:
        """Ring the thread whether it sleeps or not."""
        self._bell.put(None)

    def drain(self) -> None:
        """Block this thread until all that is queued now is done."""
        try:
            last = self.jobs[-1]
        except IndexError:
            return
        last.wait()

    def _wait_for_room(self) -> None:
        while len(self.jobs) > QUEUE_LAUNCHES:
            bell: SimpleQueue[None] = SimpleQueue()
            self._room_bells.append(bell)
            if len(self.jobs) > QUEUE_LAUNCHES:
                self.wake()
                bell.get()

    def _start(self) -> None:
        threads = torch.get_num_threads()
        ready: SimpleQueue[None] = SimpleQueue()
        name = f"sim:{self.device.index} stream {self.stream_id}"
        threading.Thread(target=self._work, args=(ready,), name=name, daemon=True).start()
        ready.get()
        # the stream's thread has set 1 for itself, which torch also takes for threads to come: set it back
        torch.set_num_threads(threads)

    def _work(self, ready: SimpleQueue[None]) -> None:
        # a start that was interrupted is made again by the next launch: only the first thread stays
        if not self._claim.acquire(blocking=False):
            ready.put(None)
            return
        self.thread = threading.current_thread()
        torch.get_num_threads()  # a thread takes over the process's number at its first use, which must not come later
        torch.set_num_threads(1)
        ready.put(None)
        with torch.inference_mode():  # no gradients here; and memory made in inference mode may be written
            self._work_off()

    def _work_off(self) -> None:
        while not self.device.closing.is_set():
            self._sleeping = True
            if not self.jobs:
                self._bell.get()
            self._sleeping = False
            while self.jobs:
                self._execute(self.jobs[0])
        while self.jobs:
            self._execute(self.jobs[0])

    def _execute(self, job: Job) -> None:
        __tracebackhide__ = True
        try:
            if self.device.closing.is_set():
                raise NotComputedError(RuntimeError("the process was ending"))
            for earlier in job.after:
                earlier.wait()
            self._run(job)
        except NotComputedError as failed:
            job.error = failed.origin
        except BaseException as failed:  # noqa: BLE001 - kept: it is raised where the host waits
            job.error = failed
            if not job.direct:
                self.device.errors.append((job.name, failed))
        self.jobs.popleft()
        while self._room_bells:
            self._room_bells.popleft().put(None)
        job.finish()

    def _run(self, job: Job) -> None:
        __tracebackhide__ = True
        start_ns = now_ns()
        executed = not job.direct
        try:
            if job.body is not None:
                job.body()
            executed = True
            rest_s = job.least_s - (now_ns() - start_ns) / 1e9
            if rest_s > 0:
                self.device.closing.wait(rest_s)
        except CommunicationError:
            executed = False  # others did not take part: nothing was moved, however long the stream stood
            LOG.give_up(job.correlation)
            raise
        finally:
            job.done_ns = now_ns()
            # what only found out that its arguments do not fit would not have been launched on a real device
            if job.kind is not None and executed and LOG.recording:
                LOG.add_op(
                    start_ns + job.skipped_ns, job.done_ns, job.kind, self.device.index, self.stream_id,
                    job.name, job.correlation, job.size_bytes, raced=job.raced,
                )  # fmt: skip
