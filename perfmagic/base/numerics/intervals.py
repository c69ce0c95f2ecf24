"""Interval algebra on half-open int64 nanosecond intervals.

An `Intervals` is an array of shape (n, 2), rows [start, end), sorted by start and disjoint; touching rows are merged
and empty ones left out. Every function that returns Intervals keeps that promise.
Source of the definitions: docs/words.md; checked against a bitset in the tests.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, TypeAlias, TypeVar

import numpy as np
import numpy.typing as npt

Int64: TypeAlias = npt.NDArray[np.int64]
Intervals: TypeAlias = npt.NDArray[np.int64]

EMPTY: Intervals = np.empty((0, 2), np.int64)


def union(start_ns: npt.NDArray[Any], end_ns: npt.NDArray[Any]) -> Intervals:
    """The time during which at least one of the given intervals is active.

    start_ns, end_ns: shape (n,), any order, overlaps allowed; rows with end <= start count as empty.
    """
    start = np.asarray(start_ns, np.int64)
    end = np.asarray(end_ns, np.int64)
    keep = end > start
    if not keep.all():
        start, end = start[keep], end[keep]
    if not len(start):
        return EMPTY
    start, end = _by_start(start, end)
    if not (end[1:] >= end[:-1]).all():
        end = np.maximum.accumulate(end)
    opens = np.ones(len(start) + 1, bool)  # the last one closes what is open
    np.greater(start[1:], end[:-1], out=opens[1:-1])
    if opens.all():
        return pairs(start, end)
    return pairs(start[np.flatnonzero(opens[:-1])], end[np.flatnonzero(opens[1:])])


def _by_start(start: Int64, end: Int64) -> tuple[Int64, Int64]:
    if (start[1:] >= start[:-1]).all():
        return start, end
    order = np.argsort(start, kind="stable")
    return start[order], end[order]


def pairs(start_ns: Int64, end_ns: Int64) -> Intervals:
    """Rows of start and end. Each column lies in one piece, as it is read far more often than a row."""
    rows = np.empty((2, len(start_ns)), np.int64)
    rows[0], rows[1] = start_ns, end_ns
    return rows.T


def merge(*parts: Intervals) -> Intervals:
    """The union of several interval sets."""
    rows = [p for p in parts if len(p)]
    if len(rows) < 2:
        return rows[0] if rows else EMPTY
    stacked = np.concatenate(rows)
    return union(stacked[:, 0], stacked[:, 1])


def total_ns(a: Intervals) -> int:
    """The summed length of the intervals."""
    return int((a[:, 1] - a[:, 0]).sum())


def intersect(a: Intervals, b: Intervals) -> Intervals:
    """The time during which both a and b are active."""
    if not len(a) or not len(b):
        return EMPTY
    if len(a) > len(b):  # fewer rows are searched for among more
        a, b = b, a
    row_a, row_b = _touching(a, b)
    both = np.empty((2, len(row_a)), np.int64).T
    np.maximum(a[:, 0][row_a], b[:, 0][row_b], out=both[:, 0])
    np.minimum(a[:, 1][row_a], b[:, 1][row_b], out=both[:, 1])
    return a if len(both) == len(a) and (both == a).all() else both  # kept once


def _touching(a: Intervals, b: Intervals) -> tuple[Int64, Int64]:
    """Each row of a with the rows of b it touches: those that end after its start and start before its end."""
    low = np.searchsorted(b[:, 1], a[:, 0], side="right")
    high = np.searchsorted(b[:, 0], a[:, 1], side="left")
    touched = high - low
    row_a = np.repeat(np.arange(len(a)), touched)
    row_b = np.arange(len(row_a))
    row_b -= np.repeat(np.cumsum(touched) - high, touched)
    return row_a, row_b


def parts_of(start_ns: Int64, end_ns: Int64, b: Intervals) -> tuple[Int64, Intervals]:
    """The parts of each [start, end) that b covers, and the number of the interval each is a part of.

    start_ns, end_ns: shape (n,), any order, overlaps allowed. The parts are in the order of the intervals.
    """
    low = np.searchsorted(b[:, 1], start_ns, side="right")
    n = np.maximum(np.searchsorted(b[:, 0], end_ns, side="left") - low, 0)
    number = np.repeat(np.arange(len(start_ns)), n)
    row = np.arange(len(number)) - np.repeat(np.cumsum(n) - n, n) + np.repeat(low, n)
    return number, pairs(np.maximum(start_ns[number], b[row, 0]), np.minimum(end_ns[number], b[row, 1]))


def subtract(a: Intervals, b: Intervals) -> Intervals:
    """The time during which a is active and b is not."""
    if not len(a) or not len(b):
        return a
    return intersect(a, complement(b, int(a[0, 0]), int(a[-1, 1])))


def complement(a: Intervals, start_ns: int, end_ns: int) -> Intervals:
    """The time inside [start_ns, end_ns) during which a is not active."""
    inside = clip(a, start_ns, end_ns)
    if len(inside) and (inside[0, 0], inside[-1, 1]) == (start_ns, end_ns):
        return _between(inside)
    edges = np.empty((2, len(inside) + 1), np.int64).T
    edges[0, 0], edges[-1, 1] = start_ns, end_ns
    edges[1:, 0], edges[:-1, 1] = inside[:, 1], inside[:, 0]
    kept = edges[:, 1] > edges[:, 0]
    # only the outer ones can be empty: no row is copied
    return edges[int(not kept[0]) : len(edges) - int(not kept[-1])] if kept[1:-1].all() else edges[kept]


def _between(a: Intervals) -> Intervals:
    """From the end of each row to the start of the next: the same numbers in another order, so that none is copied."""
    to_next_row, to_end = a.strides
    shape, steps = (len(a) - 1, 2), (to_next_row, to_next_row - to_end)
    return np.lib.stride_tricks.as_strided(a[:, 1:], shape, steps, writeable=False)


def clip(a: Intervals, start_ns: int, end_ns: int) -> Intervals:
    """The part of a inside [start_ns, end_ns)."""
    if end_ns <= start_ns:
        return EMPTY
    first = np.searchsorted(a[:, 1], start_ns, side="right")
    inside = a[first : np.searchsorted(a[:, 0], end_ns, side="left")]
    if not len(inside) or (inside[0, 0] >= start_ns and inside[-1, 1] <= end_ns):
        return inside
    cut = inside.copy()
    cut[0, 0], cut[-1, 1] = max(cut[0, 0], start_ns), min(cut[-1, 1], end_ns)
    return cut


def overlap_ns(a: Intervals, b: Intervals) -> int:
    """Time during which both a and b are active."""
    return total_ns(intersect(a, b))


def concurrency_ns(sets: list[Intervals], start_ns: int, end_ns: int) -> dict[int, int]:
    """Time inside [start_ns, end_ns) during which exactly k of the sets are active: {k: ns}, only k that occur."""
    # the sums are of doubles, exact for any window below 2**53 ns, a hundred days
    level, length_ns = _levels([clip(s, start_ns, end_ns) for s in sets], start_ns, end_ns)
    sums = np.bincount(level, weights=length_ns, minlength=1).astype(np.int64)
    return {k: ns for k, ns in enumerate(sums.tolist()) if ns}


def _levels(sets: list[Intervals], start_ns: int, end_ns: int) -> tuple[npt.NDArray[np.int32], Int64]:
    """How many of the sets are active between each two of their edges, and how long."""
    times = np.concatenate([s.ravel() for s in sets] + [np.array([start_ns, end_ns], np.int64)])
    steps = np.concatenate([np.tile(np.array([1, -1], np.int8), len(s)) for s in sets] + [np.zeros(2, np.int8)])
    order = np.argsort(times, kind="stable")
    level = np.cumsum(steps[order], dtype=np.int32)[:-1]
    times = times[order]
    del order  # as large as the times
    return level, np.diff(times)


def occupancy(a: Intervals, start_ns: float, end_ns: float, columns: int) -> npt.NDArray[np.float64]:
    """Share of each of `columns` equal slots of [start_ns, end_ns) that a covers, shape (columns,), 0 to 1.

    From prefix sums, so a slot 3 % busy is 0.03 however many intervals make it up.
    """
    edges = np.linspace(start_ns, end_ns, columns + 1)
    if not len(a) or end_ns <= start_ns:
        return np.zeros(columns)
    covered = covered_before(a, edges)
    return np.clip(np.diff(covered) / ((end_ns - start_ns) / columns), 0.0, 1.0)


def covered_before(a: Intervals, at_ns: npt.NDArray[Any]) -> npt.NDArray[np.float64]:
    """How much of a lies before each instant, in ns, shape of at_ns."""
    if not len(a):
        return np.zeros(len(at_ns))
    length = (a[:, 1] - a[:, 0]).astype(np.float64)
    whole = np.concatenate(([0.0], np.cumsum(length)))
    row = np.searchsorted(a[:, 0], at_ns, side="right") - 1
    inside = np.clip(at_ns - a[np.maximum(row, 0), 0], 0.0, length[np.maximum(row, 0)])
    return np.where(row >= 0, whole[np.maximum(row, 0)] + inside, 0.0)


def covered_ns(a: Intervals, start_ns: Int64, end_ns: Int64) -> Int64:
    """How much of each [start, end) a covers, exact, shape of start_ns; 0 where end <= start."""
    if not len(a):
        return np.broadcast_to(np.int64(0), len(start_ns))  # most causes of idle time never occur
    whole = np.concatenate(([0], np.cumsum(a[:, 1] - a[:, 0])))
    covered: Int64 = np.maximum(_before_ns(a, whole, end_ns) - _before_ns(a, whole, start_ns), 0)
    return covered


def _before_ns(a: Intervals, whole: Int64, at_ns: Int64) -> Int64:
    """How much of a lies before each instant. whole: how much lies before each row, and all of it."""
    row = np.searchsorted(a[:, 0], at_ns, side="right")
    after_end = a[:, 1][np.maximum(row - 1, 0)]
    after_end -= at_ns
    np.maximum(after_end, 0, out=after_end)
    after_end[row == 0] = 0
    before: Int64 = np.subtract(whole[row], after_end, out=after_end)
    return before


# Intervals of many groups at once: a trace of thousands of streams cannot be gone through one by one.

IntT = TypeVar("IntT", bound=np.integer[Any])


def running_max(group: npt.NDArray[np.integer[Any]], values: Int64) -> Int64:
    """The largest value so far in each group, of rows sorted by group; shape of values."""
    if not len(values):
        return values
    if ((values[1:] >= values[:-1]) | (group[1:] != group[:-1])).all():
        return values
    number = np.cumsum(np.concatenate(([0], np.diff(group) != 0)))
    least, most = int(values.min()), int(values.max())
    if (int(number[-1]) + 1) * (most - least + 1) < 2**62:
        above = number * np.int64(most - least + 1)  # puts every group above those before it
        highest: Int64 = np.maximum.accumulate(values - np.int64(least) + above) - above + np.int64(least)
        return highest
    distinct, rank = np.unique(values, return_inverse=True)
    key = number * np.int64(len(distinct)) + rank  # n² fits: ranks are small
    largest: Int64 = distinct[np.maximum.accumulate(key) % len(distinct)]
    return largest


def distinct(values: npt.NDArray[IntT]) -> npt.NDArray[IntT]:
    """The distinct values, rising: np.unique, without hashing or sorting what a record already has in order.

    Columns such as threads come in runs, numbers of calls nearly rise, and names are small numbers.
    """
    if not len(values):
        return values
    heads = values[np.concatenate(([True], values[1:] != values[:-1]))]
    if (heads[1:] > heads[:-1]).all():
        return heads
    least, most = int(heads.min()), int(heads.max())
    if most - least <= 2 * len(heads):
        occurs = np.zeros(most - least + 1, bool)
        occurs[heads.astype(np.int64) - least] = True
        return (np.flatnonzero(occurs) + least).astype(values.dtype)
    heads = np.sort(heads)
    return heads[np.concatenate(([True], heads[1:] != heads[:-1]))]


def coded(values: npt.NDArray[np.integer[Any]]) -> tuple[Int64, Int64]:
    """The distinct values, rising, and for each value its place among them: np.unique, without sorting small ranges."""
    if not len(values):
        return np.zeros(0, np.int64), np.zeros(0, np.int64)
    least, most = int(values.min()), int(values.max())
    if most - least > 2 * len(values):
        distinct, places = np.unique(values, return_inverse=True)
        return distinct.astype(np.int64), places.reshape(-1)
    at = np.subtract(values, least, dtype=np.int64)
    occurs = np.zeros(most - least + 1, bool)
    occurs[at] = True
    return np.flatnonzero(occurs) + least, (np.cumsum(occurs) - 1)[at]


def unions(group: npt.NDArray[IntT], start: Int64, end: Int64) -> tuple[npt.NDArray[IntT], Intervals]:
    """The union of the intervals [start, end) of each group, those without length left out.

    Gives the group of each interval of the result, rising, and the intervals, disjoint and rising within a group.
    """
    kept = end > start
    if not kept.all():
        group, start, end = group[kept], start[kept], end[kept]
    if not len(group):
        return group, np.zeros((0, 2), np.int64)
    later = (group[1:] > group[:-1]) | ((group[1:] == group[:-1]) & (start[1:] >= start[:-1]))
    if not later.all():
        order = _order(group, start)
        group, start, end = group[order], start[order], end[order]
    reached = running_max(group, end)
    opens = np.ones(len(group) + 1, bool)  # the last one closes what is open
    np.logical_or(group[1:] != group[:-1], start[1:] > reached[:-1], out=opens[1:-1])
    if opens.all():
        return group, pairs(start, reached)
    starts = np.flatnonzero(opens[:-1])
    return group[starts], pairs(start[starts], reached[np.flatnonzero(opens[1:])])


@dataclass(frozen=True, eq=False)
class Depths:
    """Of each group, how many of its intervals held at once. group: rising.  max: the most.  mean: weighted by time."""

    group: Int64
    max: Int64
    mean: np.ndarray[tuple[int], np.dtype[np.float64]]


def depths(group: Int64, up: Int64, down: Int64) -> Depths:
    """The depth of each group's intervals [up, down) from its first to its last instant; falls come before rises.

    None goes down before it goes up.
    """
    if not len(group):
        return Depths(group, group, np.zeros(0))
    groups, code = coded(group)
    rises, falls = _in_turn(code, up, down, len(groups))
    level = np.arange(1, len(rises) + 1)  # after each rise; falls at the same instant come before
    level -= np.searchsorted(falls, rises, side="right")
    n_rises = np.bincount(code)
    most = np.maximum.reduceat(level, np.cumsum(n_rises) - n_rises)
    earliest, latest = np.full(len(groups), up.max()), np.full(len(groups), down.min())
    np.minimum.at(earliest, code, up)
    np.maximum.at(latest, code, down)
    whole = (latest - earliest).astype(np.float64)
    area = np.bincount(code, weights=down - up)
    return Depths(groups, most, np.divide(area, whole, out=np.zeros(len(groups)), where=whole > 0))


def _in_turn(code: Int64, up: Int64, down: Int64, n_groups: int) -> tuple[Int64, Int64]:
    """The rises, and the falls, in order: every group comes after those before it, which end at zero."""
    rises, falls, n_places = _places(up, down, n_groups)
    first_place = code * np.int64(n_places)
    rises += first_place
    falls += first_place
    rises.sort()
    falls.sort()
    return rises, falls


def _places(up: Int64, down: Int64, n_groups: int) -> tuple[Int64, Int64, int]:
    """Where instants lie among all of them, and how many places there are: so few that those of all groups fit."""
    least = min(int(up.min()), int(down.min()))
    n_places = max(int(up.max()), int(down.max())) - least + 1
    if n_groups * n_places < 2**62:
        return up - least, down - least, n_places
    instants, rank = np.unique(np.concatenate((up, down)), return_inverse=True)
    return rank[: len(up)], rank[len(up) :], len(instants)


def _order(group: npt.NDArray[Any], times: Int64) -> Int64:
    """Stable order by group, then time."""
    first = np.argsort(times, kind="stable")  # fast for times that nearly rise, as records do
    distinct, code = coded(group)
    if len(distinct) < 2**15:
        code = code.astype(np.int16)  # numbers so small are sorted by their digits
    second: Int64 = first[np.argsort(code[first], kind="stable")]
    return second
