"""Where this host limits a simulated device: a pace that was not reached, and devices that share its cores."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from perfmagic.base import units
from perfmagic.base.kinds import HOST_MEASURED, HOST_SPREAD, PredictedFor
from perfmagic.base.language import chained, counted, phrase
from perfmagic.trace.columns import Remark
from perfmagic.trace.model import DeviceInfo

CHANNELS_LAST = "channels_last"  # the remark about convolutions of such tensors
MEASURED_HOST = "measured_host"  # the kind of a remark
REACHED = 1.25  # times the requested time: a host that needs more did not keep the pace


@dataclass(frozen=True)
class Paced:
    """All ops of a name that had a pace.  asked_ns: the requested time.  needed_ns: what this host needed."""

    name: str
    n_ops: int
    asked_ns: int
    needed_ns: int

    @property
    def reached(self) -> bool:
        return self.needed_ns <= REACHED * self.asked_ns


def paced(rows: Sequence[tuple[str, int, int]]) -> tuple[Paced, ...]:
    """Ops with a pace, summed by name, the largest misses first.  rows: name, asked_ns, needed_ns of each."""
    sums: dict[str, tuple[int, int, int]] = {}
    for name, asked_ns, needed_ns in rows:
        n_ops, asked, needed = sums.get(name, (0, 0, 0))
        sums[name] = n_ops + 1, asked + asked_ns, needed + needed_ns
    return tuple(sorted((Paced(name, *of) for name, of in sums.items()), key=lambda op: op.asked_ns - op.needed_ns))


def said_of(pace: str, ops: Sequence[Paced]) -> str:
    """A pace in words ("paced: matmul ≥ 3 ms"), corrected by what was recorded."""
    reached = [op.reached for op in ops]
    if all(reached):
        return pace
    return pace.replace("paced", "pace reached in part" if any(reached) else "pace not reached", 1)


def pace_remarks(ops: Sequence[Paced]) -> list[Remark]:
    """One remark on the ops that took longer than their pace, with mean times."""
    late = [op for op in ops if not op.reached]
    if not late:
        return []
    words = []
    for op in late[:_NAMED]:
        took, asked = (units.duration(ns // op.n_ops) for ns in (op.needed_ns, op.asked_ns))
        words.append(phrase("{name} took {time}, {asked} asked", name=op.name, time=took, asked=asked))
    n = len(late) - _NAMED
    words += [counted(n, "{n} other op too", "{n} other ops too")] if n > 0 else []
    said = phrase("pace not reached: {ops}; this host is the limit", ops=chained("{a}; {b}", words))
    return [Remark("pace_not_reached", said, {"needed_ns": late[0].needed_ns, "asked_ns": late[0].asked_ns})]


def clock_remarks(worked: Sequence[DeviceInfo]) -> list[Remark]:
    """Remarks that times are not measurements, if a device that ran ops kept a virtual clock."""
    virtual = next((info for info in worked if info.virtual), None)
    if virtual is None:
        return []
    host = [Remark(MEASURED_HOST, describe_measured_host())] if virtual.host_measured else []
    return [*host, Remark("virtual_clock", describe_virtual_clock(virtual.pace))]  # the first is always shown


def given_remarks(given: Sequence[tuple[str, float]]) -> list[Remark]:
    """What Python got for values that were not computed, and layouts without a model.  given: as SimRecords has it."""
    items = [number for kind, number in given if kind == "item"]
    n_copies, n_checks, n_images = (
        sum(kind == each for kind, _ in given) for each in ("copy", "finite", CHANNELS_LAST)
    )
    read = counted(
        len(items),
        "{n} read of a value that was not computed gave item={numbers}",
        "{n} reads of values that were not computed gave item={numbers}",
        numbers=", ".join(f"{number:g}" for number in dict.fromkeys(items)),
    )
    copied = counted(
        n_copies,
        "{n} copy to the host brought no values: its tensor holds NaN",
        "{n} copies to the host brought no values: their tensors hold NaN",
    )
    checked = counted(
        n_checks,
        "{n} check for inf and NaN had no values: it counts as finite",
        "{n} checks for inf and NaN had no values: they count as finite",
    )
    images = counted(
        n_images,
        "{n} convolution took a channels_last tensor: the model ignores layouts",
        "{n} convolutions took channels_last tensors: the model ignores layouts",
    )
    remarks = (
        Remark(CHANNELS_LAST, images, {"n_convolutions": n_images}),
        Remark("given_values", read, {"n_reads": len(items)}),
        Remark("copies_without_values", copied, {"n_copies": n_copies}),
        Remark("checks_without_values", checked, {"n_checks": n_checks}),
    )
    return [remark for remark in remarks if any(remark.numbers.values())]


def describe_virtual_clock(pace: str) -> str:
    """The sentence about a virtual clock; about its device alone if the host is measured.  pace: of the device."""
    predicted = PredictedFor.read(pace)
    if HOST_MEASURED in pace:
        return _describe_device_alone(predicted)
    if predicted is None:
        return phrase(
            "virtual clock: times are computed by the pace, not measured; the host is assumed to take 5 µs an "
            "operator, and none for other Python"
        )
    return phrase(
        "a model of {gpu} gives all times, nothing was measured: four of five device times lie within ÷ × {spread}; "
        "the host is assumed to take 5 µs an operator, ÷ × {host}, and none for other Python",
        gpu=predicted.gpu,
        spread=f"{predicted.spread:g}",
        host=f"{HOST_SPREAD:g}",
    )


def _describe_device_alone(predicted: PredictedFor | None) -> str:
    if predicted is None:
        return phrase("virtual clock: the device's times are computed by the pace, not measured")
    return phrase(
        "a model of {gpu} gives the device's times, not measured: four of five lie within ÷ × {spread}",
        gpu=predicted.gpu,
        spread=f"{predicted.spread:g}",
    )


def describe_measured_host() -> str:
    """The sentence about a host whose Python time was measured."""
    return phrase(
        "host time is measured on this machine, plus an assumed 5 µs an operator. It changes from run to run. The "
        "interval does not cover other machines"
    )


_NAMED = 2  # ops in one sentence


def shared_cores(worked: Sequence[DeviceInfo]) -> list[Remark]:
    """A remark that simulated devices without a pace gain little from each other.  worked: those that ran ops."""
    n = sum(info.simulated and not info.pace for info in worked)
    return [Remark("shared_cores", describe_shared_cores(n), {"n_devices": n})] if n > 1 else []


def describe_shared_cores(n: int) -> str:
    """The sentence about n devices."""
    return phrase(
        "{n} simulated devices without a pace share the cores of this host, so they gain little from each other. "
        "With a pace longer than an op takes here, each keeps its own: "
        'perfmagic.devices({n}, "sim", pace="matmul=50ms")',
        n=n,
    )
