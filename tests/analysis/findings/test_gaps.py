"""Gaps: which are a repetition, which is one by itself, and what Python did in them."""

import pytest

from perfmagic.analysis.findings.find import findings
from perfmagic.base.numerics.intervals import intersect, total_ns
from perfmagic.trace.columns import HostKind
from tests.analysis.build import US, Builder
from tests.analysis.findings.build import busy_device, first_finding, plain


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


def test_one_gap_far_longer_than_the_others_is_a_finding_of_its_own() -> None:
    trace = pauses([500.0] * 15 + [1_845_000.0] + [520.0] * 14).trace()
    group, longest = first_finding(trace, "repeated_gap"), first_finding(trace, "longest_gap")
    assert longest.end_ns - longest.start_ns > 1_845_000 * US
    assert group is None  # 15 ms of 1.86 s are not worth a sentence


def test_the_other_gaps_have_their_median_and_spread_and_share_no_time_with_it() -> None:
    trace = pauses([500.0] * 15 + [5_000.0] + [520.0] * 14).trace()
    group, longest = first_finding(trace, "repeated_gap"), first_finding(trace, "longest_gap")
    assert plain(group.cause) == "recurring gap ×29"
    assert "median 500 µs (500 µs to 520 µs)" in plain(group.sentence)
    assert group.cost_ns == (15 * 500 + 14 * 520) * US
    assert not total_ns(intersect(group.where, longest.where))


def test_gaps_of_two_lengths_before_one_op_are_two_repetitions() -> None:
    trace = pauses([500.0, 5_000.0] * 4).trace()
    told = [f for f in findings(trace) if f.rule == "repeated_gap"]
    assert [(plain(f.cause), f.cost_ns) for f in told] == [
        ("recurring gap ×4", 20_000 * US),
        ("recurring gap ×4", 2_000 * US),
    ]


def test_gaps_with_work_queued_that_come_again_are_found_too() -> None:
    b = Builder()
    for i in range(5):
        b.op(1000 * i, 1000 * i + 500, launch=i, name="gemm")
        b.op(1000 * i + 700, 1000 * i + 1000, launch=i + 0.5, name="relu")
    again = first_finding(b.trace(), "repeated_gap")
    assert again.cost_ns == 5 * 200 * US
    assert plain(again.sentence) == (
        "recurring gap ×5 between gemm and relu: the device waited 1.00 ms with work queued, for reasons that the "
        "record does not show, 200 µs each"
    )


def test_gaps_before_one_kernel_of_two_operators_are_not_the_same() -> None:
    b = pauses([500.0] * 2)
    for at in (5000.0, 5650.9):
        b.host_op(at + 599, at + 602, "aten::gelu")
    for at in (5000.0, 5650.9):
        b.op(at, at + 100, launch=(at - 1, at - 0.5), name="gemm")
        b.op(at + 603, at + 650, launch=(at + 600, at + 601), name="relu")
    assert first_finding(b.trace(), "repeated_gap") is None
    assert first_finding(pauses([500.0] * 4).trace(), "repeated_gap") is not None


def test_the_function_that_held_python_is_named_with_its_place_and_stands_in_json() -> None:
    finding = first_finding(pauses([500.0] * 4).trace(), "repeated_gap")
    assert "in zoom (ndimage.py:648) for 1.96 ms of 2.00 ms" in plain(finding.sentence)
    assert finding.to_dict()["frames"] == [
        {"function": "zoom", "file": "ndimage.py", "line": 648, "share_ns": 1960 * US, "inclusive_ns": 1960 * US}
    ]


def test_of_the_longest_gap_python_is_spoken_of_only_where_the_device_waited_for_it() -> None:
    b = busy_device(100)
    b.op(5000, 9000, launch=(120, 121))
    b.host_op(0, 9000, "aten::sort")
    queued = first_finding(b.trace(), "longest_gap")
    assert "Python was" not in queued.sentence


@pytest.mark.parametrize("length_us", [49, 50])
def test_a_gap_is_worth_counting_from_50_us_for_python_on(length_us: float) -> None:
    assert (first_finding(pauses([length_us] * 5).trace(), "repeated_gap") is not None) is (length_us == 50)


def test_many_gaps_too_short_to_repeat_are_one_finding_with_their_time_and_a_bound() -> None:
    trace = pauses([40.0] * 12).trace()
    many = first_finding(trace, "many_gaps")
    assert many.cost_ns == 12 * 40 * US
    assert plain(many.headline) == "Python in zoom leaves 12 gaps, 480 µs"
    assert many.at_most
    assert many.gain_ns[0] == 0


@pytest.mark.parametrize(("n", "length_us"), [(9, 40.0), (30, 10.0)])
def test_few_gaps_or_little_time_in_them_is_no_finding(n: int, length_us: float) -> None:
    assert first_finding(pauses([length_us] * n).trace(), "many_gaps") is None


def test_gaps_of_several_operators_add_up_and_leave_those_with_a_finding_of_their_own() -> None:
    trace = pauses([40.0] * 40 + [500.0] * 4).trace()
    many, again = first_finding(trace, "many_gaps"), first_finding(trace, "repeated_gap")
    assert not total_ns(intersect(many.where, again.where))
    assert many.cost_ns == 40 * 40 * US
