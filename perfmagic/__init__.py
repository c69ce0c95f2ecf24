"""perfmagic: when Python queued work and when the device executed it, inside a notebook cell.

    %load_ext perfmagic

gives %%timeline, %%bench, %%syncbench, %compare and %trace. The same as functions: perfmagic.timeline(),
perfmagic.bench(f), perfmagic.syncbench(f), perfmagic.compare(f, g), perfmagic.open_trace(path). Importing this package
imports nothing heavy: a name's module is imported when the name is first used.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

__version__ = "0.1.0"

_HOMES = {
    # functions
    "bench": "perfmagic.benchmarks",
    "compare": "perfmagic.comparisons",
    "device": "perfmagic.api",
    "devices": "perfmagic.api",
    "graph": "perfmagic.graphs",
    "last": "perfmagic.api",
    "load": "perfmagic.saved",
    "measurement": "perfmagic.benchmarks",
    "open_snapshot": "perfmagic.api",
    "open_trace": "perfmagic.api",
    "open_traces": "perfmagic.api",
    "open_ranks": "perfmagic.rank_files",
    "rank_findings": "perfmagic.api",
    "ranks": "perfmagic.rank_sessions",
    "roofline": "perfmagic.rooflines",
    "sweep": "perfmagic.benchmarks",
    "sweep_ranks": "perfmagic.rank_sweeps",
    "syncbench": "perfmagic.benchmarks",
    "synchronize": "perfmagic.api",
    "timeline": "perfmagic.api",
    "trace_handler": "perfmagic.api",
    # what is given to them
    "Benchmark": "perfmagic.api",
    "Pace": "perfmagic.api",
    "Peaks": "perfmagic.analysis.timeline.peaks",
    "Work": "perfmagic.capture.bench.spec",
    # what they give back
    "BenchResult": "perfmagic.results",
    "CompareResult": "perfmagic.results",
    "Result": "perfmagic.results",
    "RooflineResult": "perfmagic.results",
    "SweepResult": "perfmagic.results",
    "TimelineResult": "perfmagic.results",
    "TraceComparison": "perfmagic.results",
    "WhatIfResult": "perfmagic.results",
    "Trace": "perfmagic.trace.model",
    "Ranks": "perfmagic.rank_sessions",
    # what results hold: tables, their rows, and single facts
    "AnnotationStat": "perfmagic.analysis.timeline.annotations",
    "BenchWarning": "perfmagic.analysis.bench.warnings",
    "CategoryTime": "perfmagic.analysis.timeline.categories",
    "ClassOverlap": "perfmagic.analysis.timeline.concurrency",
    "CollectiveStat": "perfmagic.analysis.timeline.collectives",
    "Comparison": "perfmagic.analysis.bench.comparison",
    "CopyStat": "perfmagic.analysis.timeline.copies",
    "DeviceOperator": "perfmagic.analysis.timeline.device_operators",
    "Mode": "perfmagic.analysis.bench.quantity",
    "QueueModel": "perfmagic.analysis.bench.queue_model",
    "Finding": "perfmagic.analysis.findings.finding",
    "FrameTime": "perfmagic.analysis.timeline.host_time",
    "HostTime": "perfmagic.analysis.timeline.host_time",
    "IdleGap": "perfmagic.analysis.timeline.idle",
    "KernelStat": "perfmagic.analysis.timeline.kernels",
    "LineStat": "perfmagic.analysis.timeline.line_totals",
    "Lines": "perfmagic.results.lines",
    "NameTime": "perfmagic.analysis.timeline.host_time",
    "OperatorStat": "perfmagic.analysis.timeline.operators",
    "Quantity": "perfmagic.analysis.bench.quantity",
    "QueueStat": "perfmagic.analysis.timeline.queueing",
    "RankFinding": "perfmagic.analysis.ranks.finding",
    "RankStat": "perfmagic.analysis.ranks.summary",
    "GraphResult": "perfmagic.results",
    "GraphNode": "perfmagic.analysis.graph.nodes",
    "GraphEdge": "perfmagic.analysis.graph.edges",
    "LateNode": "perfmagic.analysis.graph.late",
    "MemoryResult": "perfmagic.results",
    "HeldBytes": "perfmagic.analysis.memory.peak",
    "MemoryBlock": "perfmagic.analysis.memory.peak",
    "Curve": "perfmagic.results.curve",
    "CurvePoint": "perfmagic.analysis.replay.prediction",
    "JobPathPart": "perfmagic.analysis.ranks.job.path",
    "PathPart": "perfmagic.analysis.replay.critical_path",
    "WhatIf": "perfmagic.analysis.memory.whatif",
    "Growth": "perfmagic.analysis.memory.growth",
    "RanksResult": "perfmagic.results.ranks",
    "RanksSweep": "perfmagic.results.ranks_sweep",
    "RanksSweepComparison": "perfmagic.results.ranks_sweep_comparison",
    "RanksWhatIf": "perfmagic.results.ranks_what_if",
    "Rows": "perfmagic.analysis.rows",
    "ScalingChange": "perfmagic.analysis.ranks.scaling_change",
    "ScalingStat": "perfmagic.analysis.ranks.scaling",
    "Step": "perfmagic.analysis.timeline.steps",
    "StreamStat": "perfmagic.analysis.timeline.streams",
    "SweepPoint": "perfmagic.analysis.bench.sweep",
    "Sync": "perfmagic.analysis.timeline.syncs",
    "Trust": "perfmagic.analysis.timeline.trust",
    "Verdict": "perfmagic.analysis.verdict",
    "ComparedTrace": "perfmagic.analysis.diff.side",
    "KernelChange": "perfmagic.analysis.diff.work",
    "LineChange": "perfmagic.analysis.diff.lines",
    "OperatorChange": "perfmagic.analysis.diff.work",
    "RankChange": "perfmagic.analysis.diff.ranks",
    "Replacement": "perfmagic.analysis.diff.replaced",
    "StepChange": "perfmagic.analysis.diff.steps",
    "TimeChange": "perfmagic.analysis.diff.times",
    # what they raise
    "CaptureError": "perfmagic.errors",
    "DeviceError": "perfmagic.errors",
    "KeywordError": "perfmagic.errors",
    "OptionError": "perfmagic.errors",
    "PerfmagicError": "perfmagic.errors",
    "RanksError": "perfmagic.errors",
    "TorchMissingError": "perfmagic.errors",
    "TraceError": "perfmagic.errors",
}

__all__ = [
    "AnnotationStat",
    "BenchResult",
    "BenchWarning",
    "Benchmark",
    "CaptureError",
    "CategoryTime",
    "ClassOverlap",
    "CollectiveStat",
    "CompareResult",
    "ComparedTrace",
    "Comparison",
    "CopyStat",
    "Curve",
    "CurvePoint",
    "DeviceError",
    "DeviceOperator",
    "Finding",
    "FrameTime",
    "GraphEdge",
    "GraphNode",
    "GraphResult",
    "Growth",
    "HeldBytes",
    "HostTime",
    "IdleGap",
    "JobPathPart",
    "KernelChange",
    "KernelStat",
    "KeywordError",
    "LateNode",
    "LineChange",
    "LineStat",
    "Lines",
    "MemoryBlock",
    "MemoryResult",
    "Mode",
    "NameTime",
    "OperatorChange",
    "OperatorStat",
    "OptionError",
    "Pace",
    "PathPart",
    "Peaks",
    "PerfmagicError",
    "Quantity",
    "QueueModel",
    "QueueStat",
    "RankChange",
    "RankFinding",
    "RankStat",
    "Ranks",
    "RanksError",
    "RanksResult",
    "RanksSweep",
    "RanksSweepComparison",
    "RanksWhatIf",
    "Replacement",
    "Result",
    "RooflineResult",
    "Rows",
    "ScalingChange",
    "ScalingStat",
    "Step",
    "StepChange",
    "StreamStat",
    "SweepPoint",
    "SweepResult",
    "Sync",
    "TimeChange",
    "TimelineResult",
    "TorchMissingError",
    "Trace",
    "TraceComparison",
    "TraceError",
    "Trust",
    "Verdict",
    "WhatIf",
    "WhatIfResult",
    "Work",
    "__version__",
    "bench",
    "compare",
    "device",
    "devices",
    "graph",
    "last",
    "load",
    "load_ipython_extension",
    "measurement",
    "open_ranks",
    "open_snapshot",
    "open_trace",
    "open_traces",
    "rank_findings",
    "ranks",
    "roofline",
    "sweep",
    "sweep_ranks",
    "syncbench",
    "synchronize",
    "testing",
    "timeline",
    "trace_handler",
    "unload_ipython_extension",
]

if TYPE_CHECKING:
    from perfmagic import testing
    from perfmagic.analysis.bench.comparison import Comparison
    from perfmagic.analysis.bench.quantity import Mode, Quantity
    from perfmagic.analysis.bench.queue_model import QueueModel
    from perfmagic.analysis.bench.sweep import SweepPoint
    from perfmagic.analysis.bench.warnings import BenchWarning
    from perfmagic.analysis.diff.lines import LineChange
    from perfmagic.analysis.diff.ranks import RankChange
    from perfmagic.analysis.diff.replaced import Replacement
    from perfmagic.analysis.diff.side import ComparedTrace
    from perfmagic.analysis.diff.steps import StepChange
    from perfmagic.analysis.diff.times import TimeChange
    from perfmagic.analysis.diff.work import KernelChange, OperatorChange
    from perfmagic.analysis.findings.finding import Finding
    from perfmagic.analysis.graph.edges import GraphEdge
    from perfmagic.analysis.graph.late import LateNode
    from perfmagic.analysis.graph.nodes import GraphNode
    from perfmagic.analysis.memory.growth import Growth
    from perfmagic.analysis.memory.peak import HeldBytes, MemoryBlock
    from perfmagic.analysis.memory.whatif import WhatIf
    from perfmagic.analysis.ranks.finding import RankFinding
    from perfmagic.analysis.ranks.job.path import JobPathPart
    from perfmagic.analysis.ranks.scaling import ScalingStat
    from perfmagic.analysis.ranks.scaling_change import ScalingChange
    from perfmagic.analysis.ranks.summary import RankStat
    from perfmagic.analysis.replay.critical_path import PathPart
    from perfmagic.analysis.replay.prediction import CurvePoint
    from perfmagic.analysis.rows import Rows
    from perfmagic.analysis.timeline.annotations import AnnotationStat
    from perfmagic.analysis.timeline.categories import CategoryTime
    from perfmagic.analysis.timeline.collectives import CollectiveStat
    from perfmagic.analysis.timeline.concurrency import ClassOverlap
    from perfmagic.analysis.timeline.copies import CopyStat
    from perfmagic.analysis.timeline.device_operators import DeviceOperator
    from perfmagic.analysis.timeline.host_time import FrameTime, HostTime, NameTime
    from perfmagic.analysis.timeline.idle import IdleGap
    from perfmagic.analysis.timeline.kernels import KernelStat
    from perfmagic.analysis.timeline.line_totals import LineStat
    from perfmagic.analysis.timeline.operators import OperatorStat
    from perfmagic.analysis.timeline.peaks import Peaks
    from perfmagic.analysis.timeline.queueing import QueueStat
    from perfmagic.analysis.timeline.steps import Step
    from perfmagic.analysis.timeline.streams import StreamStat
    from perfmagic.analysis.timeline.syncs import Sync
    from perfmagic.analysis.timeline.trust import Trust
    from perfmagic.analysis.verdict import Verdict
    from perfmagic.api import (
        Benchmark,
        Pace,
        device,
        devices,
        last,
        open_snapshot,
        open_trace,
        open_traces,
        rank_findings,
        synchronize,
        timeline,
        trace_handler,
    )
    from perfmagic.benchmarks import bench, measurement, sweep, syncbench
    from perfmagic.capture.bench.spec import Work
    from perfmagic.comparisons import compare
    from perfmagic.errors import (
        CaptureError,
        DeviceError,
        KeywordError,
        OptionError,
        PerfmagicError,
        RanksError,
        TorchMissingError,
        TraceError,
    )
    from perfmagic.graphs import graph
    from perfmagic.rank_files import open_ranks
    from perfmagic.rank_sessions import Ranks, ranks
    from perfmagic.rank_sweeps import sweep_ranks
    from perfmagic.results import (
        BenchResult,
        CompareResult,
        GraphResult,
        MemoryResult,
        Result,
        RooflineResult,
        SweepResult,
        TimelineResult,
        TraceComparison,
        WhatIfResult,
    )
    from perfmagic.results.curve import Curve
    from perfmagic.results.lines import Lines
    from perfmagic.rooflines import roofline
    from perfmagic.saved import load
    from perfmagic.trace.model import Trace


def __getattr__(name: str) -> Any:
    if name == "testing":
        return importlib.import_module("perfmagic.testing")
    if name not in _HOMES:
        raise AttributeError(f"module 'perfmagic' has no attribute {name!r}")
    return getattr(importlib.import_module(_HOMES[name]), name)


def __dir__() -> list[str]:
    """The public names and Python's own, so that Tab offers nothing that was imported for this file."""
    return sorted({*__all__, *(name for name in globals() if name.startswith("__"))})


def load_ipython_extension(shell: Any) -> None:
    """`%load_ext perfmagic`: add the magics."""
    from perfmagic.magics.running.registry import load

    load(shell)


def unload_ipython_extension(shell: Any) -> None:
    """`%unload_ext perfmagic`: leave the shell as it was before."""
    from perfmagic.magics.running.registry import unload

    unload(shell)


def _jupyter_server_extension_points() -> list[dict[str, str]]:
    """Where a Jupyter server finds what opens traces from the file browser."""
    return [{"module": "perfmagic.server"}]


def _jupyter_labextension_paths() -> list[dict[str, str]]:
    """Where `jupyter labextension develop` finds what was built for JupyterLab and Notebook 7."""
    return [{"src": "labextension", "dest": "perfmagic"}]
