"""A missing wait, which makes results wrong, is red in every output, and has no cost."""

import io

import pytest

from perfmagic.base.terminal import for_terminal
from perfmagic.results import TimelineResult
from perfmagic.trace.model import Race
from perfmagic.view.html import RED
from perfmagic.view.timeline.live_data import timeline_wire
from perfmagic.view.timeline.picture.timeline import timeline_svg
from perfmagic.view.timeline.text import timeline_text
from tests.analysis.build import Builder

RED_TEXT, END = "\033[31m", "\033[0m"


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def racing() -> TimelineResult:
    b = Builder()
    b.line(0, 2)
    writer = b.op(20, 350, launch=10, name="gemm", stream=8)
    b.line(40, 3)
    reader = b.op(360, 950, launch=50, name="add")
    return TimelineResult(b.trace(races=(Race(reader, writer),)))


def test_the_first_sentence_is_the_race_with_both_lines_and_without_a_cost() -> None:
    lines = timeline_text(racing().doc).split("\n")
    assert lines[1].lstrip().startswith("race  a wait is missing, and on a GPU the result may be wrong: add on line 3")
    assert "no cost" not in "\n".join(lines[1:4])


def test_a_terminal_shows_that_sentence_alone_in_red(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("NO_COLOR", raising=False)
    text = timeline_text(racing().doc)
    shown = for_terminal(text, Terminal()).split("\n")
    red = [line for line in shown if line.startswith(RED_TEXT)]
    assert red == shown[1 : 1 + len(red)]
    assert "with wait_stream()" in "".join(red)
    assert "device-bound" in shown[1 + len(red)]
    assert [line.replace(RED_TEXT, "").replace(END, "") for line in shown] == text.split("\n")


def test_no_colour_goes_into_a_file_or_where_none_is_wanted(monkeypatch: pytest.MonkeyPatch) -> None:
    text = timeline_text(racing().doc)
    assert for_terminal(text, io.StringIO()) == text
    monkeypatch.setenv("NO_COLOR", "1")
    assert for_terminal(text, Terminal()) == text


def test_html_picture_and_live_view_show_it_in_red() -> None:
    result = racing()
    assert result.html().count(f"color:{RED}") == 3  # the answer, and of its finding the cost's place and the sentence
    assert "race</text>" in timeline_svg(result.doc)
    assert timeline_wire(result.doc, result.trace).header["answers"]["rows"][0]["wrong"]
