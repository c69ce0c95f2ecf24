"""What torch does not promise, and what is made of it."""

import subprocess
import sys
import time
from types import FrameType
from typing import Any

import pytest

torch = pytest.importorskip("torch", reason="these are names of torch")

from perfmagic.sim import device, torch_private  # noqa: E402 - after the skip


def test_an_interrupt_that_strikes_where_torch_can_take_none_is_sent_again() -> None:
    guard = torch_private._make_guard()
    left = [2]  # lines of the guard's method: the try, and what it tries

    def trace(frame: FrameType, event: str, _arg: Any) -> Any:
        if frame.f_code.co_name != "type_":
            return None
        left[0] -= event == "line"
        if event == "line" and left[0] == 0:
            raise KeyboardInterrupt
        return trace

    with pytest.raises(KeyboardInterrupt):  # it comes a moment later, which may be at once
        traced_and_awaited(kinds := [], guard, trace)
    assert kinds in ([torch._C._autograd.DeviceType.PrivateUse1], [])  # none where it struck before the append
    assert torch_private.lost_error() is None


def traced_and_awaited(kinds: list[Any], guard: Any, trace: Any) -> None:
    before = sys.gettrace()
    sys.settrace(trace)
    try:
        kinds.append(guard.type_())
    finally:
        sys.settrace(before)
    wait()


def wait() -> None:
    for _ in range(1000):
        time.sleep(0.01)


@pytest.mark.slow
def test_a_device_that_is_loaded_after_a_backward_pass_says_what_to_do() -> None:
    source = """
import torch, perfmagic
torch.ones(1, requires_grad=True).backward()
device = perfmagic.device("sim")
try:
    torch.ones(1, device=device, requires_grad=True).backward()
except perfmagic.base.errors.DeviceError as error:
    print(error)
"""
    said = subprocess.run(
        [sys.executable, "-c", source], capture_output=True, text=True, check=True, timeout=100
    ).stdout
    assert "counts devices once" in said
    assert "before the first backward pass" in said


def test_data_parallel_counts_the_devices_again_when_there_are_more(monkeypatch: pytest.MonkeyPatch) -> None:
    from torch.nn.parallel import _functions

    monkeypatch.setattr(_functions, "_streams", [None])  # as after a scatter to one device
    monkeypatch.setattr(device, "_devices", {0: device.sim_device(0)})
    monkeypatch.setattr(device.LOG, "memories", device.LOG.memories[:1])
    device.make_devices(2)
    assert _functions._streams is None
