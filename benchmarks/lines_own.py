"""What following lines costs by itself: an event, its beginning and end, and making paths of the log.

    python benchmarks/lines_own.py

Each is the least of many short runs, in turns with an empty call of Python's, so that figures of busy machines compare.
Prints a JSON object a figure, with its budget.
"""

import json
import sys
import time
from collections.abc import Callable
from pathlib import Path

HERE = Path(__file__).resolve().parent
sys.path.append(str(HERE.parent))

import lines_programs as programs  # noqa: E402 - beside this file

from perfmagic.capture.owner import shielded  # noqa: E402 - this checkout's
from perfmagic.capture.watch.paths import paths_of  # noqa: E402
from perfmagic.capture.watch.watch import LineWatch  # noqa: E402

ROUNDS, LINES, CALLS = 200, 400, 400


def straight() -> None:
    """Lines that do nothing, and nothing else."""


LOOP = f"def straight():\n    for _ in range({LINES // 10}):\n" + "        a = 1\n" * 9
exec(compile(LOOP, programs.__file__, "exec"), globals())


def empty() -> None:
    """What the rest is compared with."""


def empty_calls() -> None:
    """Calls of it, in a loop."""
    for _ in range(CALLS):
        empty()


def library_calls() -> None:
    """A function of the standard library's, written in Python, called once a round of one line of ours."""
    text = json.JSONEncoder.iterencode
    encoder = json.JSONEncoder()
    for _ in range(20):
        text(encoder, NESTED)


NESTED = [[1, [2]]] * 5


def least(run: Callable[[], object]) -> float:
    """In ns, of one run."""
    since = time.perf_counter_ns()
    run()
    return time.perf_counter_ns() - since


def watched(run: Callable[[], object]) -> tuple[float, LineWatch]:
    """In ns, the second run in a watch; and the watch."""
    watch = LineWatch()
    watch.acquire()
    try:
        run()  # code that is met first is told apart and prepared, once a watch
        return least(run), watch
    finally:
        watch.give_back()


def begin_and_end() -> float:
    """In ns: a watch that follows nothing, while signals wait, as they do when a recording begins and ends."""
    watch = LineWatch()
    return shielded(lambda: least(watch.acquire) + least(watch.give_back))


def log_to_paths() -> float:
    """In ns an event: a log as of small functions, read afterwards."""
    _, watch = watched(programs.small_lines)
    events = watch._events
    since = time.perf_counter_ns()
    paths_of(events.by_thread, events.of_main)
    return (time.perf_counter_ns() - since) / len(events)


def main() -> None:
    """Print the figures."""
    rounds = range(ROUNDS)
    turns = [(least(empty_calls), least(straight), watched(straight)[0], begin_and_end()) for _ in rounds]
    calls, plain, followed, session = (min(column) for column in zip(*turns, strict=True))
    call_ns, event_ns = calls / CALLS, (followed - plain) / LINES
    library = [(least(library_calls), watched(library_calls)[0]) for _ in rounds]
    ratio = min(pair[1] for pair in library) / min(pair[0] for pair in library)
    rows = {
        "an empty call, ns": (round(call_ns, 1), ""),
        "a line event, ns": (round(event_ns, 1), ""),
        "a line event, empty calls": (round(event_ns / call_ns, 2), "5"),
        "calls of library code, ratio": (round(ratio, 3), ""),
        "begin and end, ms": (round(session / 1e6, 3), "0.5"),
        "log to paths, µs an event": (round(min(log_to_paths() for _ in range(5)) / 1e3, 2), "1"),
    }
    for what, (figure, budget) in rows.items():
        print(json.dumps({"what": what, "figure": figure, "budget": budget}, ensure_ascii=False), flush=True)


if __name__ == "__main__":
    main()
