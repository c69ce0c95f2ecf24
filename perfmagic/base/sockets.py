"""Which TCP connections a process has opened, and how to end what waits on them."""

from __future__ import annotations

import os
import socket
import stat
from collections.abc import Iterator
from contextlib import closing, suppress

Socket = tuple[int, int]  # device and inode: never given twice while the socket lives
_FOLDERS = ("/proc/self/fd", "/dev/fd")
_kept: set[Socket] = set()


class Opened:
    """A with block; `sockets` has those that the process opened in it, and so_far() gives them from any thread.

    Only connections over TCP count. Another thread's would too, so the block must be short.
    """

    sockets: frozenset[Socket] = frozenset()

    def __enter__(self) -> Opened:  # noqa: PYI034 - Self needs Python 3.11
        self._before = {key for _, key in _open_sockets()}
        return self

    def __exit__(self, *exc_info: object) -> None:
        self.sockets = self.so_far()

    def so_far(self) -> frozenset[Socket]:
        return frozenset(key for _, key in _open_sockets()) - self._before


def keep(one: socket.socket) -> None:
    """Shut this one never: another thread opened it, maybe while a group was made."""
    if (key := _key(one.fileno())) is not None:
        _kept.add(key)


def shut(wanted: frozenset[Socket], keep_ports: frozenset[int]) -> int:
    """Shut those of the given sockets that are connected; how many they were.

    keep_ports: of the store, which later groups need. Sockets that listen are left: gloo ends the process where one of
    its own fails.
    """
    n = 0
    for fd, key in _open_sockets():
        if key in wanted and key not in _kept:
            with suppress(OSError), closing(socket.socket(fileno=os.dup(fd))) as one:
                # the number may mean another file by now: what was duplicated is what is looked at
                if _key(one.fileno()) == key and _is_connection(one, keep_ports):
                    one.shutdown(socket.SHUT_RDWR)
                    n += 1
    return n


def _is_connection(one: socket.socket, keep_ports: frozenset[int]) -> bool:
    if one.family not in (socket.AF_INET, socket.AF_INET6) or one.type != socket.SOCK_STREAM:
        return False
    if one.getsockopt(socket.SOL_SOCKET, socket.SO_ACCEPTCONN):
        return False
    return not keep_ports & {one.getsockname()[1], one.getpeername()[1]}


def _open_sockets() -> Iterator[tuple[int, Socket]]:
    folder = next((folder for folder in _FOLDERS if os.path.isdir(folder)), "")  # noqa: PTH112 - as for the next line
    for name in os.listdir(folder) if folder else ():  # noqa: PTH208 - Path.iterdir makes an object of each number
        key = _key(int(name))
        if key is not None:
            yield int(name), key


def _key(fd: int) -> Socket | None:
    try:
        found = os.fstat(fd)
    except OSError:
        return None
    return (found.st_dev, found.st_ino) if stat.S_ISSOCK(found.st_mode) else None
