"""An interrupt of a measurement on the fake machine: what was measured before it is kept, and nothing is left taken.

tests/shell/test_interrupts.py interrupts real cells and functions at every line of our own code.
"""

import gc
import signal
import sys
from collections.abc import Callable
from contextlib import suppress
from typing import Any

import pytest

from perfmagic.capture.bench import sampling
from perfmagic.capture.bench.engine import BenchSpec, Engine
from perfmagic.capture.bench.interleave import measure_interleaved
from perfmagic.capture.bench.sampling import run
from perfmagic.trace.model import TraceMeta, make_trace
from tests.capture.bench.machine import MS, Machine
from tests.shell.interrupts import Interrupter, installed

pytestmark = pytest.mark.interrupts
FEW = BenchSpec(samples=2, warmup=1)


class Recording:
    """One that notes whether it is under way."""

    under_way = False

    def start(self) -> None:
        Recording.under_way = True

    def stop(self) -> Any:
        self.give_back()
        return make_trace([], TraceMeta("cell"))

    def give_back(self) -> None:
        Recording.under_way = False


@pytest.fixture(autouse=True)
def _few_loops(monkeypatch: pytest.MonkeyPatch) -> None:
    """Fewer of the loops whose thousands of lines take nothing from the process."""
    for name, few in (("AT_FIRST", 3), ("CALLS_AT_FIRST", 1), ("ROUNDS", 1)):
        monkeypatch.setattr(sampling, name, few)


def interrupted(measure: Callable[[], object], line: int, second: int = 0) -> bool:
    """Whether a measurement reached this line, at which it was interrupted. Holds what must be as before."""

    def state() -> tuple[object, ...]:
        return gc.isenabled(), sys.stdout, sys.stderr, sys.displayhook, signal.getsignal(signal.SIGINT)

    before, interrupter = state(), Interrupter(line, sys.maxsize, second=second)
    with suppress(KeyboardInterrupt), installed(interrupter):
        measure()
    assert state() == before, interrupter.where
    assert not Recording.under_way, interrupter.where
    return bool(interrupter.where)


def synced() -> None:
    machine = Machine()
    engine = machine.engine(FEW, synced=True, profile=Recording)
    try:
        for () in engine.calls():
            machine.body(3 * MS, 2 * MS)
    finally:
        engine.close()


def interleaved() -> None:
    """Nobody else knows of it: it must end by itself."""
    machine = Machine()
    bodies = [lambda: machine.body(3 * MS), lambda: machine.body(4 * MS)]
    measure_interleaved(bodies, [FEW] * 2, decide_s=0.0, clock_ns=machine.clock_ns)


def sweep(measure: Callable[[], object], stride: int, second: int = 0) -> int:
    """Interrupt at every stride-th line until the measurement ends before the interrupt; how many there were."""
    for number, line in enumerate(range(1, 1_000_000, stride)):
        if not interrupted(measure, line, second):
            return number
    raise AssertionError("it never ended")


@pytest.mark.parametrize("measure", [synced, interleaved])
def test_an_interrupt_leaves_the_process_as_it_was(measure: Callable[[], object]) -> None:
    assert sweep(measure, stride=97) > 5


@pytest.mark.parametrize("second", [1, 5, 14, 40])
def test_a_second_interrupt_within_the_teardown_is_survived(second: int) -> None:
    assert sweep(synced, stride=311, second=second) > 1


def test_the_next_measurement_after_an_interrupt_is_like_any_other() -> None:
    expected = Machine().measure(3 * MS, 2 * MS, FEW, synced=True)
    for line in range(7, 1200, 149):
        interrupted(synced, line)
        again = Machine().measure(3 * MS, 2 * MS, FEW, synced=True)
        assert again.done_s.tolist() == expected.done_s.tolist()
        assert again.span_s.tolist() == expected.span_s.tolist()


def test_an_interrupt_between_samples_keeps_those_before() -> None:
    machine, kept = Machine(), set()
    for line in range(1, 2000, 23):
        engine, interrupter = Engine(FEW, synced=False, host=machine.host()), Interrupter(line, sys.maxsize)
        with installed(interrupter):
            try:
                run(engine.loop(), [lambda: machine.body(3 * MS)])
            except KeyboardInterrupt as error:
                engine.failed(error)
        engine.close()
        if not interrupter.where:
            break
        record = engine.record()
        assert set(record.returns_s.tolist()) <= {0.003}
        assert record.failed == "interrupted"
        kept.add(len(record.returns_s))
    assert kept == {0, 1, 2}
