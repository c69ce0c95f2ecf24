"""The result of `t.what_if(...)`: what a recorded run would take with changes, and its timeline."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, ClassVar

from perfmagic import changes as changes_module
from perfmagic.analysis.replay.build import graph_of
from perfmagic.analysis.replay.changes.change import Change
from perfmagic.analysis.replay.changes.gpu import OnGpu
from perfmagic.analysis.replay.critical_path import PathShare, critical_path
from perfmagic.analysis.replay.predicted_trace import predicted_trace
from perfmagic.analysis.replay.prediction import IF_OTHERS, CurvePoint, Prediction, Readings, path_shares, unreadable
from perfmagic.base import units
from perfmagic.base.errors import OptionError, TraceError
from perfmagic.base.language import chained, phrase, translated
from perfmagic.results.result import Result
from perfmagic.trace.model import Trace
from perfmagic.trace.rows import Rows

if TYPE_CHECKING:
    from perfmagic.results.briefs.form import Brief

# A prediction as a result: its sentence, its numbers, and its check against the run that came after.

# critical paths: name, shares, how their time is written
Bars = tuple[tuple[str, tuple[PathShare, ...], Callable[[float], str]], ...]


@dataclass(frozen=True, eq=False)
class Predicted(Result):
    """What a recorded run, or job, would take with changes. Times in ns.

    prediction: the numbers.
    """

    checked_against: ClassVar[str] = "a recorded timeline with device ops"
    to_check: ClassVar[str] = "run the changed cell under %%timeline -o after, then %compare predicted after"

    prediction: Prediction

    _is_of_model: ClassVar[bool] = False  # whether a GPU's model gave the times of the record, too

    def __str__(self) -> str:
        return translated(self.sentence)

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
        """The least and the most that the changes gain; below 0 where the run may take longer.

        Raises TraceError where nothing is predicted.
        """
        self._check()
        return self.prediction.gain_ns

    @property
    def sentence(self) -> str:
        """What the changes would make of the run."""
        predicted, changes = self.prediction, chained("{a}; {b}", self.prediction.changes)
        if predicted.refused:
            return phrase("no prediction: {why}", why=predicted.refused)
        shown = predicted.shown
        alone = shown(predicted.alone_ns or 0)
        others = (
            phrase("{if_others}; else up to {time}", if_others=IF_OTHERS, time=alone) if predicted.if_others else ""
        )
        before = (shown if self._is_of_model else units.duration)(predicted.recorded_ns)
        expected = shown(predicted.expected_ns)
        if predicted.at_most:
            return phrase(
                "{changes}: at best {time} instead of {before}{others}",
                changes=changes,
                time=expected,
                before=before,
                others=others,
            )
        return phrase(
            "{changes}: about {time} ({low} to {high}) instead of {before}{small}{others}",
            changes=changes,
            time=expected,
            low=shown(predicted.low_ns),
            high=shown(predicted.high_ns),
            before=before,
            small=self._how_little,
            others=others,
        )

    @property
    def _how_little(self) -> str:
        """That the changes gain almost nothing, or for another GPU that the interval has the recorded time."""
        predicted = self.prediction
        if predicted.spread > 1:
            is_open = predicted.low_ns <= predicted.recorded_ns <= predicted.high_ns
            return phrase(": which is faster is unclear") if is_open else ""
        return phrase(", almost nothing") if predicted.small else ""

    def check(self, measured: Any) -> PredictionCheck:
        """The prediction beside a recording of the changed run.

        measured: recorded as the first one was, and of the same kind. Raises TraceError where nothing is predicted, and
        OptionError for something else or for a prediction.
        """
        self._check()
        measured_ns = self._measured_ns(measured)
        if measured_ns is None:
            message = f"a prediction is checked against {self.checked_against}, not {measured!r}"
            raise OptionError(message, hint=self.to_check)
        return PredictionCheck(self.prediction, measured_ns)

    def to_dict(self) -> dict[str, Any]:
        """The numbers, ready for JSON; times in ns, None where nothing is predicted."""
        predicted = self.prediction
        is_predicted = not predicted.refused
        return {
            "changes": list(predicted.changes),
            "recorded_ns": predicted.recorded_ns,
            "predicted_ns": predicted.expected_ns if is_predicted else None,
            "interval_ns": [predicted.low_ns, predicted.high_ns] if is_predicted else None,
            "gain_ns": list(predicted.gain_ns) if is_predicted else None,
            "at_most": predicted.at_most,
            "alone_ns": predicted.alone_ns if is_predicted else None,
            "refused": predicted.refused,
            "sentence": self.sentence,
        }

    def text(self) -> str:
        """The sentence, then what limits the run before and after."""
        from perfmagic.view.timeline.what_if import what_if_text

        return what_if_text(self.sentence, self._bars())

    def html(self) -> str:
        """The sentence, and the two critical paths as bars on one scale."""
        from perfmagic.view.timeline.what_if import what_if_html

        return what_if_html(self.sentence, self._bars())

    def _brief(self) -> Brief:
        from perfmagic.results.briefs.runs import what_if_brief

        return what_if_brief(self.prediction, self.sentence)

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

    def __str__(self) -> str:
        return translated(self.sentence)

    @property
    def error_frac(self) -> float:
        """By how much of the measured time the prediction was too long; below 0: too short."""
        return self.prediction.expected_ns / self.measured_ns - 1 if self.measured_ns else 0.0

    @property
    def within(self) -> bool:
        """Whether the measured time lies in the predicted interval; of a bound, not below it."""
        predicted = self.prediction
        return predicted.low_ns <= self.measured_ns and (predicted.at_most or self.measured_ns <= predicted.high_ns)

    @property
    def sentence(self) -> str:
        """Predicted, measured, and whether they agree."""
        predicted, measured = self.prediction, units.duration(self.measured_ns)
        if predicted.at_most:
            below = phrase("below the bound: the change did more than was replayed")
            return phrase(
                "at best {time} predicted, {measured} measured: {verdict}",
                time=predicted.shown(predicted.expected_ns),
                measured=measured,
                verdict=phrase("as the bound says") if self.within else below,
            )
        off = units.percent(abs(self.error_frac))
        verdict = phrase("outside of it. The prediction was {share} too short", share=off)
        if self.within:
            verdict = phrase("within the interval")
        elif self.error_frac > 0:
            verdict = phrase("outside of it. The prediction was {share} too long", share=off)
        return phrase(
            "{time} predicted ({low} to {high}), {measured} measured: {verdict}",
            time=predicted.shown(predicted.expected_ns),
            low=predicted.shown(predicted.low_ns),
            high=predicted.shown(predicted.high_ns),
            measured=measured,
            verdict=verdict,
        )

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
        return translated(self.sentence)

    def html(self) -> str:
        """The sentence."""
        from perfmagic.view.timeline.what_if import what_if_html

        changes = chained("{a}; {b}", self.prediction.changes)
        return what_if_html(phrase("{a}: {b}", a=changes, b=self.sentence), ())

    def _brief(self) -> Brief:
        from perfmagic.results.briefs.runs import what_if_brief

        return what_if_brief(self.prediction, self.sentence, (self.measured_ns, self.error_frac, self.within))


def checked_changes(what: str, changes: Sequence[object]) -> None:
    """Raise OptionError without a change, for two GPUs, or for anything but perfmagic.changes.  what: the method."""
    for change in changes:
        if not isinstance(change, Change):
            name = getattr(change, "__name__", "")
            made = name in changes_module.__all__ and change is getattr(changes_module, name)
            said = name if made else repr(change)
            given = "line=4" if name == "no_python" else ""
            hint = f"call it: {name}({given})" if made else "from perfmagic.changes import pin, no_item"
            raise OptionError(f"{what}: {said} is not a change", hint=hint)
    gpus = [change.gpu.name for change in changes if isinstance(change, OnGpu)]
    if len(gpus) > 1:
        raise OptionError(
            f"{what}: a run is on one GPU, not on {' and '.join(gpus)}", hint='a call of its own for each on("…")'
        )
    if not changes:
        raise OptionError(f"{what}: no change is given", hint=f"{what}(pin(), no_item(line=4))")


@dataclass(frozen=True, eq=False)
class WhatIfResult(Predicted):
    """A run with changes, predicted by replaying its record.

    prediction: the numbers.  trace: the record it stands on.  comm_names: as in TimelineResult.  drawn: the timeline
    of a trace.  Times in ns.
    """

    trace: Trace
    comm_names: str | None = field(repr=False)
    drawn: Callable[[Trace], Result] = field(repr=False)

    def timeline(self) -> Result:
        """The predicted run as a TimelineResult, which says that it is one.

        Raises TraceError where nothing is predicted.
        """
        self._check()
        return self.drawn(predicted_trace(self.prediction))

    @property
    def path(self) -> tuple[PathShare, ...]:
        """What the critical path of the predicted run consists of, the longest first."""
        predicted = self.prediction
        if predicted.graph is None or predicted.times_ns is None:
            return ()
        return critical_path(predicted.graph, predicted.times_ns, self.comm_names).shares

    def _measured_ns(self, measured: object) -> int | None:
        trace = getattr(measured, "trace", None)
        if not isinstance(trace, Trace) or trace.meta.predicted or not len(trace.ops):
            return None
        return Readings.from_trace(trace).run_ns

    def _bars(self) -> Bars:
        # a record that is too large for a path in passing is asked here
        recorded = path_shares(self.trace, self.comm_names) or self._of_large()
        if not recorded or not self.path:
            return ()
        predicted = self.prediction
        was = ("unchanged", recorded, predicted.shown) if self._is_of_model else ("recorded", recorded, units.duration)
        return was, ("predicted", self.path, predicted.shown)

    @property
    def _is_of_model(self) -> bool:  # type: ignore[override]
        return any(info.predicted for info in self.trace.meta.devices)

    def _of_large(self) -> tuple[PathShare, ...]:
        graph = graph_of(self.trace)
        return () if unreadable(graph) else critical_path(graph, graph.time_ns, self.comm_names).shares

    def __repr__(self) -> str:
        return f"WhatIfResult: {self.sentence}"


# The result of `t.curve(...)`: predictions for kernels that are k times as fast, as a table and as a line.


class Curve(Rows[CurvePoint]):
    """A `CurvePoint` for each k, and in a notebook a line: flat where something else limits the run.

    recorded_ns: how long the run took.  what: whose kernels these are, in words.
    """

    __slots__ = ("recorded_ns", "what")

    def __init__(self, points: Iterable[CurvePoint], recorded_ns: int, what: str) -> None:
        super().__init__(points, CurvePoint)
        self.recorded_ns = recorded_ns
        self.what = what

    def svg(self) -> str:
        """The line over how much shorter the kernels become, with the interval of each prediction."""
        from perfmagic.view.timeline.what_if import curve_svg

        return curve_svg(self, self.recorded_ns, self.what)

    def _repr_html_(self) -> str:
        from perfmagic.view.timeline.what_if import curve_html

        return curve_html(self, self.recorded_ns, self.what) + super()._repr_html_()
