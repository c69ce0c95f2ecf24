"""The copies that DistributedDataParallel itself makes on a device, and the options that leave them out."""

from __future__ import annotations

import numpy as np

from perfmagic import units
from perfmagic.analysis.findings.facts import Facts, sentences
from perfmagic.trace.columns import NONE, Bool, HostKind, Int64, OpKind
from perfmagic.trace.hoststack import host_stack

FORWARD = "DistributedDataParallel.forward"
UNFLATTEN = "aten::unflatten_dense_tensors"
# torch, csrc/distributed/c10d/reducer.cpp: a gradient that is no view of its bucket is copied out of it
_TO_GRAD = "torch.distributed.ddp.reducer::copy_bucket_to_grad"
BUFFERS_ADVICE = (
    "DistributedDataParallel sends the model's buffers to all ranks before each forward: broadcast_buffers=False "
    "leaves that out, where ranks may have buffers of their own (running statistics of batch norm)"
)


def ddp_advice(facts: Facts, which: Bool) -> str:
    """What leaves some ops out, where most of them are copies of DDP's own; "" where they are not.

    which: shape of trace.ops.
    """
    rows = np.flatnonzero(which)
    gradients, buffers = _copies(facts, rows)
    n_gradients, n_buffers = int(gradients.sum()), int(buffers.sum())
    if 2 * (n_gradients + n_buffers) <= len(rows):
        return ""
    out = f"{units.count(n_gradients)} of them copy gradients out of DistributedDataParallel's buckets"
    back = f"{units.count(n_buffers)} of them copy buffers back. {BUFFERS_ADVICE}"
    return sentences(
        f"{out}: gradient_as_bucket_view=True leaves that out" if n_gradients else "", back if n_buffers else ""
    )


def _copies(facts: Facts, rows: Int64) -> tuple[Bool, Bool]:
    """Which of some ops copy a gradient out of its bucket, and which a buffer back; shape of rows.

    A buffer's copy lies in the wrapper's forward itself, in no operator but aten::copy_, where the wrapper took the
    buffers apart before.
    """
    trace, host = facts.trace, facts.trace.host_ops
    launched = (trace.ops.kind[rows] == OpKind.MEMCPY) & (trace.ops.launch[rows] != NONE)
    gradients, buffers = np.zeros(len(rows), bool), np.zeros(len(rows), bool)
    code = {name: row for row, name in enumerate(trace.names)}
    if not launched.any() or not len(host) or code.keys().isdisjoint((_TO_GRAD, FORWARD)):
        return gradients, buffers
    stack = host_stack(trace, host.kind != HostKind.PYTHON)
    parent, name = np.append(stack.parents(), NONE), np.append(host.name, NONE)
    to_grad, forward, copy, apart = (code.get(one, -2) for one in (_TO_GRAD, FORWARD, "aten::copy_", UNFLATTEN))
    call = trace.ops.launch[rows[launched]]
    inner = stack.innermost_at(trace.calls.thread[call], trace.calls.start_ns[call])
    around = np.where(name[inner] == copy, name[parent[inner]], NONE)
    gradients[launched] = around == to_grad
    taken_apart = parent[:-1][host.name == apart]
    buffers[launched] = (around == forward) & bool((name[taken_apart] == forward).any())
    return gradients, buffers
