"""Every result shows itself, wherever it came from: as text, as HTML, and where it can as a live view."""

from pathlib import Path

import pytest

import perfmagic
from perfmagic.results import BenchResult, Result, SweepResult, TimelineResult
from tests.analysis.findings.build import plain
from tests.trace.recorded import ALL, real_trace, recorded
from tests.view.timeline.build import queue_of

pytestmark = pytest.mark.slow

FEW = {"samples": 6, "warmup": 0}


def bench(name: str = "") -> BenchResult:
    return perfmagic.bench(lambda: sum(range(99)), name=name, **FEW)


def sweep() -> SweepResult:
    return perfmagic.sweep(lambda n: sum(range(n)), [100, 1000], synced=False, **FEW)


RESULTS = {
    "bench": bench,
    "compare": lambda: perfmagic.compare(bench("a"), bench("b")),
    "sweep": sweep,
    "sweeps": lambda: perfmagic.compare(sweep(), sweep()),
    "timeline": lambda: TimelineResult(queue_of()),
}


@pytest.fixture(params=sorted(RESULTS))
def result(request: pytest.FixtureRequest) -> Result:
    made: Result = RESULTS[request.param]()
    return made


def parts(result: Result) -> list[BenchResult]:
    """The benchmarks a result is made of."""
    if isinstance(result, BenchResult):
        return [result]
    rows = getattr(result, "results", ())
    return [one for row in rows for one in (row if isinstance(row, tuple) else (row,))]


def test_a_result_is_text_and_a_picture(result: Result) -> None:
    bundle = result._repr_mimebundle_()
    assert bundle == {"text/plain": result.text(), "text/html": result.html(), **result.for_programs()}
    assert all(len(line) <= 100 for line in result.text().splitlines())
    assert "data:image/svg+xml;base64," in result.html()


def test_what_a_function_returns_is_of_the_class_that_perfmagic_names(result: Result) -> None:
    assert isinstance(result, (perfmagic.BenchResult, perfmagic.CompareResult, SweepResult, TimelineResult))
    assert all(isinstance(one, perfmagic.BenchResult) for one in parts(result))


@pytest.mark.parametrize("kind", ["bench", "compare", "sweep"])
def test_a_saved_result_comes_back_with_its_picture(kind: str, tmp_path: Path) -> None:
    result = RESULTS[kind]()
    again = perfmagic.load(result.save(tmp_path / "one.json"))
    assert type(again) is type(result)
    assert again.to_dict()["format"] == result.to_dict()["format"]
    assert all(type(one) is BenchResult for one in parts(again))
    assert "data:image/svg+xml;base64," in again.html()


@pytest.mark.parametrize("ending", [".npz", ".json", ".json.gz"])
def test_a_saved_timeline_comes_back(ending: str, tmp_path: Path) -> None:
    timeline = TimelineResult(queue_of())
    again = perfmagic.load(timeline.save(tmp_path / f"one{ending}"))
    assert isinstance(again, TimelineResult)
    assert again.doc.header.total_ns == timeline.doc.header.total_ns


def test_a_variant_of_a_sweep_by_itself_is_a_sweep_with_a_picture() -> None:
    together = perfmagic.compare(sweep(), sweep())
    assert isinstance(together, SweepResult)
    alone = together.only("B")
    assert type(alone) is SweepResult
    assert (len(alone.results[0]), alone.comparisons) == (1, ())
    assert "data:image/svg+xml;base64," in alone.html()


def test_only_a_timeline_has_a_live_view() -> None:
    assert bench().live() is None
    live = TimelineResult(recorded("a100_event_sync_3streams")).live()
    assert not live.empty
    assert live.wire().header["n_ops"] == 6
    assert "<iframe" in live.frame_html()
    assert "<iframe" not in live.picture_html()


def test_a_live_view_shares_its_selection_with_the_result() -> None:
    result = TimelineResult(queue_of())
    start_ns = result.doc.start_ns
    result.live().state.report(None, (start_ns, start_ns + 10))
    assert (result.selection.meta.start_ns, result.selection.meta.end_ns) == (start_ns, start_ns + 10)


def test_a_widget_is_there_to_be_placed_where_there_is_a_live_view() -> None:
    result = TimelineResult(queue_of())
    widgets = [result.widget(), result.widget()]
    result.zoom(0, 10)
    assert [widget.asked_ns for widget in widgets] == [widgets[0].asked_ns] * 2 != [[]] * 2
    for widget in widgets:
        widget.close()
    with pytest.raises(perfmagic.OptionError, match="a BenchResult has no live view"):
        bench().widget()


@pytest.mark.parametrize("name", ALL)
def test_a_text_is_short_and_begins_with_who_decides_of_the_time_in_the_title(name: str) -> None:
    result = TimelineResult(real_trace(name))
    lines = plain(result.text()).splitlines()
    assert len(lines) <= 14, lines
    assert lines[0].startswith(plain(result.doc.header.parts[0]).ljust(9))
    assert lines[0].endswith(plain(result.answers.decides)[-20:])
    assert lines[-1].startswith("  .text(details=True): ")


def test_details_begin_with_the_same_and_have_all_findings() -> None:
    result = TimelineResult(real_trace("a100_nccl_rank0of2"))
    text, details = (plain(result.text(details=whether)) for whether in (False, True))
    assert details.startswith("\n".join(text.splitlines()[:-1]))
    assert len(details.splitlines()) > 2 * len(text.splitlines())
    for finding in result.findings:
        assert finding.cause in details


def test_no_warning_is_given_twice() -> None:
    lines = TimelineResult(real_trace("a100_event_sync_3streams")).text().splitlines()
    warned = [line for line in lines if line.startswith("  ! ")]
    assert len(warned) == 1
    assert "No critical path and no replay" in warned[0]
