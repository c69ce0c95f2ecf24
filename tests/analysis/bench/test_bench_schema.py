"""docs/bench.schema.json describes exactly what save() writes: a new, missing or retyped key is a reviewed change."""

import json
import re
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from perfmagic.analysis.bench.compare import CompareSummary, compare
from perfmagic.analysis.bench.result import BenchSummary, summarise
from perfmagic.analysis.bench.sweep import sweep_result
from perfmagic.analysis.findings.answer import Answer
from perfmagic.base.kinds import PredictedFor
from perfmagic.trace.samples import ClockRecord, Condition
from tests.analysis.bench.test_result import FULL, VERDICT
from tests.schema_checks import never_filled, problems
from tests.schemas import schema_of

pytestmark = pytest.mark.slow

SCHEMA: dict[str, Any] = schema_of("bench")


def benchmark() -> BenchSummary:
    """With everything that a benchmark can hold."""
    bimodal = np.array([1e-3] * 20 + [2e-3] * 20)
    clock = ClockRecord(0, (1500, 1400), 60, 250.0, ("power cap",), 1)
    record = replace(FULL, returns_s=bimodal, done_s=2 * bimodal, span_s=bimodal, queued_s=bimodal, queued_calls=5)
    record = replace(record, run_starts=(0, 20), clocks=(clock,), reference_s=(1e-5,) * 40)
    record = replace(
        record, flop=2.0, moved_bytes=8.0, held_bytes=1, peak_bytes=2, settings={"samples": 40, "rel": 0.01}
    )
    answer = Answer("Fact", "Do this", ("sync",), 4, 3, 2, 3, False, 1, (5,), 0, 4, ("Sentence",))
    model = PredictedFor("H100 SXM", 1.4, "step.json.gz")
    full = summarise(replace(record, environment={"python": "3"}), VERDICT)
    differ = {"off": 0.1, "allowed": 1e-5, "pass": 2, "type": "float32", "which": 1, "of": 1}
    checks = (Condition("differ", differ), Condition("state", {"names": "w"}))
    return replace(full, answer=answer, predicted_for=model, checks=checks)


def saved() -> list[dict[str, Any]]:
    """As the files hold them."""
    full = benchmark()
    empty = summarise(replace(FULL, returns_s=FULL.returns_s[:0], done_s=FULL.done_s[:0], trace=None))
    short = summarise(replace(FULL, returns_s=FULL.returns_s[:3], done_s=FULL.done_s[:3]))
    checked, first = replace(full, round_id="1", checks=full.checks[:1]), replace(full, round_id="1", checks=())
    compared = CompareSummary(compare(first, checked, short), (first, checked, short))
    swept = sweep_result("n", [1, "two"], [[full], [short]])
    return [json.loads(one.to_json()) for one in (full, empty, short, compared, swept)]


def test_every_saved_result_is_what_the_schema_says() -> None:
    assert [problem for value in saved() for problem in problems(SCHEMA, value)] == []


def test_everything_the_schema_describes_is_in_some_saved_result() -> None:
    of_one_run = re.compile(r"\.(span|queued)\.run_medians_s\[\]$")  # both are measured in the last run alone
    assert [place for place in never_filled(SCHEMA, saved()) if not of_one_run.search(place)] == []
