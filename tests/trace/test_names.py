"""What a name says: class, direction, tensor cores; of a runtime call, what it does."""

import re

import pytest

from perfmagic.base.errors import OptionError
from perfmagic.trace.columns import CallKind, OpKind, call_kind, is_blocking_copy
from perfmagic.trace.model import Trace, TraceMeta, make_trace
from perfmagic.trace.names import (
    OpClass,
    check_matches,
    collective_name,
    comm_kernel_names,
    copy_direction,
    is_pageable,
    op_classes,
    uses_tensor_cores,
)
from perfmagic.trace.signatures import function_name
from tests.trace.recorded import recorded

CLASSES = {
    "ampere_sgemm_128x64_nn": OpClass.MATRIX,
    "sm90_xmma_gemm_bf16bf16_bf16f32_f32_tn_n_tilesize128x128x64_cublas": OpClass.MATRIX,
    "nvjet_tst_192x8_64x8_4x1_v_bz_TNT": OpClass.MATRIX,
    "void cutlass::Kernel2<cutlass_80_tensorop_s1688gemm_128x128_16x4_nn_align4>(Params)": OpClass.MATRIX,
    "cutlass_tensorop_s1688fprop_optimized_tf32_128x128_16x4_nhwc_align4": OpClass.MATRIX,
    "volta_scudnn_128x64_relu_small_nn_v1": OpClass.MATRIX,
    "void flash_fwd_kernel<Flash_fwd_kernel_traits<64>>(Flash_fwd_params)": OpClass.MATRIX,
    "fmhaSm100aKernel_QkvE4m3OBfloat16H64PagedKvCausal": OpClass.MATRIX,
    "Cijk_Ailk_Bjlk_BBS_BH_MT32x32x64_MI16x16x16x1": OpClass.MATRIX,
    "_ZN2ck16tensor_operation12_GLOBAL__N_139kernel_grouped_conv_fwd_xdl_cshuffle_v3INS_3FooEEEv": OpClass.MATRIX,
    "igemm_fwd_gtcx3_nhwc_bf16_bx0_ex1": OpClass.MATRIX,
    "triton_tem_fused_mm_3": OpClass.MATRIX,
    "mm": OpClass.MATRIX,
    "aten::addmm": OpClass.MATRIX,
    "baddbmm.default": OpClass.MATRIX,
    "convolution": OpClass.MATRIX,
    "_scaled_dot_product_flash_attention": OpClass.MATRIX,
    "add": OpClass.COMPUTE,
    "triton_poi_fused_addmm_gelu_view_15": OpClass.COMPUTE,
    "void cublasLt::splitKreduce_kernel<32, 16, int>(cublasLt::cublasSplitKParams<float>)": OpClass.COMPUTE,
    "void fbgemm_gpu::permute_2D_lengths_kernel<int>(int, int)": OpClass.COMPUTE,
    "void at::native::elementwise_kernel<128, 2, at::native::conv_helper>(int)": OpClass.COMPUTE,
    "void cudnn::bn_bw_1C11_kernel_new<float, float>(float)": OpClass.COMPUTE,
    "vllm::reshape_and_cache_flash_kernel": OpClass.COMPUTE,
    "softmax_warp_all_reduce_kernel": OpClass.COMPUTE,
    "ncclDevKernel_AllGather_RING_LL(ncclDevKernelArgsStorage<4096ul>)": OpClass.COMMUNICATION,
    "rcclGenericKernel": OpClass.COMMUNICATION,
    "void (anonymous namespace)::multimem_all_reduce_kernel<c10::BFloat16, 16>(c10::BFloat16*)": OpClass.COMMUNICATION,
    "void deep_ep::intranode::dispatch<8>(int4*)": OpClass.COMMUNICATION,
    "void vllm::cross_device_reduce_1stage<float, 8>(RankData*)": OpClass.COMMUNICATION,
    "nvshmemi_transfer_rma_p": OpClass.COMMUNICATION,
    "void deep_ep::internode::dispatch<false, 4, false, 13>(int4*, float*)": OpClass.COMMUNICATION,
    "void deep_ep::internode_ll::combine<3, 10, 7168, 9>(void*)": OpClass.COMMUNICATION,
    "void deep_ep::intranode::cached_notify_combine<8>(void**)": OpClass.COMMUNICATION,
    "void uccl::ep::internode::notify_dispatch<false, 2>(int const*)": OpClass.COMMUNICATION,
    "void primus_turbo::deep_ep::intranode::combine<__hip_bfloat16, 8, 1024>(__hip_bfloat16*)": OpClass.COMMUNICATION,
    "_ZN4uccl9internode8dispatchILb0ELi2EEEvP15HIP_vector_typeIiLj4EE": OpClass.COMMUNICATION,
    "void hybrid_ep::dispatch_kernel<hybrid_ep::warp_group<1, 0>, 4>(dispatch_param_t)": OpClass.COMMUNICATION,
    "void pplx::dispatchKernel<10, true>(int*)": OpClass.COMMUNICATION,
    "void mori::moe::EpDispatchInterNodeKernel<float>(mori::moe::EpDispatchCombineArgs<float>)": OpClass.COMMUNICATION,
    "void mori::moe::EpCombineIntraNodeKernel<__hip_bfloat16>(Args)": OpClass.COMMUNICATION,
    "void tensorrt_llm::kernels::moe_comm::moeA2ADispatchKernel<8>(Params)": OpClass.COMMUNICATION,
    "a2a_dispatch_send_kernel": OpClass.COMMUNICATION,
    "c10d::symmetric_memory::barrier_kernel(unsigned int**, int, int, int)": OpClass.COMMUNICATION,
    "void c10d::intra_node_comm::twoShotAllReduceKernel<8>(Params)": OpClass.COMMUNICATION,
    "void quickreduce::allreduce_prototype_twoshot<quickreduce::AllReduceTwoshot>(int)": OpClass.COMMUNICATION,
    "void aiter::cross_device_reduce_2stage<__hip_bfloat16, 8>(RankData*)": OpClass.COMMUNICATION,
    "void flashinfer::trtllm_allreduce_fusion::allreduce_fusion_kernel_oneshot_lamport<8>(P)": OpClass.COMMUNICATION,
    "void fbgemm_gpu::barrier<8>(int)": OpClass.COMMUNICATION,
    "kuserbuffers_pushsendrecv(int)": OpClass.COMMUNICATION,
    "oneccl_allreduce_small_kernel": OpClass.COMMUNICATION,
    # names that hold such a word and communicate with nobody
    "void deep_ep::layout::get_dispatch_layout<256, 4, 8>(long const*)": OpClass.COMPUTE,
    "void deep_ep::internode::get_dispatch_layout<256, 32, 2>(long const*)": OpClass.COMPUTE,
    "void flash::flash_fwd_intranode_kernel<Traits>(Params)": OpClass.MATRIX,
    "flash_attn_internode_mask": OpClass.MATRIX,
    "void fbgemm_gpu::split_embedding_codegen_forward_kernel<float>(int)": OpClass.COMPUTE,
    "void moe::dispatch_tokens_kernel<8>(int*)": OpClass.COMPUTE,
    "void at::native::warp_all_reduce_kernel<float>(float*)": OpClass.COMPUTE,
    "void marlin_moe::combine_kernel(int)": OpClass.COMPUTE,
    "void cub::DeviceReduceSingleTileKernel<float>(float*)": OpClass.COMPUTE,
    "void mscclpp::allreduce7<float>(float*)": OpClass.COMMUNICATION,
}


TENSOR_CORES = {
    "volta_h884gemm_64x64_ldg8_nn": True,
    "volta_fp16_s884cudnn_fp16_128x128_ldg8_relu_f2f_exp_small_nhwc_tn_v1": True,
    "turing_fp16_s1688gemm_fp16_256x128_ldg8_f2f_tn": True,
    "turing_int8_i8816cudnn_int8_128x64_ldg16_relu_singleBuffer_small_nt_v1": True,
    "ampere_bf16_s16816gemm_bf16_128x64_ldg8_f2f_stages_64x4_tn": True,
    "void cutlass::Kernel2<cutlass_80_tensorop_d884gemm_64x64_16x4_nn_align1>(Params)": True,
    "void cutlass::Kernel2<cutlass_80_wmma_tensorop_bf16_s161616gemm_bf16_32x32_128x2_tn_align8>(Params)": True,
    "sm80_xmma_gemm_f16f16_f16f32_f32_tn_n_tilesize128x64x64_stage4_warpsize2x2x1_tensor16x8x16_kernel": True,
    "sm80_xmma_gemm_f32f32_f32f32_f32_tn_n_tilesize32x32x8_stage3_warpsize1x2x1_ffma_aligna4_kernel": False,
    "sm90_xmma_gemm_bf16bf16_bf16f32_f32_tn_n_tilesize128x128x64_warpgroupsize1x1x1_execute_kernel": True,
    "nvjet_tst_192x8_64x8_4x1_v_bz_TNT": True,
    "cutlass3x_sm100_tensorop_s256x256x16gemm_bf16_bf16_f32_bf16_bf16_256x256x64_0_tnn_align8_2sm": True,
    "void cutlass::device_kernel<Foo<cutlass::gemm::MainloopSm90TmaGmmaWarpSpecialized<4>>>(Params)": True,
    "void my_gemm<cute::MMA_Atom<cute::SM80_16x8x16_F32F16F16F32_TN>>(int)": True,
    "void deep_gemm::sm90_fp8_gemm_1d2d_impl<0u, 7168u>(float*)": True,
    "bmm_E4m3_E4m3E4m3_Fp32_t128x8x256u2_s6_et128x8_m128x8x32_cga1x1x1_16dp256b_tma_sm100f": True,
    "fmhaSm100aKernel_QkvE4m3OBfloat16H64PagedKvCausalP16VarSeqQ128Kv128PersistentContext": True,
    "void flash::flash_fwd_splitkv_kernel<Flash_fwd_kernel_traits<64>>(Flash_fwd_params)": True,
    "void flash::flash_fwd_splitkv_combine_kernel<Flash_fwd_kernel_traits<64>>(Flash_fwd_params)": False,
    "void flash::flash_bwd_dot_do_o_kernel<true, Flash_bwd_kernel_traits<64, SM80_16x8x16_F32>>(P)": False,
    "void cutlass::device_kernel<flash::enable_sm90<flash::FlashAttnFwdSm90<flash::Main>>>(P)": True,
    "fmha_cutlassF_f32_aligned_64x64_rf_sm80(PyTorchMemEffAttention::Params)": True,
    "fmha_cutlassF_f32_aligned_64x64_rf_sm75(PyTorchMemEffAttention::Params)": False,
    "fmha_cutlassB_f16_aligned_64x64_k64_sm70(PyTorchMemEffAttention::Params)": True,
    "volta_sgemm_128x64_nn": False,
    "volta_dgemm_64x64_nt": False,
    "ampere_dgemm_64x64_nt": None,
    "volta_scudnn_128x64_relu_small_nn_v1": False,
    "void sgemm_largek_lds64<true, true, 6, 3>(float*)": False,
    "void cutlass::Kernel2<cutlass_80_simt_sgemm_128x32_8x5_nn_align1>(Params)": False,
    "void gemv2T_kernel_val<int, int, float>(cublasGemvParams)": False,
    "void cublasLt::splitKreduce_kernel<32, 16, int, float, __half>(cublasLt::Params)": False,
    "void cudnn::winograd_nonfused::winogradForwardData4x4<float, float>(Params)": False,
    "void at::native::vectorized_elementwise_kernel<4, at::native::FillFunctor<float>>(int)": False,
    "ncclDevKernel_AllReduce_Sum_bf16_RING_LL": False,
    "triton_poi_fused_addmm_gelu_view_15": False,
    "triton_mm": None,
    "triton_tem_fused_mm_3": None,
    "attn_fwd": None,
    "my_kernel": None,
    "Cijk_Ailk_Bjlk_BBS_BH_MT32x32x64_MI16x16x16x1_SN_1LDSB0_APM1": True,
    "Cijk_Alik_Bljk_SB_MT64x64x16_SE_APM1_ISA908_TT4_4_MIWT2_2_WG16_16_1": True,
    "Cijk_Ailk_Bljk_SB_MT128x128x16_SE_APM1_ABV0_ISA906_TT8_8_WG16_16_1": False,
    "igemm_fwd_gtcx3_nhwc_bf16_bx0_ex1_bt256x64x8": True,
    "igemm_fwd_gtcn2_nhwc_fp16x4_bx0": False,
    "_ZN2ck16tensor_operation12_GLOBAL__N_139kernel_grouped_conv_fwd_xdl_cshuffle_v3INS_3FooEEEv": True,
    "void paged_attention_ll4mi_QKV_mfma16_kernel<0, __hip_bfloat16>(int)": True,
    "SubTensorOpWithScalar1d": None,
}


@pytest.mark.parametrize("name", TENSOR_CORES)
def test_a_kernel_name_says_whether_tensor_cores_compute_it(name: str) -> None:
    assert uses_tensor_cores(name) is TENSOR_CORES[name]


def _trace(names: list[str], kind: OpKind = OpKind.KERNEL, **columns: list[bool]) -> Trace:
    rows = range(len(names))
    ops = {"start_ns": rows, "end_ns": rows, "kind": [kind] * len(names), "name": rows, **columns}
    return make_trace(names, TraceMeta("test"), ops=ops)


@pytest.mark.parametrize("name", CLASSES)
def test_a_kernel_name_gives_the_class(name: str) -> None:
    assert OpClass(op_classes(_trace([name]))[0]) is CLASSES[name]


def test_copies_and_memsets_are_classed_by_kind_and_direction() -> None:
    names = ["Memcpy HtoD (Pageable -> Device)", "Memcpy DtoH (Device -> Pinned)", "Memcpy DtoD (Device -> Device)"]
    names.append("Memcpy PtoP (Device -> Device)")
    assert op_classes(_trace(names, OpKind.MEMCPY)).tolist() == [3, 4, 5, 6]
    assert op_classes(_trace(["Memset (Device)"], OpKind.MEMSET)).tolist() == [OpClass.MEMSET]
    assert copy_direction("CopyHostToDevice") is OpClass.HTOD


def test_only_a_pageable_copy_is_pageable() -> None:
    assert is_pageable("Memcpy DtoH (Device -> Pageable)")
    assert not is_pageable("Memcpy DtoH (Device -> Pinned)")


def test_collective_metadata_makes_a_kernel_communication() -> None:
    trace = _trace(["my_ring_kernel", "my_ring_kernel2"], collective=[0, -1])
    assert op_classes(trace).tolist() == [OpClass.COMMUNICATION, OpClass.COMPUTE]
    assert comm_kernel_names(trace) == ("my_ring_kernel",)


def test_a_given_expression_replaces_the_whole_rule() -> None:
    trace = _trace(["ncclKernel", "my_exchange", "marked"], collective=[-1, -1, 0])
    assert op_classes(trace, "EXCHANGE").tolist() == [OpClass.COMPUTE, OpClass.COMMUNICATION, OpClass.COMPUTE]
    assert comm_kernel_names(trace, "exchange") == ("my_exchange",)
    with pytest.raises(re.error):
        op_classes(trace, "(")


def test_an_expression_that_matches_nothing_shows_the_names_near_it_and_the_longest() -> None:
    trace = _trace(["ncclDevKernel_AllReduce(int)", "void gemm_kernel<4>(float)", "fill"])
    with pytest.raises(OptionError) as raised:
        check_matches("ncl|allredce", [trace])
    assert raised.value.message == "comm names 'ncl|allredce' match none of 3 kernel names"
    assert raised.value.hint == (
        "the nearest: ncclDevKernel_AllReduce; the longest: ncclDevKernel_AllReduce, gemm_kernel, fill"
    )
    check_matches("ncl", [_trace([])])  # nothing ran: nothing to match
    check_matches("ncl", [trace, _trace(["ncl"])])
    check_matches(None, [trace])


def test_the_kernels_that_decided_are_listed() -> None:
    assert [function_name(n) for n in comm_kernel_names(recorded("v100_4streams_nccl_step"))] == [
        "ncclKernel_AllReduce_RING_LL_Sum_float",
        "ncclKernel_SendRecv_RING_SIMPLE_Sum_int8_t",
    ]


def test_a_copy_whose_call_waits_is_told_from_one_that_is_queued() -> None:
    blocking = "cudaMemcpy cudaMemcpy2D cuMemcpyDtoH_v2 hipMemcpy hipMemcpyWithStream hipMemcpyHtoD"
    queued = "cudaMemcpyAsync cuMemcpyHtoDAsync_v2 hipMemcpyAsync cudaMemcpyPeer cuMemcpyDtoD_v2 cudaMemset aten::copy_"
    assert all(map(is_blocking_copy, blocking.split()))
    assert not any(map(is_blocking_copy, queued.split()))


@pytest.mark.parametrize(
    ("names", "kind"),
    [
        ("cudaLaunchKernel cuLaunchKernelEx hipExtModuleLaunchKernel cudaGraphLaunch cudaMemcpyAsync", CallKind.LAUNCH),
        ("hipMemcpyWithStream cudaMemsetAsync cuMemcpyHtoDAsync_v2 cuMemsetD8Async", CallKind.LAUNCH),
        ("cudaDeviceSynchronize cudaStreamSynchronize cuCtxSynchronize hipEventSynchronize", CallKind.SYNC),
        ("cudaStreamWaitEvent hipStreamWaitEvent cuStreamWaitValue32", CallKind.WAIT),
        ("cudaEventRecord cudaEventRecordWithFlags", CallKind.RECORD),
        ("cudaMalloc cudaFree cudaHostAlloc cuMemAlloc_v2 hipFreeAsync cudaHostRegister", CallKind.MEMORY),
        ("cudaLaunchHostFunc cudaEventQuery cudaMemGetInfo INVALID my_memcpy", CallKind.OTHER),
    ],
)
def test_a_call_name_gives_its_kind(names: str, kind: CallKind) -> None:
    assert {name: call_kind(name) for name in names.split()} == dict.fromkeys(names.split(), kind)


@pytest.mark.parametrize(
    ("recorded", "spelled"),
    [
        ("allreduce", "all_reduce"),
        ("all_reduce", "all_reduce"),
        ("allreduce_coalesced", "all_reduce_coalesced"),
        ("_allgather_base", "_all_gather_base"),
        ("all_to_all", "all_to_all"),
        ("alltoall_base", "all_to_all_base"),
        ("_reduce_scatter_base", "_reduce_scatter_base"),
        ("broadcast", "broadcast"),
        ("send 0->1", "send 0->1"),
    ],
)
def test_a_name_is_spelled_as_torch_does(recorded: str, spelled: str) -> None:
    assert collective_name(recorded) == spelled
