"""The keys beside the events of a trace file: devices, ranks, the clock, and those of perfmagic's own export."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Any

from perfmagic.trace.kineto.decode import Header
from perfmagic.trace.model import Cell, DeviceInfo, TraceMeta
from perfmagic.trace.remarks import Remark, remark_of

EXPORT_SCHEMA = 2  # 1 had repairs and notes as text
_FAR_NS = 2**62
_OF_THE_HOST = ("monotonic_base_ns", "waited_for_core_ns", "cores", "threads")
_PING_NUMBERS = 6
_REPAIRED = ("repaired_ops", "repaired_ns", "repaired_calls")
_EPOCH_NS = 10**18  # of 2001: times above are unix time already
_AMD = re.compile(r"AMD|Instinct|Radeon|gfx\d|MI\d{3}", re.IGNORECASE)


@dataclass(frozen=True)
class Restored:
    """What perfmagic wrote into its own export, see perfmagic.trace.formats.chrome."""

    fields: dict[str, Any]
    devices: tuple[DeviceInfo, ...]
    marks: dict[str, list[int]]
    cell: Cell | None

    def meta(self, read: TraceMeta) -> TraceMeta:
        """The meta of the file, completed by the saved meta of the original."""
        sums = {key: self.fields.get(key, 0) + getattr(read, key) for key in _REPAIRED}
        both = {"repairs": (*self.fields.get("repairs", ()), *read.repairs)}
        return replace(read, devices=self.devices or read.devices, **(self.fields | sums | both))


def restored(header: Header, repairs: list[Remark]) -> Restored | None:
    """perfmagic's own part of a file; None in files of others."""
    block = header.perfmagic
    if block is None:
        return None
    try:
        if block["schema"] != EXPORT_SCHEMA:
            words = (
                f"the perfmagic part has schema {block['schema']}, this version reads {EXPORT_SCHEMA}; it was left out"
            )
            repairs.append(Remark("own_part_schema", words))
            return None
        fields = dict(block["meta"])
        for key in ("repairs", "notes"):
            fields[key] = tuple(map(remark_of, fields.get(key, ())))
        fields["races"] = tuple((int(a), int(b)) for a, b in fields.get("races", ()))
        fields["pings"] = tuple(tuple(map(int, one)) for one in fields.get("pings", ()))
        unknown = fields.keys() - TraceMeta.__dataclass_fields__.keys()
        devices = tuple(_own_device(d) for d in block["devices"])
        marks = {key: [int(v) for v in block["marks"][key]] for key in ("at_ns", "line", "top_line")}
        _check(fields, marks)
        cell = None if block["cell"] is None else Cell(str(block["cell"]))
        return Restored({k: v for k, v in fields.items() if k not in unknown}, devices, marks, cell)
    except (KeyError, TypeError, ValueError, AttributeError, OverflowError) as error:
        words = f"the perfmagic part is damaged ({type(error).__name__}) and was left out"
        repairs.append(Remark("own_part_damaged", words))
        return None


def _check(fields: dict[str, Any], marks: dict[str, list[int]]) -> None:
    """Raise ValueError for numbers, words or marks of the wrong kind."""
    numbers = [fields.get(key) for key in ("start_ns", "end_ns", "dropped_events")]
    numbers += [fields.get(key, 0) for key in _REPAIRED]
    if fields.get("returned_ns") is not None:
        numbers.append(fields["returned_ns"])
    numbers += [fields[key] for key in _OF_THE_HOST if fields.get(key) is not None]
    numbers += [n for one in fields["pings"] for n in one]
    if any(len(one) != _PING_NUMBERS for one in fields["pings"]):
        raise ValueError("pings of other than six numbers")
    if not all(type(n) is int and abs(n) < _FAR_NS for n in numbers):
        raise ValueError("times are not whole numbers")
    if not all(isinstance(fields.get(key, ""), str) for key in ("torch_version", "failed", "boot", "predicted")):
        raise ValueError("words are not text")
    if len({len(column) for column in marks.values()}) > 1:
        raise ValueError("marks of different lengths")
    if any(abs(n) >= _FAR_NS for n in marks["at_ns"]) or any(
        not 0 <= n < 2**31 for k in ("line", "top_line") for n in marks[k]
    ):
        raise ValueError("marks out of range")


def base_unix_ns(header: Header, first_ns: int, saved: Restored | None) -> tuple[int, int]:
    """The unix time of the trace's instant 0, and that instant in the file's clock.

    Instant 0 is the first record; in perfmagic's own exports it stays where it was. Unix time is 0 where not known.
    """
    base = _whole(header.baseTimeNanoseconds) or 0
    if saved:
        return base, 0
    return (first_ns if first_ns > _EPOCH_NS else base + first_ns if base else 0), first_ns


def device_infos(header: Header, used: list[int], names: Iterable[str]) -> tuple[DeviceInfo, ...]:
    """The devices that executed something, by the file's properties where it has them."""
    listed = header.deviceProperties if isinstance(header.deviceProperties, list) else []
    by_id = {_whole(d.get("id")): d for d in listed if isinstance(d, dict) and d.get("name")}
    guess = _kind_by_calls(names) if used else "unknown"
    if len({_words(d) for d in by_id.values()}) == 1:  # every device the process saw is of this kind, by any number
        by_id |= {index: next(iter(by_id.values())) for index in used if index not in by_id}
    return tuple(
        _listed_device(index, by_id[index]) if index in by_id else DeviceInfo(index, guess, f"device {index}")
        for index in used
    )


def _listed_device(index: int, listed: dict[str, Any]) -> DeviceInfo:
    name = str(listed["name"])
    kind = "rocm" if _AMD.search(name) else "cuda"
    return DeviceInfo(index, kind, name, "", *_sizes(listed, "totalGlobalMem", "numSms", "computeMajor"))


def _words(listed: dict[str, Any]) -> str:
    return str({key: value for key, value in listed.items() if key != "id"})


def _own_device(saved: dict[str, Any]) -> DeviceInfo:
    sizes = _sizes(saved, "memory_bytes", "multiprocessors", "compute_major")
    return DeviceInfo(int(saved["index"]), saved["kind"], saved["name"], saved["pace"], *sizes)


def _sizes(saved: dict[str, Any], *keys: str) -> list[int | None]:
    """The memory, the multiprocessors and the like of a device, None where they are no possible numbers."""
    known = [_whole(saved.get(key)) for key in keys]
    return [n if n is not None and 0 < n < 2**62 else None for n in known]


def rank_and_world(header: Header) -> tuple[int | None, int | None]:
    """The rank and the number of ranks, None where the file does not say."""
    info = header.distributedInfo if isinstance(header.distributedInfo, dict) else {}
    return _whole(info.get("rank")), _whole(info.get("world_size"))


def _kind_by_calls(names: Iterable[str]) -> str:
    for name in names:
        if re.match(r"hip[A-Z]", name):
            return "rocm"
        if re.match(r"cu(?:da)?[A-Z]", name):
            return "cuda"
    return "unknown"


def _whole(value: Any) -> int | None:
    try:
        return None if value is None or isinstance(value, bool) else int(value)
    except (TypeError, ValueError, OverflowError):
        return None
