"""What decides how long a graph takes, and what each answer rests on."""

from typing import Any

from perfmagic.results import GraphResult
from tests.analysis.findings.build import plain

from .made import DTOH, KERNEL, chain, op, recorded, two_devices


def said(made: Any) -> tuple[str, list[tuple[str, str]]]:
    """What decides, headline and action of each answer."""
    conclusion = GraphResult(*made).conclusion
    answers = [(answer.headline, answer.action) for answer in conclusion.proposals]
    return plain(conclusion.decides), [(plain(fact), plain(do)) for fact, do in answers]


def test_a_read_between_two_devices_decides_and_its_line_is_named() -> None:
    decides, answers = said(two_devices())
    assert decides == "Python's waits decide: they hold ops back for 108 ns of 209 ns"
    assert answers[0] == ("`copy` on line 2 stops Python for 95 ns", "Queue line 3 before line 2 waits")
    first = GraphResult(*two_devices()).conclusion.proposals[0]
    assert (first.before_ns, first.after_ns, first.at_most) == (209, 110, True)


def test_reads_in_a_loop_are_to_be_made_after_it() -> None:
    calls = []
    for i in range(4):
        at = 100 * i
        calls += [
            (op("mm", at, at + 1, writes=[i]), (KERNEL, 0, at + 1, at + 40)),
            (op("_local_scalar_dense", at + 2, at + 50, reads=[i]), (DTOH, 0, at + 40, at + 42)),
            (op("mm", at + 60, at + 61, writes=[10 + i]), (KERNEL, 1, at + 61, at + 99)),
        ]
    decides, answers = said(recorded(calls, [(0, 2, 2)]))
    assert decides.startswith("Python's waits decide: ")
    assert answers[0] == ("`.item()` on line 2 stops Python 4 times", "Read the values once, after the loop")


def test_where_python_computes_between_two_operators_it_decides() -> None:
    calls = [
        (op("mm", 0, 1, writes=[1]), (KERNEL, 0, 1, 11)),
        (op("mm", 80, 81, writes=[2]), (KERNEL, 0, 81, 91)),
    ]
    decides, answers = said(recorded(calls, [(0, 2, 2), (70, 3, 3)]))
    assert decides == "Python decides: it holds ops back for 69 ns of 90 ns"
    assert answers == [
        ("Python calls `mm` on line 3 69 ns late", "Call it earlier: its inputs and its lane were ready")
    ]


def test_many_short_operators_on_one_line_ask_for_fewer() -> None:
    calls = [(op("add", 100 * i, 100 * i + 8, reads=[i], writes=[i + 1]), None) for i in range(10)]
    made = recorded(calls, [(0, 2, 2)])
    _, [(fact, action)] = said(made)
    assert fact == "Python calls 9 ops of line 2 late: 828 ns in all"
    assert action == "Do the work of line 2 in fewer, larger ops"
    assert "Recording each operator slows Python" in GraphResult(*made).text()


def test_independent_operators_of_a_full_lane_are_named_and_gain_no_more_than_the_critical_path() -> None:
    calls = [
        (op("mm", 0, 1, writes=[1]), (KERNEL, 0, 1, 51)),
        (op("exp", 2, 3, writes=[2]), (KERNEL, 0, 51, 91)),
        (op("add", 4, 5, reads=[1, 2], writes=[3]), (KERNEL, 0, 91, 101)),
    ]
    made = recorded(calls, [(0, 2, 2), (2, 3, 3), (4, 4, 4)])
    decides, [(fact, action)] = said(made)
    assert decides == "One lane decides: sim has 100 ns of work in 100 ns"
    assert fact == "`mm` on line 2 and `exp` on line 3 are independent"
    assert action.startswith("Queue one on another stream")
    assert GraphResult(*made).conclusion.proposals[0].after_ns == 60


def test_a_chain_has_no_answer() -> None:
    calls = [(op("mm", i, i + 1, reads=[i], writes=[i + 1]), (KERNEL, 0, 20 * i + 9, 20 * i + 29)) for i in range(4)]
    assert said(recorded(calls)) == ("The critical path decides: 80 ns of 80 ns", [])


def test_the_answer_comes_first_in_all_forms_and_the_rest_is_closed() -> None:
    result = GraphResult(*two_devices())
    text, details, html, markdown = result.text(), result.text(details=True), result.html(), result.markdown()
    assert text.splitlines()[0] == details.splitlines()[0] == result.sentence
    assert len(text.splitlines()) <= 14
    assert "critical path, 100 ns with a lane for each op: " in " ".join(details.split())
    assert html.index("decide: they") < html.index("<img ") < html.index("<details")
    assert markdown.startswith(f"**{result.sentence}**\n\n".replace("\xa0", markdown[markdown.index("209") + 3]))
    assert "What to do" in markdown
    assert result.to_dict()["conclusion"]["proposals"][0]["after_ns"] == 110
    assert len(GraphResult(*chain(40, lines=5)).text().splitlines()) <= 14
