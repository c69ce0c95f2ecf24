"""Whether what a rank takes more than its peers is chance: by how far the same work scatters over rounds and ranks.

A rank stands out by one kind of work or by all of its work, in one round or in all rounds together. Each of these ways
is tested as often as there are places to stand out. So a job without a cause rarely has one (CHANCE). The scatter
is measured in the other rounds or about each rank's own mean; where other causes hide in it, by medians.
"""

from __future__ import annotations

from statistics import NormalDist
from typing import TypeAlias

import numpy as np
import numpy.typing as npt

from perfmagic.base.numerics.intervals import coded

Bool: TypeAlias = npt.NDArray[np.bool_]
Float64: TypeAlias = npt.NDArray[np.float64]
Int64: TypeAlias = npt.NDArray[np.int64]

CHANCE = 0.004  # that a job without a cause stands out in one of the ways
LEAST_FRAC = 0.01  # of all work: what is shorter is no place to stand out
MOST_POOLED = 3  # kinds of work whose scatter is pooled
FEW_RANKS = 16  # of more one hardly moves the median of all
SIGMA = 1.4826  # of normal values, per median distance from their median
MAD_EFFICIENCY = 0.2  # of a median distance: 0.37 of normal values tell as much as it does, of few values fewer


def beyond_chance(rank: Int64, kind: Int64, rounds: Int64, ns: Int64, excess_ns: Int64, *, n_ranks: int) -> Bool:
    """Which pieces of work are of a rank that stands out, alone or with the others of a round; shape of ns.

    rank, kind, rounds: of each piece, from 0.  excess_ns: more than its peers take.
    """
    if not len(rank):
        return np.zeros(0, bool)
    n_rounds = int(rounds.max()) + 1
    cell = rank * n_rounds + rounds
    of_kind, by_kind = coded(kind)[1], np.argsort(kind, kind="stable")
    parts = np.split(by_kind, np.cumsum(np.bincount(of_kind))[:-1])
    tables = [_table(cell[rows], excess_ns[rows], n_ranks, n_rounds) for rows in parts]
    share = np.array([ns[rows].sum() for rows in parts]) / max(1, int(ns.sum()))
    counted = np.flatnonzero(share >= LEAST_FRAC)
    scatter = np.array([_within(table) for table in tables]) / np.maximum(share, LEAST_FRAC)
    out: Bool = _stands_out(_table(cell, excess_ns, n_ranks, n_rounds), 0.0, 1, 1)[cell]
    for i, (rows, table) in enumerate(zip(parts, tables, strict=True)):
        others = np.sort(scatter[counted[counted != i]])  # a few rounds may by chance scatter less than theirs
        least = float(share[i] * others[(len(others) - 1) // 2]) if len(others) else 0.0
        out[rows] |= _stands_out(table, least, len(counted), min(1 + len(others), MOST_POOLED))[cell[rows]]
    return out


def _table(cell: Int64, excess_ns: Int64, n_ranks: int, n_rounds: int) -> Float64:
    """The excess of each rank in each round."""
    return np.bincount(cell, excess_ns, n_ranks * n_rounds).reshape(n_ranks, n_rounds).astype(np.float64)


def _stands_out(excess: Float64, least: float, n_kinds: int, pooled: int) -> Bool:
    """Of each rank and round, flat, whether its excess is no chance, by itself or in all rounds together.

    least: that work scatters.  pooled: of how many kinds of work that tells.
    """
    n_ranks, n_rounds = excess.shape
    medians = _median_scatter(excess), MAD_EFFICIENCY * (n_ranks - 1) * max(1, n_rounds - 1)

    def most(values: Float64, *scatters: tuple[Float64 | float, float]) -> Float64:
        found: Float64 = np.maximum(*(_surprise(values, np.maximum(s, least), pooled * df) for s, df in scatters))
        return found

    out: Bool = most(excess, _elsewhere(excess), medians) > _least(n_kinds * excess.size)
    if n_rounds > 1:
        total = excess.sum(axis=1, keepdims=True) / np.sqrt(n_rounds)
        within = _within(excess), (n_ranks - 1) * (n_rounds - 1)
        out |= most(total, within, medians) > _least(n_kinds * n_ranks)
    return out.ravel()


# By how far work scatters, and how many values that rests on.


def _within(excess: Float64) -> float:
    """About the mean of each rank, about 0 where there is one round."""
    n_ranks, n_rounds = excess.shape
    own = excess - excess.mean(axis=1, keepdims=True) if n_rounds > 1 else excess
    return float(np.sqrt((own**2).sum() / (n_ranks * max(1, n_rounds - 1))))


def _elsewhere(excess: Float64) -> tuple[Float64, int]:
    """In other rounds than each, or of other ranks where there is one round."""
    n_ranks, n_rounds = excess.shape
    axis, n = (0, n_rounds) if n_rounds > 1 else (1, n_ranks)
    rest = (excess**2).sum() - (excess**2).sum(axis=axis, keepdims=True)
    df = (n_rounds - 1) * (n_ranks - 1) if n_rounds > 1 else n_ranks - 2
    return np.sqrt(rest.clip(0) / max(1, excess.size * (n - 1) / n)), df


def _median_scatter(excess: Float64) -> Float64:
    """Of each rank how far the others' rounds scatter about their medians, of one round about 0; shape (ranks, 1)."""
    n_ranks, n_rounds = excess.shape
    apart = np.abs(excess - np.median(excess, axis=1, keepdims=True) if n_rounds > 1 else excess)
    others = [np.delete(apart, rank, axis=0) for rank in range(n_ranks)] if n_ranks <= FEW_RANKS else [apart]
    bias = n_rounds / max(n_rounds - 2, 1)  # one of a few rounds is the median
    return np.array([[SIGMA * bias * np.median(each)] for each in others], np.float64)


def _surprise(excess: Float64, scatter: Float64, df: float) -> Float64:
    """The excess in standard deviations of a normal distribution; infinite where the scatter is unknown or zero.

    Source: Wallace's transform of Student's t, Ann. Math. Stat. 30 (1959).
    """
    known = np.broadcast_to(scatter, excess.shape) if df > 0 else np.zeros(excess.shape)
    beyond = np.where(excess > 0, np.inf, 0.0)
    t: Float64 = np.divide(excess.clip(0), known, out=beyond, where=known > 0)
    return np.asarray((8 * df + 1) / (8 * df + 3) * np.sqrt(df * np.log1p(t**2 / df))) if df > 0 else t


def _least(n_tests: int) -> float:
    """What the largest of n_tests normal values rarely exceeds."""
    return NormalDist().inv_cdf(1 - CHANCE / n_tests)
