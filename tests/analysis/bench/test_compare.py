"""Is it faster, really: intervals, verdicts, turns."""

from __future__ import annotations

import json
import re
import sys
import time
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

import perfmagic
from perfmagic.analysis.bench.compare import BAND_APART, CompareResult, compare
from perfmagic.analysis.bench.result import BenchResult, summarise
from perfmagic.capture.bench.engine import BenchSpec
from perfmagic.capture.bench.interleave import measure_interleaved
from perfmagic.errors import OptionError
from perfmagic.numerics.ratio import BAND, judged, ratio_interval
from perfmagic.samples import BenchRecord
from perfmagic.testing import faster, not_slower
from perfmagic.view.bench.compare import compare_svg


def series(median: float, n: int = 200, noise: float = 0.01, seed: int = 0) -> np.ndarray:
    return median * (1 + noise * np.random.default_rng(seed).standard_normal(n))


def result(samples: np.ndarray, name: str = "", **fields: str) -> BenchResult:
    empty = np.zeros(0)
    return summarise(BenchRecord(name, False, samples, empty, empty, empty, 1, len(samples), 0.0, 0, "", **fields))


@pytest.mark.parametrize(
    ("interval", "verdict"),
    [
        ((1.02, 1.05), "faster"),
        ((0.9, 0.98), "slower"),
        ((0.995, 1.005), "same"),
        ((0.995, 1.02), "unclear"),
        ((1.005, 1.02), "unclear"),
        ((0.9, 1.1), "unclear"),
    ],
)
def test_a_verdict_needs_the_whole_interval(interval: tuple[float, float], verdict: str) -> None:
    assert judged(interval, 0.01) == verdict
    mirrored = {"faster": "slower", "slower": "faster"}.get(verdict, verdict)
    assert judged((1 / interval[1], 1 / interval[0]), 0.01) == mirrored


def test_the_interval_holds_the_ratio_and_is_the_same_each_time() -> None:
    first, second = series(1.0), series(1.05, seed=1)
    low, high = ratio_interval(first, second, interleaved=False)
    assert low < 1.05 < high
    assert high - low < 0.01
    assert ratio_interval(first, second, interleaved=False) == (low, high)


def test_a_drift_of_both_cancels_where_they_were_taken_in_turns() -> None:
    drift = np.linspace(1, 1.5, 200)
    first, second = series(1.0) * drift, series(1.05, seed=1) * drift
    low, high = ratio_interval(first, second, interleaved=True)
    assert low < 1.05 < high
    apart = ratio_interval(first, second, interleaved=False)
    assert high - low < (apart[1] - apart[0]) / 3


def test_too_few_samples_and_times_of_zero_have_no_interval() -> None:
    assert ratio_interval(np.ones(5), np.ones(50), interleaved=False) is None
    assert ratio_interval(np.zeros(50), np.ones(50), interleaved=False) is None
    few = compare(result(np.ones(5), "a"), result(np.ones(50), "b"))[0]
    assert (few.verdict, few.low) == ("unclear", None)
    assert "5 samples are too few" in few.why
    none = compare(result(np.zeros(50), "a"), result(np.ones(50), "b"))[0]
    assert "no time that the clock can see" in none.why


def test_results_are_compared_by_what_all_have_and_speak_of_their_names() -> None:
    found = compare(result(series(1e-3), "old"), result(series(0.8e-3, seed=1), "new"))[0]
    assert (found.baseline, found.name, found.quantity, found.verdict) == ("old", "new", "returns", "faster")
    assert found.ratio == pytest.approx(1.25, rel=0.01)
    assert found.sentence.startswith("new is 1.25 times as fast as old: returns 800")
    assert found.words == f"new is {found.words.split()[2]} times as fast as old"
    back = compare(result(series(0.8e-3, seed=1), "new"), result(series(1e-3), "old"))[0]
    assert back.verdict == "slower"
    with pytest.raises(OptionError, match=r"done was not measured in all \(old: returns; new: returns\)"):
        compare(result(series(1), "old"), result(series(1), "new"), quantity="done")


def test_a_change_of_three_percent_counts_as_the_same_where_they_did_not_take_turns() -> None:
    here, there = result(series(1.0), "here", round_id="1"), result(series(1.02, seed=1), "there", round_id="2")
    found = compare(here, there)[0]
    assert (found.band, found.verdict) == (BAND_APART, "same")
    assert found.why.startswith("1 run each, one after the other; ± 3")
    in_turns = compare(here, replace(there, round_id="1"))[0]
    assert (in_turns.band, in_turns.verdict) == (BAND, "slower")
    saved = BenchResult.from_json(there.to_json())
    assert compare(here, saved)[0].band == BAND_APART


class Clock:
    """Every body takes the time it says; nothing else takes any."""

    def __init__(self) -> None:
        self.now_ns = 0
        self.order: list[str] = []

    def __call__(self) -> int:
        return self.now_ns

    def body(self, name: str, ms: float):
        def run() -> None:
            self.order.append(name)
            self.now_ns += round(ms * 1e6)

        return run


def test_bodies_take_turns_forth_and_back_until_the_verdict_is_clear() -> None:
    clock = Clock()
    specs = [BenchSpec(name="a", warmup=0), BenchSpec(name="b", warmup=0)]
    first, second = measure_interleaved([clock.body("a", 20), clock.body("b", 25)], specs, band=0.01, clock_ns=clock)
    sampled = "".join(clock.order[4:])  # after two first calls and two that tell how long a call is
    assert sampled == "abba" * (len(sampled) // 4)
    assert len(first.returns_s) == len(second.returns_s) == len(sampled) // 2 >= 20
    assert first.round_id == second.round_id != ""
    found = compare(summarise(first), summarise(second))[0]
    assert (found.verdict, found.interleaved) == ("slower", True)
    assert found.ratio == pytest.approx(0.8)


@pytest.mark.parametrize(("seconds", "samples", "spent"), [(1.9, 8, "51.3"), (3.0, 6, "63.0"), (40.0, 1, "120")])
def test_long_bodies_have_the_samples_of_an_interval_whatever_warm_up_took(seconds: float, samples: int, spent: str):
    clock = Clock()
    specs = [BenchSpec(name=name) for name in "abc"]
    bodies = [clock.body(name, 1e3 * seconds) for name in "abc"]
    records = measure_interleaved(bodies, specs, decide_s=10.0, clock_ns=clock)
    assert [len(one.returns_s) for one in records] == 3 * [samples]
    assert {one.stopped_by for one in records} == {f"stopped after {spent}\N{NO-BREAK SPACE}s"}


def test_an_exception_of_one_body_ends_the_comparison() -> None:
    def fails() -> None:
        raise ValueError("no")

    with pytest.raises(ValueError, match="no"):
        perfmagic.compare(lambda: None, fails)


def test_functions_are_told_apart_and_results_and_functions_are_not_mixed() -> None:
    found = perfmagic.compare(lambda: sum(range(20_000)), lambda: sum(range(60_000)), time_s=0.3)
    assert [r.name for r in found.results] == ["A", "B"]
    assert found.verdict == "slower"
    assert json.loads(found.to_json())["comparisons"][0]["verdict"] == "slower"
    assert found.to_frame()["name"].tolist() == ["B"]
    with pytest.raises(OptionError, match="1 results, 0 sweeps and 1 functions"):
        perfmagic.compare(found.results[0], lambda: None)


def test_the_faces_say_the_verdict_and_fit() -> None:
    found = perfmagic.compare(result(series(1e-3), "old <b>"), result(series(0.8e-3, seed=1), "新 new"))
    faces = found._repr_mimebundle_()
    assert "faster" in faces["text/plain"]
    assert all(len(line) <= 100 for line in faces["text/plain"].splitlines())
    assert "<b>新 new is" in faces["text/html"]
    assert "old <b>" not in faces["text/html"]
    assert len(faces["text/html"]) < 60_000


def test_a_check_fails_only_beyond_doubt() -> None:
    def short() -> None:
        sum(range(20_000))

    def long() -> None:
        sum(range(60_000))

    assert not_slower(short, long, time_s=0.2).verdict == "faster"
    with pytest.raises(AssertionError, match="long is slower than short: returns"):
        not_slower(long, short, time_s=0.2)
    assert faster(short, long, time_s=0.2).ratio > 2
    with pytest.raises(AssertionError, match="slower"):
        faster(long, short, time_s=0.2)


def test_a_speed_is_held_against_a_benchmark_from_before(tmp_path: Path) -> None:
    def short() -> int:
        return sum(range(200))

    def long() -> int:
        return sum(range(20_000))

    before = perfmagic.bench(short, time_s=0.2)
    before.save(tmp_path / "before.json")
    with pytest.raises(AssertionError, match=r"long is slower than before: returns .*one after the other"):
        not_slower(long, tmp_path / "before.json", time_s=0.2)
    with pytest.raises(AssertionError, match="long is slower than baseline"):
        not_slower(long, before, time_s=0.2)
    after = perfmagic.bench(long, time_s=0.2, name="short")
    found = faster(short, after, time_s=0.2)
    assert [one.name for one in found.results] == ["baseline", "body"]
    unnamed = not_slower(lambda: sum(range(200)), replace(before, name="body"), time_s=0.2)
    assert [one.name for one in unnamed.results] == ["baseline", "body"]
    with pytest.raises(OptionError, match="there is no file"):
        not_slower(short, tmp_path / "none.json")
    with pytest.raises(OptionError, match="by returns or done, not by span"):
        not_slower(short, before, quantity="span")


def test_an_interrupt_keeps_what_was_measured_of_all_functions() -> None:
    calls = []

    def stops() -> None:
        calls.append(1)
        if len(calls) == 45:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        perfmagic.compare(lambda: time.sleep(0.002), lambda: (time.sleep(0.001), stops()), warmup=0, samples=100)
    kept = perfmagic.last()
    assert isinstance(kept, CompareResult)
    assert [r.failed for r in kept.results] == ["interrupted (in B)", "interrupted (in B)"]
    assert min(r.returns.n for r in kept.results) >= 10
    assert [c.name for c in kept.comparisons] == ["B"]


def test_output_is_seen_again_while_an_exception_is_still_held() -> None:
    out = sys.stdout
    calls = []

    def fails() -> None:
        calls.append(1)
        if len(calls) == 20:
            raise ValueError("late")

    try:
        perfmagic.compare(lambda: None, fails)
    except ValueError:
        assert sys.stdout is out
    else:
        raise AssertionError("it did not fail")


def test_what_is_asked_for_is_obeyed_and_checked_before_anything_runs() -> None:
    ran = []
    found = perfmagic.compare(lambda: ran.append(1), lambda: ran.append(2), samples=8, warmup=0)
    assert [r.returns.n for r in found.results] == [8, 8]
    ran.clear()
    for given, options in (((ran.append,), {}), ((lambda: ran.append(1), lambda: ran.append(2)), {"quantity": "span"})):
        with pytest.raises(OptionError, match="two functions or more"):
            perfmagic.compare(*given, **options)
    assert ran == []


def test_the_same_is_subtracted_for_the_empty_loop_from_all_that_take_turns() -> None:
    found = perfmagic.compare(lambda: None, lambda: None, lambda: None, samples=6, warmup=50)
    assert len({one.record.loop_overhead_s for one in found.results}) == 1


def test_load_knows_what_was_saved_and_options_are_told_their_neighbour(tmp_path: Path) -> None:
    found = perfmagic.compare(lambda: None, lambda: None, samples=6, warmup=0)
    swept = perfmagic.sweep(lambda n: None, [1, 2], synced=False, samples=6, warmup=0)
    for one in (found, swept, found.results[0]):
        again = perfmagic.load(one.save(tmp_path / "one.json"))
        assert type(again) is type(one)
        assert again.to_dict()["format"] == one.to_dict()["format"]
    with pytest.raises(OptionError, match=r"one of them is a comparison already\nHint: its \.results"):
        perfmagic.compare(found, found)
    with pytest.raises(OptionError, match=r"there is no option warm_up\nHint: did you mean warmup\?"):
        perfmagic.bench(lambda: None, warm_up=3)


def test_too_few_samples_for_99_percent_are_said_to_be_too_few() -> None:
    found = perfmagic.compare(lambda: time.sleep(0.001), lambda: time.sleep(0.0013), samples=7, warmup=0)
    assert (found.verdict, found.comparisons[0].interleaved) == ("unclear", True)
    why = found.comparisons[0].why
    assert why.startswith("nearly slower: 7 samples are too few") or "reaches" in why


def test_results_without_names_are_called_the_same_in_words_picture_and_warnings() -> None:
    rising = np.linspace(1e-3, 2e-3, 60)
    found = perfmagic.compare(result(rising), result(rising[::-1]))
    assert [one.name for one in found.results] == ["baseline", "result 2"]
    faces = found._repr_mimebundle_()["text/plain"] + compare_svg(found)
    assert "! baseline: returns rose" in faces
    assert "! result 2: returns fell" in faces
    assert ">baseline<" in faces


def test_a_damaged_file_says_what_is_missing(tmp_path: Path) -> None:
    saved = perfmagic.bench(lambda: None, samples=6, warmup=0).save(tmp_path / "one.json")
    data = json.loads(saved.read_text())
    del data["course"]
    saved.write_text(json.dumps(data))
    with pytest.raises(OptionError, match=r"one.json: this benchmark result is damaged: 'course' is missing"):
        perfmagic.load(saved)


def test_a_file_that_is_no_result_is_named(tmp_path: Path) -> None:
    saved = perfmagic.bench(lambda: None, samples=6, warmup=0).save(tmp_path / "sound.json")
    for name, text, says in (
        ("cut.json", saved.read_text()[:99], "this is no JSON"),
        ("other.json", "{}", "no single"),
    ):
        (tmp_path / name).write_text(text)
        with pytest.raises(OptionError, match=f"{name}: .*{says}"):
            perfmagic.compare(saved, tmp_path / name)


def test_a_result_beside_itself_is_not_blamed_on_the_clock() -> None:
    noisy = result(series(300e-6, n=20, noise=0.3), "a")
    found = perfmagic.compare(noisy, replace(noisy, name="b")).comparisons[0]
    assert found.verdict == "unclear"
    assert "the interval reaches over the band" in found.why


def test_a_short_body_keeps_its_time_beside_a_long_one() -> None:
    def long() -> None:
        until = time.perf_counter() + 1e-3
        while time.perf_counter() < until:
            pass

    found = perfmagic.compare(long, lambda: sum(range(9)), samples=8)
    assert found.results[0].calls_per_sample < found.results[1].calls_per_sample
    assert found.results[1].returns_s > 50e-9
    assert found.verdict == "faster"


def test_nothing_is_said_of_differences_below_a_look_at_the_clock() -> None:
    found = perfmagic.compare(result(series(60e-9), "a"), result(series(120e-9, seed=1), "b")).comparisons[0]
    assert found.verdict == "unclear"
    assert found.why == "they differ by less than a look at the clock takes: let one call do more"


def test_cold_and_warm_caches_are_not_compared() -> None:
    cold = replace(result(series(1e-3), "cold"), cold_bytes=1 << 20)
    found = perfmagic.compare(cold, result(series(0.5e-3, seed=1), "warm")).comparisons[0]
    assert found.verdict == "unclear"
    assert "take both with cold=True, or both without" in found.why


def test_results_of_different_machines_are_not_compared() -> None:
    here = replace(result(series(1e-3), "a"), environment={"system": "Linux", "machine": "x86_64", "cores": 2})
    there = replace(result(series(0.5e-3), "b"), environment={"system": "Linux", "machine": "aarch64", "cores": 8})
    found = perfmagic.compare(here, there).comparisons[0]
    assert found.verdict == "unclear"
    assert found.why.startswith("measured on different machines, Linux x86_64 2 cores and Linux aarch64 8 cores")


def test_nameless_results_are_numbered() -> None:
    found = perfmagic.compare(*(result(series(1e-3, seed=i), "") for i in range(3)))
    assert [(c.baseline, c.name) for c in found.comparisons] == [("baseline", "result 2"), ("baseline", "result 3")]


@pytest.mark.parametrize("what", ["results", "comparisons"])
def test_a_damaged_comparison_is_refused(what: str) -> None:
    data = perfmagic.compare(result(series(1e-3), "a"), result(series(1e-3), "b")).to_dict()
    with pytest.raises(OptionError, match="damaged"):
        CompareResult.from_json(json.dumps({**data, what: []}))


def test_saved_results_are_compared_by_their_files(tmp_path) -> None:
    for name, middle in (("before", 1e-3), ("after", 0.5e-3)):
        result(series(middle)).save(tmp_path / f"{name}.json")
    found = perfmagic.compare(tmp_path / "before.json", str(tmp_path / "after.json"))
    assert found.comparisons[0].words.startswith("after is ")
    assert found.verdict == "faster"
    with pytest.raises(OptionError, match=r"there is no file nothing\.json"):
        perfmagic.compare("nothing.json", "nothing.json")


def test_the_baselines_samples_are_not_hidden_behind_anothers_interval() -> None:
    both = perfmagic.compare(result(series(1e-3, n=60), "a"), result(series(1e-3, n=60, seed=4), "b"))
    svg = compare_svg(both)
    bands = [match.start() for match in re.finditer(r'd="M784 [\d.]+h880', svg)]
    first_samples = re.search(r'd="(M[\d.]+ [\d.]+h0){8}', svg)
    assert len(bands) >= 2
    assert bands[1] < first_samples.start()
