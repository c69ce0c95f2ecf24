"""The rows of a file chunk by chunk, numbered against books of names; brought together where several took them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from decimal import Decimal
from typing import Any

import numpy as np

from perfmagic.trace.columns import NONE, Bool, Float64, Int64

Columns = dict[str, Any]
OPS, CALLS, HOST_OPS, WAITS, COUNTERS, FRAMES, MEMORY, HOST_WAITS = range(1, 9)  # which table an event goes to; 0: none
TABLES = (OPS, CALLS, HOST_OPS, WAITS, COUNTERS, FRAMES, MEMORY, HOST_WAITS)
SPAN_TABLES = (OPS, CALLS, HOST_OPS, WAITS, FRAMES, HOST_WAITS)  # of records that take time
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


@dataclass(frozen=True)
class PairEnd:
    """A begin event (B) or an end event (E).

    place: its process and thread.  row: of the times, of a beginning that some table took.
    """

    start_ns: int
    place: tuple[Any, Any]
    begins: bool
    row: int = -1


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
        for book, merged, known, of_all in zip(
            entries[id(source)], numbers[id(source)], part.known, whole.books, strict=True
        ):
            merged.extend(map(of_all.__getitem__, book[len(merged) : known]))
    renumbered = {key: [np.array([*merged, NONE], np.int32) for merged in books] for key, books in numbers.items()}
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


# Times of events as exact int64 nanoseconds.

DAY_NS = 86_400 * 10**9  # no trace is longer: times further away are damage
# Below 2^43 µs neighbouring doubles are less than 1 ns apart; above, only the digits of the file are exact.
EXACT_BELOW_US = 2.0**43
_FEW = 1000
# below it, a double times 1000 is off by less than a quarter: two roundings of 2^-53 of 2^50 ns
_EXACT_PRODUCT_US = 2.0**50 / 1000
_LIMIT_US = 9e15  # int64 nanoseconds end at 9.2e15 µs
LIMIT_NS = 9 * 10**18


def to_ns(values_us: Sequence[float | Decimal] | Float64) -> tuple[Int64, Bool]:
    """Microseconds as whole nanoseconds, and which of them are numbers; what int64 cannot hold becomes LIMIT_NS.

    Doubles stay exact to the nanosecond below 2^43 µs; decimals are exact always.
    """
    approximate = np.array(values_us, np.float64)
    valid = ~np.isnan(approximate)
    if not valid.all():
        approximate[~valid] = 0.0
    if np.abs(approximate).max(initial=0.0) < _EXACT_PRODUCT_US:
        product: Int64 = np.rint(approximate * 1000).astype(np.int64)
        return product, valid
    approximate = np.clip(approximate, -_LIMIT_US, _LIMIT_US)
    # whole and fraction scaled apart
    whole = np.floor(approximate)
    ns: Int64 = whole.astype(np.int64) * 1000
    if (whole != approximate).any():
        ns += np.rint((approximate - whole) * 1000).astype(np.int64)
    if isinstance(values_us, np.ndarray):
        return ns, valid
    large = (np.abs(approximate) >= EXACT_BELOW_US) & (np.abs(approximate) < _LIMIT_US)
    for row in np.flatnonzero(large).tolist():
        value = values_us[row]
        if isinstance(value, Decimal):
            ns[row] = int((value * 1000).to_integral_value())
    return ns, valid


def digits_matter(values_us: Float64) -> bool:
    """Whether doubles may have lost nanoseconds: large ones with a fraction. Of few, none may have one by chance."""
    large = values_us[np.abs(values_us) >= EXACT_BELOW_US]  # not true of NaN
    return bool(len(large) and (len(large) < _FEW or (large != np.floor(large)).any()))


# What ran around an instant.

_DEEPEST = 64  # rows inside each other that are looked through


def around(host_ops: Columns, rows: Int64, thread: Int64, at_ns: Int64) -> Int64:
    """The innermost of some rows that runs on each thread at each instant, NONE where none does; shape of at_ns."""
    innermost = np.full(len(at_ns), NONE, np.int64)
    for thread_number in np.unique(thread).tolist():
        selected = rows[host_ops["thread"][rows] == thread_number]
        selected = selected[np.argsort(host_ops["start_ns"][selected], kind="stable")]
        asked = np.flatnonzero(thread == thread_number)
        last = np.searchsorted(host_ops["start_ns"][selected], at_ns[asked], side="right") - 1
        for _ in range(_DEEPEST):  # one that has ended may lie in one that has not
            open_: Bool = last >= 0
            row = selected[np.maximum(last, 0)] if len(selected) else np.zeros(len(last), np.int64)
            runs = open_ & (host_ops["end_ns"][row] > at_ns[asked]) if len(selected) else open_
            innermost[asked[runs]] = row[runs]
            asked, last = asked[open_ & ~runs], last[open_ & ~runs] - 1
            if not len(asked):
                break
    return innermost
