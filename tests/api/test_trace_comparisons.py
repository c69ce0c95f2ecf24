"""perfmagic.compare and `python -m perfmagic compare` of timelines: results, files and folders of ranks."""

import json
import shutil
from pathlib import Path

import pytest

import perfmagic
from perfmagic.api.comparisons import is_trace_path
from perfmagic.cli import main
from perfmagic.results import TimelineResult, TraceComparison
from perfmagic.trace.formats.chrome import write_chrome
from tests.analysis.diff.pairs import eager, fused
from tests.trace.recorded import FOLDER, eight_ranks

pytestmark = pytest.mark.slow

SMALL = FOLDER / "a100_event_sync_3streams.json.gz"


def test_results_and_files_give_the_same_comparison(tmp_path: Path) -> None:
    paths = [write_chrome(trace, tmp_path / name) for trace, name in ((eager(), "a.json"), (fused(), "b.json.gz"))]
    of_files = perfmagic.compare(*paths)
    of_results = perfmagic.compare(TimelineResult(eager()), str(paths[1]))
    assert isinstance(of_files, TraceComparison)
    assert of_results.headline == of_files.headline
    assert perfmagic.last() is of_results
    named = perfmagic.compare(TimelineResult(eager()), TimelineResult(fused()), names=["eager", "fused"])
    assert named.headline.startswith("fused is 24.0\u00a0µs shorter than eager")


def test_a_file_that_cannot_be_read_is_one_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def fails(*_given: object) -> None:
        raise OSError(5, "Input/output error")

    file = Path(write_chrome(eager(), tmp_path / "a.json"))
    monkeypatch.setattr("perfmagic.api.comparisons.open_regular", fails)
    monkeypatch.setattr("perfmagic.trace.kineto.file.open_regular", fails)
    with pytest.raises(perfmagic.TraceError, match="Input/output error"):
        perfmagic.compare(file, file)


def test_benchmarks_are_compared_as_before(tmp_path: Path) -> None:
    saved = [perfmagic.bench(lambda: None, samples=6, warmup=0).save(tmp_path / f"{i}.json") for i in range(2)]
    assert not is_trace_path(saved[0])
    assert isinstance(perfmagic.compare(*saved), perfmagic.CompareResult)


def test_a_mixture_is_an_error(tmp_path: Path) -> None:
    t, bench = TimelineResult(eager()), perfmagic.bench(lambda: None, samples=6, warmup=0)
    for given, options, words in (
        ((t, bench), {}, "1 timeline and a benchmark"),
        ((t, "nowhere.json"), {}, r"1 timeline and nowhere\.json, which is no trace"),
        ((t, t), {"samples": 3}, "samples cannot be set any more"),
        ((t, t), {"names": ["x"]}, "1 names given for 2 timelines"),
        ((t,), {}, "1 timeline, two are compared"),
    ):
        with pytest.raises(perfmagic.OptionError, match=words):
            perfmagic.compare(*given, **options)


def job(folder: Path, slow_rank: int | None = None, ranks: int = 4) -> Path:
    """A trace of each rank; one kernel of a rank may be slow."""
    folder.mkdir()
    for rank in range(ranks):
        kernel_us = 40 if rank == slow_rank else 10
        write_chrome(eager(kernel_us=kernel_us, rank=rank, world_size=ranks), folder / f"rank{rank}.json")
    return folder


def test_two_jobs_are_compared_at_the_median_rank_and_the_unmatched_rank_is_named(tmp_path: Path) -> None:
    comparison = perfmagic.compare(job(tmp_path / "a"), job(tmp_path / "b", slow_rank=2))
    assert isinstance(comparison, TraceComparison)
    assert [(row.rank, row.diff_ns, row.otherwise) for row in comparison.ranks] == [
        (0, 0, False),
        (1, 0, False),
        (2, 120_000, True),
        (3, 0, False),
    ]
    assert sum(row.median for row in comparison.ranks) == 1
    assert comparison.whole.diff_ns == 0
    notes = [note.replace("\u00a0", " ") for note in comparison.notes]
    assert notes[0].startswith("the median of 4 ranks is rank 1")
    assert notes[1] == "changed differently: rank 2 by +120 µs"
    assert "rank 2, differently" in comparison.text(details=True)


def test_jobs_are_matched_by_rank(tmp_path: Path) -> None:
    a, b = job(tmp_path / "a"), job(tmp_path / "b", ranks=3)
    comparison = perfmagic.compare(a, b)
    assert [row.rank for row in comparison.ranks] == [0, 1, 2]
    assert "only one has rank 3" in comparison.notes
    lonely = tmp_path / "c"
    lonely.mkdir()
    for i in (8, 9):
        write_chrome(eager(rank=i, world_size=10), lonely / f"{i}.json")
    with pytest.raises(perfmagic.OptionError, match="A has the ranks 0, 1, 2, 3, B has 8, 9: none is in both"):
        perfmagic.compare(a, lonely)
    shutil.copy(a / "rank0.json", a / "again.json")
    with pytest.raises(perfmagic.OptionError, match=r"rank0\.json is rank 0, as another one is"):
        perfmagic.compare(a, b)
    with pytest.raises(perfmagic.OptionError, match="does not name its rank"):
        perfmagic.compare(_without_ranks(tmp_path / "d"), b)


def _without_ranks(folder: Path) -> Path:
    folder.mkdir()
    for i in range(2):
        write_chrome(eager(), folder / f"{i}.json")
    return folder


def test_recorded_ranks_compared_with_themselves_do_not_differ() -> None:
    folder = eight_ranks()
    comparison = perfmagic.compare(folder, folder)
    assert len(comparison.ranks) == 8
    assert {row.diff_ns for row in comparison.ranks} == {0}
    assert comparison.headline.startswith("B is as long as A")
    assert {row.change for row in comparison.kernels} == {"both", "launched before"}


def test_the_command_line_writes_every_format(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    paths = [str(write_chrome(t, tmp_path / n)) for t, n in ((eager(steps=2), "a.json"), (fused(steps=2), "b.json"))]
    for form, start in (([], "B is 48.0"), (["--text"], "B is 48.0"), (["--markdown"], "## A and B")):
        assert main(["compare", *paths, *form]) == 0
        assert capsys.readouterr().out.startswith(start)
    assert main(["compare", *paths, "--json"]) == 0
    printed = json.loads(capsys.readouterr().out)
    assert sum(part["diff_ns"] for part in printed["parts"]) == -48_000
    page = tmp_path / "page.html"
    assert main(["compare", *paths, "--html", str(page)]) == 0
    assert capsys.readouterr().out.strip() == str(page)
    assert page.read_text("utf-8").startswith("<!DOCTYPE html>")
    assert main(["compare", *paths, "--json", "--out", str(tmp_path / "x.json")]) == 0
    assert json.loads((tmp_path / "x.json").read_text("utf-8")) == printed


def test_a_missing_file_prints_one_message(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["compare", "nowhere.json", str(SMALL)]) == 1
    assert capsys.readouterr().err == (
        "perfmagic: there is no file nowhere.json\nHint: check the name and the folder\n"
    )
