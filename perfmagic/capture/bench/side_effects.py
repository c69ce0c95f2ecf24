"""What a body does besides taking time: it prints, and its first call modifies the input of later ones."""

from __future__ import annotations

from perfmagic.capture.bench import quiet
from perfmagic.capture.bench.inputs import Inputs
from perfmagic.capture.bench.notes import Notes
from perfmagic.capture.bench.spec import BenchSpec

CHANGED_TIMES = 4.0  # from here on %timeit says that a slowest run took long; a first call mostly is the slowest
CHANGED_S = 50e-6  # a first call of less is long for its cold caches


class SideEffects:
    """Watches the first call and every sample of one benchmark."""

    def __init__(self, spec: BenchSpec) -> None:
        self._inputs_of = spec.inputs if spec.setup_each is None else None
        self._before: Inputs | None = None
        self._after: Inputs | None = None  # as the first call left them
        self._changed: frozenset[str] = frozenset()
        self._outputs = 0
        self._prints = False

    def before_first_call(self) -> None:
        """Look at what the body works on."""
        self._before = Inputs(self._inputs_of()) if self._inputs_of is not None else None

    def after_first_call(self) -> None:
        """See what the call has modified."""
        if self._before is not None and self._inputs_of is not None:
            self._changed = self._before.changed(self._inputs_of())
            self._after = Inputs(self._inputs_of()) if self._changed else None
            self._before = None

    def before_sample(self) -> None:
        """Output from here on is the sample's."""
        self._outputs = quiet.dropped_outputs()

    def after_sample(self) -> None:
        """See whether there was any."""
        self._prints = self._prints or quiet.dropped_outputs() > self._outputs

    def tell(self, notes: Notes, first_s: float, later_s: float) -> None:
        """Note each once, whatever the number of runs.

        Modified inputs are noted where the first call took longer and later ones left them alone: those may have had
        less to do.
        """
        if self._after is not None and self._inputs_of is not None:
            by_first = self._changed - self._after.changed(self._inputs_of())
            if by_first and first_s >= max(CHANGED_S, CHANGED_TIMES * later_s):
                times = first_s / later_s if later_s > 0 else 0.0
                notes.note("changed inputs", seconds=first_s, times=times, names=", ".join(sorted(by_first)))
        if self._prints:
            notes.note("prints")
        self._after, self._prints = None, False
