"""Which devices are waited for: an accelerator beside the simulated device, and neither where it is not in use."""

import subprocess
import sys
from types import SimpleNamespace
from typing import Any

import pytest

torch = pytest.importorskip("torch", reason="backends are those of torch")

import perfmagic  # noqa: E402 - after the skip
from perfmagic.capture.devices import backends  # noqa: E402
from perfmagic.capture.devices.backends import AcceleratorBackend  # noqa: E402

# An accelerator as torch has it: torch.accelerator means it until there is a PrivateUse1 device, which goes before it.
BESIDE_SIM = """
import torch, perfmagic

waited = []
torch.xpu.is_initialized, torch.xpu.device_count, torch.xpu.synchronize = lambda: STARTED, lambda: 2, waited.append
def current():
    mine = torch._C._get_privateuse1_backend_name() == "sim"
    return torch.device("sim" if mine else "xpu")
torch.accelerator.current_accelerator = current
torch.accelerator.is_available = lambda: True

device = perfmagic.device()
assert device.type == "sim" and current().type == "sim"
torch.ones(2, device=device)
perfmagic.synchronize()
print(waited)
perfmagic.synchronize("xpu:1")
print(waited)
with perfmagic.Benchmark():
    torch.ones(2, device=device)
print(waited)
"""


@pytest.mark.slow
@pytest.mark.parametrize(
    ("started", "waits"), [(True, [[0, 1], [0, 1, 1], [0, 1, 1, 0, 1, 0, 1]]), (False, [[], [], []])]
)
def test_an_accelerator_in_use_is_waited_for_beside_the_simulated_device(
    *, started: bool, waits: list[list[int]]
) -> None:
    source = BESIDE_SIM.replace("STARTED", str(started))
    run = subprocess.run([sys.executable, "-c", source], capture_output=True, text=True, timeout=100, check=False)
    assert run.returncode == 0, run.stderr
    said = run.stdout.splitlines()
    assert [said[0], said[1], said[-1]] == [str(wait) for wait in waits]


class Torch:
    """As much of torch as an accelerator's backend asks for."""

    def __init__(self, **module: Any) -> None:
        self.module = SimpleNamespace(**module)

    def get_device_module(self, _kind: str) -> Any:
        return self.module


def test_metal_is_waited_for_as_soon_as_torch_has_allocated_there() -> None:
    waited: list[str] = []
    held = [393_216]  # what Metal allocates without any tensor
    torch = Torch(driver_allocated_memory=lambda: held[0], synchronize=lambda: waited.append("all"))
    backend = AcceleratorBackend(torch, "mps")
    assert not backend.in_use()
    held[0] = 8 << 20
    assert backend.in_use()
    backend.synchronize()
    backend.synchronize(0)
    assert waited == ["all", "all"]


def test_an_accelerator_that_does_not_tell_is_taken_to_be_in_use() -> None:
    assert AcceleratorBackend(Torch(), "new").in_use()


def test_an_accelerator_is_waited_for_and_reports_nothing_else() -> None:
    backend = AcceleratorBackend(Torch(is_initialized=lambda: True), "xpu")
    assert (backend.progress(), backend.memory_bytes(), backend.has_events()) == (None, None, False)
    assert not backend.occupy(1e-3)
    assert [info.label for info in backend.infos()] == ["xpu"]
    with pytest.raises(RuntimeError, match="no timing events on xpu"):
        backend.event()


def test_a_kind_that_is_added_is_a_device_of_its_own_and_has_no_virtual_clock(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(perfmagic.PerfmagicError):
        perfmagic.device("meta")
    monkeypatch.setattr(backends, "_KINDS", (*backends._KINDS, "meta"))
    assert perfmagic.device("meta") == torch.device("meta")
    with pytest.raises(perfmagic.PerfmagicError, match="meta has no virtual clock"):
        perfmagic.device("meta", clock="virtual")


def test_a_device_is_found_by_its_row(monkeypatch: pytest.MonkeyPatch) -> None:
    new = AcceleratorBackend(Torch(is_initialized=lambda: True), "new")
    monkeypatch.setattr(backends, "FINDERS", (*backends.FINDERS, lambda _torch: new, lambda _torch: None))
    assert backends.active_backends()[-1] is new
