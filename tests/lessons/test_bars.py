"""Bars: as long as the numbers are large, each with its number and where it is from."""

import pytest

from perfmagic.base.errors import OptionError
from perfmagic.base.terminal import columns
from perfmagic.lessons import bars


def lengths(shown: object) -> list[int]:
    """How many letters each bar has."""
    return [sum(line.count(letter) for letter in "█▒░") for line in repr(shown).splitlines()]


def test_a_bar_is_as_long_as_its_number_and_the_smallest_stands_first() -> None:
    shown = bars("B/s", measured={"memory": 20e9}, computed={"bus": 10e9}, published={"disk": 5e9}, log=False)
    assert lengths(shown) == [8, 16, 32]
    assert [line.split()[-1] for line in repr(shown).splitlines()] == ["published", "computed", "measured"]
    assert lengths(bars("B/s", measured={"large": 2.0, "small": 1.0}, log=False, sort=False)) == [32, 16]


def test_on_a_logarithmic_axis_ten_times_as_much_is_a_step_more() -> None:
    shown = bars("s", published={"a": 1e-9, "b": 1e-8, "c": 1e-7, "d": 1e-6})
    assert lengths(shown) == [8, 16, 24, 32, 0]
    assert "repeating-linear-gradient(90deg,#9aa0a655 0 1px,transparent 1px 80.0px)" in shown._repr_html_()
    assert [f"width:{px}px;height" in shown._repr_html_() for px in (80, 160, 240, 320)] == [True] * 4


def test_numbers_of_one_name_stand_together_where_the_published_one_belongs() -> None:
    shown = bars("s", measured={"cache": 5e-8}, published={"cache": 1e-9, "memory": 1e-8})
    assert [(name, source) for name, _, source in shown.rows] == [
        ("cache", "measured"),
        ("cache", "published"),
        ("memory", "published"),
    ]


@pytest.mark.parametrize(
    ("unit", "number", "words"),
    [
        ("s", 1.5e-9, "1.50 ns"),
        ("s", 0.15, "150 ms"),
        ("B/s", 125e6, "125 MB/s"),
        ("FLOP/s", 65e12, "65.0 TFLOP/s"),
        ("reads/s", 100, "100 reads/s"),
        ("reads/s", 8333.3, "8,333 reads/s"),
    ],
)
def test_a_number_has_its_unit(unit: str, number: float, words: str) -> None:
    assert words in repr(bars(unit, measured={"x": number})).replace("\xa0", " ")


@pytest.mark.parametrize("numbers", [{}, {"x": 0}, {"x": -1}, {"x": float("inf")}, {"x": float("nan")}])
def test_without_numbers_above_zero_there_are_no_bars(numbers: dict[str, float]) -> None:
    with pytest.raises(OptionError, match="bars need numbers above 0"):
        bars("s", measured=numbers)


def test_names_of_wide_letters_do_not_shift_the_bars() -> None:
    rows = repr(bars("s", measured={"内存": 1.0, "disk": 1.0})).splitlines()[:2]
    assert len({columns(row.partition("█")[0]) for row in rows}) == 1
