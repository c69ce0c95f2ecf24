"""The notebook's end of each rank: what it sent, whether it lives."""

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
STACKS_S = 20.0  # without an answer, until a rank is asked to show what its threads do
_CODE_S = 1.0  # until the exit code of a rank whose socket has closed is known
_UTF8 = codecs.getincrementaldecoder("utf-8")  # a character may be read in two pieces
Say = Callable[[int, str, str], None]  # (rank, "stdout" or "stderr", lines)


@dataclass
class Peer:
    """One rank, seen from the notebook.

    alive: False once its socket has closed.  began: it has sent something.  messages: nobody has taken them yet.
    ahead_ns: by how much its clock is ahead of this machine's, to within the time of a message.  ended_by: what of ours
    ended it, "" where nothing did.
    """

    started: Started
    alive: bool = True
    began: bool = False
    code: int | None = None
    messages: list[tuple[Message, bytes]] = field(default_factory=list)
    ahead_ns: int = 0
    ended_by: str = ""
    prints: bool = True  # False once nothing holds the other end of its pipe: a poll would report that for ever
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
            self.ended()

    def ended(self) -> None:
        """Its socket has closed."""
        self.alive = False
        waits_until = time.monotonic() + (_CODE_S if self.started.pid else 0.0)  # else it is nobody's of ours
        while (code := self.started.exit_code()) is None and time.monotonic() < waits_until:
            time.sleep(0.005)
        self.code = code

    def receive(self) -> None:
        """Take in what has come; the socket is ready."""
        try:
            self.messages += self.connection.arrived()
            self.began = True
        except EOFError:
            self.ended()

    def show_stacks(self) -> None:
        """Have the rank print the Python stacks of all its threads, also where none of them gets its turn."""
        if self.started.engine:
            self.send({"do": "stacks"})
        elif self.began:  # before that the signal would end it
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
        """How it ended, in words."""
        if self.ended_by:
            return f"was ended by {self.ended_by}"
        if self.code is None:
            return f"ended, or its {self.started.engine} did" if self.started.engine else "ended"
        if self.code == -signal.SIGKILL:
            return "was killed (SIGKILL), most often for want of memory"
        if self.code < 0:
            with suppress(ValueError):
                return f"was killed by {signal.Signals(-self.code).name}"
        return f"ended with exit code {self.code}"

    def close(self) -> None:
        """Give back the socket and the pipe; a rank that still runs sees the end of its socket and ends."""
        self.connection.close()
        with suppress(OSError):
            os.close(self.started.output)
        self.alive = False


def pump(peers: Iterable[Peer], say: Say, timeout_s: float, wake: int | None = None) -> None:
    """Wait until some rank has sent or printed something, and take it in.  wake: one more descriptor to wait for."""
    living = [peer for peer in peers if peer.alive]
    poll = select.poll()  # select() refuses descriptors above 1024
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
    """The message with that key. Raises CaptureError where the rank ends, fails or does not answer in time.

    check: called now and then; raises where nobody waits any longer.  others: whom that rank may wait for.
    """
    both = [peer, *(other for other in others if other is not peer)]
    begin_s, shown = time.monotonic(), False
    until = begin_s + timeout_s
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
        left_s = until - time.monotonic()
        if left_s <= 0:
            raise CaptureError(f"rank {peer.rank} did not answer within {timeout_s:g} s", hint="%ranks restart")
        if not shown and time.monotonic() - begin_s > STACKS_S:
            shown = True
            for waiting in both:
                say(
                    waiting.rank,
                    "stderr",
                    f"no answer of rank {peer.rank} for {STACKS_S:g} s; what the threads here do:",
                )
                waiting.show_stacks()
        pump(both, say, min(left_s, 0.1))
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
