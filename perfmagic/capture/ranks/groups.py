"""Process groups of a rank: made, freed from another thread, remade after a failure."""

from __future__ import annotations

import datetime as dt
import importlib
import os
import socket
import sys
from collections.abc import Callable, Iterator
from contextlib import closing, suppress
from functools import wraps
from typing import Any, Protocol

from perfmagic.base.sockets import Opened, shut
from perfmagic.capture.devices import torch_private
from perfmagic.capture.ranks.hangs import RECEIVES, SENDS
from perfmagic.capture.ranks.helpers import show_key_waits
from perfmagic.sim import groups


def groups_for(device: str, backend: str, operation_s: float) -> Groups:
    """Those that fit a device, or of the backend that was asked for."""
    if device == "cuda" or backend not in ("", *groups.NAMES):
        return TorchGroups(backend or ("nccl" if device == "cuda" else "gloo"), operation_s)
    return OwnGroups(backend or ("sim" if device == "sim" else "perfmagic"), operation_s)


class Groups(Protocol):
    """What a rank does with its process groups."""

    def make(self, store: Any, rank: int, world: int) -> None:
        """torch.distributed's default group."""

    def free(self, why: str) -> None:
        """End every operation that is under way, from any thread; nothing works until renew()."""

    def renew(self, epoch: int, *, destroyed: bool) -> None:
        """Reconnect, as all ranks do with the same epoch; on the main thread.

        destroyed: in some rank destroy_process_group() has ended the default group, so that all ranks make another.
        """

    def standing(self) -> list[dict[str, Any]]:
        """The first operation of each queue, as fields of a Place with `since_ns` and `file`.

        The operation that the host waits for comes first, then the oldest. Empty if unknown.
        """

    def lost(self) -> list[dict[str, Any]]:
        """The operation that failed first, likewise."""


class OwnGroups:
    """The groups of the simulated device and the CPU. They are renewed in place, so models that hold one go on."""

    def __init__(self, backend: str, operation_s: float) -> None:
        self._backend, self._timeout = backend, dt.timedelta(seconds=operation_s)

    def make(self, store: Any, rank: int, world: int) -> None:
        groups.register()
        self._store, self._rank, self._world = store, rank, world
        init_group(self._backend, store, rank, world, self._timeout)

    def free(self, why: str) -> None:
        groups.free(why)

    def renew(self, epoch: int, *, destroyed: bool) -> None:
        if destroyed:
            destroy_groups()
            groups.forget()
            store = importlib.import_module("torch.distributed").PrefixStore(f"epoch{epoch}", self._store)
            init_group(self._backend, store, self._rank, self._world, self._timeout)
        else:
            groups.renew(epoch)

    def standing(self) -> list[dict[str, Any]]:
        return [_fields(op) for op in sorted(_under_way(groups.pending()), key=lambda op: not op.waited)]

    def lost(self) -> list[dict[str, Any]]:
        return [_fields(op) for op in groups.failed()[:1]]


class TorchGroups:
    """torch's own groups. A failure replaces them, so models that hold one must be made again.

    gloo cannot be stopped (its issue 388), so free() shuts down the connected sockets of a group. What waits on them
    ends within milliseconds. NCCL's group is aborted. A group's sockets are those that opened while it was made.
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

    def renew(self, epoch: int, *, destroyed: bool) -> None:
        destroy_groups()
        self._make(f"epoch{epoch}")

    def standing(self) -> list[dict[str, Any]]:
        return []

    def lost(self) -> list[dict[str, Any]]:
        return []

    def _make(self, name: str) -> None:
        dist = importlib.import_module("torch.distributed")

        store = dist.PrefixStore(name, self._store)
        before = set(_sockets().values())
        init_group(self._backend, store, self._rank, self._world, self._timeout)
        self._sockets = set(_sockets().values()) - before


def init_group(backend: str, store: Any, rank: int, world: int, timeout: dt.timedelta) -> None:
    """Make torch.distributed's default group."""
    importlib.import_module("torch.distributed").init_process_group(
        backend, store=store, rank=rank, world_size=world, timeout=timeout
    )


def destroy_groups() -> None:
    """Destroy all groups that the cells have left."""
    dist = importlib.import_module("torch.distributed")
    if dist.is_initialized():
        dist.destroy_process_group()


def _under_way(pending: list[groups.PendingOperation]) -> Iterator[groups.PendingOperation]:
    """Those that run, and where none of a queue does the first of it."""
    queues = set()
    for op in pending:
        queue = op.group, op.title if op.peer is not None else ""
        if op.running or queue not in queues:
            yield op
        queues.add(queue)


def _fields(op: groups.PendingOperation) -> dict[str, Any]:
    return {
        "call": op.kind if op.kind in SENDS + RECEIVES else op.title,
        "asked_line": op.line,
        "group": op.group,
        "group_desc": op.group_desc,
        "ranks": list(op.ranks),
        "number": op.number,
        "peer": op.peer,
        "size_bytes": op.size_bytes,
        "on_device": op.on_device,
        "waited": op.waited and op.running,
        "since_ns": op.since_ns,
        "file": op.file,
    }


def abort() -> None:
    """End what NCCL does in all groups, and the groups with it."""
    with suppress(RuntimeError):
        importlib.import_module("torch.distributed.distributed_c10d")._abort_process_group()


def _sockets() -> dict[int, str]:
    """The sockets of this process by descriptor, as /proc names them: "socket:[4711]", never used twice."""
    names = {}
    for fd in os.listdir("/proc/self/fd") if sys.platform == "linux" else ():  # noqa: PTH208 - numbers, not paths
        with suppress(OSError):
            target = os.readlink(f"/proc/self/fd/{fd}")  # noqa: PTH115 - as above
            if target.startswith("socket:"):
                names[int(fd)] = target
    return names


def _shut_down(wanted: set[str], store_port: int) -> None:
    """Shut connected sockets. One that listens is left, as gloo ends the process without it; and the store's."""
    for fd, name in _sockets().items():
        if name not in wanted:
            continue
        with suppress(OSError), closing(socket.socket(fileno=os.dup(fd))) as sock:
            listens = sock.getsockopt(socket.SOL_SOCKET, socket.SO_ACCEPTCONN)
            if sock.family not in (socket.AF_INET, socket.AF_INET6) or listens:
                continue
            if store_port not in (sock.getsockname()[1], sock.getpeername()[1]):
                sock.shutdown(socket.SHUT_RDWR)


# Process groups that a script makes by itself: what they wait in is known, and they can be shut.

_MAKERS = ("init_process_group", "new_group")
_WATCHED = "perfmagic"


class ScriptGroups(OwnGroups):
    """All groups of this process.  port: of the store, which is left alone unless a group is being made.

    Without a GPU, perfmagic's own groups replace those of gloo, pass everything on to gloo and report what they wait
    in. NCCL's groups are aborted, which has not been tried.
    """

    def __init__(self, port: int) -> None:
        super().__init__("", 0.0)
        self._keep = frozenset((port,))
        self._sockets: frozenset[tuple[int, int]] = frozenset()
        self._making: Opened | None = None
        self._dist = importlib.import_module("torch.distributed")
        show_key_waits()
        c10d = importlib.import_module("torch.distributed.distributed_c10d")
        for name in _MAKERS:
            wrapped = self._noting_sockets(getattr(c10d, name))
            for module in (self._dist, c10d):
                setattr(module, name, wrapped)
        if not importlib.import_module("torch").cuda.is_available() and groups.register():
            torch_private.choose_group_backends(lambda name: _WATCHED if name in ("gloo", "cpu:gloo") else name)

    def free(self, why: str) -> None:
        groups.free(why)
        making = self._making
        if making is None:
            shut(self._sockets, self._keep)
        else:  # it waits for other ranks at the store
            shut(self._sockets | making.so_far(), frozenset())
        if self._dist.is_initialized() and "nccl" in self._dist.get_backend():
            abort()

    def leave(self) -> None:
        """The script has ended: what is under way comes to its end, then others see that this rank is gone."""
        groups.leave()
        shut(self._sockets, self._keep)

    def _noting_sockets(self, make: Callable[..., Any]) -> Callable[..., Any]:
        @wraps(make)
        def making(*args: Any, **kwargs: Any) -> Any:
            opened = Opened()
            try:
                with opened:
                    self._making = opened
                    return make(*args, **kwargs)
            finally:
                self._making = None
                self._sockets |= opened.sockets

        return making
