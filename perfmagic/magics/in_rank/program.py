"""The program of a rank: an IPython shell without a kernel. Its main thread runs cells, a thread answers the notebook.

Variables stay from cell to cell. Output, displays and values go to the notebook.
"""

from __future__ import annotations

import builtins
import os
import pickle
import sys
import traceback
from typing import Any

from traitlets.config import Config

from perfmagic.base.clock import VIRTUAL, begin_together, read_ns
from perfmagic.capture.devices.backends import active_backends, device
from perfmagic.capture.ranks.connection import Connection, Message
from perfmagic.capture.ranks.job import Job, pickled
from perfmagic.capture.ranks.service import Service
from perfmagic.capture.ranks.settings import Settings
from perfmagic.capture.sleep import count_sleeps
from perfmagic.magics.in_rank.cell import MAGICS
from perfmagic.magics.in_rank.shell import (
    Hook,
    NamedCells,
    Publisher,
    RankShell,
    Stream,
    ended_by_others,
    is_usable,
    no_input,
)
from perfmagic.magics.running.registry import load
from perfmagic.magics.running.runtime import enter_rank


def prepare() -> RankShell:
    """The shell of this rank. A fork server makes it before it forks: made in each rank it takes 25 ms of CPU there."""
    if RankShell.initialized():
        return RankShell.instance()
    config = Config()
    config.HistoryManager.enabled = False  # ranks would wait for each other's locks on one database
    config.InteractiveShell.warn_venv = False  # the kernel, of the same environment, has warned
    shell = RankShell.instance(config=config, display_pub_class=Publisher, displayhook_class=Hook)
    # lines are counted from the magic, or from what stands above it
    cleanup = shell.input_transformers_cleanup
    cleanup[:] = [step for step in cleanup if getattr(step, "__name__", "") != "leading_empty_lines"]
    shell.run_line_magic("colors", str(shell.colors))  # imports what it needs
    enter_rank()
    load(shell)
    count_sleeps(really=False, forks=True)
    return shell


class Program:
    """One rank, as long as its notebook lives."""

    shell: RankShell
    _streams: tuple[Stream, Stream]

    def __init__(self, connection: Connection, rank: int) -> None:
        self._connection, self._rank = connection, rank
        self._pid = os.getpid()
        self.service = Service(connection)

    def loop(self) -> None:
        """Execute the notebook's messages for ever."""
        self.service.begin()
        while True:
            message, payload = self.service.jobs.get()
            try:
                getattr(self, "_" + message["do"])(message, payload)
            except (Exception, KeyboardInterrupt) as error:  # noqa: BLE001 - the notebook reports it
                self._report(message, error)

    def _report(self, message: Message, error: BaseException) -> None:
        """Report an error outside of the user's code."""
        if message["do"] == "run":
            failure = self._failure(error) | {"traceback": "".join(traceback.format_exception(error))}
            self.service.leave()
            self._connection.send({"done": True, "cell": message["cell"], "failure": failure})
        else:
            self._connection.send({"failed": f"{type(error).__name__}: {error}"})

    def _init(self, message: Message, _payload: bytes) -> None:
        settings = Settings(**message["settings"])
        self._take_shell(settings)
        job = Job(self._rank, settings)
        port = message.get("port")
        if port is None:
            port = job.listen()
            self._connection.send({"port": port})
        job.connect(port)
        self.service.job = job
        self._connection.send({"ready": job.kind})

    def _take_shell(self, settings: Settings) -> None:
        shell = self.shell = prepare()
        if settings.colors:
            shell.run_line_magic("colors", settings.colors)
        shell.connection, shell.service = self._connection, self.service
        self._run_cell: Any = shell.run_cell
        NamedCells.service = self.service
        shell.user_ns.update(rank=self._rank, world_size=settings.world, perfmagic=sys.modules["perfmagic"])
        count_sleeps(really=False)
        MAGICS["ranks"].service = self.service
        builtins.input = no_input
        sys.stdout, sys.stderr = self._streams = Stream(self._connection, "stdout"), Stream(self._connection, "stderr")

    def _run(self, message: Message, _payload: bytes) -> None:
        shell, magic = self.shell, MAGICS["ranks"]
        shell.traceback_text, shell.value, magic.recorded, magic.late_error = "", None, b"", None
        begin_together(message["virtual_ns"])
        source: str = message["source"]
        if message["record"] is not None:
            magic.record, magic.clock_ns = message["record"], message["clock_ns"]
            job = self.service.job
            magic.pings = job.clocks.round(0) if job is not None and job.clocks and not VIRTUAL else []
        else:
            source = _plain(source)
        shell.execution_count = message["count"] or shell.execution_count
        shell.ast_node_interactivity = message["interactivity"]
        error: BaseException | None = None
        try:
            self.service.enter(message["cell"], _head(message["source"]))
            result = self._run_cell(source, store_history=True)
            error = result.error_before_exec or result.error_in_exec or _late_error(magic.late_error)
        except KeyboardInterrupt as stop:  # outside of the user's code
            error = stop
        self._restore_streams()
        if error is None:
            shell.print_traceback()
        for stream in self._streams:
            stream.end()
        if os.getpid() != self._pid:
            self._end_child(error)
        self.service.leave()
        reply: Message = {"done": True, "cell": message["cell"], "value": shell.value}
        reply["virtual_ns"] = read_ns() if VIRTUAL else 0
        reply["destroyed"] = self.service.job is not None and self.service.job.destroyed
        if error is not None:
            reply["failure"] = self._failure(error)
        self._connection.send(reply, magic.recorded)

    def _restore_streams(self) -> None:
        """Restore a stream that a cell replaced by one that cannot be written to: the next cell would fail."""
        for stream in self._streams:
            if not is_usable(getattr(sys, stream.name, None)):
                setattr(sys, stream.name, stream)

    def _end_child(self, error: BaseException | None) -> None:
        """Exit a child that the cell forked: at the cell's end it must not act as a second rank."""
        if error is not None and not isinstance(error, SystemExit):
            sys.stderr.write(f"{self.shell.traceback_text}\n")
        os._exit(0 if error is None else 1)

    def _failure(self, error: BaseException) -> dict[str, Any]:
        """The cell's error, as fields of a Failure."""
        service = self.service
        frames = traceback.extract_tb(error.__traceback__)
        in_cell = [
            frame for frame in frames if frame.filename == service.cell_file and (frame.lineno or 0) > service.head
        ]
        line = (
            in_cell[-1].lineno if in_cell else getattr(error, "lineno", None) if isinstance(error, SyntaxError) else 0
        )
        ended = ended_by_others(service, error)
        if ended:
            service.lose(line or 0, "")
        return {
            "type": type(error).__name__,
            "text": str(error),
            "line": line or 0,
            "traceback": self.shell.traceback_text,
            "freed": service.freed if ended and not service.interrupted else "",
            "place": service.stood_at,
            "interrupted": service.interrupted and ended,
        }

    def _renew(self, message: Message, _payload: bytes) -> None:
        assert self.service.job is not None
        self.service.job.groups.renew(message["epoch"], destroyed=message["destroyed"])
        self._connection.send({"renewed": message["epoch"]})

    def _clock(self, message: Message, _payload: bytes) -> None:
        device(clock=message["clock"])
        self._connection.send({"clock": message["clock"]})

    def _push(self, message: Message, payload: bytes) -> None:
        self.shell.user_ns.update(zip(message["names"], pickle.loads(payload), strict=True))
        self._connection.send({"pushed": True})

    def _pull(self, message: Message, _payload: bytes) -> None:
        value = eval(message["expression"], self.shell.user_ns)  # the user's own expression, as typed
        self._connection.send({"pulled": True}, pickled(value))


def _plain(source: str) -> str:
    """A cell with an empty line in place of its magic; code without a magic as it is."""
    lines, head = source.split("\n"), _head(source)
    return "\n".join([*lines[: head - 1], "", *lines[head:]]) if head else source


def _head(source: str) -> int:
    """The line of a cell's magic, 0 where it has none."""
    lines = source.split("\n")
    first = next((i for i, line in enumerate(lines) if line.strip()), 0)
    return first + 1 if lines[first].startswith("%%ranks") else 0


def _late_error(recorded: BaseException | None) -> BaseException | None:
    """The error that the simulated device reports after all queued work; a later cell would get it otherwise."""
    if recorded is not None:
        return recorded
    try:
        for backend in active_backends():
            if backend.kind == "sim":
                backend.synchronize()
    except Exception as error:  # noqa: BLE001 - reported as the cell's own
        return error
    return None


def main(connection: Connection, rank: int) -> None:
    """Be a rank."""
    Program(connection, rank).loop()
