"""What an operation was given: checked at the call, before anything is queued, and its real memory."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch
import torch.distributed as dist

from perfmagic.sim.groups.agreement import MOST_TAG, Header
from perfmagic.sim.groups.operations import GATHER, SCATTER, OperationKind
from perfmagic.sim.operators import flat
from perfmagic.sim.tensor import Ref, SimTensor

Tensors = Sequence[torch.Tensor]
_REDUCTIONS = ("SUM", "AVG", "PRODUCT", "MIN", "MAX", "BAND", "BOR", "BXOR", "PREMUL_SUM")
_OF_INPUTS = ("allgather", "_allgather_base", "gather", "reduce_scatter", "_reduce_scatter_base", "send")


@dataclass(frozen=True)
class Whole:
    """What an operation moves. elements: put in and got out.  size_bytes: of one rank's whole buffer."""

    elements: tuple[int, int]
    size_bytes: int
    dtype: torch.dtype | None


class Given:
    """Arguments of one operation.

    outputs, inputs: tensors, in lists of lists; those changed in place are outputs.  title: instead of the operation's.
    device: of the simulated devices the tensors' one, None for host tensors; given where there are no tensors.
    peer, way, tag: of messages (see posting.Call).  splits: of all_to_all, elements from and for each rank.
    Raises ValueError for tensors that do not go together.
    """

    def __init__(
        self,
        outputs: Any,
        inputs: Any,
        opts: Any,
        *,
        device: int | None = None,
        title: str = "",
        peer: int | None = None,
        way: str = "",
        tag: int = 0,
        splits: tuple[Sequence[int], Sequence[int]] = ((), ()),
    ) -> None:
        __tracebackhide__ = True
        if not 0 <= tag <= MOST_TAG:
            raise ValueError(f"a message's tag is 0 to {MOST_TAG}, not {tag}")
        self.outputs, self.inputs, self.opts = outputs, inputs, opts
        self.title, self.peer, self.way, self.tag, self.splits = title, peer, way, tag, splits
        self._tensors = tensors_in(outputs, inputs)
        self.device = _device_of(self._tensors) if self._tensors else device
        if self.device is not None:
            _check_alike(self._tensors)

    def whole(self, operation: OperationKind, ranks: int) -> Whole:
        """Elements and bytes, the same on all ranks, although only a root holds all of a gather or scatter."""
        n_in, n_out = (sum(t.numel() for t in tensors_in(some)) for some in (self.inputs, self.outputs))
        if operation == GATHER:
            n_out = n_in * ranks
        elif operation == SCATTER:
            n_in = n_out * ranks
        elif not n_in or not n_out:  # in place, and messages
            n_in = n_out = max(n_in, n_out)
        first = self._tensors[0] if self._tensors else None
        each = 0 if first is None else first.element_size()
        return Whole((n_in, n_out), max(n_in, n_out) * each, None if first is None else first.dtype)

    def header(self, operation: OperationKind, whole: Whole, ranks: int, number: int, where: str) -> Header:
        """What this rank sends the others of the call.  number, where: of the call."""
        sizes: list[int] = []
        if not any(self.splits):
            some = self.inputs if operation.kind in _OF_INPUTS else self.outputs
            sizes = [t.numel() for t in tensors_in(some)]
        kind = operation.family
        if operation.kind == "_reduce_scatter_base":
            sizes = [n // ranks for n in sizes for _ in range(ranks)]
            kind = "reduce_scatter" if self.device is not None else operation.kind  # gloo's own two do not meet
        gets, puts = self.splits
        return Header(
            operation.function, kind, str(whole.dtype or "").removeprefix("torch."), _reduction(self.opts), where,
            number, whole.size_bytes, int(getattr(self.opts, "rootRank", -1)), tuple(sizes), len(sizes),
            Header.checksum_of(sizes), tuple(puts), tuple(gets),
        )  # fmt: skip

    def check_whole(
        self, name: str, ranks: int, *, whole: Sequence[torch.Tensor], part: Sequence[torch.Tensor]
    ) -> None:
        """Raise ValueError where a tensor for all ranks has no room for the parts of all."""
        for tensor, own in zip(whole, part, strict=True):
            if tensor.numel() != own.numel() * ranks:
                raise ValueError(
                    f"{name}: a tensor of {tensor.numel()} elements does not hold one of {own.numel()} for each of "
                    f"{ranks} ranks"
                )

    def set_splits(self, splits: Sequence[Sequence[int]], ranks: int) -> None:
        """Set the parts of all_to_all_single, in rows; none for equal ones. Raises ValueError where they do not fit."""
        elements = []
        for name, sizes, (t,) in zip(("output", "input"), splits, (self.outputs, self.inputs), strict=True):
            n = t.shape[0] if t.dim() else 0
            if (len(sizes) != ranks or sum(sizes) != n) if sizes else n % ranks:
                raise ValueError(
                    f"all_to_all_single: the {name} has {n} rows, which {list(sizes) or ranks} does not split"
                )
            row = t.numel() // n if n else 0
            elements.append([rows * row for rows in sizes or [n // ranks] * ranks])
        self.splits = elements[0], elements[1]


def check_parts(name: str, parts: Sequence[torch.Tensor], ranks: int) -> None:
    """Raise ValueError where there is not one tensor for each rank."""
    if len(parts) != ranks:
        raise ValueError(f"{name}: {len(parts)} tensors for {ranks} ranks")


def _reduction(opts: Any) -> str:
    """The name of a reduction, "" where nothing is reduced."""
    op = getattr(opts, "reduceOp", None)
    return "" if op is None else next((name for name in _REDUCTIONS if op == getattr(dist.ReduceOp, name)), "")


def _device_of(tensors: Sequence[torch.Tensor]) -> int | None:
    places = {str(t.device) for t in tensors}
    if len(places) > 1:
        raise ValueError(f"tensors of one operation between ranks must be on one device, not on {sorted(places)}")
    first = tensors[0]
    if isinstance(first, SimTensor):
        return first._ref.buffer.device_index
    if first.device.type != "cpu":
        raise ValueError(f'this process group takes tensors on "sim" and "cpu", not on {first.device}')
    return None


def _check_alike(tensors: Sequence[torch.Tensor]) -> None:
    dtypes = {str(t.dtype) for t in tensors}
    if len(dtypes) > 1:
        raise ValueError(f"tensors of one operation between ranks must have one dtype, not {sorted(dtypes)}")
    if not all(t.is_contiguous() or t.is_contiguous(memory_format=_memory_format(t)) for t in tensors):
        raise ValueError("tensors must be contiguous: call .contiguous()")


def _memory_format(t: torch.Tensor) -> torch.memory_format:
    return {4: torch.channels_last, 5: torch.channels_last_3d}.get(t.dim(), torch.contiguous_format)


# The real memory of an operation's arguments, as gloo can use it; on the stream's thread.


def tensors_in(*values: Any) -> list[torch.Tensor]:
    """The tensors in lists of lists, in order."""
    return [t for t in flat(values) if isinstance(t, torch.Tensor)]


def refs_in(*values: Any) -> list[Ref]:
    """The Ref of each tensor of the device in lists of lists, in order."""
    return [t._ref for t in tensors_in(*values) if isinstance(t, SimTensor)]


def refs_of(values: Any) -> Any:
    """The same lists with the Ref of each tensor: its shape may change before the operation runs."""
    if isinstance(values, (list, tuple)):
        return [refs_of(value) for value in values]
    return values._ref if isinstance(values, SimTensor) else values


class Memory:
    """A with block that hands out contiguous tensors, and at its end puts back what was written into a copy."""

    def __enter__(self) -> Memory:  # noqa: PYI034 - Self needs Python 3.11
        self._copies: list[tuple[torch.Tensor, torch.Tensor]] = []
        return self

    def __exit__(self, kind: object, *_: object) -> None:
        if kind is None:
            for real, copy in self._copies:
                real.copy_(copy)

    def real(self, refs: Any) -> Any:
        """Tensors that gloo may read and write, in the same lists."""
        if isinstance(refs, (list, tuple)):
            return [self.real(ref) for ref in refs]
        real: torch.Tensor = refs.real() if isinstance(refs, Ref) else refs
        real = real.resolve_conj().resolve_neg()
        if real.is_contiguous():
            return real
        copy = real.contiguous()
        self._copies.append((real, copy))
        return copy
