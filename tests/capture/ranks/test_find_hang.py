"""Which ranks can never go on follows from where they wait, and from nothing else."""

from dataclasses import replace

import pytest

from perfmagic.base.rank_words import describe_ranks, describe_span
from perfmagic.capture.ranks.hangs import Place, find_hang, open_waits, waited_for


def reduce(number: int | None = None, line: int = 2, call: str = "all_reduce", **more: object) -> Place:
    return Place(line=line, call=call, number=number, **more)  # type: ignore[arg-type]


OF_A, OF_B = reduce(1, ranks=(0, 1), group="a"), reduce(1, ranks=(1, 2), group="b")
HALF = reduce(1, ranks=(0, 2), group="half")
# where each rank is, which have ended, how many there are
MAY_GO_ON: dict[str, tuple[dict[int, Place], list[int], int]] = {
    "ranks that compute": ({0: Place(2), 1: Place(3)}, [], 2),
    "who waits for a computing rank": ({0: reduce(), 1: Place(3)}, [], 2),
    "all in one operation": ({0: reduce(1), 1: reduce(1, line=5)}, [], 2),
    "who waits for an ended rank whose device works": ({0: reduce(), 1: Place(device_busy=True)}, [1], 2),
    "a subgroup that is complete": ({0: HALF, 1: Place(), 2: HALF}, [1], 3),
    "who waits for a complete operation": ({0: OF_A, 1: OF_B, 2: OF_B}, [], 3),
    "who waits for a group of unknown ranks": ({0: reduce(), 1: Place(), 2: Place(4)}, [1], 3),
    "who waits for the first group": ({0: Place(4, "init_process_group"), 1: Place()}, [1], 2),
    "who waits for a key": ({0: Place(3, key_wait="store.get('a')"), 1: reduce()}, [], 2),
}


@pytest.mark.parametrize("who", MAY_GO_ON)
def test_who_may_go_on_is_not_ended(who: str) -> None:
    assert find_hang(*MAY_GO_ON[who]) == ([], "")


def test_a_rank_that_has_ended_will_not_join() -> None:
    stuck, why = find_hang({0: reduce(), 1: Place()}, [1], 2)
    assert stuck == [0]
    assert why == "rank 0 waits in all_reduce on line 2; rank 1 has finished the cell and will not join"


def test_ranks_that_do_not_run_the_cell_will_not_join() -> None:
    stuck, why = find_hang({0: reduce(), 2: reduce()}, [], 4)
    assert stuck == [0, 2]
    assert why.endswith("; ranks 1, 3 do not run this cell and will not join")


def test_a_rank_that_waits_for_a_hung_rank_hangs_too() -> None:
    places = {0: reduce(1, ranks=(0, 1), group="a"), 1: reduce(1, ranks=(1, 2), group="b"), 2: Place()}
    stuck, why = find_hang(places, [2], 3)
    assert stuck == [0, 1]
    assert why.endswith("; rank 2 has finished the cell and will not join")


def test_collectives_of_different_kinds_do_not_match() -> None:
    places = {0: reduce(4), 1: reduce(4, call="broadcast", line=7), 2: reduce(4)}
    stuck, why = find_hang(places, [], 3)
    assert stuck == [0, 1, 2]
    assert why == (
        "collectives do not match: ranks 0, 2 are in all_reduce (line 2), rank 1 is in broadcast (line 7), "
        "each its 4th collective"
    )


def test_collectives_of_different_sizes_do_not_match() -> None:
    places = {0: reduce(1, size_bytes=8, line=5, asked_line=3), 1: reduce(1, size_bytes=16)}
    assert find_hang(places, [], 2)[1] == (
        "collectives do not match: rank 0 is in all_reduce of 8 bytes (line 3), "
        "rank 1 is in all_reduce of 16 bytes (line 2), each its 1st collective"
    )


def test_the_same_call_on_the_device_and_on_the_cpu_never_meets() -> None:
    places = {0: reduce(1, on_device=True), 1: reduce(1)}
    assert find_hang(places, [], 2)[1] == (
        "collectives do not match: rank 0 is in all_reduce on the simulated device (line 2), "
        "rank 1 is in all_reduce on the CPU (line 2), each its 1st collective"
    )


def test_a_rank_that_is_behind_by_one_is_no_mismatch_but_can_end_in_one() -> None:
    stuck, why = find_hang({0: reduce(2), 1: reduce(1)}, [], 2)
    assert stuck == [0, 1]
    assert "each waits for another" in why


@pytest.mark.parametrize(("first", "other"), [("send", "recv"), ("irecv", "isend")])
def test_two_ends_of_a_message_may_go_on(first: str, other: str) -> None:
    assert find_hang({0: Place(2, first, peer=1), 1: Place(2, other, peer=0)}, [], 2) == ([], "")
    assert find_hang({0: Place(2, first), 1: Place(2, other)}, [], 2) == ([], "")  # where peers are not known


def test_two_ranks_that_receive_from_each_other_hang() -> None:
    stuck, why = find_hang({0: Place(2, "recv", peer=1), 1: Place(3, "recv", peer=0)}, [], 2)
    assert stuck == [0, 1]
    assert why == (
        "rank 0 waits in recv from rank 1 on line 2, rank 1 waits in recv from rank 0 on line 3; "
        "each waits for another, and none can continue"
    )


def test_a_message_to_a_third_rank_is_no_partner() -> None:
    places = {0: Place(2, "send", peer=1), 1: Place(2, "recv", peer=2), 2: Place(2, "recv", peer=1)}
    assert find_hang(places, [], 3)[0] == [0, 1, 2]


def test_the_line_of_the_call_is_named_beside_the_line_of_the_wait() -> None:
    assert Place(5, "all_reduce", asked_line=3).description == "waits in all_reduce on line 5 (called on line 3)"
    assert Place(5).description == "computes on line 5"


def test_spans_of_ranks_are_described() -> None:
    assert [describe_span(r) for r in ([2], [0, 1], [0, 1, 2, 3], [0, 2, 3, 4, 7])] == ["2", "0, 1", "0–3", "0, 2–4, 7"]
    assert (describe_ranks([3]), describe_ranks([0, 1, 2])) == ("rank 3", "ranks 0–2")


def test_a_rank_that_needs_an_ended_rank_hangs_though_another_computes() -> None:
    stuck, why = find_hang({0: reduce(1, ranks=(0, 1, 2)), 1: Place(), 2: Place(4)}, [1], 3)
    assert stuck == [0]
    assert why.endswith("; rank 1 has finished the cell and will not join")


def test_the_wait_may_be_for_any_pending_operation() -> None:
    message = Place(call="irecv", peer=2)
    pair = reduce(1, ranks=(0, 1), group="a")
    back = Place(2, "recv", peer=0)
    either = Place(3, "irecv", peer=2, under_way=(message, pair))
    assert find_hang({0: either, 1: Place(7), 2: back}, [], 3) == ([], "")
    assert find_hang({0: replace(either, waited=True), 1: Place(7), 2: back}, [], 3)[0] == [0, 2]


def test_a_pending_operation_of_an_ended_rank_counts() -> None:
    place = reduce(2, ranks=(0, 1), group="a")
    assert find_hang({0: place, 1: Place(under_way=(place,))}, [1], 2) == ([], "")
    assert find_hang({0: place, 1: Place(under_way=(reduce(1, ranks=(0, 1), group="a"),))}, [1], 2)[0] == [0]


def test_groups_used_in_another_order_are_named() -> None:
    places = {r: reduce(1, ranks=(0, 1), group=group) for r, group in enumerate(("1", "2"))}
    assert find_hang(places, [], 2)[1] == (
        "rank 0 waits in all_reduce on line 2, the 1st collective of group 1 (ranks 0, 1), "
        "rank 1 waits in all_reduce on line 2, the 1st collective of group 2 (ranks 0, 1); "
        "each waits for another, and none can continue; all ranks have to use their groups in the same order"
    )


def test_the_awaited_rank_is_named_with_its_place() -> None:
    place = reduce(1, ranks=(0, 1), group="0", group_desc="")
    said = "rank 0 waits in all_reduce on line 2, the 1st collective of the default group, rank 1 computes on line 7"
    assert waited_for({0: place, 1: Place(7), 2: Place(9)}, [], 3) == said
    assert waited_for({0: place, 1: Place()}, [1], 2) == ""
    assert waited_for({0: Place(2), 1: Place(7)}, [], 2) == ""


def test_a_rank_of_which_another_thread_runs_may_go_on() -> None:
    here, there = Place(2, "recv", peer=1), Place(3, "recv", peer=0, thread="sender")
    assert find_hang({0: here, 1: there}, [], 2) == ([], "")
    assert find_hang({0: here, 1: Place(thread="sender")}, [1], 2) == ([], "")
    said = "rank 0 waits in recv from rank 1 on line 2, "
    waits = "rank 1 waits in recv from rank 0 on line 3, and its thread sender runs"
    assert waited_for({0: here, 1: there}, [], 2) == said + waits
    assert waited_for({0: here, 1: Place(thread="sender")}, [1], 2) == said + "rank 1 runs its thread sender"


def test_open_waits_name_who_has_arrived_and_where_the_others_are() -> None:
    meeting = Place(4, "init_process_group")
    places = {0: meeting, 2: meeting, 3: Place(9)}
    assert open_waits(places, [1], [4]) == {
        "ranks 0, 2 wait in init_process_group on line 4: 2 of 5 ranks have arrived, "
        "rank 1 has finished the cell, rank 3 computes on line 9, rank 4 has not joined": 0
    }
    assert open_waits({0: meeting}, [], range(1, 8)) == {
        "rank 0 waits in init_process_group on line 4: 1 of 8 ranks has arrived, rank 1 has not joined, "
        "rank 2 has not joined, rank 3 has not joined, rank 4 has not joined and 3 more": 0
    }
    assert open_waits({0: meeting, 1: meeting}, [], []) == {}


def test_each_wait_for_a_key_is_one_of_its_own() -> None:
    wait = Place(3, key_wait="store.get('a')", mark=5)
    assert open_waits({0: wait, 1: Place(4)}, [], []) == {
        "rank 0 waits in store.get('a') on line 3, and no rank has set it": 5
    }
    assert open_waits({0: wait}, [0], []) == {}
