"""What each device op is for: matrix products, attention, convolution, elementwise work and so on.

By the operator that launched it where that decides, else by the kernel's name: a gemm that a convolution launched is
convolution. Every op has one category, so that their times add up to the summed time of the device's ops.
"""

from __future__ import annotations

import enum
import re
from dataclasses import dataclass

import numpy as np

from perfmagic.analysis.timeline.origin import Source, origins
from perfmagic.base.numerics.intervals import coded
from perfmagic.trace.columns import NONE, Bool, HostKind, Int8, OpKind
from perfmagic.trace.hoststack import host_stack
from perfmagic.trace.model import Trace
from perfmagic.trace.names import OpClass, op_classes
from perfmagic.trace.once import once_per_trace
from perfmagic.trace.rows import Rows
from perfmagic.trace.signatures import function_name


class Category(enum.IntEnum):
    """What a device op is for."""

    GEMM = 0
    ATTENTION = 1  # fused attention: products and softmax in one kernel
    CONVOLUTION = 2
    NORMALISATION = 3  # batch, layer, group and RMS norm
    ELEMENTWISE = 4  # a value from values at the same place: activations, copies by kernels, concatenation
    REDUCTION = 5  # sums, means, softmax, argmax, scans
    EMBEDDING = 6  # table lookups, gathering and scattering by index
    OPTIMIZER = 7
    FUSED = 8  # several operators in one kernel of torch.compile
    COMMUNICATION = 9
    COPY = 10
    MEMSET = 11
    OTHER = 12


CATEGORY_WORDS = {
    Category.GEMM: "matrix products",
    Category.ATTENTION: "attention",
    Category.CONVOLUTION: "convolution",
    Category.NORMALISATION: "normalisation",
    Category.ELEMENTWISE: "elementwise",
    Category.REDUCTION: "reductions and softmax",
    Category.EMBEDDING: "embedding and indexing",
    Category.OPTIMIZER: "optimizer",
    Category.FUSED: "fused by torch.compile",
    Category.COMMUNICATION: "communication",
    Category.COPY: "copies",
    Category.MEMSET: "memset",
    Category.OTHER: "other",
}


@dataclass(frozen=True)
class CategoryTime:
    """The ops of one category.

    category: what they are for; fused: several operators in one kernel of torch.compile.
    n_ops: how many.
    total_ns: their summed duration.
    share_frac: its share of the summed duration of all ops of the device.
    """

    device: int
    category: Category
    n_ops: int
    total_ns: int
    share_frac: float


# Searched in operators' names: what decides whatever the kernel is called.
_BY_OPERATOR = (
    (re.compile(r"scaled_dot_product|attention|flash_?attn|flex_attn", re.IGNORECASE), Category.ATTENTION),
    (re.compile(r"conv(?:olution|_?transpose|_?depthwise|[123]d|_)|_conv", re.IGNORECASE), Category.CONVOLUTION),
    (re.compile(r"(?:batch|layer|group|instance|rms)_?norm", re.IGNORECASE), Category.NORMALISATION),
    (re.compile(r"embedding|SplitLookup|sparse_features|sparse_data|index_select", re.IGNORECASE), Category.EMBEDDING),
    (re.compile(r"_foreach_copy|_amp_"), Category.ELEMENTWISE),
    (re.compile(r"_fused_(?:adam|sgd|adagrad)|_single_tensor|_multi_tensor", re.IGNORECASE), Category.OPTIMIZER),
)
# Searched in kernels' short names, the first that matches. The libraries' names as in perfmagic.trace.names.
_BY_KERNEL = (
    (re.compile(r"^triton_(?:poi|per|red|for)_fused"), Category.FUSED),
    (
        re.compile(r"fmha|flash_(?:fwd|bwd)|attn|attention|mha_|batch_?(?:prefill|decode)with", re.IGNORECASE),
        Category.ATTENTION,
    ),
    (
        re.compile(
            r"conv(?!ert|ersion)|[dw]grad|fprop|winograd|[sh]cudnn|implicit_gemm|igemm|im2d?col|nchwToNhwc|nhwcToNchw",
            re.IGNORECASE,
        ),
        Category.CONVOLUTION,
    ),
    (
        re.compile(r"(?:batch|layer|group|rms)_?norm|\bbn_|GammaBeta|RowwiseMoments|welford", re.IGNORECASE),
        Category.NORMALISATION,
    ),
    (re.compile(r"splitk_?reduce|reduce_?splitk|gemmk1|gemv|cublas", re.IGNORECASE), Category.GEMM),
    (
        re.compile(r"embedding|indexSelect|gather|scatter|index_put|indexing_backward", re.IGNORECASE),
        Category.EMBEDDING,
    ),
    (re.compile(r"multi_tensor_apply|adam|sgd_|lamb_", re.IGNORECASE), Category.OPTIMIZER),
    (
        re.compile(r"softmax|reduce|reduction|argm(?:ax|in)|\bscan|cumsum|norm_kernel|DeviceScan", re.IGNORECASE),
        Category.REDUCTION,
    ),
    (
        re.compile(
            r"elementwise|pointwise|CatArray|fill|dropout|activation|silu|gelu|masked|index_kernel|permute|transpose"
            r"|copy_kernel|op_?tensor|rotary|quant|arange",
            re.IGNORECASE,
        ),
        Category.ELEMENTWISE,
    ),
)
_STEP = "Optimizer.step#"  # torch's annotation around the step of every optimizer
# An optimizer's step is elementwise work: what it multiplies or sends stays what it is
_OF_A_STEP = (Category.ELEMENTWISE, Category.REDUCTION, Category.OTHER, Category.FUSED)


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
        category_of_key.append(category_of(trace.names[name], OpClass(op_class), names[operator_row]))
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
    if operator and not operator.startswith("triton_"):
        for pattern, category in _BY_OPERATOR:
            if pattern.search(operator):
                return category
    short = function_name(kernel)
    by_name = next((category for pattern, category in _BY_KERNEL if pattern.search(short)), Category.OTHER)
    if op_class == OpClass.MATRIX and by_name not in (Category.ATTENTION, Category.CONVOLUTION):
        return Category.GEMM
    return by_name


def category_times(trace: Trace, device: int, comm_names: str | None = None) -> Rows[CategoryTime]:
    """How long a device worked on what, the longest first; the times add up to the summed time of its ops."""
    here = trace.ops.device == device
    category = categories(trace, comm_names)[here]
    length = (trace.ops.end_ns - trace.ops.start_ns)[here]
    n = np.bincount(category, minlength=len(Category))
    total = np.zeros(len(Category), np.int64)
    np.add.at(total, category, length)
    whole = max(1, int(total.sum()))
    rows = [
        CategoryTime(device, kind, int(n[kind]), int(total[kind]), int(total[kind]) / whole)
        for kind in Category
        if n[kind]
    ]
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
