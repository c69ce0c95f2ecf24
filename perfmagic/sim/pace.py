"""Pace: the least time a simulated op takes, so that order and overlap do not depend on idle cores."""

from __future__ import annotations

import json
import re
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from numbers import Real
from types import MappingProxyType
from typing import Any, NoReturn, Protocol, runtime_checkable

import numpy as np
import numpy.typing as npt

from perfmagic.base import units
from perfmagic.base.clock import HOST, now_ns
from perfmagic.base.errors import OptionError
from perfmagic.base.kinds import HOST_MEASURED, VIRTUAL_CLOCK, KernelTime, OpKind, PredictedFor
from perfmagic.base.work import Inputs, is_counted

# Links that people know by name: what passes each way in a second, and how long a message takes at least.


@dataclass(frozen=True)
class Link:
    """A link between devices. bytes_per_s: each way.  latency_s: of a message of no size.  source: of both."""

    bytes_per_s: float
    latency_s: float
    source: str


_NCCL = "latency: NCCL, src/graph/tuning.cc"


def _pcie(giga_transfers: float) -> Link:
    # 16 lanes of one bit a transfer, of 130 bits 128 are data
    return Link(giga_transfers * 1e9 * 16 * 128 / 130 / 8, 5.7e-6, f"PCI-SIG, base specification; {_NCCL}")


def _nvlink(links: int) -> Link:
    return Link(links * 25e9, 3.4e-6, f"NVIDIA, white papers of V100, A100 and H100: 25 GB/s a link each way; {_NCCL}")


def _network(gigabits: float, source: str) -> Link:
    return Link(gigabits * 1e9 / 8, 9.6e-6, f"{source}; {_NCCL}")


BUSES = ("pcie", "nvlink")
LINKS = {
    "pcie3": _pcie(8),
    "pcie4": _pcie(16),
    "pcie5": _pcie(32),
    "nvlink2": _nvlink(6),
    "nvlink3": _nvlink(12),
    "nvlink4": _nvlink(18),
    "ethernet1": _network(1, "IEEE 802.3ab"),
    "ethernet10": _network(10, "IEEE 802.3ae"),
    "ethernet25": _network(25, "IEEE 802.3by"),
    "ethernet100": _network(100, "IEEE 802.3ba"),
    "hdr": _network(200, "InfiniBand Trade Association, roadmap, four lanes"),
    "ndr": _network(400, "InfiniBand Trade Association, roadmap, four lanes"),
}


def link_named(name: str) -> Link:
    """The link of a name. Raises OptionError for one that is not known."""
    link = LINKS.get(name.lower())
    if link is None:
        raise OptionError(f"pace: no link is named {name!r}", hint=f"a bandwidth such as 1GB/s, or {', '.join(LINKS)}")
    return link


def name_of(bytes_per_s: float | None, latency_s: float | None = None) -> str:
    """The link with this bandwidth and latency; "" for none.

    latency_s: None for copies to and from a device, which go over a bus and no network.
    """
    for name, link in LINKS.items():
        is_it = latency_s == link.latency_s if latency_s is not None else name.startswith(BUSES)
        if link.bytes_per_s == bytes_per_s and is_it:
            return name
    return ""


# A pace as people write it: "matmul=50GFLOP/s, kernels=200GB/s, copies=pcie4, link=nvlink4".

EXAMPLE = '"matmul=3ms, kernels=50us, copies=12GB/s, link=1GB/s, latency=20us"'
_SECONDS = {"s": 1.0, "ms": 1e-3, "us": 1e-6, "µs": 1e-6, "ns": 1e-9}
_PREFIXES = {"": 1.0, "k": 1e3, "M": 1e6, "G": 1e9, "T": 1e12, "P": 1e15}
_BYTES = {f"{prefix}B/s": factor for prefix, factor in _PREFIXES.items()}
_FLOP = {f"{prefix}FLOP/s": factor for prefix, factor in _PREFIXES.items()}
_FACTOR = {"x": 1.0, "×": 1.0}
_RANKS = {"rank": 1.0, "ranks": 1.0}
_PART = re.compile(
    r"\s*(?P<name>\w+)\s*(?:=|≥|>=|:|\s)\s*(?P<value>(?P<number>[\d.]+)\s*(?P<unit>[\wµ/×]+)|[A-Za-z]\w*)\s*"
)
_ALL_KERNELS = "kernels"
_LINKED = ("copy", "copies", "link", "network")  # these also take the name of a link
# words of a pace that are no op's name: the field that takes a value of each unit
_FIELDS = {
    **{name: {"s": "kernel_s", "B/s": "kernel_bytes_per_s"} for name in ("kernel", "kernels")},
    **{name: {"B/s": "copy_bytes_per_s"} for name in ("copy", "copies")},
    "link": {"B/s": "link_bytes_per_s"},
    "latency": {"s": "link_latency_s"},
    "network": {"B/s": "network_bytes_per_s"},
    "machine": {"ranks": "ranks_per_machine"},
}
_TAKEN = {"s": "a time", "B/s": "a bandwidth", "ranks": "a number of ranks"}


def parse_fields(text: str) -> dict[str, Any]:
    """The fields of the Pace that a text describes. Raises OptionError for unreadable parts and for duplicates."""
    fields: dict[str, Any] = {"by_name": {}, "flop_per_s": {}, "speedup": {}}
    named_latency_s: dict[str, float] = {}
    for part in filter(str.strip, text.split(",")):
        name, value, unit = _read(part)
        if unit == "link":
            link = link_named(value)
            _put(fields, part, _field(part, name, "B/s" if name in _LINKED else "link"), link.bytes_per_s)
            named_latency_s[f"{name}_latency_s"] = link.latency_s
        elif unit == "FLOP/s" and name not in (*_LINKED, "latency"):
            _put(fields["flop_per_s"], part, _ALL_KERNELS if name == "kernel" else name, value)
        elif unit == "x":
            _put(fields["speedup"], part, name, value)
        elif name in _FIELDS:
            _put(fields, part, _field(part, name, unit), value)
        elif unit == "s":
            _put(fields["by_name"], part, name, value)
        else:
            _refuse(part, f"{name!r} takes a time or FLOP/s", "a memory rate is for all kernels: kernels=200GB/s")
    for latency in {"link_latency_s", "network_latency_s"} & named_latency_s.keys():
        fields.setdefault(latency, named_latency_s[latency])
    return fields


def _read(part: str) -> tuple[str, Any, str]:
    """Name, value and unit: "s", "B/s", "FLOP/s", "x" for a factor, "ranks", or "link" for a link's name."""
    match = _PART.fullmatch(part)
    if match and match["number"] is None:
        return match["name"], match["value"], "link"
    kinds = {"s": _SECONDS, "B/s": _BYTES, "FLOP/s": _FLOP, "x": _FACTOR, "ranks": _RANKS}
    unit = next((kind for kind, scales in kinds.items() if match and match["unit"] in scales), None)
    if match is None or unit is None or match["number"].count(".") > 1 or match["number"] == ".":
        _refuse(part, "", f"write for example {EXAMPLE}")
    return match["name"], float(match["number"]) * kinds[unit][match["unit"]], unit


def _field(part: str, name: str, unit: str) -> str:
    field = _FIELDS.get(name, {}).get(unit)
    if field is None:
        units = " or ".join(_TAKEN[key] for key in _FIELDS.get(name, {})) or "a time or FLOP/s"
        _refuse(part, f"{name!r} takes {units}", f"write for example {EXAMPLE}")
    return field


def _put(where: dict[str, Any], part: str, name: str, value: float) -> None:
    if name in where:
        _refuse(part, "it is given twice", "give each once")
    where[name] = value


def _refuse(part: str, why: str, hint: str) -> NoReturn:
    raise OptionError(f"pace: cannot read {part.strip()!r}{why and ': '}{why}", hint=hint)


PaceFunction = Callable[[str, OpKind, int], float]  # (name, kind, size_bytes) -> seconds


@runtime_checkable
class Model(Protocol):
    """A pace that is the model of a GPU, for a virtual clock (perfmagic.DeviceModel). It is asked for copies as any.

    words: "predicted for H100 SXM".  given: what perfmagic.device() takes for it, in code.
    host_ns: see perfmagic.base.clock.HOST_NS.  memory_bytes: of a device.  larger: a GPU with more, or "".
    others: of further GPUs, whose times are kept beside.
    """

    @property
    def others(self) -> Sequence[Model]: ...

    @property
    def memory_bytes(self) -> int: ...

    @property
    def words(self) -> str: ...

    @property
    def predicted(self) -> PredictedFor: ...

    @property
    def given(self) -> str: ...

    @property
    def larger(self) -> str: ...

    @property
    def host_ns(self) -> Mapping[str, int]: ...

    def __call__(self, name: str, kind: OpKind, size_bytes: int) -> float: ...

    def fused_attention(self, dtype: str, *, masked: bool, head_size: int) -> tuple[str, ...]:
        """The fused kernels that torch has there for a type ("torch.float16"): of "flash" and "efficient"."""

    def link_s(self, name: str, link_bytes: float, steps: int = 1) -> float:
        """As Pace.link_s."""

    def kernel(
        self, name: str, inputs: Inputs, outputs: Inputs, moved_bytes: int, *, tf32: bool, strided: bool
    ) -> KernelTime:
        """A call of an operator: what it does, and at least the bytes that it reads and writes.

        tf32: its products of float32 may be TF32.  strided: elements are not in the order of memory.
        """


# people say matmul and mean any of these
_MATMUL = frozenset(
    ("mm", "bmm", "addmm", "baddbmm", "addbmm", "mv", "addmv", "linear", "_int_mm", "_scaled_mm", "_addmm_activation")
)
_FAMILIES = ("matmul", "convolution", "attention")
_ALL = "kernels"
_TYPES = {"float16": "half", "bfloat16": "half", "float64": "double"}  # what people call them


@dataclass(frozen=True)
class Pace:
    """The least time of simulated ops; what is left out is as fast as this machine.

    kernel_s: seconds of any kernel.  by_name: seconds by op name ("mm", or a family: "matmul", "convolution",
    "attention"), before all that holds for any kernel.
    copy_bytes_per_s: bandwidth of copies between host and device; pageable memory gets half of it.
    link_bytes_per_s, link_latency_s: bandwidth and latency of the link between processes (torch.distributed): once all
    ranks are there, an operation takes the latency and its bytes by the bandwidth; on a virtual clock the latency in
    each step of its algorithm (n ranks pass a ring in n - 1).
    ranks_per_machine, network_bytes_per_s, network_latency_s: ranks of a job are numbered machine after machine. An
    operation between ranks of several machines goes over the network in place of the link, at its slowest part.
    flop_per_s: floating-point operations in a second by op name or family, "kernels" for every op whose operations are
    counted. A time for the name goes before it.
    kernel_bytes_per_s: bandwidth of the device's memory. A kernel reads its inputs and writes its results at that rate.
    Of kernel_s, this and flop_per_s["kernels"] the longest time holds.
    speedup: by type, "half" for float16 and bfloat16, "double" for float64: how many times faster its kernels are than
    the times and FLOP/s given. Bandwidths stay what they are.
    Raises OptionError for what is no time or no rate, and for rates of ops whose operations are not counted.

    >>> pace = perfmagic.Pace(by_name={"matmul": 5e-3}, copy_bytes_per_s=2e9)
    >>> pace == perfmagic.Pace.parse("matmul=5ms, copies=2GB/s")
    True
    >>> print(pace.words)
    paced: matmul ≥ 5 ms, copies 2 GB/s, pageable half
    """

    kernel_s: float | None = None
    by_name: Mapping[str, float] = field(default_factory=dict)
    copy_bytes_per_s: float | None = None
    link_bytes_per_s: float | None = None
    link_latency_s: float = 0.0
    flop_per_s: Mapping[str, float] = field(default_factory=dict)
    kernel_bytes_per_s: float | None = None
    speedup: Mapping[str, float] = field(default_factory=dict)
    ranks_per_machine: float = 0
    network_bytes_per_s: float | None = None
    network_latency_s: float = 0.0

    def __post_init__(self) -> None:
        if not isinstance(self.by_name, Mapping):
            raise OptionError(f"pace: by_name is a dict of seconds by op, not {self.by_name!r}", hint="{'mm': 4e-3}")
        if not isinstance(self.flop_per_s, Mapping):
            raise OptionError(
                f"pace: flop_per_s is a dict of rates by op, not {self.flop_per_s!r}", hint="{'mm': 5e10}"
            )
        given = [*self.by_name.values(), self.kernel_s, self.link_latency_s, self.network_latency_s]
        times = [_number(seconds) for seconds in given if seconds is not None]
        if any(not 0 <= t < 1e6 for t in times):
            raise OptionError(f"pace: a least time must be 0 s or more, got {min(times)}")
        bandwidths = [self.copy_bytes_per_s, self.link_bytes_per_s, self.kernel_bytes_per_s, self.network_bytes_per_s]
        _check_rates(bandwidths, "a bandwidth", "B/s")
        _check_machines(self.ranks_per_machine, self.network_bytes_per_s)
        _check_rates([*self.flop_per_s.values()], "a rate", "FLOP/s")
        for name in self.flop_per_s:
            if name not in (*_FAMILIES, _ALL) and not is_counted(f"aten::{name}"):
                raise OptionError(
                    f"pace: the operations of {name!r} are not counted, so FLOP/s say nothing about its time",
                    hint=f"FLOP/s for {', '.join(_FAMILIES)} or {_ALL}; a time for {name}; or {_ALL}=200GB/s",
                )
        _check_speedup(self.speedup)
        for name in ("by_name", "flop_per_s", "speedup"):
            object.__setattr__(self, name, MappingProxyType(dict(getattr(self, name))))

    @property
    def _values(self) -> dict[str, Any]:
        values = {each.name: getattr(self, each.name) for each in fields(self)}
        return {name: dict(value) if isinstance(value, Mapping) else value for name, value in values.items()}

    def to_json(self) -> str:
        """The JSON text that a saved trace holds."""
        return json.dumps({name: value for name, value in self._values.items() if value})

    @classmethod
    def from_json(cls, text: str) -> Pace:
        """The pace that to_json() wrote. Raises OptionError for anything else."""
        try:
            return cls(**json.loads(text))
        except (TypeError, ValueError, RecursionError) as error:
            raise OptionError(f"pace: {text[:80]!r} holds none", hint="the file is damaged") from error

    def __reduce__(self) -> tuple[Any, ...]:
        return Pace, tuple(self._values.values())

    def __hash__(self) -> int:
        return hash(tuple(tuple(sorted(v.items())) if isinstance(v, dict) else v for v in self._values.values()))

    def __repr__(self) -> str:
        given = (f"{name}={value}" for name, value in self._values.items() if value)
        return f"Pace({', '.join(given)})"

    @property
    def by_work(self) -> bool:
        """Whether a kernel's time depends on its operations, bytes or type."""
        return bool(self.flop_per_s or self.kernel_bytes_per_s or self.speedup)

    def has_time_of(self, name: str) -> bool:
        """Whether it gives a kernel a time, and not only a rate."""
        return self.kernel_s is not None or name in self.by_name or _family(name) in self.by_name

    def __call__(self, name: str, kind: OpKind, size_bytes: int, flop: int | None = None, dtype: str = "") -> float:
        """Least seconds of one op.

        size_bytes: copied; of a kernel read and written, -1 where not known.  flop: None where they are not counted.
        dtype: of a kernel's inputs, "float16"; "" where not known.
        """
        if kind == OpKind.MEMCPY and "DtoD" not in name:
            if self.copy_bytes_per_s is None:
                return 0.0
            return size_bytes / self.copy_bytes_per_s * (2 if "Pageable" in name else 1)
        faster = self.speedup.get(_TYPES.get(dtype, ""), 1.0)
        for key in (name, _family(name)):
            if key in self.by_name:
                return self.by_name[key] / faster
        for key in (name, _family(name)):
            if key in self.flop_per_s and flop is not None:
                return flop / self.flop_per_s[key] / faster
        moved = max(0, size_bytes) * (2 if kind == OpKind.MEMCPY else 1)  # a copy reads and writes
        return max(
            (self.kernel_s or 0.0) / faster,
            moved / self.kernel_bytes_per_s if self.kernel_bytes_per_s else 0.0,
            (flop or 0) / self.flop_per_s.get(_ALL, float("inf")) / faster,
        )

    def link_s(self, name: str, link_bytes: float, steps: int = 1) -> float:
        """Seconds that an operation between ranks takes once all are there.

        link_bytes: what has to pass one rank's link.  steps: in which it does, each with the latency.
        A time given for the operation's name goes before the link's.
        """
        if name in self.by_name:
            return self.by_name[name]
        return steps * self.link_latency_s + (link_bytes / self.link_bytes_per_s if self.link_bytes_per_s else 0.0)

    def between(self, ranks: Sequence[int]) -> Pace:
        """The same pace with the link that ranks of the job share: the network's where they are in several machines."""
        if not self.ranks_per_machine or len({rank // self.ranks_per_machine for rank in ranks}) < 2:
            return self
        return replace(self, link_bytes_per_s=self.network_bytes_per_s, link_latency_s=self.network_latency_s)

    @property
    def words(self) -> str:
        """The pace for people: "paced: matmul ≥ 3 ms, copies pcie4: 31.5 GB/s, pageable half"."""
        parts = [f"{name} ≥ {_round(units.duration_s(s))}" for name, s in self.by_name.items()]
        rates = {name: _round(units.rate(rate, "FLOP/s")) for name, rate in self.flop_per_s.items()}
        parts += [f"{name} {rate}" for name, rate in rates.items() if name != _ALL]
        others = [f"≥ {_round(units.duration_s(self.kernel_s))}"] if self.kernel_s else []
        others += [rates[_ALL]] if _ALL in rates else []
        others += [_bandwidth(self.kernel_bytes_per_s)] if self.kernel_bytes_per_s else []
        if others:
            parts.append(f"{'other ' if parts else ''}kernels {' and '.join(others)}")
        parts += [f"{name} {factor:g} ×" for name, factor in self.speedup.items()]
        if self.copy_bytes_per_s:
            parts.append(f"copies {_named(self.copy_bytes_per_s)}{_bandwidth(self.copy_bytes_per_s)}, pageable half")
        parts += _link_words("link", self.link_bytes_per_s, self.link_latency_s)
        if self.ranks_per_machine:
            machines = f"between machines of {self.ranks_per_machine:g} ranks"
            (network,) = _link_words("network", self.network_bytes_per_s, self.network_latency_s)
            parts.append(f"{network} {machines}")
        return f"paced: {', '.join(parts)}" if parts else ""

    @classmethod
    def parse(cls, text: str) -> Pace:
        """A pace from words: "matmul=3ms, kernels=50us, copies=12GB/s, link=1GB/s, latency=20us".

        Rates and links by name as well: "matmul=50GFLOP/s, kernels=200GB/s, copies=pcie4, link=nvlink4". A link's name
        stands for its bandwidth, and for the latency between processes where none is given. "half=2x": kernels of
        float16 and bfloat16 take half the time.

        Raises OptionError for anything else.
        """
        return cls(**parse_fields(text))


def _link_words(what: str, bytes_per_s: float | None, latency_s: float) -> list[str]:
    """A link for people, "link nvlink4: 450 GB/s and 3.4 µs"; nothing where it takes no time."""
    link = [_bandwidth(bytes_per_s)] if bytes_per_s else []
    link += [_round(units.duration_s(latency_s))] if latency_s else []
    return [f"{what} {_named(bytes_per_s, latency_s)}{' and '.join(link)}"] if link else []


def _check_machines(ranks: Any, network_bytes_per_s: float | None) -> None:
    if _number(ranks) < 0 or ranks != int(ranks):
        raise OptionError(f"pace: a machine has a whole number of ranks, not {ranks}", hint="machine=4ranks")
    if bool(ranks) != bool(network_bytes_per_s):
        raise OptionError(
            "pace: machine and network need each other", hint="link=nvlink4, network=ethernet100, machine=4ranks"
        )


def _check_speedup(given: Any) -> None:
    if not isinstance(given, Mapping):
        raise OptionError(f"pace: speedup is a dict of factors by type, not {given!r}", hint="{'half': 2.0}")
    for name, factor in given.items():
        if name not in _TYPES.values():
            known = ", ".join(dict.fromkeys(_TYPES.values()))
            raise OptionError(f"pace: {name!r} is not a type with its own speed", hint=f"one of {known}: half=2x")
        if not _number(factor) > 0:
            raise OptionError(f"pace: a factor must be above 0, got {factor}", hint="half=2x")


def _check_rates(given: list[Any], what: str, unit: str) -> None:
    for rate in given:
        if rate is not None and not _number(rate) > 0:
            raise OptionError(f"pace: {what} must be above 0 {unit}, got {rate}", hint=f"50e9 for 50 G{unit}")


def _number(value: Any) -> Any:
    if not isinstance(value, Real):
        raise OptionError(f"pace: a number is needed, not {value!r}", hint="kernel_s=1e-3 for 1 ms")
    return value


def _family(name: str) -> str:
    """The word that people use for an op and its kin; the op's own name where there is none."""
    if name in _MATMUL:
        return "matmul"
    if "attention" in name:
        return "attention"
    return "convolution" if "conv" in name else name


def _named(bytes_per_s: float | None, latency_s: float | None = None) -> str:
    name = name_of(bytes_per_s, latency_s)
    return f"{name}: " if name else ""


def _bandwidth(bytes_per_s: float) -> str:
    return _round(units.bandwidth(bytes_per_s, 1e9))


def _round(text: str) -> str:
    """Drop trailing zeros: a pace is a setting, not a measurement, so "3.00 ms" reads "3 ms"."""
    return re.sub(r"\.(\d*?)0+(?=\D|$)", lambda m: f".{m[1]}" if m[1] else "", text)


def as_pace(pace: Pace | str | PaceFunction | None) -> PaceFunction | None:
    """The function that the device calls for each op. Raises OptionError for something else."""
    if isinstance(pace, str):
        return Pace.parse(pace)
    if pace is None or callable(pace):
        return pace
    raise OptionError(f"pace: expected a Pace, text, a function or None, got {type(pace).__name__}")


def link_s(pace: PaceFunction | None, name: str, link_bytes: float, steps: int = 1) -> float:
    """Seconds that an operation between ranks takes once all are there; a function is asked as for a kernel.

    steps: as in Pace.link_s.
    """
    if isinstance(pace, (Pace, Model)):
        return pace.link_s(name, link_bytes, steps)
    return 0.0 if pace is None else pace(name, OpKind.KERNEL, int(link_bytes))


def between(pace: PaceFunction | None, ranks: Sequence[int]) -> PaceFunction | None:
    """The pace of an operation of these ranks of the job; of a Pace that has machines, see Pace.between."""
    return pace.between(ranks) if isinstance(pace, Pace) else pace


def describe(pace: PaceFunction | None, *, virtual: bool = False) -> str:
    """A pace for people, empty for none on the real clock.  virtual: by which a virtual clock computes times."""
    if pace is None:
        words = ""
    elif isinstance(pace, (Pace, Model)):
        words = pace.words
    else:
        words = f"paced by {getattr(pace, '__name__', type(pace).__name__)}"
    return on_virtual_clock(words) if virtual else words


def on_virtual_clock(words: str) -> str:
    """A pace in words, as a virtual clock keeps it: exactly, so that nothing is "at least"."""
    times = words.removeprefix("paced: ").replace(" ≥ ", " ")
    clock = f"{VIRTUAL_CLOCK}, {HOST_MEASURED}" if HOST.measured else VIRTUAL_CLOCK
    return f"{clock}: {times}" if words else clock


# At which paces ops were launched, where code changes the pace during a recording.

_MOST = 256  # changes that are kept: a recording with more says what it began with and ended with


class PaceLog:
    """When the pace was changed (unix ns), and what it was before."""

    def __init__(self) -> None:
        self._changes: deque[tuple[int, Any]] = deque(maxlen=_MOST)

    def changed(self, before: Any) -> None:
        """Note that the pace changes now."""
        self._changes.append((now_ns(), before))

    def clear(self) -> None:
        """Forget what was noted: the clock is another one now."""
        self._changes.clear()

    def used(self, launched_ns: npt.NDArray[np.int64], now: Any) -> list[Any]:
        """The paces in effect when something was launched, one after the other; the present one where nothing was.

        launched_ns: rising or not.  now: the present pace.
        """
        changes = list(self._changes)
        paces = [before for _, before in changes] + [now]
        at = np.searchsorted(np.array([ns for ns, _ in changes], np.int64), launched_ns, side="right")
        used = [paces[i] for i in np.unique(at).tolist()] or [now]
        return [pace for i, pace in enumerate(used) if not i or pace != used[i - 1]]


def describe_in_turn(paces: Sequence[str]) -> str:
    """Paces one after the other: "paced: matmul ≥ 3 ms; then matmul ≥ 1 ms"; of more than two the first and last."""
    named = [pace or "unpaced" for pace in paces]
    if len(named) == 1:
        return paces[0]
    others = len(named) - 2
    between = f", after {others} other{'s' * (others > 1)}" if others > 0 else ""
    return f"{named[0]}; then {named[-1].removeprefix('paced: ')}{between}"
