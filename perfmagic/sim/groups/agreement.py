"""Before an operation its ranks exchange headers: it begins where they agree, else each rank raises.

The exchange takes time of its own, which records leave out of the operation. On virtual clocks ranks also tell each
other when they came.
"""

from __future__ import annotations

import struct
import time
import zlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, NamedTuple

import torch

from perfmagic.base.rank_words import describe_ranks, nth
from perfmagic.sim.groups.gloo import CLOCKS_DIFFER, Gloo, Side

# What a rank says of an operation before it begins, and what of it the ranks have to agree on.

_FIXED = struct.Struct("<28s28s20s12s64s9q")
_TO_ROOT = ("reduce", "gather")


@dataclass(frozen=True)
class Header:
    """One operation of one rank.

    title: in words ("all_reduce").  kind: what gloo is asked for; ranks with one kind may have other titles.
    dtype: "" for nothing.  reduce_op: "" where nothing is reduced.  where: the user's line in words, "" if unknown.
    number: of the group's collectives, from 1.  size_bytes: of one rank's whole buffer.  root: its rank in the group,
    -1 for none.  sizes: elements of each tensor that all ranks have alike; of those of another rank as many as fit.
    checksum: of all of them.  puts, gets: elements for and from each rank, where ranks may differ in that.
    arrived_ns: when this rank came, by its virtual clock; 0 on a real one.  takes_ns: how long the operation lasts.
    empty: whether a tensor of this rank has no value (perfmagic.sim.values).
    """

    title: str
    kind: str
    dtype: str
    reduce_op: str
    where: str
    number: int
    size_bytes: int
    root: int
    sizes: tuple[int, ...]
    n_sizes: int
    checksum: int
    puts: tuple[int, ...] = ()
    gets: tuple[int, ...] = ()
    arrived_ns: int = 0
    takes_ns: int = 0
    empty: bool = False

    @staticmethod
    def checksum_of(sizes: Sequence[int]) -> int:
        """A CRC-32 of the sizes."""
        return zlib.crc32(struct.pack(f"<{len(sizes)}q", *sizes))

    @staticmethod
    def length(ranks: int) -> int:
        """Bytes of a header in a group of that many ranks: gloo has to know before it receives one."""
        return _FIXED.size + 16 * ranks

    def pack(self, ranks: int) -> bytes:
        """Encode the header in length(ranks) bytes."""
        texts = (text.encode()[:63] for text in (self.title, self.kind, self.dtype, self.reduce_op, self.where))
        varied = len(self.puts)
        numbers = self.number, self.size_bytes, self.root, self.n_sizes, self.checksum, varied
        rest = (*self.puts, *self.gets) if varied else self.sizes[: 2 * ranks]
        rest = (*rest, *[0] * (2 * ranks - len(rest)))
        fixed = _FIXED.pack(*texts, *numbers, self.arrived_ns, self.takes_ns, self.empty)
        return fixed + struct.pack(f"<{2 * ranks}q", *rest)

    @classmethod
    def unpack(cls, data: bytes) -> Header:
        """Decode the header of another rank."""
        *texts, number, size_bytes, root, n_sizes, checksum, varied, came_ns, takes_ns, empty = _FIXED.unpack_from(data)
        title, kind, dtype, reduce_op, where = (text.rstrip(b"\0").decode(errors="replace") for text in texts)
        rest = struct.unpack_from(f"<{(len(data) - _FIXED.size) // 8}q", data, _FIXED.size)
        sizes, puts, gets = ((), rest[:varied], rest[varied : 2 * varied]) if varied else (rest[:n_sizes], (), ())
        return cls(
            title, kind, dtype, reduce_op, where, number, size_bytes, root, sizes, n_sizes, checksum, puts, gets,
            came_ns, takes_ns, bool(empty),
        )  # fmt: skip

    @property
    def _agreed(self) -> tuple[object, ...]:
        return self.kind, self.dtype, self.reduce_op, self.root, self.n_sizes, self.checksum, len(self.puts)


def disagreement(headers: Sequence[Header], ranks: Sequence[int]) -> str:
    """Why these headers do not make one collective; "" where they do.

    headers: of each rank of the group.  ranks: of the group, in the whole job.
    """
    if different := _different_clocks(headers, ranks):
        return different
    if len({header._agreed for header in headers}) > 1:
        return f"collectives do not match: {_describe_all(headers, ranks)}"
    for i, giver in enumerate(headers):
        for j, taker in enumerate(headers):
            if giver.puts and giver.puts[j] != taker.gets[i]:
                turn = f", each its {nth(giver.number)} collective" if giver.number == taker.number else ""
                return (
                    f"collectives do not match: in {giver.title} rank {ranks[i]} has {giver.puts[j]} elements for "
                    f"rank {ranks[j]}{_at(giver)}, which expects {taker.gets[i]}{_at(taker)}{turn}"
                )
    return ""


def message_disagreement(sent: Header, received: Header, sender: int, receiver: int) -> str:
    """Why a message does not fit; "" where it does.  sender, receiver: in the whole job."""
    if different := _different_clocks((sent, received), (sender, receiver)):
        return different
    if (sent.dtype, sent.n_sizes, sent.checksum) == (received.dtype, received.n_sizes, received.checksum):
        return ""
    return (
        f"messages do not match: rank {sender} is in send{_size(sent)} to rank {receiver}{_at(sent)}, "
        f"rank {receiver} is in recv{_size(received)} from rank {sender}{_at(received)}"
    )


def _different_clocks(headers: Sequence[Header], ranks: Sequence[int]) -> str:
    virtual = [rank for rank, header in zip(ranks, headers, strict=True) if header.arrived_ns]
    if len(virtual) in (0, len(ranks)):
        return ""
    real = [rank for rank in ranks if rank not in virtual]
    return f"{CLOCKS_DIFFER}that of {describe_ranks(virtual)} is virtual, that of {describe_ranks(real)} is real"


def _describe_all(headers: Sequence[Header], ranks: Sequence[int]) -> str:
    def differ(key: Callable[[Header], object]) -> bool:
        return len({key(header) for header in headers}) > 1

    if differ(lambda h: h.kind):
        details: Callable[[Header], object] = lambda _: ""  # noqa: E731
    else:
        has_sizes = differ(lambda h: (h.dtype, h.size_bytes, h.n_sizes, h.checksum))
        has_tensors = not differ(lambda h: (h.dtype, h.size_bytes)) and has_sizes
        has_op, has_root = differ(lambda h: h.reduce_op), differ(lambda h: h.root)

        def details(header: Header) -> str:
            differing = _size(header) if has_sizes else ""
            differing += f" in tensors of {_sizes(header)} elements" if has_tensors else ""
            differing += f" with {header.reduce_op}" if has_op else ""
            way = "to" if header.title in _TO_ROOT else "from"
            return differing + (f" {way} rank {ranks[header.root]}" if has_root else "")

    same_turn = not differ(lambda h: h.number)
    by_call: dict[str, list[int]] = {}
    for rank, header in zip(ranks, headers, strict=True):
        turn = "" if same_turn else f", its {nth(header.number)} collective"
        by_call.setdefault(f"in {header.title}{details(header)}{_at(header)}{turn}", []).append(rank)
    who = ", ".join(
        f"{describe_ranks(callers)} {'is' if len(callers) == 1 else 'are'} {call}" for call, callers in by_call.items()
    )
    return who + (f", each its {nth(headers[0].number)} collective" if same_turn else "")


def _size(header: Header) -> str:
    return f" of {header.size_bytes} bytes of {header.dtype}"


def _sizes(header: Header) -> str:
    more = ["…"] if header.n_sizes > len(header.sizes) else []
    return ", ".join([*map(str, header.sizes), *more])


def _at(header: Header) -> str:
    return f" ({header.where})" if header.where else ""


MOST_TAG = 2**29 - 1  # gloo's are below 2**31, and a message takes three of four
_COLLECTIVE_TAG = 3  # the fourth
_ROUNDS = 3  # to find out what the exchange takes where no rank is waited for


class Came(NamedTuple):
    """When a rank came, by its virtual clock, 0 on the real one; and how long its link is then busy.

    empty: whether a tensor of it has no value.
    """

    arrived_ns: int = 0
    takes_ns: int = 0
    empty: bool = False


class Agreed(NamedTuple):
    """What ranks know once all are there.

    spent_ns: what the exchange took without waiting for other ranks.
    leave_ns: when all leave, by virtual clocks: the latest arrival and the longest time.  takes_ns: that time: the
    slowest link holds up all.
    empty: whether on some rank a tensor has no value, so that nothing can be moved.
    """

    spent_ns: int
    leave_ns: int
    takes_ns: int
    empty: bool = False


def _agreed(spent_ns: int, headers: Sequence[Header]) -> Agreed:
    last_ns = max(header.arrived_ns for header in headers)
    takes_ns, empty = max(header.takes_ns for header in headers), any(header.empty for header in headers)
    return Agreed(spent_ns, last_ns + takes_ns if last_ns else 0, takes_ns, empty)


@dataclass
class Collective:
    """Checks that all ranks of a group are in one collective.

    header: of this rank.  rank: in the group.  ranks: in the whole job.
    """

    header: Header
    rank: int
    ranks: tuple[int, ...]

    def __call__(self, gloo: Gloo, side: Side, came: Came) -> Agreed:
        """Return when all are in it. Raises CommunicationError where they are not in the same one."""
        n = len(self.ranks)
        header = replace(self.header, **came._asdict())
        if n == 1:
            return _agreed(0, [header])
        packed = _tensor(header.pack(n))
        headers = [packed if i == self.rank else torch.empty_like(packed) for i in range(n)]
        others = [i for i in range(n) if i != self.rank]

        def exchange() -> None:  # to each at once: gloo's own all_gather goes from rank to rank
            works = [side.group.recv([headers[i]], i, _COLLECTIVE_TAG) for i in others]
            works += [side.group.send([packed], i, _COLLECTIVE_TAG) for i in others]
            for work in works:
                work.wait()

        spent_ns = _timed(gloo, self.header.title, side, "", exchange, first="" not in side.costs_ns)
        received = [Header.unpack(each.numpy().tobytes()) for each in headers]
        gloo.refuse(disagreement(received, self.ranks))
        return _agreed(spent_ns, received)


@dataclass
class Message:
    """Checks that both ends of a message are there and fit.

    header: of this end.  rank, peer: in the group; peer None for a message from any rank, and its sender afterwards.
    ranks: in the whole job.  sends: which end this is.
    """

    header: Header
    rank: int
    peer: int | None
    ranks: tuple[int, ...]
    tag: int
    sends: bool

    @property
    def payload_tag(self) -> int:
        return 4 * self.tag

    def __call__(self, gloo: Gloo, side: Side, came: Came) -> Agreed:
        """Return when both are there. Raises CommunicationError where what is sent is not what is expected."""
        n = len(self.ranks)
        header = replace(self.header, **came._asdict())
        theirs = torch.empty(Header.length(n), dtype=torch.uint8)
        if self.sends:
            assert self.peer is not None
            first = f"to {self.peer}" not in side.costs_ns
            packed = _tensor(replace(header, number=int(first)).pack(n))  # the receiver has to know of the rounds
            there_and_back = partial(self._there_and_back, side.group, packed, theirs)
            spent_ns = _timed(gloo, self.header.title, side, f"to {self.peer}", there_and_back, first=first)
        else:
            packed = _tensor(header.pack(n))
            spent_ns = self._answered(gloo, side, packed, theirs)
        other = Header.unpack(theirs.numpy().tobytes())
        here, there = self.ranks[self.rank], self.ranks[self.peer or 0]
        if self.sends:
            gloo.refuse(message_disagreement(header, other, here, there))
        else:
            gloo.refuse(message_disagreement(other, header, there, here))
        return _agreed(spent_ns, (header, other))

    def _there_and_back(self, group: Any, packed: torch.Tensor, theirs: torch.Tensor) -> None:
        group.send([packed], self.peer, self.payload_tag + 1).wait()
        group.recv([theirs], self.peer, self.payload_tag + 2).wait()

    def _answered(self, gloo: Gloo, side: Side, packed: torch.Tensor, theirs: torch.Tensor) -> int:
        def first_of_them() -> None:
            if self.peer is not None:
                side.group.recv([theirs], self.peer, self.payload_tag + 1).wait()
                return
            work = side.group.recv_anysource([theirs], self.payload_tag + 1)
            work.wait()
            self.peer = int(work._source_rank())

        def back_and_there() -> None:
            side.group.send([packed], self.peer, self.payload_tag + 2).wait()

        gloo.run(self.header.title, first_of_them)
        begin_ns = time.perf_counter_ns()
        gloo.run(self.header.title, back_and_there)
        if Header.unpack(theirs.numpy().tobytes()).number:
            again = torch.empty_like(theirs)
            for _ in range(_ROUNDS):
                gloo.run(self.header.title, side.group.recv([again], self.peer, self.payload_tag + 1).wait)
                gloo.run(self.header.title, back_and_there)
        return time.perf_counter_ns() - begin_ns


Check = Callable[[Gloo, Side, Came], Agreed]


def _timed(gloo: Gloo, what: str, side: Side, key: str, exchange: Callable[[], None], *, first: bool) -> int:
    """Exchange, and return the nanoseconds without waiting: the least of all times so far.

    first: exchange some times more, now that every rank is there, to learn that time.
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
