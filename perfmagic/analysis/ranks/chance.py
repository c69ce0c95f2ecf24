"""Whether what a rank takes more than its peers is chance: by how far the same work scatters over rounds and ranks.

A rank stands out by one kind of work or by all of its work, in one round or in all rounds together. Each of these ways
is tested as often as there are places to stand out, so that a job without a cause rarely has one (CHANCE). The scatter
is measured without what is tested: in the other rounds, or about each rank's own mean.
"""

from __future__ import annotations

from statistics import NormalDist

import numpy as np

from perfmagic.base.numerics.intervals import coded
from perfmagic.trace.columns import Bool, Float64, Int64

CHANCE = 0.003  # that a job without a cause stands out in one of the ways
LEAST_FRAC = 0.01  # of all work: what is shorter is no place to stand out
MOST_POOLED = 3  # kinds of work of which one's scatter is told by the others', too
SIGMA = 1.4826  # of normal values, per median distance from their median
MAD_EFFICIENCY = 0.37  # of a median distance, against a standard deviation: values that tell as much


def beyond_chance(rank: Int64, kind: Int64, rounds: Int64, ns: Int64, excess_ns: Int64, n_ranks: int) -> Bool:
    """Which pieces of work are of a rank that stands out, alone or with the others of a round; shape of ns.

    rank, kind, rounds: of each piece, from 0.  excess_ns: more than its peers take.
    """
    if not len(rank):
        return np.zeros(0, bool)
    n_rounds = int(rounds.max()) + 1
    cell = rank * n_rounds + rounds
    _, kind = coded(kind)
    parts = np.split(np.argsort(kind, kind="stable"), np.cumsum(np.bincount(kind))[:-1])
    tables = [np.bincount(cell[rows], excess_ns[rows], n_ranks * n_rounds).reshape(n_ranks, n_rounds) for rows in parts]
    scale = np.array([ns[rows].sum() for rows in parts]) + 1.0
    of_kind = np.sort(np.array([np.sqrt((table**2).mean()) for table in tables]) / scale)
    usual = of_kind[(len(parts) - 1) // 2]  # few rounds may by chance scatter less than that
    n_kinds = int((scale >= LEAST_FRAC * scale.sum()).sum())
    out = _stands_out(sum(tables), 0.0, 1, 1)[cell]
    for rows, table, whole in zip(parts, tables, scale, strict=True):
        out[rows] |= _stands_out(table, usual * whole, n_kinds, min(n_kinds, MOST_POOLED))[cell[rows]]
    return out


def _stands_out(excess: Float64, least: float, n_kinds: int, pooled: int) -> Bool:
    """Of each rank and round, flat, whether its excess is no chance, by itself or in all rounds together.

    least: that work scatters.  pooled: of how many kinds of work that tells.
    """
    n_ranks, n_rounds = excess.shape
    scatter, df = _elsewhere(excess)
    median, of_median = SIGMA * np.median(np.abs(excess)), MAD_EFFICIENCY * (n_ranks - 1) * max(1, n_rounds - 1)
    once = (_surprise(excess, np.maximum(a, least), pooled * b) for a, b in ((scatter, df), (median, of_median)))
    out: Bool = np.maximum(*once) > _least(n_kinds * excess.size)
    if n_rounds > 1:
        own = excess - excess.mean(axis=1, keepdims=True)
        within = np.sqrt((own**2).sum() / max(1, n_ranks * (n_rounds - 1)))
        apart = np.sort(np.abs(excess - np.median(excess, axis=1, keepdims=True)), axis=None)
        median = SIGMA * np.median(apart[n_ranks:])  # of each rank one is the median itself
        total, df = excess.sum(axis=1, keepdims=True) / np.sqrt(n_rounds), (n_ranks - 1) * (n_rounds - 1)
        always = (_surprise(total, np.maximum(a, least), pooled * b) for a, b in ((within, df), (median, of_median)))
        out |= np.maximum(*always) > _least(n_kinds * n_ranks)
    return out.ravel()


def _elsewhere(excess: Float64) -> tuple[Float64, int]:
    """The scatter in other rounds than each, or of other ranks where there is one round; and what it is worth."""
    axis, n = (0, excess.shape[1]) if excess.shape[1] > 1 else (1, excess.shape[0])
    rest = (excess**2).sum() - (excess**2).sum(axis=axis, keepdims=True)
    df = (n - 1) * (excess.shape[0] - 1) if axis == 0 else n - 2
    return np.sqrt(rest.clip(0) / max(1, excess.size * (n - 1) / n)), df


def _surprise(excess: Float64, scatter: Float64, df: float) -> Float64:
    """As many standard deviations of a normal value, by Wallace's transform of Student's t (Ann. Math. Stat. 30, 1959).

    Where nothing tells a scatter, or there is none, any excess is beyond it.
    """
    known = np.broadcast_to(scatter, excess.shape) if df > 0 else np.zeros(excess.shape)
    t = np.divide(excess.clip(0), known, out=np.where(excess > 0, np.inf, 0.0), where=known > 0)
    return t if df <= 0 else (8 * df + 1) / (8 * df + 3) * np.sqrt(df * np.log1p(t**2 / df))


def _least(n_tests: int) -> float:
    """What the largest of so many normal values rarely exceeds."""
    return NormalDist().inv_cdf(1 - CHANCE / n_tests)
