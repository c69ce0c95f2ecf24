"""The gloo groups behind one of ours: connected, freed, reconnected."""

from __future__ import annotations

import os
import re
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Any, TypeVar

from perfmagic.base.errors import CommunicationError
from perfmagic.base.sockets import Opened, shut
from perfmagic.sim import torch_private

T = TypeVar("T")
_THREADS = 1  # a stream, and a courier, has one operation at a time
_PLACE = re.compile(r"^\[[^\]]*\]\s*")  # "[/pytorch/third_party/gloo/…/pair.cc:547] "
_END = "gloo: end of a group"
CLOCKS_DIFFER = "clocks do not match: "  # begins the reason where some ranks keep virtual time, and others real time
_network: list[Any] = []  # gloo's listener and its thread, which all groups of the process share


@dataclass
class Side:
    """A gloo group.  costs_ns: of an exchange of headers, see agreement."""

    group: Any
    costs_ns: dict[str, int] = field(default_factory=dict)


class Gloo:
    """Two gloo groups of the same ranks.

    gloo tells operations apart by counting them, so ranks must start them in one order. Those on host tensors and those
    on the device have queues of their own: in one gloo group they would be counted as it happens. Messages of one tag
    would overtake each other likewise.
    """

    host: Side
    device: Side

    def __init__(self, store: Any, rank: int, size: int, timeout: timedelta) -> None:
        self._store, self._rank, self._size, self.timeout = store, rank, size, timeout
        self._keep_ports = _ports_of(store)
        self._connections: frozenset[tuple[int, int]] = frozenset()
        self.freed = self.refused = ""
        self.connect("first", timeout)

    def connect(self, name: str, timeout: timedelta) -> None:
        """Connect to the other ranks under a new name. Raises CommunicationError where one is missing."""
        before = [vars(self)[name] for name in ("host", "device") if name in vars(self)]
        try:
            with Opened() as opened:
                self.host = Side(self._made(f"{name}/host", timeout))
                self.device = Side(self._made(f"{name}/device", timeout))
        except RuntimeError as error:
            message = f"rank {self._rank} of {self._size} could not connect to the others: {plain(error)}"
            raise CommunicationError(message, hint="every rank must create its groups, in the same order") from None
        self.set_timeout(self.timeout)
        if before:  # the end of a group may wait for lost operations: not on a thread of the user's
            threading.Thread(target=before.clear, name=_END, daemon=True).start()
        self._connections = opened.sockets
        self.freed = self.refused = ""

    def set_timeout(self, timeout: timedelta) -> None:
        """Set how long an operation may take."""
        self.timeout = timeout
        for side in (self.host, self.device):
            side.group.set_timeout(timeout)

    def free(self, reason: str) -> int:
        """Shut the connections of both groups, which ends what waits on them; returns how many.

        Nothing works until the next connect().
        """
        self.freed = reason
        return shut(self._connections, self._keep_ports)

    def run(self, what: str, call: Callable[[], T]) -> T:
        """Wait for an operation. Raises CommunicationError with gloo's message, or the reason why it was freed."""
        __tracebackhide__ = True
        if self.is_ended():
            raise self.given_up(what)
        return self.finish(what, call)

    def finish(self, what: str, call: Callable[[], T]) -> T:
        """As run(), for an operation that has begun: it has to end before its group can, even if that was freed."""
        __tracebackhide__ = True
        try:
            return call()
        except RuntimeError as error:
            failed = failure(what, error)
        if self.is_ended():
            failed = self.given_up(what)
        raise failed  # out here it has no context, whose frames would keep a gloo group that is done with

    def refuse(self, reason: str) -> None:
        """Raise CommunicationError where there is a reason why ranks do not agree; so do all later operations."""
        if reason:
            self.refused = self.refused or reason
            raise self.given_up("")

    def is_ended(self) -> bool:
        """Whether nothing works until the next connect(). Another thread may have freed the groups."""
        return bool(self.freed or self.refused)

    def given_up(self, what: str) -> CommunicationError:
        """The error of an operation that was freed, or on which the ranks did not agree."""
        if self.refused:
            hint = "all ranks of a group make the same calls in the same order"
            if self.refused.startswith(CLOCKS_DIFFER):
                hint = "%%ranks --clock virtual, or perfmagic.device(clock=…) on all ranks"
            return CommunicationError(self.refused, hint=hint)
        return CommunicationError(f"{what} was given up: {self.freed}")

    def _made(self, name: str, timeout: timedelta) -> Any:
        if not _network:
            names = [name for name in os.environ.get("GLOO_SOCKET_IFNAME", "").split(",") if name]
            _network.extend(torch_private.gloo_devices(names))
        return torch_private.make_gloo(self._store, name, self._rank, self._size, _network, _THREADS, timeout)


def wait_for_ends(within_s: float) -> None:
    """Wait for the threads that end gloo groups: one that comes back while Python shuts down aborts the process."""
    until = time.monotonic() + within_s
    for thread in threading.enumerate():
        if thread.name == _END:
            thread.join(max(0.0, until - time.monotonic()))


def failure(what: str, error: BaseException) -> CommunicationError:
    """gloo's message as a CommunicationError."""
    message = plain(error)
    hint = "another rank failed, ended or did not call it: look at what the others say"
    return CommunicationError(
        f"{what} failed: {message}", hint=hint if re.search("peer|imed out|onnect", message) else None
    )


def plain(error: BaseException) -> str:
    """What torch or gloo says, without the place in its source."""
    return _PLACE.sub("", str(error).split("\n", 1)[0]) or type(error).__name__


def _ports_of(store: Any) -> frozenset[int]:
    """The port of the store below all prefixes; none for a store in a file or in memory."""
    while (below := getattr(store, "underlying_store", None)) is not None:
        store = below
    port = getattr(store, "port", None)
    return frozenset() if port is None else frozenset((int(port),))
