"""Write JSON with an item of a list a line: the demos, the front end's packages, and files in tests/data.

    python -m tests.json_rows

Jupyter and npm give each value and each bracket a line. The values and their order stay the same.
"""

import json
from collections.abc import Iterable
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
STORED = (
    "demos/*.ipynb",
    "perfmagic/frontend/package-lock.json",
    "tests/data/*.json",
    "tests/data/traces/expected/*.json",
    "tests/data/wire/*.expected.json",
    "tests/data/wire/amounts.json",
)
WIDTH = 100  # longer lists are broken, lists of one item too: a picture gets a line of its own


def main() -> None:
    """Rewrite the files that have another form."""
    for path, rows in other_form().items():
        path.write_text(rows, encoding="utf-8")


def other_form() -> dict[Path, str]:
    """The files that are stored in another form, each with the text that it should have."""
    texts = {path: path.read_text(encoding="utf-8") for pattern in STORED for path in ROOT.glob(pattern)}
    rows = {path: json_rows(json.loads(text)) for path, text in texts.items()}
    return {path: row for path, row in rows.items() if row != texts[path]}


def json_rows(value: Any) -> str:
    """JSON with an item of a list a line, and an object a line where an object holds nothing else."""
    return _rows(value, "") + "\n"


def _rows(value: Any, indent: str) -> str:
    if isinstance(value, dict):
        if len(value) > 1 and all(isinstance(part, dict) for part in value.values()):
            return "{" + _lines((f"{_text(key)}: {_text(part)}" for key, part in value.items()), indent) + "}"
        return "{" + ", ".join(f"{_text(key)}: {_rows(part, indent)}" for key, part in value.items()) + "}"
    lines_of_text = isinstance(value, list) and len(value) > 1 and all(isinstance(item, str) for item in value)
    if not isinstance(value, list) or (len(_text(value)) <= WIDTH and not lines_of_text):
        return _text(value)
    return "[" + _lines((_rows(item, f"{indent} ") for item in value), indent) + "]"


def _lines(items: Iterable[str], indent: str) -> str:
    return "\n" + ",\n".join(f"{indent} {item}" for item in items)


def _text(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False)


if __name__ == "__main__":
    main()
