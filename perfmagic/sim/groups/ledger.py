"""The operations that a group has not done, which say why a rank waits, and the log of those on host tensors."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field

from perfmagic.base.rank_words import FIRST_GROUP, GIVEN_UP


@dataclass(frozen=True)
class Operation:
    """One operation between ranks, as one rank called it.

    group: its name.  ranks: of the group, in the whole job.  kind, title: as in a record ("allreduce", "all_reduce").
    number: from 1, of the group's collectives; of a message, of those to or from the same rank.
    size_bytes: of one rank's whole buffer.  peer: a message's other rank in the whole job; None for a collective, and
    for a message from any rank.  on_device: the simulated device runs it.
    file, line: where the code that asked for it stands; "", 0 where that is not known.
    """

    group: str
    ranks: tuple[int, ...]
    kind: str
    title: str
    number: int
    size_bytes: int
    peer: int | None
    on_device: bool
    file: str
    line: int


@dataclass(frozen=True)
class PendingOperation(Operation):
    """An operation that is queued or under way.

    running: it has begun; False while it waits for its stream.  since_ns: when it was asked for, by perf_counter_ns.
    waited: the host waits for this one.  group_desc: what the group's maker calls it, "" for nothing.
    """

    running: bool
    since_ns: int
    waited: bool = False
    group_desc: str = ""


@dataclass(frozen=True)
class CompletedOperation(Operation):
    """An operation on host tensors that is over.

    start_ns, end_ns: from its turn to its end, by perf_counter_ns.  thread: which did it, as the system numbers it.
    given_up: it never came about, as other ranks did not take part.
    """

    start_ns: int
    end_ns: int
    thread: int
    given_up: bool = False


@dataclass
class Request:
    """An operation from the call on.

    The code that queues it sets three functions. is_done(): whether it is over. settle(): wait until it is. On host
    tensors settle(timeout_s) gives up after a time and returns whether it is over. give_up(): end their waits.
    began_ns: on host tensors when its turn came, less the time of the exchange of headers.
    waited: the host waits for it now, and for no other.
    """

    kind: str
    title: str
    number: int
    size_bytes: int
    peer: int | None
    on_device: bool
    file: str
    line: int
    since_ns: int = field(default_factory=time.perf_counter_ns)
    began_ns: int = 0
    running: bool = False
    waited: bool = False
    is_done: Callable[[], bool] = lambda: False
    settle: Callable[..., object] = lambda *_: True
    give_up: Callable[[], object] = lambda: None

    def what(self, ranks: tuple[int, ...]) -> tuple[str, str, int, int, int | None, bool, str, int]:
        """The fields of an Operation after `ranks`.  ranks: of its group, in the whole job."""
        peer = None if self.peer is None else ranks[self.peer]
        return self.kind, self.title, self.number, self.size_bytes, peer, self.on_device, self.file, self.line

    def done(self) -> None:
        """It is over: release what is_done and settle hold."""
        self.is_done, self.settle = (lambda: True), (lambda *_: True)


class Ledger:
    """Numbers a group's operations, and keeps those not done. No locks: an interrupt may strike anywhere.

    first_failure: the first request that failed since the group was connected.
    """

    first_failure: Request | None = None

    def __init__(self) -> None:
        self._requests: deque[Request] = deque()
        self._numbers: dict[tuple[str, int | None], int] = {}

    def forget(self) -> None:
        """Count from 1 again, as all ranks of a reconnected group do."""
        self._requests.clear()
        self._numbers.clear()
        self.first_failure = None

    def note_failure(self, request: Request) -> None:
        """Note an operation that failed."""
        self.first_failure = self.first_failure or request

    def next_number(self, way: str, peer: int | None) -> int:
        """The number of a collective (way ""), or of a message to ("send") or from ("recv") a rank."""
        number = self._numbers[way, peer] = self._numbers.get((way, peer), 0) + 1
        return number

    def add(self, request: Request) -> None:
        """Add an operation, and drop those done."""
        while self._requests and self._requests[0].is_done():
            self._requests.popleft()
        self._requests.append(request)

    def open(self) -> list[Request]:
        """The operations not done, in the order of their calls."""
        return [request for request in list(self._requests) if not request.is_done()]


# Operations on host tensors during a recording: the host has no device log they could stand in.

open_logs: list[HostLog] = []


class HostLog:
    """The operations on host tensors from acquire() to give_back(), as a resource (perfmagic.capture.owner)."""

    def __init__(self) -> None:
        self._rows: list[CompletedOperation] = []

    def acquire(self) -> None:
        open_logs.append(self)

    def give_back(self) -> None:
        if self in open_logs:
            open_logs.remove(self)

    def read(self) -> list[CompletedOperation]:
        """The operations that are over, in the order of their starts."""
        return sorted(self._rows, key=lambda completed: completed.start_ns)

    def rows(self, offset_ns: int) -> list[tuple[str, int, int, int, int]]:
        """As rows of a record: name, start, end, thread, bytes.  offset_ns: from perf_counter to the record's clock."""
        return [
            (self.row_name(t), t.start_ns + offset_ns, t.end_ns + offset_ns, t.thread, t.size_bytes)
            for t in self.read()
        ]

    @staticmethod
    def row_name(completed: CompletedOperation) -> str:
        """The name in a record. Collectives of another group than the default one have its name and ranks."""
        name, end = f"gloo:{completed.title}", GIVEN_UP if completed.given_up else ""
        if completed.peer is not None or completed.group in ("", FIRST_GROUP):
            return name + end
        return f"{name} in group {completed.group} of ranks {', '.join(map(str, completed.ranks))}{end}"

    def add(self, completed: CompletedOperation) -> None:
        """Add an operation that is over, from any thread."""
        self._rows.append(completed)
