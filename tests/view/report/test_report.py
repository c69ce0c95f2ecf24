"""A report on traces in words: the tables of a terminal, of Markdown and of a page."""

import html
from collections.abc import Sequence
from dataclasses import replace
from html import unescape

import pytest

from perfmagic.base.tables import SORTABLE, Table
from perfmagic.base.terminal import columns
from perfmagic.results import TimelineResult
from perfmagic.trace.columns import Counters, HostKind
from perfmagic.trace.model import DeviceInfo
from perfmagic.view.report.tables import TEXT_ROWS, describe_windows, report_tables
from perfmagic.view.report.writers import html_tables, markdown, report_text
from perfmagic.view.timeline.lanes import StreamLane
from perfmagic.view.timeline.text import MAX_STREAMS, timeline_text
from tests.analysis.build import US, Builder
from tests.analysis.shaped import FLOAT, Shaped
from tests.trace.recorded import NAMES, real_trace, recorded

pytestmark = pytest.mark.slow

LONG = "void at::native::kernel_of_a_long_name<" + "float, " * 12 + "{}>(int)"


def steps(device_kind: str = "cuda") -> TimelineResult:
    """Two steps of 100 µs with six kernels each, idle for Python in between, and a collective without metadata."""
    b = Builder()
    for i in range(2):
        at = 100 * i
        b.host_op(at, at + 100, f"ProfilerStep#{i + 4}", kind=HostKind.ANNOTATION)
        for k in range(6):
            b.op(at + 10 * k + 5, at + 10 * k + 12 - k / 2, launch=at + 10 * k + 1, name=LONG.format(k))
        b.op(at + 70, at + 90, launch=at + 66, name="ncclDevKernel_AllReduce_Sum_f32", stream=9)
    return TimelineResult(b.trace(devices=(DeviceInfo(0, device_kind, "Test GPU"),)))


def text(result: TimelineResult) -> str:
    return report_text(result.doc, result.to_dict()).replace("\u00a0", " ")


def test_the_text_has_every_table_with_its_first_rows() -> None:
    lines = [line.split() for line in text(steps()).splitlines()]
    assert ["step", "4", "100", "µs", "55", "%", "34.5", "µs", "20.0", "µs", "0", "ns", "7"] in lines
    by_title = {table.title: table for table in report_tables(steps().to_dict(), TEXT_ROWS)}
    idle = steps().to_dict()["devices"]["0"]["idle"]
    assert len(by_title["Idle by cause"].rows) == sum(ns > 0 for ns in idle["by_cause_ns"].values())
    assert len(by_title["Kernels"].rows) == 5
    assert by_title["Kernels"].rows[0][:2] == ("ncclDevKernel_AllReduce_Sum_f32", "2")
    assert by_title["Kernels"].note.replace("\u00a0", " ") == "and 2 more kernels: --json has all"
    assert "  and 2 more kernels: --json has all" in text(steps()).splitlines()


def everything() -> TimelineResult:
    """A cell with something in every table of a report but those of communication."""
    b = Builder()
    b.line(0, 2)
    b.host_op(0, 300, "ProfilerStep#1", kind=HostKind.ANNOTATION)
    b.host_op(2, 90, "aten::mm")
    b.op(10, 30, launch=5, name="gemm")
    b.op(20, 60, launch=12, name="Memcpy HtoD (Pageable -> Device)", stream=8, size=1000)
    b.op(100, 140, launch=80, name="add")
    b.sync(150, 170)
    trace = b.trace(returned=300)
    counters = Counters.make({"at_ns": [0, 100], "series": [len(trace.names)] * 2, "value": [10.0, 3000.0]})
    return TimelineResult(replace(trace, names=(*trace.names, "Total Allocated"), counters=counters))


def test_every_table_stands_in_every_form_and_comes_from_one_report() -> None:
    result = everything()
    titles = [table.title for table in report_tables(result.to_dict())]
    assert [" ".join(title.split(" ")[:4]) for title in titles if not title.startswith("Where the")] == [
        *(
            "Steps",
            "Idle by cause",
            "Streams",
            "Device time by category",
            "Device time by operator",
            "Kernels",
            "Copies",
        ),
        *("At the same time", "Memory", "Operators on the host", "Annotations", "Lines of the cell"),
        "Waits for the device",
    ]
    page, written = html_tables(result.to_dict()), markdown("t", "h", [], [], result.to_dict())
    said = text(result)
    for table in report_tables(result.to_dict()):
        assert f">{table.title}</h2><div" in page
        assert f"**{table.title}**\n\n|" in written
        for row in table.rows:
            assert all(f">{html.escape(cell)}</" in page for cell in row if cell)
    for table in report_tables(result.to_dict(), TEXT_ROWS, brief=True):
        for row in table.rows:
            assert " ".join(row).split() in [line.split() for line in said.splitlines()]


def test_a_custom_kernel_has_a_row_of_its_own_among_the_categories() -> None:
    b = Builder()
    b.op(0, 10, launch=0, name="my_kernel")
    b.op(10, 15, launch=1, name="sgemm")
    by_title = {table.title: table for table in report_tables(TimelineResult(b.trace()).to_dict())}
    assert [row[0] for row in by_title["Device time by category"].rows] == ["kernel my_kernel", "matrix products"]


def test_what_an_llm_server_did_comes_first_and_has_a_table_in_every_output() -> None:
    result = TimelineResult(recorded("mi300_sglang_hipgraph"))
    report = result.to_dict()
    headline = "Decode: 1 step of 10.4\u00a0ms, batch 32: 3,090\u00a0tokens/s."
    assert report["phase_headline"] == headline
    (table,) = (table for table in report_tables(report) if table.title == "Phases of serving")
    assert table.rows == [("decode", "1", "10.4\u00a0ms", "94\u00a0%", "32", "32", "3,090\u00a0tokens/s")]
    page, written, said = html_tables(report), markdown("t", "h", [], [], report), text(result)
    assert page.index(f"<p>{headline}</p>") < page.index("Phases of serving") < page.index("3,090\u00a0tokens/s</td>")
    assert written.index(headline) < written.index("**Phases of serving**")
    assert said.index(headline.replace("\u00a0", " ")) < said.index("  Phases of serving")


def test_a_page_has_the_whole_name_behind_a_short_one_and_numbers_to_sort_by() -> None:
    page = html_tables(steps().to_dict())
    short = steps().to_dict()["devices"]["0"]["kernels"][1]["short_name"]
    assert f"{html.escape(short)}</summary>" in page
    assert html.escape(LONG.format(0)) in page
    assert f'data-value="{40 * US}"' in page  # the sum of the collectives
    assert page.count(f"<table {SORTABLE}") == page.count("<table") > 5


@pytest.mark.parametrize("width", [60, 100, 200])
def test_the_text_is_as_wide_as_the_terminal_and_tells_kernels_of_one_template_apart(
    width: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", str(width))
    lines = text(steps()).splitlines()
    assert max(map(columns, lines)) <= width
    kernels = [line for line in lines if line.startswith("  kernel_of_a_long")]
    assert len(kernels) == 4
    assert len({line.split(">")[0] for line in kernels}) == 4


def test_a_narrow_terminal_shows_every_number(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "100")
    wide = text(steps()).split("Steps")[1].split()
    monkeypatch.setenv("COLUMNS", "50")
    narrow = text(steps()).split("Steps")[1].replace(",", " ").split()
    assert [word for word in wide if word[0].isdigit() and word not in narrow] == []


def test_the_text_on_operators_with_long_names_is_at_most_100_columns_wide() -> None:
    s = Shaped()
    for i in range(5):
        shapes = [[1_000 + i, 16_384, 16_384], [1_000 + i, 16_384, 16_384]]
        s.op("aten::bmm", shapes, FLOAT, (("ampere_sgemm_128x64_nn", 1e6),))
    lines = text(TimelineResult(s.trace())).splitlines()
    assert sum("aten::bmm" in line and "FLOP/s" in line for line in lines) >= 5
    assert max(map(columns, lines)) <= 100


def test_two_lengths_in_one_report_are_explained_and_one_is_not() -> None:
    words = describe_windows(steps().to_dict()).replace("\u00a0", " ")
    assert words.startswith("The trace is 200 µs long, from its first operator, call or device op to its last.")
    for form in (text(steps()).replace("\n", " "), html_tables(steps().to_dict()).replace("\u00a0", " ")):
        assert "The extent of a device, 185 µs, runs from its first op to its last" in form
    b = Builder()
    b.op(0, 10, launch=0)
    assert describe_windows(TimelineResult(b.trace()).to_dict()) == ""
    b = Builder()
    b.op(5, 10, launch=0)
    assert describe_windows(TimelineResult(b.trace(returned=8)).to_dict()) == ""  # a cell's window is its own subject


def test_a_table_that_is_empty_for_a_reason_stands_with_the_reason() -> None:
    report = steps().to_dict()
    (empty,) = (table for table in report_tables(report) if table.title == "Collectives")
    assert (list(empty.rows), empty.note[:23]) == ([], "2 communication kernels")
    assert "**Collectives**: 2 communication" in markdown("t", "h", [], [], report)
    assert "2 communication" in html_tables(report)
    assert "\nCollectives: 2 communication" in text(steps())


def test_what_a_simulated_device_starts_late_is_never_for_reasons_that_the_record_does_not_show() -> None:
    words = "the record does not show"  # its threads share Python's lock
    for kind, said in (("sim", False), ("cuda", True)):
        b = Builder()
        b.op(0, 10, launch=0)
        b.op(500, 510, launch=1)
        trace = b.trace(devices=(DeviceInfo(0, kind, "x"),))
        tables = report_tables(TimelineResult(trace).to_dict(), TEXT_ROWS)
        (table,) = (table for table in tables if table.title == "Idle by cause")
        assert (words in table.rows[0][0]) is said


def test_every_form_says_which_kernels_an_expression_made_communication() -> None:
    result = TimelineResult(recorded("v100_4streams_nccl_step"), comm_names="allreduce")
    words = "match 'allreduce' count as communication: 1 kernel name: ncclKernel_AllReduce_RING_LL_Sum_float."
    assert words in " ".join(report_text(result.doc, result.to_dict()).split())
    assert words in unescape(html_tables(result.to_dict()))
    assert words in markdown("t", "h", [], [], result.to_dict()).replace("\\", "")
    assert "match " not in html_tables(TimelineResult(result.trace).to_dict())


@pytest.mark.parametrize("n", [15, 18])
def test_more_steps_than_are_shown_are_counted(n: int) -> None:
    b = Builder()
    for i in range(n):
        b.host_op(100 * i, 100 * i + 100, f"ProfilerStep#{i}", kind=HostKind.ANNOTATION)
        b.op(100 * i + 10, 100 * i + 50, launch=100 * i + 1)
    table = report_tables(TimelineResult(b.trace()).to_dict(), 15)[0]
    assert len(table.rows) == 15
    assert table.note.startswith("and 3 more steps: --json has all. ") is (n == 18)
    assert table.note.endswith("no step stands out")


@pytest.mark.parametrize("name", NAMES)
def test_every_form_of_a_report_has_the_same_numbers_of_the_streams(name: str) -> None:
    result = TimelineResult(recorded(name.removesuffix(".json.gz")))
    by_title = {table.title: table for table in report_tables(result.to_dict())}
    for group in result.doc.groups:
        device = result.to_dict()["devices"][str(group.device)]
        queues = {queue["stream"]: queue["ops_max"] for queue in device["queues"]}
        rows = {stream["stream"]: (stream["n_ops"], stream["busy_ns"]) for stream in device["streams"]}
        assert {lane.stream: (len(lane), lane.busy_ns) for lane in group.streams} == rows
        assert {lane.stream: lane.queue_max for lane in group.streams if lane.stream in queues} == queues
        lines = {
            line.split()[1]: line for line in timeline_text(result.doc).splitlines() if line.startswith("  stream ")
        }
        for label, share, busy, n_ops, deepest in (row[:5] for row in _stream_rows(by_title, group.streams)):
            assert all(word in lines[label] for word in (share, busy, n_ops, deepest)), label


def _stream_rows(tables: dict[str, Table], drawn: Sequence[StreamLane]) -> list[tuple[str, ...]]:
    """Number, share, busy time, ops and queue of the streams that a terminal shows, as Markdown has them."""
    shown = {lane.label for lane in drawn[:MAX_STREAMS]}
    rows = [(label, share, busy, n, deepest) for label, n, busy, share, deepest in tables["Streams"].rows]
    return [(row[0].removeprefix("stream "), *row[1:]) for row in rows if row[0] in shown]


def test_what_is_alone_and_what_is_exposed_have_two_names_in_every_form() -> None:
    b = Builder()
    b.op(0, 10, launch=0, name="gemm")
    b.op(10, 30, launch=1, name="Memcpy HtoD (Pinned -> Device)", stream=8, size=100)
    b.op(25, 45, launch=2, name="ncclDevKernel_AllReduce", stream=9)
    result = TimelineResult(b.trace())
    device = result.to_dict()["devices"]["0"]
    assert (device["exposed_copy_ns"], device["partition"]["copy_alone_ns"]) == (20 * US, 15 * US)
    assert (device["exposed_communication_ns"], device["partition"]["communication_alone_ns"]) == (20 * US, 15 * US)
    assert device["partition"]["several_without_compute_ns"] == 5 * US
    (table,) = (table for table in report_tables(result.to_dict()) if table.title.startswith("Where"))
    words = {row[0]: row[1].replace("\u00a0", " ") for row in table.rows}
    assert words == {
        "compute alone": "10.0 µs",
        "communication alone": "15.0 µs",
        "copy alone": "15.0 µs",
        "several, no compute": "5.00 µs",
    }
    (shares,) = (group.shares for group in result.doc.groups)
    assert {share.name: share.ns for share in shares if share.name in words} == {
        "compute alone": 10 * US,
        "communication alone": 15 * US,
        "copy alone": 15 * US,
        "several, no compute": 5 * US,
    }
    said = {finding.rule: finding.cost_ns for finding in result.findings}
    # the 5 µs of both cost once
    assert (said["exposed_copy"], said["exposed_communication"]) == (15 * US, 20 * US)


def test_the_idle_time_of_a_sample_has_no_causes() -> None:
    sampled, whole = (TimelineResult(real_trace(n)).to_dict() for n in ("sampled_rank0of128", "h100_qwen_orphans"))
    assert all(device["idle_ns"] for device in sampled["devices"].values())
    titles = [[table.title for table in report_tables(report)] for report in (sampled, whole)]
    assert ["Idle by cause" in names for names in titles] == [False, True]


def test_the_heads_of_columns_say_whose_ops_count_and_with_what_is_inside() -> None:
    heads = {table.title.split(",")[0]: table.head for table in report_tables(everything().to_dict())}
    assert heads["Steps"][-1] == "ops, all threads"
    assert heads["Annotations"][-2:] == ("device busy, own thread", "ops, own thread")
    assert heads["Operators on the host"][2:6] == ("host total", "host self", "device total", "device self")
    assert "self" in heads["Device time by operator"]
    assert heads["Waits for the device"][1:3] == ("asked", "calls")
