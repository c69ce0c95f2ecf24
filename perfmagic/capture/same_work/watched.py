"""One watched function: what its calls change in the process, and the facts about it."""

from __future__ import annotations

import statistics
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Protocol

from perfmagic.capture.same_work.effects import Effects
from perfmagic.capture.same_work.process import SLEEP, Replaced, children, n_threads
from perfmagic.capture.same_work.recorded import Done
from perfmagic.capture.same_work.settings import Settings
from perfmagic.trace.samples import Condition

SEEN_TIMES = 1.5  # times as fast on repeated values: the processor's caches are equally warm for both
ENDING_TRIES, ENDING_S = 10, 0.001  # for threads of a pool that has been shut down
SEEN_NS = 2_000  # and at least this much faster


class Observer(Protocol):
    """Watches the samples of one compared function."""

    def before(self) -> None:
        """A sample is about to be prepared."""

    def ready(self) -> None:
        """The clock is about to start."""

    def after(self, calls: int) -> None:
        """The clock has stopped."""


@dataclass
class Watched:
    """What is known of one function.

    left: samples after which a thread that they had started still ran.  times_ns: of samples on new values ("fresh"),
    and on the same ones again ("seen").  done: recorded work, by kind of values.  holds: the contents of outside
    containers before and after a recorded call.  unseen: names of objects that could not be fully visited.
    """

    name: str
    takes_arguments: bool = True
    facts: dict[str, Condition] = field(default_factory=dict)
    left: int = 0
    reuses: bool = False
    changes_inputs: bool = False
    aliases: bool = False
    unjoined: bool = False
    shares: int = 0
    keeps_object: bool = False
    keeps_by_time: bool = False
    times_ns: dict[str, list[int]] = field(default_factory=dict)
    done: dict[str, Done] = field(default_factory=dict)
    changed: set[int] = field(default_factory=set)
    holds: dict[str, tuple[dict[int, Any], dict[int, Any]]] = field(default_factory=dict)
    unseen: set[str] = field(default_factory=set)
    effects: Effects = field(default_factory=Effects)

    def fact(self, kind: str, **values: str | float) -> None:
        """Note a fact, each kind once: the first is the clearest."""
        self.facts.setdefault(kind, Condition(kind, values))

    def is_quicker(self, fresh: str, seen: str) -> bool:
        """Whether every sample on seen values took less than every fresh one; one of seven on each side may not.

        fresh, seen: labels of times_ns.  A single fresh time is compared with the median of the others.
        """
        new, again = sorted(self.times_ns.get(fresh, [])), sorted(self.times_ns.get(seen, []))
        if not new or not again:
            return False
        if len(new) == 1:
            return _beyond(new[0], statistics.median(again))
        return _beyond(new[len(new) // 7], again[-1 - len(again) // 7])  # on a busy core both vary by large factors

    def does_less(self, again: str) -> bool:
        """Whether less work was recorded on repeated values than on new ones.  again: suffix of the second time."""
        fresh, seen = self.done.get("fresh" + again), self.done.get("seen" + again)
        return fresh is not None and seen is not None and (seen.n < fresh.n or seen.flop < fresh.flop)

    def computes_less_than(self, other: Watched) -> bool:
        """Whether fewer floating-point operations were recorded than for another function."""
        own, its = self.done.get("fresh"), other.done.get("fresh")
        return own is not None and its is not None and own.flop < its.flop

    def alters(self, how: Callable[[Any, Any], bool]) -> set[int]:
        """Containers that each recorded call alters.  how: decides by the contents before and after."""
        each = [{key for key in before if how(before[key], after[key])} for before, after in self.holds.values()]
        return set.intersection(*each) if each else set()

    def does_more_on_others(self) -> bool:
        """Whether more work was recorded on values that lack the common properties of the user's."""
        fresh, other = self.done.get("fresh"), self.done.get("other")
        return fresh is not None and other is not None and other.n > fresh.n


def _beyond(fresh_ns: float, seen_ns: float) -> bool:
    return fresh_ns > SEEN_TIMES * seen_ns and fresh_ns - seen_ns > SEEN_NS


class ProcessWatch:
    """Inspects the process before and after each sample, and attributes changes to a function."""

    def __init__(self) -> None:
        self._replaced, self._settings = Replaced(), Settings()
        self._threads, self._children = n_threads(), children()

    def before(self) -> None:
        """A sample is about to begin."""
        self._threads = n_threads()

    def after(self, watched: Watched) -> None:
        """A sample has ended, and its clock stopped."""
        if what := self._replaced.timing():
            watched.fact("replaced", what=what)
        if what := self._settings.changed():
            watched.fact("set", what=what)

    def threads(self, watched: Watched) -> None:
        """Count a sample whose threads still run; idle ones get time to end."""
        for _ in range(ENDING_TRIES):
            if n_threads() <= self._threads:
                return
            SLEEP(ENDING_S)
        watched.left += 1

    def whole(self, watched: Watched) -> None:
        """Like after(), with the checks that take longer."""
        self.after(watched)
        if what := self._replaced.anything():
            watched.fact("replaced", what=what)

    def processes(self) -> int:
        """How many child processes were added since the beginning."""
        return len(children() - self._children)
