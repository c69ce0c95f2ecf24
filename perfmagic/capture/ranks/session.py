"""The ranks of a notebook: started, run together, renewed after a failure, ended."""

from __future__ import annotations

import itertools
import os
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from typing import Any

from perfmagic.capture.ranks.drivers import Driver, ForkServer, driver_for
from perfmagic.capture.ranks.failures import Failure
from perfmagic.capture.ranks.interrupts import Interrupts
from perfmagic.capture.ranks.peers import Peer, expect, pump
from perfmagic.capture.ranks.place import Place, ranks_words
from perfmagic.capture.ranks.settings import Settings
from perfmagic.capture.ranks.warned import Warned
from perfmagic.capture.ranks.watch import Watch, Watched
from perfmagic.errors import CaptureError, OptionError

_STEP_S = 0.05
_ANSWER_S = 60.0  # for variables sent and fetched
_PLACE_S = 1.0
_CLOCK_PINGS = 5
_END_S = 2.0  # for ranks that are told to end


@dataclass
class Outputs:
    """Where what ranks say goes.  line: (rank, stream, text).  display: (rank, faces).  tell: words of our own."""

    line: Callable[[int, str, str], None]
    display: Callable[[int, dict[str, str]], None]
    tell: Callable[[str], None]


@dataclass(frozen=True)
class CellEnd:
    """One cell in the ranks that ran it, by rank.

    values: the faces of its last expression.  recorded: the .npz of its trace.  standstill: why none could go on.
    """

    ranks: tuple[int, ...]
    values: dict[int, dict[str, str]]
    recorded: dict[int, bytes]
    failures: tuple[Failure, ...]
    standstill: str
    interrupted: bool


class Session:
    """Some ranks, from the constructor to close(). Raises CaptureError where they cannot be started.

    settings: what they are started with.  preload: modules that a fork server imports first.  driver: starts them
    elsewhere, in place of this machine's.
    """

    def __init__(
        self, settings: Settings, outputs: Outputs, preload: Sequence[str] = (), driver: Driver | None = None
    ) -> None:
        self.settings, self.outputs = settings, outputs
        self._printed = Warned(outputs.line)
        self.peers: list[Peer] = []
        self.device = ""
        self._pid = os.getpid()
        self._stale = self._busy = False
        self._numbers = itertools.count(1)
        self._driver = driver or _driver(preload)
        try:
            with self._ours() as interrupts:
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
        pump(self.peers, self._printed, 0.0)
        for peer in self.peers:
            if peer.alive and peer.started.exit_code() is not None:
                peer.ended()
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
        with self._ours() as interrupts:
            if self._stale:
                self._renew(interrupts)
            watch = self._watch(who)
            clock_ns = time.time_ns() - time.perf_counter_ns()
            cell = {"cell": watch.cell, "source": source, "record": record, "count": count}
            cell["interactivity"] = interactivity or "last_expr"
            for one in watch.ranks:
                own_ns = 0 if one.peer.started.elsewhere else clock_ns
                one.peer.send({"do": "run", **cell, "clock_ns": own_ns})
            self._follow(watch, interrupts)
            pump(who, self._printed, 0.0)  # what C++ printed last
            self._printed.end(self.outputs.tell)
            return self._ended(watch, interrupts)

    def push(self, payload: bytes, names: Sequence[str]) -> None:
        """Bind names in all ranks; payload: their values, pickled by the program of the ranks' own rule."""
        self._ask_all({"do": "push", "names": list(names)}, payload, "pushed")

    def pull(self, expression: str) -> list[bytes]:
        """The value of an expression in each rank, pickled."""
        return [payload for _, payload in self._ask_all({"do": "pull", "expression": expression}, b"", "pulled")]

    def places(self) -> dict[int, Place | None]:
        """Where each rank stands; None for one that has ended or does not answer."""
        found: dict[int, Place | None] = {}
        look = -next(self._numbers)
        for peer in self.peers:
            peer.send({"do": "where", "cell": 0, "look": look})
        for peer in self.peers:
            found[peer.rank] = None
            with suppress(CaptureError):
                message, _ = expect(peer, "at", self._printed, _PLACE_S)
                found[peer.rank] = Place.of(message["at"])
        return found

    def close(self) -> None:
        """End the ranks, also those that do not answer; in a fork of the notebook let go of them."""
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
        settings = self.settings
        for rank in range(settings.world):
            self.peers.append(Peer(self._driver.start(rank, settings.world, settings.program)))
        first, *others = self.peers
        found = {"address": self._driver.address, "apart": self._driver.apart}
        start = {"do": "init", "settings": settings.message() | found}
        first.send(start)
        port = self._expect(first, "port", settings.connect_s, interrupts)[0]["port"]
        for peer in others:
            peer.send({**start, "port": port})
        for peer in self.peers:
            self.device = self._expect(peer, "ready", settings.connect_s, interrupts)[0]["ready"]
        for peer in self.peers:
            if peer.started.elsewhere:
                peer.ahead_ns = self._ahead_ns(peer, interrupts)

    def _ahead_ns(self, peer: Peer, interrupts: Interrupts) -> int:
        """By how much a rank's clock is ahead, from the quickest of some answers."""
        found = []
        for _ in range(_CLOCK_PINGS):
            asked_ns = time.perf_counter_ns()
            peer.send({"do": "ping", "t": asked_ns})
            answer = self._expect(peer, "pong", _ANSWER_S, interrupts)[0]
            back_ns = time.perf_counter_ns()
            found.append((back_ns - asked_ns, int(answer["t"]) - (asked_ns + back_ns) // 2))
        return min(found)[1]

    def _expect(self, peer: Peer, key: str, timeout_s: float, interrupts: Interrupts) -> tuple[dict[str, Any], bytes]:
        return expect(peer, key, self._printed, timeout_s, interrupts.check)

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
            say=self.outputs.line,
            show=self.outputs.display,
            tell=self.outputs.tell,
            ahead_ns=self._driver.ahead_ns,
        )

    def _follow(self, watch: Watch, interrupts: Interrupts) -> None:
        """Until the cell has ended in every rank."""
        peers = [one.peer for one in watch.ranks]
        while watch.running:
            pump(peers, self._printed, _STEP_S, interrupts.wake)
            _ = self.dead  # a rank's own children may hold its socket open
            watch.step()
            while watch.interrupted < interrupts.count:
                watch.interrupt()
        watch.step()

    def _ended(self, watch: Watch, interrupts: Interrupts) -> CellEnd:
        failures = tuple(watch.failures)
        interrupted = bool(interrupts.hear())
        self._stale = self._stale or bool(failures) or interrupted
        return CellEnd(
            tuple(one.rank for one in watch.ranks),
            {one.rank: one.value for one in watch.ranks if one.value},
            {one.rank: one.payload for one in watch.ranks if one.payload},
            failures,
            watch.standstill,
            interrupted,
        )

    def _renew(self, interrupts: Interrupts) -> None:
        """Connect the process groups anew: what was freed cannot be used again."""
        epoch = next(self._numbers)
        for peer in self.peers:
            peer.messages.clear()
            peer.send({"do": "renew", "epoch": epoch})
        for peer in self.peers:
            while self._expect(peer, "renewed", self.settings.connect_s, interrupts)[0]["renewed"] != epoch:
                pass
        self._stale = False

    def _ask_all(self, request: dict[str, Any], payload: bytes, key: str) -> list[tuple[dict[str, Any], bytes]]:
        peers = self._chosen(None)
        with self._ours() as interrupts:
            for peer in peers:
                peer.messages.clear()
                peer.send(request, payload)
            return [self._expect(peer, key, _ANSWER_S, interrupts) for peer in peers]

    @contextmanager
    def _ours(self) -> Iterator[Interrupts]:
        """One caller at a time; interrupts are counted, so that none tears a message."""
        if self._busy:
            raise CaptureError(f"{ranks_words(list(range(self.world)))} run a cell already")
        with Interrupts() as interrupts:
            self._busy = True
            try:
                yield interrupts
            finally:
                self._busy = False


_drivers: dict[tuple[str, ...], Driver] = {}  # kept: the next start needs no import of torch


def _driver(preload: Sequence[str]) -> Driver:
    key = (str(os.getpid()), *preload)
    found = _drivers.get(key)
    if found is None or (isinstance(found, ForkServer) and not found.alive):
        found = _drivers[key] = driver_for(preload)
    return found


def close_drivers() -> None:
    """End what was started to start ranks."""
    while _drivers:
        key, driver = _drivers.popitem()
        if key[0] == str(os.getpid()):
            with suppress(OSError):
                driver.close()
