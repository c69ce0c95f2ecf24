"""Is it faster, really: intervals, verdicts, interleaved samples."""

import json
import re
import sys
from dataclasses import replace
from pathlib import Path
from xml.etree import ElementTree as ET

import numpy as np
import pytest

import perfmagic
from perfmagic.analysis.bench.compare import CompareSummary, compare
from perfmagic.analysis.bench.judge import BAND_SEPARATE
from perfmagic.analysis.bench.result import BenchSummary, summarise
from perfmagic.base.errors import OptionError
from perfmagic.base.numerics.stats import BAND
from perfmagic.capture.bench.device_use import HostCaches
from perfmagic.capture.bench.engine import BenchSpec
from perfmagic.capture.bench.interleave import measure_interleaved
from perfmagic.testing import faster, not_slower
from perfmagic.trace.samples import BenchRecord
from perfmagic.view.bench.compare import compare_svg

from .clock import Clock

pytestmark = pytest.mark.slow


def series(median: float, n: int = 200, noise: float = 0.01, seed: int = 0) -> np.ndarray:
    return median * (1 + noise * np.random.default_rng(seed).standard_normal(n))


def result(samples: np.ndarray, name: str = "", **fields: str) -> BenchSummary:
    empty = np.zeros(0)
    return summarise(BenchRecord(name, False, samples, empty, empty, empty, 1, len(samples), 0.0, 0, "", **fields))


@pytest.mark.parametrize(
    ("counts", "why"),
    [
        ((1, 1), "1 sample of each prove no difference: samples=5 or more"),
        ((3, 3), "3 samples of each prove no difference, as chance alone separates them in 10 % of cases: samples=5"),
        ((2, 4), "2 and 4 samples prove no difference, as chance alone separates them in 13 % of cases: samples=5"),
    ],
)
def test_samples_too_few_for_any_verdict_say_how_many_would_do(counts: tuple[int, int], why: str) -> None:
    found = compare(result(np.full(counts[0], 1.0), "a"), result(np.full(counts[1], 0.1), "b"))[0]
    assert (found.verdict, found.ratio_low) == ("unclear", None)
    assert found.why.replace("\u00a0", " ").startswith(why)


def test_times_of_zero_have_no_interval() -> None:
    none = compare(result(np.zeros(50), "a"), result(np.ones(50), "b"))[0]
    assert none.why == "one of them takes less time than the clock can resolve: let one call do more work"


@pytest.mark.parametrize(
    ("n", "verdict", "why"),
    [
        (3, "unclear", "3 samples of each prove no difference"),
        (4, "unclear", "nearly faster: 4 samples of each reach 95 %, not 99 %: samples=5 or more"),
        (5, "faster", "interleaved"),
        (7, "faster", "interleaved"),
        (8, "faster", "interleaved"),
    ],
)
def test_a_difference_beyond_all_samples_is_a_verdict_where_there_are_enough_samples(
    n: int, verdict: str, why: str
) -> None:
    first, second = series(1.15, n=n, noise=0.1), series(0.102, n=n, noise=0.1, seed=1)
    found = compare(result(first, "a", round_id="1"), result(second, "b", round_id="1"))[0]
    assert found.verdict == verdict
    assert found.why.replace("\u00a0", " ").startswith(why)


def test_a_ratio_far_from_one_keeps_its_digits() -> None:
    first, second = series(0.0053, n=7, noise=0.3), series(1.0, n=7, noise=0.3, seed=1)
    found = compare(result(first, "a", round_id="1"), result(second, "b", round_id="1"))[0]
    assert found.verdict == "slower"
    assert re.fullmatch(r"× 0\.00\d+ \[0\.00\d+, 0\.0\d+\]", found.ratio_text)


@pytest.mark.parametrize(("counts", "verdict"), [((3, 3), "unclear"), ((3, 5), "faster"), ((4, 4), "faster")])
def test_few_samples_of_separate_runs_are_a_verdict_where_they_can_carry_it(
    counts: tuple[int, int], verdict: str
) -> None:
    first, second = series(1.15, n=counts[0]), series(0.102, n=counts[1], seed=1)
    assert compare(result(first, "a"), result(second, "b"))[0].verdict == verdict


def test_few_pairs_that_agree_while_the_samples_overlap_are_no_verdict_yet() -> None:
    slowing = np.array([1.0, 1.1, 1.2, 1.3, 1.4, 1.5])
    found = compare(result(slowing, "a", round_id="1"), result(1.05 * slowing, "b", round_id="1"))[0]
    assert found.verdict == "unclear"
    assert found.why.startswith("nearly slower: 6 samples of each overlap")
    assert found.why.endswith(": samples=8 or more")
    longer = np.append(slowing, [1.6, 1.7])
    assert compare(result(longer, round_id="1"), result(1.05 * longer, round_id="1"))[0].verdict == "slower"


def test_the_reason_of_an_unclear_comparison_stands_in_every_face() -> None:
    first, second = series(1.15, n=4), series(0.102, n=4, seed=1)
    found = perfmagic.compare(result(first, "a", round_id="1"), result(second, "b", round_id="1"))
    assert found.verdict == "unclear"
    faces = found._repr_mimebundle_()
    below = faces["text/plain"].split("unclear\n")[1].splitlines()[0]
    picture = " ".join(ET.fromstring(compare_svg(found)).itertext()).split()
    for face in (below, faces["text/html"], " ".join(picture), found.comparisons[0].why):
        assert "4 samples of each reach 95 %, not 99 %: samples=5 or more" in face.replace("\u00a0", " ")


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


def test_a_change_of_three_percent_counts_as_the_same_between_separate_runs() -> None:
    here, there = result(series(1.0), "here", round_id="1"), result(series(1.02, seed=1), "there", round_id="2")
    found = compare(here, there)[0]
    assert (found.band_frac, found.verdict) == (BAND_SEPARATE, "same")
    assert found.why.startswith("1 separate run each; ±\u00a03\u00a0% counts as the same")
    interleaved = compare(here, replace(there, round_id="1"))[0]
    assert (interleaved.band_frac, interleaved.verdict) == (BAND, "slower")
    saved = BenchSummary.from_json(there.to_json())
    assert compare(here, saved)[0].band_frac == BAND_SEPARATE


def test_equal_samples_are_not_said_to_have_changed_during_the_run() -> None:
    for first, second in ((3.1e-5, 7e-6), (1.1e-5, 1.3e-5), (2.3e-4, 1.7e-4)):
        found = compare(*(result(np.full(20, s), str(s), round_id="1") for s in (first, second)))[0]
        assert (found.note, found.ratio) == ("", pytest.approx(first / second))


def test_bodies_are_interleaved_forth_and_back_until_the_verdict_is_clear() -> None:
    clock = Clock()
    specs = [BenchSpec(name="a", warmup=0), BenchSpec(name="b", warmup=0)]
    first, second = measure_interleaved([clock.body("a", 20), clock.body("b", 25)], specs, band=0.01, clock_ns=clock)
    sampled = "".join(clock.order[4:])  # after two first calls and two that tell how long a call is
    blocks = {sampled[i : i + 4] for i in range(0, len(sampled), 4)}
    assert blocks == {"abba", "baab"}  # by lot: a body that always had the same places might have the better ones
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


def test_the_advice_for_an_unclear_comparison_takes_more_samples(clock: Clock) -> None:
    noise = np.random.default_rng(5)

    def late() -> None:
        clock.now_ns += int(noise.integers(0, 30_000_000))

    bodies = clock.body("f", 30, late), clock.body("g", 30.2, late)
    options: dict[str, int] = {"warmup": 1}
    taken = []
    for _ in range(3):
        found = perfmagic.compare(*bodies, **options)
        taken.append(found.results[0].returns.n)
        assert found.verdict == "unclear"
        options["samples"] = int(re.search(r"\(samples=(\d+)\)", found.comparisons[0].why)[1])
        assert options["samples"] >= 4 * taken[-1]
    assert taken[1:] == sorted(taken[1:])
    assert taken[1] >= 4 * taken[0]


def test_calls_in_a_row_that_nobody_asked_for_are_missed_before_anything_runs(clock: Clock) -> None:
    with pytest.raises(OptionError, match="queued is the time of one of several calls") as refused:
        perfmagic.compare(clock.body("f", 1), clock.body("g", 1), quantity="queued")
    assert "calls=50" in str(refused.value.hint)
    assert clock.order == []


def test_a_comparison_and_its_results_say_alike_how_warm_the_caches_were(
    clock: Clock, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(HostCaches, "overwrite", lambda _: None)  # no time passes on this clock meanwhile
    for options, words in (({"warmup": 0}, "not warmed up"), ({"cold": True}, "cold caches"), ({}, "warm")):
        found = perfmagic.compare(clock.body("f", 1), clock.body("g", 1), samples=6, **options)
        assert f" · {words} · " in found.text()
        assert all(f" · {words} · " in one.method for one in found.results)


def test_an_exception_of_one_body_ends_the_comparison(clock: Clock) -> None:
    def fails() -> None:
        raise ValueError("no")

    with pytest.raises(ValueError, match="no"):
        perfmagic.compare(clock.body("a", 1), fails)


def test_functions_are_separated_and_results_and_functions_are_not_mixed(clock: Clock) -> None:
    first, second = clock.body("f", 1), clock.body("f", 3)
    found = perfmagic.compare(first, second, time=0.3)
    assert [r.name for r in found.results] == ["A", "B"]
    assert found.verdict == "slower"
    assert json.loads(found.to_json())["comparisons"][0]["verdict"] == "slower"
    assert found.to_frame()["name"].tolist() == ["B"]
    with pytest.raises(OptionError, match="1 results, 0 sweeps and 1 functions"):
        perfmagic.compare(found.results[0], lambda: None)


def test_the_renderers_say_the_verdict_and_fit() -> None:
    found = perfmagic.compare(result(series(1e-3), "old <b>"), result(series(0.8e-3, seed=1), "新 new"))
    faces = found._repr_mimebundle_()
    assert "faster" in faces["text/plain"]
    assert all(len(line) <= 100 for line in faces["text/plain"].splitlines())
    assert "<b>新 new is" in faces["text/html"]
    assert "old <b>" not in faces["text/html"]
    assert len(faces["text/html"]) < 60_000


def test_a_check_fails_only_beyond_doubt(clock: Clock) -> None:
    short, long = clock.body("short", 1), clock.body("long", 3)
    assert not_slower(short, long, time=0.2).verdict == "faster"
    with pytest.raises(AssertionError, match="long is slower than short: returns"):
        not_slower(long, short, time=0.2)
    assert faster(short, long, time=0.2).ratio == pytest.approx(3)
    with pytest.raises(AssertionError, match="slower"):
        faster(long, short, time=0.2)


def test_a_speed_is_held_against_a_benchmark_from_before(clock: Clock, tmp_path: Path) -> None:
    short, long = clock.body("short", 1), clock.body("long", 100)
    before = perfmagic.bench(short, time=0.2)
    before.save(tmp_path / "before.json")
    with pytest.raises(AssertionError, match=r"long is slower than before: returns .*1 separate run each"):
        not_slower(long, tmp_path / "before.json", time=0.2)
    with pytest.raises(AssertionError, match="long is slower than baseline"):
        not_slower(long, before, time=0.2)
    after = perfmagic.bench(long, time=0.2, name="short")
    found = faster(short, after, time=0.2)
    assert [one.name for one in found.results] == ["baseline", "body"]
    unnamed = not_slower(clock.body("<lambda>", 1), replace(before, name="body"), time=0.2)
    assert [one.name for one in unnamed.results] == ["baseline", "body"]
    with pytest.raises(OptionError, match="there is no file"):
        not_slower(short, tmp_path / "none.json")
    with pytest.raises(OptionError, match="by returns or done, not by span"):
        not_slower(short, before, quantity="span")


def test_an_interrupt_keeps_what_was_measured_of_all_functions(clock: Clock) -> None:
    calls = []

    def stops() -> None:
        calls.append(1)
        if len(calls) == 45:
            raise KeyboardInterrupt

    first, second = clock.body("<lambda>", 2), clock.body("<lambda>", 1, also=stops)
    with pytest.raises(KeyboardInterrupt):
        perfmagic.compare(first, second, warmup=0, samples=100)
    kept = perfmagic.last()
    assert isinstance(kept, CompareSummary)
    assert [r.failed for r in kept.results] == ["interrupted (in B)", "interrupted (in B)"]
    assert min(r.returns.n for r in kept.results) >= 10
    assert [c.name for c in kept.comparisons] == ["B"]


def test_output_is_seen_again_while_an_exception_is_still_held(clock: Clock) -> None:
    out = sys.stdout
    calls = []

    def fails() -> None:
        calls.append(1)
        if len(calls) == 20:
            raise ValueError("late")

    try:
        perfmagic.compare(clock.body("a", 1), clock.body("b", 1, also=fails))
    except ValueError:
        assert sys.stdout is out
    else:
        raise AssertionError("it did not fail")


def test_what_is_asked_for_is_obeyed_and_checked_before_anything_runs(clock: Clock) -> None:
    first, second = clock.body("a", 1), clock.body("b", 1)
    found = perfmagic.compare(first, second, samples=8, warmup=0)
    assert [r.returns.n for r in found.results] == [8, 8]
    clock.order.clear()
    for given, options in (((first,), {}), ((first, second), {"quantity": "span"})):
        with pytest.raises(OptionError, match="two or more functions"):
            perfmagic.compare(*given, **options)
    assert clock.order == []


def test_the_same_is_subtracted_for_the_empty_loop_from_all_that_are_interleaved() -> None:
    found = perfmagic.compare(lambda: None, lambda: None, lambda: None, samples=6, warmup=50)
    assert len({one.record.loop_overhead_s for one in found.results}) == 1


def test_a_comparison_is_not_compared_and_unknown_options_name_the_nearest() -> None:
    found = perfmagic.compare(lambda: None, lambda: None, samples=6, warmup=0)
    with pytest.raises(OptionError, match=r"one of them is a comparison already\nHint: its \.results"):
        perfmagic.compare(found, found)
    with pytest.raises(OptionError, match=r"there is no option warm_up\nHint: did you mean warmup\?"):
        perfmagic.bench(lambda: None, warm_up=3)


def test_results_without_names_are_called_the_same_in_words_picture_and_warnings() -> None:
    rising = np.linspace(1e-3, 2e-3, 60)
    found = perfmagic.compare(result(rising), result(rising[::-1]), result(rising))
    assert [one.name for one in found.results] == ["baseline", "result 2", "result 3"]
    faces = found._repr_mimebundle_()["text/plain"] + compare_svg(found)
    assert "! baseline, result 3: returns rose" in faces
    assert "! result 2: returns fell" in faces
    assert ">baseline<" in faces


def test_a_damaged_file_says_what_is_missing(tmp_path: Path) -> None:
    saved = perfmagic.bench(lambda: None, samples=6, warmup=0).save(tmp_path / "one.json")
    data = json.loads(saved.read_text())
    del data["queue_model"]
    saved.write_text(json.dumps(data))
    with pytest.raises(OptionError, match=r"one.json: this benchmark result is damaged: .*`queue_model`"):
        perfmagic.load(saved)


def test_a_file_that_is_no_result_is_named(tmp_path: Path) -> None:
    saved = perfmagic.bench(lambda: None, samples=6, warmup=0).save(tmp_path / "sound.json")
    for name, text, says in (
        ("cut.json", saved.read_text()[:99], "this is not JSON"),
        ("other.json", "{}", "not a single"),
    ):
        (tmp_path / name).write_text(text)
        with pytest.raises(OptionError, match=f"{name}: .*{says}"):
            perfmagic.compare(saved, tmp_path / name)


def test_a_result_beside_itself_is_not_blamed_on_the_clock() -> None:
    noisy = result(series(300e-6, n=20, noise=0.3), "a")
    found = perfmagic.compare(noisy, replace(noisy, name="b")).comparisons[0]
    assert found.verdict == "unclear"
    assert "the interval crosses the band" in found.why


def test_a_short_body_keeps_its_time_beside_a_long_one(clock: Clock) -> None:
    found = perfmagic.compare(clock.body("long", 1), clock.body("short", 0.001), samples=8)
    assert found.results[0].calls_per_sample < found.results[1].calls_per_sample
    assert found.results[1].returns_s == pytest.approx(1e-6)
    assert found.verdict == "faster"


def test_bodies_are_warmed_alike_on_both_sides_of_where_untimed_calls_end(clock: Clock) -> None:
    """By itself a call of 9 ms gets an untimed one before it, one of 11 ms none; busy machines make that of equals."""
    perfmagic.compare(clock.body("a", 11), clock.body("b", 9), samples=8)
    assert re.search("(aabbbbaa|bbaaaabb){4}", "".join(clock.order))


def test_twenty_samples_need_more_than_99_percent_for_a_difference() -> None:
    """Of 24 pairs 5 lie on the other side: beyond 99 %, not beyond 99.9 %."""
    first, second = np.full(24, 1e-3), np.where(np.arange(24) % 5 == 1, 1.1e-3, 0.9e-3)
    found = compare(result(first, "a", round_id="1"), result(second, "b", round_id="1"))[0]
    assert found.verdict == "unclear"
    assert "nearly faster: the 99.9\u00a0% interval crosses" in found.why


def test_nothing_is_said_of_differences_below_a_look_at_the_clock() -> None:
    found = perfmagic.compare(result(series(60e-9), "a"), result(series(120e-9, seed=1), "b")).comparisons[0]
    assert found.verdict == "unclear"
    assert found.why == "the difference is smaller than the clock's own cost: let one call do more work"


def test_cold_and_warm_caches_are_not_compared() -> None:
    cold = replace(result(series(1e-3), "cold"), cold_bytes=1 << 20)
    found = perfmagic.compare(cold, result(series(0.5e-3, seed=1), "warm")).comparisons[0]
    assert found.verdict == "not comparable"
    assert "measure both with cold=True, or both without" in found.why
    assert found.ratio_text == "–"


def test_results_of_different_machines_are_not_compared() -> None:
    here = replace(result(series(1e-3), "a"), environment={"system": "Linux", "machine": "x86_64", "cores": 2})
    there = replace(result(series(0.5e-3), "b"), environment={"system": "Linux", "machine": "aarch64", "cores": 8})
    found = perfmagic.compare(here, there).comparisons[0]
    assert found.verdict == "not comparable"
    assert found.why.startswith("measured on different machines, Linux x86_64 2 cores and Linux aarch64 8 cores")


@pytest.mark.parametrize("what", ["results", "comparisons"])
def test_a_damaged_comparison_is_refused(what: str) -> None:
    data = perfmagic.compare(result(series(1e-3), "a"), result(series(1e-3), "b")).to_dict()
    with pytest.raises(OptionError, match="damaged"):
        CompareSummary.from_json(json.dumps({**data, what: []}))


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
