"""Which Python frames are drawn, at which level, and what is said of the others."""

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import pytest

from perfmagic.analysis.findings.find import findings
from perfmagic.analysis.findings.finding import Finding
from perfmagic.analysis.timeline.host_time import FrameTime
from perfmagic.trace.columns import NONE, CallKind, OpKind
from perfmagic.trace.model import Trace, TraceMeta, make_trace
from perfmagic.view.timeline import trace_lanes as module
from perfmagic.view.timeline.doc import timeline_doc
from perfmagic.view.timeline.live_data import timeline_wire
from perfmagic.view.timeline.trace_lanes import FrameLanes, describe_frame, frame_lane_of, frame_lanes
from tests.trace.recorded import real_trace, recorded

US = 1000
END = 1000 * US
Row = tuple[str, int, int, int]  # name, start and end in µs, thread

STEP, LOSS = "/home/me/train.py(12): step", "/home/me/loss.py(3): loss"
TORCH, BUILTIN, SYNC = (
    "torch/nn/modules/module.py(1779): _call_impl",
    "<built-in function len>",
    "<built-in method sync>",
)
NESTED: Sequence[Row] = (
    (STEP, 0, 900, 7),
    (TORCH, 100, 500, 7),
    (LOSS, 150, 400, 7),  # inside torch's frame, which is not drawn
    (SYNC, 160, 300, 7),  # called by people's code
    (BUILTIN, 450, 460, 7),  # called by torch
    (STEP, 600, 600, 7),  # of no length
    (LOSS, 0, 900, 8),  # of a thread that launches nothing
)


def with_frames(rows: Sequence[Row], *, launching: int = 7) -> Trace:
    """One op that a thread launched, and frames."""
    names = list(dict.fromkeys(row[0] for row in rows))
    return make_trace(
        [*names, "gemm", "launch"],
        TraceMeta("file.json", end_ns=END),
        ops={"start_ns": [20], "end_ns": [END], "kind": [OpKind.KERNEL], "name": [len(names)], "correlation": [1]},
        calls={
            "start_ns": [10],
            "end_ns": [15],
            "kind": [CallKind.LAUNCH],
            "name": [len(names) + 1],
            "correlation": [1],
            "thread": [launching],
        },
        python_frames={
            "start_ns": [row[1] * US for row in rows],
            "end_ns": [row[2] * US for row in rows],
            "name": [names.index(row[0]) for row in rows],
            "thread": [row[3] for row in rows],
        },
    )


def drawn(frames: FrameLanes, lane: int = 0) -> list[tuple[int, str]]:
    """The level and the words of each frame of a lane."""
    rows = frames.lanes[lane]
    return [(int(level), frames.words[int(name)]) for level, name in zip(rows.level, rows.name, strict=True)]


def test_people_s_code_is_drawn_with_the_built_in_functions_it_calls_and_torch_s_is_not() -> None:
    frames = frame_lanes(with_frames(NESTED), 0, END)
    assert [lane.thread for lane in frames.lanes] == [7]
    assert drawn(frames) == [(0, "step (train.py:12)"), (1, "loss (loss.py:3)"), (2, "sync")]


def test_what_is_not_drawn_is_counted() -> None:
    assert frame_lanes(with_frames(NESTED), 0, END).note == (
        "3 of 7 Python frames are drawn; "
        "left out are 1 on threads that launched nothing, 1 of no length, 2 inside torch"
    )
    assert frame_lanes(with_frames(NESTED[:1]), 0, END).note == ""


def test_a_thread_without_people_s_code_shows_all_its_frames() -> None:
    frames = frame_lanes(with_frames([(TORCH, 0, 500, 7), (BUILTIN, 100, 200, 7), (STEP, 0, 500, 8)]), 0, END)
    assert drawn(frames) == [(0, "_call_impl (module.py:1779)"), (1, "len")]


def test_the_shortest_frames_go_first_and_those_of_one_length_together(monkeypatch: pytest.MonkeyPatch) -> None:
    rows = [
        (STEP, 0, 900, 7),
        *((LOSS, at, at + length, 7) for at, length in ((0, 50), (100, 20), (200, 20), (300, 9))),
    ]
    monkeypatch.setattr(module, "MOST_FRAMES", 3)
    frames = frame_lanes(with_frames(rows), 0, END)
    assert sorted((frames.lanes[0].end_ns - frames.lanes[0].start_ns).tolist()) == [50 * US, 900 * US]
    assert frames.note == "2 of 5 Python frames are drawn; left out are 3 of 20.0\u00a0µs or less"
    monkeypatch.setattr(module, "MOST_FRAMES", 5)
    assert frame_lanes(with_frames(rows), 0, END).note == ""


def test_frames_that_are_too_deep_are_left_out() -> None:
    rows = [(STEP, at, 900 - at, 7) for at in range(module.MOST_LEVELS + 3)]
    frames = frame_lanes(with_frames(rows), 0, END)
    assert frames.lanes[0].depth == module.MOST_LEVELS
    assert frames.note == f"64 of 67 Python frames are drawn; left out are 3 inside {module.MOST_LEVELS} others"


def test_only_frames_of_the_window_are_drawn() -> None:
    frames = frame_lanes(with_frames([(STEP, 0, 100, 7), (LOSS, 200, 300, 7)]), 150 * US, END)
    assert drawn(frames) == [(0, "loss (loss.py:3)")]


def test_frames_of_one_level_do_not_overlap() -> None:
    trace = recorded("mi300_sglang_hipgraph")
    (lane,) = frame_lanes(trace, trace.meta.start_ns, trace.meta.end_ns).lanes
    for level in range(lane.depth):
        mine = lane.level == level
        order = np.argsort(lane.start_ns[mine])
        assert (lane.start_ns[mine][order][1:] >= lane.end_ns[mine][order][:-1]).all()


def test_a_frame_is_named_with_its_file_and_line_and_in_full_on_its_card() -> None:
    assert describe_frame(r"C:\code\train.py(7): <lambda>") == "<lambda> (train.py:7)"
    assert describe_frame("<built-in method copy_ of Tensor object at 0x7f>") == "copy_"
    assert describe_frame("nn.Module: Linear_0") == "nn.Module: Linear_0"


def test_the_lane_is_sent_with_its_place_and_the_note_is_said_once() -> None:
    trace = with_frames(NESTED)
    doc = timeline_doc(trace, ())
    wire = timeline_wire(doc, trace)
    assert wire.header["frame_lanes"] == [{"label": "Python frames", "levels": [1, 1, 1], "under": NONE}]
    assert [words for words in wire.header["trust"] if "Python frames" in words] == [frame_lanes(trace, 0, END).note]
    assert wire.n_slices == 1 + 1 + 3 + 6  # the op, its launch, three frames, and of the flame graph all that last
    assert not any("Python frames" in words for words in doc.trust)  # the picture has none of them


def test_a_finding_about_frames_names_the_lane_that_has_them() -> None:
    rows = [(STEP, 0, 900, 7), (LOSS, 100, 400, 7), (LOSS, 0, 50, 8)]
    frames = frame_lanes(with_frames(rows), 0, END)
    about = Finding("longest_gap", 1, "a gap", "", (), 60 * US, 500 * US, 0)
    loss, other = (FrameTime(name, "/home/me/loss.py", 3, 1, 1) for name in ("loss", "zoom"))
    assert frame_lane_of(about, frames) is None
    assert frame_lane_of(replace(about, frames=(other,)), frames) is None
    assert frame_lane_of(replace(about, frames=(loss,)), frames) == 0
    assert frame_lane_of(replace(about, frames=(loss,), start_ns=450 * US), frames) is None  # it ran before


def test_in_a_recorded_trace_the_gap_with_frames_points_to_their_lane() -> None:
    trace = real_trace("b200_pdl_overlaps_python_stacks")
    of_trace = findings(trace)
    wire = timeline_wire(timeline_doc(trace, of_trace), trace)
    lanes = {said["rule"]: said.get("frame_lane") for said in wire.header["findings"]}
    assert lanes == {finding.rule: 0 if finding.frames else None for finding in of_trace}
    assert 0 in lanes.values()
