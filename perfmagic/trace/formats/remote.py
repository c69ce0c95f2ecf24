"""Traces that lie elsewhere: in object stores, behind http, inside archives. fsspec opens them.

https://filesystem-spec.readthedocs.io says which protocols there are and what each needs installed.
"""

from __future__ import annotations

import importlib
import io
import os
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, suppress
from dataclasses import dataclass, field
from typing import Any, TypeVar

from perfmagic.errors import OptionError, PerfmagicError, TraceError
from perfmagic.trace.formats.npz import NPZ_MAGIC, read_npz
from perfmagic.trace.kineto.file import BLOCK_BYTES
from perfmagic.trace.kineto.reader import read_trace
from perfmagic.trace.model import Trace
from perfmagic.units import size

T = TypeVar("T")
Named = Callable[[str], bool]  # whether a file of a folder is taken for a trace


def is_url(source: object) -> bool:
    """Whether a source is for fsspec: s3://bucket/runs, zip://*.json.gz::runs.zip, or a zip archive by its name."""
    return isinstance(source, (str, os.PathLike)) and ("://" in os.fspath(source) or _is_archive(source))


def _is_archive(source: str | os.PathLike[str]) -> bool:
    return str(os.fspath(source)).lower().endswith(".zip")


def remote_files(source: str | os.PathLike[str], named: Named, options: Mapping[str, Any]) -> list[str]:
    """The URLs of the trace files that one URL names: itself, those of a folder, or those that its asterisks match.

    named: which files of a folder are traces.  options: for the file system, as fsspec takes them. Raises TraceError.
    """
    text = os.fspath(source)
    url = f"zip://::{os.path.abspath(text)}" if "://" not in text else text  # noqa: PTH100 - a URL is made, no path
    head, _, inner = url.partition("::")
    protocol = head.partition("://")[0]

    if "*" not in head and named(remote_name(url)):
        return [url]

    def listed() -> list[str]:
        system, path = _fsspec(url).core.url_to_fs(url, **options)
        if "*" in head:
            found = [str(name) for name in system.glob(path)]
        elif protocol == "zip" and not path:
            found = [str(name) for name in system.find("") if named(str(name))]
        elif system.isdir(path):
            found = [str(name) for name in system.ls(path, detail=False) if named(str(name))]
        else:
            return [url]
        if inner:
            return [f"{protocol}://{name.lstrip('/')}::{inner}" for name in found]
        return [system.unstrip_protocol(name) for name in found]

    found = _tried(url, listed)
    if not found:
        raise TraceError(f"{_shown(url)} has no .json, .json.gz or .npz files", hint="name another folder or pattern")
    return found


@dataclass(eq=False)
class RemoteFile:
    """One file elsewhere, read in blocks; a small one is fetched once however often it is read."""

    url: str
    options: Mapping[str, Any] = field(default_factory=dict)
    _whole: bytes | None = field(default=None, repr=False)

    @property
    def name(self) -> str:
        return remote_name(self.url)

    def blocks(self) -> Iterator[bytes]:
        """The bytes as they are stored. Raises TraceError."""
        if self._whole is not None:
            yield self._whole
            return
        with ExitStack() as opened:
            given = _tried(self.url, lambda: _fsspec(self.url).open(self.url, "rb", **self.options))
            file = _tried(self.url, lambda: opened.enter_context(given))
            first = _tried(self.url, lambda: _filled(file))
            if len(first) < BLOCK_BYTES:
                self._whole = first
            block = first
            while block:
                yield block
                block = _tried(self.url, lambda: file.read(BLOCK_BYTES))


class _Fetched(io.BytesIO):
    """A file that was fetched whole."""

    name = ""


def read_remote(url: str, options: Mapping[str, Any], *, max_unpacked_bytes: int, helper: bool = True) -> Trace:
    """The trace that a URL names: streamed, or fetched whole where it is an .npz. Raises TraceError."""
    file = RemoteFile(url, options)
    blocks = file.blocks()
    if not next(blocks, b"").startswith(NPZ_MAGIC):
        blocks.close()  # type: ignore[attr-defined]  # a generator
        return read_trace(file, max_unpacked_bytes=max_unpacked_bytes, helper=helper)
    fetched = _Fetched()
    fetched.name = file.name
    for block in file.blocks():
        fetched.write(block)
        if fetched.tell() > max_unpacked_bytes:
            raise TraceError(f"{file.name} holds more than the limit of {size(max_unpacked_bytes)}")
    return read_npz(fetched, max_unpacked_bytes)


def remote_name(url: str) -> str:
    """The last part of a URL's path, without what may be secret behind a question mark."""
    return url.partition("::")[0].partition("?")[0].rstrip("/").rpartition("/")[2] or _shown(url)


def _filled(file: Any) -> bytes:
    """The first block, as long as it can be: a stream may give less at a time."""
    parts, n = [], 0
    while n < BLOCK_BYTES and (part := file.read(BLOCK_BYTES - n)):
        parts.append(part)
        n += len(part)
    return b"".join(parts)


def _shown(url: str) -> str:
    return url.partition("?")[0]


def _fsspec(url: str) -> Any:
    try:
        return importlib.import_module("fsspec")
    except ImportError:
        raise OptionError(f"{_shown(url)} needs fsspec", hint="pip install 'perfmagic[remote]'") from None


def _tried(url: str, doing: Callable[[], T]) -> T:
    """What a file system gives. Raises TraceError for whatever it raises: each has errors of its own."""
    try:
        return doing()
    except PerfmagicError:
        raise
    except FileNotFoundError as error:
        if (lost := _lost(error)) is not None:
            words = f"{_shown(url)} cannot be read: {type(lost).__name__}"
            raise TraceError(words, hint="check the address, and whether the server is reached from here") from None
        raise TraceError(f"there is no file {_shown(url)}", hint="check the name and the folder") from None
    except ImportError as error:
        raise TraceError(f"{_shown(url)} cannot be opened: {error}", hint="install what this protocol needs") from None
    except Exception as error:
        words = ""
        with suppress(Exception):
            words = str(error).partition("\n")[0]
        raise TraceError(f"{_shown(url)} cannot be read: {type(error).__name__}: {words}".rstrip(": ")) from error


def _lost(error: BaseException) -> BaseException | None:
    """A connection that failed, which fsspec's http calls a missing file."""
    cause = error.__cause__ or error.__context__
    while cause is not None:
        if isinstance(cause, OSError) and not isinstance(cause, FileNotFoundError):
            return cause
        cause = cause.__cause__ or cause.__context__
    return None
