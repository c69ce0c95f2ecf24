"""What a measurement gives back: named quantities, as text, page and picture. Each kind is loaded when it is used."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from perfmagic.results.bench import BenchResult, CompareResult, SweepResult
    from perfmagic.results.flame import FlameResult
    from perfmagic.results.flight import FlightResult
    from perfmagic.results.graph import GraphResult
    from perfmagic.results.memory import MemoryResult
    from perfmagic.results.ranks import RanksResult, RanksWhatIf, Traces
    from perfmagic.results.ranks_sweep import RanksSweep, RanksSweepComparison
    from perfmagic.results.result import Result
    from perfmagic.results.timeline import RooflineResult, TimelineResult
    from perfmagic.results.trace_comparison import TraceComparison
    from perfmagic.results.what_if import WhatIfResult

__all__ = [
    "BenchResult", "CompareResult", "FlameResult", "FlightResult", "GraphResult", "MemoryResult", "RanksResult",
    "RanksSweep", "RanksSweepComparison", "RanksWhatIf", "Result", "RooflineResult", "SweepResult", "TimelineResult",
    "TraceComparison", "Traces", "WhatIfResult",
]  # fmt: skip
_NAMES = {
    "bench": "BenchResult CompareResult SweepResult",
    "flame": "FlameResult",
    "flight": "FlightResult",
    "graph": "GraphResult",
    "memory": "MemoryResult",
    "ranks": "RanksResult RanksWhatIf Traces",
    "ranks_sweep": "RanksSweep RanksSweepComparison",
    "result": "Result",
    "timeline": "RooflineResult TimelineResult",
    "trace_comparison": "TraceComparison",
    "what_if": "WhatIfResult",
}
_HOME = {name: module for module, names in _NAMES.items() for name in names.split()}


def __getattr__(name: str) -> Any:
    if name not in _HOME:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = globals()[name] = getattr(import_module(f"{__name__}.{_HOME[name]}"), name)
    return value
