"""A predicted run: its interval, and who decides where the model's intervals leave that open."""

import pytest
import torch

import perfmagic
from perfmagic.analysis.replay.prediction import Corners, corners
from perfmagic.base.kinds import HOST_SPREAD
from perfmagic.results import TimelineResult
from perfmagic.trace.names import OpClass, op_classes, unknown_operators
from tests.sim.test_named_gpu import recorded


def products(size: int, n: int = 20) -> TimelineResult:
    x = torch.ones(size, size, device=perfmagic.device("H100"))
    return recorded(lambda: [x @ x for _ in range(n)])


def of_modules() -> TimelineResult:
    """Small products that modules ask for: Python takes longer for each than the device."""
    x = torch.ones(8, 8, device=perfmagic.device("H100"))
    linear = torch.nn.Linear(8, 8, bias=False, device=x.device)
    return recorded(lambda: [linear(x) for _ in range(50)])


def total_ns(t: TimelineResult) -> int:
    return t.trace.meta.end_ns - t.trace.meta.start_ns


def ends_of(t: TimelineResult) -> Corners:
    found = corners(t.trace, 0)
    assert found is not None
    return found


def test_a_run_that_the_device_holds_varies_as_its_model_does() -> None:
    t = products(2048)
    assert (t.verdict.kind, t.answers.decides.partition(":")[0]) == ("device-bound", "The device decides")
    ends = ends_of(t)
    assert ends.high_ns == pytest.approx(1.4 * total_ns(t), rel=0.02)
    assert ends.low_ns == pytest.approx(total_ns(t) / 1.4, rel=0.02)
    assert (t.answers.low_ns, t.answers.high_ns) == (ends.low_ns, ends.high_ns)


def test_a_run_that_the_host_holds_varies_as_the_host_does() -> None:
    t = of_modules()
    assert (t.verdict.kind, t.answers.decides.partition(":")[0]) == ("host-bound", "Python decides")
    assert ends_of(t).high_ns == pytest.approx(HOST_SPREAD * total_ns(t), rel=0.05)


def test_who_decides_is_open_where_the_intervals_overlap() -> None:
    t = products(512)
    assert t.verdict.kind == "open"
    assert t.verdict.cost_ns is None
    assert t.answers.decides == "Open: device-bound or host-bound; the intervals of the prediction overlap"
    assert "recorded on H100 SXM narrows the intervals: perfmagic.DeviceModel.fit()" in t.verdict.detail
    assert "decides:" not in t.text()


def test_the_first_line_has_the_interval_with_two_digits() -> None:
    t = products(2048)
    text = t.text().replace("\xa0", " ")
    ends = ends_of(t)
    assert text.startswith("7.0 ms ")
    assert round(total_ns(t) / 1e6, 1) == 7
    low, high = (round(ns / 1e6, 1) for ns in (ends.low_ns, ends.high_ns))
    assert (low, high) == (5, pytest.approx(9.75, abs=0.06))
    assert f"{low} to {high} ms in all" in text


def test_an_operator_without_a_model_makes_times_lower_bounds() -> None:
    x = torch.eye(64, device=perfmagic.device("H100"))
    linear = torch.nn.Linear(64, 64, bias=False, device=x.device)
    t = recorded(lambda: [torch.linalg.svd(x), *(linear(x) for _ in range(50))])
    assert unknown_operators(t.trace) == ("_linalg_svd",)
    text = t.text()
    assert text.startswith("≥ ")
    assert "Open: 1 operator without a model may take any time" in text
    assert t.answers.high_ns is None
    (finding,) = [finding for finding in t.findings if finding.rule == "no_model"]
    assert "_linalg_svd" in finding.sentence
    assert (op_classes(t.trace) == OpClass.UNKNOWN).sum() == 1


def test_more_time_of_an_unknown_operator_leaves_a_device_that_decides() -> None:
    x = torch.eye(2048, device=perfmagic.device("H100"))
    t = recorded(lambda: [*(x @ x for _ in range(20)), torch.linalg.svd(x[:64, :64])])
    assert t.verdict.kind == "device-bound"
    assert t.answers.decides.startswith("The device decides: it was busy at least")


def test_a_recorded_run_has_no_interval() -> None:
    x = torch.ones(64, 64, device=perfmagic.device(clock="virtual", pace="mm=1ms"))
    t = recorded(lambda: [x @ x for _ in range(5)])
    assert corners(t.trace, 0) is None
    assert (t.answers.low_ns, t.answers.high_ns) == (None, None)
