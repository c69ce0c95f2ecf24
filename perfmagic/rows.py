"""The types in results: rows of tables, single facts, and the less common results.

They are for annotations and isinstance(). perfmagic itself has the functions, their arguments, the most common results
and the errors. Importing this module imports nothing heavy: a type's module is imported when the type is first used.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

_NAMES = {
    "perfmagic.analysis.bench.compare": "Comparison",
    "perfmagic.analysis.bench.quantity": "Mode Quantity",
    "perfmagic.analysis.bench.queue_model": "QueueModel",
    "perfmagic.analysis.bench.same_work": "Check",
    "perfmagic.analysis.bench.sweep": "SweepPoint",
    "perfmagic.analysis.bench.warnings": "BenchWarning",
    "perfmagic.analysis.diff.diff": "LineChange RankChange StepChange",
    "perfmagic.analysis.diff.side": "ComparedTrace",
    "perfmagic.analysis.diff.step_times": "StepTimes",
    "perfmagic.analysis.diff.times": "TimeChange",
    "perfmagic.analysis.diff.work": "KernelChange OperatorChange Replacement",
    "perfmagic.analysis.findings.find": "Explanation Explanations",
    "perfmagic.analysis.findings.answer": "Answer Answers Conclusion Proposal",
    "perfmagic.analysis.findings.finding": "Finding",
    "perfmagic.analysis.flight.report": "RankState RecordedCall",
    "perfmagic.analysis.flight.standstill": "Standstill",
    "perfmagic.analysis.graph.graph": "GraphEdge",
    "perfmagic.analysis.graph.late": "LateNode",
    "perfmagic.analysis.graph.nodes": "GraphNode",
    "perfmagic.analysis.memory.peak": "Growth HeldBytes MemoryBlock",
    "perfmagic.analysis.memory.whatif": "WhatIf",
    "perfmagic.analysis.ranks.alignment": "Alignment",
    "perfmagic.analysis.ranks.finding": "CollectiveOfRanks PipelineStage RankFinding RankStat",
    "perfmagic.analysis.ranks.meetings": "Meeting Message",
    "perfmagic.analysis.ranks.rank_summary": "KernelOfRanks",
    "perfmagic.analysis.ranks.scaling": "ScalingChange ScalingStat",
    "perfmagic.analysis.replay.critical_path": "JobPathPart PathPart PathShare",
    "perfmagic.analysis.replay.prediction": "CurvePoint Prediction",
    "perfmagic.analysis.timeline.activity": "StreamStat Sync",
    "perfmagic.analysis.timeline.collectives": "CollectiveStat",
    "perfmagic.analysis.timeline.copies": "CopyStat",
    "perfmagic.analysis.timeline.device_operators": "CategoryTime DeviceOperator",
    "perfmagic.analysis.timeline.flame.call_paths": "CallPath",
    "perfmagic.analysis.timeline.host_time": "FrameTime HostTime NameTime",
    "perfmagic.analysis.timeline.idle": "IdleGap",
    "perfmagic.analysis.timeline.kernels": "KernelStat",
    "perfmagic.analysis.timeline.lines": "LineStat",
    "perfmagic.analysis.timeline.operators": "AnnotationStat OperatorStat",
    "perfmagic.analysis.timeline.overlap": "ClassOverlap",
    "perfmagic.analysis.timeline.phases": "Phase",
    "perfmagic.analysis.timeline.queueing": "QueueStat",
    "perfmagic.analysis.timeline.steps": "Step",
    "perfmagic.analysis.timeline.trust": "Trust",
    "perfmagic.analysis.verdict": "Verdict",
    "perfmagic.api.ranks.session": "Ranks",
    "perfmagic.results": "FlameResult FlightResult GraphResult MemoryResult RanksSweep RanksSweepComparison "
    "RanksWhatIf Result RooflineResult SweepResult TraceComparison Traces WhatIfResult",
    "perfmagic.results.on_gpus": "OnGpusResult",
    "perfmagic.results.timeline": "Lines",
    "perfmagic.results.what_if": "Curve PredictionCheck",
    "perfmagic.base.kinds": "PredictedFor",
    "perfmagic.predict.runs": "GpuStat",
    "perfmagic.trace.model": "Trace",
    "perfmagic.trace.rows": "Rows",
    "perfmagic.trace.samples": "Condition",
}
_HOMES = {name: module for module, names in _NAMES.items() for name in names.split()}

__all__ = [
    "Alignment", "AnnotationStat", "Answer", "Answers", "BenchWarning", "CallPath", "CategoryTime", "Check",
    "ClassOverlap", "CollectiveOfRanks", "CollectiveStat", "ComparedTrace", "Comparison", "Conclusion", "Condition",
    "CopyStat", "Curve", "CurvePoint", "DeviceOperator", "Explanation", "Explanations", "Finding", "FlameResult",
    "FlightResult",
    "FrameTime", "GpuStat", "GraphEdge", "GraphNode", "GraphResult", "Growth", "HeldBytes", "HostTime", "IdleGap",
    "JobPathPart", "KernelChange", "KernelOfRanks", "KernelStat", "LateNode", "LineChange", "LineStat", "Lines",
    "Meeting", "MemoryBlock", "MemoryResult", "Message", "Mode", "NameTime", "OnGpusResult", "OperatorChange",
    "OperatorStat", "PathPart", "PathShare", "Phase", "PipelineStage", "PredictedFor", "Prediction", "PredictionCheck",
    "Proposal", "Quantity", "QueueModel", "QueueStat", "RankChange", "RankFinding", "RankStat", "RankState", "Ranks",
    "RanksSweep", "RanksSweepComparison", "RanksWhatIf", "RecordedCall", "Replacement", "Result", "RooflineResult",
    "Rows", "ScalingChange", "ScalingStat", "Standstill", "Step", "StepChange", "StepTimes", "StreamStat",
    "SweepPoint",
    "SweepResult", "Sync", "TimeChange", "Trace", "TraceComparison", "Traces", "Trust", "Verdict", "WhatIf",
    "WhatIfResult",
]  # fmt: skip

if TYPE_CHECKING:
    from perfmagic.analysis.bench.compare import Comparison
    from perfmagic.analysis.bench.quantity import Mode, Quantity
    from perfmagic.analysis.bench.queue_model import QueueModel
    from perfmagic.analysis.bench.same_work import Check
    from perfmagic.analysis.bench.sweep import SweepPoint
    from perfmagic.analysis.bench.warnings import BenchWarning
    from perfmagic.analysis.diff.diff import LineChange, RankChange, StepChange
    from perfmagic.analysis.diff.side import ComparedTrace
    from perfmagic.analysis.diff.step_times import StepTimes
    from perfmagic.analysis.diff.times import TimeChange
    from perfmagic.analysis.diff.work import KernelChange, OperatorChange, Replacement
    from perfmagic.analysis.findings.answer import Answer, Answers, Conclusion, Proposal
    from perfmagic.analysis.findings.find import Explanation, Explanations
    from perfmagic.analysis.findings.finding import Finding
    from perfmagic.analysis.flight.report import RankState, RecordedCall
    from perfmagic.analysis.flight.standstill import Standstill
    from perfmagic.analysis.graph.graph import GraphEdge
    from perfmagic.analysis.graph.late import LateNode
    from perfmagic.analysis.graph.nodes import GraphNode
    from perfmagic.analysis.memory.peak import Growth, HeldBytes, MemoryBlock
    from perfmagic.analysis.memory.whatif import WhatIf
    from perfmagic.analysis.ranks.alignment import Alignment
    from perfmagic.analysis.ranks.finding import CollectiveOfRanks, PipelineStage, RankFinding, RankStat
    from perfmagic.analysis.ranks.meetings import Meeting, Message
    from perfmagic.analysis.ranks.rank_summary import KernelOfRanks
    from perfmagic.analysis.ranks.scaling import ScalingChange, ScalingStat
    from perfmagic.analysis.replay.critical_path import JobPathPart, PathPart, PathShare
    from perfmagic.analysis.replay.prediction import CurvePoint, Prediction
    from perfmagic.analysis.timeline.activity import StreamStat, Sync
    from perfmagic.analysis.timeline.collectives import CollectiveStat
    from perfmagic.analysis.timeline.copies import CopyStat
    from perfmagic.analysis.timeline.device_operators import CategoryTime, DeviceOperator
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
    from perfmagic.base.kinds import PredictedFor
    from perfmagic.predict.runs import GpuStat
    from perfmagic.results import (
        FlameResult,
        FlightResult,
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
    from perfmagic.results.on_gpus import OnGpusResult
    from perfmagic.results.timeline import Lines
    from perfmagic.results.what_if import Curve, PredictionCheck
    from perfmagic.trace.model import Trace
    from perfmagic.trace.rows import Rows
    from perfmagic.trace.samples import Condition


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module 'perfmagic.rows' has no attribute {name!r}")
    return getattr(importlib.import_module(_HOMES[name]), name)


def __dir__() -> list[str]:
    """The types and Python's own names, so that Tab offers nothing that was imported for this file."""
    return sorted({*__all__, *(name for name in globals() if name.startswith("__"))})
