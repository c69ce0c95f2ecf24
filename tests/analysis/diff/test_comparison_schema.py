"""docs/comparison.schema.json describes exactly what a comparison of two timelines holds."""

import json
from dataclasses import replace
from typing import Any

import pytest

from perfmagic.analysis.diff.diff import SCHEMA_VERSION, jobs_diff, sides, trace_diff
from perfmagic.base.kinds import PredictedFor
from perfmagic.trace.model import Trace
from tests.analysis.diff.pairs import cell, eager, fused, program, with_shapes
from tests.schema_checks import never_filled, problems
from tests.schemas import schema_of
from tests.trace.recorded import recorded

pytestmark = pytest.mark.slow

SCHEMA: dict[str, Any] = schema_of("comparison")


def job(*ranks: int) -> Any:
    return {rank: replace(eager(), meta=replace(eager().meta, rank=rank, world_size=2)) for rank in ranks}


def predicted(trace: Trace) -> Trace:
    model = PredictedFor("H100 SXM", 1.4, "step.json.gz")
    devices = tuple(replace(info, predicted=model) for info in trace.meta.devices)
    return replace(trace, meta=replace(trace.meta, devices=devices))


@pytest.fixture(scope="module")
def given() -> list[dict[str, Any]]:
    small = recorded("a100_event_sync_3streams")
    pairs = [sides(a, a, ("A", "B"), ("", ""), (None, None)) for a in job(0, 1).values()]
    found = [
        trace_diff(eager(steps=6), fused(steps=7)),
        trace_diff(eager(failed="E"), program()),
        trace_diff(predicted(eager()), predicted(fused())),
        trace_diff(cell("%%timeline\nf()\ng()", {2: 9, 3: 9}), cell("%%timeline\nf()", {2: 20})),
        trace_diff(with_shapes([[8, 8], [9, 9]]), with_shapes([[8, 8]], kernel="other")),
        trace_diff(small, recorded("gp100_gpu_user_annotation")),
        jobs_diff({0: pairs[0][0], 1: pairs[1][0]}, {0: pairs[0][1], 1: pairs[1][1]}, (), ({0: 5}, {0: 9})),
    ]
    return [json.loads(one.to_json()) for one in found]


def test_every_comparison_is_what_the_schema_says(given: list[dict[str, Any]]) -> None:
    assert [problem for value in given for problem in problems(SCHEMA, value)] == []


def test_everything_the_schema_describes_is_given_by_some_comparison(given: list[dict[str, Any]]) -> None:
    assert never_filled(SCHEMA, given) == []


def test_the_version_of_the_schema_is_that_of_a_comparison() -> None:
    assert SCHEMA["properties"]["schema_version"]["const"] == SCHEMA_VERSION
