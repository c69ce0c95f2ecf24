"""The benchmark engine: a body that stays in its owner's frame, measured while a loop repeats it.

    engine = Engine(BenchSpec(), synced=True)
    loop = engine.loop()
    try:
        while loop.more():
            for () in loop.repetitions(0):
                <body>
    except BaseException as error:
        engine.failed(error)
        raise
    finally:
        engine.close()
        record = engine.record()

A plan says what is measured (perfmagic.capture.bench.plan), phases measure it one after the other (phases), and a
record says what was taken (record). Several engines are interleaved by perfmagic.capture.bench.interleave.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial

from perfmagic.capture.bench.body_loop import BodyLoop, Phase, Repetition, drive
from perfmagic.capture.bench.phases import Phases
from perfmagic.capture.bench.plan import Host, Plan, Recording
from perfmagic.capture.bench.quiet import Quiet
from perfmagic.capture.bench.record import bench_record, progress_words
from perfmagic.capture.bench.spec import BenchSpec
from perfmagic.errors import CaptureError
from perfmagic.samples import BenchRecord, Plain

__all__ = ["BenchSpec", "Engine"]


class Engine:
    """Measures one body once, and owns what the measurement takes from the process until close().

    synced, setup, profile: see plan.Plan.  host: the clock and devices; a test brings its own.
    on_sample: called before every sample with a function that says in words how far the benchmark has come.
    """

    def __init__(
        self,
        spec: BenchSpec,
        *,
        synced: bool,
        setup: Callable[[], object] | None = None,
        profile: Callable[[], Recording] | None = None,
        on_sample: Callable[[Callable[[], str]], None] | None = None,
        host: Host | None = None,
    ) -> None:
        heard = None if on_sample is None else lambda: on_sample(partial(progress_words, self.phases))
        self.phases: Phases = Phases(Plan(spec, synced, setup, profile), host or Host(), on_sample=heard)
        self._quiet = Quiet()
        self._running: Phase[None] | None = None

    def __enter__(self) -> Engine:  # noqa: PYI034 - typing.Self needs Python 3.11
        return self

    def __exit__(self, *_error: object) -> None:
        self.close()

    def loop(self) -> BodyLoop:
        """Repeats the body until everything is measured; its first output is let through, later ones are dropped."""
        return BodyLoop((one for one in [(0, self._run())]), self.phases.host.clock_ns)

    def calls(self) -> Iterator[Repetition]:
        """The same for a plain `for` loop, which costs more for each repetition."""
        return drive(self._run(), self.phases.host.clock_ns)

    def _run(self) -> Phase[None]:
        if self._running is not None:
            raise CaptureError("this benchmark has been run already", hint="make a new Engine for another run")
        self._running = self._whole()
        return self._running

    def _whole(self) -> Phase[None]:
        try:
            self._quiet.begin()
            yield from self.phases.first_call()
            self._quiet.mute()
            yield from self.phases.after_first_call()
        finally:
            self._quiet.end()

    def failed(self, error: BaseException, within: str = "") -> None:
        """Say what ended the body early; what was measured before is kept.

        within: the name of the body that raised, where several are interleaved.
        """
        self.phases.outcome.fail(error, within)

    def note(self, kind: str, **values: Plain) -> None:
        """Note a condition that the engine's owner knows of."""
        self.phases.notes.note(kind, **values)

    def close(self) -> None:
        """End a recording under way and put back gc, hooks and output; harmless when all is over, and when repeated."""
        try:
            if self._running is not None:
                self._running.close()
            self.phases.passes.abandon()
        finally:
            self._quiet.end()

    @property
    def has_samples(self) -> bool:
        """Whether any sample has been taken."""
        return len(self.phases.sampling.done_s()) > 0

    def record(self) -> BenchRecord:
        """What was measured so far."""
        return bench_record(self.phases)
