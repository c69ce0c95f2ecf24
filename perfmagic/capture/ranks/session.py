"""The ranks of a notebook: started, run together, renewed after a failure, ended."""

from __future__ import annotations

import itertools
import os
import signal
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from typing import Any

from perfmagic.base.errors import CaptureError, OptionError
from perfmagic.base.rank_words import describe_ranks
from perfmagic.capture.ranks.drivers import Driver, ForkServer, driver_for
from perfmagic.capture.ranks.failures import Failure, Warned
from perfmagic.capture.ranks.hangs import Place
from perfmagic.capture.ranks.peers import Peer, expect, pump
from perfmagic.capture.ranks.printed import Outputs, Printed
from perfmagic.capture.ranks.settings import Settings
from perfmagic.capture.ranks.watch import Watch, Watched

# While a cell runs in ranks, an interrupt of the notebook is counted: it is for the ranks, and no message is torn.


class Interrupts:
    """A with block.  count: how many came.  wake: a descriptor that becomes readable with each.

    hear() gives the count. An interrupt after the last hear() is raised at the end of the block.

    It is no resource of an Owner: an Owner restores the handlers that were there, and this block replaces one.
    """

    def __init__(self) -> None:
        self.count = self._heard = 0
        self.wake = self._end = -1
        self._before: Any = None

    def __enter__(self) -> Interrupts:  # noqa: PYI034 - typing.Self needs Python 3.11
        self.wake, self._end = os.pipe()
        for fd in (self.wake, self._end):
            os.set_blocking(fd, False)
        if threading.current_thread() is threading.main_thread() and callable(signal.getsignal(signal.SIGINT)):
            self._before = signal.signal(signal.SIGINT, self._came)
        return self

    def __exit__(self, kind: object, *_error: object) -> None:
        ends, self.wake, self._end = (self.wake, self._end), -1, -1
        for fd in ends:
            os.close(fd)
        if self._before is not None:  # the last of all: from here on an interrupt strikes
            signal.signal(signal.SIGINT, self._before)
            if kind is None and self.count > self._heard:
                self._before(signal.SIGINT, None)

    def hear(self) -> int:
        """The number of interrupts so far; the caller acts on all of them."""
        self._heard = self.count
        return self._heard

    def check(self) -> None:
        """Raise KeyboardInterrupt after an interrupt. Call it between two messages."""
        if self.count:
            raise KeyboardInterrupt

    def _came(self, *_: object) -> None:
        self.count += 1
        with suppress(OSError):
            os.write(self._end, b"i")


_STEP_S = 0.05
_ANSWER_S = 60.0  # for variables sent and fetched
_PLACE_S = 1.0
_CLOCK_PINGS = 5
_END_S = 2.0  # for ranks to end by themselves


@dataclass(frozen=True)
class CellEnd:
    """One cell in the ranks that ran it, by rank.

    values: representations of its last expression by MIME type.  recorded: the .npz of its trace.
    hang: why no rank could go on, "" where that did not end the cell.
    """

    ranks: tuple[int, ...]
    values: dict[int, dict[str, str]]
    recorded: dict[int, bytes]
    failures: tuple[Failure, ...]
    hang: str
    interrupted: bool


class Session:
    """The ranks of a notebook, from the constructor to close(). Raises CaptureError where they cannot be started.

    settings: what they are started with.  preload: modules that a fork server imports first.  driver: starts them
    elsewhere, in place of this machine's.
    """

    def __init__(
        self, settings: Settings, outputs: Outputs, preload: Sequence[str] = (), driver: Driver | None = None
    ) -> None:
        self.settings, self.outputs = settings, outputs
        self.printed = Printed(outputs)
        self._by_c = Warned(self.printed)
        self.peers: list[Peer] = []
        self.device = ""
        self._pid = os.getpid()
        self._stale = self._destroyed = self._busy = False
        self._virtual_ns = 0  # the latest of the ranks' virtual clocks after the last cell
        self._numbers = itertools.count(1)
        self._driver = driver or _driver(preload)
        try:
            with self._exclusive() as interrupts:
                self._start(interrupts)
        except BaseException:  # an interrupt too
            self.close()
            raise

    @property
    def world(self) -> int:
        return self.settings.world

    @property
    def how(self) -> str:
        return self._driver.how

    @property
    def dead(self) -> list[Peer]:
        """Those that have ended by themselves."""
        pump(self.peers, self._by_c, 0.0)
        for peer in self.peers:
            if peer.alive and peer.started.exit_code() is not None:
                peer.mark_ended()
        return [peer for peer in self.peers if not peer.alive]

    def run(
        self,
        source: str,
        *,
        on: Sequence[int] | None = None,
        record: dict[str, Any] | None = None,
        count: int = 0,
        interactivity: str = "",
    ) -> CellEnd:
        """Run a cell in all ranks, or in some.

        source: with the line of its magic first.  record: how, None for a plain run.
        count: the cell's number in the notebook, 0 for the ranks' own.  interactivity: which values are shown, as
        IPython's ast_node_interactivity; "" for the last.
        Raises CaptureError where a rank has ended before, OptionError for ranks that do not exist. What the cell raised
        is in the result, an interrupt too.
        """
        who = self._chosen(on)
        with self._exclusive() as interrupts:
            if self._stale:
                self._renew(interrupts)
            self.printed.begin()
            watch = self._watch(who)
            clock_ns = time.time_ns() - time.perf_counter_ns()
            cell = {"cell": watch.cell, "source": source, "record": record, "count": count}
            cell |= {"interactivity": interactivity or "last_expr", "virtual_ns": self._virtual_ns}
            for watched in watch.ranks:
                own_ns = 0 if watched.peer.started.elsewhere else clock_ns
                watched.peer.send({"do": "run", **cell, "clock_ns": own_ns})
            self._follow(watch, interrupts)
            pump(who, self._by_c, 0.0)  # what C++ printed last
            self.printed.end()
            self._by_c.end(self.printed.tell)
            return self._ended(watch, interrupts)

    def keep_clock(self, clock: str) -> None:
        """Keep "real" or "virtual" time in all ranks."""
        self._ask_all({"do": "clock", "clock": clock}, b"", "clock")

    def push(self, payload: bytes, names: Sequence[str]) -> None:
        """Bind names in all ranks; payload: their values, pickled by the program of the ranks' own rule."""
        self._ask_all({"do": "push", "names": list(names)}, payload, "pushed")

    def pull(self, expression: str) -> list[bytes]:
        """The value of an expression in each rank, pickled."""
        return [payload for _, payload in self._ask_all({"do": "pull", "expression": expression}, b"", "pulled")]

    def places(self) -> dict[int, Place | None]:
        """The place of each rank; None for a rank that has ended or does not answer."""
        places: dict[int, Place | None] = {}
        look = -next(self._numbers)
        for peer in self.peers:
            peer.send({"do": "where", "cell": 0, "look": look})
        for peer in self.peers:
            places[peer.rank] = None
            with suppress(CaptureError):
                message, _ = expect(peer, "at", self._by_c, _PLACE_S)
                places[peer.rank] = Place.from_message(message["at"])
        return places

    def close(self) -> None:
        """End all ranks, also those that do not answer. A fork of the notebook only closes its descriptors."""
        if os.getpid() != self._pid:
            for peer in self.peers:
                peer.close()
            self.peers = []
            return
        for peer in self.peers:
            if peer.alive:
                peer.send({"do": "exit"})
        until = time.monotonic() + _END_S
        for peer in self.peers:
            while peer.started.exit_code() is None and time.monotonic() < until:
                time.sleep(0.005)
            peer.started.kill()
            peer.close()
        self.peers = []

    def _start(self, interrupts: Interrupts) -> None:
        first = self._begin(0)
        network = {"address": self._driver.address, "apart": self._driver.apart}
        start = {"do": "init", "settings": self.settings.message() | network}
        first.send(start)
        while len(self.peers) < self.world and not first.messages:
            self._begin(len(self.peers))
            pump([first], self._by_c, 0.0)
        port = self._expect(first, "port", self.settings.connect_s, interrupts)[0]["port"]
        for rank in range(1, self.world):  # ranks connect while others are started
            peer = self.peers[rank] if rank < len(self.peers) else self._begin(rank)
            peer.send({**start, "port": port})
        for peer in self.peers:
            self.device = self._expect(peer, "ready", self.settings.connect_s, interrupts)[0]["ready"]
        for peer in self.peers:
            if peer.started.elsewhere:
                peer.ahead_ns = self._ahead_ns(peer, interrupts)

    def _begin(self, rank: int) -> Peer:
        self.peers.append(Peer(self._driver.start(rank, self.world, self.settings.program)))
        return self.peers[-1]

    def _ahead_ns(self, peer: Peer, interrupts: Interrupts) -> int:
        """By how much a rank's clock is ahead, from the quickest of several answers."""
        answers = []
        for _ in range(_CLOCK_PINGS):
            asked_ns = time.perf_counter_ns()
            peer.send({"do": "ping", "t": asked_ns})
            answer = self._expect(peer, "pong", _ANSWER_S, interrupts)[0]
            back_ns = time.perf_counter_ns()
            answers.append((back_ns - asked_ns, int(answer["t"]) - (asked_ns + back_ns) // 2))
        return min(answers)[1]

    def _expect(self, peer: Peer, key: str, timeout_s: float, interrupts: Interrupts) -> tuple[dict[str, Any], bytes]:
        return expect(peer, key, self._by_c, timeout_s, interrupts.check, self.peers)

    def _chosen(self, on: Sequence[int] | None) -> list[Peer]:
        if dead := self.dead:
            raise CaptureError(f"rank {dead[0].rank} {dead[0].death}", hint="start the ranks again: %ranks restart")
        wrong = [rank for rank in on or () if not 0 <= rank < self.world]
        if wrong:
            raise OptionError(f"there is no rank {wrong[0]}", hint=f"the ranks are 0 to {self.world - 1}")
        return [peer for peer in self.peers if on is None or peer.rank in on]

    def _watch(self, who: list[Peer]) -> Watch:
        return Watch(
            cell=next(self._numbers),
            ranks=[Watched(peer) for peer in who],
            world=self.world,
            grace_s=self.settings.grace_s,
            say=self.printed,
            show=self.printed.display,
            notify=self.printed.tell,
            ahead_ns=self._driver.ahead_ns,
        )

    def _follow(self, watch: Watch, interrupts: Interrupts) -> None:
        """Until the cell has ended in every rank."""
        peers = [watched.peer for watched in watch.ranks]
        while watch.running:
            pump(peers, self._by_c, _STEP_S, interrupts.wake)
            _ = self.dead  # a rank's own children may hold its socket open
            watch.step()
            while watch.interrupted < interrupts.count:
                watch.interrupt()
            self.printed.show_if_due()
        watch.step()

    def _ended(self, watch: Watch, interrupts: Interrupts) -> CellEnd:
        failures = tuple(watch.failures)
        interrupted = bool(interrupts.hear())
        self._destroyed = self._destroyed or any(watched.destroyed for watched in watch.ranks)
        self._stale = self._stale or self._destroyed or bool(failures) or interrupted
        self._virtual_ns = max(self._virtual_ns, *(watched.virtual_ns for watched in watch.ranks))
        return CellEnd(
            tuple(watched.rank for watched in watch.ranks),
            {watched.rank: watched.value for watched in watch.ranks if watched.value},
            {watched.rank: watched.payload for watched in watch.ranks if watched.payload},
            failures,
            watch.hang,
            interrupted,
        )

    def _renew(self, interrupts: Interrupts) -> None:
        """Reconnect the process groups: what was freed cannot be used again."""
        epoch = next(self._numbers)
        for peer in self.peers:
            peer.messages.clear()
            peer.send({"do": "renew", "epoch": epoch, "destroyed": self._destroyed})
        for peer in self.peers:
            while self._expect(peer, "renewed", self.settings.connect_s, interrupts)[0]["renewed"] != epoch:
                pass
        self._stale = self._destroyed = False

    def _ask_all(self, request: dict[str, Any], payload: bytes, key: str) -> list[tuple[dict[str, Any], bytes]]:
        peers = self._chosen(None)
        with self._exclusive() as interrupts:
            for peer in peers:
                peer.messages.clear()
                peer.send(request, payload)
            return [self._expect(peer, key, _ANSWER_S, interrupts) for peer in peers]

    @contextmanager
    def _exclusive(self) -> Iterator[Interrupts]:
        """One caller at a time; interrupts are counted, so that none tears a message."""
        if self._busy:
            raise CaptureError(f"{describe_ranks(list(range(self.world)))} are already running a cell")
        with Interrupts() as interrupts:
            self._busy = True
            try:
                yield interrupts
            finally:
                self._busy = False
                self.printed.show()


_drivers: dict[tuple[str, ...], Driver] = {}  # kept: the next start needs no import of torch


def _driver(preload: Sequence[str]) -> Driver:
    key = (str(os.getpid()), *preload)
    driver = _drivers.get(key)
    if driver is None or (isinstance(driver, ForkServer) and not driver.alive):
        driver = _drivers[key] = driver_for(preload)
    return driver


def close_drivers() -> None:
    """End what was started to start ranks."""
    while _drivers:
        key, driver = _drivers.popitem()
        if key[0] == str(os.getpid()):
            with suppress(OSError):
                driver.close()
