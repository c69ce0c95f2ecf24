"""A benchmark's document and its renderers."""

import re
from dataclasses import replace
from xml.etree import ElementTree as ET

import numpy as np
import pytest

from perfmagic.analysis.bench.queue_model import QueueModel
from perfmagic.analysis.bench.result import BenchSummary, Quantity
from perfmagic.analysis.bench.warnings import BenchWarning
from perfmagic.analysis.findings.answer import Answer
from perfmagic.analysis.verdict import Verdict
from perfmagic.base import units
from perfmagic.view.bench.bench import Strip, bench_doc, bench_html, bench_picture, bench_svg, bench_text, placed, terms
from perfmagic.view.svg.metrics import width_px


def around(median_ms: float, spread_ms: float = 0.2, n: int = 40) -> Quantity:
    samples = np.random.default_rng(3).normal(median_ms, spread_ms, n) / 1e3
    quantity = Quantity.of(samples + (median_ms / 1e3 - np.median(samples)))
    assert quantity is not None
    return quantity


def result(**changes: object) -> BenchSummary:
    fields: dict[str, object] = {
        "name": "", "synced": False, "returns": around(1.2), "done": around(12.3), "span": None, "first_call_s": 0.0255,
        "verdict": None, "queue_model": None, "device_label": "simulated device, each op at least 1 ms",
        "simulated": True,
        "n_calls": 40, "stopped_by": "time", "method": "40 samples · warm · stopped after 2 s · body ran 62 times",
        "warnings": (BenchWarning("load", {"load": 2.6, "cores": 2}, "load average 2.6 on 2 cores"),),
    }  # fmt: skip
    return BenchSummary(**{**fields, **changes})  # type: ignore[arg-type]


def words_of(svg: str) -> str:
    return " ".join(ET.fromstring(svg).itertext())


def test_the_sentence_tells_both_times() -> None:
    doc = bench_doc(result())
    assert re.fullmatch(r"Python is back after 1\.\d+\sms; the device works until 12\.\d+\sms\.", doc.lead)
    assert doc.python_wait.seconds == pytest.approx(11.1e-3)


def test_without_a_device_there_is_only_returns() -> None:
    doc = bench_doc(result(done=None, device_label="CPU", simulated=False))
    assert doc.lead.startswith("Python is back after 1.2")
    assert [row.name for row in doc.rows] == ["returns"]
    assert "Python goes on" not in words_of(bench_svg(doc))


def test_the_verdict_comes_first_and_who_waits_is_named() -> None:
    verdict = Verdict("host-bound", 0.2, "the queue was empty")
    doc = bench_doc(result(synced=True, returns=around(9.9), done=around(10.3), span=around(1.74), verdict=verdict))
    assert doc.lead == "host-bound:"
    assert "queue" not in doc.sentence  # the samples do not say so, one recorded run does
    assert doc.recorded == "One recorded run: the queue was empty"
    assert doc.device_idle.seconds == pytest.approx(8.56e-3)
    words = words_of(bench_svg(doc))
    assert re.search(r"idle 8\.56\sms: waits for Python", words)
    assert "device span" in words


def test_every_form_says_what_to_do_and_that_one_run_says_so() -> None:
    answer = Answer("Fact", "Do this", (), 40_000_000, 30_000_000, None, None, True, None, (), 0, 1, ())
    doc = bench_doc(result(synced=True, verdict=Verdict("mixed", 0.5, "because"), answer=answer))
    for output in (bench_text(doc), bench_html(doc), words_of(bench_svg(doc))):
        shown = re.sub(r"<[^>]*>", " ", output).replace("\u00a0", " ")
        assert re.search(r"→ Do this", shown)
        assert re.search(r"40\.0 ms → +30\.0 ms", shown)
        assert "at best, in one recorded run" in shown


@pytest.mark.parametrize(("kind", "lost"), [("device-bound", False), ("mixed", True)])
def test_where_the_device_decides_pythons_wait_is_not_hatched(kind: str, lost: bool) -> None:
    doc = bench_doc(result(synced=True, span=around(12.1), verdict=Verdict(kind, 0.95, "because")))
    assert doc.python_wait is not None
    assert doc.python_wait.lost is lost
    words = words_of(bench_svg(doc)).replace("\u00a0", " ")
    assert re.search(r"waits 11\.\d ms for the device", words)


def test_a_number_has_the_decimals_its_interval_allows() -> None:
    row = bench_doc(result(done=around(12.3, spread_ms=1.0))).row("done")
    assert re.fullmatch(r"12\.3\sms", row.median)
    assert re.fullmatch(r"1\d\.\d – 1\d\.\d", row.interval)


def test_below_six_samples_there_is_no_interval() -> None:
    row = bench_doc(result(returns=around(1.2, n=5))).row("returns")
    assert row.interval == "needs 6 samples"
    virtual = result(returns=around(1.2, n=5), warnings=(BenchWarning("virtual clock"),))
    assert bench_doc(virtual).row("returns").interval == "same each run"


def test_every_form_says_simulated_and_its_warnings() -> None:
    doc = bench_doc(result())
    for output in (bench_text(doc), bench_html(doc), words_of(bench_svg(doc)), words_of(bench_picture(doc).svg)):
        assert "simulated device, each op at least 1 ms" in output
    assert "! load average 2.6" in bench_text(doc)
    assert "load average 2.6" in bench_html(doc)


def test_text_fits_a_terminal_and_html_an_output() -> None:
    doc = bench_doc(result(returns=around(1.2, n=20_000), done=around(12.3, n=20_000)))
    assert max(map(len, bench_text(doc).splitlines())) <= 100
    assert len(bench_html(doc).encode()) <= 80_000
    ET.fromstring(bench_svg(doc))


@pytest.mark.parametrize("width", [40, 60, 80, 200])
def test_text_obeys_the_width_of_the_terminal_and_loses_no_number(width: int, monkeypatch: pytest.MonkeyPatch) -> None:
    doc = bench_doc(result(returns=around(1.2, n=20_000), done=around(12.3, n=20_000)))
    monkeypatch.setenv("COLUMNS", str(width))
    text = bench_text(doc)
    assert max(map(len, text.splitlines())) <= width
    said = text.replace("\u00a0", " ").split()
    for row in doc.rows:
        for cell in (row.median, row.interval, row.least, row.spread):
            assert all(word in " ".join(said) for word in cell.replace("\u00a0", " ").split())


def test_a_benchmark_that_failed_at_once_still_says_so() -> None:
    doc = bench_doc(result(returns=None, done=None, failed="ValueError: <1>", first_call_s=None))
    assert doc.lead == "No sample was completed."
    assert "ended early: ValueError: &lt;1&gt;" in bench_html(doc)
    assert "ended early" in bench_text(doc)
    ET.fromstring(bench_svg(doc))


TIMES_MS = {  # returns, done and device span of a sample
    "Python is longer": (9.9, 10.3, 1.7),
    "the device is longer": (0.3, 10.3, 9.9),
    "both wait": (4.0, 10.0, 5.0),
    "nobody waits": (10.0, 10.1, 10.05),
    "the span is not known": (0.3, 10.3, None),
}
KINDS = ("host-bound", "device-bound", "mixed", "latency-bound", "no device records", "no verdict")


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("times", TIMES_MS.values(), ids=TIMES_MS.keys())
def test_bars_never_contradict_the_headline(kind: str, times: tuple[float, float, float | None]) -> None:
    returns_ms, done_ms, span_ms = times
    span = None if span_ms is None else around(span_ms, 0.01)
    given = {"synced": True, "returns": around(returns_ms, 0.01), "done": around(done_ms, 0.01), "span": span}
    doc = bench_doc(result(verdict=Verdict(kind, 0.5, "because"), **given))
    words = words_of(bench_svg(doc))
    assert doc.lead in (f"{kind}:", "bottleneck unclear:")
    host, device = doc.lead == "host-bound:", doc.lead == "device-bound:"
    assert not (host and "for the device" in words)
    assert not (not host and "waits for Python" in words)
    assert not (device and "waits for Python" in words)
    if doc.lead == "bottleneck unclear:":
        assert f"the samples do not confirm the recorded run, which was {kind}" in doc.rest


@pytest.mark.parametrize(
    ("kind", "times", "lead", "python", "device"),
    [
        ("host-bound", "Python is longer", "host-bound:", "the last ops execute", "idle 8.60 ms: waits for Python"),
        ("host-bound", "the device is longer", "bottleneck unclear:", "waits 10.0 ms for the device", "idle 400 µs"),
        ("host-bound", "the span is not known", "bottleneck unclear:", "waits 10.0 ms for the device", ""),
        ("device-bound", "the device is longer", "device-bound:", "waits 10.0 ms for the device", "idle 400 µs"),
        ("device-bound", "both wait", "bottleneck unclear:", "waits 6.00 ms for the device", "idle 5.00 ms"),
        ("mixed", "both wait", "mixed:", "waits 6.00 ms for the device", "idle 5.00 ms"),
        ("mixed", "nobody waits", "mixed:", "", ""),
    ],
)
def test_each_verdict_has_its_bars(kind: str, times: str, lead: str, python: str, device: str) -> None:
    returns_ms, done_ms, span_ms = TIMES_MS[times]
    span = None if span_ms is None else around(span_ms, 0.0)
    given = {"synced": True, "returns": around(returns_ms, 0.0), "done": around(done_ms, 0.0), "span": span}
    doc = bench_doc(result(verdict=Verdict(kind, 0.5, "because"), **given))
    said = ["" if wait is None else wait.words.replace("\u00a0", " ") for wait in (doc.python_wait, doc.device_idle)]
    assert (doc.lead, *said) == (lead, python, device)


def test_a_bench_that_does_not_wait_draws_no_waiting() -> None:
    words = words_of(bench_svg(bench_doc(result())))
    assert "Python goes on" in words
    assert "waits" not in words


def with_outliers(*values_ms: float) -> Quantity:
    samples = np.random.default_rng(3).normal(1.2e-3, 1e-5, 40)
    quantity = Quantity.of(np.append(samples, np.array(values_ms) / 1e3))
    assert quantity is not None
    return quantity


def test_one_outlier_does_not_flatten_the_strip_and_its_value_is_said() -> None:
    quantity = with_outliers(90.0)
    assert quantity.outliers == 1
    calm, strip = Strip.of(with_outliers()), Strip.of(quantity)
    assert (strip.low_s, strip.high_s) == (calm.low_s, calm.high_s)
    places = strip.ys(quantity, 0.0, 32.0)
    assert places[-1] == 0.0
    assert np.ptp(places[:-1]) == pytest.approx(32.0)
    words = words_of(bench_svg(bench_doc(result(returns=quantity)))).replace("\u00a0", " ")
    assert "1 of 41" in words
    assert "up to 90.0 ms" in words
    assert quantity.min_s <= quantity.median_s <= quantity.samples_s[-1] == 0.09


def test_outliers_on_both_sides_are_said() -> None:
    words = words_of(bench_svg(bench_doc(result(returns=with_outliers(0.1, 70.0, 90.0))))).replace("\u00a0", " ")
    assert "3 of 43" in words
    assert "up to 90.0 ms" in words
    assert "down to 100 µs" in words


def test_both_modes_are_on_the_scale() -> None:
    random = np.random.default_rng(3)
    samples = np.where(np.arange(100) % 5 == 0, 5e-3, 1e-3) * random.normal(1, 0.003, 100)
    quantity = Quantity.of(samples)
    assert len(quantity.modes) == 2
    assert Strip.of(quantity).high_s >= quantity.modes[1].median_s


def test_equal_samples_and_an_outlier_have_a_scale() -> None:
    for beyond_ms in (0.0, 90.0):
        quantity = Quantity.of([1e-3] * 20 + [beyond_ms / 1e3])
        assert quantity is not None
        svg = bench_svg(bench_doc(result(returns=quantity)))
        assert "nan" not in svg.lower()
        ET.fromstring(svg)


def test_the_fine_print_is_one_line_and_names_the_device_last() -> None:
    doc = bench_doc(result(flop=1e9, moved_bytes=1e6, peak_bytes=6_550_000, held_bytes=3_270_000))
    below = bench_text(doc).splitlines()[-2]
    assert below.replace("\u00a0", " ").startswith("81.3 GFLOP/s · 81.3 MB/s · 40 samples · warm")
    assert below.endswith("simulated device, each op at least 1 ms")
    assert len(below) <= 100
    long = bench_doc(result(device_label="simulated device, " + "x" * 70))
    assert bench_text(long).splitlines()[-2] == "40 samples · " + "simulated device, " + "x" * 68 + "…"


def test_the_rest_of_the_fine_print_is_there_on_demand() -> None:
    given = result(peak_bytes=6_550_000, held_bytes=3_270_000)
    memory = "peak device memory 6.55 MB, 3.28 MB allocated by the cell"
    assert [detail.replace("\u00a0", " ") for detail in given.details] == [
        "the first call took 25.5 ms and is not a sample",
        memory,
    ]
    doc = bench_doc(given)
    html = bench_html(doc).replace("\u00a0", " ")
    assert re.search(r"<details.*<summary.*40 samples · warm.*</summary>.*peak device memory.*</details>", html)
    assert "peak device memory" not in bench_text(doc)


def model_of(n: int, t1_ms: float, t2_ms: float, t3_ms: float, caveat: str = "") -> QueueModel:
    model = QueueModel(n, t1_ms / 1e3, t2_ms / 1e3, t3_ms / 1e3, 0.0, caveat)
    return replace(model, measured_s=model.predicted_s)


@pytest.mark.parametrize(("t1_ms", "t2_ms", "slower"), [(0.04, 5.0, "5.00"), (4.0, 0.3, "4.00"), (2.0, 2.0, "2.00")])
def test_the_queue_model_stands_term_by_term_below_the_bars(t1_ms: float, t2_ms: float, slower: str) -> None:
    model = model_of(6, t1_ms, t2_ms, 0.5)
    drawn = terms(model)
    assert [re.split(r" = ", term.words)[0] for term in drawn] == ["t1", "5 · max(t1, t2)", "t2", "t3"]
    lengths_ms = [(term.end_s - term.start_s) * 1e3 for term in drawn]
    assert lengths_ms == pytest.approx([t1_ms, 5 * max(t1_ms, t2_ms), t2_ms, 0.5])
    assert drawn[-1].end_s == pytest.approx(model.predicted_s)
    words = words_of(bench_svg(bench_doc(result(synced=True, queue_model=model)))).replace("\u00a0", " ")
    assert f"5 · max(t1, t2) = 5 · {slower} ms" in words
    assert "t1 + (n − 1) · max(t1, t2) + t2 + t3" in words
    assert "t1 + (n − 1) · max(t1, t2) + t2 + t3" in model.sentence
    assert f"{units.duration_s(model.predicted_s)} predicted".replace("\u00a0", " ") in words


def test_the_words_of_the_queue_model_never_touch_each_other() -> None:
    drawn = terms(model_of(1000, 0.001, 3.0, 0.001))
    widths = [width_px(term.words, 10) for term in drawn]
    lefts = placed([(term.start_s + term.end_s) / 2 * 258 for term in drawn], widths, 776)
    edges = [edge for left, width in zip(lefts, widths, strict=True) for edge in (left, left + width)]
    assert edges == sorted(edges)
    assert edges[0] >= 0
    assert edges[-1] <= 776


def test_a_queue_model_that_does_not_fit_is_not_drawn() -> None:
    doc = bench_doc(result(synced=True, queue_model=model_of(6, 1, 2, 3, caveat="the cell uses 2 queues")))
    assert "queue model" not in words_of(bench_svg(doc))


def test_a_thousand_ops_of_the_model_keep_the_picture_small() -> None:
    drawn = bench_svg(bench_doc(result(synced=True, queue_model=model_of(100_000, 1e-4, 1e-4, 0.1))))
    assert len(drawn.encode()) < 30_000
