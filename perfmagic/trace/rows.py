"""The rows that an analysis returns: a sequence that is also a table."""

from __future__ import annotations

import enum
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import fields
from typing import TYPE_CHECKING, Any, ClassVar, SupportsIndex, TypeVar, cast, overload

import numpy as np
import numpy.typing as npt

from perfmagic.base.errors import CaptureError
from perfmagic.base.language import translated
from perfmagic.base.tables import Table, html_block, table_of_fields, text_rows
from perfmagic.base.units import plural, rough_times
from perfmagic.trace.columns import NONE, Int64
from perfmagic.trace.json_form import to_json

if TYPE_CHECKING:
    import pandas as pd

RowT = TypeVar("RowT")
TEXT_ROWS, HTML_ROWS = 10, 20  # of a text and of a page; to_frame() has all


class Rows(Sequence[RowT]):
    """Rows of one kind: a sequence of frozen dataclasses, and a table with a column for each field and property.

    rows: of the class `of`, which names the columns also where there are no rows.  note: what a reader of an empty or
    incomplete table should know.  predicted: whose model gave the times, which then have two digits; "" for measured
    ones.  In a notebook the first rows are shown with headings and units.

    Tables of many rows are made from columns instead, see `of_columns`: a row is then built when it is asked for.

    >>> table = perfmagic.open_trace("step.json.gz").categories()
    >>> table[0].category.name, table[0].n_ops, table[0].total_ns
    ('COMMUNICATION', 14, 62776000)
    >>> table.columns
    ('device', 'category', 'kernel', 'n_ops', 'total_ns', 'share_frac')
    """

    left_out: ClassVar[tuple[str, ...]] = ()  # columns that are no keys of the JSON

    __slots__ = ("_columns", "_made", "_n", "note", "of", "predicted")

    def __init__(self, rows: Iterable[RowT], of: type[RowT], note: str = "") -> None:
        self._made: tuple[RowT, ...] | None = tuple(rows)
        self._columns: dict[str, npt.NDArray[Any]] = {}
        self._n = len(self._made)
        self.of = of
        self.note = note
        self.predicted = ""

    @classmethod
    def of_columns(cls, columns: Mapping[str, npt.NDArray[Any]], of: type[RowT]) -> Rows[RowT]:
        """Rows from equally long columns: every field of the class `of`, and properties where known.

        Raises ValueError where a field is missing or the lengths differ.
        """
        names = {f.name for f in fields(cast("Any", of))}
        lengths = {len(column) for column in columns.values()}
        if names - columns.keys() or len(lengths) != 1:
            raise ValueError(f"{of.__name__} needs columns of one length: {', '.join(sorted(names - columns.keys()))}")
        self = cls((), of)
        self._made, self._columns, self._n = None, dict(columns), lengths.pop()
        return self

    @classmethod
    def joined(cls, parts: Sequence[Rows[RowT]], of: type[RowT]) -> Rows[RowT]:
        """Several tables of one kind, one after the other; their notes too."""
        known = [part for part in parts if len(part)]
        if known and all(part._made is None and part._columns.keys() == known[0]._columns.keys() for part in known):
            columns = {name: np.concatenate([part._columns[name] for part in known]) for name in known[0]._columns}
            self = cls.of_columns(columns, of)
        else:
            self = cls((row for part in parts for row in part), of)
        self.note = "; ".join(dict.fromkeys(part.note for part in parts if part.note))
        return self

    def __len__(self) -> int:
        return self._n

    def __iter__(self) -> Iterator[RowT]:
        return iter(self._rows())

    @overload
    def __getitem__(self, key: SupportsIndex, /) -> RowT: ...

    @overload
    def __getitem__(self, key: slice, /) -> Rows[RowT]: ...

    def __getitem__(self, key: SupportsIndex | slice, /) -> RowT | Rows[RowT]:
        """One row, or with a slice the rows of it as a table again."""
        if not isinstance(key, slice):
            return self._rows()[key] if self._made is not None else self._row(range(self._n)[key])
        if self._made is not None:
            part = Rows(self._made[key], self.of)
        else:
            part = Rows.of_columns({name: column[key] for name, column in self._columns.items()}, self.of)
        part.note, part.predicted = self.note, self.predicted
        return part

    def labelled(self, predicted: str) -> Rows[RowT]:
        """The same rows with a label of the model that gave their times; themselves without one."""
        if not predicted:
            return self
        rows = self[:]
        rows.predicted = predicted
        return rows

    def __eq__(self, other: object) -> bool:
        """Equal rows in one order; a tuple of them is equal too."""
        return self._rows() == tuple(other) if isinstance(other, (Rows, tuple)) else NotImplemented

    def __hash__(self) -> int:
        return hash(self._rows())

    def __repr__(self) -> str:
        lines, hidden = text_rows(self._shown(TEXT_ROWS), self._shorten) if len(self) else ([], 0)
        return "\n  ".join([self._title, *lines, *self._below(TEXT_ROWS, hidden)])

    def _repr_html_(self) -> str:
        return html_block(self._title, self._shown(HTML_ROWS), self._below(HTML_ROWS, 0))

    @property
    def _title(self) -> str:
        return plural(len(self), *noun(self.of))

    def _shown(self, most: int) -> Table:
        """The first rows with the columns that their class names as `shown`, else all."""
        with rough_times(wanted=bool(self.predicted)):
            return table_of_fields(getattr(self.of, "shown", self.columns), self[:most])

    def _shorten(self, column: str, names: Sequence[str], max_columns: int) -> list[str]:
        """Shorten the names of a column to a number of terminal columns; they stay distinct."""
        from perfmagic.trace.names import short_names  # only a table that is shown shortens names

        of_kernels = column == "ended_by" or "short_name" in self.columns
        short = short_names(names, max_columns, kernels=of_kernels)
        return [short[name] for name in names]

    def _below(self, most: int, hidden_columns: int) -> list[str]:
        left_out = [plural(len(self) - most, "more row")] if len(self) > most else []
        left_out += [plural(hidden_columns, "more column")] if hidden_columns else []
        more = f"{' and '.join(left_out)}: to_frame() has all" if left_out else ""
        return [line for line in (more, translated(self.predicted), self.note) if line]

    @property
    def columns(self) -> tuple[str, ...]:
        """The fields of a row, then its properties."""
        return row_columns(self.of)

    def to_dict(self) -> list[dict[str, Any]]:
        """The rows as plain dicts, ready for JSON: members of an enumeration by name, None for what is not finite."""
        keys = [name for name in self.columns if name not in self.left_out]
        return [{key: to_json(getattr(row, key)) for key in keys} for row in self]

    def to_frame(self) -> pd.DataFrame:
        """The rows as a table, one column a field or property; `attrs` has the note, and whose model gave the times.

        Needs pandas, else raises CaptureError.
        """
        frame_of = pandas().DataFrame
        if self._made is None and self._columns.keys() >= set(self.columns):
            frame: pd.DataFrame = frame_of({name: self._columns[name] for name in self.columns})
        else:
            rows = [{name: _plain(getattr(row, name)) for name in self.columns} for row in self]
            frame = frame_of(rows, columns=list(self.columns))
        frame.attrs.update({name: text for name in ("note", "predicted") if (text := getattr(self, name))})
        return frame

    def _rows(self) -> tuple[RowT, ...]:
        """All rows, built once."""
        if self._made is None:
            names = [f.name for f in fields(cast("Any", self.of))]
            values = zip(*(self._columns[name].tolist() for name in names), strict=True)
            self._made = tuple(self.of(**dict(zip(names, row, strict=True))) for row in values)
        return self._made

    def _row(self, at: int) -> RowT:
        return self.of(**{f.name: self._columns[f.name][at : at + 1].tolist()[0] for f in fields(cast("Any", self.of))})


def row_columns(of: type[Any]) -> tuple[str, ...]:
    """The fields of a class of rows, then its properties."""
    properties = [name for name, value in vars(of).items() if isinstance(value, property)]
    return (*(f.name for f in fields(of)), *properties)


def names_at(names: Sequence[str], rows: Int64) -> npt.NDArray[Any]:
    """A column of names: those of some rows of a table of names, None where a row is NONE; shape of rows."""
    used, inverse = np.unique(rows, return_inverse=True)
    used_names = np.empty(len(used), object)
    used_names[:] = [None if row == NONE else names[row] for row in used.tolist()]
    column: npt.NDArray[Any] = used_names[inverse.reshape(-1)]
    return column


def noun(of: type) -> tuple[str, str]:
    """The singular and the plural for rows of a class: KernelStat → "kernel", "kernels"."""
    name = re.sub(r"(Stat|Time)$", "", of.__name__)
    singular = re.sub(r"(?<=[a-z])(?=[A-Z])", " ", name).lower()
    if singular.endswith("y"):
        return singular, f"{singular[:-1]}ies"
    return singular, singular if singular.endswith("bytes") else f"{singular}s"


def pandas() -> Any:
    """The pandas module. Raises CaptureError with what to install where it is absent."""
    try:
        import pandas as pd
    except ImportError:
        raise CaptureError("to_frame() needs pandas, which is not installed", hint="pip install pandas") from None
    return pd


def _plain(value: Any) -> Any:
    if isinstance(value, enum.Enum):
        return value.name.lower()
    return list(value) if isinstance(value, tuple) else value
