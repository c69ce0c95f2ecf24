"""Operations on host tensors while somebody records: the host has no device log they could stand in."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable

from perfmagic.capture.devices.groups.standing import Asked, Took
from perfmagic.trace.collective_names import GIVEN_UP

FIRST_GROUP = "0"  # as torch calls the group that init_process_group() makes

_open: list[HostLog] = []


class HostLog:
    """What was communicated from take() to give_back(), as a resource (perfmagic.capture.owner)."""

    def __init__(self) -> None:
        self._rows: list[Took] = []

    def take(self) -> None:
        _open.append(self)

    def give_back(self) -> None:
        if self in _open:
            _open.remove(self)

    def read(self) -> list[Took]:
        """What is over by now, in the order it was asked for."""
        return sorted(self._rows, key=lambda took: took.start_ns)

    def rows(self, offset_ns: int) -> list[tuple[str, int, int, int]]:
        """As rows of a record: name, start, end and thread.  offset_ns: from perf_counter to the record's clock."""
        return [(self.row_name(t), t.start_ns + offset_ns, t.end_ns + offset_ns, t.thread) for t in self.read()]

    @staticmethod
    def row_name(took: Took) -> str:
        """What a record calls it; a collective of another group than that of all ranks with the group and its ranks.

        One that was given up says so.
        """
        name, end = f"gloo:{took.title}", GIVEN_UP if took.given_up else ""
        if took.peer is not None or took.group in ("", FIRST_GROUP):
            return name + end
        return f"{name} in group {took.group} of ranks {', '.join(map(str, took.ranks))}{end}"

    def add(self, took: Took) -> None:
        """One that is over, from any thread."""
        self._rows.append(took)


def noting(
    asked: Asked, group: str, ranks: tuple[int, ...], also: Callable[[int, int, str], None]
) -> Callable[[bool], None]:
    """What to call on its thread when an operation is over, with whether it was given up.

    also: called with start, end and name.
    """
    logs = list(_open)

    def note(given_up: bool) -> None:
        now_ns = time.perf_counter_ns()
        took = Took(
            group, ranks, *asked.what(ranks), asked.began_ns or now_ns, now_ns, threading.get_native_id(), given_up
        )
        for log in logs:
            log.add(took)
        also(took.start_ns, took.end_ns, HostLog.row_name(took))

    return note
