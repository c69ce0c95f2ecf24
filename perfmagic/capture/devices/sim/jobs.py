"""One thing a stream has to do, and how to wait for it.

No lock anywhere: an interrupt can strike the main thread between any two steps, and a lock it leaves behind would stop
the device for ever. Steps that must not be torn apart are single calls into C (deque.append, SimpleQueue.put and get).
"""

from __future__ import annotations

import itertools
import threading
from collections import deque
from collections.abc import Callable
from queue import SimpleQueue
from typing import Protocol

from perfmagic.capture.devices.sim.pace import PaceFunction
from perfmagic.errors import DeviceError
from perfmagic.trace.columns import NONE, OpKind

Body = Callable[[], None]
next_correlation = itertools.count(1).__next__


class NotComputedError(DeviceError):
    """Memory was read whose op failed or never ran; `origin` is that failure."""

    def __init__(self, origin: BaseException) -> None:
        super().__init__(
            f"this tensor was never computed: {first_line(origin)}",
            hint="run again the lines that make it",
        )
        self.origin = origin


def first_line(error: BaseException) -> str:
    """An error in one line, with its type where it has no words."""
    return str(error).split("\n", 1)[0] or type(error).__name__


class Owner(Protocol):
    """What a job and a stream know of their device."""

    index: int
    pace: PaceFunction | None
    errors: deque[tuple[str, BaseException]]
    host_seen: dict[Queue, int]
    closing: threading.Event

    def host_saw(self, lane: Queue, correlation: int) -> None: ...
    def host_saw_job(self, job: Job) -> None: ...
    def raise_failure(self) -> None: ...


class Queue(Protocol):
    """What a job knows of the stream it is queued on."""

    device: Owner
    stream_id: int
    seen: dict[Queue, int]

    def wake(self) -> None: ...


class Job:
    """A launch, an event record or a wait, from the call until it is done.

    body: what to run.  after: jobs of other streams to wait for first.  least_s: the pace.  kind None: not a device op.
    raced: the launch whose data the job uses without having waited for it, 0 for none.
    ends_future: torch was given a future of it, and orders the streams of whoever uses what it writes.
    skipped_ns: what of its beginning is no part of the op; its body says so.
    direct: the caller waits and raises the error itself, so that it is not reported a second time.
    """

    __slots__ = (
        "after",
        "body",
        "correlation",
        "direct",
        "done",
        "done_ns",
        "ends_future",
        "error",
        "in_backward",
        "kind",
        "lane",
        "least_s",
        "name",
        "raced",
        "seen",
        "size_bytes",
        "skipped_ns",
        "waiters",
    )

    def __init__(self, lane: Queue, name: str, body: Body | None, kind: OpKind | None = None) -> None:
        self.lane = lane
        self.name = name
        self.body = body
        self.kind = kind
        self.correlation = next_correlation()  # rising in the order of launches
        self.size_bytes = NONE
        self.least_s = 0.0
        self.after: tuple[Job, ...] = ()
        self.direct = False
        self.raced = self.skipped_ns = 0
        self.in_backward = self.ends_future = False
        self.seen: dict[Queue, int] = {}
        self.error: BaseException | None = None
        self.done = False
        self.done_ns = 0
        self.waiters: list[SimpleQueue[None]] = []

    def wait(self) -> None:
        """Block this thread until the job is done. An interrupt ends the wait and leaves nothing behind."""
        if self.done:
            return
        bell: SimpleQueue[None] = SimpleQueue()
        self.waiters.append(bell)
        # done is set before the bells are rung, so a bell that came too late for that sees done here
        if not self.done:
            self.lane.wake()
            bell.get()

    def finish(self) -> None:
        """Tell everybody. What the job held is let go, else each job would keep all before it alive."""
        self.body, self.after = None, ()
        self.done = True
        for bell in self.waiters:
            bell.put(None)
