"""The families of kernels: real names for every row, and how little recorded traces leave without one."""

import numpy as np
import pytest

from perfmagic.analysis.timeline.device_operators import categories, category_of
from perfmagic.trace.families import FAMILIES, Category
from perfmagic.trace.kineto.reader import read_trace
from perfmagic.trace.names import OpClass, find_family
from tests.trace.recorded import ALL, MORE, real

torch = pytest.importorskip("torch")
MOST_OTHER_FRAC = 0.1
CK_TILE = "_ZN7ck_tile6kentryILi{}ENS_{}INS_40"
ROCPRIM = "void rocprim::ROCPRIM_400400_NS::detail::trampoline_kernel<rocprim::ROCPRIM_400400_NS::default_config, {}>()"
# As the files say that the rows of the table name, or as recorded
KERNELS = {
    "triton__0d1d2d3d4d5d6d7d8d9d10d11d12d13d14": Category.FUSED,
    "triton__0d1d23d": Category.FUSED,
    "triton_": Category.FUSED,
    "triton_fused_add_mul_2": Category.FUSED,
    "triton_poi_fused_add_cos_sin_0": Category.FUSED,
    "triton_red_fused_native_layer_norm_0": Category.FUSED,
    "triton_per_fused__to_copy_add_addmm_mean_mul_pow_rsqrt_transpose_view_20": Category.FUSED,
    "triton_spl_fused_cumsum_0": Category.FUSED,
    "triton_tem_fused_mm_3": Category.GEMM,
    "triton_tem_fused_flex_attention_0": Category.ATTENTION,
    "triton_tem_fused_convolution_1": Category.CONVOLUTION,
    "fused__autocast_to__15680171862954066917": Category.FUSED,
    "_topk_forward": Category.ROUTING,
    "_combined_routing_compute": Category.ROUTING,
    "_sum_bitmatrix_rows": Category.ROUTING,
    "_finalize_matmul_scatter_bf16": Category.ROUTING,
    "void vllm::moe::moe_align_block_size_kernel<int>(int const*)": Category.ROUTING,
    "void vllm::moe::count_and_sort_expert_tokens_kernel<int>(int const*)": Category.ROUTING,
    "void vllm::moe::topkGatingSoftmax<4, 64, 4, 16, 32, int>(float const*)": Category.ROUTING,
    "void vllm::moe::moeSoftmax<256>(float const*)": Category.ROUTING,
    "void vllm::moe::moe_sum_kernel<c10::Half, 2>(c10::Half*)": Category.ROUTING,
    "void moe::dev::routing::routingRenormalize::routingIndicesClusterKernel<X>(X)": Category.ROUTING,
    "void moe::dev::finalize::finalizeKernelVecLoad<KernelParams>(KernelParams)": Category.ROUTING,
    "void vllm::reshape_and_cache_flash_kernel<__nv_bfloat16, unsigned char>(int)": Category.EMBEDDING,
    "void (anonymous namespace)::store_kvcache<2048l, 4, false, long>(StoreKVCacheParams)": Category.EMBEDDING,
    "create_flashinfer_kv_indices_triton": Category.EMBEDDING,
    "void cublasLt::splitKreduce_kernel<32, 16, int>(cublasLt::cublasSplitKParams<float>)": Category.GEMM,
    "void cudnn::winograd_nonfused::winogradWgradData4x4<float, float>(int)": Category.CONVOLUTION,
    "void nchwToNhwcKernel<float, float, float, false, true>(cudnnTensor4dStruct)": Category.CONVOLUTION,
    "batched_transpose_32x32_half": Category.ELEMENTWISE,
    "_ZN5aiter35paged_attention_ll4mi_QKV_mfma16_kernelI": Category.ATTENTION,
    "kernel_unified_attention_2d": Category.ATTENTION,
    "attn_fwd": Category.ATTENTION,
    "void flashinfer::BatchDecodeWithPagedKVCacheKernel<2>(int)": Category.ATTENTION,
    "void deep_gemm::sm90_fp8_mqa_logits<64u, 128u>(unsigned int)": Category.ATTENTION,
    CK_TILE.format(2, "38FmhaBatchPrefillWithPagedKVCacheKernel"): Category.ATTENTION,
    CK_TILE.format(1, "12Rmsnorm2dFwd"): Category.NORMALISATION,
    "_matmul_ogs_NNT_bf16xbf16xmxfp4_128x128x128x1_swiglu": Category.GEMM,
    "_p_matmul_NTN_bf16xfp8e4nvxmxfp4_128x256x128x1": Category.GEMM,
    "_w8a8_block_fp8_matmul": Category.GEMM,
    "matmul_kernel_0d1d2d3d4d5d6d7c8d9c10d11c": Category.GEMM,
    "fused_moe_kernel": Category.GEMM,
    "fused_moe_kernel_gptq_awq": Category.GEMM,
    "void deep_gemm::sm90_fp8_gemm_1d2d_impl<0u, 7168u, 2048u>(float*)": Category.GEMM,
    "nvjet_tst_192x8_64x8_4x1_v_bz_TNT": Category.GEMM,
    "Cijk_Ailk_Bjlk_BBS_BH_MT32x32x64_MI16x16x16x1": Category.GEMM,
    "bmm_MxE4m3_MxE2m1MxE4m3_Fp32_t128x16x256u2_s4_et64x16_m128x16x32_cga1x1x1_16dp256b_rM_TN_sm100a": Category.GEMM,
    "baddbmm.default": Category.GEMM,
    "_scaled_dot_product_flash_attention": Category.ATTENTION,
    "_scaled_dot_product_fused": Category.ATTENTION,
    "void epilogue::impl::globalKernel<float, float>(int, cublasLtEpilogue_t, int)": Category.ELEMENTWISE,
    "void dot_kernel<float, 128, 0, cublasDotParams<float> >(cublasDotParams<float>)": Category.GEMM,
    "void cudnn::bn_fw_tr_1C11_kernel_NCHW<float>(int)": Category.NORMALISATION,
    "_ZN5aiter24add_rmsnorm_quant_kernelIDF16bLi256ELb1EEEvPT0_": Category.NORMALISATION,
    "void vllm::rotary_embedding_kernel<c10::BFloat16, true>(long const*)": Category.ELEMENTWISE,
    "void (anonymous namespace)::fused_rope_kernel<true, 128l>(FusedRopeParams)": Category.ELEMENTWISE,
    "void cub::DeviceRadixSortOnesweepKernel<X, false, long, int, int, int>(int*)": Category.SORTING,
    "void at::native::radixSortKVInPlace<-2, -1, 64, 32, float, long, unsigned int>(int)": Category.SORTING,
    "void at::native::(anonymous namespace)::write_indices<int>(long*)": Category.SORTING,
    "void flashinfer::sampling::TopKSamplingFromProbKernel<1024u>(float*)": Category.SORTING,
    "void vision::ops::(anonymous namespace)::nms_kernel_impl<float>(int, double)": Category.SORTING,
    ROCPRIM.format("rocprim::detail::partition_config_selector<long>"): Category.SORTING,
    ROCPRIM.format("rocprim::detail::reduce_config_selector<bool>"): Category.REDUCTION,
    "void fbgemm_gpu::permute_2D_data_kernel<false, int, float>(int)": Category.ELEMENTWISE,
    "void split_embedding_codegen_forward_unweighted_kernel<float>(float const*)": Category.EMBEDDING,
    "void bounds_check_indices_kernel<long, false>(int)": Category.EMBEDDING,
    "void at::native::(anonymous namespace)::indexSelectLargeIndex<float>(int)": Category.EMBEDDING,
    "void at::native::(anonymous namespace)::multi_tensor_apply_kernel<X>(X)": Category.OPTIMIZER,
    "void at::native::(anonymous namespace)::max_pool_backward_nchw<float, float>(float const*)": Category.POOLING,
    "void at::native::(anonymous namespace)::upsample_nearest2d_out_frame<c10::BFloat16>(int)": Category.POOLING,
    "void fft2d_r2c_32x32<float, false, 0u, false>(float2*)": Category.LINALG,
    "void at::native::reduce_kernel<512, 1, X>(X)": Category.REDUCTION,
    "void at::native::tensor_kernel_scan_outer_dim<float, std::plus<float> >(float*)": Category.REDUCTION,
    "void cunn_ClassNLLCriterion_updateOutput_kernel<float, float>(float*)": Category.REDUCTION,
    "void at::native::vectorized_elementwise_kernel<4, X>(int, X)": Category.ELEMENTWISE,
    "_per_token_group_quant_fp8": Category.ELEMENTWISE,
    "SubTensorOpWithScalar1d": Category.ELEMENTWISE,
    "_ZN7sgl_hip10activation18act_and_mul_kernelI14__hip_bfloat16EEvPS3_PS4_i": Category.ELEMENTWISE,
    "void fbgemm_gpu::(anonymous namespace)::_get_FP8_qparam_cuda_kernel<float>(float const*)": Category.ELEMENTWISE,
    "void (anonymous namespace)::clamp_position_kernel<long>(long*)": Category.ELEMENTWISE,
}
SAYS_NOTHING = "kernel_0"
OPERATORS = {
    "aten::_scaled_dot_product_flash_attention": Category.ATTENTION,
    "aiter::mha_batch_prefill": Category.ATTENTION,
    "aten::cudnn_convolution": Category.CONVOLUTION,
    "_C::fused_add_rms_norm": Category.NORMALISATION,
    "_moe_C::topk_softmax": Category.ROUTING,
    "fbgemm::split_embedding_codegen_lookup_adagrad_function": Category.EMBEDDING,
    "_C::rotary_embedding": Category.ELEMENTWISE,
    "aten::nonzero": Category.SORTING,
    "aten::topk": Category.SORTING,
    "aten::max_pool2d_with_indices_backward": Category.POOLING,
    "aten::linalg_inv_ex": Category.LINALG,
    "aten::_fft_r2c": Category.LINALG,
    "aten::_foreach_copy_": Category.ELEMENTWISE,
    "aten::_fused_adamw_": Category.OPTIMIZER,
    "aten::addmm": Category.GEMM,
    "aten::_scaled_mm": Category.GEMM,
    "aten::linalg_vector_norm": Category.REDUCTION,
    "aten::nll_loss_backward": Category.REDUCTION,
    "aten::repeat_interleave": Category.EMBEDDING,
    "aten::gelu_backward": Category.ELEMENTWISE,
    "aten::fill_": Category.ELEMENTWISE,
    "aten::_thnn_fused_lstm_cell": Category.OTHER,
    "mine::step": Category.CUSTOM,
    "": Category.CUSTOM,
}


@pytest.mark.parametrize("kernel", KERNELS)
def test_a_kernels_name_gives_its_category(kernel: str) -> None:
    assert category_of(kernel, OpClass.COMPUTE) == KERNELS[kernel]


@pytest.mark.parametrize("operator", OPERATORS)
def test_the_operator_decides_where_the_kernels_name_says_nothing(operator: str) -> None:
    assert category_of(SAYS_NOTHING, OpClass.COMPUTE, operator) == OPERATORS[operator]


def test_every_row_of_the_table_decides_for_a_name_and_has_a_source() -> None:
    decided = {find_family(kernel) for kernel in KERNELS} | {find_family(SAYS_NOTHING, name) for name in OPERATORS}
    assert [row for row in FAMILIES if row not in decided] == []
    assert [row for row in FAMILIES if "/" not in row.source and "recorded: " not in row.source] == []


@pytest.mark.parametrize(
    ("kernel", "category"),
    [
        ("my_kernel", Category.CUSTOM),
        ("add_kernel_0d1d2d3de", Category.CUSTOM),
        ("void my_kernel<cutlass::half_t>(cutlass::half_t*)", Category.CUSTOM),
        ("void cudnn::ops::mystery<float>(float*)", Category.OTHER),
        ("void at::native::mystery<float>(float*)", Category.OTHER),
    ],
)
def test_a_kernel_without_a_family_is_the_users_unless_a_library_has_it(kernel: str, category: Category) -> None:
    assert category_of(kernel, OpClass.COMPUTE) == category


@pytest.mark.parametrize(("tag", "category"), [("pointwise", Category.ELEMENTWISE), ("reduction", Category.REDUCTION)])
def test_operators_are_classed_as_torch_tags_them(tag: str, category: Category) -> None:
    # max and min: of one tensor a reduction, of two pointwise; equal gives one value; rrelu draws random numbers
    unclear = ("max", "min", "equal", "rrelu")
    packets = {name: getattr(torch.ops.aten, name) for name in dir(torch.ops.aten) if name not in unclear}
    tagged = [
        name
        for name, packet in packets.items()
        if any(getattr(torch.Tag, tag) in getattr(packet, each).tags for each in getattr(packet, "overloads", list)())
    ]
    given = {name: category_of(SAYS_NOTHING, OpClass.COMPUTE, f"aten::{name}") for name in tagged}
    assert len(given) >= 10
    known = (category, Category.LINALG)  # torch tags some of linalg, too
    assert {name: other for name, other in given.items() if other not in known} == {}


SHARED = tuple(path.relative_to(MORE).as_posix() for path in sorted(MORE.rglob("*.json.gz")))


@pytest.mark.slow
@pytest.mark.parametrize("name", [*ALL, *SHARED])
def test_recorded_traces_leave_little_without_a_category(name: str) -> None:
    trace = read_trace(MORE / name if name in SHARED else real(name))
    length = trace.ops.end_ns - trace.ops.start_ns
    other = np.isin(categories(trace), (Category.OTHER, Category.CUSTOM))
    assert int(length[other].sum()) <= MOST_OTHER_FRAC * int(length.sum())
