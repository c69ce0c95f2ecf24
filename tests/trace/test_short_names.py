"""Names for people: structure before letters, different names never alike, brackets closed, at any width."""

import gzip
import json
import random
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from perfmagic.base.terminal import columns
from perfmagic.trace.names import NARROWEST, short_name, short_names

RECORDED: dict[str, list[str]] = json.loads(
    gzip.decompress((Path(__file__).parents[1] / "data" / "kernel_names.json.gz").read_bytes())
)
WORDS = {
    "void at::native::vectorized_elementwise_kernel<4, at::native::CUDAFunctor_add<float>, std::array<char*, 3ul> >"
    "(int, at::native::CUDAFunctor_add<float>)": "vectorized_elementwise_kernel<4, add<float>>",
    "void at::native::vectorized_elementwise_kernel<4, at::native::sigmoid_kernel_cuda(at::TensorIteratorBase&)::"
    "{lambda()#2}::operator()() const::{lambda()#2}::operator()() const::{lambda(float)#1}, std::array<char*, 2ul> >"
    "(int)": "vectorized_elementwise_kernel<4, sigmoid<float>>",
    "void at::native::reduce_kernel<512, 1, at::native::ReduceOp<long, at::native::func_wrapper_t<long, at::native::"
    "sum_functor<long, long, long>::operator()(at::TensorIterator&)::{lambda(long, long)#1}>, unsigned int, long, 4> >"
    "(int)": "reduce_kernel<512, 1, sum<long>>",
    "void at::native::elementwise_kernel<128, 2, at::native::gpu_kernel_impl<at::native::BinaryFunctor<float, float, "
    "float, at::native::binary_internal::MulFunctor<float> > >(at::TensorIteratorBase&, float const&)::{lambda(int)#1}>"
    "(int)": "elementwise_kernel<128, 2, Mul<float>>",
    "void at::native::(anonymous namespace)::cunn_SoftMaxForward<4, float, float, float, at::native::(anonymous "
    "namespace)::SoftMaxForwardEpilogue>(float*, int)": "cunn_SoftMaxForward<4, float, SoftMaxForwardEpilogue>",
    "void pytorch_flash::flash_fwd_kernel<pytorch_flash::Flash_fwd_kernel_traits<128, 128, 64, 4, false, false, "
    "cutlass::bfloat16_t>, false, true, false, false, true>(P)": "flash_fwd_kernel<128, bf16, causal>",
    "void pytorch_flash::flash_fwd_kernel<pytorch_flash::Flash_fwd_kernel_traits<128, 128, 64, 4, false, false, "
    "cutlass::bfloat16_t>, false, false, false, false, true>(P)": "flash_fwd_kernel<128, bf16>",
    "void cutlass::Kernel2<cutlass_80_simt_sgemm_128x32_8x5>(P)": "cutlass_80_simt_sgemm_128x32_8x5",
    "_ZN5aiter24add_rmsnorm_quant_kernelIDF16bLi256ELb1EEEvPT0_": "add_rmsnorm_quant_kernel<bf16, 256>",
    "ncclDevKernel_AllReduce_Sum_bf16_RING_LL(ncclDevKernelArgsStorage<4096ul>)": (
        "ncclDevKernel_AllReduce_Sum_bf16_RING_LL"
    ),
    "nvjet_tst_192x8_64x8_4x1_v_bz_TNT": "nvjet_tst_192x8_64x8_4x1_v_bz_TNT",
    "Memcpy HtoD (Pageable -> Device)": "Memcpy HtoD (Pageable -> Device)",
    "aten::mm": "aten::mm",
}


@pytest.mark.parametrize("name", WORDS)
def test_a_name_is_shortened_by_its_structure(name: str) -> None:
    assert short_name(name, 60) == WORDS[name]


@pytest.mark.parametrize("width", [40, 48, 60, 100])
@pytest.mark.parametrize("trace", RECORDED)
def test_recorded_kernels_never_read_the_same(trace: str, width: int) -> None:
    texts = short_names(RECORDED[trace], width)
    assert len(set(texts.values())) == len(RECORDED[trace])
    assert max(map(columns, texts.values())) <= width
    assert [text for text in texts.values() if text.count("<") != text.count(">")] == []


def test_nearly_all_recorded_kernels_are_told_apart_by_words_and_not_by_numbers() -> None:
    numbered = {t for names in RECORDED.values() for t in short_names(names).values() if " #" in t}
    assert numbered == {f"kernel_batched_gemm_xdlops_bwd_weight<float> #{n}" for n in (1, 2)}


def test_what_all_kernels_of_a_function_share_is_dropped_and_what_differs_stays() -> None:
    same = "void ns::gemm<float, ns::Tile<{m}, 64, 8>, true, {k}>(float*)"
    texts = short_names([same.format(m=m, k=5) for m in (128, 256)])
    assert list(texts.values()) == ["gemm<float, Tile<128>>", "gemm<float, Tile<256>>"]
    texts = short_names([same.format(m=128, k=k) for k in (5, 6)])
    assert list(texts.values()) == ["gemm<float, 5>", "gemm<float, 6>"]


def test_gemms_of_one_family_keep_the_words_that_differ() -> None:
    family = "sm80_xmma_gemm_f16f16_f16f32_f32_tn_n_tilesize{}_stage4_warpsize2x2x1_tensor16x8x16_kernel"
    names = [family.format(size) for size in ("128x64x64", "64x64x64", "256x128x32")]
    for name, text in short_names(names, 40).items():
        assert name.split("tilesize")[1].split("_")[0] in text


def test_namespaces_are_said_only_where_nothing_else_differs() -> None:
    texts = short_names(["void a::scan<int>(int)", "void b::scan<int>(int)", "void c::other<int>(int)"])
    assert list(texts.values()) == ["a::scan<int>", "b::scan<int>", "other<int>"]


def test_overloads_that_differ_in_parameters_alone_are_numbered() -> None:
    assert short_names(["void f<int>(int)", "void f<int>(long)"]) == {
        "void f<int>(int)": "f<int> #1",
        "void f<int>(long)": "f<int> #2",
    }


@pytest.mark.parametrize("trace", ["h100_qwen_orphans", "mi300_sd35_239k_events"])
def test_the_order_of_the_names_changes_nothing(trace: str) -> None:
    names = list(RECORDED[trace])
    expected = short_names(names)
    random.Random(3).shuffle(names)
    assert short_names([*names, names[0]]) == expected


@pytest.mark.parametrize("width", [20, 48])
def test_wide_characters_take_two_columns(width: int) -> None:
    texts = short_names([f"{'核函数' * 20}{i}" for i in range(3)], width)
    assert len(set(texts.values())) == 3
    assert max(map(columns, texts.values())) <= width


@pytest.mark.parametrize("opening", ["f<", "f(", "{", "a<b<(", "operator<", "void x<y>::", "_ZN4nameI", "x" * 50 + "_"])
def test_a_name_of_ten_thousand_letters_takes_linear_work(opening: str) -> None:
    """Each name is read in one go: a tree of bounded depth, no recursion into what is deeper."""
    name = (opening * 10_000)[:10_000]
    for text in (name, name + ">" * 4_000, f"void k<{name}>(int)"):
        assert columns(short_name(text)) <= 48


LEAVES = st.sampled_from(["int", "float", "4", "128ul", "true", "(ns::E)2", "unsigned int", "c10::BFloat16 const*"])
ARGUMENTS = st.recursive(
    LEAVES,
    lambda inner: st.builds(
        lambda head, args: f"{head}<{', '.join(args)}{' ' if args[-1].endswith('>') else ''}>",
        st.sampled_from(["ns::Op", "Tile", "at::native::AddFunctor", "BinaryFunctor", "Flash_traits", "std::array"]),
        st.lists(inner, min_size=1, max_size=4),
    ),
    max_leaves=12,
)
KERNELS = st.builds(
    lambda function, args: f"void {function}<{', '.join(args)}>(int, float const*)",
    st.sampled_from(["at::native::elementwise_kernel", "gemm", "ns::a_kernel_with_a_rather_long_name_of_its_own"]),
    st.lists(ARGUMENTS, min_size=1, max_size=5),
)


@pytest.mark.slow
@given(st.lists(KERNELS, min_size=1, max_size=12, unique=True), st.integers(NARROWEST, 90))
def test_any_templates_stay_distinct_balanced_and_within_the_width(names: list[str], width: int) -> None:
    texts = short_names(names, width)
    assert set(texts) == set(names)
    assert len(set(texts.values())) == len(names)
    for text in texts.values():
        assert columns(text) <= width
        assert text.count("<") == text.count(">")


@given(st.lists(st.text(max_size=60), max_size=8, unique=True), st.integers(NARROWEST, 60))
def test_any_text_stays_distinct_and_within_the_width(names: list[str], width: int) -> None:
    texts = short_names(names, width)
    assert len(set(texts.values())) == len(set(names))
    assert all(columns(text) <= width for text in texts.values())
