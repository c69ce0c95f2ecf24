"""A simulated device that has so much memory and no more: what does not fit raises torch.OutOfMemoryError.

Whether a request fits is known only once everything that was noted has been worked off, which costs more than a
launch. So a bound is kept instead: what the requests since the last look could have taken at most. Each is charged with
a whole new segment, unless it fits into the largest free piece that is certainly there. Only where that bound reaches
the end is the truth looked at. Two threads that allocate at once may both be let in by the last piece; the next look
finds it.
"""

from __future__ import annotations

import os
from typing import NoReturn, Protocol

_MIB, _GIB = 2**20, 2**30


class Counted(Protocol):
    """The counters of a device: see Memory."""

    index: int
    allocated: int
    reserved: int
    peak_allocated: int
    peak_reserved: int
    capacity: Capacity | None

    def settle(self) -> Counted: ...
    def empty_cache(self) -> None: ...
    def largest_free(self) -> dict[tuple[int, bool], int]: ...
    def whole_free(self) -> int: ...
    @staticmethod
    def place_of(size_bytes: int, stream: int) -> tuple[int, tuple[int, bool]]: ...
    @staticmethod
    def segment_bytes(size: int) -> int: ...


class Capacity:
    """How much memory a device has.  total_bytes: 0 for as much as the host gives.

    failed, retried: requests that did not fit, and those that fitted once unused segments were given back.
    """

    def __init__(self, memory: Counted, total_bytes: int) -> None:
        self.total_bytes = total_bytes
        self.failed = self.retried = 0
        self._memory = memory
        self._room = -1  # bytes that new segments may take before the next look; at first it is not known
        self._largest: dict[tuple[int, bool], int] = {}  # by stream and size: a free piece that is there for certain

    def admit(self, size_bytes: int, stream: int) -> None:
        """Let a request through, or raise torch.OutOfMemoryError: before anything has been taken or queued for it."""
        __tracebackhide__ = True
        if self._is_sure(size_bytes, stream):
            return
        memory = self._memory.settle()
        if not self._fits(size_bytes, stream):
            memory.empty_cache()
            if not self._fits(size_bytes, stream):
                self.look()
                self.failed += 1
                self._refuse(size_bytes)
            self.retried += 1
        self.look()
        self._is_sure(size_bytes, stream)

    def look(self) -> None:
        """Take the bound from what is true now; the memory is settled."""
        self._room = self.total_bytes - self._memory.reserved
        self._largest = self._memory.largest_free()

    def _is_sure(self, size_bytes: int, stream: int) -> bool:
        """Whether a request fits whatever has happened since the last look; charges it if so."""
        size, key = self._memory.place_of(size_bytes, stream)
        free = self._largest.get(key, 0)
        if size <= free:
            self._largest[key] = free - size
            return True
        segment = self._memory.segment_bytes(size)
        if segment > self._room:
            return False
        self._room -= segment
        self._largest[key] = max(free, segment - size)
        return True

    def _fits(self, size_bytes: int, stream: int) -> bool:
        size, key = self._memory.place_of(size_bytes, stream)
        if size <= self._memory.largest_free().get(key, 0):
            return True
        return self._memory.reserved + self._memory.segment_bytes(size) <= self.total_bytes

    def _refuse(self, size_bytes: int) -> NoReturn:
        """In the words of CUDA's allocator (c10/cuda/CUDACachingAllocator.cpp of torch 2.13), and the largest piece."""
        __tracebackhide__ = True
        import torch

        memory = self._memory
        largest = max(memory.largest_free().values(), default=0)
        raise torch.OutOfMemoryError(
            f"simulated device out of memory. Tried to allocate {_words(size_bytes)}. GPU {memory.index} has a total "
            f"capacity of {_words(self.total_bytes)} of which {_words(max(0, self.total_bytes - memory.reserved))} is "
            f"free. Of the allocated memory {_words(memory.allocated)} is allocated by PyTorch, and "
            f"{_words(memory.reserved - memory.allocated)} is reserved by PyTorch but unallocated; its largest free "
            f"piece has {_words(largest)}."
        )


def host_bytes() -> tuple[int, int]:
    """The host's memory: (free, all of it), for a device without a limit; zeros where the system does not say."""
    try:
        page = os.sysconf("SC_PAGE_SIZE")
        return page * os.sysconf("SC_AVPHYS_PAGES"), page * os.sysconf("SC_PHYS_PAGES")
    except (AttributeError, OSError, ValueError):  # Windows has no sysconf
        return 0, 0


def summary(memory: Counted) -> str:
    """What torch.sim.memory_summary() says: rows of torch.cuda's that are known here, and the largest free piece."""
    free = memory.reserved - memory.allocated
    rows = (
        ("Allocated memory", _words(memory.allocated), _words(memory.peak_allocated)),
        ("GPU reserved memory", _words(memory.reserved), _words(memory.peak_reserved)),
        ("Non-releasable memory", _words(free - memory.whole_free()), ""),
        ("Reserved, unallocated", _words(free), ""),
        ("Largest free piece", _words(max(memory.largest_free().values(), default=0)), ""),
    )
    capacity = memory.capacity
    limit = _words(capacity.total_bytes) if capacity else "no limit"
    failed, retried = (capacity.failed, capacity.retried) if capacity else (0, 0)
    return "\n".join(
        [
            f"simulated device, ID {memory.index}: memory summary",
            f"capacity: {limit}   out of memory: {failed}   retries after emptying the cache: {retried}",
            f"{'Metric':<24}{'Cur Usage':>14}{'Peak Usage':>14}",
            *(f"{name:<24}{now:>14}{peak:>14}".rstrip() for name, now, peak in rows),
        ]
    )


def _words(count_bytes: int) -> str:
    """As CUDA's allocator writes sizes."""
    if count_bytes >= _GIB:
        return f"{count_bytes / _GIB:.2f} GiB"
    if count_bytes >= _MIB:
        return f"{count_bytes / _MIB:.2f} MiB"
    return f"{count_bytes / 1024:.2f} KiB" if count_bytes >= 1024 else f"{count_bytes} bytes"
