"""What a busy device gets told: where its time goes, and what makes it slow."""

import json
from itertools import pairwise

import numpy as np
import pytest

from perfmagic.analysis.findings import kernels
from perfmagic.analysis.findings.device_time import device_time
from perfmagic.analysis.findings.facts import Facts
from perfmagic.analysis.findings.find import findings
from perfmagic.analysis.findings.finding import Finding
from perfmagic.analysis.findings.launches import graph_launch
from perfmagic.base.numerics.intervals import intersect, total_ns, union
from perfmagic.trace.model import Trace
from tests.analysis.findings.build import plain
from tests.analysis.shaped import A100, BF16, FLOAT, Shaped
from tests.trace.recorded import ALONE, real_trace

US = 1000
ALIGNED = "ampere_bf16_s16816gemm_bf16_128x64_ldg8_f2f_stages_64x4_tn"
UNALIGNED = "void cutlass::Kernel<cutlass_80_tensorop_bf16_s16816gemm_bf16_128x64_32x6_nn_align2>(int)"


def one(found: list[Finding]) -> Finding:
    (finding,) = found
    return finding


def attention(s: Shaped, n: int = 1) -> Shaped:
    """Eager attention: a product of 40 µs, scale 5, softmax 30, a cast of 5, a product of 20."""
    shape = [[16, 64, 32], [16, 32, 64]]
    for _ in range(n):
        s.op("aten::bmm", shape, BF16, ((ALIGNED, 40.0),))
        s.op("aten::mul", [[16, 64, 64], []], BF16, (("vectorized_elementwise_kernel", 5.0),))
        s.op("aten::_softmax", [[16, 64, 64], [], []], BF16, (("softmax_warp_forward", 30.0),))
        s.op("aten::copy_", [[16, 64, 64], [16, 64, 64]], BF16, (("vectorized_elementwise_kernel", 5.0),))
        s.op("aten::bmm", shape, BF16, ((ALIGNED, 20.0),))
    return s


def test_a_busy_devices_time_is_split_by_kind_and_operator_with_what_was_achieved() -> None:
    s = Shaped().op("aten::mm", [[1000, 1000], [1000, 1000]], BF16, ((ALIGNED, 60.0),))
    s.op("aten::mm", [[1000, 1000], [1000, 2000]], BF16, ((ALIGNED, 20.0),))
    s.op("aten::add", [[8], [8]], FLOAT, (("vectorized_elementwise_kernel", 15.0),)).bare((("lone", 5.0),))
    found = one(device_time(Facts(s.trace())))
    assert plain(found.sentence) == (
        "device time: matrix products took 80.0 µs of 100 µs (80 %), all of it in aten::mm bf16 "
        "(mostly [1000, 1000] [1000, 1000]), at 75.0 of 312 TFLOP/s; elementwise kernels took 15.0 µs "
        "(15 %), all of it in aten::add [8] [8] fp32; kernel lone took 5.00 µs (5 %). "
        "5.00 µs (5 %) has no recorded operator: no operator made the launches"
    )
    assert (found.cost_ns, total_ns(found.where)) == (None, 100 * US)
    assert findings(s.trace())[1].rule == "device_time"


def test_a_custom_kernel_is_named_with_its_own_longest_operator() -> None:
    s = Shaped().op("mine::step", kernels=(("my_kernel", 60.0),)).op("mine::start", kernels=(("second", 30.0),))
    assert plain(one(device_time(Facts(s.trace()))).sentence) == (
        "device time: kernel my_kernel took 60.0 µs of 90.0 µs (67 %), all of it in mine::step; kernel "
        "second took 30.0 µs (33 %), all of it in mine::start"
    )


def test_a_device_that_is_idle_most_of_the_time_has_no_finding_on_its_operators() -> None:
    s = Shaped().op("aten::mm", [[8, 8], [8, 8]], BF16, ((ALIGNED, 10.0),))
    s.device_us += 100
    assert not device_time(Facts(s.op("aten::mm", [[8, 8], [8, 8]], BF16).trace()))


def test_unaligned_products_cost_what_aligned_ones_of_their_size_take_less() -> None:
    s = Shaped().op("aten::mm", [[1000, 1001], [1001, 1000]], BF16, ((UNALIGNED, 100.0),))
    alone = one(kernels.unaligned_gemm(Facts(s.trace())))
    assert alone.cost_ns is None
    s.op("aten::mm", [[1000, 1000], [1000, 1000]], BF16, ((ALIGNED, 20.0),))
    found = one(kernels.unaligned_gemm(Facts(s.trace())))
    assert found.cost_ns == 79_980  # 2.002 GFLOP at 100 TFLOP/s take 20.02 µs
    words = plain(found.sentence)
    assert words.startswith(
        "unaligned matrix products, 100 µs of 120 µs of device time: 1 kernel read one or two elements"
    )
    assert "reached 20.0 TFLOP/s, aligned ones of similar size and the same type 100 TFLOP/s" in words
    assert "aten::mm [1000, 1001] [1001, 1000]" in words
    assert total_ns(found.where) == 100 * US


def test_a_small_or_slower_aligned_product_tells_no_cost() -> None:
    s = Shaped().op("aten::mm", [[1000, 1001], [1001, 1000]], BF16, ((UNALIGNED, 100.0),))
    s.op("aten::mm", [[10, 10], [10, 10]], BF16, ((ALIGNED, 1.0),))
    s.op("aten::mm", [[1000, 1000], [1000, 1000]], BF16, ((ALIGNED, 200.0),))
    assert one(kernels.unaligned_gemm(Facts(s.trace()))).cost_ns is None


@pytest.mark.parametrize("name", ["x_align8", "x_align16", "x_align4"])
def test_aligned_kernels_are_no_finding(name: str) -> None:
    assert not kernels.unaligned_gemm(Facts(Shaped().op("aten::mm", kernels=((name, 10.0),)).trace()))


def test_eager_attention_costs_what_stands_between_its_products() -> None:
    found = one(kernels.eager_attention(Facts(attention(Shaped(), 3).trace())))
    assert found.cost_ns == 3 * 40 * US
    assert total_ns(found.where) == 3 * 100 * US
    assert plain(found.sentence).startswith("attention in separate kernels, 300 µs of 300 µs of device time: softmax")


def test_a_softmax_far_from_products_is_no_attention() -> None:
    s = Shaped().op("aten::bmm", kernels=((ALIGNED, 40.0),)).op("aten::_softmax", kernels=(("softmax", 40.0),))
    assert not kernels.eager_attention(Facts(s.trace()))  # no product behind it
    for _ in range(9):
        s.op("aten::add", kernels=(("add", 1.0),))
    s.op("aten::bmm", kernels=((ALIGNED, 40.0),))
    assert not kernels.eager_attention(Facts(s.trace()))


def test_kernels_that_fill_a_part_of_the_device_cost_the_rest_of_it() -> None:
    s = Shaped().op("aten::sort", kernels=(("sort", 100.0),), grid=(9, 3, 1))
    found = one(kernels.low_occupancy(Facts(s.trace())))
    assert found.cost_ns == 75 * US  # 27 of 108
    assert "had 27 blocks for 108 multiprocessors and ran alone for 100 µs" in plain(found.sentence)
    beside = s.trace()
    s.events.append(json.loads(json.dumps(s.events[-1])))
    s.events[-1]["args"] |= {"stream": 8, "grid": [999, 1, 1], "correlation": 77}
    s.events[-1]["tid"] = 8
    assert not kernels.low_occupancy(Facts(s.trace()))  # another kernel filled it
    assert beside.device_info(0).multiprocessors == 108


@pytest.mark.parametrize(
    ("properties", "grid", "name", "length"),
    [
        (A100, (54, 1, 1), "k", 100.0),  # half of them
        (A100, (10, 1, 1), "ncclDevKernel_AllReduce", 100.0),
        (A100, (10, 1, 1), "k", 19.0),
        ({"id": 0, "name": "NVIDIA A100-SXM4-80GB"}, (10, 1, 1), "k", 100.0),  # does not say how many it has
    ],
)
def test_what_is_no_low_occupancy(
    properties: dict[str, object], grid: tuple[int, int, int], name: str, length: float
) -> None:
    s = Shaped(properties=dict(properties)).op("x", kernels=((name, length),), grid=grid)
    assert not kernels.low_occupancy(Facts(s.trace()))


def test_many_tiny_kernels_are_counted() -> None:
    few = Shaped().op("aten::add", kernels=(("add", 2.0),) * 99)
    assert not kernels.tiny_kernels(Facts(few.trace()))
    found = one(kernels.tiny_kernels(Facts(few.op("aten::add", kernels=(("add", 2.0),) * 2).trace())))
    assert (
        "101 of 101 kernels took less than 5.00 µs, 202 µs in all; half of all kernels take 2.00 µs or less"
        in plain(found.sentence)
    )
    assert found.cost_ns is None


def test_a_graph_that_carries_most_ops_is_a_fact_without_a_cost() -> None:
    s = Shaped().bare(tuple((f"k{i}", 10.0) for i in range(5)), call="cudaGraphLaunch")
    s.bare((("alone", 5.0),))
    found = one(graph_launch(Facts(s.trace())))
    assert found.cost_ns is None
    assert plain(found.sentence).startswith("one graph launch ran 5 of 6 device ops, 50.0 µs of 55.0 µs")
    assert not graph_launch(Facts(s.bare(tuple((f"x{i}", 1.0) for i in range(9))).trace()))


def test_float64_products_get_no_advice_to_use_float16() -> None:
    double = Shaped().op("aten::mm", kernels=(("volta_dgemm_128x64_nn", 100.0),))
    assert not kernels.tensor_cores(Facts(double.trace()))
    single = Shaped().op("aten::mm", kernels=(("ampere_sgemm_128x64_nn", 100.0),))
    assert total_ns(one(kernels.tensor_cores(Facts(single.trace()))).where) == 100 * US


CONVOLUTION = "void cudnn::winograd_nonfused::winogradForwardData4x4<float, float>"


@pytest.mark.parametrize(
    ("products_us", "convolutions_us", "words"),
    [
        (100.0, 0.0, ["set_float32_matmul_precision"]),
        (0.0, 100.0, ["torch.backends.cudnn.allow_tf32", "channels_last"]),
        (50.0, 50.0, ["set_float32_matmul_precision", "torch.backends.cudnn.allow_tf32", "channels_last"]),
        (2.0, 98.0, ["torch.backends.cudnn.allow_tf32", "channels_last"]),  # not worth a setting
    ],
)
def test_products_and_convolutions_use_tensor_cores_by_settings_of_their_own(
    products_us: float, convolutions_us: float, words: list[str]
) -> None:
    s = Shaped()
    if products_us:
        s.op("aten::mm", kernels=(("ampere_sgemm_128x64_nn", products_us),))
    if convolutions_us:
        s.op("aten::cudnn_convolution", kernels=((CONVOLUTION, convolutions_us),))
    found = one(kernels.tensor_cores(Facts(s.trace())))
    every = ("set_float32_matmul_precision", "torch.backends.cudnn.allow_tf32", "channels_last")
    assert [word for word in every if word in found.advice] == words


def test_a_few_microseconds_without_tensor_cores_are_nothing_in_a_long_trace() -> None:
    s = Shaped().op("aten::mm", kernels=(("ampere_sgemm_128x64_nn", 49.0),))
    s.device_us += 941
    assert not kernels.tensor_cores(Facts(s.op("aten::add", kernels=(("add", 10.0),)).trace()))


def elementwise(name: str = "aten::mul", inside: tuple[str, ...] = ()) -> Shaped:
    return Shaped().op(name, [[8], [8]], FLOAT, (("vectorized_elementwise_kernel", 40.0),), inside=inside)


def test_fusing_is_advised_where_elementwise_work_leads_and_nothing_is_compiled() -> None:
    gemm = (ALIGNED, 30.0)
    plainly = elementwise().op("aten::mm", kernels=(gemm,))
    assert "torch.compile fuses adjacent kernels" in one(device_time(Facts(plainly.trace()))).advice
    compiled = elementwise(inside=("CompiledFunction",)).op("aten::mm", kernels=(gemm,))
    assert one(device_time(Facts(compiled.trace()))).advice == ""
    triton = elementwise().op("triton_poi_fused_add_0", kernels=(("triton_poi_fused_add_0", 10.0),))
    assert one(device_time(Facts(triton.trace()))).advice == ""
    fewer = elementwise().op("aten::mm", kernels=((ALIGNED, 50.0),))
    assert one(device_time(Facts(fewer.trace()))).advice == ""


def test_communication_leads_as_a_kind_of_work_and_never_as_an_operator() -> None:
    s = Shaped().op("c10d::allreduce_", [[8]], FLOAT, (("ncclDevKernel_AllReduce", 60.0),))
    words = plain(one(device_time(Facts(s.op("aten::mm", kernels=((ALIGNED, 40.0),)).trace()))).sentence)
    assert words.startswith("device time: communication took 60.0 µs of 100 µs (60 %); matrix products")
    assert "c10d" not in words


def test_attention_of_which_nobody_knows_whether_it_is_causal_reached_up_to_a_rate() -> None:
    shapes, name = [[1, 10, 1000, 50]] * 3, "aten::_scaled_dot_product_flash_attention"
    rates = []
    for values in (None, ["", "", "", "0.", "False"], ["", "", "", "0.", "True"]):
        s = Shaped().op(name, shapes, BF16, (("flash_fwd_kernel", 100.0),), values=values)
        rates.append(plain(one(device_time(Facts(s.trace()))).sentence).rpartition(", at ")[2])
    assert rates == ["up to 20.0 of 312 TFLOP/s", "20.0 of 312 TFLOP/s", "10.0 of 312 TFLOP/s"]


def test_an_op_belongs_to_one_finding() -> None:
    s = attention(Shaped(), 2)
    for event in s.events:
        if event["name"] == ALIGNED:
            event["name"] = UNALIGNED
    s.op("aten::mm", [[1000, 1001], [1001, 1000]], BF16, ((UNALIGNED, 100.0),))
    facts = Facts(s.trace())
    assert kernels.claim(facts, "eager_attention").ops_ns == 2 * 100 * US, (
        "one kernel takes the place of the products, too"
    )
    assert kernels.claim(facts, "unaligned_gemm").ops_ns == 100 * US
    assert one(kernels.eager_attention(facts)).cost_ns == 2 * 40 * US


def test_a_fused_kernel_of_attention_has_no_unaligned_products() -> None:
    s = attention(Shaped(), 2)
    for event in s.events:
        if event["name"] == ALIGNED:
            event["name"] = UNALIGNED
    s.op("aten::mm", [[1024, 32], [32, 64]], BF16, ((ALIGNED, 15.0),))  # as many operations, half the mean time
    found = one(kernels.eager_attention(Facts(s.trace())))
    assert found.cost_ns == 2 * 40 * US + 2 * 30 * US
    assert plain(found.sentence).startswith(
        "attention in separate kernels, 200 µs of 215 µs of device time: softmax, masks and casts between the batched "
        "products account for 80.0 µs. 4 unaligned products took 60.0 µs longer than aligned ones would"
    )


def check_apart(trace: Trace) -> None:
    facts = Facts(trace)
    claims = [kernels.claim(facts, rule) for rule in kernels.CLAIMS]
    rows = np.concatenate([found.rows for found in claims])
    assert len(np.unique(rows)) == len(rows)
    for first, second in pairwise(sorted(claims, key=lambda c: len(c.rows))):
        assert not len(intersect(first.where, second.where))
    here = trace.ops.device == facts.device
    whole = union(trace.ops.start_ns[here], trace.ops.end_ns[here])
    assert sum(total_ns(found.where) for found in claims) <= total_ns(whole)


@pytest.mark.slow
@pytest.mark.parametrize("name", ALONE)
def test_on_recorded_traces_no_instant_counts_twice_and_no_cost_exceeds_its_time(name: str) -> None:
    trace = real_trace(name)
    check_apart(trace)
    for found in findings(trace):
        if found.rule in {*kernels.CLAIMS, "device_time"}:
            assert found.cost_ns is None or found.cost_ns <= total_ns(found.where)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "rule", "words"),
    [
        # of the files: 36 kernels with align1 or align2 in their names; one graph of 544 of 558 ops
        ("a100_6streams_graphs_rank0", "unaligned_gemm", "36 kernels read one or two elements at a time"),
        ("mi300_sglang_hipgraph", "graph_launch", "one graph launch ran 544 of 558 device ops"),
        (
            "h100_qwen_orphans",
            "device_time",
            "aten::mm bf16 (mostly [8944, 1024] [1024, 2816]), 6.59 ms, at 632 of 990 TFLOP/s",
        ),
        ("v100_float_epoch_ns", "tensor_cores", "convolutions ran without them for 58.8 ms"),
    ],
)
def test_recorded_traces_show_them(name: str, rule: str, words: str) -> None:
    found = {f.rule: plain(f.sentence) for f in findings(real_trace(name))}
    assert words in found[rule]
