"""The recorded traces that come with the tests, and small Chrome JSON files made by hand."""

import gzip
import json
import lzma
import re
import tempfile
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from perfmagic.trace.columns import NONE, Table
from perfmagic.trace.kineto.reader import read_trace
from perfmagic.trace.model import Trace

FOLDER = Path(__file__).resolve().parents[1] / "data" / "traces"
NAMES = tuple(sorted(path.name for path in FOLDER.glob("*.json.gz")))
EXPECTED = tuple(sorted((FOLDER / "expected").glob("*.json")))  # of reference_sweep.py in that folder
# three large traces that repeat what smaller ones show are not part of this repository
MORE = Path(__file__).resolve().parents[3] / "shared" / "traces" / "real"
UNPACKED = Path(__file__).resolve().parents[2] / "build" / "traces"  # gzipped copies of what is stored as .xz

_STORED = sorted(path.relative_to(FOLDER).as_posix() for path in FOLDER.rglob("*.json.[gx]z"))
ALL = tuple(re.sub(r"^real/|(\.pt\.trace)?\.json\...$", "", path) for path in _STORED)  # by the names that `real` takes
ALONE = tuple(name for name in ALL if "/" not in name)  # without the eight ranks of one job


@cache
def recorded(name: str) -> Trace:
    """The same trace for all tests of a process, with what was worked out of it: nobody writes to a trace."""
    return read_trace(FOLDER / f"{name}.json.gz")


def real(name: str) -> Path:
    """A recorded trace by its name, as `a100_triton` or `dlrm_8ranks/worker0_step_12.1694128201545`.

    Skips the test where it is one of those that are not part of this repository, and absent.
    """
    for folder in (FOLDER, FOLDER / "real", MORE):
        if found := sorted((folder / name).parent.glob(f"{Path(name).name}.*[gx]z")):
            return unpacked(found[0])
    pytest.skip(f"shared/traces is absent: {name} is not part of this repository")


@cache
def real_trace(name: str) -> Trace:
    """The trace of real(name), shared as those of recorded()."""
    return read_trace(real(name))


@cache
def eight_ranks() -> Path:
    """The folder with the traces of the eight ranks of one job, gzipped."""
    (folder,) = {unpacked(path).parent for path in (FOLDER / "real" / "dlrm_8ranks").glob("*.xz")}
    return folder


def unpacked(path: Path) -> Path:
    """The gzipped copy of a trace that is stored as .xz, because xz takes half the bytes; other paths as they are."""
    if path.suffix != ".xz":
        return path
    copy = UNPACKED / path.parent.name / path.with_suffix(".gz").name
    if not copy.is_file() or copy.stat().st_mtime_ns < path.stat().st_mtime_ns:
        gzipped = gzip.compress(lzma.decompress(path.read_bytes()), 1, mtime=0)
        copy.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.NamedTemporaryFile(dir=UNPACKED, delete=False) as file:  # other processes never see half a copy
            file.write(gzipped)
        Path(file.name).replace(copy)
    return copy


def repairs(trace: Trace) -> tuple[str, ...]:
    """What was repaired, in words."""
    return tuple(remark.words for remark in trace.meta.repairs)


def event(cat: str, name: str, ts: Any, dur: Any, *, pid: Any = 0, tid: Any = 7, **args: Any) -> dict[str, Any]:
    """A complete event; args are the event's arguments."""
    return {"ph": "X", "cat": cat, "name": name, "pid": pid, "tid": tid, "ts": ts, "dur": dur, "args": args}


def launch_and_kernel(correlation: int, launch_us: Any, kernel_us: Any, **kernel: Any) -> list[dict[str, Any]]:
    """A launch of 2 µs and its kernel of 10 µs on stream 7."""
    return [
        event("cuda_runtime", "cudaLaunchKernel", launch_us, 2, pid=99, tid=99, correlation=correlation),
        event("kernel", "sgemm", kernel_us, 10, stream=7, device=0, correlation=correlation) | kernel,
    ]


def as_bytes(events: list[dict[str, Any]], **header: Any) -> bytes:
    return json.dumps(header | {"traceEvents": events}).encode()


def table_of(trace: Trace, name: str) -> Table:
    """A table of a trace by its name."""
    found: Table = trace.python_frames.table if name == "python_frames" else getattr(trace, name)
    return found


def columns_by_name(trace: Trace, table: str) -> dict[str, list[Any]]:
    """A table as lists, names and launch shapes themselves instead of their rows."""
    columns = {name: column.tolist() for name, column in table_of(trace, table).to_dict().items()}
    for key in ("name", "series"):
        if key in columns:
            columns[key] = [trace.names[row] for row in columns[key]]
    lists = {"shape": trace.shapes if table == "ops" else trace.input_shapes, "collective": trace.collectives}
    if table == "host_ops":
        lists |= {"dtype": trace.input_dtypes, "value": trace.input_values}
    for key in lists.keys() & columns.keys():
        columns[key] = [lists[key][row] if row != NONE else None for row in columns[key]]
    return columns
