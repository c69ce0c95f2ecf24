"""Slides of lessons: headings divide them, answers wait or stay away, pictures stand, nothing is fetched."""

import importlib.util
import re
import sys
from pathlib import Path

import pytest

nbformat = pytest.importorskip("nbformat", reason="nbformat is not installed")
pytest.importorskip("nbconvert", reason="nbconvert is not installed")
from nbformat.v4 import new_code_cell, new_markdown_cell, new_notebook, new_output  # noqa: E402

DEMOS = Path(__file__).resolve().parents[1] / "demos"
SPEC = importlib.util.spec_from_file_location("slides", DEMOS / "slides.py")
slides = importlib.util.module_from_spec(SPEC)
with pytest.MonkeyPatch.context() as patched:
    patched.setattr(sys, "path", [str(DEMOS), *sys.path])  # as Python does for a script
    SPEC.loader.exec_module(slides)
PICTURE = new_output("display_data", {"text/html": "<img src='data:,'>"})


def tagged(*tags: str, shows: bool = False) -> "nbformat.NotebookNode":
    return new_code_cell("f()", metadata={"tags": list(tags)}, outputs=[PICTURE] if shows else [])


def kinds(*cells: "nbformat.NotebookNode") -> list[str]:
    """How each cell stands in the slides."""
    made = slides.divided(new_notebook(cells=[new_markdown_cell("# Queues"), *cells]))
    return [cell.metadata.slideshow.slide_type for cell in made.cells][1:]


def test_a_heading_begins_a_slide_and_each_further_picture_one_below_it() -> None:
    first, second = tagged(shows=True), tagged(shows=True)
    assert kinds(new_markdown_cell("## Streams"), tagged(), first, second) == ["slide", "-", "-", "subslide"]
    assert kinds(new_markdown_cell("It drains.")) == ["subslide"]


def test_what_follows_a_question_waits_and_answers_of_exercises_stay_away() -> None:
    question = new_markdown_cell("**Predict:** which is first?", metadata={"tags": ["predict"]})
    assert kinds(question, tagged("guess"), tagged(shows=True)) == ["subslide", "-", "fragment"]
    hidden = new_code_cell("f()", metadata={"jupyter": {"source_hidden": True}})
    assert kinds(tagged("exercise"), tagged("check"), tagged("solution"), hidden) == ["-", *["skip"] * 3]


@pytest.mark.slow
def test_slides_of_a_lesson_have_its_pictures_and_load_nothing(tmp_path: Path) -> None:
    (tmp_path / "dist" / "theme").mkdir(parents=True)
    for name in ("reveal.js", "reveal.css", "theme/simple.css"):
        (tmp_path / "dist" / name).write_text(f"/* {name} */ @import url(font);", "utf-8")
    lesson = nbformat.read(DEMOS / "02_automatic_parallelism.ipynb", as_version=4)
    page = slides.slides(lesson, "lesson", tmp_path)
    shown = [cell for cell in lesson.cells if not {"check", "solution"} & set(cell.metadata.get("tags", ()))]
    shown = [cell for cell in shown if not cell.metadata.get("jupyter", {}).get("source_hidden")]
    htmls = [str(one.get("data", {}).get("text/html", "")) for cell in shown for one in cell.get("outputs", [])]
    assert page.count("<img") == sum(html.count("<img") for html in htmls) > 5
    assert page.count("<section") > len([cell for cell in lesson.cells if cell.source.startswith("## ")])
    assert re.findall(r"<(?:script|link)[^>]+(?:src|href)=", page) == []
    assert "default-src 'none'" in page
    assert page.count("/* reveal.js */ @import url(font);") == page.count("@import") == 1
