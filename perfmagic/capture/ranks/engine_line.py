"""What goes between the notebook and a rank beside an engine: over a socket here, in calls and publications there."""

from __future__ import annotations

import os
import socket
import threading
from collections.abc import Callable
from contextlib import suppress
from queue import Empty, SimpleQueue
from typing import Any

from perfmagic.capture.ranks.engine import END, OUTPUT

_BEAT_S = 10.0  # an engine ends its rank when it hears nothing for a minute
_LOOK_S = 1.0
_BYTES = 1 << 20


class EngineLine:
    """What goes between the notebook's end of a socket and an engine.  ours: that end.  output: what C++ prints."""

    def __init__(self, send: Callable[..., None]) -> None:
        self._send = send
        self.ours, self._theirs = socket.socketpair()
        self.output, self._output = os.pipe()
        self._came: SimpleQueue[tuple[int, str, bytes]] = SimpleQueue()
        self._code: int | None = None
        self._ended = threading.Event()

    def begin(self, key: str, there: Callable[[], bool], ended: Callable[[], None]) -> None:
        """Pass on both ways, until either end closes.  there: whether the engine still belongs to the cluster."""
        whats: list[tuple[Callable[..., None], tuple[Any, ...]]] = [
            (self._out, (key,)), (self._beat, (key,)), (self._in, (there, ended)),
        ]  # fmt: skip
        for what, args in whats:
            threading.Thread(target=what, args=args, name=f"ranks: {what.__name__}", daemon=True).start()

    def came(self, data: dict[str, Any]) -> None:
        """Called by the client's thread for each message of the engine; data: the last one's."""
        if "channel" in data:
            self._came.put((data.pop("n"), data.pop("channel"), bytes(data.pop("data"))))

    def exit_code(self) -> int | None:
        return self._code

    def _out(self, key: str) -> None:
        with suppress(OSError):
            while some := self._theirs.recv(_BYTES):
                self._send("send", key, some)
        if not self._ended.is_set():
            self._send("kill", key)  # the notebook has closed its end: the rank has had its time
        self._ended.set()

    def _beat(self, key: str) -> None:
        while not self._ended.wait(_BEAT_S):
            self._send("send", key, b"")

    def _in(self, there: Callable[[], bool], ended: Callable[[], None]) -> None:
        expected = 0
        while True:
            try:
                number, channel, data = self._came.get(timeout=_LOOK_S)
            except Empty:
                if not there() or self._ended.is_set():
                    break
                continue
            if number != expected:  # the stream has a hole: nothing that follows can be read
                break
            expected += 1
            if channel == END:
                self._code = int(data) if data else None
                break
            with suppress(OSError):
                if channel == OUTPUT:
                    os.write(self._output, data)
                else:
                    self._theirs.sendall(data)
        self._ended.set()
        ended()
        os.close(self._output)
        with suppress(OSError):
            self._theirs.shutdown(socket.SHUT_RDWR)
        self._theirs.close()
