"""The change of the GPU: recorded times of kernels by the ratio of two predictions."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from perfmagic.analysis.replay.changes import change
from perfmagic.analysis.replay.graph import Graph
from perfmagic.analysis.timeline.activity import memory_curve
from perfmagic.analysis.timeline.origin import Source, origins
from perfmagic.base import units
from perfmagic.base.language import phrase
from perfmagic.base.numerics.longest import NO_NODE
from perfmagic.base.work import Inputs
from perfmagic.predict.calls import Call, call_of
from perfmagic.predict.gpus import Gpu, gpu_of, pcie_bytes_per_s
from perfmagic.predict.kernels import can_compute, has_tf32, spread_of, times_ns, took_tf32
from perfmagic.trace.columns import NONE, Bool, Int64
from perfmagic.trace.model import DeviceInfo, Trace, once_per_trace
from perfmagic.trace.names import OpClass, is_pageable, op_classes

Float64 = npt.NDArray[np.float64]

LEAST_SCALED_FRAC = 0.5  # of the kernels' time: below that most of a prediction would be the record itself
WITH_SHAPES = "%%timeline --shapes, torch.profiler.profile(record_shapes=True)"
_WITH_HOST = (OpClass.HTOD, OpClass.DTOH, OpClass.PTOP)


@dataclass(frozen=True)
class OnGpu(change.Change):
    """The record on another GPU: kernels by operator, shapes and types; the host as recorded.

    Copies between host and device change with the generation of PCIe, where both are known. Their memory has to be
    pinned, or the record has to be a model's. All that has no model stays as recorded: communication, compiled and
    custom kernels.
    alike: these kernels change as those with a model do together, the other end of what is not known of them.
    """

    gpu: Gpu
    alike: bool = False
    stage = change.Stage.LENGTHS

    @property
    def description(self) -> str:
        return phrase("on {gpu}, predicted", gpu=self.gpu.name)

    def described(self, graph: Graph) -> str:
        sources = dict.fromkeys(gpu.name for gpu in map(gpu_of, _devices(graph.trace)) if gpu)
        words = {"gpu": self.gpu.name, "source": " + ".join(sources)}
        share = scaled_frac(graph.trace, self.gpu)
        if not sources or share > 0.995:
            return phrase("on {gpu}, predicted from this {source} record", **words)
        return phrase(
            "on {gpu}, predicted from this {source} record ({share} of the kernels' time is scaled, the rest stays)",
            share=units.percent(share),
            **words,
        )

    def otherwise(self) -> OnGpu:
        return replace(self, alike=True)

    def spread(self, graph: Graph) -> float:
        others = [gpu for gpu in map(gpu_of, _devices(graph.trace)) if gpu and gpu != self.gpu]
        return max((spread_of(gpu) for gpu in (*others, self.gpu)), default=1.0) if others else 1.0

    def not_applicable(self, graph: Graph) -> str:
        trace = graph.trace
        unknown = [info.label for info in _devices(trace) if gpu_of(info) is None]
        if unknown:
            return phrase("the record is of {device}, and no whole GPU of that name is in the table", device=unknown[0])
        if not trace.input_shapes:
            return phrase("the record has no shapes: record it with {how}", how=WITH_SHAPES)
        curves = [memory_curve(trace, index) for index in trace.device_ids]
        needed_bytes = max((curve.peak_bytes for curve in curves if curve), default=0)
        if needed_bytes > self.gpu.memory_bytes:
            words = {"peak": units.rough_size(needed_bytes), "there": units.rough_size(self.gpu.memory_bytes)}
            return phrase("{gpu} does not fit: needs {peak} of {there}", gpu=self.gpu.name, **words)
        share = scaled_frac(trace, self.gpu)
        if share < LEAST_SCALED_FRAC:
            return phrase(
                "only {share} of the kernels' time is of operators with a model, less than half",
                share=units.percent(share),
            )
        return ""

    def apply(self, graph: Graph, *, best: bool) -> Graph:
        changed = replace(graph.copy(), gpu=self.gpu)
        left = (ratios_alike if self.alike else ratios)(graph.trace, self.gpu)
        rows = np.flatnonzero(~np.isnan(left))
        length_ns = changed.length_ns[graph.op_node[rows]]
        change.set_lengths(changed, rows, np.rint(length_ns * left[rows]).astype(np.int64))
        _stage(changed, rows, length_ns)
        return changed


def _stage(changed: Graph, rows: Int64, before_ns: Int64) -> None:
    """Let calls that stage pageable memory for as long as its copy takes, as a model's do, change with the copy."""
    trace, ops = changed.trace, changed.trace.ops
    pageable = np.array([is_pageable(name) for name in trace.names], bool)[ops.name[rows]] & (ops.launch[rows] != NONE)
    rows, before_ns = rows[pageable], before_ns[pageable]
    ends = changed.end_of[ops.launch[rows]]
    stages = (ends != NO_NODE) & (changed.first.lag_ns[ends] >= before_ns)
    gained_ns = before_ns - changed.length_ns[changed.op_node[rows]]
    changed.first.lag_ns[ends[stages]] -= gained_ns[stages]


def _devices(trace: Trace) -> list[DeviceInfo]:
    return [trace.device_info(index) for index in trace.device_ids]


def scaled_frac(trace: Trace, gpu: Gpu) -> float:
    """The share of the kernels' summed time that has a model; copies between host and device are no kernels."""
    length_ns = trace.ops.end_ns - trace.ops.start_ns
    kernels = ~np.isin(op_classes(trace), _WITH_HOST)
    scaled = ~np.isnan(ratios(trace, gpu))
    return int(length_ns[kernels & scaled].sum()) / max(1, int(length_ns[kernels].sum()))


@once_per_trace
def ratios(trace: Trace, gpu: Gpu) -> Float64:
    """By what each device op would take longer on a GPU; NaN for what stays as recorded; shape of trace.ops."""
    left = np.full(len(trace.ops), np.nan)
    of_operator = launched_by_operators(trace)
    for info in _devices(trace):
        source = gpu_of(info)
        if source is None:
            continue
        rows = np.flatnonzero(of_operator & (trace.ops.device == info.index))
        left[rows] = _of_operators(trace, rows, source, gpu)
        copies = _over_link(trace, info) & (trace.ops.device == info.index)
        now, then = pcie_bytes_per_s(info.predicted.gpu if info.predicted else info.name), pcie_bytes_per_s(gpu.name)
        if now and then and now != then:
            left[copies] = now / then
    left.flags.writeable = False
    return left


def ratios_alike(trace: Trace, gpu: Gpu) -> Float64:
    """The same with the kernels that have no model by the ratio of all that have one; communication stays."""
    left, length_ns = ratios(trace, gpu).copy(), trace.ops.end_ns - trace.ops.start_ns
    kernels = ~np.isin(op_classes(trace), _WITH_HOST)
    known = kernels & ~np.isnan(left)
    others = kernels & np.isnan(left) & (op_classes(trace) != OpClass.COMMUNICATION)
    left[others] = float(length_ns[known] @ left[known]) / max(1, int(length_ns[known].sum()))
    return left


def launched_by_operators(trace: Trace) -> Bool:
    """Which ops a recorded operator launched, without copies between host and device and without communication."""
    others = np.isin(op_classes(trace), (*_WITH_HOST, OpClass.COMMUNICATION))
    return np.asarray((origins(trace).source == Source.OPERATOR) & ~others)


def _over_link(trace: Trace, info: DeviceInfo) -> Bool:
    """Copies that the link limits: pinned ones, and all of a model, which gives pageable ones a share of its rate."""
    copies = np.isin(op_classes(trace), (OpClass.HTOD, OpClass.DTOH))
    if info.predicted:
        return copies
    pageable = np.array([is_pageable(name) for name in trace.names], bool)[trace.ops.name]
    return np.asarray(copies & ~pageable)


def _of_operators(trace: Trace, rows: Int64, source: Gpu, target: Gpu) -> Float64:
    """The ratio of some ops of one device, by the operator that launched each."""
    inputs, group = operator_inputs(trace, rows)
    calls = [one.call for one in inputs]
    known = {
        at: call for at, call in enumerate(calls) if call and can_compute(call, source) and can_compute(call, target)
    }
    left = np.full(len(inputs), np.nan)
    if known:
        there = times_ns([_on(call, source, target) for call in known.values()], target)
        left[list(known)] = there / times_ns([*known.values()], source)
    return np.asarray(left[group])


class OperatorInputs(NamedTuple):
    """An operator with its inputs as the record writes them, and the longest kernel that it launched."""

    name: str
    shapes: str | None
    dtypes: str | None
    values: str | None
    kernel: str

    @property
    def call(self) -> Call | None:
        return call_of(self.name, Inputs.read(self.shapes, self.dtypes, self.values), self.kernel)


def operator_inputs(trace: Trace, rows: Int64) -> tuple[list[OperatorInputs], Int64]:
    """The different inputs of the operators that launched some ops, and which of them each op has; shape of rows.

    rows: of trace.ops, of one device, each launched by a recorded operator.
    """
    origin, host = origins(trace), trace.host_ops
    host_op = origin.host_op[rows]
    # ops by operator, the longest last: its kernel stands for the operator's
    order = np.lexsort((trace.ops.end_ns[rows] - trace.ops.start_ns[rows], host_op))
    last = order[np.flatnonzero(np.diff(host_op[order], append=NONE - 1))]
    operators, longest = host_op[last], rows[last]
    columns = (origin.name[longest], host.shape[operators], host.dtype[operators], host.value[operators])
    keys, group = np.unique(np.column_stack((*columns, trace.ops.name[longest])), axis=0, return_inverse=True)
    inputs = [
        OperatorInputs(
            origin.names[name],
            _at(trace.input_shapes, shape),
            _at(trace.input_dtypes, dtype),
            _at(trace.input_values, value),
            trace.names[kernel],
        )
        for name, shape, dtype, value, kernel in keys.tolist()
    ]
    return inputs, group.reshape(-1)[np.searchsorted(operators, host_op)]


def _at(texts: Sequence[str], row: int) -> str | None:
    return None if row == NONE else texts[row]


def _on(call: Call, source: Gpu, target: Gpu) -> Call:
    """The call as torch makes it there: its convolutions take TF32 where a device has it, and its products do not."""
    if call.dtype == "fp32" and "convolution" in call.kind and has_tf32(target) and not has_tf32(source):
        return replace(call, dtype="tf32")
    return call


def as_float32(trace: Trace, device: int) -> Bool:
    """Which ops of a predicted device are products of float32 for which its model did not take TF32; as trace.ops."""
    found, gpu = np.zeros(len(trace.ops), bool), gpu_of(trace.device_info(device))
    rows = np.flatnonzero(launched_by_operators(trace) & (trace.ops.device == device))
    if gpu is None or not len(rows):
        return found
    inputs, group = operator_inputs(trace, rows)
    took_ns = (trace.ops.end_ns - trace.ops.start_ns)[rows]
    for at, call in enumerate(one.call for one in inputs):
        if call and call.tiled and call.dtype == "fp32":
            of_call = group == at
            found[rows[of_call]] = not took_tf32(call, gpu, float(took_ns[of_call].min()))
    return found
