"""What an .npz file must hold, so that no analysis meets a number or a row that cannot be."""

from __future__ import annotations

import enum
from collections.abc import Iterable, Mapping
from dataclasses import asdict, fields
from typing import Any

import msgspec
import numpy as np

from perfmagic.trace.columns import NONE, BlockRole, Blocks, CallKind, HostKind, OpKind, PathMarks, Table
from perfmagic.trace.json_form import EXACT, MOST_LINES, Count, Int64Number, Ns, plain_json, typed
from perfmagic.trace.model import Collective, LaunchShape, TraceMeta
from perfmagic.trace.paths import Paths, UserFunction

# The lines of functions in an .npz file: columns as arrays, the rest as JSON.

_PATHS = {"parent": np.int32, "function": np.int32, "line": np.int32}
_MARKS = {"at_ns": np.int64, "thread": np.int64, "path": np.int64}


class AboutPaths(msgspec.Struct):
    """What is not columns."""

    functions: tuple[UserFunction, ...]
    main_thread: Int64Number
    until_ns: Ns
    let_go: tuple[Count, ...]


def path_arrays(paths: Paths | None) -> dict[str, Any]:
    """The columns by the names they have in a file; none without paths."""
    if paths is None:
        return {}
    columns = {f"paths.{name}": getattr(paths, name) for name in _PATHS}
    return columns | {f"path_marks.{name}": getattr(paths.marks, name) for name in _MARKS}


def about_paths(paths: Paths | None) -> dict[str, Any] | None:
    """The rest, ready for JSON."""
    if paths is None:
        return None
    functions = [asdict(function) for function in paths.functions]
    return {
        "functions": functions,
        "main_thread": paths.main_thread,
        "until_ns": paths.until_ns,
        "let_go": list(paths.unfollowed),
    }


def paths_from(about: AboutPaths, arrays: dict[str, Any]) -> Paths:
    """What was saved. Raises ValueError for columns that do not fit together."""
    columns = {name: np.asarray(arrays[f"paths.{name}"], dtype) for name, dtype in _PATHS.items()}
    marks = {name: np.asarray(arrays[f"path_marks.{name}"], dtype) for name, dtype in _MARKS.items()}
    n, n_functions = len(columns["parent"]), len(about.functions)
    rows = np.arange(n)
    fits = (
        n > 0
        and len({len(column) for column in columns.values()}) == 1
        and columns["parent"][0] == 0
        and (columns["parent"] >= 0).all()
        and (columns["parent"][1:] < rows[1:]).all()
        and (columns["function"][1:] >= 0).all()
        and (columns["function"] < n_functions).all()
        and ((columns["line"] >= 0) & (columns["line"] <= MOST_LINES)).all()
        and all(function < n_functions for function in about.let_go)
        and ((marks["path"] >= 0) & (marks["path"] < n)).all()
    )
    if not fits:
        raise ValueError("the paths of lines point outside of their tables")
    for column in columns.values():
        column.flags.writeable = False
    return Paths(
        **columns,
        functions=about.functions,
        marks=PathMarks.make(marks),
        main_thread=about.main_thread,
        until_ns=about.until_ns,
        unfollowed=about.let_go,
    )


_KINDS: dict[str, type[enum.IntEnum]] = {"ops": OpKind, "calls": CallKind, "host_ops": HostKind}


class About(msgspec.Struct):
    """The part that is JSON."""

    names: tuple[str, ...]
    meta: TraceMeta
    cell: str | None
    shapes: tuple[LaunchShape, ...]
    input_shapes: tuple[str, ...]
    collectives: tuple[Collective, ...]
    input_dtypes: tuple[str, ...] = ()
    input_values: tuple[str, ...] = ()
    paths: AboutPaths | None = None


_MOST_SUM = 2.0**62  # int64 holds every sum of sizes


def checked_table(table: str, kind: type[Table], columns: dict[str, Any]) -> Table:
    """Columns as Table.make would have made them: of one length, of their types, in order, with kinds that exist."""
    if len({len(column) for column in columns.values()}) > 1:
        raise ValueError(f"columns of {table} differ in length")
    for column in fields(kind):
        _check_column(f"{table}.{column.name}", columns[column.name], column.metadata)
        columns[column.name].flags.writeable = False
    first = next(iter(columns.values()))
    if (np.diff(first) < 0).any():
        raise ValueError(f"{table} is not in order")
    if "end_ns" in columns and (columns["end_ns"] < columns["start_ns"]).any():
        raise ValueError(f"{table} has rows that end before they start")
    if "kind" in columns and not np.isin(columns["kind"], [*map(int, _KINDS[table])]).all():
        raise ValueError(f"{table} has kinds that do not exist")
    return kind(**columns)


def _check_column(name: str, column: Any, declared: Mapping[str, Any]) -> None:
    """Of the type that is declared, and with numbers in its range; no column holds NaN."""
    if column.dtype != declared["dtype"]:
        raise ValueError(f"{name} is {column.dtype}, expected {np.dtype(declared['dtype'])}")
    least, most = declared["least"], declared["most"]
    if len(column) and least is not None and not least <= column.min() <= column.max() <= most:
        raise ValueError(f"{name} has numbers from {column.min()} to {column.max()}, possible are {least} to {most}")


def check_rows(tables: dict[str, Any], about: About) -> None:
    """Rows that point into other tables must lie in them."""
    ops, calls, host_ops, counters = (tables[key] for key in ("ops", "calls", "host_ops", "counters"))
    for rows, least, n in (
        (ops.name, 0, len(about.names)),
        (calls.name, 0, len(about.names)),
        (host_ops.name, 0, len(about.names)),
        (counters.series, 0, len(about.names)),
        (ops.launch, NONE, len(calls)),
        (ops.shape, NONE, len(about.shapes)),
        (host_ops.shape, NONE, len(about.input_shapes)),
        (host_ops.dtype, NONE, len(about.input_dtypes)),
        (host_ops.value, NONE, len(about.input_values)),
        (ops.collective, NONE, len(about.collectives)),
    ):
        outside = rows[(rows < least) | (rows >= n)]
        if len(outside):
            raise ValueError(f"row {outside[0]} of a table of {n}")


def check_blocks(blocks: Blocks, n_names: int) -> None:
    """A release comes after its allocation; names and roles are there; all sizes together are a number."""
    freed = blocks.free_order != NONE
    fits = (
        (blocks.free_order[freed] > blocks.order[freed]).all()
        and (blocks.size_bytes >= 0).all()
        and blocks.size_bytes.sum(dtype=float) < _MOST_SUM
        and np.isin(blocks.role, [*map(int, BlockRole)]).all()
        and all(
            ((column >= NONE) & (column < n_names)).all() for column in (blocks.node, blocks.free_node, blocks.holder)
        )
    )
    if not fits:
        raise ValueError("blocks of memory that are released before they are allocated, or point outside of the names")


def check_times(meta: TraceMeta, tables: Iterable[Table]) -> None:
    """The window ends after it starts, and every time is within 104 days of that: what a browser counts exactly."""
    if not meta.start_ns <= meta.end_ns < meta.start_ns + EXACT:
        raise ValueError(f"a window from {meta.start_ns} to {meta.end_ns} ns")
    for table in tables:
        for name, column in table.to_dict().items():
            if name.endswith("_ns") and (np.abs(column[column != NONE] - meta.start_ns) >= EXACT).any():
                raise ValueError(f"{type(table).__name__}.{name} is more than 104 days away from the start")


def check_inputs(about: About) -> None:
    """Shapes, types and values of inputs are lists in JSON."""
    for text in {*about.input_shapes, *about.input_dtypes, *about.input_values} - {""}:
        typed(plain_json(text), list[Any])
