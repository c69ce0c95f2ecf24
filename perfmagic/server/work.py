"""python -m perfmagic.server.work SOURCE TARGET: reads a trace, or a folder of ranks, and writes what a browser gets.

A separate process: a large or hostile file costs the server neither memory nor time.
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

from perfmagic.base import units
from perfmagic.base.errors import PerfmagicError, TraceError
from perfmagic.server.reading import limit_hint, write_message

if TYPE_CHECKING:
    from perfmagic.results import RanksResult, TimelineResult

UNREADABLE = 3


def main(source: Path, target: Path, memory_bytes: int, file_bytes: int) -> int:
    """Write four bytes (length of the header), the header and the payload; or a message, and return UNREADABLE."""
    message_file = target.with_suffix(".said")
    # before the limit: libraries that cannot allocate fail in many ways
    importlib.import_module("perfmagic.results.timeline")
    _limit(memory_bytes, file_bytes)
    try:
        _write(_opened(source, message_file), target)
    except PerfmagicError as error:
        write_message(message_file, message=error.message, hint=error.hint or "")
    except (MemoryError, OSError) as error:
        number = errno.ENOMEM if isinstance(error, MemoryError) else error.errno
        if number == errno.ENOMEM:
            text = f"{source.name} needs more than {units.size(memory_bytes)} of memory to be read"
            write_message(message_file, message=text, hint=limit_hint("memory_bytes"))
        elif number == errno.EFBIG:
            text = f"the timeline of {source.name} is larger than {units.size(file_bytes)}"
            write_message(message_file, message=text, hint=limit_hint("kept_bytes"))
        else:
            text = f"{source.name} cannot be read: {getattr(error, 'strerror', None) or error}"
            write_message(message_file, message=text, hint="")
    else:
        return 0
    return UNREADABLE


def _opened(source: Path, message_file: Path) -> TimelineResult | RanksResult:
    """The result whose live view is shown. Raises PerfmagicError."""
    from perfmagic.results import TimelineResult, Traces
    from perfmagic.trace.formats.registry import endings_words
    from perfmagic.trace.formats.sources import read_traces, title_of, trace_files

    files = trace_files(source)
    if source.is_dir():
        files = [file for file in files if not file.name.startswith(".")]  # as the file browser shows them
        if not files:
            raise TraceError(f"{source.name} is a folder without {endings_words()} files")
    if len(files) > 1:
        from perfmagic.api.ranks.files import open_ranks

        return open_ranks(files, executor=_ReportingExecutor(message_file, len(files)), progress=False)
    write_message(message_file, files=0, of=1)
    timelines = [TimelineResult(trace, title=title_of(files[0].name, trace)) for trace in read_traces(files[0])]
    return timelines[0] if len(timelines) == 1 else Traces(timelines).ranks


def _write(result: TimelineResult | RanksResult, target: Path) -> None:
    live = result.live()
    if live.empty:
        raise TraceError(getattr(result, "nothing", "") or f"{result.title} has no operator and no device op")
    data = live.wire()
    header = data.header_json.encode()
    part = target.with_suffix(".part")
    try:
        part.write_bytes(len(header).to_bytes(4, "little") + header + data.payload)
        part.replace(target)
    finally:
        part.unlink(missing_ok=True)


class _ReportingExecutor(Executor):
    """Runs everything in this process, and reports the number of finished files."""

    def __init__(self, message_file: Path, n_files: int) -> None:
        self._message_file, self._n_files = message_file, n_files

    def map(
        self, fn: Callable[..., Any], *iterables: Iterable[Any], timeout: float | None = None, chunksize: int = 1
    ) -> Iterator[Any]:
        for i, given in enumerate(zip(*iterables, strict=True)):
            write_message(self._message_file, files=i, of=self._n_files)
            yield fn(*given)


def _limit(memory_bytes: int, file_bytes: int) -> None:
    """Address space, and the size of what is written, where the operating system can."""
    with suppress(ImportError, ValueError, OSError):
        import resource

        resource.setrlimit(resource.RLIMIT_AS, (memory_bytes, memory_bytes))
        resource.setrlimit(resource.RLIMIT_FSIZE, (file_bytes, file_bytes))


def _exit_with_server() -> None:
    os.read(0, 1)  # not sys.stdin, whose lock this thread would hold when Python ends
    os._exit(UNREADABLE)


if __name__ == "__main__":
    threading.Thread(target=_exit_with_server, daemon=True).start()
    sys.exit(main(Path(sys.argv[1]), Path(sys.argv[2]), int(sys.argv[3]), int(sys.argv[4])))
