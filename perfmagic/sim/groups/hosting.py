"""Operations between ranks on host tensors go to a courier thread, as those on the device go onto a stream.

On a virtual clock each takes the link's time, from the call or from the end of the courier's previous errand.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from functools import partial
from typing import Any

from perfmagic.base.clock import OFFSET_NS, VIRTUAL, now_ns
from perfmagic.sim.device import sim_device
from perfmagic.sim.groups.agreement import Came, Check
from perfmagic.sim.groups.ledger import CompletedOperation, HostLog, Request, open_logs
from perfmagic.sim.groups.operations import OperationKind
from perfmagic.sim.groups.posting import Courier, Errand, Group, HostWork
from perfmagic.sim.log import LOG
from perfmagic.sim.virtual import spend


def noting(
    request: Request, group: str, ranks: tuple[int, ...], turn: int, also: Callable[[CompletedOperation], None]
) -> Callable[[bool, int], None]:
    """The function to call on an operation's thread when it is over, with whether it was abandoned.

    Its second argument is the end by a virtual clock, 0 on the real one.  turn: of the thread, for a virtual clock.
    """
    logs = list(open_logs)

    def note(given_up: bool, end_ns: int) -> None:
        end_ns, thread = (end_ns, turn) if end_ns else (time.perf_counter_ns(), threading.get_native_id())
        completed = CompletedOperation(
            group, ranks, *request.what(ranks), request.began_ns or end_ns, end_ns, thread, given_up
        )
        for log in logs:
            log.add(completed)
        also(completed)

    return note


Begin = Callable[[Any], Any]  # gloo's group -> its work, a list of them, or (work, what is left to do after it)


def hand_over(
    group: Group, courier: Courier, request: Request, check: Check, begin: Begin, result: Any,
    source: Callable[[], int | None], operation: OperationKind,
) -> HostWork:  # fmt: skip
    """Queue an operation behind the errands of a courier.

    check: that the ranks agree on it.  result: what a future gives.  source: which rank a message came from.
    """
    spend("operator")
    called_ns = now_ns() if VIRTUAL else 0
    takes_ns = operation.takes_ns(sim_device(0).pace, request.size_bytes, len(group.ranks)) if VIRTUAL else 0
    gloo, side = group.gloo, group.gloo.host  # after a renewal, the next one does not serve earlier requests
    note = noting(request, group.name, group.ranks, courier.turn, _note_on_host)

    def do() -> None:
        __tracebackhide__ = True
        request.running = True
        came = Came(max(called_ns, courier.until_ns), takes_ns) if called_ns else Came()
        begin_ns, given_up = came.arrived_ns or time.perf_counter_ns(), True
        try:
            agreed = check(gloo, side, came)
            begin_ns += 0 if called_ns else agreed.spent_ns
            courier.until_ns = errand.until_ns = agreed.leave_ns
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
            note(given_up, errand.until_ns or came.arrived_ns)

    errand = Errand(do)
    request.is_done, request.settle = (lambda: errand.done), errand.wait
    request.give_up = lambda: errand.end(gloo.given_up(request.title))
    group.ledger.add(request)  # first: after an interrupt in between, nothing would wait for the courier's errands
    courier.take(errand)
    return HostWork(errand, request, result, source)


def _note_on_host(completed: CompletedOperation) -> None:
    """Log an operation as a host op, where the simulated device records."""
    if LOG.recording:
        offset_ns = 0 if VIRTUAL else OFFSET_NS
        start_ns, end_ns = completed.start_ns + offset_ns, completed.end_ns + offset_ns
        LOG.add_host_op(start_ns, end_ns, HostLog.row_name(completed), thread=completed.thread)
