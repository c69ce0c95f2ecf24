"""Results as JSON text and as files: shared by benchmarks, comparisons and sweeps."""

from __future__ import annotations

import json
import os
from abc import ABC, abstractmethod
from collections.abc import Collection, Iterator
from contextlib import contextmanager
from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from perfmagic.analysis.bench.quantity import Quantity
from perfmagic.base.errors import OptionError
from perfmagic.base.files import local_path, open_regular, plain_json, write_text
from perfmagic.trace.json_form import Count, JsonForm, typed
from perfmagic.trace.samples import Taken

if TYPE_CHECKING:
    from typing_extensions import Self


class Saved(JsonForm, ABC):
    """Gives a result its JSON text and file; the class's from_json reads the text back."""

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
    file = local_path(path)
    try:
        with open_regular(file) as opened:
            return opened.read().decode("utf-8", errors="replace")
    except FileNotFoundError:
        raise OptionError(f"there is no file {path}", hint="result.save() writes one") from None
    except OSError as error:
        raise OptionError(f"{path} cannot be read: {error.strerror}", hint="result.save() writes one") from None


def format_of(text: str) -> str:
    """What kind of result a text holds, as to_json() wrote it; "" for other text."""
    try:
        data = read_json(text)
    except OptionError:
        return ""
    return str(data.get("format", "")) if isinstance(data, dict) else ""


def kind_of(form: str) -> str:
    """A format without the number at its end."""
    return form.rpartition(" ")[0]


def read_json(text: str) -> Any:
    """What JSON text holds. Raises OptionError for other text."""
    if not isinstance(text, (str, bytes, bytearray)):
        raise OptionError(f"text is needed, not {text!r}", hint="perfmagic.load(FILE) opens a file")
    try:
        return plain_json(text)
    except ValueError as error:
        raise OptionError(f"this is not JSON: {error}") from None


def of_format(data: Any, formats: Collection[str], what: str, hint: str) -> dict[str, Any]:
    """What to_dict() of a class gave, without its format. Raises OptionError for anything else.

    formats: those that can be read.  what: the kind of result, for the message.  hint: for other kinds of result.
    """
    given = data.get("format") if isinstance(data, dict) else None
    last = max(formats, key=_number)
    if kind_of(str(given)) == kind_of(last) and _number(given) > _number(last):
        raise OptionError(
            f"this was written by a later perfmagic: its format is {given!r}, the last one known here {last!r}",
            hint="pip install --upgrade perfmagic",
        )
    if given is None:
        raise OptionError(f"this is not a {what}: perfmagic did not write it", hint="result.save() writes one")
    if given not in formats:
        raise OptionError(f"this is not a {what}: its format is {given!r}, not {last!r}", hint=hint)
    return {key: value for key, value in data.items() if key != "format"}


def _number(form: object) -> int:
    """What a format ends in, 0 for anything else."""
    digits = str(form).rpartition(" ")[2]
    return int(digits) if digits.isdecimal() and len(digits) < 9 else 0


@contextmanager
def damage_of(what: str, where: str = "") -> Iterator[None]:
    """Raises OptionError for a ValueError within: JSON of the right format does not hold what belongs into it."""
    try:
        yield
    except OptionError:
        raise
    except ValueError as error:
        message = f"{where}this {what} is damaged: {error}"
        raise OptionError(message, hint="take it again, or copy the file again") from None


# A benchmark from its JSON: typed and in range, with its statistics recomputed from the samples.

TakenT = TypeVar("TakenT", bound=Taken)


def restored(data: dict[str, Any], kind: type[TakenT]) -> TakenT:
    """The benchmark that to_dict() wrote, also of older formats. Raises ValueError for what does not fit."""
    data = _as_today(data)
    starts = typed(data.get("run_starts", ()), tuple[Count, ...])
    quantities: dict[str, Any] = {
        "returns": Quantity.restored(data.get("returns"), starts),
        "done": Quantity.restored(data.get("done"), starts),
        "span": Quantity.restored(data.get("span")),
        "queued": Quantity.restored(data.get("queued")),
    }
    result = typed(data | dict.fromkeys((*quantities, "record")), kind)
    _check(result, quantities["returns"], quantities["done"])
    return replace(result, **quantities)


def _as_today(data: dict[str, Any]) -> dict[str, Any]:
    """What older formats say, as the last one says it."""
    code, settings, warnings = data.get("code"), data.get("settings"), data.get("warnings")
    model = {"queue_model": data["course"]} if "course" in data else {}  # its name up to format 3
    if isinstance(warnings, list):  # sentences alone up to format 3
        data = data | {"warnings": [{"kind": "", "sentence": w} if isinstance(w, str) else w for w in warnings]}
    return {
        # earlier formats keep a magic's line in the code, and what was asked for in the settings
        "magic": "%%bench" if isinstance(code, str) and code.lstrip().startswith("%") else "",
        "warmed_up": not isinstance(settings, dict) or settings.get("warmup") != 0,
        **data,
        **model,
    }


def _check(taken: Taken, returns: Quantity | None, done: Quantity | None) -> None:
    """What lies beside the samples must fit to their number."""
    n = 0 if returns is None else returns.n
    if done is not None and done.n != n:
        raise ValueError(f"{n} samples of returns, {done.n} of done")
    if any(a > b for a, b in pairwise(taken.run_starts)) or max(taken.run_starts, default=0) > n:
        raise ValueError(f"runs that start at {taken.run_starts} of {n} samples")
