"""What a person sees and has selected of a timeline, shared by the object in Python and every live view of it.

Front ends deliver messages on threads of their own while the user's cell runs: everything here is guarded by one lock,
and listeners are called outside it.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import dataclass, replace

Window = tuple[int, int]  # ns of the trace


@dataclass(frozen=True)
class Seen:
    """One state.  asked: the window Python wants shown.  view, selection: as the views report.  name, line: marked."""

    asked: Window | None = None
    view: Window | None = None
    selection: Window | None = None
    name: str = ""
    line: int = 0


class ViewState:
    """The current state, and who wants to know of changes that Python makes."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._seen = Seen()
        self._listeners: list[Callable[[Seen], None]] = []

    @property
    def seen(self) -> Seen:
        with self._lock:
            return self._seen

    def ask(self, window: Window) -> None:
        """Python wants this window shown."""
        self._change(asked=window)

    def mark(self, name: str, line: int) -> None:
        """Python wants these slices marked, nothing for "" and 0."""
        self._change(name=name, line=line)

    def report(self, view: Window | None, selection: Window | None) -> None:
        """A view tells what it shows; nobody is called."""
        with self._lock:
            self._seen = replace(self._seen, view=view, selection=selection)

    def listen(self, listener: Callable[[Seen], None]) -> Callable[[], None]:
        """Call on every change Python makes; gives what ends it."""
        with self._lock:
            self._listeners.append(listener)

        def stop() -> None:
            with self._lock:
                if listener in self._listeners:
                    self._listeners.remove(listener)

        return stop

    def _change(self, **changes: object) -> None:
        with self._lock:
            self._seen = replace(self._seen, **changes)  # type: ignore[arg-type]  # the callers above name fields
            seen, listeners = self._seen, tuple(self._listeners)
        for listener in listeners:
            listener(seen)
