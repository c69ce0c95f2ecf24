"""Where few calls take much of the time, the median alone misleads: the headline has the mean beside it."""

import json

import pytest

from perfmagic.analysis.bench.quantity import Quantity
from perfmagic.analysis.bench.result import BenchSummary, summarise
from perfmagic.api.comparisons import compared
from perfmagic.capture.bench.engine import BenchSpec
from perfmagic.view.bench.bench import bench_doc, bench_html, bench_svg, bench_text
from perfmagic.view.bench.compare import compare_html, compare_text
from tests.capture.bench.machine import MS, Machine


def one_in(n: int, slow_ms: int, *, device: bool = False) -> BenchSummary:
    """100 calls of 1 ms, of which one in n takes longer: in Python, or on the device."""
    machine = Machine()
    engine = machine.engine(BenchSpec(samples=100, warmup=0))
    for number, () in enumerate(engine.calls()):
        call_ms = slow_ms if number % n == 1 else 1
        machine.body(1 * MS if device else call_ms * MS, call_ms * MS if device else 0)
    return summarise(engine.record())


def test_every_renderer_says_the_mean_beside_the_median() -> None:
    result = one_in(50, 51)
    doc = bench_doc(result)
    assert doc.lead.replace("\u00a0", " ") == "Python is back after 1.00 ms (mean 2.00 ms)."
    for face in (bench_text(doc), bench_html(doc), bench_svg(doc), repr(result)):
        assert "mean 2.00\u00a0ms" in face
    assert json.loads(result.to_json())["returns"]["mean_s"] == pytest.approx(2e-3)


def test_done_has_its_own_mean() -> None:
    lead = bench_doc(one_in(50, 51, device=True)).lead.replace("\u00a0", " ")
    assert lead == "Python is back after 1.00 ms; the device works until 2.00 ms (mean 3.00 ms)."


@pytest.mark.parametrize(("slow_ms", "far"), [(13, False), (14, True)])  # a mean of 1.24 and 1.26 ms
def test_a_mean_is_far_from_1_25_times_the_median_on(slow_ms: int, far: bool) -> None:
    result = one_in(50, slow_ms)
    assert ("mean" in bench_doc(result).lead) is far
    assert [w.kind for w in result.warnings if w.kind == "mean"] == ["mean"] * far


def test_a_mean_below_the_median_is_said_too() -> None:
    quantity = Quantity.of([1e-6] * 45 + [1e-3] * 55)
    assert quantity.mean_is_far


def test_a_comparison_by_medians_says_whose_mean_is_far() -> None:
    steady, rare = one_in(1000, 1).named("steady"), one_in(50, 51).named("rare")
    words = " ".join(compare_text(compared([steady, rare])).replace("\u00a0", " ").split())
    assert "! rare: the mean of returns, 2.00 ms, is far from its median, 1.00 ms" in words


def test_a_comparison_has_the_mean_that_is_far_in_every_face() -> None:
    result = compared([one_in(1000, 1).named("steady"), one_in(50, 51).named("rare")])
    said = "1.00\u00a0ms (mean 2.00\u00a0ms) against 1.00\u00a0ms"
    for face in (result.comparisons[0].sentence, compare_text(result).splitlines()[0], compare_html(result)):
        assert said in face
    brief = result.brief()
    assert said.replace("\u00a0", " ") in brief["says"]
    assert (brief["numbers"]["baseline_mean_us"], brief["numbers"]["name_mean_us"]) == (1000, 2000)
    assert json.loads(result.to_json())["comparisons"][0]["name_mean_s"] == pytest.approx(2e-3)


def test_a_comparison_without_rare_calls_says_no_mean() -> None:
    result = compared([one_in(1000, 1).named("steady"), one_in(50, 13).named("rare")])
    assert "mean" not in f"{result.comparisons[0].sentence}{result.brief()['numbers']}"
