"""Numbers as people read them."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from perfmagic.base import units


@pytest.mark.parametrize(
    ("ns", "text"),
    [
        (0, "0 ns"),
        (7, "7 ns"),
        (999, "999 ns"),
        (1_000, "1.00 µs"),
        (12_345, "12.3 µs"),
        (999_400, "999 µs"),
        (999_700, "1.00 ms"),
        (1_190_000, "1.19 ms"),
        (290_000_000, "290 ms"),
        (43_425_365_000, "43.4 s"),
        (-1_500, "-1.50 µs"),
    ],
)
def test_a_duration_has_three_digits_and_its_natural_unit(ns: float, text: str) -> None:
    assert units.duration(ns).replace(units.NBSP, " ") == text


@settings(deadline=None)
@given(st.floats(1, 1e13))
def test_a_duration_is_within_half_a_percent_of_what_it_says(ns: float) -> None:
    number, unit = units.duration(ns).split(units.NBSP)
    assert float(number) * {"s": 1e9, "ms": 1e6, "µs": 1e3, "ns": 1}[unit] == pytest.approx(ns, rel=0.005, abs=0.5)


def test_seconds_sizes_and_bandwidths_follow_the_same_rule() -> None:
    assert units.duration_s(0.0029) == f"2.90{units.NBSP}ms"
    assert units.size(92_928) == f"92.9{units.NBSP}kB"
    assert units.size(512) == f"512{units.NBSP}B"
    assert units.bandwidth(12e9, 1e9) == f"12.0{units.NBSP}GB/s"


@pytest.mark.parametrize(
    ("value", "text"),
    [(7702, "7,700"), (1_234_567, "1,230,000"), (100, "100"), (99.96, "100"), (84.31, "84.3"), (0.5, "0.500")],
)
def test_tokens_a_second_have_three_digits_and_thousands(value: float, text: str) -> None:
    assert units.tokens_per_s(value) == f"{text}{units.NBSP}tokens/s"


@pytest.mark.parametrize(
    ("fraction", "text"),
    [(0, "0"), (0.004, "<1"), (0.01, "1"), (0.144, "14"), (0.994, "99"), (0.997, ">99"), (1, "100")],
)
def test_percent_never_hides_a_rest(fraction: float, text: str) -> None:
    assert units.percent(fraction) == f"{text}{units.NBSP}%"


def test_counted_nouns_agree_with_their_number() -> None:
    assert units.plural(1, "launch", "launches") == "1 launch"
    assert units.plural(15632, "launch", "launches") == "15,632 launches"
    assert units.plural(0, "op") == "0 ops"


@pytest.mark.parametrize(
    ("value", "text"),
    [(96.04, "96.0"), (0.0123, "0.0123"), (1234.5, "1234"), (9.996, "10.0"), (0, "0"), (-2.5, "-2.50")],
)
def test_significant_digits_without_an_exponent(value: float, text: str) -> None:
    assert units.significant(value) == text


def test_a_share_that_was_measured_keeps_the_digits_that_whole_percent_hide() -> None:
    said = [units.percent_known(frac).replace(units.NBSP, " ") for frac in (0.014, 0.01, 0.1234)]
    assert said == ["1.4 %", "1 %", "12 %"]
    assert units.within(0.03).replace(units.NBSP, " ") == "± 3 %"
    assert [units.given_s(s).replace(units.NBSP, " ") for s in (2.0, 0.25)] == ["2 s", "0.25 s"]


def test_a_time_names_its_bound_from_a_hundredth_on() -> None:
    assert units.known_within(1_200_000, 84_000).replace(units.NBSP, " ") == "1.20 ms ± 84.0 µs"
    assert units.known_within(1_200_000, 12_000).replace(units.NBSP, " ") == "1.20 ms"
    assert units.known_within(0, 0).replace(units.NBSP, " ") == "0 ns"
