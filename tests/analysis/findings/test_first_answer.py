"""What the recorded run of a benchmark asks for."""

import pytest

from perfmagic.analysis.findings.answers import first_answer
from perfmagic.analysis.findings.catalogue import action
from perfmagic.trace.model import DeviceInfo, Trace
from tests.analysis.build import Builder


def launched_late(n: int, operator_us: float) -> Trace:
    """n ops of 2 µs, one every 50 µs, each queued by an operator of some time."""
    build = Builder()
    for i in range(n):
        start = 50.0 * i
        build.host_op(start, start + operator_us, "aten::add")
        build.op(start + operator_us, start + operator_us + 2, launch=start + operator_us - 2)
    return build.trace(returned=50.0 * n, end=50.0 * n + 5, devices=(DeviceInfo(0, "sim", "simulated device"),))


@pytest.mark.parametrize(
    ("n", "operator_us", "asked"),
    [(20, 40, "fewer_larger"), (20, 10, "see_lines"), (3, 40, "see_lines")],
)
def test_fewer_ops_are_asked_for_where_launching_many_takes_most_of_the_time(
    n: int, operator_us: float, asked: str
) -> None:
    found = first_answer(launched_late(n, operator_us), "host-bound")
    assert found is not None
    assert found.action == action(asked)
