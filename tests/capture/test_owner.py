"""Whatever is taken is given back once, and no signal is lost on the way."""

import asyncio
import signal
import sys
import threading
from collections.abc import Callable, Iterator
from types import FrameType
from typing import Any

import pytest

from perfmagic.capture import owner as module
from perfmagic.capture.owner import BlockSignals, Owner, shielded


class Part:
    """A resource that notes what happens to it. fails: raised while it is taken or given back."""

    def __init__(self, log: list[str], name: str, take: BaseException | None = None, back: BaseException | None = None):
        self.log, self.name, self.fails = log, name, {"take": take, "back": back}

    def acquire(self) -> None:
        self._do("take")

    def give_back(self) -> None:
        self._do("back")

    def _do(self, what: str) -> None:
        error, self.fails[what] = self.fails[what], None
        self.log.append(f"{what} {self.name}")
        if error is not None:
            raise error


@pytest.fixture(autouse=True)
def _handlers_are_back() -> Iterator[None]:
    yield
    handlers: list[Any] = [signal.getsignal(number) for number in signal.valid_signals()]
    assert not any(
        handler is module._wait or isinstance(getattr(handler, "__self__", None), BlockSignals) for handler in handlers
    )


def interrupt() -> None:
    signal.raise_signal(signal.SIGINT)


def take_all(*parts: Part) -> None:
    """Take them one after the other, and give all back."""
    owner = Owner()
    with owner, owner:
        for part in parts:
            owner.acquire(part)


def test_the_last_taken_is_given_back_first_and_only_once() -> None:
    log: list[str] = []
    take_all(Part(log, "a"), Part(log, "b"))
    assert log == ["take a", "take b", "back b", "back a"]


def test_a_resource_that_failed_half_way_is_given_back_too() -> None:
    log: list[str] = []
    with pytest.raises(ValueError, match="half"):
        take_all(Part(log, "a"), Part(log, "b", take=ValueError("half")), Part(log, "c"))
    assert log == ["take a", "take b", "back b", "back a"]


def test_one_that_cannot_be_given_back_does_not_keep_the_others() -> None:
    log: list[str] = []
    with pytest.raises(ValueError, match="stuck"):
        take_all(Part(log, "a"), Part(log, "b", back=ValueError("stuck")), Part(log, "c"))
    assert log[3:] == ["back c", "back b", "back a"]


def test_an_interrupted_close_is_finished_by_the_next() -> None:
    log: list[str] = []
    with pytest.raises(KeyboardInterrupt):
        take_all(Part(log, "a"), Part(log, "b", back=KeyboardInterrupt()))
    assert log == ["take a", "take b", "back b", "back b", "back a"]


def test_a_signal_waits_until_shielded_work_has_ended() -> None:
    done: list[str] = []

    def work() -> None:
        interrupt()
        done.append("after the signal")

    with pytest.raises(KeyboardInterrupt):
        shielded(work)
    assert done == ["after the signal"]


def test_every_signal_with_a_handler_waits_and_each_is_heard(monkeypatch: pytest.MonkeyPatch) -> None:
    heard: list[int] = []
    before = signal.signal(signal.SIGALRM, lambda number, frame: heard.append(number))
    try:

        def work() -> list[int]:
            signal.raise_signal(signal.SIGALRM)
            interrupt()
            return list(heard)

        with pytest.raises(KeyboardInterrupt):
            shielded(work)
        assert heard == [signal.SIGALRM]
        assert shielded(lambda: [signal.raise_signal(signal.SIGALRM), list(heard)][1]) == [signal.SIGALRM]
        assert heard == [signal.SIGALRM] * 2
    finally:
        signal.signal(signal.SIGALRM, before)


def test_a_shield_within_a_shield_waits_for_the_outer() -> None:
    done: list[str] = []

    def outer() -> None:
        shielded(interrupt)
        done.append("outer goes on")

    with pytest.raises(KeyboardInterrupt):
        shielded(outer)
    assert done == ["outer goes on"]


def test_the_interrupt_of_a_handler_that_does_not_raise_lets_the_result_through() -> None:
    before = signal.signal(signal.SIGINT, lambda *_: None)
    try:
        assert shielded(lambda: (interrupt(), 5)[1]) == 5
    finally:
        signal.signal(signal.SIGINT, before)


@pytest.mark.parametrize("what", ["work", "a block"])
def test_a_handler_that_is_installed_meanwhile_stays(what: str) -> None:
    before = signal.getsignal(signal.SIGINT)

    def handler(number: int, frame: FrameType | None) -> None:
        pass

    if what == "work":
        shielded(lambda: signal.signal(signal.SIGINT, handler))
    else:
        with Block():
            signal.signal(signal.SIGINT, handler)
            shielded(lambda: None)
    try:
        assert signal.getsignal(signal.SIGINT) is handler
    finally:
        signal.signal(signal.SIGINT, before)


def test_a_stand_in_that_was_left_behind_heals_itself() -> None:
    def leave() -> object:
        return signal.getsignal(signal.SIGINT)

    stand_in: Any = shielded(leave)
    signal.signal(signal.SIGINT, stand_in)
    with pytest.raises(KeyboardInterrupt):
        interrupt()
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler


def test_in_another_thread_no_handler_is_touched() -> None:
    handlers: list[object] = []

    def work() -> None:
        handlers.append(shielded(lambda: signal.getsignal(signal.SIGINT)))
        with Block():
            handlers.append(signal.getsignal(signal.SIGINT))

    thread = threading.Thread(target=work)
    thread.start()
    thread.join()
    assert handlers == [signal.default_int_handler] * 2


def raise_at(n: int) -> Callable[[FrameType, str, Any], Any]:
    """A tracer that raises KeyboardInterrupt at the n-th line of the module."""
    left = [n]

    def trace(frame: FrameType, event: str, _arg: Any) -> Any:
        if frame.f_code.co_filename != module.__file__:
            return None
        if event == "line":
            left[0] -= 1
            if left[0] == 0:
                raise KeyboardInterrupt
        return trace

    return trace


def test_an_exception_at_any_line_leaves_nothing_taken() -> None:
    class Lamp:
        """On or off, as much of the process is."""

        on = False

        def acquire(self) -> None:
            lamps.append(self)
            self.on = True

        def give_back(self) -> None:
            self.on = False

    interrupted = 0
    for n in range(1, 2000):
        lamps: list[Lamp] = []
        owner = Owner()
        sys.settrace(raise_at(n))
        try:
            with owner, owner:
                owner.acquire(Lamp())
                owner.acquire(Lamp())
        except KeyboardInterrupt:
            interrupted += 1
        else:
            break
        finally:
            sys.settrace(None)
        assert [lamp.on for lamp in lamps] == [False] * len(lamps), n
        assert owner._taken == [], n
        assert signal.getsignal(signal.SIGINT) is signal.default_int_handler, n
    assert interrupted > 100


class Block:
    """A with-block as a user writes it: `__exit__` waits with signals until `_end`, and always closes."""

    def __init__(self, at: str = "") -> None:
        self.log: list[str] = []
        self._at = at
        self.signals = BlockSignals(leaving=Block.__exit__.__code__, hearing=Block._end.__code__)

    def __enter__(self) -> "Block":  # noqa: PYI034 - Self needs Python 3.11
        self.signals.acquire()
        return self

    def __exit__(self, *_: object) -> None:
        self._pass("before")
        try:
            self._end()
        finally:
            self._pass("closing")
            self.signals.give_back()

    def _end(self) -> None:
        self.signals.hear()
        self._pass("end")
        shielded(lambda: self._pass("shielded"))

    def _pass(self, where: str) -> None:
        if where == self._at:
            interrupt()
        self.log.append(where)


@pytest.mark.parametrize(
    ("at", "passed"),
    [
        ("before", ["before", "closing"]),
        ("end", ["before", "closing"]),
        ("shielded", ["before", "end", "shielded", "closing"]),
        ("closing", ["before", "end", "shielded", "closing"]),
    ],
)
def test_a_signal_at_the_end_of_a_block_strikes_where_the_block_can_act(at: str, passed: list[str]) -> None:
    block = Block(at)
    with pytest.raises(KeyboardInterrupt), block:
        pass
    assert block.log == passed


def test_a_signal_in_a_block_strikes_at_once() -> None:
    block = Block()

    def work() -> None:
        with block:
            shielded(lambda: None)  # leaves the stand-ins of the block alone
            interrupt()
            block.log.append("went on")

    with pytest.raises(KeyboardInterrupt):
        work()
    assert block.log == ["before", "end", "shielded", "closing"]


def test_a_second_signal_after_that_waits_like_the_first() -> None:
    block = Block("before")
    with pytest.raises(KeyboardInterrupt) as caught, block:
        interrupt()
    assert block.log == ["before", "closing"]
    assert isinstance(caught.value.__context__, KeyboardInterrupt)


def test_blocks_within_blocks_put_back_what_was_before_each() -> None:
    outer, inner = Block(), Block("before")
    with outer:
        standing = signal.getsignal(signal.SIGINT)
        with pytest.raises(KeyboardInterrupt), inner:
            pass
        assert signal.getsignal(signal.SIGINT) == standing
    assert inner.log == ["before", "closing"]
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler


def test_a_block_entered_twice_hears_each_signal_once() -> None:
    block = Block()
    with block, pytest.raises(KeyboardInterrupt), block:
        interrupt()
    with pytest.raises(KeyboardInterrupt), block:
        interrupt()
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler


def test_a_block_that_is_never_left_hands_every_signal_on() -> None:
    block = Block().__enter__()
    with pytest.raises(KeyboardInterrupt):
        interrupt()
    block.signals.give_back()


@pytest.mark.parametrize("order", [(0, 1, 2), (1, 0, 2)])
def test_blocks_of_tasks_that_end_in_any_order_leave_no_stand_in(order: tuple[int, ...]) -> None:
    before = signal.getsignal(signal.SIGINT)
    blocks = [Block().__enter__() for _ in order]
    for n in order:
        blocks[n].__exit__()
        if n != order[-1]:
            with pytest.raises(KeyboardInterrupt):
                interrupt()
    assert signal.getsignal(signal.SIGINT) is before


def test_an_interrupt_cancels_the_task_that_awaits_inside_a_block() -> None:
    """What asyncio.run does with an interrupt since Python 3.11; before, it strikes wherever the loop is."""
    block = Block()

    async def work() -> None:
        with block:
            asyncio.get_running_loop().call_later(0.01, interrupt)
            await asyncio.sleep(60)

    with pytest.raises(KeyboardInterrupt):
        asyncio.run(work())
    assert block.log == ["before", "end", "shielded", "closing"]
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler
