"""What a cell raised in several ranks, as one message: the same failure once, a line for each that followed."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from perfmagic.base.rank_words import describe_ranks, describe_span
from perfmagic.capture.ranks.hangs import NOWHERE, Place

# what gloo and the store say where another rank has gone
_LOST = re.compile(r"onnection closed by peer|onnection reset|roken pipe|was never computed|ocket closed|was given up")
_MISMATCH = re.compile(r"(?:collectives|messages) do not match: ")  # what our groups say to all who are in it
_ALIKE_CHARS = 80  # errors that agree in these are shown once
_HEAD_CHARS = 200  # of an error's text that fit in a line


@dataclass(frozen=True)
class Failure:
    """How a cell ended in one rank.

    type, text, line, traceback: of what was raised; line 0 where none of the cell's lines is in the traceback.
    freed: why the rank's operations were ended, "" where they were not.  place: where it stood then.
    interrupted: by the notebook.  died: how the process ended, "" where it lives.
    """

    rank: int
    type: str = ""
    text: str = ""
    line: int = 0
    traceback: str = ""
    freed: str = ""
    place: Place = NOWHERE
    interrupted: bool = False
    died: str = ""

    @classmethod
    def from_message(cls, rank: int, message: Mapping[str, Any]) -> Failure:
        """The failure that a rank has reported."""
        return cls(rank, **{**message, "place": Place.from_message(message.get("place", {}))})

    @property
    def follows(self) -> bool:
        """Whether it comes of another rank's end, and not of this one's own code."""
        if self.died or self.interrupted or is_mismatch(self.text):
            return False
        return bool(self.freed or _LOST.search(self.text))

    @property
    def description(self) -> str:
        """For the other ranks: `rank 1 failed on line 2 with ValueError`."""
        if self.died:
            return f"rank {self.rank} {self.died}"
        return f"rank {self.rank} failed{_on_line(self.line)} with {self.type}"


def is_mismatch(text: str) -> bool:
    """Whether an error says that ranks did not agree on an operation: each has failed with it, none was freed."""
    return _MISMATCH.match(text) is not None


def first_of(failures: Sequence[Failure]) -> Failure | None:
    """The failure that caused the others, None where it is not known."""
    own = [failure for failure in failures if not failure.follows]
    return min(own, key=lambda f: (not f.died, f.rank)) if own else None


def message_of(failures: Sequence[Failure], hang: str = "") -> str:
    """One message for all failures: each error with its traceback, then a line for each rank that was freed.

    hang: why no rank could go on, where that ended the cell.
    """
    parts = [f"rank {failure.rank} {failure.died}" for failure in failures if failure.died]
    groups: dict[tuple[str, int, str], list[Failure]] = {}
    for failure in failures:
        if not failure.died and not failure.follows and not failure.interrupted:
            # a mismatch names the lines of all ranks itself
            line = 0 if is_mismatch(failure.text) else failure.line
            groups.setdefault((failure.type, line, failure.text[:_ALIKE_CHARS]), []).append(failure)
    for (kind, line, _), same in groups.items():
        text = same[0].text.strip().split("\n")[0]
        text = text if is_mismatch(text) else text[:_HEAD_CHARS]
        who = describe_ranks([failure.rank for failure in same])
        head = f"{kind} on {who}{f', line {line}' if line else ''}" + (f": {text}" if text else "")
        parts.append("\n".join([head, same[0].traceback] if same[0].traceback else [head]))
    parts += _interrupted(failures)
    if hang:
        parts.append(hang)
    first = first_of(failures)
    parts += [_followed(failure, first, hang) for failure in failures if failure.follows]
    return "\n".join(parts)


def type_of(failures: Sequence[Failure], hang: str = "") -> str:
    """What the whole is called: the type that was raised, where it is one."""
    kinds = {failure.type for failure in failures if failure.type and not failure.follows and not failure.died}
    if any(failure.died for failure in failures):
        return "RankDied"
    if len(kinds) == 1:
        return kinds.pop()
    return "Deadlock" if hang and not kinds else "RanksFailed"


def _interrupted(failures: Sequence[Failure]) -> list[str]:
    groups: dict[str, list[Failure]] = {}
    for failure in failures:
        if failure.interrupted:
            place = failure.place
            waited = f" while it waited in {place.call}" if place.call else ""
            line = failure.line or place.line or place.asked_line
            groups.setdefault(f"{_on_line(line)}{waited}", []).append(failure)
    messages = []
    for where, same in groups.items():
        many = len(same) > 1
        place_text = where.replace("while it", "while they") if many else where
        messages.append(f"{describe_ranks([f.rank for f in same])} {'were' if many else 'was'} interrupted{place_text}")
    return messages


def _followed(failure: Failure, first: Failure | None, hang: str) -> str:
    place = failure.place
    line = place.line or place.asked_line or failure.line
    # in a hang, a lost connection led to a rank that was freed a moment earlier
    if failure.freed or (hang and first is None):
        peer = "" if place.peer is None else f" with rank {place.peer}"
        waited = f" while it waited in {place.call}{peer}" if place.call else ""
        why = "" if hang else f": {failure.freed}"
        return f"rank {failure.rank} was freed{_on_line(line)}{waited}{why}"
    why = f": {first.description}" if first else f": {failure.text.splitlines()[0][:_HEAD_CHARS]}"
    return f"rank {failure.rank} lost its connection{_on_line(line)}{why}"


def _on_line(line: int) -> str:
    return f" on line {line}" if line else ""


# What C++ prints in ranks: a warning that several of them give is shown once, and one that says nothing not at all.

# "[rank0]:[W1123 02:00:00.123456789 reducer.cpp:1234] Warning: words (function …)": c10's logging
_WARNING = re.compile(r"^(?:\[rank\d+\]:\s*)?\[W[\d .:]*\s(\S+:\d+)\]\s*(.*)$")
_SHOWN = 80  # characters of a warning that is named again
_NO_NEWS = (
    # DDP's C++ code says so of every device it does not know, once a process
    "Time stats are currently only collected for CPU and CUDA",
    # c10d says so of 127.0.0.1 where no name server answers, as without a network
    "The hostname of the client socket cannot be retrieved",
)


class Warned:
    """The lines of a session; end() ends a cell, and after it each warning is a new one.

    say: (rank, stream, lines), as a Peer calls it; called for what is to be shown now.
    """

    def __init__(self, say: Callable[[int, str, str], None]) -> None:
        self._say = say
        self._seen: dict[tuple[str, str], list[int]] = {}

    def __call__(self, rank: int, stream: str, lines: str) -> None:
        """Show lines, but no warning that another rank gave; time and process do not make it another one."""
        shown = [line for line in lines.split("\n") if self._is_new(rank, line)]
        if shown:
            self._say(rank, stream, "\n".join(shown))

    def _is_new(self, rank: int, line: str) -> bool:
        if any(text in line for text in _NO_NEWS):
            return False
        match = _WARNING.match(line)
        if match is None:
            return True
        ranks = self._seen.setdefault((match[1], match[2]), [])
        if rank not in ranks:
            ranks.append(rank)
        return ranks == [rank]

    def end(self, tell: Callable[[str], None]) -> None:
        """Say who else gave the warnings that were shown."""
        for (where, text), (first, *others) in self._seen.items():
            if others:
                shown = text if len(text) <= _SHOWN else text[: _SHOWN - 1] + "…"
                tell(f"[{describe_span(sorted(others))}] the same as rank {first}, {where}: {shown}")
        self._seen.clear()
