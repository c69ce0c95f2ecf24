"""Pieces of HTML that front ends keep."""

from perfmagic.view.html import MAX_SENTENCE, short


def test_a_name_in_backticks_is_code_and_stays_text() -> None:
    assert short("`x<b>` lives until line 3") == "<code>x&lt;b&gt;</code> lives until line 3"
    assert short("a ` alone") == "a ` alone"
    assert short("`" + "x" * MAX_SENTENCE + "`").endswith("…")
