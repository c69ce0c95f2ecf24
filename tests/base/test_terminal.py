"""How wide a terminal is taken to be, and how text is counted and cut in it."""

import io
import os
import sys

import pytest
from wcwidth import wcwidth

from perfmagic.base.terminal import NARROWEST, USUAL, columns, cut_to_columns, width, wrapped


class Terminal(io.StringIO):
    """A standard output that goes to a terminal."""

    def isatty(self) -> bool:
        return True

    def fileno(self) -> int:
        return 1


@pytest.mark.parametrize(("given", "found"), [("60", 60), ("200", 200), ("7", NARROWEST), ("0", USUAL), ("x", USUAL)])
def test_columns_says_how_wide_a_text_may_be(given: str, found: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", given)
    monkeypatch.setattr(sys, "stdout", io.StringIO())
    assert width() == found


def test_without_columns_the_terminal_says_it_and_a_pipe_has_the_usual_width(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("COLUMNS", raising=False)
    monkeypatch.setattr(os, "get_terminal_size", lambda descriptor: os.terminal_size((133, 40)))
    monkeypatch.setattr(sys, "stdout", Terminal())
    assert width() == 133
    monkeypatch.setattr(sys, "stdout", io.StringIO())
    assert width() == USUAL
    monkeypatch.setattr(sys, "stdout", None)
    assert width() == USUAL


def test_east_asian_characters_take_two_columns_and_accents_none() -> None:
    assert columns("核函数 x") == 8
    assert columns("e\u0301") == 1
    assert cut_to_columns("核函数", 5) == "核函…"
    assert cut_to_columns("核函数", 6) == "核函数"


def test_signs_have_the_widths_of_wcwidth() -> None:
    signs = [chr(code) for code in range(1, 0x2600) if wcwidth(chr(code)) >= 0]
    assert [sign for sign in signs if columns(sign) != wcwidth(sign)] == []


def test_a_line_of_chinese_ends_between_letters_and_no_mark_begins_one() -> None:
    lines = wrapped("  ! 队列已满，设备空闲（没有工作），Python 在 aten::mm 中等待", indent=4, max_columns=20)
    assert lines == ["  ! 队列已满，设备空", "    闲（没有工作），", "    Python 在", "    aten::mm 中等待"]


@pytest.mark.parametrize("text", ["a(…, b=1) “c” d…e 5\u00a0% – f → g×h µs", "kernel<int, …>", "a–b…c·d"])
def test_a_line_without_wide_letters_ends_at_spaces_alone(text: str) -> None:
    assert " ".join(wrapped(text, max_columns=11)).split(" ") == text.split(" ")


def test_a_number_stays_with_its_unit() -> None:
    assert wrapped("设备有 76\u00a0% 的时间", max_columns=10) == ["设备有", "76\u00a0% 的时", "间"]
