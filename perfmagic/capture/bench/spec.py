"""How a benchmark is to be taken."""

from __future__ import annotations

import math
import os
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, fields
from operator import index
from typing import Protocol

import numpy as np

from perfmagic.base.clock import is_repeatable, reader
from perfmagic.base.errors import OptionError
from perfmagic.base.imported import torch_if_imported
from perfmagic.base.language import counted, phrase
from perfmagic.base.numerics import stats
from perfmagic.base.numerics.stats import BAND, FEWEST_99, judged, ratio_interval
from perfmagic.base.options import documented, option, options
from perfmagic.base.units import NBSP, duration_s, given_s, percent_known
from perfmagic.capture.bench.clocks import Clocks, clocks_of
from perfmagic.capture.devices.backends import Backend, active_backends
from perfmagic.capture.unawaited import refuse_async
from perfmagic.trace.model import Trace
from perfmagic.trace.samples import Condition, Float64, Plain

# When to stop: warm-up, the samples of one body, the passes of a comparison. One class each, fed one value at a time.
# None of them looks at a clock: the time spent comes with each value, so a test can replay any run.
# Source of rules and figures: docs/measuring.md, "First call and warm-up" and "Comparing".

AGREE_FRAC = 0.2  # two first calls agree: compile, autotune and graph warm-up differ by far more (docs/measuring.md)
LONGER = 1.2  # times the time that was given: from here on it is no longer said to have been kept
WARM_UP_S = 0.2
WARM_UP_CAP_S = 2.0
QUARTILES_AGREE_FRAC = 0.05  # pyperf, calibration of warm-ups: |Q1|, |Q3| ≤ 5 %, MAD ≤ 10 %
MAD_AGREES_FRAC = 0.10
MAD_NEEDS = 8  # a median distance from fewer values says little: then the quartiles alone decide

CAP_S = 10.0
CHECK_EVERY = 16
CHECKS_PER_DOUBLING = 16  # later checks lie n / 16 apart, so that checking never costs more than sampling
STABLE_CHECKS = 8  # noise figures that must agree; nvbench stdrel asks for 64 of its own, one a sample
STABLE_FRAC = 0.05  # nvbench stdrel_criterion: relative deviation of the last noise figures from the newest
STABLE_AFTER_S = 0.5  # nvbench min-time

DECIDE_S = 10.0  # length of a comparison whose verdict stays unclear, warm-up included
MOST_S = 60.0  # its length where the verdict still lacks samples: longer comparisons are not worth it
FIRST_LOOK = 20  # samples of each: below it an interval says little
MORE_FRAC = 0.25  # re-check after 25 % more samples: each check is a chance of a false alarm
# Some 20 looks at 95 % each call 2 to 3 % of equal bodies different; at 99.9 % hardly any, and a true 5 % is found
# after twice as many samples (benchmarks/bench_coverage.py, "looked at").
SURE_LEVEL = 0.999


def agree(a: float, b: float, frac: float) -> bool:
    """Whether two values differ by no more than this share of the larger."""
    return abs(a - b) <= frac * max(abs(a), abs(b))


def fewest_samples(call_s: float) -> int:
    """How many samples calls of this length need at least: 20, 10 from 50 ms on, 3 from 0.5 s on."""
    if call_s < 0.05:
        return 20
    return 10 if call_s < 0.5 else 3


class WarmUp:
    """Says when repeated calls have settled: two successive halves of at least 0.1 s each agree, or 2 s are over.

    Also where the medians oscillate: calls that warm up move one way, and noise does not end with more warm-up.
    """

    def __init__(self) -> None:
        self.settled = False
        self.spent_s = 0.0
        self._half_start_s = 0.0
        self._before: list[float] = []
        self._now: list[float] = []
        self._medians: list[float] = []  # of the halves

    @property
    def finished(self) -> bool:
        return self.settled or self.spent_s >= WARM_UP_CAP_S

    def add(self, call_s: float, spent_s: float) -> None:
        """Take the time of one call; spent_s: since warm-up began."""
        self._now.append(call_s)
        self.spent_s = spent_s
        if spent_s - self._half_start_s < WARM_UP_S / 2:
            return
        self._medians.append(float(np.median(self._now)))
        self.settled = bool(self._before) and (_halves_agree(self._before, self._now) or _turned(self._medians[-3:]))
        self._before, self._now, self._half_start_s = self._now, [], spent_s

    def typical_s(self) -> float:
        """Median of the newest values, 0.0 where there are none: what a call costs now."""
        newest = self._now or self._before
        return float(np.median(newest)) if newest else 0.0


def _halves_agree(before: Sequence[float], now: Sequence[float]) -> bool:
    a, b = np.asarray(before), np.asarray(now)
    quartiles = zip(stats.quartiles(a), stats.quartiles(b), strict=True)
    if not all(agree(x, y, QUARTILES_AGREE_FRAC) for x, y in quartiles):
        return False
    return min(len(a), len(b)) < MAD_NEEDS or agree(stats.mad(a), stats.mad(b), MAD_AGREES_FRAC)


def _turned(medians: Sequence[float]) -> bool:
    """Whether three medians went down and up, or up and down."""
    return len(medians) == 3 and (medians[1] - medians[0]) * (medians[2] - medians[1]) < 0


FEWEST_EQUAL = 3  # the first of a body may allocate what later ones use again


class StoppingRule:
    """Says when one body has enough samples, and in words why.

    wanted: the exact number of samples, whatever the time. Without it the first of these decides: the 95 % confidence
    interval of every median is within rel; the noise no longer changes; the time is spent; the cap is reached, which
    waives the minimum number of samples. Intervals and noise are looked at every 16 samples, later every n / 16.
    repeatable: times are computed, so that a few equal samples say what all would.
    """

    def __init__(
        self,
        *,
        wanted: int | None = None,
        fewest: int | None = None,
        most: int = 10_000,
        rel: float = 0.01,
        time_s: float = 2.0,
        repeatable: bool = False,
    ) -> None:
        self.reason: str = ""
        self._repeatable = repeatable
        self._wanted, self._fewest, self._most = wanted, fewest, most
        self._rel, self._time_s, self._cap_s = rel, time_s, max(CAP_S, time_s)
        self._rows: list[tuple[float, ...]] = []
        self._next_check = 0
        self._noise: list[float] = []

    @property
    def finished(self) -> bool:
        return bool(self.reason)

    def add(self, row: tuple[float, ...], spent_s: float) -> None:
        """Take one sample of every quantity, in seconds a call; spent_s: since sampling began."""
        self._rows.append(row)
        if not self.finished:  # enough stays enough: of interleaved bodies one is sure before another
            self.reason = self._reason(len(self._rows), spent_s)

    def _reason(self, n: int, spent_s: float) -> str:
        if self._wanted is not None:
            return (
                counted(n, "took the {n} sample asked for", "took the {n} samples asked for")
                if n >= self._wanted
                else ""
            )
        if self._repeatable and n >= FEWEST_EQUAL and len({*self._rows[-FEWEST_EQUAL:]}) == 1:
            return phrase("stopped as samples are equal on a virtual clock")
        if n >= self._most:
            return counted(
                n,
                "stopped at the maximum of {n} sample{reached}",
                "stopped at the maximum of {n} samples{reached}",
                reached=self._reached(),
            )
        if spent_s >= self._cap_s:
            return phrase("stopped at the cap of {time}{reached}", time=given_s(self._cap_s), reached=self._reached())
        if n < self._least():
            return ""
        if spent_s >= self._time_s:
            return phrase("stopped after {time}{reached}", time=self._time_words(n, spent_s), reached=self._reached())
        return self._check(n, spent_s) if n >= self._next_check else ""

    def _time_words(self, n: int, spent_s: float) -> str:
        """The time that was given, or what it took where the minimum number of samples takes longer."""
        if n > self._least() or spent_s < LONGER * self._time_s:
            return given_s(self._time_s)
        spent = duration_s(spent_s)
        return counted(n, "{time} at the minimum of {n} sample", "{time} at the minimum of {n} samples", time=spent)

    def _least(self) -> int:
        if self._fewest is not None:
            return self._fewest
        return fewest_samples(sum(max(row) for row in self._rows[:CHECK_EVERY]) / len(self._rows[:CHECK_EVERY]))

    def _check(self, n: int, spent_s: float) -> str:
        self._next_check = n + max(CHECK_EVERY, n // CHECKS_PER_DOUBLING)
        columns = self._columns()
        half_width = max(stats.relative_half_width(c) for c in columns)
        if half_width <= self._rel:
            within = f"±{NBSP}{percent_known(self._rel)}"
            return phrase("stopped when the confidence interval was within {within}", within=within)
        self._noise.append(max(stats.noise_frac(c) for c in columns))
        if spent_s >= STABLE_AFTER_S and self._noise_is_stable() and math.isfinite(half_width):
            return phrase("stopped when the noise was stable{reached}", reached=self._reached())
        return ""

    def _noise_is_stable(self) -> bool:
        newest = self._noise[-1]
        if len(self._noise) < STABLE_CHECKS or not math.isfinite(newest):
            return False
        squares = [(noise - newest) ** 2 for noise in self._noise[-STABLE_CHECKS:]]
        return math.sqrt(sum(squares) / len(squares)) <= STABLE_FRAC * newest

    def _reached(self) -> str:
        """How well the medians are known now, as " (± 2.7 %)"; empty where there is no interval."""
        half_width = max(stats.relative_half_width(c) for c in self._columns())
        return f" (±{NBSP}{percent_known(half_width)})" if math.isfinite(half_width) else ""

    def _columns(self) -> list[stats.Float64]:
        return [np.asarray(column, np.float64) for column in zip(*self._rows, strict=True)]


class ComparisonRule:
    """Says when interleaved bodies have been compared for long enough, and in words why.

    When each is sure to be faster, slower or the same as the first; or after time_s, or after 60 s where even that gave
    too few samples for a verdict.  band: changes within it do not count.
    """

    def __init__(self, *, band: float = BAND, time_s: float = DECIDE_S) -> None:
        self.reason: str = ""
        self._band, self._time_s = band, time_s
        self._passes = 0
        self._look_at = FIRST_LOOK

    @property
    def finished(self) -> bool:
        return bool(self.reason)

    def add(self, samples: Callable[[], Sequence[Float64]], spent_s: float) -> None:
        """One pass through all bodies has ended.

        samples: gives all samples of each body, asked for only when they are looked at.  spent_s: with warm-up, which
        is part of what a user waits for.
        """
        self._passes += 1
        if self._passes == self._look_at:
            self._look_at += max(2, int(self._passes * MORE_FRAC))
            first, *others = samples()
            if all(self._clear(other, first) for other in others):
                self.reason = phrase("stopped when the comparison was clear")
                return
        if spent_s >= (MOST_S if self._passes < FEWEST_99 else self._time_s):
            self.reason = phrase("stopped after {time}{reached}", time=duration_s(spent_s), reached="")

    def _clear(self, other: Float64, first: Float64) -> bool:
        """Whether it is sure now, also when it is looked at again and again."""
        interval = ratio_interval(other, first, interleaved=True)
        if interval is not None and judged(interval, self._band) == "same":
            return True
        sure = ratio_interval(other, first, interleaved=True, level=SURE_LEVEL)
        return sure is not None and judged(sure, self._band) in ("faster", "slower")


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
            raise OptionError(f"work: the function returned {said!r}, which is not a perfmagic.Work", hint=hint)
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
    checks: what was found of the work that it does, beside that of the first of the round.
    """

    taken_unix_ns: int = 0
    round_id: str = ""
    work: Work = field(default_factory=Work)
    failed: str = ""
    complete: bool = False
    checks: tuple[Condition, ...] = ()

    def begin(self, round_id: str) -> None:
        """The benchmark begins now."""
        self.taken_unix_ns, self.round_id = time.time_ns(), round_id

    def fail(self, error: BaseException, within: str = "") -> None:
        """An exception of the body, or an interrupt, ended it.  within: the body's name where there are several."""
        lines = str(error).strip().splitlines()
        kind = "interrupted" if isinstance(error, KeyboardInterrupt) else type(error).__name__
        what = ": ".join([kind, *lines[:1]])
        self.failed = f"{what} (in {within})" if within else what
