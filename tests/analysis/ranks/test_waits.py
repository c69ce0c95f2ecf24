"""Who waited for whom, from when ranks came and left."""

import numpy as np

from perfmagic.analysis.ranks.waits import MatchedMessages, who_waited
from perfmagic.trace.columns import Int64


def column(*times_ns: int) -> Int64:
    return np.array([[at] for at in times_ns], np.int64)


def test_without_clocks_the_rank_that_was_inside_for_the_shortest_time_came_last() -> None:
    waits = who_waited(column(0, 1000, 40), column(100, 1035, 120))
    assert waits.last.tolist() == [1]
    assert waits.waiting_ns[:, 0].tolist() == [65, 0, 45]
    assert (waits.transfer_ns.tolist(), waits.errs_ns.tolist()) == ([35], [0])
    assert waits.known[:, 0].tolist() == [True, False, True]


def test_ends_that_lie_apart_on_the_axis_are_the_error_of_waits() -> None:
    waits = who_waited(column(0, 1000), column(100, 1035), np.array([0, -985]))
    assert waits.errs_ns.tolist() == [50]
    assert waits.decided.tolist() == [True]
    assert not who_waited(column(0, 1000), column(100, 1035), np.array([0, -1000])).decided.any()


def test_with_clocks_ranks_wait_until_the_last_one_comes() -> None:
    waits = who_waited(column(0, 70), column(100, 105), np.array([0, -10]), bound_ns=5)
    assert waits.waiting_ns[:, 0].tolist() == [60, 0]
    assert (waits.last.tolist(), waits.decided.tolist(), waits.transfer_ns.tolist()) == ([1], [True], [35])
    assert not who_waited(column(0, 70), column(100, 105), np.array([0, -10]), bound_ns=60).known.any()


def test_a_sender_waits_no_longer_than_its_send_takes() -> None:
    times = (np.array([ns]) for ns in (10, 30, 1050, 1090))
    places = np.array([0])
    messages = MatchedMessages(0, 1, places, places, *times)
    assert messages.waits(lambda rank, at_ns: at_ns * 0 - 1000 * rank).waiting_ns[:, 0].tolist() == [20, 0]
    assert messages.waits(lambda rank, at_ns: at_ns * 0 - 1045 * rank).waiting_ns[:, 0].tolist() == [0, 5]
