"""What stands above the rows of several ranks says what the text says; the findings open below it."""

import re
from typing import Any

import pytest

import perfmagic
from perfmagic.results import RanksResult, TimelineResult
from perfmagic.view.ranks.picture import ranks_svg
from perfmagic.view.ranks.writers import ranks_html
from perfmagic.view.report.writers import ranks_markdown
from perfmagic.view.timeline.answers import MOST_SENTENCES
from tests.analysis.ranks.test_job_answers import EIGHT, GENERATED
from tests.analysis.ranks.test_job_answers import result as result_of
from tests.trace.recorded import real_trace
from tests.view.ranks.build import result
from tests.view.timeline.test_answers import said, words_of


def eight() -> RanksResult:
    return perfmagic.open_traces(EIGHT).ranks


def samples() -> RanksResult:
    return RanksResult.of([TimelineResult(real_trace(f"sampled_rank{i}of128")) for i in range(2)])


JOBS = {"eight": eight, "four": result, **{name: lambda g=traces: result_of(g) for name, traces in GENERATED.items()}}


def shown(ranks: RanksResult) -> dict[str, Any]:
    answers: dict[str, Any] = ranks.wire.header["answers"]
    return answers


@pytest.mark.slow
@pytest.mark.parametrize("name", JOBS)
def test_every_form_says_who_decides_and_then_the_same_answers(name: str) -> None:
    ranks = JOBS[name]()
    answers = shown(ranks)
    assert "".join(answers["decides"]) == ranks.answers.decides
    assert len(answers["rows"]) == len(ranks.answers.answers) > 0
    rows = [*answers["rows"], *([answers["together"]] if answers["together"] else [])]
    pictured = re.sub(r"(?<=→) ", " ", words_of(ranks_svg(ranks.doc)))
    for form in (words_of(ranks.text()), words_of(ranks.html()), pictured):
        at = form.index(answers["decides"][0])
        for row in rows:
            at = form.index(said(row)[0], at)
            for words in said(row):
                assert words in form[at : at + 300]


def test_markdown_begins_with_who_decides_and_its_findings_open_below_the_ranks() -> None:
    ranks = result()
    shown_first, opened = ranks_markdown([], [ranks.doc]).split("<details><summary>3 findings</summary>\n\n")
    title, decides, about, _, answers, *_ = shown_first.split("\n\n")
    assert title == "## Ranks"
    assert decides == f"**{ranks.doc.parts[0]} · {ranks.answers.decides}**"
    assert about == ranks.doc.about
    for answer in ranks.answers.answers:
        assert f"| {answer.headline} → {answer.action} |" in answers
    assert shown_first.index("**What to do**") < shown_first.index("| rank 0 |")
    assert [line[:3] for line in opened.split("\n\n</details>")[0].splitlines()] == ["1. ", "2. ", "3. "]


@pytest.mark.slow
@pytest.mark.parametrize("name", JOBS)
def test_every_finding_is_behind_what_opens_and_none_before_it(name: str) -> None:
    ranks = JOBS[name]()
    before, opened = ranks_html(ranks.doc, table=False).split("<details", 1)
    for finding in ranks.findings:
        assert words_of(finding.cause) in words_of(opened)
        assert words_of(finding.sentence) not in words_of(before)


@pytest.mark.slow
def test_an_answer_of_most_ranks_opens_what_single_ranks_found() -> None:
    ranks = eight()
    header = ranks.wire.header
    for answer, row in zip(ranks.answers.answers, header["answers"]["rows"], strict=True):
        of_job = [header["findings"][i]["cause"] + header["findings"][i]["rest"] for i in row["evidence"]]
        assert set(of_job) <= {*answer.evidence}
        assert all(words in answer.evidence for words in row["others"][:MOST_SENTENCES])
        n_others = len(answer.evidence) - len(of_job)
        assert len(row["others"]) == min(n_others, MOST_SENTENCES + 1)
        if n_others > MOST_SENTENCES:
            assert row["others"][-1] == f"and {n_others - MOST_SENTENCES} more findings"
        assert 0 <= row["start_ns"] < row["end_ns"] <= header["span_ns"]
    speaker = ranks.answers.answers[0].headline.split(":")[0].removeprefix("On every rank, such as ")
    assert header["answers"]["rows"][0]["others"][0].startswith(f"{speaker}: ")


def test_a_warning_is_not_said_again_as_a_finding() -> None:
    ranks = samples()
    answers = shown(ranks)
    assert answers["warnings"] == ["! Ranks are not compared"]
    assert (answers["rows"], answers["others"]) == ([], [])
    assert ranks.html().count("anks are not compared") == 2  # the warning, and its finding, which opens
