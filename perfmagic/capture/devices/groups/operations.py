"""What gloo is asked for, operation by operation: run(gloo, outputs, inputs, opts) comes back when it is done.

Tensors are real and contiguous; those changed in place are outputs. gloo lacks averages and lists in all_to_all, and
may use the memory of ranks that get no result.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
import torch.distributed as dist

from perfmagic.capture.devices.groups.agreement import Message
from perfmagic.capture.devices.torch_private import new_options

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
    for some, mine in zip(outputs, inputs, strict=True):
        gloo.allgather([some], [mine], opts).wait()


def all_gather_lists(gloo: Any, outputs: list[Tensors], inputs: Tensors, opts: Any) -> None:
    """The same; outputs: for each rank one of each input."""
    all_gather(gloo, [list(some) for some in zip(*outputs, strict=True)], inputs, opts)


def all_gather_base(gloo: Any, outputs: Tensors, inputs: Tensors, opts: Any) -> None:
    """The same into one tensor, rank after rank."""
    all_gather(gloo, [list(t.view(-1).chunk(gloo.size())) for t in outputs], [t.view(-1) for t in inputs], opts)


def reduce_scatter(gloo: Any, outputs: Tensors, inputs: list[Tensors], opts: Any) -> None:
    """The reduction of what all ranks have for this one."""
    for mine, parts in zip(outputs, inputs, strict=True):
        gloo.reduce_scatter([mine], [parts], _summing(new_options("ReduceScatter"), opts)).wait()
    _average(gloo, outputs, opts)


def reduce_scatter_base(gloo: Any, outputs: Tensors, inputs: Tensors, opts: Any) -> None:
    """The same from one tensor, rank after rank."""
    parts = [list(t.view(-1).chunk(gloo.size())) for t in inputs]
    reduce_scatter(gloo, [t.view(-1) for t in outputs], parts, opts)


def all_to_all(gloo: Any, outputs: Tensors, inputs: Tensors, opts: Any) -> None:
    """The k-th tensor of each rank to rank k."""
    work, finish = begin_all_to_all(gloo, outputs, inputs, opts)
    work.wait()
    finish()


def begin_all_to_all(gloo: Any, outputs: Tensors, inputs: Tensors, opts: Any) -> tuple[Any, Callable[[], None]]:
    """The same, begun: gloo's work, and what is left to do after it."""
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
    """One end of a message, begun: gloo's work."""
    return gloo.send(inputs, end.peer, end.payload_tag)


def recv(gloo: Any, outputs: Tensors, inputs: Tensors, end: Message) -> Any:  # noqa: ARG001
    """The other end."""
    return gloo.recv(outputs, end.peer, end.payload_tag)


def _summing(plain: Any, opts: Any) -> Any:
    """The options with a sum where an average is asked for; those of the caller stay as they are."""
    plain.reduceOp = dist.ReduceOp.SUM if opts.reduceOp == dist.ReduceOp.AVG else opts.reduceOp
    return plain


def _average(gloo: Any, tensors: Tensors, opts: Any) -> None:
    if opts.reduceOp == dist.ReduceOp.AVG:
        for t in tensors:
            t.div_(gloo.size(), rounding_mode=None if t.is_floating_point() or t.is_complex() else "trunc")
