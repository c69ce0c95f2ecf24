"""What to do about a job: who decides, and what late ranks and most ranks ask for, replayed on all ranks."""

import re
from collections.abc import Sequence
from dataclasses import replace

import pytest

from perfmagic.analysis.findings.answer import Answers
from perfmagic.analysis.findings.answers import LEAST_FRAC, MOST_ANSWERS
from perfmagic.analysis.findings.catalogue import ACTION_CHARS, HEADLINE_CHARS
from perfmagic.analysis.ranks.answers import find_job_answers
from perfmagic.analysis.ranks.causes import causes_of
from perfmagic.analysis.ranks.findings import findings_of
from perfmagic.analysis.ranks.ranks import ranks_of
from perfmagic.api.opening import open_traces
from perfmagic.changes import overlap_communication
from perfmagic.results import RanksResult, TimelineResult
from perfmagic.trace.model import Trace
from tests.analysis.build import US, Builder
from tests.analysis.findings.build import plain
from tests.analysis.ranks.test_job import steps
from tests.analysis.ranks.test_ranks import REDUCE, rank
from tests.trace.recorded import eight_ranks, real

MOST_LINES = 14
EIGHT = eight_ranks()


def answered(traces: Sequence[Trace]) -> Answers:
    return find_job_answers(ranks_of(traces))


def result(traces: Sequence[Trace]) -> RanksResult:
    return RanksResult.of([TimelineResult(trace) for trace in traces])


def rounds(*compute_us: float, host_us: float = 20) -> list[Trace]:
    n = len(compute_us)
    return [rank(i, compute_us=us, host_us=host_us, world_size=n) for i, us in enumerate(compute_us)]


GENERATED = {
    "even": rounds(500, 500),
    "late": rounds(300, 300, 800, 300),
    "late of two": rounds(500, 800),
    "in turn": steps([100, 100, 100], [50, 50, 50]),
    "python": rounds(60, 60, host_us=900),
    "replayed": steps([100, 100, 400], [50, 50, 50]),
}


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("late", "Rank 2 is late: that costs 2.00 ms of 4.00 ms"),
        ("late of two", "Rank 1 is late: that costs 1.20 ms of 4.00 ms"),
        ("in turn", "Communication decides: 400 µs of 928 µs"),
        ("even", "The device decides on every rank: it was busy 50 % of the time"),
        ("python", "Python decides on every rank: devices waited for it 90 % of the time"),
    ],
)
def test_the_first_line_says_who_decides(name: str, words: str) -> None:
    answers = answered(GENERATED[name])
    assert plain(answers.decides) == words


def test_ranks_that_are_late_in_turn_are_called_so() -> None:
    late = [[300, 600, 100, 600, 100], [300, 100, 600, 100, 600]]
    traces = [_with_rounds(number, late[number]) for number in range(2)]
    answers = answered(traces)
    assert plain(answers.decides) == "No single rank is late: the median rank waits 1.00 ms for others"
    assert answers.answers[0].rules == ("ranks_in_turn",)
    assert plain(answers.answers[0].headline) == "Ranks wait in turn, 1.00 ms each: no rank stands out"


def _with_rounds(number: int, compute_us: Sequence[float]) -> Trace:
    """Rounds of 1 ms: a kernel of so long, then a collective that ends with the round."""
    b = Builder()
    for i, us in enumerate(compute_us):
        at = 1000 * i
        b.op(at + 20, at + 20 + us, launch=at + 18, name="gemm")
        b.op(at + 20 + us, at + 1000, launch=at + 19, name=REDUCE, stream=9)
    return b.trace(rank=number, world_size=2)


@pytest.mark.parametrize("name", GENERATED)
def test_the_text_is_short_and_the_details_begin_with_it(name: str) -> None:
    ranks = result(GENERATED[name])
    lines, details = ranks.text().splitlines(), ranks.text(details=True).splitlines()
    assert len(lines) <= MOST_LINES
    assert details[: len(lines) - 1] == lines[:-1]
    told = " ".join(details).replace("  ", " ")
    assert all(finding.cause.split(" ")[0] in told for finding in ranks.findings)


@pytest.mark.parametrize("name", GENERATED)
def test_headlines_and_actions_are_short_and_whole(name: str) -> None:
    for finding in findings_of(ranks_of(GENERATED[name])):
        assert len(finding.headline) <= HEADLINE_CHARS
        assert len(finding.action) <= ACTION_CHARS
        assert not re.search(r"[{}]|\bNone\b|  ", finding.headline + finding.action)
        assert bool(finding.headline) or not finding.action or finding.rule == "waited_for_core"


def test_one_remedy_is_one_answer_of_all_its_rules_and_says_what_the_findings_say() -> None:
    answers = answered(GENERATED["late"])
    first = answers.answers[0]
    assert (plain(first.headline), first.action) == (
        "gemm takes 2.00 ms more on rank 2 in every step",
        "Look at gemm on rank 2",
    )
    assert first.rules == ("straggler",)
    assert (first.before_ns, first.after_ns) == (4000 * US, 2000 * US)
    assert first.evidence == tuple(
        f.sentence for f in findings_of(ranks_of(GENERATED["late"])) if f.rule in first.rules
    )


def test_the_number_of_a_late_rank_is_that_of_its_cause_and_bounds_add_up_with_nothing() -> None:
    ranks = result(GENERATED["replayed"])
    late, transfer, *_ = ranks.answers.answers
    cause = causes_of(ranks.ranks)[0]
    assert late.before_ns - late.after_ns == cause.gain_ns
    hidden = ranks.what_if(overlap_communication()).prediction
    assert (transfer.after_ns, transfer.at_most) == (hidden.expected_ns, True)
    assert ranks.answers.together is None


def test_ranks_that_waited_for_a_core_are_a_warning_and_take_the_cause_from_the_late_rank() -> None:
    traces = rounds(500, 800)
    waited_ns = (0, 9_000_000)
    waited = [
        replace(trace, meta=replace(trace.meta, waited_for_core_ns=ns, cores=1))
        for trace, ns in zip(traces, waited_ns, strict=True)
    ]
    answers = answered(waited)
    assert answers.decides.startswith("Rank 1 is late: that costs")
    assert plain(answers.warnings[-1]).startswith("2 ranks on 1 core: rank 1 waited 9.00 ms for a core")
    late = next(finding for finding in findings_of(ranks_of(waited)) if finding.rule == "straggler")
    assert late.action == ""
    assert late.headline in answers.also_seen
    assert answers.answers == ()  # what looks like transfer may be waiting for a core, too
    assert answers.warnings[-1].endswith(". Run no more ranks than cores")


def test_a_short_wait_for_a_core_is_a_warning_alone() -> None:
    first, second = rounds(500, 800)
    waited = [first, replace(second, meta=replace(second.meta, waited_for_core_ns=200_000, cores=4))]
    answers = answered(waited)
    assert [plain(words) for words in answers.warnings] == ["2 ranks on 4 cores: rank 1 waited 200 µs for a core"]
    assert answers.also_seen == ()


def test_samples_and_failures_have_no_answers() -> None:
    failed = [replace(t, meta=replace(t.meta, failed="ValueError: no")) for t in GENERATED["late"]]
    assert (answered(failed).decides, answered(failed).answers) == ("The code failed before its end", ())
    paths = [real(f"sampled_rank{i}of128") for i in range(2)]
    sampled = open_traces(*paths).ranks.answers
    assert (sampled.decides[:5], sampled.answers) == ("Open:", ())


@pytest.mark.slow
def test_of_eight_recorded_ranks_python_decides_and_what_most_ask_for_comes_first() -> None:
    ranks = open_traces(EIGHT).ranks
    answers = ranks.answers
    assert plain(answers.decides) == "Python decides on every rank: devices waited for it 39 % of the time"
    assert answers.total_ns == ranks.doc.span_ns
    first, *others = answers.answers
    assert (first.rules, first.action) == (
        ("many_gaps", "one_by_one"),
        "Use torch.compile, or capture the step with CUDA graphs",
    )
    assert plain(first.headline) == "On every rank, such as rank 3: Python leaves 60 gaps between ops"
    assert [answer.rules for answer in others] == [("straggler",)]
    assert [plain(answer.headline) for answer in others] == [
        "Python takes 2.26 ms more on ranks 3, 4 and 5 in step 10",
    ]
    assert "Start-up: ranks began up to 7.51 ms apart, rank 7 last" in map(plain, answers.also_seen)
    assert len(answers.answers) <= MOST_ANSWERS
    assert all((a.gain_ns or a.cost_ns or 0) >= LEAST_FRAC * a.before_ns for a in answers.answers)
    assert first.at_most
    assert len(ranks.text().splitlines()) <= MOST_LINES
    assert ranks.to_dict()["answers"] == answers.to_dict()
