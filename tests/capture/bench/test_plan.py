"""How many calls make a sample, and whether the body uses the devices there are."""

import pytest

from perfmagic.capture.bench.device_use import Devices, DeviceUse
from perfmagic.capture.bench.spec import BenchSpec, Plan, SampleSize
from tests.capture.bench.machine import MS, Machine


@pytest.mark.parametrize(
    ("call_s", "size"),
    [
        (3e-6, SampleSize(667, 67)),  # 2 ms, after 0.2 ms of untimed calls
        (1e-3, SampleSize(2, 1)),
        (3e-3, SampleSize(1, 1)),
        (20e-3, SampleSize(1, 0)),  # so long a call does not feel cold caches
        (0.0, SampleSize(200_000, 20_000)),  # no call is shorter than the loop around it
    ],
)
def test_a_sample_of_host_work_is_filled_to_two_milliseconds(call_s: float, size: SampleSize) -> None:
    assert Plan(BenchSpec()).sample_size(call_s, device_works=False) == size


def test_calls_that_were_asked_for_come_without_untimed_ones() -> None:
    assert Plan(BenchSpec(calls=7)).sample_size(1e-6, device_works=False) == SampleSize(7, 0)
    assert Plan(BenchSpec(warmup=0)).sample_size(3e-6, device_works=False) == SampleSize(667, 0)


@pytest.mark.parametrize(
    ("spec", "device_works"),
    [
        (BenchSpec(), True),
        (BenchSpec(calls=9), True),
        (BenchSpec(cold=True), False),
        (BenchSpec(setup_each=int), False),
    ],
)
def test_a_sample_is_one_call_where_something_queues_up_or_comes_in_between(
    spec: BenchSpec, device_works: bool
) -> None:
    plan = Plan(spec)
    assert plan.sample_size(1e-6, device_works=device_works) == SampleSize(1, 0)
    assert not plan.fills_samples(device_works=device_works)


def use_of(machine: Machine) -> DeviceUse:
    use = DeviceUse(Devices(machine.backends))
    use.devices.refresh()
    use.before_first_call()
    return use


def test_launches_of_a_call_are_counted_and_a_body_without_any_leaves_the_device_idle() -> None:
    machine = Machine(started=True)
    machine.progress = lambda _index=None: 3 * machine.runs
    use = use_of(machine)
    machine.body(1 * MS, 1 * MS)
    use.after_first_call()
    assert (use.works, use.idle, use.launches) == (True, False, 3)
    use = use_of(machine)
    use.after_first_call()
    assert (use.works, use.idle, use.launches) == (False, True, 0)
    use.look_again()
    assert not use.works
    machine.body(1 * MS, 1 * MS)  # later it came to the device
    use.look_again()
    assert use.works


def test_a_device_that_does_not_report_what_is_queued_is_assumed_to_work() -> None:
    use = use_of(Machine(started=True))
    use.after_first_call()
    assert (use.works, use.idle, use.launches) == (True, False, None)


def test_without_a_device_none_works_and_none_is_idle() -> None:
    use = use_of(Machine())
    use.after_first_call()
    assert (use.works, use.idle) == (False, False)
