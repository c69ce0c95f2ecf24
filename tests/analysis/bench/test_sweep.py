"""Time against size: where the bottleneck changes, how time grows, and its pictures."""

import json
import re
from dataclasses import replace
from pathlib import Path
from xml.etree import ElementTree as ET

import numpy as np
import pytest

import perfmagic
from perfmagic import results
from perfmagic.analysis.bench.result import summarise
from perfmagic.analysis.bench.sweep import Border, SweepSummary, bottleneck_border, crossing, slope, sweep_result
from perfmagic.analysis.bench.warnings import BenchWarning
from perfmagic.analysis.verdict import Verdict
from perfmagic.base.errors import OptionError
from perfmagic.trace.model import DeviceInfo
from perfmagic.view.bench.sweep import sweep_svg, sweep_text
from tests.analysis.bench.test_result import record

from .clock import Clock

GPU = DeviceInfo(0, "sim", "sim", "")


def at(returns_s: float, span_s: float, name: str = ""):
    done_s = max(returns_s, span_s) * 1.05
    return summarise(
        record([returns_s] * 8, [done_s] * 8, [span_s] * 8, devices=(GPU,), name=name, first_calls_s=np.array([1.0]))
    )


def test_two_straight_lines_cross_where_they_are_equal() -> None:
    sizes = [100.0, 1000.0]
    # the second grows with the square: equal to 1 ms at 316
    assert crossing(sizes, [1e-3, 1e-3], [1e-4, 1e-2]) == pytest.approx(316.2, rel=1e-3)
    assert crossing(sizes, [1e-3, 1e-3], [1e-2, 1e-1]) is None  # above from the start
    assert crossing(sizes, [1e-3, 1e-3], [1e-5, 1e-4]) is None  # never
    assert crossing(sizes, [0.0, 1e-3], [1e-5, 1e-2]) is None
    assert slope(sizes, [1e-3, 1.0]) == pytest.approx(3.0)


def test_the_sentence_says_where_the_bottleneck_changes() -> None:
    found = sweep_result("n", [64, 256, 1024], [[at(1e-4, 1e-5)], [at(1e-4, 1.6e-4)], [at(1e-4, 1e-2)]])
    assert re.match(r"Python decides below n ≈ [\d.]+, the device above it: ", found.sentence)
    assert "done grows × 62 from n = 256 to 1024" in found.sentence


def test_time_that_stays_is_said_to_stay() -> None:
    found = sweep_result("n", [64, 128], [[at(1e-4, 1e-5)], [at(1e-4, 1.01e-5)]])
    assert found.sentence == "done stays at 105\u00a0µs from n = 64 to 128"


def test_words_are_no_axis_and_are_set_side_by_side() -> None:
    found = sweep_result("kind", ["relu", "gelu"], [[at(1e-4, 1e-5)], [at(1e-4, 2e-4)]])
    assert not found.numeric
    assert "decides" not in found.sentence
    assert "gelu" in sweep_svg(found)


@pytest.mark.parametrize("hostile", [False, True])
def test_the_renderers_fit_and_are_sound(hostile: bool) -> None:
    name = '</text><script>"&' if hostile else "B"
    rows = [[at(1e-4 * i, 1e-5 * i**2, "A"), at(1e-4 * i, 2e-5 * i**2, name)] for i in range(1, 12)]
    found = sweep_result("n", list(range(1, 12)), rows)
    faces = results.SweepResult.of(found)._repr_mimebundle_()
    assert all(len(line) <= 100 for line in faces["text/plain"].splitlines())
    assert "<script>" not in faces["text/html"]
    assert len(faces["text/html"]) < 60_000
    root = ET.fromstring(sweep_svg(found))
    texts = ["".join(t.itertext()) for t in root.iter("{http://www.w3.org/2000/svg}text")]
    assert "simulated device" in texts
    assert not any(re.search(r"nan|inf\b", text.lower()) for text in texts)


def test_a_time_of_nothing_is_drawn_and_not_a_number_nowhere() -> None:
    found = sweep_result("n", [1, 2], [[summarise(record([0.0] * 8))], [summarise(record([1e-6] * 8))]])
    assert "nan" not in sweep_svg(found).lower()
    assert "nan" not in found.to_json().lower()


@pytest.mark.slow
def test_a_sweep_goes_to_json_and_back() -> None:
    found = sweep_result("n", [64, 256], [[at(1e-4, 1e-5)], [at(1e-4, 1e-3)]])
    again = SweepSummary.from_json(found.to_json())
    assert again.sentence == found.sentence
    assert again.to_frame().equals(found.to_frame())
    with pytest.raises(OptionError, match="this is not a sweep: perfmagic did not write it"):
        SweepSummary.from_json("{}")


@pytest.mark.parametrize("without", [{"returns": None}, {"returns": None, "done": None}, {}])
def test_a_saved_sweep_without_times_at_a_value_is_refused(without: dict[str, None]) -> None:
    data = sweep_result("n", [64, 256], [[at(1e-4, 1e-5)], [at(1e-4, 1e-3)]]).to_dict()
    result = {key: value for key, value in data["results"][1][0].items() if key not in ("returns", "done")}
    data["results"][1][0] = result | without
    with pytest.raises(OptionError, match="this sweep is damaged: there is no `returns` at n = 256"):
        SweepSummary.from_json(json.dumps(data))


def test_a_function_is_swept_like_a_cell(clock: Clock) -> None:
    found = perfmagic.sweep(lambda n: clock.body("f", n)(), [1, 10], synced=False, samples=8, warmup=0)
    assert [point.returns_s for point in found.points] == pytest.approx([1e-3, 1e-2])
    assert perfmagic.last() is found
    with pytest.raises(OptionError, match="at least two"):
        perfmagic.sweep(len, [[]])
    with pytest.raises(OptionError, match="sweep: int is not a function\nHint: give the function itself"):
        perfmagic.sweep(3, [1, 2])


def test_two_sweeps_are_compared_at_the_values_both_have(tmp_path: Path) -> None:
    before = sweep_result("n", [64, 128, 256], [[at(1e-4, 1e-5)], [at(2e-4, 1e-5)], [at(3e-4, 1e-5)]]).named("before")
    after = sweep_result("n", [128, 256, 512], [[at(1e-4, 1e-5)], [at(3e-4, 1e-5)], [at(9e-4, 1e-5)]])
    after.save(tmp_path / "after.json")
    found = perfmagic.compare(before, tmp_path / "after.json")
    assert isinstance(found, SweepSummary)
    assert found.values == (128, 256)
    assert [[c.verdict for c in row] for row in found.comparisons] == [["faster"], ["same"]]
    assert found.sentence == "after is faster than before at n = 128; after is as fast as before at n = 256"
    assert perfmagic.compare(before, after, quantity="span").comparisons[0][0].quantity == "span"
    ET.fromstring(sweep_svg(found))


def test_one_variant_of_a_sweep_is_compared_with_one_of_another() -> None:
    def sweep(factor: float) -> SweepSummary:
        return sweep_result("n", [64, 128], [[at(1e-4, 1e-5, "A"), at(factor * 1e-4, 1e-5, "B")] for _ in range(2)])

    before, after = sweep(4.0).only("B"), sweep(2.0).only("B")
    assert [[one.name for one in row] for row in before.results] == [["B"], ["B"]]
    assert [c.verdict for row in perfmagic.compare(before, after).comparisons for c in row] == ["faster", "faster"]
    named = sweep(4.0).only("B", "before"), sweep(2.0).only("B", "after")
    assert perfmagic.compare(*named).sentence == "after is faster than before at every n"
    with pytest.raises(OptionError, match="no variant 'C'\\nHint: there is 'A', 'B'"):
        sweep(1.0).only("C")


def test_a_point_has_the_interval_of_what_the_cell_took() -> None:
    point = sweep_result("n", [1, 2], [[at(1e-4, 1e-5)], [at(1e-4, 1e-5)]]).points[0]
    assert point.low_s <= point.done_s <= point.high_s


def test_a_file_of_a_later_version_is_said_to_be_one(tmp_path: Path) -> None:
    found = sweep_result("n", [1, 2], [[at(1e-4, 1e-5)], [at(1e-4, 1e-5)]])
    path = found.save(tmp_path / "sweep.json")
    path.write_text(path.read_text("utf-8").replace('"perfmagic sweep 2"', '"perfmagic sweep 12"'), "utf-8")
    with pytest.raises(OptionError, match=r"later perfmagic.*'perfmagic sweep 12', the last one known here 'perfmagic"):
        perfmagic.load(path)
    with pytest.raises(OptionError, match=r"cannot be written: there is no folder .*none"):
        found.save(tmp_path / "none" / "sweep.json")
    with pytest.raises(OptionError, match="there is no file ~nobody-here/x"):
        perfmagic.load("~nobody-here/x")


def test_sweeps_with_nothing_in_common_are_refused() -> None:
    one = sweep_result("n", [64, 128], [[at(1e-4, 1e-5, "one")], [at(1e-4, 1e-5, "one")]])
    for other, words in (
        (sweep_result("m", [64, 128], one.results), "A sweeps n, B sweeps m"),
        (sweep_result("n", [1, 2], one.results), "the sweeps share no value of n (A: 64, 128; B: 1, 2)"),
        (sweep_result("n", [64, 128], [row * 2 for row in one.results]), "a sweep has 2 variants (one, one)"),
        (sweep_result("n", [64, 64], one.results), "B has a value of n twice"),
    ):
        with pytest.raises(OptionError) as refused:
            perfmagic.compare(one, other)
        assert words in str(refused.value)
    with pytest.raises(OptionError, match="one sweep, at least two"):
        perfmagic.compare(one)
    with pytest.raises(OptionError, match="1 results, 1 sweeps and 0 functions"):
        perfmagic.compare(one, at(1.0, 1.0))


def test_a_warning_of_a_sweep_says_which_variant_and_value_it_is_of() -> None:
    loud = replace(at(1e-4, 1e-5, "B"), warnings=(BenchWarning("odd", {}, "odd"),))
    quiet = at(1e-4, 1e-5, "A")
    calm = at(1e-4, 1e-5, "B")
    assert "! B at n = 2: odd" in sweep_text(sweep_result("n", [1, 2], [[quiet, calm], [quiet, loud]]))
    assert "! B: odd" in sweep_text(sweep_result("n", [1, 2], [[quiet, loud], [quiet, loud]]))
    noisy = replace(quiet, warnings=(BenchWarning("odd", {}, "odd"),))
    assert "! n = 2: odd" in sweep_text(sweep_result("n", [1, 2], [[quiet, calm], [noisy, loud]]))
    assert "! odd" in sweep_text(sweep_result("n", [1, 2], [[noisy, loud], [noisy, loud]]))


def border_of(sweep: SweepSummary) -> Border | None:
    return bottleneck_border(sweep.values, sweep.variant(0))


def judged_at(kind: str, returns_s: float, span_s: float):
    return replace(at(returns_s, span_s), verdict=Verdict(kind, 0.5, ""))


def test_the_grounds_of_the_picture_say_what_the_sentence_says() -> None:
    rows = [
        [judged_at(kind, 1e-4, span_s)]
        for kind, span_s in (("host-bound", 5e-5), ("host-bound", 9e-5), ("device-bound", 9e-4))
    ]
    found = sweep_result("n", [64, 128, 256], rows)
    assert found.sentence.startswith("Python decides up to n = 128, the device from n = 256 on")
    border = border_of(found)
    assert (border.below, border.above) == ("host-bound", "device-bound")
    assert 128 < border.until == border.since <= 256
    assert ">device-bound<" in sweep_svg(found)
    between = sweep_result("n", [64, 128, 256], [rows[0], [judged_at("mixed", 1e-4, 2e-4)], rows[2]])
    assert (border_of(between).until, border_of(between).since) == (64, 256)
    far = sweep_result("n", [np.int64(2**31), np.int64(2**33)], [rows[0], rows[2]])
    assert ">host-bound<" in sweep_svg(far)
    rows[1] = [judged_at("host-bound", 1e-4, 2e-4)]  # its device span is 95 % of done: the samples say otherwise
    doubted = sweep_result("n", [64, 128, 256], rows)
    assert doubted.sentence.startswith("Python decides below n ≈ 91, the device above it: ")
    assert 64 < border_of(doubted).until < 128
    unjudged = sweep_result("n", [64, 128], [[at(1e-4, 5e-5)], [at(1e-4, 2e-4)]])
    assert border_of(unjudged).below == "Python needs longer"
    assert "device-bound" not in sweep_svg(unjudged)


def test_what_a_loop_pays_for_a_call_is_a_line_of_its_own() -> None:
    queued = [replace(at(s, s / 2), queued=at(s * 0.9, s).returns, queued_calls=100) for s in (1e-4, 2e-4)]
    found = sweep_result("n", [64, 128], [[one] for one in queued])
    assert found.points[1].queued_s == pytest.approx(1.8e-4)
    assert "per call, queued" in sweep_svg(found)
    assert "per call, queued" in sweep_text(found)


def test_what_ended_a_sweep_is_said_with_the_value() -> None:
    with pytest.raises(ZeroDivisionError):
        perfmagic.sweep(lambda n: 1 / n, [1, 2, 0], synced=False, samples=6, warmup=0)
    kept = perfmagic.last()
    assert (kept.values, kept.failed) == ((1, 2), "ZeroDivisionError: division by zero (at n = 0)")
    assert "ended early: ZeroDivisionError: division by zero (at n = 0)" in sweep_text(kept)
    assert SweepSummary.from_json(kept.to_json()).failed == kept.failed


def test_a_table_of_variants_has_the_interval_of_what_its_verdict_rests_on() -> None:
    rows = [[at(1e-4, 1e-5, "A"), at(2e-4, 1e-5, "B")] for _ in range(2)]
    found = sweep_result("n", [1, 2], rows)
    point = found.points[1]
    assert point.times_as_fast_low <= point.times_as_fast <= point.times_as_fast_high
    assert re.search(r"slower × 0\.5\d* \[0\.\d+, 0\.\d+\]", sweep_text(found))


def test_medians_whose_intervals_overlap_are_no_trend() -> None:
    wide = [summarise(record(scale * (1 + np.random.default_rng(i).random(20)), [])) for i, scale in ((0, 1), (1, 1.2))]
    assert wide[0].returns_s != wide[1].returns_s
    found = sweep_result("n", [10, 20], [[wide[0]], [wide[1]]]).sentence
    assert "the intervals at n = 10 and 20 overlap, so no trend is certain there" in found
    assert "grows" not in found
    assert "stays" not in found
