"""Whether several functions do the same work, found out from the very calls that are timed.

A function cannot tell a judged call from a timed one: all are made from one frame, with the same objects, and which
result is looked at is chosen when the call has returned. Later calls, on values that are new, seen before or of another
kind, are made from that frame, too.
"""

from __future__ import annotations

import secrets
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from perfmagic.base.imported import torch_if_imported
from perfmagic.capture.same_work.after_call import not_quiet
from perfmagic.capture.same_work.arguments import Arguments, GivenArguments
from perfmagic.capture.same_work.callees import Callees
from perfmagic.capture.same_work.carried import Carried, Walk, names_of
from perfmagic.capture.same_work.difference import distances, unlike
from perfmagic.capture.same_work.drawn import addresses, read_through
from perfmagic.capture.same_work.effects import EffectsWatch
from perfmagic.capture.same_work.process import NOW_NS, RandomState, n_threads, threads_cpu_ns
from perfmagic.capture.same_work.results import Results
from perfmagic.capture.same_work.state import State
from perfmagic.capture.same_work.values import leaves
from perfmagic.capture.same_work.watched import ProcessWatch, Watched

CHECKING_FRAC = 0.06  # of the time so far, that results may be compared for
MAKING_FRAC = 0.06  # that arguments may be made and written for; else those that there are get other values
LOOKING_FRAC = 0.02  # that inputs may be looked at for before the samples
ALWAYS_CHECKED = 6  # passes
SIZES_LOOKED = 8  # calls of each around which the sizes of containers are looked at, later those of some
SOMETIMES, RESIZED = 16, 3  # one call in that many; calls that resize a container: once may be a buffer's first use
ALWAYS_LOOKED = 8  # calls before the samples
PREPARED_NS = 2_000_000  # to make the arguments of one sample


@dataclass(frozen=True)
class Asked:
    """What the user says of the functions.

    dtype: the precision that is good enough, as torch names it.  random: results are random.  equal: the user's own
    check of two results.  values: "fresh", or "given" where functions may depend on the values given.
    """

    dtype: str = ""
    random: bool = False
    equal: Callable[[Any, Any], Any] | None = None
    values: str = "fresh"


class SameWork:
    """Watches every sample of some functions that are compared, the first of them the reference.

    arguments: what they are called with, None for functions without any.  takes: which of them take arguments.
    reads: of each what it reads from around it.  bodies: the functions, where that is what runs.
    kept: where the calls of a sample leave their results.  The code that runs the functions puts them there.
    """

    def __init__(
        self,
        names: Sequence[str],
        asked: Asked,
        arguments: Arguments | None,
        takes: Sequence[bool],
        reads: Sequence[Callable[[], Mapping[str, object]] | None],
        bodies: Sequence[Callable[..., object]] = (),
    ) -> None:
        self.asked, self.arguments = asked, arguments
        self.kept: list[Any] = [None]
        self.watched = [Watched(name, takes_arguments) for name, takes_arguments in zip(names, takes, strict=True)]
        of_inputs = [] if arguments is None else [leaf.eps for leaf in leaves(arguments.slots[0])]
        self.results = Results(
            len(names),
            equal=asked.equal,
            random=asked.random,
            eps=_eps(asked.dtype),
            eps_of_numbers=max(of_inputs, default=0.0),
        )
        self._process: ProcessWatch | None = None
        self._callees = [*map(Callees, bodies)]
        self._resting: dict[int, int] = {}  # CPU time of other threads when the last sample was looked at
        self._rest_ns, self.busy_ns, self.rested_ns = 0, 0, 0
        self.effects = EffectsWatch()
        self.progress: Callable[[], int | None] = lambda: None
        self.threads_before: set[int] = set()  # those of others
        self.calls = 1  # in a sample, as many arguments as lie ready
        self.holds = False  # the same values again
        self.untouched = False  # and in the same memory, which was not written to since: some caches ask for a version
        self.checks_now = False
        self.writes_all = True  # where results are compared; else only what was redrawn since
        self.warms = False  # the processor's caches hold the values before each sample
        self.last_states: list[State] = []
        self.take: Callable[[], Any] | None = None  # what gives the results of code that returns none
        self._reads = reads
        self._random, self._seed = RandomState(), secrets.randbits(31)
        self._in_pass: bool | None = False  # None: to be decided when the first call of the pass has returned
        self._passes = 0
        self._begun_ns = NOW_NS()
        self._spent_ns = {"checking": 0, "making": getattr(arguments, "made_ns", 0)}
        self._queued: int | None = None
        self._stray, self._looks = 0, 0
        self._inputs_change = False
        self._begun: dict[int, tuple[State, dict[int, tuple[Any, ...]]]] = {}  # before the first call of each
        self._own: dict[int, State] = {}  # what its first call changed of it
        self._sizes: dict[int, int] = {}  # of containers that the first reaches, before the present call
        self._sized, self._resized = [0] * len(names), [Counter[int]() for _ in names]
        self.goes_on = False  # calls begin where the last one ended
        self._bodies = [*bodies]

    @property
    def process(self) -> ProcessWatch:
        """Begins to watch when the first function is about to run: what a benchmark itself sets is not theirs."""
        if self._process is None:
            self._process = ProcessWatch()
        return self._process

    # What a body is called with, and where its results go.

    @property
    def fresh(self) -> bool:
        """Whether calls get values that none has seen."""
        if isinstance(self.arguments, GivenArguments):
            return self.arguments.varies
        return self.arguments is not None

    def items(self, which: int, k: int) -> list[tuple[tuple[Any, ...], int]]:
        """For each of k calls its arguments, and the place in kept for what it gives."""
        slots = self.arguments.slots if self.arguments is not None and self.watched[which].takes_arguments else [[]]
        n, places = len(slots), max(2, len(slots))
        self.kept += [None] * (places - len(self.kept))
        return [((*slots[i % n],), i % places) for i in range(k)]

    def plan(self, calls: int) -> int:
        """How many calls a sample may have, of those that the clock asks for; their arguments lie ready now."""
        if self.arguments is None:
            return calls
        self.calls = 1
        if not self.arguments.in_place and not any(watched.reuses for watched in self.watched):
            made_ns = getattr(self.arguments, "made_ns", 0)
            self.calls = max(1, min(calls, PREPARED_NS // max(1, made_ns), self.arguments.most_sets()))
        if self.calls > 1:
            self.arguments.prepare(self.calls)
        self._write()
        return self.calls

    # Around each sample.

    def begin(self, progress: Callable[[], int | None]) -> None:
        """Look at the devices before anything runs."""
        self.progress, self.threads_before = progress, {*threads_cpu_ns()}
        if going_on := not_quiet(progress):
            for watched in self.watched[1:]:
                watched.fact(going_on)
        self._queued = progress()

    def begin_pass(self) -> None:
        """The next sample of each function is made on the same new values."""
        self._in_pass, self._passes = None, self._passes + 1
        self.new_values(self.calls, cheaply=self._passes > 1 and not self._affordable("making", MAKING_FRAC))

    def end_pass(self) -> None:
        """What follows is compared with nothing."""
        self._in_pass = False

    def new_values(self, n: int = 1, *, cheaply: bool = False) -> None:
        """Choose values for n calls."""
        if self.fresh:
            self._seed = secrets.randbits(31)
        self.results.begin(self._seed)
        if self.arguments is not None:
            from_ns = NOW_NS()
            self.arguments.prepare(n, cheaply=cheaply)
            self._spent_ns["making"] += NOW_NS() - from_ns

    def other_values(self) -> None:
        """Choose new values for one call, to be changed; where they take long to make, those that were made last."""
        self.new_values(cheaply=(as_made := getattr(self.arguments, "made_ns", 0) > PREPARED_NS))
        if as_made and self.arguments is not None:
            self.arguments.as_made()

    def choose_again(self, seed: int, values: Sequence[Any]) -> None:
        """Choose values of before for one call."""
        assert self.arguments is not None
        self._seed = seed
        self.results.begin(seed)
        self.arguments.prepare(1, cheaply=True)
        self.arguments.choose(values)

    def given(self) -> list[Any]:
        """What the next call is called with."""
        return self.arguments.slots[0] if self.arguments is not None else []

    def elapsed_ns(self) -> int:
        """Since the comparison began."""
        return NOW_NS() - self._begun_ns

    def new_seed(self) -> None:
        """Other random numbers for the same values."""
        self._seed = secrets.randbits(31)

    def restore(self) -> None:
        """Give all functions the state back that they had after their first calls."""
        for state in self._own.values():
            state.restore()

    def before(self, which: int) -> None:
        """A sample is about to be prepared: nothing may have been queued since the last one."""
        self._see_busy_threads()
        now = self.progress()
        self._stray += None not in (now, self._queued) and now != self._queued
        self.process.before()

    def ready(self, which: int) -> None:
        """The clock is about to start: the chosen values come to where the arguments lie."""
        self._rest()  # not before: threads of a pool work in the untimed calls
        if self.arguments is not None and not self.untouched:
            self._write()
        if self.warms and self.arguments is not None:
            for slot in self.arguments.slots:
                read_through(slot)
        self._keep_or_restore(which)
        self._random.set(self._seed)
        self._sizes = self._sizes_around(which)
        self._see_busy_threads()
        self.effects.begin()

    def _keep_or_restore(self, which: int) -> None:
        """Training goes on with each call: every one that is judged begins where the first call ended."""
        if which not in self._begun:
            self._begun[which] = (state := self._state(which)), state.marks()
            return
        if not self._own:  # of all at one time: they may share it
            given = self.arguments.slots if self.arguments is not None else []
            for each, before in self._begun.items():
                self._own[each] = self._state(each)
                self._own[each].keep(*before, without=given)
        if not self.goes_on:
            self._own[which].restore()

    def _sizes_around(self, which: int) -> dict[int, int]:
        """What containers that the first reaches hold, before some calls."""
        self._sized[which] += 1
        looks = self._sized[which] <= SIZES_LOOKED or not secrets.randbelow(SOMETIMES)
        return self._sizes_of_first() if looks else {}

    def _sizes_of_first(self) -> dict[int, int]:
        given = {*map(id, self.given())}
        sizes = self._begun[0][0].sizes() if 0 in self._begun else {}
        return {key: n for key, n in sizes.items() if key not in given}

    def resized(self, which: int) -> list[str]:
        """Names of containers that the first reaches, whose size calls of another change often, and its own never.

        Empty where each changes some of its own: a list to note what it gave is as good.
        """
        own, other = self._resized[0], self._resized[which]
        often = {key for key, n in other.items() if n >= RESIZED and key not in own}
        return sorted(self._begun[0][0].name(key) for key in often) if len(often) > len(own - other) else []

    def _state(self, which: int) -> State:
        return State(self._names(which))

    def _names(self, which: int) -> Mapping[str, object]:
        read = self._reads[which]
        names = read() if read is not None else {}
        return names_of(self._bodies[which], names) if self._bodies else names

    def reached(self, which: int) -> list[object]:
        """What a function reads, and itself."""
        return [*self._bodies[which : which + 1], *self._names(which).values()]

    def walk(self, which: int) -> Carried:
        """All that a function can change, as it is now."""
        walk = Walk(self._names(which), self.given())
        walk.look_at_files(self.watched[which].effects.opened)
        return walk.found

    def _write(self) -> None:
        """Put the values where the functions read them; all of them where results are compared."""
        assert self.arguments is not None
        judged = self._in_pass or self.checks_now or self._inputs_change
        from_ns = NOW_NS()
        self.arguments.write(only_new=not judged or not self.writes_all)
        self._spent_ns["checking" if judged else "making"] += NOW_NS() - from_ns

    def after(self, which: int, calls: int) -> None:
        """The clock has stopped."""
        self.effects.end(self.watched[which].effects, calls)
        if not self._passes and self.arguments is not None and not self._inputs_change:
            self._see_changed_inputs()
        self.process.after(self.watched[which])
        if self._sizes:
            self._resized[which].update(k for k, n in self._sizes_of_first().items() if n != self._sizes.get(k, n))
        for other, callees in enumerate(self._callees):
            if what := callees.replaced(by_itself=other == which):
                self.watched[which].fact("replaced", what=what)
        if self._callees:
            self._callees[which].note_own()
        if self._in_pass is None:
            self._in_pass = self._passes <= ALWAYS_CHECKED or self._affordable("checking", CHECKING_FRAC)
        if self._in_pass or self.checks_now:
            from_ns = NOW_NS()
            at = 0 if self.arguments is None or not self.watched[which].takes_arguments else self._one_of(calls)
            self._check(which, at)
            self._spent_ns["checking"] += NOW_NS() - from_ns
        elif calls > 1 and self.arguments is not None:
            self._see_reuse(which, calls)
        self._drop(which)
        self.process.threads(self.watched[which])
        self._queued = self.progress()
        self._rest()

    def _rest(self) -> None:
        self._rest_ns, self._resting = NOW_NS(), threads_cpu_ns() if n_threads() > 1 else {}

    def _drop(self, which: int) -> None:
        """Forget the results: what runs when they end is a function's work, too."""
        from_ns = NOW_NS()
        self.kept[:] = [None] * len(self.kept)
        self.watched[which].times_ns.setdefault("dropped", []).append(NOW_NS() - from_ns)

    def _see_changed_inputs(self) -> None:
        """Whether calls change their inputs: after the first few calls as often as there is time."""
        assert self.arguments is not None
        self._looks += 1
        if self._looks > ALWAYS_LOOKED and not self._affordable("checking", LOOKING_FRAC):
            return
        from_ns = NOW_NS()
        chosen, left = leaves(self.arguments.chosen()), leaves(self.arguments.slots[0])
        self._inputs_change = unlike(chosen, left) is not None or any(distances(chosen, left))
        self._spent_ns["checking"] += NOW_NS() - from_ns

    def _see_busy_threads(self) -> None:
        """Threads that the functions have started and that work while none of them is called."""
        if self._rest_ns:
            self.rested_ns += NOW_NS() - self._rest_ns
            if self._resting:
                now = {t: ns for t, ns in threads_cpu_ns().items() if t not in self.threads_before}
                self.busy_ns += sum(ns - self._resting.get(t, 0) for t, ns in now.items())
            self._rest_ns = 0

    def _one_of(self, calls: int) -> int:
        """Which call of a sample is looked at: the same one of all functions, unpredictable."""
        lying = max(1, min(calls, self.calls))  # the last as often as all others: the next call may mend those
        return lying - 1 if self._seed % 2 else self._seed // 2 % lying

    def result(self, at: int = 0) -> Any:
        """What a call of the last sample gave."""
        return self.kept[at] if self.take is None else self.take()

    def _check(self, which: int, at: int) -> None:
        self.results.take(which, self.result(at), same_values=self.holds or not self.fresh)

    def _see_reuse(self, which: int, calls: int) -> None:
        """Results that lie in one place hold those of the last call alone: a sample then has one call."""
        places = [addresses(each) for each in self.kept[: min(calls, len(self.kept))] if each is not None]
        seen = [place for one in places for place in one]
        self.watched[which].reuses = self.watched[which].reuses or len(set(seen)) < len(seen)

    def _affordable(self, what: str, frac: float) -> bool:
        """Whether there is time for something; at random, so it is unpredictable."""
        return self._spent_ns[what] < frac * (NOW_NS() - self._begun_ns) * (0.5 + secrets.randbelow(1000) / 1000)

    # At the end.

    def on_host(self) -> bool:
        """Whether arguments and results are all on the host."""
        given = leaves(self.arguments.slots[0]) if self.arguments is not None else []
        return all(leaf.device == "cpu" for leaf in (*given, *self.results.of_first(), *self.results.before))

    def states(self) -> list[State]:
        """What each function reaches from around it."""
        self.last_states = [*map(self._state, range(len(self._reads)))]
        return self.last_states

    def close(self) -> None:
        """Give back random numbers and the user's objects; harmless when repeated."""
        self._random.close()
        self.effects.close()
        if self.arguments is not None:
            self.arguments.close()


def _eps(dtype: str) -> float:
    torch = torch_if_imported()
    if not dtype or torch is None:
        return 0.0
    kind = getattr(torch, dtype, None)
    return float(torch.finfo(kind).eps) if kind is not None else 0.0
