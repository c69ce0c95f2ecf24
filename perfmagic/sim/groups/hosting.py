"""An operation between ranks on host tensors goes to a courier, as one on the device goes onto its stream."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from functools import partial
from typing import Any

from perfmagic.base.clock import OFFSET_NS
from perfmagic.sim.groups.agreement import Check
from perfmagic.sim.groups.ledger import CompletedOperation, HostLog, Request, open_logs
from perfmagic.sim.groups.posting import Courier, Errand, Group, HostWork
from perfmagic.sim.log import LOG


def noting(
    request: Request, group: str, ranks: tuple[int, ...], also: Callable[[int, int, str], None]
) -> Callable[[bool], None]:
    """The function to call when an operation is over, on its thread, with whether it was given up.

    also: called with start, end and name.
    """
    logs = list(open_logs)

    def note(given_up: bool) -> None:
        now_ns = time.perf_counter_ns()
        completed = CompletedOperation(
            group, ranks, *request.what(ranks), request.began_ns or now_ns, now_ns, threading.get_native_id(), given_up
        )
        for log in logs:
            log.add(completed)
        also(completed.start_ns, completed.end_ns, HostLog.row_name(completed))

    return note


Begin = Callable[[Any], Any]  # gloo's group -> its work, a list of them, or (work, what is left to do after it)


def hand_over(
    group: Group, courier: Courier, request: Request, check: Check, begin: Begin, result: Any,
    source: Callable[[], int | None],
) -> HostWork:  # fmt: skip
    """Queue an operation behind the errands of a courier.

    check: that the ranks agree on it.  result: what a future gives.  source: which rank a message came from.
    """
    gloo, side = group.gloo, group.gloo.host  # the next one, after a renewal, is not for requests made before it
    note = noting(request, group.name, group.ranks, _note_on_host)

    def do() -> None:
        __tracebackhide__ = True
        request.running = True
        begin_ns, given_up = time.perf_counter_ns(), True
        try:
            begin_ns += check(gloo, side)
            begun = gloo.run(request.title, partial(begin, side.group))
            begun, finish = begun if isinstance(begun, tuple) else (begun, None)
            for work in begun if isinstance(begun, list) else [begun]:
                gloo.finish(request.title, work.wait)
            if finish is not None:
                finish()
            given_up = False
        finally:
            request.began_ns = begin_ns
            if given_up:
                group.ledger.note_failure(request)
            note(given_up)

    errand = Errand(do)
    request.is_done, request.settle = (lambda: errand.done), errand.wait
    request.give_up = lambda: errand.end(gloo.given_up(request.title))
    group.ledger.add(request)  # first: after an interrupt in between, nobody would wait for what the courier has
    courier.take(errand)
    return HostWork(errand, request, result, source)


def _note_on_host(start_ns: int, end_ns: int, name: str) -> None:
    """Log an operation as a host op, where the simulated device records."""
    if LOG.recording:
        LOG.add_host_op(start_ns + OFFSET_NS, end_ns + OFFSET_NS, name)
