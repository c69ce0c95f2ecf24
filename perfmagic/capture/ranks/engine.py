"""On an engine of an ipyparallel cluster: starts a rank beside it, and passes bytes between that and the notebook.

The rank is a process of its own, as on the notebook's machine: a rank that dies or is stopped leaves the engine alive,
and while a cell runs the engine stays free to pass on what frees it. Everything goes through the cluster's own
connections, which are signed with its key. The notebook calls these functions by name, see Call.
"""

from __future__ import annotations

import importlib
import importlib.util
import os
import select
import socket
import sys
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

from perfmagic.capture.ranks.drivers import Spawned, Started
from perfmagic.capture.ranks.settings import boot

MESSAGES, OUTPUT, END = "messages", "output", "end"
_BYTES = 1 << 20
_CODE_S = 1.0  # until the exit code of a rank whose socket has closed is known
_LOOK_S = 5.0
_SILENCE_S = 60.0  # a notebook that is heard no more has ended without a word
_BUSY_S = 2.0  # an engine that answers no call for this long is running a cell of its own
Publish = Callable[[str, bytes], None]


@dataclass(frozen=True)
class Call:
    """A function of this module by its name: the engine needs perfmagic, and no code is sent."""

    name: str

    @property
    def __name__(self) -> str:
        return self.name

    def __call__(self, *args: Any) -> Any:
        return getattr(importlib.import_module(__name__), self.name)(*args)


def look() -> dict[str, Any]:
    """What this engine's host is, and what it can see."""
    return {
        "version": sys.modules["perfmagic"].__version__,
        "host": socket.gethostname(),
        "boot": boot(),
        "address": _address(),
        "visible": os.environ.get("CUDA_VISIBLE_DEVICES", ""),
        "posix": os.name == "posix",
        "torch": importlib.util.find_spec("torch") is not None,
    }


def start(key: str, rank: int, world: int, program: str, others: dict[str, str], session: str) -> int:
    """Start a rank beside this engine, in its folder and with its variables; its process number.

    key: under which the client of that session hears what is published.
    """
    started = Spawned(others).start(rank, world, program)
    _relays[key] = Relay(started, _publisher({"session": session, "msg_id": key}), _loop())
    return started.pid


def send(key: str, data: bytes) -> None:
    """Bytes of the notebook for a rank; none: the notebook is still there."""
    relay = _relays.get(key)
    if relay is not None:
        relay.heard_s = time.monotonic()
        with suppress(OSError):
            relay.started.connection.sock.sendall(data)


def kill(key: str) -> None:
    """End a rank at once."""
    relay = _relays.get(key)
    if relay is not None:
        relay.started.kill()


class Relay:
    """One rank of this engine, until it ends or its notebook is gone.  loop: of the engine, where calls arrive."""

    def __init__(self, started: Started, publish: Publish, loop: Any) -> None:
        self.started, self._publish, self._loop = started, publish, loop
        self.heard_s = time.monotonic()
        threading.Thread(target=self._pass_on, name=f"ranks: relay of rank {started.rank}", daemon=True).start()

    def _pass_on(self) -> None:
        started = self.started
        rank_fd, poll = started.connection.fileno(), select.poll()
        for fd in (rank_fd, started.output):
            poll.register(fd, select.POLLIN)
        while True:
            for fd, _ in poll.poll(_LOOK_S * 1000):
                data = _read(fd)
                if data:
                    self._publish(MESSAGES if fd == rank_fd else OUTPUT, data)
                elif fd == rank_fd:
                    self._end()
                    return
                else:
                    poll.unregister(fd)
            if time.monotonic() - self.heard_s > _SILENCE_S:
                if self._free():
                    started.kill()
                else:
                    self.heard_s = time.monotonic()

    def _free(self) -> bool:
        """Whether the engine takes calls now: one that runs a long cell of its own hears no notebook."""
        came = threading.Event()
        self._loop.add_callback(came.set)
        return came.wait(_BUSY_S)

    def _end(self) -> None:
        until = time.monotonic() + _CODE_S
        while (code := self.started.exit_code()) is None and time.monotonic() < until:
            time.sleep(0.005)
        last = b"" if not select.select([self.started.output], [], [], 0)[0] else _read(self.started.output)
        if last:
            self._publish(OUTPUT, last)
        self._publish(END, b"" if code is None else b"%d" % code)
        self.started.connection.close()
        os.close(self.started.output)
        for key in [key for key, relay in _relays.items() if relay is self]:
            del _relays[key]


_relays: dict[str, Relay] = {}


def _read(fd: int) -> bytes:
    try:
        return os.read(fd, _BYTES)
    except OSError:  # reset: the other end died with messages unread
        return b""


def _shell() -> Any:
    return sys.modules["IPython"].get_ipython()


def _loop() -> Any:
    return _shell().kernel.io_loop


def _publisher(parent: dict[str, str]) -> Publish:
    """Sends to a notebook, from any thread, numbered and in order.  parent: the message that it is an answer to."""
    serialize = importlib.import_module("ipyparallel.serialize").serialize_object
    data_pub = _shell().data_pub
    session = data_pub.session
    numbers = iter(range(sys.maxsize))

    def publish(channel: str, data: bytes) -> None:
        packed = serialize({"n": next(numbers), "channel": channel, "data": data})
        session.send(
            data_pub.pub_socket, "data_message", content={"keys": []}, parent=parent, buffers=packed,
            ident=data_pub.topic,
        )  # fmt: skip

    return publish


def _address() -> str:
    """The address of this host on the way to others, "" where it has none; no packet is sent for that."""
    with suppress(OSError):
        address = socket.gethostbyname(socket.gethostname())
        if not address.startswith("127."):
            return address
    with suppress(OSError), socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sock:
        sock.connect(("192.0.2.1", 9))  # an address of no host (RFC 5737): the route to it is the default one
        return str(sock.getsockname()[0])
    return ""
