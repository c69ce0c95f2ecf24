"""A sweep over numbers of ranks as text, Markdown, picture and page."""

from __future__ import annotations

import re
import xml.etree.ElementTree as ET
from dataclasses import replace
from pathlib import Path

import pytest

from perfmagic.errors import OptionError
from perfmagic.results import RanksResult, RanksSweep, TimelineResult
from perfmagic.trace.model import Trace
from perfmagic.view.ranks.scaling_picture import draw_scaling
from tests.analysis.ranks.test_ranks import rank


def of(n: int, *, rounds: int, cores: int = 2) -> RanksResult:
    """A run on n ranks of some rounds of 1 ms, that shared so many cores."""

    def on_cores(trace: Trace) -> Trace:
        meta = replace(trace.meta, boot="a", monotonic_base_ns=0, cores=cores, waited_for_core_ns=5_000_000)
        return replace(trace, meta=meta)

    return RanksResult.of([TimelineResult(on_cores(rank(i, n=rounds, world_size=n))) for i in range(n)])


@pytest.fixture
def sweep() -> RanksSweep:
    """Two, four and three runs; of those on two ranks the middle one takes 6 ms."""
    runs = [[of(4, rounds=9)], [of(2, rounds=7), of(2, rounds=5), of(2, rounds=6)], [of(1, rounds=5)]]
    return RanksSweep.of(runs, "weak")


def test_the_run_of_median_time_counts_and_the_fewest_ranks_come_first(sweep: RanksSweep) -> None:
    assert sweep.n == (1, 2, 4)
    assert [round(row.time_ns / 1e6) for row in sweep.table] == [5, 6, 9]
    assert [[round(ns / 1e6) for ns in times] for times in sweep.times_ns] == [[5], [7, 5, 6], [9]]
    assert len(sweep.on(4).timelines) == 4
    with pytest.raises(OptionError, match="3 ranks: not measured"):
        sweep.on(3)
    with pytest.raises(OptionError):
        RanksSweep.of([], "weak")


def test_all_faces_have_the_same_numbers_and_say_how_the_work_scales(sweep: RanksSweep) -> None:
    percent = [f"{row.efficiency_frac:.0%}".replace("%", "") for row in sweep.table]
    for face in (sweep.text(), sweep.markdown(), sweep.html()):
        words = face.replace("\u00a0", " ")
        assert "weak scaling: each rank has the same work" in words
        assert "median of 1 to 3 runs" in words
        assert all(f"{value} %" in words for value in percent)
    assert " ".join(sweep.text().split("\n\n")[0].split("\n")) == sweep.sentence
    assert "| ranks | time |" in sweep.markdown()
    assert "<script" not in sweep.html()
    assert len(sweep.html().encode()) <= 60_000


def test_the_picture_has_the_ideal_beside_each_number_of_ranks_and_says_that_cores_are_few(sweep: RanksSweep) -> None:
    svg = draw_scaling(sweep.table, "weak", sweep.device_label, sweep.sentence)
    texts = ["".join(node.itertext()) for node in ET.fromstring(svg).iter() if node.tag.endswith("text")]
    assert [text for text in texts if re.fullmatch(r"\d ranks?", text)] == ["1 rank", "2 ranks", "4 ranks"] * 2
    assert texts.count("ideal") == 2
    assert texts.count("on 2 cores") == 2  # of four ranks alone, in both halves
    assert len(re.findall(r"stroke-dasharray", svg)) >= 2


def test_a_page_and_a_folder_keep_everything(sweep: RanksSweep, tmp_path: Path) -> None:
    from perfmagic.api import open_traces

    page = sweep.to_html(tmp_path / "sweep.html").read_text("utf-8")
    assert "weak scaling to 4 ranks" in page
    assert "://" not in re.sub(r'xmlns(:\w+)?="http[^"]*"', "", page)
    folder = sweep.save(tmp_path / "runs")
    assert sorted(path.name for path in folder.iterdir() if path.is_dir()) == ["n1", "n2", "n4"]
    assert len(open_traces(folder / "n4").ranks.timelines) == 4
    assert sweep.to_dict()["times_ns"]["2"] == list(sweep.times_ns[1])


def test_a_sweep_that_ended_early_says_so() -> None:
    cut = RanksSweep.of([[of(1, rounds=5)]], "strong", failed="ValueError on 2 ranks ended the sweep")
    assert cut.sentence.endswith("ValueError on 2 ranks ended the sweep")
    assert "another number of ranks is needed to compare" in cut.sentence
    assert "all ranks share one work" in cut.text()
    assert draw_scaling(cut.table, "strong", "CPU", "").startswith("<svg")
