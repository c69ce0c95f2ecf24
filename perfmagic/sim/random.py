"""Random numbers of the simulated devices: their own, never the host's.

Each random op gets a seed when it is launched, drawn from its device's seed and a count of the ops before it. So two
streams draw the same numbers whichever runs first, and a run can be repeated.
"""

from __future__ import annotations

import itertools
import secrets
import threading
from collections.abc import Iterable
from typing import Any

import torch

from perfmagic.sim.device import device_count, device_of

DEFAULT_SEED = 0x5EED
_MASK = (1 << 64) - 1
_GOLDEN = 0x9E3779B97F4A7C15  # Source: Steele, Lea, Flood 2014, SplitMix64


class _Source:
    """The device's seed and how many random ops it has had."""

    def __init__(self, seed: int) -> None:
        self.restart(seed)

    def restart(self, seed: int) -> None:
        self.seed = seed & _MASK
        self.go_to(0)

    def go_to(self, turn: int) -> None:
        """Continue after that many random ops."""
        self.turn, self._turns = turn, itertools.count(turn + 1)

    def next(self) -> int:
        """The number of the next random op; no two threads get the same."""
        turn = self.turn = next(self._turns)
        return turn


_sources: dict[int, _Source] = {}


def _source_of(device: Any) -> _Source:
    index = device_of(device)
    source = _sources.get(index)
    return _sources.setdefault(index, _Source(_shared["seed"])) if source is None else source


_shared = {"seed": DEFAULT_SEED}  # of devices that have had no random op yet


class _Worker(threading.local):
    generator: torch.Generator | None = None


_worker = _Worker()


def manual_seed(seed: int) -> None:
    """Restart the random numbers of the current device."""
    _source_of(None).restart(int(seed))


def manual_seed_all(seed: int) -> None:
    """Restart the random numbers of all devices. torch.manual_seed does so too."""
    _shared["seed"] = int(seed)
    _sources.clear()


def seed() -> int:
    """Restart the random numbers of the current device from a random seed, which is returned."""
    chosen = secrets.randbits(63)
    manual_seed(chosen)
    return chosen


def seed_all() -> None:
    """As seed, for all devices at once, with the same seed."""
    manual_seed_all(secrets.randbits(63))


def initial_seed() -> int:
    """The seed of the current device set last."""
    return _source_of(None).seed


def get_rng_state(device: Any = None) -> torch.Tensor:
    """What set_rng_state takes to draw the same numbers again: on the host, uint8."""
    source = _source_of(device)
    return torch.tensor([source.seed - (1 << 63), source.turn], dtype=torch.int64).view(torch.uint8)


def set_rng_state(state: torch.Tensor, device: Any = None) -> None:
    """Go back to a state that get_rng_state gave."""
    seed, turn = state.cpu().contiguous().view(torch.int64).tolist()
    source = _source_of(device)
    source.restart(seed + (1 << 63))
    source.go_to(turn)


def get_rng_state_all() -> list[torch.Tensor]:
    """The states of all devices."""
    return [get_rng_state(index) for index in range(device_count())]


def set_rng_state_all(states: Iterable[torch.Tensor]) -> None:
    """Go back to the states of all devices."""
    for index, state in enumerate(states):
        set_rng_state(state, index)


def next_seed(index: int, generator: Any = None) -> int:
    """The seed of the op launched now, drawn from a generator the user passed if there is one."""
    if generator is not None:
        return int(torch.empty((), dtype=torch.int64).random_(generator=generator))
    source = _source_of(index)
    return _mix(source.seed + source.next() * _GOLDEN)


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
