"""What a rank says of an operation before it begins, and what of it the ranks have to agree on.

gloo ends the process where more arrives than a buffer holds, and takes wrong numbers for right ones where it fits.
"""

from __future__ import annotations

import struct
import zlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from perfmagic.capture.rank_words import nth, ranks_words

_FIXED = struct.Struct("<28s28s20s12s64s6q")
_TO_ROOT = ("reduce", "gather")


@dataclass(frozen=True)
class Header:
    """One operation of one rank.

    title: in words ("all_reduce").  kind: what gloo is asked for; ranks with one kind may have other titles.
    dtype: "" for nothing.  reduce_op: "" where nothing is reduced.  where: the user's line in words, "" if unknown.
    number: of the group's collectives, from 1.  size_bytes: of one rank's whole buffer.  root: its rank in the group,
    -1 for none.  sizes: elements of each tensor that all ranks have alike; of those of another rank as many as fit.
    checksum: of all of them.  puts, gets: elements for and from each rank, where ranks may differ in that.
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

    @staticmethod
    def checksum_of(sizes: Sequence[int]) -> int:
        """Equal for equal sizes only, as far as 32 bits go."""
        return zlib.crc32(struct.pack(f"<{len(sizes)}q", *sizes))

    @staticmethod
    def length(ranks: int) -> int:
        """Bytes of a header in a group of so many ranks: gloo has to know before it receives one."""
        return _FIXED.size + 16 * ranks

    def pack(self, ranks: int) -> bytes:
        """As length(ranks) bytes."""
        texts = (text.encode()[:63] for text in (self.title, self.kind, self.dtype, self.reduce_op, self.where))
        varied = len(self.puts)
        numbers = self.number, self.size_bytes, self.root, self.n_sizes, self.checksum, varied
        rest = (*self.puts, *self.gets) if varied else self.sizes[: 2 * ranks]
        rest = (*rest, *[0] * (2 * ranks - len(rest)))
        return _FIXED.pack(*texts, *numbers) + struct.pack(f"<{2 * ranks}q", *rest)

    @classmethod
    def unpack(cls, data: bytes) -> Header:
        """What another rank packed."""
        *texts, number, size_bytes, root, n_sizes, checksum, varied = _FIXED.unpack_from(data)
        words = [text.rstrip(b"\0").decode(errors="replace") for text in texts]
        rest = struct.unpack_from(f"<{(len(data) - _FIXED.size) // 8}q", data, _FIXED.size)
        sizes, puts, gets = ((), rest[:varied], rest[varied : 2 * varied]) if varied else (rest[:n_sizes], (), ())
        title, kind, dtype, reduce_op, where = words
        return cls(title, kind, dtype, reduce_op, where, number, size_bytes, root, sizes, n_sizes, checksum, puts, gets)

    @property
    def _agreed(self) -> tuple[object, ...]:
        return self.kind, self.dtype, self.reduce_op, self.root, self.n_sizes, self.checksum, len(self.puts)


def disagreement(headers: Sequence[Header], ranks: Sequence[int]) -> str:
    """Why these do not make one collective, in words; "" where they do.

    headers: of each rank of the group.  ranks: of the group, in the whole job.
    """
    if len({one._agreed for one in headers}) > 1:
        return f"collectives do not match: {_all_in_words(headers, ranks)}"
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
    """Why a message does not fit, in words; "" where it does.  sender, receiver: in the whole job."""
    if (sent.dtype, sent.n_sizes, sent.checksum) == (received.dtype, received.n_sizes, received.checksum):
        return ""
    return (
        f"messages do not match: rank {sender} is in send{_size(sent)} to rank {receiver}{_at(sent)}, "
        f"rank {receiver} is in recv{_size(received)} from rank {sender}{_at(received)}"
    )


def _all_in_words(headers: Sequence[Header], ranks: Sequence[int]) -> str:
    def differ(of: Callable[[Header], object]) -> bool:
        return len({of(one) for one in headers}) > 1

    if differ(lambda one: one.kind):
        details: Callable[[Header], object] = lambda _: ""  # noqa: E731
    else:
        has_sizes = differ(lambda one: (one.dtype, one.size_bytes, one.n_sizes, one.checksum))
        has_tensors = not differ(lambda one: (one.dtype, one.size_bytes)) and has_sizes
        has_op, has_root = differ(lambda one: one.reduce_op), differ(lambda one: one.root)

        def details(one: Header) -> str:
            words = _size(one) if has_sizes else ""
            words += f" in tensors of {_sizes(one)} elements" if has_tensors else ""
            words += f" with {one.reduce_op}" if has_op else ""
            way = "to" if one.title in _TO_ROOT else "from"
            return words + (f" {way} rank {ranks[one.root]}" if has_root else "")

    same_turn = not differ(lambda one: one.number)
    found: dict[str, list[int]] = {}
    for rank, one in zip(ranks, headers, strict=True):
        turn = "" if same_turn else f", its {nth(one.number)} collective"
        found.setdefault(f"in {one.title}{details(one)}{_at(one)}{turn}", []).append(rank)
    who = ", ".join(f"{ranks_words(some)} {'is' if len(some) == 1 else 'are'} {what}" for what, some in found.items())
    return who + (f", each its {nth(headers[0].number)} collective" if same_turn else "")


def _size(one: Header) -> str:
    return f" of {one.size_bytes} bytes of {one.dtype}"


def _sizes(one: Header) -> str:
    more = ["…"] if one.n_sizes > len(one.sizes) else []
    return ", ".join([*map(str, one.sizes), *more])


def _at(one: Header) -> str:
    return f" ({one.where})" if one.where else ""
