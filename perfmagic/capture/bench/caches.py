"""Cold caches: what the body's last call left in them is overwritten before the next call.

Twice the size of a cache is written: a replacement policy close to "least recently used" then keeps nothing else
(nvbench and Triton's do_bench write one buffer of fixed size; docs/measuring.md, "Cache, clocks, noise").
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import numpy as np

UNKNOWN_CACHE_BYTES = 64 * 2**20  # larger than the last-level cache of any desktop; servers report theirs
_SYSFS = Path("/sys/devices/system/cpu/cpu0/cache")
_UNITS = {"K": 2**10, "M": 2**20, "G": 2**30}


def host_cache_bytes() -> int:
    """Size of the largest cache of this machine's first core, UNKNOWN_CACHE_BYTES where it is not reported."""
    sizes = [_bytes(file) for file in _SYSFS.glob("index*/size")]
    largest = max(sizes, default=0)
    if largest:
        return largest
    try:
        found = os.sysconf("SC_LEVEL3_CACHE_SIZE")  # glibc; elsewhere ValueError or -1
    except (AttributeError, ValueError, OSError):
        found = 0
    return found if found > 0 else UNKNOWN_CACHE_BYTES


def _bytes(file: Path) -> int:
    """The size in a file of sysfs, such as "32768K"; 0 where it cannot be read."""
    try:
        text = file.read_text("ascii").strip()
        return int(text[:-1]) * _UNITS[text[-1]]
    except (OSError, ValueError, KeyError, IndexError):
        return 0


def cuda_cache_bytes(torch: Any, index: int) -> int:
    """Size of the L2 cache of a CUDA device, UNKNOWN_CACHE_BYTES where torch does not report it."""
    return int(getattr(torch.cuda.get_device_properties(index), "L2_cache_size", 0) or UNKNOWN_CACHE_BYTES)


class HostCaches:
    """The processor's caches, which also serve the simulated device."""

    name = "the processor's caches"

    def __init__(self) -> None:
        self._buffer = np.empty(2 * host_cache_bytes() // 8, np.int64)
        self._buffer.fill(0)  # the system gives the memory now, and not while somebody watches what the body takes
        self._round = 0

    @property
    def size_bytes(self) -> int:
        return self._buffer.nbytes

    def overwrite(self) -> None:
        """Fill the caches with something else."""
        self._round += 1
        self._buffer.fill(self._round)


class CudaCache:
    """The L2 cache of the current CUDA device; written by a kernel on the current stream, in order with the rest."""

    name = "the GPU's L2 cache"

    def __init__(self, torch: Any, index: int) -> None:
        self._buffer = torch.empty(2 * cuda_cache_bytes(torch, index), dtype=torch.uint8, device=f"cuda:{index}")

    @property
    def size_bytes(self) -> int:
        return int(self._buffer.numel())

    def overwrite(self) -> None:
        """Queue the overwriting."""
        self._buffer.zero_()
