"""The operations between ranks: how records of real devices name them, and what gloo is asked for.

run(gloo, outputs, inputs, opts) comes back when the operation is done. Tensors are real and contiguous; those changed
in place are outputs. gloo lacks averages and lists in all_to_all, and may use the memory of ranks that get no result.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
import torch.distributed as dist

from perfmagic.sim.groups.agreement import Message
from perfmagic.sim.pace import Pace, PaceFunction, link_s
from perfmagic.sim.torch_private import new_options
from perfmagic.sim.virtual import OP_NS


@dataclass(frozen=True)
class OperationKind:
    """One kind of operation.

    kind: as record_param_comms names it ("allreduce").  title: the device op's name, as torch titles NCCL's.
    host: the operator torch runs on the host.  rooted: some ranks could leave before others have come.
    at_once: it consists of messages, which NCCL sends at once.
    """

    kind: str
    title: str
    host: str
    factor: str = "once"
    rooted: bool = False
    at_once: bool = False

    @property
    def function(self) -> str:
        """The function of torch.distributed that people call."""
        return {"_all_gather_base": "all_gather_into_tensor", "_reduce_scatter_base": "reduce_scatter_tensor"}.get(
            self.title, self.title
        )

    @property
    def family(self) -> str:
        """Operations of one family are the same to gloo, whatever the call."""
        return "all_gather" if self.title == "_all_gather_base" else self.title

    def takes_ns(self, pace: PaceFunction | None, size_bytes: int, ranks: int) -> int:
        """How long it takes on a virtual clock once all ranks are there.

        Each step takes the latency of the link. An all-reduce of n ranks goes round a ring, 2 (n - 1) steps with
        2 (n - 1) / n of the buffer on each link, or through trees, 2 log2(n) steps with twice the buffer: as it is
        quicker. Others go once round the ring, n - 1 steps. What the pace leaves out takes as long as another op.
        Not modelled: operations that share a link at the same time each take as long as alone.
        size_bytes: of the whole buffer.
        Source: Thakur, Rabenseifner and Gropp, Optimization of Collective Communication Operations in MPICH, 2005;
        NCCL, src/graph/tuning.cc. Not checked on GPUs.
        """
        rounds = 2 if self.factor == "twice" else 1
        ways = [(rounds * min(ranks - 1, 1 if self.at_once else ranks), self.link_bytes(size_bytes, ranks))]
        if self.factor == "twice":
            ways.append((rounds * (ranks - 1).bit_length(), rounds * size_bytes))
        takes_ns = round(min(link_s(pace, self.title, size, steps) for steps, size in ways) * 1e9)
        named = isinstance(pace, Pace) and self.title in pace.by_name
        return takes_ns if named else max(takes_ns, OP_NS)

    def link_bytes(self, size_bytes: int, ranks: int) -> float:
        """How many bytes pass one rank's link. size_bytes: of the whole buffer. Source: NCCL tests, PERFORMANCE.md."""
        share = (ranks - 1) / ranks
        return size_bytes * {"once": min(1.0, share * ranks), "share": share, "twice": 2 * share}[self.factor]


ALL_REDUCE = OperationKind("allreduce", "all_reduce", "c10d::allreduce_", "twice")
ALL_REDUCE_COALESCED = OperationKind("allreduce_coalesced", "all_reduce", "c10d::allreduce_coalesced_", "twice")
BROADCAST = OperationKind("broadcast", "broadcast", "c10d::broadcast_", rooted=True)
REDUCE = OperationKind("reduce", "reduce", "c10d::reduce_", rooted=True)
ALL_GATHER = OperationKind("allgather", "all_gather", "c10d::allgather_", "share")
ALL_GATHER_BASE = OperationKind("_allgather_base", "_all_gather_base", "c10d::_allgather_base_", "share")
REDUCE_SCATTER = OperationKind("reduce_scatter", "reduce_scatter", "c10d::reduce_scatter_", "share")
REDUCE_SCATTER_BASE = OperationKind(
    "_reduce_scatter_base", "_reduce_scatter_base", "c10d::_reduce_scatter_base_", "share"
)
ALL_TO_ALL = OperationKind("all_to_all", "all_to_all", "c10d::alltoall_", "share", at_once=True)
ALL_TO_ALL_BASE = OperationKind("all_to_all", "all_to_all", "c10d::alltoall_base_", "share", at_once=True)
GATHER = OperationKind("gather", "gather", "c10d::gather_", "share", rooted=True, at_once=True)
SCATTER = OperationKind("scatter", "scatter", "c10d::scatter_", "share", rooted=True, at_once=True)
BARRIER = OperationKind("barrier", "barrier", "c10d::barrier", "twice")
SEND = OperationKind("send", "send", "c10d::send", at_once=True)
RECV = OperationKind("recv", "recv", "c10d::recv_", at_once=True)
RECV_ANY = OperationKind("recv", "recv", "c10d::recv_any_source_", at_once=True)


# What gloo is asked for.

Tensors = list[torch.Tensor]


def all_reduce(gloo: Any, outputs: Tensors, inputs: Tensors, opts: Any) -> None:  # noqa: ARG001 - as all of these
    """The sum, or another reduction, of every rank's tensor."""
    for work in [gloo.allreduce([t], _summing(new_options("Allreduce"), opts)) for t in outputs]:
        work.wait()
    _average(gloo, outputs, opts)


def broadcast(gloo: Any, outputs: Tensors, inputs: Tensors, opts: Any) -> None:  # noqa: ARG001
    """The root's tensor on every rank."""
    gloo.broadcast(outputs, opts).wait()


def reduce(gloo: Any, outputs: Tensors, inputs: Tensors, opts: Any) -> None:  # noqa: ARG001
    """The sum, or another reduction, on the root; the others keep what they have."""
    summing = _summing(new_options("Reduce"), opts)
    summing.rootRank, summing.rootTensor = opts.rootRank, opts.rootTensor
    is_root = gloo.rank() == opts.rootRank
    gloo.reduce(outputs if is_root else [t.clone() for t in outputs], summing).wait()
    if is_root:
        _average(gloo, outputs, opts)


def all_gather(gloo: Any, outputs: list[Tensors], inputs: Tensors, opts: Any) -> None:
    """Every rank's tensors on every rank; outputs: for each input one of each rank."""
    for gathered, own in zip(outputs, inputs, strict=True):
        gloo.allgather([gathered], [own], opts).wait()


def all_gather_lists(gloo: Any, outputs: list[Tensors], inputs: Tensors, opts: Any) -> None:
    """As all_gather.  outputs: for each rank one of each input."""
    all_gather(gloo, [list(some) for some in zip(*outputs, strict=True)], inputs, opts)


def all_gather_base(gloo: Any, outputs: Tensors, inputs: Tensors, opts: Any) -> None:
    """As all_gather, into one tensor, rank after rank."""
    all_gather(gloo, [list(t.view(-1).chunk(gloo.size())) for t in outputs], [t.view(-1) for t in inputs], opts)


def reduce_scatter(gloo: Any, outputs: Tensors, inputs: list[Tensors], opts: Any) -> None:
    """The reduction of the parts that all ranks have for this one."""
    for own, parts in zip(outputs, inputs, strict=True):
        gloo.reduce_scatter([own], [parts], _summing(new_options("ReduceScatter"), opts)).wait()
    _average(gloo, outputs, opts)


def reduce_scatter_base(gloo: Any, outputs: Tensors, inputs: Tensors, opts: Any) -> None:
    """As reduce_scatter, from one tensor, rank after rank."""
    parts = [list(t.view(-1).chunk(gloo.size())) for t in inputs]
    reduce_scatter(gloo, [t.view(-1) for t in outputs], parts, opts)


def all_to_all(gloo: Any, outputs: Tensors, inputs: Tensors, opts: Any) -> None:
    """The k-th tensor of each rank to rank k."""
    work, finish = begin_all_to_all(gloo, outputs, inputs, opts)
    work.wait()
    finish()


def begin_all_to_all(gloo: Any, outputs: Tensors, inputs: Tensors, opts: Any) -> tuple[Any, Callable[[], None]]:
    """Begin all_to_all: gloo's work, and a function to call after it."""
    sent = torch.cat([t.reshape(-1) for t in inputs])
    into = [t.numel() for t in outputs]
    got = sent.new_empty(sum(into))

    def finish() -> None:
        for t, part in zip(outputs, torch.split(got, into), strict=True):
            t.copy_(part.view_as(t))

    return gloo.alltoall_base(got, sent, into, [t.numel() for t in inputs], opts), finish


def gather(gloo: Any, outputs: list[Tensors], inputs: Tensors, opts: Any) -> None:
    """Every rank's tensor on the root."""
    gloo.gather(outputs, inputs, opts).wait()


def scatter(gloo: Any, outputs: Tensors, inputs: list[Tensors], opts: Any) -> None:
    """The k-th tensor of the root to rank k."""
    gloo.scatter(outputs, inputs, opts).wait()


def barrier(gloo: Any, outputs: Tensors, inputs: Tensors, opts: Any) -> None:  # noqa: ARG001
    """Every rank is here."""
    gloo.barrier().wait()


def send(gloo: Any, outputs: Tensors, inputs: Tensors, end: Message) -> Any:  # noqa: ARG001
    """Begin the sending end of a message: gloo's work."""
    return gloo.send(inputs, end.peer, end.payload_tag)


def recv(gloo: Any, outputs: Tensors, inputs: Tensors, end: Message) -> Any:  # noqa: ARG001
    """Begin the receiving end of a message: gloo's work."""
    return gloo.recv(outputs, end.peer, end.payload_tag)


def _summing(plain: Any, opts: Any) -> Any:
    """New options with the caller's reduction, but a sum for an average."""
    plain.reduceOp = dist.ReduceOp.SUM if opts.reduceOp == dist.ReduceOp.AVG else opts.reduceOp
    return plain


def _average(gloo: Any, tensors: Tensors, opts: Any) -> None:
    if opts.reduceOp == dist.ReduceOp.AVG:
        for t in tensors:
            t.div_(gloo.size(), rounding_mode=None if t.is_floating_point() or t.is_complex() else "trunc")
