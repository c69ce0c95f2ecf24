"""What the card of an op says about where the op comes from."""

from dataclasses import replace

import numpy as np
import pytest

from perfmagic.analysis.findings.find import findings
from perfmagic.trace.columns import NONE, HostKind, PythonFrames
from perfmagic.trace.model import Trace
from perfmagic.view.timeline.doc import timeline_doc
from perfmagic.view.timeline.live_data import timeline_wire
from perfmagic.view.timeline.trace_lanes import MOST_INPUTS, describe_caller, describe_origin
from tests.analysis.build import US, Builder
from tests.trace.recorded import recorded

FRAMES = (
    ("/home/me/train.py(3): main", 0, 400),
    ("/home/me/model.py(41): forward", 5, 90),
    ("nn.Module: Linear_0", 5.5, 85),
    ("/usr/lib/python3.11/site-packages/torch/nn/modules/linear.py(114): forward", 6, 80),
    ("<built-in function linear>", 7, 70),
)


def stacked() -> Trace:
    """An op launched by aten::addmm in aten::linear, deep in Python; one by no operator; one without a launch."""
    b = Builder()
    b.host_op(8, 60, "aten::linear")
    b.host_op(10, 50, "aten::addmm")
    b.op(100, 110, launch=20, name="gemm")
    b.op(200, 210, launch=150, name="triton_poi_fused_add_0")
    b.op(300, 310, name="orphan")
    trace = b.trace()
    addmm = (trace.host_ops.start_ns == 10 * US).astype(np.int32) - 1
    host = replace(trace.host_ops, shape=addmm, dtype=addmm)
    names = (*trace.names, *(name for name, _, _ in FRAMES))
    frames = {
        "start_ns": [int(begin * US) for _, begin, _ in FRAMES],
        "end_ns": [int(end * US) for _, _, end in FRAMES],
        "name": [len(trace.names) + i for i in range(len(FRAMES))],
        "thread": [1] * len(FRAMES),
    }
    inputs = {
        "input_shapes": ("[[512], [64, 128], [128, 512], []]",),
        "input_dtypes": ('["float", "c10::BFloat16", "c10::BFloat16", "Scalar"]',),
    }
    return replace(trace, host_ops=host, names=names, python_frames=PythonFrames(frames), **inputs)


def said(trace: Trace) -> list[tuple[str, ...] | None]:
    origins = describe_origin(trace)
    return [None if row == NONE else origins.rows[row] for row in origins.of_op.tolist()]


def test_an_op_is_of_the_innermost_operator_and_the_users_own_innermost_frame() -> None:
    assert said(stacked()) == [
        ("aten::addmm", "[512] [64, 128] [128, 512] fp32, bf16", "Linear_0", "forward, model.py line 41"),
        ("", "", "", "main, train.py line 3"),
        None,
    ]


def test_without_stacks_shapes_and_operators_nothing_is_said() -> None:
    b = Builder()
    b.op(100, 110, launch=20, name="gemm")
    b.host_op(0, 90, "a mark", kind=HostKind.ANNOTATION)
    assert said(b.trace()) == [None]
    assert describe_origin(Builder().trace()).rows == ()


def test_ops_of_one_origin_share_its_words_on_the_way_to_the_browser() -> None:
    trace = recorded("mi300_sglang_hipgraph")
    origins = describe_origin(trace)
    assert len(set(origins.rows)) == len(origins.rows) < 20
    assert (origins.of_op != NONE).all()
    assert (
        "aten::copy_",
        "[32] [32] int64",
        "",
        "populate_from_forward_batch, cuda_graph_runner.py line 276",
    ) in origins.rows
    wire = timeline_wire(timeline_doc(trace, findings(trace)), trace)
    (sent,) = (column["rows"] for column in wire.header["columns"] if column["name"] == "origins")
    assert sent < 3_000  # characters, for all 558 ops


def test_inputs_without_end_are_cut() -> None:
    trace = replace(stacked(), input_shapes=(f"[{', '.join(['[4096, 4096]'] * 50)}]",), input_dtypes=("",))
    (_, inputs, _, _), *_ = filter(None, said(trace))
    assert len(inputs) == MOST_INPUTS
    assert inputs.endswith("…")


@pytest.mark.parametrize(
    ("frame", "words"),
    [
        ("/home/me/train.py(12): step", "step, train.py line 12"),
        (r"C:\me\train.py(12): step", "step, train.py line 12"),
        ("train.py(12): <module>", "<module>, train.py line 12"),
        ("a frame of another form", "a frame of another form"),
    ],
)
def test_a_frame_is_its_function_file_and_line(frame: str, words: str) -> None:
    assert describe_caller(frame) == words
