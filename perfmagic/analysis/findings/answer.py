"""What an answer is: a fact, what to do about it, and what the run would take then; and answers as text."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar, NamedTuple

from perfmagic.base import units
from perfmagic.base.language import counted, say, translated
from perfmagic.base.terminal import columns, cut_to_columns, printable, width, wrapped
from perfmagic.trace.json_form import JsonForm

INDENT = "   "  # of a number
GUTTER = 9  # before who decides
MOST_LINES = 3  # of a cell, after an action
MOST_HEADLINES = 3  # in a line of what gains little, or has no remedy


@dataclass(frozen=True)
class Answer(JsonForm):
    """One thing to do about a run; times in ns.

    headline: what was found.
    action: what to do; empty for all answers together.
    rules: of the findings that ask for it.
    before_ns: the recorded run.
    after_ns: what it would take; None where no replay can say.
    low_ns: the least that it would take.
    high_ns: the most that it would take.
    at_most: whether the gain is a bound.
    cost_ns: what the findings cost, for where no replay can say more.
    lines: the lines of the cell that it is about.
    start_ns: the start of what to look at.
    end_ns: the end of what to look at.
    evidence: the sentences of the findings.
    gain_ns: what it would win; None where no replay can say.
    """

    shown: ClassVar[tuple[str, ...]] = ("headline", "action", "before_ns", "after_ns")
    computed = ("gain_ns",)

    headline: str
    action: str
    rules: tuple[str, ...]
    before_ns: int
    after_ns: int | None
    low_ns: int | None
    high_ns: int | None
    at_most: bool
    cost_ns: int | None
    lines: tuple[int, ...]
    start_ns: int
    end_ns: int
    evidence: tuple[str, ...]

    @property
    def gain_ns(self) -> int | None:
        return None if self.after_ns is None else self.before_ns - self.after_ns


@dataclass(frozen=True, repr=False)
class Answers(JsonForm):
    """Who decides how long a run takes, and what to do about it.

    decides: who, in one sentence.
    total_ns: the whole run.
    answers: the most first, at most three.
    together: all that are replayed at once, but bounds; None where these are fewer than two.
    little_gain: headlines of what would win less than 2 % of the run.
    also_seen: headlines of facts without a remedy, and of remedies beyond the third.
    warnings: what is to know of the record itself.
    """

    decides: str
    total_ns: int
    answers: tuple[Answer, ...] = ()
    together: Answer | None = None
    little_gain: tuple[str, ...] = ()
    also_seen: tuple[str, ...] = ()
    warnings: tuple[str, ...] = ()

    def text(self, about: str = "") -> str:
        """Who decides, then two lines for each answer, one for all together, and the rest; as wide as the terminal.

        about: what was recorded, a line of its own.
        """
        shown = translated(self)
        lines = wrapped(f"{units.duration(shown.total_ns):<{GUTTER}}{shown.decides}", indent=GUTTER)
        lines += wrapped(" " * GUTTER + about, indent=GUTTER) if about else []
        for number, answer in enumerate(shown.answers, 1):
            lines.append(_with_times(f"{number:>{len(INDENT)}}  {answer.headline}", answer))
            lines += wrapped(
                f"{INDENT}  → {name_action(answer.headline, answer.action, answer.lines)}", indent=len(INDENT) + 4
            )
        if shown.together is not None:
            lines.append(_with_times(f"{INDENT}  {shown.together.headline}", shown.together))
        for rest in list_rest(shown.little_gain, shown.also_seen):
            lines += wrapped(f"{INDENT}{rest}", indent=len(INDENT))
        lines += [line for warning in shown.warnings for line in wrapped(f"  ! {warning}", indent=4)]
        return "\n".join(line.rstrip() for line in lines)

    def __repr__(self) -> str:
        return self.text()


def name_action(headline: str, action: str, lines: Sequence[int]) -> str:
    """An action with its lines, unless it or the headline names them: "Read the values after the loop (line 5)"."""
    shown = ", ".join([*map(str, lines[:MOST_LINES]), *(["…"] if len(lines) > MOST_LINES else [])])
    where = translated(counted(len(lines), "line {lines}", "lines {lines}", lines=shown))
    is_named = not lines or not action or where in f"{headline} {action}"
    return action if is_named else f"{action} ({where})"


class Times(NamedTuple):
    """What an answer makes of the run, in words.

    before, after: "683 ms" and "614 ms"; without a replay "" and what the findings cost, if that is known.
    sure: the interval, or "at best".
    """

    before: str
    after: str
    sure: str


def times_of(answer: Answer) -> Times:
    """The words of an answer's times, in the language in force."""
    if answer.after_ns is None:
        costs = say("costs {time}", time=units.duration(answer.cost_ns)) if answer.cost_ns else ""
        return Times("", costs, "")
    ends = [units.duration(ns) for ns in (answer.low_ns, answer.high_ns) if ns is not None]
    interval = say("{low} to {high}", low=ends[0], high=ends[1]) if len(set(ends)) > 1 else ""
    sure = say("at best") if answer.at_most else interval
    return Times(units.duration(answer.before_ns), units.duration(answer.after_ns), sure)


def _with_times(left: str, answer: Answer) -> str:
    """A line with what an answer makes of the run at its end; else with what the findings cost."""
    before, right, _ = times_of(answer)
    if before:
        times = f"{before} → {right}"
        right = say("at best {times}", times=times) if answer.at_most else times
    room = width() - columns(right) - 2 if right else width()
    fact = cut_to_columns(printable(left), room)
    return fact + " " * (width() - columns(fact) - columns(right)) + right


def list_rest(little_gain: Sequence[str], also_seen: Sequence[str]) -> list[str]:
    """What gains little and what else was seen, a line each, in the language in force."""
    gain, seen = _list_headlines(little_gain), _list_headlines(also_seen)
    lines = (
        say("little gain: {facts}", facts=gain) if gain else "",
        say("also seen: {facts}", facts=seen) if seen else "",
    )
    return [line for line in lines if line]


def _list_headlines(headlines: Sequence[str]) -> str:
    """The first few headlines, and how many more there are."""
    more = len(headlines) - MOST_HEADLINES
    first = say("; ").join(headlines[:MOST_HEADLINES])
    return say("{first}; {n} more", first=first, n=more) if more > 0 else first
