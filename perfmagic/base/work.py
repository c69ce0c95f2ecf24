"""How many floating-point operations a call of an operator takes, and how many bytes it reads and writes.

From the shapes of its inputs alone, as the record writes them. A product of numbers and its addition are two
operations; a convolution counts every product of a filter with a place of the output, padding included; attention
counts its products and not its softmax. These are the conventions of torch.utils.flop_counter (read in torch 2.13),
which the tests compare with, but for causal attention: fused kernels leave out the half that its mask hides, and so
does the count. Where the record does not say whether a call was causal, the count is the most it can be.
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

# The inputs of one call of an operator, as the record writes them, and what the call does with them.

Shape = tuple[int, ...]

# Bytes of an element, and what people call the type, by the names that the profiler writes for C++ types
_DTYPES = {
    "double": (8, "fp64"), "float": (4, "fp32"), "c10::Half": (2, "fp16"), "c10::BFloat16": (2, "bf16"),
    "c10::Float8_e4m3fn": (1, "fp8"), "c10::Float8_e5m2": (1, "fp8"), "c10::Float8_e4m3fnuz": (1, "fp8"),
    "c10::Float8_e5m2fnuz": (1, "fp8"), "long int": (8, "int64"), "long": (8, "int64"), "int": (4, "int32"),
    "short": (2, "int16"), "short int": (2, "int16"), "signed char": (1, "int8"), "unsigned char": (1, "uint8"),
    "bool": (1, "bool"), "c10::complex<float>": (8, ""), "c10::complex<double>": (16, ""),
}  # fmt: skip
DTYPE_BYTES = {dtype: size_bytes for dtype, (size_bytes, _) in _DTYPES.items()}
DTYPE_WORDS = {dtype: words for dtype, (_, words) in _DTYPES.items() if words}


@dataclass(frozen=True)
class Inputs:
    """The inputs of one call: of each its shape and type, () and "" where it is no tensor or the record does not say.

    values: of each plain input its value as the record writes it ("[2, 2]", "False"), () where it has none.
    lists: of each input that is a list of tensors their shapes, () for others; the record does not say their types.
    """

    shapes: tuple[Shape, ...]
    dtypes: tuple[str, ...]
    values: tuple[str, ...] = ()
    lists: tuple[tuple[Shape, ...], ...] = ()

    @classmethod
    def read(cls, shapes: str | None, dtypes: str | None = None, values: str | None = None) -> Inputs:
        """From the JSON texts of a record. What is no list of whole numbers is no shape: (), as for a plain number."""
        dims = tuple(map(_shape, _list(shapes)))
        types = [dtype if isinstance(dtype, str) else "" for dtype in _list(dtypes)]
        plain = tuple(value if isinstance(value, str) else "" for value in _list(values))
        lists = tuple(tuple(map(_shape, value)) if isinstance(value, list) else () for value in _list(shapes))
        return cls(dims, tuple((*types, *[""] * len(dims))[: len(dims)]), plain, lists if any(map(any, lists)) else ())

    @property
    def tensors(self) -> list[tuple[Shape, str]]:
        """Shape and type of the inputs that are tensors with at least one dimension."""
        return [(s, d) for s, d in zip(self.shapes, self.dtypes, strict=True) if s]


@dataclass(frozen=True)
class Work:
    """What one call does: floating-point operations, and the shape of what it writes; None where that is not known.

    at_most: the call may have done with fewer operations, and the record does not say.
    """

    flop: int | None
    output: Shape | None
    at_most: bool = False


def must(fits: bool) -> None:
    """Raise ValueError for shapes that no such operator takes."""
    if not fits:
        raise ValueError("shapes that do not fit")


def describe_dtype(dtypes: Sequence[str]) -> str:
    """The types of a call's tensors in words, each once: "bf16", "fp32, int64"; "" where none is known."""
    return ", ".join(dict.fromkeys(DTYPE_WORDS.get(dtype, dtype) for dtype in dtypes if dtype in DTYPE_BYTES))


def describe_shape(shapes: Sequence[Shape]) -> str:
    """The shapes of a call's tensors: "[64, 128] [128, 32]"."""
    return " ".join(f"[{', '.join(map(str, shape))}]" for shape in shapes if shape)


def _list(text: str | None) -> list[Any]:
    if not text:
        return []
    try:
        values = json.loads(text)
    except (ValueError, RecursionError):
        return []
    return values if isinstance(values, list) else []


def _shape(value: Any) -> Shape:
    if isinstance(value, list) and all(type(n) is int and n >= 0 for n in value):
        return tuple(value)
    return ()


# How many floating-point operations a call of fused attention takes, forward and backward, causal or not.


def _attention(q: Shape, k: Shape, v: Shape) -> Work:
    """Shapes (batch, heads, length, dimension); fewer heads of keys and values than of queries are shared."""
    batch, heads, n, d = q
    batch2, heads2, m, d2 = k
    batch3, heads3, m3, d_v = v
    must(batch == batch2 == batch3 and heads2 == heads3 and heads % heads2 == 0 and d == d2 and m == m3)
    return Work(2 * batch * heads * n * m * (d + d_v), (batch, heads, n, d_v))


def _attention_backward(inputs: Inputs) -> Work:
    """The scores again, then the gradients of scores, values, queries and keys: three products over d, two over d_v."""
    grad, q, k, v = inputs.shapes[:4]
    forward = _attention(q, k, v)
    must(grad == forward.output)
    (batch, heads, n, d), m, d_v = q, k[2], v[3]
    return Work(2 * batch * heads * n * m * (3 * d + 2 * d_v), None)


def _masked(work: Work, n: int, m: int, causal: bool | None) -> Work:
    """Attention of n queries to m keys, less what a causal mask hides; causal: None where the record does not say.

    Of as many queries as keys each has those up to its own place. Of other numbers the operators differ in which end
    the mask counts from, so that the whole is the most.
    """
    if causal is False or work.flop is None:
        return work
    if causal is None or n != m:
        return Work(work.flop, work.output, at_most=True)
    return Work(work.flop * (n + 1) // (2 * n), work.output)


def _is_causal(inputs: Inputs, at: int) -> bool | None:
    """Whether a call was causal, by the plain input at a place: a flag, or the number of a mask; None: unrecorded."""
    text = inputs.values[at].strip() if at < len(inputs.values) else ""
    return {"True": True, "False": False, "1": True, "2": True, "0": False}.get(text)


def fused(causal_at: int) -> Callable[[Inputs], Work]:
    """What a forward call does, of aten::_scaled_dot_product_…; causal_at: where its inputs say if it is causal."""

    def count(inputs: Inputs) -> Work:
        q, k, v = inputs.shapes[:3]
        return _masked(_attention(q, k, v), q[2], k[2], _is_causal(inputs, causal_at))

    return count


def fused_backward(causal_at: int) -> Callable[[Inputs], Work]:
    """What a backward call does; causal_at: as in fused()."""

    def count(inputs: Inputs) -> Work:
        q, k = inputs.shapes[1:3]
        return _masked(_attention_backward(inputs), q[2], k[2], _is_causal(inputs, causal_at))

    return count


def inner(lengths: int, causal_at: int) -> Callable[[Inputs], Work]:
    """What an inner operator does (aten::_flash_attention_forward); lengths: where those of packed sequences stand."""

    def count(inputs: Inputs) -> Work:
        q, k, v = _by_heads(inputs, lengths)
        return _masked(_attention(q, k, v), q[2], k[2], _is_causal(inputs, causal_at))

    return count


def _by_heads(inputs: Inputs, lengths: int) -> list[Shape]:
    """Queries, keys and values of the inner operators, which have (batch, length, heads, dimension).

    lengths: where those of packed sequences stand; with them the shapes do not tell how long each sequence is.
    """
    must(lengths >= len(inputs.shapes) or not inputs.shapes[lengths])
    turned: list[Shape] = []
    for batch, length, heads, d in inputs.shapes[:3]:  # ValueError for another number of dimensions
        turned.append((batch, heads, length, d))
    return turned


def flop_of(name: str, inputs: Inputs) -> int | None:
    """The floating-point operations of a call of an operator; None where it is not counted, or shapes do not fit.

    >>> flop_of("aten::mm", Inputs(((2, 3), (3, 5)), ("float", "float")))
    60
    """
    work = work_of(name, inputs)
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
    work = work_of(name, inputs)
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
        work = work_of(name, inputs)
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


def work_of(name: str, inputs: Inputs) -> Work | None:
    """What a call of an operator does; None where it is not counted, or shapes do not fit."""
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
    transposed, wanted = _flag(inputs.values[7]), [_flag(flag) for flag in inputs.values[10].strip("[] ").split(",")]
    once = _convolution(x, w, (x if transposed else grad)[2:], 0).flop or 0
    return Work(once * sum(wanted[:2]), None)


def _flag(text: str) -> bool:
    known = {"True": True, "False": False, "1": True, "0": False}
    must(text.strip() in known)
    return known[text.strip()]


def _numbers(text: str, n: int) -> list[int]:
    """One number for each spatial dimension; a single one holds for all."""
    numbers = [int(number) for number in text.strip("[] ").split(",")]
    must(len(numbers) in (1, n))
    return numbers * n if len(numbers) == 1 else numbers


def _elementwise_output(name: str, inputs: Inputs) -> Shape | None:
    """The shape of the result of an elementwise operator, which its inputs are broadcast to; None for others."""
    if name.removeprefix("aten::").removesuffix("_") not in ELEMENTWISE or not name.startswith("aten::"):
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
ELEMENTWISE = frozenset({
    "add", "sub", "rsub", "mul", "div", "neg", "abs", "exp", "log", "sqrt", "rsqrt", "pow", "square", "reciprocal",
    "sin", "cos", "erf", "addcmul", "addcdiv", "lerp", "minimum", "maximum", "clamp", "clamp_min", "clamp_max",
    "copy", "fill", "zero", "masked_fill", "sigmoid", "tanh", "relu", "gelu", "silu", "mish", "elu", "hardswish",
    "leaky_relu", "_softmax", "_log_softmax", "threshold", "threshold_backward", "gelu_backward", "silu_backward",
    "sigmoid_backward", "tanh_backward", "_softmax_backward_data",
})  # fmt: skip
