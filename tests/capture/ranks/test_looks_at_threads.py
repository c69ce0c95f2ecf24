"""Looking at what a rank's threads do changes nothing in what they do."""

import threading
from typing import Any

import pytest

torch = pytest.importorskip("torch", reason="the simulated device needs torch")

import perfmagic  # noqa: E402 - after the skip
from perfmagic.capture.ranks.service import Service  # noqa: E402


def test_gradients_are_not_copied_because_somebody_looks() -> None:
    stop, service = threading.Event(), Service(None)  # type: ignore[arg-type]  # nothing is sent
    device = perfmagic.device("sim", clock="virtual")
    model = torch.nn.Sequential(*(torch.nn.Conv2d(8, 8, 3, padding=1) for _ in range(10))).to(device)

    def op_ends() -> Any:
        model.zero_grad()
        with perfmagic.timeline() as timeline:
            model(torch.ones(8, 8, 24, 24, device=device)).sum().backward()
        result: Any = timeline.result
        return result.trace.ops.end_ns.tolist()

    def look() -> None:
        while not stop.is_set():
            service.where()

    alone = op_ends()
    looks = [threading.Thread(target=look) for _ in range(2)]
    for each in looks:
        each.start()
    try:
        assert all(op_ends() == alone for _ in range(10))
    finally:
        stop.set()
        perfmagic.device("sim", clock="real")
        for each in looks:
            each.join()
