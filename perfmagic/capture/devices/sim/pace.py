"""Pace: the least time a simulated op takes, so that order and overlap do not depend on idle cores."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from numbers import Real
from types import MappingProxyType
from typing import Any

from perfmagic import units
from perfmagic.errors import OptionError
from perfmagic.trace.columns import OpKind

PaceFunction = Callable[[str, OpKind, int], float]  # (name, kind, size_bytes) -> seconds

# people say matmul and mean any of these
_GROUPS = {"mm": "matmul", "bmm": "matmul", "addmm": "matmul", "baddbmm": "matmul", "addbmm": "matmul"}
# words of a pace that are no op's name
_FIELDS = {
    **dict.fromkeys(("kernel", "kernels"), "kernel_s"),
    **dict.fromkeys(("copy", "copies"), "copy_bytes_per_s"),
    "link": "link_bytes_per_s",
    "latency": "link_latency_s",
}
_SECONDS = {"s": 1.0, "ms": 1e-3, "us": 1e-6, "µs": 1e-6, "ns": 1e-9}
_BYTES = {"B/s": 1.0, "kB/s": 1e3, "MB/s": 1e6, "GB/s": 1e9, "TB/s": 1e12}
_PART = re.compile(r"\s*(?P<name>\w+)\s*(?:=|≥|>=|:|\s)\s*(?P<number>[\d.]+)\s*(?P<unit>[\wµ/]+)\s*")


@dataclass(frozen=True)
class Pace:
    """The least time of simulated ops; what is left out is as fast as this machine.

    kernel_s: seconds of any kernel.  by_name: seconds by op name ("mm", or "matmul" for the family), before kernel_s.
    copy_bytes_per_s: bandwidth of copies between host and device; pageable memory gets half of it.
    link_bytes_per_s, link_latency_s: bandwidth and latency of the link between processes (torch.distributed): once all
    ranks are there, an operation takes the latency and its bytes by the bandwidth.
    """

    kernel_s: float | None = None
    by_name: Mapping[str, float] = field(default_factory=dict)
    copy_bytes_per_s: float | None = None
    link_bytes_per_s: float | None = None
    link_latency_s: float = 0.0

    def __post_init__(self) -> None:
        if not isinstance(self.by_name, Mapping):
            raise OptionError(f"pace: by_name is a dict of seconds by op, not {self.by_name!r}", hint="{'mm': 4e-3}")
        given: list[Any] = [*self.by_name.values(), self.kernel_s, *self._rates]
        for one in given:
            if one is not None and not isinstance(one, Real):
                raise OptionError(f"pace: a number is needed, not {one!r}", hint="kernel_s=1e-3 for 1 ms")
        times = [*self.by_name.values(), self.kernel_s or 0.0, self.link_latency_s]
        if any(not 0 <= t < 1e6 for t in times):
            raise OptionError(f"pace: a least time must be 0 s or more, got {min(times)}")
        for rate in (self.copy_bytes_per_s, self.link_bytes_per_s):
            if rate is not None and not rate > 0:
                raise OptionError(f"pace: a bandwidth must be above 0 B/s, got {rate}")
        object.__setattr__(self, "by_name", MappingProxyType(dict(self.by_name)))

    def __reduce__(self) -> tuple[Any, ...]:
        return Pace, (self.kernel_s, dict(self.by_name), *self._rates)

    def __hash__(self) -> int:
        return hash((self.kernel_s, tuple(sorted(self.by_name.items())), *self._rates))

    def __repr__(self) -> str:
        link = f", link_bytes_per_s={self.link_bytes_per_s}, link_latency_s={self.link_latency_s}"
        return (
            f"Pace(kernel_s={self.kernel_s}, by_name={dict(self.by_name)}, copy_bytes_per_s={self.copy_bytes_per_s}"
            f"{link if self.link_bytes_per_s or self.link_latency_s else ''})"
        )

    @property
    def _rates(self) -> tuple[float | None, float | None, float]:
        return self.copy_bytes_per_s, self.link_bytes_per_s, self.link_latency_s

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

        Raises OptionError for anything else.
        """
        by_name: dict[str, float] = {}
        fields: dict[str, float] = {}
        for part in filter(str.strip, text.split(",")):
            name, value = _parse_part(part)
            if name in _FIELDS:
                fields[_FIELDS[name]] = value
            else:
                by_name[name] = value
        return cls(by_name=by_name, **fields)


def _parse_part(part: str) -> tuple[str, float]:
    match = _PART.fullmatch(part)
    name, unit = (match["name"], match["unit"]) if match else ("", "")
    scale = (_BYTES if _FIELDS.get(name, "").endswith("_bytes_per_s") else _SECONDS).get(unit)
    try:
        if match and scale is not None:
            return name, float(match["number"]) * scale
    except ValueError:
        scale = None
    raise OptionError(
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
