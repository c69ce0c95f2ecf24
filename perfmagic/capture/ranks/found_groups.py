"""Process groups that a script makes by itself: their connections are noted, so that they can be shut."""

from __future__ import annotations

import importlib
from collections.abc import Callable
from functools import wraps
from typing import Any

from perfmagic.capture.devices import groups
from perfmagic.capture.devices.groups.sockets import Opened, shut
from perfmagic.capture.ranks.groups import Ours, abort

_MAKERS = ("init_process_group", "new_group")


class Found(Ours):
    """All groups of this process.  port: of the store, which is left alone.

    NCCL's are aborted, which has not been tried; those of the simulated device and the CPU are freed by themselves.
    """

    def __init__(self, port: int) -> None:
        super().__init__("", 0.0)
        self._keep = frozenset((port,))
        self._sockets: frozenset[tuple[int, int]] = frozenset()
        self._dist = importlib.import_module("torch.distributed")
        c10d = importlib.import_module("torch.distributed.distributed_c10d")
        for name in _MAKERS:
            noted = self._noting(getattr(c10d, name))
            for module in (self._dist, c10d):
                setattr(module, name, noted)

    def free(self, why: str) -> None:
        groups.free(why)
        shut(self._sockets, self._keep)
        if self._dist.is_initialized() and "nccl" in self._dist.get_backend():
            abort()

    def _noting(self, make: Callable[..., Any]) -> Callable[..., Any]:
        @wraps(make)
        def noting(*args: Any, **kwargs: Any) -> Any:
            opened = Opened()
            try:
                with opened:
                    return make(*args, **kwargs)
            finally:
                self._sockets |= opened.sockets

        return noting
