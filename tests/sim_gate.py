"""Holding a stream of the simulated device until a test lets it go."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager


@contextmanager
def gates() -> Iterator[Callable[[], Callable[[], None]]]:
    """hold() keeps the current stream busy until what it returned is called, or the block ends."""
    from perfmagic.capture.devices.sim.chosen import current_lane  # a test of CUDA alone must not load them
    from perfmagic.capture.devices.sim.launch import queue_op
    from perfmagic.trace.columns import OpKind

    closed: list[threading.Event] = []

    def hold() -> Callable[[], None]:
        gate = threading.Event()
        closed.append(gate)

        def body() -> None:
            gate.wait()

        queue_op(current_lane(), "held", OpKind.KERNEL, body, (), ())
        return gate.set

    try:
        yield hold
    finally:
        for gate in closed:
            gate.set()
