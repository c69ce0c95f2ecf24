"""Gaps: which are a repetition, which is one by itself, and what Python did in them."""

from __future__ import annotations

import pytest

from perfmagic.analysis.findings.find import Finding, findings
from perfmagic.numerics.intervals import intersect, total_ns
from perfmagic.trace.columns import HostKind
from perfmagic.trace.model import Trace
from tests.analysis.build import US, Builder


def found(trace: Trace, rule: str) -> Finding | None:
    return next((f for f in findings(trace) if f.rule == rule), None)


def plain(text: str) -> str:
    return text.replace("\u00a0", " ")


def busy_device(until: float = 1000) -> Builder:
    b = Builder()
    b.line(0, 2)
    b.op(10, until, launch=2, name="gemm")
    return b


def steps_with_a_pause(pause_us: float, n: int = 3, stray: int = 0) -> Builder:
    """n training steps of 1 ms; in each "relu" waits so long for an operator of the host; then ops of other names."""
    b = Builder()
    for i in range(n):
        at = 1000 * i
        b.host_op(at, at + 1000, f"ProfilerStep#{i}", kind=HostKind.ANNOTATION)
        b.op(at + 10, at + 500, launch=at + 2, name="gemm")
        b.host_op(at + 490, at + 495 + pause_us, "my augmentation", kind=HostKind.ANNOTATION)
        b.host_op(at + 491, at + 494 + pause_us, "train.py(31): step", kind=HostKind.PYTHON)
        b.host_op(at + 492, at + 493 + pause_us, "aten::sort")
        name = f"relu{i}" if i < stray else "relu"
        b.op(at + 504 + pause_us, at + 1005, launch=at + 500 + pause_us, name=name)
    return b


def test_a_gap_that_comes_again_names_its_op_how_often_where_python_was_and_in_which_steps() -> None:
    finding = found(steps_with_a_pause(100).trace(), "repeated_gap")
    assert finding is not None
    assert finding.cost_ns == 300 * US
    assert plain(finding.sentence) == (
        "the same gap ×3 before relu: the device waited 300 µs for Python, 100 µs each, over 3 steps. "
        "Python was in step (train.py:31) for 282 µs of 300 µs, in aten::sort for 279 µs of 300 µs, "
        "inside my augmentation for 285 µs of 300 µs. "
        "torch.compile or CUDA graphs remove this Python work"
    )


def test_gaps_before_different_ops_or_too_short_or_too_few_are_no_repetition() -> None:
    assert found(steps_with_a_pause(100, stray=1).trace(), "repeated_gap") is None
    assert found(steps_with_a_pause(49).trace(), "repeated_gap") is None
    assert found(steps_with_a_pause(100, n=2).trace(), "repeated_gap") is None


def test_a_gap_in_some_of_the_steps_says_in_how_many() -> None:
    finding = found(steps_with_a_pause(100, n=5, stray=2).trace(), "repeated_gap")
    assert finding is not None
    assert ", over 3 of 5 steps." in plain(finding.sentence)


def test_gaps_while_python_fetches_data_are_left_to_the_finding_on_data_loading() -> None:
    b = steps_with_a_pause(0)
    for i in range(3):
        b.host_op(1000 * i + 1001, 1000 * i + 1400, "enumerate(DataLoader)#_SingleProcessDataLoaderIter.__next__")
        b.op(1000 * i + 1405, 1000 * i + 1406, launch=1000 * i + 1402, name="copy")
    b.ops = [row for row in b.ops if b.names[row["name"]] in ("copy", "relu")]
    trace = b.trace()
    assert found(trace, "data_loading") is not None
    assert found(trace, "repeated_gap") is None


def test_the_longest_gap_is_found_when_it_is_a_twentieth_of_the_extent() -> None:
    b = busy_device(1000)
    b.op(1055, 1100, launch=1054)
    finding = found(b.trace(), "longest_gap")
    assert finding is not None
    assert finding.cost_ns == 54 * US  # the last 1 µs is the launch's
    near = busy_device(1000)
    near.op(1054, 1100, launch=1053)
    assert found(near.trace(), "longest_gap") is None


def test_the_longest_gap_names_where_python_was_but_not_the_profiler_s_own_step() -> None:
    for name, said in (("ProfilerStep#4", False), ("## load ##", True)):
        b = busy_device(1000)
        b.host_op(0, 2000, name, kind=HostKind.ANNOTATION)
        b.op(1500, 1600, launch=1499)
        finding = found(b.trace(), "longest_gap")
        assert finding is not None
        assert (f"Python was inside {name}" in finding.sentence) is said


def test_the_longest_gap_is_split_into_its_parts() -> None:
    b = busy_device(100)
    b.op(400, 500, launch=120)
    b.op(500, 1000, launch=450)
    finding = found(b.trace(), "longest_gap")
    assert finding is not None
    assert plain(finding.detail) == (
        ", 300 µs: the device waited 279 µs with work queued, for reasons that the record does not show, "
        "20.0 µs for Python and 1.00 µs for launches to arrive on line 2"
    )


def pauses(lengths_us: list[float], operator: str = "aten::relu", name: str = "relu") -> Builder:
    """Before each "relu" the device waits so long for Python, which is in zoom() for most of it."""
    b, at = Builder(), 0.0
    for length in lengths_us:
        b.op(at, at + 100, launch=(at - 1, at - 0.5), name="gemm")
        launched = at + 100 + length
        b.host_op(at + 100, launched - 10, "ndimage.py(648): zoom", kind=HostKind.PYTHON)
        b.host_op(launched - 1, launched + 2, operator)
        b.op(launched + 3, launched + 50, launch=(launched, launched + 1), name=name)
        at = launched + 50.9  # the next is launched before this one ends
    return b


def test_one_gap_far_longer_than_the_others_is_told_by_itself() -> None:
    trace = pauses([500.0] * 15 + [1_845_000.0] + [520.0] * 14).trace()
    group, longest = found(trace, "repeated_gap"), found(trace, "longest_gap")
    assert longest is not None
    assert longest.end_ns - longest.start_ns > 1_845_000 * US
    assert group is None  # 15 ms of 1.86 s are not worth a sentence


def test_the_others_are_told_with_their_median_and_spread_and_share_no_time_with_it() -> None:
    trace = pauses([500.0] * 15 + [5_000.0] + [520.0] * 14).trace()
    group, longest = found(trace, "repeated_gap"), found(trace, "longest_gap")
    assert group is not None
    assert longest is not None
    assert plain(group.cause) == "the same gap ×29"
    assert "500 µs in the median (500 µs to 520 µs)" in plain(group.sentence)
    assert group.cost_ns == (15 * 500 + 14 * 520) * US
    assert not total_ns(intersect(group.where, longest.where))


def test_gaps_before_one_kernel_of_two_operators_are_not_the_same() -> None:
    b = pauses([500.0] * 2)
    for at in (5000.0, 5650.9):
        b.host_op(at + 599, at + 602, "aten::gelu")
    for at in (5000.0, 5650.9):
        b.op(at, at + 100, launch=(at - 1, at - 0.5), name="gemm")
        b.op(at + 603, at + 650, launch=(at + 600, at + 601), name="relu")
    assert found(b.trace(), "repeated_gap") is None
    assert found(pauses([500.0] * 4).trace(), "repeated_gap") is not None


def test_the_function_that_held_python_is_named_with_its_place_and_stands_in_json() -> None:
    finding = found(pauses([500.0] * 4).trace(), "repeated_gap")
    assert finding is not None
    assert "in zoom (ndimage.py:648) for 1.96 ms of 2.00 ms" in plain(finding.sentence)
    assert finding.to_dict()["frames"] == [
        {"function": "zoom", "file": "ndimage.py", "line": 648, "share_ns": 1960 * US, "inclusive_ns": 1960 * US},
    ]


def test_of_the_longest_gap_python_is_spoken_of_only_where_the_device_waited_for_it() -> None:
    b = busy_device(100)
    b.op(5000, 9000, launch=(120, 121))
    b.host_op(0, 9000, "aten::sort")
    queued = found(b.trace(), "longest_gap")
    assert queued is not None
    assert "Python was" not in queued.sentence


@pytest.mark.parametrize("length_us", [49, 50])
def test_a_gap_is_worth_counting_from_50_us_for_python_on(length_us: float) -> None:
    assert (found(pauses([length_us] * 5).trace(), "repeated_gap") is not None) is (length_us == 50)
