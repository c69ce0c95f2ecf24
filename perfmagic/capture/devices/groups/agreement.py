"""Before an operation its ranks tell each other what they are in: it begins where they agree, else each rank raises.

That takes time of its own, which is no part of the operation: records leave it out.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import torch

from perfmagic.capture.devices.groups.gloo import Gloo, Side
from perfmagic.capture.devices.groups.headers import Header, disagreement, message_disagreement

MOST_TAG = 2**29 - 1  # gloo's are below 2**31, and a message takes three of four
_COLLECTIVE_TAG = 3  # the fourth
_ROUNDS = 3  # to find out what the exchange takes where nobody is waited for


@dataclass
class Collective:
    """All ranks of a group are to be in one collective.  rank: in the group.  ranks: in the whole job."""

    mine: Header
    rank: int
    ranks: tuple[int, ...]

    def __call__(self, gloo: Gloo, side: Side) -> int:
        """Come back when all are; the nanoseconds that this took by itself, without waiting for anybody.

        Raises CommunicationError where they are not in the same one.
        """
        n = len(self.ranks)
        if n == 1:
            return 0
        mine = _tensor(self.mine.pack(n))
        found = [mine if i == self.rank else torch.empty_like(mine) for i in range(n)]
        others = [i for i in range(n) if i != self.rank]

        def exchange() -> None:  # to each at once: gloo's own all_gather goes from rank to rank
            works = [side.group.recv([found[i]], i, _COLLECTIVE_TAG) for i in others]
            works += [side.group.send([mine], i, _COLLECTIVE_TAG) for i in others]
            for work in works:
                work.wait()

        spent_ns = _timed(gloo, self.mine.title, side, "", exchange, first="" not in side.costs_ns)
        gloo.refuse(disagreement([Header.unpack(one.numpy().tobytes()) for one in found], self.ranks))
        return spent_ns


@dataclass
class Message:
    """Both ends of a message are to be there.

    mine: this end.  rank, peer: in the group; peer None for a message from any rank, and its sender afterwards.
    ranks: in the whole job.  sends: which end this is.
    """

    mine: Header
    rank: int
    peer: int | None
    ranks: tuple[int, ...]
    tag: int
    sends: bool

    @property
    def payload_tag(self) -> int:
        return 4 * self.tag

    def __call__(self, gloo: Gloo, side: Side) -> int:
        """Come back when both are; the nanoseconds that this took by itself, without waiting.

        Raises CommunicationError where what is sent is not what is expected.
        """
        n = len(self.ranks)
        theirs = torch.empty(Header.length(n), dtype=torch.uint8)
        if self.sends:
            assert self.peer is not None
            first = f"to {self.peer}" not in side.costs_ns
            mine = _tensor(replace(self.mine, number=int(first)).pack(n))  # the receiver has to know of the rounds
            there_and_back = partial(self._there_and_back, side.group, mine, theirs)
            spent_ns = _timed(gloo, self.mine.title, side, f"to {self.peer}", there_and_back, first=first)
        else:
            mine = _tensor(self.mine.pack(n))
            spent_ns = self._answered(gloo, side, mine, theirs)
        other = Header.unpack(theirs.numpy().tobytes())
        here, there = self.ranks[self.rank], self.ranks[self.peer or 0]
        if self.sends:
            gloo.refuse(message_disagreement(self.mine, other, here, there))
        else:
            gloo.refuse(message_disagreement(other, self.mine, there, here))
        return spent_ns

    def _there_and_back(self, group: Any, mine: torch.Tensor, theirs: torch.Tensor) -> None:
        group.send([mine], self.peer, self.payload_tag + 1).wait()
        group.recv([theirs], self.peer, self.payload_tag + 2).wait()

    def _answered(self, gloo: Gloo, side: Side, mine: torch.Tensor, theirs: torch.Tensor) -> int:
        def first_of_them() -> None:
            if self.peer is not None:
                side.group.recv([theirs], self.peer, self.payload_tag + 1).wait()
                return
            work = side.group.recv_anysource([theirs], self.payload_tag + 1)
            work.wait()
            self.peer = int(work._source_rank())

        def back_and_there() -> None:
            side.group.send([mine], self.peer, self.payload_tag + 2).wait()

        gloo.run(self.mine.title, first_of_them)
        begin_ns = time.perf_counter_ns()
        gloo.run(self.mine.title, back_and_there)
        if Header.unpack(theirs.numpy().tobytes()).number:
            again = torch.empty_like(theirs)
            for _ in range(_ROUNDS):
                gloo.run(self.mine.title, side.group.recv([again], self.peer, self.payload_tag + 1).wait)
                gloo.run(self.mine.title, back_and_there)
        return time.perf_counter_ns() - begin_ns


Check = Callable[[Gloo, Side], int]


def _timed(gloo: Gloo, what: str, side: Side, key: str, exchange: Callable[[], None], *, first: bool) -> int:
    """Do it. How long it took by itself: the least of all times, as the others may have waited for somebody.

    first: do it some times more, now that everybody is there, to learn that.
    """
    begin_ns = time.perf_counter_ns()
    gloo.run(what, exchange)
    took_ns = time.perf_counter_ns() - begin_ns
    more_ns = 0
    for _ in range(_ROUNDS if first else 0):
        begin_ns = time.perf_counter_ns()
        gloo.run(what, exchange)
        once_ns = time.perf_counter_ns() - begin_ns
        more_ns += once_ns
        side.costs_ns[key] = min(once_ns, side.costs_ns.get(key, once_ns))
    side.costs_ns[key] = min(took_ns, side.costs_ns[key])
    return side.costs_ns[key] + more_ns


def _tensor(data: bytes) -> torch.Tensor:
    return torch.frombuffer(bytearray(data), dtype=torch.uint8)
