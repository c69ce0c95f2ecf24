"""Answers in Chinese, on recorded traces: the same answers in other words, without a rest of English."""

import re
from collections.abc import Callable, Iterable, Iterator
from itertools import pairwise
from pathlib import Path
from xml.etree import ElementTree as ET

import pytest

from perfmagic import changes
from perfmagic.analysis.diff.diff import describe_part, trace_diff
from perfmagic.analysis.findings.answers import find_answers
from perfmagic.analysis.findings.catalogue import ACTION_CHARS, HEADLINE_CHARS
from perfmagic.analysis.findings.find import explain_all, findings
from perfmagic.analysis.ranks.findings import rank_findings
from perfmagic.analysis.replay.changes.change import Change
from perfmagic.analysis.report import report
from perfmagic.analysis.timeline.host_time import BUILTIN_NAME, FRAME_NAME
from perfmagic.analysis.timeline.trust import trust
from perfmagic.api.timelines import open_trace
from perfmagic.base.language import Words, set_language, translate_term, translated
from perfmagic.base.terminal import columns, width
from perfmagic.results import TimelineResult
from perfmagic.trace.model import Trace, describe_pace
from perfmagic.trace.signatures import function_name
from perfmagic.view.report.tables import report_tables
from perfmagic.view.timeline.doc import timeline_doc
from perfmagic.view.timeline.lanes import PARTITION_WORDS
from perfmagic.view.timeline.picture.timeline import timeline_svg
from tests.analysis.findings.build import plain
from tests.trace.recorded import ALL, ALONE, MORE, real_trace
from tests.translations import CODE

SHARED = tuple(sorted(path.name.split(".")[0] for path in MORE.glob("*.json.gz")))
TRACES = pytest.mark.parametrize("name", dict.fromkeys([*ALL, *SHARED]))
NUMBER = re.compile(r"[<>]?[\d,.]+(?:\s(?:ns|µs|ms|s|%|[kMGT]?B))?")
PYTHON = re.compile(r"\.?\w+\(\)")  # as ASKED_AS has it: .item()
FRAMES = (FRAME_NAME, BUILTIN_NAME)
WORDS = ("headline", "action", "evidence", "cause", "detail", "advice", "change", "gain_text", "sentence")
ENGLISH = re.compile(r"(?:\b[A-Za-z]{2,},? ){2,}[a-z]{2,}\b")  # three words; two may be a name
CHANGES = tuple(getattr(changes, name) for name in changes.__all__ if name != "Change")
HAN = re.compile(r"[\u4e00-\u9fff]")


@pytest.fixture(autouse=True)
def chinese(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("perfmagic.base.language._chosen", ["zh"])


def values(words: Words) -> Iterator[str]:
    """The values of a text and of the texts in it, as they stand in its translation."""
    for value in words.values.values():
        if isinstance(value, Words):
            yield from values(value)
        else:
            yield str(value)


def names(trace: Trace) -> set[str]:
    """What the record itself names: operators, calls, kernels, functions."""
    known = {function_name(name) for name in trace.names} | {name.removeprefix("aten::") for name in trace.names}
    frames = (match["function"] for name in trace.names for how in FRAMES if (match := how.match(name)))
    return {*known, *frames, ""}


def texts(trace: Trace) -> list[str]:
    """All that answers say of a trace."""
    answers = find_answers(trace)
    every = [*answers.answers, *([answers.together] if answers.together else [])]
    rest = (*answers.little_gain, *answers.also_seen, *answers.warnings)
    said = [answers.decides, *rest, *(text for a in every for text in (a.headline, a.action))]
    return [text for text in (*said, *(t for f in findings(trace) for t in (f.headline, f.action))) if text]


@pytest.mark.slow
@TRACES
def test_no_english_is_left_but_names_of_the_record(name: str) -> None:
    trace = real_trace(name)
    known = names(trace)
    for text in texts(trace):
        assert isinstance(text, Words), f"{text!r} cannot be translated"
        left = [value for value in values(text) if not NUMBER.fullmatch(value) and not PYTHON.fullmatch(value)]
        cut = {value for value in left if value.endswith("…") and any(name.startswith(value[:-1]) for name in known)}
        assert [value for value in left if value not in known | cut] == [], text
        shown = translated(text)
        assert HAN.search(shown), shown


def english_in(texts: Iterable[str], trace: Trace) -> list[str]:
    """Runs of English words that are left in some texts as they are shown, but names of the record."""
    runs = (run for text in texts for run in ENGLISH.findall(CODE.sub("", translated(text))))
    return [run for run in runs if not any(run in name for name in trace.names)]


@pytest.mark.slow
@TRACES
def test_no_sentence_of_a_finding_is_left_in_english(name: str) -> None:
    trace = real_trace(name)
    said = [text for f in findings(trace) for text in (f.sentence, f.change)]
    assert english_in(said, trace) == []
    assert all(HAN.search(translated(text)) for text in said if text)


@pytest.mark.slow
@TRACES
def test_no_reason_why_a_rule_is_silent_is_left_in_english(name: str) -> None:
    trace = real_trace(name)
    explained = explain_all(trace)
    assert english_in([row.sentence for row in explained], trace) == []
    assert all(HAN.search(row.text()) for row in explained)


@pytest.mark.slow
@TRACES
def test_no_note_of_a_report_is_left_in_english(name: str) -> None:
    trace = real_trace(name)
    said = [*trust(trace).sentences, *(table.note for table in report_tables(report(trace)) if table.note)]
    assert english_in(said, trace) == []
    assert all(HAN.search(translated(text)) for text in said)


def test_a_damaged_file_says_in_chinese_what_was_repaired(tmp_path: Path) -> None:
    event = '{"ph": "X", "cat": "cpu_op", "name": "aten::mm", "pid": 1, "tid": 1, "ts": %d, "dur": -5}'
    cut = tmp_path / "cut.json"
    cut.write_text('{"traceEvents": [' + ", ".join(event % at for at in range(3)) + ', {"ph": "X", "ca')
    said = [plain(translated(words)) for words in trust(open_trace(cut).trace).sentences]
    assert said[:3] == [
        "文件不完整，缺少记录的其余部分",
        "文件在第 4 个事件中间结束；读取了 3 个完整的事件",
        "3 条时长为负的记录，设为 0",
    ]


def test_a_flame_graph_names_its_time_and_its_thread_in_chinese() -> None:
    lines = plain(TimelineResult(real_trace("a100_nccl_rank0of2")).flame().text()).splitlines()
    assert lines[0].startswith("整个记录中，主线程上的 Python：441 ms；记录了算子，没有调用栈。")
    assert any(line.endswith("主线程") for line in lines)


@pytest.mark.slow
@pytest.mark.parametrize(("first", "second"), list(pairwise(ALONE)))
def test_no_sentence_of_a_comparison_is_left_in_english(first: str, second: str) -> None:
    a, b = real_trace(first), real_trace(second)
    diff = trace_diff(a, b)
    said = [diff.headline, diff.decides, *diff.notes]
    assert english_in([*said, *map(describe_part, diff.parts)], a) == []
    assert all(HAN.search(translated(text)) for text in said)


@pytest.mark.slow
def test_no_sentence_about_ranks_is_left_in_english() -> None:
    traces = [real_trace(name) for name in ALL if name.startswith("dlrm_8ranks")]
    said = [finding.sentence for finding in rank_findings(traces)]
    assert len(said) > 1
    assert english_in(said, traces[0]) == []


@pytest.mark.slow
@pytest.mark.parametrize("made", CHANGES, ids=lambda made: made.__name__)
def test_no_prediction_is_left_in_english(made: Callable[..., Change]) -> None:
    result = TimelineResult(real_trace("dlrm_8ranks/worker0_step_12.1694128201545"))
    given = {"no_python": {"line": 3}, "on": {"gpu": "H100"}}.get(made.__name__, {})
    prediction = result.what_if(made(**given))
    assert english_in([prediction.sentence], result.trace) == []
    assert HAN.search(prediction.text())


@pytest.mark.parametrize(
    ("pace", "shown"),
    [
        (
            "paced: matmul ≥ 3 ms, copies 12 GB/s, pageable half",
            "节奏：matmul ≥ 3 ms、拷贝 12 GB/s、可分页内存速率减半",
        ),
        ("pace not reached: kernels ≥ 1 ms and 2 GB/s", "未达到节奏：内核 ≥ 1 ms 与 2 GB/s"),
        ("paced: mm ≥ 3 ms; then other kernels 1 GB/s", "节奏：mm ≥ 3 ms；然后其他内核 1 GB/s"),
        ("paced by slowly", "paced by slowly"),
    ],
)
def test_a_pace_is_shown_in_chinese_and_stays_the_same_text(pace: str, shown: str) -> None:
    assert describe_pace(pace) == pace
    assert plain(translated(describe_pace(pace))) == shown


@pytest.mark.slow
@TRACES
def test_titles_and_headings_of_a_report_are_chinese(name: str) -> None:
    for table in report_tables(report(real_trace(name))):
        shown = [translate_term(table.title), *filter(None, table.headings)]
        assert [words for words in shown if not HAN.search(words)] == []


@pytest.mark.slow
@TRACES
def test_a_picture_has_no_english_but_names_and_units(name: str) -> None:
    trace = real_trace(name)
    picture = ET.fromstring(timeline_svg(timeline_doc(trace, ())))
    labels = [text for text in picture.itertext() if text.strip()]
    english = {*PARTITION_WORDS.values(), "launches", "queued", "critical path", "other kernels", "matrix kernels"}
    assert not english.intersection(labels)


@pytest.mark.slow
@TRACES
def test_chinese_is_as_short_as_english(name: str) -> None:
    for finding in findings(real_trace(name)):
        assert columns(translated(finding.headline)) <= HEADLINE_CHARS
        assert columns(translated(finding.action)) <= ACTION_CHARS


@pytest.mark.slow
@pytest.mark.parametrize("columns_set", ["60", "100"])
@TRACES
def test_lines_fit_and_times_end_in_the_last_column(
    name: str, columns_set: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", columns_set)
    answers = find_answers(real_trace(name))
    lines = answers.text().splitlines()
    assert all(columns(line) <= width() for line in lines)
    timed = [line for line in lines if re.search(r"\S  +.*\d.* → \d|\S  +耗费 ", line)]
    every = [*answers.answers, *([answers.together] if answers.together else [])]
    assert len(timed) == sum(answer.after_ns is not None or bool(answer.cost_ns) for answer in every)
    assert {columns(line) for line in timed} <= {width()}


@pytest.mark.slow
@TRACES
def test_the_language_changes_words_and_nothing_else(name: str) -> None:
    trace = real_trace(name)
    in_chinese = report(trace)
    set_language("en")
    english = report(trace)
    assert list(map(_numbers, _every(in_chinese))) == list(map(_numbers, _every(english)))
    assert list(map(_numbers, in_chinese["findings"])) == list(map(_numbers, english["findings"]))
    assert HAN.search(in_chinese["answers"]["decides"])
    assert not HAN.search(str(english))


def _numbers(of: dict) -> dict:
    return {key: value for key, value in of.items() if key not in WORDS}


def _every(report_of: dict) -> list[dict]:
    answers = report_of["answers"]
    return [*answers["answers"], *([answers["together"]] if answers["together"] else [])]


def test_a_result_follows_the_language_in_force() -> None:
    result = TimelineResult(real_trace("a100_nccl_rank0of2"))
    kept = result.answers
    assert plain(kept.decides) == "Python 决定耗时：设备有 76 % 的时间在等它"
    assert "441 ms   Python 决定耗时" in plain(result.text())
    assert HAN.search("".join(f.headline for f in result.findings))
    set_language("en")
    assert plain(result.answers.decides).startswith("Python decides: ")
    assert not HAN.search(kept.text() + result.text())


def test_the_text_of_an_answer_in_chinese() -> None:
    lines = plain(TimelineResult(real_trace("a100_nccl_rank0of2")).text()).splitlines()
    assert lines[:4] == [
        "441 ms   Python 决定耗时：设备有 76 % 的时间在等它",
        "         NVIDIA A100-PG509-200 · 2,516 个设备算子 · 忙碌时间占全部记录的 22 %，首末算子之间的 23 % ·",
        "         队列 ≤ 10 · 时间为全部 2 步之和",
        "  1  设备在算子之间等待 Python" + " " * 46 + "最好情况 441 ms → 186 ms",
    ]
    assert lines[-1] == "  .text(details=True): 8 条发现、2 条流"
