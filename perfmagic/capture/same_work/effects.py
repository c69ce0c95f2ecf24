"""The side effects of calls: bytes written, files made or removed, prints."""

from __future__ import annotations

import os
import sys
import threading
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from perfmagic.trace.samples import Condition

LEAST_BYTES = 256  # per call: event loops write a few to wake up
FEWER = 4  # times fewer bytes than the first
_CHANGES = {
    "os.remove", "os.rename", "os.mkdir", "os.rmdir", "os.link", "os.symlink", "os.truncate", "os.chmod", "os.utime",
}  # fmt: skip
_STARTS = {"subprocess.Popen", "os.fork", "os.forkpty", "os.posix_spawn", "os.system", "pty.spawn"}
_CODE = (".py", ".pyc", ".so", ".pth")
_SYNCS = ("fsync", "fdatasync", "sync")
_SENDS = ("send", "sendall", "sendto", "sendmsg")
_WRITES = os.O_WRONLY | os.O_RDWR | os.O_CREAT


@dataclass
class Effects:
    """Of one function.  events: of its recorded calls, by name.  opened: files that these opened for writing."""

    calls: int = 0
    written_bytes: int = 0
    prints: int = 0
    events: Counter[str] = field(default_factory=Counter)
    opened: set[str] = field(default_factory=set)
    read: list[set[str]] = field(default_factory=list)

    @property
    def only_passing(self) -> bool:
        """Whether it wrote only to files that are gone, or to processes that it started."""
        return bool(_STARTS & {*self.events}) or (bool(self.opened) and not any(map(os.path.isfile, self.opened)))


class EffectsWatch:
    """Counts between begin() and end().  printed: how many outputs there were so far."""

    def __init__(self) -> None:
        self.printed: Callable[[], int] = lambda: 0
        self._begun: tuple[int, int] | None = None
        self._file: int | None = None
        with suppress(OSError):
            self._file = os.open("/proc/self/io", os.O_RDONLY)

    def begin(self) -> None:
        """A function is about to run."""
        self._begun = self._written(), self.printed()

    def end(self, of: Effects, calls: int) -> None:
        """It has returned; harmless when repeated."""
        if self._begun is None:
            return
        (written, printed), self._begun = self._begun, None
        of.calls += calls
        of.written_bytes += self._written() - written
        of.prints += self.printed() - printed

    def _written(self) -> int:
        """Bytes that this process has written so far; 0 if the system does not count them."""
        if self._file is None:
            return 0
        return int(os.pread(self._file, 256, 0).partition(b"wchar: ")[2].split(b"\n", 1)[0] or 0)

    def close(self) -> None:
        """Harmless when repeated."""
        if self._file is not None:
            os.close(self._file)
            self._file = None


_listening: list[Effects] = []  # Python cannot remove an audit hook: it stays, and does nothing
_hooked = threading.Event()


def _hook(event: str, args: tuple[Any, ...]) -> None:
    if not _listening:
        return
    if event == "open":
        path, mode, flags = args
        if isinstance(path, str) and (flags & _WRITES or (mode and not {*"wax+"}.isdisjoint(mode))):
            _listening[-1].opened.add(path)
        elif isinstance(path, (str, bytes)) and not os.fsdecode(path).endswith(_CODE):
            _listening[-1].read[-1].add(os.fsdecode(path))
    elif event in _CHANGES:
        if not (event == "os.remove" and str(args[0]) in _listening[-1].opened):
            _listening[-1].events[event] += 1
    elif event in _STARTS:
        _listening[-1].events[event] += 1


@contextmanager
def events_of(of: Effects) -> Iterator[None]:
    """Record events that change files inside the block."""
    if not _hooked.is_set():
        _hooked.set()
        sys.addaudithook(_hook)
    calls = [(os, name) for name in _SYNCS if hasattr(os, name)]
    calls += [(sys.modules["socket"].socket, name) for name in _SENDS] if "socket" in sys.modules else []
    reals = [(owner, name, vars(owner).get(name), getattr(owner, name)) for owner, name in calls]
    of.read.append(set())
    _listening.append(of)
    for owner, name, _, real in reals:
        setattr(owner, name, _counting(of, f"{owner.__name__}.{name}", real))
    try:
        yield
    finally:
        _listening.remove(of)
        for owner, name, own, _ in reals:
            delattr(owner, name) if own is None else setattr(owner, name, own)


def _counting(of: Effects, name: str, real: Callable[..., object]) -> Callable[..., object]:
    def counted(*args: object, **named: object) -> object:
        of.events[name] += 1
        return real(*args, **named)

    return counted


def _always_read(of: Effects) -> set[str]:
    """Files that every recorded call opened, which it did not write itself."""
    always = set.intersection(*of.read) - of.opened if of.read else set()
    return {path for path in always if Path(path).is_file() and not path.startswith(("/proc/", "/sys/", "/dev/"))}


def left_out(first: Effects, it: Effects, *, reads: bool) -> Iterator[Condition]:
    """What the first leaves outside of its results and the other does not.  reads: or reads from there."""
    own, other = (each.written_bytes // max(1, each.calls) for each in (first, it))
    if own >= LEAST_BYTES and other * FEWER < own and not first.only_passing:
        yield Condition("files", {"first": own, "other": other})
    sends = {f"socket.{name}" for name in _SENDS}
    if sends & {*first.events} and not sends & {*it.events}:
        yield Condition("file calls", {"what": min(sends & {*first.events})})
    asked = (_CHANGES | {f"os.{name}" for name in _SYNCS}) & {*first.events}
    if asked and not asked & {*it.events} and not first.only_passing:
        yield Condition("file calls", {"what": min(asked)})
    if reads and (kept := _always_read(first)) and not any(it.read):
        yield Condition("file kept", {"what": Path(min(kept)).name})
    if first.prints and not it.prints:
        yield Condition("prints")
