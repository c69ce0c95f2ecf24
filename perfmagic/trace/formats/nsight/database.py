"""A database of Nsight Systems: tables as columns of integers, by name, within a limit of memory.

Exports have the tables that their recording needed, and each version its columns: what is not there has no rows, or is
NONE in all of them. Nothing is written, not even a lock: the file may lie on a disk that is read-only.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from urllib.parse import quote

import numpy as np

from perfmagic.base.errors import TraceError
from perfmagic.base.units import count, size
from perfmagic.trace.columns import NONE, Int64

MAGIC = b"SQLite format 3\0"
EXPORT_HINT = "export the report again: nsys export --type sqlite --output NAME.sqlite NAME.nsys-rep"
MOST_CHARACTERS = 1 << 16  # of a text, as perfmagic.trace.kineto.reader has it
ROW_BYTES = 300  # that a row of a call or an op takes at the peak (benchmarks/open_nsight.py)
_NEVER = -(1 << 62)  # a start that is not there, which no trace can hold
_ROWS = 50_000
_IDS = 500  # in one question; SQLite takes 999 in its oldest versions
Columns = dict[str, Int64]


class Database:
    """An open export.  tables: names of its tables, each with the names of its columns."""

    def __init__(self, path: Path, connection: sqlite3.Connection) -> None:
        self.name = path.name
        self._connection = connection
        connection.text_factory = bytes  # most texts come many times, and each is decoded once
        made = "select name from sqlite_master where type = 'table' and sql not like 'create virtual%'"
        names = [text_of(name) for (name,) in self.ask(made)]
        self.tables: dict[str, set[str]] = {name: self._names(name) for name in names}

    def _names(self, table: str) -> set[str]:
        return {text_of(row[1]) for row in self.ask(f"pragma table_info({_quoted(table)})")}

    def ask(self, question: str, values: Iterable[Any] = ()) -> sqlite3.Cursor:
        """The rows that answer a question, one by one."""
        return self._connection.execute(question, tuple(values))

    def columns(self, table: str, *wanted: str) -> Columns:
        """Columns by name; NONE where a value, or the whole column, is not there. Raises TraceError for texts."""
        have = self.tables.get(table, set())
        if not have:
            return {name: np.zeros(0, np.int64) for name in wanted}
        absent = [(name, _NEVER if name == "start" else NONE) for name in wanted]
        picked = ", ".join(f"ifnull({_quoted(name)}, {none})" if name in have else str(none) for name, none in absent)
        asked = f"select {picked} from {_quoted(table)}"
        parts = [self.numbers(table, rows) for rows in self.in_parts(asked)] or [np.zeros((0, len(wanted)), np.int64)]
        return dict(zip(wanted, np.concatenate(parts).T, strict=True))

    def in_parts(self, question: str) -> Iterator[list[Any]]:
        """The rows that answer a question, some at once: as objects of Python they take several times their columns."""
        cursor = self.ask(question)
        while rows := cursor.fetchmany(_ROWS):
            yield rows

    def numbers(self, table: str, rows: Sequence[Any]) -> Int64:
        """Rows or columns as integers. Raises TraceError for texts."""
        try:
            return np.array(rows, np.int64)
        except (ValueError, TypeError, OverflowError) as error:
            raise TraceError(f"{self.name}: {table} has {error}, numbers were expected", hint=EXPORT_HINT) from None

    def strings(self, ids: Int64) -> dict[int, str]:
        """The texts of some ids that are in StringIds."""
        if not {"id", "value"} <= self.tables.get("StringIds", set()):
            return {}
        wanted: list[int] = np.unique(ids).tolist()
        found: dict[int, Any] = {}
        for at in range(0, len(wanted), _IDS):
            some = wanted[at : at + _IDS]
            marks = ", ".join("?" * len(some))
            question = f"select id, substr(value, 1, {MOST_CHARACTERS}) from StringIds where id in ({marks})"
            found.update(self.ask(question, some))
        return {number: text_of(text) for number, text in found.items()}

    def rows(self, tables: Iterable[str]) -> int:
        """How many rows some tables have at most."""
        return sum(self._rows_of(table) for table in tables if table in self.tables)

    def _rows_of(self, table: str) -> int:
        try:
            (most,) = self.ask(f"select max(rowid) from {_quoted(table)}").fetchone()
        except sqlite3.OperationalError:  # a table without row numbers
            (most,) = self.ask(f"select count(*) from {_quoted(table)}").fetchone()
        return int(most or 0)


def text_of(value: Any) -> str:
    """A value of a database as a text, bytes that are none replaced."""
    return value.decode("utf-8", "replace") if isinstance(value, bytes) else str(value)


@contextmanager
def opened(path: Path) -> Iterator[Database]:
    """A database to read. Raises TraceError for one that is damaged or still being written, also within the block."""
    _check_whole(path)
    try:
        connection = sqlite3.connect(f"file:{quote(str(path.resolve()))}?mode=ro&immutable=1", uri=True)
        try:
            connection.execute("pragma trusted_schema = off")
            yield Database(path, connection)
        finally:
            connection.close()
    except sqlite3.Error as error:
        raise TraceError(f"{path.name} is damaged: {error}", hint=EXPORT_HINT) from None


def _check_whole(path: Path) -> None:
    """Raise TraceError for a file that is cut, or that another program still writes."""
    for ending in ("-journal", "-wal"):
        beside = path.with_name(path.name + ending)
        if beside.is_file() and (n_bytes := beside.stat().st_size):
            message = f"{path.name} is still being written, or was left half written: {beside.name} has {size(n_bytes)}"
            raise TraceError(message, hint=f"wait until nsys is done, or {EXPORT_HINT}")
    with path.open("rb") as file:
        head = file.read(100)
    page = int.from_bytes(head[16:18], "big")
    promised = int.from_bytes(head[28:32], "big") * (65536 if page == 1 else page)
    found = path.stat().st_size
    if found < promised or len(head) < 100:
        message = f"{path.name} is cut: it has {count(found)} of {count(max(promised, 100))} bytes"
        raise TraceError(message, hint="copy the file again")


def _quoted(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'
