"""The keys beside the events of a trace file: devices, ranks, the clock, and those of perfmagic's own export."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Any

import msgspec

from perfmagic.base.language import phrase
from perfmagic.trace.columns import Remark
from perfmagic.trace.kineto.decode import Header
from perfmagic.trace.model import Cell, DeviceInfo, TraceMeta, with_models
from perfmagic.trace.typed import EXACT, FAR_NS, Line, Ns, typed

EXPORT_SCHEMA = 2  # 1 had repairs and notes as text
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


class _Schema(msgspec.Struct):
    schema: Any


class _Marks(msgspec.Struct):
    at_ns: list[Ns]
    line: list[Line]
    top_line: list[Line]


class _OwnPart(msgspec.Struct):
    meta: dict[str, Any]
    devices: tuple[DeviceInfo, ...]
    marks: _Marks
    cell: str | None


def restored(header: Header, repairs: list[Remark]) -> Restored | None:
    """perfmagic's own part of a file; None in files of others."""
    block = header.perfmagic
    if block is None:
        return None
    try:
        schema = typed(block, _Schema).schema
        if schema != EXPORT_SCHEMA:
            words = phrase(
                "the perfmagic part has schema {schema}, this version reads {known}; it was left out",
                schema=schema,
                known=EXPORT_SCHEMA,
            )
            repairs.append(Remark("own_part_schema", words))
            return None
        # raises ValueError for what does not fit
        own = typed(block, _OwnPart)
        meta = typed(own.meta | {"origin": "", "devices": ()}, TraceMeta)
        known = own.meta.keys() & TraceMeta.__dataclass_fields__.keys() - {"origin", "devices"}
        marks = msgspec.structs.asdict(own.marks)
        if len({len(column) for column in marks.values()}) > 1:
            raise ValueError("marks of different lengths")
        return Restored(
            {key: getattr(meta, key) for key in known},
            with_models(own.devices),
            marks,
            None if own.cell is None else Cell(own.cell),
        )
    except ValueError as error:
        words = phrase("the perfmagic part is damaged ({error}) and was left out", error=error)
        repairs.append(Remark("own_part_damaged", words))
        return None


def base_unix_ns(header: Header, first_ns: int, saved: Restored | None) -> tuple[int, int]:
    """The unix time of the trace's instant 0, and that instant in the file's clock.

    Instant 0 is the first record; in perfmagic's own exports it stays where it was. Unix time is 0 where not known.
    """
    base = _possible(header.baseTimeNanoseconds, FAR_NS) or 0
    if saved:
        return base, 0
    return (first_ns if first_ns > _EPOCH_NS else base + first_ns if base else 0), first_ns


def device_infos(header: Header, used: list[int], names: Iterable[str]) -> tuple[DeviceInfo, ...]:
    """The devices that executed something, by the file's properties where it has them."""
    listed = header.deviceProperties if isinstance(header.deviceProperties, list) else []
    by_id = {_whole(d.get("id")): d for d in listed if isinstance(d, dict) and d.get("name")}
    guess = _kind_by_calls(names) if used else "unknown"
    if (
        len({str({key: value for key, value in d.items() if key != "id"}) for d in by_id.values()}) == 1
    ):  # every device the process saw is of this kind, by any number
        by_id |= {index: next(iter(by_id.values())) for index in used if index not in by_id}
    return tuple(
        _listed_device(index, by_id[index]) if index in by_id else DeviceInfo(index, guess, f"device {index}")
        for index in used
    )


def _listed_device(index: int, listed: dict[str, Any]) -> DeviceInfo:
    name = str(listed["name"])
    kind = "rocm" if _AMD.search(name) else "cuda"
    memory_bytes, multiprocessors, major = _sizes(listed, "totalGlobalMem", "numSms", "computeMajor")
    return DeviceInfo(index, kind, name, "", memory_bytes, multiprocessors, major)


def _sizes(saved: dict[str, Any], *keys: str) -> list[int | None]:
    """The memory, the multiprocessors and the like of a device, None where they are no possible numbers."""
    known = [_whole(saved.get(key)) for key in keys]
    return [n if n is not None and 0 < n < 2**62 else None for n in known]


def rank_and_world(header: Header) -> tuple[int | None, int | None]:
    """The rank and the number of ranks, None where the file does not say."""
    info = header.distributedInfo if isinstance(header.distributedInfo, dict) else {}
    return _possible(info.get("rank"), EXACT), _possible(info.get("world_size"), EXACT)


def _kind_by_calls(names: Iterable[str]) -> str:
    for name in names:
        if re.match(r"hip[A-Z]", name):
            return "rocm"
        if re.match(r"cu(?:da)?[A-Z]", name):
            return "cuda"
    return "unknown"


def _possible(value: Any, most: int) -> int | None:
    """A whole number from 0 on; None for what is none, or so large that a saved trace cannot hold it."""
    number = _whole(value)
    return number if number is not None and 0 <= number <= most else None


def _whole(value: Any) -> int | None:
    try:
        return None if value is None or isinstance(value, bool) else int(value)
    except (TypeError, ValueError, OverflowError):
        return None
