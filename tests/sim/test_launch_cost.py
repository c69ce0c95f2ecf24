"""What a launch costs the host, as calls into Python: a count, so that no machine's speed decides."""

import sys
from collections.abc import Callable
from pathlib import Path
from types import FrameType
from typing import Any

import pytest

torch = pytest.importorskip("torch", reason="the simulated device needs torch")

import perfmagic  # noqa: E402 - after the skip

OURS = str(Path(perfmagic.__file__).parent)
# benchmarks/graph.py measures such ops in time ("plain"); with one or two calls more than there are now
OPS: dict[str, tuple[int, Callable[[Any], Any]]] = {
    "x + y": (44, lambda x: x + x),
    "x.relu_()": (46, lambda x: x.relu_()),
    "x.view(-1)": (21, lambda x: x.view(-1)),
    "empty_like(x)": (29, torch.empty_like),
}


@pytest.mark.parametrize("name", OPS)
def test_a_launch_takes_few_calls_into_python(name: str) -> None:
    most, op = OPS[name]
    x = torch.ones(8, 8, device="sim")
    for _ in range(2):  # what is decided once for an operator and a shape
        op(x)
    torch.sim.synchronize()
    calls: list[str] = []

    def note(frame: FrameType, event: str, _: object) -> None:
        if event == "call" and frame.f_code.co_filename.startswith(OURS):
            calls.append(frame.f_code.co_name)

    before = sys.getprofile()
    sys.setprofile(note)
    try:
        op(x)
    finally:
        sys.setprofile(before)
    assert calls[0] == "__torch_dispatch__"
    assert len(calls) <= most, calls
