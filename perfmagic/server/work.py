"""python -m perfmagic.server.work SOURCE TARGET: reads a trace, or a folder of ranks, and writes what a browser gets.

A process of its own, so that a large or hostile file costs the server neither its memory nor its time.
"""

from __future__ import annotations

import errno
import importlib
import os
import sys
import threading
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Executor
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

from perfmagic import units
from perfmagic.errors import PerfmagicError, TraceError
from perfmagic.server.limits import settable
from perfmagic.server.outcomes import tell

if TYPE_CHECKING:
    from perfmagic.results import RanksResult, TimelineResult

REFUSED = 3


def main(source: Path, target: Path, memory_bytes: int, file_bytes: int) -> int:
    """Write four bytes (length of the header), the header and the payload; or say why not, and give REFUSED."""
    said = target.with_suffix(".said")
    importlib.import_module("perfmagic.results.timeline")  # libraries that lack memory to load say so in many ways
    _limit(memory_bytes, file_bytes)
    try:
        _write(_opened(source, said), target)
    except PerfmagicError as error:
        tell(said, message=error.message, hint=error.hint or "")
    except MemoryError:
        words = f"{source.name} needs more than {units.size(memory_bytes)} of memory to be read"
        tell(said, message=words, hint=settable("memory_bytes"))
    except OSError as error:
        if error.errno == errno.EFBIG:
            words = f"the timeline of {source.name} is larger than {units.size(file_bytes)}"
            tell(said, message=words, hint=settable("kept_bytes"))
        else:
            tell(said, message=f"{source.name} cannot be read: {error.strerror or error}", hint="")
    else:
        return 0
    return REFUSED


def _opened(source: Path, said: Path) -> TimelineResult | RanksResult:
    """The result whose live view is shown. Raises PerfmagicError."""
    from perfmagic.results import TimelineResult
    from perfmagic.trace.formats.sources import read_file, trace_files

    files = trace_files(source)
    if source.is_dir():
        files = [file for file in files if not file.name.startswith(".")]  # as the file browser shows them
        if not files:
            raise TraceError(f"{source.name} is a folder without .json, .json.gz or .npz files")
    if len(files) > 1:
        from perfmagic.rank_files import open_ranks

        return open_ranks(files, executor=_Telling(said, len(files)), progress=False)
    tell(said, files=0, of=1)
    return TimelineResult(read_file(files[0]), title=files[0].name)


def _write(result: TimelineResult | RanksResult, target: Path) -> None:
    live = result.live()
    if live.empty:
        raise TraceError(getattr(result, "nothing", "") or f"{result.title} has no operator and no device op")
    wire = live.wire()
    header = wire.header_json.encode()
    part = target.with_suffix(".part")
    try:
        part.write_bytes(len(header).to_bytes(4, "little") + header + wire.payload)
        part.replace(target)
    finally:
        part.unlink(missing_ok=True)


class _Telling(Executor):
    """Runs everything here, one after the other, and tells how many are done."""

    def __init__(self, said: Path, n_files: int) -> None:
        self._said, self._n_files = said, n_files

    def map(
        self, fn: Callable[..., Any], *iterables: Iterable[Any], timeout: float | None = None, chunksize: int = 1
    ) -> Iterator[Any]:
        for i, given in enumerate(zip(*iterables, strict=True)):
            tell(self._said, files=i, of=self._n_files)
            yield fn(*given)


def _limit(memory_bytes: int, file_bytes: int) -> None:
    """Address space, and the size of what is written, where the operating system can."""
    with suppress(ImportError, ValueError, OSError):
        import resource

        resource.setrlimit(resource.RLIMIT_AS, (memory_bytes, memory_bytes))
        resource.setrlimit(resource.RLIMIT_FSIZE, (file_bytes, file_bytes))


def _end_with_the_server() -> None:
    os.read(0, 1)  # not sys.stdin, whose lock this thread would hold when Python ends
    os._exit(REFUSED)


if __name__ == "__main__":
    threading.Thread(target=_end_with_the_server, daemon=True).start()
    sys.exit(main(Path(sys.argv[1]), Path(sys.argv[2]), int(sys.argv[3]), int(sys.argv[4])))
