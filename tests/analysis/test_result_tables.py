"""The tables a result gives, each an analysis over the devices asked for."""

import json

import pytest

from perfmagic.analysis.timeline.activity import syncs
from perfmagic.analysis.timeline.idle import idle_gaps
from perfmagic.base.errors import OptionError
from perfmagic.results import TimelineResult
from perfmagic.trace.rows import Rows
from tests.trace.recorded import recorded

from .build import US, Builder

TABLES = (
    *("kernels", "operators", "steps", "phases", "annotations"),
    *("copies", "streams", "syncs", "idle_gaps", "overlap"),
)


def two_devices() -> TimelineResult:
    b = Builder()
    b.line(0, 2)
    b.op(10, 30, launch=1, name="gemm")
    b.op(20, 40, launch=2, name="Memcpy HtoD (Pageable -> Device)", stream=8, size=1000)
    b.op(60, 70, launch=55, name="add")
    b.op(15, 25, launch=5, name="gemm", device=1)
    b.host_op(45, 70, "aten::item")
    b.sync(50, 54)
    return TimelineResult(b.trace())


@pytest.mark.parametrize("table", TABLES)
def test_every_table_is_ready_for_json_and_for_a_frame(table: str) -> None:
    pytest.importorskip("pandas")
    for result in (TimelineResult(recorded("v100_4streams_nccl_step")), TimelineResult(Builder().trace())):
        rows = getattr(result, table)()
        assert isinstance(rows, Rows)
        assert len(json.loads(json.dumps(rows.to_dict()))) == len(rows.to_frame()) == len(rows)
        assert tuple(rows.to_frame().columns) == rows.columns


def test_without_a_device_the_tables_are_of_all_devices() -> None:
    result = two_devices()
    assert [(k.device, k.name) for k in result.kernels()] == [(0, "gemm"), (0, "add"), (1, "gemm")]
    assert [(k.device, k.name) for k in result.kernels(1)] == [(1, "gemm")]
    assert [(s.device, s.stream) for s in result.streams()] == [(0, 7), (0, 8), (1, 7)]
    assert [(o.device, o.first, o.second, o.overlap_ns) for o in result.overlap()] == [(0, "compute", "htod", 10 * US)]
    assert [c.bandwidth_bytes_per_s for c in result.copies(0)] == [pytest.approx(5e7)]


def test_a_device_that_executed_nothing_is_an_error() -> None:
    with pytest.raises(OptionError, match="devices with ops: 0, 1"):
        two_devices().streams(7)


def test_the_gaps_have_their_parts_and_what_ended_them() -> None:
    (gap,) = two_devices().idle_gaps()
    assert (gap.device, gap.start_ns, gap.end_ns, gap.length_ns) == (0, 40 * US, 60 * US, 20 * US)
    assert (gap.in_python_ns, gap.blocked_ns, gap.launching_ns) == (11 * US, 4 * US, 5 * US)
    assert (gap.cause, gap.line, gap.host_op, gap.ended_by) == ("in_python", 2, "aten::item", "add")


def test_the_syncs_say_who_asked_and_for_how_long() -> None:
    copy, item = two_devices().syncs()
    assert (copy.call, copy.pageable, copy.device) == ("cudaMemcpyAsync", True, 0)
    assert (item.call, item.asked_by, item.line, item.blocked_ns) == ("cudaStreamSynchronize", ".item()", 2, 4 * US)
    assert (item.device, item.busy_ns, item.after_cell) == (None, 0, False)


def test_the_rows_of_a_recorded_trace_are_those_of_the_columns() -> None:
    trace = recorded("gp100_gpu_user_annotation")
    result = TimelineResult(trace)
    gaps, found = idle_gaps(trace, trace.device_ids[0]), result.idle_gaps()
    assert [g.cause for g in found] == [gaps.cause(i) for i in range(len(gaps))]
    assert sum(g.length_ns for g in found) == gaps.total_ns
    assert [s.asked_by for s in result.syncs()] == [syncs(trace).asker_name(i) for i in range(len(syncs(trace)))]


def test_what_python_did_is_known_for_any_time() -> None:
    found = two_devices().python_during(40 * US, 60 * US)
    assert found.total_ns == 20 * US
    assert [(one.name, one.share_ns, one.inclusive_ns) for one in found.operators] == [("aten::item", 15 * US, 15 * US)]
    assert isinstance(found.frames, Rows)
    assert two_devices().python_during(40 * US, 60 * US, thread=99).operators == ()
    with pytest.raises(OptionError, match="python_during: the window ends at 5 ns, not after its start at 5 ns"):
        two_devices().python_during(5, 5)


def test_a_frame_of_device_ops_says_who_launched_each() -> None:
    pytest.importorskip("pandas")
    frame = two_devices().to_frame()
    assert frame.set_index("name")["operator"].to_dict()["add"] == "aten::item"
    assert frame["operator"].isna().sum() == 3
    assert frame["module"].isna().all()
