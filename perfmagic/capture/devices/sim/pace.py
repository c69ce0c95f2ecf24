"""Pace: the least time a simulated op takes, so that order and overlap do not depend on idle cores."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from numbers import Real
from types import MappingProxyType
from typing import Any

from perfmagic import units
from perfmagic.capture.devices.sim.links import LINKS
from perfmagic.errors import OptionError
from perfmagic.trace.columns import OpKind

PaceFunction = Callable[[str, OpKind, int], float]  # (name, kind, size_bytes) -> seconds

# people say matmul and mean any of these
_GROUPS = {"mm": "matmul", "bmm": "matmul", "addmm": "matmul", "baddbmm": "matmul", "addbmm": "matmul"}
# whose operations have a rate together
_FAMILIES = {
    **_GROUPS,
    "mm": "matmul",
    "convolution_backward": "convolution",
    **{f"_scaled_dot_product_{kind}": "attention" for kind in (
        "flash_attention_for_cpu", "flash_attention_for_cpu_backward",
    )},
}  # fmt: skip
_RATED = ("matmul", "convolution", "attention", "kernels")
_SECONDS = {"s": 1.0, "ms": 1e-3, "us": 1e-6, "µs": 1e-6, "ns": 1e-9}
_BYTES = {"B/s": 1.0, "kB/s": 1e3, "MB/s": 1e6, "GB/s": 1e9, "TB/s": 1e12}
_FLOP = {"FLOP/s": 1.0, "kFLOP/s": 1e3, "MFLOP/s": 1e6, "GFLOP/s": 1e9, "TFLOP/s": 1e12}
# words of a pace that are no op's name, by what their unit counts
_FIELDS = {
    **dict.fromkeys((("kernel", "s"), ("kernels", "s")), "kernel_s"),
    **dict.fromkeys((("kernel", "B/s"), ("kernels", "B/s")), "kernel_bytes_per_s"),
    **dict.fromkeys((("copy", "B/s"), ("copies", "B/s")), "copy_bytes_per_s"),
    ("link", "B/s"): "link_bytes_per_s",
    ("latency", "s"): "link_latency_s",
}
_PLAIN = {name for name, _ in _FIELDS}
_UNITS = {
    **{unit: ("s", scale) for unit, scale in _SECONDS.items()},
    **{unit: ("B/s", scale) for unit, scale in _BYTES.items()},
    **{unit: ("FLOP/s", scale) for unit, scale in _FLOP.items()},
}
_PART = re.compile(r"\s*(?P<name>\w+)\s*(?:=|≥|>=|:|\s)\s*(?P<number>[\d.]+)\s*(?P<unit>[\wµ/]+)\s*")
_LINK = re.compile(r"\s*(?P<what>link|copy|copies)\s*[=:\s]\s*(?P<name>[a-z]\w*)\s*(?:/\s*(?P<slower>[\d.]+))?\s*")


@dataclass(frozen=True)
class Pace:
    """The least time of simulated ops; what is left out is as fast as this machine.

    kernel_s: seconds of any kernel.  by_name: seconds by op name ("mm", or "matmul" for the family), before kernel_s.
    copy_bytes_per_s: bandwidth of copies between host and device; pageable memory gets half of it.
    link_bytes_per_s, link_latency_s: bandwidth and latency of the link between processes (torch.distributed): once all
    ranks are there, an operation takes the latency and its bytes by the bandwidth.
    flop_per_s: rates in FLOP/s of "matmul", "convolution", "attention" or "kernels", which is all of these that have
    none of their own; an op takes its operations by it, as torch.utils.flop_counter counts them.
    kernel_bytes_per_s: bandwidth of the device's memory: a kernel takes the bytes it reads and writes by it. Of all
    that is said of an op the longest time counts; a time in by_name goes before everything.
    """

    kernel_s: float | None = None
    by_name: Mapping[str, float] = field(default_factory=dict)
    copy_bytes_per_s: float | None = None
    link_bytes_per_s: float | None = None
    link_latency_s: float = 0.0
    flop_per_s: Mapping[str, float] = field(default_factory=dict)
    kernel_bytes_per_s: float | None = None

    def __post_init__(self) -> None:
        if not isinstance(self.by_name, Mapping):
            raise OptionError(f"pace: by_name is a dict of seconds by op, not {self.by_name!r}", hint="{'mm': 4e-3}")
        rates: Any = self.flop_per_s
        if not isinstance(rates, Mapping) or set(rates) - set(_RATED):
            raise OptionError(
                f"pace: flop_per_s is a dict of rates by {', '.join(_RATED)}, not {self.flop_per_s!r}",
                hint="{'matmul': 50e9} for 50 GFLOP/s",
            )
        given: list[Any] = [*self.by_name.values(), self.kernel_s, *self._rates, *self.flop_per_s.values()]
        for one in given:
            if one is not None and not isinstance(one, Real):
                raise OptionError(f"pace: a number is needed, not {one!r}", hint="kernel_s=1e-3 for 1 ms")
        times = [*self.by_name.values(), self.kernel_s or 0.0, self.link_latency_s]
        if any(not 0 <= t < 1e6 for t in times):
            raise OptionError(f"pace: a least time must be 0 s or more, got {min(times)}")
        for rate in (self.copy_bytes_per_s, self.link_bytes_per_s, self.kernel_bytes_per_s):
            if rate is not None and not rate > 0:
                raise OptionError(f"pace: a bandwidth must be above 0 B/s, got {rate}")
        for rate in self.flop_per_s.values():
            if not rate > 0:
                raise OptionError(f"pace: a rate must be above 0 FLOP/s, got {rate}")
        object.__setattr__(self, "by_name", MappingProxyType(dict(self.by_name)))
        object.__setattr__(self, "flop_per_s", MappingProxyType(dict(self.flop_per_s)))

    def __reduce__(self) -> tuple[Any, ...]:
        rates = (*self._rates[:3], dict(self.flop_per_s), self.kernel_bytes_per_s)
        return Pace, (self.kernel_s, dict(self.by_name), *rates)

    def __hash__(self) -> int:
        by_name = tuple(sorted(self.by_name.items())), tuple(sorted(self.flop_per_s.items()))
        return hash((self.kernel_s, *by_name, *self._rates))

    def __repr__(self) -> str:
        link = f", link_bytes_per_s={self.link_bytes_per_s}, link_latency_s={self.link_latency_s}"
        rates = f", flop_per_s={dict(self.flop_per_s)}, kernel_bytes_per_s={self.kernel_bytes_per_s}"
        return (
            f"Pace(kernel_s={self.kernel_s}, by_name={dict(self.by_name)}, copy_bytes_per_s={self.copy_bytes_per_s}"
            f"{link if self.link_bytes_per_s or self.link_latency_s else ''}{rates if self.has_rates else ''})"
        )

    @property
    def _rates(self) -> tuple[float | None, float | None, float, float | None]:
        return self.copy_bytes_per_s, self.link_bytes_per_s, self.link_latency_s, self.kernel_bytes_per_s

    @property
    def has_rates(self) -> bool:
        """Whether the least time of a kernel depends on its work."""
        return bool(self.flop_per_s or self.kernel_bytes_per_s)

    def __call__(self, name: str, kind: OpKind, size_bytes: int) -> float:
        """Least seconds of one op."""
        if kind == OpKind.MEMCPY and "DtoD" not in name:
            if self.copy_bytes_per_s is None:
                return 0.0
            return size_bytes / self.copy_bytes_per_s * (2 if "Pageable" in name else 1)
        for key in (name, _GROUPS.get(name, name)):
            if key in self.by_name:
                return self.by_name[key]
        return self.kernel_s or 0.0

    def work_s(self, name: str, flop: int, moved_bytes: int) -> float:
        """Least seconds of a kernel that does so many floating-point operations and reads and writes so many bytes."""
        least_s = self(name, OpKind.KERNEL, 0)
        if name in self.by_name or _GROUPS.get(name) in self.by_name:
            return least_s
        rate = self.flop_per_s.get(_FAMILIES.get(name, name), self.flop_per_s.get("kernels"))
        by_flop_s = flop / rate if rate else 0.0
        by_bytes_s = moved_bytes / self.kernel_bytes_per_s if self.kernel_bytes_per_s else 0.0
        return max(least_s, by_flop_s, by_bytes_s)

    def link_s(self, name: str, link_bytes: float) -> float:
        """Seconds that an operation between ranks takes once all are there.

        link_bytes: what has to pass one rank's link. A time given for the operation's name goes before the link's.
        """
        if name in self.by_name:
            return self.by_name[name]
        return self.link_latency_s + (link_bytes / self.link_bytes_per_s if self.link_bytes_per_s else 0.0)

    @property
    def words(self) -> str:
        """The pace for people: "paced: matmul ≥ 3 ms, copies 12 GB/s"."""
        parts = [f"{name} ≥ {_round(units.duration_s(s))}" for name, s in self.by_name.items()]
        if self.kernel_s:
            parts.append(f"{'other ' if parts else ''}kernels ≥ {_round(units.duration_s(self.kernel_s))}")
        parts += [f"{name} {_round(units.rate(rate, 'FLOP/s'))}" for name, rate in self.flop_per_s.items()]
        if self.kernel_bytes_per_s:
            parts.append(f"device memory {_round(units.bandwidth(self.kernel_bytes_per_s, 1e9))}")
        if self.copy_bytes_per_s:
            parts.append(f"copies {_round(units.bandwidth(self.copy_bytes_per_s, 1e9))}, pageable half")
        link = [_round(units.bandwidth(self.link_bytes_per_s, 1e9))] if self.link_bytes_per_s else []
        link += [_round(units.duration_s(self.link_latency_s))] if self.link_latency_s else []
        if link:
            parts.append(f"link {' and '.join(link)}")
        return f"paced: {', '.join(parts)}" if parts else ""

    @classmethod
    def parse(cls, text: str) -> Pace:
        """A pace from words: "matmul=3ms, kernel=50us, copy=12GB/s, link=1GB/s, latency=20us".

        Also with rates: "matmul=50GFLOP/s, convolution=20GFLOP/s, kernels=200GB/s". Links have names: "copy=pcie4,
        link=nvlink4"; "link=ethernet10/100" has a hundredth of the bandwidth, for tensors of a hundredth of the size.
        Raises OptionError for anything else.
        """
        by_name: dict[str, float] = {}
        flop_per_s: dict[str, float] = {}
        fields: dict[str, float] = {}
        for part in filter(str.strip, text.split(",")):
            link = _LINK.fullmatch(part)
            if link:
                fields |= _named_link(**link.groupdict())
                continue
            name, counts, value = _parse_part(part)
            if (name, counts) in _FIELDS:
                fields[_FIELDS[name, counts]] = value
            elif counts == "FLOP/s":
                flop_per_s[{"kernel": "kernels", "conv": "convolution"}.get(name, name)] = value
            elif counts == "s" and name not in _PLAIN:
                by_name[name] = value
            else:
                raise _unread(part)
        return cls(by_name=by_name, flop_per_s=flop_per_s, **fields)


def _parse_part(part: str) -> tuple[str, str, float]:
    """A name, what its unit counts ("s", "B/s" or "FLOP/s"), and the value in that."""
    match = _PART.fullmatch(part)
    if match is None or match["unit"] not in _UNITS:
        raise _unread(part)
    counts, scale = _UNITS[match["unit"]]
    try:
        return match["name"], counts, float(match["number"]) * scale
    except ValueError:
        raise _unread(part) from None


def _named_link(what: str, name: str, slower: str | None) -> dict[str, float]:
    """The fields that a link's name stands for; a latency given after it replaces the link's."""
    if name not in LINKS:
        raise OptionError(f"pace: no link is called {name!r}", hint=f"one of {', '.join(LINKS)}, or link=1GB/s")
    try:
        bytes_per_s = LINKS[name].bytes_per_s / float(slower or 1)
    except (ValueError, ZeroDivisionError):
        raise _unread(f"{what}={name}/{slower}") from None
    if what == "link":
        return {"link_bytes_per_s": bytes_per_s, "link_latency_s": LINKS[name].latency_s}
    return {"copy_bytes_per_s": bytes_per_s}


def _unread(part: str) -> OptionError:
    return OptionError(
        f"pace: cannot read {part.strip()!r}",
        hint='write for example "matmul=3ms, kernel=50us, copy=12GB/s, link=1GB/s, latency=20us"',
    )


def _round(text: str) -> str:
    """Without digits that say nothing: a pace is a setting, not a measurement, so "3.00 ms" reads "3 ms"."""
    return re.sub(r"\.0+(?=\D|$)", "", text)


def as_pace(pace: Pace | str | PaceFunction | None) -> PaceFunction | None:
    """What the device asks for each op: a Pace, a function, or None."""
    if isinstance(pace, str):
        return Pace.parse(pace)
    if pace is None or callable(pace):
        return pace
    raise OptionError(f"pace: expected a Pace, text, a function or None, got {type(pace).__name__}")


def link_s(pace: PaceFunction | None, name: str, link_bytes: float) -> float:
    """Seconds that an operation between ranks takes once all are there; a function is asked as for a kernel."""
    if isinstance(pace, Pace):
        return pace.link_s(name, link_bytes)
    return 0.0 if pace is None else pace(name, OpKind.KERNEL, int(link_bytes))


def words_of(pace: PaceFunction | None) -> str:
    """A pace in words, empty for none."""
    if pace is None:
        return ""
    if isinstance(pace, Pace):
        return pace.words
    return f"paced by {getattr(pace, '__name__', type(pace).__name__)}"
