"""In a rank: a thread that answers the notebook while the main thread runs the cell."""

from __future__ import annotations

import os
import signal
import sys
import threading
import time
from contextlib import suppress
from queue import Empty, SimpleQueue
from types import FrameType
from typing import TYPE_CHECKING, Any

from perfmagic.capture.ranks.wire import Message, Wire

if TYPE_CHECKING:
    from perfmagic.capture.ranks.job import Job

_GO_S = 20.0  # a rank that hears nothing begins by itself
_BY_ITSELF_NS = 1_000_000  # of processor time: a rank that used more since the last look has got on


class Service:
    """jobs: what is for the main thread.  job: the rank's job, None until it has one.

    cell: the number of the cell that runs, 0 between cells.  cell_file: what the shell calls its code.
    head: the line of its magic, 0 where it has none.
    freed: why operations of this cell were ended.  freed_at: where the main thread stood then.
    """

    def __init__(self, wire: Wire) -> None:
        self.wire = wire
        self.jobs: SimpleQueue[tuple[Message, bytes]] = SimpleQueue()
        self.job: Job | None = None
        self.cell, self.cell_file = 0, ""
        self.freed, self.freed_at = "", dict[str, Any]()
        self.interrupted = False
        self._strike = False
        self._go: SimpleQueue[Message] = SimpleQueue()
        self._main = threading.main_thread()
        self._ending = threading.Lock()
        self._cpu_ns, self._steps = 0, 0
        self.head = 0

    def begin(self) -> None:
        """Answer from now on. Call it on the main thread."""
        signal.signal(signal.SIGINT, self._on_signal)
        threading.Thread(target=self._serve, name="ranks: service", daemon=True).start()

    def enter(self, cell: int, head: int = 0) -> None:
        """A cell begins. head: the line of its magic, 0 where it has none."""
        self.head = head
        self.freed, self.freed_at, self.cell_file = "", {}, ""
        self.interrupted = self._strike = False
        self.cell = cell

    def leave(self) -> None:
        """It has ended: what is still on its way for it must not strike the next one."""
        with self._ending:
            self.cell = 0
            self._strike = False

    def wait_for_go(self) -> int:
        """When the recorders of all ranks begin, by perf_counter; 0 for at once."""
        self.wire.send({"armed": True, "cell": self.cell})
        with suppress(Empty):
            while True:
                message = self._go.get(timeout=_GO_S)
                if message["cell"] == self.cell:
                    return int(message["at_ns"])
        return 0

    def where(self) -> dict[str, Any]:
        """Where the main thread stands, as fields of a Place."""
        line, call, waits = self._main_stands()
        found: dict[str, Any] = {"line": line, "call": call, "mark": self._mark()}
        job = self.job
        if job is None:
            return found
        standing = job.groups.standing() if waits else {}
        if standing:
            since_ns, file = standing.pop("since_ns"), standing.pop("file")
            found |= standing | {"mark": hash((since_ns, found["mark"]))}
            found["asked_line"] = standing["asked_line"] if file == self.cell_file else 0
        found["device_busy"] = job.device_busy
        return found

    def _serve(self) -> None:
        with suppress(EOFError, OSError):
            while True:
                self._answer(*self.wire.receive())
        end_with_children()  # the notebook is gone, and so is this rank

    def _answer(self, message: Message, payload: bytes) -> None:
        kind = message["do"]
        if kind == "ping":
            self.wire.send({"pong": message["t"], "t": time.perf_counter_ns()})
        elif kind == "where":
            self.wire.send({"at": self.where(), "cell": message["cell"], "look": message["look"]})
        elif kind == "interrupt":
            self._interrupt(message["cell"])
        elif kind == "free":
            self._free(message["cell"], message["why"])
        elif kind == "go":
            self._go.put(message)
        elif kind == "exit":
            end_with_children()
        else:
            self.jobs.put((message, payload))

    def _interrupt(self, cell: int) -> None:
        with self._ending:
            if cell != self.cell:
                return
            self.interrupted = self._strike = True
            self.freed_at = self.where()
            signal.pthread_kill(self._main.ident or 0, signal.SIGINT)
        self._free(cell, "the cell was interrupted")

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

        It may where it is inside torch.distributed, or in a call of the device, which may wait for what is queued.
        """
        frame: FrameType | None = sys._current_frames().get(self._main.ident or 0)
        call, waits = "", False
        while frame is not None:
            name, module = frame.f_code.co_name, frame.f_globals.get("__name__", "")
            if frame.f_code.co_filename == self.cell_file and self.cell:
                # on the magic's own line the cell has ended, and its recording waits for the device
                return frame.f_lineno if frame.f_lineno > self.head else 0, call, waits
            if module.startswith("torch.distributed") and _is_call(name):
                call = name
            waits = waits or module.startswith(("torch.distributed", "perfmagic.capture.devices."))
            frame = frame.f_back
        return 0, call, waits

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
    """End this process, and those that it has started and that stayed in its group: nobody else would end them."""
    if os.getpgrp() == os.getpid():
        os.killpg(os.getpgrp(), signal.SIGKILL)
    os._exit(0)


def _is_call(name: str) -> bool:
    return not name.startswith(("_", "wrapper", "<"))
