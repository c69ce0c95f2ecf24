"""Device time by operator: who is charged, that everything adds up, and what was achieved."""

import gzip
import json
from collections import defaultdict
from collections.abc import Iterable
from typing import Any

import numpy as np
import pytest

from perfmagic.analysis.timeline.device_operators import (
    DeviceOperator,
    achieved,
    categories,
    category_of,
    category_times,
    compute_type,
    device_operators,
)
from perfmagic.analysis.timeline.origin import Source, is_user_frame, launched_from, origins
from perfmagic.predict.gpus import Peaks
from perfmagic.trace.families import Category
from perfmagic.trace.model import Trace
from perfmagic.trace.names import OpClass
from tests.analysis.build import Builder
from tests.analysis.shaped import BF16, FLOAT, Shaped
from tests.trace.recorded import ALONE, real, real_trace

US = 1000
GEMM = "ampere_bf16_s16816gemm_bf16_128x64_ldg8_f2f_stages_64x4_tn"
SGEMM = "ampere_sgemm_128x64_nn"


def by_name(trace: Trace, **options: Any) -> dict[str, DeviceOperator]:
    return {row.name: row for row in device_operators(trace, 0, **options)}


def test_an_op_belongs_to_the_innermost_operator_around_its_launch() -> None:
    s = Shaped().op("aten::addmm", [[8], [4, 2], [2, 8]], FLOAT, ((SGEMM, 20.0),), inside=("aten::linear",))
    row = by_name(s.trace())["aten::addmm"]
    assert (row.n_calls, row.n_ops, row.total_ns, row.source) == (1, 1, 20 * US, Source.OPERATOR)
    assert (row.shapes, row.dtypes) == ("[8] [4, 2] [2, 8]", "fp32")


def test_what_people_know_by_another_name_is_charged_there() -> None:
    q = [[1, 2, 64, 32]] * 3
    s = Shaped()
    s.op("aten::_flash_attention_forward", q, BF16, inside=("aten::_scaled_dot_product_flash_attention",))
    s.op("aten::_flash_attention_forward", [[1, 64, 2, 32]] * 3, BF16)
    s.op("record_param_comms", kernels=(("ncclDevKernel_AllReduce", 5.0),), inside=("c10d::allreduce_",))
    s.op("CompiledFunction", kernels=(("triton_poi_fused_add_0", 3.0), ("extern_kernel", 2.0)))
    s.op("autograd::engine::evaluate_function: MyFunctionBackward", kernels=(("my_kernel", 4.0),))
    s.op("aten::fill_", kernels=(("a", 1.0), ("b", 1.0), ("c", 2.0)), call="cudaGraphLaunch")
    s.bare((("void at::native::lone_kernel<float>(int)", 6.0),)).orphan("early", 7.0)
    found = {row.name: (row.source, row.n_ops, row.total_ns // US) for row in device_operators(s.trace(), 0)}
    assert found == {
        "aten::_scaled_dot_product_flash_attention": (Source.OPERATOR, 1, 10),
        "aten::_flash_attention_forward": (Source.OPERATOR, 1, 10),
        "c10d::allreduce_": (Source.OPERATOR, 1, 5),
        "triton_poi_fused_add_0": (Source.KERNEL, 1, 3),
        "CompiledFunction": (Source.OPERATOR, 1, 2),
        "MyFunctionBackward": (Source.OPERATOR, 1, 4),
        "graph of 3 ops": (Source.GRAPH, 3, 4),
        "lone_kernel<float>": (Source.KERNEL, 1, 6),
        "early": (Source.UNKNOWN, 1, 7),
    }


def test_graphs_are_separated_by_what_they_hold() -> None:
    s = Shaped()
    for names in (("a", "b"), ("b", "a"), ("a", "c")):
        s.bare(tuple((name, 1.0) for name in names), call="cudaGraphLaunch")
    assert {r.name: r.n_calls for r in device_operators(s.trace(), 0)} == {
        "graph of 2 ops (1)": 2,
        "graph of 2 ops (2)": 1,
    }


def test_calls_of_several_shapes_and_types_are_rows_of_their_own() -> None:
    s = Shaped()
    for shape, dtype in (([4, 4], FLOAT), ([4, 4], FLOAT), ([8, 8], FLOAT), ([4, 4], BF16)):
        s.op("aten::mm", [shape, shape], dtype)
    rows = {(r.shapes, r.dtypes): r.n_calls for r in device_operators(s.trace(), 0)}
    assert rows == {("[4, 4] [4, 4]", "fp32"): 2, ("[8, 8] [8, 8]", "fp32"): 1, ("[4, 4] [4, 4]", "bf16"): 1}


def test_achieved_rates_and_shares_of_the_peak() -> None:
    s = Shaped().op("aten::mm", [[1000, 1000], [1000, 1000]], BF16, ((GEMM, 100.0),))
    s.op("aten::add", [[1000, 1000], [1000, 1000]], FLOAT, (("add", 50.0),))
    mm, add = by_name(s.trace()).values()
    assert (mm.flop, mm.flop_per_s, mm.peak_flop_per_s) == (2 * 10**9, pytest.approx(2e13), 312e12)
    assert (mm.peak_frac, mm.flop_per_byte) == (pytest.approx(20 / 312), pytest.approx(2e9 / 6e6))
    assert (add.flop, add.io_bytes, add.peak_frac) == (None, 12 * 10**6, None)
    assert (add.bytes_per_s, add.peak_bytes_per_s) == (pytest.approx(12e6 / 50e-6), 2039e9)
    whole = achieved(s.trace(), 0)
    assert (whole.flop, whole.flop_ns, whole.io_bytes, whole.io_ns) == (2 * 10**9, 100 * US, 18 * 10**6, 150 * US)


def test_given_peaks_replace_the_data_sheet_and_an_unknown_device_has_none() -> None:
    s = Shaped(properties={"id": 0, "name": "NVIDIA Unheard Of", "numSms": 4})
    trace = s.op("aten::mm", [[1000, 1000], [1000, 1000]], BF16, ((GEMM, 100.0),)).trace()
    assert by_name(trace)["aten::mm"].peak_frac is None
    mine = Peaks(flop_per_s={"fp16": 1e14}, bytes_per_s=1e12)
    assert by_name(trace, peaks=mine)["aten::mm"].peak_frac == pytest.approx(0.2)


def test_a_record_without_shapes_or_operators_says_so_and_invents_nothing() -> None:
    without_shapes = Shaped().op("aten::mm").trace()
    rows = device_operators(without_shapes, 0)
    assert (rows[0].shapes, rows[0].flop, rows[0].io_bytes) == ("", None, None)
    assert "record_shapes=True" in rows.note
    assert "kernels are listed by name" in device_operators(Shaped().bare((("k", 1.0),)).trace(), 0).note
    shapes_alone = Shaped().op("aten::mm", [[2, 2], [2, 2]]).trace()
    row = device_operators(shapes_alone, 0)[0]
    assert (row.flop, row.io_bytes, row.compute) == (16, None, "")  # types are not known
    assert device_operators(Builder().trace(), 0) == ()


def test_copies_from_and_to_the_host_have_no_memory_bandwidth() -> None:
    s = Shaped().op("aten::copy_", [[100], [100]], FLOAT)
    copy = s.events[-1]
    copy |= {"cat": "gpu_memcpy", "name": "Memcpy HtoD (Pinned -> Device)"}
    assert by_name(s.trace())["aten::copy_"].io_bytes is None
    copy["name"] = "Memcpy DtoD (Device -> Device)"
    assert by_name(s.trace())["aten::copy_"].io_bytes == 800


def test_modules_and_user_frames_are_the_innermost_around_the_launch() -> None:
    s = Shaped()
    for name, start, length in (
        ("train.py(3): step", 0, 20),
        ("nn.Module: Net_0", 1, 18),
        ("nn.Module: Linear_1", 1.2, 6),
        ("model.py(7): forward", 1.3, 5),
        ("torch/nn/functional.py(2): linear", 1.4, 4),
        ("<built-in function linear>", 1.5, 3),
    ):
        s.span("python_function", name, start, length)
    s.op("aten::mm", [[2, 2], [2, 2]], FLOAT).op("aten::mm", [[2, 2], [2, 2]], FLOAT).orphan("k", 1.0)
    trace = s.trace()
    found = launched_from(trace)
    assert list(zip(found["operator"], found["module"], found["frame"], strict=True)) == [
        ("aten::mm", "Linear_1", "model.py(7): forward"),
        ("aten::mm", "Net_0", "train.py(3): step"),
        (None, None, None),
    ]
    assert by_name(trace)["aten::mm"].module in ("Linear_1", "Net_0")
    apart = device_operators(trace, 0, by_module=True)
    assert sorted(row.module for row in apart) == ["", "Linear_1", "Net_0"]


@pytest.mark.parametrize(
    ("name", "mine"),
    [
        ("train.py(3): step", True),
        ("/home/ann/project/model.py(10): forward", True),
        ("/usr/lib/python3.11/threading.py(3): run", False),
        ("/x/site-packages/transformers/a.py(1): f", False),
        ("torch/nn/modules/module.py(5): _call_impl", False),
        ("/tmp/torchinductor_ann/ab/cab.py(9): call", False),
        ("<built-in method run>", False),
        ("nn.Module: Linear_0", False),
    ],
)
def test_a_users_frame_is_of_no_library(name: str, mine: bool) -> None:
    assert is_user_frame(name) == mine


def test_the_type_of_a_peak_is_what_the_kernel_computes_on() -> None:
    assert compute_type("fp32", "cutlass_80_tensorop_s1688gemm_128x64", "cuda") == "tf32"
    assert compute_type("fp32", SGEMM, "cuda") == "fp32"
    assert compute_type("fp32", "some_kernel", "cuda") == ""
    assert compute_type("fp32", "Cijk_Alik_MI16x16x1", "rocm") == "fp32"
    assert compute_type("bf16, fp32", "anything", "cuda") == "bf16"
    assert compute_type("int64", "anything", "cuda") == ""


@pytest.mark.parametrize(
    ("kernel", "op_class", "operator", "expected"),
    [
        (SGEMM, OpClass.MATRIX, "aten::addmm", Category.GEMM),
        (SGEMM, OpClass.MATRIX, "aten::cudnn_convolution", Category.CONVOLUTION),
        (SGEMM, OpClass.MATRIX, "", Category.GEMM),
        ("void cudnn::winograd_fwd<float>", OpClass.MATRIX, "", Category.CONVOLUTION),
        ("flash_fwd_kernel", OpClass.MATRIX, "", Category.ATTENTION),
        ("batched_transpose_32x32", OpClass.COMPUTE, "aten::miopen_convolution", Category.CONVOLUTION),
        ("void cudnn::bn_fw_tr_1C11_kernel_NCHW<float>", OpClass.COMPUTE, "", Category.NORMALISATION),
        ("x", OpClass.COMPUTE, "aten::native_layer_norm", Category.NORMALISATION),
        ("void at::native::vectorized_elementwise_kernel<4>", OpClass.COMPUTE, "aten::add_", Category.ELEMENTWISE),
        ("void at::native::reduce_kernel<512>", OpClass.COMPUTE, "aten::sum", Category.REDUCTION),
        ("void cunn_SoftMaxForward<float>", OpClass.COMPUTE, "aten::_softmax", Category.REDUCTION),
        ("void at::native::indexSelectLargeIndex<float>", OpClass.COMPUTE, "", Category.EMBEDDING),
        ("void at::native::multi_tensor_apply_kernel<X>", OpClass.COMPUTE, "", Category.OPTIMIZER),
        (
            "void at::native::multi_tensor_apply_kernel<X>",
            OpClass.COMPUTE,
            "aten::_foreach_copy_",
            Category.ELEMENTWISE,
        ),
        ("triton_poi_fused_add_0", OpClass.COMPUTE, "triton_poi_fused_add_0", Category.FUSED),
        ("triton_red_fused_native_layer_norm_0", OpClass.COMPUTE, "", Category.FUSED),
        ("ncclDevKernel_AllReduce", OpClass.COMMUNICATION, "aten::conv2d", Category.COMMUNICATION),
        ("Memcpy HtoD", OpClass.HTOD, "aten::conv2d", Category.COPY),
        ("Memset", OpClass.MEMSET, "", Category.MEMSET),
        ("mystery", OpClass.COMPUTE, "", Category.CUSTOM),
    ],
)
def test_categories(kernel: str, op_class: OpClass, operator: str, expected: Category) -> None:
    assert category_of(kernel, op_class, operator) == expected


def test_custom_kernels_stand_by_their_own_names_and_all_times_add_up() -> None:
    s = Shaped().bare((("my_kernel", 5.0), ("my_kernel", 1.0), ("void mine::other<float>(float*)", 4.0)))
    s.op("mine::step", kernels=(("my_kernel", 2.0),)).op("aten::mm", kernels=((SGEMM, 20.0),))
    rows = category_times(s.trace(), 0)
    assert [(row.category, row.kernel, row.n_ops, row.total_ns // US) for row in rows] == [
        (Category.GEMM, "", 1, 20),
        (Category.CUSTOM, "my_kernel", 3, 8),
        (Category.CUSTOM, "other<float>", 1, 4),
    ]
    assert sum(row.share_frac for row in rows) == 1


def test_elementwise_work_of_an_optimizers_step_is_the_optimizers() -> None:
    s = Shaped().span("user_annotation", "Optimizer.step#Adam.step", 0, 20)
    s.op("aten::add_", kernels=(("vectorized_elementwise_kernel", 1.0),))
    s.op("aten::mm", kernels=((SGEMM, 1.0),))
    s.host_us = 30
    s.op("aten::add_", kernels=(("vectorized_elementwise_kernel", 1.0),))
    assert categories(s.trace()).tolist() == [Category.OPTIMIZER, Category.GEMM, Category.ELEMENTWISE]


# An independent sweep: plain loops over the file's own events, nothing of the analyses.


def innermost(spans: dict[str, list[Any]], calls: Iterable[dict[str, Any]]) -> dict[int, str]:
    """The name of the span that each call stands in and that began last; by the call's id."""
    found = {}
    for thread, mine in spans.items():
        starts = [(start, 0, end, name) for start, end, name in mine]
        open_spans: list[tuple[float, str]] = []
        marks = [(call["ts"], 1, 0, call) for call in calls if str(call["tid"]) == thread]
        for at, is_call, end, what in sorted([*starts, *marks], key=lambda mark: (mark[0], mark[1], -mark[2])):
            open_spans = [one for one in open_spans if one[0] > at]
            if not is_call:
                open_spans.append((end, what))
            elif open_spans:
                found[id(what)] = open_spans[-1][1]
    return found


def swept(name: str) -> tuple[dict[int, int], dict[int, int]]:
    """By device: the summed time of all its ops, and of those whose launch no operator or graph surrounds, in ns."""
    with gzip.open(real(name)) as file:
        loaded = json.load(file)
    events = loaded["traceEvents"] if isinstance(loaded, dict) else loaded
    kinds = ("kernel", "gpu_memcpy", "gpu_memset", "Kernel", "Memcpy", "Memset")
    ops = [e for e in events if e.get("cat") in kinds and e.get("ph") == "X"]
    calls = {
        e["args"]["correlation"]: e
        for e in events
        if e.get("cat") in ("cuda_runtime", "cuda_driver", "Runtime") and "correlation" in e.get("args", {})
        if any(word in e["name"] for word in ("Launch", "Memcpy", "Memset")) and "HostFunc" not in e["name"]
    }
    spans = defaultdict(list)
    for e in events:
        if e.get("cat") in ("cpu_op", "Operator") and e.get("ph") == "X" and e["dur"] > 0:
            spans[str(e["tid"])].append((e["ts"], e["ts"] + e["dur"], e["name"]))
    inner = innermost(spans, calls.values())
    whole: dict[int, int] = defaultdict(int)
    alone: dict[int, int] = defaultdict(int)
    for op in ops:
        device = int(op["args"].get("device", op["pid"]))
        length = round(op["dur"] * 1000)
        whole[device] += length
        call = calls.get(op["args"].get("correlation"))
        if call is not None and "Graph" in call["name"]:
            continue
        around = inner.get(id(call)) if call is not None else None
        if around is None or (op["name"].startswith("triton_") and not around.startswith("triton_")):
            alone[device] += length
    return dict(whole), dict(alone)


@pytest.mark.slow
@pytest.mark.parametrize("name", ALONE)
def test_all_rows_add_up_to_the_time_of_all_ops_of_a_recorded_trace(name: str) -> None:
    trace, (whole, alone) = real_trace(name), swept(name)
    assert set(trace.device_ids) == set(whole)
    for device in trace.device_ids:
        for options in ({}, {"by_module": True}):
            rows = device_operators(trace, device, **options)
            assert sum(row.total_ns for row in rows) == whole[device]
        assert achieved(trace, device).unattributed_ns == alone.get(device, 0)
        assert sum(row.total_ns for row in category_times(trace, device)) == whole[device]
        assert sum(row.n_ops for row in category_times(trace, device)) == int((trace.ops.device == device).sum())
        assert sum(row.n_ops for row in rows) == int((trace.ops.device == device).sum())


@pytest.mark.slow
@pytest.mark.parametrize("name", ALONE)
def test_no_operator_of_a_recorded_trace_is_faster_than_its_device(name: str) -> None:
    trace = real_trace(name)
    for device in trace.device_ids:
        fast = [row for row in device_operators(trace, device) if (row.peak_frac or 0) > 1]
        assert not fast, [(row.name, row.shapes, row.peak_frac) for row in fast]


def test_a_known_trace_has_the_shapes_and_rates_that_its_events_say() -> None:
    rows = device_operators(real_trace("h100_qwen_orphans"), 0)
    mm = next(row for row in rows if row.name == "aten::mm")
    assert (mm.shapes, mm.dtypes, mm.n_calls) == ("[8944, 1024] [1024, 2816]", "bf16", 48)
    assert (mm.flop, mm.peak_flop_per_s) == (48 * 2 * 8944 * 1024 * 2816, 989.5e12)
    assert 0.5 < (mm.peak_frac or 0) < 0.7


def test_one_call_of_every_op_is_charged_once() -> None:
    trace = real_trace("v100_4streams_nccl_graphs")
    found = origins(trace)
    graph = found.source == Source.GRAPH
    assert np.array_equal(np.unique(found.graph_ops[~graph]), [0])
    assert (found.host_op[found.source == Source.OPERATOR] >= 0).all()
    assert set(found.graph_ops[graph].tolist()) >= {339, 502}
