"""Every warning of a benchmark: it has words, a number where there is one, and advice that was not followed yet."""

import ast
import inspect
from pathlib import Path

import numpy as np
import pytest

import perfmagic
from perfmagic.analysis.bench.result import summarise
from perfmagic.analysis.bench.warnings import KINDS, BenchWarning
from perfmagic.analysis.verdict import Verdict
from perfmagic.capture.bench.spec import BenchSpec
from perfmagic.trace.model import DeviceInfo
from perfmagic.trace.samples import ClockRecord, Condition
from tests.analysis.bench.test_result import record
from tests.capture.bench.machine import Machine

from .clock import Clock

STEADY = [1e-3] * 40
GREW = Condition("memory grew", {"bytes_per_call": 4e6, "where": "the device"})


def said(*found: Condition, settings: dict | None = None, samples=STEADY, **more) -> str:
    result = summarise(record(samples, conditions=found, settings=settings or {}, **more))
    return "\n".join(warning.sentence for warning in result.warnings).replace("\u00a0", " ")


def test_every_condition_the_engine_notes_has_a_sentence() -> None:
    """Read from the source: a new note without words would only fail where it occurs."""
    noted = set()
    for file in (Path(inspect.getfile(perfmagic)).parent / "capture").rglob("*.py"):
        for node in ast.walk(ast.parse(file.read_text("utf-8"))):
            if isinstance(node, ast.Call) and getattr(node.func, "attr", "") == "note":
                noted |= {one.value for one in node.args[:1] if isinstance(one, ast.Constant)}  # or it is handed on
    assert len(noted) > 8
    assert noted <= KINDS


@pytest.mark.parametrize(
    ("found", "setting", "advice"),
    [
        (Condition("did not settle", {"seconds": 2.0}), {"setup_each": True}, "setup_each="),
        (GREW, {"setup_each": True}, "setup_each="),
        (Condition("recompiled", {"times": 2}), {"warmup": 30}, "warmup="),
    ],
)
def test_no_sentence_advises_what_was_done(found: Condition, setting: dict, advice: str) -> None:
    assert advice in said(found)
    assert said(found)
    assert advice not in said(found, settings=setting)


def test_advice_is_written_as_the_benchmark_was_asked_for() -> None:
    assert ": --setup-each gives each call a fresh start" in said(GREW, magic="%%bench", code="x = 1")
    assert ": setup_each=reset, a function of yours, gives each call a fresh start" in said(GREW)
    assert "fresh start" not in said(GREW, magic="%compare", round_id="1")


def test_other_ways_to_measure_are_named_as_the_benchmark_was_asked_for() -> None:
    found = Condition("load", {"load": 9.0, "cores": 2}), Condition("other streams", {"streams": 2})
    assert "(perfmagic.compare(f, g))" in said(*found)
    assert "perfmagic.timeline shows all" in said(*found)
    assert "(--vs)" in said(*found, magic="%%bench")
    assert "%%timeline shows all" in said(*found, magic="%%bench")


def test_what_fits_in_warm_caches_is_said(monkeypatch: pytest.MonkeyPatch, clock: Clock) -> None:
    for where in ("sampling", "device_use"):
        monkeypatch.setattr(f"perfmagic.capture.bench.{where}.host_cache_bytes", lambda: 1_000_000)
    small, large, cold = (
        perfmagic.bench(clock.body("body", 1), samples=6, warmup=0, bytes=moved, cold=cold)
        for moved, cold in ((999_000, False), (1_001_000, False), (999_000, True))
    )
    fits = [[w for w in one.warnings if w.kind == "fits in caches"] for one in (small, large, cold)]
    assert [len(one) for one in fits] == [1, 0, 0]
    sentence = fits[0][0].sentence.replace("\u00a0", " ")
    assert sentence.startswith("a call moves 999 kB, which fits in the processor's caches (1.00 MB): the rate may be")
    assert sentence.endswith("cold=True overwrites the cache before each sample")


def test_memory_that_grows_is_said_with_its_amount_and_place() -> None:
    assert "every call leaves 4.00 MB more on the device" in said(GREW)


def test_bimodal_samples_are_reported_as_such() -> None:
    random = np.random.default_rng(3)
    stepped = np.where(np.arange(100) % 10 < 4, 1.3e-3, 1.0e-3) * random.normal(1, 0.003, 100)
    words = said(samples=stepped)
    assert "returns is bimodal: 60 % near 999 µs, 40 % near 1.30 ms; the median describes only one of them" in words
    halves = np.where(np.arange(100) % 2, 1.3e-3, 1.0e-3) * random.normal(1, 0.003, 100)
    assert "the median describes neither mode" in said(samples=halves)
    saved = summarise(record(stepped)).to_dict()["returns"]["modes"]
    assert [set(mode) for mode in saved] == [{"median_s", "frac"}] * 2
    assert "bimodal" not in said(samples=1e-3 * random.normal(1, 0.05, 100))


def test_a_span_with_the_cells_own_waits_does_not_contradict_the_recorded_run() -> None:
    """`.item()` in a loop: its device span contains the time Python takes in between."""
    waits = Condition("backlog outlasted", {"why": "synchronises", "host_s": 4e-3})
    times_s = [3.9e-3] * 20, [4e-3] * 20, [3.7e-3] * 20
    host_bound = Verdict("host-bound", 0.11, "the device waited 3.00 ms for Python")
    plain = summarise(record(*times_s), host_bound)
    waiting = summarise(record(*times_s, conditions=(waits,)), host_bound)
    assert (plain.supported_verdict, waiting.supported_verdict) == ("", "host-bound")
    assert waiting.span_waits


def test_runs_that_differ_say_by_how_much() -> None:
    samples = [1e-3] * 10 + [1.1e-3] * 10 + [1.05e-3] * 10
    words = said(samples=samples, run_starts=(0, 10, 20))
    assert "the medians of 3 runs of returns differ by 9.5 %: trust no smaller difference" in words
    assert "runs of" not in said(samples=[1e-3] * 30, run_starts=(0, 10, 20))


def test_a_clock_that_fell_is_said_with_its_numbers() -> None:
    steady = ClockRecord(0, (1980, 1980, 1970), 50, 300.0)
    slowed = ClockRecord(1, (1980, 1500, 1700), 84, 690.0, ("software power cap",), 2)
    assert said(clocks=(steady,)) == said() == ""
    words = said(clocks=(slowed,))
    assert "the clock of GPU 1 went from 1980 to 1500 MHz (software power cap, 84 °C): cooldown=0.5" in words
    assert "2 other processes used GPU 1" in words
    assert "cooldown" not in said(clocks=(slowed,), settings={"cooldown_s": 0.5})
    assert "°C" not in said(clocks=(ClockRecord(0, (1980, 1500), 0, 0.0),))  # an unknown temperature


def test_a_body_of_nothing_takes_no_time_and_no_number_is_missing() -> None:
    result = summarise(Machine().measure(0, spec=BenchSpec(samples=8, warmup=0, calls=1)))
    assert result.returns.median_s == 0
    assert [w.kind for w in result.warnings if "clock can resolve" in w.sentence] == ["takes no time"]
    assert "nan" not in result.to_json().lower()
    assert result.flop_per_s is None


def test_variants_on_a_simulated_device_without_a_pace_are_not_those_of_a_gpu() -> None:
    unpaced, paced = DeviceInfo(0, "sim", "sim"), DeviceInfo(0, "sim", "sim", "paced: mm ≥ 5 ms")
    gpu = DeviceInfo(0, "cuda", "Tesla V100")
    words = "the simulated device has no pace"
    assert words in said(devices=(unpaced,), round_id="together")
    assert words not in said(devices=(unpaced,))  # one alone is compared with nothing
    assert words not in said(devices=(paced,), round_id="together")
    assert words not in said(devices=(gpu,), round_id="together")
    assert words not in said(Condition("no device"), devices=(unpaced,), round_id="together")


def test_interleaved_benchmarks_get_no_advice_to_take_whole_runs() -> None:
    drift = Condition("drift", {"quantity": "returns", "first_s": 1e-3, "last_s": 2e-3})
    assert "runs=5" in said(drift)
    assert "runs=" not in said(drift, round_id="a1")


@pytest.mark.parametrize(
    ("body", "nothing"),
    [("1 + 2", True), ("'a' * 3\n7", True), ("x + 2", False), ("pass", False), ("# words\n", False), ("!ls", False)],
)
def test_what_the_compiler_worked_out_is_said(body: str, nothing: bool) -> None:
    words = said(code=f"%%bench -n 5\n{body}")
    assert ("Python evaluated the cell when it compiled it" in words) is nothing
    assert "compiled" not in said(code="perfmagic.compare")


@pytest.mark.parametrize(
    ("kind", "queued_s", "said_so"),
    [
        ("host-bound", 5.2e-4, True),
        ("latency-bound", 5.2e-4, True),
        ("device-bound", 5.2e-4, False),
        ("host-bound", 7e-4, False),
    ],
)
def test_a_device_that_is_kept_busy_by_calls_in_a_row_is_said(kind: str, queued_s: float, said_so: bool) -> None:
    taken = record([3e-4] * 20, [1e-3] * 20, [5e-4] * 20, queued_s=np.full(20, queued_s), queued_calls=50)
    words = " ".join(map(str, summarise(taken, Verdict(kind, 0.5, "")).warnings)).replace("\u00a0", " ")
    assert ("of 50 in a row each takes 520 µs, hardly more than its device span (500 µs)" in words) is said_so


def test_a_warning_is_data_with_a_sentence() -> None:
    (warning,) = summarise(record([1e-3] * 40, conditions=(Condition("load", {"load": 9.0, "cores": 2}),))).warnings
    assert warning == BenchWarning(
        "load",
        {"load": 9.0, "cores": 2},
        "load average 9.0 on 2 cores: other processes were running. "
        "Interleaved comparisons (perfmagic.compare(f, g)) are less affected",
    )


@pytest.mark.parametrize(
    ("kind", "returns_ms", "done_ms", "span_ms", "said_so"),
    [
        ("host-bound", 9.9, 10.3, 1.7, ""),
        ("host-bound", 0.05, 1.09, 1.0, "the recorded run was host-bound; in the samples the device is idle for only"),
        ("host-bound", 0.1, 1.1, 0.9, "in the samples Python waits for the device for 1.00 ms of 1.10 ms"),
        ("device-bound", 0.1, 10.0, 9.5, ""),
        ("device-bound", 9.9, 10.0, 5.0, "run was device-bound; in the samples the device is idle for 5.00"),
        ("mixed", 0.1, 10.0, 5.0, ""),
        ("host-bound", 1.0, 1.0, 1.2, "the device span (1.20 ms) is longer than done (1.00 ms): the machine was"),
    ],
)
def test_samples_that_contradict_the_recorded_run_say_by_how_much(
    kind: str, returns_ms: float, done_ms: float, span_ms: float, said_so: str
) -> None:
    taken = record([returns_ms / 1e3] * 20, [done_ms / 1e3] * 20, [span_ms / 1e3] * 20)
    found = summarise(taken, Verdict(kind, 0.5, ""))
    words = " ".join(map(str, found.warnings)).replace("\u00a0", " ")
    assert said_so in words
    assert bool(words) is bool(said_so)
    assert found.supported_verdict == ("" if said_so else kind)
