"""A trace as columns in one .npz file: a tenth of Chrome JSON, and opened in milliseconds.

Written and read without pickle. The names of the arrays are "table.column"; `about` is JSON with all the rest. Nothing
is left out, so that paths in names of Python frames stay: to share a trace with others, write Chrome JSON.
"""

from __future__ import annotations

import enum
import json
import os
import zipfile
import zlib
from dataclasses import asdict, fields
from pathlib import Path
from typing import Any, Protocol

import numpy as np

from perfmagic.errors import TraceError
from perfmagic.files import whole_file
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
    StreamWaits,
    Table,
)
from perfmagic.trace.formats.npz_paths import about_paths, path_arrays, paths_from
from perfmagic.trace.frames import apart
from perfmagic.trace.model import Cell, Collective, DeviceInfo, LaunchShape, Trace, TraceMeta
from perfmagic.trace.remarks import remark_of
from perfmagic.trace.text import all_printable
from perfmagic.units import size

SCHEMA = 6  # 1 had no sequence numbers and ranks of collectives; 2 had repairs and notes as text
READ = (
    3,
    4,
    5,
    6,
)  # 3 had no types and values of operators' inputs, and no sizes of devices; 4 not what a rank's host says;
# 5 no lines of functions and no forward of a backward
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
_KINDS: dict[str, type[enum.IntEnum]] = {"ops": OpKind, "calls": CallKind, "host_ops": HostKind}
# columns that files before a schema do not have, and what stands in them then
_NEWER: dict[tuple[str, str], tuple[int, int]] = {
    ("host_ops", "dtype"): (4, NONE),
    ("host_ops", "value"): (4, NONE),
    ("ops", "forward_ns"): (6, NONE),
    ("ops", "forward_thread"): (6, 0),
}
_ABOUT = "about"
# what zipfile, numpy and json raise for damage, and what follows from wrong numbers
_DAMAGE = (
    *(OSError, KeyError, TypeError, ValueError, AttributeError, EOFError, MemoryError, OverflowError, IndexError),
    *(RuntimeError, zipfile.BadZipFile, zlib.error),  # RuntimeError: a flag says that a part is encrypted
)


def write_npz(trace: Trace, path: str | os.PathLike[str], *, compressed: bool = True) -> Path:
    """Save every column of a trace; gives the path.

    compressed: False for a file that is read at once: it is written in a third of the time.

    The file appears whole or not at all. Raises OptionError where it cannot be written.
    """
    tables = {table: getattr(trace, table) for table in _TABLES} | {"host_ops": trace.whole_host()}
    arrays = {f"{table}.{name}": column for table, rows in tables.items() for name, column in rows.to_dict().items()}
    for table in _OPTIONAL:
        rows = getattr(trace, table).to_dict() if len(getattr(trace, table)) else {}
        arrays |= {f"{table}.{name}": column for name, column in rows.items()}
    arrays |= path_arrays(trace.paths)
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


def is_npz(path: Path) -> bool:
    """Whether a file is a zip archive with an `about` part, as write_npz makes them."""
    try:
        with path.open("rb") as file:
            if file.read(len(NPZ_MAGIC)) != NPZ_MAGIC:
                return False
        with zipfile.ZipFile(path) as archive:
            return f"{_ABOUT}.npy" in archive.namelist()
    except _DAMAGE:
        return False


class NamedFile(Protocol):
    """An open file with a name, as zipfile takes it."""

    @property
    def name(self) -> str: ...


def read_npz(path: str | os.PathLike[str] | NamedFile, max_unpacked_bytes: int) -> Trace:
    """The trace that write_npz saved, equal in every column.  path: also an open file.

    Raises TraceError where the file is damaged, larger than the limit, or written by another version of this format.
    """
    source: Any = Path(path) if isinstance(path, (str, os.PathLike)) else path
    try:
        with zipfile.ZipFile(source) as archive:
            unpacked = sum(part.file_size for part in archive.infolist())
            if unpacked > max_unpacked_bytes:
                raise TraceError(
                    f"{source.name} holds {size(unpacked)} unpacked, more than the limit of {size(max_unpacked_bytes)}",
                    hint="raise the limit with open_trace(path, max_unpacked_bytes=...)",
                )
            arrays = {part.filename.removesuffix(".npy"): _array(archive, part) for part in archive.infolist()}
        about, _ = all_printable(json.loads(arrays.pop(_ABOUT).tobytes()))
        if about["schema"] not in READ:
            raise TraceError(
                f"{source.name} has schema {about['schema']}, this version of perfmagic reads {READ[0]} to {SCHEMA}",
                hint="update perfmagic, or save the trace again as Chrome JSON",
            )
        return _trace(about, arrays)
    except _DAMAGE as error:
        if isinstance(error, TraceError):
            raise
        raise TraceError(
            f"{source.name} is damaged: {type(error).__name__}: {error}", hint="copy the file again"
        ) from error


def _array(archive: zipfile.ZipFile, part: zipfile.ZipInfo) -> Any:
    """One array, of no more bytes than the archive says it has, whatever its own header says."""
    with archive.open(part) as file:
        version = np.lib.format.read_magic(file)
        read = np.lib.format.read_array_header_1_0 if version == (1, 0) else np.lib.format.read_array_header_2_0
        shape, _, dtype = read(file)
        if dtype.hasobject or len(shape) != 1 or shape[0] * dtype.itemsize > part.file_size:
            raise ValueError(f"{part.filename} has shape {shape} of {dtype} in {part.file_size} bytes")
        return np.frombuffer(file.read(shape[0] * dtype.itemsize), dtype).copy()


def _trace(about: dict[str, Any], arrays: dict[str, Any]) -> Trace:
    tables: dict[str, Any] = {}
    there = {table: kind for table, kind in _OPTIONAL.items() if any(name.startswith(f"{table}.") for name in arrays)}
    for table, kind in (_TABLES | there).items():
        columns = _columns(table, kind, arrays, about["schema"])
        _check_columns(table, columns, {f.name: np.dtype(f.metadata["dtype"]) for f in fields(kind)})
        for column in columns.values():
            column.flags.writeable = False
        tables[table] = kind(**columns)
    names = tuple(map(str, about["names"]))
    _check_rows(tables, names, about)
    _check_blocks(tables.get("blocks", Blocks.make()), len(names))
    tables["host_ops"], tables["python_frames"] = apart(tables["host_ops"])
    return Trace(
        names=names,
        meta=_meta(about["meta"]),
        cell=None if about["cell"] is None else Cell(about["cell"]),
        shapes=tuple(
            LaunchShape(tuple(s["grid"]), tuple(s["block"]), s["registers"], s["shared_bytes"]) for s in about["shapes"]
        ),
        input_shapes=tuple(about["input_shapes"]),
        input_dtypes=tuple(about.get("input_dtypes", ())),
        input_values=tuple(about.get("input_values", ())),
        collectives=tuple(Collective(**c | {"ranks": tuple(c["ranks"])}) for c in about["collectives"]),
        paths=paths_from(about.get("paths"), arrays),
        **tables,
    )


def _columns(table: str, kind: type[Table], arrays: dict[str, Any], schema: int) -> dict[str, Any]:
    """The columns of a table; NONE in those that an older file did not have."""
    newer = {name: default for (of, name), (since, default) in _NEWER.items() if of == table and schema < since}
    columns = {f.name: arrays[f"{table}.{f.name}"] for f in fields(kind) if f.name not in newer}
    n_rows = len(next(iter(columns.values())))
    return {
        f.name: np.full(n_rows, newer[f.name], f.metadata["dtype"]) if f.name in newer else columns[f.name]
        for f in fields(kind)
    }


def _check_columns(table: str, columns: dict[str, Any], dtypes: dict[str, Any]) -> None:
    """Columns as Table.make would have made them: of one length, of their types, in order, with kinds that exist."""
    if len({len(column) for column in columns.values()}) > 1:
        raise ValueError(f"columns of {table} differ in length")
    for name, column in columns.items():
        if column.dtype != dtypes[name]:
            raise ValueError(f"{table}.{name} is {column.dtype}, expected {dtypes[name]}")
    first = next(iter(columns.values()))
    if (np.diff(first) < 0).any():
        raise ValueError(f"{table} is not in order")
    if "end_ns" in columns and (columns["end_ns"] < columns["start_ns"]).any():
        raise ValueError(f"{table} has rows that end before they start")
    if "kind" in columns and not np.isin(columns["kind"], [*map(int, _KINDS[table])]).all():
        raise ValueError(f"{table} has kinds that do not exist")
    if "value" in columns and not np.isfinite(columns["value"]).all():
        raise ValueError(f"{table} has values that are no numbers")


def _check_rows(tables: dict[str, Any], names: tuple[str, ...], about: dict[str, Any]) -> None:
    """Rows that point into other tables must lie in them."""
    ops, calls, host_ops, counters = (tables[key] for key in ("ops", "calls", "host_ops", "counters"))
    for rows, least, n in (
        (ops.name, 0, len(names)),
        (calls.name, 0, len(names)),
        (host_ops.name, 0, len(names)),
        (counters.series, 0, len(names)),
        (ops.launch, NONE, len(calls)),
        (ops.shape, NONE, len(about["shapes"])),
        (host_ops.shape, NONE, len(about["input_shapes"])),
        (host_ops.dtype, NONE, len(about.get("input_dtypes", ()))),
        (host_ops.value, NONE, len(about.get("input_values", ()))),
        (ops.collective, NONE, len(about["collectives"])),
    ):
        if len(rows) and not least <= int(rows.min()) <= int(rows.max()) < n:
            raise ValueError(f"row {int(rows.max())} of a table of {n}")


def _check_blocks(blocks: Blocks, n_names: int) -> None:
    """A release comes after its allocation; names and roles are there."""
    freed = blocks.free_order != NONE
    fits = (
        (blocks.free_order[freed] > blocks.order[freed]).all()
        and (blocks.size_bytes >= 0).all()
        and np.isin(blocks.role, [*map(int, BlockRole)]).all()
        and all(
            ((column >= NONE) & (column < n_names)).all() for column in (blocks.node, blocks.free_node, blocks.holder)
        )
    )
    if not fits:
        raise ValueError("blocks of memory that are released before they are allocated, or point outside of the names")


def _meta(saved: dict[str, Any]) -> TraceMeta:
    devices = tuple(DeviceInfo(**device) for device in saved["devices"])
    races = tuple((int(a), int(b)) for a, b in saved["races"])
    remarks = {key: tuple(map(remark_of, saved[key])) for key in ("repairs", "notes")}
    pings = tuple(tuple(map(int, one)) for one in saved.get("pings", ()))
    return TraceMeta(**(saved | remarks | {"devices": devices, "races": races, "pings": pings}))
