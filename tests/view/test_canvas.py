"""Words on a picture."""

from perfmagic.view.svg.canvas import Canvas


def test_a_name_in_a_sentence_loses_its_backticks_and_code_keeps_them() -> None:
    canvas = Canvas()
    canvas.text(0, 0, "`kept` lives until line 3")
    canvas.text(0, 0, "print(`kept`)", mono=True)
    drawn = canvas.svg(10, "two lines")
    assert ">kept lives until line 3<" in drawn
    assert ">print(`kept`)<" in drawn
