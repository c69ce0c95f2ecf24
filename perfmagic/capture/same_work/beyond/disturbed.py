"""Calls on values that are changed in one place: the results of both have to answer alike.

What a function leaves out shows, however little it adds to a result: differences are measured against the answer to
the change, not against the result. The change grows until there is an answer.
"""

from __future__ import annotations

import math
import secrets
from collections.abc import Sequence
from functools import partial
from itertools import product
from typing import Any

from perfmagic.capture.same_work.beyond.answers import Answers, Found, differ_when_tiny
from perfmagic.capture.same_work.beyond.places import changed, disturbed, values_in
from perfmagic.capture.same_work.beyond.unchecked import on_bad_values, see_unchecked
from perfmagic.capture.same_work.beyond.values import Calls, Closing
from perfmagic.capture.same_work.drawn import mapped, nearby, times
from perfmagic.capture.same_work.process import NOW_NS

# times the root mean square of an array; None: to a value that it has elsewhere
LEVELS: tuple[float | None, ...] = (None, 2.0**5, 2.0**17, 2.0**29, 2.0**41)
OF_FLAGS = (math.inf, math.nan)  # where results are truths or whole numbers, and answered to nothing else
HIGHER = 2  # levels that one value may need more than a stretch
TINY = (2.0**-12, 2.0**-24)
ROUNDS, ALWAYS, MOST_VALUES = 8, 3, 8
FRACS = (0.08, 0.06, 0.05, 0.04)  # of the time so far: for the first three rounds, and for more of them
MOVES = 5  # two equal values, of which either may be chosen, stay equal in a third of them
LEAST_NS = 1_200_000_000  # that it counts as: short comparisons look as closely


def on_disturbed_values(closing: Closing) -> Calls:
    """Every value in the inputs that can change, in unpredictable places."""
    same = closing.same
    assert same.arguments is not None
    alters = any(each.changes_inputs or each.alters(lambda a, b: a != b) for each in same.watched)
    if alters or same.asked.equal is not None:
        return
    steady = not any(each.changed for each in same.watched)  # else it would be spoilt for a while
    seed, base, gave = closing.first_values
    same.choose_again(seed, base)
    answers = Answers(same.results, same.arguments.longest(), gave)
    levels = [*LEVELS, *(OF_FLAGS if answers.are_flags else ())] if steady else [*LEVELS[:2]]
    n = sum(1 for i, v in enumerate(base) if i not in same.arguments.fixed for _ in values_in(v))
    from_ns, all_ns = NOW_NS(), max(LEAST_NS, same.elapsed_ns())
    same.writes_all = False
    which = range(min(n, MOST_VALUES))
    for round_ in range(ROUNDS):
        for k in sorted(which, key=lambda _: secrets.randbits(32)):  # where time is short, the choice is unpredictable
            if NOW_NS() - from_ns < all_ns * (FRACS[round_] if round_ < ALWAYS else FRACS[-1]):
                yield from _change_one(closing, base, answers, k, levels, round_=round_)
    same.writes_all = True
    if steady and any(each.computes_less_than(same.watched[0]) for each in same.watched[1:]):
        yield from _on_tiny_values(closing, base)
    if steady:
        yield from on_bad_values(closing, base, len(which))
    same.other_values()


def _change_one(
    closing: Closing, base: Sequence[Any], answers: Answers, k: int, levels: Sequence[float | None], *, round_: int
) -> Calls:
    """Change one place by more and more, until there is an answer; in later rounds by more than that."""
    same, at, known, stretch = closing.same, answers.next_place(k), answers.level.get(k), round_ == 0
    assert same.arguments is not None
    more = HIGHER if round_ == ALWAYS - 1 else secrets.randbelow(HIGHER + 1) if round_ >= ALWAYS else 0
    begin = (known or 0) + more
    end = len(levels) if known is None else min(len(levels), begin + HIGHER + 1)
    for level, compared in product(range(begin, end), answers.ways(k, stretch=stretch)):
        seed = same.results.seed if compared else None
        how = partial(disturbed, factor=levels[level], at=at, stretch=stretch, seed=seed)
        values = changed(base, same.arguments.fixed, k, how)
        if values is None:
            continue
        same.arguments.choose(values)
        found = yield from closing.gathered("disturbed")
        if found[0] is None:
            see_unchecked(closing, found)
        elif answers.visible(found):
            answers.level.setdefault(k, level)
            if not stretch:
                answers.only_where_compared.setdefault(k, compared)
            yield from _compare(closing, values, answers, found)
            return


def _compare(closing: Closing, values: Sequence[Any], answers: Answers, found: Found) -> Calls:
    """What answers in another way has to do so a rounding away, too, each time: by then equal values are apart."""
    assert closing.same.arguments is not None
    suspects = answers.otherwise(found, found[0])
    for _ in range(MOVES):
        if not suspects:
            return
        closing.same.arguments.choose(mapped([*values], nearby))
        moved = yield from closing.gathered("disturbed, moved")
        suspects &= answers.otherwise(found, moved[0]) & answers.otherwise(moved, found[0])
    for which in suspects:
        closing.same.watched[which].fact("disturbed")


def _on_tiny_values(closing: Closing, base: Sequence[Any]) -> Calls:
    """All floating values far smaller: what was small beside them, and is not computed, is not small any more."""
    same = closing.same
    assert same.arguments is not None
    for factor in TINY:
        same.arguments.choose(base)
        same.arguments.change(partial(times, factor))
        found = yield from closing.gathered("tiny")
        suspects = [
            which
            for which, (watched, other) in enumerate(zip(same.watched, found, strict=True))
            if watched.computes_less_than(same.watched[0]) and differ_when_tiny(found[0], other)
        ]
        if suspects:
            same.arguments.change(nearby)
            moved = yield from closing.gathered("tiny, moved", only=0)
            for which in suspects if not differ_when_tiny(found[0], moved[0]) else ():
                same.watched[which].fact("tiny", times=round(1 / factor))
