"""Families of kernels: one table from names of kernels and operators to what they are for, each row with its source.

The first row that matches decides. Rows that look at the operator come before those that look at the kernel if the
operator tells more. They come after them if only the operator is left.

A source with a path is a file that defines these names, under its repository's name. "recorded" stands for libraries
without public source: their names were read in recorded traces.
"""

from __future__ import annotations

import enum
import re
from dataclasses import dataclass


class Category(enum.IntEnum):
    """What a device op is for."""

    GEMM = 0
    ATTENTION = 1  # fused attention: products and softmax in one kernel
    CONVOLUTION = 2
    NORMALISATION = 3  # batch, layer, group and RMS norm
    ELEMENTWISE = 4  # a value from values at the same place: activations, copies by kernels, concatenation
    REDUCTION = 5  # sums, means, softmax, argmax, scans, losses
    EMBEDDING = 6  # table lookups, gathering and scattering by index, writes to a KV cache
    ROUTING = 7  # mixture of experts: choosing experts, grouping tokens by expert, combining what experts gave
    SORTING = 8  # sorting, top-k, nonzero, unique, sampling of tokens
    POOLING = 9  # pooling, interpolation
    LINALG = 10  # factorisations, solvers, Fourier transforms
    OPTIMIZER = 11
    FUSED = 12  # several operators in one kernel that a compiler wrote
    COMMUNICATION = 13
    COPY = 14
    MEMSET = 15
    CUSTOM = 16  # no family knows it, and no operator of a library launched it: a kernel of the user
    OTHER = 17


CATEGORY_WORDS = {
    Category.GEMM: "matrix products",
    Category.ATTENTION: "attention",
    Category.CONVOLUTION: "convolution",
    Category.NORMALISATION: "normalisation",
    Category.ELEMENTWISE: "elementwise",
    Category.REDUCTION: "reductions and softmax",
    Category.EMBEDDING: "embedding and indexing",
    Category.ROUTING: "MoE routing",
    Category.SORTING: "sorting and selection",
    Category.POOLING: "pooling and resampling",
    Category.LINALG: "linear algebra",
    Category.OPTIMIZER: "optimizer",
    Category.FUSED: "fused by a compiler",
    Category.COMMUNICATION: "communication",
    Category.COPY: "copies",
    Category.MEMSET: "memset",
    Category.CUSTOM: "custom kernels",
    Category.OTHER: "other",
}


class Looks(enum.Enum):
    """What of a device op a family's pattern is searched in."""

    OPERATOR = enum.auto()  # the name of the operator that launched it
    FUNCTION = enum.auto()  # the kernel's function, without namespaces and arguments
    NAME = enum.auto()  # the kernel's whole name


@dataclass(frozen=True)
class Family:
    """Names that mean one category.  source: where they were read.  multiplies: products, on tensor cores if any."""

    category: Category
    looks: Looks
    pattern: re.Pattern[str]
    source: str
    multiplies: bool = False


_YAML = "pytorch/aten/src/ATen/native/native_functions.yaml"
_CUDA = "pytorch/aten/src/ATen/native/cuda"
# One kernel stands for all algorithms of these libraries: its arguments tell which
_CK_TILE = r"^(?:_ZN7ck_tile6kentry|(?:void )?ck_tile::kentry<).*?"
_ROCPRIM = r"^(?:void )?rocprim::.*?"


# Patterns and names meet in lower case: to ignore the case takes a search three times as long
def _op(category: Category, pattern: str, source: str) -> Family:
    return Family(category, Looks.OPERATOR, re.compile(pattern.lower()), source)


def _kernel(category: Category, pattern: str, source: str, *, multiplies: bool = False) -> Family:
    return Family(category, Looks.FUNCTION, re.compile(pattern.lower()), source, multiplies)


def _full(category: Category, pattern: str, source: str, *, multiplies: bool = False) -> Family:
    return Family(category, Looks.NAME, re.compile(pattern.lower()), source, multiplies)


FAMILIES = (
    # Compilers: before all others, as these names list the operators that were fused.
    _kernel(
        Category.FUSED,
        r"^triton_(?:$|(?:poi|per|red|for|spl|unk)_|fused_)",
        "pytorch/torch/_inductor: codegen/triton.py, wrapper_benchmark.py; 2023's recorded",
    ),
    _kernel(Category.FUSED, r"^fused_\w+_\d{12,}$|^nvfuser_", "recorded: TorchScript's fusers"),
    # The operator decides, whatever kernels it launches.
    _op(Category.ATTENTION, r"scaled_dot_product|attention|flash_?attn|flex_attn|::mha_", f"{_YAML}; aiter recorded"),
    _op(Category.CONVOLUTION, r"conv(?:olution|_?transpose|_?depthwise|[123]d|_)|_conv", _YAML),
    _op(Category.NORMALISATION, r"(?:batch|layer|group|instance|rms)_?norm", f"{_YAML}; vllm, aiter recorded"),
    _op(
        Category.ROUTING,
        r"topk_(?:softmax|sigmoid)|grouped_topk|moe_(?:align|sum|sorting|fused_gate|(?:un)?permute)",
        "vllm/csrc/moe: topk_softmax_kernels.cu, moe_align_sum_kernels.cu",
    ),
    _op(Category.ELEMENTWISE, r"_foreach_copy|_amp_|rotary_embedding", f"{_YAML}; vllm recorded"),
    _op(Category.EMBEDDING, r"embedding|SplitLookup|sparse_features|sparse_data|index_select", "recorded: FBGEMM"),
    _op(
        Category.SORTING,
        r"^aten::_?(?:sort|argsort|msort|topk|kthvalue|median|nanmedian|mode|nonzero|unique|masked_select|randperm"
        r"|multinomial|searchsorted|bucketize|histc|bincount)",
        _YAML,
    ),
    _op(
        Category.POOLING,
        r"^aten::_?(?:\w*(?:max|avg)_(?:un)?pool|upsample|grid_sampler|im2col|col2im|pixel_(?:un)?shuffle)",
        _YAML,
    ),
    _op(
        Category.LINALG,
        r"^aten::_?(?:linalg_(?!\w*norm|cross|vecdot|matmul|multi_dot)|cholesky|lu_|geqrf|ormqr|orgqr|triangular_solve"
        r"|fft_)",
        _YAML,
    ),
    _op(Category.OPTIMIZER, r"_fused_(?:adam|sgd|adagrad)|_single_tensor|_multi_tensor", f"{_YAML}; recorded"),
    # Mixture of experts: before the products, reductions and copies that these are made of.
    _kernel(
        Category.ROUTING,
        r"^_topk_(?:forward|backward)|^_combined_routing|^_routing_|^_expt_data|bitmatrix|^_finalize_matmul_scatter",
        "triton/python/triton_kernels/triton_kernels: topk_details/_topk_forward.py, "
        "routing_details/_routing_compute.py; recorded",
    ),
    _kernel(
        Category.ROUTING,
        r"moe_align_block_size|count_and_sort_expert|moe_sum_|topk_?gating|grouped_topk|moe_fused_gate"
        r"|moe_?(?:softmax|topk)|ep_(?:scatter|gather)|moe_?sorting|moe_(?:un)?permute",
        "vllm/csrc/moe: moe_align_sum_kernels.cu, topk_softmax_kernels.cu",
    ),
    _kernel(
        Category.ROUTING,
        r"^routing(?:Indices|Main|Init)|^finalizeKernel|finalizeMoeRouting|expandInputRows",
        "flashinfer/csrc/trtllm_fused_moe_routing_renormalize.cu; recorded",
    ),
    # What stands before, between and behind products.
    _kernel(
        Category.EMBEDDING,
        r"(?:^|_)cache|cache_|store_?kv|(?:copy|swap)_blocks|kv_indices|page_indices",
        "vllm/csrc/cache_kernels.cu; sglang/python/sglang/jit_kernel/csrc/elementwise/kvcache.cuh; recorded",
    ),
    _kernel(
        Category.GEMM,
        r"splitk_?reduce|reduce_?splitk|prepare_grouped_gemm",
        f"{_CUDA}/GroupMMCommon.cuh; cuBLASLt recorded",
    ),
    _kernel(
        Category.CONVOLUTION,
        r"offsetskernel|im2d?\d?col|vol2col|nchwToNhwc|nhwcToNchw|foldedNhwc",
        f"{_CUDA}/im2col.cuh; MIOpen/src/kernels/MIOpenIm2d2Col.cl; cuDNN recorded",
    ),
    _kernel(Category.ELEMENTWISE, r"batched_transpose", "recorded: MIOpen"),
    # Products.
    _kernel(
        Category.ATTENTION,
        r"fmha|flash(?!_?infer)|attn|attention|mha_|(?:batch|single)_?(?:prefill|decode)with|mqa_logits",
        "DeepGEMM/deep_gemm/include/deep_gemm/impls/sm90_fp8_mqa_logits.cuh; flash-attention, vllm recorded",
        multiplies=True,
    ),
    _full(Category.ATTENTION, rf"{_CK_TILE}fmha", "recorded: aiter", multiplies=True),
    _kernel(
        Category.CONVOLUTION,
        r"conv(?!ert|ersion)|[dw]grad|fprop|winograd|[sh]cudnn|implicit_gemm|igemm",
        "recorded: cuDNN, MIOpen",
        multiplies=True,
    ),
    _kernel(
        Category.GEMM,
        r"^_(?:p_)?matmul_|matmul|_scaled_mm|grouped_mm|marlin(?!\w*repack)|fused_moe_kernel|fmoe_|mega_moe"
        r"|triton_(?:mm|bmm|tem)_|^triton_mm",
        "triton/python/triton_kernels/triton_kernels: matmul_ogs_details/_common.py, matmul_details/_common.py; "
        "vllm/vllm/model_executor/layers/fused_moe/fused_moe.py",
        multiplies=True,
    ),
    _kernel(
        Category.GEMM,
        r"(?<!fb)gemm|gemv|nvjet|xmma|cutlass|_mma_|wgmma|s(?:884|1688|16816)|cijk_|xdlops|_xdl_|hipblaslt|tensile"
        r"|^bmm_",
        "DeepGEMM/deep_gemm/include/deep_gemm/impls/sm90_fp8_gemm_1d2d.cuh; cuBLAS, CUTLASS, Tensile recorded",
        multiplies=True,
    ),
    _kernel(
        Category.GEMM,
        r"^(?:aten::)?(?:mm|bmm|addmm|addbmm|baddbmm|addmv|mv|dot|matmul|linear)(?:\.\w+)?$",
        f"{_YAML}: ops that are named after their operator",
        multiplies=True,
    ),
    _kernel(
        Category.ATTENTION,
        r"^(?:aten::)?_?scaled_dot_product",
        f"{_YAML}: ops that are named after their operator",
        multiplies=True,
    ),
    _full(
        Category.ELEMENTWISE, r"^(?:void )?epilogue::|cublasLt::epilogue::", "recorded: bias and activation of cuBLASLt"
    ),
    _full(Category.GEMM, r"cublas", "recorded: what cuBLAS runs around its products"),
    # All the rest.
    _full(Category.NORMALISATION, rf"{_CK_TILE}norm", "recorded: aiter"),
    _kernel(
        Category.NORMALISATION,
        r"(?:batch|layer|group|rms)_?norm|\bbn_|GammaBeta|RowwiseMoments|welford",
        f"{_CUDA}/Normalization.cuh; vllm, aiter, cuDNN recorded",
    ),
    _kernel(
        Category.ELEMENTWISE,
        r"rotary|rope_|_rope",
        "sglang/python/sglang/jit_kernel/csrc/elementwise/rope.cuh; vllm recorded",
    ),
    _kernel(
        Category.SORTING,
        r"radix_?sort|bitonicSort|mergeSort|DeviceSelect|DeviceCompactInit|DevicePartition|RunLengthEncode"
        r"|gatherTopK|radixFindKth|compute_mode|randperm|unique|searchsorted|write_indices",
        f"{_CUDA}: SortUtils.cuh, TensorModeKernel.cuh, Randperm.cuh, Nonzero.cu; CUB recorded",
    ),
    _kernel(
        Category.SORTING,
        r"Sampling(?:From|Kernel)|TopKMask|TopK?P?Renorm|RadixTopK|\bnms_",
        "flashinfer/include/flashinfer/sampling.cuh; torchvision recorded",
    ),
    _full(Category.SORTING, rf"{_ROCPRIM}(?:sort|partition|select|unique)_\w{{0,40}}config", "recorded: rocPRIM"),
    _full(Category.REDUCTION, rf"{_ROCPRIM}(?:reduce|scan)_\w{{0,40}}config", "recorded: rocPRIM"),
    _kernel(
        Category.EMBEDDING,
        r"embedding|indexSelect|gather|scatter|index_put|indexing_backward|bounds_check_indices|offsets_range|recat_"
        r"|jagged|to_dense_representation|linearize_index",
        "recorded: ATen, FBGEMM",
    ),
    _kernel(Category.OPTIMIZER, r"multi_tensor_apply|adam|sgd_|lamb_", f"{_CUDA}/MultiTensorApply.cuh"),
    _kernel(
        Category.POOLING,
        r"max_?pool|(?:avg|average)_?pool|pooling|upsample|grid_sampler|interpolat|roi_align",
        f"{_CUDA}: DilatedMaxPool2d.cu, UpSampleNearest2d.cu",
    ),
    _kernel(Category.LINALG, r"(?:^|_)fft|getrf|potrf|geqrf|trsm|laswp|syevj|gesvdj", "recorded: transforms of cuDNN"),
    _kernel(
        Category.REDUCTION,
        r"softmax|reduce|reduction|argm(?:ax|in)|(?:\b|_)scan|cumsum|norm_kernel|DeviceScan|NLLCriterion|nll_loss"
        r"|cross_entropy",
        f"{_CUDA}: Reduce.cuh, PersistentSoftmax.cuh, ScanUtils.cuh; CUB recorded",
    ),
    _kernel(
        Category.ELEMENTWISE,
        r"elementwise|pointwise|CatArray|fill|dropout|activation|silu|gelu|masked|index_kernel|permute|transpose"
        r"|copy_kernel|copy_async|quant|arange|tri[lu]_|convertTensor|scalePackedTensor",
        f"{_CUDA}: CUDALoops.cuh, DistributionTemplates.h; recorded",
    ),
    _kernel(Category.ELEMENTWISE, r"op_?tensor|SubTensorOp", "MIOpen/src/kernels/MIOpenSubTensorOpWithScalarKernel.cl"),
    _kernel(
        Category.ELEMENTWISE,
        r"act_and_mul|swiglu|geglu|FP8rowwise|FP8_qparam",
        "vllm/csrc/activation_kernels.cu; FBGEMM/fbgemm_gpu/src/quantize_ops/quantize_fp8_rowwise.cu",
    ),
    _kernel(
        Category.ELEMENTWISE,
        r"^(?:clamp|compute)_position|^resolve_future_token",
        "sglang/python/sglang/jit_kernel/csrc/elementwise: clamp_position.cuh, resolve_future_token_ids.cuh; recorded",
    ),
    # The kernel's name says nothing: the operator is what is left. Ops of the simulated device have no other name.
    _op(
        Category.GEMM,
        r"^aten::_?(?:\w*mm|\w*mv|dot|vdot|inner|outer|ger|addr|matmul|linear|bilinear|\w*_mm\w*)$",
        _YAML,
    ),
    _op(
        Category.REDUCTION,
        r"^aten::_?(?:\w*softmax|sum|nansum|mean|prod|norm|linalg_\w*norm|amax|amin|aminmax|argmax|argmin|max|min|all"
        r"|any|std|var|std_mean|var_mean|count_nonzero|\w*log(?:cum)?sumexp|cum\w+|\w*_loss\w*|cdist\w*|dist"
        r"|trace|equal)(?:_backward|_backward_data|_forward)?$",
        f"{_YAML} and the tag `reduction`",
    ),
    _op(
        Category.EMBEDDING,
        r"^aten::_?(?:index\w*|gather\w*|scatter\w*|take\w*|put|masked_scatter|repeat_interleave|embedding\w*)_?$",
        _YAML,
    ),
    _op(
        Category.ELEMENTWISE,
        r"^aten::_*(?:special_\w+|foreach_\w+|bitwise_\w+|logical_\w+|is\w+|log\w*|exp\w*|a?(?:cos|sin|tan)h?|atan2|sinc"
        r"|abs|add\w*|sub|rsub|mul|div|true_divide|floor\w*|ceil|round|trunc|frac|fmod|remainder|pow|float_power|square"
        r"|r?sqrt|reciprocal|neg|positive|sign\w*|sgn|copysign|clamp\w*|clip|maximum|minimum|fmax|fmin|where|lerp|eq|ne"
        r"|lt|le|gt|ge|erf\w*|\w*gammac?|i0|xlogy|hypot|heaviside|gcd|lcm|nextafter|frexp|ldexp|nan_to_num|i?[lr]shift"
        r"|i?xor|\w+2(?:deg|rad)|angle|conj\w*|complex|polar|(?:leaky_)?relu6?|prelu\w*|[cs]?elu|gelu|glu|silu|mish"
        r"|hard\w+|soft(?:plus|shrink)|sigmoid|threshold|\w*dropout|bernoulli|normal|uniform|random|exponential"
        r"|geometric|cauchy|copy|to_copy|clone|contiguous|fill\w*|zero|zeros\w*|ones\w*|full\w*|eye|arange|linspace"
        r"|tri[lu]\w*|cat|stack|repeat|flip|roll|\w*pad\w*|masked_fill|slice_\w+|select_\w+|\w+_copy)"
        r"(?:_backward|_forward)?_*$",
        f"{_YAML} and the tag `pointwise`",
    ),
)
