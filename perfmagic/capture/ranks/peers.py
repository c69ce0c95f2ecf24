"""The notebook's side of each rank: its messages, its output, and whether it is alive."""

from __future__ import annotations

import codecs
import os
import select
import signal
import time
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field

from perfmagic.base.errors import CaptureError
from perfmagic.capture.ranks.connection import Connection, Message
from perfmagic.capture.ranks.drivers import Started

OUTPUT_BYTES = 1 << 16
KEPT_OUTPUT = 2000  # characters of a rank that could not start
STACKS_S = 20.0  # without an answer, until ranks are asked to print the stacks of their threads
_CODE_S = 1.0  # at most, to wait for the exit code of a rank whose socket has closed
_UTF8 = codecs.getincrementaldecoder("utf-8")  # a read may end within a character
Say = Callable[[int, str, str], None]  # (rank, "stdout" or "stderr", lines)


@dataclass
class Peer:
    """One rank, seen from the notebook.

    alive: False once its socket has closed.  began: whether it has sent anything.  messages: received, not yet taken.
    ahead_ns: by how much its clock is ahead of this machine's, to within the latency of a message.  ended_by: what in
    perfmagic ended it, "" for none.
    """

    started: Started
    alive: bool = True
    began: bool = False
    code: int | None = None
    messages: list[tuple[Message, bytes]] = field(default_factory=list)
    ahead_ns: int = 0
    ended_by: str = ""
    prints: bool = True  # False once the other end of its pipe is closed: poll() would report that forever
    _decoder: codecs.IncrementalDecoder = field(default_factory=lambda: _UTF8("replace"))
    _output: str = ""
    _last_output: str = ""

    @property
    def rank(self) -> int:
        return self.started.rank

    @property
    def connection(self) -> Connection:
        return self.started.connection

    def send(self, message: Message, payload: bytes = b"") -> None:
        """Send, or note that the rank has ended."""
        try:
            self.connection.send(message, payload)
        except OSError:
            self.mark_ended()

    def mark_ended(self) -> None:
        """Note that its socket has closed, and read its exit code."""
        self.alive = False
        deadline_s = time.monotonic() + (_CODE_S if self.started.pid else 0.0)  # without a pid it is not our child
        while (code := self.started.exit_code()) is None and time.monotonic() < deadline_s:
            time.sleep(0.005)
        self.code = code

    def receive(self) -> None:
        """Read the messages that have arrived; the socket is ready."""
        try:
            self.messages += self.connection.arrived()
            self.began = True
        except EOFError:
            self.mark_ended()

    def show_stacks(self) -> None:
        """Have the rank print the Python stacks of all its threads, even if none of them can run."""
        if self.started.engine:
            self.send({"do": "stacks"})
        elif self.began:  # before its handler is installed, the signal would kill it
            with suppress(ProcessLookupError):
                os.kill(self.started.pid, signal.SIGQUIT)

    def read_output(self, say: Say) -> None:
        """Pass on what C++ printed, in whole lines."""
        with suppress(OSError):
            data = os.read(self.started.output, OUTPUT_BYTES)
            self.prints = bool(data)
            text = self._decoder.decode(data, final=not data)
            self._last_output = (self._last_output + text)[-KEPT_OUTPUT:]
            *lines, self._output = (self._output + text).split("\n")
            if lines:
                say(self.rank, "stderr", "\n".join(lines))

    @property
    def last_output(self) -> str:
        """The end of what it printed to its own stdout and stderr."""
        return self._last_output.strip()

    @property
    def death(self) -> str:
        """How it ended, as a clause."""
        if self.ended_by:
            return f"was ended by {self.ended_by}"
        if self.code is None:
            return f"ended, or its {self.started.engine} did" if self.started.engine else "ended"
        if self.code == -signal.SIGKILL:
            return "was killed (SIGKILL), usually because the machine ran out of memory"
        if self.code < 0:
            with suppress(ValueError):
                return f"was killed by {signal.Signals(-self.code).name}"
        return f"ended with exit code {self.code}"

    def close(self) -> None:
        """Close the socket and the pipe; a rank that still runs sees its socket close and exits."""
        self.connection.close()
        with suppress(OSError):
            os.close(self.started.output)
        self.alive = False


def pump(peers: Iterable[Peer], say: Say, timeout_s: float, wake: int | None = None) -> None:
    """Wait until some rank has sent or printed something, and read it.  wake: one more descriptor to wait for."""
    living = [peer for peer in peers if peer.alive]
    poll = select.poll()  # select() fails for descriptors above 1023
    for peer in living:
        poll.register(peer.connection.fileno(), select.POLLIN)
        if peer.prints:
            poll.register(peer.started.output, select.POLLIN)
    if wake is not None:
        poll.register(wake, select.POLLIN)
    ready = {fd for fd, _ in poll.poll(timeout_s * 1000)}
    if wake is not None and wake in ready:
        _drain(wake)
    for peer in living:  # what a rank printed before it ended comes first
        if peer.started.output in ready:
            peer.read_output(say)
        if peer.connection.fileno() in ready:
            peer.receive()


def _drain(fd: int) -> None:
    with suppress(BlockingIOError):
        os.read(fd, 4096)


def expect(
    peer: Peer,
    key: str,
    say: Say,
    timeout_s: float,
    check: Callable[[], None] = lambda: None,
    others: Sequence[Peer] = (),
) -> tuple[Message, bytes]:
    """The message with that key. Raises CaptureError if the rank ends, fails or does not answer in time.

    check: called repeatedly; raises to stop waiting.  others: the ranks that this rank may wait for.
    """
    watched = [peer, *(other for other in others if other is not peer)]
    begin_s, shown = time.monotonic(), False
    deadline_s = begin_s + timeout_s
    while True:
        for i, (message, payload) in enumerate(peer.messages):
            if key in message:
                del peer.messages[i]
                return message, payload
            if "failed" in message:
                del peer.messages[i]
                raise CaptureError(f"rank {peer.rank}: {message['failed']}")
        if not peer.alive:
            raise CaptureError(_ended_early(peer))
        remaining_s = deadline_s - time.monotonic()
        if remaining_s <= 0:
            raise CaptureError(f"rank {peer.rank} did not answer within {timeout_s:g} s", hint="%ranks restart")
        if not shown and time.monotonic() - begin_s > STACKS_S:
            shown = True
            for waiting in watched:
                say(
                    waiting.rank,
                    "stderr",
                    f"no answer from rank {peer.rank} for {STACKS_S:g} s; stacks of the threads here:",
                )
                waiting.show_stacks()
        pump(watched, say, min(remaining_s, 0.1))
        check()


def _ended_early(peer: Peer) -> str:
    if _has_output(peer):
        peer.read_output(lambda *_: None)
    message = f"rank {peer.rank} {peer.death}"
    return f"{message}; it printed last:\n{peer.last_output}" if peer.last_output else message


def _has_output(peer: Peer) -> bool:
    try:
        return bool(select.select([peer.started.output], [], [], 0)[0])
    except (OSError, ValueError):
        return False
