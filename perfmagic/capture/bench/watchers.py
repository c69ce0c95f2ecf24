"""What a benchmark watches beside the times: side effects, memory, compilations, the clocks of GPUs."""

from __future__ import annotations

from collections.abc import Callable

from perfmagic.capture.bench.clocks import Clocks
from perfmagic.capture.bench.device_use import DeviceUse
from perfmagic.capture.bench.growth import Growth
from perfmagic.capture.bench.notes import Notes
from perfmagic.capture.bench.peak_memory import PeakMemory
from perfmagic.capture.bench.side_effects import SideEffects
from perfmagic.capture.bench.spec import BenchSpec
from perfmagic.capture.devices.profiled import profiled_before

READ_CLOCKS_EVERY = 16  # samples, as the stopping rule looks


class Watchers:
    """Watches the first call and every sample of one body, all of it outside the clock.

    interleaved: whether other bodies run between its samples, whose memory is not its own.
    """

    def __init__(
        self, spec: BenchSpec, use: DeviceUse, clocks_of: Callable[[tuple[int, ...]], Clocks | None], notes: Notes
    ) -> None:
        self.interleaved = False
        self.peak = PeakMemory(use)
        self.clocks: Clocks | None = None
        self._use, self._clocks_of, self._notes = use, clocks_of, notes
        self._side_effects = SideEffects(spec)
        self._growth: Growth | None = None

    def before_first_call(self) -> None:
        """Look at what the body reads."""
        self._side_effects.before_first_call()

    def after_first_call(self) -> None:
        """See what the call has changed, and which GPUs have clocks to read."""
        self._side_effects.after_first_call()
        cuda = self._use.devices.cuda_indices()
        if cuda and profiled_before():
            self._notes.note("profiled before")
        self.clocks = self._clocks_of(cuda)

    def begin_run(self) -> None:
        """Note what there is before the first sample of a whole run."""
        self._growth = Growth(self._use.devices)
        self._read_clocks()

    def before_sample(self) -> Callable[[], None] | None:
        """Look before a sample; gives what is to be called when all is prepared for it."""
        if self.interleaved and self._growth is not None:
            self._growth.look()
        self._side_effects.before_sample()
        return self.peak.start if self.peak.wanted else None

    def after_sample(self, *, peak_watched: bool) -> None:
        """Look after a sample."""
        self._side_effects.after_sample()
        if peak_watched:
            self.peak.stop()
        if self.interleaved and self._growth is not None:
            self._growth.add()

    def read_clocks_when_due(self, samples: int) -> None:
        """Read the clocks of GPUs after every 16th sample of a run."""
        if samples % READ_CLOCKS_EVERY == 0:
            self._read_clocks()

    def end_run(self, *, first_s: float, median_s: float, calls: int) -> None:
        """Note what was seen.  first_s: of the first call, median_s: of those sampled, calls: made for this run."""
        self._read_clocks()
        self._side_effects.tell(self._notes, first_s, median_s)
        if self._growth is not None:
            if not self.interleaved:
                self._growth.add()
            self._growth.tell(self._notes, calls)
            self._growth = None

    def _read_clocks(self) -> None:
        if self.clocks is not None:
            self.clocks.read()
