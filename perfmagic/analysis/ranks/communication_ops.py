"""Which ops of a rank communicate, and what the host asked for when it launched them."""

from __future__ import annotations

import re

import numpy as np

from perfmagic.trace.collective_names import collective_name
from perfmagic.trace.columns import NONE
from perfmagic.trace.hoststack import host_stack
from perfmagic.trace.model import Collective, Trace
from perfmagic.trace.names import OpClass, op_classes
from perfmagic.trace.once import once_per_trace
from perfmagic.trace.signatures import function_name

# what torch.distributed records around a launch: c10d::allreduce_, and inside it nccl:all_reduce
_ASKED_AS = re.compile(r"^(?:nccl|c10d|gloo)::?")
_SEND_OR_RECEIVE = re.compile(r"send_?recv", re.IGNORECASE)  # an all-to-all or point to point, the kernel does not say
# torch records "nccl:send 0->1" on rank 0 and "nccl:recv 1<-0" on rank 1
_MESSAGE = re.compile(r"^i?(send|recv)\w*\s+(\d+)\s*(->|<-)\s*(\d+)", re.IGNORECASE)
# what the reader makes of Kineto's Dst Rank and Src Rank, and of gloo's messages between two ranks
_PEER = re.compile(r"^(send|recv) (?:to|from) (\d+)$")


@once_per_trace
def communication_ops(trace: Trace, comm_names: str | None) -> list[tuple[int, str]]:
    """The row of each op that communicates, and what the host asked for when it launched it: "all_reduce"; else the
    kernel's name; "" where that can be both a collective and point to point.
    """
    host, ops = trace.host_ops, trace.ops
    rows = np.flatnonzero(op_classes(trace, comm_names) == OpClass.COMMUNICATION)
    asked = np.full(len(rows), NONE, np.int64)
    launched = np.flatnonzero(ops.launch[rows] != NONE)
    named = np.array([_ASKED_AS.match(name) is not None for name in trace.names], bool)[host.name]
    if named.any() and len(launched):
        call = ops.launch[rows[launched]]
        found = host_stack(trace, named).innermost_at(trace.calls.thread[call], trace.calls.start_ns[call])
        asked[launched] = np.where(found != NONE, host.name[found], NONE)
    kernels = ops.name[rows]
    words = {
        (kernel, by): _words_of(trace.names[kernel], trace.names[by] if by != NONE else "")
        for kernel, by in set(zip(kernels.tolist(), asked.tolist(), strict=True))
    }
    found_rows = zip(rows.tolist(), kernels.tolist(), asked.tolist(), strict=True)
    return [(row, words[kernel, by]) for row, kernel, by in found_rows]


def _words_of(kernel: str, asked: str) -> str:
    if asked:
        return collective_name(_ASKED_AS.sub("", asked).strip("_"))
    name = function_name(kernel)
    return "" if _SEND_OR_RECEIVE.search(name) else name


def ends_with_peer(known: Collective | None, rank: int | None) -> tuple[bool, tuple[int, int]] | None:
    """The same as ends_of, of an op of a rank whose record names the other rank of the whole job."""
    found = _PEER.match(known.name) if known else None
    if not found or rank is None:
        return None
    is_send, peer = found[1] == "send", int(found[2])
    return is_send, (rank, peer) if is_send else (peer, rank)


def ends_of(known: Collective | None, *names: str) -> tuple[bool, tuple[int, int]] | None:
    """Whether an op sends, and from which rank to which; None where it is no message.

    names: what the host asked for, and the op's own, as the simulated device has it.
    """
    found = next(filter(None, map(_MESSAGE.match, (known.name if known else "", *names))), None)
    if not found:
        return None
    first, second = int(found[2]), int(found[4])
    source, target = (first, second) if found[3] == "->" else (second, first)
    if known and known.ranks and len(known.ranks) == known.group_size:  # numbers are those within the group
        if max(source, target) >= len(known.ranks):
            return None
        source, target = known.ranks[source], known.ranks[target]
    return found[1].lower() == "send", (source, target)
