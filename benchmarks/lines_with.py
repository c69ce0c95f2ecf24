"""One way to follow lines, on one program, in a process of its own: what benchmarks/lines.py starts.

    python benchmarks/lines_with.py TOOL PROGRAM ROUNDS
    python -m scalene run [--memory] -o FILE benchmarks/lines_with.py scalene PROGRAM ROUNDS

Chunks with the tool and without it take turns; under scalene all are with it. Prints a JSON object: CPU time of the
process in seconds, of each chunk.
"""

import contextlib
import gc
import importlib.metadata
import json
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any

HERE = Path(__file__).resolve().parent
sys.path.append(str(HERE.parent))

import lines_programs as programs  # noqa: E402 - beside this file

from perfmagic.capture.watch.watch import LineWatch  # noqa: E402 - this checkout's

Found = dict[str, Any]
Session = Callable[[Found], AbstractContextManager[None]]


@contextlib.contextmanager
def watch(found: Found) -> Iterator[None]:
    """perfmagic's lines alone."""
    watching = LineWatch()
    watching.acquire()
    try:
        yield
    finally:
        watching.give_back()
        rows = [row for rows in watching._events.by_thread.values() for row in rows]
        found["events"] = len(rows)
        some = rows[-1000:]
        each = sum(sys.getsizeof(row) + sys.getsizeof(row[0]) + 8 for row in some) / max(len(some), 1)
        found["log_mb"] = round(len(rows) * each / 1e6, 1)
        found["let_go"] = [code.co_name for code in watching._hot.untracked] if watching._hot else []


def recording(**options: Any) -> Session:
    """A recording as %%timeline makes it."""

    @contextlib.contextmanager
    def session(found: Found) -> Iterator[None]:
        from perfmagic.capture.recording.recorder import Recorder

        recorder = Recorder(device="cpu", **options)
        recorder.start()
        try:
            yield
        finally:
            paths = recorder.stop().paths
            found["marks"] = 0 if paths is None else len(paths.marks)

    return session


@contextlib.contextmanager
def with_stack(_found: Found) -> Iterator[None]:
    """torch's profiler with stacks, stopped, its events left unread."""
    from torch.autograd import profiler

    with profiler.profile(use_kineto=True, with_stack=True):
        yield


@contextlib.contextmanager
def line_profiler(found: Found) -> Iterator[None]:
    """line_profiler on the program's functions, which it must be told."""
    from line_profiler import LineProfiler

    tool = LineProfiler(*programs.FUNCTIONS)
    tool.enable_by_count()
    try:
        yield
    finally:
        tool.disable_by_count()
        found["lines"] = sum(map(len, tool.get_stats().timings.values()))


@contextlib.contextmanager
def started_by_it(_found: Found) -> Iterator[None]:
    """scalene: it runs this script, and follows it from the first line to the last."""
    yield


TOOLS: dict[str, Session] = {
    "lines": watch,
    "timeline": recording(lines=False),
    "timeline + lines": recording(lines=True),
    "timeline + lines + memory": recording(lines=True, memory=True),
    "with_stack": with_stack,
    "line_profiler": line_profiler,
    "scalene": started_by_it,
    "scalene --memory": started_by_it,
}


def chunk(run: Callable[[], object], session: AbstractContextManager[None]) -> float:
    """CPU time of one run inside a session, in s: all threads of the process, without the session's begin and end."""
    gc.collect()
    gc.disable()
    try:
        with session:
            since = time.process_time()
            run()
            return time.process_time() - since
    finally:
        gc.enable()


def main() -> None:
    """Run the chunks and print their times."""
    tool, program, rounds = sys.argv[1], sys.argv[2], int(sys.argv[3])
    run = programs.of(program)
    found: Found = {"tool": tool, "program": program, "python": sys.version.split()[0]}
    with contextlib.suppress(importlib.metadata.PackageNotFoundError):
        found["version"] = importlib.metadata.version(tool.split(maxsplit=1)[0])
    for session in (contextlib.nullcontext(), TOOLS[tool](found)):  # imports and caches, not counted
        chunk(run, session)
    found["plain_s"], found["tool_s"] = [], []
    for _ in range(rounds):
        found["plain_s"].append(chunk(run, contextlib.nullcontext()))
        found["tool_s"].append(chunk(run, TOOLS[tool](found)))
    print(json.dumps(found), flush=True)


if __name__ == "__main__":
    main()
