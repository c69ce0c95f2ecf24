"""A prediction as a result: its sentence, its numbers, and its check against the run that came after."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

from perfmagic import changes as changes_module
from perfmagic import units
from perfmagic.analysis.replay.changes.change import Change
from perfmagic.analysis.replay.path_shares import PathShare
from perfmagic.analysis.replay.prediction import IF_OTHERS, Prediction
from perfmagic.errors import OptionError, TraceError
from perfmagic.results.faces import Result

Bars = tuple[tuple[str, tuple[PathShare, ...]], ...]  # critical paths by name


@dataclass(frozen=True, eq=False)
class Predicted(Result):
    """What a recorded run, or job, would take with changes. Times in ns.

    prediction: the numbers.
    """

    checked_against: ClassVar[str] = "a recorded timeline with device ops"
    to_check: ClassVar[str] = "run the changed cell under %%timeline -o after, then %compare predicted after"

    prediction: Prediction

    @property
    def refused(self) -> str:
        """Why nothing is predicted; "" where something is."""
        return self.prediction.refused

    @property
    def predicted_ns(self) -> int:
        """How long the run would take. Raises TraceError where nothing is predicted."""
        self._check()
        return self.prediction.expected_ns

    @property
    def interval_ns(self) -> tuple[int, int]:
        """Between what it would take. Raises TraceError where nothing is predicted."""
        self._check()
        return self.prediction.low_ns, self.prediction.high_ns

    @property
    def gain_ns(self) -> tuple[int, int]:
        """The least and the most that the changes gain. Raises TraceError where nothing is predicted."""
        self._check()
        return self.prediction.gain_ns

    @property
    def sentence(self) -> str:
        """What the changes would make of the run."""
        found, words = self.prediction, "; ".join(self.prediction.changes)
        if found.refused:
            return f"no prediction: {found.refused}"
        before = units.duration(found.recorded_ns)
        others = f", {IF_OTHERS}; else up to {units.duration(found.alone_ns or 0)}" if found.if_others else ""
        if found.at_most:
            return f"{words}: at best {units.duration(found.expected_ns)} instead of {before}{others}"
        span = f"{units.duration(found.low_ns)} to {units.duration(found.high_ns)}"
        small = ", next to nothing" if found.small else ""
        return f"{words}: about {units.duration(found.expected_ns)} ({span}) instead of {before}{small}{others}"

    def check(self, measured: Any) -> PredictionCheck:
        """The prediction beside a recording of the changed run.

        measured: recorded as the first one was, and of the same kind. Raises TraceError where nothing is predicted, and
        OptionError for something else or for a prediction.
        """
        self._check()
        measured_ns = self._measured_ns(measured)
        if measured_ns is None:
            raise OptionError(
                f"a prediction is checked against {self.checked_against}, not {measured!r}", hint=self.to_check
            )
        return PredictionCheck(self.prediction, measured_ns)

    def to_dict(self) -> dict[str, Any]:
        """The numbers, ready for JSON; times in ns, None where nothing is predicted."""
        found = self.prediction
        told = not found.refused
        return {
            "changes": list(found.changes),
            "recorded_ns": found.recorded_ns,
            "predicted_ns": found.expected_ns if told else None,
            "interval_ns": [found.low_ns, found.high_ns] if told else None,
            "gain_ns": list(found.gain_ns) if told else None,
            "at_most": found.at_most,
            "alone_ns": found.alone_ns if told else None,
            "refused": found.refused,
            "sentence": self.sentence,
        }

    def text(self) -> str:
        """The sentence, then what holds the run before and after."""
        from perfmagic.view.timeline.what_if import what_if_text

        return what_if_text(self.sentence, self._bars())

    def html(self) -> str:
        """The sentence, and the two critical paths as bars on one scale."""
        from perfmagic.view.timeline.what_if import what_if_html

        return what_if_html(self.sentence, self._bars())

    @abstractmethod
    def _measured_ns(self, measured: object) -> int | None:
        """How long a recorded run took; None for what is none."""

    @abstractmethod
    def _bars(self) -> Bars:
        """The critical paths, recorded and predicted; nothing where nothing is predicted."""

    def _check(self) -> None:
        if self.prediction.refused:
            raise TraceError(f"nothing is predicted: {self.prediction.refused}")


@dataclass(frozen=True)
class PredictionCheck(Result):
    """A prediction beside what the changed run took. Times in ns.

    prediction: of the record before.  measured_ns: how long the changed run took, recorded.
    """

    prediction: Prediction
    measured_ns: int

    def __repr__(self) -> str:
        return f"PredictionCheck: {self.sentence}"

    @property
    def error_frac(self) -> float:
        """By how much of the measured time the prediction was too long; below 0: too short."""
        return self.prediction.expected_ns / self.measured_ns - 1 if self.measured_ns else 0.0

    @property
    def within(self) -> bool:
        """Whether the measured time lies in the predicted interval; of a bound, not below it."""
        found = self.prediction
        return found.low_ns <= self.measured_ns and (found.at_most or self.measured_ns <= found.high_ns)

    @property
    def sentence(self) -> str:
        """Predicted, measured, and whether they agree."""
        found, measured = self.prediction, units.duration(self.measured_ns)
        if found.at_most:
            told = "as the bound says" if self.within else "below the bound: the change did more than was replayed"
            return f"at best {units.duration(found.expected_ns)} predicted, {measured} measured: {told}"
        span = f"{units.duration(found.low_ns)} to {units.duration(found.high_ns)}"
        off = f"{units.percent(abs(self.error_frac))} too {'long' if self.error_frac > 0 else 'short'}"
        told = "within the interval" if self.within else f"outside of it. The prediction was {off}"
        return f"{units.duration(found.expected_ns)} predicted ({span}), {measured} measured: {told}"

    def to_dict(self) -> dict[str, Any]:
        """The numbers, ready for JSON; times in ns."""
        return {
            "changes": list(self.prediction.changes),
            "predicted_ns": self.prediction.expected_ns,
            "interval_ns": [self.prediction.low_ns, self.prediction.high_ns],
            "measured_ns": self.measured_ns,
            "error_frac": self.error_frac,
            "within": self.within,
            "sentence": self.sentence,
        }

    def text(self) -> str:
        """The sentence."""
        return self.sentence

    def html(self) -> str:
        """The sentence."""
        from perfmagic.view.timeline.what_if import what_if_html

        return what_if_html(f"{'; '.join(self.prediction.changes)}: {self.sentence}", ())


def checked_changes(what: str, changes: Sequence[object]) -> None:
    """Raise OptionError where something is no change of perfmagic.changes, or there is none.  what: the method."""
    for change in changes:
        if not isinstance(change, Change):
            name = getattr(change, "__name__", "")
            made = name in changes_module.__all__ and change is getattr(changes_module, name)
            said = name if made else repr(change)
            given = "line=4" if name == "no_python" else ""
            hint = f"call it: {name}({given})" if made else "from perfmagic.changes import pin, no_item"
            raise OptionError(f"{what}: {said} is no change", hint=hint)
    if not changes:
        raise OptionError(f"{what}: no change is given", hint=f"{what}(pin(), no_item(line=4))")
