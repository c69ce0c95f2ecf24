"""What the card of an op says about where the op comes from."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from perfmagic.analysis.findings.find import findings
from perfmagic.trace.columns import NONE, HostKind
from perfmagic.trace.frames import PythonFrames
from perfmagic.trace.model import Trace
from perfmagic.view.timeline.doc import timeline_doc
from perfmagic.view.timeline.origins import MOST_INPUTS, frame_words, input_words, op_origins
from perfmagic.view.timeline.wire import timeline_wire
from tests.analysis.build import US, Builder
from tests.trace.recorded import recorded

FRAMES = (
    ("/home/me/train.py(3): main", 0, 400),
    ("/home/me/model.py(41): forward", 5, 90),
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
    host = replace(trace.host_ops, shape=(trace.host_ops.start_ns == 10 * US).astype(np.int32) - 1)
    names = (*trace.names, *(name for name, _, _ in FRAMES))
    frames = {
        "start_ns": [begin * US for _, begin, _ in FRAMES],
        "end_ns": [end * US for _, _, end in FRAMES],
        "name": [len(trace.names) + i for i in range(len(FRAMES))],
        "thread": [1] * len(FRAMES),
    }
    shapes = ("[[512], [64, 128], [128, 512], []]",)
    return replace(trace, host_ops=host, names=names, input_shapes=shapes, python_frames=PythonFrames(frames))


def said(trace: Trace) -> list[tuple[str, str, str] | None]:
    found = op_origins(trace)
    return [None if row == NONE else found.words[row] for row in found.of_op.tolist()]


def test_an_op_is_of_the_innermost_operator_and_the_users_own_innermost_frame() -> None:
    assert said(stacked()) == [
        ("aten::addmm", "[512], [64, 128], [128, 512]", "forward, model.py line 41"),
        ("", "", "main, train.py line 3"),
        None,
    ]


def test_without_stacks_shapes_and_operators_nothing_is_said() -> None:
    b = Builder()
    b.op(100, 110, launch=20, name="gemm")
    b.host_op(0, 90, "a mark", kind=HostKind.ANNOTATION)
    assert said(b.trace()) == [None]
    assert op_origins(Builder().trace()).words == ()


def test_ops_of_one_origin_share_its_words_on_the_way_to_the_browser() -> None:
    trace = recorded("mi300_sglang_hipgraph")
    found = op_origins(trace)
    assert len(set(found.words)) == len(found.words) < 20
    assert (found.of_op != NONE).all()
    copy = ("aten::_foreach_copy_", "[[32]], [[32]]", "foreach_copy, cuda_graph_runner.py line 116")
    assert copy in found.words
    wire = timeline_wire(timeline_doc(trace, findings(trace)), trace)
    assert len(wire.payload) < 6_000


@pytest.mark.parametrize(
    ("shapes", "words"),
    [
        ("[[64, 128], [], [128, 256]]", "[64, 128], [128, 256]"),
        ("[[[2], [3, 4]], []]", "[[2], [3, 4]]"),
        ("[]", ""),
        ("[[], []]", ""),
        ("no JSON", "no JSON"),
        ('{"a": 1}', ""),
        (f"[{', '.join(['[4096, 4096]'] * 50)}]", ", ".join(["[4096, 4096]"] * 50)[: MOST_INPUTS - 1] + "…"),
    ],
)
def test_the_inputs_of_an_operator_are_the_shapes_of_its_tensors(shapes: str, words: str) -> None:
    assert input_words(shapes) == words


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
    assert frame_words(frame) == words
