"""What a tensor on the simulated device tells of its memory: its size, and no address."""

from __future__ import annotations

from typing import Any, NoReturn

import torch

from perfmagic.capture.devices.sim.refusals import refuse_address, refuse_compiling
from perfmagic.errors import DeviceError


class SimStorage:
    """What Tensor.untyped_storage() gives. It can be asked for its size and its device, and is refused all else."""

    def __init__(self, device: torch.device, size_bytes: int) -> None:
        self.device = device
        self._size_bytes = size_bytes

    def nbytes(self) -> int:
        return self._size_bytes

    size = __len__ = nbytes

    def resize_(self, _size_bytes: int) -> NoReturn:
        """What FSDP does between two uses of a parameter."""
        raise DeviceError(
            "untyped_storage().resize_: the simulated device cannot free a tensor's memory and allocate it again, as "
            "FSDP (fully_shard, FullyShardedDataParallel) does",
            hint="use DistributedDataParallel, ZeroRedundancyOptimizer or DTensor with parallelize_module",
        )

    def __getattr__(self, name: str) -> Any:
        if name == "_weak_ref":  # torch.compile asks, of tensors that it has made itself
            refuse_compiling()
        if name.startswith("_"):  # Python and notebooks look for these everywhere
            raise AttributeError(name)
        refuse_address(f"untyped_storage().{name}")

    def __repr__(self) -> str:
        return f"<storage of {self._size_bytes} bytes on {self.device} (simulated device)>"
