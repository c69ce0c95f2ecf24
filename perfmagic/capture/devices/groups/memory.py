"""The real memory of an operation's arguments, as gloo can use it; on the stream's thread."""

from __future__ import annotations

from typing import Any

import torch

from perfmagic.capture.devices.sim.infer import flat
from perfmagic.capture.devices.sim.tensor import Ref, SimTensor


def tensors_in(*values: Any) -> list[torch.Tensor]:
    """The tensors in lists of lists, in order."""
    return [t for t in flat(values) if isinstance(t, torch.Tensor)]


def refs_of(values: Any) -> Any:
    """The same lists with what each tensor is now: its shape may change before the operation runs."""
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

    def of(self, refs: Any) -> Any:
        """Tensors that gloo may read and write, in the same lists."""
        if isinstance(refs, (list, tuple)):
            return [self.of(ref) for ref in refs]
        real: torch.Tensor = refs.real() if isinstance(refs, Ref) else refs
        real = real.resolve_conj().resolve_neg()
        if real.is_contiguous():
            return real
        copy = real.contiguous()
        self._copies.append((real, copy))
        return copy
