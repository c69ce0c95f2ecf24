"""The gloo groups behind one of ours: made, freed, made anew."""

from __future__ import annotations

import os
import re
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Any, TypeVar

from perfmagic.capture.devices import torch_private
from perfmagic.capture.devices.groups.sockets import Opened, shut
from perfmagic.errors import CommunicationError

T = TypeVar("T")
_THREADS = 1  # a stream, and a courier, has one operation at a time
_PLACE = re.compile(r"^\[[^\]]*\]\s*")  # "[/pytorch/third_party/gloo/…/pair.cc:547] "
_network: list[Any] = []  # gloo's listener and its thread, which all groups of the process share


@dataclass
class Side:
    """A gloo group.  costs_ns: what it takes ranks to tell each other what they are in, see agreement."""

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
        """Meet the other ranks under a name not used before. Raises CommunicationError where one is missing."""
        try:
            with Opened() as opened:
                self.host = Side(self._made(f"{name}/host", timeout))
                self.device = Side(self._made(f"{name}/device", timeout))
        except RuntimeError as error:
            raise CommunicationError(
                f"rank {self._rank} of {self._size} could not connect to the others: {plain(error)}",
                hint="every rank has to make its groups, all in the same order",
            ) from None
        self.set_timeout(self.timeout)
        self._connections = opened.sockets
        self.freed = self.refused = ""

    def set_timeout(self, timeout: timedelta) -> None:
        """How long an operation may take."""
        self.timeout = timeout
        for side in (self.host, self.device):
            side.group.set_timeout(timeout)

    def free(self, reason: str) -> int:
        """End what waits in either group; how many connections were shut. Both are of no use afterwards."""
        self.freed = reason
        return shut(self._connections, self._keep_ports)

    def run(self, what: str, call: Callable[[], T]) -> T:
        """Wait for an operation. Raises CommunicationError with the reason where it was freed, or with gloo's words."""
        __tracebackhide__ = True
        if self.is_ended():
            raise self.given_up(what)
        try:
            return call()
        except RuntimeError as error:
            failed = failure(what, error)
        if self.is_ended():
            failed = self.given_up(what)
        raise failed  # out here it has no context, whose frames would keep a gloo group that is done with

    def refuse(self, words: str) -> None:
        """Raise CommunicationError for words that say why ranks do not agree; so does every operation from then on.

        Nothing for no words.
        """
        if words:
            self.refused = self.refused or words
            raise self.given_up("")

    def is_ended(self) -> bool:
        """Is this of no use until the next connect(), maybe by a call from another thread?"""
        return bool(self.freed or self.refused)

    def given_up(self, what: str) -> CommunicationError:
        """The error of an operation that was ended, or that the ranks did not agree on."""
        if self.refused:
            return CommunicationError(self.refused, hint="all ranks of a group make the same calls in the same order")
        return CommunicationError(f"{what} was given up: {self.freed}")

    def _made(self, name: str, timeout: timedelta) -> Any:
        if not _network:
            names = [name for name in os.environ.get("GLOO_SOCKET_IFNAME", "").split(",") if name]
            _network.extend(torch_private.gloo_devices(names))
        return torch_private.make_gloo(self._store, name, self._rank, self._size, _network, _THREADS, timeout)


def failure(what: str, error: BaseException) -> CommunicationError:
    """gloo's words as an error of ours."""
    words = plain(error)
    hint = "another rank failed, ended or did not call it: look at what the others say"
    return CommunicationError(
        f"{what} failed: {words}", hint=hint if re.search("peer|imed out|onnect", words) else None
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
