"""Each rule, asked alone, finds what it finds among all, or says why it is silent."""

import json
import re
from dataclasses import replace
from functools import cache
from pathlib import Path

import numpy as np
import pytest

import perfmagic
from perfmagic.analysis.findings.find import RULES, findings
from perfmagic.analysis.findings.finding import Finding
from perfmagic.trace.model import Trace
from tests.analysis.build import Builder
from tests.trace.recorded import real

pytestmark = pytest.mark.slow

ROOT = Path(__file__).resolve().parents[3]
TRACES, DOCS = ROOT / "tests" / "data" / "traces", ROOT / "docs" / "findings.md"
REAL = ("a100_triton", "cpu_only_no_device_props", "sampled_rank0of128")  # a few ops, no device op, no verdict
SMALL = [*sorted(path.name for path in TRACES.glob("*.json.gz")), *REAL]
V100 = TRACES / "v100_4streams_nccl_step.json.gz"


@cache
def opened(name: str) -> perfmagic.TimelineResult:
    return perfmagic.open_trace(TRACES / name if name.endswith(".gz") else real(name))


def alone(finding: Finding) -> Finding:
    """A finding without its place among others and without what a replay predicts."""
    return replace(finding, depth=0, gain_ns=None, won_ns=None, at_most=False, change="", gain_text="")


def check_against_all(trace: Trace) -> None:
    """Ask each rule alone and compare with all findings."""
    together = findings(trace)
    for rule in RULES:
        found = perfmagic.explain(trace, rule)
        expected = {alone(finding) for finding in together if finding.rule == rule}
        assert {alone(finding) for finding in found.findings} == expected, rule
        assert bool(found.reason) is not bool(expected), rule


@pytest.mark.parametrize("name", SMALL)
def test_each_rule_alone_finds_what_it_finds_among_all_or_gives_a_reason(name: str) -> None:
    check_against_all(opened(name).trace)


def test_a_failed_cell_an_empty_record_and_host_operators_alone_have_reasons_too() -> None:
    trace = opened("a100_event_sync_3streams.json.gz").trace
    check_against_all(replace(trace, meta=replace(trace.meta, failed="ValueError: no")))
    check_against_all(Builder().trace())
    check_against_all(replace(trace, ops=trace.ops.select(np.zeros(0, np.int64))))


def test_what_is_below_its_threshold_comes_with_both_numbers() -> None:
    found = perfmagic.explain(opened(V100.name), "longest_gap")
    extent_ns = 166_745_000
    assert found.finding is None
    assert found.value == 14_000
    assert found.threshold == pytest.approx(0.05 * extent_ns, rel=0.01)
    assert "14.0 µs, less than the threshold of 8.34 ms (5 % of the extent)" in found.reason.replace("\xa0", " ")


def test_a_timeline_a_trace_and_a_file_give_the_same() -> None:
    t = opened(V100.name)
    texts = {perfmagic.explain(source, "sync").text() for source in (t, t.trace, V100, str(V100))}
    assert len(texts) == 1
    assert "Python blocked" in texts.pop()


def test_the_names_of_communication_that_a_timeline_was_opened_with_are_kept() -> None:
    t = perfmagic.open_trace(V100, comm_names="gemm")
    assert "sgemm" in perfmagic.explain(t, "exposed_communication").sentence.lower()
    with pytest.raises(perfmagic.OptionError, match="match none"):
        perfmagic.explain(t.trace, "communication", comm_names="nowhere_at_all")


def test_all_rules_have_a_line_each_and_are_ready_for_json() -> None:
    found = perfmagic.explain(opened(V100.name))
    lines = found.text().splitlines()
    assert [line.split()[0] for line in lines] == list(RULES)
    assert all(re.search(r"\w+ {2,}\S", line) for line in lines)
    assert [row["rule"] for row in json.loads(json.dumps(found.to_dict()))] == list(RULES)
    assert found._repr_html_().count("<tr") == len(RULES) + 1


@pytest.mark.parametrize(
    ("given", "hint"), [("pagable", "did you mean pageable?"), ("", "there are"), (3, "there are")]
)
def test_an_unknown_rule_is_refused_with_the_nearest_name_and_the_list(given: str, hint: str) -> None:
    with pytest.raises(perfmagic.OptionError, match="there is no rule") as refused:
        perfmagic.explain("no/such/file.json", given)
    assert hint in str(refused.value.hint)
    assert "waited_for_host" in str(refused.value.hint)


def test_what_is_no_timeline_is_refused() -> None:
    with pytest.raises(perfmagic.OptionError, match="a timeline, a trace or a file is needed"):
        perfmagic.explain(3, "sync")


def test_each_rule_has_its_row_and_anchor_in_the_documentation() -> None:
    anchors = re.findall(r'<a id="(\w+)"></a>`(\w+)`', DOCS.read_text(encoding="utf-8"))
    assert all(anchor == rule for anchor, rule in anchors)
    assert {rule for _, rule in anchors} == set(RULES)
