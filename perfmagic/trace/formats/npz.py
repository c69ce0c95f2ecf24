"""A trace as columns in one .npz file: a tenth of Chrome JSON, and opened in milliseconds.

Written and read without pickle. The names of the arrays are "table.column"; `about` is JSON with all the rest. Nothing
is left out, not even paths in the names of Python frames: to share a trace with others, write Chrome JSON.
"""

from __future__ import annotations

import enum
import json
import os
import tokenize
import zipfile
import zlib
from collections.abc import Iterable, Mapping
from dataclasses import asdict, fields, replace
from pathlib import Path
from typing import Any

import msgspec
import numpy as np

from perfmagic.base.errors import TraceError
from perfmagic.base.files import open_regular, plain_json, whole_file
from perfmagic.base.units import size
from perfmagic.trace.columns import (
    NONE,
    BlockRole,
    Blocks,
    CallKind,
    Counters,
    DeviceOps,
    HostCalls,
    HostKind,
    HostOps,
    HostWaits,
    LineMarks,
    OpKind,
    PathMarks,
    StreamWaits,
    Table,
    apart,
    narrow,
)
from perfmagic.trace.json_form import EXACT, MOST_LINES, Count, Int64Number, Ns, typed
from perfmagic.trace.model import Cell, Collective, LaunchShape, Trace, TraceMeta, with_models
from perfmagic.trace.paths import Paths, UserFunction

# 1 and 2 are no longer read. 3 lacks types and values of operators' inputs, and sizes of devices; 4 what a rank's host
# says; 5 lines of functions, and the forward of a backward
SCHEMA = 7
READ = (3, 4, 5, 6, 7)
_LENGTH_AT, _NAME_AT = 26, 30  # of the first name in a zip archive

_TABLES: dict[str, type[Table]] = {
    "ops": DeviceOps,
    "calls": HostCalls,
    "host_ops": HostOps,
    "waits": StreamWaits,
    "counters": Counters,
    "marks": LineMarks,
}
_OPTIONAL: dict[str, type[Table]] = {
    "blocks": Blocks,
    "host_waits": HostWaits,
}  # written where there are rows; older files have none
# columns that older files lack: the schema that added each, and its value for those files
_NEWER: dict[tuple[str, str], tuple[int, int]] = {
    ("host_ops", "dtype"): (4, NONE),
    ("host_ops", "value"): (4, NONE),
    ("ops", "forward_ns"): (6, NONE),
    ("ops", "forward_thread"): (6, 0),
    ("marks", "waited_ns"): (7, 0),
}
_ABOUT = "about"
# what zipfile and numpy raise for a damaged file; ValueError: its parts do not fit together
_DAMAGE = (
    *(OSError, EOFError, KeyError, ValueError, OverflowError, tokenize.TokenError),
    *(RuntimeError, zipfile.BadZipFile, zlib.error),  # RuntimeError: a flag says that a part is encrypted
)
_HEADER_BYTES = 256  # of a column's header; Python's parser may need much memory for a long one


class _Schema(msgspec.Struct):
    schema: int


def write_npz(trace: Trace, path: str | os.PathLike[str], *, compressed: bool = True) -> Path:
    """Save every column of a trace; returns the path.

    compressed: False for a file that is soon read: it is written in a third of the time.

    The file appears whole or not at all. Raises OptionError if it cannot be written.
    """
    tables = {table: getattr(trace, table) for table in _TABLES} | {"host_ops": trace.whole_host()}
    tables |= {table: rows for table in _OPTIONAL if len(rows := getattr(trace, table))}
    arrays = {
        f"{table}.{f.name}": np.asarray(getattr(rows, f.name), f.metadata["dtype"])
        for table, rows in tables.items()
        for f in fields(rows)
    } | path_arrays(trace.paths)
    about = {
        "schema": SCHEMA,
        "names": trace.names,
        "meta": asdict(trace.meta),
        "cell": trace.cell.source if trace.cell else None,
        "shapes": [asdict(shape) for shape in trace.shapes],
        "input_shapes": trace.input_shapes,
        "input_dtypes": trace.input_dtypes,
        "input_values": trace.input_values,
        "collectives": [asdict(collective) for collective in trace.collectives],
        "paths": about_paths(trace.paths),
    }
    arrays[_ABOUT] = np.frombuffer(json.dumps(about).encode(), np.uint8)
    with whole_file(path) as (target, file):
        (np.savez_compressed if compressed else np.savez)(file, **arrays)
    return target


def sniff(head: bytes) -> bool:
    """Whether a zip archive begins with a column, as write_npz makes it."""
    name = head[_NAME_AT : _NAME_AT + int.from_bytes(head[_LENGTH_AT : _LENGTH_AT + 2], "little")]
    return name.endswith(b".npy")


def read(file: Path, max_unpacked_bytes: int, *, helper: bool) -> list[Trace]:  # noqa: ARG001 - no process is needed
    """The trace of a file, as perfmagic.trace.formats.registry.Reader has it."""
    return [read_npz(file, max_unpacked_bytes)]


def read_npz(path: str | os.PathLike[str], max_unpacked_bytes: int) -> Trace:
    """The trace that write_npz saved, equal in every column.

    Raises TraceError if the file is damaged, larger than the limit, or of another version of this format.
    """
    source = Path(path)
    try:
        with open_regular(source) as file, zipfile.ZipFile(file) as archive:
            unpacked = sum(part.file_size for part in archive.infolist())
            if unpacked > max_unpacked_bytes:
                raise TraceError(
                    f"{source.name} holds {size(unpacked)} unpacked, more than the limit of {size(max_unpacked_bytes)}",
                    hint="raise the limit with open_trace(path, max_unpacked_bytes=...)",
                )
            arrays = {part.filename.removesuffix(".npy"): _read_array(archive, part) for part in archive.infolist()}
        if len(arrays) < len(archive.infolist()):
            raise ValueError("a part is there twice")
        about = plain_json(arrays.pop(_ABOUT).tobytes())
        schema = typed(about, _Schema).schema
        if schema not in READ:
            message = f"{source.name} has schema {schema}, this version of perfmagic reads {READ[0]} to {SCHEMA}"
            raise TraceError(message, hint="update perfmagic, or save the trace again as Chrome JSON")
        return _build_trace(typed(about, About), arrays, schema)
    except TraceError:
        raise
    except _DAMAGE as error:
        message = f"{source.name} is damaged: {type(error).__name__}: {error}"
        raise TraceError(message, hint="copy the file again") from error


def _read_array(archive: zipfile.ZipFile, part: zipfile.ZipInfo) -> Any:
    """One array, of no more bytes than the archive says, whatever its own header says."""
    if part.compress_type not in (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED):
        raise ValueError(f"{part.filename} is compressed in a way that numpy does not write")
    with archive.open(part) as file:
        version = np.lib.format.read_magic(file)
        read = np.lib.format.read_array_header_1_0 if version == (1, 0) else np.lib.format.read_array_header_2_0
        shape, _, dtype = read(file, max_header_size=_HEADER_BYTES)
        if dtype.hasobject or len(shape) != 1 or not 0 <= shape[0] * dtype.itemsize <= part.file_size:
            raise ValueError(f"{part.filename} has shape {shape} of {dtype} in {part.file_size} bytes")
        return np.frombuffer(file.read(shape[0] * dtype.itemsize), dtype).copy()


def _build_trace(about: About, arrays: dict[str, Any], schema: int) -> Trace:
    tables: dict[str, Any] = {}
    there = {table: kind for table, kind in _OPTIONAL.items() if any(name.startswith(f"{table}.") for name in arrays)}
    for table, kind in (_TABLES | there).items():
        tables[table] = checked_table(table, kind, _read_columns(table, kind, arrays, schema))
    paths = None if about.paths is None else paths_from(about.paths, arrays)
    check_rows(tables, about)
    check_blocks(tables.get("blocks", Blocks.make()), len(about.names))
    check_times(about.meta, [*tables.values(), *([] if paths is None else [paths.marks])])
    check_inputs(about)
    tables["host_ops"], tables["python_frames"] = apart(tables["host_ops"])
    return Trace(
        names=about.names,
        meta=replace(about.meta, devices=with_models(about.meta.devices)),
        cell=None if about.cell is None else Cell(about.cell),
        shapes=about.shapes,
        input_shapes=about.input_shapes,
        input_dtypes=about.input_dtypes,
        input_values=about.input_values,
        collectives=about.collectives,
        paths=paths,
        **tables,
    )


def _read_columns(table: str, kind: type[Table], arrays: dict[str, Any], schema: int) -> dict[str, Any]:
    """The columns of a table; NONE in those that an older file lacks."""
    newer = {name: default for (of, name), (since, default) in _NEWER.items() if of == table and schema < since}
    columns = {f.name: arrays[f"{table}.{f.name}"] for f in fields(kind) if f.name not in newer}
    n_rows = len(next(iter(columns.values())))
    return {
        f.name: np.full(n_rows, newer[f.name], f.metadata["dtype"]) if f.name in newer else columns[f.name]
        for f in fields(kind)
    }


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


# What an .npz file must hold, so that no analysis meets a number or a row that cannot be.

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
        if column.metadata.get("narrow"):
            columns[column.name] = narrow(columns[column.name])
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
