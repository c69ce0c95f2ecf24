"""A pace as people write it: "matmul=50GFLOP/s, kernels=200GB/s, copies=pcie4, link=nvlink4"."""

from __future__ import annotations

import re
from typing import Any, NoReturn

from perfmagic.capture.devices.sim.links import link_named
from perfmagic.errors import OptionError

EXAMPLE = '"matmul=3ms, kernels=50us, copies=12GB/s, link=1GB/s, latency=20us"'
_SECONDS = {"s": 1.0, "ms": 1e-3, "us": 1e-6, "µs": 1e-6, "ns": 1e-9}
_PREFIXES = {"": 1.0, "k": 1e3, "M": 1e6, "G": 1e9, "T": 1e12, "P": 1e15}
_BYTES = {f"{prefix}B/s": factor for prefix, factor in _PREFIXES.items()}
_FLOP = {f"{prefix}FLOP/s": factor for prefix, factor in _PREFIXES.items()}
_FACTOR = {"x": 1.0, "×": 1.0}
_PART = re.compile(
    r"\s*(?P<name>\w+)\s*(?:=|≥|>=|:|\s)\s*(?P<value>(?P<number>[\d.]+)\s*(?P<unit>[\wµ/×]+)|[A-Za-z]\w*)\s*"
)
_ALL = "kernels"
_LINKED = ("copy", "copies", "link")  # these also take the name of a link
# words of a pace that are no op's name: the field that takes a value of each unit
_FIELDS = {
    **{name: {"s": "kernel_s", "B/s": "kernel_bytes_per_s"} for name in ("kernel", "kernels")},
    **{name: {"B/s": "copy_bytes_per_s"} for name in ("copy", "copies")},
    "link": {"B/s": "link_bytes_per_s"},
    "latency": {"s": "link_latency_s"},
}


def fields_of(text: str) -> dict[str, Any]:
    """What a pace is made from. Raises OptionError for what cannot be read, and for what is given twice."""
    found: dict[str, Any] = {"by_name": {}, "flop_per_s": {}, "speedup": {}}
    named_latency_s = None
    for part in filter(str.strip, text.split(",")):
        name, value, unit = _read(part)
        if unit == "link":
            link = link_named(value)
            _put(found, part, _field(part, name, "B/s" if name in _LINKED else "link"), link.bytes_per_s)
            named_latency_s = link.latency_s if name == "link" else named_latency_s
        elif unit == "FLOP/s" and name not in (*_LINKED, "latency"):
            _put(found["flop_per_s"], part, _ALL if name == "kernel" else name, value)
        elif unit == "x":
            _put(found["speedup"], part, name, value)
        elif name in _FIELDS:
            _put(found, part, _field(part, name, unit), value)
        elif unit == "s":
            _put(found["by_name"], part, name, value)
        else:
            _refuse(part, f"{name!r} takes a time or FLOP/s", "a memory rate is for all kernels: kernels=200GB/s")
    if named_latency_s is not None:
        found.setdefault("link_latency_s", named_latency_s)
    return found


def _read(part: str) -> tuple[str, Any, str]:
    """Name, value and unit: "s", "B/s", "FLOP/s", "x" for a factor, or "link" for a link's name."""
    match = _PART.fullmatch(part)
    if match and match["number"] is None:
        return match["name"], match["value"], "link"
    kinds = {"s": _SECONDS, "B/s": _BYTES, "FLOP/s": _FLOP, "x": _FACTOR}
    unit = next((kind for kind, scales in kinds.items() if match and match["unit"] in scales), None)
    if match is None or unit is None or match["number"].count(".") > 1 or match["number"] == ".":
        _refuse(part, "", f"write for example {EXAMPLE}")
    return match["name"], float(match["number"]) * kinds[unit][match["unit"]], unit


def _field(part: str, name: str, unit: str) -> str:
    field = _FIELDS.get(name, {}).get(unit)
    if field is None:
        units = (
            " or ".join({"s": "a time", "B/s": "a bandwidth"}[one] for one in _FIELDS.get(name, {}))
            or "a time or FLOP/s"
        )
        _refuse(part, f"{name!r} takes {units}", f"write for example {EXAMPLE}")
    return field


def _put(where: dict[str, Any], part: str, name: str, value: float) -> None:
    if name in where:
        _refuse(part, "it is given twice", "give each once")
    where[name] = value


def _refuse(part: str, why: str, hint: str) -> NoReturn:
    raise OptionError(f"pace: cannot read {part.strip()!r}{why and ': '}{why}", hint=hint)
