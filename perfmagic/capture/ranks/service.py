"""In a rank: a thread that answers the notebook while the main thread runs the cell."""

from __future__ import annotations

import faulthandler
import os
import signal
import threading
import time
from contextlib import suppress
from queue import Empty, SimpleQueue
from typing import TYPE_CHECKING, Any

from perfmagic.base.user_lines import Place, running_threads, stack_of
from perfmagic.capture.ranks.connection import Connection, Message
from perfmagic.capture.ranks.helpers import Helpers, key_wait_of

if TYPE_CHECKING:
    from perfmagic.capture.ranks.job import Job

_STDERR = 2  # sys.stderr of a rank is a stream of ours, which needs the interpreter
_GO_S = 20.0  # a rank that hears nothing begins by itself
_REPEATS_S = (0.05, 0.2, 0.5, 1.0)  # between the signals of one interrupt
_BY_ITSELF_NS = 1_000_000  # of processor time: a rank that used more since the last look has got on


class Service:
    """jobs: what is for the main thread.  job: the rank's job, None until it has one.

    cell: the number of the cell that runs, 0 between cells.  cell_file: what the shell calls its code.
    head: the line of its magic, 0 where it has none.
    freed: why operations of this cell were ended.  freed_at: where the main thread stood then.
    lost_at: where it stood when an operation failed because other ranks were missing.
    """

    def __init__(self, connection: Connection) -> None:
        self.connection = connection
        self.jobs: SimpleQueue[tuple[Message, bytes]] = SimpleQueue()
        self.job: Job | None = None
        self.cell, self.cell_file = 0, ""
        self.freed, self.freed_at, self.lost_at = "", dict[str, Any](), dict[str, Any]()
        self.interrupted = False
        self._strike = False
        self._entered = self._interrupted_ahead = 0
        self._go: SimpleQueue[Message] = SimpleQueue()
        self._main = threading.main_thread()
        self._helpers = Helpers()
        self._ending = threading.Lock()
        self._cpu_ns, self._steps = 0, 0
        self.head = 0

    def begin(self) -> None:
        """Answer from now on. Call it on the main thread."""
        signal.signal(signal.SIGINT, self._on_signal)
        faulthandler.register(signal.SIGQUIT, file=_STDERR)  # also where no thread gets its turn
        threading.Thread(target=self._serve, name="ranks: service", daemon=True).start()

    def enter(self, cell: int, head: int = 0) -> None:
        """A cell begins. head: the line of its magic, 0 where it has none.

        Raises KeyboardInterrupt where the cell was interrupted before this rank came to it.
        """
        self.head = head
        self.freed, self.freed_at, self.lost_at, self.cell_file = "", {}, {}, ""
        with self._ending:
            self.interrupted, self._strike = cell == self._interrupted_ahead, False
            self.cell = self._entered = cell
        if self.interrupted:
            raise KeyboardInterrupt

    def leave(self) -> None:
        """The cell has ended: a late interrupt for it must not hit the next cell."""
        with self._ending:
            self.cell = 0
            self._strike = False

    def wait_for_go(self) -> int:
        """When the recorders of all ranks begin, by perf_counter; 0 for at once."""
        self.connection.send({"armed": True, "cell": self.cell})
        with suppress(Empty):
            while True:
                message = self._go.get(timeout=_GO_S)
                if message["cell"] == self.cell:
                    return int(message["at_ns"])
        return 0

    def where(self) -> dict[str, Any]:
        """The place of the main thread, as fields of a Place, and another thread that may act."""
        if self.lost_at:
            return self.lost_at
        line, call, waits = self._main_stands()
        thread, helped = self._helpers.stand(daemons=bool(self.cell))
        place: dict[str, Any] = {"line": line, "call": call, "mark": self._mark(), "thread": thread}
        key_wait = key_wait_of(self._main.ident) if not call else None
        if key_wait:
            place["key_wait"], place["mark"] = key_wait
        job = self.job
        if job is None:
            return place
        under_way = self._placed(job.groups.standing())
        if under_way and waits and not key_wait:
            first = under_way[0]
            # where several threads wait, the rank gets on with any of their operations
            marks = [op["mark"] for op in (under_way if helped else under_way[:1])]
            place |= first | {"line": line, "mark": hash((*marks, place["mark"]))}
            place["waited"] = first["waited"] and not helped
        return place | {"under_way": under_way, "device_busy": job.device_busy}

    def lose(self, line: int, call: str) -> None:
        """An operation failed because other ranks were missing: the rank's place until the cell ends."""
        lost = self._placed(self.job.groups.lost()) if self.job else []
        self.lost_at = {"call": call} | (lost[0] if lost else {}) | {"line": line, "waited": True}

    @property
    def stood_at(self) -> dict[str, Any]:
        """Where the main thread stood when its operations were ended, or when one failed by itself before that."""
        return self.freed_at if self.freed_at.get("call") or not self.lost_at else self.lost_at

    def _placed(self, operations: list[dict[str, Any]]) -> list[dict[str, Any]]:
        """The operations, with line numbers of this cell only."""
        for op in operations:
            op["mark"] = op.pop("since_ns")
            if op.pop("file") != self.cell_file:
                op["asked_line"] = 0
        return operations

    def _serve(self) -> None:
        with suppress(EOFError, OSError):
            while True:
                self._answer(*self.connection.receive())
        end_with_children()  # the notebook is gone, and so is this rank

    def _answer(self, message: Message, payload: bytes) -> None:
        kind = message["do"]
        if kind == "ping":
            self.connection.send({"pong": message["t"], "t": time.perf_counter_ns()})
        elif kind == "where":
            self.connection.send({"at": self.where(), "cell": message["cell"], "look": message["look"]})
        elif kind == "interrupt":
            self._interrupt(message["cell"])
        elif kind == "free":
            self._free(message["cell"], message["why"])
        elif kind == "stacks":
            faulthandler.dump_traceback(file=_STDERR)
        elif kind == "go":
            self._go.put(message)
        elif kind == "exit":
            end_with_children()
        else:
            self.jobs.put((message, payload))

    def _interrupt(self, cell: int) -> None:
        with self._ending:
            if cell > self._entered:
                self._interrupted_ahead = cell
            if cell != self.cell:
                return
            self.interrupted = self._strike = True
            self.freed_at = self.where()
            signal.pthread_kill(self._main.ident or 0, signal.SIGINT)
        threading.Thread(target=self._repeat_strike, args=(cell,), name="ranks: interrupt", daemon=True).start()
        self._free(cell, "the cell was interrupted")

    def _repeat_strike(self, cell: int) -> None:
        """Send the signal again until Python has acted on it: one that came just before sleep() does not end it."""
        for pause_s in _REPEATS_S:
            time.sleep(pause_s)
            with self._ending:
                if cell != self.cell or not self._strike:
                    return
                signal.pthread_kill(self._main.ident or 0, signal.SIGINT)

    def _free(self, cell: int, why: str) -> None:
        """End what the running cell waits for; not what a later cell does."""
        with self._ending:
            if cell != self.cell or self.job is None:
                return
            if not self.freed:
                self.freed, self.freed_at = why, self.freed_at or self.where()
            self.job.groups.free(why)

    def _on_signal(self, *_: object) -> None:
        """Each interrupt strikes once, in the cell it was meant for."""
        if self._strike:
            self._strike = False
            raise KeyboardInterrupt

    def _main_stands(self) -> tuple[int, str, bool]:
        """The innermost line of the cell; the outermost function of torch.distributed below it; whether it may wait.

        It may where it is inside torch.distributed, or in a call of the device, which may wait for what is queued; and
        in C++ code below torch, as a backward pass is, unless that runs the user's functions on a thread of its own.
        """
        stack = stack_of(self._main.ident)
        call, waits = "", bool(stack) and _is_ours(stack[0])
        computes = any(not _is_ours(other) for other in _of_cplusplus())
        for place in stack:
            if place.code.co_filename == self.cell_file and self.cell:
                # on the magic's own line the cell has ended, and its recording waits for the device
                return place.line if place.line > self.head else 0, call, waits and not computes
            if is_call(place):
                call = place.code.co_name
            waits = waits or place.module.startswith(("torch.distributed", "perfmagic.sim."))
        return 0, call, waits and not computes

    def _mark(self) -> int:
        """Grows while the main thread computes."""
        if hasattr(time, "pthread_getcpuclockid"):
            cpu_ns = time.clock_gettime_ns(time.pthread_getcpuclockid(self._main.ident or 0))
        else:  # macOS
            cpu_ns = time.process_time_ns()
        if cpu_ns - self._cpu_ns > _BY_ITSELF_NS:
            self._cpu_ns, self._steps = cpu_ns, self._steps + 1
        return self._steps


def end_with_children() -> None:
    """End this process, and those that it has started and that stayed in its group: nothing else would end them."""
    if os.getpgrp() == os.getpid():
        os.killpg(os.getpgrp(), signal.SIGKILL)
    os._exit(0)


def _of_cplusplus() -> list[Place]:
    """The Python code that threads run which Python has not started."""
    started = {thread.ident for thread in threading.enumerate() if not isinstance(thread, threading._DummyThread)}
    return [place for ident in running_threads() if ident not in started for place in stack_of(ident)[:1]]


def _is_ours(place: Place) -> bool:
    return place.module.split(".", 1)[0] in ("torch", "perfmagic")


def is_call(place: Place) -> bool:
    """Whether it is a function of torch.distributed that users call."""
    ours = place.module.startswith("torch.distributed")
    return ours and not place.code.co_name.startswith(("_", "wrapper", "<"))
