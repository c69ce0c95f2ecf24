"""The rows of a file: gathered chunk by chunk, then joined to whole columns with exact times.

Where several processes took chunks, their rows are brought together. Impossible values are dropped.
"""

from __future__ import annotations

import mmap
from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from decimal import Decimal
from itertools import chain
from typing import Any

import numpy as np

from perfmagic.base.language import counted
from perfmagic.base.units import size
from perfmagic.trace.columns import MOST_BYTES, NONE, Bool, Float64, Int64, Remark, UsedUp, constant

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

    def __getstate__(self) -> dict[str, Any]:
        """Pickled, too, a value for all rows is there once."""
        packed = {table: {name: _packed(a) for name, a in columns.items()} for table, columns in self.columns.items()}
        return vars(self) | {"columns": packed}

    def __setstate__(self, state: dict[str, Any]) -> None:
        vars(self).update(state)
        for columns in self.columns.values():
            columns.update({name: np.broadcast_to(*a) for name, a in columns.items() if isinstance(a, tuple)})


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


def _packed(column: Any) -> Any:
    return column if any(column.strides) else (column[0], column.shape)


_WORD = 8  # bytes that columns are aligned to


def slim(columns: Columns) -> Columns:
    """The same numbers in less memory: columns with one value hold it once, others take four bytes where they can."""
    return _beside_the_heap({name: _slim(column) for name, column in columns.items()})


def _beside_the_heap(columns: Columns) -> Columns:
    """The same columns in memory that goes back to the system as a whole.

    In the heap, what is small and stays would lie between the columns of two chunks: where these were, nothing large
    would fit.
    """
    sizes = {name: -(-column.nbytes // _WORD) * _WORD for name, column in columns.items() if any(column.strides)}
    if not sizes:
        return columns
    memory, at, moved = mmap.mmap(-1, sum(sizes.values())), 0, dict(columns)
    for name, size_bytes in sizes.items():
        moved[name] = np.frombuffer(memory, columns[name].dtype, len(columns[name]), at)
        moved[name][:] = columns[name]
        at += size_bytes
    return moved


def _slim(column: Any) -> Any:
    if column.dtype == np.float64:
        return column
    least, most = column.min(), column.max()
    if least == most:
        return np.broadcast_to(least, len(column))
    fits = column.dtype == np.int64 and least >= -(2**31) and most < 2**31
    return column.astype(np.int32) if fits else column


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
                columns[name] = _slim(renumbered[id(source)][book_of][columns[name]])  # NONE is -1, the last one
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
    approximate = np.asarray(values_us, np.float64)
    valid, most_us = np.ones(len(approximate), bool), np.abs(approximate).max(initial=0.0)
    if np.isnan(most_us):
        valid = ~np.isnan(approximate)
        approximate = np.where(valid, approximate, 0.0)
        most_us = np.abs(approximate).max(initial=0.0)
    if most_us < _EXACT_PRODUCT_US:
        return np.rint(approximate * 1000).astype(np.int64), valid
    if most_us < _LIMIT_US and isinstance(values_us, np.ndarray):
        ns: Int64 = approximate.astype(np.int64)
        if (ns == approximate).all():
            return ns * 1000, valid
    approximate = np.clip(approximate, -_LIMIT_US, _LIMIT_US)
    # whole and fraction scaled apart
    whole = np.floor(approximate)
    ns = whole.astype(np.int64) * 1000
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
    if np.abs(values_us).max(initial=0.0) < EXACT_BELOW_US:
        return False
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


# The times of a file's events as exact int64 nanoseconds; impossible times are repaired.


@dataclass
class Times:
    """When some records began and how long they took, in the file's own clock; repaired in place.

    has_start, has_dur: the file says so.  spans: records that take time.  usable: it has a place in time.
    repaired: its duration is not the file's.
    """

    start_ns: Int64
    dur_ns: Int64
    has_start: Bool
    has_dur: Bool
    spans: Bool
    usable: Bool
    repaired: Bool

    @property
    def end_ns(self) -> Int64:
        return self.start_ns + self.dur_ns


def repair_times(times: Times, pairs: Sequence[PairEnd], repairs: list[Remark]) -> None:
    """Leave out records without a time, end begun events, cut impossible durations; adds to repairs what was repaired.

    pairs: begin and end events in the order of the file.
    """
    times.usable &= times.has_start & _near_the_others(times.start_ns, times.has_start)
    lost = int((~times.usable).sum())
    if lost:
        words = counted(
            lost,
            "{n} record without a time, or a day away from all others, left out",
            "{n} records without a time, or a day away from all others, left out",
        )
        repairs.append(Remark("no_time", words, {"n_records": lost}))
    _close_pairs(pairs, times, repairs)
    _repair_durations(times, repairs)


def _near_the_others(start_ns: Int64, judged: Bool) -> Bool:
    if not judged.any():
        return judged
    known = start_ns[judged]
    if int(known.max()) - int(known.min()) < DAY_NS // 2:
        return judged
    time_ns = start_ns.astype(np.float64)  # int64 could overflow in the difference
    near: Bool = np.abs(time_ns - np.median(time_ns[judged])) < DAY_NS
    return near


def _close_pairs(pairs: Sequence[PairEnd], times: Times, repairs: list[Remark]) -> None:
    """Give each begin event its duration. End events have no name: the last begun event ends first."""
    open_events: dict[tuple[Any, Any], list[PairEnd]] = defaultdict(list)
    unmatched = 0
    for event in sorted(pairs, key=lambda event: event.start_ns):
        begun = open_events[event.place]
        if event.begins:
            begun.append(event)
        elif begun:
            first = begun.pop()
            if first.row >= 0:
                times.dur_ns[first.row], times.has_dur[first.row] = event.start_ns - first.start_ns, True
        else:
            unmatched += 1
    rows = [event.row for begun in open_events.values() for event in begun if event.row >= 0]
    left_open = [row for row in rows if times.usable[row]]
    if left_open:
        last_ns = int(times.start_ns[times.usable].max())
        times.dur_ns[left_open], times.has_dur[left_open] = last_ns - times.start_ns[left_open], True
        times.repaired[left_open] = True
        words = counted(
            len(left_open),
            "{n} begun event without an end, ended with the last record",
            "{n} begun events without an end, ended with the last record",
        )
        repairs.append(Remark("no_end", words, {"n_events": len(left_open)}))
    if unmatched:
        words = counted(
            unmatched,
            "{n} end event without a beginning, left out",
            "{n} end events without a beginning, left out",
        )
        repairs.append(Remark("no_beginning", words, {"n_events": unmatched}))


def _repair_durations(times: Times, repairs: list[Remark]) -> None:
    spans, start_ns, dur_ns = times.usable & times.spans, times.start_ns, times.dur_ns
    without, negative, endless = spans & ~times.has_dur, spans & (dur_ns < 0), spans & (dur_ns > DAY_NS)
    times.repaired |= without | negative | endless
    if n := _set_zero(without, dur_ns):
        words = counted(n, "{n} record without a duration, set to 0", "{n} records without a duration, set to 0")
        repairs.append(Remark("no_duration", words, {"n_records": n}))
    if n := _set_zero(negative & ~without, dur_ns):
        words = counted(
            n, "{n} record with a negative duration, set to 0", "{n} records with a negative duration, set to 0"
        )
        repairs.append(Remark("negative_duration", words, {"n_records": n}))
    endless &= ~without
    dur_ns[~spans] = 0
    if endless.any():
        sane = spans & ~endless
        last_ns = int(max((start_ns + dur_ns)[sane].max(initial=start_ns[endless].max()), start_ns[endless].max()))
        dur_ns[endless] = last_ns - start_ns[endless]
        n = int(endless.sum())
        words = counted(
            n,
            "{n} duration of more than a day, cut at the end of the records",
            "{n} durations of more than a day, cut at the end of the records",
        )
        repairs.append(Remark("endless_duration", words, {"n_records": n}))


def _set_zero(rows: Bool, dur_ns: Int64) -> int:
    """How many it set to 0."""
    dur_ns[rows] = 0
    return int(rows.sum())


MOST_DEVICES = 2**31 - 1
_TIMES = ("start_ns", "dur_ns", "has_start", "has_dur")
_NO_TIMES = {name: np.zeros(0, bool if name.startswith("has") else np.int64) for name in _TIMES}


@dataclass(frozen=True, eq=False)
class Finished:
    """The columns of each table of a file; only rows that have a time.

    columns: by table; times as start_ns and end_ns, in the file's clock.  repaired: by table, which rows have a
    duration that is not the file's.  first_ns: the first instant of all.
    """

    columns: dict[int, Columns]
    repaired: dict[int, Bool]
    first_ns: int


def finished(gathered: Gathered, repairs: list[Remark]) -> Finished:
    """The columns of all chunks, which are emptied. Adds to repairs what was repaired."""
    begin_or_end = list(_paired(gathered.parts))
    joined = {table: _joined(gathered.parts, table) for table in TABLES}
    if not begin_or_end and _is_sound(joined):
        columns = {table: _timed(joined[table], table) for table in TABLES}
        _drop_impossible(columns, gathered.impossible, repairs)
        intact = {table: np.zeros(len(columns[table]["start_ns"]), bool) for table in TABLES}
        starts_ns = (times["start_ns"].min() for times in columns.values() if len(times["start_ns"]))
        return Finished(columns, intact, int(min(starts_ns)))
    times_of = [[joined[table].pop(name, _NO_TIMES[name]) for table in TABLES] for name in _TIMES]
    sizes = [len(start_ns) for start_ns in times_of[0]]
    times = _times(times_of, sizes)
    first = dict(zip(TABLES, np.cumsum([0, *sizes]).tolist(), strict=False))
    pairs = [replace(pair, row=first[table] + row) if table else pair for pair, table, row in begin_or_end]
    repair_times(times, pairs, repairs)
    _drop_impossible(joined, gathered.impossible, repairs)
    end_ns = times.end_ns
    columns, repaired = {}, {}
    for table, n_rows in zip(TABLES, sizes, strict=True):
        rows = slice(first[table], first[table] + n_rows)
        kept = times.usable[rows]
        repaired[table] = times.repaired[rows][kept]
        whole = {"start_ns": times.start_ns[rows], "end_ns": end_ns[rows], **joined[table]}
        columns[table] = whole if kept.all() else {name: column[kept] for name, column in whole.items()}
    return Finished(columns, repaired, int(times.start_ns[times.usable].min(initial=np.iinfo(np.int64).max)))


def _is_sound(joined: dict[int, Columns]) -> bool:
    """Whether there are times, and none needs a repair: then no table waits for the others."""
    least_ns, most_ns = [], []
    for table, columns in joined.items():
        if not columns:
            continue
        dur_ns = columns["dur_ns"]
        sane = table not in SPAN_TABLES or (columns["has_dur"].all() and dur_ns.min() >= 0 and dur_ns.max() <= DAY_NS)
        if not sane or not columns["has_start"].all():
            return False
        least_ns.append(int(columns["start_ns"].min()))
        most_ns.append(int(columns["start_ns"].max()))
    return bool(least_ns) and max(most_ns) - min(least_ns) < DAY_NS // 2


def _timed(columns: Columns, table: int) -> Columns:
    """The columns of a sound table with its ends, in place of durations."""
    start_ns, dur_ns, *_ = (columns.pop(name, _NO_TIMES[name]) for name in _TIMES)
    start_ns = start_ns.astype(np.int64)
    end_ns = start_ns + dur_ns if table in SPAN_TABLES and len(dur_ns) else start_ns.copy()
    return UsedUp({"start_ns": start_ns, "end_ns": end_ns, **columns})


def _times(times_of: list[list[Any]], sizes: list[int]) -> Times:
    """The times of all rows, table by table."""
    start_ns, dur_ns, has_start, has_dur = map(np.concatenate, times_of)
    spans = np.repeat([table in SPAN_TABLES for table in TABLES], sizes)
    everything, none = np.ones(len(start_ns), bool), np.zeros(len(start_ns), bool)
    return Times(start_ns, dur_ns, has_start, has_dur, spans, usable=everything, repaired=none)


def _paired(parts: list[Part]) -> Iterator[tuple[PairEnd, int, int]]:
    """Begin and end events, by the table of the beginning and its row there."""
    before = dict.fromkeys(TABLES, 0)
    for part in parts:
        for pair, table, row in part.pairs:
            yield pair, table, row + (before[table] if table else 0)
        for table in TABLES:
            before[table] += part.rows(table)


def _drop_impossible(tables: dict[int, Columns], lost: int, repairs: list[Remark]) -> None:
    """Replace impossible sizes and device numbers by NONE, and report them. lost: counter values dropped before."""
    if "size_bytes" in tables[OPS]:
        sizes = tables[OPS]["size_bytes"]
        impossible = (sizes != NONE) & ((sizes < 0) | (sizes > MOST_BYTES))
        if impossible.any():
            tables[OPS]["size_bytes"] = np.where(impossible, NONE, sizes)
        lost += int(impossible.sum())
    if lost:
        words = counted(
            lost,
            "{n} size or count beyond {most}, left out",
            "{n} sizes or counts beyond {most}, left out",
            most=size(MOST_BYTES),
        )
        repairs.append(Remark("impossible_size", words, {"n": lost}))
    far = 0
    for table, name in (
        (OPS, "device"),
        (WAITS, "device"),
        (WAITS, "on_device"),
        (COUNTERS, "device"),
        (HOST_WAITS, "device"),
    ):
        if name in tables[table]:
            devices = tables[table][name]
            impossible = (devices < NONE) | (devices > MOST_DEVICES)
            if impossible.any():
                tables[table][name] = np.where(impossible, NONE, devices)
            far += int(impossible.sum())
    if far:
        words = counted(
            far,
            "{n} device number beyond {most}, read as {none}",
            "{n} device numbers beyond {most}, read as {none}",
            most=MOST_DEVICES,
            none=NONE,
        )
        repairs.append(Remark("impossible_device", words, {"n": far}))


def _joined(parts: list[Part], table: int) -> Columns:
    """The columns of all parts, which are emptied; NONE where a part lacks a column that another has."""
    pieces = [part.columns.pop(table) for part in parts if table in part.columns]
    lacking = [np.broadcast_to(np.int64(NONE), len(columns["start_ns"])) for columns in pieces]
    names = dict.fromkeys(chain.from_iterable(pieces))
    return {name: _whole([each.pop(name, none) for each, none in zip(pieces, lacking, strict=True)]) for name in names}


def _whole(pieces: list[Any]) -> Any:
    """The pieces of a column in one; one value in all rows is held once."""
    n = sum(map(len, pieces))
    if not any(any(piece.strides) for piece in pieces) and len({piece[0].item() for piece in pieces}) == 1:
        return constant(n, pieces[0][0], np.result_type(*pieces))
    return np.concatenate(pieces)


# From the device ops of a backward to the operators of their forward, by the numbers that autograd gives its nodes.
