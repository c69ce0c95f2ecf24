"""Traces that lie elsewhere: in object stores, behind http, inside archives. fsspec opens them.

https://filesystem-spec.readthedocs.io says which protocols there are and what each needs installed.
"""

from __future__ import annotations

import importlib
import os
import re
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, suppress
from dataclasses import dataclass, field
from typing import Any, TypeVar

from perfmagic.base.errors import OptionError, PerfmagicError, TraceError, links, path_of, shown_url, without_secrets
from perfmagic.base.files import open_regular
from perfmagic.trace.formats.registry import endings_words
from perfmagic.trace.kineto.file import BLOCK_BYTES

T = TypeVar("T")
_LOCAL = re.compile(r"^(?:file|local)://", re.IGNORECASE)
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

    if "*" not in head and named(_last_part(url)):
        return [url]

    def listed() -> list[str]:
        system, path = _fsspec(url).core.url_to_fs(url, **options)
        if "*" in head:
            urls = [str(name) for name in system.glob(path)]
        elif protocol == "zip" and not path:
            urls = [str(name) for name in system.find("") if named(str(name))]
        elif system.isdir(path):
            urls = [str(name) for name in system.ls(path, detail=False) if named(str(name))]
        else:
            return [url]
        if inner:
            return [f"{protocol}://{name.lstrip('/')}::{inner}" for name in urls]
        return [system.unstrip_protocol(name) for name in urls]

    urls = _tried(url, options, listed)
    if not urls:
        message = f"{shown_url(url)} has no {endings_words()} files"
        raise TraceError(message, hint="name another folder or pattern")
    return urls


@dataclass(eq=False)
class RemoteFile:
    """One file elsewhere, read in blocks; a small one is fetched once however often it is read."""

    url: str = field(repr=False)
    options: Mapping[str, Any] = field(default_factory=dict, repr=False)
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
            given = self._tried(lambda: _fsspec(self.url).open(self.url, "rb", **self.options))
            file = self._tried(lambda: opened.enter_context(given))
            first = self._tried(lambda: _filled(file))
            if len(first) < BLOCK_BYTES:
                self._whole = first
            block = first
            while block:
                yield block
                block = self._tried(lambda: file.read(BLOCK_BYTES))

    def _tried(self, doing: Callable[[], T]) -> T:
        return _tried(self.url, self.options, doing)


def remote_name(url: str) -> str:
    """The last part of a URL's path, or what may be shown of a URL without one."""
    last = _last_part(url)
    return last if last and shown_url(url).count(last) else shown_url(url)


def _last_part(url: str) -> str:
    """What stands last in the path that a URL names, which is that of its first link with one."""
    link = next((link for link in links(url) if "://" in link), url)
    return path_of(link).rstrip("/").rpartition("/")[2]


def _filled(file: Any) -> bytes:
    """The first block, as long as it can be: a stream may give less at a time."""
    parts, n = [], 0
    while n < BLOCK_BYTES and (part := file.read(BLOCK_BYTES - n)):
        parts.append(part)
        n += len(part)
    return b"".join(parts)


def _fsspec(url: str) -> Any:
    """fsspec, for a URL that it can open. Raises OptionError without it, OSError for what is no regular file here."""
    here = _LOCAL.sub("", url.rpartition("::")[2])
    if "://" not in here and os.path.exists(here) and not os.path.isdir(here):  # noqa: PTH110, PTH112 - no path as yet
        open_regular(here).close()  # a pipe would be waited for
    try:
        return importlib.import_module("fsspec")
    except ImportError:
        raise OptionError(f"{shown_url(url)} needs fsspec", hint="pip install 'perfmagic[remote]'") from None


def _tried(url: str, options: Mapping[str, Any], doing: Callable[[], T]) -> T:
    """What a file system gives. Raises TraceError for whatever it raises: each has errors of its own."""
    try:
        return doing()
    except PerfmagicError:
        raise
    except Exception as error:  # noqa: BLE001 - see above
        problem = _problem(error, url, options)
    raise problem  # here, so that it has no context: a traceback shows that, and it may quote the URL


def _problem(error: Exception, url: str, options: Mapping[str, Any]) -> TraceError:
    """What a file system raised, in words without secrets."""
    shown, words = shown_url(url), ""
    with suppress(Exception):
        words = without_secrets(str(error).partition("\n")[0], url, options)
    if isinstance(error, FileNotFoundError):
        if (lost := _lost(error)) is not None:
            hint = "check the address, and whether the server is reached from here"
            return TraceError(f"{shown} cannot be read: {type(lost).__name__}", hint=hint)
        return TraceError(f"there is no file {shown}", hint="check the name and the folder")
    if isinstance(error, ImportError):
        return TraceError(f"{shown} cannot be opened: {words}", hint="install what this protocol needs")
    return TraceError(f"{shown} cannot be read: {type(error).__name__}: {words}".rstrip(": "))


def _lost(error: BaseException) -> BaseException | None:
    """A connection that failed, which fsspec's http calls a missing file."""
    cause = error.__cause__ or error.__context__
    while cause is not None:
        if isinstance(cause, OSError) and not isinstance(cause, FileNotFoundError):
            return cause
        cause = cause.__cause__ or cause.__context__
    return None
