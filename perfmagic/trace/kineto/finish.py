"""Joins the chunks of a file to whole columns with exact times, and drops impossible values."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import chain
from typing import Any

import numpy as np

from perfmagic.base.language import counted
from perfmagic.base.units import size
from perfmagic.trace.columns import MOST_BYTES, NONE, Bool, Int64, Remark, forward_rows
from perfmagic.trace.kineto.gathered import (
    COUNTERS,
    DAY_NS,
    HOST_WAITS,
    OPS,
    SPAN_TABLES,
    TABLES,
    WAITS,
    Columns,
    Gathered,
    PairEnd,
    Part,
    around,
)
from perfmagic.trace.model import Trace

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
        sizes[impossible] = NONE
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
            devices[impossible] = NONE
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
    return {
        name: np.concatenate([each.pop(name, none) for each, none in zip(pieces, lacking, strict=True)])
        for name in names
    }


# From the device ops of a backward to the operators of their forward, by the numbers that autograd gives its nodes.


def with_forward(trace: Trace, host_ops: Columns, linked: Columns) -> Trace:
    """The trace whose ops know when, and on which thread, the operator of their forward began.

    host_ops, linked: columns of one length: start_ns, end_ns and thread; sequence and forward_thread.
    """
    sequence, thread = linked["sequence"], host_ops["thread"]
    numbered = sequence != NONE
    backward = np.flatnonzero(numbered & (linked["forward_thread"] > 0))
    forward = np.flatnonzero(numbered & (linked["forward_thread"] <= 0))
    launch = trace.ops.launch
    known = np.flatnonzero(launch != NONE)
    if not len(backward) or not len(forward) or not len(known):
        return trace
    calls = trace.calls
    inner = around(host_ops, backward, calls.thread[launch[known]], calls.start_ns[launch[known]])
    inside = inner != NONE
    rows, at = known[inside], inner[inside]
    forward_row = forward_rows(sequence[forward], host_ops["start_ns"][forward], sequence[at], host_ops["start_ns"][at])
    has = forward_row != NONE
    forward_ns, forward_thread = trace.ops.forward_ns.copy(), trace.ops.forward_thread.copy()
    forward_ns[rows[has]] = host_ops["start_ns"][forward[forward_row[has]]]
    forward_thread[rows[has]] = thread[forward[forward_row[has]]]
    for column in (forward_ns, forward_thread):
        column.flags.writeable = False
    return replace(trace, ops=replace(trace.ops, forward_ns=forward_ns, forward_thread=forward_thread))
