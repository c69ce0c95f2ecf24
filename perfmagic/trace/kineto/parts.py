"""The rows of a file chunk by chunk, numbered against books of names; brought together where several took them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from perfmagic.trace.columns import NONE
from perfmagic.trace.kineto.times import PairEnd

Columns = dict[str, Any]
OPS, CALLS, HOST_OPS, WAITS, COUNTERS, FRAMES, MEMORY, HOST_WAITS = range(1, 9)  # which table an event goes to; 0: none
TABLES = (OPS, CALLS, HOST_OPS, WAITS, COUNTERS, FRAMES, MEMORY, HOST_WAITS)
NAMES, SHAPES, INPUTS, COLLECTIVES, DTYPES, VALUES = BOOKS = range(6)  # which book a column's numbers are of
_BOOK_OF = (
    *((OPS, "name", NAMES), (CALLS, "name", NAMES), (HOST_OPS, "name", NAMES), (COUNTERS, "series", NAMES)),
    (FRAMES, "name", NAMES),
    *((OPS, "shape", SHAPES), (HOST_OPS, "shape", INPUTS), (OPS, "collective", COLLECTIVES)),
    *((HOST_OPS, "dtype", DTYPES), (HOST_OPS, "value", VALUES)),
)

LINKS = ("sequence", "forward_thread")  # columns of operators that no table keeps: a trace has what they lead to


class Codes(dict[Any, int]):
    """Numbers for values as they come."""

    def __missing__(self, key: Any) -> int:
        self[key] = number = len(self)
        return number


@dataclass
class Part:
    """The rows of one chunk.

    number: of the chunk in the file.  known: how many entries each book had after it.  pairs: begin and end events, by
    the table of the beginning and its row in this part; table 0 where none took it.
    """

    number: int
    known: tuple[int, ...] = ()
    columns: dict[int, Columns] = field(default_factory=dict)
    pairs: list[tuple[PairEnd, int, int]] = field(default_factory=list)

    def rows(self, table: int) -> int:
        """How many rows it has of a table."""
        return len(self.columns[table]["start_ns"]) if table in self.columns else 0


@dataclass
class Gathered:
    """What some of a file's chunks hold.

    seen: kinds of events, as long as no table took one.  books: what columns give the numbers of.  overheads,
    overhead_us: records of what the profiler itself did, and how long it took.  impossible: counts no memory has.
    """

    seen: Counter[str] = field(default_factory=Counter)
    books: tuple[Codes, ...] = field(default_factory=lambda: tuple(Codes() for _ in BOOKS))
    parts: list[Part] = field(default_factory=list)
    overheads: int = 0
    overhead_us: float = 0.0
    impossible: int = 0


def together(sources: Sequence[Gathered]) -> Gathered:
    """All chunks in the file's order, their entries numbered as if one had taken them all. Uses up the sources."""
    whole = Gathered()
    parts = sorted(((part, source) for source in sources for part in source.parts), key=lambda entry: entry[0].number)
    entries = {id(source): [list(book) for book in source.books] for source in sources}
    numbers: dict[int, list[list[int]]] = {id(source): [[] for _ in source.books] for source in sources}
    for part, source in parts:
        for book, mine, known, of_all in zip(
            entries[id(source)], numbers[id(source)], part.known, whole.books, strict=True
        ):
            mine.extend(map(of_all.__getitem__, book[len(mine) : known]))
    renumbered = {key: [np.array([*mine, NONE], np.int32) for mine in books] for key, books in numbers.items()}
    for part, source in parts:
        for table, name, book_of in _BOOK_OF:
            if table in part.columns:
                columns = part.columns[table]
                columns[name] = renumbered[id(source)][book_of][columns[name]]  # NONE is -1, the last one
    whole.parts = [part for part, _ in parts]
    for source in sources:
        whole.seen += source.seen
        whole.overheads += source.overheads
        whole.overhead_us += source.overhead_us
        whole.impossible += source.impossible
    return whole
