"""Where the device's time went, by the operator that asked for it: with shapes and types, and how fast it was.

And by what ops are for, as perfmagic.trace.families says: a gemm that a convolution launched is convolution.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
import numpy.typing as npt

from perfmagic.analysis.timeline.origin import Places, Source, frames, modules, origins
from perfmagic.base.errors import TraceError
from perfmagic.base.language import chained, phrase
from perfmagic.base.numerics.intervals import coded, distinct
from perfmagic.base.work import Inputs, describe_dtype, describe_shape, flop_is_at_most, flop_of, io_bytes_of
from perfmagic.predict.calls import Call, call_of
from perfmagic.predict.gpus import Peaks, gpu_of, peaks_of
from perfmagic.predict.kernels import took_tf32
from perfmagic.trace.columns import NONE, Bool, HostKind, Int8, Int32, Int64, OpKind, constant
from perfmagic.trace.families import Category
from perfmagic.trace.hoststack import host_stack
from perfmagic.trace.model import DeviceInfo, Trace, once_per_trace
from perfmagic.trace.names import OpClass, find_family, is_of_library, op_classes, shown_names, uses_tensor_cores
from perfmagic.trace.rows import Rows

HOW_TO_RECORD = phrase("record with %%timeline --shapes, or torch.profiler.profile(record_shapes=True)")


@dataclass(frozen=True)
class DeviceOperator:
    """The device ops of one operator with inputs of the same shapes and types.

    name: the operator, graph or kernel.
    source: who launched them: an operator or a graph; kernel, unknown: the kernel's own name, because no operator,
    or no launch, was recorded.
    category: what most of their time was for.
    shapes: of its tensors; empty where not recorded.
    dtypes: of its tensors, each once; empty where not recorded.
    module: the torch.nn module that took most of the time; empty where not recorded.
    frame: the innermost user frame that took most of the time; empty where not recorded.
    n_calls: calls of the operator, graph launches or kernels.
    n_ops: its device ops.
    total_ns: their summed duration.
    share_frac: its share of the summed duration of all ops of the device.
    kernel: the kernel with the most time.
    flop: floating-point operations of all calls, a count from the shapes; None where not known.
    flop_at_most: whether fewer may have been needed: the record does not say whether attention was causal.
    io_bytes: inputs and outputs of all calls, each once; None where not known.
    compute: the type whose peak it is compared with; tf32: float32 on tensor cores; empty where not known.
    peak_flop_per_s: the device's peak for that type; None where not known.
    peak_bytes_per_s: the device's memory bandwidth; None where not known.
    mean_ns: the mean of a call.
    flop_per_s: achieved while its ops ran; None where not known.
    bytes_per_s: of inputs and outputs, achieved while its ops ran, in bytes per second; None where not known.
    flop_per_byte: arithmetic intensity, a ratio; None where not known.
    peak_frac: the achieved FLOP/s as a share of the peak, 0 to 1; None where not known.
    roof_frac: the achieved FLOP/s as a share of what the peak and the memory's bandwidth allow at this intensity,
    0 to 1; None where not known.
    """

    shown: ClassVar[tuple[str, ...]] = (
        *("name", "shapes", "dtypes", "n_calls", "total_ns", "mean_ns", "share_frac", "flop_per_s", "peak_frac"),
        *("bytes_per_s", "category", "module", "device"),
    )

    device: int
    name: str
    source: Source
    category: Category
    shapes: str
    dtypes: str
    module: str
    frame: str
    n_calls: int
    n_ops: int
    total_ns: int
    share_frac: float
    kernel: str
    flop: int | None
    flop_at_most: bool
    io_bytes: int | None
    compute: str
    peak_flop_per_s: float | None
    peak_bytes_per_s: float | None

    @property
    def mean_ns(self) -> float:
        """Of a call."""
        return self.total_ns / self.n_calls

    @property
    def flop_per_s(self) -> float | None:
        """Achieved while its ops ran."""
        return None if self.flop is None or not self.total_ns else self.flop / self.total_ns * 1e9

    @property
    def bytes_per_s(self) -> float | None:
        """Of inputs and outputs, achieved while its ops ran.

        None above the device's peak: a cache served them, or an output was counted among the inputs, too.
        """
        if self.io_bytes is None or not self.total_ns:
            return None
        rate = self.io_bytes / self.total_ns * 1e9
        return None if self.peak_bytes_per_s is not None and rate > self.peak_bytes_per_s else rate

    @property
    def flop_per_byte(self) -> float | None:
        """Arithmetic intensity: operations for each byte of inputs and outputs."""
        return None if self.flop is None or not self.io_bytes else self.flop / self.io_bytes

    @property
    def peak_frac(self) -> float | None:
        """The achieved FLOP/s as a share of the device's peak for its type."""
        return None if self.flop_per_s is None or not self.peak_flop_per_s else self.flop_per_s / self.peak_flop_per_s

    @property
    def roof_frac(self) -> float | None:
        """The achieved FLOP/s as a share of what the peak and the memory bandwidth allow at its intensity.

        None above the memory's peak, as for bytes_per_s.
        """
        if self.peak_frac is None or not self.peak_bytes_per_s or not self.flop_per_byte or self.bytes_per_s is None:
            return None
        return self.peak_frac / min(1.0, self.flop_per_byte * self.peak_bytes_per_s / (self.peak_flop_per_s or 1.0))


@dataclass(frozen=True)
class Achieved:
    """What the device computed and moved in all, as far as the record tells.

    ops_ns: the summed duration of all ops.
    flop: operations of the operators that are counted, a count.
    flop_ns: how long the ops of those took.
    io_bytes: inputs and outputs of the operators where they are known.
    io_ns: how long the ops of those took.
    unattributed_ns: ops that no recorded operator or graph launched.
    without_shapes_ns: ops of operators recorded without shapes.
    """

    left_out: ClassVar[tuple[str, ...]] = ("device",)  # of JSON: the key above says which

    device: int
    ops_ns: int
    flop: int
    flop_ns: int
    io_bytes: int
    io_ns: int
    unattributed_ns: int
    without_shapes_ns: int


def device_operators(
    trace: Trace,
    device: int,
    comm_names: str | None = None,
    *,
    peaks: Peaks | None = None,
    by_module: bool = False,
) -> Rows[DeviceOperator]:
    """Which operators took a device's time, the longest first; all rows add up to the summed time of its ops.

    peaks: what the device can do at most, if not what its data sheet says.  by_module: a row for each torch.nn module,
    too. comm_names: as in perfmagic.trace.names.op_classes. The note says what the record lacks.
    """
    without_peaks = _rows(trace, device, comm_names, by_module)
    known = peaks or peaks_of(trace.device_info(device))
    rows = Rows((_with_peaks(row, known) for row in without_peaks), DeviceOperator)
    rows.note = _note(trace, achieved(trace, device, comm_names))
    return rows


def achieved(trace: Trace, device: int, comm_names: str | None = None) -> Achieved:
    """What a device computed and moved in all, as far as the record tells."""
    rows = _rows(trace, device, comm_names, False)
    counted = [row for row in rows if row.flop is not None]
    moved = [row for row in rows if row.io_bytes is not None]
    return Achieved(
        device,
        ops_ns=sum(row.total_ns for row in rows),
        flop=sum(row.flop or 0 for row in counted),
        flop_ns=sum(row.total_ns for row in counted),
        io_bytes=sum(row.io_bytes or 0 for row in moved),
        io_ns=sum(row.total_ns for row in moved),
        unattributed_ns=sum(row.total_ns for row in rows if row.source in (Source.KERNEL, Source.UNKNOWN)),
        without_shapes_ns=sum(row.total_ns for row in rows if row.source == Source.OPERATOR and not row.shapes),
    )


def _note(trace: Trace, whole: Achieved) -> str:
    parts = []
    if whole.ops_ns and 2 * whole.unattributed_ns > whole.ops_ns:
        parts.append(
            phrase("for most of the time no operator was recorded around the launch; kernels are listed by name")
        )
    if not trace.input_shapes and whole.unattributed_ns < whole.ops_ns:
        parts.append(phrase("shapes were not recorded, so that FLOP and bytes are unknown: {how}", how=HOW_TO_RECORD))
    return chained("{a}; {b}", parts)


@once_per_trace
def _rows(trace: Trace, device: int, comm_names: str | None, by_module: bool) -> tuple[DeviceOperator, ...]:
    """The rows without peaks."""
    rows = np.flatnonzero(trace.ops.device == device).astype(np.int32)
    if not len(rows):
        return ()
    origin, host = origins(trace), trace.host_ops
    host_op, from_host = origin.host_op[rows], origin.host_op[rows] != NONE
    inputs = [_of_host(column, host_op, from_host) for column in (host.shape, host.dtype, host.value)]
    module, frame = modules(trace), frames(trace)
    keys: list[npt.NDArray[Any]] = [origin.source[rows], origin.name[rows], *inputs]
    keys += [module.row[rows]] if by_module else []
    order, edges = _grouped(keys)
    length = (trace.ops.end_ns - trace.ops.start_ns)[rows]
    category = categories(trace, comm_names)[rows]
    # what a copy between host and device moves is not memory traffic of the device alone
    crosses = np.isin(op_classes(trace, comm_names)[rows], (OpClass.HTOD, OpClass.DTOH, OpClass.PTOP))
    whole = max(1, int(length.sum()))
    first = order[np.concatenate(([0], edges))]
    parsed: dict[tuple[int, ...], _Known] = {}
    operators = []
    for at, of_group in zip(first.tolist(), np.split(order, edges), strict=True):
        total = int(length[of_group].sum())
        n_calls = len(distinct(origin.calls(rows[of_group])))
        key = (int(origin.name[rows[at]]), *(int(column[at]) for column in inputs))
        if key not in parsed:
            parsed[key] = _known(trace, origin.names[key[0]], *key[1:])
        known = parsed[key]
        kernel = trace.names[_longest(trace.ops.name[rows[of_group]], length[of_group])]
        operators.append(
            DeviceOperator(
                device=device,
                name=origin.names[key[0]],
                source=Source(int(origin.source[rows[at]])),
                category=Category(_longest(category[of_group], length[of_group])),
                shapes=known.shapes,
                dtypes=known.dtypes,
                module=_place(module, rows[of_group], length[of_group]),
                frame=_place(frame, rows[of_group], length[of_group]),
                n_calls=n_calls,
                n_ops=len(of_group),
                total_ns=total,
                share_frac=total / whole,
                kernel=kernel,
                flop=None if known.flop is None else known.flop * n_calls,
                flop_at_most=known.flop_at_most,
                io_bytes=None if known.io_bytes is None or crosses[of_group].any() else known.io_bytes * n_calls,
                compute=_compute_type(known, kernel, trace.device_info(device), total / n_calls),
                peak_flop_per_s=None,
                peak_bytes_per_s=None,
            )
        )
    return tuple(sorted(operators, key=lambda row: (-row.total_ns, row.name, row.shapes)))


def compute_type(dtypes: str, kernel: str, device_kind: str) -> str:
    """The type whose peak an operator's arithmetic has; "" where its types or its kernel do not tell.

    dtypes: as in DeviceOperator.  kernel: its longest.  float32 on NVIDIA's tensor cores is TF32; AMD's matrix cores
    take float32 as it is.
    """
    first = dtypes.split(", ", maxsplit=1)[0]
    if first != "fp32" or device_kind == "rocm":
        return first if first in ("fp64", "fp32", "fp16", "bf16", "fp8", "int8") else ""
    return {True: "tf32", False: "fp32", None: ""}[uses_tensor_cores(kernel)]


def _compute_type(known: _Known, kernel: str, info: DeviceInfo, call_ns: float) -> str:
    """The same of a call that took so long, which tells TF32 where a model gave the time."""
    gpu = gpu_of(info) if info.simulated else None
    if gpu is None or known.call is None or known.call.dtype != "fp32":
        return compute_type(known.dtypes, kernel, info.kind)
    return "tf32" if known.call.products and took_tf32(known.call, gpu, call_ns) else "fp32"


@dataclass(frozen=True)
class _Known:
    """What the inputs of a call tell."""

    shapes: str
    dtypes: str
    flop: int | None
    flop_at_most: bool
    io_bytes: int | None
    call: Call | None = None


def _known(trace: Trace, name: str, shape: int, dtype: int, value: int) -> _Known:
    if shape == NONE:
        return _Known("", "", None, False, None)
    dtypes = trace.input_dtypes[dtype] if dtype != NONE else None
    values = trace.input_values[value] if value != NONE else None
    inputs = Inputs.read(trace.input_shapes[shape], dtypes, values)
    types = describe_dtype([dtype_of_tensor for _, dtype_of_tensor in inputs.tensors])
    flop, at_most = flop_of(name, inputs), flop_is_at_most(name, inputs)
    return _Known(describe_shape(inputs.shapes), types, flop, at_most, io_bytes_of(name, inputs), call_of(name, inputs))


def _of_host(column: Int32, host_op: Int32, from_host: Bool) -> Int32:
    """A column of host_ops for the operator of each row, NONE where it has none."""
    if not len(column) or (not any(column.strides) and column[0] == NONE):
        return constant(len(host_op), NONE, np.int32)
    return np.where(from_host, column[host_op], NONE)


def _grouped(keys: list[npt.NDArray[Any]]) -> tuple[Int32, Int64]:
    """The places of rows with equal keys, one group after the other, and where all but the first begin."""
    group = np.zeros(len(keys[0]), np.int64)
    for key in (key for key in keys if any(key.strides)):  # one value parts nothing
        values, code = coded(key)
        group *= len(values)
        group += code
        group = coded(group)[1]
    edges = np.cumsum(np.bincount(group))[:-1]
    return np.argsort(group, kind="stable").astype(np.int32), edges


def _longest(values: npt.NDArray[np.integer[Any]], length_ns: Int64) -> int:
    """The value that has most of the time."""
    if (values == values[0]).all():  # so it is of most groups
        return int(values[0])
    known, code = coded(values)
    return int(known[np.argmax(np.bincount(code, weights=length_ns))])


def _place(places: Places, rows: Int32, length_ns: Int64) -> str:
    where = places.row[rows]
    known: Bool = where != NONE
    return places.words[_longest(where[known], length_ns[known])] if known.any() else ""


def _with_peaks(row: DeviceOperator, peaks: Peaks | None) -> DeviceOperator:
    if peaks is None:
        return row
    values: Mapping[str, float | None] = {
        "peak_flop_per_s": peaks.of(row.compute) if row.flop is not None else None,
        "peak_bytes_per_s": peaks.bytes_per_s,
    }
    return DeviceOperator(**{**row.__dict__, **values})


# Operators against what the device can do at most: FLOP per second over FLOP per byte (Williams et al., 2009).


@dataclass(frozen=True)
class Roof:
    """The most a device computes on numbers of a type."""

    compute: str
    flop_per_s: float


@dataclass(frozen=True)
class RooflineData:
    """The operators of a device whose operations and bytes are known, the longest first, and the roofs over them.

    roofs: of the types that occur, the lowest first.  bytes_per_s: the memory bandwidth.  kind: where the peaks are
    from; "" where none are known.  placed_ns: how long the operators' ops took; ops_ns: all ops of the device,
    0 for benchmarks.
    """

    device: int
    label: str
    operators: tuple[DeviceOperator, ...]
    roofs: tuple[Roof, ...]
    bytes_per_s: float | None
    kind: str
    source: str
    placed_ns: int
    ops_ns: int


def roofline_data(trace: Trace, device: int, comm_names: str | None = None, peaks: Peaks | None = None) -> RooflineData:
    """Where each operator of a device lies below its roof.

    peaks: what the device can do at most, if not what its data sheet says. Raises TraceError where operations and bytes
    of no operator are known, with what to record.
    """
    rows = device_operators(trace, device, comm_names, peaks=peaks)
    placed = tuple(row for row in rows if row.flop and row.io_bytes and row.total_ns)
    if not placed:
        why = "has no shapes of operators' inputs" if not trace.input_shapes else "has no operator that is counted"
        raise TraceError(f"no roofline of device {device}: the record {why}", hint=HOW_TO_RECORD)
    known = peaks or peaks_of(trace.device_info(device))
    types = dict.fromkeys(row.compute for row in placed)
    roofs = [Roof(dtype, peak) for dtype in types if known and (peak := known.of(dtype))]
    return RooflineData(
        device,
        label=trace.device_info(device).label,
        operators=placed,
        roofs=tuple(sorted(roofs, key=lambda roof: roof.flop_per_s)),
        bytes_per_s=known.bytes_per_s if known else None,
        kind=known.kind if known else "",
        source=known.source if known else "",
        placed_ns=sum(row.total_ns for row in placed),
        ops_ns=sum(row.total_ns for row in rows),
    )


# How much of it was on tensor cores.


@dataclass(frozen=True)
class TensorCoreShare:
    """How much of the kernels' summed duration was on tensor cores, by the kernels' names.

    tensor_ns: kernels that use them.
    undecided_ns: matrix kernels whose name does not say.
    matrix_ns: matrix kernels, and whatever else uses them.
    kernel_ns: all kernels.
    frac_of_matrix: `tensor_ns` by `matrix_ns`, 0 to 1.
    frac_of_kernels: `tensor_ns` by `kernel_ns`, 0 to 1.
    """

    left_out: ClassVar[tuple[str, ...]] = ("device",)  # of JSON: the key above says which
    computed: ClassVar[tuple[str, ...]] = ("frac_of_matrix", "frac_of_kernels")

    device: int
    tensor_ns: int
    undecided_ns: int
    matrix_ns: int
    kernel_ns: int

    @property
    def frac_of_matrix(self) -> float:
        return self.tensor_ns / self.matrix_ns if self.matrix_ns else 0.0

    @property
    def frac_of_kernels(self) -> float:
        return self.tensor_ns / self.kernel_ns if self.kernel_ns else 0.0


def tensor_core_share(trace: Trace, device: int, comm_names: str | None = None) -> TensorCoreShare:
    """How much of a device's kernel time was on tensor cores (AMD: matrix cores), by the kernels' names."""
    rows = (trace.ops.device == device) & (trace.ops.kind == OpKind.KERNEL)
    name, classes = trace.ops.name[rows], op_classes(trace, comm_names)[rows]
    length = (trace.ops.end_ns - trace.ops.start_ns)[rows]
    used, inverse = coded(name)
    says = [uses_tensor_cores(trace.names[i]) for i in used.tolist()]
    yes: Bool = np.array([answer is True for answer in says], bool)[inverse]
    unknown: Bool = np.array([answer is None for answer in says], bool)[inverse]
    matrix = classes == OpClass.MATRIX
    return TensorCoreShare(
        device,
        tensor_ns=int(length[yes].sum()),
        undecided_ns=int(length[unknown & matrix].sum()),
        matrix_ns=int(length[yes | matrix].sum()),
        kernel_ns=int(length.sum()),
    )


# What each op is for. Every op has one category, so that their times add up to the summed time of the device's ops.


@dataclass(frozen=True)
class CategoryTime:
    """The ops of one category; of custom kernels, those of one kernel.

    category: what they are for; fused: several operators in one kernel of a compiler; custom: no family knows the
    kernel, and no operator of torch launched it.
    kernel: the name of a custom kernel; empty for the other categories.
    n_ops: how many.
    total_ns: their summed duration.
    share_frac: its share of the summed duration of all ops of the device.
    """

    device: int
    category: Category
    kernel: str
    n_ops: int
    total_ns: int
    share_frac: float


_STEP = "Optimizer.step#"  # torch's annotation around the step of every optimizer
# An optimizer's step is elementwise work: what it multiplies or sends stays what it is
_OF_A_STEP = (Category.ELEMENTWISE, Category.REDUCTION, Category.FUSED, Category.CUSTOM, Category.OTHER)


@once_per_trace
def categories(trace: Trace, comm_names: str | None = None) -> Int8:
    """The Category of every device op; shape of trace.ops. comm_names: as in perfmagic.trace.names.op_classes."""
    ops, origin = trace.ops, origins(trace)
    classes = op_classes(trace, comm_names)
    operator = np.where(origin.source == Source.OPERATOR, origin.name, NONE) + 1
    key = (ops.name.astype(np.int64) * (len(origin.names) + 1) + operator) * len(OpClass) + classes
    unique, inverse = coded(key)
    names = ("", *origin.names)
    category_of_key = []
    for code in unique.tolist():
        rest, op_class = divmod(code, len(OpClass))
        name, operator_row = divmod(rest, len(names))
        kernel = trace.names[name]
        # an op of the simulated device has its operator's name: graphs record no operators
        launched_by = names[operator_row] or (f"aten::{kernel.split('.')[0]}" if trace.simulated else "")
        category_of_key.append(category_of(kernel, OpClass(op_class), launched_by))
    result = np.array(category_of_key, np.int8)[inverse]
    step = _in_optimizer(trace) & np.isin(result, _OF_A_STEP)
    result[step] = Category.OPTIMIZER
    result.flags.writeable = False
    return result


def category_of(kernel: str, op_class: OpClass, operator: str = "") -> Category:
    """The category of a device op by its name, its class, and the name of the operator that launched it ("": none).

    >>> category_of("ampere_sgemm_128x64_nn", OpClass.MATRIX, "aten::cudnn_convolution").name
    'CONVOLUTION'
    """
    fixed = {OpClass.COMMUNICATION: Category.COMMUNICATION, OpClass.MEMSET: Category.MEMSET}
    if op_class in fixed:
        return fixed[op_class]
    if op_class in (OpClass.HTOD, OpClass.DTOH, OpClass.DTOD, OpClass.PTOP):
        return Category.COPY
    family = find_family(kernel, operator)
    if family is not None:
        return family.category
    return Category.OTHER if is_of_library(kernel, operator) else Category.CUSTOM


def category_times(trace: Trace, device: int, comm_names: str | None = None) -> Rows[CategoryTime]:
    """How long a device worked on what, the longest first; the times add up to the summed time of its ops."""
    here = trace.ops.device == device
    category = categories(trace, comm_names)[here].astype(np.int64)
    kernel = np.where(category == Category.CUSTOM, trace.ops.name[here], NONE)
    length = (trace.ops.end_ns - trace.ops.start_ns)[here]
    n_names = len(trace.names) + 1
    keys, group = coded(category * n_names + kernel + 1)
    n = np.bincount(group, minlength=len(keys))
    total = np.zeros(len(keys), np.int64)
    np.add.at(total, group, length)
    whole = max(1, int(total.sum()))
    shown = shown_names(trace)
    rows = []
    for key, n_ops, total_ns in zip(keys.tolist(), n.tolist(), total.tolist(), strict=True):
        kind, name = divmod(key, n_names)
        custom = shown[name - 1] if name else ""
        rows.append(CategoryTime(device, Category(kind), custom, n_ops, total_ns, total_ns / whole))
    return Rows(sorted(rows, key=lambda row: -row.total_ns), CategoryTime)


def _in_optimizer(trace: Trace) -> Bool:
    """Which ops were launched inside an optimizer's step; shape of ops."""
    ops, calls, host = trace.ops, trace.calls, trace.host_ops
    steps = np.array([name.startswith(_STEP) for name in trace.names], bool)
    none = np.zeros(len(ops), bool)
    if not steps.any() or not len(calls) or not len(host):
        return none
    stack = host_stack(trace, steps[host.name] & (host.kind != HostKind.PYTHON))
    inside = stack.outermost_at(calls.thread, calls.start_ns) != NONE
    in_step: Bool = (ops.launch != NONE) & inside[ops.launch] & (ops.kind == OpKind.KERNEL)
    return in_step
