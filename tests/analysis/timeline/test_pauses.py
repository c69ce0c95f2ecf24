"""What a device waits for in its pauses: each cause by a trace that has it, and the partition on any trace."""

import json

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from perfmagic.analysis.findings.facts import cell_time
from perfmagic.analysis.timeline.idle import CAUSES, Causes, idle_causes, idle_gaps, long_calls
from perfmagic.analysis.timeline.overlap import breakdown
from perfmagic.base.numerics.intervals import intersect, merge, total_ns
from perfmagic.trace.columns import CallKind
from perfmagic.trace.kineto.reader import read_trace
from perfmagic.trace.model import DeviceInfo, Trace
from tests.analysis.build import US, Builder, queued
from tests.trace.recorded import ALL, EXPECTED, real

UPLOAD = "Memcpy HtoD (Pageable -> Device)"
TWO = (DeviceInfo(0, "cuda", "Test GPU"), DeviceInfo(1, "cuda", "Test GPU"))
SIMULATED = (DeviceInfo(0, "sim", "sim"),)


def us(found: Causes) -> dict[str, float]:
    """The causes that have any time, in µs."""
    return {name: total_ns(where) / US for name, where in found.sets.items() if len(where)}


def waited(b: Builder, devices: tuple[DeviceInfo, ...] = TWO[:1]) -> dict[str, float]:
    return us(idle_causes(b.trace(devices=devices), 0))


def busy_until_100() -> Builder:
    return queued((10, 100, 2))


def test_a_call_of_fifty_microseconds_on_the_launching_thread_is_in_the_call_and_one_on_another_thread_is_not() -> None:
    b = busy_until_100()
    b.launch(110, 310, name="cudaMalloc", kind=CallKind.MEMORY)
    b.op(330, 400, launch=(320, 325))
    assert waited(b) == {"in_python": 20, "in_call": 200, "launching": 10}
    b = busy_until_100()
    b.launch(110, 310, name="cudaMalloc", kind=CallKind.MEMORY, thread=2)
    b.op(330, 400, launch=(320, 325))
    assert waited(b) == {"in_python": 220, "launching": 10}


def test_a_shorter_call_is_python_s_own() -> None:
    for length, in_call in ((49.999, 0), (50, 50)):
        b = busy_until_100()
        b.launch(110, 110 + length, name="cudaMalloc", kind=CallKind.MEMORY)
        b.op(330, 400, launch=(320, 325))
        assert waited(b).get("in_call", 0) == in_call


def test_a_launch_that_takes_long_is_in_the_call_until_its_op_starts() -> None:
    b = busy_until_100()
    b.op(600_115, 600_200, launch=(110, 600_110))  # the first launch of a kernel loads its code
    assert waited(b) == {"in_python": 10, "in_call": 600_000, "launching": 5}
    b = busy_until_100()
    b.op(300_000, 600_200, launch=(110, 600_110))
    assert waited(b) == {"in_python": 10, "in_call": 299_890}


def test_a_launch_that_takes_long_for_a_full_queue_is_not_in_the_call() -> None:
    b = busy_until_100()
    b.op(160, 200, launch=20)  # arrived, and not begun before 160
    b.op(300, 310, launch=(30, 280))
    assert waited(b) == {"in_call": 80, "unexplained": 80}


def test_a_wait_in_a_call_is_no_work_of_the_driver() -> None:
    b = busy_until_100()
    b.sync(90, 300)
    b.op(330, 400, launch=(320, 325))
    assert waited(b) == {"in_python": 20, "blocked": 200, "launching": 10}
    assert not len(long_calls(b.trace()))


def test_a_pageable_copy_that_holds_python_blocks_until_it_begins() -> None:
    b = busy_until_100()
    b.op(400, 420, launch=(150, 425), name=UPLOAD)
    assert waited(b) == {"in_python": 50, "blocked": 250}
    b = busy_until_100()
    b.op(158, 420, launch=(150, 155), name="Memcpy HtoD (Pinned -> Device)")
    assert waited(b) == {"in_python": 50, "launching": 8}


def test_a_copy_behind_an_op_that_stalls_is_not_what_the_device_waits_for() -> None:
    b = busy_until_100()
    b.op(400, 410, launch=90)
    b.op(410, 420, launch=(150, 425), name=UPLOAD)
    assert waited(b) == {"unexplained": 300}


def test_an_op_that_is_queued_on_another_stream_is_not_python_s_to_launch() -> None:
    b = busy_until_100()
    b.op(500, 510, launch=50, stream=8)  # queued, and nobody knows for what it waits
    b.op(300, 400, launch=(290, 295))
    assert waited(b) == {"unexplained": 190 + 100, "launching": 10}


def test_what_was_launched_before_the_record_was_queued_all_the_time() -> None:
    b = Builder()
    b.op(10, 100)
    b.op(104, 200)
    b.op(240, 300, launch=220)
    assert waited(b) == {"in_python": 20, "launching": 1, "unexplained": 19, "between_ops": 4}


def test_an_op_without_a_launch_inside_the_record_explains_nothing() -> None:
    b = busy_until_100()
    b.op(104, 200)
    assert waited(b) == {"unexplained": 4}


def test_while_another_device_executes_what_python_waits_for_it_is_that_device_s() -> None:
    b = busy_until_100()
    b.op(100, 300, launch=20, device=1)
    b.sync(30, 310)
    b.op(330, 400, launch=(320, 325))
    assert waited(b, TWO) == {"other_device": 200, "blocked": 10, "in_python": 10, "launching": 10}


def test_a_simulated_device_is_never_in_a_call_and_never_unexplained() -> None:
    b = busy_until_100()
    b.launch(110, 310, name="cudaMalloc", kind=CallKind.MEMORY)
    b.op(400, 500, launch=(320, 390))
    assert waited(b, SIMULATED) == {"in_python": 220, "one_by_one": 80}
    b = busy_until_100()
    b.sync(110, 500)
    b.op(400, 500, launch=(105, 106))
    assert waited(b, SIMULATED) == {"in_python": 5, "one_by_one": 5, "launching": 290}


def test_a_stall_stays_one_while_python_launches_more() -> None:
    b = queued((10, 100, 2), (1100, 1200, 90))
    for i in range(100):
        b.op(1200 + i, 1201 + i, launch=(110 + 8 * i, 113 + 8 * i))
    assert waited(b) == {"unexplained": 1000}


def test_a_short_gap_before_a_queued_op_is_between_ops_whatever_python_launches_then() -> None:
    assert waited(queued((10, 100, 2), (108, 200, 20), (200, 210, (102, 106)))) == {"between_ops": 8}


@st.composite
def traces(draw: st.DrawFn) -> Trace:
    """Ops on three streams and two devices, launched by two threads; copies, syncs and long calls; some unrecorded."""
    b, times = Builder(), st.integers(0, 600)
    for _ in range(draw(st.integers(1, 9))):
        start = draw(times)
        ahead = draw(st.sampled_from([None, 0, 3, 8, 12, 60, 300]))
        launch = None if ahead is None else (start - ahead, start - ahead + draw(st.sampled_from([1, 5, 80, 400])))
        stream, device = draw(st.sampled_from([(7, 0), (8, 0), (9, 0), (7, 1)]))
        length, thread = draw(st.integers(0, 200)), draw(st.integers(1, 2))
        name = draw(st.sampled_from(["kernel", "kernel", UPLOAD, "ncclAllReduce"]))
        b.op(start, start + length, launch=launch, stream=stream, device=device, thread=thread, name=name)
    for _ in range(draw(st.integers(0, 4))):
        start, thread = draw(times), draw(st.integers(1, 2))
        if draw(st.booleans()):
            b.sync(start, start + draw(st.integers(1, 250)), thread=thread)
        else:
            b.launch(start, start + draw(st.integers(1, 250)), name="cudaMalloc", kind=CallKind.MEMORY, thread=thread)
    for _ in range(draw(st.integers(0, 2))):
        b.wait(draw(times), 7, 8, draw(st.integers(-1, 5)))
    for line, at in enumerate(sorted(draw(st.lists(times, max_size=3))), 2):
        b.line(at, line)
    kind = draw(st.sampled_from(["sim", "cuda"]))
    returned = draw(st.one_of(st.none(), st.integers(0, 900)))
    return b.trace(-50, 900, returned, devices=[DeviceInfo(0, kind, kind), DeviceInfo(1, kind, kind)])


def check_partition(trace: Trace) -> None:
    """The causes are disjoint and add up: over the gaps to the idle time, over a window with what else is in it."""
    for device in trace.device_ids:
        idle_ns = breakdown(trace, device).idle_ns
        sets = idle_causes(trace, device).sets
        assert sum(map(total_ns, sets.values())) == idle_ns == total_ns(merge(*sets.values()))
        gaps = idle_gaps(trace, device)
        sums = {name: total_ns(where) for name, where in sets.items()}
        sums["in_python"] += sums.pop("one_by_one")
        assert gaps.by_cause_ns == {cause: sums[cause] for cause in CAUSES}
        waited = [gaps.waited_ns(cause) for cause in CAUSES]
        assert np.array_equal(sum(waited), gaps.length_ns)
        assert all((ns >= 0).all() for ns in waited)
        on_the_host = ("in_python", "in_call", "blocked", "other_device")
        assert sum(gaps.by_line_ns.values()) <= sum(gaps.by_cause_ns[cause] for cause in on_the_host)
        time = cell_time(trace, device)
        parts = list(time.parts.values())
        assert sum(map(total_ns, parts)) == time.window.length_ns == total_ns(merge(*parts))
        assert sum(time.waited_ns.values()) + time.tail_ns + time.busy_ns == time.window.length_ns
        if trace.simulated:
            assert not len(sets["in_call"])
        assert not total_ns(intersect(sets["in_python"], time.python_waits))


@pytest.mark.slow
@given(traces())
@settings(deadline=None, max_examples=150)
def test_the_causes_never_overlap_and_add_up_to_the_idle_time(trace: Trace) -> None:
    check_partition(trace)


@pytest.mark.parametrize("name", ALL)
def test_the_causes_add_up_on_recorded_traces(name: str) -> None:
    check_partition(read_trace(real(name)))


def test_the_reference_numbers_have_every_cause_but_those_of_waits_between_streams_and_devices() -> None:
    devices = [device for path in EXPECTED for device in json.loads(path.read_text())["devices"].values()]
    found = {cause for device in devices for cause in device["idle_by_cause_ns"]}
    assert found == set(vars(Causes)["__annotations__"]) - {"other_stream", "other_device"}
