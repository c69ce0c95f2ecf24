"""A guess before a measurement, and what was found beside it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TypeAlias

from perfmagic.base import units
from perfmagic.base.errors import OptionError
from perfmagic.base.language import say
from perfmagic.view.html import framed, short

Value: TypeAlias = "float | str | None"

RIGHT_FRAC = 0.005  # what three shown digits cannot tell apart
MOST_PERCENT = 2.0  # a larger ratio is said as a factor
BAR_PX = 240
GUESSED, FOUND = "#9aa0a6", "#3b7dd8"  # grey and blue, on light and dark ground

_guesses: dict[str, Guess] = {}


@dataclass(frozen=True)
class Guess:
    """What a cell noted: a number in a unit, one of some choices, or nothing yet."""

    value: Value = None
    unit: str = ""
    choices: tuple[str, ...] = ()

    def shown(self, value: Value) -> str:
        """A value of its kind as text."""
        if isinstance(value, str) or value is None:
            return value or ""
        number = units.count(value) if isinstance(value, int) else units.significant(value)
        return number + (f"{units.NBSP}{self.unit}" if self.unit else "")

    def __repr__(self) -> str:
        if self.value is not None:
            return say("your guess: {guess}", guess=self.shown(self.value))
        if self.choices:
            return say("no guess yet: {choices}", choices=" · ".join(self.choices))
        return say("no guess yet")

    def _repr_html_(self) -> str:
        return framed(short(repr(self)))


@dataclass(frozen=True)
class Reveal:
    """What was found, beside what was guessed."""

    guess: Guess
    truth: float | str

    @property
    def said(self) -> str:
        """The guess, and how far off it was."""
        value = self.guess.value
        if value is None:
            return say("no guess was made")
        return say("your guess: {guess}, {how}", guess=self.guess.shown(value), how=_how_far(value, self.truth))

    def __repr__(self) -> str:
        return say("found: {truth} · {guess}", truth=self.guess.shown(self.truth), guess=self.said)

    def _repr_html_(self) -> str:
        value, truth = self.guess.value, self.truth
        if isinstance(value, str) or isinstance(truth, str) or value is None:
            return framed(short(repr(self)))
        longest = max(abs(value), abs(truth)) or 1.0
        rows = [(FOUND, truth, say("found: {truth}", truth=self.guess.shown(truth))), (GUESSED, value, self.said)]
        return framed("".join(_bar(colour, abs(number) / longest, words) for colour, number, words in rows))


def guess(name: str, value: Value, *, unit: str = "", choices: Sequence[str] = ()) -> Guess:
    """Note a guess by name, before the measurement that reveal() ends.

    value: a number in `unit`, or one of `choices`; None for no guess. A later guess of the same name replaces it.
    Raises OptionError for a value that is none of the choices, or no number where there are none.

    >>> from perfmagic.lessons import guess, reveal
    >>> guess("gain", 3, unit="×")
    your guess: 3 ×
    >>> reveal("gain", 3.3)
    found: 3.30 × · your guess: 3 ×, 9 % too low
    """
    __tracebackhide__ = True
    value = str(value) if str(value) in choices else value  # 0.12 for "0.12"
    noted = Guess(value, unit, tuple(choices))
    if value is not None:
        _check(name, noted, value)
    _guesses[name] = noted
    return noted


def reveal(name: str, truth: float | str) -> Reveal:
    """Show what was found beside the guess of that name; without a guess, that there was none.

    truth: in the guess' unit, or one of its choices. Raises OptionError as guess() does.
    """
    __tracebackhide__ = True
    noted = _guesses.get(name, Guess())
    if noted.choices or not isinstance(truth, str):
        _check(name, noted, truth)
    return Reveal(noted, truth)


def _check(name: str, noted: Guess, value: float | str) -> None:
    """Raise OptionError for a value of another kind."""
    __tracebackhide__ = True
    if noted.choices and value not in noted.choices:
        choices = ", ".join(map(repr, noted.choices))
        raise OptionError(
            say("{name}: {value} is no choice", name=name, value=repr(value)),
            hint=say("one of {choices}", choices=choices),
        )
    if not noted.choices and (isinstance(value, (bool, str)) or not hasattr(value, "__float__")):
        raise OptionError(say("{name}: {value} is no number", name=name, value=repr(value)), hint=f'guess("{name}", 3)')


def _how_far(value: float | str, truth: float | str) -> str:
    """In words: "right", "9 % too low", "too high by a factor of 5.0"."""
    if isinstance(value, str) or isinstance(truth, str):
        return say("right") if value == truth else say("wrong")
    if abs(value - truth) <= RIGHT_FRAC * abs(truth):
        return say("right")
    high = value > truth
    if value <= 0 or truth <= 0:  # no ratio of both says anything
        return say("too high") if high else say("too low")
    ratio = value / truth
    if 1 / MOST_PERCENT <= ratio <= MOST_PERCENT:
        share = units.percent(abs(ratio - 1))
        return say("{share} too high", share=share) if high else say("{share} too low", share=share)
    factor = units.significant(max(ratio, 1 / ratio), 2)
    return (
        say("too high by a factor of {factor}", factor=factor)
        if high
        else say("too low by a factor of {factor}", factor=factor)
    )


def _bar(colour: str, share: float, words: str) -> str:
    """A bar in a column of bars, and what it stands for; no bar is so short that it cannot be seen."""
    bar = f'<span style="display:inline-block;width:{max(2, round(share * BAR_PX))}px;height:10px;background:{colour}">'
    return f'<div><span style="display:inline-block;width:{BAR_PX + 8}px">{bar}</span></span>{short(words)}</div>'
