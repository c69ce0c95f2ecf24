"""How many floating-point operations a call of an operator takes, and how many bytes it reads and writes.

From the shapes of its inputs alone, as the record writes them. A product of numbers and its addition are two
operations; a convolution counts every product of a filter with a place of the output, padding included; attention
counts its products and not its softmax. These are the conventions of torch.utils.flop_counter (read in torch 2.13),
which the tests compare with, but for causal attention: fused kernels leave out the half that its mask hides, and so
does the count. Where the record does not say whether a call was causal, the count is the most it can be.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

from perfmagic.trace.work.attention import fused, fused_backward, inner
from perfmagic.trace.work.inputs import DTYPE_BYTES, Inputs, Shape, Work, must


def flop_of(name: str, inputs: Inputs) -> int | None:
    """The floating-point operations of a call of an operator; None where it is not counted, or shapes do not fit.

    >>> flop_of("aten::mm", Inputs(((2, 3), (3, 5)), ("float", "float")))
    60
    """
    work = _work(name, inputs)
    return work.flop if work else None


def is_counted(name: str) -> bool:
    """Whether flop_of() counts the calls of an operator at all.

    >>> is_counted("aten::mm"), is_counted("aten::add")
    (True, False)
    """
    return name.startswith("aten::") and name.removeprefix("aten::").removesuffix("_") in _COUNTED


def flop_is_at_most(name: str, inputs: Inputs) -> bool:
    """Whether flop_of() is the most a call can have taken: attention of which the record does not say if it is causal.

    >>> flop_is_at_most("aten::_scaled_dot_product_flash_attention", Inputs(((1, 2, 8, 4),) * 3, ("float",) * 3))
    True
    """
    work = _work(name, inputs)
    return work is not None and work.at_most


def io_bytes_of(name: str, inputs: Inputs) -> int | None:
    """The bytes of all inputs and outputs of a call, each once; None where a type or the output is not known.

    That is the least a kernel must move if nothing is in a cache before and no input is an expanded view; a kernel may
    move more. Known for the operators that flop_of() counts, and for elementwise operators.
    """
    tensors = inputs.tensors
    if not tensors or any(dtype not in DTYPE_BYTES for _, dtype in tensors):
        return None
    output = _elementwise_output(name, inputs)
    if output is None:
        work = _work(name, inputs)
        output = work.output if work else None
    if output is None:
        return None
    sizes = [DTYPE_BYTES[dtype] for _, dtype in tensors]
    read = [math.prod(shape) * size for (shape, _), size in zip(tensors, sizes, strict=True)]
    if name in _WRITE_ONLY:
        del read[0]
    read = read[: _READ.get(name.removeprefix("aten::"), len(read))]
    # the type of a new result follows from all inputs; the smallest is the least it can take
    written = sizes[0] if name.endswith("_") else min(sizes)
    return sum(read) + math.prod(output) * written


def _work(name: str, inputs: Inputs) -> Work | None:
    if not name.startswith("aten::"):
        return None
    counted = _COUNTED.get(name.removeprefix("aten::").removesuffix("_"))
    if counted is None:
        return None
    try:
        return counted(inputs)
    except (ValueError, IndexError, TypeError):  # shapes, or so few, that no such operator takes
        return None


def _mm(a: Shape, b: Shape) -> Work:
    (m, k), (k2, n) = a, b
    must(k == k2)
    return Work(2 * m * n * k, (m, n))


def _bmm(a: Shape, b: Shape) -> Work:
    (batch, m, k), (batch2, k2, n) = a, b
    must(k == k2 and batch == batch2)
    return Work(2 * batch * m * n * k, (batch, m, n))


def _mv(a: Shape, b: Shape) -> Work:
    (m, k), (k2,) = a, b
    must(k == k2)
    return Work(2 * m * k, (m,))


def _linear(inputs: Inputs) -> Work:
    *rows, k = inputs.shapes[0]
    n, k2 = inputs.shapes[1]
    must(k == k2)
    return Work(2 * math.prod(rows) * n * k, (*rows, n))


def _convolution(x: Shape, w: Shape, places: Shape, channels: int) -> Work:
    """places: of the output, of a transposed convolution of the input: the filter is applied once at each."""
    must(len(x) == len(w) == len(places) + 2)
    return Work(2 * x[0] * math.prod(places) * math.prod(w), (x[0], channels, *places))


@dataclass(frozen=True)
class _Places:
    """Where the plain inputs of an operator of convolution stand among its inputs."""

    stride: int
    padding: int
    dilation: int
    transposed: int | None = None  # the operator itself is not transposed
    x: int = 0
    w: int = 1

    def __call__(self, inputs: Inputs) -> Work:
        x, w = inputs.shapes[self.x], inputs.shapes[self.w]
        if self.transposed is not None and _flag(inputs.values[self.transposed]):
            return Work(_convolution(x, w, x[2:], 0).flop, None)
        stride, padding, dilation = (
            _numbers(inputs.values[at], len(x) - 2) for at in (self.stride, self.padding, self.dilation)
        )
        out = tuple(
            (size + 2 * pad - spread * (filter_size - 1) - 1) // step + 1
            for size, filter_size, step, pad, spread in zip(x[2:], w[2:], stride, padding, dilation, strict=True)
        )
        must(all(n > 0 for n in out))
        return _convolution(x, w, out, w[0])


def _transposed(inputs: Inputs) -> Work:
    x, w = inputs.shapes[:2]
    return Work(_convolution(x, w, x[2:], 0).flop, None)


def _convolution_backward(inputs: Inputs) -> Work:
    """Each gradient that is wanted, of the input and of the weight, takes as much as the convolution itself."""
    grad, x, w = inputs.shapes[:3]
    transposed, wanted = _flag(inputs.values[7]), [_flag(one) for one in inputs.values[10].strip("[] ").split(",")]
    once = _convolution(x, w, (x if transposed else grad)[2:], 0).flop or 0
    return Work(once * sum(wanted[:2]), None)


def _flag(text: str) -> bool:
    known = {"True": True, "False": False, "1": True, "0": False}
    must(text.strip() in known)
    return known[text.strip()]


def _numbers(text: str, n: int) -> list[int]:
    """One number for each spatial dimension; a single one holds for all."""
    found = [int(one) for one in text.strip("[] ").split(",")]
    must(len(found) in (1, n))
    return found * n if len(found) == 1 else found


def _elementwise_output(name: str, inputs: Inputs) -> Shape | None:
    """The shape of the result of an elementwise operator, which its inputs are broadcast to; None for others."""
    if name.removeprefix("aten::").removesuffix("_") not in _ELEMENTWISE or not name.startswith("aten::"):
        return None
    tensors = [shape for shape, _ in inputs.tensors]
    result = [1] * max(map(len, tensors))
    for shape in tensors:
        for at, n in enumerate(reversed(shape), 1):
            if n != 1 and result[-at] not in (1, n):
                return None
            result[-at] = n if n != 1 else result[-at]
    return tuple(result)


# The schemas of torch's native_functions.yaml (2.13), which name the inputs in this order.
_COUNTED: dict[str, Callable[[Inputs], Work]] = {
    "mm": lambda i: _mm(*i.shapes[:2]),
    "_int_mm": lambda i: _mm(*i.shapes[:2]),
    "_scaled_mm": lambda i: _mm(*i.shapes[:2]),
    "addmm": lambda i: _mm(*i.shapes[1:3]),
    "_addmm_activation": lambda i: _mm(*i.shapes[1:3]),
    "bmm": lambda i: _bmm(*i.shapes[:2]),
    "baddbmm": lambda i: _bmm(*i.shapes[1:3]),
    "mv": lambda i: _mv(*i.shapes[:2]),
    "addmv": lambda i: _mv(*i.shapes[1:3]),
    "linear": _linear,
    "convolution": _Places(stride=3, padding=4, dilation=5, transposed=6),
    "_convolution": _Places(stride=3, padding=4, dilation=5, transposed=6),
    "convolution_overrideable": _Places(stride=3, padding=4, dilation=5, transposed=6),
    "cudnn_convolution": _Places(stride=3, padding=2, dilation=4),
    "cudnn_convolution_relu": _Places(stride=3, padding=4, dilation=5),
    "miopen_convolution": _Places(stride=4, padding=3, dilation=5),
    "miopen_depthwise_convolution": _Places(stride=4, padding=3, dilation=5),
    "_conv_depthwise2d": _Places(stride=4, padding=5, dilation=6),
    "conv_depthwise3d": _Places(stride=4, padding=5, dilation=6),
    "cudnn_convolution_transpose": _transposed,
    "miopen_convolution_transpose": _transposed,
    "convolution_backward": _convolution_backward,
    "_flash_attention_forward": inner(3, causal_at=8),
    "_efficient_attention_forward": inner(4, causal_at=9),
    **{
        f"_scaled_dot_product_{kind}": count
        for kind, forward, backward in (
            ("flash_attention", 4, 11),
            ("efficient_attention", 6, 11),
            ("cudnn_attention", 6, 14),
            ("fused_attention_overrideable", 5, 13),
            ("flash_attention_for_cpu", 4, 7),
        )
        for kind, count in ((kind, fused(forward)), (f"{kind}_backward", fused_backward(backward)))
    },
}
# How many tensors these read: one more is where the result goes, as with mm(a, b, out=c)
_READ = {"mm": 2, "_int_mm": 2, "addmm": 3, "bmm": 2, "baddbmm": 3, "add": 2, "sub": 2, "mul": 2, "div": 2}
_WRITE_ONLY = frozenset({"aten::copy_", "aten::fill_", "aten::zero_"})  # the first input is not read
# Whose result has the broadcast shape of the inputs and the type of the first; in place too
_ELEMENTWISE = frozenset(
    (
        *(
            "add",
            "sub",
            "rsub",
            "mul",
            "div",
            "neg",
            "abs",
            "exp",
            "log",
            "sqrt",
            "rsqrt",
            "pow",
            "square",
            "reciprocal",
            "sin",
            "cos",
            "erf",
        ),
        *(
            "addcmul",
            "addcdiv",
            "lerp",
            "minimum",
            "maximum",
            "clamp",
            "clamp_min",
            "clamp_max",
            "copy",
            "fill",
            "zero",
            "masked_fill",
        ),
        *(
            "sigmoid",
            "tanh",
            "relu",
            "gelu",
            "silu",
            "mish",
            "elu",
            "hardswish",
            "leaky_relu",
            "_softmax",
            "_log_softmax",
        ),
        *("threshold", "threshold_backward", "gelu_backward", "silu_backward", "sigmoid_backward", "tanh_backward"),
        *("_softmax_backward_data",),
    )
)
