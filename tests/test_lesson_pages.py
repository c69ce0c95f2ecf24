"""Lessons on the documentation's site: outputs are folded and solutions left out, in the page alone."""

import importlib.util
import json
from pathlib import Path
from typing import Any

FILE = Path(__file__).resolve().parents[1] / "docs" / "extensions" / "lessons.py"
SPEC = importlib.util.spec_from_file_location("lessons", FILE)
lessons = importlib.util.module_from_spec(SPEC)
SPEC.loader.exec_module(lessons)
OUTPUT = {"output_type": "stream", "name": "stdout", "text": "3.1 ms"}


def folds(*cells: dict[str, Any]) -> list[str | None]:
    """What the page folds of each cell."""
    known = [{"metadata": {}, **cell} for cell in cells]
    read = json.loads(lessons.folded(json.dumps({"cells": known})))["cells"]
    tags = [[tag for tag in cell["metadata"].get("tags", ()) if tag.startswith("hide-")] for cell in read]
    return [one[0] if one else None for one in tags]


def test_outputs_fold_below_their_cells_and_solutions_are_left_out() -> None:
    question = {"metadata": {"tags": ["predict"]}}
    solution = {"metadata": {"tags": ["solution"], "jupyter": {"source_hidden": True}}, "outputs": [OUTPUT]}
    assert folds(question, {"outputs": [OUTPUT]}, solution, {"outputs": []}) == [None, "hide-output", None]


def test_a_notebook_without_questions_stays_as_it_is() -> None:
    assert folds({"outputs": [OUTPUT]}, {"outputs": []}) == [None, None]


def test_each_fold_says_what_a_click_shows() -> None:
    cells = [{"metadata": {"tags": ["guess"]}}, {"metadata": {}, "outputs": [OUTPUT]}]
    read = json.loads(lessons.folded(json.dumps({"cells": cells})))["cells"]
    assert read[1]["metadata"]["mystnb"]["code_prompt_show"] == "Show what happens"
