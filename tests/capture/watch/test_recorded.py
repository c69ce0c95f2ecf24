"""Lines of functions in a recording: what is there, what is said of what is not, and what is given back."""

import sys
import threading
from collections.abc import Iterator

import pytest

import perfmagic
from perfmagic.capture.recording.recorder import Recorder
from perfmagic.trace.model import Trace


def work(n: int) -> int:
    total = 0
    for i in range(n):
        total += i
    return total


def recorded(run: object, **options: object) -> Trace:
    recorder = Recorder(device="cpu", lines=True, **options)  # type: ignore[arg-type]
    recorder.start()
    run()  # type: ignore[operator]
    return recorder.stop()


def functions(trace: Trace) -> list[str]:
    assert trace.paths is not None
    return [function.name for function in trace.paths.functions]


@pytest.fixture
def traced() -> Iterator[object]:
    """A debugger at work."""
    before = sys.gettrace()

    def debugger(*_args: object) -> object:
        return debugger

    sys.settrace(debugger)
    yield debugger
    sys.settrace(before)


def test_the_functions_that_ran_are_there_in_order() -> None:
    trace = recorded(lambda: work(3))
    assert functions(trace)[-1] == "work"
    assert sys.gettrace() is None


@pytest.mark.skipif(sys.version_info >= (3, 12), reason="sys.monitoring follows lines beside a debugger")
def test_a_debugger_is_left_alone_and_the_result_says_so(traced: object) -> None:
    trace = recorded(lambda: work(3))
    assert sys.gettrace() is traced
    assert trace.paths is None
    assert "lines_not_followed" in {note.kind for note in trace.meta.notes}


def test_a_recording_that_fails_or_is_thrown_away_leaves_nothing_behind() -> None:
    n = threading.active_count()
    recorder = Recorder(device="cpu", lines=True)
    recorder.start()
    recorder.give_back()
    recorder.give_back()
    assert sys.gettrace() is None
    assert threading.active_count() == n
    assert "work" in functions(recorded(lambda: work(3)))


def test_lines_are_followed_when_asked_for_and_else_where_they_cost_nothing() -> None:
    def paths(**options: object) -> bool:
        recorder = Recorder(device="cpu", **options)  # type: ignore[arg-type]
        recorder.start()
        return recorder.stop().paths is not None

    assert not paths(lines=False)
    assert paths(lines=True)
    assert paths() is (sys.version_info >= (3, 12))


def test_a_block_in_a_function_has_that_functions_lines() -> None:
    def train() -> perfmagic.TimelineResult:
        with perfmagic.timeline(device="cpu", lines=True) as t:
            work(10)
            work(20)
        return t.result

    result = train()
    rows = result.lines.in_function("work")
    assert {row.line - rows[0].line for row in rows} == {0, 1, 2, 3, 4}
    names = [row.function for row in result.lines]
    assert names[0].endswith("train")


def test_deep_recursion_is_one_row_a_line() -> None:
    def down(n: int) -> int:
        return down(n - 1) if n else 0

    trace = recorded(lambda: down(600))
    assert functions(trace).count("test_deep_recursion_is_one_row_a_line.<locals>.down") <= 1
    assert trace.paths is not None
    assert len(trace.paths) > 600


def test_another_thread_has_a_path_of_its_own() -> None:
    def run() -> None:
        thread = threading.Thread(target=work, args=(5,))
        thread.start()
        thread.join()

    trace = recorded(run)
    assert len(trace.paths.by_thread) == 2


@pytest.mark.skipif(sys.version_info >= (3, 12), reason="sys.monitoring follows lines beside a debugger")
def test_a_debugger_that_begins_in_the_cell_ends_the_following_and_the_result_says_so() -> None:
    def debugged() -> None:
        work(2)
        sys.settrace(None)  # what pdb's "continue" does
        work(3)

    trace = recorded(debugged)
    assert 0 < trace.paths.until_ns < trace.meta.end_ns
    (message,) = [note.words for note in trace.meta.notes if note.kind == "lines_ended_early"]
    assert message.endswith("a debugger or another tool took over Python's trace function")
