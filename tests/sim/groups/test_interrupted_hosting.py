"""An operation on host tensors that was begun is known until gloo has ended it: whoever connects anew waits for it."""

import threading
from types import SimpleNamespace
from typing import Any

import pytest

pytest.importorskip("torch", reason="process groups need torch")

from perfmagic.base.errors import CommunicationError
from perfmagic.sim.groups.agreement import Agreed
from perfmagic.sim.groups.gloo import Gloo, Side
from perfmagic.sim.groups.hosting import hand_over
from perfmagic.sim.groups.ledger import Ledger, Request
from perfmagic.sim.groups.operations import ALL_REDUCE
from perfmagic.sim.groups.posting import Courier, Group

SECONDS = 60


class Interrupted:
    """Takes an errand, and is interrupted at that."""

    turn = 0

    def take(self, errand: Any) -> None:
        raise KeyboardInterrupt


@pytest.fixture
def group() -> Group:
    gloo = Gloo.__new__(Gloo)  # without other ranks to meet
    gloo.freed = gloo.refused = ""
    gloo.host = Side(None)
    return Group("0", 0, (0, 1), gloo, Ledger())


def request() -> Request:
    return Request("allreduce", "all_reduce", 1, 4, None, False, "", 0)


def give(group: Group, courier: Any, begin: Any) -> Any:
    return hand_over(group, courier, request(), lambda *_: Agreed(0, 0, 0), begin, None, lambda: None, ALL_REDUCE)


def test_an_interrupt_at_the_courier_leaves_the_operation_in_the_ledger(group: Group) -> None:
    with pytest.raises(KeyboardInterrupt):
        give(group, Interrupted(), lambda _: [])
    assert [request.title for request in group.ledger.open()] == ["all_reduce"]


def test_an_operation_freed_between_begin_and_wait_stays_open_until_gloo_ends_it(group: Group) -> None:
    begun, ends, courier = threading.Event(), threading.Event(), Courier("test")

    def begin(_: Any) -> Any:
        group.gloo.freed = "the cell was interrupted"
        return SimpleNamespace(wait=wait)

    def wait() -> None:
        begun.set()
        assert ends.wait(SECONDS)

    work = give(group, courier, begin)
    try:
        assert begun.wait(SECONDS)
        assert len(group.ledger.open()) == 1
    finally:
        ends.set()
    courier.end(SECONDS)
    assert work.is_completed()
    assert group.ledger.open() == []


def test_what_gloo_never_ends_can_be_given_up(group: Group) -> None:
    begun, ends, courier = threading.Event(), threading.Event(), Courier("test")

    def wait() -> None:
        begun.set()
        assert ends.wait(SECONDS)

    work = give(group, courier, lambda _: SimpleNamespace(wait=wait))
    future = work.get_future()
    try:
        assert begun.wait(SECONDS)
        group.gloo.freed = "the cell was interrupted"
        group.ledger.open()[0].give_up()
        with pytest.raises(RuntimeError, match="all_reduce was given up: the cell was interrupted"):
            future.wait()
    finally:
        ends.set()
    courier.end(SECONDS)
    assert isinstance(work.exception(), CommunicationError)
