"""The kinds of rows that records of devices have, whoever recorded them."""

from __future__ import annotations

import enum
from typing import NamedTuple

VIRTUAL_CLOCK = "virtual clock"  # how the pace of a device begins whose times are computed
PREDICTED_FOR = "predicted for "  # how what follows begins where the pace is a GPU's model
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
    """

    kernel_ns: float
    host_ns: float
    is_known: bool = True
    fills_device: bool = True
