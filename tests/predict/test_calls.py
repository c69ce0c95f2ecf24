import pytest

from perfmagic.base.work import Inputs
from perfmagic.predict.calls import Call, call_of

BF16, FLOAT = "c10::BFloat16", "float"


def call(
    name: str, *shapes: tuple[int, ...], dtype: str = BF16, values: tuple[str, ...] = (), kernel: str = ""
) -> Call:
    found = call_of(name, Inputs(shapes, (dtype,) * len(shapes), values), kernel)
    assert found is not None
    return found


def test_a_product_has_its_sizes_its_flop_and_each_matrix_once() -> None:
    found = call("aten::addmm", (512,), (64, 256), (256, 512))
    assert found.products == ((1, 64, 512, 256),)
    assert found.flop == 2 * 64 * 512 * 256
    assert found.size_bytes == 2 * (64 * 256 + 256 * 512 + 64 * 512)
    assert (found.kind, found.dtype, found.aligned) == ("product", "bf16", True)
    assert call("aten::mm", (1, 256), (256, 512)).kind == "vector product"
    assert not call("aten::mm", (64, 255), (255, 512)).aligned
    assert call("aten::linear", (2, 32, 256), (512, 256)).products == ((1, 64, 512, 256),)


def test_float32_is_tf32_where_the_kernel_says_so() -> None:
    shapes = (64, 64), (64, 64)
    assert call("aten::mm", *shapes, dtype=FLOAT, kernel="ampere_sgemm_128x64_nn").dtype == "fp32"
    tensor = "cutlass_80_tensorop_s1688gemm_128x128_32x3_nn_align4"
    assert call("aten::mm", *shapes, dtype=FLOAT, kernel=tensor).dtype == "tf32"


def test_an_elementwise_operator_moves_its_inputs_and_what_they_are_broadcast_to() -> None:
    assert call("aten::add", (4, 1, 8), (3, 8)).size_bytes == 2 * (32 + 24 + 96)
    assert call("aten::gt", (4, 8), (4, 8)).size_bytes == 2 * 64 + 32  # a byte for each answer
    strided = call("aten::add", (4, 8), (4, 8), kernel="void at::native::elementwise_kernel<128, 4>")
    assert strided.kind == "strided elementwise"


def test_a_list_of_tensors_has_its_shapes_and_the_kernel_names_the_size_of_an_element() -> None:
    inputs = Inputs.read("[[[4, 8], [6, 8]], []]", '["TensorList", "Scalar"]')
    assert inputs.lists == (((4, 8), (6, 8)), ())
    assert call_of("aten::cat", inputs) == Call("cat", size_bytes=2 * 80 * 4)
    half = call_of("aten::cat", inputs, "CatArrayBatchedCopy<at::native::(anonymous namespace)::OpaqueType<2u>, 4>")
    assert half is not None
    assert half.size_bytes == 2 * 80 * 2
    assert (
        call_of("aten::cat", Inputs.read("[[], []]", '["TensorList", "Scalar"]')) is None
    )  # as older records write it


@pytest.mark.parametrize(
    "name", ["aten::_fft_c2c", "aten::_cslt_sparse_mm", "vllm::moe_forward", "triton_poi_fused_add", "c10d::allreduce_"]
)
def test_an_operator_without_a_rule_has_no_call(name: str) -> None:
    assert call_of(name, Inputs(((8, 8), (8, 8)), (BF16, BF16))) is None


def test_shapes_that_no_such_operator_takes_have_no_call() -> None:
    assert call_of("aten::mm", Inputs(((8,),), (BF16,))) is None
    assert call_of("aten::mm", Inputs(((8, 4), (8, 4)), (BF16, BF16))) is None
    assert call_of("aten::mm", Inputs((), ())) is None
    assert call_of("aten::add", Inputs((), ())) is None


def test_a_convolution_is_a_product_over_the_places_of_its_output() -> None:
    values = ("", "", "[1, 1]", "[2, 2]", "[1, 1]", "1", "False", "False", "True")
    shapes = (8, 64, 56, 56), (128, 64, 3, 3), *[()] * 7
    found = call_of("aten::cudnn_convolution", Inputs(shapes, (BF16, BF16, *[""] * 7), values))
    assert found is not None
    assert found.products == ((1, 8 * 28 * 28, 128, 64 * 9),)
    assert found.flop == 2 * 8 * 28 * 28 * 128 * 64 * 9
