import numpy as np
import pytest

from perfmagic.analysis.timeline.activity import streams
from perfmagic.analysis.timeline.copies import copies
from perfmagic.analysis.timeline.device_operators import tensor_core_share
from perfmagic.analysis.timeline.kernels import kernels
from perfmagic.trace.columns import NONE, OpKind
from perfmagic.trace.model import LaunchShape, Trace
from perfmagic.trace.names import OpClass
from tests.analysis.build import US, Builder
from tests.trace.recorded import recorded

WIDE, TALL = LaunchShape((8, 1, 1), (256, 1, 1)), LaunchShape((1, 8, 1), (32, 4, 1))
TALL_MORE_SHARED = LaunchShape((1, 8, 1), (32, 4, 1), shared_bytes=1024)


def ten_products_and_an_addition() -> Trace:
    """volta_sgemm for 1, 2, … 10 µs, the last six laid out tall; then one addition of 25 µs and a copy."""
    b = Builder()
    for i in range(1, 11):
        shape = WIDE if i <= 4 else TALL if i <= 7 else TALL_MORE_SHARED
        b.op(100 * i, 101 * i, name="volta_sgemm_128x64_nn", shape=shape)
    b.op(2000, 2025, name="add")
    b.op(3000, 3010, name="Memcpy HtoD (Pinned -> Device)", stream=9)
    return b.trace()


def test_each_kernel_has_its_count_times_and_percentiles() -> None:
    product, addition = kernels(ten_products_and_an_addition(), 0)
    assert (product.name, product.n_ops) == ("volta_sgemm_128x64_nn", 10)
    assert (product.total_ns, product.mean_ns) == (55 * US, 5.5 * US)
    assert (product.min_ns, product.median_ns, product.p90_ns, product.max_ns) == (1 * US, 5_500, 9 * US, 10 * US)
    assert product.share_frac == pytest.approx(55 / 80)
    assert (product.op_class, addition.op_class) == (OpClass.MATRIX, OpClass.COMPUTE)
    assert (addition.n_ops, addition.min_ns, addition.max_ns) == (1, 25 * US, 25 * US)


def test_the_launch_shape_is_the_most_frequent_pair_of_grid_and_block() -> None:
    product, addition = kernels(ten_products_and_an_addition(), 0)
    assert (product.grid, product.block, product.n_shapes) == ((1, 8, 1), (32, 4, 1), 2)
    assert (addition.grid, addition.block, addition.n_shapes) == (None, None, 0)


def test_of_shapes_equally_frequent_the_first_seen_stands() -> None:
    b = Builder()
    for start, shape in ((0, TALL), (20, WIDE), (40, WIDE), (60, TALL)):
        b.op(start, start + 1, shape=shape)
    assert kernels(b.trace(), 0)[0].grid == TALL.grid


def test_a_kernel_says_whether_it_uses_tensor_cores() -> None:
    product, addition = kernels(ten_products_and_an_addition(), 0)
    assert (product.tensor_cores, addition.tensor_cores) == (False, None)


def test_the_share_of_tensor_cores_is_of_the_matrix_kernels_and_of_all() -> None:
    b = Builder()
    b.op(0, 30, name="ampere_bf16_s16816gemm_bf16_128x64")
    b.op(40, 50, name="ampere_sgemm_128x64_nn")
    b.op(60, 80, name="triton_mm")
    b.op(90, 130, name="add")
    b.op(200, 300, name="nvjet_tst_192x8", device=1)
    share = tensor_core_share(b.trace(), 0)
    assert (share.tensor_ns, share.undecided_ns, share.matrix_ns) == (30 * US, 20 * US, 60 * US)
    assert (share.frac_of_matrix, share.frac_of_kernels) == (0.5, 0.3)


def test_whatever_uses_tensor_cores_counts_as_matrix_work() -> None:
    b = Builder()
    b.op(0, 30, name="fused_mlp_mfma16")
    b.op(40, 50, name="volta_sgemm_64x64_nn")
    share = tensor_core_share(b.trace(), 0)
    assert kernels(b.trace(), 0)[0].op_class is OpClass.COMPUTE
    assert (share.tensor_ns, share.matrix_ns, share.frac_of_matrix) == (30 * US, 40 * US, 0.75)


def test_a_device_without_kernels_has_no_rows_and_no_share() -> None:
    trace = ten_products_and_an_addition()
    assert kernels(trace, 5) == ()
    assert tensor_core_share(trace, 5).frac_of_matrix == 0.0
    assert copies(trace, 5).to_dict() == []


@pytest.mark.parametrize(("name", "n"), [("v100_4streams_nccl_step", 2328), ("gp100_gpu_user_annotation", 130)])
def test_the_kernels_of_a_recorded_step_are_those_counted_one_by_one(name: str, n: int) -> None:
    trace = recorded(name)
    rows = kernels(trace, trace.device_ids[0])
    assert sum(k.n_ops for k in rows) == n
    assert sum(k.share_frac for k in rows) == pytest.approx(1)
    ops = trace.ops
    for k in rows:
        mine = (ops.name == trace.names.index(k.name)) & (ops.kind == OpKind.KERNEL)
        length = np.sort((ops.end_ns - ops.start_ns)[mine])
        assert (k.total_ns, k.min_ns, k.max_ns) == (length.sum(), length[0], length[-1])
        assert k.p90_ns == length[round(0.9 * (len(length) - 1))]
        shapes = [(trace.shapes[s].grid, trace.shapes[s].block) for s in ops.shape[mine].tolist() if s != NONE]
        assert k.n_shapes == len(set(shapes))
        assert shapes.count((k.grid, k.block)) == max([shapes.count(s) for s in shapes], default=0)


def test_on_a_recorded_a100_only_the_tf32_convolution_uses_tensor_cores() -> None:
    trace = recorded("a100_alexnet_cuda_sync")
    says = {k.name: k.tensor_cores for k in kernels(trace, trace.device_ids[0]) if k.op_class is OpClass.MATRIX}
    assert {name[:20] for name, yes in says.items() if yes} == {"sm80_xmma_fprop_impl"}
    assert None not in says.values()


def test_copies_and_streams_are_tables_with_their_device() -> None:
    trace = ten_products_and_an_addition()
    assert copies(trace, 0).to_dict()[0]["device"] == 0
    assert copies(trace, 0).to_dict()[0]["bandwidth_bytes_per_s"] is None
    assert [row["stream"] for row in streams(trace, 0).to_dict()] == [7, 9]
