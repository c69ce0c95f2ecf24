"""Where ranks hang, by their flight recorders: each job has one fault, and the first sentence names it."""

from collections.abc import Callable, Sequence
from pathlib import Path

import pytest

from perfmagic.results import FlightResult
from perfmagic.trace.formats.flight import read_dump
from tests.trace.formats.flight_dumps import Recorder, all_call, job

DP, TP, TP_OTHER = ("7", "dp"), ("3", "tp"), ("4", "tp")
GROUPS = {DP: range(4), TP: [0, 1], TP_OTHER: [2, 3]}


Opened = Callable[[Sequence[Recorder]], FlightResult]


@pytest.fixture
def opened(tmp_path: Path) -> Opened:
    def of(recorders: Sequence[Recorder]) -> FlightResult:
        return FlightResult.of([read_dump(recorder.write(tmp_path)) for recorder in recorders])

    return of


def started_job(n: int = 4, groups: dict[tuple[str, str], Sequence[int]] = GROUPS) -> list[Recorder]:
    ranks = job(n, groups if n == 4 else None)
    all_call(ranks, "broadcast")
    return ranks


def first(result: FlightResult) -> tuple[str, str, str]:
    answer = next(iter(result.conclusion.proposals), None)
    return result.conclusion.decides, answer.headline if answer else "", answer.action if answer else ""


def test_the_rank_that_never_came_is_named_with_its_last_line(opened: Opened) -> None:
    ranks = started_job()
    for _ in range(416):
        all_call(ranks, "all_reduce", DP, line=88)
    all_call(ranks[:3], "all_reduce", DP, line=90, state="scheduled")
    assert first(opened(ranks)) == (
        "Rank 3 never came to all_reduce #417 of group dp: ranks 0–2 wait there",
        "The last call of rank 3 was all_reduce #416 of group dp (train.py, line 88)",
        "Look at what rank 3 runs after train.py, line 88",
    )
    (standstill,) = opened(ranks).standstills
    assert (standstill.kind, standstill.ranks, standstill.absent) == ("absent", (0, 1, 2), (3,))
    rows = opened(ranks).ranks
    assert (rows[0].last_ended, rows[0].waits_in, rows[0].line) == ("all_reduce #416 · dp", "all_reduce #417 · dp", 90)
    assert (rows[3].waits_in, rows[3].line, rows[3].n_calls) == ("", 88, 417)


def test_of_nested_groups_the_rank_that_waits_nowhere_comes_first(opened: Opened) -> None:
    ranks = started_job()
    ranks[2].call("all_reduce", TP_OTHER, state="scheduled")  # rank 3 does not come to it
    all_call(ranks[:2], "all_reduce", TP)
    all_call(ranks[:2], "all_gather", DP, state="scheduled")  # nor do ranks 2 and 3
    ranks[3].call("broadcast", line=70)
    found = opened(ranks)
    assert {one.kind for one in found.standstills} == {"absent"}
    assert all(3 in one.absent for one in found.standstills)
    assert first(found)[1] == "The last call of rank 3 was broadcast #2 of the default group (train.py, line 70)"


def test_ranks_that_wait_because_others_do_are_no_answer(opened: Opened) -> None:
    ranks = started_job()
    ranks[2].call("all_reduce", TP_OTHER, state="scheduled")
    all_call(ranks[:2], "all_gather", DP, state="scheduled")
    ranks[3].call("all_gather", DP, state="scheduled")  # only rank 2 is missing, and waits for rank 3 in tp
    ranks[3].call("all_reduce", TP_OTHER, state="scheduled")
    transfer, follows = opened(ranks).standstills
    assert (follows.kind, follows.absent, transfer.kind, transfer.group) == ("follows", (2,), "transfer", "4")


def test_groups_in_different_orders_are_a_circle(opened: Opened) -> None:
    ranks = started_job()
    ranks[0].call("all_reduce", TP, state="scheduled")
    ranks[1].call("all_reduce", DP, state="scheduled")
    all_call(ranks[2:], "all_reduce", DP, state="scheduled")
    where = "rank 0 in all_reduce #1 of group tp, ranks 1–3 in all_reduce #1 of group dp"
    assert first(opened(ranks)) == (
        f"Each waits for another, and none can continue: {where}",
        "Groups are used in different orders",
        "Have all ranks use their groups in the same order",
    )


@pytest.mark.parametrize(
    ("calls", "cause", "action"),
    [
        (["recv 0<-1", "recv 1<-0"], "Each rank receives before it sends", "Reverse the order on one rank"),
        (["send 0->1", "send 1->0"], "Each rank sends before it receives", "Reverse the order on one rank"),
        (
            ["recv 0<-1", "send 1->2", "recv 2<-0"],
            "Messages are sent and received in different orders",
            "Reverse the order on one rank",
        ),
        (
            ["recv 0<-1", "all_reduce"],
            "Rank 0 waits for a message, and rank 1 is in a collective",
            "Have all ranks call messages and collectives in the same order",
        ),
        (
            ["all_reduce", "send 1->0"],
            "Rank 1 waits to send a message, and rank 0 is in a collective",
            "Have all ranks call messages and collectives in the same order",
        ),
    ],
)
def test_messages_in_a_circle_are_no_order_of_groups(
    calls: Sequence[str], cause: str, action: str, opened: Opened
) -> None:
    ranks = job(len(calls))
    for recorder, name in zip(ranks, calls, strict=True):
        recorder.call(name, state="scheduled", line=40 + recorder.rank)
    found = opened(ranks)
    sentence, headline, todo = first(found)
    assert sentence.startswith("Each waits for another")
    assert (headline, todo.startswith(action)) == (cause, True)
    assert found.standstills[0].ranks == tuple(range(len(calls)))


def test_a_circle_names_the_lines_of_its_calls(opened: Opened) -> None:
    ranks = job(2)
    ranks[0].call("recv 0<-1", state="scheduled", line=40)
    ranks[1].call("recv 1<-0", state="scheduled", line=50)
    _, one, other = opened(ranks).conclusion.proposals
    assert one.headline == "Rank 0 in recv #1 from rank 1 of the default group (train.py, line 40)"
    assert one.action == "Compare it with train.py, line 50 on rank 1"
    assert (one.line, other.line, other.function) == (40, 50, "train_step")


def test_what_waits_behind_a_circle_is_no_part_of_it(opened: Opened) -> None:
    ranks = job(4)
    for rank, peer in enumerate([1, 2, 1, 0]):  # ranks 0 and 3 wait behind 1 and 2
        ranks[rank].call(f"recv {rank}<-{peer}", state="scheduled")
    circle, *behind = opened(ranks).standstills
    assert (circle.kind, circle.ranks) == ("circle", (1, 2))
    assert [one.kind for one in behind] == ["follows"] * 4
    assert circle.sentence.endswith(
        ": rank 1 in recv #1 from rank 2 of the default group, rank 2 in recv #1 from rank 1 of the default group"
    )


@pytest.mark.parametrize(("n", "more"), [(3, ""), (4, ", and 1 more call"), (5, ", and 2 more calls")])
def test_a_long_circle_says_how_many_calls_it_leaves_out(n: int, more: str, opened: Opened) -> None:
    ranks = job(n)
    for rank in range(n):
        ranks[rank].call(f"recv {rank}<-{(rank + 1) % n}", state="scheduled")
    (circle, *_) = opened(ranks).standstills
    assert circle.sentence.endswith(f"rank 2 in recv #1 from rank {3 % n} of the default group{more}")
    assert circle.ranks == tuple(range(n))


def test_calls_that_ended_are_no_standstill_though_they_do_not_match(opened: Opened) -> None:
    ranks = job(2)
    ranks[0].call("all_reduce", sizes=[4])
    ranks[1].call("all_reduce", sizes=[8])
    all_call(ranks, "all_reduce")
    found = opened(ranks)
    assert first(found)[0] == "No rank hangs: the last common collective is all_reduce #2 of the default group"
    assert len(found.standstills) == 0
    said = "all_reduce #1 of the default group has 16\u00a0B on rank 0, 32\u00a0B on rank 1"
    assert found.conclusion.warnings == (f"collectives do not match: {said}",)
    ranks[0].call("all_reduce", state="scheduled")
    found = opened(ranks)
    assert [one.kind for one in found.standstills] == ["absent"]  # the job moved on from what did not match
    assert found.conclusion.warnings == (f"collectives do not match: {said}",)


def test_calls_that_ended_and_that_the_group_never_got_over_are_a_standstill(opened: Opened) -> None:
    ranks = job(2)
    all_call(ranks, "all_reduce")
    ranks[0].call("all_reduce", sizes=[4])
    ranks[1].call("all_reduce", sizes=[8])
    ranks[0].call("all_reduce", state="scheduled")
    assert {one.kind for one in opened(ranks).standstills} == {"mismatch", "absent"}


def test_dumps_without_calls_name_the_option_that_records_them(opened: Opened) -> None:
    found = opened(job(2))
    assert found.conclusion.decides == "No rank hangs: the dumps hold no call"
    assert found.conclusion.warnings == ("torch records calls only if TORCH_FR_BUFFER_SIZE is above 0",)


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"name": "broadcast"}, "#2 of group dp is broadcast on rank 1, all_reduce on ranks 0, 2, 3"),
        ({"sizes": [512]}, "all_reduce #2 of group dp has 2.05\u00a0kB on rank 1, 4.10\u00a0kB on ranks 0, 2, 3"),
        ({"dtype": "Int"}, "all_reduce #2 of group dp has Int on rank 1, Float on ranks 0, 2, 3"),
    ],
)
def test_calls_that_do_not_match_are_named_with_both_lines(options: dict, said: str, opened: Opened) -> None:
    ranks = started_job()
    all_call(ranks, "all_reduce", DP)
    for recorder in ranks:
        odd = options if recorder.rank == 1 else {}
        recorder.call(**{"name": "all_reduce", "group": DP, "line": 60 + recorder.rank, "state": "scheduled"} | odd)
    sentence, headline, action = first(opened(ranks))
    assert sentence == f"Collectives do not match: {said}"
    assert headline.endswith("on rank 1 (train.py, line 61)")
    assert action == "Compare it with train.py, line 60 on ranks 0, 2, 3"


@pytest.mark.parametrize(("name", "side"), [("all_to_all", "sizes"), ("scatter", "sizes"), ("gather", "outputs")])
def test_sizes_that_may_differ_are_no_mismatch(name: str, side: str, opened: Opened) -> None:
    ranks = started_job()
    for recorder in ranks:
        recorder.call(name, DP, **{"outputs": [4], "sizes": [4]} | {side: [1 + recorder.rank]})
    assert opened(ranks).conclusion.decides.startswith("No rank hangs")


def test_a_rank_without_a_dump_is_not_blamed(opened: Opened) -> None:
    ranks = started_job()
    all_call(ranks, "all_reduce", DP, state="scheduled")
    found = opened([ranks[0], ranks[2]])
    assert first(found)[0] == "Ranks 0, 2 wait in all_reduce #1 of group dp, and ranks 1, 3 left no dump"
    all_call(ranks, "barrier")
    for recorder in ranks:
        recorder.entries[1]["state"] = "completed"
    assert opened([ranks[0]]).conclusion.warnings == ("there is no dump from ranks 1–3",)


def test_groups_without_ranks_are_those_that_used_them(opened: Opened) -> None:
    ranks = started_job()
    all_call(ranks[:2], "all_reduce", TP, state="scheduled")
    for recorder in ranks:
        recorder.groups = {("", ""): [], **dict.fromkeys(recorder.groups, ())}  # as gloo does
    found = opened(ranks)
    assert first(found)[0] == "Ranks 0, 1 wait in all_reduce #1 of group tp, and the dumps do not say for whom"
    assert found.conclusion.warnings == (
        "the dumps do not say how many ranks the job has",
        "the dumps do not name the ranks of group tp: those that used it count",
    )


@pytest.mark.parametrize(
    ("states", "sentence"),
    [
        (["started"] * 4, "No rank is missing in all_reduce #1 of group dp, and it had not ended"),
        (["started"] * 3 + ["scheduled"], "Ranks 0–2 began all_reduce #1 of group dp, and rank 3 did not"),
    ],
)
def test_where_all_ranks_came_their_devices_are_asked(states: list[str], sentence: str, opened: Opened) -> None:
    ranks = started_job()
    for recorder, state in zip(ranks, states, strict=True):
        recorder.call("all_reduce", DP, state=state)
    assert first(opened(ranks))[0] == sentence


def test_a_message_needs_its_other_end(opened: Opened) -> None:
    ranks = started_job()
    ranks[2].call("send 0->1", TP_OTHER, state="scheduled", line=44)  # ranks 2 and 3 are 0 and 1 in their group
    sentence = first(opened(ranks))[0]
    assert sentence == "Rank 2 waits in send #1 to rank 3 of group tp, and rank 3 has no recv for it"
    ranks[3].call("recv 1<-0", TP_OTHER, state="scheduled", sizes=[512])
    assert first(opened(ranks))[0] == (
        "Messages do not match: send #1 to rank 3 of group tp has 4.10\u00a0kB on rank 2, 2.05\u00a0kB on rank 3"
    )
    ranks[3].entries[-1] |= {"input_sizes": [[1024]], "output_sizes": [[1024]]}
    assert first(opened(ranks))[0] == "No rank is missing in send #1 to rank 3 of group tp, and it had not ended"


def test_a_message_whose_other_end_has_ended_is_on_its_way(opened: Opened) -> None:
    ranks = started_job()
    ranks[2].call("send 0->1", TP_OTHER)
    ranks[3].call("recv 1<-0", TP_OTHER, state="scheduled")
    assert first(opened(ranks))[0] == "No rank is missing in send #1 to rank 3 of group tp, and it had not ended"
    del ranks[2].entries[0]  # where the buffer forgot some, only open ends are matched
    assert first(opened(ranks))[0].endswith("rank 2 has no send for it")


def test_an_end_that_is_noted_late_hides_no_absent_rank(opened: Opened) -> None:
    ranks = started_job()
    all_call(ranks, "barrier", DP)
    ranks[3].entries[-1]["state"] = "scheduled"
    assert first(opened(ranks))[0] == "No rank is missing in barrier #1 of group dp, and it had not ended"
    all_call(ranks[:3], "all_reduce", DP, state="scheduled")
    assert first(opened(ranks))[0] == "Rank 3 never came to all_reduce #2 of group dp: ranks 0–2 wait there"


def test_a_rank_whose_buffer_began_later_did_come(opened: Opened) -> None:
    ranks = started_job()
    all_call(ranks, "all_reduce", DP, state="scheduled")
    ranks[3].call("all_reduce", DP, state="scheduled")
    del ranks[3].entries[:2]  # a ring buffer forgets
    assert first(opened(ranks))[0] == "No rank is missing in all_reduce #1 of group dp, and it had not ended"
    assert [row.n_lost for row in opened(ranks).ranks] == [0, 0, 0, 2]


def test_a_job_that_goes_on_says_so(opened: Opened) -> None:
    ranks = started_job()
    all_call(ranks, "all_reduce", DP)
    found = opened(ranks)
    assert first(found) == ("No rank hangs: the last common collective is all_reduce #1 of group dp", "", "")
    assert (len(found.standstills), found.conclusion.warnings) == (0, ())


def test_a_rank_that_recorded_nothing_is_said_so(opened: Opened) -> None:
    ranks = job(2)
    ranks[0].call("all_reduce", state="scheduled")
    assert first(opened(ranks)) == (
        "Rank 1 never came to all_reduce #1 of the default group: rank 0 waits there",
        "Rank 1 recorded no call",
        "Read the log of rank 1",
    )
