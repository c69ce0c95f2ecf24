"""Pinned host memory, as far as a machine without a driver has it: memory that is marked so.

The mark decides what it decides on a GPU: which copies hold the host, and their bandwidth. `t.pin_memory()`,
`t.is_pinned()` and DataLoader(pin_memory=True) use it. torch.empty(..., pin_memory=True) asks for an allocator that a
device written in Python cannot give, and raises torch's own error.
"""

from __future__ import annotations

import weakref
from typing import Any

import torch

_marked: set[int] = set()


def is_pinned(t: torch.Tensor, device: Any = None) -> bool:  # noqa: ARG001 - torch passes it
    """Is the memory of this tensor, or of the one it is a view of, marked?"""
    return t.untyped_storage().data_ptr() in _marked


def note(t: torch.Tensor) -> torch.Tensor:
    """Mark the memory of a tensor for as long as it lives."""
    storage = t.untyped_storage()
    address = storage.data_ptr()
    if address and address not in _marked:
        _marked.add(address)
        weakref.finalize(storage, _marked.discard, address).atexit = False
    return t


def pinned_copy(t: torch.Tensor, device: Any = None) -> torch.Tensor:  # noqa: ARG001 - torch passes it
    """A copy of a tensor in marked memory: what t.pin_memory() gives."""
    return note(t.clone())
