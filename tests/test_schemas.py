"""docs/*.schema.json are what the classes and their docstrings say."""

import re
from dataclasses import dataclass

import pytest

from perfmagic.results.briefs.form import Brief, BriefFinding
from tests.schema_checks import objects
from tests.schemas import DOCS, RESULTS, schema_of, schema_text

# in reports on several files only; in briefs what says nothing
OPTIONAL = {
    "report": {"rank_findings", "rank_table", "rank_answers", "rank_collectives", "rank_pipelines"},
    "brief": {*Brief.optional, *BriefFinding.optional},
}
# numbers without a unit: places and counts by another name, and JSON's own
UNITLESS = {
    *("index", "number", "stream", "thread", "device", "rank", "world_size", "group_size", "batch_size"),
    *("line", "peak_line", "depth", "ops_max", "ops_mean", "launches_max", "spread", "schema_version", "schema"),
    *("n", "imbalance", "pipeline", "stage"),
    *("ratio", "ratio_low", "ratio_high"),
}
UNIT = re.compile(
    r"^n_|_ns$|_us$|_bytes$|_frac$|^frac_of_|^(?:\w+_)?bytes_per_s$|flop$|flop_per_s$|^flop_per_byte$|^tokens_per_s$"
)
WORDS = (
    ("_ns", "in ns"),
    ("_us", "in microseconds"),
    ("_bytes", "in bytes"),
    ("_per_s", "per second"),
    ("_s", "second"),
    ("_frac", "0 to 1|share"),
)


@pytest.mark.parametrize("name", RESULTS)
def test_a_committed_schema_is_what_its_class_says(name: str) -> None:
    text = (DOCS / f"{name}.schema.json").read_text("utf-8")
    assert text == schema_text(name, *RESULTS[name]), "python -m tests.schemas writes it anew"


@pytest.mark.parametrize("name", RESULTS)
def test_a_schema_requires_every_key_describes_it_and_allows_no_other(name: str) -> None:
    for where, schema in objects(schema_of(name)):
        assert schema["additionalProperties"] is False, where
        assert set(schema["properties"]) - OPTIONAL.get(name, set()) == set(schema["required"]), where
        assert all(part.get("description") for part in schema["properties"].values()), where


@pytest.mark.parametrize("name", RESULTS)
def test_a_number_says_its_unit(name: str) -> None:
    for where, schema in objects(schema_of(name)):
        for key, part in schema["properties"].items():
            kinds = {choice.get("type") for choice in part.get("anyOf", [part])}
            if not kinds & {"integer", "number"} or where.endswith("/by_cause_ns"):  # whose name has the unit
                continue
            plain = key.removesuffix("_a").removesuffix("_b")
            assert name == "bench" or plain in UNITLESS or UNIT.search(key), f"{where}: {key} has no unit in its name"
            for ending, words in WORDS:
                assert not key.endswith(ending) or re.search(words, part["description"]), f"{where}: {key}"


@dataclass(frozen=True)
class Undescribed:
    """A row.

    n_ops: ops of it.
    """

    n_ops: int
    new_ns: int


def test_a_key_without_a_description_is_named() -> None:
    with pytest.raises(ValueError, match=r"Undescribed: the docstring does not describe new_ns"):
        schema_text("rows", Undescribed)
