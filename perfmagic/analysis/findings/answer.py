"""What an answer is: a fact, what to do about it, and what the run would take then; and answers as text."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import nullcontext
from dataclasses import dataclass
from typing import ClassVar, NamedTuple

from perfmagic.base import units
from perfmagic.base.language import counted, say, translated
from perfmagic.base.terminal import columns, width, wrapped
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
    what_if: the arguments of t.what_if() that replay it, as code; empty where perfmagic.changes has none.
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
    what_if: str = ""

    @property
    def gain_ns(self) -> int | None:
        return None if self.after_ns is None else self.before_ns - self.after_ns


@dataclass(frozen=True, repr=False)
class Answers(JsonForm):
    """Who decides how long a run takes, and what to do about it.

    decides: who, in one sentence.
    total_ns: the whole run.
    low_ns: the least that a predicted run takes; null for a recorded one.
    high_ns: the most; null where an operator has no model, too.
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
    low_ns: int | None = None
    high_ns: int | None = None

    @property
    def total(self) -> str:
        """The whole run, of a predicted one with two digits, and "≥" where an operator has no model."""
        if self.low_ns is None:
            return units.duration(self.total_ns)
        return f"{'≥ ' if self.high_ns is None else ''}{units.rough_duration(self.total_ns)}"

    def text(self, about: str = "") -> str:
        """Who decides, then two lines for each answer, one for all together, and the rest; as wide as the terminal.

        about: what was recorded, a line of its own. Times of a predicted run have two digits.
        """
        with units.rough_times() if self.low_ns is not None else nullcontext():
            return self._text(about)

    def _text(self, about: str) -> str:
        shown = translated(self)
        lines = wrapped(f"{shown.total:<{GUTTER}}{shown.decides}", indent=GUTTER)
        lines += wrapped(" " * GUTTER + about, indent=GUTTER) if about else []
        for number, answer in enumerate(shown.answers, 1):
            lines += answer_lines(
                number,
                answer.headline,
                name_action(answer.headline, answer.action, answer.lines),
                in_row(times_of(answer)),
            )
        if shown.together is not None:
            lines += _with_right(f"{INDENT}  ", shown.together.headline, in_row(times_of(shown.together)))
        for rest in list_rest(shown.little_gain, shown.also_seen):
            lines += wrapped(f"{INDENT}{rest}", indent=len(INDENT) + 2)
        lines += _warning_lines(shown.warnings)
        return "\n".join(line.rstrip() for line in lines)

    def __repr__(self) -> str:
        return self.text()


def name_action(headline: str, action: str, lines: Sequence[int]) -> str:
    """An action with its lines, unless it or the headline names them: "Read the values after the loop (line 5)"."""
    shown = ", ".join([*map(str, lines[:MOST_LINES]), *(["…"] if len(lines) > MOST_LINES else [])])
    where = translated(counted(len(lines), "line {lines}", "lines {lines}", lines=shown))
    is_named = not lines or not action or where in f"{headline} {action}"
    return action if is_named else say("{action} ({where})", action=action, where=where)


class Times(NamedTuple):
    """What an answer makes of the run, in words.

    before, after: "683 ms" and "614 ms"; without a replay "" and what the findings cost, if that is known.
    sure: "at best" where the gain is a bound.
    """

    before: str
    after: str
    sure: str


def times_of(answer: Answer) -> Times:
    """The words of an answer's times, in the language in force."""
    if answer.after_ns is None:
        costs = say("costs {time}", time=units.duration(answer.cost_ns)) if answer.cost_ns else ""
        return Times("", costs, "")
    sure = say("at best") if answer.at_most else ""
    return Times(units.duration(answer.before_ns), units.duration(answer.after_ns), sure)


def in_row(times: Times) -> str:
    """The words of an answer's times in one line: "at best 683 ms → 614 ms"."""
    before, after, sure = times
    return " ".join(filter(None, (sure, f"{before} → {after}" if before else after)))


def answer_lines(number: int, headline: str, action: str, right: str) -> list[str]:
    """A fact with what its action changes at the right, and the action below."""
    fact = _with_right(f"{number:>{len(INDENT)}}  ", headline, right)
    return [*fact, *wrapped(f"{INDENT}  → {action}", indent=len(INDENT) + 4)]


def _warning_lines(warnings: Sequence[str]) -> list[str]:
    return [line for warning in warnings for line in wrapped(f"  ! {warning}", indent=4)]


def _with_right(before: str, fact: str, right: str) -> list[str]:
    """A fact in lines, with words before the first and at its end."""
    room = width() - columns(before) - (columns(right) + 2 if right else 0)
    first, *others = wrapped(fact, max_columns=room)
    left = f"{before}{first}"
    return [
        left + " " * (width() - columns(left) - columns(right)) + right,
        *(" " * columns(before) + line for line in others),
    ]


def list_rest(little_gain: Sequence[str], also_seen: Sequence[str]) -> list[str]:
    """What gains little and what else was seen, a line each, in the language in force."""
    gain, seen = _list_headlines(little_gain), _list_headlines(also_seen)
    lines = (
        say("Would gain little: {facts}", facts=gain) if gain else "",
        say("Also seen: {facts}", facts=seen) if seen else "",
    )
    return [line for line in lines if line]


def _list_headlines(headlines: Sequence[str]) -> str:
    """The first few headlines, and how many more there are."""
    more = len(headlines) - MOST_HEADLINES
    first = say("; ").join(headlines[:MOST_HEADLINES])
    return say("{first}; {n} more", first=first, n=more) if more > 0 else first


# What a result says first where no replay of a run judges it: graphs, memory, scaling.


@dataclass(frozen=True)
class Proposal(JsonForm):
    """One thing to do about a result; before and after are times or sizes, None where they are not known.

    headline: what was found.
    action: what to do.
    line: that it is about, of the cell or of `function`; 0 for none.
    function: the function of that line; empty for the cell.
    before_ns: the measured time.
    after_ns: the time with the action.
    before_bytes: the measured peak.
    after_bytes: the peak with the action.
    exact: whether `after` was replayed.
    at_most: whether the gain is a bound; without either it is an estimate.
    """

    headline: str
    action: str
    line: int = 0
    function: str = ""
    before_ns: int | None = None
    after_ns: int | None = None
    before_bytes: int | None = None
    after_bytes: int | None = None
    exact: bool = False
    at_most: bool = False

    @property
    def times(self) -> Times:
        """The words of what the action changes, in the language in force; each empty where that is not known."""
        sure = say("at best") if self.at_most else "" if self.exact else say("about")
        if self.before_bytes is not None and self.after_bytes is not None:
            return Times(units.size(self.before_bytes), units.size(self.after_bytes), sure)
        if self.before_ns is not None and self.after_ns is not None:
            return Times(units.duration(self.before_ns), units.duration(self.after_ns), sure)
        return Times("", "", "")


@dataclass(frozen=True)
class Conclusion(JsonForm):
    """What a result says first.

    decides: what decides its time or its memory, in one sentence.
    proposals: what to do about it, the largest gain first, at most three.
    warnings: what is to know of the measurement itself.
    """

    decides: str
    proposals: tuple[Proposal, ...] = ()
    warnings: tuple[str, ...] = ()

    def text(self, about: str, rest: str = "") -> str:
        """What decides, what was measured, two lines for each proposal, and where the rest is."""
        shown = translated(self)
        lines = [*wrapped(shown.decides), *wrapped(about, indent=2)]
        lines += [""] if shown.proposals else []
        for number, proposal in enumerate(shown.proposals, 1):
            lines += answer_lines(number, proposal.headline, proposal.action, in_row(proposal.times))
        lines += _warning_lines(shown.warnings)
        lines += ["", *wrapped(f"  {rest}", indent=2)] if rest else []
        return "\n".join(line.rstrip() for line in lines)
