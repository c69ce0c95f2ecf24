"""What more ranks pay."""

import pytest

from perfmagic.analysis.ranks.scaling import efficiency
from perfmagic.base.errors import OptionError


def test_strong_scaling_shares_one_work() -> None:
    rows = efficiency({1: 100.0, 2: 60.0, 4: 40.0}, "strong")
    assert [row.speedup for row in rows] == pytest.approx([1, 100 / 60, 2.5])
    assert [row.efficiency_frac for row in rows] == pytest.approx([1, 100 / 120, 0.625])


def test_weak_scaling_gives_each_rank_the_same_work() -> None:
    rows = efficiency({4: 207.0, 1: 164.0, 2: 178.0}, "weak")
    assert [row.ranks for row in rows] == [1, 2, 4]
    assert [row.efficiency_frac for row in rows] == pytest.approx([1, 164 / 178, 164 / 207])
    assert [row.speedup for row in rows] == pytest.approx([1, 2 * 164 / 178, 4 * 164 / 207])


def test_without_one_rank_the_fewest_are_the_measure() -> None:
    assert [row.efficiency_frac for row in efficiency({2: 10.0, 4: 10.0}, "strong")] == [1, 0.5]


@pytest.mark.parametrize(("times", "scaling"), [({}, "weak"), ({1: 0.0}, "weak"), ({1: 1.0}, "both")])
def test_what_cannot_be_compared_raises_an_error(times: dict[int, float], scaling: str) -> None:
    with pytest.raises(OptionError):
        efficiency(times, scaling)  # type: ignore[arg-type]
