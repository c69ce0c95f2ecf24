"""All groups of the process: registered with torch, freed, renewed, left."""

from __future__ import annotations

import atexit
import sys
import time
import weakref
from collections.abc import Sequence
from datetime import timedelta
from functools import partial
from typing import Any

import torch.distributed as dist

from perfmagic.capture.devices.groups import functional
from perfmagic.capture.devices.groups.group import SimGroup
from perfmagic.capture.devices.groups.standing import Standing

_LEAVE_S = 5.0  # what others are in the middle of with a process that ends may take so long
_LOST_S = 2.0  # what gloo ends at all after its connections were shut it ends within some ms
_groups: list[weakref.ref[SimGroup]] = []  # in the order they were made, which is that of every rank


def register(names: Sequence[str]) -> None:
    """Tell torch of the backend, once; the first name is the default for the simulated device."""
    if names[0].upper() in dist.Backend._plugins:
        return
    for name in names:
        dist.Backend.register_backend(name, partial(_made, name), devices=["sim", "cpu"])
    functional.take_over()
    atexit.register(_leave)


def standing() -> list[Standing]:
    """What is queued or under way in all groups, the oldest first."""
    return sorted((one for group in _alive() for one in group.standing()), key=lambda one: one.since_ns)


def free(reason: str) -> int:
    """End all of it; how many connections were shut."""
    return sum(group.gloo.free(reason) for group in _alive())


def freed() -> str:
    """Why that was done; empty where it was not."""
    return next((group.gloo.freed for group in _alive() if group.gloo.freed), "")


def renew(epoch: int, timeout_s: float) -> None:
    """Connect every group anew. What was queued ends first, and what failed on the device is forgotten."""
    groups = _alive()
    for group in groups:
        if not group.gloo.freed:
            group.gloo.free("the groups are connected anew")
        group.drain_freed(_LOST_S)
    device = sys.modules.get("perfmagic.capture.devices.sim.device")
    for one in device.all_devices() if device is not None else ():
        for lane in list(one.lanes.values()):
            lane.drain()
        one.errors.clear()
    for group in groups:
        group.renew(epoch, timedelta(seconds=timeout_s))


def _made(name: str, store: Any, rank: int, size: int, timeout: timedelta) -> SimGroup:
    group = SimGroup(store, rank, size, timeout, name)
    _groups.append(weakref.ref(group))
    return group


def _alive() -> list[SimGroup]:
    found = [group for ref in list(_groups) if (group := ref()) is not None]
    _groups[:] = [weakref.ref(group) for group in found]
    return found


def _leave() -> None:
    """The end of the process: let what runs come to its end, then shut the connections, so that no thread is left."""
    until = time.monotonic() + _LEAVE_S
    groups = _alive()
    while any(one.running for group in groups for one in group.standing()) and time.monotonic() < until:
        time.sleep(0.01)
    for group in groups:
        if group.standing():
            group.gloo.free("the process ended")
        for courier in list(group.couriers.values()):
            courier.end(_LEAVE_S)
