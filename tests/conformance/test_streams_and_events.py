"""Streams, events, the queue between host and device."""

import threading

import pytest

pytestmark = pytest.mark.slow


torch = pytest.importorskip("torch", reason="devices are reached through torch")


def test_ops_of_one_stream_run_in_order(device_module, device, hold) -> None:
    a = torch.zeros(4, device=device)
    release = hold()
    a.add_(1)
    a.mul_(10)
    a.add_(2)
    release()
    assert a.tolist() == [12, 12, 12, 12]


def test_a_launch_returns_before_its_op_has_run(device_module, device, hold) -> None:
    a = torch.zeros(4, device=device)
    done = device_module.Event()
    release = hold()
    a.add_(1)
    done.record()
    assert not done.query()
    assert not device_module.current_stream().query()
    release()
    done.synchronize()
    assert done.query()
    assert device_module.current_stream().query()


def test_streams_do_not_wait_for_each_other(device_module, device, hold) -> None:
    a = torch.zeros(4, device=device)
    first, second = device_module.Stream(), device_module.Stream()
    device_module.synchronize()
    with device_module.stream(first):
        release = hold()
    with device_module.stream(second):
        a.add_(1)
    second.synchronize()
    assert second.query()
    assert not first.query()
    release()
    first.synchronize()
    assert a.tolist() == [1, 1, 1, 1]


def test_a_stream_waits_for_another_only_when_told_to(device_module, device, hold) -> None:
    a = torch.zeros(4, device=device)
    first, second = device_module.Stream(), device_module.Stream()
    device_module.synchronize()
    with device_module.stream(first):
        release = hold()
        a.add_(1)
    second.wait_stream(first)
    with device_module.stream(second):
        a.mul_(5)
    assert not second.query()
    release()
    second.synchronize()
    assert a.tolist() == [5, 5, 5, 5]


def test_an_event_holds_up_only_what_comes_after_the_wait(device_module, device, hold) -> None:
    before, after = device_module.Event(), device_module.Event()
    first, second = device_module.Stream(), device_module.Stream()
    with device_module.stream(first):
        release = hold()
        mark = first.record_event()
    before.record(second)
    second.wait_event(mark)
    after.record(second)
    before.synchronize()
    assert not after.query()
    release()
    after.synchronize()
    assert mark.query()


def test_an_event_means_the_moment_it_was_recorded(device_module, device, hold) -> None:
    mark = device_module.Event()
    mark.record()
    release = hold()
    mark.synchronize()
    assert not device_module.current_stream().query()
    release()


def test_an_event_that_was_never_recorded_blocks_nothing(device_module) -> None:
    mark = device_module.Event()
    assert mark.query()
    mark.wait()
    mark.synchronize()
    device_module.synchronize()


def test_events_measure_a_known_sleep(device_module, sleep) -> None:
    first, last = (device_module.Event(enable_timing=True) for _ in range(2))
    first.record()
    sleep(0.05)
    last.record()
    last.synchronize()
    assert 45 < first.elapsed_time(last) < 5000


def test_events_without_timing_measure_nothing(device_module) -> None:
    first, last = device_module.Event(), device_module.Event()
    first.record()
    last.record()
    last.synchronize()
    with pytest.raises((RuntimeError, ValueError)):
        first.elapsed_time(last)


def test_a_with_block_gives_the_stream_back(device_module) -> None:
    outer, inner = device_module.Stream(), device_module.Stream()
    default = device_module.default_stream()
    assert device_module.current_stream() == default
    with device_module.stream(outer):
        with device_module.stream(inner):
            assert device_module.current_stream() == inner
        with device_module.stream(None):
            assert device_module.current_stream() == outer
    assert device_module.current_stream() == default


def test_a_stream_stays_set_until_another_is(device_module) -> None:
    side = device_module.Stream()
    device_module.set_stream(side)
    assert device_module.current_stream() == side
    device_module.set_stream(device_module.default_stream())
    assert device_module.current_stream() == device_module.default_stream()


def test_each_thread_has_its_own_current_stream_and_device(device_module) -> None:
    side = device_module.Stream()
    seen: list[object] = []
    last = device_module.device_count() - 1

    def look() -> None:
        seen.extend((device_module.current_stream() == device_module.default_stream(), device_module.current_device()))
        device_module.set_device(last)

    with device_module.stream(side):
        other = threading.Thread(target=look)
        other.start()
        other.join()
        assert device_module.current_stream() == side
    assert seen == [True, 0]
    assert device_module.current_device() == 0


def test_a_stream_of_another_device_brings_its_device_and_gives_back_both(two_devices, device_module) -> None:
    far = device_module.Stream(device=two_devices[1])
    with device_module.stream(far):
        assert device_module.current_device() == 1
        assert device_module.current_stream() == far
    assert device_module.current_device() == 0
    assert device_module.current_stream(1) == device_module.default_stream(1)


def test_a_with_block_on_a_device_is_where_tensors_are_made(two_devices, device_module, kind) -> None:
    with device_module.device(1):
        assert device_module.current_device() == 1
        assert torch.zeros(2, device=kind).device == two_devices[1]
    assert torch.zeros(2, device=kind).device == two_devices[0]


def test_streams_of_two_devices_wait_for_each_other(two_devices, device_module, hold) -> None:
    near, far = (device_module.current_stream(d) for d in two_devices)
    release = hold()
    far.wait_stream(near)
    assert not far.query()
    release()
    far.synchronize()
    assert near.query()


def test_the_host_blocks_when_more_is_queued_than_the_queue_takes(device_module, device, sleep) -> None:
    a = torch.zeros(4, device=device)
    a.add_(1)
    device_module.synchronize()
    slept = device_module.Event()
    sleep(2.0)
    slept.record()
    for _ in range(100):
        a.add_(1)
    assert not slept.query()
    for _ in range(5000):
        a.add_(1)
    assert slept.query()
    assert a[0].item() == 5101


@pytest.mark.parametrize(
    "read", [lambda a: a[0].item(), lambda a: a.cpu()[0], lambda a: a.tolist()[0], lambda a: float(a[0])]
)
def test_reading_a_value_waits_for_it(device_module, device, sleep, read) -> None:
    a = torch.zeros(4, device=device)
    sleep(0.02)
    a.add_(3)
    assert read(a) == 3


def test_a_condition_waits_for_its_value(device_module, device, sleep) -> None:
    a = torch.zeros(1, device=device)
    sleep(0.02)
    a.add_(3)
    assert a > 2
    assert int(a) == 3


def test_a_result_whose_size_depends_on_values_waits(device_module, device, sleep) -> None:
    a = torch.arange(4, device=device)
    sleep(0.02)
    assert a[a > 1].tolist() == [2, 3]
    assert torch.nonzero(a).shape == (3, 1)


def test_backward_runs_on_the_stream_of_the_forward_pass(device_module, device, hold) -> None:
    w = torch.ones(3, device=device, requires_grad=True)
    side = device_module.Stream()
    device_module.synchronize()
    with device_module.stream(side):
        loss = (w * 2).sum()
        release = hold()
        loss.backward()
        assert not side.query()
    release()
    device_module.current_stream().wait_stream(side)
    assert w.grad.tolist() == [2, 2, 2]


def test_backward_waits_for_nothing_it_does_not_need(device_module, device, hold) -> None:
    w = torch.ones(3, device=device, requires_grad=True)
    loss = (w * 2).sum()
    device_module.synchronize()
    with device_module.stream(device_module.Stream()):
        release = hold()
    loss.backward()
    assert w.grad.tolist() == [2, 2, 2]
    release()
