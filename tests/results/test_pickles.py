"""Every kind of result goes to another process and comes back the same, by pickle alone, and can be copied."""

import copy
import pickle
from collections.abc import Callable
from typing import Any

import pytest

import perfmagic
from perfmagic import results
from perfmagic.changes import faster, faster_python, no_item, overlap_copies, pin
from perfmagic.results import FlightResult, GraphResult, MemoryResult, RanksSweep, TimelineResult
from perfmagic.results.ranks import Traces
from perfmagic.trace.formats.flight import Dump
from tests.analysis.graph.made import two_devices
from tests.api.test_rank_comparisons import job
from tests.results.test_flame_result import timeline as steps_of_python
from tests.trace.recorded import eight_ranks, real
from tests.view.timeline.build import queue_of
from tests.view.timeline.golden import roofline_of

pytestmark = pytest.mark.slow
FEW: dict[str, Any] = {"samples": 6, "warmup": 0}
TWO = sorted(eight_ranks().iterdir())[:2]  # each copy works everything out again


def bench() -> Any:
    return perfmagic.bench(lambda: sum(range(99)), **FEW)


def of_ranks() -> RanksSweep:
    return RanksSweep.of([[job(n=n, rounds=rounds) for rounds in (4, 5, 6)] for n in (1, 2)], "weak")


def looked_at() -> Any:
    """Ranks whose pictures and tables have been made: what was worked out for them is no part of the copy."""
    found = job()
    found.html(), found.live().wire(), found.table
    return found


MADE: dict[str, Callable[[], Any]] = {
    "BenchResult": bench,
    "CompareResult": lambda: perfmagic.compare(bench(), bench()),
    "FlameResult": lambda: steps_of_python().flame(),
    "FlightResult": lambda: FlightResult((Dump(0, "nccl_trace_rank_0", "2.10", "nccl", (), (), 0),)),
    "GraphResult": lambda: GraphResult(*two_devices()),
    "MemoryResult": lambda: MemoryResult(perfmagic.open_trace(real("v100_fsdp_memory_events")).trace),
    "RanksResult": job,
    "RanksResult that was looked at": looked_at,
    "RanksResult of open_ranks": lambda: perfmagic.open_ranks(TWO),
    "RanksResult of open_traces": lambda: perfmagic.open_traces(*TWO).ranks,
    "RanksSweep": of_ranks,
    "RanksSweepComparison": lambda: perfmagic.compare(of_ranks(), of_ranks()),
    "RanksWhatIf": lambda: job(slow_us=800).what_if(faster_python(2), ranks=[1]),
    "RooflineResult": lambda: TimelineResult(roofline_of(None)).roofline(),
    "SweepResult": lambda: perfmagic.sweep(lambda n: sum(range(n)), [100, 1000], synced=False, **FEW),
    "TimelineResult": lambda: TimelineResult(queue_of()),
    "TraceComparison": lambda: perfmagic.compare(TimelineResult(queue_of()), TimelineResult(queue_of())),
    "TraceComparison of ranks": lambda: perfmagic.compare(job(), job(slow_us=800)),
    "Traces": lambda: Traces(job().timelines),
    "WhatIfResult of several changes": lambda: TimelineResult(queue_of()).what_if(no_item(), pin(), overlap_copies()),
    "WhatIfResult": lambda: TimelineResult(queue_of()).what_if(faster(k=2)),
}
COPIES: dict[str, Callable[[Any], Any]] = {
    "pickle": lambda result: pickle.loads(pickle.dumps(result)),
    "the oldest pickle": lambda result: pickle.loads(pickle.dumps(result, 2)),
    "deepcopy": copy.deepcopy,
    "copy": copy.copy,
}


def test_each_kind_of_result_is_tried_here() -> None:
    assert {name.split(maxsplit=1)[0] for name in MADE} == set(results.__all__) - {"Result"}


@pytest.mark.parametrize("name", MADE)
def test_a_copy_shows_and_says_the_same(name: str) -> None:
    result = MADE[name]()
    assert type(result).__name__ == name.split(maxsplit=1)[0]
    said = result._repr_mimebundle_()
    for how, copied in COPIES.items():
        again = copied(result)
        assert type(again) is type(result), how
        assert again._repr_mimebundle_() == said, how
        assert not hasattr(result, "to_dict") or again.to_dict() == result.to_dict(), how


@pytest.mark.parametrize(
    "of",
    [
        lambda: TimelineResult(queue_of()).curve(),
        lambda: TimelineResult(queue_of()).lines,
        lambda: TimelineResult(queue_of()).kernels(),
        lambda: job().findings,
    ],
)
def test_a_table_of_a_result_can_be_copied(of: Callable[[], Any]) -> None:
    table = of()
    for copied in COPIES.values():
        again = copied(table)
        assert (type(again), list(again), repr(again)) == (type(table), list(table), repr(table))
