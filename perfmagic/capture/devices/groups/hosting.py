"""An operation between ranks on host tensors goes to a courier, as one on the device goes onto its stream."""

from __future__ import annotations

import time
from collections.abc import Callable
from functools import partial
from typing import Any

from perfmagic.capture.devices.groups.agreement import Check
from perfmagic.capture.devices.groups.courier import Courier, Errand
from perfmagic.capture.devices.groups.host_log import noting
from perfmagic.capture.devices.groups.posting import Group
from perfmagic.capture.devices.groups.standing import Asked
from perfmagic.capture.devices.groups.work import HostWork
from perfmagic.capture.devices.sim.clock import OFFSET_NS
from perfmagic.capture.devices.sim.log import LOG

Begin = Callable[[Any], Any]  # gloo's group -> its work, a list of them, or (work, what is left to do after it)


def hand_over(
    group: Group, courier: Courier, asked: Asked, check: Check, begin: Begin, result: Any,
    source: Callable[[], int | None],
) -> HostWork:  # fmt: skip
    """Queue an operation behind what the courier was given so far.

    check: that the ranks agree on it.  result: what a future gives.  source: which rank a message came from.
    """
    gloo, side = group.gloo, group.gloo.host  # the next one, after a renewal, is not for what was asked before it
    note = noting(asked, group.name, group.ranks, _note_on_host)

    def do() -> None:
        __tracebackhide__ = True
        asked.running = True
        begin_ns, given_up = time.perf_counter_ns(), True
        try:
            begin_ns += check(gloo, side)
            begun = gloo.run(asked.title, partial(begin, side.group))
            begun, finish = begun if isinstance(begun, tuple) else (begun, None)
            for work in begun if isinstance(begun, list) else [begun]:
                gloo.run(asked.title, work.wait)
            if finish is not None:
                finish()
            given_up = False
        finally:
            asked.began_ns = begin_ns
            note(given_up)

    errand = Errand(do)
    asked.is_done, asked.settle = (lambda: errand.done), errand.wait
    courier.take(errand)
    group.ledger.add(asked)
    return HostWork(errand, asked.title, result, source)


def _note_on_host(start_ns: int, end_ns: int, name: str) -> None:
    """As a row of the host, where the simulated device records."""
    if LOG.recording:
        LOG.add_host_op(start_ns + OFFSET_NS, end_ns + OFFSET_NS, name)
