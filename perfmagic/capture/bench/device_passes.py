"""What %%syncbench takes after *returns* and *done*: calls in a row, the device span, one recorded run.

They come after, because a full queue and a profiler change the times of what follows. Source: docs/measuring.md.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import TYPE_CHECKING

from perfmagic.base.errors import CaptureError, PerfmagicError
from perfmagic.capture.bench.spec import Notes, Recording
from perfmagic.capture.devices.backends import Backend
from perfmagic.trace.model import Trace

if TYPE_CHECKING:
    from perfmagic.capture.bench.sampling import Phase, Sampler

SPAN_BLOCK_S = 50e-6  # event resolution is about 0.5 µs
SPAN_MOST_CALLS = 50
SPAN_LAUNCHES = 500  # behind one backlog; a stream holds about 1000
FASTEST_LAUNCH_S = 2e-6  # no launch takes the host less, so returns / 2 µs bounds their number
BACKLOG_FACTOR = 1.5
BACKLOG_CAP_S = 0.05
PROFILED_RUNS = 5  # at most, for one that is not disturbed
DISTURBED = 1.25  # a recorded run this many times the median of done does not represent the samples


class DevicePasses:
    """The later passes over one body, and what they found.

    spans: device span, queued: per call in blocks of calls back to back, both in seconds a call.
    trace: of the recorded run.
    """

    def __init__(self, sampler: Sampler, profile: Callable[[], Recording] | None, notes: Notes) -> None:
        self.spans: list[float] = []
        self.span_calls = 0
        self.queued: list[float] = []
        self.queued_calls = 0
        self.trace: Trace | None = None
        self._sampler, self._profile, self._notes = sampler, profile, notes
        self._recording: Recording | None = None  # under way

    def take_queued(self, wanted: int, launches: int | None) -> Phase[None]:
        """Blocks of calls and one synchronise at the end of each: per call, queued.

        As many as are wanted, but no more than a stream holds launches of: beyond it Python waits within the block.
        launches: of one call, None where the device does not report them.
        """
        k = self.queued_calls = min(wanted, max(1, SPAN_LAUNCHES // launches) if launches else wanted)
        if k < wanted:
            self._notes.note("fewer queued", calls=k, wanted=wanted)
        rule = self._sampler.spec.rule()
        from_ns = self._sampler.watch.spent_ns()
        while not rule.finished:
            reading = yield from self._sampler.sample(k)
            self.queued.append(reading.done_ns / k / 1e9)
            rule.add((self.queued[-1],), self._since_s(from_ns))

    def take_spans(self, returns_s: float, done_s: float) -> Phase[None]:
        """The device span.  returns_s, done_s: the medians."""
        backend = self._sampler.devices.with_events()
        if backend is None:
            self._notes.note("no events", device=self._sampler.devices.backends[0].kind)
            return
        alone = yield from self._sampler.span(backend, 1, _backlog_s(returns_s, 1))
        k = self.span_calls = self._calls_per_span(returns_s, alone.span_ns / 1e9)
        outlasted = yield from self._spans(backend, k, returns_s)
        if not alone.queued:
            self._notes.note("no backlog")
        elif 2 * outlasted > len(self.spans):
            self._notes.note("backlog outlasted", why=_why_outlasted(returns_s, done_s, k), host_s=returns_s * k)

    def _spans(self, backend: Backend, k: int, returns_s: float) -> Phase[int]:
        """Samples of k calls until the stopping rule has enough; gives how often Python outlasted the backlog."""
        rule = self._sampler.spec.rule()
        outlasted = 0
        backlog_s = _backlog_s(returns_s, k)
        from_ns = self._sampler.watch.spent_ns()
        while not rule.finished:
            reading = yield from self._sampler.span(backend, k, backlog_s)
            self.spans.append(reading.span_ns / k / 1e9)
            outlasted += reading.host_ns > backlog_s * 1e9
            rule.add((self.spans[-1],), self._since_s(from_ns))
        return outlasted

    def _calls_per_span(self, returns_s: float, span_s: float) -> int:
        if self._sampler.spec.setup_each is not None or self._sampler.spec.cold:
            return 1
        long_enough = math.ceil(SPAN_BLOCK_S / max(span_s, 1e-9))
        return max(1, min(long_enough, _calls_that_queue(returns_s), SPAN_MOST_CALLS))

    def take_recorded(self, median_done_s: float) -> Phase[None]:
        """A recorded run for the verdict, the last pass of all: profiling slows what comes after it.

        One run is easily disturbed (a descheduled thread, a first use of the recorder). While it takes longer than
        DISTURBED times the median of *done* it is repeated; the shortest is kept.
        """
        for _ in range(PROFILED_RUNS):
            kept = self.trace
            yield from self._record_once()
            if kept is not None and (self.trace is None or _window_s(kept) <= _window_s(self.trace)):
                self.trace = kept
            if self.trace is None or _window_s(self.trace) <= DISTURBED * median_done_s:
                return

    def _record_once(self) -> Phase[None]:
        if self._profile is None:
            return
        self._sampler.before()
        try:
            recording = self._recording = self._profile()
            try:
                recording.start()
            except CaptureError as error:
                self._recording = None
                self._notes.note("no verdict", why=error.message)
                return
            yield self._sampler.watch.repetitions(1)
            self.trace = self._stop(recording)
            self._recording = None
        finally:
            self.abandon()

    def _stop(self, recording: Recording) -> Trace | None:
        """End a recording; where that fails the numbers taken before are worth more than the verdict."""
        try:
            return recording.stop()
        except (PerfmagicError, RuntimeError) as error:
            self._notes.note("no verdict", why=str(error))
            return None

    def abandon(self) -> None:
        """End a recording whose run was left early, also one that had only half begun; it gives no trace."""
        if self._recording is not None:
            self.trace = None
            self._recording.give_back()
            self._recording = None

    def _since_s(self, from_ns: int) -> float:
        return (self._sampler.watch.spent_ns() - from_ns) / 1e9


def _backlog_s(returns_s: float, k: int) -> float:
    return min(BACKLOG_FACTOR * returns_s * k, BACKLOG_CAP_S)


def _calls_that_queue(returns_s: float) -> int:
    """How many calls make no more than SPAN_LAUNCHES launches, each of them as short as a launch can be."""
    return max(1, int(SPAN_LAUNCHES * FASTEST_LAUNCH_S / max(returns_s, 1e-9)))


def _why_outlasted(returns_s: float, done_s: float, k: int) -> str:
    """Why the backlog was over before the calls were queued, in most samples."""
    if BACKLOG_FACTOR * returns_s * k > BACKLOG_CAP_S:
        return "long"
    # a cell that waits for its own work comes back about when the device is done
    return "synchronises" if returns_s > done_s / 2 else "slower"


def _window_s(trace: Trace) -> float:
    return (trace.meta.end_ns - trace.meta.start_ns) / 1e9
