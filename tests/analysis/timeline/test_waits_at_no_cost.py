"""A wait costs nothing where the device is busy all along, and nothing comes after."""

import pytest

from perfmagic.analysis.timeline.activity import at_no_cost
from tests.analysis.build import queued


@pytest.mark.parametrize(
    ("first_start_us", "later", "end_us", "free"),
    [
        (10, False, 1005, True),
        (10, True, 1225, False),  # the device waits until Python queues again
        (110, False, 1005, False),  # the device was idle during a tenth of the wait
        (10, False, 1200, False),  # Python works on, and could have done that meanwhile
    ],
)
def test_a_last_wait_for_a_busy_device_costs_nothing(first_start_us: int, later: bool, end_us: int, free: bool) -> None:
    build = queued((first_start_us, 1000, 5))
    build.sync(8, 1001)
    if later:
        build.op(1020, 1220, launch=1010)
    assert at_no_cost(build.trace(end=end_us, returned=end_us)).tolist() == [free]
    assert at_no_cost(build.trace(end=end_us)).tolist() == [False]  # of a file nobody knows what follows
