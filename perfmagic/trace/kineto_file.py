"""A trace file's bytes: found, unpacked within a limit, and told apart from files that are no trace."""

from __future__ import annotations

import os
import zlib
from pathlib import Path

from perfmagic.errors import TraceError
from perfmagic.units import count, size

DEFAULT_LIMIT_BYTES = 4 << 30  # a gzip file of 2 MB can hold 2.1 GB

_GZIP_MAGIC = b"\x1f\x8b"
_CHUNK_BYTES = 1 << 22
_FOREIGN = (
    (b"PK\x03\x04", "a zip archive", "unpack it and open the trace inside"),
    (b"SQLite format 3", "an SQLite database", "export the profile as Chrome JSON and open that"),
    (
        b"\x80",
        "a Python pickle",
        "memory snapshots are not timelines; export a Chrome trace with export_chrome_trace()",
    ),
    (b"NVSQ", "an Nsight Systems report", "open it in Nsight Systems; perfmagic reads Kineto traces"),
)


def read_bytes(path: Path, limit_bytes: int) -> bytes:
    """The content of a file as it lies on the disk. Raises TraceError where there is none to read."""
    if path.is_dir():
        raise TraceError(f"{path.name} is a folder, not a trace file", hint="name one file in it")
    try:
        on_disk = path.stat().st_size
        if on_disk > limit_bytes:
            raise _too_large(path.name, on_disk, limit_bytes)
        return path.read_bytes()
    except FileNotFoundError:
        raise TraceError(f"there is no file {os.fspath(path)}", hint="check the name and the folder") from None
    except OSError as error:
        raise TraceError(f"{path.name} cannot be read: {error.strerror or error}") from error


def unpack(data: bytes, origin: str, limit_bytes: int, repairs: list[str]) -> bytes:
    """The JSON text: gunzipped where the content is gzip whatever the name says, byte order mark removed."""
    if data[:2] == _GZIP_MAGIC:
        data = _gunzip(data, origin, limit_bytes, repairs)
    elif len(data) > limit_bytes:
        raise _too_large(origin, len(data), limit_bytes)
    if not data:
        raise TraceError(f"{origin} is empty (0 bytes)", hint="copy the file again, or record the trace again")
    for magic, what, hint in _FOREIGN:
        if data.startswith(magic):
            raise TraceError(f"{origin} is {what}, not a Kineto trace", hint=hint)
    if data.startswith(b"\xef\xbb\xbf"):
        return data[3:]
    if data[:2] in (b"\xff\xfe", b"\xfe\xff"):
        repairs.append("the file is written in UTF-16 and was read as such")
        return data.decode("utf-16", "replace").encode()
    return data


def _gunzip(data: bytes, origin: str, limit_bytes: int, repairs: list[str]) -> bytes:
    """All members of a gzip file; what can be unpacked of a damaged one, with words in repairs."""
    out = bytearray()
    rest = data
    while rest[:2] == _GZIP_MAGIC:
        member = zlib.decompressobj(wbits=31)
        try:
            while not member.eof and (chunk := member.decompress(rest, _CHUNK_BYTES)):
                out += chunk
                rest = member.unconsumed_tail
                if len(out) > limit_bytes:
                    raise _too_large(origin, len(out), limit_bytes)
        except zlib.error as error:
            repairs.append(f"the gzip stream is damaged ({error}); {count(len(out))} bytes were unpacked before that")
            break
        if not member.eof:
            repairs.append(f"the gzip stream ends too early; {count(len(out))} bytes were unpacked")
            break
        rest = member.unused_data
    return bytes(out)


def _too_large(origin: str, found_bytes: int, limit_bytes: int) -> TraceError:
    return TraceError(
        f"{origin} holds at least {size(found_bytes)} unpacked, more than the limit of {size(limit_bytes)}",
        hint="raise the limit with read_trace(path, max_unpacked_bytes=...), or cut the trace to fewer steps",
    )
