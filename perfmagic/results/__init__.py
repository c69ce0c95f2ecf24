"""What a measurement gives back: named quantities with units, and their faces. Each kind is loaded when it is used."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from perfmagic.results.bench import BenchResult
    from perfmagic.results.compare import CompareResult
    from perfmagic.results.faces import Result
    from perfmagic.results.graph import GraphResult
    from perfmagic.results.memory import MemoryResult
    from perfmagic.results.ranks import RanksResult
    from perfmagic.results.ranks_sweep import RanksSweep
    from perfmagic.results.ranks_sweep_comparison import RanksSweepComparison
    from perfmagic.results.ranks_what_if import RanksWhatIf
    from perfmagic.results.roofline import RooflineResult
    from perfmagic.results.sweep import SweepResult
    from perfmagic.results.timeline import TimelineResult
    from perfmagic.results.trace_comparison import TraceComparison
    from perfmagic.results.traces import Traces
    from perfmagic.results.what_if import WhatIfResult

__all__ = [
    "BenchResult",
    "CompareResult",
    "GraphResult",
    "MemoryResult",
    "RanksResult",
    "RanksSweep",
    "RanksSweepComparison",
    "RanksWhatIf",
    "Result",
    "RooflineResult",
    "SweepResult",
    "TimelineResult",
    "TraceComparison",
    "Traces",
    "WhatIfResult",
]
_HOME = {
    "BenchResult": "bench",
    "CompareResult": "compare",
    "GraphResult": "graph",
    "MemoryResult": "memory",
    "RanksResult": "ranks",
    "RanksSweep": "ranks_sweep",
    "RanksSweepComparison": "ranks_sweep_comparison",
    "RanksWhatIf": "ranks_what_if",
    "Result": "faces",
    "RooflineResult": "roofline",
    "SweepResult": "sweep",
    "TimelineResult": "timeline",
    "TraceComparison": "trace_comparison",
    "Traces": "traces",
    "WhatIfResult": "what_if",
}


def __getattr__(name: str) -> Any:
    if name not in _HOME:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    found = globals()[name] = getattr(import_module(f"{__name__}.{_HOME[name]}"), name)
    return found
