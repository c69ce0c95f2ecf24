"""Intervals of many groups at once: a trace of thousands of streams cannot be gone through one by one."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, TypeVar

import numpy as np
import numpy.typing as npt

from perfmagic.numerics.intervals import Int64, Intervals

IntT = TypeVar("IntT", bound=np.integer[Any])


def running_max(group: Int64, values: Int64) -> Int64:
    """The largest value so far in each group, of rows sorted by group; shape of values."""
    if not len(values):
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
    at = values.astype(np.int64) - least
    occurs = np.zeros(most - least + 1, bool)
    occurs[at] = True
    return np.flatnonzero(occurs) + least, (np.cumsum(occurs) - 1)[at]


def unions(group: Int64, start: Int64, end: Int64) -> tuple[Int64, Intervals]:
    """The union of the intervals [start, end) of each group, those without length left out.

    Gives the group of each interval of the result, rising, and the intervals, disjoint and rising within a group.
    """
    kept = end > start
    group, start, end = group[kept], start[kept], end[kept]
    order = _order(group, start)
    group, start, end = group[order], start[order], end[order]
    if not len(group):
        return group, np.zeros((0, 2), np.int64)
    reached = running_max(group, end)
    first = np.concatenate(([True], (np.diff(group) != 0) | (start[1:] > reached[:-1])))
    starts = np.flatnonzero(first)
    lasts = np.append(starts[1:], len(group)) - 1
    return group[starts], np.column_stack((start[starts], reached[lasts]))


@dataclass(frozen=True, eq=False)
class Depths:
    """Of each group, how many of its intervals held at once. group: rising.  max: the most.  mean: weighted by time."""

    group: Int64
    max: Int64
    mean: np.ndarray[tuple[int], np.dtype[np.float64]]


def depths(group: Int64, up: Int64, down: Int64) -> Depths:
    """The depth of each group's intervals [up, down) from its first to its last instant; falls come before rises."""
    if not len(group):
        return Depths(group, group, np.zeros(0))
    groups = np.concatenate((group, group))
    times = np.concatenate((down, up))
    order = _order(groups, times)  # stable: the falls, which come first here, stay before rises
    groups, times = groups[order], times[order]
    level = np.cumsum(np.where(order < len(group), -1, 1))  # every group ends at zero: the next begins there
    starts = np.flatnonzero(np.concatenate(([True], np.diff(groups) != 0)))
    lasts = np.append(starts[1:], len(groups)) - 1
    length = np.append(np.diff(times), 0)
    length[lasts] = 0
    area = np.add.reduceat((level * length).astype(np.float64), starts)
    whole = (times[lasts] - times[starts]).astype(np.float64)
    mean = np.divide(area, whole, out=np.zeros(len(starts)), where=whole > 0)
    return Depths(groups[starts], np.maximum.reduceat(level, starts), mean)


def _order(group: Int64, times: Int64) -> Int64:
    """Stable order by group, then time."""
    first = np.argsort(times, kind="stable")  # fast for times that nearly rise, as records do
    distinct, code = coded(group)
    if len(distinct) < 2**15:
        code = code.astype(np.int16)  # numbers so small are sorted by their digits
    second: Int64 = first[np.argsort(code[first], kind="stable")]
    return second
