"""Files that a user names: where they are, opened if regular, written whole or not at all; and text from them."""

from __future__ import annotations

import errno
import json
import os
import stat
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import IO, Any

from perfmagic.base.errors import OptionError, shown_url


def file_path(path: str | os.PathLike[str]) -> Path:
    """Expand ~ in a path; ~name of an unknown user stays unchanged.

    Raises OptionError for what is no path.
    """
    try:
        return Path(os.path.expanduser(path))  # noqa: PTH111 - Path.expanduser raises RuntimeError for an unknown name
    except TypeError:
        message = f"a path is needed, not {path!r} ({type(path).__name__})"
        raise OptionError(message, hint="give the name of a file, as text or a Path") from None


def local_path(path: str | os.PathLike[str]) -> Path:
    """The path as file_path() gives it. Raises OptionError for a URL, which none of our local readers opens."""
    file = file_path(path)
    if "://" in os.fspath(path):
        message = f"{shown_url(os.fspath(path))} is a URL, and only files on this machine can be opened here"
        raise OptionError(message, hint="fetch the file and give its path; perfmagic.open_trace(URL) opens traces")
    return file


class NotRegularError(OSError):
    """The path is not a regular file.  kind: what it is, as "a named pipe"."""

    def __init__(self, path: str | os.PathLike[str], kind: str) -> None:
        super().__init__(errno.EINVAL, f"it is {kind}, not a regular file", os.fspath(path))
        self.kind = kind


_KINDS = {
    stat.S_IFDIR: "a folder",
    stat.S_IFIFO: "a named pipe",
    stat.S_IFSOCK: "a socket",
    stat.S_IFCHR: "a device of the operating system",
    stat.S_IFBLK: "a device of the operating system",
}


def open_regular(path: str | os.PathLike[str]) -> IO[bytes]:
    """Open a regular file, or a link to one, to read its bytes. Never waits for another process, as a pipe would.

    Raises NotRegularError for anything else, OSError as open() does.
    """
    try:
        status = Path(path).stat()
    except ValueError as error:  # null characters, surrogates
        raise OSError(errno.EINVAL, str(error), path) from None
    _check_regular(path, status)  # before: opening a pipe or a device already does something to it

    def opener(name: str, flags: int) -> int:
        return os.open(name, flags | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_NOCTTY", 0))

    file = open(path, "rb", opener=opener)  # noqa: SIM115 - Path.open() takes no opener
    try:
        _check_regular(path, os.fstat(file.fileno()))  # the path may name another file by now
    except NotRegularError:
        file.close()
        raise
    return file


def _check_regular(path: str | os.PathLike[str], status: os.stat_result) -> None:
    if not stat.S_ISREG(status.st_mode):
        raise NotRegularError(path, _KINDS.get(stat.S_IFMT(status.st_mode), "a special file"))


@contextmanager
def whole_file(path: str | os.PathLike[str]) -> Iterator[tuple[Path, IO[bytes]]]:
    """The file's path and a new file beside it to write to, which takes its name when the block has ended well.

    A link stays one, and what it points to is written; a file keeps its mode. What is no file (a pipe, a device), or
    lies in a folder where nothing can be made, is written straight. Raises OptionError where it cannot be written.
    """
    target = file_path(path)
    try:
        if not target.name or target.is_dir():
            raise IsADirectoryError(None, "it is a folder")
        if "\0" in target.name:
            raise OSError(None, "a name has no null characters")
        real = target.resolve()
        beside = real.parent / f".perfmagic-{os.urandom(8).hex()}"
        if real.exists() and not (real.is_file() and os.access(real.parent, os.W_OK)):
            with real.open("wb") as file:
                yield target, file
            return
        try:
            with beside.open("xb") as file:
                yield target, file
            if real.exists():
                with suppress(PermissionError):  # another user's file may be replaced, but its mode cannot be copied
                    beside.chmod(stat.S_IMODE(real.stat().st_mode))
            beside.replace(real)
        finally:
            with suppress(OSError):  # is gone already where all went well
                beside.unlink()
    except OSError as error:
        raise OptionError(f"{target} cannot be written: {_why(error, target)}", hint="choose another folder") from None


def write_text(path: str | os.PathLike[str], text: str) -> Path:
    """Write a file in UTF-8 and give its path. Raises OptionError where it cannot be written."""
    with whole_file(path) as (target, file):
        file.write(text.encode("utf-8"))
    return target


def _why(error: OSError, target: Path) -> str:
    missing = isinstance(error, FileNotFoundError)
    return f"there is no folder {target.parent}" if missing else (error.strerror or type(error).__name__)


def made_folder(path: str | os.PathLike[str]) -> Path:
    """A folder, made with those above it where it is not there. Raises OptionError where that cannot be done."""
    target = file_path(path)
    try:
        target.mkdir(parents=True, exist_ok=True)
    except (OSError, ValueError) as error:
        why = _why(error, target) if isinstance(error, OSError) else str(error)
        raise OptionError(f"{target} cannot be made: {why}", hint="choose another folder") from None
    return target


# Text from files: JSON may hold lone surrogates (halves of surrogate pairs), which UTF-8 cannot encode.

HALF = "\ufffd"  # replaces a lone surrogate, like any character that cannot be decoded


def printable(text: str) -> str:
    """The text with U+FFFD for each lone surrogate; the same object if there is none."""
    if text.isascii():
        return text
    try:
        text.encode()
    except UnicodeEncodeError:
        return "".join(HALF if "\ud800" <= character <= "\udfff" else character for character in text)
    return text


def all_printable(value: Any) -> tuple[Any, int]:
    """A decoded JSON value with every text and key made printable, and how many were not printable."""
    if isinstance(value, str):
        text = printable(value)
        return text, int(text is not value)
    if isinstance(value, list):
        items = [all_printable(item) for item in value]
        return [item for item, _ in items], sum(n for _, n in items)
    if isinstance(value, dict):
        pairs = [(all_printable(key), all_printable(item)) for key, item in value.items()]
        return {key: item for (key, _), (item, _) in pairs}, sum(n + m for (_, n), (_, m) in pairs)
    return value, 0


def plain_json(text: str | bytes) -> Any:
    """Parsed JSON, with printable texts. Raises ValueError for invalid JSON, NaN, infinities, and too deep nesting."""
    try:
        return all_printable(json.loads(text, parse_constant=_no_number))[0]
    except RecursionError:
        raise ValueError("it is nested too deeply") from None


def _no_number(text: str) -> float:
    raise ValueError(f"{text} is not a number")
