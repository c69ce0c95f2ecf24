"""Who decides how long a run takes, and what to do about it, as text."""

from __future__ import annotations

from perfmagic.analysis.findings.answers import Answer, Answers
from perfmagic.base import units
from perfmagic.base.terminal import columns, cut_to_columns, width

LEFT = 9  # columns of the total, and of an answer's number
INDENT = "   "
MOST_FOLDED = 3  # headlines in a line of what has no gain, or no remedy


def answers_text(answers: Answers, about: str = "") -> str:
    """The line that says who decides, at most three answers of two lines each, then a line for each of the rest.

    about: what ran, below the first line.
    """
    room = width()
    lines = [f"{units.duration(answers.total_ns):<{LEFT}}{answers.decides}"]
    lines += [" " * LEFT + about] if about else []
    lines += [""] if answers.answers else []
    for number, answer in enumerate(answers.answers, 1):
        lines.append(_with_times(f"{number:>{len(INDENT)}}  {answer.headline}", _times(answer), room))
        lines.append(f"{INDENT}  → {answer.action}")
    if answers.together is not None:
        lines.append(_with_times(f"{INDENT}  {answers.together.headline}", _times(answers.together), room))
    folded = (("no gain", answers.no_gain), ("also seen", answers.also_seen))
    rest = [f"{INDENT}{name}: {_listed(headlines)}" for name, headlines in folded if headlines]
    rest += [f"{INDENT[1:]}! {warning}" for warning in answers.warnings]
    lines += ["", *rest] if rest else []
    return "\n".join(cut_to_columns(line, room).rstrip() for line in lines)


def _with_times(left: str, right: str, room: int) -> str:
    return left + " " * max(2, room - columns(left) - columns(right)) + right


def _times(answer: Answer) -> str:
    """What an answer makes of the run: "667 ms → 597 ms", "at best 383 ms → 297 ms"; else what the finding cost."""
    if answer.after_ns is None:
        return f"costs {units.duration(answer.cost_ns)}" if answer.cost_ns else ""
    bound = "at best " if answer.at_most else ""
    return f"{bound}{units.duration(answer.before_ns)} → {units.duration(answer.after_ns)}"


def _listed(headlines: tuple[str, ...]) -> str:
    more = len(headlines) - MOST_FOLDED
    return "; ".join(headlines[:MOST_FOLDED]) + (f"; {more} more" if more > 0 else "")
