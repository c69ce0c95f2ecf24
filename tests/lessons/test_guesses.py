"""A guess beside what was found: how far off, in words and bars, and what shows without one."""

import pytest

from perfmagic.base.errors import OptionError
from perfmagic.base.language import set_language
from perfmagic.lessons import guess, reveal


@pytest.mark.parametrize(
    ("guessed", "truth", "words"),
    [
        (3, 3.301, "found: 3.30 × · your guess: 3 ×, 9 % too low"),
        (4.5, 3.0, "found: 3.00 × · your guess: 4.50 ×, 50 % too high"),
        (1, 40, "found: 40 × · your guess: 1 ×, too low by a factor of 40"),
        (90, 3.0, "found: 3.00 × · your guess: 90 ×, too high by a factor of 30"),
        (2, 2.004, "found: 2.00 × · your guess: 2 ×, right"),
        (-1, 2, "found: 2 × · your guess: -1 ×, too low"),
        (-1, -2, "found: -2 × · your guess: -1 ×, too high"),
        (5, 0, "found: 0 × · your guess: 5 ×, too high"),
    ],
)
def test_a_number_shows_how_far_off_the_guess_was(guessed: float, truth: float, words: str) -> None:
    guess("gain", guessed, unit="×")
    assert repr(reveal("gain", truth)).replace("\xa0", " ") == words


def test_a_choice_is_right_or_not() -> None:
    guess("shortest", "faster mm", choices=("no item", "faster mm"))
    assert repr(reveal("shortest", "no item")) == "found: no item · your guess: faster mm, wrong"
    assert repr(reveal("shortest", "faster mm")).endswith("faster mm, right")
    guess("rate", 0.12, choices=("0.03", "0.12"))  # without quotes
    assert repr(reveal("rate", "0.12")) == "found: 0.12 · your guess: 0.12, right"


def test_without_a_guess_the_truth_shows_and_nothing_stops() -> None:
    assert repr(guess("gain", None, unit="×")) == "no guess yet"
    assert repr(reveal("gain", 3.3)).replace("\xa0", " ") == "found: 3.30 × · no guess was made"
    assert repr(reveal("asked nowhere", "a word")) == "found: a word · no guess was made"
    assert repr(guess("shortest", None, choices=("a", "b"))) == "no guess yet: a · b"


def test_the_bars_are_as_long_as_the_numbers_are_large() -> None:
    guess("gain", 1, unit="×")
    html = reveal("gain", 4.0)._repr_html_()
    assert "width:240px" in html
    assert "width:60px" in html
    guess("gain", None)
    assert "width:240px" not in reveal("gain", 4.0)._repr_html_()


@pytest.mark.parametrize("value", ["three", True])
def test_a_guess_of_another_kind_is_refused_with_what_to_write(value: str) -> None:
    with pytest.raises(OptionError, match=r'is no number\nHint: guess\("gain", 3\)'):
        guess("gain", value)
    with pytest.raises(OptionError, match="is no choice\nHint: one of 'a', 'b'"):
        guess("letter", value, choices=("a", "b"))


def test_it_speaks_chinese() -> None:
    set_language("zh")
    try:
        guess("gain", 3, unit="×")
        assert repr(reveal("gain", 3.3)).replace("\xa0", " ") == "实际：3.30 × · 你的猜测：3 ×，低了 9 %"
        with pytest.raises(OptionError, match=r"gain：'three' 不是数\nHint"):
            guess("gain", "three")
    finally:
        set_language("en")
