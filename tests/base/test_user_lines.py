"""Where the code of a thread is, read without touching what it does."""

import gc
import threading
import weakref
from typing import Any

import pytest

from perfmagic.base.user_lines import stack_of

DEPTH = 200


class Value:
    """Something that a weak reference can follow."""


@pytest.mark.parametrize("left", [100, 300])
def test_a_function_that_returns_during_a_garbage_collection_keeps_nothing(left: int) -> None:
    ready, returns, checked = threading.Event(), threading.Event(), threading.Event()
    kept: list[bool] = []

    def wait(depth: int) -> weakref.ref[Value]:
        value = Value()
        if depth:
            wait(depth - 1)
        else:
            ready.set()
            returns.wait(10)
        return weakref.ref(value)

    def run() -> None:
        kept.append(wait(DEPTH)() is not None)
        checked.set()

    def let_it_return(phase: str, info: dict[str, int]) -> None:
        if threading.current_thread() is threading.main_thread():
            returns.set()
            checked.wait(10)

    thread = threading.Thread(target=run)
    thread.start()
    ready.wait(10)
    containers: list[Any] = []
    gc.callbacks.append(let_it_return)
    try:
        while gc.get_count()[0] < gc.get_threshold()[0] - left:  # the frames of the thread exceed the threshold
            containers.append([])
        stack_of(thread.ident)
    finally:
        gc.callbacks.remove(let_it_return)
        returns.set()
        thread.join()
    assert kept == [False]
