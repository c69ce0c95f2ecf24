"""Clocks of hosts compared: a rank asks rank 0 what time it is, some times before a recording and some after it."""

from __future__ import annotations

import secrets
import socket
import struct
import threading
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager, suppress
from typing import Any

EXCHANGES = 30  # of one round
_KEPT = 3  # of them, the quickest: what bounds the clocks best
_ANSWER_S = 5.0
_TIME = struct.Struct("!Q")
_KEY = "perfmagic/clock"
_TOKEN_BYTES = 16
# (first, second, asked_ns, answered_ns, back_ns, round): see perfmagic.analysis.ranks.alignment.Ping
Exchange = tuple[int, int, int, int, int, int]


class Clocks:
    """One rank's part.  address: where rank 0 listens.  store: of the job, where the others learn the port.

    Rank 0 answers from a thread of its own until the process ends. The others keep no connection.
    """

    def __init__(self, rank: int, address: str, store: Any) -> None:
        self._rank, self._address, self._store = rank, address, store
        if rank == 0:
            listener = socket.create_server((address, 0))
            token = secrets.token_hex(_TOKEN_BYTES // 2).encode()
            store.set(_KEY, b"%d %s" % (listener.getsockname()[1], token))
            threading.Thread(target=_answer_all, args=(listener, token), name="ranks: clock", daemon=True).start()

    def round(self, number: int) -> list[Exchange]:
        """Exchanges of one moment, none for rank 0 or where rank 0 is gone."""
        exchanges: list[Exchange] = []
        if self._rank == 0:
            return exchanges
        with suppress(OSError, RuntimeError), self._connected() as to_first:
            for _ in range(EXCHANGES):
                asked_ns = time.perf_counter_ns()
                to_first.sendall(b"?")
                answered_ns = _TIME.unpack(_exactly(to_first, _TIME.size))[0]
                exchanges.append((self._rank, 0, asked_ns, answered_ns, time.perf_counter_ns(), number))
        return sorted(exchanges, key=lambda exchange: exchange[4] - exchange[2])[:_KEPT]

    @contextmanager
    def _connected(self) -> Iterator[socket.socket]:
        port, token = self._store.get(_KEY).split()
        with socket.create_connection((self._address, int(port)), timeout=_ANSWER_S) as to_first:
            to_first.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            to_first.sendall(token)
            yield to_first


def _answer_all(listener: socket.socket, token: bytes) -> None:
    while True:
        with suppress(OSError):
            sock, _ = listener.accept()
            sock.settimeout(_ANSWER_S)
            sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            threading.Thread(target=_answer, args=(sock, token), name="ranks: clock of one", daemon=True).start()


def _answer(sock: socket.socket, token: bytes) -> None:
    with suppress(OSError), closing(sock):
        if not secrets.compare_digest(_exactly(sock, _TOKEN_BYTES), token):
            return
        while sock.recv(1):
            sock.sendall(_TIME.pack(time.perf_counter_ns()))


def _exactly(sock: socket.socket, n_bytes: int) -> bytes:
    data = b""
    while len(data) < n_bytes:
        some = sock.recv(n_bytes - len(data))
        if not some:
            raise ConnectionError("rank 0 is gone")
        data += some
    return data
