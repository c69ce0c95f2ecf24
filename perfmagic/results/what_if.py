"""The result of `t.what_if(...)`: what a recorded run would take with changes, and its timeline."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

from perfmagic.analysis.replay.build import graph_of
from perfmagic.analysis.replay.critical_path import critical_path
from perfmagic.analysis.replay.path_shares import PathShare, path_shares, shares_of
from perfmagic.analysis.replay.predicted_trace import predicted_trace
from perfmagic.analysis.replay.prediction import Readings
from perfmagic.analysis.replay.refusals import unreadable
from perfmagic.results.faces import Result
from perfmagic.results.predicted import Bars, Predicted
from perfmagic.trace.model import Trace


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
        found = self.prediction
        if found.graph is None:
            return ()
        return shares_of(critical_path(found.graph, found.times_ns, self.comm_names), self.comm_names).shares

    def _measured_ns(self, measured: object) -> int | None:
        trace = getattr(measured, "trace", None)
        if not isinstance(trace, Trace) or trace.meta.predicted or not len(trace.ops):
            return None
        return Readings.of(trace).run_ns

    def _bars(self) -> Bars:
        # a record that is too large for a path in passing is asked here
        recorded = path_shares(self.trace, self.comm_names) or self._of_large()
        both = (("recorded", recorded), ("predicted", self.path))
        return both if recorded and self.path else ()

    def _of_large(self) -> tuple[PathShare, ...]:
        graph = graph_of(self.trace)
        return (
            ()
            if unreadable(graph)
            else shares_of(critical_path(graph, comm_names=self.comm_names), self.comm_names).shares
        )

    def __repr__(self) -> str:
        return f"WhatIfResult: {self.sentence}"
