import gzip
import json
from dataclasses import replace
from decimal import Decimal
from pathlib import Path

import pytest

from perfmagic.analysis.findings.answers import find_answers
from perfmagic.analysis.findings.facts import Facts
from perfmagic.analysis.findings.record import step as found_steps
from perfmagic.analysis.timeline.overlap import breakdown
from perfmagic.analysis.timeline.steps import begins_in_step, outstanding, steps
from perfmagic.trace.columns import HostKind
from perfmagic.trace.kineto.reader import read_trace
from perfmagic.trace.model import Trace
from tests.analysis.build import US, Builder
from tests.analysis.findings.build import plain
from tests.trace.recorded import real, recorded

pytestmark = pytest.mark.slow

MARK = HostKind.ANNOTATION


def two_steps() -> Trace:
    """Step 7 0–100, step 8 100–200. Step 7 launches compute 50–120 and a collective 110–130, step 8 a copy 190–210."""
    b = Builder()
    b.host_op(0, 100, "ProfilerStep#7", kind=MARK)
    b.host_op(100, 200, "ProfilerStep#8", kind=MARK)
    b.host_op(0, 90, "ProfilerStep#7 of mine", kind=MARK)
    b.op(50, 120, launch=10, name="gemm")
    b.op(110, 130, launch=90, name="ncclAllReduce", stream=8, thread=2)
    b.op(190, 210, launch=150, name="Memcpy HtoD (Pinned -> Device)")
    return b.trace()


def test_a_step_has_its_number_and_its_time_on_the_host() -> None:
    assert [(s.number, s.start_ns, s.end_ns, s.duration_ns) for s in steps(two_steps())] == [
        (7, 0, 100 * US, 100 * US),
        (8, 100 * US, 200 * US, 100 * US),
    ]


def test_device_time_is_charged_to_the_step_that_launched_it() -> None:
    seven, eight = steps(two_steps())
    assert (seven.busy_ns, seven.compute_ns, seven.communication_ns, seven.copy_ns) == (80 * US, 70 * US, 20 * US, 0)
    assert (eight.busy_ns, eight.compute_ns, eight.communication_ns, eight.copy_ns) == (20 * US, 0, 0, 20 * US)


def test_what_the_device_did_during_a_step_is_a_number_of_its_own() -> None:
    seven, eight = steps(two_steps())
    assert (seven.window_busy_ns, seven.window_busy_frac) == (50 * US, 0.5)
    assert (eight.window_busy_ns, eight.window_busy_frac) == (40 * US, 0.4)


def test_a_lap_runs_from_the_last_op_of_one_step_to_that_of_the_next() -> None:
    assert [s.lap_ns for s in steps(two_steps())] == [None, 80 * US]


def many_steps(*works: tuple[str, int]) -> Trace:
    """Steps of 100 µs on the host, each launching one op of a name and a length; the device works one by one."""
    b, at = Builder(), 0
    for i, (name, length) in enumerate(works):
        b.host_op(100 * i, 100 * i + 100, f"ProfilerStep#{i}", kind=MARK)
        at = max(at, 100 * i + 10)
        b.op(at, at + length, launch=100 * i + 5, name=name)
        at += length
    return b.trace()


def test_a_step_that_took_the_device_longer_stands_out_with_its_class_of_work() -> None:
    trace = many_steps(*[("gemm", 90)] * 3, ("ncclAllReduce", 200), *[("gemm", 90)] * 3)
    (out,) = outstanding(trace, steps(trace))
    # the laps are 100, 100, 210, 90, 90 and 90 µs
    assert (out.number, out.lap_ns, out.median_ns) == (3, 210 * US, 95 * US)
    assert out.parts_ns == {"compute": -90 * US, "communication alone": 200 * US, "copies": 0, "idle": 10 * US}
    assert sum(out.parts_ns.values()) == 120 * US
    (found,) = found_steps(Facts(trace))
    assert plain(found.sentence) == (
        "step 3 stands out: it took 210 µs, the median step 95.0 µs. It has 200 µs more communication alone"
    )
    assert found.cost_ns is None


def test_equal_work_does_not_stand_out_where_python_ran_ahead() -> None:
    trace = many_steps(*[("gemm", 300)] * 6)
    found = steps(trace)
    assert outstanding(trace, found) == []
    assert [s.compute_ns for s in found] == [300 * US] * 6
    assert plain(found.note) == (
        "From the last op of a step to that of the next: 300 µs in the median, 300 µs to 300 µs; no step stands out"
    )


def test_two_laps_say_nothing_of_an_odd_one() -> None:
    trace = many_steps(("gemm", 90), ("gemm", 900), ("gemm", 90))
    assert outstanding(trace, steps(trace)) == []
    assert steps(trace).note == ""


def test_a_step_that_the_records_hold_in_part_is_named() -> None:
    b = Builder()
    b.host_op(0, 1000, "ProfilerStep#3", kind=MARK)
    b.op(20, 40, launch=10)
    trace = b.trace()
    trace = replace(trace, meta=replace(trace.meta, start_ns=0, end_ns=40 * US))
    (three,) = steps(trace)
    assert three.unrecorded_ns == 960 * US
    assert plain(steps(trace).note) == "The records hold 40.0 µs of the 1.00 ms of step 3"


@pytest.mark.parametrize("name", ["v100_4streams_nccl_graphs", "a100_6streams_graphs_rank0", "mi300_resnet_2streams"])
def test_steps_agree_with_a_plain_sweep_of_the_file(name: str) -> None:
    path = real(name)
    expected = swept(path)
    assert expected
    for step in steps(read_trace(path), comm_names="nccl|rccl"):
        assert (step.busy_ns, step.communication_ns, step.n_ops) == expected[step.number]


def swept(path: Path) -> dict[int, tuple[int, int, int]]:
    """Of each step busy and communication time of what it launched, and the number of ops: from the JSON alone."""
    events = [e for e in json.loads(gzip.decompress(path.read_bytes()), parse_float=str)["traceEvents"] if "dur" in e]
    times = [(round(Decimal(e["ts"]) * 1000), round((Decimal(e["ts"]) + Decimal(e["dur"])) * 1000)) for e in events]
    launched_at: dict[int, int] = {}
    marks: dict[int, tuple[int, int]] = {}
    for e, (start, end) in zip(events, times, strict=True):
        if e["cat"] in ("cuda_runtime", "cuda_driver") and "correlation" in e["args"]:
            launched_at.setdefault(e["args"]["correlation"], start)
        if e["cat"] == "user_annotation" and e["name"].startswith("ProfilerStep#"):
            marks[int(e["name"][13:])] = (start, end)
    ops: dict[int, list[tuple[int, int, bool]]] = {number: [] for number in marks}
    for e, (start, end) in zip(events, times, strict=True):
        if e["cat"] in ("kernel", "gpu_memcpy", "gpu_memset"):
            at = launched_at.get(e["args"]["correlation"], -1)
            for number, (first, last) in marks.items():
                if first <= at < last:
                    comm = e["cat"] == "kernel" and ("nccl" in e["name"].lower() or "rccl" in e["name"].lower())
                    ops[number].append((start, end, comm))
    return {n: (covered(o), covered([one for one in o if one[2]]), len(o)) for n, o in ops.items()}


def covered(spans: list[tuple[int, int, bool]]) -> int:
    total, reached = 0, -1
    for start, end, _ in sorted(spans):
        total += max(0, end - max(start, reached))
        reached = max(reached, end)
    return total


def test_the_ops_of_a_step_are_those_it_launched_on_any_thread() -> None:
    seven, eight = steps(two_steps())
    assert (seven.n_ops, seven.first_op_ns, seven.last_op_ns) == (2, 50 * US, 130 * US)
    assert (eight.n_ops, eight.first_op_ns, eight.last_op_ns) == (1, 190 * US, 210 * US)


def test_what_is_communication_can_be_said() -> None:
    assert [s.communication_ns for s in steps(two_steps(), comm_names="gemm")] == [70 * US, 0]


def test_marks_of_one_number_on_several_threads_are_one_step() -> None:
    b = Builder()
    b.host_op(0, 100, "ProfilerStep#7", kind=MARK)
    b.host_op(5, 110, "ProfilerStep#7", kind=MARK, thread=2)
    b.host_op(100, 200, "ProfilerStep#8", kind=MARK)
    b.op(20, 40, launch=10)
    b.op(102, 108, launch=101)
    b.op(300, 310, launch=205)
    found = steps(b.trace())
    assert [(s.number, s.start_ns, s.end_ns, s.n_ops) for s in found] == [
        (7, 0, 100 * US, 1),
        (8, 100 * US, 200 * US, 1),
    ]
    assert [s.window_busy_ns for s in found] == [20 * US, 6 * US]


def test_steps_without_device_ops_and_traces_without_steps() -> None:
    b = Builder()
    b.host_op(0, 100, "ProfilerStep#7", kind=MARK)
    (seven,) = steps(b.trace())
    assert (seven.busy_ns, seven.n_ops, seven.first_op_ns, seven.last_op_ns) == (0, 0, None, None)
    empty = steps(Builder().trace())
    assert empty == ()
    assert empty.columns[:3] == ("number", "start_ns", "end_ns")


def test_the_step_of_a_recorded_trace() -> None:
    trace = recorded("v100_4streams_nccl_step")
    (step,) = steps(trace)
    row = trace.host_ops.name.tolist().index(trace.names.index("ProfilerStep#1011"))
    span_ns = trace.host_ops.start_ns[row], trace.host_ops.end_ns[row]
    assert (step.number, step.start_ns, step.end_ns) == (1011, *span_ns)
    parts = breakdown(trace, trace.device_ids[0])
    assert 0 < step.communication_ns <= parts.communication_ns
    assert max(step.compute_ns, step.communication_ns, step.copy_ns) <= step.busy_ns
    assert step.window_busy_ns <= step.duration_ns
    assert step.n_ops <= len(trace.ops)


@pytest.mark.parametrize(("mark", "expected"), [("ProfilerStep#7", True), ("ProfilerStep#0", False), ("step", False)])
def test_a_record_that_begins_in_a_later_step_does_not_start_up(mark: str, expected: bool) -> None:
    b = Builder()
    b.host_op(1, 1000, mark, kind=MARK)
    b.op(610, 700, launch=600)
    b.op(700, 1000, launch=610)
    trace = b.trace()
    assert begins_in_step(trace, 600 * US) is expected
    assert (find_answers(trace).decides.startswith("Start-up")) is not expected
