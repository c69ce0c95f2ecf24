"""What is of the wrong type is refused before anything runs: where, what was given, and what to give."""

from collections.abc import Callable

import pytest

import perfmagic
from perfmagic.base.errors import OptionError
from tests.analysis.build import Builder


def timeline() -> perfmagic.TimelineResult:
    return perfmagic.TimelineResult(Builder().trace())


WRONG: dict[str, tuple[Callable[[], object], str, str]] = {
    "an iterator to sweep": (
        lambda: perfmagic.sweep(int, iter([1, 2])),
        "sweep: values is of type list_iterator, which has no length",
        "a list",
    ),
    "a number to sweep": (lambda: perfmagic.sweep(int, 3), "sweep: values is of type int", "a list"),
    "one value": (lambda: perfmagic.sweep(int, [3]), "sweep: 1 value given", "[256, 512]"),
    "steps as text": (lambda: perfmagic.timeline(active="3"), "timeline(active='3'): a whole number", "active=2"),
    "half a step": (lambda: perfmagic.timeline(wait=1.5), "timeline(wait=1.5): a whole number", "wait=1"),
    "no step": (lambda: perfmagic.timeline(active=0), "timeline(active=0): a whole number", "active=2"),
    "a number for a trace": (lambda: perfmagic.open_trace(3), "a path is needed, not 3 (int)", "name of a file"),
    "a number for traces": (lambda: perfmagic.open_traces(3), "a path is needed, not 3 (int)", "name of a file"),
    "a number for a result": (lambda: perfmagic.load(3), "a path is needed, not 3 (int)", "name of a file"),
    "a number for ranks": (lambda: perfmagic.rank_findings(3), "timelines are needed", "open_traces"),
    "a number for a benchmark": (lambda: perfmagic.measurement(3), "measurement: the result of", "perfmagic.bench"),
    "text for a count": (lambda: perfmagic.devices("2"), "devices('2'): a whole number", "devices(2)"),
    "no device": (lambda: perfmagic.devices(0), "devices(0): a whole number", "devices(2)"),
    "a number to syncbench": (lambda: perfmagic.syncbench(3), "syncbench: int is not a function", "without ()"),
    "a number for names to compare": (lambda: perfmagic.compare(int, str, names=3), "names=3", '["before", "after"]'),
    "text for a pace": (lambda: perfmagic.Pace("2"), "pace: a number is needed, not '2'", "kernel_s=1e-3"),
    "a list for paces": (lambda: perfmagic.Pace(by_name=[]), "by_name is a dict", "'mm'"),
    "a number for peaks": (lambda: timeline().roofline(peaks=3), "roofline: peaks are perfmagic.Peaks, not 3", "fp16"),
    "text for times": (lambda: timeline().zoom("a", "b"), "zoom: times in ns are needed, not 'a' and 'b'", "start_ns"),
    "no time": (lambda: timeline().zoom(float("nan"), 3), "zoom: times in ns are needed, not nan and 3", "start_ns"),
    "text for a thread": (
        lambda: timeline().python_during(0, 9, thread="x"),
        "python_during: a thread is a number, not 'x'",
        "by_thread=True",
    ),
    "a number for JSON": (lambda: perfmagic.BenchResult.from_json(3), "text is needed, not 3", "perfmagic.load"),
    "a number for work": (lambda: perfmagic.bench(int, work=3), "work: a function is needed, not int", ""),
    "other work": (lambda: perfmagic.bench(int, work=int), "work: the function returned 0", "perfmagic.Work"),
    "a number for code": (lambda: perfmagic.bench(int, code=3), "code: text is needed, not 3", ""),
    "nothing for a time": (lambda: perfmagic.bench(int, time=None), "time: a number is needed, not None", ""),
    "nothing for runs": (lambda: perfmagic.bench(int, runs=None), "runs: a whole number is needed, not None", ""),
    "a number for names": (
        lambda: perfmagic.open_trace("run.json", comm_names=3),
        "comm names 3 are not a regular expression",
        "text",
    ),
}


@pytest.mark.parametrize("case", WRONG)
def test_a_value_of_the_wrong_type_is_an_error_with_a_hint(case: str) -> None:
    call, words, hint = WRONG[case]
    if "devices(" in words:
        pytest.importorskip("torch", reason="perfmagic.devices asks for torch first")
    with pytest.raises(OptionError) as refused:
        call()
    assert words in refused.value.message
    assert hint in (refused.value.hint or "")
