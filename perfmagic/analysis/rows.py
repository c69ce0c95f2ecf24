"""What an analysis gives back row by row: a sequence that also is a table."""

from __future__ import annotations

import enum
from collections.abc import Iterable
from dataclasses import fields
from typing import TYPE_CHECKING, Any, SupportsIndex, TypeVar, cast, overload

from perfmagic.errors import CaptureError

if TYPE_CHECKING:
    import pandas as pd

RowT = TypeVar("RowT")
_SHOWN = 10  # rows of a repr
_NAME_LENGTH = 48


class Rows(tuple[RowT, ...]):  # noqa: SLOT001 - a tuple's subclass cannot have slots for fields of its own
    """Rows of one kind: a tuple of frozen dataclasses, and a table with a column a field or property.

    rows: of the class `of`, which says the columns of a table without rows too.
    """

    of: type[RowT]

    def __new__(cls, rows: Iterable[RowT], of: type[RowT]) -> Rows[RowT]:
        self = super().__new__(cls, rows)
        self.of = of
        return self

    def __getnewargs__(self) -> tuple[tuple[RowT, ...], type[RowT]]:
        return tuple(self), self.of  # what __new__ takes again when a result is copied or pickled

    @overload
    def __getitem__(self, key: SupportsIndex, /) -> RowT: ...

    @overload
    def __getitem__(self, key: slice, /) -> Rows[RowT]: ...

    def __getitem__(self, key: SupportsIndex | slice, /) -> RowT | Rows[RowT]:
        """One row, or with a slice the rows of it as a table again."""
        found = super().__getitem__(key)
        return Rows(cast("tuple[RowT, ...]", found), self.of) if isinstance(key, slice) else cast("RowT", found)

    def __repr__(self) -> str:
        shown = [f"{self.of.__name__} × {len(self)}", *(f"  {_short(row)}" for row in self[:_SHOWN])]
        more = [f"  … {len(self) - _SHOWN} more; .to_frame() is a table"] if len(self) > _SHOWN else []
        return "\n".join(shown + more)

    @property
    def columns(self) -> tuple[str, ...]:
        """The fields of a row, then its properties."""
        properties = [name for name, value in vars(self.of).items() if isinstance(value, property)]
        return (*(f.name for f in fields(cast("Any", self.of))), *properties)

    def to_dict(self) -> list[dict[str, Any]]:
        """The rows as plain dicts, ready for JSON; members of an enumeration by their name in small letters."""
        return [{name: _plain(getattr(row, name)) for name in self.columns} for row in self]

    def to_frame(self) -> pd.DataFrame:
        """The rows as a table, one column a field or property. Needs pandas, else raises CaptureError."""
        frame: pd.DataFrame = pandas().DataFrame(self.to_dict(), columns=list(self.columns))
        return frame


def pandas() -> Any:
    """The pandas module. Raises CaptureError with what to install where it is absent."""
    try:
        import pandas as pd
    except ImportError:
        raise CaptureError("to_frame() needs pandas, which is not installed", hint="pip install pandas") from None
    return pd


def _short(row: object) -> str:
    """The fields of a row on one line; long names without their end."""
    texts = [str(getattr(row, field.name)) for field in fields(cast("Any", row))]
    return " · ".join(text if len(text) <= _NAME_LENGTH else f"{text[: _NAME_LENGTH - 1]}…" for text in texts)


def _plain(value: Any) -> Any:
    if isinstance(value, enum.Enum):
        return value.name.lower()
    return list(value) if isinstance(value, tuple) else value
