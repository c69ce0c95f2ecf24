"""The memory of a simulated device, counted as CUDA's caching allocator counts it.

A tensor's memory is allocated when its op is queued. It returns to its stream with the last reference to it, whether or
not the op has run: later ops of that stream may reuse it, as streams run in order. So `allocated` follows Python, not
the device. `reserved` counts the segments taken from the device, which are kept for reuse. The real bytes are host
memory from the CPU's own allocator.

Tensors are made and freed on any thread, and the collector may free one between any two steps. So each event is only
noted, by one append to a deque, and settle() counts the events in order.

Source of the rule and its sizes: c10/cuda/CUDACachingAllocator.cpp of torch 2.13.
"""

from __future__ import annotations

import _thread
import itertools
import os
import threading
import weakref
from bisect import bisect_left, insort
from collections import deque
from collections.abc import Callable
from operator import attrgetter
from queue import SimpleQueue
from typing import Any, NoReturn

from perfmagic.base.clock import now_ns
from perfmagic.sim.blocks import Block as Noted
from perfmagic.sim.blocks import BlockLog, Held
from perfmagic.sim.log import LOG

# A simulated device with limited memory: what does not fit raises torch.OutOfMemoryError.

_MIB, _GIB = 2**20, 2**30


class Capacity:
    """How much memory a device has.  total_bytes: 0 for as much as the host gives.

    failed, retried: requests that did not fit, and those that fitted once unused segments were given back.
    """

    def __init__(self, memory: Memory, total_bytes: int) -> None:
        self.total_bytes = total_bytes
        self.failed = self.retried = 0
        self._memory = memory
        self._available_bytes = -1  # to new segments, before the next look; at first it is not known
        self._largest: dict[tuple[int, bool], int] = {}  # by stream and size: a free piece that is there for certain

    def admit(self, size_bytes: int, stream: int) -> None:
        """Admit a request, or raise torch.OutOfMemoryError before anything is allocated or queued for it."""
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
        """Renew the bounds from the settled memory."""
        self._available_bytes = self.total_bytes - self._memory.reserved
        self._largest = self._memory.largest_free()

    def _is_sure(self, size_bytes: int, stream: int) -> bool:
        """Whether a request fits whatever has happened since the last look; charges it if so."""
        size, key = self._memory.place_of(size_bytes, stream)
        free = self._largest.get(key, 0)
        if size <= free:
            self._largest[key] = free - size
            return True
        segment = self._memory.segment_bytes(size)
        if segment > self._available_bytes:
            return False
        self._available_bytes -= segment
        self._largest[key] = max(free, segment - size)
        return True

    def _fits(self, size_bytes: int, stream: int) -> bool:
        size, key = self._memory.place_of(size_bytes, stream)
        if size <= self._memory.largest_free().get(key, 0):
            return True
        return self._memory.reserved + self._memory.segment_bytes(size) <= self.total_bytes

    def _refuse(self, size_bytes: int) -> NoReturn:
        """The message of CUDA's allocator (c10/cuda/CUDACachingAllocator.cpp of torch 2.13), and the largest piece."""
        __tracebackhide__ = True
        import torch

        memory = self._memory
        largest = max(memory.largest_free().values(), default=0)
        raise torch.OutOfMemoryError(
            f"simulated device out of memory. Tried to allocate {_words(size_bytes)}. GPU {memory.index} has a total "
            f"capacity of {_words(self.total_bytes)} of which {_words(max(0, self.total_bytes - memory.reserved))} is "
            f"free. Of the allocated memory {_words(memory.allocated)} is allocated by PyTorch, and "
            f"{_words(memory.reserved - memory.allocated)} is reserved by PyTorch but unallocated; its largest free "
            f"piece has {_words(largest)}.{memory.advise(self.total_bytes)}"
        )


def host_bytes() -> tuple[int, int]:
    """The host's memory: (free, all of it), for a device without a limit; zeros where the system does not say."""
    try:
        page = os.sysconf("SC_PAGE_SIZE")
        return page * os.sysconf("SC_AVPHYS_PAGES"), page * os.sysconf("SC_PHYS_PAGES")
    except (AttributeError, OSError, ValueError):  # Windows has no sysconf
        return 0, 0


def summary(memory: Memory) -> str:
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


GRAIN = 512  # sizes are rounded up to a multiple of it
SMALL = 2**20  # up to this a block comes from a small segment
SMALL_SEGMENT = 2 * 2**20
LARGE_SEGMENT = 20 * 2**20
OWN_SEGMENT_FROM = 10 * 2**20  # at least so large: a segment of its own
OWN_SEGMENT_GRAIN = 2 * 2**20
MOST_NOTES = 4096  # beyond it they are worked off at once
_EMPTY_CACHE, _RESET_PEAK = "empty cache", "reset peak"  # notes, as what comes before them counts first


class Block:
    """A piece of a segment; its neighbours are of the same segment.  key: its place in its pool while it is free."""

    __slots__ = ("after", "before", "free", "key", "pool", "size")

    def __init__(self, size: int, pool: Pool, before: Block | None = None, after: Block | None = None) -> None:
        self.size, self.pool, self.before, self.after = size, pool, before, after
        self.free, self.key = False, (0, 0)

    @property
    def is_whole(self) -> bool:
        """Whether it is all of its segment."""
        return self.before is None and self.after is None


class Pool:
    """The free blocks of one stream, small or large, by size; of one size, that first which was free first."""

    __slots__ = ("_blocks", "small")

    def __init__(self, small: bool) -> None:
        self.small = small
        self._blocks: list[Block] = []

    def add(self, block: Block) -> None:
        """A block is free from now on."""
        block.free, block.key = True, (block.size, next(_numbers))
        insort(self._blocks, block, key=_key)

    def best(self, size: int) -> Block | None:
        """The smallest free block that is large enough, taken out."""
        at = bisect_left(self._blocks, (size, 0), key=_key)
        return self._blocks.pop(at) if at < len(self._blocks) else None

    def remove(self, block: Block) -> None:
        """Take a free block out."""
        del self._blocks[bisect_left(self._blocks, block.key, key=_key)]

    def largest(self) -> int:
        """The size of its largest block, 0 without one."""
        return self._blocks[-1].size if self._blocks else 0

    def whole(self) -> list[Block]:
        """The blocks that are all of their segments."""
        return [block for block in self._blocks if block.is_whole]


_key = attrgetter("key")
_numbers = itertools.count(1)


class Memory:
    """The counters of one device, in bytes; they are true after settle().

    advise: what the error says in the end where a device has no room for a request.
    """

    def __init__(self, index: int, advise: Callable[[int], str] = lambda _: "") -> None:
        self.index, self.advise = index, advise
        self.allocated = self.reserved = self.peak_allocated = self.peak_reserved = 0
        self._pools: dict[tuple[int, bool], Pool] = {}
        self._blocks: dict[int, tuple[weakref.ref[Held], Block, Noted | None]] = {}
        # allocations as (at_ns, reference, size, stream, row of the ledger or None); an end is the dead reference
        # alone: no code of ours runs where a tensor ends, as an interrupt that strikes there is swallowed by Python
        self._notes: deque[Any] = deque()
        self.capacity: Capacity | None = None
        self._settling = threading.Lock()
        self._last_ns = 0

    def allocate(self, size_bytes: int, stream: int) -> Held | None:
        """Memory for a tensor whose op goes to a stream, until the returned object goes; None for no bytes.

        Raises torch.OutOfMemoryError where the device has a limit, and it does not fit.
        """
        __tracebackhide__ = True
        if not size_bytes:
            return None
        if self.capacity is not None:
            self.capacity.admit(size_bytes, stream)
        held = Held(next(_numbers))
        ended = weakref.ref(held, self._notes.append)  # the first: later ones are called before it
        noted = LOG.noted(held, self.index) if LOG.recording else None
        self._notes.append((now_ns(), ended, size_bytes, stream, noted))
        if len(self._notes) > MOST_NOTES:
            self.settle()
        return held

    def settle(self) -> Memory:
        """Count all that was noted. A release has no time of its own: it counts from the allocation before it.

        Not on the main thread: an interrupt that struck there between two steps would leave the counters wrong. Nor by
        way of threading.Thread, whose start and join hold locks that an interrupt leaves locked.
        """
        if not self._notes and not self._settling.locked():  # in this order: who took the last one holds the lock
            return self
        if threading.get_ident() != threading.main_thread().ident:
            self._work_off()
            return self
        done: SimpleQueue[None] = SimpleQueue()
        try:
            _thread.start_new_thread(self._work_off, (done.put,))
        except RuntimeError:  # the process is ending, or there are no threads, as in a browser
            self._work_off()
        else:
            done.get()
        return self

    def _work_off(self, tell: Callable[[None], None] | None = None) -> None:
        try:
            with self._settling:
                while self._notes:
                    self._work_off_one(self._notes.popleft())
        finally:
            if tell is not None:
                tell(None)

    def _work_off_one(self, note: Any) -> None:
        kind = type(note)
        if kind is tuple:
            self._last_ns, reference, size_bytes, stream, noted = note
            block = self._place(size_bytes, stream)
            self._blocks[id(reference)] = reference, block, noted
            if noted is not None:
                noted.begin(block.size)
            self._count(self._last_ns, block.size)
        elif kind is weakref.ref:
            if id(note) not in self._blocks:  # it was freed before its end
                return
            _, block, noted = self._blocks.pop(id(note))
            if noted is not None:
                noted.end()
            self._count(self._last_ns, -block.size)
            self._give_back(block)
        elif kind is BlockLog:
            self._note_before(note)
        elif note is _EMPTY_CACHE:
            self._empty_cache()
        else:
            self.peak_allocated, self.peak_reserved = self.allocated, self.reserved

    def record(self, ledger: BlockLog) -> None:
        """Note every block in a ledger, those that are held now too."""
        self._notes.append(ledger)
        self.settle()

    def _note_before(self, ledger: BlockLog) -> None:
        for key, (reference, block, _) in self._blocks.items():
            held = reference()
            noted = None if held is None else ledger.block_of_before(held, self.index, block.size)
            self._blocks[key] = reference, block, noted
        held = None

    def tell(self) -> None:
        """Put what is held now into the log."""
        if self.peak_allocated:
            LOG.add_memory(now_ns(), self.index, self.allocated, self.reserved)

    def _place(self, size_bytes: int, stream: int) -> Block:
        size, key = self.place_of(size_bytes, stream)
        small = key[1]
        pool = self._pools.get(key)
        if pool is None:
            pool = self._pools[key] = Pool(small)
        block = pool.best(size) or self._segment(size, pool)
        rest = block.size - size
        if rest >= GRAIN if small else rest > SMALL:
            other = Block(rest, pool, block, block.after)
            if block.after is not None:
                block.after.before = other
            block.after, block.size = other, size
            pool.add(other)
        block.free = False
        return block

    @staticmethod
    def place_of(size_bytes: int, stream: int) -> tuple[int, tuple[int, bool]]:
        """The rounded size of a request, and its pool: of its stream, small or large."""
        size = -(-size_bytes // GRAIN) * GRAIN
        return size, (stream, size <= SMALL)

    @staticmethod
    def segment_bytes(size: int) -> int:
        """The size of the new segment for a rounded request that no free block can hold."""
        if size <= SMALL:
            return SMALL_SEGMENT
        return LARGE_SEGMENT if size < OWN_SEGMENT_FROM else -(-size // OWN_SEGMENT_GRAIN) * OWN_SEGMENT_GRAIN

    def largest_free(self) -> dict[tuple[int, bool], int]:
        """The largest free piece of each pool, in bytes."""
        return {key: size for key, pool in list(self._pools.items()) if (size := pool.largest())}

    def whole_free(self) -> int:
        """Bytes of segments that nothing uses, which empty_cache() would give back."""
        return sum(block.size for pool in self._pools.values() for block in pool.whole())

    def limit(self, total_bytes: int) -> None:
        """Limit the memory from now on; 0: as much as the host gives. Unused segments beyond it are given back."""
        if 0 < total_bytes < self.settle().reserved:
            self.empty_cache()
        self.capacity = Capacity(self, total_bytes) if total_bytes else None

    def _give_back(self, block: Block) -> None:
        """Return a block to its stream's pool, joined with its free neighbours."""
        for other in (block.before, block.after):
            if other is None or not other.free:
                continue
            block.pool.remove(other)
            block.size += other.size
            if other is block.before:
                block.before = other.before
                if block.before is not None:
                    block.before.after = block
            else:
                block.after = other.after
                if block.after is not None:
                    block.after.before = block
        block.pool.add(block)

    def empty_cache(self) -> None:
        """Give unused segments back to the device."""
        self._notes.append(_EMPTY_CACHE)
        self.settle()
        if self.capacity is not None:
            self.capacity.look()

    def reset_peak(self) -> None:
        """Count the peaks from what is held now."""
        self._notes.append(_RESET_PEAK)
        self.settle()

    def _empty_cache(self) -> None:
        for pool in self._pools.values():
            for block in pool.whole():
                self.reserved -= block.size
                pool.remove(block)

    def _segment(self, size: int, pool: Pool) -> Block:
        segment = self.segment_bytes(size)
        self.reserved += segment
        self.peak_reserved = max(self.peak_reserved, self.reserved)
        return Block(segment, pool)

    def _count(self, at_ns: int, size: int) -> None:
        self.allocated += size
        self.peak_allocated = max(self.peak_allocated, self.allocated)
        if LOG.recording:
            LOG.add_memory(at_ns, self.index, self.allocated, self.reserved)

    def stats(self) -> dict[str, int]:
        """The keys of torch.cuda.memory_stats that are known here."""
        return {
            "allocated_bytes.all.current": self.allocated,
            "allocated_bytes.all.peak": self.peak_allocated,
            "reserved_bytes.all.current": self.reserved,
            "reserved_bytes.all.peak": self.peak_reserved,
            "num_ooms": self.capacity.failed if self.capacity else 0,
            "num_alloc_retries": self.capacity.retried if self.capacity else 0,
        }

    def info(self) -> tuple[int, int]:
        """Free and total, as cudaMemGetInfo gives them; the host's where the device has no limit."""
        if self.capacity is None:
            return host_bytes()
        return max(0, self.capacity.total_bytes - self.reserved), self.capacity.total_bytes


def functions(memory_of: Any) -> dict[str, Any]:
    """torch.sim's part of what torch.cuda says about memory.  memory_of: a device, or None, to its settled Memory."""
    return {
        "memory_allocated": lambda device=None: memory_of(device).allocated,
        "max_memory_allocated": lambda device=None: memory_of(device).peak_allocated,
        "memory_reserved": lambda device=None: memory_of(device).reserved,
        "max_memory_reserved": lambda device=None: memory_of(device).peak_reserved,
        "reset_peak_memory_stats": lambda device=None: memory_of(device).reset_peak(),
        "empty_cache": lambda: memory_of(None).empty_cache(),
        "mem_get_info": lambda device=None: memory_of(device).info(),
        "memory_summary": lambda device=None, abbreviated=False: summary(memory_of(device)),  # noqa: ARG005 - as torch's
        "memory_stats": lambda device=None: memory_of(device).stats(),
    }
