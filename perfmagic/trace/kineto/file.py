"""The bytes of a trace file: read, unpacked up to a limit; files of other kinds are refused."""

from __future__ import annotations

import errno
import math
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Protocol, TypeAlias

from perfmagic.base.errors import TraceError
from perfmagic.base.files import NotRegularError, open_regular
from perfmagic.base.language import phrase
from perfmagic.base.units import count, size
from perfmagic.trace.columns import Remark

try:  # an extra: it unpacks faster
    from isal import isal_zlib as inflate
except ImportError:
    import zlib as inflate  # type: ignore[no-redef]


class Blocks(Protocol):
    """A file that does not lie on this machine: its name, and its bytes in blocks each time they are asked for."""

    @property
    def name(self) -> str: ...

    def blocks(self) -> Iterator[bytes]: ...


Source: TypeAlias = Path | bytes | Blocks

DEFAULT_LIMIT_BYTES = 4 << 30  # a gzip file of 2 MB can hold 2.1 GB
BLOCK_BYTES = 2 << 20
BITE_BYTES = 16
MOST_RATIO, RATIO_FROM_BYTES = 200, 64 << 20  # traces shrink to a tenth or a fiftieth; gzip can make a thousandth

MOST_MEMBERS = 100_000  # bgzip writes one for each 64 kB
_FED_BYTES = 1 << 16  # at once to the unpacker, which copies what follows a member

_GZIP_MAGIC = b"\x1f\x8b"
_UTF8_MARK = b"\xef\xbb\xbf"
_UTF16_MARKS = (b"\xff\xfe", b"\xfe\xff")
_FOREIGN = (
    (b"PK\x03\x04", "a zip archive", "unpack it and open the trace inside"),
    (b"SQLite format 3", "a packed SQLite database", "unpack it with gunzip and open that file"),
    (
        b"\x80",
        "a Python pickle",
        "open_snapshot(file) opens one of CUDA's memory, open_traces(folder) those of a flight recorder",
    ),
    (b"NVSQ", "an Nsight Systems report", "nsys export --type sqlite NAME.nsys-rep writes a file that opens"),
)
_LONGEST_MAGIC = max(len(magic) for magic, _, _ in _FOREIGN)


def text_blocks(source: Source, origin: str, limit_bytes: int, repairs: list[Remark]) -> Iterator[bytes]:
    """The JSON text in blocks, without byte order mark; gzip is recognized by content, not by name.

    limit_bytes: of the unpacked text. Adds to repairs what was repaired. Raises TraceError for a file that cannot be
    read, is empty, exceeds the limit, or is not a trace.
    """
    raw = _whole_magic(_raw_blocks(source, origin, limit_bytes))
    first = next(raw, b"")
    if first[:2] == _GZIP_MAGIC:
        raw = _whole_magic(_gunzipped(source, origin, limit_bytes, repairs))
        first = next(raw, b"")
    if not first:
        raise TraceError(f"{origin} is empty (0 bytes)", hint="copy the file again, or record the trace again")
    for magic, what, hint in _FOREIGN:
        if first.startswith(magic):
            raise TraceError(f"{origin} is {what}, not a Kineto trace", hint=hint)
    if first[:2] in _UTF16_MARKS:
        repairs.append(Remark("utf_16", phrase("the file is written in UTF-16 and was read as such")))
        yield b"".join(_chained(first, raw)).decode("utf-16", "replace").encode()
        return
    yield first.removeprefix(_UTF8_MARK)
    yield from raw


def text_bytes(source: Source) -> float:
    """About how long the text is, before it is read: gzip shrinks traces to a tenth or less. Unknown: infinity."""
    try:
        n_bytes = len(source) if isinstance(source, bytes) else source.stat().st_size  # type: ignore[union-attr]
    except (AttributeError, OSError):  # a file elsewhere; one that cannot be read
        return math.inf
    return n_bytes * (10 if isinstance(source, Path) and source.suffix == ".gz" else 1)


def _raw_blocks(source: Source, origin: str, limit_bytes: int) -> Iterator[bytes]:
    if isinstance(source, Path):
        return _file_blocks(source, limit_bytes)
    return _limited(source, origin, limit_bytes)


def _file_blocks(source: Path, limit_bytes: int) -> Iterator[bytes]:
    try:
        with open_regular(source) as file:
            on_disk = os.fstat(file.fileno()).st_size
            if on_disk > limit_bytes:
                raise _too_large(source.name, on_disk, limit_bytes)
            while block := file.read(BLOCK_BYTES):
                yield block
    except NotRegularError as error:
        raise TraceError(
            f"{os.fspath(source)} is {error.kind}, not a trace file",
            hint="name a file that torch.profiler wrote (.pt.trace.json, .json.gz), or a folder with such files",
        ) from None
    except FileNotFoundError:
        raise TraceError(f"there is no file {os.fspath(source)}", hint="check the name and the folder") from None
    except OSError as error:
        if error.errno == errno.ENOMEM:
            raise MemoryError(error.strerror) from None
        raise TraceError(f"{source.name} cannot be read: {error.strerror or error}") from None


def _limited(source: bytes | Blocks, origin: str, limit_bytes: int) -> Iterator[bytes]:
    """The blocks of a content, or of a file elsewhere, up to the limit."""
    n_bytes = 0
    if isinstance(source, bytes):
        if len(source) > limit_bytes:
            raise _too_large(origin, len(source), limit_bytes)
        for at in range(0, len(source), BLOCK_BYTES):
            yield source[at : at + BLOCK_BYTES]
        return
    for block in source.blocks():
        n_bytes += len(block)
        if n_bytes > limit_bytes:
            raise _too_large(origin, n_bytes, limit_bytes)
        yield block


def _whole_magic(blocks: Iterator[bytes]) -> Iterator[bytes]:
    """The same blocks, the first long enough to recognize the kind of file."""
    first = b""
    for block in blocks:
        first += block
        if len(first) >= _LONGEST_MAGIC:
            break
    if first:
        yield first
    yield from blocks


def _chained(first: bytes, rest: Iterator[bytes]) -> Iterator[bytes]:
    yield first
    yield from rest


def _gunzipped(source: Source, origin: str, limit_bytes: int, repairs: list[Remark]) -> Iterator[bytes]:
    """All members of a gzip file; of a damaged file as much as can be unpacked, with a remark in repairs."""
    unpacked = 0
    try:
        for text, packed in _members(_raw_blocks(source, origin, limit_bytes), origin):
            unpacked += len(text)
            if unpacked > limit_bytes:
                raise _too_large(origin, unpacked, limit_bytes)
            if unpacked > RATIO_FROM_BYTES and unpacked > MOST_RATIO * packed:
                raise _too_dense(origin, unpacked, packed)
            yield text
    except EOFError:
        words = phrase("the gzip stream ends too early; {n} bytes were unpacked", n=count(unpacked))
        repairs.append(Remark("gzip_cut", words, {"unpacked_bytes": unpacked}))
    except inflate.error as error:  # type: ignore[misc]
        # what was unpacked in the call that failed is lost: once more, in small bites
        for text in _until_damage(source, origin, limit_bytes, unpacked):
            unpacked += len(text)
            if unpacked > limit_bytes:
                raise _too_large(origin, unpacked, limit_bytes) from error
            yield text
        words = phrase(
            "the gzip stream is damaged ({error}); {n} bytes were unpacked before that", error=error, n=count(unpacked)
        )
        repairs.append(Remark("gzip_damaged", words, {"unpacked_bytes": unpacked}))


def _until_damage(source: Source, origin: str, limit_bytes: int, known: int) -> Iterator[bytes]:
    """The text up to the damage, without the first `known` bytes."""
    blocks = _raw_blocks(source, origin, limit_bytes)
    bites = (block[at : at + BITE_BYTES] for block in blocks for at in range(0, len(block), BITE_BYTES))
    reached = 0
    try:
        for text, _ in _members(bites, origin):
            reached += len(text)
            if reached > known:
                yield text[max(0, len(text) - (reached - known)) :]
    except (EOFError, inflate.error):  # type: ignore[misc]
        return


def _members(blocks: Iterator[bytes], origin: str) -> Iterator[tuple[bytes, int]]:
    """The text of each member in blocks, each with the packed bytes that were unpacked so far.

    Raises EOFError where the last member is cut, TraceError for more than MOST_MEMBERS.
    """
    member, held, n_members, packed = inflate.decompressobj(wbits=31), b"", 1, 0
    for fed in (block[at : at + _FED_BYTES] for block in blocks for at in range(0, len(block), _FED_BYTES)):
        data, held = held + fed, b""
        while data:
            if member.eof:
                if data == _GZIP_MAGIC[:1]:  # the other half may come with the next block
                    held = data
                    break
                if data[:2] != _GZIP_MAGIC:
                    return  # padding behind the last member
                if n_members == MOST_MEMBERS:
                    raise _too_many_members(origin)
                member, n_members = inflate.decompressobj(wbits=31), n_members + 1
            text = member.decompress(data, BLOCK_BYTES)
            left = member.unused_data if member.eof else member.unconsumed_tail
            packed += len(data) - len(left)
            data = left
            if text:
                yield text, packed
    if not member.eof:
        raise EOFError


def _too_large(origin: str, found_bytes: int, limit_bytes: int) -> TraceError:
    return TraceError(
        f"{origin} holds at least {size(found_bytes)} unpacked, more than the limit of {size(limit_bytes)}",
        hint="raise it with open_trace(path, max_unpacked_bytes=...) or --max-gb, or cut the trace to fewer steps",
    )


def _too_dense(origin: str, unpacked: int, packed: int) -> TraceError:
    return TraceError(
        f"{origin} holds at least {size(unpacked)} in {size(packed)}, more than {MOST_RATIO} times its size: "
        "no trace is so repetitive",
        hint="if it is one, unpack it with gunzip and open that file",
    )


def _too_many_members(origin: str) -> TraceError:
    return TraceError(
        f"{origin} is more than {count(MOST_MEMBERS)} gzip files in one",
        hint="if it is a trace, unpack it with gunzip and open that file",
    )
