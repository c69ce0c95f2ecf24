"""Blocking calls during which a device is busy."""

import pytest

from perfmagic.analysis.timeline.activity import beside_work
from tests.analysis.build import queued


@pytest.mark.parametrize(
    ("first_start_us", "later", "beside"),
    [
        (10, False, True),
        (10, True, True),  # that the device waits afterwards is its idle time
        (110, False, False),  # the device was idle during a tenth of the wait
    ],
)
def test_a_wait_for_a_busy_device_is_beside_its_work(first_start_us: int, later: bool, beside: bool) -> None:
    build = queued((first_start_us, 1000, 5))
    build.sync(8, 1001)
    if later:
        build.op(1020, 1220, launch=1010)
    assert beside_work(build.trace(end=1300)).tolist() == [beside]
