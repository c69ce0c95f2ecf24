"""How a benchmark is to be taken."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, fields
from operator import index

from perfmagic.capture.bench.stopping import StoppingRule
from perfmagic.errors import OptionError
from perfmagic.flags import option, options
from perfmagic.samples import Plain

_NEEDED = ("max_samples", "time_s", "rel", "cooldown_s", "runs")  # numbers that None does not stand for
_WHOLE = ("samples", "min_samples", "max_samples", "calls", "warmup", "runs")  # fields of BenchSpec that count
MOST_CALLS = 10_000_000  # of one sample; more than a minute of an empty body


@dataclass(frozen=True)
class Work:
    """What one call does, as its author says: floating-point operations and bytes moved; None where unsaid.

    >>> perfmagic.Work(flop=2 * 1000**3).flop
    2000000000
    """

    flop: float | None = None
    moved_bytes: float | None = None


@dataclass(frozen=True)
class BenchSpec:
    """How a benchmark is to be taken.

    samples: take exactly so many, None to let the stopping rule decide.  min_samples, max_samples: bounds of that
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
                    raise OptionError(f"{name}: {wanted} is needed, not {value!r}") from None

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
            hint = "lambda: perfmagic.Work(flop=2e9, moved_bytes=1e6)"
            raise OptionError(f"work: the function gave {said!r}, which is no perfmagic.Work", hint=hint)
        return said

    def rule(self) -> StoppingRule:
        """A fresh stopping rule."""
        return StoppingRule(
            wanted=self.samples, fewest=self.min_samples, most=self.max_samples, rel=self.rel, time_s=self.time_s
        )

    def settings(self) -> dict[str, Plain]:
        """What is needed to take it again, as plain values; name, code and set-up code stand beside them."""
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

    options: fields of BenchSpec by name; None stands for one that was not given.
    """
    usual = {one.name: one.default for one in fields(BenchSpec)}
    names = ("samples", "min_samples", "max_samples", "time_s", "rel")
    return any(options.get(name) not in (None, usual[name]) for name in names)
