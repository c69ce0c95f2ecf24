"""The loop around a body: which body runs now, and how often.

The body stays in its owner's frame. A phase of a measurement is a generator that yields repetitions; the loop runs the
body once for each of them, and resumes the phase with the clock's reading taken right after the last.

    while loop.more():
        for () in loop.repetitions(0):
            <body>
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterable, Iterator, Sequence
from contextlib import suppress
from typing import TypeAlias, TypeVar

Repetition: TypeAlias = tuple[()]  # `for () in` binds no name in the body's frame
ResultT = TypeVar("ResultT")
Phase: TypeAlias = Generator[Iterable[Repetition], int, ResultT]  # resumed with the clock's reading, in ns
Schedule: TypeAlias = Generator[tuple[int, Phase[None]], None, None]  # a body's number, and a phase of measuring it


class BodyLoop:
    """Runs a schedule: several bodies, of which one runs at a time.

        while loop.more():
            for () in loop.repetitions(0):
                <body 0>
            for () in loop.repetitions(1):
                <body 1>

    schedule: one after the other, a body's number and the phase that it runs for.
    which: the body that runs now.
    """

    def __init__(self, schedule: Schedule, clock_ns: Callable[[], int]) -> None:
        self._schedule, self._clock_ns = schedule, clock_ns
        self._phase: Phase[None] | None = None
        self._some: Iterable[Repetition] = ()
        self._ended_ns = 0  # when the last repetitions were used up, 0 until more are asked for
        self.which = 0

    def more(self) -> bool:
        """Go on to the next repetitions; False when the schedule has ended."""
        now_ns = self._clock_ns()
        ended_ns = self._ended_ns or now_ns
        self._ended_ns = 0
        if self._phase is not None:
            with suppress(StopIteration):
                self._some = self._phase.send(ended_ns)
                return True
        for which, phase in self._schedule:
            self.which, self._phase = which, phase
            with suppress(StopIteration):
                self._some = next(phase)
                return True
        self._phase = None
        return False

    def repetitions(self, which: int) -> Iterable[Repetition]:
        """The repetitions of a body now; none while another body runs."""
        if which == self.which and self._some:
            some, self._some = self._some, ()
            return some
        if not self._some and not self._ended_ns:  # the body before this one has just ended
            self._ended_ns = self._clock_ns()
        return ()

    def close(self) -> None:
        """Leave the schedule where it is: the phase under way ends first, then the schedule. Harmless when repeated."""
        try:
            if self._phase is not None:
                self._phase.close()
        finally:
            self._schedule.close()


def run(loop: BodyLoop, bodies: Sequence[Callable[[], object]]) -> None:
    """Call the bodies as the loop says; the loop is closed however this ends."""
    try:
        while loop.more():
            body = bodies[loop.which]
            for () in loop.repetitions(loop.which):
                body()
    finally:
        loop.close()


def drive(phase: Phase[None], clock_ns: Callable[[], int]) -> Iterator[Repetition]:
    """Every repetition that a phase yields, for a plain `for` loop; BodyLoop costs less for each."""
    with suppress(StopIteration):
        some = next(phase)
        while True:
            yield from some
            some = phase.send(clock_ns())
