"""What ranks have to agree on before an operation, and how it is said where they do not."""

from dataclasses import replace
from typing import Any

import pytest

from perfmagic.base.rank_words import nth
from perfmagic.base.user_lines import describe_line
from perfmagic.sim.groups.agreement import Header, disagreement, message_disagreement

CELL = "<ipython-input-5-0123456789ab>"


def header(title: str = "all_reduce", sizes: tuple[int, ...] = (10,), **more: Any) -> Header:
    fields = {"kind": title, "dtype": "float32", "reduce_op": "", "where": "line 3", "number": 2, "root": -1} | more
    return Header(
        title=title, size_bytes=4 * sum(sizes), sizes=sizes, n_sizes=len(sizes), checksum=Header.checksum_of(sizes),
        **fields,
    )  # fmt: skip


def test_a_header_of_fixed_length_survives_packing() -> None:
    few = header("broadcast", (7, 9), root=1, reduce_op="MAX", where="cell 4, line 12")
    assert len(few.pack(2)) == Header.length(2)
    assert Header.unpack(few.pack(2)) == few
    many = header(sizes=tuple(range(100)))
    assert Header.unpack(many.pack(3)) == replace(many, sizes=(0, 1, 2, 3, 4, 5))  # as many as fit, and their number
    parted = header("all_to_all", (), puts=(1, 0, 2), gets=(3, 3, 3))
    assert len(parted.pack(3)) == Header.length(3)
    assert Header.unpack(parted.pack(3)) == parted
    long = header(where="a_very_long_name_of_a_file_" * 5)
    assert long.where.startswith(Header.unpack(long.pack(2)).where)
    assert Header.unpack(header(where="ä" * 60).pack(2)).where.startswith("ä" * 31)


@pytest.mark.parametrize(
    ("first", "second", "reason"),
    [
        (
            header(), header(sizes=(20,), where="line 5"),
            ("rank 4 is in all_reduce of 40 bytes of float32 (line 3), rank 7 is in all_reduce of 80 bytes of float32 "
            "(line 5), each its 2nd collective"),
        ),
        (
            header(), header("broadcast", root=0),
            "rank 4 is in all_reduce (line 3), rank 7 is in broadcast (line 3), each its 2nd collective",
        ),
        (
            header("broadcast", root=0), header("broadcast", root=1, where=""),
            "rank 4 is in broadcast from rank 4 (line 3), rank 7 is in broadcast from rank 7, each its 2nd collective",
        ),
        (
            header("reduce", root=0), header("reduce", root=1),
            "rank 4 is in reduce to rank 4 (line 3), rank 7 is in reduce to rank 7 (line 3), each its 2nd collective",
        ),
        (
            header(reduce_op="SUM"), header(reduce_op="MAX", number=3),
            ("rank 4 is in all_reduce with SUM (line 3), its 2nd collective, "
            "rank 7 is in all_reduce with MAX (line 3), "
            "its 3rd collective"),
        ),
        (
            header(sizes=(1, 2)), header(sizes=(2, 1)),
            ("rank 4 is in all_reduce of 12 bytes of float32 in tensors of 1, 2 elements (line 3), "
            "rank 7 is in all_reduce of 12 bytes of float32 in tensors of 2, 1 elements (line 3), "
            "each its 2nd collective"),
        ),
        (
            header("all_to_all", (), puts=(2, 3), gets=(2, 5)), header("all_to_all", (), puts=(4, 1), gets=(3, 1)),
            ("in all_to_all rank 7 has 4 elements for rank 4 (line 3), which expects 5 (line 3), "
            "each its 2nd collective"),
        ),
    ],
)  # fmt: skip
def test_what_does_not_match_is_described_for_each_rank(first: Header, second: Header, reason: str) -> None:
    assert disagreement([first, second], (4, 7)) == f"collectives do not match: {reason}"


def test_ranks_with_equal_calls_are_described_once() -> None:
    assert disagreement([header(), header(sizes=(5,)), header()], (0, 1, 2)) == (
        "collectives do not match: ranks 0, 2 are in all_reduce of 40 bytes of float32 (line 3), "
        "rank 1 is in all_reduce of 20 bytes of float32 (line 3), each its 2nd collective"
    )


def test_ranks_agree_though_lines_numbers_and_calls_differ() -> None:
    first, second = header("all_gather"), header("all_gather_into_tensor", kind="all_gather", where="line 9", number=8)
    assert disagreement([first, second], (0, 1)) == ""
    uneven = [header("all_to_all", (), puts=(1, 2), gets=(1, 3)), header("all_to_all", (), puts=(3, 0), gets=(2, 0))]
    assert disagreement(uneven, (0, 1)) == ""


def test_both_ends_of_a_message_have_one_size_and_type() -> None:
    sent, received = header("send"), header("recv", (20,), where="line 4")
    assert message_disagreement(sent, header("recv"), 0, 1) == ""
    assert message_disagreement(sent, received, 0, 1) == (
        "messages do not match: rank 0 is in send of 40 bytes of float32 to rank 1 (line 3), "
        "rank 1 is in recv of 80 bytes of float32 from rank 0 (line 4)"
    )
    assert "of 40 bytes of int32 from rank 0" in message_disagreement(sent, header("recv", dtype="int32"), 0, 1)


def test_a_line_is_named_with_its_cell_or_file() -> None:
    assert describe_line("", 0) == ""
    assert describe_line("/home/me/train.py", 12) == "train.py, line 12"
    assert describe_line(CELL, 3) == "line 3"  # nothing says that another cell runs
    names: dict[str, Any] = {"describe_line": describe_line, "CELL": CELL}
    exec(compile("later = describe_line(CELL, 3)", "<ipython-input-6-0123456789ab>", "exec"), names)
    assert names["later"] == "cell 5, line 3"
    exec(compile("same = describe_line(CELL, 3)", "<ipython-input-5-ba9876543210>", "exec"), names)
    assert names["same"] == "line 3"


def test_ordinals_have_their_endings() -> None:
    assert [nth(n) for n in (1, 2, 3, 4, 11, 12, 13, 21, 102, 111)] == [
        "1st", "2nd", "3rd", "4th", "11th", "12th", "13th", "21st", "102nd", "111th"
    ]  # fmt: skip
