"""Random numbers of the simulated device: its own, never the host's.

Each random op gets a seed when it is launched, drawn from the device's seed and a count of the ops before it. So two
streams draw the same numbers whichever runs first, and a run can be repeated.
"""

from __future__ import annotations

import itertools
import threading
from typing import Any

import torch

DEFAULT_SEED = 0x5EED
_MASK = (1 << 64) - 1
_GOLDEN = 0x9E3779B97F4A7C15  # Source: Steele, Lea, Flood 2014, SplitMix64


class _Source:
    """The device's seed and how many random ops it has had."""

    def __init__(self, seed: int) -> None:
        self.restart(seed)

    def restart(self, seed: int) -> None:
        self.seed = seed & _MASK
        self.turns = itertools.count(1)


_source = _Source(DEFAULT_SEED)


class _Worker(threading.local):
    generator: torch.Generator | None = None


_worker = _Worker()


def manual_seed(seed: int) -> None:
    """Start the device's random numbers anew. torch.manual_seed does so too."""
    _source.restart(int(seed))


def initial_seed() -> int:
    """The seed set last."""
    return _source.seed


def next_seed(generator: Any = None) -> int:
    """The seed of the op launched now, drawn from a generator the user passed if there is one."""
    if generator is not None:
        return int(torch.empty((), dtype=torch.int64).random_(generator=generator))
    return _mix(_source.seed + next(_source.turns) * _GOLDEN)


def generator_for(seed: int) -> torch.Generator:
    """A generator with that seed; one a thread, used for one op at a time."""
    if _worker.generator is None:
        _worker.generator = torch.Generator()
    return _worker.generator.manual_seed(seed)


def _mix(z: int) -> int:
    """The finaliser of SplitMix64: neighbouring counts give unrelated seeds."""
    z &= _MASK
    z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9 & _MASK
    z = (z ^ (z >> 27)) * 0x94D049BB133111EB & _MASK
    return (z ^ (z >> 31)) >> 1  # 63 bits: torch takes a signed seed
