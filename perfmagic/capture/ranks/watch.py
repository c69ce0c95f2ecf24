"""One cell in several ranks: who has ended, who waits, who is to be freed.

Nothing is freed by a time-out. A rank is freed where another has failed, or where the places of all ranks say that it
can never go on and that has lasted for the grace time.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace

from perfmagic.capture.ranks.failures import Failure, first_of
from perfmagic.capture.ranks.peers import Peer
from perfmagic.capture.ranks.place import Place, ranks_words
from perfmagic.capture.ranks.standstill import standstill
from perfmagic.capture.ranks.wire import Message

ALONE_S = 0.2  # until those are freed that may be about to fail by themselves
AGAIN_S = 0.3
STILL_RUNS_S = 1.5  # until it is said that a rank which waits for nobody goes on
LOOKS = 4  # within the grace time


@dataclass
class Watched:
    """One rank and this cell.  failure: how it failed, None where it did not.  payload: what it recorded."""

    peer: Peer
    armed: bool = False
    done: bool = False
    failure: Failure | None = None
    payload: bytes = b""
    freed_s: float = -math.inf
    value: dict[str, str] | None = None

    @property
    def rank(self) -> int:
        return self.peer.rank

    @property
    def ended(self) -> bool:
        return self.done or not self.peer.alive


@dataclass
class Watch:
    """cell: its number.  world: all ranks.  show: a display of a rank.  tell: a line for whoever waits.

    ahead_ns: how far ahead the common beginning is set: longer than a message takes.
    """

    cell: int
    ranks: list[Watched]
    world: int
    grace_s: float
    say: Callable[[int, str, str], None]
    show: Callable[[int, dict[str, str]], None]
    tell: Callable[[str], None]
    ahead_ns: int = 2_000_000
    standstill: str = ""
    interrupted: int = 0
    _began: bool = False
    _told: bool = False
    _failed_s: float | None = None
    _look: int = 0
    _looked_s: float = field(default_factory=time.monotonic)
    _places: dict[int, Place] = field(default_factory=dict)
    _seen: dict[int, Place] = field(default_factory=dict)  # where ranks waited when they were last asked
    _before: tuple[list[int], dict[int, int]] | None = None
    _still_since_s: float = 0.0

    @property
    def running(self) -> list[Watched]:
        return [one for one in self.ranks if not one.ended]

    @property
    def failures(self) -> list[Failure]:
        found = []
        for one in self.ranks:
            if one.failure is not None:
                found.append(self._completed(one.failure))
            elif not one.done and not one.peer.alive:
                found.append(Failure(one.rank, died=one.peer.death))
        return found

    def _completed(self, failure: Failure) -> Failure:
        """With what the rank could not know: its wait may have been ended from the other side."""
        if not failure.follows:
            return failure
        place = failure.place if failure.place.call else self._seen.get(failure.rank, failure.place)
        return replace(failure, place=place, interrupted=bool(self.interrupted))

    def step(self) -> None:
        """Take the messages that have come, and do what follows from them and from the time."""
        for one in self.ranks:
            for message, payload in one.peer.messages:
                self._take(one, message, payload)
            one.peer.messages.clear()
        self._begin_together()
        if self.running:
            now_s = time.monotonic()
            if self.standstill:
                self._free(self.running, self.standstill)
            elif any(one.ended and (one.failure or not one.done) for one in self.ranks):
                self._after_a_failure(now_s)
            elif not self.interrupted:
                self._look_around(now_s)

    def interrupt(self) -> None:
        """The notebook was interrupted: first the ranks are, then it is said who does not answer, then they end."""
        self.interrupted += 1
        left = self.running
        if self.interrupted >= 3:
            for one in left:
                one.peer.ended_by = "the third interrupt"
                one.peer.started.kill()
            return
        self._ask()
        for one in left:
            one.peer.send({"do": "interrupt", "cell": self.cell})
        if self.interrupted == 2 and left:
            verb = "does" if len(left) == 1 else "do"
            who = ranks_words([one.rank for one in left])
            self.tell(f"{who} {verb} not answer; interrupt once more to end {'it' if len(left) == 1 else 'them'}")

    def _take(self, one: Watched, message: Message, payload: bytes) -> None:
        if "stream" in message:
            for line in message["text"].split("\n"):
                self.say(one.rank, message["stream"], line)
        elif "display" in message:
            self.show(one.rank, message["display"])
        elif message.get("cell") == self.cell:  # none of a cell before
            self._take_own(one, message, payload)

    def _take_own(self, one: Watched, message: Message, payload: bytes) -> None:
        if "armed" in message:
            one.armed = True
        elif "at" in message:
            if message["look"] == self._look:
                place = self._places[one.rank] = Place.of(message["at"])
                if place.call:
                    self._seen[one.rank] = place
        elif "done" in message:
            one.done, one.payload, one.value = True, payload, message.get("value")
            if message.get("failure"):
                one.failure = Failure.of(one.rank, message["failure"])

    def _begin_together(self) -> None:
        """Recorders that are ready begin at one instant; no barrier of the user's group is needed for that."""
        if self._began or not any(one.armed for one in self.ranks):
            return
        if all(one.armed or one.ended for one in self.ranks):
            self._began = True
            at_ns = time.perf_counter_ns() + self.ahead_ns
            for one in self.running:
                one.peer.send({"do": "go", "cell": self.cell, "at_ns": at_ns + one.peer.ahead_ns})

    def _after_a_failure(self, now_s: float) -> None:
        if self._failed_s is None:
            self._failed_s = now_s
            self._ask()  # freeing one frees those it is connected to, before they can say where they stood
        if self.interrupted or now_s - self._failed_s < ALONE_S:
            return
        first = first_of(self.failures)
        words = first.words if first else "another rank lost its connection"
        self._free(self.running, words)
        if now_s - self._failed_s > STILL_RUNS_S and not self._told:
            self._told = True
            left = self.running
            verb = "runs" if len(left) == 1 else "run"
            self.tell(f"{words}; {ranks_words([one.rank for one in left])} still {verb}, interrupt to end the cell")

    def _free(self, ranks: Sequence[Watched], why: str) -> None:
        now_s = time.monotonic()
        for one in ranks:
            if now_s - one.freed_s > AGAIN_S:  # a rank may have begun to connect only after the first time
                one.freed_s = now_s
                one.peer.send({"do": "free", "cell": self.cell, "why": why})

    def _look_around(self, now_s: float) -> None:
        """Ask all ranks where they stand, now and then; the same standstill for the grace time is one."""
        if len(self._places) == sum(one.peer.alive for one in self.ranks) and self._look:
            self._judge(now_s)
        if now_s - self._looked_s > self.grace_s / LOOKS:
            self._looked_s = now_s
            self._ask()

    def _ask(self) -> None:
        self._places = {}
        self._look += 1
        for one in self.ranks:
            one.peer.send({"do": "where", "cell": self.cell, "look": self._look})

    def _judge(self, now_s: float) -> None:
        places, self._places = self._places, {}
        stuck, reason = standstill(places, [one.rank for one in self.ranks if one.ended], self.world)
        seen = stuck, {rank: places[rank].mark for rank in stuck}
        if not stuck or seen != self._before:
            self._before, self._still_since_s = seen, now_s
        elif now_s - self._still_since_s >= self.grace_s * (LOOKS - 1) / LOOKS:
            self.standstill = reason
            self._free(self.running, reason)
