"""A process as a rank of a job that others have started: watched by rank 0, freed where another rank fails.

The watch is that of a notebook's ranks. It runs in a thread of rank 0, and the script is the cell.
"""

from __future__ import annotations

import importlib
import os
import secrets
import socket
import sys
import threading
import time
import traceback
from contextlib import suppress
from datetime import timedelta
from typing import Any, cast

from perfmagic.capture.devices.backends import active_backends
from perfmagic.capture.ranks.drivers import Started
from perfmagic.capture.ranks.failures import Failure, message_of
from perfmagic.capture.ranks.found_groups import Found
from perfmagic.capture.ranks.launched import Launched
from perfmagic.capture.ranks.peers import Peer, pump
from perfmagic.capture.ranks.pings import Clocks, Exchange
from perfmagic.capture.ranks.service import Service
from perfmagic.capture.ranks.watch import Watch, Watched
from perfmagic.capture.ranks.wire import Message, Wire
from perfmagic.errors import CaptureError

_CELL = 1
_CONNECT_S = 300.0
_STEP_S = 0.05
_WHY_S = 2.0  # until the watch has said why a connection was lost
_AFTER_FAILURE_S = 5.0  # for the others to be freed, before one that has failed ends
_TOKEN_BYTES = 16
_KEY = "perfmagic/watch"


class Joined:
    """One rank, from the constructor to left(). Raises CaptureError where rank 0 cannot be reached.

    script: its path as code objects name it.  grace_s: how long a standstill lasts before it is said.
    """

    def __init__(self, place: Launched, script: str, grace_s: float) -> None:
        self.place = place
        self.kind = ""
        dist = importlib.import_module("torch.distributed")
        try:
            # the script's own store is the same one: of this process where it holds it, else of torchrun's agent
            store = dist.TCPStore(
                place.address, place.port, place.world, place.rank == 0 and not place.agent, wait_for_workers=False,
                timeout=timedelta(seconds=_CONNECT_S), multi_tenant=True,
            )  # fmt: skip
            self._store = dist.PrefixStore("join", store)
            wire = self._connected(grace_s)
            self.clocks = Clocks(place.rank, self._address, self._store)
        except (RuntimeError, OSError) as error:
            words = f"rank {place.rank} cannot reach rank 0 at {place.address}:{place.port}: {error}"
            raise CaptureError(words, hint="MASTER_ADDR and MASTER_PORT are of the host of rank 0") from None
        self.groups = Found(place.port)
        self._service = _Service(wire)
        self._service.job = cast("Any", self)  # what the service asks of a job, this has
        self._service.begin()
        self._service.enter(_CELL)
        self._service.cell_file = script

    @property
    def device_busy(self) -> bool:
        """Whether the device has work queued."""
        sim = sys.modules.get("perfmagic.capture.devices.sim.device")
        if sim is not None and sim.in_flight():
            return True
        cuda = importlib.import_module("torch").cuda
        return bool(active_backends() and cuda.is_initialized() and not cuda.current_stream().query())

    def together(self, pings: list[Exchange]) -> None:
        """Come back when all ranks do, as far as pings tell their clocks."""
        at_ns = self._service.wait_for_go()
        if at_ns and pings:
            _, _, asked_ns, answered_ns, back_ns, _ = pings[0]
            at_ns -= answered_ns - (asked_ns + back_ns) // 2
        while (left_ns := at_ns - time.perf_counter_ns()) > 0:
            time.sleep(left_ns / 1e9)

    def ended(self, error: BaseException | None) -> str:
        """The script has ended; what there is to say where that came of another rank, "" where it did not."""
        service = self._service
        failure = None
        if error is not None:
            failure = self._failure(error)
            until = time.monotonic() + _WHY_S
            while failure.follows and not service.freed and time.monotonic() < until:
                time.sleep(0.01)
            failure = self._failure(error)
        service.leave()
        reply: Message = {"done": True, "cell": _CELL}
        if failure is not None:
            reply["failure"] = {**vars(failure), "place": service.freed_at}
            del reply["failure"]["rank"]
        with suppress(OSError):
            service.wire.send(reply)
        if failure is None or not failure.follows:
            return ""
        return message_of([failure]).replace("finished the cell", "finished the script")

    def left(self, *, failed: bool) -> None:
        """The process may end: rank 0 holds the watch until all have ended, and a rank that failed its connections.

        A launcher ends the others as soon as one has failed; by then they have said what they were freed from.
        """
        if self.place.rank == 0:
            self._watch.join(_AFTER_FAILURE_S if failed else None)
        elif failed:
            self._service.all_ended.wait(_AFTER_FAILURE_S)
        with suppress(OSError):  # rank 0 may have gone by now
            self._service.wire.sock.shutdown(socket.SHUT_RDWR)

    def _failure(self, error: BaseException) -> Failure:
        service = self._service
        mine = [row for row in traceback.extract_tb(error.__traceback__) if row.filename == service.cell_file]
        ended = bool(service.freed) and isinstance(error, RuntimeError)
        return Failure.of(
            self.place.rank,
            {
                "type": type(error).__name__,
                "text": str(error),
                "line": (mine[-1].lineno or 0) if mine else 0,
                "freed": service.freed if ended else "",
                "place": service.freed_at,
            },
        )

    def _connected(self, grace_s: float) -> Wire:
        if self.place.rank == 0:
            self._address = _own_address(self.place.address)
            listener = socket.create_server((self._address, 0))
            listener.settimeout(_CONNECT_S)
            token = secrets.token_hex(_TOKEN_BYTES // 2)
            ours, theirs = socket.socketpair()
            args = (listener, token.encode(), theirs, self.place.world, grace_s)
            self._watch = threading.Thread(target=_watch_all, args=args, name="ranks: watch", daemon=True)
            self._watch.start()
            self._store.set(_KEY, f"{self._address} {listener.getsockname()[1]} {token}")
            return Wire(ours)
        self._address, port, token = self._store.get(_KEY).decode().split()
        to_first = socket.create_connection((self._address, int(port)), timeout=_CONNECT_S)
        to_first.settimeout(None)
        to_first.sendall(token.encode() + b"%8d" % self.place.rank)
        return Wire(to_first)


class _Service(Service):
    """Answers rank 0. Signals are the launcher's and the script's own.  all_ended: the scripts of all ranks have."""

    def __init__(self, wire: Wire) -> None:
        super().__init__(wire)
        self.all_ended = threading.Event()

    def begin(self) -> None:
        threading.Thread(target=self._serve, name="ranks: service", daemon=True).start()

    def _serve(self) -> None:
        with suppress(EOFError, OSError):
            while True:
                self._answer(*self.wire.receive())
        self.all_ended.set()
        self._free(self.cell or -1, "rank 0 ended, and the watch with it")

    def _answer(self, message: Message, payload: bytes) -> None:
        if message["do"] == "leave":
            self.all_ended.set()
        else:
            super()._answer(message, payload)


class _Other(Started):
    """A rank that its launcher ends."""

    def kill(self) -> None:
        pass


def _watch_all(listener: socket.socket, token: bytes, own: socket.socket, world: int, grace_s: float) -> None:
    """In rank 0: watch all ranks until every one has ended."""
    silent, _kept_open = os.pipe()  # what ranks print goes where their launcher puts it
    ends = {0: own}
    with suppress(OSError), listener:
        while len(ends) < world:
            one, _ = listener.accept()
            said = one.recv(_TOKEN_BYTES + 8, socket.MSG_WAITALL)
            if secrets.compare_digest(said[:_TOKEN_BYTES], token):
                ends[int(said[_TOKEN_BYTES:])] = one
    peers = [Peer(_Other(rank, 0, Wire(end), silent)) for rank, end in sorted(ends.items())]
    watch = Watch(
        _CELL, [Watched(peer) for peer in peers], world, grace_s,
        say=lambda *_: None, show=lambda *_: None, tell=lambda words: print(f"perfmagic: {words}", file=sys.stderr),
    )  # fmt: skip
    while watch.running:
        pump(peers, watch.say, _STEP_S)
        watch.step()
    for peer in peers:
        if peer.alive:
            peer.send({"do": "leave"})


def _own_address(name: str) -> str:
    """The address of this host that the others know by a name."""
    found = socket.gethostbyname(name)
    with suppress(OSError), socket.create_server((found, 0)):
        return found
    return socket.gethostbyname(socket.gethostname())  # MASTER_ADDR is of torchrun's agent on another host
