"""Tables of plain text that fit a terminal."""

import pytest

from perfmagic.base.tables import Table, text_blocks, text_lines
from perfmagic.base.terminal import WIDEST_PROSE, wrapped

HEAD = ("kernel", "runs", "total")
ROWS = [("a_kernel_with_a_name_of_forty_characters", "12", "3.40 ms"), ("核函数", "1,200", "9.00 µs")]
TABLE = Table("", HEAD, ROWS)


@pytest.mark.parametrize(
    ("columns", "lines"),
    [
        (
            "70",
            [
                "kernel                                       runs    total",
                "a_kernel_with_a_name_of_forty_characters       12  3.40 ms",
                "核函数                                      1,200  9.00 µs",
            ],
        ),
        (
            "50",  # no number is cut
            [
                "kernel",
                "a_kernel_with_a_name_of_forty_characters",
                "    runs 12, total 3.40 ms",
                "核函数",
                "    runs 1,200, total 9.00 µs",
            ],
        ),
    ],
)
def test_a_table_that_does_not_fit_takes_several_lines_a_row(
    columns: str, lines: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", columns)
    assert text_lines(TABLE) == lines


def test_names_that_may_be_shortened_give_way_first(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "50")
    asked: list[int] = []

    def shorten(names: object, max_columns: int) -> list[str]:
        asked.append(max_columns)
        return ["a" * max_columns, "b"]

    lines = text_lines(TABLE, shorten=shorten)
    assert asked == [50 - 7 - 9 - 2]
    assert [len(line) for line in lines] == [50, 50, 50]


def test_each_row_has_its_own_lines(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "50")
    assert [len(block) for block in text_blocks(TABLE)] == [1, 2, 2]


def test_sentences_are_as_wide_as_the_terminal_but_no_wider_than_can_be_read(monkeypatch: pytest.MonkeyPatch) -> None:
    words = "word " * 100
    for columns, widest in ((60, 60), (100, 100), (400, WIDEST_PROSE)):
        monkeypatch.setenv("COLUMNS", str(columns))
        assert widest - 5 < max(map(len, wrapped(words))) <= widest
