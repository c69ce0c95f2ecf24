"""A trace as columns in one .npz file: a tenth of Chrome JSON, and opened in milliseconds.

Written and read without pickle. The names of the arrays are "table.column"; `about` is JSON with all the rest. Nothing
is left out, not even paths in the names of Python frames: to share a trace with others, write Chrome JSON.
"""

from __future__ import annotations

import json
import os
import tokenize
import zipfile
import zlib
from contextlib import nullcontext
from dataclasses import asdict, fields, replace
from pathlib import Path
from typing import Any, Protocol

import msgspec
import numpy as np

from perfmagic.base.errors import TraceError
from perfmagic.base.files import open_regular, whole_file
from perfmagic.base.units import size
from perfmagic.trace.columns import (
    NONE,
    Blocks,
    Counters,
    DeviceOps,
    HostCalls,
    HostOps,
    HostWaits,
    LineMarks,
    StreamWaits,
    Table,
)
from perfmagic.trace.formats import npz_checks
from perfmagic.trace.frames import apart
from perfmagic.trace.model import Cell, Trace, with_models
from perfmagic.trace.typed import plain_json, typed

# 1 and 2 are no longer read. 3 lacks types and values of operators' inputs, and sizes of devices; 4 what a rank's host
# says; 5 lines of functions, and the forward of a backward
SCHEMA = 6
READ = (3, 4, 5, 6)
NPZ_MAGIC = b"PK\x03\x04"

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
    arrays = {f"{table}.{name}": column for table, rows in tables.items() for name, column in rows.to_dict().items()}
    for table in _OPTIONAL:
        rows = getattr(trace, table).to_dict() if len(getattr(trace, table)) else {}
        arrays |= {f"{table}.{name}": column for name, column in rows.items()}
    arrays |= npz_checks.path_arrays(trace.paths)
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
        "paths": npz_checks.about_paths(trace.paths),
    }
    arrays[_ABOUT] = np.frombuffer(json.dumps(about).encode(), np.uint8)
    with whole_file(path) as (target, file):
        (np.savez_compressed if compressed else np.savez)(file, **arrays)
    return target


def is_npz(path: Path) -> bool:
    """Whether a file is a zip archive with an `about` part, as write_npz makes it."""
    try:
        with open_regular(path) as file:
            if file.read(len(NPZ_MAGIC)) != NPZ_MAGIC:
                return False
            with zipfile.ZipFile(file) as archive:
                return f"{_ABOUT}.npy" in archive.namelist()
    except _DAMAGE:
        return False


class NamedFile(Protocol):
    """An open file with a name, as zipfile takes it."""

    @property
    def name(self) -> str: ...


def read_npz(path: str | os.PathLike[str] | NamedFile, max_unpacked_bytes: int) -> Trace:
    """The trace that write_npz saved, equal in every column.  path: or an open file.

    Raises TraceError if the file is damaged, larger than the limit, or of another version of this format.
    """
    source: Any = Path(path) if isinstance(path, (str, os.PathLike)) else path
    try:
        with (
            open_regular(source) if isinstance(source, Path) else nullcontext(source) as file,
            zipfile.ZipFile(file) as archive,
        ):
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
        return _build_trace(typed(about, npz_checks.About), arrays, schema)
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


def _build_trace(about: npz_checks.About, arrays: dict[str, Any], schema: int) -> Trace:
    tables: dict[str, Any] = {}
    there = {table: kind for table, kind in _OPTIONAL.items() if any(name.startswith(f"{table}.") for name in arrays)}
    for table, kind in (_TABLES | there).items():
        tables[table] = npz_checks.checked_table(table, kind, _read_columns(table, kind, arrays, schema))
    paths = None if about.paths is None else npz_checks.paths_from(about.paths, arrays)
    npz_checks.check_rows(tables, about)
    npz_checks.check_blocks(tables.get("blocks", Blocks.make()), len(about.names))
    npz_checks.check_times(about.meta, [*tables.values(), *([] if paths is None else [paths.marks])])
    npz_checks.check_inputs(about)
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
