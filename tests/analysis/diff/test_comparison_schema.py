"""docs/comparison.schema.json describes exactly what a comparison of two timelines holds."""

import json
from dataclasses import replace
from typing import Any

import pytest

from perfmagic.analysis.diff.diff import SCHEMA_VERSION, jobs_diff, sides, trace_diff
from tests.analysis.diff.pairs import cell, eager, fused, program, with_shapes
from tests.analysis.test_report_schema import UNIT, UNITLESS, described, met, objects
from tests.schemas import schema_of
from tests.trace.recorded import recorded

pytestmark = pytest.mark.slow

SCHEMA: dict[str, Any] = schema_of("comparison")


def job(*ranks: int) -> Any:
    return {rank: replace(eager(), meta=replace(eager().meta, rank=rank, world_size=2)) for rank in ranks}


@pytest.fixture(scope="module")
def given() -> list[dict[str, Any]]:
    small = recorded("a100_event_sync_3streams")
    pairs = [sides(a, a, ("A", "B"), ("", ""), (None, None)) for a in job(0, 1).values()]
    found = [
        trace_diff(eager(steps=2), fused(steps=3)),
        trace_diff(eager(failed="E"), program()),
        trace_diff(cell("%%timeline\nf()\ng()", {2: 9, 3: 9}), cell("%%timeline\nf()", {2: 20})),
        trace_diff(with_shapes([[8, 8], [9, 9]]), with_shapes([[8, 8]], kernel="other")),
        trace_diff(small, recorded("gp100_gpu_user_annotation")),
        jobs_diff({0: pairs[0][0], 1: pairs[1][0]}, {0: pairs[0][1], 1: pairs[1][1]}, (), ({0: 5}, {0: 9})),
    ]
    return [json.loads(one.to_json()) for one in found]


def problems(value: Any) -> list[str]:
    from jsonschema import Draft202012Validator  # takes seconds

    errors = Draft202012Validator(SCHEMA).iter_errors(value)
    return [f"{'.'.join(map(str, error.absolute_path))}: {error.message[:200]}" for error in errors]


def test_every_comparison_is_what_the_schema_says(given: list[dict[str, Any]]) -> None:
    from jsonschema import Draft202012Validator

    Draft202012Validator.check_schema(SCHEMA)
    assert [problem for value in given for problem in problems(value)] == []


def test_everything_the_schema_describes_is_given_by_some_comparison(given: list[dict[str, Any]]) -> None:
    assert sorted(set(described(SCHEMA)) - {place for value in given for place in met(SCHEMA, value)}) == []


def test_the_schema_requires_every_key_and_allows_no_other() -> None:
    for where, schema in objects(SCHEMA):
        assert schema["additionalProperties"] is False, where
        assert set(schema["properties"]) == set(schema["required"]), where


def test_every_key_is_described_and_a_number_says_its_unit() -> None:
    for where, schema in objects(SCHEMA):
        for key, part in schema["properties"].items():
            assert part.get("description"), f"{where}: {key}"
            kinds = {choice.get("type") for choice in part.get("anyOf", [part])}
            if kinds & {"integer", "number"} and key.removesuffix("_a").removesuffix("_b") not in UNITLESS:
                assert UNIT.search(key), f"{where}: {key} has no unit in its name"
                assert not key.endswith("_ns") or "in ns" in part["description"], f"{where}: {key}"


def test_a_change_of_a_key_is_seen(given: list[dict[str, Any]]) -> None:
    value = given[0] | {"verdict": "faster"}
    assert problems(value) != []
    assert problems({key: item for key, item in given[0].items() if key != "parts"}) != []
    assert SCHEMA["properties"]["schema_version"]["const"] == SCHEMA_VERSION
