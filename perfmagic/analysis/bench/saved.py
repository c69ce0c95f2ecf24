"""Results as JSON text and as files: shared by benchmarks, comparisons and sweeps."""

from __future__ import annotations

import json
import os
from abc import ABC, abstractmethod
from collections.abc import Collection
from pathlib import Path
from typing import TYPE_CHECKING, Any

from perfmagic.errors import OptionError
from perfmagic.files import file_path, write_text

if TYPE_CHECKING:
    from typing_extensions import Self


class Saved(ABC):
    """Gives a result with to_dict() its JSON text and file; the class's from_json reads the text back."""

    @abstractmethod
    def to_dict(self) -> dict[str, Any]:
        """All of it, ready for JSON."""

    def to_json(self) -> str:
        """to_dict() as JSON text; from_json reads it back."""
        return json.dumps(self.to_dict(), ensure_ascii=False, allow_nan=False)

    def save(self, path: str | os.PathLike[str]) -> Path:
        """Write to_json() into a file and give its path. Raises OptionError where it cannot be written."""
        return write_text(path, self.to_json())

    @classmethod
    @abstractmethod
    def from_json(cls, text: str) -> Self:
        """What to_json() wrote. Raises OptionError for other text."""

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> Self:
        """What save() wrote. Raises OptionError for other files."""
        text = text_of(path)
        try:
            return cls.from_json(text)
        except OptionError as error:
            raise OptionError(f"{path}: {error.message}", hint=error.hint) from None


def text_of(path: str | os.PathLike[str]) -> str:
    """The text of a file that save() wrote. Raises OptionError where there is none."""
    file = file_path(path)
    if not file.is_file():
        raise OptionError(f"there is no file {path}", hint="the save() of a result writes one")
    return file.read_text("utf-8", errors="replace")


def format_of(text: str) -> str:
    """What kind of result a text holds, as to_json() wrote it; "" for other text."""
    if not isinstance(text, (str, bytes, bytearray)):
        raise OptionError(f"text is needed, not {text!r}", hint="perfmagic.load(FILE) opens a file")
    try:
        data = json.loads(text)
    except ValueError:
        return ""
    return str(data.get("format", "")) if isinstance(data, dict) else ""


def kind_of(form: str) -> str:
    """A format without the number at its end."""
    return form.rpartition(" ")[0]


def parsed(text: str, formats: Collection[str], what: str, hint: str) -> dict[str, Any]:
    """What to_json() of a class wrote, without its format. Raises OptionError for other text.

    formats: those that can be read.  what: the kind of result, for the message.  hint: for other kinds of result.
    """
    if not isinstance(text, (str, bytes, bytearray)):
        raise OptionError(f"text is needed, not {text!r}", hint="perfmagic.load(FILE) opens a file")
    try:
        data = json.loads(text)
    except ValueError as error:
        raise OptionError(f"this is no JSON: {error}") from None
    found = data.pop("format", None) if isinstance(data, dict) else None
    last = max(formats, key=_number)
    if kind_of(str(found)) == kind_of(last) and _number(found) > _number(last):
        raise OptionError(
            f"this was written by a later perfmagic: its format is {found!r}, the last one known here {last!r}",
            hint="pip install --upgrade perfmagic",
        )
    if found is None:
        raise OptionError(f"this is no {what}: perfmagic did not write it", hint="the save() of a result writes one")
    if found not in formats:
        raise OptionError(f"this is no {what}: its format is {found!r}, expected is {last!r}", hint=hint)
    return dict(data)


def _number(form: object) -> int:
    """What a format ends in, 0 for anything else."""
    digits = str(form).rpartition(" ")[2]
    return int(digits) if digits.isdecimal() else 0


def damaged(what: str, error: Exception) -> OptionError:
    """The error for JSON of the right format that does not hold what belongs into it."""
    words = f"{error} is missing" if isinstance(error, KeyError) else f"{type(error).__name__}: {error}"
    return OptionError(f"this {what} is damaged: {words}", hint="take it again, or copy the file again")
