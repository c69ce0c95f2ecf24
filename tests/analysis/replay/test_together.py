"""Several changes at once: in either order the same, and each leaves what is not its own."""

import json
import math
from itertools import permutations
from pathlib import Path

import numpy as np
import pytest

import perfmagic
from perfmagic import changes
from perfmagic.analysis.replay import prediction
from perfmagic.analysis.replay.changes.change import Change
from perfmagic.analysis.replay.changes.host import WithoutPython
from perfmagic.analysis.replay.changes.kernels import OneGraph, ShorterOps
from perfmagic.analysis.replay.predicted_trace import predicted_trace
from perfmagic.analysis.replay.prediction import Prediction, Readings, predict
from perfmagic.base.errors import OptionError
from perfmagic.base.numerics.intervals import union
from perfmagic.results import TimelineResult
from perfmagic.trace.model import Trace
from tests.analysis.build import US, Builder, queued

HTOD = "Memcpy HtoD (Pinned -> Device)"
PAGEABLE = "Memcpy HtoD (Pageable -> Device)"
DTOH = "Memcpy DtoH (Device -> Pinned)"


def asked(trace: Trace, *given: Change) -> Prediction:
    found = predict(Readings.from_trace(trace), given)
    assert found.refused == ""
    return found


def us(trace: Trace, *given: Change) -> float:
    return asked(trace, *given).expected_ns / US


def starts(found: Prediction) -> dict[str, tuple[float, float]]:
    """When each op of the predicted run begins and ends, in µs."""
    t = predicted_trace(found)
    return {
        t.names[name]: (start / US, end / US)
        for name, start, end in zip(t.ops.name.tolist(), t.ops.start_ns.tolist(), t.ops.end_ns.tolist(), strict=True)
    }


def mixed() -> Trace:
    """Lines 2 to 5: a pageable copy, a product, a read, elementwise kernels, a wait between streams, a copy back."""
    b = Builder()
    b.line(0, 2)
    b.op(12, 110, launch=(5, 108), name=PAGEABLE, size=1 << 20)
    b.line(110, 3)
    b.op(125, 425, launch=(120, 122), name="gemm")
    b.op(426, 430, launch=(130, 132), name="Memcpy DtoH (Device -> Pageable)", size=4)
    b.sync(133, 433)
    b.line(440, 4)
    b.op(455, 475, launch=(450, 452), name="add")
    b.op(476, 496, launch=(460, 462), name="mul")
    last = b.op(497, 797, launch=(470, 472), name="gemm")
    b.line(480, 5)
    b.wait(490, 9, 7, last)
    b.op(798, 898, launch=(495, 497), name=DTOH, stream=9, size=1 << 20)
    b.line(1500, 5)
    b.op(1510, 1610, launch=(1503, 1505), name="gemm")
    b.line(1506, 0)
    b.sync(1506, 1612, name="cudaDeviceSynchronize")
    return b.trace(returned=1506)


ALL = (
    changes.pin(), changes.no_item(), changes.own_stream(), changes.no_waits(), changes.one_graph(line=4),
    changes.fused(), changes.faster("gemm", 2), changes.faster_python(2), changes.no_python(5),
    changes.overlap_copies(),
)  # fmt: skip


def test_any_two_changes_give_the_same_in_either_order() -> None:
    trace = mixed()
    readings = Readings.from_trace(trace)
    for pair in permutations(ALL, 2):
        one, other = predict(readings, pair), predict(readings, pair[::-1])
        assert one.refused == other.refused == ""
        assert (one.expected_ns, one.low_ns, one.high_ns) == (other.expected_ns, other.low_ns, other.high_ns), pair


def test_what_two_changes_take_from_python_is_taken_once() -> None:
    trace = mixed()
    gap = WithoutPython("without this gap", union(np.array([600 * US]), np.array([1400 * US])))
    assert us(trace, gap, gap) == us(trace, gap)
    assert us(trace, gap, changes.no_python(5)) == us(trace, changes.no_python(5))


def test_python_twice_as_fast_is_what_is_left_of_it() -> None:
    b = Builder()
    b.line(0, 2)
    b.op(105, 205, launch=(100, 102))
    b.line(102, 3)
    b.line(1102, 4)
    b.op(1305, 1405, launch=(1300, 1302))
    b.line(1302, 0)
    b.sync(1302, 1407)
    trace = b.trace(returned=1302)
    faster, without = changes.faster_python(2), changes.no_python(3)
    assert us(trace, without) == pytest.approx(1407 - 1000, abs=10)
    assert us(trace, faster, without) == us(trace, without, faster)
    assert us(trace, faster, without) >= us(trace, without) / 2


def test_a_copy_back_on_a_stream_of_its_own_waits_for_the_kernel_it_reads_also_behind_another_copy() -> None:
    b = Builder()
    b.op(5, 1005, launch=(0, 2), name="K1")
    b.op(1006, 1106, launch=(3, 5), name=HTOD, size=1 << 20)
    b.op(1107, 1207, launch=(6, 8), name=DTOH, size=1 << 20)
    b.sync(9, 1209, name="cudaDeviceSynchronize")
    starts_us = starts(asked(b.trace(returned=9), changes.own_stream()))
    assert starts_us[HTOD][0] < 100
    assert starts_us[DTOH][0] >= 1005


def test_a_copy_to_the_device_does_not_wait_behind_one_that_comes_back() -> None:
    b = Builder()
    b.op(5, 1005, launch=(0, 2), name="K1")
    b.op(1006, 1106, launch=(3, 5), name=DTOH, size=1 << 20)
    b.op(1107, 1207, launch=(6, 8), name=HTOD, size=1 << 20)
    b.op(1208, 1308, launch=(9, 11), name="K2")
    b.sync(12, 1310, name="cudaDeviceSynchronize")
    starts_us = starts(asked(b.trace(returned=12), changes.own_stream()))
    assert starts_us[HTOD][1] < starts_us["K2"][0] <= 1010
    assert starts_us[DTOH][0] >= 1005


def test_a_kernel_waits_for_the_copy_before_it_also_behind_a_copy_back() -> None:
    b = Builder()
    b.op(5, 55, launch=(0, 2), name=HTOD, size=1 << 20)
    b.op(56, 356, launch=(3, 5), name=DTOH, size=1 << 20)
    b.op(357, 400, launch=(6, 8), name="K2")
    b.sync(9, 402, name="cudaDeviceSynchronize")
    starts_us = starts(asked(b.trace(returned=9), changes.own_stream()))
    assert starts_us["K2"][0] >= starts_us[HTOD][1]


def looped() -> Trace:
    """Ten times two launches on line 3 and a millisecond of Python on line 4."""
    b, at = Builder(), 0.0
    for _ in range(10):
        b.line(at, 3)
        b.op(at + 5, at + 15, launch=(at, at + 2))
        b.op(at + 16, at + 26, launch=(at + 4, at + 6))
        b.line(at + 7, 4)
        at += 1000
    b.line(at, 0)
    b.sync(at, at + 10)
    return b.trace(returned=at)


def test_one_graph_of_a_line_leaves_the_python_of_other_lines() -> None:
    assert us(looped(), changes.one_graph(line=3)) > 0.9 * 10_010
    found = asked(looped(), changes.one_graph())
    assert found.low_ns < 2000 * US  # nothing between launches may be left
    assert found.high_ns > 9000 * US  # or all that is no launch


def test_one_graph_leaves_another_threads_python() -> None:
    b = queued((5, 15, (0, 2)))
    b.op(500, 510, launch=(490, 492), thread=2)
    b.op(1005, 1015, launch=(1000, 1002), thread=2)
    b.op(20, 30, launch=(1010, 1012))
    trace = b.trace()
    rows = tuple(np.flatnonzero(trace.calls.thread[trace.ops.launch] == 1).tolist())
    assert us(trace, OneGraph(stretches=(rows,))) >= 1015


def test_kernels_with_a_wait_or_a_read_between_are_not_fused() -> None:
    b = Builder()
    first = b.op(5, 105, launch=(0, 2), name="add")
    b.wait(3, 8, 7, first)
    middle = b.op(106, 206, launch=(5, 7), name="gemm", stream=8)
    b.wait(8, 7, 8, middle)
    b.op(207, 307, launch=(10, 12), name="mul")
    b.sync(13, 309, name="cudaDeviceSynchronize")
    assert predict(Readings.from_trace(b.trace()), [changes.fused()]).refused.startswith("no two elementwise kernels")
    b = Builder()
    b.op(5, 105, launch=(0, 2), name="add")
    b.sync(3, 107)
    b.op(115, 215, launch=(110, 112), name="mul")
    assert predict(Readings.from_trace(b.trace()), [changes.fused()]).refused.startswith("no two elementwise kernels")


def test_fused_kernels_leave_long_python_between_them() -> None:
    b = Builder()
    b.op(5, 105, launch=(0, 2), name="add")
    b.op(1005, 1105, launch=(1000, 1002), name="mul")
    b.sync(1003, 1107)
    assert us(b.trace(), changes.fused()) > 900


def test_no_overlap_of_copies_gains_more_than_the_bound() -> None:
    b = Builder()
    x = b.op(3, 500, launch=(0, 1), name="X", stream=9)
    b.op(7, 105, launch=(2, 3), name="K1")
    b.wait(4, 7, 9, x)
    b.op(501, 601, launch=(6, 7), name=DTOH, size=1 << 20)
    b.op(602, 902, launch=(8, 9), name="K2")
    b.sync(10, 904, name="cudaDeviceSynchronize")
    trace = b.trace(returned=10)
    bound = asked(trace, changes.overlap_copies())
    assert bound.at_most
    assert bound.expected_ns <= asked(trace, changes.own_stream()).low_ns


def uploads(first_call: float = 0) -> Trace:
    """Five steps of a copy from pageable memory that blocks Python, a wait for it, and a kernel.

    first_call: what the first call does before it begins to copy, µs.
    """
    b, at = Builder(), 0.0
    for step in range(5):
        begin = at + 100 + (first_call if step == 0 else 0)
        b.op(begin, begin + 100, launch=(at, begin + 90), name=PAGEABLE, size=1 << 20)
        b.sync(begin + 91, begin + 103)
        b.op(begin + 110, begin + 210, launch=(begin + 105, begin + 107), name="gemm")
        at = begin + 120
    b.sync(at, at + 93, name="cudaDeviceSynchronize")
    return b.trace()


def test_pinned_memory_gains_no_more_of_pageable_copies_than_the_bound_of_hiding_them() -> None:
    for given in ((changes.pin(),), (changes.pin(), changes.own_stream())):
        assert asked(uploads(), changes.overlap_copies()).expected_ns <= asked(uploads(), *given).expected_ns


def test_what_a_first_call_does_before_it_copies_stays_with_pinned_memory() -> None:
    plain, slow = us(uploads(), changes.pin()), us(uploads(first_call=5000), changes.pin())
    assert slow - plain == pytest.approx(5000, abs=50)


def test_a_copy_from_pageable_memory_ends_a_graph() -> None:
    trace = uploads()
    starts_us = starts(asked(trace, changes.one_graph()))
    recorded = trace.ops.start_ns[np.array([trace.names[name] == PAGEABLE for name in trace.ops.name])]
    assert starts_us[PAGEABLE][0] >= recorded.max() / US - 10


def test_where_calls_are_missing_nothing_is_predicted() -> None:
    b = queued((5, 15, (0, 2)))
    of = b.launch(1000, 1002, correlation=900)
    b.op(1005, 1015, of=of)
    found = TimelineResult(b.trace()).what_if(changes.faster_python(2))
    assert "calls are missing: for 998" in found.refused


def test_each_op_keeps_its_own_part_of_its_time() -> None:
    b = Builder()
    b.op(10, 110, launch=1, name="slow")
    b.op(110, 210, launch=3, name="slower")
    assert us(b.trace(), ShorterOps("on time", (0, 1), (0.5, 0.1))) == us(b.trace()) - 50 - 90


def test_a_record_too_large_for_its_path_in_passing_has_one_when_asked(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(prediction, "MOST_INSTANTS", 5)
    t = TimelineResult(uploads())
    assert "the record is large" in " ".join(t.doc.trust)
    assert t.trust.sentences == t.doc.trust  # a picture without room for all says that they stand there
    assert t.to_dict()["trust"]["remarks"][-1]["kind"] == "untold"
    assert "recorded 0 ns" not in t.what_if(changes.pin()).text()
    assert "recorded 1.1" in t.what_if(changes.pin()).text()


def test_what_makes_a_run_longer_is_not_next_to_nothing() -> None:
    b = Builder()
    b.op(5, 1005, launch=(0, 2), name="gemm")
    b.sync(3, 1010)
    found = TimelineResult(b.trace()).what_if(changes.faster("gemm", 0.5))
    assert found.predicted_ns == pytest.approx(2010 * US, rel=0.01)
    assert found.interval_ns[1] > found.predicted_ns
    assert "almost nothing" not in found.sentence


@pytest.mark.parametrize("k", [0, -1, math.nan, 1e-300, True, "2"])
def test_an_invalid_factor_raises_an_error(k: float) -> None:
    with pytest.raises(OptionError, match="is not a factor"):
        changes.faster("gemm", k)


def test_factors_and_names_are_described() -> None:
    assert changes.faster("gemm", math.inf).description == "kernels with 'gemm' take no time at all"
    found = TimelineResult(mixed()).what_if(changes.faster(line=77))
    assert found.refused == "there is no kernel of line 77"


@pytest.mark.parametrize("name", ["p.json", "p.json.gz", "p.npz"])
def test_a_saved_prediction_still_says_that_it_is_one(tmp_path: Path, name: str) -> None:
    predicted = TimelineResult(mixed()).what_if(changes.pin()).timeline()
    assert isinstance(predicted, TimelineResult)
    again = perfmagic.open_trace(predicted.save(tmp_path / name))
    assert again.trace.meta.predicted == predicted.trace.meta.predicted
    assert again.what_if(changes.pin()).refused == "this is a prediction itself"


def test_a_curve_and_a_check_are_read_by_machines_and_people() -> None:
    t = TimelineResult(mixed())
    curve = t.curve("gemm")
    text = json.dumps(curve.to_dict(), allow_nan=False)
    assert json.loads(text)[-1]["k"] is None
    assert math.isinf(curve[-1].k)
    check = t.what_if(changes.pin()).check(t)
    assert repr(check) == f"PredictionCheck: {check.sentence}"


def test_a_predicted_timeline_has_no_pageable_copy_and_misses_no_op() -> None:
    predicted = TimelineResult(mixed()).what_if(changes.pin(), changes.no_item()).timeline()
    assert isinstance(predicted, TimelineResult)
    names = {predicted.trace.names[name] for name in predicted.trace.ops.name}
    assert PAGEABLE not in names
    assert HTOD in names
    assert not [one for one in predicted.findings if one.rule in ("pageable", "incomplete")]
    assert "incomplete" not in predicted.text()


def test_a_mistyped_option_of_a_change_raises_an_error() -> None:
    with pytest.raises(OptionError, match="pin: there is no option lines"):
        changes.pin(lines=3)  # type: ignore[call-arg]
