"""A timeline's document and its renderers."""

import base64
import re
from dataclasses import replace
from xml.etree import ElementTree as ET

import numpy as np
import pytest

from perfmagic.analysis.timeline.activity import MemoryCurve
from perfmagic.base.terminal import columns
from perfmagic.results import TimelineResult
from perfmagic.trace.columns import Remark
from perfmagic.trace.model import DeviceInfo, Trace, TraceMeta, make_trace
from perfmagic.view.html import MAX_OUTPUT_BYTES
from perfmagic.view.page import page
from perfmagic.view.svg.canvas import Canvas
from perfmagic.view.svg.layouts import MAX_PICTURE_BYTES as MAX_BYTES
from perfmagic.view.svg.metrics import Scale
from perfmagic.view.timeline.doc import timeline_doc
from perfmagic.view.timeline.picture.frame import DETAILS, PLOT_PX, Frame, narrow_detail
from perfmagic.view.timeline.picture.timeline import highest, timeline_picture, timeline_svg
from perfmagic.view.timeline.summary import timeline_summary
from perfmagic.view.timeline.text import timeline_text
from perfmagic.view.timeline.writers import timeline_html
from tests.trace.recorded import real_trace, recorded

from .build import HOSTILE, MS, doc_of, many_streams, noisy, queue_of, with_meta
from .golden import cell_with_copies

pytestmark = pytest.mark.slow


def words_of(svg: str) -> str:
    return " ".join(ET.fromstring(svg).itertext())


def test_a_column_three_percent_busy_is_three_percent_high() -> None:
    frame = Frame(Canvas(), Scale(0, PLOT_PX * 1000, PLOT_PX), DETAILS[0])
    share = frame.occupancy(np.array([[5000, 5030]]), frame.columns_ns())
    assert share[5] == pytest.approx(0.03)
    assert share.sum() == pytest.approx(0.03)
    assert frame.step_path(share, 0, 100) == "M10 200v-6h2v6z"  # 3 px of 100, in half pixels


def test_a_queue_is_held_with_its_depth_and_mean() -> None:
    lane = doc_of(queue_of(4, op_ms=3)).groups[0].streams[0]
    assert lane.queue_max == 4
    waits = sum(int(s - at) for s, at in zip(lane.start_ns, lane.launch_ns, strict=True))
    assert lane.queue_mean == pytest.approx(waits / doc_of(queue_of(4)).span_ns)


@pytest.mark.parametrize("trace", [queue_of(4, op_ms=3), many_streams(700), recorded("a100_event_sync_3streams")])
def test_a_summary_without_lanes_has_what_the_lanes_count(trace: Trace) -> None:
    summary, drawn = timeline_summary(trace, ()), timeline_doc(trace, ())
    assert summary.header == drawn.header
    assert summary.n_streams == sum(len(group.streams) + group.n_folded for group in drawn.groups)
    assert summary.header.queue_max == max(lane.queue_max for group in drawn.groups for lane in group.streams)


def test_a_small_cell_flags_its_two_moments() -> None:
    assert [flag.text for flag in doc_of(queue_of()).flags] == [
        "Python has queued everything",
        "the device has finished",
    ]
    assert doc_of(queue_of(100)).flags == ()


def test_the_picture_of_a_simulated_device_says_so_with_its_pace() -> None:
    doc = doc_of(queue_of())
    for svg in (timeline_svg(doc), timeline_picture(doc).svg):
        assert "simulated device, each op at least 3 ms" in words_of(svg)
    assert "simulated device, each op at least 3 ms" in timeline_text(doc)
    assert "simulated device, each op at least 3 ms" in timeline_html(doc)


def test_the_picture_says_who_blocked_python_and_shows_chinese_code() -> None:
    svg = timeline_svg(doc_of(queue_of()))
    words = words_of(svg)
    assert re.search(r"Python blocked 33\.\d\sms: sync", words)
    assert "Python blocked, device busy" in words  # no red, also in the key
    assert "url(#waitl)" not in svg
    assert "打印(结果.item())" in words
    assert "sim::mm" in words


def test_a_blocked_python_is_hatched_and_an_idle_device_solid_and_the_key_has_both() -> None:
    svg = timeline_svg(doc_of(cell_with_copies()))
    assert {"Python blocked", "device idle"} <= {element.text for element in ET.fromstring(svg).iter()}
    assert svg.count("url(#waitl)") == 2  # the blocked call, and its sign in the key


def test_the_bar_of_shares_adds_up_to_the_time_in_the_title() -> None:
    for trace in (queue_of(), recorded("gp100_gpu_user_annotation")):
        doc = doc_of(trace)
        (group,) = doc.groups
        assert sum(share.ns for share in group.shares) == doc.header.total_ns
        assert group.shares[0].name == "before the first op"


def test_the_picture_is_an_image_with_the_first_line_as_its_name() -> None:
    root = ET.fromstring(timeline_svg(doc_of(queue_of())))
    assert root.get("role") == "img"
    assert re.search(r"^Timeline of 34\.3\sms: .*queue ≤ 11, Python blocked 33\.\d\sms$", root.get("aria-label") or "")
    assert root.get("width") == "1000"


@pytest.mark.parametrize("render", [timeline_svg, timeline_html])
def test_hostile_names_stay_text(render: object) -> None:
    trace = queue_of(3, name=HOSTILE, device=DeviceInfo(0, "cuda", HOSTILE))
    out = render(doc_of(with_meta(trace, failed=HOSTILE, notes=(Remark("hostile", HOSTILE),))))  # type: ignore[operator]
    assert "<script" not in out
    assert "\x1b" not in out
    out.encode()  # a lone surrogate would stop it
    if render is timeline_svg:
        ET.fromstring(out)


def test_text_never_steers_a_terminal_and_keeps_its_width() -> None:
    doc = doc_of(
        with_meta(
            queue_of(3, name=HOSTILE), failed=f"RuntimeError: {HOSTILE * 20}", notes=(Remark("long", "word " * 60),)
        )
    )
    text = timeline_text(doc)
    assert "\x1b" not in text
    assert max(columns(line) for line in text.splitlines()) <= 100


@pytest.mark.slow
@pytest.mark.parametrize("n_ops", [1, 2, 300, 20_000])
def test_no_picture_is_larger_than_its_limit(n_ops: int) -> None:
    doc = doc_of(noisy(n_ops))
    assert len(timeline_svg(doc).encode()) <= MAX_BYTES
    html = timeline_html(doc)
    assert len(html.encode()) <= MAX_OUTPUT_BYTES
    ET.fromstring(base64.b64decode(re.findall(r"base64,([^\"]+)", html)[0]))


def test_streams_beyond_eight_are_counted() -> None:
    assert "and 24 more streams with 24 ops" in words_of(timeline_svg(doc_of(many_streams(32))))
    assert "and 24 more streams" in timeline_text(doc_of(many_streams(32)))


def test_streams_beyond_the_limit_are_folded_and_counted() -> None:
    group = doc_of(many_streams(600)).groups[0]
    assert (len(group.streams), group.n_folded, group.folded_ops) == (512, 88, 88)


def test_a_cell_that_failed_says_so_first() -> None:
    doc = doc_of(with_meta(queue_of(2), failed="ValueError: 1", returned_ns=12 * MS))
    assert doc.failure == "the cell failed after 12.0\u00a0ms: ValueError: 1"
    assert doc.failure in timeline_text(doc)
    assert "the cell failed after" in words_of(timeline_svg(doc))


def test_a_cell_that_failed_gets_no_verdict_and_no_advice() -> None:
    trace = with_meta(queue_of(40), returned_ns=12 * MS)
    (finding,) = TimelineResult(with_meta(trace, failed="ValueError: 1")).findings
    assert finding.sentence == "no verdict: the code failed before its end"
    interrupted = TimelineResult(with_meta(trace, failed="KeyboardInterrupt"))
    assert interrupted.verdict.kind == TimelineResult(trace).verdict.kind != "no verdict"


def test_without_a_device_the_operators_are_drawn() -> None:
    trace = make_trace(
        ("aten::mm", "aten::relu"),
        TraceMeta("cell", end_ns=MS, devices=(DeviceInfo(0, "cpu", "CPU"),)),
        host_ops={"start_ns": [0, 100], "end_ns": [MS, MS // 2], "kind": [0, 0], "name": [0, 1], "thread": [1, 1]},
    )
    doc = doc_of(trace)
    assert (doc.threads[0].label, doc.threads[0].depth) == ("main thread", 2)
    words = words_of(timeline_svg(doc))
    assert "aten::mm" in words
    assert "aten::relu" in words
    assert "2 operators" in words


def test_an_empty_trace_still_gives_every_form() -> None:
    doc = doc_of(make_trace((), TraceMeta("cell")))
    ET.fromstring(timeline_svg(doc))
    assert timeline_text(doc)
    assert timeline_html(doc)


def test_several_devices_are_groups_of_their_own() -> None:
    doc = doc_of(noisy(400))
    assert [g.device for g in doc.groups] == [0, 1]
    assert [g.device for g in doc_of(noisy(400), device=1).groups] == [1]


def test_memory_is_drawn_where_it_was_recorded_and_says_its_peak() -> None:
    plain = queue_of()
    counters = {"at_ns": [0, 2 * MS, 4 * MS], "series": [3] * 3, "value": [1e6, 5e6, 2e6]}
    with_memory = replace(
        plain, names=(*plain.names, "Total Allocated"), counters=make_trace([], plain.meta, counters=counters).counters
    )
    assert "peak 5.00 MB" in timeline_svg(doc_of(with_memory)).replace("\u00a0", " ")
    assert ">memory<" not in timeline_svg(doc_of(plain))


def test_a_column_of_memory_holds_the_most_of_its_time() -> None:
    curve = MemoryCurve(0, np.array([0, 12, 14, 30]), np.array([1, 9, 2, 4]), reserved_max_bytes=0, peak_line=0)
    assert highest(curve, np.array([0.0, 10, 20, 30, 40])).tolist() == [1, 9, 2, 4]


def test_a_window_counts_only_what_ran_inside_it() -> None:
    doc = doc_of(queue_of(11, op_ms=3), start_ns=4_200_000, end_ns=10_200_000)
    assert doc.groups[0].n_ops == 2
    assert doc.groups[0].streams[0].busy_ns == 6 * MS
    assert doc.header.queue_max == 9


def test_ops_launched_before_the_record_are_dashed_and_named() -> None:
    trace = make_trace(
        ("k", "launch"),
        TraceMeta("f.json", end_ns=100 * MS, devices=(DeviceInfo(0, "cuda", "A100"),)),
        ops={
            "start_ns": [i * MS for i in range(100)],
            "end_ns": [i * MS + MS // 2 for i in range(100)],
            "kind": [0] * 100,
            "name": [0] * 100,
            "correlation": [-1] * 80 + list(range(20)),
        },
        calls={
            "start_ns": [70 * MS + i for i in range(20)],
            "end_ns": [70 * MS + 10 + i for i in range(20)],
            "kind": [0] * 20,
            "name": [1] * 20,
            "correlation": range(20),
        },
    )
    svg = timeline_svg(doc_of(trace))
    assert "80 launched before the recording" in words_of(svg)
    assert "stroke-dasharray" in svg


def test_the_html_needs_nothing_a_sanitiser_strips() -> None:
    html = timeline_html(doc_of(queue_of()))
    tags = set(re.findall(r"<([a-z0-9]+)", html))
    assert tags <= {"div", "b", "br", "table", "tr", "td", "img", "details", "summary"}
    assert not re.search(r"\s(id|on\w+)=", html)
    assert re.findall(r'class="([^"]*)"', html) == ["perfmagic-static"]  # a live view looks for it; nothing else does
    assert 'alt="Timeline of' in html


def test_a_page_fetches_and_runs_nothing() -> None:
    out = page("<title>", ["<p>one</p>", "<p>two</p>"])
    assert "default-src 'none'" in out
    assert "&lt;title&gt;" in out
    assert not re.search(r"<script|https?://|src=|url\(", out)


def test_words_in_pieces_are_as_large_as_words_in_one() -> None:
    picture = timeline_svg(doc_of(queue_of()))
    sizes = {int(size) for size in re.findall(r'font-size="(\d+)"', picture)}
    assert min(sizes) >= 20  # half pixels: nothing is smaller than 10 px
    assert 30 in sizes  # the total


@pytest.mark.parametrize("name", ["v100_4streams_nccl_graphs", "mi300_resnet_2streams", "cpu_only_no_device_props"])
def test_real_traces_fit(name: str) -> None:
    doc = doc_of(real_trace(name))
    svg = timeline_svg(doc)
    ET.fromstring(svg)
    assert len(svg.encode()) <= MAX_BYTES
    assert len(timeline_html(doc).encode()) <= MAX_OUTPUT_BYTES


def test_narrow_layouts_draw_four_streams() -> None:
    assert narrow_detail(DETAILS[0]).streams == 4
