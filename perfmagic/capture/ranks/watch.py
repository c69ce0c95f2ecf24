"""One cell in several ranks: who has ended, who waits, who is to be freed.

Nothing is freed by a time-out. A rank is freed if another has failed. It is also freed if the places of all ranks say
for the grace time that it can never continue.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace

from perfmagic.base.rank_words import describe_ranks
from perfmagic.capture.ranks.connection import Message
from perfmagic.capture.ranks.failures import Failure, first_of
from perfmagic.capture.ranks.hangs import NOWHERE, Place, find_hang, open_waits, waited_for
from perfmagic.capture.ranks.peers import Peer

ALONE_S = 0.2  # until those are freed that may be about to fail by themselves
AGAIN_S = 0.3
STILL_RUNS_S = 1.5  # until a rank that still runs after a failure is reported
LOOKS = 4  # within the grace time
SLOW = 3  # grace times of waiting for a rank that computes, until it is reported


@dataclass
class Watched:
    """One rank and this cell.  failure: how it failed, None where it did not.  payload: what it recorded.

    destroyed: the cell has destroyed torch.distributed's default group.
    virtual_ns: what its virtual clock reads at the end; 0 on the real one.
    """

    peer: Peer
    armed: bool = False
    done: bool = False
    failure: Failure | None = None
    payload: bytes = b""
    destroyed: bool = False
    freed_s: float = -math.inf
    value: dict[str, str] | None = None
    virtual_ns: int = 0

    @property
    def rank(self) -> int:
        return self.peer.rank

    @property
    def ended(self) -> bool:
        return self.done or not self.peer.alive


@dataclass
class Watch:
    """cell: its number.  world: all ranks.  show: a display of a rank.  notify: shows a line to the user.

    ahead_ns: how far ahead the common beginning is set: longer than a message takes.  missing: ranks that may yet come.
    """

    cell: int
    ranks: list[Watched]
    world: int
    grace_s: float
    say: Callable[[int, str, str], None]
    show: Callable[[int, dict[str, str]], None]
    notify: Callable[[str], None]
    ahead_ns: int = 2_000_000
    missing: set[int] = field(default_factory=set)
    hang: str = ""
    interrupted: int = 0
    _began: bool = False
    _notified: bool = False
    _failed_s: float | None = None
    _look: int = 0
    _looked_s: float = field(default_factory=time.monotonic)
    _places: dict[int, Place] = field(default_factory=dict)
    _seen: dict[int, Place] = field(default_factory=dict)  # where ranks waited when they were last asked
    _before: tuple[list[int], dict[int, int]] | None = None
    _still_since_s: float = 0.0
    _waits: dict[tuple[str, int], float] = field(default_factory=dict)  # since when; infinite once reported
    _slow: tuple[str, float] | None = ("", 0.0)  # who waits for whom, and since when; None once reported

    @property
    def running(self) -> list[Watched]:
        return [watched for watched in self.ranks if not watched.ended]

    @property
    def failures(self) -> list[Failure]:
        failures = []
        for watched in self.ranks:
            if watched.failure is not None:
                failures.append(self._completed(watched.failure))
            elif not watched.done and not watched.peer.alive:
                failures.append(Failure(watched.rank, died=watched.peer.death))
        return failures

    def _completed(self, failure: Failure) -> Failure:
        """The failure with what only the watch knows: another rank may have ended the wait."""
        if not failure.follows:
            return failure
        place = failure.place if failure.place.call else self._seen.get(failure.rank, failure.place)
        return replace(failure, place=place, interrupted=bool(self.interrupted))

    def step(self) -> None:
        """Handle the messages that have come, then do what the time asks for."""
        for watched in self.ranks:
            for message, payload in watched.peer.messages:
                self._handle(watched, message, payload)
            watched.peer.messages.clear()
        self._begin_together()
        if self.running:
            now_s = time.monotonic()
            if self.hang:
                self._free(self.running, self.hang)
            elif any(watched.ended and (watched.failure or not watched.done) for watched in self.ranks):
                self._after_a_failure(now_s)
            elif not self.interrupted:
                self._look_around(now_s)

    def interrupt(self) -> None:
        """Interrupt the ranks; the second time name those that do not answer; the third time end them."""
        self.interrupted += 1
        left = self.running
        if self.interrupted >= 3:
            for watched in left:
                watched.peer.ended_by = "the third interrupt"
                watched.peer.started.kill()
            return
        self._ask()
        for watched in left:
            watched.peer.send({"do": "interrupt", "cell": self.cell})
        if self.interrupted == 2 and left:
            verb = "does" if len(left) == 1 else "do"
            who = describe_ranks([watched.rank for watched in left])
            self.notify(f"{who} {verb} not answer; interrupt once more to end {'it' if len(left) == 1 else 'them'}")
            for watched in left:
                watched.peer.show_stacks()

    def _handle(self, watched: Watched, message: Message, payload: bytes) -> None:
        if "stream" in message:
            self.say(watched.rank, message["stream"], message["text"])
        elif "display" in message:
            self.show(watched.rank, message["display"])
        elif message.get("cell") == self.cell:  # none of a cell before
            self._handle_own(watched, message, payload)

    def _handle_own(self, watched: Watched, message: Message, payload: bytes) -> None:
        if "armed" in message:
            watched.armed = True
        elif "at" in message:
            if message["look"] == self._look:
                place = self._places[watched.rank] = Place.from_message(message["at"])
                if place.call:
                    self._seen[watched.rank] = place
        elif "done" in message:
            watched.done, watched.payload, watched.value = True, payload, message.get("value")
            watched.destroyed = bool(message.get("destroyed"))
            watched.virtual_ns = message.get("virtual_ns", 0)
            if message.get("failure"):
                watched.failure = Failure.from_message(watched.rank, message["failure"])

    def _begin_together(self) -> None:
        """Recorders that are ready begin at one instant; no barrier of the user's group is needed for that."""
        if self._began or not any(watched.armed for watched in self.ranks):
            return
        if not self.missing and all(watched.armed or watched.ended for watched in self.ranks):
            self._began = True
            at_ns = time.perf_counter_ns() + self.ahead_ns
            for watched in self.running:
                watched.peer.send({"do": "go", "cell": self.cell, "at_ns": at_ns + watched.peer.ahead_ns})

    def _after_a_failure(self, now_s: float) -> None:
        if self._failed_s is None:
            self._failed_s = now_s
            self._ask()  # freeing one frees those it is connected to, before they can say where they stood
        if self.interrupted or now_s - self._failed_s < ALONE_S:
            return
        first = first_of(self.failures)
        message = first.description if first else "another rank lost its connection"
        self._free(self.running, message)
        if now_s - self._failed_s > STILL_RUNS_S and not self._notified:
            self._notified = True
            left = self.running
            verb = "runs" if len(left) == 1 else "run"
            ranks = describe_ranks([watched.rank for watched in left])
            self.notify(f"{message}; {ranks} still {verb}, interrupt to end the cell")

    def _free(self, ranks: Sequence[Watched], why: str) -> None:
        now_s = time.monotonic()
        for watched in ranks:
            if now_s - watched.freed_s > AGAIN_S:  # a rank may have begun to connect only after the first time
                watched.freed_s = now_s
                watched.peer.send({"do": "free", "cell": self.cell, "why": why})

    def _look_around(self, now_s: float) -> None:
        """Ask all ranks for their places, a few times in the grace time. What stays the same that long is a hang."""
        if len(self._places) == sum(watched.peer.alive for watched in self.ranks) and self._look:
            self._judge(now_s)
        if now_s - self._looked_s > self.grace_s / LOOKS:
            self._looked_s = now_s
            self._ask()

    def _ask(self) -> None:
        self._places = {}
        self._look += 1
        for watched in self.ranks:
            watched.peer.send({"do": "where", "cell": self.cell, "look": self._look})

    def _judge(self, now_s: float) -> None:
        places, self._places = self._places, {}
        ended = [watched.rank for watched in self.ranks if watched.ended]
        self._say_who_waits(open_waits(places, ended, self.missing), now_s)
        places |= dict.fromkeys(self.missing, NOWHERE)
        stuck, reason = find_hang(places, ended, self.world)
        seen = stuck, {rank: places[rank].mark for rank in stuck}
        if not stuck or seen != self._before:
            self._before, self._still_since_s = seen, now_s
        elif now_s - self._still_since_s >= self.grace_s * (LOOKS - 1) / LOOKS:
            self.hang = reason
            self._free(self.running, reason)
        if not stuck:
            self._say_who_is_slow(waited_for(places, ended, self.world), now_s)

    def _say_who_waits(self, waits: dict[str, int], now_s: float) -> None:
        """Report each wait once it has lasted for the grace time. No rank is freed: what is missing may still come."""
        self._waits = {wait: self._waits.get(wait, now_s) for wait in waits.items()}
        for wait, since_s in self._waits.items():
            if now_s - since_s >= self.grace_s:
                self._waits[wait] = math.inf
                self.notify(f"still waiting: {wait[0]}")

    def _say_who_is_slow(self, message: str, now_s: float) -> None:
        """Report once per cell which rank the others wait for. No rank is freed: that rank may still come."""
        if self._slow is None or not message:
            return
        before, since_s = self._slow
        if message != before:
            self._slow = message, now_s
        elif now_s - since_s > SLOW * self.grace_s:
            self._slow = None
            self.notify(f"still waiting: {message}")
