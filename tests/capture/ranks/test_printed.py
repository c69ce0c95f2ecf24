"""What ranks print: in batches, in order, and with a middle that is left out, but not lost."""

import pytest

from perfmagic.capture.ranks.printed import BATCH_S, HEAD_CHARS, TAIL_CHARS, Outputs, Printed


class Heard:
    """A Printed, and what it has shown; now_s: its clock."""

    def __init__(self) -> None:
        self.now_s = 100.0
        self.shown: list[tuple[object, ...]] = []
        outputs = Outputs(
            lines=lambda *said: self.shown.append(said),
            display=lambda *said: self.shown.append(said),
            tell=lambda message: self.shown.append((message,)),
            whole="whole({rank})",
        )
        self.printed = Printed(outputs, clock=lambda: self.now_s)

    def taken(self) -> list[tuple[object, ...]]:
        taken, self.shown = self.shown, []
        return taken


@pytest.fixture
def heard() -> Heard:
    return Heard()


def test_a_line_after_silence_is_shown_at_once_and_those_behind_it_together(heard: Heard) -> None:
    heard.printed(0, "stdout", "first")
    heard.printed.show_if_due()
    assert heard.taken() == [(0, "stdout", "first")]
    for i in range(3):
        heard.printed(0, "stdout", f"line {i}")
        heard.printed.show_if_due()
    assert heard.taken() == []
    heard.now_s += 2 * BATCH_S
    heard.printed.show_if_due()
    assert heard.taken() == [(0, "stdout", "line 0\nline 1\nline 2")]


def test_each_rank_keeps_the_order_of_both_streams(heard: Heard) -> None:
    for rank, stream, text in [(1, "stdout", "a"), (0, "stdout", "b"), (1, "stderr", "c"), (1, "stdout", "d")]:
        heard.printed(rank, stream, text)
    heard.printed.show()
    assert heard.taken() == [(0, "stdout", "b"), (1, "stdout", "a"), (1, "stderr", "c"), (1, "stdout", "d")]
    assert heard.printed.text(1) == "a\nc\nd\n"


def test_a_display_and_messages_of_perfmagic_follow_earlier_output(heard: Heard) -> None:
    heard.printed(0, "stdout", "before")
    heard.printed.display(0, {"text/plain": "5"})
    heard.printed(1, "stderr", "then")
    heard.printed.tell("words")
    assert heard.taken() == [(0, "stdout", "before"), (0, {"text/plain": "5"}), (1, "stderr", "then"), ("words",)]


@pytest.mark.parametrize("shown_every", [1, 7, 10**9])
def test_the_middle_of_very_much_output_is_counted_and_kept(heard: Heard, shown_every: int) -> None:
    lines = [f"{i:>9}" for i in range(50_000)]
    for i, line in enumerate(lines):
        heard.printed(2, "stdout", line)
        if i % shown_every == 0:
            heard.printed.show()
    heard.printed.show()
    head = "\n".join(str(text) for _, stream, text in heard.shown if stream == "stdout")
    assert head.split("\n") == lines[: HEAD_CHARS // 10]
    assert f"more than {HEAD_CHARS:,} characters" in str(heard.taken()[-1])
    heard.printed.end()
    (_, _, note), (_, _, tail) = heard.taken()
    assert isinstance(tail, str)
    assert lines[-1] == tail.split("\n")[-1]
    left_out = int(str(note).split()[1].replace(",", ""))
    assert note == f"… {left_out:,} characters are left out here: whole(2)"
    assert len(head) + 1 + left_out + len(tail) == 10 * len(lines) - 1
    assert len(tail) == TAIL_CHARS
    assert heard.printed.text(2) == "".join(f"{line}\n" for line in lines)


def test_one_line_of_five_million_characters_is_cut(heard: Heard) -> None:
    text = "x" * 4_999_999 + "y"
    heard.printed(0, "stdout", text)
    heard.printed.end()
    (_, _, head), _, note, (_, _, tail) = heard.taken()
    assert (head, tail) == (text[:HEAD_CHARS], text[-TAIL_CHARS:])
    assert note == (0, "stderr", "… 4,890,000 characters are left out here: whole(0)")
    assert heard.printed.text(0) == f"{text}\n"


def test_a_little_more_than_the_head_is_shown_whole(heard: Heard) -> None:
    heard.printed(0, "stdout", "x" * (HEAD_CHARS + 5))
    heard.printed.end()
    assert "".join(str(text) for _, stream, text in heard.taken() if stream == "stdout") == "x" * (HEAD_CHARS + 5)


def test_the_next_cell_shows_as_many_characters_again(heard: Heard) -> None:
    heard.printed(0, "stdout", "x" * 5_000_000)
    heard.printed.end()
    heard.printed.begin()
    heard.taken()
    heard.printed(0, "stdout", "short")
    heard.printed.end()
    assert heard.taken() == [(0, "stdout", "short")]
    assert heard.printed.text(0) == "short\n"
