"""Lessons as their readers should meet them: students' editions, where what a cell gave appears after a click.

The notebooks stay as they are: solutions leave what Sphinx reads, and the tags that myst-nb folds by are added to it.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from sphinx.application import Sphinx

OUTPUT = {"code_prompt_show": "Show what happens", "code_prompt_hide": "Hide what happens"}


def setup(app: Sphinx) -> dict[str, Any]:
    """What Sphinx calls."""
    app.connect("source-read", _fold)
    return {"parallel_read_safe": True}


def _fold(app: Sphinx, name: str, source: list[str]) -> None:
    if app.env.doc2path(name).suffix == ".ipynb":
        source[0] = folded(source[0])


def folded(text: str) -> str:
    """A notebook's JSON without solutions, its outputs folded; as it is where it asks its reader nothing."""
    notebook = json.loads(text)
    cells = notebook["cells"]
    if not any(_tags(cell) & {"predict", "guess", "solution"} for cell in cells):
        return text
    notebook["cells"] = [cell for cell in cells if "solution" not in _tags(cell)]
    for cell in notebook["cells"]:
        if cell.get("outputs"):
            cell["metadata"]["tags"] = [*cell["metadata"].get("tags", ()), "hide-output"]
            cell["metadata"]["mystnb"] = OUTPUT
    return json.dumps(notebook)


def _tags(cell: dict[str, Any]) -> set[str]:
    return set(cell["metadata"].get("tags", ()))
