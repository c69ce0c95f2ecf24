"""What is kept for a trace goes with the trace."""

import copy
import gc
import pickle
import weakref
from typing import Any

import pytest

from perfmagic.results import TimelineResult
from perfmagic.trace.kineto.reader import read_trace
from perfmagic.trace.model import Trace, once_per_trace
from tests.trace.recorded import FOLDER
from tests.view.timeline.build import queue_of

pytestmark = pytest.mark.slow


@pytest.fixture
def trace() -> Trace:
    return read_trace(FOLDER / "v100_4streams_nccl_step.json.gz")


def test_a_result_is_worked_out_once_for_each_trace_and_its_options(trace: Trace) -> None:
    asked = []

    @once_per_trace
    def pair(of: Trace, option: int = 0) -> tuple[Trace, int]:
        asked.append(option)
        return of, option

    assert pair(trace, 1) is pair(trace, 1)
    assert pair(trace, option=2) is pair(trace, 2)
    assert pair(trace) is pair(trace, 0) is pair(trace, option=0)
    assert asked == [1, 2, 0]


@pytest.mark.parametrize("of", ["trace", "ops"])
def test_a_result_that_refers_to_its_trace_does_not_keep_it(trace: Trace, of: str) -> None:
    @once_per_trace
    def itself(one: Any) -> list[Any]:
        return [one]

    one = copy.copy(trace) if of == "trace" else copy.copy(trace.ops)
    itself(one)
    gone = weakref.ref(one)
    del one
    gc.collect()
    assert gone() is None


def test_a_timeline_that_was_shown_goes_with_its_last_reference() -> None:
    result = TimelineResult(queue_of())
    assert result.html()
    assert result.text()
    gone = weakref.ref(result.trace)
    del result
    gc.collect()
    assert gone() is None


@pytest.mark.parametrize("copied", [copy.deepcopy, lambda trace: pickle.loads(pickle.dumps(trace))])
def test_a_copy_begins_without_results(trace: Trace, copied: Any) -> None:
    asked = []

    @once_per_trace
    def count(of: Trace) -> int:
        asked.append(of)
        return len(of.ops)

    assert count(trace) == count(copied(trace))
    assert len(asked) == 2
