"""What a reading says to the server, as a small JSON file: how far it is, or why it ended."""

from __future__ import annotations

import json
from contextlib import suppress
from pathlib import Path
from typing import Any


class Refused(Exception):  # noqa: N818 - a file is refused, no fault of the program
    """A path that does not open as a timeline, in words.

    hint: what the reader can do; "" where there is nothing.
    """

    def __init__(self, message: str, hint: str = "") -> None:
        super().__init__(message)
        self.message = message
        self.hint = hint


def tell(path: Path, **said: Any) -> None:
    """Replace what a file says; whoever reads it sees the old words or the new ones."""
    beside = path.with_suffix(".new")
    beside.write_text(json.dumps(said))
    beside.replace(path)


def told(path: Path) -> dict[str, Any]:
    """What a file says; {} where nothing was said yet."""
    with suppress(OSError, ValueError):
        found = json.loads(path.read_text())
        return found if isinstance(found, dict) else {}
    return {}
