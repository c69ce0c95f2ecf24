"""Where traces come from: files of either format, and folders of them."""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path

from perfmagic.errors import TraceError
from perfmagic.files import file_path
from perfmagic.trace.formats.npz import is_npz, read_npz
from perfmagic.trace.kineto.file import DEFAULT_LIMIT_BYTES
from perfmagic.trace.kineto.reader import read_trace
from perfmagic.trace.model import Trace
from perfmagic.units import plural

_TRACE_NAME = re.compile(r"\.(?:json|json\.gz|npz)$")
_NAMED = 5  # files that an error names
_DIGITS = re.compile(r"(\d+)")


def read_file(
    path: str | os.PathLike[str], *, max_unpacked_bytes: int = DEFAULT_LIMIT_BYTES, helper: bool = True
) -> Trace:
    """A saved trace: Kineto's Chrome JSON, or perfmagic's own .npz. Raises TraceError as `read_trace` does.

    helper: whether a second process may decode a part of a large file.
    """
    source = file_path(path)
    if is_npz(source):
        return read_npz(source, max_unpacked_bytes)
    return read_trace(source, max_unpacked_bytes=max_unpacked_bytes, helper=helper)


def trace_files(path: str | os.PathLike[str]) -> list[Path]:
    """The trace files a path names: itself, or those of a folder, by name with numbers in their order.

    Files of a folder are found by their ending (.json, .json.gz, .npz). Raises TraceError for one without any.
    """
    source = file_path(path)
    if not source.is_dir():
        return [source]
    try:
        found = [entry for entry in source.iterdir() if is_trace_name(entry.name) and entry.is_file()]
    except OSError as error:
        raise TraceError(f"{source.name} cannot be read: {error.strerror or error}") from error
    if not found:
        words = f"{source.name} is a folder without .json, .json.gz or .npz files"
        saved = any(source.glob("*.perfmagic"))
        raise TraceError(words, hint="perfmagic.load(folder) opens it" if saved else "name another folder")
    return sorted(found, key=lambda entry: by_numbers(entry.name))


def is_trace_name(name: str) -> bool:
    """Whether a file of a folder is taken for a trace, by its ending."""
    return _TRACE_NAME.search(name) is not None


@dataclass(frozen=True)
class FileRead:
    """One of several files: its trace, or why it cannot be read.

    in_folder: it was found in a folder, so nobody named it.  n_files: how many files are read in all.
    """

    path: Path
    in_folder: bool
    n_files: int
    trace: Trace | None = None
    problem: TraceError | None = None


def read_each(
    sources: Iterable[str | os.PathLike[str]], *, max_unpacked_bytes: int = DEFAULT_LIMIT_BYTES
) -> Iterator[FileRead]:
    """Every trace file that some paths name, read one by one: one bad file must not cost the others.

    sources: files, and folders with all trace files in them.  A folder that holds none counts as a file of its own.
    """
    listed = [_listed(source) for source in sources]
    n_files = sum(max(1, len(files)) for _, files, _ in listed)
    for source, files, problem in listed:
        if problem is not None:
            yield FileRead(source, False, n_files, problem=problem)
        for file in files:
            found = FileRead(file, file != source, n_files)
            try:
                trace = read_file(file, max_unpacked_bytes=max_unpacked_bytes)
            except TraceError as error:
                yield replace(found, problem=error)
            else:
                yield replace(found, trace=trace)


def _listed(source: str | os.PathLike[str]) -> tuple[Path, list[Path], TraceError | None]:
    """A path, the trace files it names, and what is wrong with a folder."""
    path = file_path(source)
    try:
        return path, trace_files(path), None
    except TraceError as error:
        return path, [], error


def one_file(path: str | os.PathLike[str]) -> Path:
    """The only trace file a path names. Raises TraceError for a folder with none, or several."""
    files = trace_files(path)
    if len(files) > 1:
        names = ", ".join(file.name for file in files[:_NAMED]) + (", …" if len(files) > _NAMED else "")
        raise TraceError(
            f"{Path(path).name} is a folder with {plural(len(files), 'trace file')}: {names}",
            hint="name one of them, or take all with perfmagic.open_traces(folder)",
        )
    return files[0]


def by_numbers(name: str) -> list[tuple[int, str]]:
    """For sorting names: rank2 before rank10."""
    return [(int(part), "") if part.isdecimal() else (-1, part) for part in _DIGITS.split(name)]
