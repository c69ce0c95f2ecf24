"""At which paces something was launched, by when they were changed."""

import numpy as np
import pytest

from perfmagic.sim import pace
from perfmagic.sim.pace import PaceLog, describe_in_turn


def test_only_paces_at_which_something_was_launched_are_named(monkeypatch: pytest.MonkeyPatch) -> None:
    """The pace is a until 10, b until 20, c until 30, then d."""
    log, times = PaceLog(), iter((10, 20, 30))
    monkeypatch.setattr(pace, "now_ns", lambda: next(times))
    for before in "abc":
        log.changed(before)

    def used(*launched: int) -> list[str]:
        return log.used(np.array(launched, np.int64), "d")

    assert used(31, 40) == ["d"]
    assert used(5, 40) == ["a", "d"]
    assert used(25, 15) == ["b", "c"]
    assert used(1, 11, 21, 31) == ["a", "b", "c", "d"]
    assert used() == ["d"]


def test_a_pace_set_again_is_one_and_none_is_called_unpaced() -> None:
    log = PaceLog()
    log.changed("paced: mm")
    assert log.used(np.array([1, 2**62]), "paced: mm") == ["paced: mm"]
    assert describe_in_turn(["paced: mm"]) == "paced: mm"
    assert describe_in_turn([""]) == ""
    assert describe_in_turn(["", "paced: mm ≥ 3 ms"]) == "unpaced; then mm ≥ 3 ms"
    assert describe_in_turn(["paced: a", "paced: b", "", "paced: c"]) == "paced: a; then c, after 2 others"
