"""What t.flame() is of: selections, threads, the time in which the device waited; and what it is written as."""

import json
import xml.etree.ElementTree as ET
from pathlib import Path

import pytest

from perfmagic import OptionError, TimelineResult, TraceError
from perfmagic.analysis.findings.facts import Facts
from perfmagic.base.errors import PerfmagicError
from perfmagic.base.numerics.intervals import total_ns
from perfmagic.trace.columns import HostKind
from tests.analysis.build import US, Builder
from tests.trace.recorded import real_trace


def steps() -> Builder:
    """Two steps: Python prepares from 0 to 20, queues at 22, computes till 60, queues at 62; the device runs twice."""
    b = Builder()
    b.host_op(0, 50, "ProfilerStep#3", kind=HostKind.ANNOTATION)
    b.host_op(50, 90, "ProfilerStep#4", kind=HostKind.ANNOTATION)
    b.host_op(0, 90, "run.py(1): main", kind=HostKind.PYTHON)
    b.host_op(2, 20, "load.py(9): load", kind=HostKind.PYTHON)
    b.host_op(40, 60, "load.py(9): load", kind=HostKind.PYTHON)
    b.host_op(10, 30, "aten::add", thread=5)
    b.op(24, 30, launch=(22, 23))
    b.op(65, 80, launch=(62, 63))
    return b


def timeline() -> TimelineResult:
    return TimelineResult(steps().trace(end=100))


def times(result: TimelineResult, **asked: object) -> dict[str, float]:
    """Total time in µs by name."""
    return {path.name: path.total_ns / US for path in result.flame(**asked).data.paths}  # type: ignore[arg-type]


def test_without_a_selection_it_is_of_the_whole_record() -> None:
    assert times(timeline()) == {"main thread": 100, "main (run.py:1)": 90, "load (load.py:9)": 38}
    sentence = "Python on the main thread, 100 µs in the whole record; frames recorded"
    assert timeline().flame().data.sentence == sentence.replace("0 µ", "0\u00a0µ")


def test_a_step_a_window_and_an_answer_are_a_part_of_the_record() -> None:
    assert times(timeline(), step=4) == {"main thread": 40, "main (run.py:1)": 40, "load (load.py:9)": 10}
    assert times(timeline(), start_ns=15 * US, end_ns=25 * US)["load (load.py:9)"] == 5
    assert "in step 4; " in timeline().flame(step=4).data.sentence
    assert "from 30.0\u00a0µs to 40.0\u00a0µs;" in timeline().flame(30 * US, 40 * US).data.sentence
    assert "before the first device op;" in timeline().flame(0, 24 * US).data.sentence


def test_an_answer_is_its_time() -> None:
    result = TimelineResult(real_trace("b200_pdl_overlaps_python_stacks"))
    answer = result.answers.answers[0]
    flame = result.flame(answer=1)
    assert answer.headline in flame.data.sentence
    assert flame.data.paths == result.flame(answer.start_ns, answer.end_ns).data.paths


def test_a_line_is_all_the_time_that_python_was_on_it() -> None:
    b = steps()
    for at, line in ((0, 2), (40, 3), (70, 2), (90, 0)):
        b.line(at, line)
    result = TimelineResult(b.trace(end=100, returned=95))
    assert times(result, line=2) == {"main thread": 60, "main (run.py:1)": 60, "load (load.py:9)": 18}


def test_the_weight_idle_is_the_time_in_which_the_device_waited_for_python() -> None:
    # the device is idle from 30 to 65; until the second launch begins, at 62, it waits for Python
    assert times(timeline(), weight="idle") == {"main thread": 32, "main (run.py:1)": 32, "load (load.py:9)": 20}
    trace = real_trace("b200_pdl_overlaps_python_stacks")
    flame = TimelineResult(trace).flame(weight="idle").data
    assert flame.total_ns == total_ns(Facts(trace).cell_time.waited_for_host)
    assert sum(path.self_ns for path in flame.paths) == flame.total_ns
    assert "while the device was idle and waited for it" in flame.sentence


def test_other_threads_are_shown_when_asked_for() -> None:
    assert times(timeline(), thread=5) == {"thread 5": 100, "aten::add": 20}
    flame = timeline().flame(by_thread=True).data
    assert flame.total_ns == 200 * US
    assert [path.name for path in flame.paths if path.depth == 0] == ["main thread", "thread 5"]
    assert flame.sentence.startswith("Python on 2 threads,")


REFUSED: dict[str, tuple[dict[str, object], str, str]] = {
    "two selections": ({"step": 3, "line": 2}, "not step and line", ""),
    "no such step": ({"step": 7}, "there is no step 7", "steps: 3 and 4"),
    "no such line": ({"line": 7}, "there is no line 7", "%%timeline records the lines"),
    "no such answer": ({"answer": 9}, "there is no answer 9", "answer"),
    "no such thread": ({"thread": 7}, "nothing was recorded on thread 7", "threads: 1 and 5"),
    "a thread and all": ({"thread": 5, "by_thread": True}, "one thread or by_thread", ""),
    "text for a thread": ({"thread": "x"}, "a thread is a number, not 'x'", ""),
    "half a window": ({"start_ns": 5}, "times in ns are needed, not 5 and None", "finding.start_ns"),
    "a time outside": ({"start_ns": 200_000, "end_ns": 300_000}, "nothing from 200", "from 0 to 100000 ns"),
    "no such weight": ({"weight": "idel"}, "there is no weight 'idel'", "did you mean idle?"),
}


@pytest.mark.parametrize("case", REFUSED)
def test_what_is_not_there_is_an_error_that_says_what_is(case: str) -> None:
    asked, words, hint = REFUSED[case]
    with pytest.raises(OptionError) as refused:
        timeline().flame(**asked)  # type: ignore[arg-type]
    assert words in refused.value.message
    assert hint in (refused.value.hint or "")


def error_of(result: TimelineResult, **asked: object) -> PerfmagicError:
    with pytest.raises(TraceError) as refused:
        result.flame(**asked)  # type: ignore[arg-type]
    return refused.value


def test_a_picture_is_never_empty() -> None:
    b = Builder()
    b.op(24, 30, launch=(22, 23))
    without = error_of(TimelineResult(b.trace()))
    assert "no frame, line, operator or annotation was recorded" in without.message
    assert "with_stack=True" in (without.hint or "")
    assert "nothing was recorded on the main thread" in error_of(timeline(), start_ns=92_000, end_ns=99_000).message
    assert "the device never waited for Python" in error_of(timeline(), start_ns=0, end_ns=9_000, weight="idle").message


def test_it_is_saved_by_its_ending(tmp_path: Path) -> None:
    flame = timeline().flame()
    assert ET.parse(flame.save(tmp_path / "a.svg")).getroot().tag.endswith("svg")
    assert "<title>load (load.py:9)" in flame.save(tmp_path / "a.html").read_text("utf-8")
    assert flame.save(tmp_path / "a.folded").read_text("utf-8").splitlines() == [
        "main thread 10",
        "main thread;main (run.py:1) 52",
        "main thread;main (run.py:1);load (load.py:9) 38",
    ]
    written = json.loads(flame.save(tmp_path / "a.json").read_text("utf-8"))
    assert written["total_ns"] == 100 * US
    assert [path["self_ns"] for path in written["paths"]] == [10 * US, 52 * US, 38 * US]
    with pytest.raises(OptionError, match=r"saved as \.svg, \.html"):
        flame.save(tmp_path / "a.png")
