"""The program of a rank: an IPython shell without a kernel. Its main thread runs cells, a thread answers the notebook.

Variables stay from cell to cell. What is printed, displayed or the value of a cell goes to the notebook.
"""

from __future__ import annotations

import builtins
import os
import pickle
import sys
import traceback
from typing import Any

from traitlets.config import Config

from perfmagic.capture.devices.backends import active_backends
from perfmagic.capture.ranks.job import Job, pickled
from perfmagic.capture.ranks.service import Service
from perfmagic.capture.ranks.settings import Settings
from perfmagic.capture.ranks.wire import Message, Wire
from perfmagic.magics.in_rank.cell import MAGICS
from perfmagic.magics.in_rank.shell import Hook, NamedCells, Publisher, RankShell, Stream, ended_by_others, no_input
from perfmagic.magics.running import names
from perfmagic.magics.running.registry import load


class Program:
    """One rank, until its notebook goes."""

    shell: RankShell

    def __init__(self, wire: Wire, rank: int) -> None:
        self._wire, self._rank = wire, rank
        self._pid = os.getpid()
        self.service = Service(wire)

    def loop(self) -> None:
        """Do what the notebook asks for, for ever."""
        self.service.begin()
        while True:
            message, payload = self.service.jobs.get()
            try:
                getattr(self, "_" + message["do"])(message, payload)
            except (Exception, KeyboardInterrupt) as error:  # noqa: BLE001 - the notebook says it
                self._report(message, error)

    def _report(self, message: Message, error: BaseException) -> None:
        """What went wrong outside of the user's code."""
        words = f"{type(error).__name__}: {error}"
        if message["do"] == "run":
            failure = self._failure(error) | {"traceback": "".join(traceback.format_exception(error))}
            self.service.leave()
            self._wire.send({"done": True, "cell": message["cell"], "failure": failure})
        else:
            self._wire.send({"failed": words})

    def _init(self, message: Message, _payload: bytes) -> None:
        settings = Settings(**message["settings"])
        self._make_shell(settings)
        job = Job(self._rank, settings)
        port = message.get("port")
        if port is None:
            port = job.listen()
            self._wire.send({"port": port})
        job.connect(port)
        self.service.job = job
        self._wire.send({"ready": job.kind})

    def _make_shell(self, settings: Settings) -> None:
        config = Config()
        config.HistoryManager.enabled = False  # ranks would wait for each other's locks on one database
        if settings.colors:
            config.InteractiveShell.colors = settings.colors
        shell = self.shell = RankShell.instance(config=config, display_pub_class=Publisher, displayhook_class=Hook)
        shell.wire, shell.service = self._wire, self.service
        self._run_cell: Any = shell.run_cell
        # lines are counted from the magic, or from what stands above it
        cleanup = shell.input_transformers_cleanup
        cleanup[:] = [step for step in cleanup if getattr(step, "__name__", "") != "leading_empty_lines"]
        NamedCells.service = self.service
        shell.user_ns.update(rank=self._rank, world_size=settings.world, perfmagic=sys.modules["perfmagic"])
        names.enter_rank()
        load(shell)
        MAGICS["ranks"].service = self.service
        builtins.input = no_input
        sys.stdout, sys.stderr = Stream(self._wire, "stdout"), Stream(self._wire, "stderr")

    def _run(self, message: Message, _payload: bytes) -> None:
        shell, magic = self.shell, MAGICS["ranks"]
        shell.traceback_text, shell.value, magic.recorded, magic.late_error = "", None, b"", None
        source: str = message["source"]
        if message["record"] is not None:
            magic.record, magic.clock_ns = message["record"], message["clock_ns"]
            job = self.service.job
            magic.pings = job.clocks.round(0) if job is not None and job.clocks else []
        else:
            source = _plain(source)
        shell.execution_count = message["count"] or shell.execution_count
        shell.ast_node_interactivity = message["interactivity"]
        self.service.enter(message["cell"], _head(message["source"]))
        error: BaseException | None = None
        try:
            result = self._run_cell(source, store_history=True)
            error = result.error_before_exec or result.error_in_exec or _late_error(magic.late_error)
        except KeyboardInterrupt as stop:  # between the user's code and ours
            error = stop
        if error is None:
            shell.say_traceback()
        for stream in (sys.stdout, sys.stderr):
            if isinstance(stream, Stream):
                stream.end()
        if os.getpid() != self._pid:
            self._end_child(error)
        self.service.leave()
        reply: Message = {"done": True, "cell": message["cell"], "value": shell.value}
        if error is not None:
            reply["failure"] = self._failure(error)
        self._wire.send(reply, magic.recorded)

    def _end_child(self, error: BaseException | None) -> None:
        """The cell has forked, and this is the child at the cell's end: it is no second rank, and goes no further."""
        if error is not None and not isinstance(error, SystemExit):
            sys.stderr.write(f"{self.shell.traceback_text}\n")
        os._exit(0 if error is None else 1)

    def _failure(self, error: BaseException) -> dict[str, Any]:
        """How the cell failed, as fields of a Failure."""
        service = self.service
        rows = traceback.extract_tb(error.__traceback__)
        mine = [row for row in rows if row.filename == service.cell_file and (row.lineno or 0) > service.head]
        line = mine[-1].lineno if mine else getattr(error, "lineno", None) if isinstance(error, SyntaxError) else 0
        ended = ended_by_others(service, error)
        return {
            "type": type(error).__name__,
            "text": str(error),
            "line": line or 0,
            "traceback": self.shell.traceback_text,
            "freed": service.freed if ended and not service.interrupted else "",
            "place": service.freed_at,
            "interrupted": service.interrupted and ended,
        }

    def _renew(self, message: Message, _payload: bytes) -> None:
        assert self.service.job is not None
        self.service.job.groups.renew(message["epoch"])
        self._wire.send({"renewed": message["epoch"]})

    def _push(self, message: Message, payload: bytes) -> None:
        self.shell.user_ns.update(zip(message["names"], pickle.loads(payload), strict=True))
        self._wire.send({"pushed": True})

    def _pull(self, message: Message, _payload: bytes) -> None:
        value = eval(message["expression"], self.shell.user_ns)  # the user's own expression, as typed
        self._wire.send({"pulled": True}, pickled(value))


def _plain(source: str) -> str:
    """A cell without its magic, and with its lines where they were; code without a magic as it is."""
    lines, head = source.split("\n"), _head(source)
    return "\n".join([*lines[: head - 1], "", *lines[head:]]) if head else source


def _head(source: str) -> int:
    """The line of a cell's magic, 0 where it has none."""
    lines = source.split("\n")
    first = next((i for i, line in enumerate(lines) if line.strip()), 0)
    return first + 1 if lines[first].startswith("%%ranks") else 0


def _late_error(recorded: BaseException | None) -> BaseException | None:
    """What the simulated device reports once all is done that the cell has queued: else a later cell would have it."""
    if recorded is not None:
        return recorded
    try:
        for backend in active_backends():
            if backend.kind == "sim":
                backend.synchronize()
    except Exception as error:  # noqa: BLE001 - told as the cell's own
        return error
    return None


def main(wire: Wire, rank: int) -> None:
    """Be a rank."""
    Program(wire, rank).loop()
