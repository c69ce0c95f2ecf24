"""What several ranks, and a sweep over them, are saved as gives the same tables back, also in another process."""

import json
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

import perfmagic
from perfmagic.analysis.ranks.alignment import Ping
from perfmagic.base.errors import OptionError
from perfmagic.results import RanksResult, RanksSweep, TimelineResult
from perfmagic.results.ranks import ABOUT
from perfmagic.trace.model import Trace
from tests.analysis.ranks.test_ranks import rank

pytestmark = pytest.mark.slow

TABLES = """
import json, sys, perfmagic
def tables(one):
    return [one.table.to_dict(), one.meetings().to_dict(), one.messages().to_dict(), one.kernels().to_dict(),
            [f.to_dict() for f in one.findings], str(one.clocks), one.title]
found = perfmagic.load(sys.argv[1])
if isinstance(found, perfmagic.rows.RanksSweep):
    print(json.dumps([found.to_dict(), [tables(found.on(n)) for n in found.n]]))
else:
    print(json.dumps([found.to_dict(), tables(found)]))
"""

CORES = {"cores": 2, "waited_for_core_ns": 5_000_000}


def tables(one: RanksResult) -> list[Any]:
    rows = [one.table.to_dict(), one.meetings().to_dict(), one.messages().to_dict(), one.kernels().to_dict()]
    return [*rows, [finding.to_dict() for finding in one.findings], str(one.clocks), one.title]


def in_another_process(folder: Path) -> Any:
    ran = subprocess.run([sys.executable, "-c", TABLES, str(folder)], capture_output=True, text=True, check=True)
    return json.loads(ran.stdout)


def ranks_of(n: int, **how: Any) -> RanksResult:
    def of_a_host(trace: Trace, number: int) -> Trace:
        boot = how.get("boot", "a")
        return replace(trace, meta=replace(trace.meta, boot=boot.format(number), monotonic_base_ns=0, **CORES))

    made = [
        of_a_host(rank(i, world_size=n, compute_us=300 + 400 * (i == 1), n=how.get("rounds", 4)), i) for i in range(n)
    ]
    return RanksResult.of([TimelineResult(one, title=f"rank {one.meta.rank}") for one in made])


def test_ranks_come_back_with_every_table_in_a_fresh_process(tmp_path: Path) -> None:
    found = ranks_of(3)
    again = in_another_process(found.save(tmp_path / "runs"))
    assert again == json.loads(json.dumps([found.to_dict(), tables(found)]))
    assert len(again[1][0]) == 3


def test_a_sweep_comes_back_with_every_table_in_a_fresh_process(tmp_path: Path) -> None:
    runs = [[ranks_of(1)], [ranks_of(2, rounds=5), ranks_of(2, rounds=6), ranks_of(2)]]
    found = RanksSweep.of(runs, "strong", failed="RanksError on 4 ranks ended the sweep")
    again = in_another_process(found.save(tmp_path / "deep" / "sweep"))
    assert again == json.loads(json.dumps([found.to_dict(), [tables(found.on(n)) for n in found.n]]))
    assert again[0]["failed"] == "RanksError on 4 ranks ended the sweep"
    assert again[0]["times_ns"]["2"] == [5_000_000, 6_000_000, 4_000_000]


def test_pings_and_the_pattern_of_communication_come_back(tmp_path: Path) -> None:
    # as exchanged by two hosts: without them nothing bounds the clocks so well
    pings = [Ping(0, 1, t, t + 1_000, t + 2_000, r) for r in range(2) for t in (1_000 * (r + 1), 9_000 * (r + 1))]
    plain = ranks_of(2, boot="host {}")
    known = RanksResult.of([replace(one, comm_names="gemm") for one in plain.timelines]).aligned_by(pings)
    assert known.clocks.how == "pings"
    again = perfmagic.load(known.save(tmp_path / "runs"))
    assert isinstance(again, RanksResult)
    assert (again.clocks, again.table) == (known.clocks, known.table)
    assert again.table != plain.table


def test_one_rank_and_ranks_that_did_nothing_come_back(tmp_path: Path) -> None:
    found = ranks_of(2, rounds=0)
    again = perfmagic.load(found.save(tmp_path / "idle"))
    assert (again.nothing, again.ranks.ranks) == (found.nothing, [0, 1])
    alone = perfmagic.load(ranks_of(1).save(tmp_path / "alone"))
    assert alone.table == ranks_of(1).table


def test_fewer_ranks_saved_over_more_are_those_that_come_back(tmp_path: Path) -> None:
    ranks_of(3).save(tmp_path)
    assert perfmagic.load(ranks_of(2).save(tmp_path)).ranks.ranks == [0, 1]


def test_traces_of_a_saved_job_open_as_those_of_any_folder(tmp_path: Path) -> None:
    found = ranks_of(2)
    folder = found.save(tmp_path / "runs")
    assert perfmagic.open_traces(folder).ranks.table == found.table
    assert perfmagic.open_ranks(folder).table == found.table
    with pytest.raises(perfmagic.TraceError) as refused:
        perfmagic.open_traces(RanksSweep.of([[found], [ranks_of(1)]], "weak").save(tmp_path / "sweep"))
    assert refused.value.hint == "perfmagic.load(folder) opens it"


@pytest.mark.parametrize("name", ["x.npz", "x.html", "x.json.zip"])
def test_ranks_refuse_the_ending_of_another_file(tmp_path: Path, name: str) -> None:
    with pytest.raises(OptionError, match=rf"{name}: what ranks recorded is saved as a folder") as refused:
        ranks_of(2).save(tmp_path / name)
    assert 'save("runs")' in refused.value.hint
    assert not list(tmp_path.iterdir())


def test_a_sweep_refuses_the_ending_of_a_file(tmp_path: Path) -> None:
    sweep = RanksSweep.of([[ranks_of(1)], [ranks_of(2)]], "weak")
    with pytest.raises(OptionError, match=r"x.json: a sweep over ranks is saved as a folder, and .json") as refused:
        sweep.save(tmp_path / "x.json")
    assert 'save("found")' in refused.value.hint
    assert not list(tmp_path.iterdir())


def test_a_folder_that_no_result_was_saved_as_is_refused(tmp_path: Path) -> None:
    with pytest.raises(OptionError, match="that no result was saved as") as refused:
        perfmagic.load(tmp_path)
    assert "open_traces" in refused.value.hint
    with pytest.raises(OptionError, match=rf"is a folder without {ABOUT}"):
        RanksResult.load(tmp_path)


@pytest.mark.parametrize("text", ['{"format": "perfmagic ranks 1"}', "{", '{"format": "perfmagic ranks 9"}'])
def test_a_damaged_folder_says_where(tmp_path: Path, text: str) -> None:
    folder = ranks_of(2).save(tmp_path)
    (folder / ABOUT).write_text(text)
    with pytest.raises(OptionError, match=ABOUT):
        perfmagic.load(folder)


def test_a_sweep_that_was_cut_short_says_what_is_missing(tmp_path: Path) -> None:
    folder = RanksSweep.of([[ranks_of(1)], [ranks_of(2)]], "weak").save(tmp_path)
    (folder / "n2" / "rank1.npz").unlink()
    with pytest.raises(perfmagic.PerfmagicError, match=r"rank1\.npz"):
        perfmagic.load(folder)
