"""What one call of an operator asks of a GPU: arithmetic, bytes, and the kind of kernel that does it.

FLOP are those of perfmagic.base.work. Bytes are inputs and outputs, each once, also of operators that work.py leaves
out because their bytes are a rule of thumb. An operator that is in no list here has no call: its time is not predicted.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable
from dataclasses import dataclass

from perfmagic.base.work import DTYPE_BYTES, DTYPE_WORDS, ELEMENTWISE, Inputs, Shape, flop_of, must, work_of
from perfmagic.trace.names import uses_tensor_cores

FEW = 16  # rows or columns: a product with fewer reads its matrix once, as a vector's does
STREAMED_ROWS = 64  # or columns, with which a product of two matrices reads the larger as fast as memory gives it
SHORT_ROW = 1024  # torch's softmax holds rows up to this in registers (PersistentSoftmax.cuh)
CHANNELS_OF_IMAGE = 4  # a convolution over so few input channels fills no tensor core
_SECTOR_BYTES, _INDEX_BYTES = 32, 8  # that memory gives at least; of a number of an index
ALIGNED_BYTES = 16  # what tensor cores and vectorised loads want of a row
_LIST_ELEMENT = re.compile(r"BatchedCopy\w*<(?:.*?OpaqueType<(\d+)|([\w:]+))")  # of torch's kernel for cat


@dataclass(frozen=True)
class Call:
    """What a call asks of a GPU.

    kind: of kernel, a name of the fitted parameters.  dtype: of its arithmetic, as in gpus.TYPES.
    flop: a count.  size_bytes: read and written.  products: (batch, m, n, k) of each matrix product.
    blocks: parts that multiprocessors take one by one, 0 where that is not known.  n_kernels: how many it launches.
    aligned: whether rows begin at multiples of 16 bytes.  winograd: a 3 × 3 filter that libraries may transform.
    streamed: whether it reads a matrix once, by whole rows, for few rows or columns of the other.
    """

    kind: str
    dtype: str = "fp32"
    flop: float = 0.0
    size_bytes: float = 0.0
    products: tuple[tuple[int, int, int, int], ...] = ()
    blocks: int = 0
    n_kernels: float = 1.0
    aligned: bool = True
    winograd: bool = False
    streamed: bool = False

    @property
    def tiled(self) -> bool:
        """Whether it is computed by tiles: a vector's product is not, and its result says little of its blocks."""
        return bool(self.products) and self.kind != "vector product"


def call_of(name: str, inputs: Inputs, kernel: str = "") -> Call | None:
    """What a call of a torch operator asks of a GPU; None for operators and shapes that have no rule.

    kernel: the longest that the call launched, by its name, if known: it tells TF32 from float32 and loads that are not
    vectorised.

    >>> call_of("aten::mm", Inputs(((64, 32), (32, 128)), ("float", "float"))).products
    ((1, 64, 128, 32),)
    """
    if not name.startswith("aten::"):
        return None
    plain = name.removeprefix("aten::")
    plain = plain.removesuffix("_")
    rule = _RULES.get(plain) or (_foreach if plain.startswith(("_foreach_", "_fused_", "_amp_foreach_")) else None)
    if rule is None:
        return None
    try:
        return rule(_Read(name, plain, inputs, kernel))
    except (ValueError, IndexError, ZeroDivisionError):  # shapes that no such operator takes
        return None


def _is_floating(dtype: str) -> bool:
    return DTYPE_WORDS.get(dtype, "").startswith(("fp", "bf"))


class _Read:
    """The inputs of a call as sizes, (shape, bytes of an element) each: `tensors`, and `members` of lists of them."""

    def __init__(self, name: str, plain: str, inputs: Inputs, kernel: str) -> None:
        self.name, self.plain, self.inputs, self.kernel = name, plain, inputs, kernel
        floating = [dtype for dtype in inputs.dtypes if _is_floating(dtype)]
        self.element_bytes = DTYPE_BYTES[floating[0]] if floating else 4
        self.dtype = DTYPE_WORDS[floating[0]] if floating else "fp32"
        if self.dtype == "fp32" and uses_tensor_cores(kernel) and "Cijk_" not in kernel:  # AMD's names have no TF32
            self.dtype = "tf32"
        self.tensors: list[tuple[Shape, int]] = []
        for shape, dtype in zip(inputs.shapes, inputs.dtypes, strict=True):
            if shape or dtype in DTYPE_BYTES:
                self.tensors.append((shape, DTYPE_BYTES.get(dtype, 4)))
        member_bytes = self._member_bytes()
        self.members = [(shape, member_bytes) for members in inputs.lists for shape in members]

    def _member_bytes(self) -> int:
        """Of an element of a list's tensors, by the kernel's name; else as the other inputs."""
        match = _LIST_ELEMENT.search(self.kernel)
        if match is None:
            return self.element_bytes
        return int(match[1]) if match[1] else DTYPE_BYTES.get(match[2], self.element_bytes)

    @property
    def read_bytes(self) -> int:
        return sum(math.prod(shape) * size for shape, size in (*self.tensors, *self.members))

    @property
    def first(self) -> Shape:
        return self.tensors[0][0]

    def bytes_of(self, at: int) -> int:
        shape, size = self.tensors[at]
        return math.prod(shape) * size

    @property
    def first_bytes(self) -> int:
        return self.bytes_of(0)

    @property
    def is_strided(self) -> bool:
        """Whether the kernel's name says that elements are loaded one by one."""
        return "elementwise" in self.kernel and "vectorized" not in self.kernel


_Rule = Callable[[_Read], "Call | None"]

# Products of matrices, and what is computed as such.


def _product(first: int) -> Callable[[_Read], Call]:
    """first: where the two matrices stand among the inputs."""

    def call(read: _Read) -> Call:
        a, b = read.inputs.shapes[first : first + 2]
        must(
            not any(dtype in DTYPE_BYTES and not _is_floating(dtype) for dtype in read.inputs.dtypes[first : first + 2])
        )
        if read.plain == "linear":
            batch, m, n, k = 1, math.prod(a[:-1]), b[0], a[-1]
        else:
            batch, m, n, k = math.prod(a[:-2]), a[-2], b[-1], a[-1]
        must(k == b[-1 if read.plain == "linear" else -2])
        size = read.element_bytes
        aligned = all(length * size % ALIGNED_BYTES == 0 for length in (n, k))
        moved = size * batch * (m * k + k * n + m * n)
        few = min(m, n)
        streamed = batch == 1 and few <= STREAMED_ROWS and (few == 1 or k * size % ALIGNED_BYTES == 0)
        kind = "product" if few > FEW else "vector product" if streamed else "narrow product"
        streamed &= aligned or few <= FEW
        flop = 2.0 * batch * m * n * k
        return Call(kind, read.dtype, flop, moved, ((batch, m, n, k),), aligned=aligned, streamed=streamed)

    return call


def _matrix_by_vector(read: _Read) -> Call:
    """mv, and addmv, whose first input is what the product is added to."""
    m, k = next(shape for shape, _ in read.tensors if len(shape) == 2)
    moved = read.read_bytes + m * read.element_bytes
    return Call("vector product", read.dtype, 2.0 * m * k, moved, ((1, m, 1, k),), streamed=True)


_MORE_OF_LAYER = 14  # kernels beside the products: norms, biases, softmax, transposed copies


def _encoder(read: _Read) -> Call:
    """Attention in evaluation as one operator: its products with weights, and by heads those of scores and values."""
    batch, n, width = read.first
    heads = int(read.inputs.values[2 if "layer" in read.plain else 4])
    matrices = [shape for shape, _ in read.tensors[1:] if len(shape) == 2]
    weights = matrices[: 4 if "layer" in read.plain else 2]  # behind them stands a mask
    products = [(1, batch * n, rows, columns) for rows, columns in weights]
    products += [(batch * heads, n, n, width // heads), (batch * heads, n, width // heads, n)]
    flop = sum(2.0 * math.prod(sizes) for sizes in products)
    moved = read.read_bytes + _MORE_OF_LAYER * read.first_bytes
    return Call("product", read.dtype, flop, moved, tuple(products), n_kernels=len(products) + _MORE_OF_LAYER)


def _attention(read: _Read) -> Call | None:
    backward = read.plain.endswith("_backward")
    q = read.inputs.shapes[int(backward)]
    flop = flop_of(read.name, read.inputs)
    if not flop:
        return None
    kind = "attention backward" if backward else "attention" if read.element_bytes == 2 else "attention fp32"
    moved = read.read_bytes + math.prod(q) * read.element_bytes
    return Call(kind, read.dtype, flop, moved, blocks=q[0] * q[1] * math.ceil(q[2] / 128))


def _convolution(read: _Read) -> Call | None:
    x, w = read.inputs.shapes[:2]
    work = work_of(read.name, read.inputs)
    if work is None or not work.flop:
        return None
    transposed = "transpose" in read.plain or work.output is None
    filter_size, size = math.prod(w[1:]), read.element_bytes
    places = work.flop // (2 * w[0] * filter_size)
    moved = read.read_bytes + places * w[0] * size
    depthwise = w[1] == 1 and x[1] > 1
    of_image = x[1] <= CHANNELS_OF_IMAGE
    prefix = "transposed " if transposed else "depthwise " if depthwise else ""
    return Call(
        f"{prefix}convolution{' of images' if of_image and not prefix else ''}",
        read.dtype,
        work.flop,
        moved,
        () if depthwise else ((1, places, w[0], filter_size),),
        aligned=w[1] * size % ALIGNED_BYTES == 0 or of_image,
        winograd=read.dtype == "fp32" and w[2:] == (3, 3) and work.output is not None and work.output[2:] == x[2:],
    )


def _convolution_backward(read: _Read) -> Call | None:
    """Two products, for the gradient of the input and that of the weight; one of them where the other is not wanted."""
    grad, w = read.inputs.shapes[0], read.inputs.shapes[2]
    flop = flop_of(read.name, read.inputs)
    if not flop:
        return None
    filter_size = math.prod(w[1:])
    places = max(1, round(flop / (4 * w[0] * filter_size)))
    products = ((1, places, filter_size, w[0]), (1, w[0], filter_size, places))
    moved = read.read_bytes + math.prod(grad) * read.element_bytes
    return Call("convolution backward", read.dtype, flop, moved, products, aligned=w[1] * read.element_bytes % 16 == 0)


def _convolution_backward_input(read: _Read) -> Call:
    """Of older torch: the input's size, the gradient, the weight."""
    grad, w = read.inputs.shapes[1:3]
    places, filter_size, size = math.prod(grad) // grad[1], math.prod(w[1:]), read.element_bytes
    moved = read.read_bytes + places * filter_size * size / math.prod(w[2:])
    product = (1, places, filter_size, grad[1])
    flop = 2.0 * math.prod(product)
    return Call(
        "convolution backward", read.dtype, flop, moved, (product,), winograd=read.dtype == "fp32" and w[2:] == (3, 3)
    )


# What moves memory and computes little beside it.


def _moves(kind: str, size_bytes: Callable[[_Read], float], n_kernels: float = 1.0) -> Callable[[_Read], Call]:
    """size_bytes: read and written, by the inputs."""
    return lambda read: Call(kind, read.dtype, size_bytes=size_bytes(read), n_kernels=n_kernels)


def _elementwise(read: _Read) -> Call:
    """Inputs, and a result of the shape that they are broadcast to; comparisons write a byte an element."""
    shapes = [shape for shape, _ in read.tensors]
    size = 1 if read.plain in _COMPARISONS.split() else max(size for _, size in read.tensors)
    out = [max(lengths) for lengths in zip(*[_padded(shape, max(map(len, shapes))) for shape in shapes], strict=True)]
    kind = "strided elementwise" if read.is_strided else "elementwise"
    return Call(kind, read.dtype, size_bytes=read.read_bytes + math.prod(out) * size)


def _padded(shape: Shape, n: int) -> Shape:
    return (*[1] * (n - len(shape)), *shape)


def _written(read: _Read) -> Call:
    """What writes its only tensor."""
    return Call("elementwise", read.dtype, size_bytes=read.first_bytes)


def _copy(read: _Read) -> Call:
    """To the first from the second tensor."""
    source = 1 if len(read.tensors) > 1 else 0
    moved = math.prod(read.first) * read.tensors[0][1] + math.prod(read.first) * read.tensors[source][1]
    return Call("copy" if read.is_strided else "elementwise", read.dtype, size_bytes=moved)


def _softmax(read: _Read) -> Call:
    length, size = read.first[-1], read.element_bytes
    moved = read.read_bytes + math.prod(read.first) * size
    if length <= SHORT_ROW:
        return Call("softmax", read.dtype, size_bytes=moved)
    return Call("softmax of long rows", read.dtype, size_bytes=moved, aligned=length * size % ALIGNED_BYTES == 0)


def _cat(read: _Read) -> Call | None:
    """A list of tensors, copied; older records do not have their shapes."""
    moved = 2 * _members_bytes(read)
    return Call("cat", read.dtype, size_bytes=moved) if moved else None


def _index(read: _Read) -> Call | None:
    """As many rows of the first tensor as the indices have numbers; older records do not have their shapes."""
    (source, size), indices = read.tensors[0], [*read.tensors[1:], *read.members]
    if not indices:
        return None
    count = max(math.prod(shape) for shape, _ in indices)
    moved = min(read.read_bytes, count * math.prod(source[1:]) * size)
    return Call("index", read.dtype, size_bytes=2 * moved + 8 * count)


def _rows_by_index(read: _Read) -> Call:
    """embedding, index_select: rows of the first tensor, by the numbers in the last."""
    (source, size), count = read.tensors[0], math.prod(read.tensors[-1][0])
    return Call("index", read.dtype, size_bytes=2 * count * math.prod(source[1:]) * size + 8 * count)


def _bags(read: _Read) -> Call:
    """embedding_bag: rows of the first tensor by the numbers in the second, and a sum for each of the third."""
    (rows, size), count, bags = read.tensors[0], math.prod(read.tensors[1][0]), math.prod(read.tensors[2][0])
    return Call("index", read.dtype, size_bytes=(count + bags) * math.prod(rows[1:]) * size + 8 * (count + bags))


def _cell(at: int, n_written: int, n_more: int) -> Callable[[_Read], Call]:
    """A fused cell of a recurrent net, which writes some tensors of the size of one, and some of another's.

    at: of the first, among the tensors.  n_more: of the size of the third tensor, the state of the cell.
    """

    def call(read: _Read) -> Call:
        written = n_written * read.bytes_of(at) + (n_more and n_more * read.bytes_of(2))
        return Call("elementwise", read.dtype, size_bytes=read.read_bytes + written)

    return call


def _foreach(read: _Read) -> Call | None:
    """Lists of tensors, one kernel for some forty tensors; a fused optimizer writes three of its lists."""
    lists = [members for members in read.inputs.lists if members]
    if not lists:
        return None
    written = (
        3 if read.plain.startswith("_fused_adam") else 0 if read.plain in ("_foreach_norm", "_foreach_zero") else 1
    )
    moved = read.read_bytes + written * _members_bytes(read) / len(lists)
    return Call("lists of tensors", read.dtype, size_bytes=moved, n_kernels=max(1.0, len(lists[0]) / 40))


def _members_bytes(read: _Read) -> int:
    return sum(math.prod(shape) * size for shape, size in read.members)


def _upsample(read: _Read) -> Call:
    """The output's size is the second input's value."""
    size = [int(number) for number in read.inputs.values[1].strip("[] ").split(",")]
    out = (*read.first[:2], *size)
    return Call("upsample", read.dtype, size_bytes=read.read_bytes + math.prod(out) * read.element_bytes)


def _twice(read: _Read) -> float:
    return 2.0 * read.read_bytes


def _and_result(read: _Read) -> float:
    return read.read_bytes + read.first_bytes


def _by_index(read: _Read) -> float:
    """An element of the first tensor for each number of the second, in a sector of its own, and the result."""
    size = read.tensors[0][1]
    return float(math.prod(read.tensors[1][0]) * (_SECTOR_BYTES + _INDEX_BYTES + size))


def _embedding_gradient(read: _Read) -> float:
    """The gradient of each row that was taken, added to that of the whole table, which is filled with zeros before."""
    (grad, size), table_rows = read.tensors[0], int(read.inputs.values[2])
    return 2.0 * math.prod(grad) * size + float(table_rows * grad[-1] * size)


def _times_first(n: int) -> Callable[[_Read], float]:
    return lambda read: float(n * read.first_bytes)


def _each(names: str, rule: _Rule) -> dict[str, _Rule]:
    return dict.fromkeys(names.split(), rule)


_COMPARISONS = "eq ne gt ge lt le isnan isinf isfinite logical_and logical_or logical_not logical_xor bitwise_not"
_MORE_ELEMENTWISE = """
    where bitwise_and bitwise_or bitwise_xor remainder fmod floor ceil round trunc frac sign sgn floor_divide nan_to_num
    atan2 log2 log1p log10 exp2 expm1 tan asin acos atan sinh cosh hypot erfinv logit xlogy softplus hardtanh
    hardsigmoid log_sigmoid_forward elu_backward hardtanh_backward hardswish_backward leaky_relu_backward mse_loss
    mse_loss_backward native_dropout native_dropout_backward masked_scatter tril triu bucketize __lshift_ __rshift_
    __and_ __or_ __xor_ bitwise_left_shift bitwise_right_shift _prelu_kernel _prelu_kernel_backward celu polar complex
    sinc lgamma digamma erfc i0 logaddexp copysign heaviside float_power binary_cross_entropy huber_loss smooth_l1_loss
    binary_cross_entropy_backward binary_cross_entropy_with_logits huber_loss_backward smooth_l1_loss_backward
    hardshrink hardshrink_backward softshrink softshrink_backward hardsigmoid_backward softplus_backward
    log_sigmoid_backward rrelu_with_noise _amp_update_scale
"""
_COPIES = """
    flip roll rot90 pixel_shuffle pixel_unshuffle channel_shuffle repeat repeat_interleave constant_pad_nd im2col col2im
    reflection_pad1d reflection_pad2d reflection_pad3d reflection_pad1d_backward reflection_pad2d_backward
    replication_pad1d replication_pad2d replication_pad3d replication_pad1d_backward replication_pad2d_backward
    diagonal_backward unfold_backward as_strided_scatter select_scatter slice_scatter
"""
_REDUCTIONS = """
    sum mean max min amax amin norm linalg_vector_norm argmax argmin any all prod std var var_mean std_mean
    logsumexp nll_loss_backward nll_loss2d_backward aminmax
"""
_CONVOLUTIONS = """
    convolution convolution_overrideable cudnn_convolution cudnn_convolution_relu cudnn_convolution_transpose
    miopen_convolution miopen_convolution_transpose miopen_depthwise_convolution _conv_depthwise2d conv_depthwise3d
"""
_POOL = """
    max_pool2d_with_indices max_pool2d_with_indices_backward adaptive_avg_pool2d _adaptive_avg_pool2d avg_pool2d
    _adaptive_avg_pool2d_backward avg_pool2d_backward avg_pool3d avg_pool3d_backward max_pool3d_with_indices
    max_pool3d_with_indices_backward _adaptive_avg_pool3d _adaptive_avg_pool3d_backward adaptive_max_pool2d
    adaptive_max_pool2d_backward
"""
_SOFTMAX = "_softmax _safe_softmax _log_softmax _softmax_backward_data _log_softmax_backward_data"
_BATCH_NORM = "cudnn_batch_norm miopen_batch_norm _batch_norm_with_update"
_BATCH_NORM_BACKWARD = "cudnn_batch_norm_backward miopen_batch_norm_backward batch_norm_backward"
_NORM_BACKWARD = "native_layer_norm_backward native_group_norm_backward _fused_rms_norm_backward"
_INDEXED = "scatter scatter_add index_add index_copy"
_CUMULATIVE = "cumsum cumprod cummax cummin logcumsumexp"
_UPSAMPLE = "upsample_bilinear2d upsample_bicubic2d upsample_nearest1d upsample_nearest2d"
_ATTENTION = " ".join(
    f"_scaled_dot_product_{kind}{end}"
    for kind in ("flash_attention", "efficient_attention", "cudnn_attention", "flash_attention_for_cpu")
    for end in ("", "_backward")
)
_RULES: dict[str, _Rule] = {
    **dict.fromkeys(ELEMENTWISE - {"copy", "fill", "zero"}, _elementwise),
    **_each(_COMPARISONS, _elementwise),
    **_each(_MORE_ELEMENTWISE, _elementwise),
    **_each("fill zero normal uniform bernoulli exponential random arange", _written),
    **_each("mm bmm linear _scaled_mm matmul", _product(0)),
    **_each("addmm baddbmm _addmm_activation", _product(1)),
    **_each(_ATTENTION, _attention),
    **_each(_CONVOLUTIONS, _convolution),
    "convolution_backward": _convolution_backward,
    **_each("cudnn_convolution_backward_input miopen_convolution_backward_input", _convolution_backward_input),
    **_each("mv addmv", _matrix_by_vector),
    "dot": _moves("reduce", lambda read: read.read_bytes),
    **_each("_transformer_encoder_layer_fwd _native_multi_head_attention", _encoder),
    **_each("copy clone _to_copy", _copy),
    **_each(_COPIES, _moves("copy", _twice)),
    **_each("select_backward slice_backward", _moves("copy", _twice, 2)),  # zeros, and a copy into them
    **_each("glu glu_backward", _moves("elementwise", lambda read: 1.5 * read.bytes_of(-1))),
    "_thnn_fused_lstm_cell": _cell(0, 1, 2),
    "_thnn_fused_lstm_cell_backward_impl": _cell(-1, 1, 1),
    "_thnn_fused_gru_cell": _cell(2, 6, 0),
    "_thnn_fused_gru_cell_backward": _cell(0, 7, 0),
    **_each(_SOFTMAX, _softmax),
    **_each("cat stack", _cat),
    **_each(_REDUCTIONS, _moves("reduce", lambda read: read.read_bytes)),
    **_each("native_layer_norm native_group_norm _fused_rms_norm", _moves("norm", _and_result)),
    **_each(_NORM_BACKWARD, _moves("norm backward", _and_result, 2.5)),
    **_each(_BATCH_NORM, _moves("batch norm", _times_first(3))),
    **_each(_BATCH_NORM_BACKWARD, _moves("batch norm backward", _times_first(5))),
    "native_batch_norm": _moves("batch norm of torch", _times_first(3)),
    "native_batch_norm_backward": _moves("batch norm backward of torch", _times_first(5)),
    **_each("index _unsafe_index", _index),
    **_each("embedding index_select", _rows_by_index),
    **_each("_embedding_bag _embedding_bag_forward_only", _bags),
    **_each("_embedding_bag_backward _embedding_bag_dense_backward", _moves("index", _twice)),
    **_each("grid_sampler_2d grid_sampler_3d grid_sampler_2d_backward", _moves("upsample", _and_result)),
    **_each(_CUMULATIVE, _moves("reduce", _twice)),
    **_each("nll_loss_forward nll_loss2d_forward", _moves("reduce", _by_index)),
    **_each("gather take", _moves("index", _by_index)),
    "embedding_dense_backward": _moves("index", _embedding_gradient),
    **_each(_INDEXED, _moves("index", lambda read: 1.5 * read.read_bytes)),
    **_each("index_put _index_put_impl", _moves("index", lambda read: 3.0 * read.bytes_of(-1))),
    **_each("nonzero masked_select", _moves("nonzero", _twice, 5)),
    **_each("sort topk", _moves("sort", _twice)),
    **_each(_POOL, _moves("pool", _twice)),
    **_each(_UPSAMPLE, _upsample),
}
