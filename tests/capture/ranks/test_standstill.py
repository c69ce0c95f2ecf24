"""Which ranks can never go on is told from where they stand, and from nothing else."""

from __future__ import annotations

import pytest

from perfmagic.capture.ranks.place import Place, ranks_words, span_words
from perfmagic.capture.ranks.standstill import standstill


def reduce(number: int | None = None, line: int = 2, call: str = "all_reduce", **more: object) -> Place:
    return Place(line=line, call=call, number=number, **more)  # type: ignore[arg-type]


def test_nobody_stands_still_while_all_compute() -> None:
    assert standstill({0: Place(2), 1: Place(3)}, [], 2) == ([], "")


def test_who_waits_for_a_rank_that_computes_may_go_on() -> None:
    assert standstill({0: reduce(), 1: Place(3)}, [], 2) == ([], "")


def test_all_in_one_operation_may_go_on() -> None:
    assert standstill({0: reduce(1), 1: reduce(1, line=5)}, [], 2) == ([], "")


def test_a_rank_that_has_ended_will_not_join() -> None:
    stuck, why = standstill({0: reduce(), 1: Place()}, [1], 2)
    assert stuck == [0]
    assert why == "rank 0 waits in all_reduce on line 2; rank 1 has finished the cell and will not join"


def test_a_rank_that_has_ended_with_work_on_its_device_may_still_join() -> None:
    assert standstill({0: reduce(), 1: Place(device_busy=True)}, [1], 2) == ([], "")


def test_ranks_that_do_not_run_the_cell_will_not_join() -> None:
    stuck, why = standstill({0: reduce(), 2: reduce()}, [], 4)
    assert stuck == [0, 2]
    assert why.endswith("; ranks 1, 3 do not run this cell and will not join")


def test_a_subgroup_that_is_complete_may_go_on_without_the_others() -> None:
    inner = reduce(1, ranks=(0, 2), group="half")
    assert standstill({0: inner, 1: Place(), 2: inner}, [1], 3) == ([], "")


def test_who_waits_for_one_who_waits_for_nobody_left_stands_still_too() -> None:
    places = {0: reduce(1, ranks=(0, 1), group="a"), 1: reduce(1, ranks=(1, 2), group="b"), 2: Place()}
    stuck, why = standstill(places, [2], 3)
    assert stuck == [0, 1]
    assert why.endswith("; rank 2 has finished the cell and will not join")


def test_who_waits_for_one_who_is_in_a_complete_operation_may_go_on() -> None:
    inner = reduce(1, ranks=(1, 2), group="b")
    assert standstill({0: reduce(1, ranks=(0, 1), group="a"), 1: inner, 2: inner}, [], 3) == ([], "")


def test_collectives_of_different_kinds_do_not_match() -> None:
    places = {0: reduce(4), 1: reduce(4, call="broadcast", line=7), 2: reduce(4)}
    stuck, why = standstill(places, [], 3)
    assert stuck == [0, 1, 2]
    assert why == (
        "collectives do not match: ranks 0, 2 are in all_reduce (line 2), rank 1 is in broadcast (line 7), "
        "each its 4th collective"
    )


def test_collectives_of_different_sizes_do_not_match() -> None:
    places = {0: reduce(1, size_bytes=8, line=5, asked_line=3), 1: reduce(1, size_bytes=16)}
    assert standstill(places, [], 2)[1] == (
        "collectives do not match: rank 0 is in all_reduce of 8 bytes (line 3), "
        "rank 1 is in all_reduce of 16 bytes (line 2), each its 1st collective"
    )


def test_the_same_call_on_the_device_and_on_the_cpu_never_meets() -> None:
    places = {0: reduce(1, on_device=True), 1: reduce(1)}
    assert standstill(places, [], 2)[1] == (
        "collectives do not match: rank 0 is in all_reduce on the simulated device (line 2), "
        "rank 1 is in all_reduce on the CPU (line 2), each its 1st collective"
    )


def test_a_rank_that_is_behind_by_one_is_no_mismatch_but_can_end_in_one() -> None:
    stuck, why = standstill({0: reduce(2), 1: reduce(1)}, [], 2)
    assert stuck == [0, 1]
    assert "each waits for another" in why


@pytest.mark.parametrize(("one", "other"), [("send", "recv"), ("irecv", "isend")])
def test_two_ends_of_a_message_may_go_on(one: str, other: str) -> None:
    assert standstill({0: Place(2, one, peer=1), 1: Place(2, other, peer=0)}, [], 2) == ([], "")
    assert standstill({0: Place(2, one), 1: Place(2, other)}, [], 2) == ([], "")  # where peers are not known


def test_two_who_receive_from_each_other_are_a_circle() -> None:
    stuck, why = standstill({0: Place(2, "recv", peer=1), 1: Place(3, "recv", peer=0)}, [], 2)
    assert stuck == [0, 1]
    assert why == (
        "rank 0 waits in recv from rank 1 on line 2, rank 1 waits in recv from rank 0 on line 3; "
        "each waits for another, and none can go on"
    )


def test_a_message_to_a_third_rank_is_no_partner() -> None:
    places = {0: Place(2, "send", peer=1), 1: Place(2, "recv", peer=2), 2: Place(2, "recv", peer=1)}
    assert standstill(places, [], 3)[0] == [0, 1, 2]


def test_the_line_of_the_call_is_named_beside_the_line_of_the_wait() -> None:
    assert Place(5, "all_reduce", asked_line=3).words == "waits in all_reduce on line 5 (called on line 3)"
    assert Place(5).words == "computes on line 5"


def test_ranks_in_words() -> None:
    assert [span_words(r) for r in ([2], [0, 1], [0, 1, 2, 3], [0, 2, 3, 4, 7])] == ["2", "0, 1", "0–3", "0, 2–4, 7"]
    assert (ranks_words([3]), ranks_words([0, 1, 2])) == ("rank 3", "ranks 0–2")
