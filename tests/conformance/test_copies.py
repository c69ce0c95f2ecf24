"""Copies between host and device and between devices: when they run, and what arrives."""

import pytest

torch = pytest.importorskip("torch", reason="devices are reached through torch")


@pytest.mark.parametrize(("pinned", "arrives"), [(False, 64), (True, 0)])
def test_only_pinned_memory_is_read_when_the_copy_runs(device, hold, late, pinned: bool, arrives: int) -> None:
    host = torch.ones(64).pin_memory() if pinned else torch.ones(64)
    there = torch.empty(64, device=device)
    release = hold()
    there.copy_(host, non_blocking=True)
    host.zero_()
    release()
    assert there.sum().item() == (arrives if late else 64)


def test_a_copy_to_the_device_without_non_blocking_waits(device_module, device, hold, sleep) -> None:
    sleep(0.05)
    there = torch.ones(64).pin_memory().to(device)
    assert device_module.current_stream().query()
    assert there.sum().item() == 64


def test_a_copy_into_pinned_memory_returns_first_and_is_filled_later(device_module, device, hold, late) -> None:
    a = torch.full((64,), 3.0, device=device)
    target = torch.zeros(64).pin_memory()
    device_module.synchronize()
    release = hold()
    target.copy_(a, non_blocking=True)
    assert not device_module.current_stream().query()
    assert target.sum().item() == (0 if late else 192)
    release()
    device_module.synchronize()
    assert target.sum().item() == 192


def test_to_the_host_without_blocking_gives_pinned_memory(device_module, device, hold) -> None:
    a = torch.full((64,), 3.0, device=device)
    device_module.synchronize()
    release = hold()
    there = a.to("cpu", non_blocking=True)
    assert not device_module.current_stream().query()
    assert there.is_pinned()
    release()
    device_module.synchronize()
    assert there.sum().item() == 192


def test_a_copy_into_pageable_memory_waits_whatever_is_asked(device_module, device, sleep) -> None:
    a = torch.zeros(64, device=device)
    sleep(0.05)
    a.add_(2)
    target = torch.zeros(64)
    target.copy_(a, non_blocking=True)
    assert target.sum().item() == 128


def test_pinning_copies_and_marks_the_copy_and_its_views(device_module) -> None:
    plain = torch.arange(8.0).view(4, 2)
    pinned = plain.pin_memory()
    assert (plain.is_pinned(), pinned.is_pinned(), pinned[1].is_pinned()) == (False, True, True)
    assert torch.equal(plain, pinned)


LAYOUTS = {
    "plain": lambda: torch.arange(24.0).view(2, 3, 4),
    "turned": lambda: torch.arange(24.0).view(2, 3, 4).permute(2, 0, 1),
    "channels last": lambda: torch.arange(24.0).view(1, 2, 3, 4).contiguous(memory_format=torch.channels_last),
    "every other": lambda: torch.arange(24.0)[::2],
    "expanded": lambda: torch.arange(3.0)[:, None].expand(3, 4),
    "empty": lambda: torch.empty(0, 3),
    "scalar": lambda: torch.tensor(5.0),
}


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("dtype", [torch.float32, torch.float16, torch.int64, torch.bool, torch.complex64])
def test_a_tensor_comes_back_as_it_went(device_module, device, layout, dtype) -> None:
    host = LAYOUTS[layout]().to(dtype)
    there = host.to(device)
    back = there.cpu()
    assert (there.dtype, there.shape, there.device) == (host.dtype, host.shape, device)
    assert torch.equal(back, host)
    assert there.stride() == back.stride() == host.to("cpu", copy=True).stride()


@pytest.mark.parametrize("layout", LAYOUTS)
def test_a_tensor_arrives_at_another_device_as_it_went(two_devices, device_module, layout) -> None:
    near, far = two_devices
    host = LAYOUTS[layout]()
    there = host.to(near).to(far)
    assert (there.device, there.dtype, there.stride()) == (far, host.dtype, host.to("cpu", copy=True).stride())
    assert torch.equal(there.to(near).cpu(), host)


def test_a_copy_between_devices_converts_and_fills_a_part(two_devices, device_module) -> None:
    near, far = two_devices
    source = torch.arange(12, device=near).view(3, 4).t()[1:]
    target = torch.zeros(6, 3, dtype=torch.float16, device=far)
    target[::2].copy_(source)
    assert target[::2].tolist() == [[1, 5, 9], [2, 6, 10], [3, 7, 11]]
    assert target[1::2].sum().item() == 0


def test_a_copy_between_devices_waits_for_both_sides(two_devices, device_module, hold, sleep) -> None:
    near, far = two_devices
    a = torch.zeros(64, device=near)
    device_module.synchronize(0)
    release = hold()
    a.add_(1)
    there = a.to(far, non_blocking=True)
    there.mul_(7)
    release()
    assert there.sum().item() == 448


def test_conversion_and_copy_in_one_call(device_module, device) -> None:
    host = torch.tensor([1.5, -2.5])
    there = host.to(device=device, dtype=torch.float64, copy=True)
    assert (there.dtype, there.device, there.tolist()) == (torch.float64, device, [1.5, -2.5])
    assert there.to(device) is there
    assert there.to(device, copy=True) is not there
    assert there.to(host).dtype == torch.float32
    assert host.to(there).device == device
