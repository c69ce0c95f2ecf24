"""Which advice fits a trace: to compile, to capture graphs, or to set an option of DistributedDataParallel."""

from __future__ import annotations

import re

import numpy as np

from perfmagic.analysis.findings.catalogue import Remedy, action
from perfmagic.analysis.findings.finding import PythonWas
from perfmagic.analysis.timeline.origin import graph_sizes
from perfmagic.base import units
from perfmagic.base.language import phrase, sentences
from perfmagic.predict.gpus import gpu_of
from perfmagic.predict.kernels import OLD
from perfmagic.trace.columns import NONE, Bool, HostKind, Int64, OpKind
from perfmagic.trace.hoststack import host_stack
from perfmagic.trace.model import Trace, once_per_trace
from perfmagic.trace.signatures import function_name

# What torch.compile or a CUDA graph launched: advice to use them does not fit there.

# Names that torch records around compiled code: Dynamo's region, Inductor's call of a graph, AOTAutograd's function,
# whose backward runs on autograd's own thread (torch/_dynamo, torch/_inductor, torch/_functorch)
_REGION = re.compile(r"Torch-Compiled Region|CompiledFxGraph|\bCompiledFunction(?:Backward)?\d*$")
_TRITON_MAJOR = 7  # of the compute capability; torch's inductor refuses older GPUs, "too old to be supported by Triton"
_INDUCTOR = re.compile(r"^triton_(?:poi|per|red|for|tem|mm|bmm)_")  # its kernels, by what they were generated from


def for_gpus(trace: Trace, device: int, advice: str) -> str:
    """Advice to compile or to capture, adapted to a device: one with a pace can do neither."""
    if not advice or not trace.device_info(device).paced:
        return advice
    return phrase("On a GPU, {advice}; the simulated device cannot do that", advice=advice)


def can_compile(trace: Trace, device: int) -> bool:
    """Whether torch.compile has kernels for a device; True if the record does not say which device it is."""
    gpus = [info for info in trace.meta.devices if info.index == device and info.kind == "cuda"]
    return all(info.compute_major is None or info.compute_major >= _TRITON_MAJOR for info in gpus)


def is_compiled_code(name: str) -> bool:
    """Whether a name on the host is one of torch.compile's own marks."""
    return _REGION.search(name) is not None


def fused(trace: Trace) -> Bool:
    """Which device ops are kernels that inductor generated; shape of trace.ops."""
    by_inductor = np.array([_INDUCTOR.match(name) is not None for name in trace.names], bool)
    ops: Bool = by_inductor[trace.ops.name]
    return ops


@once_per_trace
def compiled(trace: Trace) -> Bool:
    """Which device ops were launched by code that torch.compile made; shape of trace.ops."""
    ops, calls, host = trace.ops, trace.calls, trace.host_ops
    by_compiled_code = fused(trace)
    marks = np.array([is_compiled_code(name) for name in trace.names], bool)
    if not len(host) or not len(calls) or not marks[host.name].any():
        return by_compiled_code
    stack = host_stack(trace, marks[host.name] & (host.kind != HostKind.PYTHON))
    launched = ops.launch != NONE
    call = ops.launch[launched]
    by_compiled_code[launched] |= stack.outermost_at(calls.thread[call], calls.start_ns[call]) != NONE
    return by_compiled_code


def in_graphs(trace: Trace) -> Bool:
    """Which device ops ran in a CUDA graph; shape of trace.ops."""
    carried: Bool = graph_sizes(trace) > 0
    return carried


# The copies that DistributedDataParallel itself makes on a device, and the options that avoid them.

FORWARD = "DistributedDataParallel.forward"
UNFLATTEN = "aten::unflatten_dense_tensors"


# torch, csrc/distributed/c10d/reducer.cpp: a gradient that is no view of its bucket is copied out of it
_TO_GRAD = "torch.distributed.ddp.reducer::copy_bucket_to_grad"
BUFFERS_ADVICE = phrase(
    "DistributedDataParallel sends the model's buffers to all ranks before each forward: broadcast_buffers=False "
    "leaves that out, where ranks may have buffers of their own (running statistics of batch norm)"
)


def ddp_remedy(trace: Trace, which: Bool) -> Remedy:
    """What avoids some ops, if most of them are DDP's own copies.

    which: shape of trace.ops.
    """
    rows = np.flatnonzero(which)
    gradients, buffers = _ddp_copies(trace, rows)
    n_gradients, n_buffers = int(gradients.sum()), int(buffers.sum())
    if 2 * (n_gradients + n_buffers) <= len(rows):
        return Remedy()
    out = phrase(
        "{n} of them copy gradients out of DistributedDataParallel's buckets: gradient_as_bucket_view=True leaves "
        "that out",
        n=units.count(n_gradients),
    )
    back = phrase("{n} of them copy buffers back", n=units.count(n_buffers))
    advice = (out if n_gradients else "", *((back, BUFFERS_ADVICE) if n_buffers else ()))
    return Remedy(sentences(*advice), action("bucket_view" if n_gradients >= n_buffers else "no_broadcast"))


def _ddp_copies(trace: Trace, rows: Int64) -> tuple[Bool, Bool]:
    """Which of some ops copy a gradient out of its bucket, and which a buffer back; shape of rows.

    A buffer's copy is an aten::copy_ directly inside the wrapper's forward, which also unflattens the buffers.
    """
    host = trace.host_ops
    launched = (trace.ops.kind[rows] == OpKind.MEMCPY) & (trace.ops.launch[rows] != NONE)
    gradients, buffers = np.zeros(len(rows), bool), np.zeros(len(rows), bool)
    code = {name: row for row, name in enumerate(trace.names)}
    if not launched.any() or not len(host) or code.keys().isdisjoint((_TO_GRAD, FORWARD)):
        return gradients, buffers
    stack = host_stack(trace, host.kind != HostKind.PYTHON)
    parent, name = np.append(stack.parents(), NONE), np.append(host.name, NONE)
    to_grad, forward, copy, apart = (
        code.get(operator, -2) for operator in (_TO_GRAD, FORWARD, "aten::copy_", UNFLATTEN)
    )
    call = trace.ops.launch[rows[launched]]
    inner = stack.innermost_at(trace.calls.thread[call], trace.calls.start_ns[call])
    around = np.where(name[inner] == copy, name[parent[inner]], NONE)
    gradients[launched] = around == to_grad
    taken_apart = parent[:-1][host.name == apart]
    buffers[launched] = (around == forward) & bool((name[taken_apart] == forward).any())
    return gradients, buffers


MOST_NAME_CHARS = 30  # of a name in a headline


def shortest_name(was: PythonWas) -> str:
    """What Python was in: the user's function, else the operator or the annotation; "" where not known."""
    operator, annotation, frame = was.names
    if operator and any(is_compiled_code(was_in) for was_in in was.names):  # its functions are all called "call"
        frame = ""
    name = function_name(frame or operator or annotation)
    return name if len(name) <= MOST_NAME_CHARS else f"{name[: MOST_NAME_CHARS - 1]}…"


def without_fused_bf16(trace: Trace, device: int) -> str:
    """The GPU of a bfloat16 run, if it has no fused attention for that type, even if the code asks for it; else ""."""
    gpu = gpu_of(trace.device_info(device))
    if gpu is None or gpu.generation not in OLD:  # source: sdp_utils.cpp of torch 2.13
        return ""
    return gpu.name if any("BFloat16" in text for text in trace.input_dtypes) else ""


def fused_attention(without_bf16: str) -> str:
    """What runs attention as one kernel.  without_bf16: from without_fused_bf16."""
    if without_bf16:
        return phrase(
            "{gpu} has no fused attention for bfloat16: under autocast to float16, "
            "torch.nn.functional.scaled_dot_product_attention is one kernel",
            gpu=without_bf16,
        )
    return phrase("torch.nn.functional.scaled_dot_product_attention runs it as one fused kernel")
