"""The kinds of rows that records of devices have, from any recorder."""

from __future__ import annotations

import enum
import math
import re
from dataclasses import dataclass
from typing import NamedTuple

VIRTUAL_CLOCK = "virtual clock"  # how the pace of a device begins whose times are computed
HOST_MEASURED = "host measured here"  # what comes next in it where Python took its own time
_PREDICTED = re.compile(r"predicted for (.+?)(?:, fitted on (.+))?, not recorded · ÷ × ([\d.]+)")
HOST_SPREAD = 1.7  # the factor within which the host's time lies, for four of five records of other machines
UNKNOWN_TIME = " (time unknown)"  # behind the name of an op that has no model: it takes so long at least
NONE = -1  # in launch, bytes, correlation, stream: not known
# Whose plain inputs are kept: what a convolution computes depends on its stride, and what attention does on whether it
# is causal. Those of all operators would be many texts: every scalar that changes from call to call is another.
WITH_VALUES = ("conv", "attention")


class OpKind(enum.IntEnum):
    """What a device op is, by its category in the record."""

    KERNEL = 0
    MEMCPY = 1
    MEMSET = 2


class CallKind(enum.IntEnum):
    """What a runtime or driver call does on the host."""

    LAUNCH = 0  # queues a kernel, copy, memset or graph
    SYNC = 1  # waits for the device: device, stream or event synchronise
    WAIT = 2  # makes a stream wait for an event; returns at once
    RECORD = 3  # records an event
    MEMORY = 4  # allocates or frees
    OTHER = 5


class Hazard(enum.IntEnum):
    """What two ops of different streams do with the same memory, the one launched later first."""

    READ_AFTER_WRITE = 0
    WRITE_AFTER_READ = 1
    WRITE_AFTER_WRITE = 2


class HostKind(enum.IntEnum):
    """What a row of HostOps is."""

    OP = 0  # an operator (aten::mm)
    ANNOTATION = 1  # record_function, profiler steps
    PYTHON = 2  # a Python frame (with_stack)


class KernelTime(NamedTuple):
    """What a GPU's model says of one call of an operator.

    kernel_ns: on the device.  host_ns: of the operator on the host, before its launch.
    is_known: False for a lower bound, of an operator without a model.
    fills_device: whether it occupies the device, so that kernels of other streams wait for its end.
    others: what the models of further GPUs say, where a run is predicted for several.
    """

    kernel_ns: float
    host_ns: float
    is_known: bool = True
    fills_device: bool = True
    others: tuple[KernelTime, ...] = ()


@dataclass(frozen=True)
class PredictedFor:
    """The GPU whose model gave a record its times.

    gpu: its name.
    spread: the factor within which four of five such times of a whole run lie.
    fitted_on: a recording; empty for none.
    """

    gpu: str
    spread: float
    fitted_on: str = ""

    @property
    def words(self) -> str:
        """The pace of a device with these times, and its label."""
        fitted = f", fitted on {self.fitted_on}" if self.fitted_on else ""
        return f"predicted for {self.gpu}{fitted}, not recorded · ÷ × {self.spread:g}"

    @property
    def ends(self) -> tuple[tuple[float, float], ...]:
        """By which the device's time and the host's may be off together: 80 % of what follows from both lies between.

        Both errors are independent and about normal in logarithms, and these points are on the ellipse whose axes are
        both spreads: where the device is slowest beside the host, where it is fastest, and where one alone is off.
        A ratio of both is off by the root of the sum of squares, × 1.87 of 1.4 and 1.7, and a sum about so.
        """
        device, host = math.log(self.spread), math.log(HOST_SPREAD)
        both = math.hypot(device, host)
        slow, fast = math.exp(device**2 / both), math.exp(host**2 / both)
        alone = (self.spread, 1.0), (1 / self.spread, 1.0), (1.0, HOST_SPREAD), (1.0, 1 / HOST_SPREAD)
        return (slow, 1 / fast), (1 / slow, fast), *alone

    @classmethod
    def read(cls, pace: str) -> PredictedFor | None:
        """What the pace of a device says of it, in files that have it in words alone; None for a pace by hand, for
        several, and for measured times.
        """
        match = None if "; then " in pace else _PREDICTED.search(pace)
        return None if match is None else cls(match[1], float(match[3]), match[2] or "")
