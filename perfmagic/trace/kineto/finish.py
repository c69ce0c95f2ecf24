"""Joins the chunks of a file to whole columns with exact times, and drops impossible values."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from itertools import chain
from typing import Any

import numpy as np

from perfmagic.trace.columns import NONE, Bool
from perfmagic.trace.kineto.parts import (
    CALLS,
    COUNTERS,
    FRAMES,
    HOST_OPS,
    HOST_WAITS,
    OPS,
    TABLES,
    WAITS,
    Columns,
    Gathered,
    Part,
)
from perfmagic.trace.kineto.times import PairEnd, Times, repair_times
from perfmagic.trace.remarks import Remark
from perfmagic.units import plural, size

SPAN_TABLES = (OPS, CALLS, HOST_OPS, WAITS, FRAMES, HOST_WAITS)
MOST_BYTES = 2**50  # a pebibyte
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
    found = list(_paired(gathered.parts))
    joined = {table: _joined(gathered.parts, table) for table in TABLES}
    times_of = [[joined[table].pop(name, _NO_TIMES[name]) for table in TABLES] for name in _TIMES]
    sizes = [len(start_ns) for start_ns in times_of[0]]
    times = _times(times_of, sizes)
    first = dict(zip(TABLES, np.cumsum([0, *sizes]).tolist(), strict=False))
    pairs = [replace(pair, row=first[table] + row) if table else pair for pair, table, row in found]
    repair_times(times, pairs, repairs)
    _drop_impossible(joined, gathered.impossible, repairs)
    end_ns = times.end_ns
    columns, repaired = {}, {}
    for table, n_rows in zip(TABLES, sizes, strict=True):
        mine = slice(first[table], first[table] + n_rows)
        kept = times.usable[mine]
        repaired[table] = times.repaired[mine][kept]
        whole = {"start_ns": times.start_ns[mine], "end_ns": end_ns[mine], **joined[table]}
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
        words = f"{plural(lost, 'size or count', 'sizes or counts')} beyond {size(MOST_BYTES)}, left out"
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
        words = f"{plural(far, 'device number')} beyond {MOST_DEVICES}, read as {NONE}"
        repairs.append(Remark("impossible_device", words, {"n": far}))


def _joined(parts: list[Part], table: int) -> Columns:
    """The columns of all parts, which are emptied; NONE where a part lacks a column that another has."""
    mine = [part.columns.pop(table) for part in parts if table in part.columns]
    lacking = [np.broadcast_to(np.int64(NONE), len(columns["start_ns"])) for columns in mine]
    names = dict.fromkeys(chain.from_iterable(mine))
    return {
        name: np.concatenate([each.pop(name, none) for each, none in zip(mine, lacking, strict=True)]) for name in names
    }
