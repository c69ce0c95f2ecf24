"""Messages over a stream socket: two lengths, JSON, bytes."""

from __future__ import annotations

import base64
import json
import os
import socket
import struct
import threading
from typing import Any

_LENGTHS = struct.Struct("!QQ")
_CHUNK_BYTES = 1 << 20
Message = dict[str, Any]


class Connection:
    """One end of a socket. send() from any thread; receive() and arrived() from one thread, and not both."""

    def __init__(self, sock: socket.socket) -> None:
        self.sock = sock
        self._sending = threading.RLock()  # a signal handler may send while its own thread is sending
        self._buffer = bytearray()
        self._pid = os.getpid()

    def fileno(self) -> int:
        return self.sock.fileno()

    @property
    def is_own(self) -> bool:
        """Whether this process made it: a forked child would tear the messages of its parent."""
        return os.getpid() == self._pid

    def send(self, message: Message, payload: bytes = b"") -> None:
        """Send one message. Raises OSError where the other end is gone."""
        text = _ENCODER.encode(message).encode()
        with self._sending:
            self.sock.sendall(_LENGTHS.pack(len(text), len(payload)) + text + payload)

    def receive(self) -> tuple[Message, bytes]:
        """The next message; blocks. Raises EOFError where the other end is gone."""
        while (message := self._next()) is None:
            self._read()
        return message

    def arrived(self) -> list[tuple[Message, bytes]]:
        """What has come in full; reads once, so the socket has to be ready. Raises EOFError at the end."""
        self._read()
        messages = []
        while (message := self._next()) is not None:
            messages.append(message)
        return messages

    def close(self) -> None:
        self.sock.close()

    def _read(self) -> None:
        try:
            some = self.sock.recv(_CHUNK_BYTES)
        except OSError as error:  # reset: the other end died with messages unread
            raise EOFError from error
        if not some:
            raise EOFError
        self._buffer += some

    def _next(self) -> tuple[Message, bytes] | None:
        if len(self._buffer) < _LENGTHS.size:
            return None
        n_text, n_payload = _LENGTHS.unpack_from(self._buffer)
        ends = _LENGTHS.size + n_text
        if len(self._buffer) < ends + n_payload:
            return None
        message = json.loads(bytes(self._buffer[_LENGTHS.size : ends]))
        payload = bytes(self._buffer[ends : ends + n_payload])
        del self._buffer[: ends + n_payload]
        return message, payload


def _plain(value: object) -> object:
    """What JSON does not know: pictures as Jupyter sends them, all else as its text."""
    return base64.b64encode(value).decode() if isinstance(value, bytes) else str(value)


_ENCODER = json.JSONEncoder(default=_plain)  # json.dumps() makes one for each message
