"""Process groups of a rank: made, freed from another thread, made anew after a failure."""

from __future__ import annotations

import datetime as dt
import importlib
import os
import socket
import sys
from contextlib import closing, suppress
from typing import Any, Protocol

from perfmagic.capture.devices import groups
from perfmagic.capture.ranks.place import RECEIVES, SENDS


def groups_for(device: str, backend: str, operation_s: float) -> Groups:
    """Those that fit a device, or of the backend that was asked for."""
    if device == "cuda" or backend not in ("", *groups.NAMES):
        return Native(backend or ("nccl" if device == "cuda" else "gloo"), operation_s)
    return Ours(backend or ("sim" if device == "sim" else "perfmagic"), operation_s)


class Groups(Protocol):
    """What a rank does with its process groups."""

    def make(self, store: Any, rank: int, world: int) -> None:
        """torch.distributed's default group."""

    def free(self, why: str) -> None:
        """End every operation that is under way, from any thread; nothing works until renew()."""

    def renew(self, epoch: int) -> None:
        """Connect anew, as all ranks do with the same epoch; on the main thread."""

    def standing(self) -> dict[str, Any]:
        """The oldest operation that is not done, as fields of a Place with `since_ns` and `file`; empty if unknown."""


class Ours:
    """The groups of the simulated device and the CPU: renewed inside, so that models which hold one go on."""

    def __init__(self, backend: str, operation_s: float) -> None:
        self._backend, self._timeout = backend, dt.timedelta(seconds=operation_s)

    def make(self, store: Any, rank: int, world: int) -> None:
        groups.register()
        importlib.import_module("torch.distributed").init_process_group(
            self._backend, store=store, rank=rank, world_size=world, timeout=self._timeout
        )

    def free(self, why: str) -> None:
        groups.free(why)

    def renew(self, epoch: int) -> None:
        groups.renew(epoch)

    def standing(self) -> dict[str, Any]:
        found = groups.standing()
        if not found:
            return {}
        one = found[0]
        return {
            "call": one.kind if one.kind in SENDS + RECEIVES else one.title,
            "asked_line": one.line,
            "group": one.group,
            "ranks": list(one.ranks),
            "number": one.number,
            "peer": one.peer,
            "size_bytes": one.size_bytes,
            "on_device": one.on_device,
            "since_ns": one.since_ns,
            "file": one.file,
        }


class Native:
    """torch's own groups. Models that hold one must be made again after a failure: it is replaced.

    gloo cannot be told to stop (its issue 388), so the connected sockets of a group are shut down under it, and what
    waits on them ends within milliseconds. NCCL's is aborted. A group's sockets are told by what was open before it.
    """

    def __init__(self, backend: str, operation_s: float) -> None:
        self._backend, self._timeout = backend, dt.timedelta(seconds=operation_s)
        self._sockets: set[str] = set()
        self._store: Any = None
        self._rank = self._world = 0

    def make(self, store: Any, rank: int, world: int) -> None:
        self._store, self._rank, self._world = store, rank, world
        self._make("first")

    def free(self, why: str) -> None:
        if self._backend == "nccl":
            abort()
        else:
            _shut_down(self._sockets, self._store.port)

    def renew(self, epoch: int) -> None:
        dist = importlib.import_module("torch.distributed")

        if dist.is_initialized():
            dist.destroy_process_group()
        self._make(f"epoch{epoch}")

    def standing(self) -> dict[str, Any]:
        return {}

    def _make(self, name: str) -> None:
        dist = importlib.import_module("torch.distributed")

        store = dist.PrefixStore(name, self._store)
        before = set(_sockets().values())
        dist.init_process_group(
            self._backend, store=store, rank=self._rank, world_size=self._world, timeout=self._timeout
        )
        self._sockets = set(_sockets().values()) - before


def abort() -> None:
    """End what NCCL does in all groups, and the groups with it."""
    with suppress(RuntimeError):
        importlib.import_module("torch.distributed.distributed_c10d")._abort_process_group()


def _sockets() -> dict[int, str]:
    """The sockets of this process by descriptor, as /proc names them: "socket:[4711]", never used twice."""
    found = {}
    for fd in os.listdir("/proc/self/fd") if sys.platform == "linux" else ():  # noqa: PTH208 - numbers, not paths
        with suppress(OSError):
            target = os.readlink(f"/proc/self/fd/{fd}")  # noqa: PTH115 - as above
            if target.startswith("socket:"):
                found[int(fd)] = target
    return found


def _shut_down(wanted: set[str], store_port: int) -> None:
    """Shut connected sockets. One that listens is left, as gloo ends the process without it; and the store's."""
    for fd, name in _sockets().items():
        if name not in wanted:
            continue
        with suppress(OSError), closing(socket.socket(fileno=os.dup(fd))) as one:
            listens = one.getsockopt(socket.SOL_SOCKET, socket.SO_ACCEPTCONN)
            if one.family not in (socket.AF_INET, socket.AF_INET6) or listens:
                continue
            if store_port not in (one.getsockname()[1], one.getpeername()[1]):
                one.shutdown(socket.SHUT_RDWR)
