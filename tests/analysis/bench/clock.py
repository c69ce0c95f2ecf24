"""A clock that only bodies move, and functions measured by it: no test depends on the speed of its host."""

from collections.abc import Callable

import pytest

from perfmagic.capture.bench.interleave import measure_interleaved
from perfmagic.capture.bench.spec import Host


class Clock:
    """Every body takes the time it says; nothing else takes any."""

    def __init__(self) -> None:
        self.now_ns = 0
        self.order: list[str] = []

    def __call__(self) -> int:
        return self.now_ns

    def body(self, name: str, ms: float, also: Callable[[], object] = lambda: None) -> Callable[[], None]:
        """A function of this name that takes so long.  also: what it does besides, in no time."""

        def run() -> None:
            self.order.append(name)
            self.now_ns += round(ms * 1e6)
            also()

        run.__name__ = name
        return run


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    """The clock of all that perfmagic.bench, compare and sweep measure in this test."""
    given = Clock()
    monkeypatch.setitem(measure_interleaved.__kwdefaults__, "clock_ns", given)
    monkeypatch.setattr(Host.__init__, "__defaults__", (given, *Host.__init__.__defaults__[1:]))
    return given
