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

from perfmagic import sim
from perfmagic.base.clock import VIRTUAL
from perfmagic.base.errors import CaptureError
from perfmagic.base.sockets import keep
from perfmagic.base.user_lines import Place
from perfmagic.capture.devices.backends import active_backends
from perfmagic.capture.ranks.connection import Connection, Message
from perfmagic.capture.ranks.drivers import Started
from perfmagic.capture.ranks.failures import Failure, message_of
from perfmagic.capture.ranks.groups import ScriptGroups
from perfmagic.capture.ranks.peers import Peer, pump
from perfmagic.capture.ranks.pings import Clocks, Exchange
from perfmagic.capture.ranks.service import Service, is_call
from perfmagic.capture.ranks.settings import Launched
from perfmagic.capture.ranks.watch import Watch, Watched

_CELL = 1
_CONNECT_S = 300.0
_STEP_S = 0.05
_WHY_S = 5.0  # beyond the grace time, for the watch to say why a connection was lost
_AFTER_FAILURE_S = 5.0  # for the others to be freed, before one that has failed ends
_GREETING_S = 5.0  # for a rank that connects to send its number
_TOKEN_BYTES = 16
_KEY = "perfmagic/watch"


class Joined:
    """One rank, from the constructor to left(). Raises CaptureError where rank 0 cannot be reached.

    script: its path as code objects name it.  grace_s: how long a hang lasts before it is reported.
    """

    def __init__(self, place: Launched, script: str, grace_s: float) -> None:
        self.place, self._grace_s = place, grace_s
        self.kind = ""
        dist = importlib.import_module("torch.distributed")
        waiting = f"still waiting: rank {place.rank} waits for rank 0 at {place.address}:{place.port}"
        notice = threading.Timer(grace_s, _notify, [waiting])
        notice.daemon = True
        if place.rank:
            notice.start()
        try:
            # the script's own store is the same one: of this process where it holds it, else of torchrun's agent
            store = dist.TCPStore(
                place.address, place.port, place.world, place.rank == 0 and not place.agent, wait_for_workers=False,
                timeout=timedelta(seconds=_CONNECT_S), multi_tenant=True,
            )  # fmt: skip
            self._store = dist.PrefixStore("join", store)
            connection = self._connected(grace_s)
            self.clocks = Clocks(place.rank, self._address, self._store)
        except (RuntimeError, OSError) as error:
            message = f"rank {place.rank} cannot reach rank 0 at {place.address}:{place.port}: {error}"
            raise CaptureError(message, hint="MASTER_ADDR and MASTER_PORT are of the host of rank 0") from None
        finally:
            notice.cancel()
        self.groups = ScriptGroups(place.port)
        self._service = _Service(connection)
        self._service.job = cast("Any", self)  # what the service asks of a job, this has
        self._service.begin()
        self._service.enter(_CELL)
        self._service.cell_file = script

    @property
    def device_busy(self) -> bool:
        """Whether the device has work queued."""
        if any(device.in_flight for device in sim.devices_in_use()):
            return True
        cuda = importlib.import_module("torch").cuda
        return bool(active_backends() and cuda.is_initialized() and not cuda.current_stream().query())

    def together(self, pings: list[Exchange]) -> None:
        """Return at the same instant in all ranks, as well as pings compare their clocks."""
        at_ns = self._service.wait_for_go()
        if VIRTUAL:  # each rank's clock stands at the same instant
            return
        if at_ns and pings:
            _, _, asked_ns, answered_ns, back_ns, _ = pings[0]
            at_ns -= answered_ns - (asked_ns + back_ns) // 2
        while (left_ns := at_ns - time.perf_counter_ns()) > 0:
            time.sleep(left_ns / 1e9)

    def ended(self, error: BaseException | None) -> str:
        """Report the end of the script. Gives the message to show where another rank caused it, else ""."""
        service = self._service
        failure = None
        if error is not None:
            failure = self._failure(error)
            if failure.follows:
                service.lose(failure.line, _call_in(error))
            until = time.monotonic() + self._grace_s + _WHY_S
            while failure.follows and not service.freed and time.monotonic() < until:
                time.sleep(0.01)
            failure = self._failure(error)
        service.leave()
        reply: Message = {"done": True, "cell": _CELL}
        if failure is not None:
            reply["failure"] = {**vars(failure), "place": service.stood_at}
            del reply["failure"]["rank"]
        with suppress(OSError):
            service.connection.send(reply)
        if failure is None or not failure.follows:
            return ""
        return _of_script(message_of([failure]))

    def left(self, *, failed: bool) -> None:
        """The process may end: rank 0 holds the watch until all have ended, and a rank that failed its connections.

        A launcher ends the others as soon as one has failed; by then they have said what they were freed from. Others
        still lose their connections to rank 0, as they do to any rank that has ended.
        """
        if not failed:
            self.groups.leave()
        if self.place.rank == 0:
            self._watch.join(_AFTER_FAILURE_S if failed else None)
        elif failed:
            self._service.all_ended.wait(_AFTER_FAILURE_S)
        with suppress(OSError):  # rank 0 may have gone by now
            self._service.connection.sock.shutdown(socket.SHUT_RDWR)

    def _failure(self, error: BaseException) -> Failure:
        service = self._service
        rows = [row for row in traceback.extract_tb(error.__traceback__) if row.filename == service.cell_file]
        ended = bool(service.freed) and isinstance(error, RuntimeError)
        return Failure.from_message(
            self.place.rank,
            {
                "type": type(error).__name__,
                "text": str(error),
                "line": (rows[-1].lineno or 0) if rows else 0,
                "freed": service.freed if ended else "",
                "place": service.stood_at,
            },
        )

    def _connected(self, grace_s: float) -> Connection:
        if self.place.rank == 0:
            self._address = _own_address(self.place.address)
            listener = socket.create_server((self._address, 0))
            listener.setblocking(False)
            token = secrets.token_hex(_TOKEN_BYTES // 2)
            ours, theirs = socket.socketpair()
            args = (listener, token.encode(), theirs, self.place.world, grace_s)
            self._watch = threading.Thread(target=_watch_all, args=args, name="ranks: watch", daemon=True)
            self._watch.start()
            self._store.set(_KEY, f"{self._address} {listener.getsockname()[1]} {token}")
            return Connection(ours)
        self._address, port, token = self._store.get(_KEY).decode().split()
        to_first = socket.create_connection((self._address, int(port)), timeout=_CONNECT_S)
        to_first.settimeout(None)
        to_first.sendall(token.encode() + b"%8d" % self.place.rank)
        return Connection(to_first)


class _Service(Service):
    """Answers rank 0. Signals are the launcher's and the script's own.  all_ended: the scripts of all ranks have."""

    def __init__(self, connection: Connection) -> None:
        super().__init__(connection)
        self.all_ended = threading.Event()

    def begin(self) -> None:
        threading.Thread(target=self._serve, name="ranks: service", daemon=True).start()

    def _serve(self) -> None:
        with suppress(EOFError, OSError):
            while True:
                self._answer(*self.connection.receive())
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
    peers = [Peer(_Other(0, 0, Connection(own), silent))]
    watch = Watch(
        _CELL, [Watched(peers[0])], world, grace_s, missing=set(range(1, world)),
        say=lambda *_: None, show=lambda *_: None, notify=_notify,
    )  # fmt: skip
    until = time.monotonic() + _CONNECT_S
    while watch.running or (watch.missing and time.monotonic() < until):
        if watch.missing and (arrival := _accept_rank(listener, token)):
            rank, end = arrival
            peers.append(Peer(_Other(rank, 0, Connection(end), silent)))
            watch.ranks.append(Watched(peers[-1]))
            watch.missing.discard(rank)
        pump(peers, watch.say, _STEP_S)
        watch.step()
    listener.close()
    for peer in peers:
        if peer.alive:
            peer.send({"do": "leave"})


def _of_script(message: str) -> str:
    """A message of the watch, which speaks of cells."""
    return message.replace("finished the cell", "finished the script")


def _notify(message: str) -> None:
    print(f"perfmagic: {_of_script(message)}", file=sys.stderr, flush=True)


def _accept_rank(listener: socket.socket, token: bytes) -> tuple[int, socket.socket] | None:
    """The number and the socket of a rank that has connected, None where none has."""
    with suppress(OSError):
        sock, _ = listener.accept()
        keep(sock)
        sock.settimeout(_GREETING_S)
        greeting = sock.recv(_TOKEN_BYTES + 8, socket.MSG_WAITALL)
        sock.settimeout(None)
        if secrets.compare_digest(greeting[:_TOKEN_BYTES], token):
            return int(greeting[_TOKEN_BYTES:]), sock
    return None


def _call_in(error: BaseException) -> str:
    """The outermost function of torch.distributed that raised, "" where none did."""
    places = (Place(frame.f_code, line, frame.f_globals) for frame, line in traceback.walk_tb(error.__traceback__))
    return next((place.code.co_name for place in places if is_call(place)), "")


def _own_address(name: str) -> str:
    """The address of this host that the others know by a name."""
    address = socket.gethostbyname(name)
    with suppress(OSError), socket.create_server((address, 0)):
        return address
    return socket.gethostbyname(socket.gethostname())  # MASTER_ADDR is of torchrun's agent on another host
