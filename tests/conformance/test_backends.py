"""What a backend answers is what `Backend` promises: each one is asked the same, a new one by its row here."""

from collections.abc import Callable, Iterator
from types import SimpleNamespace
from typing import Any

import pytest

torch = pytest.importorskip("torch", reason="backends are those of torch")

# after the skip
from perfmagic.capture.devices.backends import AcceleratorBackend, Backend, CudaBackend, SimBackend  # noqa: E402
from tests.conformance.conftest import load_sim  # noqa: E402


def sim_backend() -> Backend:
    load_sim("real")
    torch.ones(8, device="sim")
    return SimBackend()


def fake_accelerator() -> Backend:
    """An accelerator of two devices that torch would call "fake"."""
    module = SimpleNamespace(is_initialized=lambda: True, device_count=lambda: 2, synchronize=lambda _index: None)
    return AcceleratorBackend(SimpleNamespace(get_device_module=lambda _kind: module), "fake")


def cuda_backend() -> Backend:
    torch.ones(8, device="cuda")
    return CudaBackend(torch)


# by the kind that it gives
BACKENDS: dict[str, Callable[[], Backend]] = {"sim": sim_backend, "fake": fake_accelerator, "cuda": cuda_backend}


@pytest.fixture(params=[pytest.param(kind, marks=[pytest.mark.gpu] * (kind == "cuda")) for kind in BACKENDS])
def backend(request: pytest.FixtureRequest) -> Iterator[Any]:
    made = BACKENDS[request.param]()
    assert made.kind == request.param
    yield made
    made.synchronize()


def test_it_is_in_use_and_names_its_devices(backend: Backend) -> None:
    infos = backend.infos()
    assert backend.in_use()
    assert infos
    assert len({info.index for info in infos}) == len(infos)
    assert all(info.label for info in infos)


def test_one_device_or_all_of_them_can_be_waited_for(backend: Backend) -> None:
    backend.synchronize()
    for info in backend.infos():
        backend.synchronize(info.index)


def test_events_measure_time_or_say_that_there_are_none(backend: Backend) -> None:
    if not backend.has_events():
        with pytest.raises(RuntimeError, match=backend.kind):
            backend.event()
        return
    first, last = backend.event(), backend.event()
    backend.synchronize()
    assert backend.elapsed_ns(first, last) >= 0


def test_being_occupied_queues_work_or_is_refused(backend: Backend) -> None:
    before = backend.progress()
    occupied = backend.occupy(1e-3)
    after = backend.progress()
    if before is not None:
        assert (after > before) == occupied


def test_memory_is_now_and_at_most_or_not_told(backend: Backend) -> None:
    backend.reset_peak_memory()
    memory = backend.memory_bytes()
    if memory is not None:
        now, most = memory
        assert 0 <= now <= most
