"""A sweep over numbers of ranks as text, Markdown, picture and page."""

import re
import xml.etree.ElementTree as ET
from collections import Counter
from dataclasses import replace
from pathlib import Path

import pytest

from perfmagic.analysis.ranks.scaling import ScalingStat
from perfmagic.base.errors import OptionError
from perfmagic.results import RanksResult, RanksSweep, TimelineResult
from perfmagic.trace.model import Trace
from perfmagic.view.ranks.scaling import draw_scaling
from perfmagic.view.svg.metrics import width_px
from tests.analysis.ranks.test_ranks import rank


def of(n: int, *, rounds: int, cores: int = 2) -> RanksResult:
    """A run on n ranks of some rounds of 1 ms, on a given number of shared cores."""

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


def test_all_forms_have_the_same_numbers_and_say_how_the_work_scales(sweep: RanksSweep) -> None:
    percent = [f"{row.efficiency_frac:.0%}".replace("%", "") for row in sweep.table]
    for output in (sweep.text(), sweep.markdown(), sweep.html()):
        words = output.replace("\u00a0", " ")
        assert "weak scaling: each rank has the same work" in words
        assert "median of 1 to 3 runs" in words
        assert all(f"{value} %" in words for value in percent)
    first = sweep.text().splitlines()[0]
    assert first.startswith("Weak scaling from 1 to 4 ranks is 56")
    assert sweep.markdown().startswith(f"**{first}**")
    assert "! 4 ranks on 2 cores: a rank waited" in sweep.text().replace("\n", " ")
    assert "| ranks | time |" in sweep.markdown()
    assert "<script" not in sweep.html()
    assert len(sweep.html().encode()) <= 60_000


def test_the_picture_has_the_ideal_beside_each_number_of_ranks_and_says_that_cores_are_few(sweep: RanksSweep) -> None:
    svg = draw_scaling(sweep.table, "weak", sweep.device_label, sweep.sentence)
    texts = ["".join(node.itertext()) for node in ET.fromstring(svg).iter() if node.tag.endswith("text")]
    assert Counter(t for t in texts if re.fullmatch(r"\d ranks?", t)) == {"1 rank": 2, "2 ranks": 2, "4 ranks": 2}
    assert texts.count("ideal") == 2
    assert texts.count("on 2 cores") == 2  # of four ranks alone, in both halves
    assert len(re.findall(r"stroke-dasharray", svg)) >= 2


def stats(*rows: tuple[int, float, float, float]) -> list[ScalingStat]:
    """ranks, milliseconds, efficiency, the share of compute; half of the rest is waiting."""
    return [
        ScalingStat(
            ranks=ranks, time_ns=int(ms * 1e6), ideal_ns=ms * 1e6 * share, speedup=ranks * share, efficiency_frac=share,
            compute_ns=ms * 1e6 * compute, exposed_waiting_ns=ms * 1e6 * (1 - compute) / 2,
            exposed_transfer_ns=ms * 1e6 * (1 - compute) / 4, waited_for_core_ns=1e6, cores=2,
        )
        for ranks, ms, share, compute in rows
    ]  # fmt: skip


PICTURES = {
    "nearly ideal": [(1, 10, 1, 0.8), (2, 10.4, 0.96, 0.77), (4, 10.8, 0.93, 0.74), (8, 11.5, 0.87, 0.7)],
    "bad": [(1, 10, 1, 0.8), (2, 16, 0.62, 0.5), (4, 40, 0.25, 0.2)],
    "above the ideal": [(1, 10, 1, 0.8), (2, 9, 1.1, 0.7), (3, 9.9, 1.01, 0.7)],
    "many": [(n, 10 + i, 10 / (10 + i), 0.8) for i, n in enumerate((1, 2, 3, 4, 5, 6, 7, 8, 12, 16, 24, 64))],
}


@pytest.mark.parametrize("name", PICTURES)
def test_no_label_overlaps_another_and_no_ideal_line_runs_through_one(name: str) -> None:
    rows = stats(*PICTURES[name])
    svg = ET.fromstring(draw_scaling(rows, "weak", "simulated device", ""))
    boxes = []  # in the picture's units, two to a pixel; of the letters, which are lower than their line
    for node in svg.iter():
        if node.tag.endswith("text"):
            size, words = float(node.get("font-size", "20")), "".join(node.itertext())
            wide = width_px(words, size, bold=node.get("font-weight") == "600")
            x, y = float(node.get("x", "")), float(node.get("y", ""))
            left = x - {"middle": wide / 2, "end": wide}.get(node.get("text-anchor", ""), 0.0)
            boxes.append((left, y - 0.7 * size, left + wide, y, words))
    for i, a in enumerate(boxes):
        for b in boxes[:i]:
            assert not (a[0] < b[2] and b[0] < a[2] and a[1] < b[3] and b[1] < a[3]), (a[4], b[4])
    classes = re.findall(r"\.(\w+)\{stroke:[^}]*stroke-dasharray", "".join(svg.itertext()))
    lines = [
        tuple(map(float, piece))
        for node in svg.iter()
        if node.get("class") in classes
        for piece in re.findall(r"M([\d.]+) ([\d.]+)h([\d.]+)", node.get("d", ""))
    ]
    assert len(lines) >= len(rows)
    for x, y, long in lines:
        assert not [words for left, top, right, low, words in boxes if left < x + long and x < right and top < y < low]
    labels = {words.replace("\u00a0", " ") for *_, words in boxes}
    assert {"1 rank", "1"} & labels
    assert f"{rows[-1].ranks} ranks" in labels
    assert "100 %" in labels


def test_a_page_and_a_folder_keep_everything(sweep: RanksSweep, tmp_path: Path) -> None:
    from perfmagic.api.opening import open_traces

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
