"""What stands above the lanes says what the text says, and shows where."""

import html
import re
from dataclasses import replace
from typing import Any

import pytest

from perfmagic.analysis.findings.answer import Answers
from perfmagic.results import TimelineResult
from perfmagic.view.html import AMBER
from perfmagic.view.timeline.answers import answers_wire, summary_of
from perfmagic.view.timeline.live_data import timeline_wire
from perfmagic.view.timeline.writers import timeline_html
from tests.trace.recorded import real_trace
from tests.view.timeline.build import doc_of, noisy, queue_of

ANSWERED = ("a100_nccl_rank0of2", "b200_pdl_overlaps_python_stacks", "v100_float_epoch_ns")
WITHOUT = ("cpu_only_no_device_props", "a100_triton", "sampled_rank0of128")


def result_of(name: str) -> TimelineResult:
    return TimelineResult(real_trace(name))


def shown(result: TimelineResult) -> dict[str, Any]:
    wire = answers_wire(summary_of(result.doc))
    assert wire is not None
    return wire


def words_of(form: str) -> str:
    """The words of text or HTML, with one space between them."""
    return " ".join(html.unescape(re.sub("<[^>]*>", " ", form)).split())


def said(row: dict[str, Any]) -> list[str]:
    times = [f"{row['before']} → ", row["after"]] if row["before"] else [row["after"]]
    return [" ".join(words.split()) for words in (row["headline"], row["action"], *times) if words]


@pytest.mark.parametrize("name", ANSWERED)
def test_text_page_and_live_view_say_the_same_in_the_same_order(name: str) -> None:
    result = result_of(name)
    wire = shown(result)
    rows = [*wire["rows"], *([wire["together"]] if wire["together"] else [])]
    assert 0 < len(wire["rows"]) == len(result.answers.answers) <= 3
    for form in (words_of(result.text()), words_of(result.html())):
        at = form.index(wire["decides"][0])
        for row in rows:
            at = form.index(said(row)[0], at)
            for words in said(row):
                assert words in form[at : at + 300]
        for line in wire["warnings"]:
            assert " ".join(line.split())[:80] in form


@pytest.mark.parametrize("name", ANSWERED)
def test_an_answer_opens_the_sentences_of_its_findings_and_shows_their_time(name: str) -> None:
    result = result_of(name)
    header = timeline_wire(result.doc, result.trace).header
    for answer, row in zip(result.answers.answers, header["answers"]["rows"], strict=True):
        findings = [header["findings"][i] for i in row["evidence"]]
        sentences = [finding["cause"] + finding["rest"] for finding in findings]
        assert len(sentences) == len(answer.evidence)
        assert all(s.startswith(tuple(e[:100] for e in answer.evidence)) for s in sentences)
        assert 0 <= row["start_ns"] <= row["end_ns"] <= header["span_ns"]
        assert row["start_ns"] == min(finding["start_ns"] for finding in findings)
        assert row["end_ns"] == max(finding["end_ns"] for finding in findings)


@pytest.mark.parametrize("name", ANSWERED + WITHOUT)
def test_every_finding_opens_below_the_answers(name: str) -> None:
    result = result_of(name)
    opened = words_of(timeline_html(result.doc).split("</summary>", 1)[1])
    for finding in result.findings:
        assert " ".join(finding.cause.split()) in opened


@pytest.mark.parametrize("name", WITHOUT)
def test_without_a_remedy_it_says_who_decides_and_what_to_do(name: str) -> None:
    result = result_of(name)
    wire = shown(result)
    assert "".join(wire["decides"]) == result.answers.decides
    (row,), others = wire["rows"], wire["others"]
    assert row["action"].startswith("Record ")
    assert (row["after"], row["evidence"], others, wire["together"]) == ("", [0], [], None)


def test_a_bound_is_said_to_be_one() -> None:
    (bounded,) = shown(result_of("v100_float_epoch_ns"))["rows"]
    assert bounded["sure"] == "at best"
    assert [row["sure"] for row in shown(result_of("a100_nccl_rank0of2"))["rows"]] == ["at best", ""]


def test_a_simulated_device_is_named_below_the_title() -> None:
    header = timeline_wire(doc_of(queue_of()), queue_of()).header
    assert header["about"].startswith("simulated device, each op at least 3 ms")
    assert "simulated device" in timeline_html(doc_of(queue_of())).split("<details")[0]


@pytest.mark.slow
def test_a_document_without_answers_has_its_findings_and_no_title_of_its_own() -> None:
    doc = doc_of(noisy(300, 3))
    assert answers_wire(summary_of(doc)) is None
    assert "2 or more of 3 streams" in timeline_html(doc)


def test_a_long_line_is_whole_and_a_warning_looks_like_one() -> None:
    long = "many words " * 12
    given = Answers("No device was used", 0, also_seen=(f"a fact of {long}",), warnings=(f"a warning of {long}",))
    above = timeline_html(replace(doc_of(queue_of()), answers=given)).split("<summary>")[0]
    fact, warning = (above.index(f"a {what} of {long}".strip()) for what in ("fact", "warning"))
    assert fact < above.index(AMBER) < warning
