"""A kernel's name as a tree, and the function's name alone."""

import pytest

from perfmagic.trace.signatures import Kind, Term, function_name, mangled_parts, signature


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
    assert function_name(name) == short


def test_arguments_nested_without_end_are_read_to_a_bounded_depth() -> None:
    name = "void k<" + "a<" * 3_000 + "int" + ">" * 3_000 + ">(int)"
    depth, term = 0, signature(name)
    while term.args:
        depth, term = depth + 1, term.args[0]
    assert depth <= 12


def test_a_tree_has_the_arguments_with_their_kinds() -> None:
    tree = signature("void gemv<(bool)1, c10::Half, 128ul, ns::Tile<4>, std::array<char*, 2> >(c10::Half*)")
    assert [(a.head, a.kind) for a in tree.args] == [
        ("true", Kind.FLAG),
        ("half", Kind.DTYPE),
        ("128", Kind.NUMBER),
        ("Tile", Kind.TYPE),
        ("array", Kind.PLUMBING),
    ]
    assert tree.args[3].args == (Term("4", kind=Kind.NUMBER),)


def test_a_mangled_name_gives_the_arguments_that_stand_in_the_open() -> None:
    name = "_ZN5aiter24add_rmsnorm_quant_kernelIDF16bLi256ELin4ELb0ENS_3RowIfEEEEvPT0_"
    assert mangled_parts(name, ()) == ("add_rmsnorm_quant_kernel", ["bf16", "256", "-4", "false", "Row", "float"])
    assert mangled_parts("_Z", ()) == ("", [])


def test_a_message_between_ranks_is_no_template() -> None:
    assert signature("recv 0<-3").head == signature("recv 0<-3", depth=0).head == "recv 0<-3"
    assert signature("void shift2<-1>(int)").head == "shift2"
