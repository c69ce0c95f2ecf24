"""What torch.compile or a CUDA graph launched: advice to use them does not fit there."""

from __future__ import annotations

import re

import numpy as np

from perfmagic.analysis.timeline.origin import Source, origins
from perfmagic.trace.columns import NONE, Bool, HostKind
from perfmagic.trace.hoststack import host_stack
from perfmagic.trace.model import Trace
from perfmagic.trace.once import once_per_trace

# Names that torch records around compiled code: Dynamo's region, Inductor's call of a graph, AOTAutograd's function,
# whose backward runs on autograd's own thread (torch/_dynamo, torch/_inductor, torch/_functorch)
_REGION = re.compile(r"Torch-Compiled Region|CompiledFxGraph|\bCompiledFunction(?:Backward)?\d*$")
_TRITON_MAJOR = 7  # of the compute capability; torch's inductor refuses older GPUs, "too old to be supported by Triton"
_INDUCTOR = re.compile(r"^triton_(?:poi|per|red|for|tem|mm|bmm)_")  # its kernels, by what they were generated from


def can_compile(trace: Trace, device: int) -> bool:
    """Whether torch.compile has kernels for a device; True where the record does not say which it is."""
    known = [one for one in trace.meta.devices if one.index == device and one.kind == "cuda"]
    return all(one.compute_major is None or one.compute_major >= _TRITON_MAJOR for one in known)


def is_compiled_code(name: str) -> bool:
    """Whether a name on the host is one of torch.compile's own marks."""
    return _REGION.search(name) is not None


def fused(trace: Trace) -> Bool:
    """Which device ops are kernels that inductor generated; shape of trace.ops."""
    found: Bool = np.array([_INDUCTOR.match(name) is not None for name in trace.names], bool)[trace.ops.name]
    return found


@once_per_trace
def compiled(trace: Trace) -> Bool:
    """Which device ops were launched by code that torch.compile made; shape of trace.ops."""
    ops, calls, host = trace.ops, trace.calls, trace.host_ops
    found = fused(trace)
    marks = np.array([is_compiled_code(name) for name in trace.names], bool)
    if not len(host) or not len(calls) or not marks[host.name].any():
        return found
    stack = host_stack(trace, marks[host.name] & (host.kind != HostKind.PYTHON))
    launched = ops.launch != NONE
    call = ops.launch[launched]
    found[launched] |= stack.outermost_at(calls.thread[call], calls.start_ns[call]) != NONE
    return found


def in_graphs(trace: Trace) -> Bool:
    """Which device ops a graph carried; shape of trace.ops."""
    carried: Bool = origins(trace).source == Source.GRAPH
    return carried
