"""Keeping away from a measurement what would disturb it: garbage collection, trace hooks, output."""

from __future__ import annotations

import gc
import io
import os
import sys
import threading
from dataclasses import dataclass
from typing import Any


class Quiet:
    """Takes garbage collection, trace hooks and output away from one measurement, and owns all that it took.

    Each method notes what it finds before it changes anything, and end() puts back what is noted: after every prefix of
    the set-up, when repeated, and where an interrupt comes while it runs. So whoever begins calls end() in a `finally`
    whose `try` holds begin().
    """

    def __init__(self) -> None:
        self._hooks: _Hooks | None = None  # as they were before begin(), None where nothing is taken away
        self._outputs: _Outputs | None = None  # the same for mute()

    def begin(self) -> None:
        """No garbage collection and no trace or profile hook of this thread from here on; the heap is collected."""
        if self._hooks is None:
            self._hooks = _Hooks(gc.isenabled(), sys.gettrace(), sys.getprofile())
        sys.settrace(None)
        sys.setprofile(None)
        gc.collect()
        gc.disable()

    def mute(self) -> None:
        """Drop what is printed or displayed from here on; none of it is kept, so a body may print without end.

        Includes display() and the values of expressions where IPython is running.
        """
        if self._outputs is not None:
            return
        shell = _shell()
        publisher = getattr(shell, "display_pub", None)
        dropping = _dropping_publisher(publisher) if shell is not None else None
        self._outputs = _Outputs(sys.stdout, sys.stderr, sys.displayhook, shell, publisher)
        sys.stdout, sys.stderr, sys.displayhook = _Dropped(), _Dropped(), _show_nothing
        if shell is not None:
            shell.display_pub = dropping

    def unmute(self) -> None:
        """Output is seen again."""
        if (was := self._outputs) is not None:
            sys.stdout, sys.stderr, sys.displayhook = was.out, was.err, was.displayhook
            if was.shell is not None:
                was.shell.display_pub = was.publisher
            self._outputs = None

    def end(self) -> None:
        """Put everything back; harmless where nothing was taken away."""
        try:
            self._put_back()
        except BaseException:  # an interrupt within the teardown: the rest of it comes first
            self._put_back()
            raise

    def _put_back(self) -> None:
        self.unmute()
        if (was := self._hooks) is not None:
            if was.collects:
                gc.enable()
            sys.setprofile(was.profiler)
            sys.settrace(was.tracer)
            self._hooks = None


@dataclass(frozen=True)
class _Hooks:
    collects: bool
    tracer: Any
    profiler: Any


@dataclass(frozen=True)
class _Outputs:
    out: Any
    err: Any
    displayhook: Any
    shell: Any  # None outside IPython
    publisher: Any


def collect_when_due() -> bool:
    """Collect garbage where Python itself would have by now; True where it did. To be called outside the clock.

    Asks for no more than Python's own thresholds, so a body that leaves cycles behind holds no more memory than in a
    plain cell, and one that does not pays nothing. (A full collection with torch loaded takes some 100 ms.)
    """
    if not gc.isenabled():
        for generation, (seen, limit) in enumerate(zip(gc.get_count(), gc.get_threshold(), strict=True)):
            if not 0 < limit < seen:
                return generation > 0
            gc.collect(generation)
        return True
    return False


def dropped_outputs() -> int:
    """How many outputs of this thread have been dropped so far."""
    return getattr(_dropped, "outputs", 0)


_dropped = threading.local()


def _drop() -> None:
    _dropped.outputs = dropped_outputs() + 1


class _Dropped(io.TextIOBase):
    """A text stream that forgets."""

    @property
    def encoding(self) -> str:  # type: ignore[override]  # the base declares an attribute
        return "utf-8"

    def writable(self) -> bool:
        return True

    def write(self, text: str, /) -> int:
        _drop()
        return len(text)


def _show_nothing(value: object, /) -> None:
    """Stand in for sys.displayhook."""
    if value is not None:
        _drop()


def _shell() -> Any | None:
    """IPython's shell where one is running, else None; never imports IPython."""
    ipython = sys.modules.get("IPython")
    return ipython.get_ipython() if ipython is not None and hasattr(ipython, "get_ipython") else None


def _dropping_publisher(real: Any) -> Any:
    from IPython.core.displaypub import DisplayPublisher

    class Publisher(DisplayPublisher):
        """Takes what display() sends and forgets it."""

        def publish(self, *args: Any, **kwargs: Any) -> None:
            """Forget it."""
            _drop()

        def clear_output(self, wait: bool = False) -> None:
            """Leave the output of the first call alone."""

        def __getattr__(self, name: str) -> Any:
            """What only the real one has: an Output widget in the body tells it whose output follows."""
            return getattr(real, name)

    return Publisher()  # type: ignore[no-untyped-call]  # traitlets declares no types there


def other_load() -> float:
    """The 1-minute load where more is running on this machine than it has cores, else 0."""
    load = os.getloadavg()[0] if hasattr(os, "getloadavg") else 0.0  # absent on Windows
    return load if load > (os.cpu_count() or 1) else 0.0
