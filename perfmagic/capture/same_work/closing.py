"""The calls after the samples, which tell what the samples cannot: one recorded run, the same values again, others.

They are made from the frame that the samples were made from.
"""

from __future__ import annotations

import gc
import math
from collections.abc import Callable, Generator, Iterable, Sequence
from contextlib import suppress
from types import FunctionType
from typing import Any, Protocol, TypeAlias

from perfmagic.base.errors import PerfmagicError
from perfmagic.capture.same_work.after_call import goes_on, is_unjoined
from perfmagic.capture.same_work.beyond.disturbed import on_disturbed_values
from perfmagic.capture.same_work.beyond.gradients import differ, gradients
from perfmagic.capture.same_work.beyond.noise import with_other_random_numbers
from perfmagic.capture.same_work.beyond.read_by_both import on_what_both_read
from perfmagic.capture.same_work.beyond.values import (
    on_other_integers,
    on_small_parts,
    on_what_is_carried,
    on_wider_values,
)
from perfmagic.capture.same_work.contents import is_tensor
from perfmagic.capture.same_work.difference import distances, unlike
from perfmagic.capture.same_work.drawn import addresses, drawn_anew, is_array, mapped, nearby
from perfmagic.capture.same_work.effects import events_of
from perfmagic.capture.same_work.recorded import work_in
from perfmagic.capture.same_work.same_work import SameWork
from perfmagic.capture.same_work.state import State, read_by
from perfmagic.capture.same_work.values import Leaf, containers, leaves, shared
from perfmagic.trace.model import Trace

Phase: TypeAlias = Generator[Iterable[tuple[Any, ...]], int, None]
SEEN_SAMPLES = ((0.005, 5), (0.02, 2), (math.inf, 1))  # (longest call in s, samples on values seen before)
PAIRS, LONG_PAIRS, LONG_S = 7, 3, 0.05  # for calls of that length fewer: none of them differs by noise
TRIES = 2  # series of pairs, each of which has to show it
MARK = 7.5e4  # what is written to a result, to see it in an input


class Recording(Protocol):
    """perfmagic.capture.recording.recorder.Recorder."""

    def start(self) -> None: ...
    def stop(self) -> Trace: ...
    def give_back(self) -> None: ...


class Raised:
    """In place of a result: what a call raised on values that are none of the user's."""

    def __init__(self, error: BaseException) -> None:
        self.error = error


class Closing:
    """Makes the calls.  samplers: of each function (perfmagic.capture.bench.sampling).  forgive: whether what a call
    raises becomes its result.
    """

    def __init__(
        self,
        same_work: SameWork,
        samplers: Sequence[Any],
        record: Callable[[], Recording] | None,
        forgive: Callable[[bool], None],
    ) -> None:
        self.same = self._same = same_work
        self._samplers, self._record, self._forgive = samplers, record, forgive
        self._recording: Recording | None = None
        self._after: dict[int, list[Leaf]] = {}
        self._gave: dict[int, Any] = {}
        self.raised: dict[int, BaseException] = {}  # by the last call of each that was gathered
        self._gradients: dict[int, dict[int, Any]] = {}
        self._states = same_work.states()
        self.first_values: tuple[int, list[Any], list[list[Leaf]]] = 0, [], []

    def schedule(self, fresh_s: Sequence[float], calls: int) -> Generator[tuple[int, Phase], None, None]:
        """All calls.  fresh_s: how long a call of each took on new values.  calls: in a sample."""
        same, everyone = self._same, range(len(self._samplers))
        same.checks_now = True
        same.new_values(same.calls, cheaply=True)
        for which in reversed(everyone):  # the first last: its answer cannot be found in memory
            less = any(each.does_less("") for each in same.watched)
            yield from self._twice(which, "", records_seen=which > 0 or less)
        if same.arguments is not None:
            self.first_values = same.results.seed, same.arguments.chosen(), same.results.of_all()
        self._compare_inputs()
        self._compare_gradients()
        for which in everyone:
            if same.watched[which].does_less(""):  # or other threads did what was recorded: once more
                same.new_values(same.calls, cheaply=True)
                yield from self._twice(which, " again")
        if same.fresh:
            yield from self._timed(fresh_s, calls)
        if same.arguments is not None and same.asked.values == "fresh" and not same.asked.random:
            yield from self._on_values_of_ours()
        if same.asked.random:
            yield from with_other_random_numbers(self)
        yield from on_what_is_carried(self)
        if same.arguments is None:
            yield from on_what_both_read(self)
        self._see_make()
        self._see_collected()
        same.checks_now = False
        for which in everyone:
            same.process.whole(same.watched[which])
        same.restore()

    def _twice(self, which: int, again: str, *, records_seen: bool = True) -> Generator[tuple[int, Phase], None, None]:
        """On new values, and on the same ones: what was written to memory in between is the function's own."""
        same = self._same
        yield which, self._recorded(which, "fresh" + again)
        if same.arguments is not None:
            same.holds, same.untouched = True, not same.watched[which].changes_inputs
            yield which, self._recorded(which, "seen" + again, records=records_seen and same.fresh)
            same.holds = same.untouched = False

    def _timed(self, fresh_s: Sequence[float], calls: int) -> Generator[tuple[int, Phase], None, None]:
        """Samples on values that were used right before; where they are quicker, pairs of new values and the same.

        The first is only asked where another keeps results: then it may, too.
        """
        same = self._same
        same.checks_now, same.warms = False, True
        for which, it in [*enumerate(same.watched)][::-1]:
            it.times_ns["fresh"] = [round(fresh_s[which] * 1e9)]
            if which:
                for _ in range(next(n for most_s, n in SEEN_SAMPLES if fresh_s[which] <= most_s)):
                    yield which, self._sample(which, calls, "seen")
            if it.is_quicker("fresh", "seen") if which else any(each.keeps_by_time for each in same.watched):
                yield from self._timed_in_pairs(which, calls, PAIRS if fresh_s[which] < LONG_S else LONG_PAIRS)
        same.checks_now, same.warms = True, False

    def _timed_in_pairs(self, which: int, calls: int, pairs: int) -> Generator[tuple[int, Phase], None, None]:
        same, it = self._same, self._same.watched[which]
        for n in range(TRIES):  # on a busy machine one series may fool
            new, again = f"new {n}", f"again {n}"
            for _ in range(pairs):
                same.new_values(same.calls, cheaply=True)
                yield which, self._sample(which, calls, new)
                yield which, self._sample(which, calls, again)
            it.keeps_by_time = it.is_quicker(new, again)
            if not it.keeps_by_time:
                return

    def _sample(self, which: int, calls: int, label: str) -> Phase:
        reading = yield from self._samplers[which].sample(calls)
        self._same.watched[which].times_ns.setdefault(label, []).append(reading.done_ns // calls)

    def _on_values_of_ours(self) -> Generator[tuple[int, Phase], None, None]:
        if self._same.fresh:
            yield from self._on_other_values()
            yield from on_wider_values(self)
            yield from on_small_parts(self)
            yield from on_other_integers(self)
        yield from on_disturbed_values(self)

    def _on_other_values(self) -> Generator[tuple[int, Phase], None, None]:
        """Values of the same shapes without what those of the user have in common; and the user's, a rounding away."""
        same = self._same
        assert same.arguments is not None
        if not same.arguments.in_place:
            same.new_values(cheaply=True)
            same.arguments.change(drawn_anew)
            same.results.are_ours = True
            self._forgive(True)
            more = [len(same.watched) == 1]  # whether any does more: only then it counts what the first does
            for which in reversed(range(len(self._samplers))):
                yield which, self._recorded(which, "other", records=which > 0 or any(more))
                more.append(same.watched[which].does_more_on_others())
            self._forgive(False)
            same.results.are_ours = False
        if same.results.in_doubt(same.arguments.longest()):
            same.new_values(cheaply=True)
            yield 0, self._recorded(0, "before")
            before = same.results.of_first()
            same.arguments.change(nearby)
            yield 0, self._nearby(before)

    def gathered(
        self, label: str, only: int | None = None
    ) -> Generator[tuple[int, Phase], None, list[Sequence[Leaf] | None]]:
        """What each gives on the chosen values, None where it raises.  only: one of them."""
        found: list[Sequence[Leaf] | None] = [None] * len(self._samplers)
        self._forgive(True)
        for which in reversed(range(len(self._samplers))) if only is None else [only]:
            yield which, self._gathered(which, label, found)
        self._forgive(False)
        return found

    def _gathered(self, which: int, label: str, found: list[Sequence[Leaf] | None]) -> Phase:
        same, sampler = self._same, self._samplers[which]
        sampler.before()
        same.ready(which)
        yield sampler.watch.repetitions(1)
        sampler.devices.synchronize()
        out = same.result()
        self.raised.pop(which, None)
        if isinstance(out, Raised):
            self.raised[which] = out.error
        else:
            found[which] = leaves(out, same.results.seed)
        checks, same.checks_now = same.checks_now, False
        same.after(which, 1)
        same.checks_now = checks

    def _see_make(self) -> None:
        """Whether the function that makes the arguments leaves something behind for another function."""
        same = self._same
        left = getattr(same.arguments, "left", None) or set()
        first = self._states[0]
        for watched, state in zip(same.watched[1:], self._states[1:], strict=True):
            for_it = left & {*state.held, *state.found} - {*first.held, *first.found}
            if for_it:
                watched.fact("made", names=state.name(min(for_it)))

    def _see_collected(self) -> None:
        """Whether a callback of garbage collection, which no clock sees, works with what a function reads."""
        states = self._states
        for each in gc.callbacks:
            if not isinstance(each, FunctionType):
                continue
            around = State({str(i): value for i, value in enumerate(read_by(each))})
            for watched, state in zip(self._same.watched[1:], states[1:], strict=True):
                if shared := {*around.held, *around.found} & {*state.held, *state.found}:
                    watched.fact("collected", names=state.name(min(shared)))

    def _nearby(self, before: Sequence[Leaf]) -> Phase:
        same, sampler = self._same, self._samplers[0]
        sampler.before()
        same.ready(0)
        yield sampler.watch.repetitions(1)
        sampler.devices.synchronize()
        same.results.moved(before, same.result())

    def _recorded(self, which: int, label: str, *, records: bool = True) -> Phase:
        """One call, recorded."""
        same, sampler = self._same, self._samplers[which]
        sampler.before()
        same.ready(which)
        sampler.devices.synchronize()
        before, held = self._states[which].marks(), self._states[which].holds()
        if records:
            self._start(which)
        same.effects.begin()
        try:
            with events_of(same.watched[which].effects):
                yield sampler.watch.repetitions(1)
            same.effects.end(same.watched[which].effects, 1)
            same.watched[which].holds[label] = held, self._states[which].holds()
            if label == "fresh":
                same.watched[which].unjoined = is_unjoined(sampler.devices.synchronize)
            sampler.devices.synchronize()
            trace = self._stop(which)
        finally:
            self.abandon()
        if trace is not None:
            same.watched[which].done[label] = work_in(trace)
        out = same.result()
        if isinstance(out, Raised):
            same.kept[0] = None
            same.watched[which].facts.pop("raised", None)
            same.watched[which].fact("raised", error=f"{type(out.error).__name__}: {out.error}"[:200])
            return
        self._note_kept(which, label, out)
        if label == "fresh":
            same.watched[which].shares = shared(out)
            same.watched[which].changed = self._states[which].changed(before, out)
            self._look_after(which, out)
            read = [*(value for _, value in self._states[which].found.values()), *same.given()]
            self._gradients[which] = {} if same.asked.random else gradients(out, read)
        same.after(which, 1)
        if label == "fresh":
            self._see_alias(which, out)

    def _note_kept(self, which: int, label: str, out: Any) -> None:
        """Whether the same values give the very same object once more, of a kind that is newly made."""
        if label == "fresh":
            self._gave[which] = out
        elif label == "seen" and out is self._gave.pop(which, None):
            small = isinstance(out, (int, str, bytes)) and not (isinstance(out, int) and abs(out) > 256)
            self._same.watched[which].keeps_object = not (out is None or small or is_array(out))

    def _start(self, which: int) -> None:
        if self._record is None:
            return
        self._recording = self._record()
        try:
            self._recording.start()
        except PerfmagicError as error:
            self._recording = None
            self._same.watched[which].fact("not recorded", why=error.message)

    def _stop(self, which: int) -> Trace | None:
        if self._recording is None:
            return None
        try:
            return self._recording.stop()
        except (PerfmagicError, RuntimeError) as error:
            self._same.watched[which].fact("not recorded", why=str(error))
            return None

    def abandon(self) -> None:
        """End a recording whose call was left early; harmless when repeated."""
        if self._recording is not None:
            self._recording.give_back()
            self._recording = None

    # When a call has returned and was waited for.

    def _look_after(self, which: int, out: Any) -> None:
        """What goes on, and whether the result still changes."""
        same = self._same
        gave = leaves(out, 0)
        found = {fact.kind: fact for fact in goes_on(same.progress, same.threads_before)}
        if "threads busy" in same.watched[which].facts:
            found.pop("late thread", None)  # they worked before any call
        same.watched[which].facts.update(found)
        later = leaves(out, 0)
        if unlike(gave, later) is None and any(distances(gave, later)):
            same.watched[which].fact("late result")
        if same.arguments is not None:
            chosen, left = leaves(same.arguments.chosen(), 0), leaves(same.arguments.slots[0], 0)
            same.watched[which].changes_inputs = unlike(chosen, left) is not None or any(distances(chosen, left))
            self._after[which] = left

    def _compare_inputs(self) -> None:
        """Whether all left their arguments the same, changed or not."""
        same = self._same
        if same.arguments is None:
            return
        first = same.watched[0]
        for which, watched in enumerate(same.watched[1:], 1):
            if watched.changes_inputs != first.changes_inputs:
                watched.fact("inputs changed", by=(watched if watched.changes_inputs else first).name)
            elif watched.changes_inputs:
                off = max(distances(self._after[0], self._after[which]), default=0.0)
                if off > same.results.allowed_for(self._after[0], same.arguments.longest()):
                    watched.fact("inputs left otherwise", off=min(off, 1e9))

    def _compare_gradients(self) -> None:
        """Whether the results' graphs give the same gradients of what both read."""
        first, state = self._gradients.pop(0, {}), self._states[0]
        for which, other in self._gradients.items():
            if others := differ(first, other):
                names = {state.name(key) if key in state.found else "an input" for key in others}
                self._same.watched[which].fact("other gradients", names=", ".join(sorted(names)[:3]))
        self._gradients.clear()

    def _see_alias(self, which: int, out: Any) -> None:
        """Whether a result lies in the memory of an argument."""
        same = self._same
        if same.arguments is None or not same.watched[which].takes_arguments:
            return
        slot = same.arguments.slots[0]
        places = {place for value in slot for place in addresses(value)}
        same.watched[which].aliases = bool(places & {*addresses(out)} or containers(slot) & containers(out))
        if not same.watched[which].aliases and any(is_tensor(v) and v.device.type == "sim" for v in slot):
            same.watched[which].aliases = seen_when_written(slot, out)


def seen_when_written(slot: Sequence[Any], out: Any) -> bool:
    """Whether what is written to a result is seen in an argument: simulated memory has no address. It is put back."""
    before = leaves(slot, 0)
    written: list[tuple[Any, Any]] = []

    def fill(tensor: Any) -> Any:
        if is_tensor(tensor) and tensor.is_floating_point() and not tensor.requires_grad:
            written.append((tensor, tensor.clone()))
            tensor.fill_(MARK)
        return tensor

    try:
        fill(out) if is_array(out) else mapped(out, fill)
        after = leaves(slot, 0)
    except RuntimeError:  # an expanded view
        return True
    finally:
        for tensor, was in reversed(written):
            with suppress(RuntimeError):
                tensor.copy_(was)
    return unlike(before, after) is not None or any(distances(before, after))
