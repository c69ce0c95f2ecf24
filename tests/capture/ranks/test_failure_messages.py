"""Several failures are one message: what was raised once, what followed from it in a line each."""

from perfmagic.capture.ranks.failures import Failure, first_of, message_of, type_of
from perfmagic.capture.ranks.hangs import Place

BOOM = Failure(1, "ValueError", "boom", 2, "the traceback")
FREED = Failure(0, "RuntimeError", "Connection closed by peer", 3, "long", BOOM.description, Place(3, "all_reduce"))


def test_the_freed_rank_is_one_line_that_blames_the_other() -> None:
    assert message_of([FREED, BOOM]).split("\n") == [
        "ValueError on rank 1, line 2: boom",
        "the traceback",
        "rank 0 was freed on line 3 while it waited in all_reduce: rank 1 failed on line 2 with ValueError",
    ]
    assert type_of([FREED, BOOM]) == "ValueError"
    assert first_of([FREED, BOOM]) is BOOM


def test_the_same_failure_of_all_ranks_is_said_once() -> None:
    same = [Failure(rank, "ValueError", "boom", 2, "the traceback") for rank in range(4)]
    assert message_of(same) == "ValueError on ranks 0–3, line 2: boom\nthe traceback"


def test_two_failures_are_two() -> None:
    other = Failure(2, "KeyError", "'x'", 5, "another traceback")
    assert message_of([BOOM, other]).count("traceback") == 2
    assert type_of([BOOM, other]) == "RanksFailed"


def test_a_death_is_named_first_and_blamed() -> None:
    died = Failure(2, died="was killed by SIGSEGV")
    lost = Failure(0, "RuntimeError", "[x.cc:5] Connection closed by peer [127.0.0.1]", 4)
    assert message_of([lost, died]).split("\n") == [
        "rank 2 was killed by SIGSEGV",
        "rank 0 lost its connection on line 4: rank 2 was killed by SIGSEGV",
    ]
    assert type_of([lost, died]) == "RankDied"
    assert first_of([lost, BOOM, died]) is died


def test_a_lost_connection_with_nobody_to_blame_keeps_its_own_message() -> None:
    lost = Failure(0, "RuntimeError", "Connection reset by peer", 4)
    assert message_of([lost]) == "rank 0 lost its connection on line 4: Connection reset by peer"


def test_an_interrupt_says_where_each_stood() -> None:
    ranks = [
        Failure(0, "KeyboardInterrupt", line=4, interrupted=True, place=Place(4)),
        Failure(1, "RuntimeError", "Connection closed", 3, interrupted=True, place=Place(3, "recv")),
        Failure(2, "RuntimeError", "Connection closed", 3, interrupted=True, place=Place(3, "recv")),
    ]
    assert message_of(ranks).split("\n") == [
        "rank 0 was interrupted on line 4",
        "ranks 1, 2 were interrupted on line 3 while they waited in recv",
    ]


def test_a_hang_is_reported_once_and_nobody_is_blamed_twice() -> None:
    why = "rank 0 waits in all_reduce on line 2; rank 1 has finished the cell and will not join"
    freed = Failure(0, "RuntimeError", "Connection closed by peer", 2, "long", why, Place(2, "all_reduce"))
    assert message_of([freed], why).split("\n") == [why, "rank 0 was freed on line 2 while it waited in all_reduce"]
    assert type_of([freed], why) == "Deadlock"


def test_in_a_hang_a_connection_is_lost_to_a_rank_that_was_freed_a_moment_earlier() -> None:
    why = "each waits for another, and none can continue"
    freed = Failure(0, "RuntimeError", "Connection closed by peer", 3, "long", why, Place(3, "recv", peer=1))
    lost = Failure(1, "RuntimeError", "recv failed: Connection closed by peer", 3, place=Place(3, "recv", peer=0))
    assert message_of([freed, lost], why).split("\n") == [
        why,
        "rank 0 was freed on line 3 while it waited in recv with rank 1",
        "rank 1 was freed on line 3 while it waited in recv with rank 0",
    ]
