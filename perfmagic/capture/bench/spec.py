"""How a benchmark is to be taken."""

from __future__ import annotations

import math
import os
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, fields
from operator import index
from typing import Protocol

from perfmagic.base.clock import is_repeatable, reader
from perfmagic.base.errors import OptionError
from perfmagic.base.options import documented, option, options
from perfmagic.capture.bench.clocks import Clocks, clocks_of
from perfmagic.capture.bench.stopping import StoppingRule
from perfmagic.capture.devices.backends import Backend, active_backends, torch_if_imported
from perfmagic.capture.unawaited import refuse_async
from perfmagic.trace.model import Trace
from perfmagic.trace.samples import Condition, Plain

_NEEDED = ("max_samples", "time_s", "rel", "cooldown_s", "runs")  # numbers that cannot be None
_WHOLE = ("samples", "min_samples", "max_samples", "calls", "warmup", "runs")  # fields of BenchSpec that count
MOST_CALLS = 10_000_000  # of one sample; more than a minute of an empty body


@dataclass(frozen=True)
class Work:
    """What one call does, as its author says: floating-point operations and bytes moved; None where unsaid.

    >>> perfmagic.Work(flops=2 * 1000**3).flops
    2000000000
    """

    flops: float | None = None
    bytes: float | None = None


Work.__init__ = documented()(Work.__init__)  # type: ignore[method-assign]  # old names of its fields work


@dataclass(frozen=True)
class BenchSpec:
    """How a benchmark is to be taken.

    samples: their exact number, None to let the stopping rule decide.  min_samples, max_samples: bounds of that
    rule; None for 20 below 50 ms a call, 10 below 0.5 s, 3 above.  time_s: how long to sample; 10 s or this is the cap.
    rel: half-width of the median's 95 % confidence interval to stop at, as a fraction of the median.
    calls: back to back in one sample of host work, None to let the clock decide.  Where a device works a sample of
    *returns* and *done* stays one call, and calls above 1 add *per call, queued*.
    warmup: calls before the samples, besides the first; None to go on until they settle.
    cold: overwrite the caches before each sample.  cooldown_s: how long to rest before each sample.
    runs: whole runs, each with a warm-up of its own, to see how much their medians differ.
    flop, moved_bytes: of one call, for achieved rates.  work: asked for both after the first call, instead.
    setup_each: runs before each sample, outside the clock.
    inputs: gives what the body works on by name, to tell whether its first call changes that.
    name, code, setup: kept with the result.
    magic: that asks for it, such as "%%bench"; "" for a function. Errors and advice speak of options as it does.
    Raises OptionError for a value that cannot be used.
    """

    samples: int | None = None
    min_samples: int | None = None
    max_samples: int = 10_000
    time_s: float = 2.0
    rel: float = 0.01
    calls: int | None = None
    warmup: int | None = None
    cold: bool = False
    cooldown_s: float = 0.0
    runs: int = 1
    flop: float | None = None
    moved_bytes: float | None = None
    work: Callable[[], Work] | None = None
    setup_each: Callable[[], object] | None = None
    inputs: Callable[[], Mapping[str, object]] | None = None
    name: str = ""
    code: str = ""
    setup: str = ""
    magic: str = ""

    def __post_init__(self) -> None:
        self._take_plain_numbers()
        for setting, least, wanted in (
            ("samples", 1, "at least one sample is needed"),
            ("min_samples", 1, "at least one sample is needed"),
            ("max_samples", 1, "at least one sample is needed"),
            ("warmup", 0, "a number of calls is needed, 0 for none"),
            ("runs", 1, "at least one run is needed"),
        ):
            value = getattr(self, setting)
            if value is not None and value < least:
                raise OptionError(f"{option(self.magic, setting, value)}: {wanted}")
        for setting, allowed, wanted in (
            ("time_s", 0 < self.time_s < math.inf, "a time above 0 s is needed"),
            ("rel", 0 < self.rel < 1, "a fraction between 0 and 1 is needed, 0.01 for 1 %"),
            ("cooldown_s", 0 <= self.cooldown_s < math.inf, "a time of 0 s or more is needed"),
            ("flop", self.flop is None or 0 < self.flop < math.inf, "a number above 0 is needed"),
            ("moved_bytes", self.moved_bytes is None or 0 < self.moved_bytes < math.inf, "a number above 0 is needed"),
        ):
            if not allowed:
                raise OptionError(f"{option(self.magic, setting, f'{getattr(self, setting):g}')}: {wanted}")
        for setting in ("setup_each", "work"):
            value = getattr(self, setting)
            if value is not None and not callable(value):
                raise OptionError(f"{setting}: a function is needed, not {type(value).__name__}")
            refuse_async(setting, value)
        for setting in ("name", "code", "setup"):
            if not isinstance(getattr(self, setting), str):
                raise OptionError(f"{setting}: text is needed, not {getattr(self, setting)!r}")
        self._check_calls()

    def _take_plain_numbers(self) -> None:
        """Numbers of numpy and others as Python's own, which JSON can hold."""
        for kind, names in ((index, _WHOLE), (float, ("time_s", "rel", "cooldown_s", "flop", "moved_bytes"))):
            for name in names:
                value = getattr(self, name)
                if value is None and name not in _NEEDED:
                    continue
                try:
                    object.__setattr__(self, name, kind(value))
                except (TypeError, ValueError):
                    wanted = "a whole number" if kind is index else "a number"
                    raise OptionError(f"{option(self.magic, name)}: {wanted} is needed, not {value!r}") from None

    def _check_calls(self) -> None:
        if self.calls is not None and not 1 <= self.calls <= MOST_CALLS:
            raise OptionError(f"{option(self.magic, 'calls', self.calls)}: a sample has 1 to {MOST_CALLS:,} calls")
        if (self.calls or 1) == 1:
            return
        calls = option(self.magic, "calls")
        if self.cold:
            raise OptionError(
                f"{options(self.magic, cold=True, calls=self.calls)}: only the first call of a sample would find "
                "cold caches",
                hint=f"leave out {calls}, or {option(self.magic, 'cold')}",
            )
        if self.setup_each is not None:
            raise OptionError(
                f"{options(self.magic, setup_each='…', calls=self.calls)}: only the first call of a sample would find "
                "what it sets up",
                hint=f"leave out {calls}, or {option(self.magic, 'setup_each')}",
            )

    def asked_work(self) -> Work:
        """What one call does; asks for it where a function says so."""
        if self.work is None:
            return Work(self.flop, self.moved_bytes)
        said: object = self.work()
        if not isinstance(said, Work):
            hint = "lambda: perfmagic.Work(flops=2e9, bytes=1e6)"
            raise OptionError(f"work: the function gave {said!r}, which is no perfmagic.Work", hint=hint)
        return said

    def rule(self) -> StoppingRule:
        """A fresh stopping rule."""
        return StoppingRule(
            wanted=self.samples, fewest=self.min_samples, most=self.max_samples, rel=self.rel, time_s=self.time_s,
            repeatable=is_repeatable() and self.min_samples is None,
        )  # fmt: skip

    def settings(self) -> dict[str, Plain]:
        """The settings of another run, as plain values, without name, code and set-up code."""
        return {
            "samples": self.samples,
            "min_samples": self.min_samples,
            "max_samples": self.max_samples,
            "time_s": self.time_s,
            "rel": self.rel,
            "calls": self.calls,
            "warmup": self.warmup,
            "cold": self.cold,
            "cooldown_s": self.cooldown_s,
            "runs": self.runs,
            "setup_each": self.setup_each is not None,
        }


def asks_for_sampling(options: Mapping[str, object]) -> bool:
    """Whether options say how much is to be sampled. A comparison obeys that, also where its verdict is then unclear.

    options: fields of BenchSpec by name; None where one was not given.
    """
    usual = {field.name: field.default for field in fields(BenchSpec)}
    names = ("samples", "min_samples", "max_samples", "time_s", "rel")
    return any(options.get(name) not in (None, usual[name]) for name in names)


# What is to be measured of one body, on what, and how many calls make a sample.

# Without a device a sample is at least so long, of as many calls as that takes (docs/measuring.md): the clock and the
# loop are then below 0.1 % of it, and cold caches at its start cost half as much as in one of 1 ms.
SAMPLE_S = 2e-3
SHORTEST_CALL_S = 10e-9  # an empty body with its loop; bounds the calls of a sample
# What runs between two samples evicts the body from the caches: a sample took up to 30 µs longer for it, and some 5 µs
# after one call (benchmarks/bench_accuracy.py). So untimed calls come before the clock starts: so long, at least one.
UNTIMED_S = 0.2e-3
UNTIMED_BELOW_S = 10e-3  # longer calls lose less than 0.3 %


class Recording(Protocol):
    """One profiled run: perfmagic.capture.recording.recorder.Recorder."""

    def start(self) -> None:
        """Begin."""

    def stop(self) -> Trace:
        """Wait for the devices, end it and give what was recorded."""

    def give_back(self) -> None:
        """End it without a Trace, however far it came; harmless after stop(), and when called again."""


def _clocks(indices: tuple[int, ...]) -> Clocks | None:
    torch = torch_if_imported()
    return clocks_of(torch, indices) if torch is not None and indices else None


def _excess_load() -> float:
    """The 1-minute load average where it exceeds the number of cores, else 0."""
    load = os.getloadavg()[0] if hasattr(os, "getloadavg") else 0.0  # absent on Windows
    return load if load > (os.cpu_count() or 1) else 0.0


@dataclass(frozen=True)
class Host:
    """The clock and everything else outside the body that a measurement looks at; a test brings its own.

    backends: the devices in use.  load: load average above the number of cores, else 0.  rest: sleeps some seconds.
    clocks: of the CUDA devices with these indices, None where nothing reports them.
    """

    clock_ns: Callable[[], int] = field(default_factory=reader)
    backends: Callable[[], tuple[Backend, ...]] = active_backends
    load: Callable[[], float] = _excess_load
    rest: Callable[[float], None] = time.sleep
    clocks: Callable[[tuple[int, ...]], Clocks | None] = _clocks


@dataclass(frozen=True)
class SampleSize:
    """How many calls a sample times, and how many untimed ones come right before it."""

    calls: int = 1
    untimed: int = 0


@dataclass(frozen=True)
class Plan:
    """What is to be measured of one body.

    spec: how it is to be taken.  synced: also the device span and, where profile is given, one recorded run for the
    verdict.  setup: runs once, before the first call.  profile: makes a Recording.
    """

    spec: BenchSpec
    synced: bool = False
    setup: Callable[[], object] | None = None
    profile: Callable[[], Recording] | None = None

    def several_calls(self, *, device_works: bool) -> bool:
        """Whether a sample may have several calls: nothing queues up and nothing has to be done between them."""
        return not device_works and self.spec.setup_each is None and not self.spec.cold

    def fills_samples(self, *, device_works: bool) -> bool:
        """Whether a sample has as many calls as it has room for."""
        return self.spec.calls is None and self.several_calls(device_works=device_works)

    def sample_size(self, call_s: float, *, device_works: bool) -> SampleSize:
        """The size of a sample of calls of this length, in seconds."""
        if not self.several_calls(device_works=device_works):
            return SampleSize()
        if self.spec.calls is not None:
            return SampleSize(self.spec.calls)
        shortest_s = max(call_s, SHORTEST_CALL_S)
        warm = self.spec.warmup != 0 and call_s < UNTIMED_BELOW_S
        return SampleSize(max(1, math.ceil(SAMPLE_S / shortest_s)), math.ceil(UNTIMED_S / shortest_s) if warm else 0)


# What a benchmark notes about itself: how it was taken, and how it ended.


class Notes:
    """The conditions of one benchmark, each of them once; perfmagic.analysis.bench words them."""

    def __init__(self) -> None:
        self.conditions: list[Condition] = []

    def note(self, kind: str, **values: Plain) -> None:
        """Note a condition."""
        condition = Condition(kind, values)
        if condition not in self.conditions:
            self.conditions.append(condition)


@dataclass
class Outcome:
    """When a benchmark began, with which others, and how it ended.

    round_id: of the benchmarks that it is interleaved with, empty where there are none.  work: of one call.
    failed: the exception or interrupt that ended it early, in words.  complete: whether everything was measured.
    """

    taken_unix_ns: int = 0
    round_id: str = ""
    work: Work = field(default_factory=Work)
    failed: str = ""
    complete: bool = False

    def begin(self, round_id: str) -> None:
        """The benchmark begins now."""
        self.taken_unix_ns, self.round_id = time.time_ns(), round_id

    def fail(self, error: BaseException, within: str = "") -> None:
        """An exception of the body, or an interrupt, ended it.  within: the body's name where there are several."""
        lines = str(error).strip().splitlines()
        what = "interrupted" if isinstance(error, KeyboardInterrupt) else ": ".join([type(error).__name__, *lines[:1]])
        self.failed = f"{what} (in {within})" if within else what
