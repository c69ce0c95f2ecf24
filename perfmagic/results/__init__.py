"""What a measurement gives back: named quantities with units, and their faces."""

from perfmagic.results.bench import BenchResult
from perfmagic.results.compare import CompareResult
from perfmagic.results.faces import Result
from perfmagic.results.ranks import RanksResult, Traces
from perfmagic.results.ranks_sweep import RanksSweep
from perfmagic.results.roofline import RooflineResult
from perfmagic.results.sweep import SweepResult
from perfmagic.results.timeline import TimelineResult
from perfmagic.results.trace_comparison import TraceComparison

__all__ = [
    "BenchResult",
    "CompareResult",
    "RanksResult",
    "RanksSweep",
    "Result",
    "RooflineResult",
    "SweepResult",
    "TimelineResult",
    "TraceComparison",
    "Traces",
]
