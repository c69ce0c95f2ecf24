"""Holding a stream of the simulated device until a test releases it, and counting what is queued."""

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager


def in_flight() -> int:
    """Launches queued or running, on all simulated devices."""
    from perfmagic import sim

    return sum(device.in_flight for device in sim.devices_in_use())


@contextmanager
def gates() -> Iterator[Callable[[], Callable[[], None]]]:
    """hold() keeps the current stream busy until what it returned is called, or the block ends."""
    from perfmagic.sim.device import current_lane
    from perfmagic.sim.launch import queue_op  # a test of CUDA alone must not load them
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
