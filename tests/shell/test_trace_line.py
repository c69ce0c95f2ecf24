"""%trace opens files and folders, and says what several ranks say together."""

from pathlib import Path

import pytest

from tests.trace.formats.flight_dumps import job
from tests.trace.recorded import as_bytes, event, launch_and_kernel

from .conftest import Notebook

pytestmark = pytest.mark.floor


def rank_file(folder: Path, rank: int, comm_us: int) -> None:
    """A kernel, then a collective that takes so long and ends at 500 µs."""
    events = [
        *launch_and_kernel(1, 0, 10),
        event("cuda_runtime", "cudaLaunchKernel", 30, 2, pid=99, tid=99, correlation=2),
        event("kernel", "ncclKernel_AllReduce", 500 - comm_us, comm_us, stream=9, device=0, correlation=2),
    ]
    text = as_bytes(events, distributedInfo={"rank": rank, "world_size": 2})
    (folder / f"rank{rank}.json").write_bytes(text)


def test_the_ranks_of_a_folder_are_shown_and_the_late_one_is_named(notebook: Notebook, tmp_path: Path) -> None:
    (tmp_path / "runs").mkdir()
    for rank, comm_us in ((0, 400), (1, 100)):
        rank_file(tmp_path / "runs", rank, comm_us)
    ran = notebook.run("%trace -o both runs")
    assert ran.error is None
    assert len(notebook.names["both"]) == 2
    lines = ran.printed.splitlines()
    assert lines == []  # nothing beside the one picture of both, whose words name the late one
    straggler = notebook.names["both"].ranks.findings[0].sentence
    assert straggler.startswith("rank 1 takes 300\u00a0µs more than its peers in Python")
    assert "Rank 1 is late: that costs 300 µs of" in ran.report.replace("\u00a0", " ")
    assert notebook.run("%trace runs/rank0.json -o one").error is None  # options may stand behind the file
    assert notebook.names["one"].trace.meta.rank == 0
    assert notebook.run("%trace runs/rank0.json -o two runs/rank1.json").error is None
    assert [t.trace.meta.rank for t in notebook.names["two"]] == [0, 1]
    assert notebook.run("%trace runs/rank0.json").printed == ""


def test_an_unpaired_quote_belongs_to_the_name(notebook: Notebook, tmp_path: Path) -> None:
    rank_file(tmp_path, 0, 100)
    (tmp_path / "rank0.json").rename(tmp_path / "it's.json")
    assert notebook.run("%trace it's.json -o it").error is None
    assert notebook.names["it"].trace.meta.rank == 0
    assert "there is no variable and no file it's" in notebook.run("%compare it's other").refusal


def test_foreign_files_give_one_line_each_and_one_hint(notebook: Notebook, tmp_path: Path) -> None:
    (tmp_path / "runs").mkdir()
    rank_file(tmp_path / "runs", 0, 100)
    for name in ("a", "b", "c"):
        (tmp_path / "runs" / f"{name}.json").write_text(f'{{"{name}": 1}}')
    ran = notebook.run("%trace runs")
    assert ran.printed.splitlines() == [
        "b.json has no traceEvents; it holds b",
        "c.json has no traceEvents; it holds c",
    ]
    assert "a.json has no traceEvents" in ran.refusal
    assert "Hint: perfmagic reads" in ran.refusal


def test_dumps_of_flight_recorders_are_shown_and_bound(notebook: Notebook, tmp_path: Path) -> None:
    (tmp_path / "dumps").mkdir()
    ranks = job(2)
    ranks[0].call("all_reduce", state="scheduled")
    for recorder in ranks:
        recorder.write(tmp_path / "dumps")
    ran = notebook.run("%trace -o stopped dumps")
    assert ran.error is None
    assert "Rank 1 never came to all_reduce #1 of the default group: rank 0 waits there" in ran.report
    assert notebook.names["stopped"].standstills[0].absent == (1,)
    rank_file(tmp_path / "dumps", 0, 100)
    assert notebook.run("%trace -o both dumps").error is None
    assert (len(notebook.names["both"]), notebook.names["both"].flight is None) == (1, False)
    (tmp_path / "dumps" / "nccl_trace_rank_1").write_bytes(b"")
    assert "nccl_trace_rank_1 is not a dump" in notebook.run("%trace dumps").refusal
