"""What a result says to a program: small, always in the same form, and true of what the result says to people."""

import json
from typing import Any

import pytest

import perfmagic
from perfmagic.changes import written_changes
from perfmagic.cli import main
from perfmagic.pytest_plugin import pytest_collectstart
from perfmagic.results import Result, TimelineResult
from perfmagic.results.briefs.form import (
    CELL_BYTES,
    LEAST_BYTES,
    LIST_BYTES,
    MIME,
    RESULT_BYTES,
    Brief,
    BriefFinding,
    short,
    size_bytes,
    within,
)
from tests.results.test_result import RESULTS
from tests.schema_checks import problems
from tests.schemas import schema_of
from tests.trace.recorded import ALL, FOLDER, real_trace

pytestmark = pytest.mark.slow
GRAPHED = str(FOLDER / "gp100_gpu_user_annotation.json.gz")


def packed_bytes(brief: Any) -> int:
    return len(json.dumps(brief, ensure_ascii=False, allow_nan=False).encode())


@pytest.mark.parametrize("name", ALL)
def test_a_recorded_trace_has_a_brief_of_two_kilobytes_that_fits_the_schema(name: str) -> None:
    timeline = TimelineResult(real_trace(name))
    brief = timeline.brief()
    assert packed_bytes(brief) <= LIST_BYTES
    assert problems(schema_of("brief"), brief) == []
    stored = timeline.for_programs()[MIME]
    assert size_bytes(stored, in_cell=True) <= CELL_BYTES
    ids = [finding["id"] for finding in brief.get("findings", ())]
    assert len(set(ids)) == len(ids)
    assert [finding["says"] for finding in brief.get("findings", ())][: len(timeline.answers.answers)] == [
        answer.headline.replace("\u00a0", " ") for answer in timeline.answers.answers
    ]


@pytest.mark.parametrize("name", ALL)
def test_each_change_is_one_that_what_if_takes_and_gains_no_less(name: str) -> None:
    timeline = TimelineResult(real_trace(name))
    for finding in timeline.brief().get("findings", ()):
        if "change" not in finding:
            continue
        again = timeline.what_if(*written_changes(finding["change"]))
        assert not again.refused
        assert again.gain_ns[1] >= finding["gain_us"][0] * 999, finding
        if "line=" in finding["change"]:
            assert again.gain_ns[0] <= finding["gain_us"][1] * 1001, finding


@pytest.mark.parametrize("kind", RESULTS)
def test_every_kind_of_result_has_a_brief(kind: str) -> None:
    result: Result = RESULTS[kind]()
    brief = result.brief()
    assert packed_bytes(brief) <= (LIST_BYTES if kind == "timeline" else RESULT_BYTES)
    assert problems(schema_of("brief"), brief) == []
    assert size_bytes(result.for_programs()[MIME], in_cell=True) <= CELL_BYTES


def test_a_brief_names_remedy_change_and_gain_of_a_finding_of_a_h100_step() -> None:
    first = perfmagic.open_trace(GRAPHED).brief()["findings"][0]
    assert (first["id"], first["remedy"], first["change"]) == ("one_by_one", "graphs", "one_graph()")
    assert first["do"] == "Capture the step with CUDA graphs"
    assert first["gain_us"] == [5645, 6059]


def test_a_brief_stays_in_english(monkeypatch: pytest.MonkeyPatch) -> None:
    english = perfmagic.open_trace(GRAPHED).brief()
    monkeypatch.setenv("PERFMAGIC_LANGUAGE", "zh")
    assert perfmagic.open_trace(GRAPHED).brief() == english


def many(n: int, text: str) -> Brief:
    found = tuple(BriefFinding(f"rule@cell:{i}", text, do=text, at=(text,) * 3, change=text) for i in range(n))
    rows = {"kernels": tuple({"name": text, "n_ops": i} for i in range(n))}
    return Brief("timeline", text, title=text, devices=(text,) * 9, findings=found, rows=rows, warnings=(text,) * n)


@pytest.mark.parametrize(
    "text", ["short", "x" * 5000, "核心" * 900, '"\\\n\x00' * 900, "\U0001f600" * 900, "\ud800" * 99]
)
@pytest.mark.parametrize("max_bytes", [LEAST_BYTES, LIST_BYTES, RESULT_BYTES])
def test_what_has_no_room_is_left_out_and_counted(text: str, max_bytes: int) -> None:
    brief = within(many(40, text), max_bytes)
    assert packed_bytes(brief) <= max_bytes
    assert brief == within(many(40, text), max_bytes)
    assert len(brief.get("findings", ())) + brief.get("omitted", {}).get("findings", 0) == 40
    assert len(brief.get("rows", {}).get("kernels", ())) + brief.get("omitted", {}).get("kernels", 0) == 40


def test_the_first_finding_is_the_last_to_go() -> None:
    assert [finding["id"] for finding in within(many(40, "a"), LEAST_BYTES)["findings"]][:1] == ["rule@cell:0"]
    with pytest.raises(perfmagic.OptionError, match="max_bytes=10 is too little"):
        perfmagic.open_trace(GRAPHED).brief(max_bytes=10)


def test_numbers_that_are_none_are_absent() -> None:
    brief = within(Brief("bench", "x", numbers={"done_us": float("nan"), "a_us": 1.0}), 2000)
    assert brief["numbers"] == {"a_us": 1.0}
    assert short("a b", 80) == "a b"


@pytest.mark.parametrize(
    "code",
    ["", "pin", "pin()()", "__import__('os')", "pin(line=-1)", "pin(x=1)", "faster(k=[1])", "Change()", "pin(" * 300],
)
def test_code_that_is_no_change_is_refused(code: str) -> None:
    with pytest.raises(perfmagic.OptionError):
        written_changes(code)


def test_changes_are_read_from_code() -> None:
    changes = perfmagic.changes
    assert written_changes("no_item(line=4), pin()") == (changes.no_item(line=4), changes.pin())
    assert written_changes('faster("gemm", k=inf)') == (changes.faster("gemm", k=float("inf")),)


def test_the_command_line_prints_briefs(capsys: pytest.CaptureFixture[str]) -> None:
    for arguments, kind in (
        (["report", GRAPHED], "timeline"),
        (["compare", GRAPHED, GRAPHED], "trace_comparison"),
        (["explain", GRAPHED], "rules"),
        (["explain", GRAPHED, "--rule", "sync"], "rules"),
        (["explain", GRAPHED, "--change", "one_graph()"], "what_if"),
    ):
        assert main([*arguments, "--brief"]) == 0
        brief = json.loads(capsys.readouterr().out)
        assert (brief["schema"], brief["kind"]) == (1, kind)
        assert problems(schema_of("brief"), brief) == []
    assert main(["report", GRAPHED, GRAPHED, "--brief"]) == 0
    assert len(json.loads(capsys.readouterr().out)) == 2


def test_a_cell_run_by_a_program_keeps_the_brief_in_two_kilobytes() -> None:
    nbformat = pytest.importorskip("nbformat", reason="nbformat is not installed")
    nbclient = pytest.importorskip("nbclient", reason="nbclient is not installed")
    pytest.importorskip("torch", reason="torch is not installed")
    v4 = nbformat.v4
    code = "%load_ext perfmagic", "%%timeline\nimport torch\nx = torch.ones(64, 64) @ torch.ones(64, 64)"
    book = v4.new_notebook(cells=[v4.new_code_cell(source) for source in code])
    nbclient.NotebookClient(book, timeout=120, kernel_name="python3").execute()
    (data,) = [output.data for output in book.cells[1].outputs if MIME in output.get("data", {})]
    assert (data[MIME]["kind"], data[MIME]["times"]) == ("timeline", "measured")
    assert problems(schema_of("brief"), json.loads(json.dumps(data[MIME]))) == []
    with_brief = len(nbformat.writes(book).encode())
    del data[MIME]
    assert with_brief - len(nbformat.writes(book).encode()) <= CELL_BYTES + len(f"      {MIME!r}: ,\n")


def test_nbval_compares_no_briefs() -> None:
    class Notebook:
        skip_compare = ("metadata",)

    collector = Notebook()
    pytest_collectstart(collector)
    pytest_collectstart(object())
    assert collector.skip_compare == ("metadata", MIME)


def test_a_comparison_of_other_work_has_its_reason_and_checks_and_no_ratio() -> None:
    numbers = [1.0, 2.0]
    brief = perfmagic.compare(lambda: sum(numbers), lambda: max(numbers), samples=6, warmup=0).brief()
    assert brief["verdict"] == "not comparable"
    assert "results differ" in brief["reason"]
    assert brief["checks"][0]["outcome"] == "refused"
    assert not [name for name in brief["numbers"] if name.startswith("ratio")]
    assert problems(schema_of("brief"), brief) == []
