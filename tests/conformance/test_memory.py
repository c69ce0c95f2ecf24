"""What counts as allocated and as reserved, and when."""

import gc

import pytest

pytestmark = pytest.mark.slow

torch = pytest.importorskip("torch", reason="devices are reached through torch")

MIB = 2**20


@pytest.fixture(autouse=True)
def _clean(device_module) -> None:
    gc.collect()
    device_module.synchronize()
    device_module.empty_cache()
    device_module.reset_peak_memory_stats()


def test_sizes_are_rounded_up_to_512_bytes(device_module, device) -> None:
    before = device_module.memory_allocated()
    sizes = []
    kept = []
    for n_bytes in (1, 512, 513, 4000):
        kept.append(torch.empty(n_bytes, dtype=torch.uint8, device=device))
        sizes.append(device_module.memory_allocated() - before)
        before = device_module.memory_allocated()
    assert sizes == [512, 512, 1024, 4096]


def test_memory_counts_when_the_op_is_queued_and_goes_back_before_it_has_run(device_module, device, hold) -> None:
    a = torch.zeros(MIB, dtype=torch.uint8, device=device)
    device_module.synchronize()
    before = device_module.memory_allocated()
    release = hold()
    b = a + 1
    assert device_module.memory_allocated() - before == MIB
    del b
    assert device_module.memory_allocated() == before
    assert not device_module.current_stream().query()
    release()


def test_a_view_keeps_all_of_the_memory(device_module, device) -> None:
    before = device_module.memory_allocated()
    a = torch.zeros(MIB, dtype=torch.uint8, device=device)
    part = a[:4]
    del a
    assert device_module.memory_allocated() - before == MIB
    del part
    assert device_module.memory_allocated() == before


def test_results_that_are_kept_add_up(device_module, device) -> None:
    a = torch.zeros(MIB, dtype=torch.uint8, device=device)
    before = device_module.memory_allocated()
    kept = [a + 1 for _ in range(5)]
    assert device_module.memory_allocated() - before == 5 * MIB
    assert len(kept) == 5


def test_an_op_in_place_takes_no_memory(device_module, device) -> None:
    a = torch.zeros(MIB, dtype=torch.uint8, device=device)
    before = device_module.memory_allocated()
    a.add_(1)
    assert device_module.memory_allocated() == before


def test_what_backward_keeps_goes_when_it_has_run(device_module, device) -> None:
    w = torch.ones(MIB // 4, device=device, requires_grad=True)
    before = device_module.memory_allocated()
    loss = w.exp().sum()
    assert device_module.memory_allocated() - before == MIB + 512
    loss.backward()
    del loss
    w.grad = None
    assert device_module.memory_allocated() == before


def test_the_peak_stays_until_it_is_reset(device_module, device) -> None:
    before = device_module.memory_allocated()
    a = torch.empty(4 * MIB, dtype=torch.uint8, device=device)
    del a
    assert device_module.memory_allocated() == before
    assert device_module.max_memory_allocated() - before == 4 * MIB
    device_module.reset_peak_memory_stats()
    assert device_module.max_memory_allocated() == before


def test_freed_memory_is_kept_for_the_same_stream_alone(device_module, device) -> None:
    before = device_module.memory_reserved()
    torch.empty(32 * MIB, dtype=torch.uint8, device=device)
    assert device_module.memory_reserved() - before == 32 * MIB
    torch.empty(32 * MIB, dtype=torch.uint8, device=device)
    assert device_module.memory_reserved() - before == 32 * MIB
    with device_module.stream(device_module.Stream()):
        torch.empty(32 * MIB, dtype=torch.uint8, device=device)
    assert device_module.memory_reserved() - before == 64 * MIB
    device_module.synchronize()
    device_module.empty_cache()
    assert device_module.memory_reserved() == before


def test_reserved_is_never_less_than_allocated(device_module, device) -> None:
    kept = []
    for size in (1, 1000, MIB, 3 * MIB, 11 * MIB):
        kept.append(torch.empty(size, dtype=torch.uint8, device=device))
        assert device_module.memory_reserved() >= device_module.memory_allocated()
    assert device_module.max_memory_reserved() >= device_module.max_memory_allocated()


def test_small_tensors_share_segments_of_2_mib_and_larger_ones_of_20(device_module, device) -> None:
    with device_module.stream(device_module.Stream()):
        before = device_module.memory_reserved()
        kept = [torch.empty(1000, device=device) for _ in range(4)]
        small = device_module.memory_reserved() - before
        kept.append(torch.empty(2 * MIB, dtype=torch.uint8, device=device))
        assert (small, device_module.memory_reserved() - before) in ((2 * MIB, 22 * MIB), (0, 20 * MIB))
    assert len(kept) == 5


def test_each_device_counts_its_own(two_devices, device_module) -> None:
    before = [device_module.memory_allocated(i) for i in range(2)]
    a = torch.empty(MIB, dtype=torch.uint8, device=two_devices[0])
    b = a.to(two_devices[1])
    assert [device_module.memory_allocated(i) - before[i] for i in range(2)] == [MIB, MIB]
    assert b.shape == a.shape
