"""How ranks come to be on this machine: forked from a server that has torch imported, or started one by one.

A driver gives each rank a socket to the notebook and a pipe for what C++ prints. Drivers for other ranks (engines of a
cluster, a job that others started) have the same two methods. They give the same Started.
"""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any, Protocol

from perfmagic.base.errors import CaptureError
from perfmagic.capture.ranks.connection import Connection, Message
from perfmagic.capture.ranks.settings import LOOPBACK, ONE_THREAD, surroundings

_START = "import sys; sys.path[:] = {path!r}; from perfmagic.capture.ranks import forkserver; {call}"


@dataclass
class Started:
    """A rank that runs.  output: the read end of its stdout and stderr.  exit_code: None while it runs.

    engine: of a cluster, in words; "" for a process of this machine.  elsewhere: its clock is not this machine's.
    """

    rank: int
    pid: int
    connection: Connection
    output: int
    exit_code: Callable[[], int | None] = field(default=lambda: None)
    engine: str = ""
    elsewhere: bool = False

    def kill(self) -> None:
        with suppress(ProcessLookupError):
            if self.exit_code() is None:
                os.kill(self.pid, signal.SIGKILL)


class Driver(Protocol):
    """Starts ranks.

    how: in words, for the status.  address: where rank 0 listens.  ahead_ns: longer than a message to a rank takes.
    apart: ranks are of several hosts, whose clocks have to be compared.
    """

    @property
    def how(self) -> str: ...
    @property
    def address(self) -> str: ...
    @property
    def ahead_ns(self) -> int: ...
    @property
    def apart(self) -> bool: ...

    def start(self, rank: int, world: int, program: str) -> Started:
        """One rank. Raises CaptureError where it cannot be started."""

    def close(self) -> None:
        """End what the driver itself has started; ranks end by their own sockets."""


class Here:
    """What holds for all ranks of this machine."""

    address = LOOPBACK
    ahead_ns = 2_000_000
    apart = False


def driver_for(preload: Sequence[str]) -> Driver:
    """The driver of this platform. Raises CaptureError where there is none."""
    if os.name != "posix":
        raise CaptureError("%%ranks needs Linux or macOS", hint="run the notebook in WSL, or record one process")
    if sys.platform != "linux" or os.environ.get("PERFMAGIC_RANKS") == "spawn":
        return Spawned()
    server = ForkServer(preload)
    if server.threads > 1:  # a lock that another thread held would never be released in a fork
        server.close()
        return Spawned()
    return server


def _python(call: str, sock: socket.socket, **options: Any) -> subprocess.Popen[bytes]:
    """A process of this interpreter that calls a function of forkserver, and inherits a socket."""
    command = [sys.executable, "-c", _START.format(path=sys.path, call=call)]
    return subprocess.Popen(command, pass_fds=[sock.fileno()], env={**os.environ, **ONE_THREAD}, **options)


class ForkServer(Here):
    """Forks ranks from one process: torch is imported once, and its memory is shared."""

    how = "forked from a server that has torch imported"

    def __init__(self, preload: Sequence[str]) -> None:
        self._codes: dict[int, int] = {}
        ours, theirs = socket.socketpair()
        with theirs:
            call = f"forkserver.main({theirs.fileno()}, {list(preload)!r})"
            self._process = _python(call, theirs, start_new_session=True, stdin=subprocess.DEVNULL)
        self._connection = Connection(ours)
        try:
            self.threads = int(self._answer("ready")["threads"])
        except BaseException:
            self.close()
            raise

    def start(self, rank: int, world: int, program: str) -> Started:
        ours, theirs = socket.socketpair()
        read, write = os.pipe()
        request = {**surroundings(rank, world), "program": program, "server": self._process.pid}
        try:
            socket.send_fds(self._connection.sock, [b"+"], [theirs.fileno(), write])
            self._connection.send(request)
            pid = int(self._answer("forked")["forked"])
        except BaseException as error:  # an interrupt too
            ours.close()
            os.close(read)
            if isinstance(error, OSError):
                raise CaptureError(f"the server that ranks are forked from has ended: {error}") from None
            raise
        finally:
            theirs.close()
            os.close(write)
        return Started(rank, pid, Connection(ours), read, lambda: self._code(pid))

    def close(self) -> None:
        self._connection.close()
        with suppress(subprocess.TimeoutExpired):
            self._process.wait(2)
            return
        self._process.kill()
        self._process.wait()

    @property
    def alive(self) -> bool:
        return self._process.poll() is None

    def _answer(self, key: str) -> Message:
        while True:
            try:
                message, _ = self._connection.receive()
            except EOFError:
                code = self._process.wait()
                raise CaptureError(f"the server that ranks are forked from has ended with code {code}") from None
            if key in message:
                return message
            self._note(message)

    def _note(self, message: Message) -> None:
        if "ended" in message:
            self._codes[message["ended"]] = message["code"]

    def _code(self, pid: int) -> int | None:
        self._connection.sock.setblocking(False)
        try:
            with suppress(EOFError):
                for message, _ in self._connection.arrived():
                    self._note(message)
        finally:
            self._connection.sock.setblocking(True)
        return self._codes.get(pid)


class Spawned(Here):
    """Starts each rank as a program of its own, which imports torch itself.  others: see surroundings()."""

    how = "started one by one, each with an import of torch"

    def __init__(self, others: Mapping[str, str] | None = None) -> None:
        self._others = others

    def start(self, rank: int, world: int, program: str) -> Started:
        ours, theirs = socket.socketpair()
        read, write = os.pipe()
        request = {**surroundings(rank, world, self._others), "program": program}
        call = f"import json; forkserver.run_rank(json.loads(sys.stdin.read()), {theirs.fileno()}, None)"
        with theirs:
            process = _python(call, theirs, stdin=subprocess.PIPE, stdout=write, stderr=write)
        os.close(write)
        assert process.stdin is not None
        with suppress(BrokenPipeError), process.stdin as pipe:
            pipe.write(json.dumps(request).encode())
        return Started(rank, process.pid, Connection(ours), read, process.poll)

    def close(self) -> None:
        """Nothing but the ranks was started."""
