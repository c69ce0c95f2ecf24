"""Where traces come from: files of any format of the registry, and folders of them."""

from __future__ import annotations

import importlib
import os
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, cast

from perfmagic.base.errors import TraceError
from perfmagic.base.files import file_path, open_regular
from perfmagic.base.units import plural, size
from perfmagic.trace.formats.registry import FORMATS, HEAD_BYTES, Format, Reader, endings_words, is_trace_name
from perfmagic.trace.formats.remote import RemoteFile, remote_files, remote_name
from perfmagic.trace.kineto.file import DEFAULT_LIMIT_BYTES
from perfmagic.trace.model import Trace

_NAMED = 5  # files that an error names
_OF_JAX = ".xplane.pb"
_REPORTS = (".nsys-rep", ".qdrep")  # by name: only nsys knows how they begin
_LONGEST_NAME = 200  # of a file system
_DIGITS = re.compile(r"(\d+)")
# dumps of torch's flight recorder: pickles by its names or keys, JSON by keys that no trace begins with
_DUMP_NAME = re.compile(r"trace_rank_\d+$")
_DUMP_KEYS = re.compile(rb"pg_config|pg_status|collective_seq_id|comm_lib_version")
_DUMP_JSON = re.compile(rb'\s*\{\s*"(?:comm_lib_version|nccl_\w+|entries|pg_config|pg_status|version)"\s*:')


def read_file(
    path: str | os.PathLike[str], *, max_unpacked_bytes: int = DEFAULT_LIMIT_BYTES, helper: bool = True
) -> Trace:
    """The only trace of a file, see read_traces. Raises TraceError for a file of several."""
    source = file_path(path)
    return only(read_path(source, max_unpacked_bytes, helper=helper), source.name)


def read_traces(
    source: str | os.PathLike[str],
    options: Mapping[str, Any] | None = None,
    *,
    max_unpacked_bytes: int = DEFAULT_LIMIT_BYTES,
    helper: bool = True,
) -> list[Trace]:
    """The traces of a file or a URL, one a rank: some programs write all processes into one file.

    options: of a URL, as fsspec takes them.  helper: whether a second process may decode a part of a large file.
    Raises TraceError.
    """
    if isinstance(source, str) and "://" in source:
        return _read_remote(RemoteFile(source, options or {}), max_unpacked_bytes, helper=helper)
    return read_path(file_path(source), max_unpacked_bytes, helper=helper)


def only(traces: Sequence[Trace], name: str) -> Trace:
    """The trace of a file that has one. Raises TraceError for several."""
    if len(traces) > 1:
        ranks = ", ".join(str(trace.meta.rank) for trace in traces[:_NAMED]) + (", …" if len(traces) > _NAMED else "")
        message = f"{name} holds {plural(len(traces), 'process', 'processes')}: ranks {ranks}"
        raise TraceError(message, hint="perfmagic.open_ranks(file) opens them all, .rank(N) or --rank N selects one")
    return traces[0]


def _read_remote(file: RemoteFile, max_unpacked_bytes: int, *, helper: bool) -> list[Trace]:
    """The traces of a file elsewhere: streamed, or fetched whole where its reader needs a file here."""
    blocks = file.blocks()
    form = format_of(next(blocks, b"")[:HEAD_BYTES])
    blocks.close()  # type: ignore[attr-defined]  # a generator
    if form.streams:
        return reader_of(form).read(file, max_unpacked_bytes, helper=helper)
    import tempfile  # a tenth of what opening a small file imports

    with tempfile.TemporaryDirectory() as folder:
        fetched = Path(folder, file.name.replace("/", "_")[-_LONGEST_NAME:])
        with fetched.open("wb") as target:
            for block in file.blocks():
                target.write(block)
                if target.tell() > max_unpacked_bytes:
                    raise TraceError(f"{file.name} holds more than the limit of {size(max_unpacked_bytes)}")
        return reader_of(form).read(fetched, max_unpacked_bytes, helper=helper)


def format_of(head: bytes) -> Format:
    """The format of a file by its first HEAD_BYTES, whatever it is called."""
    return next(form for form in FORMATS if head.startswith(form.magic) and reader_of(form).sniff(head))


def reader_of(form: Format) -> Reader:
    """The reader of a format, imported when it is asked for."""
    return cast("Reader", importlib.import_module(form.module))


def read_path(path: Path, max_unpacked_bytes: int, *, helper: bool) -> list[Trace]:
    """The traces of a file here, one a rank. Raises TraceError."""
    if path.name.endswith(_REPORTS) and path.is_file():
        exported = path.with_suffix(".sqlite").name
        message = f"{path.name} is a report that only Nsight Systems reads"
        raise TraceError(
            message, hint=f"nsys export --type sqlite --output {exported} {path.name}; then open {exported}"
        )
    try:
        with open_regular(path) as file:
            head = file.read(HEAD_BYTES)
    except OSError:
        head = b""  # the last reader says why
    return reader_of(format_of(head)).read(path, max_unpacked_bytes, helper=helper)


def trace_files(path: str | os.PathLike[str]) -> list[Path]:
    """The trace files a path names: itself, or those of a folder, by name with numbers in their order.

    Files of a folder are found by their ending, pipes and broken links too: reading one says what is wrong with it.
    A folder that JAX recorded into has them in plugins/profile/DATE. Raises TraceError for a folder without any, and
    for one with several recordings of JAX.
    """
    source = file_path(path)
    if not source.is_dir():
        return [source]
    try:
        files = [entry for entry in source.iterdir() if is_trace_name(entry.name) and not entry.is_dir()]
    except OSError as error:
        raise TraceError(f"{source.name} cannot be read: {error.strerror or error}") from None
    files = files or _recorded_by_jax(source)
    if not files:
        words = f"{source.name} is a folder without {endings_words()} files"
        saved = any(source.glob("*.perfmagic"))
        hint = "perfmagic.load(folder) opens it" if saved else "name another folder"
        raise TraceError(
            words, hint="perfmagic.open_traces(folder).flight reads its dumps" if _dumps_in(source) else hint
        )
    return sorted(_once_each(files), key=lambda entry: by_numbers(entry.name))


def _recorded_by_jax(folder: Path) -> list[Path]:
    """The files of the only recording in a folder that jax.profiler was given. Raises TraceError for several."""
    files = list(folder.glob(f"plugins/profile/*/*{_OF_JAX}"))
    dates = sorted({file.parent for file in files})
    if len(dates) > 1:
        names = ", ".join(date.name for date in dates[-_NAMED:]) + (", …" if len(dates) > _NAMED else "")
        message = f"{folder.name} holds {plural(len(dates), 'recording')} of JAX: {names}"
        raise TraceError(message, hint=f"name one, as the last: {dates[-1]}")
    return files


def _once_each(files: list[Path]) -> list[Path]:
    """The files without those that JAX writes beside its own, of the same recording: they hold a part of it."""
    hosts = [file.name.removesuffix(_OF_JAX) for file in files if file.name.endswith(_OF_JAX)]
    beside = {"perfetto_trace.json.gz"} if hosts else set()
    return [file for file in files if file.name not in beside.union(f"{host}.trace.json.gz" for host in hosts)]


def without_dumps(
    sources: Iterable[str | os.PathLike[str]],
) -> tuple[list[str | os.PathLike[str]], list[Path]]:
    """The sources without dumps of torch's flight recorder, and those dumps, by the numbers in their names.

    A folder with dumps is replaced by its other trace files. A URL is none.
    """
    others: list[str | os.PathLike[str]] = []
    dumps: list[Path] = []
    for source in sources:
        path = None if isinstance(source, str) and "://" in source else file_path(source)
        inside = _dumps_in(path) if path is not None and path.is_dir() else []
        if path is not None and inside:
            others += [file for file in path.iterdir() if is_trace_name(file.name) and file not in inside]
            dumps += inside
        elif path is not None and _is_dump(path):
            dumps.append(path)
        else:
            others.append(source)
    return others, sorted(dumps, key=lambda dump: by_numbers(dump.name))


def _dumps_in(folder: Path) -> list[Path]:
    try:
        return [file for file in folder.iterdir() if file.suffix not in (".gz", ".npz") and _is_dump(file)]
    except OSError:  # reading its traces says so
        return []


def _is_dump(path: Path) -> bool:
    if _DUMP_NAME.search(path.name):
        return path.is_file()
    try:
        with open_regular(path) as file:
            head = file.read(HEAD_BYTES)
    except OSError:
        return False
    return (head[:1] == b"\x80" or _DUMP_JSON.match(head) is not None) and _DUMP_KEYS.search(head) is not None


@dataclass(frozen=True)
class FileRead:
    """One trace of several files, or why a file cannot be read.

    path: of a URL its last part.  in_folder: it was found in a folder, not named.  n_files: how many files are
    read in all, each trace of a file counted.
    """

    path: Path
    in_folder: bool
    n_files: int
    trace: Trace | None = None
    problem: TraceError | None = None

    @property
    def title(self) -> str:
        """The file's name, with the rank where the file has several."""
        return title_of(self.path.name, self.trace)


def title_of(name: str, trace: Trace | None) -> str:
    """What a trace of a file is called: as the file, with the rank where the reader found several in it."""
    return trace.meta.origin if trace is not None and trace.meta.origin.startswith(f"{name}, ") else name


def read_each(
    sources: Iterable[str | os.PathLike[str]],
    *,
    max_unpacked_bytes: int = DEFAULT_LIMIT_BYTES,
    storage_options: Mapping[str, Any] | None = None,
) -> Iterator[FileRead]:
    """Every trace of the files that some paths name, read one by one: one bad file must not cost the others.

    sources: files, and folders with all trace files in them, here or behind URLs.  A folder that holds none counts as a
    file of its own.  storage_options: of URLs, as fsspec takes them. Raises OptionError for a URL without fsspec.
    """
    options = storage_options or {}
    listed = [_listed(source, options) for source in sources]
    n_files = sum(max(1, len(files)) for _, files, _ in listed)
    for source, files, problem in listed:
        if problem is not None:
            yield FileRead(_path(source), False, n_files, problem=problem)
        for file in files:
            file_read = FileRead(_path(file), file != source, n_files)
            try:
                traces = read_traces(file, options, max_unpacked_bytes=max_unpacked_bytes)
            except TraceError as error:
                yield replace(file_read, problem=error)
                continue
            n_files += len(traces) - 1
            for trace in traces:
                yield replace(file_read, n_files=n_files, trace=trace)


def read_one(
    source: str | os.PathLike[str], max_unpacked_bytes: int, storage_options: Mapping[str, Any]
) -> tuple[Trace, str]:
    """The only trace that a path or a URL names, and the file's name.

    Raises TraceError for a folder with none, or several.
    """
    at, files, problem = _listed(source, storage_options)
    if problem is not None:
        raise problem
    if len(files) > 1:
        names = ", ".join(_path(file).name for file in files[:_NAMED]) + (", …" if len(files) > _NAMED else "")
        message = f"{_path(at).name} is a folder with {plural(len(files), 'trace file')}: {names}"
        raise TraceError(message, hint="name one of them, or take all with perfmagic.open_traces(folder)")
    name = _path(files[0]).name
    return only(read_traces(files[0], storage_options, max_unpacked_bytes=max_unpacked_bytes), name), name


def _listed(
    source: str | os.PathLike[str], storage_options: Mapping[str, Any]
) -> tuple[Path | str, list[Path | str], TraceError | None]:
    """A path or a URL, the trace files it names, and what is wrong with a folder."""
    if isinstance(source, str) and "://" in source:
        try:
            return source, [*remote_files(source, is_trace_name, storage_options)], None
        except TraceError as error:
            return source, [], error
    path = file_path(source)
    try:
        return path, [*trace_files(path)], None
    except TraceError as error:
        return path, [], error


def _path(source: Path | str) -> Path:
    """A path, or the last part of a URL: what stands behind a question mark may be secret."""
    return source if isinstance(source, Path) else Path(remote_name(source))


def by_numbers(name: str) -> list[tuple[int, str]]:
    """For sorting names: rank2 before rank10."""
    return [(int(part), "") if part.isdecimal() else (-1, part) for part in _DIGITS.split(name)]
