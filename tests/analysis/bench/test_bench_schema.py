"""docs/bench.schema.json describes exactly what save() writes: a new, missing or retyped key is a reviewed change."""

import json
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from perfmagic.analysis.bench.compare import CompareSummary, compare
from perfmagic.analysis.bench.result import BenchSummary, summarise
from perfmagic.analysis.bench.sweep import sweep_result
from perfmagic.trace.samples import ClockRecord
from tests.analysis.bench.test_result import FULL, VERDICT
from tests.schemas import DOCS

pytestmark = pytest.mark.slow

SCHEMA: dict[str, Any] = json.loads((DOCS / "bench.schema.json").read_text("utf-8"))


def benchmark() -> BenchSummary:
    """With everything that a benchmark can hold."""
    bimodal = np.array([1e-3] * 20 + [2e-3] * 20)
    clock = ClockRecord(0, (1500, 1400), 60, 250.0, ("power cap",), 1)
    record = replace(FULL, returns_s=bimodal, done_s=2 * bimodal, queued_s=bimodal, queued_calls=5)
    record = replace(record, run_starts=(0, 20), clocks=(clock,), reference_s=(1e-5,) * 40)
    record = replace(
        record, flop=2.0, moved_bytes=8.0, held_bytes=1, peak_bytes=2, settings={"samples": 40, "rel": 0.01}
    )
    return summarise(replace(record, environment={"python": "3"}), VERDICT)


def saved() -> list[dict[str, Any]]:
    """As the files hold them."""
    full = benchmark()
    empty = summarise(replace(FULL, returns_s=FULL.returns_s[:0], done_s=FULL.done_s[:0], trace=None))
    short = summarise(replace(FULL, returns_s=FULL.returns_s[:3], done_s=FULL.done_s[:3]))
    compared = CompareSummary(compare(full, full, short), (full, full, short))
    swept = sweep_result("n", [1, "two"], [[full], [short]])
    return [json.loads(one.to_json()) for one in (full, empty, short, compared, swept)]


def resolved(schema: dict[str, Any]) -> dict[str, Any]:
    return SCHEMA["$defs"][schema["$ref"].rsplit("/", 1)[1]] if "$ref" in schema else schema


def described(name: str) -> Iterator[str]:
    yield from (f"{name}.{key}" for key in SCHEMA["$defs"][name]["properties"])


def met(schema: dict[str, Any], value: Any, name: str = "") -> Iterator[str]:
    """The keys of the schema's objects that a value fills with anything but null, [] or {}."""
    if "$ref" in schema:
        name = schema["$ref"].rsplit("/", 1)[1]
    schema = resolved(schema)
    for choice in schema.get("anyOf", ()):
        form = resolved(choice).get("properties", {}).get("format", {}).get("const")
        if form is None or form == value.get("format"):
            yield from met(choice, value) if value is not None else ()
    for item in value if isinstance(value, list) else ():
        yield from met(schema["items"], item)
    for key, part in schema.get("properties", {}).items():
        if value is not None and value.get(key) not in (None, [], {}):
            yield f"{name}.{key}"
            yield from met(part, value[key])


def problems(value: Any) -> list[str]:
    from jsonschema import Draft202012Validator  # takes seconds

    kind = value["format"].split(" ")[1]
    name = {"bench": "BenchSummary", "comparison": "CompareSummary", "sweep": "SweepSummary"}[kind]
    schema = {"$ref": f"#/$defs/{name}", "$defs": SCHEMA["$defs"]}
    return [error.message for error in Draft202012Validator(schema).iter_errors(value)]


def test_every_saved_result_is_what_the_schema_says() -> None:
    from jsonschema import Draft202012Validator

    Draft202012Validator.check_schema(SCHEMA)
    for value in saved():
        assert problems(value) == []
        Draft202012Validator(SCHEMA).validate(value)


def test_everything_the_schema_describes_is_in_some_saved_result() -> None:
    places = {place for name in SCHEMA["$defs"] for place in described(name)}
    assert sorted(places - {place for value in saved() for place in met(SCHEMA, value)}) == []


def test_the_schema_requires_every_key_describes_it_and_allows_no_other() -> None:
    for name, schema in SCHEMA["$defs"].items():
        assert schema["additionalProperties"] is False, name
        assert set(schema["properties"]) == set(schema["required"]), name
        for key, part in schema["properties"].items():
            assert part["description"], f"{name}.{key}"
            for ending, words in (("_s", "seconds"), ("_ns", "ns"), ("_bytes", "bytes"), ("_frac", "share")):
                assert not key.endswith(ending) or words in part["description"], f"{name}.{key}"


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (lambda r: r.update(new=1), "new"),
        (lambda r: r.pop("method"), "method"),
        (lambda r: r.update(n_calls="3"), "not of type 'integer'"),
        (lambda r: r.update(format="perfmagic bench 99"), "was expected"),
    ],
    ids=["a new key", "a missing key", "another type", "another version"],
)
def test_a_change_of_a_key_is_seen(change: Any, said: str) -> None:
    value = json.loads(benchmark().to_json())
    change(value)
    (problem,) = problems(value)
    assert said in problem
