"""Looking at what a rank's threads do changes nothing in what they do."""

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest

torch = pytest.importorskip("torch", reason="the simulated device needs torch")

import perfmagic  # noqa: E402 - after the skip
from perfmagic.base.user_lines import running_threads, stack_of  # noqa: E402
from perfmagic.capture.ranks.service import Service  # noqa: E402


@pytest.fixture
def device() -> Iterator[Any]:
    yield perfmagic.device("sim", clock="virtual")
    perfmagic.device("sim", clock="real")


@contextmanager
def looked_at() -> Iterator[None]:
    """Some threads ask all the time where this process stands, as the notebook asks its ranks."""
    stop, service = threading.Event(), Service(None)  # type: ignore[arg-type]  # nothing is sent

    def look() -> None:
        while not stop.is_set():
            service.where()

    threads = [threading.Thread(target=look, daemon=True) for _ in range(2)]
    for thread in threads:
        thread.start()
    yield
    stop.set()
    for thread in threads:
        thread.join()


def recorded(model: Any, images: Any) -> list[tuple[str, int, int]]:
    """Name, begin and end of each op of a backward pass."""
    model.zero_grad()
    loss = model(images).sum()
    with perfmagic.timeline() as timeline:
        loss.backward()
    trace = timeline.result.trace
    names = [trace.names[i] for i in trace.ops.name]
    return list(zip(names, trace.ops.start_ns.tolist(), trace.ops.end_ns.tolist(), strict=True))


def test_gradients_are_not_copied_because_somebody_looks(device: Any) -> None:
    layers = [torch.nn.Conv2d(8, 8, 3, padding=1) for _ in range(10)]
    model = torch.nn.Sequential(*layers).to(device)
    images = torch.ones(8, 8, 24, 24, device=device)
    alone = recorded(model, images)
    with looked_at():
        assert all(recorded(model, images) == alone for _ in range(10))


def test_the_stack_of_a_thread_is_told_innermost_first() -> None:
    begun, stop = threading.Event(), threading.Event()

    def waits() -> None:
        begun.set()
        stop.wait()

    thread = threading.Thread(target=waits)
    thread.start()
    begun.wait()
    names = [place.code.co_name for place in stack_of(thread.ident)]
    assert names.index("waits") < names.index("run") < len(names) - 1
    assert thread.ident in running_threads()
    stop.set()
    thread.join()
    assert stack_of(thread.ident) == []
