from __future__ import annotations

from perfmagic.analysis.timeline.overlap import breakdown
from perfmagic.analysis.timeline.steps import steps
from perfmagic.trace.columns import HostKind
from perfmagic.trace.model import Trace
from tests.analysis.build import US, Builder
from tests.trace.recorded import recorded

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


def test_what_the_device_did_during_a_step_is_counted_whoever_launched_it() -> None:
    seven, eight = steps(two_steps())
    assert (seven.busy_ns, seven.compute_ns, seven.communication_ns, seven.copy_ns) == (50 * US, 50 * US, 0, 0)
    assert (eight.busy_ns, eight.compute_ns, eight.communication_ns, eight.copy_ns) == (
        40 * US,
        20 * US,
        20 * US,
        10 * US,
    )
    assert (seven.busy_frac, eight.busy_frac) == (0.5, 0.4)


def test_the_ops_of_a_step_are_those_it_launched_on_any_thread() -> None:
    seven, eight = steps(two_steps())
    assert (seven.n_ops, seven.first_op_ns, seven.last_op_ns) == (2, 50 * US, 130 * US)
    assert (eight.n_ops, eight.first_op_ns, eight.last_op_ns) == (1, 190 * US, 210 * US)


def test_what_is_communication_can_be_said() -> None:
    assert [s.communication_ns for s in steps(two_steps(), comm_names="gemm")] == [50 * US, 20 * US]


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
    assert [s.busy_ns for s in found] == [20 * US, 6 * US]


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
    assert (step.number, step.start_ns, step.end_ns) == (
        1011,
        trace.host_ops.start_ns[row],
        trace.host_ops.end_ns[row],
    )
    parts = breakdown(trace, trace.device_ids[0])
    assert 0 < step.communication_ns <= parts.communication_ns
    assert max(step.compute_ns, step.communication_ns, step.copy_ns) <= step.busy_ns <= step.duration_ns
    assert step.n_ops <= len(trace.ops)
