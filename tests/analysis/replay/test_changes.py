"""What each change makes of a small run whose answer can be worked out by hand; times in µs."""

import math
from xml.etree import ElementTree as ET

import numpy as np
import pytest

from perfmagic.analysis.findings.find import findings
from perfmagic.analysis.findings.finding import Finding
from perfmagic.analysis.replay.changes.change import Change
from perfmagic.analysis.replay.prediction import Prediction, Readings, predict
from perfmagic.base import units
from perfmagic.base.errors import OptionError, TraceError
from perfmagic.changes import (
    faster,
    faster_python,
    fused,
    no_item,
    no_python,
    no_waits,
    one_graph,
    overlap_communication,
    overlap_copies,
    own_stream,
    pin,
    prefetch,
)
from perfmagic.results import TimelineResult
from perfmagic.trace.model import DeviceInfo, Race, Trace
from tests.analysis.build import US, Builder, queued
from tests.analysis.findings.build import plain
from tests.trace.recorded import real_trace

PAGEABLE, PINNED = "Memcpy HtoD (Pageable -> Device)", "Memcpy HtoD (Pinned -> Device)"


def predicted(trace: Trace, *changes: Change) -> Prediction:
    prediction = predict(Readings.from_trace(trace), changes)
    assert prediction.recorded_ns == trace.meta.end_ns - trace.meta.start_ns
    return prediction


def us(trace: Trace, *changes: Change) -> float:
    prediction = predicted(trace, *changes)
    assert not prediction.refused
    assert prediction.low_ns <= prediction.expected_ns <= prediction.high_ns
    return prediction.expected_ns / US


def steps(n: int, *, read: bool, python: float = 50, kernel: float = 100) -> Trace:
    """n steps of a launch, a kernel behind it, then maybe a read that waits for it, and Python."""
    b, at, free = Builder(), 0.0, 0.0
    for step in range(n):
        b.line(at, 2)
        start = max(at + 5, free)
        free = start + kernel
        b.op(start, free, launch=(at, at + 2))
        at += 3
        if read:
            b.line(at, 3)
            b.op(free + 1, free + 2, launch=(at, at + 1), name="Memcpy DtoH (Device -> Pinned)", size=4)
            free += 2
            b.sync(at + 2, free + 2)
            at = free + 3
        b.line(at, 4)
        at += python if step + 1 < n else 1
    b.line(at, 0)
    b.sync(at, max(at, free) + 2)
    return b.trace(returned=at)


def test_without_reads_python_runs_ahead_and_the_kernels_follow_each_other() -> None:
    trace = steps(6, read=True)
    # 6 kernels one after the other, the first 5 µs behind its launch, then the last wait
    assert us(trace, no_item()) == pytest.approx(5 + 600 + 2, abs=10)
    assert us(trace, no_item(line=3)) == us(trace, no_item())
    prediction = predicted(trace, no_item(line=2))
    assert prediction.refused == "nothing of line 2 made Python wait for the device"
    assert prediction.gain_ns == (0, 0)


def test_python_that_takes_no_time_leaves_the_device_and_python_that_is_not_waited_for_gains_nothing() -> None:
    trace = steps(6, read=True)
    bound = predicted(trace, faster_python())
    assert bound.at_most
    assert bound.gain_ns[0] == 0
    assert bound.won_ns / US == pytest.approx(5 * 50, abs=40)
    assert us(steps(6, read=False), faster_python()) >= 600
    assert us(trace, no_python(4)) == pytest.approx(trace.meta.end_ns / US - 250, abs=15)


def test_kernels_twice_as_fast_leave_what_python_takes() -> None:
    trace = steps(6, read=False, python=80)
    assert us(trace, faster(k=2)) == pytest.approx(5 * 83 + 5 + 50, abs=10)
    assert us(trace, faster("kernel", math.inf)) == pytest.approx(5 * 83 + 5, abs=10)
    assert predicted(trace, faster("gemm")).refused == "no kernel has 'gemm' in its name"
    assert us(steps(6, read=False), faster(k=2, line=2)) == us(steps(6, read=False), faster(k=2))


def copies(*, pageable: bool, n: int = 4) -> Trace:
    """n steps of a copy and a kernel on one stream; a pageable copy takes twice as long and holds Python."""
    b, at, free = Builder(), 0.0, 0.0
    for _ in range(n):
        start = max(at + 5, free)
        length = 200 if pageable else 100
        end_of_call = start + length + 3 if pageable else at + 2
        free = start + length
        b.op(start, free, launch=(at, end_of_call), name=PAGEABLE if pageable else PINNED, size=2_500_000)
        at = end_of_call + 2
        start = max(at + 5, free)
        free = start + 300
        b.op(start, free, launch=(at, at + 2))
        at += 3
    b.sync(at, free + 2)
    return b.trace(returned=at, devices=(DeviceInfo(0, "cuda", "NVIDIA A100"),))


def test_pinned_copies_take_what_the_bus_takes_and_leave_python_free() -> None:
    before, after = copies(pageable=True), copies(pageable=False)
    assert us(before, pin()) == pytest.approx(after.meta.end_ns / US, rel=0.02)  # 2.5 MB at 25 GB/s: 100 µs
    prediction = predicted(before, pin())
    # the bus is assumed by the device's name: it may be no faster at all
    assert prediction.high_ns >= 4 * 500 * US > prediction.expected_ns
    assert predicted(after, pin()).refused == "no copy is from pageable memory to the device"


def test_copies_on_their_own_stream_run_beside_compute_and_each_kernel_waits_for_its_own() -> None:
    trace = copies(pageable=False)
    # the first copy, then the kernels: the later copies are beside them
    assert us(trace, own_stream()) == pytest.approx(100 + 4 * 300 + 8, abs=15)
    prediction = predicted(trace, own_stream())
    assert prediction.high_ns >= (125 + 4 * 300) * US
    assert predicted(trace, own_stream(line=7)).refused == "there are no copies of line 7"


def test_work_is_not_moved_between_streams_where_their_waits_are_not_recorded() -> None:
    b = Builder()
    b.op(5, 105, launch=0, name=PINNED, size=2_500_000)
    b.launch(3, 4, name="cudaStreamWaitEvent", kind=2)  # type: ignore[arg-type]
    b.op(106, 206, launch=5, stream=8)
    prediction = predicted(b.trace(end=206), own_stream())
    assert "does not say which stream waits for which" in prediction.refused
    assert predicted(b.trace(end=206), no_waits()).refused


def test_a_wait_left_out_lets_two_streams_run_at_once() -> None:
    b = Builder()
    first = b.op(5, 105, launch=(0, 1), stream=7)
    b.wait(2, 8, 7, first)
    b.op(106, 206, launch=(4, 5), stream=8)
    b.sync(7, 208, name="cudaDeviceSynchronize")
    trace = b.trace(returned=7, end=208)
    assert us(trace, no_waits()) == pytest.approx(115, abs=10)


def test_ops_as_one_graph_follow_each_other() -> None:
    b = Builder()
    for i in range(50):
        b.op(20 * i + 8, 20 * i + 12, launch=(20 * i, 20 * i + 3))
    trace = b.trace(returned=984, end=992)
    assert us(trace, one_graph()) < 50 * 5 + 40
    assert predicted(trace, one_graph(line=9)).refused == "the ops of line 9 are too few"


@pytest.mark.parametrize("name", ["vectorized_elementwise_kernel", "mul"], ids=["CUDA", "sim"])
def test_fused_kernels_take_as_long_as_the_longest_or_as_all_of_them(name: str) -> None:
    b = Builder()
    b.op(5, 105, launch=(0, 2), name="gemm")
    for i, length in enumerate((40, 60, 50)):
        b.op(105 + 60 * i, 105 + 60 * i + length, launch=(10 + 20 * i, 12 + 20 * i), name=name)
    b.op(285, 385, launch=(80, 82), name="gemm")
    trace = b.trace(returned=90, end=385)
    prediction = predicted(trace, fused())
    assert not prediction.refused
    # the gaps that were behind the first and the last of them are gone too
    assert 255 * US <= prediction.low_ns <= (105 + 60 + 100) * US
    assert (105 + 150 + 100) * US <= prediction.high_ns <= 1.05 * 385 * US
    assert predicted(trace, fused(line=3)).refused == "no two elementwise kernels of line 3 follow each other"


def test_what_no_overlap_can_beat_is_a_bound() -> None:
    trace = copies(pageable=False)
    prediction = predicted(trace, overlap_copies())
    assert prediction.at_most
    assert us(trace, overlap_copies()) == pytest.approx(4 * 300 + 8, abs=15)
    assert us(trace, overlap_copies()) <= us(trace, own_stream())
    assert predicted(trace, overlap_copies(line=9)).refused == "there is no time of copies of line 9"
    assert predicted(trace, overlap_communication()).refused == "there is no time of communication"


def test_a_launch_whose_op_begins_in_the_call_is_no_longer_than_an_ordinary_one_without_its_time() -> None:
    b = Builder()
    for i in range(4):
        b.op(20 * i + 6, 20 * i + 10, launch=(20 * i, 20 * i + 2))
    b.op(1090, 1100, launch=(90, 1095))  # a module is loaded
    trace = b.trace(returned=1096, end=1105)
    finding = finding_of(trace, "in_call")
    assert finding.cost_ns == pytest.approx(1000 * US, rel=0.05)
    assert finding.won_ns == pytest.approx(990 * US, rel=0.02)


def test_batches_that_are_there_leave_what_the_step_takes() -> None:
    b = Builder()
    for step in range(4):
        at = 400 * step
        b.host_op(at, at + 300, "enumerate(DataLoader)#_SingleProcessDataLoaderIter.__next__")
        b.op(at + 310, at + 400, launch=(at + 302, at + 305))
    trace = b.trace(returned=1520, end=1600)
    # what is left: three ops of 90 µs behind each other, after the time of the first launch
    assert us(trace, prefetch()) == pytest.approx(4 * 90 + 15, abs=40)
    assert predicted(copies(pageable=True), prefetch()).refused == "no DataLoader fetched a batch in the record"


def test_changes_compose_and_gain_no_more_than_what_they_remove() -> None:
    trace = copies(pageable=True)
    both = us(trace, pin(), faster(k=2))
    assert both <= min(us(trace, pin()), us(trace, faster(k=2)))
    assert both == pytest.approx(4 * 100 + 4 * 150 + 8, abs=20)


def test_a_change_works_on_a_copy_of_the_graph() -> None:
    readings = Readings.from_trace(copies(pageable=True))
    before = readings.stays.replayed_ns()
    for change in (pin(), no_item(), own_stream(), faster(), faster_python(), one_graph(), overlap_copies()):
        predict(readings, [change])
        np.testing.assert_array_equal(readings.stays.replayed_ns(), before)


@pytest.mark.parametrize(
    ("trace", "why"), [(Builder().trace(end=1), "no device op was recorded"), (steps(3, read=True), "")]
)
def test_why_nothing_is_predicted_is_said(trace: Trace, why: str) -> None:
    assert predict(Readings.from_trace(trace), [faster()]).refused == why


def test_what_the_record_does_not_explain_is_no_ground_for_a_prediction() -> None:
    b = queued((5, 105, 0))
    b.op(905, 1005, launch=2, stream=8)
    prediction = predicted(b.trace(end=1005), faster())
    assert prediction.refused.startswith("89")
    dropped = queued((5, 105, 0))
    assert predicted(dropped.trace(end=105, dropped_events=7), faster()).refused.startswith("7 events beyond the limit")
    assert predicted(dropped.trace(end=105, failed="ValueError"), faster()).refused == "the cell failed"
    assert "missing" in predicted(dropped.trace(end=105, races=(Race(1, 2),)), faster()).refused


def test_short_ops_of_a_simulated_device_are_no_ground_either() -> None:
    b = Builder()
    for i in range(50):
        b.op(20 * i + 8, 20 * i + 18, launch=(20 * i, 20 * i + 3))
    trace = b.trace(end=998, devices=(DeviceInfo(0, "sim", "sim"),))
    assert "below 300" in predicted(trace, one_graph()).refused


def finding_of(trace: Trace, rule: str) -> Finding:
    return next(one for one in findings(trace) if one.rule == rule)


def test_a_finding_says_what_its_change_gains_and_not_what_it_cost() -> None:
    read = finding_of(steps(6, read=True), "sync")
    assert not read.cost_ns  # the device was busy while Python waited
    assert read.won_ns / US == pytest.approx(5 * 55, abs=40)
    assert read.gain_ns[0] < read.won_ns < read.gain_ns[1]
    assert read.sentence.endswith(f". {read.gain_text}")
    assert plain(read.gain_text) == "With this fixed, the cell takes about 612 µs (581 µs to 643 µs) instead of 913 µs"
    assert read.change == "leave out the blocking reads, or read once at the end"


def test_what_something_else_holds_gains_next_to_nothing() -> None:
    b = Builder()
    for i in range(4):
        b.op(1000 * i + 5, 1000 * i + 105, launch=1000 * i)
        b.op(1000 * i + 105, 1000 * i + 305, launch=1000 * i + 2, name="ncclDevKernel_AllReduce", stream=8)
    b.op(3995, 4000, launch=3990)
    finding = finding_of(b.trace(end=4000), "exposed_communication")
    assert (finding.cost_ns, finding.won_ns) == (800 * US, 0)
    assert finding.gain_text.startswith("Fixing this alone saves almost nothing: the critical path is >99")


def test_all_together_gain_more_than_each_and_no_more_than_there_is() -> None:
    found = findings(real_trace("dlrm_8ranks/worker0_step_12.1694128201545"))
    together = found[-1]
    assert together.rule == "together"
    alone = [one.won_ns for one in found[:-1] if one.won_ns is not None and not one.at_most]
    assert len(alone) == 3
    assert max(alone) < together.won_ns <= sum(alone)


def test_a_result_predicts_and_draws_what_it_predicts() -> None:
    t = TimelineResult(steps(6, read=True))
    prediction = t.what_if(no_item())
    low, high = prediction.interval_ns
    assert low < prediction.predicted_ns < high
    assert prediction.sentence.startswith("leave out the blocking reads, or read once at the end: about ")
    assert prediction.sentence in prediction.text().replace("\n", " ")
    assert sum(share.ns for share in prediction.path) == prediction.predicted_ns
    assert "data:image/svg+xml" in prediction.html()
    drawn = prediction.timeline()
    assert isinstance(drawn, TimelineResult)
    assert drawn.trace.meta.end_ns - drawn.trace.meta.start_ns == prediction.predicted_ns
    assert drawn.doc.header.device_label.startswith("predicted, not recorded: ")
    assert len(drawn.trace.ops) == 6  # the copies of the reads are not there
    assert (drawn.trace.launch_start_ns() <= drawn.trace.ops.start_ns).all()
    assert drawn.what_if(faster()).refused == "this is a prediction itself"
    assert drawn.findings[-1].rule != "together"
    assert t.critical_path()[0].start_ns == 0
    assert sum(part.length_ns for part in t.critical_path()) == t.trace.meta.end_ns


def test_a_curve_is_flat_where_python_takes_over() -> None:
    t = TimelineResult(steps(6, read=False, python=80))
    points = t.curve("kernel", (1.1, 1.2, 2, 4, math.inf))
    assert [point.k for point in points] == [1.1, 1.2, 2, 4, math.inf]
    taken = [point.predicted_ns / US for point in points]
    assert taken == sorted(taken, reverse=True)
    assert taken[0] - taken[1] > 40  # held by the kernels
    assert taken[2] - taken[4] < 60  # held by Python: only the last kernel counts
    words = ["".join(node.itertext()) for node in ET.fromstring(points.svg()).iter() if node.tag.endswith("text")]
    assert {"1.2 ×", "2 ×", "in no time", units.duration(points.recorded_ns)} <= set(words)
    assert units.duration(points[-1].predicted_ns) in words
    assert "<img" in points._repr_html_()
    with pytest.raises(TraceError, match="no kernel has 'gemm' in its name"):
        t.curve("gemm")


def test_a_prediction_is_checked_against_the_changed_run() -> None:
    before, after = TimelineResult(steps(6, read=True)), TimelineResult(steps(6, read=False))
    check = before.what_if(no_item()).check(after)
    assert check.measured_ns == after.trace.meta.end_ns
    assert check.within
    assert abs(check.error_frac) < 0.05
    assert plain(check.sentence).endswith(" measured: within the interval")
    wrong = before.what_if(faster(k=1.01)).check(after)
    assert not wrong.within
    assert "outside of it. The prediction was 4" in plain(wrong.sentence)
    bound = before.what_if(faster_python()).check(before)
    assert bound.within
    assert bound.text().endswith("as the bound says")
    with pytest.raises(OptionError, match="checked against a recorded timeline"):
        before.what_if(no_item()).check(before.what_if(no_item()).timeline())


def test_mistakes_say_what_to_do() -> None:
    t = TimelineResult(steps(3, read=True))
    refused = t.what_if(pin())
    assert refused.text() == "no prediction: no copy is from pageable memory to the device"
    assert refused.to_dict()["predicted_ns"] is None
    for mistake, kind, words in (
        (t.what_if, OptionError, "no change is given"),
        (lambda: t.what_if("pin"), OptionError, "'pin' is not a change"),
        (lambda: t.what_if(pin), OptionError, r"pin is not a change(.|\n)*call it: pin\(\)"),
        (lambda: pin(line=0), OptionError, "line=0 is not a line of a cell"),
        (lambda: refused.predicted_ns, TraceError, "nothing is predicted"),
        (TimelineResult(Builder().trace(end=1)).critical_path, TraceError, "is not known: no device op was recorded"),
    ):
        with pytest.raises(kind, match=words):
            mistake()
