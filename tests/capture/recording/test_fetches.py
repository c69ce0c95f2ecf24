"""Batches that a DataLoader fetched, in the simulated device's record."""

import time
from collections.abc import Iterator

import pytest

torch = pytest.importorskip("torch", reason="the simulated device needs torch")
from torch.utils.data import DataLoader, Dataset  # noqa: E402 - after the skip

import perfmagic  # noqa: E402
from perfmagic.trace.names import fetches  # noqa: E402


class Pictures(Dataset):  # type: ignore[type-arg, misc, unused-ignore]
    def __len__(self) -> int:
        return 6

    def __getitem__(self, i: int) -> object:
        time.sleep(2e-3)
        return torch.ones(64, 64)


@pytest.fixture
def _virtual() -> Iterator[None]:
    perfmagic.device("sim", clock="virtual", pace="matmul=1ms")
    yield
    perfmagic.device("sim", clock="real", pace="")


@pytest.mark.usefixtures("_virtual")
def test_a_record_of_the_simulated_device_names_the_loader_that_it_waited_for() -> None:
    marks = torch.autograd.profiler.record_function
    before = (marks.__enter__, marks.__exit__)
    with perfmagic.timeline() as timeline:
        for batch in DataLoader(Pictures(), batch_size=2):
            image = batch[0].to("sim")
            image @ image
    found = fetches(timeline.result.trace)
    assert (found.end_ns - found.start_ns).tolist() == [4_000_000] * 3  # two pictures each, and none after the last
    assert "Set DataLoader(…, num_workers=…)" in timeline.result.text()
    assert (marks.__enter__, marks.__exit__) == before
