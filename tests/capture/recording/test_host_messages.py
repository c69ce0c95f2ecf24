"""What the profiler's rows of host tensors are called, by what the process group knows of them."""

from __future__ import annotations

from dataclasses import replace

from perfmagic.analysis.ranks.host_as_device import host_as_device
from perfmagic.capture.devices.groups.host_log import HostLog
from perfmagic.capture.devices.groups.standing import Took
from perfmagic.capture.recording.host_messages import with_partners
from perfmagic.trace.model import Trace
from tests.analysis.build import US, Builder

BASE_NS, OFFSET_NS = 10**18, 10**18 - 500 * US  # a clock that is 500 µs ahead of the trace's


def took(group: str, start_us: int, end_us: int, *, ranks: tuple[int, ...] = (0, 1)) -> Took:
    at = (500 + start_us) * US, (500 + end_us) * US
    return Took(group, ranks, "allreduce", "all_reduce", 1, 4, None, False, "", 0, *at)


def recorded(*rows: tuple[int, int]) -> Trace:
    b = Builder()
    for start, end in rows:
        b.host_op(start, end, "gloo:all_reduce", thread=9)
    trace = b.trace(devices=(), rank=0, world_size=2)
    return replace(trace, meta=replace(trace.meta, base_unix_ns=BASE_NS))


def named(trace: Trace, *called: Took) -> list[str]:
    found = with_partners(trace, called, HostLog.row_name, OFFSET_NS)
    return [found.names[i] for i in found.host_ops.name.tolist()]


def test_a_collective_of_another_group_than_the_first_has_the_group_in_its_name() -> None:
    trace = recorded((10, 90), (12, 40))  # the one that began last ended first
    assert named(trace, took("0", 1, 91), took("7", 2, 41)) == [
        "gloo:all_reduce",
        "gloo:all_reduce in group 7 of ranks 0, 1",
    ]
    assert named(trace, took("7", 1, 91, ranks=(0, 3)), took("0", 2, 41)) == [
        "gloo:all_reduce in group 7 of ranks 0, 3",
        "gloo:all_reduce",
    ]


def test_an_operation_that_was_given_up_says_so_and_is_no_communication() -> None:
    trace = recorded((10, 40), (50, 90))
    given_up = replace(took("0", 42, 91), given_up=True)
    assert named(trace, took("0", 1, 41), given_up) == ["gloo:all_reduce", "gloo:all_reduce, given up"]
    found = with_partners(trace, (took("0", 1, 41), given_up), HostLog.row_name, OFFSET_NS)
    ops = host_as_device(found).ops
    assert [(int(a), int(b)) for a, b in zip(ops.start_ns, ops.end_ns, strict=True)] == [(10 * US, 40 * US)]


def test_rows_that_cannot_be_told_apart_keep_their_name() -> None:
    trace = recorded((10, 90), (12, 40))
    plain = ["gloo:all_reduce"] * 2
    assert named(trace, took("7", 1, 91)) == plain  # another number of them
    assert named(trace, took("0", 1, 91), took("7", 2, 41 + 30_000)) == plain  # another time
    assert named(trace, took("0", 1, 91), took("0", 2, 41)) == plain
