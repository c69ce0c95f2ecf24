"""What is of the wrong type is refused before anything runs: where, what was given, and what to give."""

from __future__ import annotations

from collections.abc import Callable

import pytest

import perfmagic
from perfmagic.errors import OptionError

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
    "a number to syncbench": (lambda: perfmagic.syncbench(3), "syncbench: int is no function", "without ()"),
    "a number for names to compare": (lambda: perfmagic.compare(int, str, names=3), "names=3", '["before", "after"]'),
    "a number for names": (
        lambda: perfmagic.open_trace("run.json", comm_names=3),
        "comm names 3 are no regular expression",
        "text",
    ),
}


@pytest.mark.parametrize("case", WRONG)
def test_a_value_of_the_wrong_type_is_refused_with_what_to_give(case: str) -> None:
    call, words, hint = WRONG[case]
    with pytest.raises(OptionError) as refused:
        call()
    assert words in refused.value.message
    assert hint in (refused.value.hint or "")
