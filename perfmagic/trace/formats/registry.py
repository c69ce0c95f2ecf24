"""The formats of trace files: a row each. docs/add-a-reader.md says how to add one.

A reader is a module with two functions. It is imported when a file begins like its format.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import NamedTuple, Protocol, TypeAlias

from perfmagic.trace.kineto.file import Blocks
from perfmagic.trace.model import Trace

HEAD_BYTES = 4096
File: TypeAlias = Path | Blocks


class Reader(Protocol):
    """What the module of a format has."""

    def sniff(self, head: bytes) -> bool:
        """Whether a file is of this format.  head: its first HEAD_BYTES, less of a shorter file."""
        ...

    def read(self, file: File, max_unpacked_bytes: int, *, helper: bool) -> list[Trace]:
        """The traces of a file, one a rank, in order.

        file: a path; Blocks only where the format `streams`. max_unpacked_bytes: of what is read into memory.
        helper: whether a second process may decode a part. Raises TraceError for what cannot be read.
        """
        ...


class Format(NamedTuple):
    """One format.

    name: of the program that writes it.  endings: by which a folder and JupyterLab know its files.
    magic: how a file begins, one of these.  module: its reader.
    streams: whether it is read in blocks; a file elsewhere is fetched whole for other readers.
    """

    name: str
    endings: tuple[str, ...]
    magic: tuple[bytes, ...]
    module: str
    streams: bool = False


# the first one that fits; Kineto's takes, and repairs, what no other claims
FORMATS = (
    Format("perfmagic", (".npz",), (b"PK\x03\x04",), "perfmagic.trace.formats.npz"),
    Format("jax.profiler", (".xplane.pb",), (b"\n",), "perfmagic.trace.formats.xplane", streams=True),
    Format("Nsight Systems", (".sqlite",), (b"SQLite format 3\0",), "perfmagic.trace.formats.nsight.reader"),
    Format("torch.profiler", (".json", ".json.gz"), (b"",), "perfmagic.trace.kineto.reader", streams=True),
)
ENDINGS = tuple(ending for form in reversed(FORMATS) for ending in form.endings)
_NAME = re.compile(rf"(?:{'|'.join(map(re.escape, ENDINGS))})$")


def is_trace_name(name: str) -> bool:
    """Whether a file of a folder is taken for a trace, by its ending."""
    return _NAME.search(name) is not None


def endings_words() -> str:
    """The endings for a sentence: ".json, .json.gz or .npz"."""
    return f"{', '.join(ENDINGS[:-1])} or {ENDINGS[-1]}"
