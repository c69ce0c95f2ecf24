"""The types that results are made of: rows of tables, single facts, and the results that fewer functions return.

They are for annotations and isinstance(). perfmagic itself has the functions, their arguments, the commonest results
and the errors. Importing this module imports nothing heavy: a type's module is imported when the type is first used.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

_HOMES = {
    "Alignment": "perfmagic.analysis.ranks.alignment",
    "AnnotationStat": "perfmagic.analysis.timeline.operators",
    "Answer": "perfmagic.analysis.findings.answer",
    "Answers": "perfmagic.analysis.findings.answer",
    "BenchWarning": "perfmagic.analysis.bench.warnings",
    "CallPath": "perfmagic.analysis.timeline.flame.call_paths",
    "CategoryTime": "perfmagic.analysis.timeline.categories",
    "ClassOverlap": "perfmagic.analysis.timeline.overlap",
    "CollectiveStat": "perfmagic.analysis.timeline.collectives",
    "ComparedTrace": "perfmagic.analysis.diff.side",
    "Comparison": "perfmagic.analysis.bench.compare",
    "Conclusion": "perfmagic.analysis.findings.answer",
    "CopyStat": "perfmagic.analysis.timeline.copies",
    "Curve": "perfmagic.results.what_if",
    "CurvePoint": "perfmagic.analysis.replay.prediction",
    "DeviceOperator": "perfmagic.analysis.timeline.device_operators",
    "Explanation": "perfmagic.analysis.findings.explain",
    "Explanations": "perfmagic.analysis.findings.explain",
    "Finding": "perfmagic.analysis.findings.finding",
    "FlameResult": "perfmagic.results",
    "FrameTime": "perfmagic.analysis.timeline.host_time",
    "GraphEdge": "perfmagic.analysis.graph.graph",
    "GraphNode": "perfmagic.analysis.graph.nodes",
    "GraphResult": "perfmagic.results",
    "Growth": "perfmagic.analysis.memory.peak",
    "HeldBytes": "perfmagic.analysis.memory.peak",
    "HostTime": "perfmagic.analysis.timeline.host_time",
    "IdleGap": "perfmagic.analysis.timeline.idle",
    "JobPathPart": "perfmagic.analysis.replay.critical_path",
    "KernelChange": "perfmagic.analysis.diff.work",
    "KernelOfRanks": "perfmagic.analysis.ranks.rank_summary",
    "KernelStat": "perfmagic.analysis.timeline.kernels",
    "LateNode": "perfmagic.analysis.graph.late",
    "LineChange": "perfmagic.analysis.diff.matching",
    "LineStat": "perfmagic.analysis.timeline.lines",
    "Lines": "perfmagic.results.timeline",
    "Meeting": "perfmagic.analysis.ranks.meetings",
    "MemoryBlock": "perfmagic.analysis.memory.peak",
    "MemoryResult": "perfmagic.results",
    "Message": "perfmagic.analysis.ranks.meetings",
    "Mode": "perfmagic.analysis.bench.quantity",
    "NameTime": "perfmagic.analysis.timeline.host_time",
    "OperatorChange": "perfmagic.analysis.diff.work",
    "OperatorStat": "perfmagic.analysis.timeline.operators",
    "PathPart": "perfmagic.analysis.replay.critical_path",
    "PathShare": "perfmagic.analysis.replay.critical_path",
    "Phase": "perfmagic.analysis.timeline.phases",
    "Prediction": "perfmagic.analysis.replay.prediction",
    "PredictionCheck": "perfmagic.results.what_if",
    "Quantity": "perfmagic.analysis.bench.quantity",
    "QueueModel": "perfmagic.analysis.bench.queue_model",
    "QueueStat": "perfmagic.analysis.timeline.queueing",
    "RankChange": "perfmagic.analysis.diff.matching",
    "RankFinding": "perfmagic.analysis.ranks.finding",
    "Proposal": "perfmagic.analysis.findings.answer",
    "RankStat": "perfmagic.analysis.ranks.ranks",
    "Ranks": "perfmagic.api.ranks.session",
    "RanksSweep": "perfmagic.results",
    "RanksSweepComparison": "perfmagic.results",
    "RanksWhatIf": "perfmagic.results",
    "Replacement": "perfmagic.analysis.diff.work",
    "Result": "perfmagic.results",
    "RooflineResult": "perfmagic.results",
    "Rows": "perfmagic.trace.rows",
    "ScalingChange": "perfmagic.analysis.ranks.scaling",
    "ScalingStat": "perfmagic.analysis.ranks.scaling",
    "Step": "perfmagic.analysis.timeline.steps",
    "StepChange": "perfmagic.analysis.diff.matching",
    "StreamStat": "perfmagic.analysis.timeline.activity",
    "SweepPoint": "perfmagic.analysis.bench.sweep",
    "SweepResult": "perfmagic.results",
    "Sync": "perfmagic.analysis.timeline.activity",
    "TimeChange": "perfmagic.analysis.diff.times",
    "Trace": "perfmagic.trace.model",
    "TraceComparison": "perfmagic.results",
    "Traces": "perfmagic.results",
    "Trust": "perfmagic.analysis.timeline.trust",
    "Verdict": "perfmagic.analysis.verdict",
    "WhatIf": "perfmagic.analysis.memory.whatif",
    "WhatIfResult": "perfmagic.results",
}

__all__ = [
    "Alignment",
    "AnnotationStat",
    "Answer",
    "Answers",
    "BenchWarning",
    "CallPath",
    "CategoryTime",
    "ClassOverlap",
    "CollectiveStat",
    "ComparedTrace",
    "Comparison",
    "Conclusion",
    "CopyStat",
    "Curve",
    "CurvePoint",
    "DeviceOperator",
    "Explanation",
    "Explanations",
    "Finding",
    "FlameResult",
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
    "KernelOfRanks",
    "KernelStat",
    "LateNode",
    "LineChange",
    "LineStat",
    "Lines",
    "Meeting",
    "MemoryBlock",
    "MemoryResult",
    "Message",
    "Mode",
    "NameTime",
    "OperatorChange",
    "OperatorStat",
    "PathPart",
    "PathShare",
    "Phase",
    "Prediction",
    "PredictionCheck",
    "Proposal",
    "Quantity",
    "QueueModel",
    "QueueStat",
    "RankChange",
    "RankFinding",
    "RankStat",
    "Ranks",
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
    "Trace",
    "TraceComparison",
    "Traces",
    "Trust",
    "Verdict",
    "WhatIf",
    "WhatIfResult",
]

if TYPE_CHECKING:
    from perfmagic.analysis.bench.compare import Comparison
    from perfmagic.analysis.bench.quantity import Mode, Quantity
    from perfmagic.analysis.bench.queue_model import QueueModel
    from perfmagic.analysis.bench.sweep import SweepPoint
    from perfmagic.analysis.bench.warnings import BenchWarning
    from perfmagic.analysis.diff.matching import LineChange, RankChange, StepChange
    from perfmagic.analysis.diff.side import ComparedTrace
    from perfmagic.analysis.diff.times import TimeChange
    from perfmagic.analysis.diff.work import KernelChange, OperatorChange, Replacement
    from perfmagic.analysis.findings.answer import Answer, Answers, Conclusion, Proposal
    from perfmagic.analysis.findings.explain import Explanation, Explanations
    from perfmagic.analysis.findings.finding import Finding
    from perfmagic.analysis.graph.graph import GraphEdge
    from perfmagic.analysis.graph.late import LateNode
    from perfmagic.analysis.graph.nodes import GraphNode
    from perfmagic.analysis.memory.peak import Growth, HeldBytes, MemoryBlock
    from perfmagic.analysis.memory.whatif import WhatIf
    from perfmagic.analysis.ranks.alignment import Alignment
    from perfmagic.analysis.ranks.finding import RankFinding
    from perfmagic.analysis.ranks.meetings import Meeting, Message
    from perfmagic.analysis.ranks.rank_summary import KernelOfRanks
    from perfmagic.analysis.ranks.ranks import RankStat
    from perfmagic.analysis.ranks.scaling import ScalingChange, ScalingStat
    from perfmagic.analysis.replay.critical_path import JobPathPart, PathPart, PathShare
    from perfmagic.analysis.replay.prediction import CurvePoint, Prediction
    from perfmagic.analysis.timeline.activity import StreamStat, Sync
    from perfmagic.analysis.timeline.categories import CategoryTime
    from perfmagic.analysis.timeline.collectives import CollectiveStat
    from perfmagic.analysis.timeline.copies import CopyStat
    from perfmagic.analysis.timeline.device_operators import DeviceOperator
    from perfmagic.analysis.timeline.flame.call_paths import CallPath
    from perfmagic.analysis.timeline.host_time import FrameTime, HostTime, NameTime
    from perfmagic.analysis.timeline.idle import IdleGap
    from perfmagic.analysis.timeline.kernels import KernelStat
    from perfmagic.analysis.timeline.lines import LineStat
    from perfmagic.analysis.timeline.operators import AnnotationStat, OperatorStat
    from perfmagic.analysis.timeline.overlap import ClassOverlap
    from perfmagic.analysis.timeline.phases import Phase
    from perfmagic.analysis.timeline.queueing import QueueStat
    from perfmagic.analysis.timeline.steps import Step
    from perfmagic.analysis.timeline.trust import Trust
    from perfmagic.analysis.verdict import Verdict
    from perfmagic.api.ranks.session import Ranks
    from perfmagic.results import (
        FlameResult,
        GraphResult,
        MemoryResult,
        RanksSweep,
        RanksSweepComparison,
        RanksWhatIf,
        Result,
        RooflineResult,
        SweepResult,
        TraceComparison,
        Traces,
        WhatIfResult,
    )
    from perfmagic.results.timeline import Lines
    from perfmagic.results.what_if import Curve, PredictionCheck
    from perfmagic.trace.model import Trace
    from perfmagic.trace.rows import Rows


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module 'perfmagic.rows' has no attribute {name!r}")
    return getattr(importlib.import_module(_HOMES[name]), name)


def __dir__() -> list[str]:
    """The types and Python's own names, so that Tab offers nothing that was imported for this file."""
    return sorted({*__all__, *(name for name in globals() if name.startswith("__"))})
