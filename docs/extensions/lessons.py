"""Lessons as their readers should meet them: what a cell gave, and an exercise's answer, appear after a click.

The notebooks stay as they are: the tags that myst-nb folds by are added to what Sphinx reads.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from sphinx.application import Sphinx

ANSWER = {"code_prompt_show": "Show one answer", "code_prompt_hide": "Hide the answer"}
OUTPUT = {"code_prompt_show": "Show what happens", "code_prompt_hide": "Hide what happens"}


def setup(app: Sphinx) -> dict[str, Any]:
    """What Sphinx calls."""
    app.connect("source-read", _fold)
    return {"parallel_read_safe": True}


def _fold(app: Sphinx, name: str, source: list[str]) -> None:
    if app.env.doc2path(name).suffix == ".ipynb":
        source[0] = folded(source[0])


def folded(text: str) -> str:
    """A notebook's JSON, folded where it asks its reader for predictions or answers; as it is where it does neither."""
    notebook = json.loads(text)
    cells = notebook["cells"]
    if not any(_tags(cell) & {"predict", "guess"} or _is_answer(cell) for cell in cells):
        return text
    for cell in cells:
        if _is_answer(cell):
            _hide(cell, "hide-cell", ANSWER)
        elif cell.get("outputs"):
            _hide(cell, "hide-output", OUTPUT)
    return json.dumps(notebook)


def _is_answer(cell: dict[str, Any]) -> bool:
    return "solution" in _tags(cell) or bool(cell["metadata"].get("jupyter", {}).get("source_hidden"))


def _tags(cell: dict[str, Any]) -> set[str]:
    return set(cell["metadata"].get("tags", ()))


def _hide(cell: dict[str, Any], tag: str, words: dict[str, str]) -> None:
    cell["metadata"]["tags"] = [*cell["metadata"].get("tags", ()), tag]
    cell["metadata"]["mystnb"] = words
