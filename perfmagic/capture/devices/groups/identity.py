"""What torch asks of a process group besides communication: its names, its rank, its end."""

from __future__ import annotations

import time
from datetime import timedelta
from typing import Any

import torch
import torch.distributed as dist

from perfmagic.capture.devices.groups.courier import Courier
from perfmagic.capture.devices.groups.gloo import Gloo
from perfmagic.capture.devices.groups.posting import Group
from perfmagic.capture.devices.groups.standing import Ledger, Standing

_ProcessGroup: Any = dist.ProcessGroup  # whose stubs have the overloads of each method, old forms among them


class Identity(_ProcessGroup):  # type: ignore[misc]
    """The names are torch's; its C++ code asks for some of them in its own spelling."""

    takes_simulated_tensors = True  # perfmagic.capture.devices.sim.foreign asks
    supports_splitting = supports_coalescing = supports_time_estimate = False

    def __init__(self, store: Any, rank: int, size: int, timeout: timedelta, backend: str) -> None:
        super().__init__(rank, size)
        self._rank, self._size, self._backend, self._desc = rank, size, backend, "undefined"
        self.gloo = Gloo(store, rank, size, timeout)
        self.ledger = Ledger()
        self.couriers: dict[tuple[str, int | None, int], Courier] = {}
        self._known: Group | None = None

    @property
    def known(self) -> Group:
        """Name and ranks, which torch gives a group after it is made."""
        if self._known is None:
            ranks = tuple(dist.get_process_group_ranks(self))
            self._known = Group(self.group_name, self._rank, ranks, self.gloo, self.ledger)
        return self._known

    def standing(self) -> list[Standing]:
        """What it was asked for and has not done."""
        known = self._known
        if known is None:
            return []
        return [
            Standing(known.name, known.ranks, *asked.what(known.ranks), asked.running, asked.since_ns)
            for asked in self.ledger.open()
        ]

    def renew(self, epoch: int, timeout: timedelta) -> None:
        """Connect anew and count from 1 again; whoever holds the group goes on with it."""
        self.ledger.forget()
        self.gloo.connect(f"renewed {epoch}", timeout)

    def drain(self) -> None:
        """Wait until all is done that was asked for; what fails is not raised here."""
        for asked in self.ledger.open():
            asked.settle()

    def drain_freed(self, within_s: float) -> None:
        """drain() of a group that was freed, which goes on without operations on host tensors that gloo has lost.

        A send that is under way while its connection is shut may wait in gloo for ever. Its thread is left to it.
        """
        until = time.monotonic() + within_s
        for asked in self.ledger.open():
            if asked.on_device:
                asked.settle()
            elif not asked.settle(max(0.0, until - time.monotonic())):
                self.couriers.clear()

    def rank(self) -> int:
        return self._rank

    def size(self) -> int:
        return self._size

    def name(self) -> str:
        return self._backend

    @property
    def group_name(self) -> str:
        return str(dist.distributed_c10d._world.pg_names[self])

    @property
    def group_desc(self) -> str:
        return self._desc

    def _set_group_desc(self, desc: str) -> None:
        self._desc = desc

    def _get_backend(self, device: torch.device) -> Identity:
        return self

    def set_timeout(self, timeout: timedelta) -> None:
        self.gloo.set_timeout(timeout)

    def shutdown(self) -> None:
        """The group will not be used any more: what it was given is done first."""
        self.drain()

    def abort(self) -> None:
        """End what is under way."""
        self.gloo.free("the group was aborted")

    getRank, getSize, getBackendName = rank, size, name  # noqa: N815
    pg_name = group_name

    def getGroupName(self) -> str:  # noqa: N802
        return self.group_name

    def getGroupDesc(self) -> str:  # noqa: N802
        return self.group_desc

    def setGroupDesc(self, desc: str) -> None:  # noqa: N802
        self._desc = desc
