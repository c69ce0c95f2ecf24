"""What an answer is: a fact, what to do about it, and what the run would take then; and answers as text."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar, NamedTuple

from perfmagic.base import units
from perfmagic.base.terminal import columns, cut_to_columns, printable, width, wrapped
from perfmagic.trace.json_form import JsonForm

INDENT = "   "  # of a number
GUTTER = 9  # before who decides
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
    line: of the cell, 0 for none.
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
    line: int
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

    @property
    def others(self) -> tuple[str, ...]:
        """What is no answer, a line each: "little gain: …", "also seen: …"."""
        named = (("little gain", self.little_gain), ("also seen", self.also_seen))
        return tuple(f"{name}: {list_headlines(headlines)}" for name, headlines in named if headlines)

    def text(self, about: str = "") -> str:
        """Who decides, then two lines for each answer, one for all together, and the rest; as wide as the terminal.

        about: what was recorded, a line of its own.
        """
        lines = wrapped(f"{units.duration(self.total_ns):<{GUTTER}}{self.decides}", indent=GUTTER)
        lines += wrapped(" " * GUTTER + about, indent=GUTTER) if about else []
        for number, answer in enumerate(self.answers, 1):
            lines.append(_with_times(f"{number:>{len(INDENT)}}  {answer.headline}", answer))
            several = f" ({units.count(len(answer.evidence))} findings)" if len(answer.evidence) > 1 else ""
            lines += wrapped(f"{INDENT}  → {answer.action}{several}", indent=len(INDENT) + 4)
        if self.together is not None:
            lines.append(_with_times(f"{INDENT}  {self.together.headline}", self.together))
        for others in self.others:
            lines += wrapped(f"{INDENT}{others}", indent=len(INDENT))
        lines += [line for warning in self.warnings for line in wrapped(f"  ! {warning}", indent=4)]
        return "\n".join(line.rstrip() for line in lines)

    def __repr__(self) -> str:
        return self.text()


class Times(NamedTuple):
    """What an answer makes of the run, in words.

    before, after: "683 ms" and "614 ms"; without a replay "" and what the findings cost, if that is known.
    sure: the interval, or "at best".
    """

    before: str
    after: str
    sure: str


def times_of(answer: Answer) -> Times:
    """The words of an answer's times."""
    if answer.after_ns is None:
        return Times("", f"costs {units.duration(answer.cost_ns)}" if answer.cost_ns else "", "")
    ends = [units.duration(ns) for ns in (answer.low_ns, answer.high_ns) if ns is not None]
    sure = "at best" if answer.at_most else " to ".join(ends) if len(set(ends)) > 1 else ""
    return Times(units.duration(answer.before_ns), units.duration(answer.after_ns), sure)


def _with_times(left: str, answer: Answer) -> str:
    """A line with what an answer makes of the run at its end; else with what the findings cost."""
    before, right, _ = times_of(answer)
    if before:
        right = f"{'at best ' if answer.at_most else ''}{before} → {right}"
    room = width() - columns(right) - 2 if right else width()
    fact = cut_to_columns(printable(left), room)
    return fact + " " * (width() - columns(fact) - columns(right)) + right


def list_headlines(headlines: Sequence[str]) -> str:
    """The first few headlines, and how many more there are."""
    more = len(headlines) - MOST_HEADLINES
    return "; ".join(headlines[:MOST_HEADLINES]) + (f"; {more} more" if more > 0 else "")
