"""A trace as columns in one .npz file: a tenth of Chrome JSON, and opened in milliseconds.

Written and read without pickle. The names of the arrays are "table.column"; `about` is JSON with all the rest. Nothing
is left out, so that paths in names of Python frames stay: to share a trace with others, write Chrome JSON.
"""

from __future__ import annotations

import io
import json
import os
import secrets
import zipfile
from dataclasses import asdict, fields
from pathlib import Path
from typing import Any

import numpy as np

from perfmagic.errors import TraceError
from perfmagic.trace.columns import Counters, DeviceOps, HostCalls, HostOps, LineMarks, StreamWaits, Table
from perfmagic.trace.model import Cell, Collective, DeviceInfo, LaunchShape, Trace, TraceMeta

SCHEMA = 1
NPZ_MAGIC = b"PK\x03\x04"

_TABLES: dict[str, type[Table]] = {
    "ops": DeviceOps,
    "calls": HostCalls,
    "host_ops": HostOps,
    "waits": StreamWaits,
    "counters": Counters,
    "marks": LineMarks,
}
_ABOUT = "about"


def write_npz(trace: Trace, path: str | os.PathLike[str]) -> Path:
    """Save every column of a trace; gives the path.

    The file appears whole or not at all. Raises TraceError where it cannot be written.
    """
    target = Path(path).expanduser()
    arrays: dict[str, Any] = {
        f"{table}.{name}": column for table in _TABLES for name, column in getattr(trace, table).to_dict().items()
    }
    about = {
        "schema": SCHEMA,
        "names": trace.names,
        "meta": asdict(trace.meta),
        "cell": trace.cell.source if trace.cell else None,
        "shapes": [asdict(shape) for shape in trace.shapes],
        "input_shapes": trace.input_shapes,
        "collectives": [asdict(collective) for collective in trace.collectives],
    }
    arrays[_ABOUT] = np.frombuffer(json.dumps(about).encode(), np.uint8)
    temporary = target.with_name(f".{target.name}.{secrets.token_hex(4)}")
    try:
        with temporary.open("xb") as file:
            np.savez_compressed(file, **arrays)
        temporary.replace(target)
    except OSError as error:
        raise TraceError(f"{target.name} cannot be written: {error.strerror}", hint="choose another folder") from error
    finally:
        temporary.unlink(missing_ok=True)  # is gone already where all went well
    return target


def is_npz(path: Path) -> bool:
    """Whether a file is a zip archive with an `about` part, as write_npz makes them."""
    try:
        with path.open("rb") as file:
            if file.read(len(NPZ_MAGIC)) != NPZ_MAGIC:
                return False
        with zipfile.ZipFile(path) as archive:
            return f"{_ABOUT}.npy" in archive.namelist()
    except (OSError, zipfile.BadZipFile):
        return False


def read_npz(path: str | os.PathLike[str], max_unpacked_bytes: int) -> Trace:
    """The trace that write_npz saved, equal in every column.

    Raises TraceError where the file is damaged, larger than the limit, or written by another version of this format.
    """
    source = Path(path)
    try:
        with zipfile.ZipFile(source) as archive:
            unpacked = sum(part.file_size for part in archive.infolist())
        if unpacked > max_unpacked_bytes:
            raise TraceError(
                f"{source.name} holds {unpacked} bytes unpacked, more than the limit of {max_unpacked_bytes}",
                hint="raise the limit with read_trace(path, max_unpacked_bytes=...)",
            )
        with np.load(io.BytesIO(source.read_bytes()), allow_pickle=False) as file:
            arrays = {name: file[name] for name in file.files}
        about = json.loads(arrays.pop(_ABOUT).tobytes())
        if about["schema"] != SCHEMA:
            raise TraceError(
                f"{source.name} has schema {about['schema']}, this version of perfmagic reads {SCHEMA}",
                hint="update perfmagic, or save the trace again as Chrome JSON",
            )
        return _trace(about, arrays)
    except (OSError, KeyError, TypeError, ValueError, zipfile.BadZipFile) as error:
        if isinstance(error, TraceError):
            raise
        raise TraceError(
            f"{source.name} is damaged: {type(error).__name__}: {error}", hint="copy the file again"
        ) from error


def _trace(about: dict[str, Any], arrays: dict[str, Any]) -> Trace:
    tables: dict[str, Any] = {}
    for table, kind in _TABLES.items():
        columns = {f.name: arrays[f"{table}.{f.name}"].astype(f.metadata["dtype"], copy=False) for f in fields(kind)}
        if len({column.shape for column in columns.values()}) > 1:
            raise ValueError(f"columns of {table} differ in length")
        for column in columns.values():
            column.flags.writeable = False
        tables[table] = kind(**columns)
    names = tuple(map(str, about["names"]))
    _check_rows(tables, names, about)
    return Trace(
        names=names,
        meta=_meta(about["meta"]),
        cell=None if about["cell"] is None else Cell(about["cell"]),
        shapes=tuple(
            LaunchShape(tuple(s["grid"]), tuple(s["block"]), s["registers"], s["shared_bytes"]) for s in about["shapes"]
        ),
        input_shapes=tuple(about["input_shapes"]),
        collectives=tuple(Collective(**c) for c in about["collectives"]),
        **tables,
    )


def _check_rows(tables: dict[str, Any], names: tuple[str, ...], about: dict[str, Any]) -> None:
    """Rows that point into other tables must lie in them."""
    ops, calls, host_ops, counters = (tables[key] for key in ("ops", "calls", "host_ops", "counters"))
    for rows, size in (
        (ops.name, len(names)),
        (calls.name, len(names)),
        (host_ops.name, len(names)),
        (counters.series, len(names)),
        (ops.launch, len(calls)),
        (ops.shape, len(about["shapes"])),
        (host_ops.shape, len(about["input_shapes"])),
        (ops.collective, len(about["collectives"])),
    ):
        if len(rows) and not -1 <= int(rows.min()) <= int(rows.max()) < size:
            raise ValueError(f"row {int(rows.max())} of a table of {size}")


def _meta(saved: dict[str, Any]) -> TraceMeta:
    devices = tuple(DeviceInfo(**device) for device in saved["devices"])
    races = tuple((int(a), int(b)) for a, b in saved["races"])
    words = {key: tuple(map(str, saved[key])) for key in ("repairs", "notes")}
    return TraceMeta(**(saved | words | {"devices": devices, "races": races}))
