"""A benchmark's document and its faces."""

from __future__ import annotations

import re
from xml.etree import ElementTree as ET

import numpy as np
import pytest

from perfmagic.analysis.bench.result import BenchResult, Quantity
from perfmagic.analysis.verdict import Verdict
from perfmagic.view.bench.bench import bench_doc, bench_html, bench_svg, bench_text


def around(median_ms: float, spread_ms: float = 0.2, n: int = 40) -> Quantity:
    samples = np.random.default_rng(3).normal(median_ms, spread_ms, n) / 1e3
    found = Quantity.of(samples + (median_ms / 1e3 - np.median(samples)))
    assert found is not None
    return found


def result(**changes: object) -> BenchResult:
    fields: dict[str, object] = {
        "name": "", "synced": False, "returns": around(1.2), "done": around(12.3), "span": None, "first_call_s": 0.0255,
        "verdict": None, "course": None, "device_label": "simulated device, each op at least 1 ms", "simulated": True,
        "n_calls": 40, "stopped_by": "time", "warnings": ("1-minute load 2.6 on 2 cores",), "method": "40 samples × 1",
    }  # fmt: skip
    return BenchResult(**{**fields, **changes})  # type: ignore[arg-type]


def words_of(svg: str) -> str:
    return " ".join(ET.fromstring(svg).itertext())


def test_the_sentence_tells_both_times() -> None:
    doc = bench_doc(result())
    assert re.fullmatch(r"Python is back after 1\.\d+\sms; the device works until 12\.\d+\sms\.", doc.lead)
    assert doc.waits_s == pytest.approx(11.1e-3)


def test_without_a_device_there_is_only_returns() -> None:
    doc = bench_doc(result(done=None, device_label="CPU", simulated=False))
    assert doc.lead.startswith("Python is back after 1.2")
    assert [row.name for row in doc.rows] == ["returns"]
    assert "Python goes on" not in words_of(bench_svg(doc))


def test_the_verdict_comes_first_and_who_waits_is_named() -> None:
    verdict = Verdict("host-bound", 0.2, "the queue was empty")
    doc = bench_doc(result(synced=True, returns=around(9.9), done=around(10.3), span=around(1.74), verdict=verdict))
    assert doc.lead == "host-bound:"
    assert doc.rest.endswith("the queue was empty")
    assert doc.starves_s == pytest.approx(8.56e-3)
    words = words_of(bench_svg(doc))
    assert re.search(r"idle 8\.56\sms: waits for Python", words)
    assert "device span" in words


def test_a_number_has_the_decimals_its_interval_allows() -> None:
    row = bench_doc(result(done=around(12.3, spread_ms=1.0))).row("done")
    assert row is not None
    assert re.fullmatch(r"12\.3\sms", row.median)
    assert re.fullmatch(r"1\d\.\d – 1\d\.\d", row.interval)


def test_below_six_samples_there_is_no_interval() -> None:
    row = bench_doc(result(returns=around(1.2, n=5))).row("returns")
    assert row is not None
    assert row.interval == "needs 6 samples"


def test_every_face_says_simulated_and_its_warnings() -> None:
    doc = bench_doc(result())
    for face in (bench_text(doc), bench_html(doc), words_of(bench_svg(doc)), words_of(bench_svg(doc, header=False))):
        assert "simulated device, each op at least 1 ms" in face
    assert "! 1-minute load" in bench_text(doc)
    assert "1-minute load" in bench_html(doc)


def test_text_fits_a_terminal_and_html_an_output() -> None:
    doc = bench_doc(result(returns=around(1.2, n=20_000), done=around(12.3, n=20_000)))
    assert max(map(len, bench_text(doc).splitlines())) <= 100
    assert len(bench_html(doc).encode()) <= 60_000
    ET.fromstring(bench_svg(doc))


def test_a_benchmark_that_failed_at_once_still_says_so() -> None:
    doc = bench_doc(result(returns=None, done=None, failed="ValueError: <1>", first_call_s=None))
    assert doc.lead == "No sample was completed."
    assert "ended early: ValueError: &lt;1&gt;" in bench_html(doc)
    assert "ended early" in bench_text(doc)
    ET.fromstring(bench_svg(doc))
