"""Where a rank stands: the line of the cell, the operation between ranks that it waits in, its device."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from perfmagic.capture.rank_words import ranks_words, span_words

__all__ = ["NOWHERE", "RECEIVES", "SENDS", "Place", "ranks_words", "span_words"]

SENDS, RECEIVES = ("send", "isend"), ("recv", "irecv")


@dataclass(frozen=True)
class Place:
    """One rank at one instant.

    line: of the cell, 0 outside of it.  call: the operation that it waits in ("all_reduce"), "" where it computes.
    asked_line: where that operation was called, where that is another line; 0 where nobody knows.
    group, ranks: of the operation; ranks empty where only the call is known.  number: of the operations of that group,
    None where unknown.  peer: of a message.  size_bytes: what is moved.
    on_device: the simulated device runs it.
    device_busy: its device has work queued, or executes it.
    mark: changes whenever the rank gets on: equal marks are one wait.
    """

    line: int = 0
    call: str = ""
    asked_line: int = 0
    group: str = ""
    ranks: tuple[int, ...] = ()
    number: int | None = None
    peer: int | None = None
    size_bytes: int | None = None
    on_device: bool = False
    device_busy: bool = False
    mark: int = 0

    @classmethod
    def of(cls, message: dict[str, Any]) -> Place:
        """A place as it came over a wire."""
        return cls(**message | {"ranks": tuple(message.get("ranks", ()))})

    @property
    def words(self) -> str:
        """`waits in all_reduce on line 3`, `computes on line 2`."""
        line = f" on line {self.line}" if self.line else ""
        if not self.call:
            return f"computes{line}"
        peer = "" if self.peer is None else f" {'from' if self.call in RECEIVES else 'to'} rank {self.peer}"
        asked = f" (called on line {self.asked_line})" if self.asked_line not in (0, self.line) else ""
        return f"waits in {self.call}{peer}{line}{asked}"


NOWHERE = Place()
