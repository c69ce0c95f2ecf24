"""The queue of jobs behind a stream, and the thread that runs them on the real clock."""

from __future__ import annotations

import itertools
import threading
from collections import deque
from collections.abc import Callable, Sequence
from contextlib import suppress
from itertools import chain, repeat
from operator import attrgetter
from queue import SimpleQueue
from typing import Any, Protocol

import torch

from perfmagic.base.clock import HOST, VIRTUAL, now_ns, real_ns, virtual_clock
from perfmagic.base.errors import CommunicationError, DeviceError
from perfmagic.base.kinds import NONE, Hazard, KernelTime, OpKind
from perfmagic.sim.beside import BESIDE, QUEUE_LAUNCHES, wait_beside
from perfmagic.sim.log import LOG
from perfmagic.sim.pace import Model, PaceFunction

# One thing a stream has to do, and how to wait for it.

Body = Callable[[], None]
next_correlation = itertools.count(1).__next__


class NotComputedError(DeviceError):
    """An op read memory whose own op failed or never ran; `origin` is that failure."""

    def __init__(self, origin: BaseException) -> None:
        super().__init__(
            f"this tensor was never computed: {first_line(origin)}", hint="run again the lines that make it"
        )
        self.origin = origin


def first_line(error: BaseException) -> str:
    """An error in one line, with its type where it has no message."""
    return str(error).split("\n", 1)[0] or type(error).__name__


class Owner(Protocol):
    """The device, as jobs and lanes use it: SimDevice, which imports this module."""

    index: int
    pace: PaceFunction | None
    model: Model | None
    at_once: AtOnce
    engines_ns: dict[str, int]
    errors: deque[tuple[str, BaseException]]
    host_seen: dict[Lane, int]
    closing: threading.Event

    def host_saw(self, lane: Lane, correlation: int) -> None: ...
    def host_saw_job(self, job: Job) -> None: ...
    def raise_failure(self) -> None: ...


AtOnce = Callable[["Lane", "Job"], None]  # runs a job where it is committed, and says until when it takes


class Job:
    """A launch, an event record or a wait, from the call until it is done.

    body: what to run.  after: jobs of other streams to wait for first.  least_s: the pace.  kind None: not a device op.
    raced: the launch with which the job races for memory, and the kind of race.
    joined: of one of a backward pass, the stream that waits for the end of that pass; None where nothing races with it.
    ends_future: torch has a future of it, and orders the streams of all who use what it writes.
    skipped_ns: the part of its beginning that does not belong to the op, as its body says.
    meets_ranks: its end depends on other ranks, as that of a collective or message does.
    direct: the caller waits and raises the error itself, so that it is not reported a second time.
    engine: of what a model says that it takes all, "" for none.
    ended: it was run, or will never be.  until_ns: when it is done by the virtual clock; 0 on the real one. Before its
    end, on a virtual clock where it waits for other ranks: when it could begin as far as this rank knows.
    beside: what the models of the GPUs beside the first one say of it.  beside_ns: when it is done on each of them.
    """

    __slots__ = (
        "after", "beside", "beside_ns", "body", "correlation", "direct", "done_ns", "ended", "ends_future", "engine",
        "error", "in_backward", "joined", "kind", "lane", "least_s", "meets_ranks", "name", "raced", "seen",
        "size_bytes", "skipped_ns", "until_ns", "waiters",
    )  # fmt: skip

    def __init__(self, lane: Lane, name: str, body: Body | None, kind: OpKind | None = None) -> None:
        self.lane = lane
        self.name = name
        self.body = body
        self.kind = kind
        self.correlation = next_correlation()  # rising in the order of launches
        self.size_bytes = NONE
        self.engine = ""
        self.least_s = 0.0
        self.after: tuple[Job, ...] = ()
        self.beside: tuple[KernelTime, ...] = ()
        self.beside_ns: Sequence[int] = ()
        self.direct = self.meets_ranks = False
        self.raced: tuple[int, Hazard] | None = None
        self.skipped_ns = 0
        self.in_backward = self.ends_future = False
        self.joined: Lane | None = None
        self.seen: dict[Lane, int] = {}
        self.error: BaseException | None = None
        self.ended = False
        self.done_ns = self.until_ns = 0
        self.waiters: list[SimpleQueue[None]] | None = None  # of one that a thread runs

    @property
    def done(self) -> bool:
        """Whether it has ended, by the clock of the process. By a virtual one it waits for ranks that it depends on."""
        if VIRTUAL and not self.ended:
            self.settle()
        return self.ended and (not self.until_ns or self.until_ns <= now_ns())

    def wait(self) -> None:
        """Block this thread until the job is done. An interrupt ends the wait and leaves nothing behind."""
        self.settle()
        clock = virtual_clock()
        if clock is not None:
            before_ns = clock.read_ns()
            clock.wait_until(self.until_ns)
            wait_beside(before_ns, self.beside_ns)

    def settle(self) -> None:
        """Block this thread until it is known when the job is done; virtual time stands still meanwhile."""
        open_jobs = [self]
        while open_jobs:  # no recursion: a chain of marks and operations between ranks may be long
            job = open_jobs[-1]
            earlier = [] if job.has_thread else [each for each in job.after if not each.ended]
            open_jobs += earlier
            if not earlier:
                open_jobs.pop()._end()

    @property
    def has_thread(self) -> bool:
        """Whether a stream's thread runs it; the others of a virtual clock end with what they wait for."""
        return self.meets_ranks or not self.until_ns

    def begin_after(self) -> None:
        """On a virtual clock, move its beginning behind all that it waits for."""
        if self.until_ns:
            self.until_ns = max(self.until_ns, *(each.until_ns for each in self.after), 0)

    def _end(self) -> None:
        if self.ended:
            return
        if not self.has_thread:  # two threads may do so at once, and come to the same
            self.begin_after()
            self.done_ns = self.until_ns
            self.finish()
            return
        bell: SimpleQueue[None] = SimpleQueue()
        assert self.waiters is not None
        self.waiters.append(bell)
        # ended is set before the bells are rung, so a bell that came too late for that sees it here
        if not self.ended:
            self.lane.wake()
            bell.get()

    def finish(self) -> None:
        """Wake all who wait. Release what the job held, else each job would keep all before it alive."""
        self.body, self.after = None, ()
        self.ended = True
        for bell in self.waiters or ():
            bell.put(None)


_readers = attrgetter("readers")
# runs an iterator to its end inside one call into C: an interrupt strikes before or after, never between its steps
_through = deque[Any](maxlen=0).extend


class Lane:
    """The queue of jobs behind a stream, and the thread that runs them. The first job starts the thread.

    On a virtual clock SimDevice.at_once runs each job where it is committed. Only operations between ranks have a
    thread there, as ranks may call them in any order that streams allow. What only waits for one of them stays open.
    """

    def __init__(self, device: Owner, stream_id: int) -> None:
        self.device = device
        self.stream_id = stream_id
        self.jobs: deque[Job] = deque()  # the running one first
        self.counted: deque[Job] = deque()  # on a virtual clock, those that were not done when it was last asked
        self.seen: dict[Lane, int] = {}  # of other streams: up to which launch ours is ordered behind them
        self.last_correlation = 0
        self.tail_ns = 0  # when its last job is done, by the virtual clock, except for:
        self.open: Job | None = None  # the last one of which that is not known yet
        self.staged: Job | None = None  # the last copy from pageable memory
        self._bell: SimpleQueue[None] = SimpleQueue()
        self._sleeping = False
        self._space_bells: deque[SimpleQueue[None]] = deque()
        self._claim = threading.Lock()
        self.thread: threading.Thread | None = None

    def commit(self, job: Job, reads: Sequence[Any] = (), writes: Sequence[Any] = ()) -> None:
        """Queue a job and make it a reader and the writer of some buffers. Blocks while the queue is full.

        An interrupt either comes before the job is queued, and nothing has happened, or finds it queued in full.
        """
        if VIRTUAL:
            self._settle_before(job)
        elif len(self.jobs) > QUEUE_LAUNCHES:
            self._wait_for_space()
        with HOST.moving:  # the clock changes before a launch or after it
            has_thread = not VIRTUAL or job.meets_ranks
            parts: list[Any] = []
            if VIRTUAL:
                self.device.at_once(self, job)
                parts.append(map(self.counted.append, (job,)))
                if not job.ended:
                    parts.append(map(setattr, (self,), ("open",), (job,)))
            if has_thread:
                job.waiters = []
                parts.append(map(self.jobs.append, (job,)))
                if self.thread is None:
                    self._start()
            if self.seen:
                job.seen = dict(self.seen)
            parts.append(map(dict.__setitem__, map(_readers, reads), repeat(self), repeat(job)))
            parts.append(map(setattr, writes, repeat("writer"), repeat(job)))
            parts.append(map(setattr, writes, repeat("readers"), iter(dict, None)))
            _through(chain.from_iterable(parts))
            self.last_correlation = job.correlation
        if self._sleeping:
            self.wake()

    def unfinished(self) -> int:
        """How many launches are queued or running."""
        self.drop_done()
        return max(len(self.jobs), len(self.counted))

    def drop_done(self) -> None:
        """Forget the jobs that are known to be done on a virtual clock; a thread takes out its own."""
        if not self.counted:
            return
        with HOST.moving:
            while self.counted and self.counted[0].ended and self.counted[0].done:
                self.counted.popleft()

    def settle(self) -> None:
        """Block this thread until it is known when all that is queued now is done; nothing on the real clock."""
        if self.open is not None:
            self.open.settle()

    def _settle_before(self, job: Job) -> None:
        """On a virtual clock, block while the queue is full, and until it is known when an op can begin."""
        counted, at_ns = self.counted, HOST.read_ns()
        if counted and counted[0].until_ns <= at_ns:
            with HOST.moving:
                while counted and counted[0].until_ns <= at_ns and counted[0].ended:
                    counted.popleft()
        while len(counted) > QUEUE_LAUNCHES:
            first = counted.popleft()
            first.settle()
            HOST.wait_until(first.until_ns)
        for each in BESIDE:
            each.make_room(self, at_ns)
        if job.kind is not None and not job.meets_ranks:
            if self.open is not None:
                self.settle()
            for earlier in job.after:
                earlier.settle()

    def wake(self) -> None:
        """Ring the thread if it sleeps. Every wait does so too, for a launch that was interrupted before it could."""
        if self._sleeping:
            self._bell.put(None)

    def ring(self) -> None:
        """Ring the thread whether it sleeps or not."""
        self._bell.put(None)

    def drain(self) -> None:
        """Block this thread until all that is queued now is done."""
        if BESIDE and not self.counted:  # all is done on the first GPU
            wait_beside(HOST.read_ns(), [each.tail_ns(self) for each in BESIDE])
        for jobs in (self.counted, self.jobs):
            with suppress(IndexError):
                jobs[-1].wait()

    def _wait_for_space(self) -> None:
        while len(self.jobs) > QUEUE_LAUNCHES:
            bell: SimpleQueue[None] = SimpleQueue()
            self._space_bells.append(bell)
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
                earlier.settle()
            job.begin_after()
            self._run(job)
        except NotComputedError as failed:
            job.error = failed.origin
        except BaseException as failed:  # noqa: BLE001 - kept: it is raised where the host waits
            job.error = failed
            if not job.direct:
                self.device.errors.append((job.name, failed))
        self.jobs.popleft()
        while self._space_bells:
            self._space_bells.popleft().put(None)
        job.finish()

    def _run(self, job: Job) -> None:
        __tracebackhide__ = True
        start_ns = job.until_ns or real_ns()
        executed = not job.direct
        try:
            if job.body is not None:
                job.body()
            executed = True
            if job.least_s and LOG.recording:
                LOG.add_paced(job.name, round(job.least_s * 1e9), real_ns() - start_ns)
            rest_s = job.least_s - max(0, real_ns() - start_ns) / 1e9  # replaced clocks may go backwards
            if rest_s > 0:
                self.device.closing.wait(rest_s)
        except CommunicationError:
            executed = False  # others did not take part: nothing was moved, however long the stream stood
            LOG.give_up(job.correlation)
            raise
        finally:
            job.done_ns = job.until_ns or real_ns()
            # what only found out that its arguments do not fit would not have been launched on a real device
            if job.kind is not None and executed and LOG.recording:
                LOG.add_op(
                    start_ns + job.skipped_ns, job.done_ns, job.kind, self.device.index, self.stream_id,
                    job.name, job.correlation, job.size_bytes, raced=job.raced,
                )  # fmt: skip
