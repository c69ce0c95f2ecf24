"""An interrupt at any line of the engine leaves the process as it was.

PERFMAGIC_INTERRUPTS: "all" interrupts at every line instead of every fourth.
"""

import gc
import os
import signal
import sys
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from types import FrameType
from typing import Any

import pytest

import perfmagic
from perfmagic.capture.bench import quiet, sampling
from perfmagic.capture.bench.engine import BenchSpec, Engine
from perfmagic.capture.bench.interleave import measure_interleaved
from perfmagic.capture.bench.sampling import run
from perfmagic.trace.model import TraceMeta, make_trace
from tests.capture.bench.machine import MS, Machine

pytestmark = pytest.mark.interrupts
OURS = str(Path(perfmagic.__file__).parent)
FEW = {"samples": 2, "warmup": 1}
EVERY = 1 if os.environ.get("PERFMAGIC_INTERRUPTS") == "all" else 4


def hook(frame: FrameType, event: str, arg: Any) -> None:
    """A trace or profile hook of somebody else, such as a debugger's."""


class Hooks:
    """sys for the engine. Its trace hooks are kept apart, as the interrupts themselves come from one."""

    def __init__(self) -> None:
        self.__dict__["trace"] = self.__dict__["profile"] = hook

    def __getattr__(self, name: str) -> Any:
        return getattr(sys, name)

    def __setattr__(self, name: str, value: Any) -> None:
        setattr(sys, name, value)

    def gettrace(self) -> Any:
        return self.__dict__["trace"]

    def settrace(self, new: Any) -> None:
        self.__dict__["trace"] = new

    def getprofile(self) -> Any:
        return self.__dict__["profile"]

    def setprofile(self, new: Any) -> None:
        self.__dict__["profile"] = new


class Recording:
    """One that notes whether it is under way."""

    under_way = False

    def start(self) -> None:
        Recording.under_way = True

    def stop(self) -> Any:
        Recording.under_way = False
        return make_trace([], TraceMeta("cell"))

    def give_back(self) -> None:
        Recording.under_way = False


class Interrupts:
    """Raises KeyboardInterrupt at the n-th line of perfmagic that runs, and again a number of lines later.

    raised: how many of them were.
    """

    def __init__(self, *lines: int) -> None:
        self._left = list(lines)
        self._armed = True
        self.raised = 0

    def __enter__(self) -> "Interrupts":  # noqa: PYI034 - Self needs Python 3.11
        sys.setprofile(self._rearm)
        sys.settrace(self._trace)
        return self

    def __exit__(self, *_: object) -> None:
        sys.settrace(None)
        sys.setprofile(None)

    def _trace(self, frame: FrameType, event: str, _arg: Any) -> Any:
        if not frame.f_code.co_filename.startswith(OURS):
            return None
        if event == "line" and self._left:
            self._left[0] -= 1
            if self._left[0] == 0:
                self._left.pop(0)
                self.raised += 1
                self._armed = False  # Python drops a tracer that raises
                raise KeyboardInterrupt
        return self._trace

    def _rearm(self, frame: FrameType | None, _event: str, _arg: Any) -> None:
        if self._armed or not self._left:
            return
        self._armed = True
        sys.settrace(self._trace)
        while frame is not None:
            if frame.f_code.co_filename.startswith(OURS):
                frame.f_trace = self._trace
            frame = frame.f_back


@pytest.fixture(autouse=True)
def hooks(monkeypatch: pytest.MonkeyPatch) -> Iterator[Hooks]:
    hooks = Hooks()
    monkeypatch.setattr(quiet, "sys", hooks)
    # fewer of the loops whose thousands of lines take nothing from the process
    for module, name, few in (
        (sampling, "AT_FIRST", 3),
        (sampling, "CALLS_AT_FIRST", 1),
        (sampling, "ROUNDS", 1),
    ):
        monkeypatch.setattr(module, name, few)
    Recording.under_way = False
    yield hooks
    sys.settrace(None)
    sys.setprofile(None)


def one_engine(*, synced: bool) -> tuple[Callable[[], object], Callable[[], object]]:
    """A measurement, and its owner's last word."""
    machine = Machine()
    engine = machine.engine(BenchSpec(**FEW), synced=synced, profile=Recording)

    def measure() -> None:
        try:
            run(engine.loop(), [lambda: machine.body(3 * MS, 2 * MS if synced else 0)])
        finally:
            engine.close()

    return measure, engine.close


def plain_loop() -> tuple[Callable[[], object], Callable[[], object]]:
    machine = Machine()
    engine = machine.engine(BenchSpec(**FEW), synced=True, profile=Recording)

    def measure() -> None:
        try:
            for () in engine.calls():
                machine.body(3 * MS, 2 * MS)
        finally:
            engine.close()

    return measure, engine.close


def two_bodies() -> tuple[Callable[[], object], Callable[[], object]]:
    machine = Machine()
    bodies = [lambda: machine.body(3 * MS), lambda: machine.body(4 * MS)]

    def measure() -> None:
        measure_interleaved(bodies, [BenchSpec(**FEW)] * 2, decide_s=0.0, clock_ns=machine.clock_ns)

    return measure, lambda: None  # nobody else knows of it: it must end by itself


MEASUREMENTS = {
    "unsynced": lambda: one_engine(synced=False),
    "synced": lambda: one_engine(synced=True),
    "plain loop": plain_loop,
    "interleaved": two_bodies,
}


def interrupted(name: str, hooks: Hooks, *lines: int) -> int:
    """Measure with interrupts at these lines; how many of them struck. Holds what must be as before."""

    def state() -> tuple[object, ...]:
        outputs = sys.stdout, sys.stderr, sys.displayhook
        return gc.isenabled(), hooks.gettrace(), hooks.getprofile(), *outputs, signal.getsignal(signal.SIGINT)

    measure, end = MEASUREMENTS[name]()
    before = state()
    with Interrupts(*lines) as interrupts, suppress(KeyboardInterrupt):
        measure()
    end()
    assert state() == before, lines
    assert not Recording.under_way, lines
    return interrupts.raised


def sweep(name: str, hooks: Hooks, stride: int, second: tuple[int, ...] = ()) -> int:
    """Interrupt at every stride-th line until the measurement ends before the interrupt; how many there were."""
    for number, line in enumerate(range(1, 1_000_000, stride)):
        if not interrupted(name, hooks, line, *second):
            return number
    raise AssertionError("it never ended")


@pytest.mark.parametrize("name", MEASUREMENTS)
def test_an_interrupt_leaves_the_process_as_it_was(name: str, hooks: Hooks) -> None:
    assert sweep(name, hooks, stride=97) > 5


@pytest.mark.slow
@pytest.mark.parametrize("name", ["unsynced", "synced", "interleaved"])
def test_an_interrupt_at_any_line_leaves_the_process_as_it_was(name: str, hooks: Hooks) -> None:
    assert sweep(name, hooks, stride=EVERY) > 500 // EVERY


@pytest.mark.parametrize("name", ["unsynced", "synced", "plain loop"])
def test_a_second_interrupt_within_the_teardown_is_survived(name: str, hooks: Hooks) -> None:
    for second in (1, 5, 14, 40):
        assert sweep(name, hooks, stride=311, second=(second,)) > 1


@pytest.mark.slow
def test_a_second_interrupt_at_any_line_of_the_teardown_is_survived(hooks: Hooks) -> None:
    for second in range(1, 80, EVERY):
        assert sweep("synced", hooks, stride=173, second=(second,)) > 2


def test_the_next_measurement_after_an_interrupt_is_like_any_other(hooks: Hooks) -> None:
    expected = Machine().measure(3 * MS, 2 * MS, BenchSpec(**FEW), synced=True)
    for line in range(7, 1200, 149):
        interrupted("synced", hooks, line)
        again = Machine().measure(3 * MS, 2 * MS, BenchSpec(**FEW), synced=True)
        assert again.done_s.tolist() == expected.done_s.tolist()
        assert again.span_s.tolist() == expected.span_s.tolist()


def test_an_interrupt_between_samples_keeps_those_before(hooks: Hooks) -> None:
    machine, kept = Machine(), set()
    for line in range(1, 2000, 23):
        engine = Engine(BenchSpec(**FEW), synced=False, host=machine.host())
        with Interrupts(line) as interrupts:
            try:
                run(engine.loop(), [lambda: machine.body(3 * MS)])
            except KeyboardInterrupt as error:
                engine.failed(error)
        engine.close()
        if not interrupts.raised:
            break
        record = engine.record()
        assert set(record.returns_s.tolist()) <= {0.003}
        assert record.failed == "interrupted"
        kept.add(len(record.returns_s))
    assert kept == {0, 1, 2}
