"""Nodes that wait for two others or meet several are reached when each way, added up by hand, says."""

import numpy as np
import pytest

from perfmagic.base.numerics import net
from perfmagic.base.numerics.longest import NO_NODE, way_back
from perfmagic.base.numerics.net import Int64, Net


def random_net(seed: int) -> tuple[Net, Int64, Int64]:
    """Lanes in turn: most nodes follow the one before in their lane, some wait for another lane, some meet several."""
    rng = np.random.default_rng(seed)
    n, lanes = 150, int(rng.integers(1, 9))
    first, second = np.full(n, NO_NODE), np.full(n, NO_NODE)
    met, arrives = [], []
    for node in range(n):
        kind = rng.random()
        if kind < 0.2 and node:
            some = rng.choice(node, min(node, int(rng.integers(1, 6))), replace=False)
            met += [node] * len(some)
            arrives += some.tolist()
        else:
            first[node] = node - 1 if kind < 0.7 else max(NO_NODE, node - lanes)
            second[node] = rng.integers(node) if kind > 0.8 and node else NO_NODE
    number = rng.permutation(n) if seed % 2 else np.arange(n)  # predecessors need not come first

    def renumbered(side: Int64) -> Int64:
        moved = np.empty(n, np.int64)
        moved[number] = np.where(side == NO_NODE, NO_NODE, number[side])
        return moved

    at, of = number[np.array(met, np.int64)], number[np.array(arrives, np.int64)]
    order = np.argsort(at, kind="stable")
    made = Net(renumbered(first), renumbered(second), at[order], of[order])
    return made, rng.integers(-5, 50, n), rng.integers(-5, 50, n)


def reached_by_hand(made: Net, first_lag: Int64, second_lag: Int64) -> list[int]:
    known: dict[int, int] = {}
    while len(known) < len(first_lag):
        for node in range(len(first_lag)):
            ways = [(int(made.arrives[i]), 0) for i in np.flatnonzero(made.met == node)]
            if not ways:
                sides = ((made.first, first_lag), (made.second, second_lag))
                ways = [(int(side[node]), int(lag[node])) for side, lag in sides if side[node] != NO_NODE]
            if all(before in known for before, _ in ways):
                known[node] = max((known[before] + lag for before, lag in ways), default=int(first_lag[node]))
    return [known[node] for node in range(len(first_lag))]


@pytest.mark.parametrize("wide", [0, 10**9])
@pytest.mark.parametrize("seed", range(20))
def test_level_by_level_and_one_by_one_all_nodes_are_reached_in_time(
    seed: int, wide: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(net, "WIDE", wide)
    monkeypatch.setattr(net, "TRIED", 0)
    made, *lags = random_net(seed)
    times = made.reached(*lags)
    assert times.tolist() == reached_by_hand(made, *lags)
    before, by_second = made.held_by(times, *lags)
    way = way_back(int(times.argmax()), before)
    lag = np.where(by_second, lags[1], np.where(np.isin(np.arange(len(times)), made.met), 0, lags[0]))
    assert times[way[-1]] + lag[way[:-1]].sum() == times.max()


@pytest.mark.parametrize("wide", [0, 10**9])
def test_a_circle_is_rejected(wide: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(net, "WIDE", wide)
    none = np.full(3, NO_NODE)
    with pytest.raises(ValueError, match="wait for each other in a circle"):
        Net(np.array([NO_NODE, 2, NO_NODE]), none, np.array([2, 2]), np.array([0, 1]))
