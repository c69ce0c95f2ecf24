"""What a name says: class, direction, kind of call, the short form."""

from __future__ import annotations

import re

import pytest

from perfmagic.trace.columns import CallKind, OpKind
from perfmagic.trace.model import Trace, TraceMeta, make_trace
from perfmagic.trace.names import (
    OpClass,
    call_kind,
    comm_kernel_names,
    copy_direction,
    is_blocking_copy,
    is_pageable,
    op_classes,
    short_name,
)
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
    "ncclDevKernel_AllGather_RING_LL(ncclDevKernelArgsStorage<4096ul>)": OpClass.COMM,
    "rcclGenericKernel": OpClass.COMM,
    "void (anonymous namespace)::multimem_all_reduce_kernel<c10::BFloat16, 16>(c10::BFloat16*)": OpClass.COMM,
    "void deep_ep::intranode::dispatch<8>(int4*)": OpClass.COMM,
    "void vllm::cross_device_reduce_1stage<float, 8>(RankData*)": OpClass.COMM,
    "nvshmemi_transfer_rma_p": OpClass.COMM,
    "void mscclpp::allreduce7<float>(float*)": OpClass.COMM,
}


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
    assert op_classes(trace).tolist() == [OpClass.COMM, OpClass.COMPUTE]
    assert comm_kernel_names(trace) == ("my_ring_kernel",)


def test_a_given_expression_replaces_the_whole_rule() -> None:
    trace = _trace(["ncclKernel", "my_exchange", "marked"], collective=[-1, -1, 0])
    assert op_classes(trace, "EXCHANGE").tolist() == [OpClass.COMPUTE, OpClass.COMM, OpClass.COMPUTE]
    assert comm_kernel_names(trace, "exchange") == ("my_exchange",)
    with pytest.raises(re.error):
        op_classes(trace, "(")


def test_the_kernels_that_decided_are_listed() -> None:
    assert [short_name(n) for n in comm_kernel_names(recorded("v100_4streams_nccl_step"))] == [
        "ncclKernel_AllReduce_RING_LL_Sum_float",
        "ncclKernel_SendRecv_RING_SIMPLE_Sum_int8_t",
    ]


@pytest.mark.parametrize(
    ("name", "short"),
    [
        ("void at::native::vectorized_elementwise_kernel<4, at::F<float> >(int, X)", "vectorized_elementwise_kernel"),
        ("ncclKernel_AllReduce_RING_LL_Sum_float(ncclWorkElem)", "ncclKernel_AllReduce_RING_LL_Sum_float"),
        ("void at::native::(anonymous namespace)::CatArrayBatchedCopy<float>(float*)", "CatArrayBatchedCopy"),
        ("std::enable_if<(((8)>(0)))&&v::T<c>::exists, void>::type vllm::add_rms<c, 8>(c*)", "add_rms"),
        ("std::enable_if<!(false), void>::type internal::gemvx::kernel<int, int>(int)", "gemvx::kernel"),
        (
            "void cutlass::Kernel2<cutlass_80_simt_sgemm_128x32_8x5_nn_align1>(P)",
            "cutlass_80_simt_sgemm_128x32_8x5_nn_align1",
        ),
        (
            "void cutlass::device_kernel<flash::enable_sm90<flash::FlashAttnFwdSm90<M<128, 2>, E> > >(P)",
            "FlashAttnFwdSm90",
        ),
        ("_ZN5aiter24add_rmsnorm_quant_kernelIDF16bLi256EEEvPT0_", "add_rmsnorm_quant_kernel"),
        ("ampere_sgemm_128x64_nn", "ampere_sgemm_128x64_nn"),
        ("Memcpy HtoD (Pageable -> Device)", "Memcpy HtoD (Pageable -> Device)"),
        ("aten::mm", "aten::mm"),
        ("mm", "mm"),
        ("train.py(12): step", "train.py(12): step"),
        ("autograd::engine::evaluate_function: MmBackward0", "autograd::engine::evaluate_function: MmBackward0"),
        ("カーネル 核函数", "カーネル 核函数"),
        ("", ""),
        ("<(", "<("),
        ("a<b", "a"),
    ],
)
def test_a_short_name_is_the_kernel_without_its_signature(name: str, short: str) -> None:
    assert short_name(name) == short


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
