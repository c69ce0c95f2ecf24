"""Keeping away from a measurement what would disturb it: garbage collection, trace hooks, output.

Everything is put back in every case, also when the measurement is left in the middle (perfmagic.capture.owner).
"""

from __future__ import annotations

import gc
import inspect
import io
import sys
import threading
from collections.abc import Callable
from typing import Any

from perfmagic.capture.owner import Owner, shielded
from perfmagic.trace.columns import keep_freed_memory


class Quiet:
    """Keeps away from one measurement what would disturb it, and owns all that it took until end()."""

    def __init__(self) -> None:
        self._owner = Owner()
        self._muted: Muted | None = None

    def begin(self) -> None:
        """No garbage collection and no hooks from here on; memory that calls free serves the next ones.

        Else malloc may return the result of each call to the system: clearing pages again would double its time.
        """
        keep_freed_memory()
        self._owner.acquire(Undisturbed())

    def mute(self) -> None:
        """No output from here on; harmless when it is muted already."""
        if self._muted is None:
            self._muted = Muted()
            self._owner.acquire(self._muted)

    def unmute(self) -> None:
        """Output is seen again."""
        if self._muted is not None:
            shielded(self._muted.give_back)
            self._muted = None

    def end(self) -> None:
        """Put everything back; harmless where nothing was taken, and goes on where an interrupt stopped it."""
        self._owner.close()


class Undisturbed:
    """No garbage collection and no trace or profile hook of this thread; starts from a collected heap."""

    def __init__(self) -> None:
        self._before: tuple[bool, Any, Any] | None = None

    def acquire(self) -> None:
        self._before = gc.isenabled(), sys.gettrace(), sys.getprofile()
        _hook_off(self._before[1], sys.settrace)
        _hook_off(self._before[2], sys.setprofile)
        gc.collect()
        gc.disable()

    def give_back(self) -> None:
        if self._before is None:
            return
        collects, tracer, profiler = self._before
        if collects:
            gc.enable()
        _hook_on(profiler, sys.setprofile)
        _hook_on(tracer, sys.settrace)
        self._before = None


# A hook in C, such as cProfile's before Python 3.12, is no function: it turns itself on and off.


def _hook_off(hook: Any, set_hook: Callable[[Any], None]) -> None:
    if _turns_itself_on(hook):
        hook.disable()
    set_hook(None)


def _hook_on(hook: Any, set_hook: Callable[[Any], None]) -> None:
    hook.enable() if _turns_itself_on(hook) else set_hook(hook)


def _turns_itself_on(hook: Any) -> bool:
    return hook is not None and not inspect.isroutine(hook) and hasattr(hook, "enable") and hasattr(hook, "disable")


def collect_when_due() -> bool:
    """Collect garbage where Python itself would have by now; True where it did. To be called outside the clock.

    Asks for no more than Python's own thresholds. So a body that leaves cycles behind uses no more memory than in a
    plain cell. One that does not pays nothing. (A full collection with torch loaded takes some 100 ms.)
    """
    if not gc.isenabled():
        for generation, (seen, limit) in enumerate(zip(gc.get_count(), gc.get_threshold(), strict=True)):
            if not 0 < limit < seen:
                return generation > 0
            gc.collect(generation)
        return True
    return False


class Muted:
    """Drops what is printed or displayed; none of it is kept, so a body may print without end.

    Includes display() and the values of expressions where IPython is running.
    """

    def __init__(self) -> None:
        self._before: tuple[Any, Any, Any, Any, Any] | None = None

    def acquire(self) -> None:
        shell = _shell()
        publisher = getattr(shell, "display_pub", None)
        dropping = _dropping_publisher(publisher) if shell is not None else None
        self._before = sys.stdout, sys.stderr, sys.displayhook, shell, publisher
        sys.stdout, sys.stderr, sys.displayhook = _Dropped(), _Dropped(), _show_nothing
        if shell is not None:
            shell.display_pub = dropping

    def give_back(self) -> None:
        if self._before is None:
            return
        sys.stdout, sys.stderr, sys.displayhook, shell, publisher = self._before
        if shell is not None:
            shell.display_pub = publisher
        self._before = None


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
